"""What became of a simulated service: the numbers every comparison and picture is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["METRICS", "Episode"]

METRICS: dict[str, str] = {
    "core_hours": "cores held by all pods, summed over time, per day",
    "memory_gib_hours": "memory held by all pods, summed over time, per day",
    "late_share": "requests that took longer than the limit, or failed, over all",
    "failed_share": "requests that were refused, lost or given up, over all",
    "violation_share": "share of the intervals in which more requests were late than the budget allows",
    "latency_s": "mean latency of a request that was answered",
    "latency_p99_s": "99th percentile of latency, mean over intervals weighted by requests",
    "cpu_utilisation": "cores used over cores held",
    "memory_utilisation": "memory used over memory held, mean over time",
    "kills": "pods that ran out of memory, per day",
    "replica_changes": "intervals in which the number of replicas was changed, per day",
    "resizes": "intervals in which the CPU or memory of pods was changed, per day",
    "reward": "mean reward of an interval; the higher the better",
    "reward_aware": "mean of AWARE's reward, whichever was trained with",
    "cost": "price of what was held plus the fine for late requests above the budget, per hour; see docs",
}


@dataclass(frozen=True, eq=False)
class Episode:
    """One service under one policy; one entry per interval, the truth and not what metrics said."""

    policy: str
    application: str
    seed: int
    interval_s: float
    start_s: float
    slo_s: float
    budget: float
    memory_price: float
    multiplier: float
    arrived: NDArray[np.int64]  # [T] requests
    finished: NDArray[np.int64]  # [T] requests that ended here, well or badly
    late: NDArray[np.int64]  # [T] of these: longer than slo_s, or failed
    failed: NDArray[np.int64]  # [T] of these: refused, lost in a kill, or given up
    latency_s: NDArray[np.float64]  # [T] mean of the answered; NaN if there were none
    latency_p50_s: NDArray[np.float64]  # [T]
    latency_p99_s: NDArray[np.float64]  # [T]
    in_flight: NDArray[np.float64]  # [T] requests inside, mean
    size: NDArray[np.float64]  # [T, 3] asked for, during the interval
    ready: NDArray[np.float64]  # [T] pods that served, mean
    cores_held: NDArray[np.float64]  # [T] of all pods that hold room on a node, mean
    memory_held: NDArray[np.float64]  # [T] MiB, likewise
    cores_used: NDArray[np.float64]  # [T] mean
    memory_used: NDArray[np.float64]  # [T] MiB of all pods, mean
    throttled: NDArray[np.float64]  # [T] share of time or periods in which pods had less CPU than they wanted
    kills: NDArray[np.int64]  # [T]
    rewards: NDArray[np.float64]  # [T]
    rewards_aware: NDArray[np.float64]  # [T]
    cores_needed: NDArray[np.float64] | None = None  # [T] for the work of the finished; None: as cores_used

    def metrics(self) -> dict[str, float]:
        """The measures of `METRICS`."""
        hours = len(self.arrived) * self.interval_s / 3600
        days = hours / 24
        finished = max(int(self.finished.sum()), 1)
        answered = (self.finished - self.failed) * np.isfinite(self.latency_s)
        changed = np.diff(self.size, axis=0) != 0
        late = self.late.sum() / finished
        held = self.cores_held.mean() + self.memory_price * self.memory_held.mean() / 1024
        # A fine in cores: of those that the work of the requests needs, even if it was never done.
        needed = self.cores_used if self.cores_needed is None else self.cores_needed
        fine = self.multiplier * needed.mean() * max(late - self.budget, 0.0)
        return {
            "core_hours": float(24 * self.cores_held.mean()),
            "memory_gib_hours": float(24 * self.memory_held.mean() / 1024),
            "late_share": float(late),
            "failed_share": float(self.failed.sum() / finished),
            "violation_share": float((self.late > self.budget * self.finished).mean()),
            "latency_s": _mean(self.latency_s, answered),
            "latency_p99_s": _mean(self.latency_p99_s, answered),
            "cpu_utilisation": float(self.cores_used.sum() / max(self.cores_held.sum(), 1e-12)),
            "memory_utilisation": float(self.memory_used.sum() / max(self.memory_held.sum(), 1e-12)),
            "kills": float(self.kills.sum() / days),
            "replica_changes": float(changed[:, 0].sum() / days),
            "resizes": float(changed[:, 1:].any(1).sum() / days),
            "reward": float(self.rewards.mean()),
            "reward_aware": float(self.rewards_aware.mean()),
            "cost": float(held + fine),
        }


def _mean(values: NDArray[np.float64], weights: NDArray[np.int64]) -> float:
    """A weighted mean of the values that are known; infinite if none is."""
    known = weights > 0
    return float(np.average(values[known], weights=weights[known])) if known.any() else float("inf")
