"""Lay out jobs and traces for the engine, and draw in what way they differ from what is known of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import hash_counters, uniform
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.problem import Graph, Integers, slots_taken
from trimtab.stream_autoscaling.simulator.draws import ARRIVALS, CAPACITY, PHASE, SPREAD
from trimtab.stream_autoscaling.simulator.state import NEVER, State, new_state
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = [
    "Factors",
    "draw_factors",
    "first_hour_rate",
    "lay_out",
    "queue_count",
    "room_for",
]

Floats = NDArray[np.float64]


def first_hour_rate(trace: RateTrace) -> float:
    """Records per second in the first hour: what a job is set up for; the mean of all if that is nothing."""
    steps = max(1, math.ceil(3600 / trace.step_s))
    return float(trace.rates[:steps].mean()) or float(trace.rates.mean())


def fit_into_slots(parallelism: Integers, graph: Graph, slots: int) -> Integers:
    """Cut every vertex down to the largest common limit at which the job fits; [1, V]."""
    if slots == 0:
        return parallelism
    for limit in range(int(parallelism.max()), 0, -1):
        cut = np.maximum(np.minimum(parallelism, limit), graph.least) * graph.exists
        if slots_taken(cut, graph)[0] <= slots:
            return cut
    needed = int(slots_taken(graph.least, graph)[0])
    raise WorkloadError(
        f"{slots} slots; the job takes {needed} at its least parallelism, give at least those"
    )


class Factors(NamedTuple):
    """How an episode's job differs from what is known of it: true value = known value x factor."""

    service: Floats  # [V]
    scaling: Floats  # [V]
    hot_share: Floats  # [V]
    state: Floats  # [V]
    selectivity: Floats  # by edge
    restart: Floats  # [1]


def draw_factors(job: Job, seed: int, spread: float) -> Factors:
    """Each within `spread` of 1, drawn by the seed alone, so that two policies meet the same job."""
    vertices, edges = len(job.vertices), len(job.edges)
    counts = (vertices, vertices, vertices, vertices, edges, 1)
    return Factors._make(
        1 + spread * (2 * uniform(seed, SPREAD, number, np.arange(count)) - 1)
        for number, count in enumerate(counts)
    )


def queue_count(job: Job) -> int:
    """Edges, and a backlog and a replay for each source."""
    return len(job.edges) + 2 * int(job.is_source.sum())


def room_for(jobs: Sequence[Job], traces: Sequence[RateTrace]) -> State:
    """A batch that holds the largest of these."""
    return new_state(
        len(jobs),
        vertices=max(len(job.vertices) for job in jobs),
        queues=max(queue_count(job) for job in jobs),
        inputs=max(len(job.edges) + len(job.vertices) for job in jobs),
        trace_steps=max(len(trace.rates) for trace in traces),
    )


def lay_out(
    row: State,
    job: Job,
    trace: RateTrace,
    deployment: Deployment,
    graph: Graph,
    *,
    seed: int,
    parallelism: Integers,
) -> None:
    """Put one environment at the beginning of an episode. `graph` is that of the job alone, unpadded."""
    for field in (row.vertices, row.queues, row.histograms):
        field[:] = 0
    for name in row.run[0].dtype.names:
        row.run[0][name] = 0
    factors = draw_factors(job, seed, deployment.spread)
    _lay_out_vertices(row, job, graph, factors, parallelism)
    _lay_out_queues(row, job, factors)
    _lay_out_run(row, job, trace, deployment, seed)
    row.run[0]["restart_factor"] = factors.restart[0]
    row.run[0]["downtime_s"] = (
        deployment.restart_s + sum(v.state_mb for v in job.vertices) / deployment.restore_mb_per_s
    )


def _lay_out_run(row: State, job: Job, trace: RateTrace, deployment: Deployment, seed: int) -> None:
    run = row.run[0]
    checkpoint_ms = round(1000 * deployment.checkpoint_s)
    values = {
        "vertex_count": len(job.vertices),
        "edge_count": len(job.edges),
        "source_count": int(job.is_source.sum()),
        "trace_steps": len(trace.rates),
        "trace_step_ms": 1000 * trace.step_s,
        "start_ms": round(1000 * trace.start_s),
        "intervals": int((trace.length_s + 1e-6) // deployment.interval_s),
        # Checkpoints do not keep step with decisions: the first comes anywhere within the first period.
        "next_checkpoint_ms": int(checkpoint_ms * float(uniform(seed, PHASE))),
        "barrier_ms": NEVER,
        "completes_ms": NEVER,
        "commanded_ms": NEVER,
        "restarted_ms": NEVER,
        "luck": hash_counters(seed),
        "arrival_luck": hash_counters(seed, ARRIVALS),
        "capacity_luck": hash_counters(seed, CAPACITY),
    }
    for name, value in values.items():
        run[name] = value
    row.rates[:] = 0
    row.rates[: len(trace.rates)] = trace.rates


def _lay_out_vertices(row: State, job: Job, graph: Graph, factors: Factors, parallelism: Integers) -> None:
    count = len(job.vertices)
    rows = row.vertices[:count]
    for name in ("scaling", "service_spread", "hot_share", "state_mb", "record_bytes", "key_groups"):
        rows[name] = [getattr(vertex, name) for vertex in job.vertices]
    rows["service_s"] = [vertex.service_ms / 1000 for vertex in job.vertices]
    rows["window_ms"] = [math.ceil(1000 * vertex.window_s) for vertex in job.vertices]
    rows["service_s"] *= factors.service
    rows["scaling"] = np.clip(rows["scaling"] * factors.scaling, 0.05, 1)
    rows["hot_share"] = np.minimum(rows["hot_share"] * factors.hot_share, 1)
    rows["state_mb"] *= factors.state
    rows["share"] = job.source_shares
    rows["slot_group"] = graph.slot_group[0]
    rows["parallelism"] = rows["wanted"] = parallelism
    is_source = job.is_source
    rows["source"] = np.where(is_source, np.cumsum(is_source) - 1, NEVER)


def _lay_out_queues(row: State, job: Job, factors: Factors) -> None:
    """Edges by source, so that those of one vertex lie together; then backlogs; then replays."""
    order = sorted(range(len(job.edges)), key=lambda e: (job.edges[e].source, job.edges[e].target))
    rows, vertices = row.queues, row.vertices
    for place, edge in enumerate(order):
        one = job.edges[edge]
        rows[place]["source"], rows[place]["target"], rows[place]["forward"] = (
            one.source,
            one.target,
            one.forward,
        )
        rows[place]["selectivity"] = one.selectivity * factors.selectivity[edge]
    edges, sources = len(order), int(job.is_source.sum())
    rows["bound"][edges:] = np.inf
    used = 0
    for index in range(len(job.vertices)):
        outs = [place for place, edge in enumerate(order) if job.edges[edge].source == index]
        ins = [place for place, edge in enumerate(order) if job.edges[edge].target == index]
        if vertices[index]["source"] >= 0:
            ins = [edges + int(vertices[index]["source"])]
            rows[ins[0]]["target"] = rows[ins[0] + sources]["target"] = index
        vertices[index]["first_out"], vertices[index]["outs"] = (outs[0] if outs else 0), len(outs)
        vertices[index]["first_in"], vertices[index]["ins"] = used, len(ins)
        row.inputs[used : used + len(ins)] = ins
        used += len(ins)
