"""KEDA on requests: so many pods that each has its share of the rate, or of the requests inside.

KEDA hands the metric to Kubernetes' autoscaler as an external one with a target per pod, so tolerance,
stabilisation and rates of change are the autoscaler's. With both targets, the larger number counts.
"""

from __future__ import annotations

import math

from trimtab.core.errors import SettingsError
from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.hpa import BEHAVIOUR, ReplicaController, behaviour_of
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import (
    Failed,
    Proposal,
    combined_replicas,
    milli_units,
    per_pod_value_replicas,
)
from trimtab.pod_autoscaling.heuristics.measures import POD_CPU, known, latest, size_of
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.problem import REPLICAS, Floats, Services, Snapshot

__all__ = ["KedaDecider", "keda"]


def keda() -> Rule:
    """Replicas such that each has its share of the requests inside, or of the rate (KEDA)."""
    return Rule(
        "keda",
        KedaDecider,
        (
            Parameter(
                "in_flight",
                3.0,
                "requests inside per pod; 0: not looked at",
                (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24),
                low=0.0,
                high=1e6,
            ),
            Parameter("rate", 0.0, "requests per second per pod; 0: not looked at", low=0.0, high=1e9),
            POD_CPU,
            *BEHAVIOUR,
        ),
    )


class KedaDecider:
    """Replicas such that each has its share of the requests inside, or of the rate (KEDA)."""

    def __init__(self, services: Services, values: Values) -> None:
        self._cpu = values["cpu"] or None
        self._targets = {name: values[name] for name in ("in_flight", "rate") if values[name] > 0}
        if not self._targets:
            raise SettingsError("policy 'keda' has nothing to go by; give in_flight or rate a target above 0")
        self._behaviour = behaviour_of(values)
        self._controller = ReplicaController(services, self._behaviour)

    def decide(self, snapshot: Snapshot) -> Floats:
        samples, pods = snapshot.samples, snapshot.pods
        # Only what the newest interval says: an external metric that cannot be read is a failed one.
        newest = {
            name: latest(getattr(samples, name)[:, -1:], known(snapshot, getattr(samples, name))[:, -1:])
            for name in self._targets
        }
        present = (pods.exists & ~pods.ending).sum(1)
        outcomes = [
            combined_replicas(
                [self._proposal(int(present[row]), float(newest[name][row]), name) for name in newest],
                round(float(snapshot.size[row, REPLICAS])),
            )
            for row in range(len(present))
        ]
        replicas = self._controller.replicas(snapshot, outcomes)
        return size_of(snapshot, replicas=replicas, cpu=self._cpu)

    def _proposal(self, present: int, value: float, name: str) -> Proposal | Failed:
        if math.isnan(value):
            return Failed(f"no {name} is known")
        target = milli_units(self._targets[name])
        return per_pod_value_replicas(
            present, milli_units(value), target, tolerance=self._behaviour.tolerance
        )
