"""What an interval was worth: the two rewards of `deployment.Objective`, for many services at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.pod_autoscaling.deployment import Objective
from trimtab.pod_autoscaling.problem import Floats

__all__ = ["Truth", "aware_reward", "lagrangian_reward"]


class Truth(NamedTuple):
    """What the last interval was, [E] each; what metrics say of it may differ. See `Episode`."""

    arrived: Floats
    finished: Floats
    late: Floats
    failed: Floats
    latency_s: Floats
    latency_p50_s: Floats
    latency_p99_s: Floats
    in_flight: Floats
    ready: Floats
    cores_held: Floats
    memory_held: Floats
    cores_used: Floats
    memory_used: Floats
    throttled: Floats
    kills: Floats
    tail_s: Floats  # the 99th percentile of all that finished, a failed request being never answered
    cores_needed: Floats  # for the work of the finished


def aware_reward(truth: Truth, slo_s: Floats, weight: float) -> Floats:
    """w x (mean share of CPU and memory that is used) + (1 - w) x min(limit / 99th percentile, 1).

    >>> one = Truth._make(np.full((17, 1), 2.0))._replace(tail_s=np.array([0.5]), cores_held=np.array([4.0]))
    >>> aware_reward(one, np.array([0.4]), 0.3).round(3).tolist()  # 0.3 x (0.5 + 1) / 2 + 0.7 x 0.8
    [0.785]
    """
    cpu = truth.cores_used / np.maximum(truth.cores_held, 1e-12)
    memory = truth.memory_used / np.maximum(truth.memory_held, 1e-12)
    # An interval in which nobody waited for anything is perfect: 0 s.
    preserved = np.minimum(slo_s / np.maximum(truth.tail_s, 1e-12), 1.0)
    return weight * (cpu + memory) / 2 + (1 - weight) * preserved


def lagrangian_reward(truth: Truth, objective: Objective, multiplier: Floats, scale_cores: Floats) -> Floats:
    """Minus the price of what is held and the fine for requests above the budget, over `scale_cores`.

    >>> one = Truth._make(np.zeros((17, 1)))._replace(
    ...     finished=np.array([100.0]),
    ...     late=np.array([3.0]),
    ...     cores_held=np.array([2.0]),
    ...     memory_held=np.array([1024.0]),
    ...     cores_needed=np.array([1.0]),
    ... )
    >>> lagrangian_reward(one, Objective(), np.array([20.0]), np.array([1.0])).round(6).tolist()
    [-2.52]
    """
    held = truth.cores_held + objective.memory_price * truth.memory_held / 1024
    # 2 + 0.12 for what is held, and 2 of 100 requests above the budget, at 20 cores per core needed: 0.4.
    above = truth.late / np.maximum(truth.finished, 1.0) - objective.budget
    return -(held + multiplier * truth.cores_needed * above) / scale_cores
