"""Reservations: when a job that waits will have its GPUs, and whether another would take them from it.

Ends of running jobs are as expected at their present speed. GPUs are counted, on each machine for the one
reservation of EASY, in all machines of the allowed models for the many of conservative backfill; CPUs and
memory are not. `job_score` holds expected ends and reserved starts.
"""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.heuristics.queue import by_score_first, next_by_score
from trimtab.gpu_scheduling.heuristics.words import expected_end_ms, gang_milli, work_left_ms
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot, allowed_on, fits_on

__all__ = ["disturbs", "earliest_start_ms", "reserve_machines", "running_by_end", "still_fits"]


# --- one reservation, machine by machine -------------------------------------------------------------------


def reserve_machines(snapshot: Snapshot, head: int) -> tuple[float, int, int]:
    """When a job will fit, the room (in its instances) there will be, and the jobs that will have ended.

    Those are in `job_order`, from the place returned up to the number of running jobs.
    """
    milli = snapshot.gpu_milli[head]
    end = len(snapshot.running)
    room = 0
    for machine in range(len(snapshot.gpus)):
        room += free_then(snapshot, head, machine, end) // milli
    first = heap_of_ends(snapshot)
    reserved_ms = float(snapshot.now_ms)
    while first > 0 and room < snapshot.instances[head]:
        ended = next_by_score(snapshot, first)
        reserved_ms = max(reserved_ms, snapshot.job_score[ended])
        part: int = snapshot.first_part[ended]
        while part != NOWHERE:
            machine = snapshot.part_machine[part]
            before = free_then(snapshot, head, machine, first)
            room += free_then(snapshot, head, machine, first - 1) // milli - before // milli
            part = snapshot.next_part[part]
        first -= 1
    return reserved_ms, room, first


def free_then(snapshot: Snapshot, head: int, machine: int, first: int) -> int:
    """Thousandths of GPUs on a machine for `head`, once the jobs in `job_order[first:]` have ended."""
    if not allowed_on(snapshot, head, machine):
        return 0
    milli = snapshot.free_milli[machine]
    if snapshot.gpu_milli[head] >= WHOLE:
        milli = snapshot.free_gpus[machine] * WHOLE
    for place in range(first, len(snapshot.running)):
        ended: int = snapshot.job_order[place]
        part: int = snapshot.first_part[ended]
        while part != NOWHERE:
            if snapshot.part_machine[part] == machine:
                milli += snapshot.part_instances[part] * snapshot.gpu_milli[ended]
            part = snapshot.next_part[part]
    return milli


def heap_of_ends(snapshot: Snapshot) -> int:
    """Running jobs as a heap by expected end, in `job_order`; how many."""
    size = 0
    for job in snapshot.running:
        snapshot.job_order[size] = job
        snapshot.job_score[job] = expected_end_ms(snapshot, job)
        size += 1
    by_score_first(snapshot, size)
    return size


def still_fits(snapshot: Snapshot, head: int, room: int, first: int, job: int, count: int) -> bool:
    """Whether the head fits at its time, though `job` stays on `machine_order[:count]` beyond it."""
    milli = snapshot.gpu_milli[head]
    needed = snapshot.instances[job]
    for place in range(count):
        machine = snapshot.machine_order[place]
        taken = min(needed, fits_on(snapshot, job, machine))
        needed -= taken
        free = free_then(snapshot, head, machine, first)
        if free > 0:
            room += (free - taken_from_head(snapshot, head, job, machine, taken)) // milli - free // milli
    return room >= snapshot.instances[head]


def taken_from_head(snapshot: Snapshot, head: int, job: int, machine: int, instances: int) -> int:
    """Thousandths that instances take of what the head could use: shares fill up broken GPUs first."""
    taken = instances * snapshot.gpu_milli[job]
    if snapshot.gpu_milli[head] >= WHOLE and snapshot.gpu_milli[job] < WHOLE:
        broken = snapshot.free_milli[machine] - snapshot.free_gpus[machine] * WHOLE
        if broken >= taken:
            return 0
    return taken


# --- many reservations, by count ---------------------------------------------------------------------------


def running_by_end(snapshot: Snapshot) -> int:
    """Running jobs in `job_order`, by expected end, the last first; how many."""
    count = heap_of_ends(snapshot)
    for size in range(count, 1, -1):
        next_by_score(snapshot, size)
    return count


def held_for(snapshot: Snapshot, job: int, other: int) -> int:
    """Thousandths of GPUs a running job holds that `job` could use."""
    milli = 0
    part: int = snapshot.first_part[other]
    while part != NOWHERE:
        if allowed_on(snapshot, job, snapshot.part_machine[part]):
            milli += snapshot.part_instances[part] * snapshot.gpu_milli[other]
        part = snapshot.next_part[part]
    return milli


def free_now(snapshot: Snapshot, job: int) -> int:
    """Thousandths of GPUs that are free and that `job` could use."""
    milli = 0
    for machine in range(len(snapshot.gpus)):
        if allowed_on(snapshot, job, machine):
            milli += snapshot.free_milli[machine]
    return milli


def reserved_at(snapshot: Snapshot, job: int, time_ms: float, running: int, reserved: int) -> int:
    """Thousandths of GPUs `job` could use that others have reserved for some time."""
    milli = 0
    for place in range(running, running + reserved):
        other: int = snapshot.job_order[place]
        begin = snapshot.job_score[other]
        meanwhile = begin <= time_ms < begin + work_left_ms(snapshot, other)
        same_models = snapshot.allowed_types[job] & snapshot.allowed_types[other] != 0
        if meanwhile and same_models and other != job:
            milli += gang_milli(snapshot, other)
    return milli


def free_at(snapshot: Snapshot, job: int, time_ms: float, running: int, reserved: int) -> int:
    """Thousandths of GPUs that `job` could use at a time to come, beside what others have reserved."""
    milli = free_now(snapshot, job)
    for place in range(running - 1, -1, -1):
        other: int = snapshot.job_order[place]
        if snapshot.job_score[other] > time_ms:
            break
        milli += held_for(snapshot, job, other)
    return milli - reserved_at(snapshot, job, time_ms, running, reserved)


def disturbs(snapshot: Snapshot, job: int, duration_ms: float, running: int, reserved: int) -> bool:
    """Whether a job that starts now would take GPUs reserved for others."""
    end_ms = snapshot.now_ms + duration_ms
    for place in range(running, running + reserved):
        other: int = snapshot.job_order[place]
        begin = snapshot.job_score[other]
        same_models = snapshot.allowed_types[job] & snapshot.allowed_types[other] != 0
        if begin < end_ms and same_models:
            left = free_at(snapshot, other, begin, running, reserved) - gang_milli(snapshot, other)
            if left < gang_milli(snapshot, job):
                return True
    return False


def earliest_start_ms(snapshot: Snapshot, job: int, running: int, reserved: int) -> float:
    """The first end of a running or reserved job at which `job` has its GPUs for its whole duration."""
    earliest = math.inf
    for place in range(running - 1, -1, -1):
        ending: int = snapshot.job_order[place]
        end_ms = snapshot.job_score[ending]
        if stays_free(snapshot, job, end_ms, running, reserved):
            earliest = end_ms
            break
    for place in range(running, running + reserved):
        other: int = snapshot.job_order[place]
        end_ms = snapshot.job_score[other] + work_left_ms(snapshot, other)
        if end_ms < earliest and stays_free(snapshot, job, end_ms, running, reserved):
            earliest = end_ms
    return earliest


def stays_free(snapshot: Snapshot, job: int, begin_ms: float, running: int, reserved: int) -> bool:
    """Whether `job` would have its GPUs from some time on, until its end.

    GPUs become fewer only when a reserved job begins, so those are the times to look at.
    """
    wanted = gang_milli(snapshot, job)
    if free_at(snapshot, job, begin_ms, running, reserved) < wanted:
        return False
    end_ms = begin_ms + work_left_ms(snapshot, job)
    for place in range(running, running + reserved):
        beginning: int = snapshot.job_order[place]
        time_ms = snapshot.job_score[beginning]
        if begin_ms < time_ms < end_ms and free_at(snapshot, job, time_ms, running, reserved) < wanted:
            return False
    return True
