"""Kubernetes' vertical pod autoscaler: its recommender and its updater, with pods resized in place.

The formulas are in `kubernetes/`; here a snapshot is put into their words, service by service, once a
minute as the recommender and the updater run. Requests are limits, so limits follow. The updater picks pods
one by one; a service has one size here, so as soon as it would change any pod, all get the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_recommender import (
    MIB,
    Amounts,
    ContainerPolicy,
    ContainerUsage,
    Recommendation,
    RecommenderSettings,
    ServiceUsage,
    recommend,
    within_policy,
)
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_updater import (
    ContainerState,
    PodState,
    ReplicaGroup,
    UpdaterMemory,
    UpdaterSettings,
    plan,
)
from trimtab.pod_autoscaling.heuristics.measures import just_begun, size_of
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, Floats, Services, Snapshot

__all__ = ["LEAST_PODS", "PERCENTILE", "VerticalAutoscaler", "VpaDecider", "vpa"]

_EVERY_S = 60.0
_MODE = "InPlaceOrRecreate"

PERCENTILE = Parameter(
    "percentile",
    0.9,
    "of usage that is recommended, with a margin of 15 %",
    (0.5, 0.75, 0.9, 0.95, 0.99),
    low=0.01,
    high=1.0,
)
LEAST_PODS = Parameter(
    "least_pods", 2.0, "with fewer pods none is changed", (1, 2), low=1.0, high=1000.0, whole=True
)


def vpa() -> Rule:
    """CPU and memory of pods by percentiles of their use (Kubernetes VPA, exactly); replicas as started."""
    return Rule("vpa", VpaDecider, (PERCENTILE, LEAST_PODS))


class _Seen(NamedTuple):
    """One pod: a slot of the snapshot is another pod when it began at another time."""

    usage: ContainerUsage
    started_s: float


@dataclass
class _Memory:
    """What the autoscaler remembers of one service."""

    usage: ServiceUsage = field(default_factory=ServiceUsage)
    pods: dict[int, _Seen] = field(default_factory=dict)
    kills: dict[int, float] = field(default_factory=dict)  # the last kill of each pod that was told
    ran_before_s: dict[int, float] = field(default_factory=dict)
    updater: UpdaterMemory = field(default_factory=UpdaterMemory)
    looked_s: float = -math.inf


class VerticalAutoscaler:
    """The autoscaler at work on some services."""

    def __init__(self, services: Services, values: Values, *, controls_cpu: bool) -> None:
        self._settings = RecommenderSettings(target_percentile=values["percentile"])
        self._updater = UpdaterSettings(least_replicas=int(values["least_pods"]))
        self._controls_cpu = controls_cpu
        bounds = zip(services.least, services.most, strict=True)
        self._policies = [
            ContainerPolicy(_amounts(low), _amounts(high), controls_cpu=controls_cpu) for low, high in bounds
        ]
        self._memory = [_Memory() for _ in self._policies]

    def sizes(self, snapshot: Snapshot, percentiles: Floats | None = None) -> tuple[Floats, Floats]:
        """Cores and MiB to give to pods, [E] each; NaN: as they are. `percentiles` replace the usual one."""
        count = len(self._memory)
        cpu, memory = np.full(count, np.nan), np.full(count, np.nan)
        fresh = just_begun(snapshot)
        for row in range(count):
            if fresh[row]:
                self._memory[row] = _Memory()
            kept, now_s = self._memory[row], float(snapshot.now_s[row])
            if now_s < kept.looked_s + _EVERY_S - 1e-6:
                continue
            kept.looked_s = now_s
            _watch(kept, snapshot, row, self._settings)
            if kept.usage.samples == 0:
                continue
            settings = self._settings
            if percentiles is not None:
                settings = replace(settings, target_percentile=float(percentiles[row]))
            advice = within_policy(recommend(kept.usage, settings=settings), self._policies[row])
            if self._acts(kept, snapshot, row, advice):
                memory[row] = advice.target.memory_bytes / MIB
                if self._controls_cpu:
                    cpu[row] = advice.target.cpu_millicores / 1000
        return cpu, memory

    def _acts(self, kept: _Memory, snapshot: Snapshot, row: int, advice: Recommendation) -> bool:
        """Whether the updater would change any pod."""
        pods = [
            self._pod(kept, snapshot, row, place, advice)
            for place in kept.pods
            if not snapshot.pods.ending[row, place]
        ]
        configured = round(float(snapshot.size[row, REPLICAS]))
        group = ReplicaGroup.of(pods, configured, self._updater)
        now_s = float(snapshot.now_s[row])
        return bool(plan(pods, group, _MODE, kept.updater, now_s=now_s, settings=self._updater))

    def _pod(
        self, kept: _Memory, snapshot: Snapshot, row: int, place: int, advice: Recommendation
    ) -> PodState:
        pods, at = snapshot.pods, (row, place)
        asked = snapshot.size[row]
        request = _amounts(np.array([0.0, pods.cpu_request[at], pods.memory_request[at]]))
        container = ContainerState(
            request.cpu_millicores,
            request.memory_bytes,
            advice,
            kept.ran_before_s.get(place),
            controls_cpu=self._controls_cpu,
        )
        as_asked = np.allclose([pods.cpu_request[at], pods.memory_request[at]], asked[[CPU, MEMORY]])
        stuck = "infeasible" if snapshot.infeasible[row] else "in progress"
        return PodState(
            f"{place}@{kept.pods[place].started_s:.3f}",
            (container,),
            kept.pods[place].started_s,
            resize="none" if as_asked else stuck,
        )


def _amounts(size: Floats) -> Amounts:
    """Millicores and bytes of a size, as Kubernetes rounds: up."""
    return Amounts(math.ceil(1000 * size[CPU] - 1e-6), math.ceil(MIB * size[MEMORY] - 1e-6))


def _watch(kept: _Memory, snapshot: Snapshot, row: int, settings: RecommenderSettings) -> None:
    """Take the minute's samples and kills of every pod into the histograms."""
    pods = snapshot.pods
    live = np.flatnonzero(pods.exists[row] & np.isfinite(pods.started_s[row])).tolist()
    for place in kept.pods.keys() - set(live):
        _forget(kept, place)
    for place in live:
        at = (row, place)
        started_s = float(pods.started_s[at])
        if place in kept.pods and kept.pods[place].started_s != started_s:
            _forget(kept, place)
        seen = kept.pods.setdefault(place, _Seen(ContainerUsage(kept.usage, settings), started_s))
        killed_s = float(pods.killed_s[at])
        if not math.isnan(killed_s) and killed_s != kept.kills.get(place):
            began_s = kept.kills.get(place, started_s)
            kept.kills[place], kept.ran_before_s[place] = killed_s, killed_s - began_s
            seen.usage.add_oom(MIB * float(pods.killed_at[at]), at_s=killed_s)
        if pods.measured[at] and np.isfinite(pods.cpu[at]) and np.isfinite(pods.memory[at]):
            measured_s = float(pods.measured_s[at])
            used = _amounts(np.array([0.0, pods.cpu[at], pods.memory[at]]))
            seen.usage.add_cpu(used.cpu_millicores / 1000, at_s=measured_s)
            seen.usage.add_memory(used.memory_bytes, at_s=measured_s)


def _forget(kept: _Memory, place: int) -> None:
    for known in (kept.pods, kept.kills, kept.ran_before_s):
        known.pop(place, None)


class VpaDecider:
    """CPU and memory of pods by percentiles of their use (Kubernetes VPA, exactly); replicas as started."""

    def __init__(self, services: Services, values: Values) -> None:
        self._autoscaler = VerticalAutoscaler(services, values, controls_cpu=True)

    def decide(self, snapshot: Snapshot) -> Floats:
        cpu, memory = self._autoscaler.sizes(snapshot)
        return size_of(snapshot, cpu=cpu, memory=memory)
