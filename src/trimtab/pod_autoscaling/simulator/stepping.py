"""Whole intervals of many services, in compiled code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.compiling import is_kept
from trimtab.pod_autoscaling.simulator.arrivals import arrive, begin_second
from trimtab.pod_autoscaling.simulator.comings import (
    become_ready,
    create,
    live_on,
    next_due,
    place,
    sync,
    watch_memory,
)
from trimtab.pod_autoscaling.simulator.compiling import jit, merged
from trimtab.pod_autoscaling.simulator.metrics import close_interval, read_metrics, scrape
from trimtab.pod_autoscaling.simulator.sizes import command, has_rows_to_roll, roll, take_resize
from trimtab.pod_autoscaling.simulator.state import ABSENT, NONE, READY, Record, State

__all__ = ["begin_run", "environment", "is_compiled", "step_many"]

WARM_S = 600.0
"""Pods that are there at the beginning have been running for so long."""


@jit
def step_many(
    batch: State,
    history: NDArray[np.float64],
    d: Record,
    wanted: NDArray[np.float64],
    newer: int,
    first: int,
    last: int,
) -> None:
    """One interval of the services from `first` to before `last` whose traces are not over.

    `wanted` [E, 3] is what `problem.allowed` let through. `history` [E, 2, fields, L] has the samples before
    this interval in one half; those after it go into the other, `newer`. A service that finds no room stops
    in the middle, says so in its `run`, and goes on from there at the next call.
    """
    for index in range(first, last):
        s = environment(batch, index)
        run = s.run[0]
        if not run["stepped"] and run["interval"] < run["intervals"]:
            live_interval(s, d, history[index], wanted[index], newer)
        elif not run["stepped"]:
            for field in range(history.shape[2]):
                for at in range(history.shape[3]):
                    history[index, newer, field, at] = history[index, 1 - newer, field, at]
            run["stepped"] = True


@merged
def live_interval(
    s: State, d: Record, history: NDArray[np.float64], wanted: NDArray[np.float64], newer: int
) -> None:
    run = s.run[0]
    run["needs_rows"] = run["needs_slots"] = 0
    if not run["begun"]:
        if not command(s, d, wanted, run["now_s"]):
            run["needs_rows"] = 1
            return
        next_due(s)
        run["begun"] = True
    end = (run["interval"] + 1) * d["interval_s"]
    while run["second"] < end:
        if not live_second(s, d):
            run["needs_slots"] = 1
            return
        if not has_rows_to_roll(s, d):
            run["needs_rows"] = 1
            return
        tick(s, d, history, newer)
    close_interval(s, d)
    run["begun"] = False
    run["stepped"] = True


@merged
def live_second(s: State, d: Record) -> bool:
    """Arrivals, and what is due for pods, until the second is over. False: there is no slot for a request."""
    run = s.run[0]
    end_s = run["second"] + 1.0
    while True:
        due_s, arrival_s = run["next_due_s"], run["next_arrival_s"]
        if due_s >= end_s and arrival_s >= end_s:
            break
        if due_s <= arrival_s:
            pass_due(s, d, due_s)
        elif run["free_slot"] == NONE:
            return False
        else:
            arrive(s, d)
    sync(s, d, end_s)
    return True


@jit
def pass_due(s: State, d: Record, at_s: float) -> None:
    """The pod whose turn it is; of several at a time, the oldest; what it is before what it holds."""
    sync(s, d, at_s)
    best, is_resize = NONE, False
    for row in range(s.run[0]["rows"]):
        pod = s.pods[row]
        if pod["state"] == ABSENT or min(pod["due_s"], pod["resize_due_s"]) > at_s:
            continue
        if best == NONE or pod["number"] < s.pods[best]["number"]:
            best, is_resize = row, pod["due_s"] > at_s
    # A pod that drained until this very moment is gone: then nothing is due.
    if best != NONE:
        if is_resize:
            take_resize(s, d, best, at_s)
        else:
            live_on(s, d, best, at_s)
    next_due(s)


@merged
def tick(s: State, d: Record, history: NDArray[np.float64], newer: int) -> None:
    """A second is over, and all pods have lived up to here."""
    run = s.run[0]
    run["second"] += 1
    second = run["second"]
    at_s = float(second)
    while run["drift"] < run["drift_count"] and s.drifts[run["drift"], 0] <= at_s:
        change(s, run["drift"])
        run["drift"] += 1
    watch_memory(s, d, at_s)
    if not d["in_place"]:
        roll(s, d, at_s)
    next_due(s)
    if second % d["window_s"] == 0:
        scrape(s, d, at_s)
    if second == run["interval"] * d["interval_s"] + d["reading_s"]:
        read_metrics(s, d, history, newer)
    begin_second(s, d)


@jit
def change(s: State, number: int) -> None:
    """The application is another from now on; see `drift.Change`."""
    run, factors = s.run[0], s.drifts[number]
    run["cpu_factor"], run["io_factor"] = factors[1], factors[2]
    run["memory_mib"] = run["base_memory_mib"] * factors[3]
    run["memory_per_request_mib"] = run["base_memory_per_request_mib"] * factors[4]
    run["start_factor"] = factors[5]


@jit
def begin_run(batch: State, d: Record, index: int) -> None:
    """The pods and the first second of a service that has just been laid out."""
    s = environment(batch, index)
    for _ in range(int(s.run[0]["replicas"])):
        row = create(s, d, 0.0)
        pod = s.pods[row]
        if place(s, d, row, 0.0):
            pod["starts"] = 1
            pod["created_s"] = pod["started_s"] = -WARM_S
            become_ready(s, d, row, 0.0)
            if pod["state"] == READY:
                pod["ready_changed_s"] = -WARM_S
    while s.run[0]["drift"] < s.run[0]["drift_count"] and s.drifts[s.run[0]["drift"], 0] <= 0.0:
        change(s, s.run[0]["drift"])
        s.run[0]["drift"] += 1
    next_due(s)
    begin_second(s, d)


@jit
def environment(batch: State, index: int) -> State:
    """One service of a batch; every field of the batch has one more axis, in front."""
    return State(
        batch.run[index],
        batch.segments[index],
        batch.pods[index],
        batch.ready[index],
        batch.requests[index],
        batch.nodes[index],
        batch.rates[index],
        batch.drifts[index],
        batch.totals[index],
        batch.marks[index],
        batch.histograms[index],
        batch.scrapes[index],
        batch.truth[index],
        batch.outcomes[index],
        batch.drawn[index],
    )


def is_compiled() -> bool:
    """Whether this version of the engine was compiled in this folder before."""
    return is_kept(step_many)
