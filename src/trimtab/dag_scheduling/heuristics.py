"""Every rule a user could pick instead of a learned scheduler.

A rule is a plain function `rule(snapshot, parameters) -> Action`. It is written once, with loops and
arrays only: live it runs as it stands, in replay the simulator compiles it. `parameters` is a float
array, so one compiled rule serves all its settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trimtab.core.policy import Parameter, with_settings
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot

__all__ = [
    "Parameter",
    "Rule",
    "capped_srpt",
    "fair",
    "fifo",
    "graphene",
    "packed_srpt",
    "random_choice",
    "shortest_job_first",
    "tetris",
    "weighted_fair",
]

Parameters = NDArray[np.float64]
RuleFunction = Callable[[Snapshot, Parameters], Action]


@dataclass(frozen=True)
class Rule:
    """A rule with its settings; call `decide` or hand it to `simulate`.

    >>> rule = Rule("weighted-fair", weighted_fair, (Parameter("alpha", -1.0, "power of job size"),))
    >>> rule.with_values({"alpha": -0.5}).values
    (-0.5,)
    """

    name: str
    function: RuleFunction
    parameters: tuple[Parameter, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(parameter.value for parameter in self.parameters)

    def decide(self, snapshot: Snapshot) -> Action:
        return self.function(snapshot, np.array(self.values, np.float64))

    @property
    def sentence(self) -> str:
        """What the rule does: the first line of its function's docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def with_values(self, values: Mapping[str, float]) -> Rule:
        """The same rule with other settings; unknown names and bad values are refused."""
        return replace(self, parameters=with_settings(self.name, self.parameters, values))


# --- words shared by the rules ---------------------------------------------------------------------


def class_for(snapshot: Snapshot, stage: int) -> int:
    """The free executor class with the least memory that fits the stage, or NOWHERE."""
    best = NOWHERE
    for executor_class in range(len(snapshot.free_executors)):
        if (
            snapshot.free_executors[executor_class] > 0
            and snapshot.memory[stage] <= snapshot.class_memory[executor_class]
            and (best == NOWHERE or snapshot.class_memory[executor_class] < snapshot.class_memory[best])
        ):
            best = executor_class
    return best


def usable(snapshot: Snapshot, stage: int) -> bool:
    """Whether the stage may be chosen for one of the offered executors."""
    return snapshot.schedulable[stage] and class_for(snapshot, stage) != NOWHERE


def next_stage(snapshot: Snapshot, job: int) -> int:
    """The stage that has been runnable longest, else the first schedulable one, else NOWHERE."""
    best = NOWHERE
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        if snapshot.schedulable[stage] and usable(snapshot, stage):
            if best == NOWHERE:
                best = stage
            elif snapshot.runnable[stage]:
                earlier = snapshot.runnable_since[stage] < snapshot.runnable_since[best]
                if earlier or not snapshot.runnable[best]:
                    best = stage
    return best


def stage_work_left(snapshot: Snapshot, stage: int) -> float:
    return snapshot.unstarted[stage] * snapshot.task_ms[stage]


def critical_stage(snapshot: Snapshot, job: int) -> int:
    """The usable stage with most work on the longest path below it; runnable ones go first."""
    first = snapshot.first_stage[job]
    count = snapshot.stage_count[job]
    path = snapshot.scratch
    best = NOWHERE
    best_runnable = False
    for position in range(count - 1, -1, -1):
        stage = first + position
        row = snapshot.profile_stage[stage]
        path[position] = 0.0
        for place in range(snapshot.child_offset[row], snapshot.child_offset[row + 1]):
            path[position] = max(path[position], path[snapshot.child[place]])
        path[position] += stage_work_left(snapshot, stage)
        if snapshot.schedulable[stage] and usable(snapshot, stage):
            runnable = snapshot.runnable[stage]
            longer = best == NOWHERE or path[position] >= path[best - first]
            if (runnable and not best_runnable) or (runnable == best_runnable and longer):
                best = stage
                best_runnable = runnable
    return best


def work_left(snapshot: Snapshot, job: int) -> float:
    """Executor-milliseconds of the job that nobody has begun."""
    total = 0.0
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        total += stage_work_left(snapshot, stage)
    return total


def total_work(snapshot: Snapshot, job: int) -> float:
    """Executor-milliseconds of the whole job."""
    total = 0.0
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        total += snapshot.tasks[stage] * snapshot.task_ms[stage]
    return total


def unsaturated(snapshot: Snapshot, job: int) -> bool:
    """Whether the job could use more executors than are on their way to it."""
    first = snapshot.first_stage[job]
    for stage in range(first, first + snapshot.stage_count[job]):
        if snapshot.demand[stage] > 0:
            return True
    return False


def executors_of(snapshot: Snapshot, job: int) -> int:
    """Executors at the job or on their way, without those that are being placed now."""
    count = snapshot.executors[job] + snapshot.incoming[job]
    if job == snapshot.source_job:
        count -= snapshot.free_executors.sum()
    return count


def send(snapshot: Snapshot, stage: int, limit: int) -> Action:
    return Action(stage, limit, class_for(snapshot, stage))


def leave(snapshot: Snapshot) -> Action:
    """Leave the rest idle; where that would stop the cluster, use the first job that can use it."""
    if not snapshot.may_idle:
        for job in snapshot.jobs:
            stage = next_stage(snapshot, job)
            if stage != NOWHERE:
                return send(snapshot, stage, snapshot.executor_count)
    return Action(NOWHERE, 0, 0)


# --- the rules -------------------------------------------------------------------------------------


def fifo(snapshot: Snapshot, parameters: Parameters) -> Action:
    """Jobs in order of arrival, each takes all it can use; executors stay with their job while they can."""
    if snapshot.source_job != NOWHERE:
        stage = next_stage(snapshot, snapshot.source_job)
        if stage != NOWHERE:
            return send(snapshot, stage, snapshot.executor_count)
    for job in snapshot.jobs:
        stage = next_stage(snapshot, job)
        if stage != NOWHERE:
            return send(snapshot, stage, snapshot.executor_count)
    return leave(snapshot)


def fair(snapshot: Snapshot, parameters: Parameters) -> Action:
    """Equal shares of the executors; executors stay with their job while it can use them."""
    if snapshot.source_job != NOWHERE:
        stage = next_stage(snapshot, snapshot.source_job)
        if stage != NOWHERE:
            return send(snapshot, stage, snapshot.executor_count)
    sharing = 0
    for job in snapshot.jobs:
        if unsaturated(snapshot, job):
            sharing += 1
    cap = math.ceil(snapshot.executor_count / max(sharing, 1))
    for job in snapshot.jobs:
        if executors_of(snapshot, job) < cap:
            stage = next_stage(snapshot, job)
            if stage != NOWHERE:
                return send(snapshot, stage, cap)
    return leave(snapshot)


def shortest_job_first(snapshot: Snapshot, parameters: Parameters) -> Action:
    """SJF-CP: the job with least total work takes all it can use, critical path first."""
    chosen = NOWHERE
    least = math.inf
    for job in snapshot.jobs:
        work = total_work(snapshot, job)
        if work < least and next_stage(snapshot, job) != NOWHERE:
            least = work
            chosen = job
    if chosen == NOWHERE:
        return leave(snapshot)
    return send(snapshot, critical_stage(snapshot, chosen), snapshot.executor_count)


def weighted_job(snapshot: Snapshot, alpha: float) -> tuple[int, int]:
    """Job to serve and its cap, when shares go as total work to the power alpha.

    Executors stay while their job is within its cap; else the most under-served job gets them; when
    every job has its share, what is left goes on working where it is.
    """
    total = 0.0
    for job in snapshot.jobs:
        total += max(total_work(snapshot, job), 1.0) ** alpha
    best = NOWHERE
    best_cap = snapshot.executor_count
    best_ratio = 1.0
    spare = NOWHERE
    for job in snapshot.jobs:
        if next_stage(snapshot, job) == NOWHERE:
            continue
        share = snapshot.executor_count * max(total_work(snapshot, job), 1.0) ** alpha / total
        cap = min(max(1, math.ceil(share)), snapshot.executor_count)
        have = executors_of(snapshot, job)
        if job == snapshot.source_job:
            if have < cap:
                return job, cap
            spare = job
        if have / cap < best_ratio:
            best, best_cap, best_ratio = job, cap, have / cap
        if spare == NOWHERE:
            spare = job
    if best == NOWHERE:
        return spare, snapshot.executor_count
    return best, best_cap


def weighted_fair(snapshot: Snapshot, parameters: Parameters) -> Action:
    """Shares go as total work to the power alpha: 0 is fair, 1 favours large jobs, -1 small ones."""
    job, cap = weighted_job(snapshot, parameters[0])
    if job == NOWHERE:
        return leave(snapshot)
    return send(snapshot, next_stage(snapshot, job), cap)


def cap_by_work(snapshot: Snapshot, job: int, kappa: float, power: float) -> int:
    """kappa * (the job's executor-seconds)^power executors, between one and all."""
    cap = kappa * (total_work(snapshot, job) / 1000.0) ** power
    return max(1, math.ceil(min(cap, float(snapshot.executor_count))))


def capped_srpt(snapshot: Snapshot, parameters: Parameters) -> Action:
    """Least remaining work first, each job capped at kappa * (its executor-seconds)^power executors.

    `stay` = 0: no preference, 1: executors stay while their job is within its cap, 2: while it can use
    them at all.
    """
    kappa, power, stay = parameters[0], parameters[1], parameters[2]
    best = NOWHERE
    best_cap = snapshot.executor_count
    least = math.inf
    spare = NOWHERE
    least_spare = math.inf
    for job in snapshot.jobs:
        if next_stage(snapshot, job) == NOWHERE:
            continue
        left = work_left(snapshot, job)
        cap = cap_by_work(snapshot, job, kappa, power)
        within = executors_of(snapshot, job) < cap
        if job == snapshot.source_job and (stay >= 2 or (stay >= 1 and within)):
            best, best_cap = job, cap if within else snapshot.executor_count
            break
        if within and left < least:
            best, best_cap, least = job, cap, left
        if left < least_spare:
            spare, least_spare = job, left
    if best == NOWHERE:
        best = spare
    if best == NOWHERE:
        return leave(snapshot)
    return send(snapshot, critical_stage(snapshot, best), best_cap)


def packed_srpt(snapshot: Snapshot, parameters: Parameters) -> Action:
    """Capped SRPT for executors of several sizes: the stage of a small job that wastes little memory.

    A stage is worth the less, the more work its job has left and the more memory of its executors would
    lie idle (`waste`); the job where the executors are now counts as if it had `loyalty` times the work,
    a stage that cannot begin yet as if its job had twice.
    """
    kappa, power, waste, loyalty = parameters[0], parameters[1], parameters[2], parameters[3]
    best = NOWHERE
    best_cap = snapshot.executor_count
    least = math.inf
    spare = NOWHERE
    least_spare = math.inf
    for job in snapshot.jobs:
        left = work_left(snapshot, job) * (loyalty if job == snapshot.source_job else 1.0)
        cap = cap_by_work(snapshot, job, kappa, power)
        within = executors_of(snapshot, job) < cap
        first = snapshot.first_stage[job]
        for stage in range(first, first + snapshot.stage_count[job]):
            if not (snapshot.schedulable[stage] and usable(snapshot, stage)):
                continue
            idle_memory = snapshot.class_memory[class_for(snapshot, stage)] - snapshot.memory[stage]
            score = left * math.exp(waste * idle_memory) * (1.0 if snapshot.runnable[stage] else 2.0)
            if within and score < least:
                best, best_cap, least = stage, cap, score
            if score < least_spare:
                spare, least_spare = stage, score
    if best == NOWHERE:
        best = spare
    if best == NOWHERE:
        return leave(snapshot)
    return send(snapshot, best, best_cap)


def tetris(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The stage whose demand matches what is free best (Tetris, SIGCOMM'14), short jobs preferred.

    The match is the dot product of the executors and memory the stage would take with those that are
    free; `shortness` weighs the job's remaining work against it.
    """
    shortness = parameters[0]
    free = snapshot.free_executors.sum()
    free_memory = 0.0
    for executor_class in range(len(snapshot.free_executors)):
        free_memory += snapshot.free_executors[executor_class] * snapshot.class_memory[executor_class]
    most = 1.0
    for job in snapshot.jobs:
        most = max(most, work_left(snapshot, job))
    best = NOWHERE
    best_score = -math.inf
    for job in snapshot.jobs:
        penalty = shortness * work_left(snapshot, job) / most
        first = snapshot.first_stage[job]
        for stage in range(first, first + snapshot.stage_count[job]):
            if not (snapshot.schedulable[stage] and usable(snapshot, stage)):
                continue
            taken = min(snapshot.demand[stage], snapshot.free_executors[class_for(snapshot, stage)])
            match = taken * free + taken * snapshot.memory[stage] * free_memory
            score = match / (free * free + free_memory * free_memory) - penalty
            if score > best_score:
                best, best_score = stage, score
    if best == NOWHERE:
        return leave(snapshot)
    return send(snapshot, best, snapshot.executor_count)


def graphene(snapshot: Snapshot, parameters: Parameters) -> Action:
    """Graphene*: troublesome stages of a job first, jobs shared as in weighted fair.

    After Graphene (OSDI'16) as adapted by Decima: a stage is troublesome when it holds a large part of
    its job's work or needs much memory; stages that lead to a troublesome one are pulled forward.
    """
    alpha, large_part, much_memory = parameters[0], parameters[1], parameters[2]
    job, cap = weighted_job(snapshot, alpha)
    if job == NOWHERE:
        return leave(snapshot)
    first = snapshot.first_stage[job]
    count = snapshot.stage_count[job]
    work = max(total_work(snapshot, job), 1.0)
    trouble = snapshot.scratch
    best = NOWHERE
    best_score = -math.inf
    for position in range(count - 1, -1, -1):
        stage = first + position
        row = snapshot.profile_stage[stage]
        trouble[position] = 0.0
        for place in range(snapshot.child_offset[row], snapshot.child_offset[row + 1]):
            trouble[position] = max(trouble[position], trouble[snapshot.child[place]])
        part = snapshot.tasks[stage] * snapshot.task_ms[stage] / work
        if part >= large_part or snapshot.memory[stage] >= much_memory:
            trouble[position] += part + snapshot.memory[stage]
        if snapshot.schedulable[stage] and usable(snapshot, stage):
            # Runnable stages are worth more than any trouble: trouble adds up to at most 1 + count.
            score = trouble[position] + (2.0 + count if snapshot.runnable[stage] else 0.0)
            if score >= best_score:
                best, best_score = stage, score
    return send(snapshot, best, cap)


def random_choice(snapshot: Snapshot, parameters: Parameters) -> Action:
    """A random usable stage and a random limit: the floor any scheduler must beat.

    The choice is a function of the situation, so a run can be repeated.
    """
    number = int(parameters[0]) * 7919 + snapshot.now_ms + 31 * snapshot.free_executors.sum()
    count = 0
    for job in snapshot.jobs:
        first = snapshot.first_stage[job]
        for stage in range(first, first + snapshot.stage_count[job]):
            if usable(snapshot, stage):
                count += 1
                number = (number * 48271 + snapshot.unstarted[stage] + stage) % 2147483647
    if count == 0:
        return leave(snapshot)
    skip = number % count
    for job in snapshot.jobs:
        first = snapshot.first_stage[job]
        for stage in range(first, first + snapshot.stage_count[job]):
            if usable(snapshot, stage):
                if skip == 0:
                    room = snapshot.executor_count - executors_of(snapshot, job)
                    extra = (number * 48271 // 65536) % max(room, 1)
                    return send(snapshot, stage, executors_of(snapshot, job) + 1 + extra)
                skip -= 1
    return leave(snapshot)
