"""Both of Kubernetes' autoscalers on one service without a fight: replicas by HPA, sizes by VPA.

Memory is VPA's alone. On CPU the two would chase each other: HPA reads usage in percent of the request that
VPA moves. GKE's "HPA rightsizing" has VPA size the request from the demand of the whole service over time,
knowing HPA's target and its bounds of replicas; its formula is not public, so this is ours. The request is
such that the 90th percentile of the service's CPU (decaying, plus VPA's margin of 15 %) is carried at HPA's
target by as many replicas as lie in the middle of the bounds, the geometric mean: with 1 to 20 that is 4.5.
So there is room for 4.5 times as much above and for a quarter below. It is not more than what lets the
median demand be carried by more replicas than the fewest. The request is changed when it is off by a tenth,
not more often than `resize_wait_s`, and is cut by a fifth at most at a time, with as many more replicas as
that takes.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.hpa import BEHAVIOUR, TARGET, CpuUtilisation
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_histogram import DecayingHistogram, cpu_buckets
from trimtab.pod_autoscaling.heuristics.measures import just_begun, known, rounded_up, size_of
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.heuristics.vpa import LEAST_PODS, PERCENTILE, VerticalAutoscaler
from trimtab.pod_autoscaling.problem import CPU, REPLICAS, Floats, Services, Snapshot

__all__ = ["HpaVpaDecider", "Rightsizing", "hpa_vpa"]

_MARGIN = 0.15
_OFF, _LARGEST_CUT = 0.1, 0.2


def hpa_vpa() -> Rule:
    """HPA for replicas, VPA for memory, and CPU requests that suit HPA's target (as GKE's rightsizing)."""
    return Rule(
        "hpa-vpa",
        HpaVpaDecider,
        (
            TARGET,
            PERCENTILE,
            Parameter(
                "least_pods",
                1.0,
                "with fewer pods VPA changes none; in place it may change the only one",
                LEAST_PODS.grid,
                low=1.0,
                high=1000.0,
                whole=True,
            ),
            Parameter(
                "resize_wait_s",
                600.0,
                "seconds between changes of the CPU request; 0: it is left as it is",
                (0, 300, 600, 1800, 3600),
                low=0.0,
                high=86_400.0,
            ),
            *BEHAVIOUR,
        ),
    )


class Rightsizing:
    """The CPU request for a horizontal autoscaler's target and bounds, by the demand of the whole service."""

    def __init__(self, services: Services, values: Values) -> None:
        size = len(services.slo_s)
        self._target, self._wait_s = values["target"] / 100, values["resize_wait_s"]
        self._percentile = values["percentile"]
        self._least, self._most = services.least[:, REPLICAS], services.most[:, REPLICAS]
        self._demand = [DecayingHistogram(cpu_buckets()) for _ in range(size)]
        self._moved_s = np.full(size, np.nan)

    def requests(
        self, snapshot: Snapshot, targets: Floats | None = None, percentiles: Floats | None = None
    ) -> Floats:
        """Cores to ask for per pod, [E]; as they are while it is not time."""
        aims = np.full(len(snapshot.size), self._target) if targets is None else targets / 100
        shares = np.full(len(aims), self._percentile) if percentiles is None else percentiles
        samples, now_s, present = snapshot.samples, snapshot.now_s, snapshot.size[:, CPU]
        told = known(snapshot, samples.cpu)[:, -1]
        fresh = just_begun(snapshot) | np.isnan(self._moved_s)
        self._moved_s = np.where(fresh, now_s, self._moved_s)
        wanted = present.copy()
        for row in range(len(present)):
            if fresh[row]:
                self._demand[row] = DecayingHistogram(cpu_buckets())
            if told[row]:
                self._demand[row].add(float(samples.cpu[row, -1]), weight=1.0, at_s=float(now_s[row]))
            if self._wait_s <= 0 or now_s[row] < self._moved_s[row] + self._wait_s - 1e-6:
                continue
            if not self._demand[row].empty:
                wanted[row] = self._request(row, float(aims[row]), float(shares[row]))
        off = np.abs(wanted - present) > _OFF * present
        wanted = np.where(off, np.maximum(wanted, (1 - _LARGEST_CUT) * present), present)
        self._moved_s = np.where(off, now_s, self._moved_s)
        return wanted

    def _request(self, row: int, target: float, percentile: float) -> float:
        median, high = self._demand[row].percentiles((0.5, percentile))
        least, most = float(self._least[row]), float(self._most[row])
        middle = high * (1 + _MARGIN) / (target * math.sqrt(least * most))
        return max(min(middle, median / (target * least)), high * (1 + _MARGIN) / (target * most))


class HpaVpaDecider:
    """HPA for replicas, VPA for memory, and CPU requests that suit HPA's target (as GKE's rightsizing)."""

    def __init__(self, services: Services, values: Values) -> None:
        self._horizontal = CpuUtilisation(services, values)
        self._vertical = VerticalAutoscaler(services, values, controls_cpu=False)
        self._rightsizing = Rightsizing(services, values)

    def decide(
        self, snapshot: Snapshot, *, targets: Floats | None = None, percentiles: Floats | None = None
    ) -> Floats:
        """Decide; targets and percentiles, [E] each, may be others at every decision."""
        replicas = self._horizontal.replicas(snapshot, targets)
        _, memory = self._vertical.sizes(snapshot, percentiles)
        present = snapshot.size[:, CPU]
        cpu = size_of(snapshot, cpu=self._rightsizing.requests(snapshot, targets, percentiles))[:, CPU]
        # Smaller pods, and as many more; larger pods, and HPA takes away what is too much in its own time.
        needed = rounded_up(snapshot.size[:, REPLICAS] * present / cpu)
        replicas = np.where(cpu < present, np.maximum(replicas, needed), replicas)
        return size_of(snapshot, replicas=replicas, cpu=cpu, memory=memory)
