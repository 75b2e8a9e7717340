"""Made-up episodes for tests of pictures and reports: a wave of requests, and a rule that lags behind it."""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.episode import Episode

SLO_S, BUDGET, WORK_S = 0.4, 0.01, 0.02


def made_up_episode(
    policy: str = "hpa",
    *,
    application: str = "made-up",
    intervals: int = 480,
    interval_s: float = 15.0,
    start_s: float = 0.0,
    seed: int = 0,
    every: int = 8,
    headroom: float = 1.6,
    slo_s: float = SLO_S,
    late_factor: float = 1.0,
) -> Episode:
    """The rule holds `headroom` times the cores that are needed, looked up every so many intervals."""
    random = np.random.default_rng(seed)
    hours = (start_s + interval_s * np.arange(intervals)) / 3600
    rate = 200 * (1 + 0.5 * np.sin(2 * np.pi * hours)) * random.gamma(60, 1 / 60, intervals)
    arrived = random.poisson(rate * interval_s)
    needed = arrived * WORK_S / interval_s
    decided = headroom * needed[np.arange(intervals) // every * every]
    replicas = np.maximum(1, np.ceil(decided / 2))
    # In the second half pods are larger and have less memory, until one is killed in the last quarter.
    cpu = np.where(np.arange(intervals) < intervals // 2, 2.0, 2.5)
    memory = np.where(np.arange(intervals) < intervals // 2, 512.0, 384.0)
    held = replicas * cpu
    busy = np.minimum(needed / held, 0.98)
    late = random.binomial(arrived, np.clip(late_factor * 0.02 * busy**4, 0, 1))
    failed = late // 4
    kills = np.zeros(intervals, np.int64)
    kills[3 * intervals // 4] = 1
    latency_s = 0.05 / (1 - busy)
    used_memory = np.minimum(0.6 * memory * replicas, 250.0 * replicas)
    return Episode(
        policy=policy,
        application=application,
        seed=seed,
        interval_s=interval_s,
        start_s=start_s,
        slo_s=slo_s,
        budget=BUDGET,
        memory_price=0.12,
        multiplier=20.0,
        arrived=arrived,
        finished=arrived.copy(),
        late=late,
        failed=failed,
        latency_s=latency_s,
        latency_p50_s=0.7 * latency_s,
        latency_p99_s=5 * latency_s,
        in_flight=latency_s * rate,
        size=np.stack([replicas, cpu, memory], 1),
        ready=np.minimum(replicas, np.append(replicas[:1], replicas[:-1])),
        cores_held=held,
        memory_held=memory * replicas,
        cores_used=np.minimum(needed, held),
        memory_used=used_memory,
        throttled=np.clip(busy - 0.8, 0, 1),
        kills=kills,
        rewards=busy,
        rewards_aware=busy,
    )
