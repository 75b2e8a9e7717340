"""What happens when the first job does not fit: `discipline(snapshot, parameters)`.

`priority` and `place` stand for the order and the placement of the rule (see rule.py). They are called in the
body of a discipline only, never in a helper: compiled, a helper would keep the stand-ins. `parameters` is the
whole table; a discipline's own settings are its row 2.

A placement says 0 machines when, and only when, a gang does not fit. So after a HOLD, and until something is
given back, a job that did not fit does not fit: `pending[:unseen]` need not be tried again.
"""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.heuristics.displacing import first_victim, may_be_displaced
from trimtab.gpu_scheduling.heuristics.moving import badly_placed
from trimtab.gpu_scheduling.heuristics.queue import by_score_first
from trimtab.gpu_scheduling.heuristics.reserving import (
    disturbs,
    earliest_start_ms,
    reserve_machines,
    running_by_end,
    still_fits,
)
from trimtab.gpu_scheduling.heuristics.rule import Parameters
from trimtab.gpu_scheduling.heuristics.words import (
    age_ms,
    best_rate,
    gang_milli,
    hold,
    rate_if_started,
    work_left_ms,
)
from trimtab.gpu_scheduling.problem import NOWHERE, Action, Snapshot, preempt, start

__all__ = ["backfill", "backfill_in_order", "conservative", "easy", "good_enough", "patient", "preemptive"]
__all__ += ["MOVE_GAIN", "strict", "strict_in_order"]

HOUR_MS = 3_600_000.0
MOVE_GAIN = 2
"""Place of `move_gain` among the settings of `preemptive`."""


def priority(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Stands for the order."""
    raise NotImplementedError


def place(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """Stands for the placement."""
    raise NotImplementedError


# --- without reservations ----------------------------------------------------------------------------------


def strict(snapshot: Snapshot, parameters: Parameters) -> Action:
    """While the first does not fit, all wait."""
    head = NOWHERE
    least = math.inf
    for job in snapshot.pending:
        value = priority(snapshot, job, parameters[0])
        if head == NOWHERE or value < least:
            head, least = job, value
    if head != NOWHERE:
        count, gpu = place(snapshot, head, parameters[1])
        if count > 0:
            return start(head, snapshot.machine_order[:count], gpu)
    return hold(snapshot)


def strict_in_order(snapshot: Snapshot, parameters: Parameters) -> Action:
    """While the first does not fit, all wait.

    The same for the order of arrival, which `pending` has: nothing to look for.
    """
    if snapshot.unseen == 0 and len(snapshot.pending) > 0:
        head = snapshot.pending[0]
        count, gpu = place(snapshot, head, parameters[1])
        if count > 0:
            return start(head, snapshot.machine_order[:count], gpu)
    return hold(snapshot)


def backfill(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The first that fits starts, whoever waits before it."""
    best, best_count, best_gpu = NOWHERE, 0, NOWHERE
    least = math.inf
    placed = NOWHERE
    for position in range(snapshot.unseen, len(snapshot.pending)):
        job = snapshot.pending[position]
        if gang_milli(snapshot, job) > snapshot.free_total_milli:
            continue
        value = priority(snapshot, job, parameters[0])
        if best == NOWHERE or value < least:
            count, gpu = place(snapshot, job, parameters[1])
            placed = job
            if count > 0:
                best, best_count, best_gpu, least = job, count, gpu, value
    if best == NOWHERE:
        return hold(snapshot)
    if placed != best:
        best_count, best_gpu = place(snapshot, best, parameters[1])
    return start(best, snapshot.machine_order[:best_count], best_gpu)


def backfill_in_order(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The first that fits starts, whoever waits before it.

    The same for the order of arrival, which `pending` has: the first found is the one.
    """
    for position in range(snapshot.unseen, len(snapshot.pending)):
        job = snapshot.pending[position]
        if gang_milli(snapshot, job) > snapshot.free_total_milli:
            continue
        count, gpu = place(snapshot, job, parameters[1])
        if count > 0:
            return start(job, snapshot.machine_order[:count], gpu)
    return hold(snapshot)


# --- with patience -----------------------------------------------------------------------------------------


def good_enough(snapshot: Snapshot, job: int, count: int, parameters: Parameters) -> bool:
    """Whether a job had better start on `machine_order[:count]` than wait for a better place."""
    least_speed, patience_h = parameters[2, 0], parameters[2, 1]
    wanted = least_speed * math.exp(-age_ms(snapshot, job) / (patience_h * HOUR_MS))
    return rate_if_started(snapshot, job, count) >= wanted * best_rate(snapshot, job)


def patient(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The first that finds a place good enough starts, whoever waits before it.

    Good enough is `least_speed` of what the job would have on the best machines of an empty cluster; a job
    that has waited for `patience_h` hours asks for a third of that (delay scheduling, EuroSys'10, by speed).
    """
    best, best_count, best_gpu = NOWHERE, 0, NOWHERE
    least = math.inf
    placed = NOWHERE
    for position in range(len(snapshot.pending)):
        job = snapshot.pending[position]
        if gang_milli(snapshot, job) > snapshot.free_total_milli:
            continue
        value = priority(snapshot, job, parameters[0])
        if best == NOWHERE or value < least:
            count, gpu = place(snapshot, job, parameters[1])
            placed = job
            if count > 0 and (not snapshot.may_hold or good_enough(snapshot, job, count, parameters)):
                best, best_count, best_gpu, least = job, count, gpu, value
    if best == NOWHERE:
        return hold(snapshot)
    if placed != best:
        best_count, best_gpu = place(snapshot, best, parameters[1])
    return start(best, snapshot.machine_order[:best_count], best_gpu)


# --- with reservations -------------------------------------------------------------------------------------


def easy(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The first has a reservation; others may go before it if they do not delay it (EASY backfill).

    The reservation is the time when, by the expected ends of running jobs, enough GPUs will be free on each
    machine. Another job starts if it is expected to end before that, or if the first still fits beside it.
    """
    head = NOWHERE
    least = math.inf
    for job in snapshot.pending:
        value = priority(snapshot, job, parameters[0])
        if head == NOWHERE or value < least:
            head, least = job, value
    if head == NOWHERE:
        return hold(snapshot)
    count, gpu = place(snapshot, head, parameters[1])
    if count > 0:
        return start(head, snapshot.machine_order[:count], gpu)
    reserved_ms, room, ended = reserve_machines(snapshot, head)
    best, best_count, best_gpu = NOWHERE, 0, NOWHERE
    least = math.inf
    placed = head
    for job in snapshot.pending:
        if job == head or gang_milli(snapshot, job) > snapshot.free_total_milli:
            continue
        value = priority(snapshot, job, parameters[0])
        if best != NOWHERE and value >= least:
            continue
        count, gpu = place(snapshot, job, parameters[1])
        placed = job
        if count == 0:
            continue
        end_ms = snapshot.now_ms + work_left_ms(snapshot, job) / rate_if_started(snapshot, job, count)
        if end_ms <= reserved_ms or still_fits(snapshot, head, room, ended, job, count):
            best, best_count, best_gpu, least = job, count, gpu, value
    if best == NOWHERE:
        return hold(snapshot)
    if placed != best:
        best_count, best_gpu = place(snapshot, best, parameters[1])
    return start(best, snapshot.machine_order[:best_count], best_gpu)


def conservative(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The first few all have reservations; others may go before them if they delay none.

    `depth` of them, in GPUs of the models they may use, by the expected ends of running jobs.
    """
    depth = int(parameters[2, 0])
    running = running_by_end(snapshot)
    reserved = 0
    behind, behind_position = -math.inf, -1
    while reserved < depth:
        chosen, position = NOWHERE, -1
        least = math.inf
        for place_in_line in range(len(snapshot.pending)):
            job = snapshot.pending[place_in_line]
            value = priority(snapshot, job, parameters[0])
            is_behind = value > behind or (value == behind and place_in_line > behind_position)
            if is_behind and (chosen == NOWHERE or value < least):
                chosen, position, least = job, place_in_line, value
        if chosen == NOWHERE:
            return hold(snapshot)
        behind, behind_position = least, position
        count, gpu = place(snapshot, chosen, parameters[1])
        if count > 0:
            duration_ms = work_left_ms(snapshot, chosen) / rate_if_started(snapshot, chosen, count)
            if not disturbs(snapshot, chosen, duration_ms, running, reserved):
                return start(chosen, snapshot.machine_order[:count], gpu)
        snapshot.job_score[chosen] = earliest_start_ms(snapshot, chosen, running, reserved)
        snapshot.job_order[running + reserved] = chosen
        reserved += 1
    best, best_count, best_gpu = NOWHERE, 0, NOWHERE
    least = math.inf
    placed = NOWHERE
    for place_in_line in range(len(snapshot.pending)):
        job = snapshot.pending[place_in_line]
        if gang_milli(snapshot, job) > snapshot.free_total_milli:
            continue
        value = priority(snapshot, job, parameters[0])
        is_behind = value > behind or (value == behind and place_in_line > behind_position)
        if not is_behind or (best != NOWHERE and value >= least):
            continue
        count, gpu = place(snapshot, job, parameters[1])
        placed = job
        if count == 0:
            continue
        duration_ms = work_left_ms(snapshot, job) / rate_if_started(snapshot, job, count)
        if not disturbs(snapshot, job, duration_ms, running, reserved):
            best, best_count, best_gpu, least = job, count, gpu, value
    if best == NOWHERE:
        return hold(snapshot)
    if placed != best:
        best_count, best_gpu = place(snapshot, best, parameters[1])
    return start(best, snapshot.machine_order[:best_count], best_gpu)


# --- with preemption ---------------------------------------------------------------------------------------


def worth_starting(snapshot: Snapshot, job: int, count: int, parameters: Parameters) -> bool:
    """Whether a job that may be moved later had better start on `machine_order[:count]` than wait."""
    least_speed = parameters[2, 4]
    if least_speed == 0.0:
        return True
    return rate_if_started(snapshot, job, count) >= least_speed * best_rate(snapshot, job)


def preemptive(snapshot: Snapshot, parameters: Parameters) -> Action:
    """The first may displace running jobs that come after it; else the first that fits starts.

    Displaced are the last of those that have run for `min_run_s` and come after the first by `margin` (a
    share of its priority), as few as make room for it, and none where all of them would not.

    When nobody can start and `move_gain` is not 0, a job that has run for `move_after_s` where it is and
    would be faster elsewhere by more than that factor is stopped, to be placed anew. A job starts only where
    it has `least_speed` of what it would have on the best machines of an empty cluster.
    """
    margin, min_run_s = parameters[2, 0], parameters[2, 1]
    head, best, best_count, best_gpu = NOWHERE, NOWHERE, 0, NOWHERE
    head_least, least = math.inf, math.inf
    placed = NOWHERE
    for position in range(len(snapshot.pending)):
        job = snapshot.pending[position]
        value = priority(snapshot, job, parameters[0])
        if head == NOWHERE or value < head_least:
            head, head_least = job, value
        if position < snapshot.unseen or (best != NOWHERE and value >= least):
            continue
        if gang_milli(snapshot, job) > snapshot.free_total_milli:
            continue
        count, gpu = place(snapshot, job, parameters[1])
        placed = job
        if count > 0 and (not snapshot.may_hold or worth_starting(snapshot, job, count, parameters)):
            best, best_count, best_gpu, least = job, count, gpu, value
    if head != NOWHERE and head != best and head_least < math.inf:
        threshold = head_least + margin * abs(head_least)
        candidates = 0
        for job in snapshot.running:
            if may_be_displaced(snapshot, job, min_run_s):
                value = priority(snapshot, job, parameters[0])
                if value > threshold:
                    snapshot.job_order[candidates] = job
                    snapshot.job_score[job] = -value
                    candidates += 1
        by_score_first(snapshot, candidates)
        victim = first_victim(snapshot, head, candidates)
        if victim != NOWHERE:
            return preempt(victim, snapshot.machine_order[:0])
    if best == NOWHERE:
        slow = badly_placed(snapshot, parameters[2, MOVE_GAIN], parameters[2, 3])
        return hold(snapshot) if slow == NOWHERE else preempt(slow, snapshot.machine_order[:0])
    if placed != best:
        best_count, best_gpu = place(snapshot, best, parameters[1])
    return start(best, snapshot.machine_order[:best_count], best_gpu)
