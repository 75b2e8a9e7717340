"""One interval under the published rules, compiled: batches of a minute go from task to task.

A task works on one batch at a time, in order of arrival, with as many instances as the batch has records to
share (at most its parallelism); it may begin a batch when all its parents have finished that very batch. So
all there is to know is when each task finishes each batch:

    finish(batch, task) = max(finish(batch, parents), finish(batch - 1, task)) + largest share x record time

Within an interval tasks are planned one after the other, parents first, batch by batch, until one would
begin after the interval's end. `finish` is a ring over batches; it must hold all that are not out yet.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.stream_autoscaling.simulator.compiling import jit

__all__ = ["Batches", "step_all"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Batches(NamedTuple):
    """A batch of environments; minutes count from the reset."""

    vertex_count: Integers  # [E]
    parents: NDArray[np.bool_]  # [E, V, V]: the second is a parent of the first
    is_sink: NDArray[np.bool_]  # [E, V]
    minutes_per_record: Floats  # [E, V]
    sizes: Floats  # [E, T]: records that come in each minute
    parallelism: Integers  # [E, V]
    started: Integers  # [E, V]: batches begun so far
    readied: Integers  # [E, V]: batches whose parents have finished them, as far as counted
    queued: Floats  # [E, V]: records that wait
    free_at: Floats  # [E, V]: the task has finished what it has begun
    finish: Floats  # [E, ring, V]
    out: Integers  # [E]: batches that have left the job
    now: Integers  # [E]: minutes
    # Of the last interval, by minute:
    busy: Floats  # [E, L, V]: busy instances over all
    taken: Floats  # [E, L, V]: records begun
    waiting: Floats  # [E, L, V]: records that wait at the end of the minute
    latency_min: Floats  # [E, L]: of batches that left; the age of the oldest one inside if none did
    left: Floats  # [E, L]: records of batches that left


@jit
def step_all(b: Batches, over: NDArray[np.bool_], changed: NDArray[np.bool_], restart_min: float) -> None:
    """One interval of every environment whose trace is not over."""
    for environment in range(len(over)):
        if not over[environment]:
            step_one(b, environment, changed[environment], restart_min)


@jit
def step_one(b: Batches, environment: int, changed: bool, restart_min: float) -> None:
    """One interval; `changed`: all tasks restart first, and do again what they were at."""
    span = b.busy.shape[1]
    begin = b.now[environment]
    b.busy[environment] = 0.0
    b.taken[environment] = 0.0
    b.waiting[environment] = 0.0
    if changed:
        restart_tasks(b, environment, begin, restart_min)
    for task in range(b.vertex_count[environment]):
        carry_on(b, environment, task, begin)
        plan_task(b, environment, task, begin, begin + span)
        count_waiting(b, environment, task, begin)
    count_out(b, environment, begin)
    b.now[environment] = begin + span


@jit
def restart_tasks(b: Batches, environment: int, begin: int, restart_min: float) -> None:
    """A batch that is not finished is begun again; its children have not seen it."""
    for task in range(b.vertex_count[environment]):
        if b.free_at[environment, task] > begin:
            b.started[environment, task] -= 1
            b.queued[environment, task] += b.sizes[environment, b.started[environment, task]]
        b.free_at[environment, task] = begin + restart_min


@jit
def carry_on(b: Batches, environment: int, task: int, begin: int) -> None:
    """A batch begun before this interval keeps its instances busy until it is finished."""
    last = b.started[environment, task] - 1
    if last >= 0 and b.free_at[environment, task] > begin:
        ring = b.finish.shape[1]
        if b.finish[environment, last % ring, task] == b.free_at[environment, task]:
            add_busy(b, environment, task, last, float(begin), b.free_at[environment, task], begin)


@jit
def plan_task(b: Batches, environment: int, task: int, begin: int, end: int) -> None:
    """Begin batch after batch until the next would begin after the interval."""
    ring = b.finish.shape[1]
    p = b.parallelism[environment, task]
    while b.started[environment, task] < end and b.started[environment, task] < b.sizes.shape[1]:
        batch = b.started[environment, task]
        ready = ready_at(b, environment, task, batch)
        start = max(ready, b.free_at[environment, task])
        if start >= end:
            return
        size = b.sizes[environment, batch]
        instances = min(size, float(p))
        lasts = math.ceil(size / instances) * b.minutes_per_record[environment, task] if size > 0.0 else 0.0
        b.finish[environment, batch % ring, task] = start + lasts
        b.free_at[environment, task] = start + lasts
        b.started[environment, task] += 1
        b.taken[environment, max(0, int(start) - begin), task] += size
        add_busy(b, environment, task, batch, start, start + lasts, begin)


@jit
def ready_at(b: Batches, environment: int, task: int, batch: int) -> float:
    """When all parents have finished a batch; never, if one has not begun it."""
    ring = b.finish.shape[1]
    ready = float(batch)
    for parent in range(task):
        if b.parents[environment, task, parent]:
            if b.started[environment, parent] <= batch:
                return math.inf
            ready = max(ready, b.finish[environment, batch % ring, parent])
    return ready


@jit
def add_busy(
    b: Batches, environment: int, task: int, batch: int, start: float, end: float, begin: int
) -> None:
    """Spread the instances' busy time over the minutes of this interval."""
    p = float(b.parallelism[environment, task])
    part = min(b.sizes[environment, batch], p) / p
    last = begin + b.busy.shape[1]
    minute = int(start)
    while minute < end and minute < last:
        b.busy[environment, minute - begin, task] += part * (
            min(end, minute + 1.0) - max(start, float(minute))
        )
        minute += 1


@jit
def count_waiting(b: Batches, environment: int, task: int, begin: int) -> None:
    """Records that are ready and not begun, at the end of each minute."""
    span = b.busy.shape[1]
    end = begin + span
    while b.readied[environment, task] < min(end, b.sizes.shape[1]):
        batch = b.readied[environment, task]
        ready = ready_at(b, environment, task, batch)
        if ready >= end:
            break
        b.waiting[environment, int(ready) - begin, task] += b.sizes[environment, batch]
        b.readied[environment, task] += 1
    waiting = b.queued[environment, task]
    for minute in range(span):
        waiting += b.waiting[environment, minute, task] - b.taken[environment, minute, task]
        b.waiting[environment, minute, task] = waiting
    b.queued[environment, task] = waiting


@jit
def count_out(b: Batches, environment: int, begin: int) -> None:
    """Batches leave when all sinks have finished them; a minute has the mean latency of those that did."""
    for minute in range(b.busy.shape[1]):
        end = begin + minute + 1.0
        total, count, records = 0.0, 0, 0.0
        while b.out[environment] < min(b.sizes.shape[1], begin + minute + 1):
            left_at = out_at(b, environment, b.out[environment])
            if left_at >= end:
                break
            total += left_at - b.out[environment]
            count += 1
            records += b.sizes[environment, b.out[environment]]
            b.out[environment] += 1
        oldest = end - b.out[environment]
        b.latency_min[environment, minute] = total / count if count > 0 else max(0.0, oldest)
        b.left[environment, minute] = records


@jit
def out_at(b: Batches, environment: int, batch: int) -> float:
    """When the last sink has finished a batch; never, if one has not begun it."""
    ring = b.finish.shape[1]
    latest = 0.0
    for task in range(b.vertex_count[environment]):
        if b.is_sink[environment, task]:
            if b.started[environment, task] <= batch:
                return math.inf
            latest = max(latest, b.finish[environment, batch % ring, task])
    return latest
