"""What the monitoring reports, and what was really the case in an interval."""

from __future__ import annotations

import math

import numpy as np

from trimtab.stream_autoscaling.simulator.compiling import jit
from trimtab.stream_autoscaling.simulator.draws import (
    LATENESS,
    MISSING,
    NOISE,
    count_in,
    draw_normal,
    uniform_of,
)
from trimtab.stream_autoscaling.simulator.flow import bound_of
from trimtab.stream_autoscaling.simulator.restarts import forget_metrics, slots_of, state_of_vertex
from trimtab.stream_autoscaling.simulator.state import BINS, METRICS, TRUTH, History, Record, State

__all__ = ["begin_interval", "close_interval", "take_sample"]

# Which number of a vertex, or of the job, a noise is for.
_IN, _OUT, _BUSY, _BLOCKED, _LATENCY = (np.int64(number) for number in range(5))


@jit
def begin_interval(s: State, d: Record) -> None:
    """Sums begin again; the monitoring will read its counters somewhat before the next decision."""
    run = s.run[0]
    run["arrived"] = 0.0
    run["left"] = 0.0
    run["latency_moment"] = 0.0
    run["down_s"] = 0.0
    run["busy_subtask_s"] = 0.0
    run["subtask_s"] = 0.0
    run["rescaled"] = False
    s.histograms[TRUTH, :, :] = 0.0
    for vertex in range(run["vertex_count"]):
        s.vertices[vertex]["busy_s"] = 0.0
    late_s = d["staleness_s"] * uniform_of(count_in(count_in(run["luck"], LATENESS), run["interval"]))
    run["sample_after"] = d["substeps"] - int(1000.0 * late_s / d["substep_ms"])


@jit
def take_sample(s: State, h: History, d: Record, place: int, length: int) -> None:
    """Read all counters since the last reading or restart, with noise; written at two places of the ring."""
    run = s.run[0]
    noise = count_in(count_in(run["luck"], NOISE), run["interval"])
    missing = count_in(count_in(run["luck"], MISSING), run["interval"])
    window_s = run["metric_window_s"]
    reported = run["now_ms"] >= run["reported_from_ms"] and window_s > 0.0
    latency_s, p95_s = np.nan, np.nan
    if run["metric_left"] > 0.0:
        factor = max(0.0, 1.0 + d["metric_noise"] * draw_normal(count_in(count_in(noise, -1), _LATENCY)))
        latency_s = run["metric_latency_moment"] / run["metric_left"] * factor
        p95_s = quantile(s, METRICS, 0.95 * run["metric_left"]) * factor
    for at in (place, place + length):
        h.present[at] = True
        h.latency_s[at] = latency_s
        h.latency_p95_s[at] = p95_s
    for vertex in range(run["vertex_count"]):
        complete = reported and uniform_of(count_in(missing, vertex)) >= d["missing"]
        sample_vertex(s, h, d, place, vertex, complete, count_in(noise, vertex))
        copy_sample(h, place, place + length, vertex)
    forget_metrics(s)


@jit
def sample_vertex(
    s: State, h: History, d: Record, place: int, vertex: int, complete: bool, noise: np.uint64
) -> None:
    """The numbers of one vertex; zeros where they are not complete."""
    v = s.vertices[vertex]
    h.complete[place, vertex] = complete
    h.parallelism[place, vertex] = v["parallelism"]
    known = 1.0 if complete else 0.0
    window_s = s.run[0]["metric_window_s"] if complete else 1.0
    size = d["metric_noise"]
    factor_in = max(0.0, 1.0 + size * draw_normal(count_in(noise, _IN)))
    factor_out = max(0.0, 1.0 + size * draw_normal(count_in(noise, _OUT)))
    h.records_in[place, vertex] = known * v["metric_in"] / window_s * factor_in
    h.records_out[place, vertex] = known * v["metric_out"] / window_s * factor_out
    busy = v["metric_busy_s"] / window_s + size * draw_normal(count_in(noise, _BUSY))
    busy = min(1.0, max(0.0, busy))
    blocked = v["metric_blocked_s"] / window_s + size * draw_normal(count_in(noise, _BLOCKED))
    blocked = min(1.0 - busy, max(0.0, blocked))
    h.busy[place, vertex] = known * busy
    h.backpressured[place, vertex] = known * blocked
    h.idle[place, vertex] = known * (1.0 - busy - blocked)
    h.state_mb[place, vertex] = known * state_of_vertex(v, s.run[0])
    fill_gauges(s, h, d, place, vertex, known)


@jit
def fill_gauges(s: State, h: History, d: Record, place: int, vertex: int, known: float) -> None:
    """What waits before a source, and how full the buffers before the others are."""
    v = s.vertices[vertex]
    amount, bound = 0.0, 0.0
    for at in range(v["first_in"], v["first_in"] + v["ins"]):
        q = s.queues[s.inputs[at]]
        amount += q["amount"]
        bound += bound_of(d, q)
    if v["source"] >= 0:
        h.pending[place, vertex] = known * amount
        h.queue_fill[place, vertex] = 0.0
    else:
        h.pending[place, vertex] = 0.0
        h.queue_fill[place, vertex] = known * min(1.0, amount / bound)


@jit
def copy_sample(h: History, place: int, other: int, vertex: int) -> None:
    h.complete[other, vertex] = h.complete[place, vertex]
    h.records_in[other, vertex] = h.records_in[place, vertex]
    h.records_out[other, vertex] = h.records_out[place, vertex]
    h.busy[other, vertex] = h.busy[place, vertex]
    h.backpressured[other, vertex] = h.backpressured[place, vertex]
    h.idle[other, vertex] = h.idle[place, vertex]
    h.queue_fill[other, vertex] = h.queue_fill[place, vertex]
    h.pending[other, vertex] = h.pending[place, vertex]
    h.parallelism[other, vertex] = h.parallelism[place, vertex]
    h.state_mb[other, vertex] = h.state_mb[place, vertex]


@jit
def close_interval(s: State, d: Record) -> None:
    """What the interval was like, in truth, and what it was worth."""
    run = s.run[0]
    if run["left"] > 0.0:
        run["latency_s"] = run["latency_moment"] / run["left"]
        run["latency_p95_s"] = quantile(s, TRUTH, 0.95 * run["left"])
    else:
        run["latency_s"] = oldest_age_s(s)
        run["latency_p95_s"] = run["latency_s"]
    run["backlog"] = 0.0
    for source in range(run["source_count"]):
        run["backlog"] += s.queues[run["edge_count"] + source]["amount"]
    run["utilisation"] = run["busy_subtask_s"] / run["subtask_s"]
    run["slots"] = slots_of(s)
    weight = d["latency_weight"]
    reward = -weight * min(run["latency_s"] / d["slo_s"], 10.0) / 10.0 + (1.0 - weight) * run["utilisation"]
    if run["rescaled"]:
        reward -= d["rescale_cost"]
    if run["latency_s"] > d["slo_s"]:
        reward -= d["violation_cost"]
    run["reward"] = reward
    run["interval"] += 1


@jit
def oldest_age_s(s: State) -> float:
    """Age of the oldest record anywhere in the job; 0 if there is none. Outages must count."""
    run = s.run[0]
    oldest = math.inf
    for queue in range(run["edge_count"] + run["source_count"]):
        q = s.queues[queue]
        if q["count"] > 0:
            oldest = min(oldest, s.chunks[queue, q["head"]]["birth"])
    return max(0.0, 0.001 * run["now_ms"] - oldest) if oldest < math.inf else 0.0


@jit
def quantile(s: State, kind: int, amount: float) -> float:
    """Mean latency of the bin in which this many records are reached."""
    reached, last = 0.0, 0.0
    for number in range(BINS):
        inside = s.histograms[kind, number, 0]
        if inside > 0.0:
            reached += inside
            last = s.histograms[kind, number, 1] / inside
            if reached >= amount:
                break
    return last
