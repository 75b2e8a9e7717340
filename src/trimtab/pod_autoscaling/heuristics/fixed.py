"""A size that never moves."""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.measures import POD_CPU, size_of
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.problem import Floats, Services, Snapshot

__all__ = ["StaticDecider", "static"]


def static() -> Rule:
    """The same size all the time; each of its numbers may be left as the service was started (0)."""
    return Rule(
        "static",
        StaticDecider,
        (
            Parameter(
                "replicas",
                0.0,
                "pods; 0: as started",
                (0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20),
                low=0.0,
                high=1000.0,
                whole=True,
            ),
            POD_CPU,
            Parameter("memory", 0.0, "MiB of a pod; 0: as they are", low=0.0, high=1e6),
        ),
    )


class StaticDecider:
    """The same size all the time; each of its numbers may be left as the service was started (0)."""

    def __init__(self, services: Services, values: Values) -> None:
        given = np.array([values["replicas"], values["cpu"], values["memory"]])
        self._given = np.where(given > 0, given, np.nan)

    def decide(self, snapshot: Snapshot) -> Floats:
        replicas, cpu, memory = (np.full(len(snapshot.size), one) for one in self._given)
        return size_of(snapshot, replicas=replicas, cpu=cpu, memory=memory)
