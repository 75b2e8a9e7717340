"""Kubernetes' horizontal pod autoscaler on CPU utilisation, with the controller's own arithmetic.

The formulas are in `kubernetes/`; here a snapshot is put into their words, service by service. Pods keep
their memory, and their CPU unless a size is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_behavior import (
    Behavior,
    Bounds,
    HpaMemory,
    decide,
    record_scale,
)
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import (
    Failed,
    PodSample,
    Proposal,
    milli_units,
    utilisation_replicas,
)
from trimtab.pod_autoscaling.heuristics.measures import POD_CPU, just_begun, size_of
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.problem import REPLICAS, Floats, Services, Snapshot

__all__ = [
    "BEHAVIOUR",
    "TARGET",
    "CpuUtilisation",
    "HpaDecider",
    "ReplicaController",
    "behaviour_of",
    "hpa",
    "pod_samples",
]

TARGET = Parameter(
    "target",
    70.0,
    "percent of the CPU request to aim at",
    (50, 60, 65, 70, 75, 80, 85, 90, 95),
    low=1.0,
    high=1000.0,
    whole=True,
)
BEHAVIOUR = (
    Parameter("tolerance", 0.1, "no change while the ratio is this close to 1", low=0.0, high=1.0),
    Parameter(
        "down_wait_s",
        300.0,
        "seconds whose largest recommendation is what is scaled down to",
        (0, 60, 120, 300, 600),
        low=0.0,
        high=3600.0,
    ),
    Parameter(
        "up_wait_s",
        0.0,
        "seconds whose smallest recommendation is what is scaled up to",
        low=0.0,
        high=3600.0,
    ),
)


def hpa() -> Rule:
    """Replicas in proportion to CPU utilisation over its target (Kubernetes HPA, exactly)."""
    return Rule("hpa", HpaDecider, (TARGET, POD_CPU, *BEHAVIOUR))


def behaviour_of(values: Values) -> Behavior:
    """What Kubernetes does by itself, with the waits and the tolerance of these settings."""
    usual, tolerance = Behavior(), values["tolerance"]
    return Behavior(
        replace(usual.up, stabilisation_s=values["up_wait_s"], tolerance=tolerance),
        replace(usual.down, stabilisation_s=values["down_wait_s"], tolerance=tolerance),
    )


def pod_samples(snapshot: Snapshot, service: int) -> list[PodSample]:
    """The pods of one service as the autoscaler sees them, with their CPU as the metric."""
    pods = snapshot.pods
    found: list[PodSample] = []
    for place in np.flatnonzero(pods.exists[service]):
        at = (service, place)
        started_s, changed_s = float(pods.started_s[at]), float(pods.ready_changed_s[at])
        measured = pods.measured[at] and np.isfinite(pods.cpu[at])
        found.append(
            PodSample(
                milli_units(float(pods.cpu[at])) if measured else None,
                milli_units(float(pods.cpu_request[at])),
                phase="Pending" if pods.pending[at] else "Running",
                deleted=bool(pods.ending[at]),
                ready=bool(pods.ready[at]),
                started_s=None if math.isnan(started_s) else started_s,
                # One that never was ready has had its condition, unready, since it began.
                ready_changed_s=started_s if math.isnan(changed_s) else changed_s,
                measured_s=float(pods.measured_s[at]) if measured else math.inf,
                window_s=snapshot.metric_window_s,
            )
        )
    return found


class ReplicaController:
    """The part of the autoscaler that remembers: stabilisation, rates of change and bounds, per service."""

    def __init__(self, services: Services, behaviour: Behavior) -> None:
        self._behaviour = behaviour
        least, most = services.least[:, REPLICAS], services.most[:, REPLICAS]
        self._bounds = [
            Bounds(math.ceil(low), math.floor(high)) for low, high in zip(least, most, strict=True)
        ]
        self._memory = [HpaMemory() for _ in self._bounds]
        self._asked: list[tuple[int, int, float] | None] = [None] * len(self._bounds)

    def replicas(self, snapshot: Snapshot, outcomes: Sequence[Proposal | Failed]) -> Floats:
        """What to scale to, [E], from what the metrics of each service propose."""
        fresh = just_begun(snapshot)
        wanted = np.zeros(len(outcomes))
        for row, outcome in enumerate(outcomes):
            if fresh[row]:
                self._memory[row], self._asked[row] = HpaMemory(), None
            current = round(float(snapshot.size[row, REPLICAS]))
            now_s, memory = float(snapshot.now_s[row]), self._memory[row]
            asked = self._asked[row]
            # A change counts when it has been made; a guard may have refused it.
            if asked is not None and asked[1] == current:
                record_scale(memory, self._behaviour, asked[0], asked[1], now_s=asked[2])
            decision = decide(memory, outcome, current, self._bounds[row], self._behaviour, now_s=now_s)
            self._asked[row] = (current, decision.replicas, now_s)
            wanted[row] = decision.replicas
        return wanted


class CpuUtilisation:
    """The autoscaler with one metric, CPU utilisation."""

    def __init__(self, services: Services, values: Values) -> None:
        self._target, self._behaviour = int(values["target"]), behaviour_of(values)
        self._controller = ReplicaController(services, self._behaviour)

    def replicas(self, snapshot: Snapshot, targets: Floats | None = None) -> Floats:
        """What to scale to, [E]; `targets`, where given, are the percent to aim at this time."""
        aims = np.full(len(snapshot.size), self._target) if targets is None else targets
        outcomes = [
            utilisation_replicas(
                pod_samples(snapshot, row),
                round(float(snapshot.size[row, REPLICAS])),
                int(aims[row]),
                now_s=float(snapshot.now_s[row]),
                tolerance=self._behaviour.tolerance,
            )
            for row in range(len(snapshot.size))
        ]
        return self._controller.replicas(snapshot, outcomes)


class HpaDecider:
    """Replicas in proportion to CPU utilisation over its target (Kubernetes HPA, exactly)."""

    def __init__(self, services: Services, values: Values) -> None:
        self._cpu = values["cpu"] or None
        self._autoscaler = CpuUtilisation(services, values)

    def decide(self, snapshot: Snapshot) -> Floats:
        return size_of(snapshot, replicas=self._autoscaler.replicas(snapshot), cpu=self._cpu)
