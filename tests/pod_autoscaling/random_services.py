"""Random small services: applications, traces, deployments, commands; every rule of the engine comes up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY, Change, Drift

INTERVALS = 6


class Instance(NamedTuple):
    application: Application
    rates: np.ndarray
    deployment: Deployment
    drift: Drift
    wanted: np.ndarray  # [T, 3]


def random_instance(number: int, **fixed: object) -> Instance:
    """Deployment settings that are given are not drawn."""
    rng = np.random.default_rng(number)
    deployment = random_deployment(rng, fixed)
    seconds = INTERVALS * deployment.interval_s
    application = random_application(rng)
    # Up to 3 times what the start can do, so that queues fill up.
    cores = deployment.start_replicas * deployment.start_cpu
    most = min(rng.uniform(0.2, 3) * cores / application.cpu_s, 60.0)
    rates = most * rng.uniform(0, 1, seconds) * (rng.uniform(size=seconds) < 0.9)
    return Instance(application, rates, deployment, random_drift(rng, seconds), random_sizes(rng, deployment))


def random_application(rng: np.random.Generator) -> Application:
    segments = tuple(
        Segment(
            name=f"s{number}",
            cpu_ms=float(rng.choice([5.0, 20.0, 80.0, 300.0])),
            cpu_variation=float(rng.choice([0.0, 0.3, 1.0, 4.0])),
            io_ms=float(rng.choice([0.0, 10.0, 200.0])),
            io_variation=float(rng.choice([0.0, 1.0])),
        )
        for number in range(rng.integers(1, 4))
    )
    return Application(
        segments=segments,
        cores_per_request=float(rng.choice([0.5, 1.0, 2.0])),
        workers=int(rng.choice([1, 2, 4, 64])),
        queue=int(rng.choice([0, 2, 20])),
        timeout_s=float(rng.choice([0.5, 2.0, 30.0])),
        memory_mib=float(rng.uniform(20, 120)),
        memory_per_request_mib=float(rng.choice([0.0, 1.0, 20.0])),
        cache_mib=float(rng.choice([0.0, 50.0])),
        cache_requests=float(rng.choice([0.5, 20.0])),
        leak_mib_per_hour=float(rng.choice([0.0, 3600.0, 20_000.0])),
        start_s=float(rng.choice([0.3, 2.0])),
        start_spread=float(rng.choice([0.0, 0.5])),
        start_cpu_s=float(rng.choice([0.0, 0.5, 3.0])),
    )


def random_deployment(rng: np.random.Generator, fixed: dict[str, object]) -> Deployment:
    drawn: dict[str, object] = {
        "interval_s": int(rng.choice([1, 3, 8])),
        "history": 4,
        "most_replicas": 6,
        "start_replicas": int(rng.integers(1, 5)),
        "start_cpu": float(rng.choice([0.2, 1.0, 2.0])),
        "start_memory_mib": float(rng.choice([64.0, 128.0, 512.0])),
        "nodes": int(rng.choice([0, 0, 1, 2, 3])),
        "node_cpu": float(rng.choice([2.0, 4.0])),
        "node_memory_mib": float(rng.choice([512.0, 2048.0])),
        "sharing": str(rng.choice(["ps", "cfs"])),
        "period_ms": int(rng.choice([20, 100])),
        "balancing": str(rng.choice(["two-choices", "random", "round-robin"])),
        "schedule_s": float(rng.choice([0.0, 0.4, 1.0])),
        "pull_s": float(rng.choice([0.0, 0.7])),
        "drain_s": float(rng.choice([0.0, 0.5, 30.0])),
        "resize": str(rng.choice(["in_place", "in_place", "restart"])),
        "resize_s": float(rng.choice([0.0, 0.3, 2.0])),
        "restart_s": float(rng.choice([0.0, 0.5])),
        "backoff_s": float(rng.choice([0.5, 3.0])),
        "longest_backoff_s": 4.0,
        "burst": float(rng.choice([1.0, 2.0, 20.0])),
        "metric_window_s": float(rng.choice([1.0, 2.5, 4.0])),
        "metric_lag_s": float(rng.choice([0.0, 1.5, 5.0])),
        "report_lag_s": float(rng.choice([0.0, 1.0, 2.0])),
        "missing": float(rng.choice([0.0, 0.2])),
        "metric_noise": float(rng.choice([0.0, 0.1])),
    }
    return Deployment.model_validate(drawn | fixed)


def random_drift(rng: np.random.Generator, seconds: int) -> Drift:
    if rng.uniform() < 0.5:
        return STEADY
    times = np.unique(rng.integers(0, seconds, 2))
    return Drift(
        changes=tuple(
            Change(
                at_s=int(at_s),
                cpu=float(rng.uniform(0.5, 2)),
                io=float(rng.choice([0.0, 1.0, 2.0])),
                memory=float(rng.uniform(0.8, 1.3)),
                request_memory=float(rng.choice([0.5, 3.0])),
                start=float(rng.uniform(0.5, 2)),
            )
            for at_s in times
        )
    )


def random_sizes(rng: np.random.Generator, deployment: Deployment) -> np.ndarray:
    """What is asked for, interval by interval; some of it larger than any node."""
    size = np.array([deployment.start_replicas, deployment.start_cpu, deployment.start_memory_mib])
    sizes = []
    for _ in range(INTERVALS):
        if rng.uniform() < 0.6:
            size[0] = rng.integers(1, 7)
        if rng.uniform() < 0.4:
            size[1] = rng.choice([0.1, 0.3, 1.0, 1.5, 3.0])
        if rng.uniform() < 0.4:
            size[2] = rng.choice([64, 112, 256, 640])
        sizes.append(size.copy())
    return np.array(sizes)
