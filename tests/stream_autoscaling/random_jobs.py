"""Random jobs, traces, settings and actions for tests of the engine; one number, one instance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.stream_autoscaling.deployment import Deployment, Objective
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace


class Instance(NamedTuple):
    job: Job
    trace: RateTrace
    deployment: Deployment
    parallelism: np.ndarray  # [V] to begin with
    wanted: np.ndarray  # [T, V] asked for, interval by interval


def random_job(rng: np.random.Generator, *, most_vertices: int = 7, plain: bool = False) -> Job:
    """`plain`: linear scaling, no keys, no windows, constant service times."""
    count = int(rng.integers(1, most_vertices + 1))
    vertices = tuple(_random_vertex(rng, index, plain=plain) for index in range(count))
    edges = []
    for target in range(1, count):
        if rng.random() < 0.2:
            continue  # another source
        parents = rng.choice(target, size=min(target, int(rng.integers(1, 4))), replace=False)
        edges += [
            Edge(int(parent), target, float(rng.choice([1.0, 0.3, 2.0, 0.75])), bool(rng.random() < 0.3))
            for parent in parents
        ]
    return Job("random", vertices, tuple(edges))


def _random_vertex(rng: np.random.Generator, index: int, *, plain: bool) -> Vertex:
    common = {
        "name": f"v{index}",
        "service_ms": float(np.exp(rng.uniform(np.log(0.2), np.log(20)))),
        "record_bytes": float(rng.choice([50, 200, 5_000, 50_000])),
        "input_share": float(rng.uniform(0.5, 2)),
        "state_mb": float(rng.choice([0, 0, 30, 300])),
        "slot_group": str(rng.choice(["default", "default", "heavy"])),
        "most_parallelism": 24,
    }
    if plain:
        return Vertex(**common)
    scaling = float(rng.choice([1.0, 0.9, 0.8]))
    service_spread = float(rng.choice([0.0, 0.0, 0.5, 1.0, 1.5]))
    key_groups = int(rng.choice([0, 0, 7, 128]))
    hot_share = float(rng.choice([0.0, 0.1, 0.3]))
    return Vertex(
        **common,
        scaling=scaling,
        service_spread=service_spread,
        key_groups=key_groups,
        hot_share=hot_share if key_groups else 0.0,
        window_s=float(rng.choice([0, 0, 0, 2.5, 10, 45])),
    )


def random_trace(rng: np.random.Generator, *, length_s: float) -> RateTrace:
    """Steps of a length that fits neither intervals nor substeps, with silences and bursts."""
    step_s = float(rng.choice([0.7, 5, 33]))
    rates = rng.uniform(0, 300, int(np.ceil(length_s / step_s)) + 1) * rng.choice([0, 1, 1, 1, 4])
    rates[0] += 50
    return RateTrace(rates, step_s, Provenance("random"), start_s=float(rng.integers(0, 86_400)))


def random_deployment(rng: np.random.Generator, **fixed: object) -> Deployment:
    interval_s = int(rng.choice([10, 20, 30]))
    values: dict[str, object] = {
        "interval_s": interval_s,
        "substep_ms": int(rng.choice([500, 1000, 2000])),
        "history": 3,
        "slots": int(rng.choice([0, 0, 30])),
        "slots_per_worker": int(rng.choice([2, 8])),
        "worker_start_s": float(rng.choice([0, 7.5])),
        "cores": float(rng.choice([0, 0, 4])),
        "checkpoint_s": float(rng.choice([1.5, 5, 17])),
        "rescale": str(rng.choice(["after_checkpoint", "at_once"])),
        "checkpoint_patience": int(rng.choice([1, 3])),
        "restart_s": float(rng.choice([0.3, 0.75, 6])),
        "cooldown_s": float(rng.choice([0, 15])),
        "buffer_timeout_ms": float(rng.choice([0, 100])),
        "segment_bytes": int(rng.choice([4096, 32_768])),
        "debloat_s": float(rng.choice([0, 0, 1])),
        "arrivals": str(rng.choice(["smooth", "poisson"])),
        "staleness_s": float(rng.choice([0, 6])),
        "missing": float(rng.choice([0, 0.1])),
        "missing_after_s": float(rng.choice([0, 20])),
        "spread": float(rng.choice([0, 0.3])),
        "objective": Objective(slo_s=float(rng.choice([1, 5]))),
    }
    return Deployment(**(values | fixed))  # pyright: ignore[reportArgumentType]


def random_instance(number: int, *, intervals: int = 7, plain: bool = False, **fixed: object) -> Instance:
    rng = np.random.default_rng(number)
    job = random_job(rng, plain=plain)
    deployment = random_deployment(rng, **fixed)
    trace = random_trace(rng, length_s=intervals * deployment.interval_s)
    count = len(job.vertices)
    limits = [min(vertex.most_parallelism, vertex.key_groups or 99) for vertex in job.vertices]
    start = np.minimum(rng.integers(1, 7, count), limits)
    wanted = np.minimum(rng.integers(1, 13, (intervals, count)), limits)
    stays = rng.random(intervals) < 0.5
    for at in range(intervals):
        if stays[at]:
            wanted[at] = wanted[at - 1] if at else start
    return Instance(job, trace, deployment, start, wanted)
