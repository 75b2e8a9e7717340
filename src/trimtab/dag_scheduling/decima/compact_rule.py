"""The compact scheduler: a few hundred learned numbers in the form of a rule.

Of each job it takes the best of its stages, scores the pair, and grants the job with the highest score up to
its *cap* of executors; who has reached its cap waits behind all others and may take some more, up to a wider
one. All of it are linear functions of a few facts, plus hidden units. There may be two sets of numbers: for
when no job is expected any more, and for when they keep coming. Like any rule it is a plain function of a
snapshot: compiled in replay, as it stands live.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.parts import place_of
from trimtab.dag_scheduling.heuristics import class_for, executors_of, leave, stage_work_left
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot

__all__ = ["HIDDEN", "IDLE_FEATURES", "JOB_FEATURES", "PARTS", "STAGE_FEATURES"]
__all__ += ["SIZE", "compact", "crowd_of", "job_features", "job_work", "judged", "part", "score_and_share"]
__all__ += ["set_in_force", "worth_of_idling"]

Numbers = NDArray[np.float64]

JOB_FEATURES = (
    "usual",
    "work left",
    "total work",
    "longest path",
    "executors",
    "source of the free executors",
    "time in system",
    "slowdown when wide",
    "demand of schedulable stages",
    "jobs",
    "work left in the system",
    "load of late",
    "free executors of the cluster",
    "total work against the others",
    "work left against the others",
    "widest stage",
    "stage is runnable",
    "demand of the stage",
    "task duration",
    "memory left idle",
    "stage takes all that are free",
    "work left that few executors fit",
    "few executors fit the stage",
    "executors of the cluster",
)
"""Of a job, of the moment, and of the stage it would go on with; around -1 to 1, mostly logarithms."""
STAGE_FEATURES = (
    "runnable",
    "longest path below, in work",
    "work left",
    "demand",
    "share of its job's work",
    "slowdown when wide",
    "task duration",
    "memory left idle",
    "takes all that are free",
    "few executors fit",
)
IDLE_FEATURES = (
    "usual",
    "jobs",
    "work left in the system",
    "free executors of the cluster",
    "at a job",
    "work left of that job",
    "its next stage opens soon",
)
"""What speaks for leaving executors idle, of the moment and of the job they are at."""
HIDDEN = 8
"""Units between the features of a job and its score and cap; summed four at a time."""
PARTS = {
    "order": len(JOB_FEATURES),
    "order of hidden": HIDDEN,
    "cap": len(JOB_FEATURES),
    "cap of hidden": HIDDEN,
    "wider": len(JOB_FEATURES),
    "stage": len(STAGE_FEATURES),
    "idle": len(IDLE_FEATURES),
    "share": 1,
    "beyond": 1,
    "waves": 1,
    "hidden": HIDDEN * len(JOB_FEATURES),
}
"""How many numbers each part has; they lie one after the other."""
SIZE = sum(PARTS.values())
SEVERAL = -2
"""In place of a stage: there is a choice."""
LARGEST = 20.0
USUAL_EXECUTORS = 50
QUIET = 6.0
"""When no job has come for so many of the usual gaps, none is expected any more."""


def part(name: str) -> slice:
    """Where the numbers of a part lie.

    >>> part("order")
    slice(0, 24, None)
    """
    return place_of(PARTS, name)


_CAP, _CAP_HIDDEN = part("cap").start, part("cap of hidden").start
_ORDER_HIDDEN, _WIDER, _STAGE, _IDLE = (
    part(name).start for name in ("order of hidden", "wider", "stage", "idle")
)
_SHARE, _BEYOND, _WAVES, _HIDDEN = (part(name).start for name in ("share", "beyond", "waves", "hidden"))


def log_slowdown(snapshot: Snapshot, stage: int) -> float:
    return math.log(max(snapshot.slowdown[snapshot.profile_stage[stage]], 1e-3))


def job_work(snapshot: Snapshot, job: int) -> tuple[float, float]:
    """Executor-seconds that nobody has begun, and of the whole job."""
    left = 0.0
    total = 0.0
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        left += stage_work_left(snapshot, stage)
        total += snapshot.tasks[stage] * snapshot.task_ms[stage]
    return left / 1000.0, total / 1000.0


class Crowd(NamedTuple):
    """What all jobs together are like at this moment."""

    jobs: float
    work: float  # left in the system
    load: float  # of late
    free: float  # executors of the cluster
    left: float  # mean of the logarithms of the work left
    total: float  # mean of the logarithms of the total work


def crowd_of(snapshot: Snapshot) -> Crowd:
    """The first four as they stand among JOB_FEATURES."""
    inside = 0.0
    mean_total = 0.0
    log_left = 0.0
    log_total = 0.0
    count = len(snapshot.jobs)
    executors = snapshot.executor_count
    for job in snapshot.jobs:
        left, total = job_work(snapshot, job)
        inside += left
        mean_total += total / count
        log_left += math.log1p(left) / count
        log_total += math.log1p(total) / count
    gap_s = snapshot.arrival_gap_ms / 1000.0 + 1.0
    return Crowd(
        math.log(float(count)) - 2.0,
        math.log1p(inside / executors) - 3.0,
        math.log1p(mean_total / (executors * gap_s)) - 0.6,
        snapshot.free_executors.sum() / executors,
        log_left,
        log_total,
    )


def only_stage(snapshot: Snapshot, job: int) -> int:
    """The stage of the job that may run, NOWHERE if none may, SEVERAL if there is a choice."""
    found = NOWHERE
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        if snapshot.schedulable[stage] and class_for(snapshot, stage) != NOWHERE:
            if found != NOWHERE:
                return SEVERAL
            found = stage
    return found


def best_stage(snapshot: Snapshot, job: int, left: float, numbers: Numbers) -> int:
    """The stage of the job, which has so much work `left`, with the highest learned score, or NOWHERE."""
    only = only_stage(snapshot, job)
    if only != SEVERAL:
        return only
    first = snapshot.first_stage[job]
    path = snapshot.scratch
    best = NOWHERE
    best_score = -math.inf
    for position in range(snapshot.stage_count[job] - 1, -1, -1):
        stage = first + position
        row = snapshot.profile_stage[stage]
        path[position] = longest_below(snapshot, int(row))
        work = stage_work_left(snapshot, stage) / 1000.0
        path[position] += work
        if not snapshot.schedulable[stage]:
            continue
        executor_class = class_for(snapshot, stage)
        if executor_class == NOWHERE:
            continue
        score = (
            numbers[_STAGE] * (1.0 if snapshot.runnable[stage] else 0.0)
            + numbers[_STAGE + 1] * math.log(path[position] + 0.1)
            + numbers[_STAGE + 2] * math.log(work + 0.1)
            + numbers[_STAGE + 3] * math.log1p(snapshot.demand[stage])
            + numbers[_STAGE + 4] * work / (left + 0.1)
            + numbers[_STAGE + 5] * log_slowdown(snapshot, stage)
            + numbers[_STAGE + 6] * math.log(snapshot.task_ms[stage] / 1000.0 + 0.1)
            + numbers[_STAGE + 7] * (snapshot.class_memory[executor_class] - snapshot.memory[stage])
            + numbers[_STAGE + 8] * takes_all(snapshot, stage, executor_class)
            + numbers[_STAGE + 9] * scarcity(snapshot, stage)
        )
        if score >= best_score:
            best, best_score = stage, score
    return best


def longest_below(snapshot: Snapshot, row: int) -> float:
    """Of the ways that were found for the children of a stage, which has this row, the longest."""
    longest = 0.0
    for place in range(snapshot.child_offset[row], snapshot.child_offset[row + 1]):
        below = snapshot.scratch[snapshot.child[place]]
        if below > longest:
            longest = below
    return float(longest)


def takes_all(snapshot: Snapshot, stage: int, executor_class: int) -> float:
    return 1.0 if snapshot.demand[stage] >= snapshot.free_executors[executor_class] else 0.0


def scarcity(snapshot: Snapshot, stage: int) -> float:
    """The share of executor classes that are too small for the stage."""
    too_small = 0.0
    for memory in snapshot.class_memory:
        if memory < snapshot.memory[stage]:
            too_small += 1.0
    return too_small / len(snapshot.class_memory)


def longest_path_s(snapshot: Snapshot, job: int) -> float:
    """Seconds of one task of each unfinished stage along the longest way."""
    first = snapshot.first_stage[job]
    path = snapshot.scratch
    longest = 0.0
    for position in range(snapshot.stage_count[job] - 1, -1, -1):
        stage = first + position
        row = snapshot.profile_stage[stage]
        path[position] = longest_below(snapshot, int(row))
        if snapshot.unstarted[stage] + snapshot.running[stage] > 0:
            path[position] += snapshot.task_ms[stage] / 1000.0
        if path[position] > longest:
            longest = path[position]
    return longest


def job_features(
    snapshot: Snapshot,
    job: int,
    stage: int,
    executor_class: int,
    left: float,
    total: float,
    crowd: Crowd,
) -> tuple[float, ...]:
    """In the order of JOB_FEATURES."""
    slowed = 0.0
    open_demand = 0.0
    widest = 0.0
    scarce = 0.0
    first = snapshot.first_stage[job]
    for other in range(first, first + snapshot.stage_count[job]):
        if snapshot.unstarted[other] == 0:
            continue
        work = stage_work_left(snapshot, other) / 1000.0
        slowed += log_slowdown(snapshot, other) * work
        scarce += scarcity(snapshot, other) * work
        widest = max(widest, float(snapshot.unstarted[other]))
        if snapshot.schedulable[other]:
            open_demand += snapshot.demand[other]
    log_left, log_total = math.log1p(left), math.log1p(total)
    age_s = (snapshot.now_ms - snapshot.arrival_ms[job]) / 1000.0
    return (
        1.0,
        (log_left - 5.0) / 2.0,
        (log_total - 5.5) / 1.5,
        math.log1p(longest_path_s(snapshot, job)) - 2.0,
        math.log1p(float(executors_of(snapshot, job))) - 1.5,
        1.0 if job == snapshot.source_job else 0.0,
        (math.log1p(age_s) - 3.0) / 1.5,
        slowed / (left + 0.1),
        (math.log1p(open_demand) - 3.0) / 1.5,
        crowd.jobs,
        crowd.work,
        crowd.load,
        crowd.free,
        log_total - crowd.total,
        log_left - crowd.left,
        (math.log1p(widest) - 3.0) / 1.5,
        1.0 if snapshot.runnable[stage] else 0.0,
        (math.log1p(float(snapshot.demand[stage])) - 3.0) / 1.5,
        math.log(snapshot.task_ms[stage] / 1000.0 + 0.1),
        snapshot.class_memory[executor_class] - snapshot.memory[stage],
        takes_all(snapshot, stage, executor_class),
        math.log1p(scarce) / 4.0,
        scarcity(snapshot, stage),
        math.log(snapshot.executor_count / USUAL_EXECUTORS),
    )


def capped(share: float, executors: int) -> int:
    """A cap from the logarithm of a share of the cluster."""
    return min(max(1, math.ceil(math.exp(min(share, LARGEST)) * executors)), executors)


def full_waves(snapshot: Snapshot, stage: int, sent: int, waves: float) -> int:
    """Of the executors that would be sent, those that end a stage of few waves as soon as all would."""
    there = snapshot.running[stage]
    demand = snapshot.demand[stage]
    needed = math.ceil(demand / (there + sent))
    if needed > waves:
        return sent
    return min(max(1, math.ceil(demand / needed) - there), sent)


def worth_of_idling(snapshot: Snapshot, crowd: Crowd, numbers: Numbers) -> float:
    """The score that some stage must have, or the rest stays idle."""
    job = snapshot.source_job
    worth = (
        numbers[_IDLE]
        + numbers[_IDLE + 1] * crowd.jobs
        + numbers[_IDLE + 2] * crowd.work
        + numbers[_IDLE + 3] * crowd.free
    )
    if job != NOWHERE:
        left, _ = job_work(snapshot, job)
        worth += (
            numbers[_IDLE + 4]
            + numbers[_IDLE + 5] * (math.log1p(left) - 5.0) / 2.0
            + numbers[_IDLE + 6] * opens_soon(snapshot, job)
        )
    return float(worth)


def opens_soon(snapshot: Snapshot, job: int) -> float:
    """Between 0 and 1: the shorter the tasks of a stage that runs its last ones, the larger."""
    soon = 0.0
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        if snapshot.unstarted[stage] == 0 and snapshot.running[stage] > 0:
            soon = max(soon, 1.0 / (1.0 + snapshot.task_ms[stage] / 2000.0))
    return soon


def weighed(features: tuple[float, ...], numbers: Numbers, start: int) -> float:
    """The sum of all features, each times its number."""
    total = 0.0
    for place in range(len(features)):
        total += numbers[start + place] * features[place]
    return total


def four_weighed(
    features: tuple[float, ...], numbers: Numbers, start: int
) -> tuple[float, float, float, float]:
    """Four such sums, whose numbers lie one after the other: side by side they take the time of one."""
    count = len(features)
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for place in range(count):
        fact = features[place]
        first += numbers[start + place] * fact
        second += numbers[start + count + place] * fact
        third += numbers[start + 2 * count + place] * fact
        fourth += numbers[start + 3 * count + place] * fact
    return first, second, third, fourth


def squashed(value: float) -> float:
    """The hyperbolic tangent, in a third of the time of `math.tanh`."""
    return 1.0 - 2.0 / (math.exp(min(2.0 * value, 700.0)) + 1.0)


def score_and_share(features: tuple[float, ...], numbers: Numbers) -> tuple[float, float]:
    """What a job is worth, and the logarithm of its share of the cluster."""
    score = weighed(features, numbers, 0)
    share = weighed(features, numbers, _CAP)
    for unit in range(0, HIDDEN, 4):
        sums = four_weighed(features, numbers, _HIDDEN + unit * len(features))
        for place in range(4):
            found = squashed(sums[place])
            score += float(numbers[_ORDER_HIDDEN + unit + place]) * found
            share += float(numbers[_CAP_HIDDEN + unit + place]) * found
    return score, share


def judged(snapshot: Snapshot, job: int, crowd: Crowd, numbers: Numbers) -> tuple[int, int, float, int]:
    """The best stage of a job, the class and the limit it would get, and its score; NOWHERE: none may run."""
    left, total = job_work(snapshot, job)
    stage = best_stage(snapshot, job, left, numbers)
    if stage == NOWHERE:
        return NOWHERE, 0, 0.0, 0
    executors = snapshot.executor_count
    executor_class = class_for(snapshot, stage)
    features = job_features(snapshot, job, stage, executor_class, left, total, crowd)
    score, share = score_and_share(features, numbers)
    cap = capped(share, executors)
    have = executors_of(snapshot, job)
    score -= float(numbers[_SHARE]) * math.log((have + 0.5) / cap)
    if have >= cap:
        score -= float(numbers[_BEYOND])
        cap = capped(share + weighed(features, numbers, _WIDER), executors)
        if have >= cap:
            return NOWHERE, 0, 0.0, 0
    sent = min(snapshot.demand[stage], snapshot.free_executors[executor_class], cap - have)
    return stage, executor_class, score, have + full_waves(snapshot, stage, sent, float(numbers[_WAVES]))


def none_to_come(snapshot: Snapshot) -> bool:
    """All jobs came at once, or the last one long ago."""
    latest_ms = 0
    for job in snapshot.jobs:
        latest_ms = max(latest_ms, snapshot.arrival_ms[job])
    return bool(snapshot.now_ms - latest_ms >= QUIET * snapshot.arrival_gap_ms)


def set_in_force(snapshot: Snapshot, numbers: Numbers) -> int:
    """Where the numbers that decide now begin: of two sets, the first where no job is expected any more."""
    return 0 if len(numbers) == SIZE or none_to_come(snapshot) else SIZE


def compact(snapshot: Snapshot, numbers: Numbers) -> Action:
    """The stage with the highest learned score, its job capped by a learned share of the cluster."""
    first = set_in_force(snapshot, numbers)
    numbers = numbers[first : first + SIZE]
    crowd = crowd_of(snapshot)
    best = NOWHERE
    best_class = 0
    best_score = -math.inf
    best_limit = 0
    for job in snapshot.jobs:
        stage, executor_class, score, limit = judged(snapshot, job, crowd, numbers)
        if stage != NOWHERE and score > best_score:
            best, best_class, best_score, best_limit = stage, executor_class, score, limit
    if best == NOWHERE or (snapshot.may_idle and best_score < worth_of_idling(snapshot, crowd, numbers)):
        return leave(snapshot)
    return Action(best, best_limit, best_class)
