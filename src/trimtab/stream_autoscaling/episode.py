"""What became of a simulated job: the numbers every comparison and picture is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["METRICS", "Episode", "left_scale"]

METRICS: dict[str, str] = {
    "cost": "what the reward of an interval lacks of the best there is, on average; 0 is perfect",
    "reward": "mean reward of an interval; the higher the better",
    "latency_s": "mean latency of a record, from arrival to sink",
    "latency_p95_s": "95th percentile of the latency of records",
    "violation_share": "share of the time in which the mean latency exceeds the limit",
    "rescales": "restarts of the job per day",
    "slot_hours": "slots taken, summed over time, per day",
    "subtask_hours": "parallelism of all vertices, summed over time, per day",
    "utilisation": "busy subtasks over all subtasks",
    "downtime_share": "share of the time in which the job stood still",
    "unprocessed_share": "records that had arrived and not been read at the end, over all",
}


@dataclass(frozen=True, eq=False)
class Episode:
    """One job under one policy; arrays have one entry per interval, the truth and not what metrics said."""

    policy: str
    job: str
    seed: int
    vertex_names: tuple[str, ...]
    interval_s: float
    start_s: float
    slo_s: float
    arrived: NDArray[np.float64]  # [T] records per second
    left: NDArray[np.float64]  # [T] records per second that reached sinks
    latency_s: NDArray[np.float64]  # [T] mean of the records that reached sinks; see the engine for outages
    latency_p95_s: NDArray[np.float64]  # [T]
    backlog: NDArray[np.float64]  # [T] records waiting before sources, at the end of the interval
    parallelism: NDArray[np.int64]  # [T, V] at the end of the interval
    busy: NDArray[np.float64]  # [T, V]
    slots: NDArray[np.int64]  # [T]
    down_s: NDArray[np.float64]  # [T] seconds the job stood still
    rescaled: NDArray[np.bool_]  # [T] a restart began in this interval
    rewards: NDArray[np.float64]  # [T]
    best_reward: float  # no latency, every subtask busy, no restart

    def metrics(self) -> dict[str, float]:
        """The measures of `METRICS`."""
        days = len(self.rewards) * self.interval_s / 86_400
        hours = self.interval_s / 3600
        weight = self.left
        some = weight.sum() > 0
        subtasks = self.parallelism.sum(1)
        return {
            "cost": self.best_reward - float(self.rewards.mean()),
            "reward": float(self.rewards.mean()),
            "latency_s": float(np.average(self.latency_s, weights=weight)) if some else float("inf"),
            "latency_p95_s": _weighted_quantile(self.latency_p95_s, weight, 0.95) if some else float("inf"),
            "violation_share": float((self.latency_s > self.slo_s).mean()),
            "rescales": float(self.rescaled.sum() / days),
            "slot_hours": float(self.slots.sum() * hours / days),
            "subtask_hours": float(subtasks.sum() * hours / days),
            "utilisation": float((self.busy * self.parallelism).sum() / subtasks.sum()),
            "downtime_share": float(self.down_s.sum() / (len(self.rewards) * self.interval_s)),
            "unprocessed_share": float(self.backlog[-1] / max(self.arrived.sum() * self.interval_s, 1e-12)),
        }


# Beyond this ratio of records that arrive to records that leave, one axis does not show both.
_WIDEST_RATIO = 2.0


def left_scale(episodes: Sequence[Episode]) -> float:
    """What records that left are multiplied with in pictures, to stand beside those that arrived.

    How many leave for each that arrives depends on the job. The scale is 1 where the two are near enough.
    """
    arrived = sum(float(episode.arrived.sum() * episode.interval_s) for episode in episodes)
    left = sum(float(episode.left.sum() * episode.interval_s) for episode in episodes)
    if arrived <= 0 or left <= 0 or 1 / _WIDEST_RATIO <= arrived / left <= _WIDEST_RATIO:
        return 1.0
    return float(f"{arrived / left:.2g}")


def _weighted_quantile(values: NDArray[np.float64], weights: NDArray[np.float64], share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][min(np.searchsorted(reached, share), len(values) - 1)])
