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
from trimtab.gpu_scheduling.simulator.tables import ORACLE, PREDICTED, Tables

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

FIRST_GUESS_MS = 3_600_000.0
"""Predicted for a job before any has finished: an hour."""
SIZE_CLASSES = 64
LARGE = 8000
"""Thousandths of GPUs above which a checkpoint is a large one."""


@jit
def reset(s: State, t: Tables) -> None:
    """Everything empty, time 0; seed and time limit stay."""
    seed, time_limit_ms = s.scalar[SEED], s.scalar[TIME_LIMIT]
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
        s.parts[place]["next_part"] = place + 1
        s.shares[place]["next_share"] = place + 1
    s.scalar[FREE_PART] = 0
    s.scalar[FREE_SHARE] = 0
    for job in range(len(s.results)):
        result = s.results[job]
        result["first_start_ms"] = NOWHERE
        result["completion_ms"] = NOWHERE
        result["run_ms"] = 0
        result["preemptions"] = 0
        result["fee"] = 0.0
    for gpu in range(len(s.gpu_free)):
        s.gpu_free[gpu] = 1000
    for machine in range(len(s.machines)):
        here, table = s.machines[machine], t.machines[machine]
        here["free_gpus"] = table["gpus"]
        s.free_milli[machine] = table["gpus"] * 1000
        here["free_cpu_milli"] = table["cpu_milli"]
        here["free_memory_mib"] = table["memory_mib"]
        here["load"] = 0
        here["jobs"] = 0
        here["first_part"] = NOWHERE
        here["observed"] = 0.0
        here["observed_speed"] = 1.0
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
        while s.scalar[NEXT_ARRIVAL] < len(t.jobs) and t.jobs[s.scalar[NEXT_ARRIVAL]]["arrival_ms"] == when:
            if s.scalar[PENDING] + s.scalar[RUNNING] == len(s.slots):
                return NEED_SLOTS
            arrive(s, t)
        ask(s, t)


@inlined
def next_moment(s: State, t: Tables) -> int:
    when = NEVER
    if s.scalar[NEXT_ARRIVAL] < len(t.jobs):
        when = t.jobs[s.scalar[NEXT_ARRIVAL]]["arrival_ms"]
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
    held, asked = s.slots[slot], t.jobs[job]
    held["job_id"] = job
    held["arrival_ms"] = asked["arrival_ms"]
    held["instances"] = asked["instances"]
    held["gpu_milli"] = asked["gpu_milli"]
    held["cpu_milli"] = asked["cpu_milli"]
    held["memory_mib"] = asked["memory_mib"]
    held["allowed_types"] = asked["allowed_types"]
    held["user"] = asked["user"]
    held["group"] = asked["group"]
    held["kind"] = asked["kind"]
    held["sensitivity"] = asked["sensitivity"]
    held["communication"] = asked["communication"]
    held["work_ms"] = asked["duration_ms"]
    held["noise"] = draw_noise(s, t, job)
    held["expected_ms"] = expectation(s, t, job)
    held["started_ms"] = NOWHERE
    held["since_ms"] = s.scalar[NOW]
    held["attained_ms"] = 0
    held["preemptions"] = 0
    held["first_part"] = NOWHERE
    held["done_ms"] = 0.0
    held["rate"] = 0.0
    s.lists[PENDING_ROW, s.scalar[PENDING]] = slot
    s.scalar[PENDING] += 1
    s.scalar[NEXT_ARRIVAL] += 1
    s.scalar[CHANGED] = 1
    s.scalar[EVENTS] += 1


@inlined
def expectation(s: State, t: Tables, job: int) -> float:
    """What a policy is told of a job's duration when it comes."""
    asked = t.jobs[job]
    if t.information == ORACLE:
        return np.float64(asked["duration_ms"])
    if t.information != PREDICTED:
        return np.nan
    for row in (
        asked["group_place"],
        t.group_count + asked["size_class"],
        t.group_count + SIZE_CLASSES,
    ):
        if s.seen[row, 0] > 0:
            return s.seen[row, 1] / s.seen[row, 0]
    return FIRST_GUESS_MS


@inlined
def complete(s: State, t: Tables, slot: int) -> None:
    """A job ends: it leaves the system, and its run time becomes known."""
    held = s.slots[slot]
    held["done_ms"] = held["work_ms"]
    release(s, t, slot, 1)
    job = held["job_id"]
    run_ms = held["attained_ms"]
    result = s.results[job]
    result["completion_ms"] = s.scalar[NOW]
    result["run_ms"] = run_ms
    result["preemptions"] = held["preemptions"]
    if t.information == PREDICTED:
        for row in (
            t.jobs[job]["group_place"],
            t.group_count + t.jobs[job]["size_class"],
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
    held = s.slots[slot]
    if held["first_part"] == NOWHERE:
        return False
    elapsed = s.scalar[NOW] - held["since_ms"]
    held["done_ms"] += held["rate"] * elapsed
    release(s, t, slot, 0)
    milli = held["instances"] * held["gpu_milli"]
    held["done_ms"] -= t.large_checkpoint_ms if milli > LARGE else t.checkpoint_ms
    held["since_ms"] = s.scalar[NOW]
    held["preemptions"] += 1
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
