"""What could be had by knowing what comes: a bound for benchmarks, not a policy for a live service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.heuristics.headroom import mean_latency_s
from trimtab.pod_autoscaling.heuristics.measures import replicas_for, size_of
from trimtab.pod_autoscaling.problem import CPU, REPLICAS, Decider, Floats, PodPolicy, Services, Snapshot

__all__ = ["Oracle", "Rates"]


class Rates(Protocol):
    """What will arrive: requests per second, one number for each step of `step_s`, from `start_s` on."""

    @property
    def rates(self) -> Floats: ...
    @property
    def step_s(self) -> float: ...
    @property
    def start_s(self) -> float: ...


@dataclass(frozen=True)
class Oracle:
    """Pods for the highest rate of the next moments and the true work of a request, and memory to match.

    Replicas are ceil(rate · work / (utilisation · cores)). A pod's memory is what it holds when idle, its
    whole cache, what it has leaked, and that of the requests inside: as many as Little's law says for the
    mean latency at that utilisation, and three standard deviations, were they a Poisson number.

    >>> Oracle(utilisation=0.8, cpu=1.0).name
    'oracle'
    """

    utilisation: float = 0.85
    cpu: float = 2.0
    ahead_s: float = 45.0
    memory_utilisation: float = 0.85
    name: str = "oracle"

    def begin(self, services: Services) -> Decider:
        """Refused: only a simulation can tell what will arrive."""
        raise SettingsError(
            "oracle must know what will arrive; it can be simulated, not run on a live service"
        )

    def knowing(
        self, applications: Sequence[Application], traces: Sequence[Rates], deployment: Deployment
    ) -> PodPolicy:
        """The policy for these applications and what arrives at them."""
        return _Told(self, tuple(applications), tuple(traces))


@dataclass(frozen=True)
class _Told:
    oracle: Oracle
    applications: tuple[Application, ...]
    traces: tuple[Rates, ...]

    @property
    def name(self) -> str:
        return self.oracle.name

    def begin(self, services: Services) -> Decider:
        return _Knowing(self)


class _Knowing:
    def __init__(self, told: _Told) -> None:
        self._oracle, self._traces, apps = told.oracle, told.traces, told.applications
        self._work_s, self._outside_s = (
            np.array([getattr(app, name) for app in apps]) for name in ("cpu_s", "io_s")
        )
        self._idle_mib = np.array([app.memory_mib + app.cache_mib for app in apps])
        self._request_mib = np.array([app.memory_per_request_mib for app in apps])
        self._leak_mib_per_s = np.array([app.leak_mib_per_hour for app in apps]) / 3600
        self._began_s = np.array([trace.start_s for trace in told.traces])

    def decide(self, snapshot: Snapshot) -> Floats:
        oracle = self._oracle
        pairs = zip(self._traces, snapshot.now_s, strict=True)
        rate = np.array([_highest(trace, now_s, now_s + oracle.ahead_s) for trace, now_s in pairs])
        cpu = size_of(snapshot, cpu=oracle.cpu)[:, CPU]
        replicas = replicas_for(rate * self._work_s, utilisation=oracle.utilisation, cpu=cpu)
        wanted = size_of(snapshot, replicas=replicas, cpu=cpu)
        busy = rate * self._work_s / (wanted[:, REPLICAS] * cpu)
        inside = (
            rate
            / wanted[:, REPLICAS]
            * mean_latency_s(self._work_s, self._outside_s, busy, cpu, wanted[:, REPLICAS])
        )
        leaked = self._leak_mib_per_s * np.maximum(snapshot.now_s + oracle.ahead_s - self._began_s, 0.0)
        used = self._idle_mib + leaked + self._request_mib * (inside + 3 * np.sqrt(inside))
        return size_of(snapshot, replicas=replicas, cpu=cpu, memory=used / oracle.memory_utilisation)


def _highest(trace: Rates, begin_s: float, end_s: float) -> float:
    """The highest rate within a span of time; beyond its ends a trace goes on as it began or ended."""
    first = int((begin_s - trace.start_s) // trace.step_s)
    last = int(-(-(end_s - trace.start_s) // trace.step_s))
    size = len(trace.rates)
    first = min(max(first, 0), size - 1)
    return float(trace.rates[first : max(last, first + 1)].max())
