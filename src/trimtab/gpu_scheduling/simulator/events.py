"""Moving time: jobs come, jobs end, machines drift, and questions fall due."""

from __future__ import annotations

import numpy as np

from trimtab.gpu_scheduling.simulator.compiling import inlined, jit
from trimtab.gpu_scheduling.simulator.placing import release, start_job, wait_again
from trimtab.gpu_scheduling.simulator.speeds import draw_noise, drift, start_drift
from trimtab.gpu_scheduling.simulator.state import (
    ASK_AT,
    ASKING,
    CHANGED,
    COST,
    COUNTED_TO,
    DECISIONS,
    DONE,
    DRIFT_STEP,
    EMPTY_ROW,
    END_ROW,
    EVENTS,
    FREE_MILLI,
    FREE_PART,
    FREE_SHARE,
    HEAP_ROW,
    HEARTBEAT,
    LOGGED,
    NEVER,
    NEXT_ARRIVAL,
    NOW,
    NOWHERE,
    PARTS,
    PENDING,
    PENDING_ROW,
    RUNNING,
    SEED,
    STRANDED,
    TIME_LIMIT,
    UNSEEN,
    State,
)
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = [
    "DECIDE",
    "FINISHED",
    "ILLEGAL",
    "NEED_LOG",
    "NEED_SLOTS",
    "TRUNCATED",
    "advance",
    "apply",
    "reset",
]

DECIDE, FINISHED, TRUNCATED, NEED_SLOTS, NEED_LOG, ILLEGAL = range(6)

PREDICTED, ORACLE = 1, 2
FIRST_GUESS_MS = 3_600_000.0
"""Predicted for a job before any has finished: an hour."""
SIZE_CLASSES = 64
LARGE = 8000
"""Thousandths of GPUs above which a checkpoint is a large one."""


@jit
def reset(s: State, t: Tables, seed: int, time_limit_ms: int) -> None:
    """Everything empty, time 0."""
    s.scalar[:] = 0
    s.scalar[SEED] = seed
    s.scalar[TIME_LIMIT] = time_limit_ms
    s.scalar[HEARTBEAT] = t.heartbeat_ms
    s.scalar[ASK_AT] = NEVER
    s.fee[0] = 0.0
    s.seen[:] = 0
    for place in range(len(s.slots)):
        s.lists[EMPTY_ROW, place] = len(s.slots) - 1 - place
    for place in range(len(s.parts)):
        s.parts["next_part"][place] = place + 1
        s.shares["next_share"][place] = place + 1
    s.scalar[FREE_PART] = 0
    s.scalar[FREE_SHARE] = 0
    for job in range(len(s.results)):
        s.results["first_start_ms"][job] = NOWHERE
        s.results["completion_ms"][job] = NOWHERE
        s.results["run_ms"][job] = 0
        s.results["preemptions"][job] = 0
        s.results["fee"][job] = 0.0
    for gpu in range(len(s.gpu_free)):
        s.gpu_free[gpu] = 1000
    for machine in range(len(s.machines)):
        s.machines["free_gpus"][machine] = t.machines["gpus"][machine]
        s.machines["free_milli"][machine] = t.machines["gpus"][machine] * 1000
        s.machines["free_cpu_milli"][machine] = t.machines["cpu_milli"][machine]
        s.machines["free_memory_mib"][machine] = t.machines["memory_mib"][machine]
        s.machines["load"][machine] = 0
        s.machines["jobs"][machine] = 0
        s.machines["first_part"][machine] = NOWHERE
        s.machines["observed"][machine] = 0.0
        s.machines["observed_speed"][machine] = 1.0
    s.scalar[FREE_MILLI] = t.total_gpus * 1000
    start_drift(s, t)


@jit
def advance(s: State, t: Tables) -> int:
    """Run to the next question, or to the end."""
    while True:
        if len(s.log) > 0 and s.scalar[LOGGED] + s.scalar[PARTS] + len(s.machines) > len(s.log):
            return NEED_LOG
        if s.scalar[ASKING] == 1:
            if s.scalar[PENDING] > 0:
                return DECIDE
            s.scalar[ASKING] = 0
        if s.scalar[DONE] == len(t.jobs):
            return FINISHED
        when = next_moment(s, t)
        if when > s.scalar[TIME_LIMIT]:
            count_time(s, s.scalar[TIME_LIMIT])
            return TRUNCATED
        count_time(s, when)
        s.scalar[NOW] = when
        while s.scalar[RUNNING] > 0 and s.lists[END_ROW, 0] == when:
            complete(s, t, s.lists[HEAP_ROW, 0])
        if t.drift > 0.0 and (s.scalar[DRIFT_STEP] + 1) * t.drift_period_ms == when:
            drift(s, t)
            s.scalar[UNSEEN] = 0
            s.scalar[EVENTS] += 1
        while s.scalar[NEXT_ARRIVAL] < len(t.jobs) and t.jobs["arrival_ms"][s.scalar[NEXT_ARRIVAL]] == when:
            if s.scalar[PENDING] + s.scalar[RUNNING] == len(s.slots):
                return NEED_SLOTS
            arrive(s, t)
        ask(s, t)


@inlined
def next_moment(s: State, t: Tables) -> int:
    when = NEVER
    if s.scalar[NEXT_ARRIVAL] < len(t.jobs):
        when = t.jobs["arrival_ms"][s.scalar[NEXT_ARRIVAL]]
    if s.scalar[RUNNING] > 0:
        when = min(when, s.lists[END_ROW, 0])
    if t.drift > 0.0:
        when = min(when, (s.scalar[DRIFT_STEP] + 1) * t.drift_period_ms)
    if s.scalar[PENDING] > 0:
        when = min(when, s.scalar[ASK_AT])
    return when  # pyright: ignore[reportReturnType]


@inlined
def count_time(s: State, when: int) -> None:
    """What the time up to `when` costs."""
    elapsed = when - s.scalar[COUNTED_TO]
    s.scalar[COST] += (s.scalar[PENDING] + s.scalar[RUNNING]) * elapsed
    if s.scalar[PENDING] > 0:
        s.scalar[STRANDED] += s.scalar[FREE_MILLI] * elapsed
    s.scalar[COUNTED_TO] = when


@inlined
def ask(s: State, t: Tables) -> None:
    """Whether questions are due now, or when next."""
    now = s.scalar[NOW]
    if s.scalar[PENDING] > 0:
        if t.round_ms > 0:
            into = now % t.round_ms
            if into == 0:
                s.scalar[ASKING] = 1
                s.scalar[UNSEEN] = 0
            s.scalar[ASK_AT] = now - into + t.round_ms
        else:
            if now >= s.scalar[ASK_AT]:
                s.scalar[UNSEEN] = 0
                s.scalar[CHANGED] = 1
            if s.scalar[CHANGED] == 1:
                s.scalar[ASKING] = 1
                s.scalar[ASK_AT] = NEVER
    s.scalar[CHANGED] = 0


@inlined
def arrive(s: State, t: Tables) -> None:
    """The next job of the workload takes a slot and waits."""
    job = s.scalar[NEXT_ARRIVAL]
    empty = len(s.slots) - s.scalar[PENDING] - s.scalar[RUNNING] - 1
    slot = s.lists[EMPTY_ROW, empty]
    s.slots["job_id"][slot] = job
    s.slots["arrival_ms"][slot] = t.jobs["arrival_ms"][job]
    s.slots["instances"][slot] = t.jobs["instances"][job]
    s.slots["gpu_milli"][slot] = t.jobs["gpu_milli"][job]
    s.slots["cpu_milli"][slot] = t.jobs["cpu_milli"][job]
    s.slots["memory_mib"][slot] = t.jobs["memory_mib"][job]
    s.slots["allowed_types"][slot] = t.jobs["allowed_types"][job]
    s.slots["user"][slot] = t.jobs["user"][job]
    s.slots["group"][slot] = t.jobs["group"][job]
    s.slots["kind"][slot] = t.jobs["kind"][job]
    s.slots["sensitivity"][slot] = t.jobs["sensitivity"][job]
    s.slots["size_class"][slot] = t.jobs["size_class"][job]
    s.slots["communication"][slot] = t.jobs["communication"][job]
    s.slots["work_ms"][slot] = t.jobs["duration_ms"][job]
    s.slots["noise"][slot] = draw_noise(s, t, job)
    s.slots["expected_ms"][slot] = expectation(s, t, job)
    s.slots["started_ms"][slot] = NOWHERE
    s.slots["since_ms"][slot] = s.scalar[NOW]
    s.slots["attained_ms"][slot] = 0
    s.slots["preemptions"][slot] = 0
    s.slots["first_part"][slot] = NOWHERE
    s.slots["done_ms"][slot] = 0.0
    s.slots["rate"][slot] = 0.0
    s.lists[PENDING_ROW, s.scalar[PENDING]] = slot
    s.scalar[PENDING] += 1
    s.scalar[NEXT_ARRIVAL] += 1
    s.scalar[CHANGED] = 1
    s.scalar[EVENTS] += 1


@inlined
def expectation(s: State, t: Tables, job: int) -> float:
    """What a policy is told of a job's duration when it comes."""
    if t.information == ORACLE:
        return np.float64(t.jobs["duration_ms"][job])
    if t.information != PREDICTED:
        return np.nan
    for row in (
        t.jobs["group"][job],
        t.group_count + t.jobs["size_class"][job],
        t.group_count + SIZE_CLASSES,
    ):
        if s.seen[row, 0] > 0:
            return s.seen[row, 1] / s.seen[row, 0]
    return FIRST_GUESS_MS


@inlined
def complete(s: State, t: Tables, slot: int) -> None:
    """A job ends: it leaves the system, and its run time becomes known."""
    s.slots["done_ms"][slot] = s.slots["work_ms"][slot]
    release(s, t, slot, 1)
    job = s.slots["job_id"][slot]
    run_ms = s.slots["attained_ms"][slot]
    s.results["completion_ms"][job] = s.scalar[NOW]
    s.results["run_ms"][job] = run_ms
    s.results["preemptions"][job] = s.slots["preemptions"][slot]
    if t.information == PREDICTED:
        for row in (
            s.slots["group"][slot],
            t.group_count + s.slots["size_class"][slot],
            t.group_count + SIZE_CLASSES,
        ):
            s.seen[row, 0] += 1
            s.seen[row, 1] += run_ms
    s.lists[EMPTY_ROW, len(s.slots) - s.scalar[PENDING] - s.scalar[RUNNING] - 1] = slot
    s.scalar[DONE] += 1
    s.scalar[UNSEEN] = 0
    s.scalar[CHANGED] = 1
    s.scalar[EVENTS] += 1


@jit
def stop(s: State, t: Tables, slot: int) -> bool:
    """Preempt a running job: it keeps what it did up to its checkpoint."""
    if s.slots["first_part"][slot] == NOWHERE:
        return False
    elapsed = s.scalar[NOW] - s.slots["since_ms"][slot]
    s.slots["done_ms"][slot] += s.slots["rate"][slot] * elapsed
    release(s, t, slot, 0)
    milli = s.slots["instances"][slot] * s.slots["gpu_milli"][slot]
    s.slots["done_ms"][slot] -= t.large_checkpoint_ms if milli > LARGE else t.checkpoint_ms
    s.slots["since_ms"][slot] = s.scalar[NOW]
    s.slots["preemptions"][slot] += 1
    wait_again(s, slot)
    s.scalar[UNSEEN] = 0
    return True


@jit
def apply(s: State, t: Tables, verb: int, slot: int, machines: np.ndarray, gpu: int) -> bool:
    """Do what the policy says; False, and nothing done, when it may not."""
    if verb == 0:
        if s.scalar[RUNNING] == 0 and s.scalar[NEXT_ARRIVAL] == len(t.jobs):
            return False
        s.scalar[ASKING] = 0
        s.scalar[UNSEEN] = s.scalar[PENDING]
        if t.round_ms == 0:
            s.scalar[ASK_AT] = s.scalar[NOW] + s.scalar[HEARTBEAT]
        s.scalar[DECISIONS] += 1
        return True
    if slot < 0 or slot >= len(s.slots):
        return False
    done = start_job(s, t, slot, machines, gpu) if verb == 1 else verb == 2 and stop(s, t, slot)
    if done:
        s.scalar[DECISIONS] += 1
    return done
