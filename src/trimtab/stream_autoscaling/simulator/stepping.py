"""Whole intervals of many environments, in compiled code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.compiling import is_kept
from trimtab.stream_autoscaling.simulator.compiling import jit
from trimtab.stream_autoscaling.simulator.flow import arrive, flow
from trimtab.stream_autoscaling.simulator.metrics import begin_interval, close_interval, take_sample
from trimtab.stream_autoscaling.simulator.restarts import (
    close_windows,
    command,
    keep_clock,
    pass_barriers,
    set_rates,
)
from trimtab.stream_autoscaling.simulator.state import History, Record, State

__all__ = ["is_compiled", "settle", "step_many"]


@jit
def step_many(batch: State, histories: History, d: Record, wanted: NDArray[np.int64], place: int) -> None:
    """One interval of every environment whose trace is not over; samples go to `place` of the ring.

    `wanted` [E, V] is what `problem.allowed` let through; where it is what there is, nothing is asked for.
    """
    length = histories.present.shape[1] // 2
    for index in range(len(batch.run)):
        s = environment(batch, index)
        if s.run[0]["interval"] < s.run[0]["intervals"]:
            ask(s, d, wanted[index])
            run_interval(s, history_of(histories, index), d, place, length)


@jit
def ask(s: State, d: Record, wanted: NDArray[np.int64]) -> None:
    """Command a rescale if something else is wanted than was asked for last."""
    changed = False
    for vertex in range(s.run[0]["vertex_count"]):
        if wanted[vertex] != s.vertices[vertex]["wanted"]:
            s.vertices[vertex]["wanted"] = wanted[vertex]
            changed = True
    if changed:
        command(s, d)


@jit
def run_interval(s: State, h: History, d: Record, place: int, length: int) -> None:
    begin_interval(s, d)
    for substep in range(d["substeps"]):
        run_substep(s, d)
        if substep + 1 == s.run[0]["sample_after"]:
            take_sample(s, h, d, place, length)
    close_interval(s, d)


@jit
def run_substep(s: State, d: Record) -> None:
    """Checkpoints and restarts, then arrivals, then the fluid moves for as long as the job is up."""
    run = s.run[0]
    keep_clock(s, d)
    close_windows(s, d)
    arrive(s, d)
    down_ms = min(max(run["down_until_ms"] - run["now_ms"], 0), d["substep_ms"])
    up_ms = d["substep_ms"] - down_ms
    if up_ms > 0:
        flow(s, d, 0.001 * up_ms, 0.001 * (run["now_ms"] + down_ms) + 0.0005 * up_ms)
        pass_barriers(s, d, run["now_ms"] + d["substep_ms"])
    run["down_s"] += 0.001 * down_ms
    run["metric_window_s"] += 0.001 * up_ms
    subtasks = 0
    for vertex in range(run["vertex_count"]):
        subtasks += s.vertices[vertex]["parallelism"]
    run["subtask_s"] += 0.001 * d["substep_ms"] * subtasks
    run["now_ms"] += d["substep_ms"]


@jit
def settle(batch: State, d: Record, index: int) -> None:
    """Speeds and buffers of an environment that has just been laid out."""
    set_rates(environment(batch, index), d)


@jit
def environment(batch: State, index: int) -> State:
    """One environment of a batch; every field of the batch has one more axis, in front."""
    return State(
        batch.run[index],
        batch.vertices[index],
        batch.queues[index],
        batch.chunks[index],
        batch.inputs[index],
        batch.rates[index],
        batch.histograms[index],
    )


@jit
def history_of(h: History, index: int) -> History:
    return History(
        h.present[index],
        h.complete[index],
        h.records_in[index],
        h.records_out[index],
        h.busy[index],
        h.backpressured[index],
        h.idle[index],
        h.queue_fill[index],
        h.pending[index],
        h.parallelism[index],
        h.state_mb[index],
        h.latency_s[index],
        h.latency_p95_s[index],
    )


def is_compiled() -> bool:
    """Whether this version of the engine was compiled in this folder before."""
    return is_kept(step_many)
