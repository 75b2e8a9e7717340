"""Made-up episodes for tests of pictures and reports: one queue, a daily curve, a rule that lags behind."""

from __future__ import annotations

import numpy as np

from trimtab.stream_autoscaling.episode import Episode

SLO_S = 5.0
BEST_REWARD = 0.3


def made_up_episode(
    policy: str = "ds2",
    *,
    vertices: int = 12,
    intervals: int = 1440,
    interval_s: float = 60.0,
    start_s: float = 0.0,
    seed: int = 0,
    every: int = 30,
    headroom: float = 1.4,
) -> Episode:
    """The rule sets capacity to `headroom` times what arrives, every so many intervals."""
    random = np.random.default_rng(seed)
    hours = (start_s + interval_s * np.arange(intervals)) / 3600
    arrived = 1000 * (1 + 0.6 * np.sin(2 * np.pi * (hours - 9) / 24)) * random.gamma(60, 1 / 60, intervals)
    arrived[intervals // 2 : intervals // 2 + intervals // 60] *= 2.2
    demand = random.uniform(0.5, 12, vertices) / 1000  # subtasks that one record per second keeps busy
    decided = headroom * arrived[np.arange(intervals) // every * every]
    parallelism = np.ceil(demand * decided[:, None]).astype(np.int64)
    rescaled = np.append(False, (np.diff(parallelism, axis=0) != 0).any(1))
    down_s = np.where(rescaled, random.uniform(3, 30, intervals), 0.0)
    capacity = (parallelism / demand).min(1) * (1 - down_s / interval_s)
    backlog = np.zeros(intervals)
    waiting = 0.0
    for at in range(intervals):
        waiting = max(0.0, waiting + (arrived[at] - capacity[at]) * interval_s)
        backlog[at] = waiting
    before = np.append(0, backlog[:-1])
    left = arrived - (backlog - before) / interval_s
    latency_s = 0.3 + (backlog + before) / 2 / capacity + down_s / 4
    busy = np.clip(left[:, None] * demand / parallelism, 0, 1)
    violated = latency_s > SLO_S
    utilisation = (busy * parallelism).sum(1) / parallelism.sum(1)
    rewards = 0.3 * utilisation - 0.07 * np.minimum(latency_s / SLO_S, 10) - 0.2 * rescaled - 0.5 * violated
    return Episode(
        policy=policy,
        job=f"made-up-{vertices}",
        seed=seed,
        vertex_names=tuple(_name(vertex, vertices) for vertex in range(vertices)),
        interval_s=interval_s,
        start_s=start_s,
        slo_s=SLO_S,
        arrived=arrived,
        left=left,
        latency_s=latency_s,
        latency_p95_s=1.6 * latency_s,
        backlog=backlog,
        parallelism=parallelism,
        busy=busy,
        slots=parallelism.max(1),
        down_s=down_s,
        rescaled=rescaled,
        rewards=rewards,
        best_reward=BEST_REWARD,
    )


def _name(vertex: int, vertices: int) -> str:
    if vertex == 0:
        return "source"
    return "sink" if vertex == vertices - 1 else f"operator-{vertex}"
