"""What an interval was worth to a learner: by the truth in a simulator, by metrics in a live cluster.

Both rewards of `deployment.Objective`. Cores count in shares of those that the service usually uses, which
metrics tell: a service of one core and one of fifty are worth the same, and nobody need know the future.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.pod_autoscaling.aware.design import Design
from trimtab.pod_autoscaling.deployment import Objective
from trimtab.pod_autoscaling.problem import Floats, Snapshot
from trimtab.pod_autoscaling.rewards import Truth, aware_reward

__all__ = ["Spent", "as_measured", "objective_of", "reward_of", "spent_of"]

# A service that has broken down is bad enough; how bad teaches nothing.
_LEAST = -10.0


def objective_of(design: Design, budget: float) -> Objective:
    """The objective that a design was made for."""
    return Objective(
        reward=design.reward,
        utilisation_weight=design.utilisation_weight,
        budget=budget,
        memory_price=design.memory_price,
        multiplier=design.multiplier,
    )


class Spent(NamedTuple):
    """An interval in shares of the cores that a service usually uses, [E] each."""

    held: Floats  # what was held, CPU and memory
    late: Floats  # cores that the late requests above the budget needed


def spent_of(lived: Truth, budget: Floats, usual_cores: Floats, design: Design) -> Spent:
    """The two parts of the lagrangian reward."""
    held = lived.cores_held + design.memory_price * lived.memory_held / 1024
    above = lived.late / np.maximum(lived.finished, 1e-9) - budget
    # Nothing finished, nothing late: not even below the budget.
    above = np.where(lived.finished > 0, above, 0.0)
    return Spent(held / usual_cores, lived.cores_needed * above / usual_cores)


def reward_of(
    lived: Truth, slo_s: Floats, budget: Floats, usual_cores: Floats, prices: Floats, design: Design
) -> Floats:
    """The worth of an interval, [E]; `prices` are the multipliers of the services."""
    if design.reward == "aware":
        return aware_reward(lived, slo_s, design.utilisation_weight)
    spent = spent_of(lived, budget, usual_cores, design)
    return np.maximum(-(spent.held + prices * spent.late), _LEAST)


def as_measured(snapshot: Snapshot) -> Truth:
    """The last interval as metrics told it; what they do not tell of is 0."""
    last = {name: values[:, -1] for name, values in snapshot.samples._asdict().items()}
    nothing = np.zeros(len(snapshot.size))
    finished = np.maximum(last["rate"] * snapshot.interval_s, 1e-9)
    held = last["replicas"] * last["cpu_limit"]
    memory = last["replicas"] * last["memory_limit"]
    return Truth(
        arrived=finished,
        finished=finished,
        late=last["late"] * finished,
        failed=last["failed"] * finished,
        latency_s=last["latency_s"],
        latency_p50_s=last["latency_p50_s"],
        latency_p99_s=last["latency_p99_s"],
        in_flight=last["in_flight"],
        ready=last["ready"],
        cores_held=held,
        memory_held=memory,
        cores_used=last["cpu"],
        memory_used=last["replicas"] * last["memory"],
        throttled=last["throttled"],
        kills=last["kills"],
        tail_s=np.where(last["failed"] > 0.01, np.inf, last["latency_p99_s"]) + nothing,
        cores_needed=last["cpu"],
    )
