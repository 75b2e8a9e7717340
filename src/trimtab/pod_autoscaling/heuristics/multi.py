"""Replicas, CPU and memory together, from metrics alone: our own rule, and what learning starts from.

What a request costs is estimated from CPU used and requests finished, and anew when requests become heavier;
how busy pods may be from their latency (`headroom`), what will come from what came (`forecasts`). Work is put
on few large pods rather than many small ones, because large pods share their cores among more requests, and
because the CPU of a running pod can be changed in seconds while a new pod takes long to start: so replicas
follow slowly what the last minutes needed, and the CPU of pods follows every interval. Memory is the recent
peak, a margin and a reserve for worse, the most of which is remembered for hours, but no more than a pod held
that was so full that it refused requests; it is cut slowly.

Large pods are better only as long as they have workers for all the requests inside, threads or connections
that no metric counts. Where requests were late while CPU was to spare, fewer are let into a pod from then on
(`crowding`). Nothing else is remembered from decision to decision, so the rule can take over any service in
mid-flight. The usual settings were chosen among some 40, on training parts of generated traces and
applications and on the three hour-long traces of Autothrottle: as few cores as go with no more late requests
than HPA with a target of 70 has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.crowding import Crowding
from trimtab.pod_autoscaling.heuristics.forecasts import proven_forecast
from trimtab.pod_autoscaling.heuristics.headroom import Behaviour, busiest, fitted
from trimtab.pod_autoscaling.heuristics.measures import (
    intervals_in,
    known,
    rounded_up,
    size_of,
    work_by_interval,
)
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, Floats, Services, Snapshot

__all__ = ["Measured", "MultiDecider", "multi"]

# Before any latency is known.
_FIRST_UTILISATION = 0.7
_LEAST_UTILISATION, _MOST_UTILISATION = 0.4, 0.95
# Pods grow to so much of their usual size before there are more of them, and there are fewer when so much
# of it would be enough: in between, only their CPU changes.
_STRETCH, _SHRINK = 1.4, 0.9
# At most a third of the pods go at a time, lest those that stay are swamped.
_STAY = 2 / 3
# Other CPU is not worth a change for less: 2 % up, 5 % down.
_UP, _DOWN = 1.02, 0.95
# Memory that was the same for so long may be cut, if by a tenth at least, halfway (in proportion) to what is
# needed: from 512 MiB to 150 it takes 20 minutes.
_SETTLED_S, _WORTH_CUTTING = 300.0, 0.9
# With the usual settings the reserve is at least so much, and no more than this share of the peak: a calm pod
# of 100 MiB gets 195, one that rose from 100 to 400 gets 800 until it is known what a full one holds.
_USUAL_MARGIN, _USUAL_RESERVE = 1.15, 2.0
_LEAST_RESERVE_MIB, _MOST_RESERVE = 80.0, 0.85
# Metrics are a percent off; and memory that leaks is noticed before it is so much more.
_FULL_MARGIN = 1.05
# After a kill, as Kubernetes' vertical autoscaler: a fifth more, and at least 100 MiB.
_KILL_FACTOR, _KILL_MIB = 1.2, 100.0
# Where a node refuses pods of this size, smaller ones may fit.
_REFUSED = 0.75


def multi() -> Rule:
    """Few large pods with CPU by latency and a fitted queueing formula, and memory by its peak (ours)."""
    return Rule(
        "multi",
        MultiDecider,
        (
            Parameter(
                "slack",
                0.7,
                "share of the latency limit that the 99th percentile may reach",
                (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
                low=0.1,
                high=2.0,
            ),
            Parameter(
                "cpu",
                3.0,
                "cores of a pod in calm; it may get more until further pods are there",
                (1, 2, 3, 4),
                low=0.01,
                high=256.0,
            ),
            Parameter(
                "deviations",
                2.5,
                "standard deviations of the forecast's error on top",
                (1, 2, 2.5, 3, 4),
                low=0.0,
                high=10.0,
            ),
            Parameter(
                "keep_pods_s",
                300.0,
                "seconds whose highest rate the number of pods stays enough for",
                (60, 120, 300),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "margin",
                _USUAL_MARGIN,
                "memory of a pod over its recent peak",
                (1.1, 1.15, 1.25, 1.5),
                low=1.0,
                high=10.0,
            ),
            Parameter(
                "reserve",
                _USUAL_RESERVE,
                "times what the peak is above the usual, of memory on top, until a full pod was seen",
                (0, 1, 2, 4, 6),
                low=0.0,
                high=100.0,
            ),
            Parameter(
                "in_place",
                1.0,
                "1: pods get other CPU and memory as they run; 0: they are restarted for it, so they keep it",
                low=0.0,
                high=1.0,
                whole=True,
            ),
        ),
    )


class Measured(NamedTuple):
    """What the size is made from, [E] each; NaN: nobody knows. Slack and cpu come later."""

    behaviour: Behaviour
    cores: Floats  # work to prepare for now
    cores_lately: Floats  # the most in the last minutes, and not less than now
    memory: Floats  # MiB that a pod needed at most
    memory_usual: Floats  # MiB of its peak in an average interval
    memory_wanted: Floats  # MiB that it should have had at most, with margin and reserve
    memory_full: Floats  # MiB of a pod that refuses requests: it never needs more; infinite: nobody knows
    pods: Floats  # at least so many, lest requests wait inside them; 0: no such limit is known


class MultiDecider:
    """Few large pods with CPU by latency and a fitted queueing formula, and memory by its peak (ours)."""

    def __init__(self, services: Services, values: Mapping[str, float | Floats]) -> None:
        """Slack, cpu, margin and reserve may differ from service to service: arrays [E]."""
        size = len(services.slo_s)
        self._slack, self._cpu, self._margin, self._reserve = (
            np.broadcast_to(np.asarray(values[name], np.float64), (size,))
            for name in ("slack", "cpu", "margin", "reserve")
        )
        self._deviations, self._keep_pods_s = float(values["deviations"]), float(values["keep_pods_s"])
        self._in_place = bool(values["in_place"])
        self.crowding = Crowding(size)

    def decide(self, snapshot: Snapshot) -> Floats:
        return self.sized(snapshot, self.measure(snapshot))

    def measure(self, snapshot: Snapshot) -> Measured:
        """What is needed, whatever is made of it; each snapshot is measured once."""
        samples, interval_s = snapshot.samples, snapshot.interval_s
        history = samples.present.shape[1]
        work = work_by_interval(snapshot)
        work_s = work[:, -1]
        counts = known(snapshot, samples.rate)
        coming = proven_forecast(samples.rate, counts, deviations=self._deviations) + _behind(snapshot)
        cores = np.where(coming == 0, 0.0, coming * work_s)
        keep = min(intervals_in(self._keep_pods_s, interval_s), history)
        highest = np.where(counts, samples.rate, 0.0)[:, -keep:].max(1)
        lately = np.where(cores == 0, highest * _or_zero(work_s), np.maximum(cores, highest * work_s))
        lately_mib, usual = _memory_used(snapshot)
        peak = self.crowding.memory(snapshot, lately_mib)
        risen, calm = (self._with_reserve(lately_mib, before) for before in (usual, lately_mib))
        wanted = self.crowding.wanted_memory(snapshot, risen, calm, work[:, 0] < work_s)
        full = self.crowding.full_memory(snapshot, peak)
        pods = self.crowding.pods(snapshot, np.where(np.isnan(coming), highest, np.maximum(coming, highest)))
        return Measured(_behaviour(snapshot, work), cores, lately, peak, usual, wanted, full, pods)

    def sized(self, snapshot: Snapshot, measured: Measured, *, calm_cpu: Floats | None = None) -> Floats:
        """The size, from what is needed; in pods of `calm_cpu` cores, [E], instead of the rule's."""
        services, size = snapshot.services, snapshot.size
        present, has, most_cpu = size[:, REPLICAS], size[:, CPU], services.most[:, CPU]
        calm, stretched = has, has
        if self._in_place:
            most_cpu = np.where(snapshot.infeasible, _REFUSED * has, most_cpu)
            calm = np.minimum(self._cpu if calm_cpu is None else calm_cpu, most_cpu)
            stretched = np.minimum(_STRETCH * calm, most_cpu)
        share = self._utilisation(snapshot, measured, measured.cores_lately, _about(measured, calm))
        few = np.maximum(_pods(measured.cores / share, stretched, present), measured.pods)
        many = _pods(measured.cores_lately / share, _SHRINK * calm if self._in_place else calm, present)
        wanted = np.clip(present, few, np.maximum(few, many))
        wanted = np.maximum(wanted, np.minimum(present - 1, rounded_up(_STAY * present)))
        wanted = np.clip(wanted, services.least[:, REPLICAS], services.most[:, REPLICAS])
        fewer = wanted < present
        memory = self._memory(snapshot, measured, np.where(fewer, present / wanted, 1.0))
        if not self._in_place:
            return size_of(snapshot, replicas=wanted, memory=memory)
        # Pods that are still starting carry nothing yet.
        carrying = np.clip(snapshot.ready.astype(np.float64), 1.0, wanted)
        share = self._utilisation(snapshot, measured, measured.cores, carrying)
        cpu = measured.cores / (share * carrying)
        cpu = np.minimum(np.where((cpu > _UP * has) | (cpu < _DOWN * has), cpu, has), most_cpu)
        rounded = size_of(snapshot, memory=memory)[:, MEMORY]
        # Before pods go, those that stay are made large enough, as far as steps and bounds of sizes allow.
        small = (has < _DOWN * cpu) | (size[:, MEMORY] < rounded) | snapshot.resizing
        return size_of(snapshot, replicas=np.where(fewer & small, present, wanted), cpu=cpu, memory=memory)

    def _utilisation(self, snapshot: Snapshot, measured: Measured, cores: Floats, pods: Floats) -> Floats:
        """How busy so many pods may be with this work for the limit to hold, [E]."""
        limit_s, work = self._slack * snapshot.services.slo_s, _or_zero(cores)
        # Less than a core slows every request; more than this share idle helps nothing else.
        least = np.minimum(np.maximum(work / pods, 1e-3), _LEAST_UTILISATION)
        share = busiest(measured.behaviour, limit_s, work, pods, least=least, most=_MOST_UTILISATION)
        return np.where(np.isnan(share), _FIRST_UTILISATION, share)

    def _with_reserve(self, peak: Floats, usual: Floats) -> Floats:
        """MiB that a pod should have after minutes like these, [E]."""
        times = self._reserve / _USUAL_RESERVE
        most = _MOST_RESERVE * times * peak
        least = np.minimum(_LEAST_RESERVE_MIB * np.minimum(times, 1.0), most)
        wanted = self._margin * peak + np.minimum(self._reserve * (peak - usual), most)
        # Whoever has a larger margin has that much of the least reserve already.
        return np.maximum(wanted, np.minimum(self._margin, _USUAL_MARGIN) * peak + least)

    def _memory(self, snapshot: Snapshot, measured: Measured, crowding: Floats) -> Floats:
        """MiB of a pod that gets `crowding` times as many requests; as it is where nobody knows."""
        present = snapshot.size[:, MEMORY]
        # Half of what pods hold may be for requests. What they usually hold grows, and not the worst of it:
        # that came when pods were too few, and so with as many requests in each.
        crowded = measured.memory_usual * (0.5 + 0.5 * crowding)
        needed = np.fmax(measured.memory_wanted, self._with_reserve(crowded, crowded))
        killed = _after_kills(snapshot)
        needed = np.where(killed > 0, np.fmax(needed, killed), needed)
        most = _FULL_MARGIN * measured.memory_full
        needed = np.minimum(needed, most)
        if not self._in_place:
            return np.where(needed > present, needed, present)
        limits, lived = snapshot.samples.memory_limit, snapshot.samples.present
        count = min(intervals_in(_SETTLED_S, snapshot.interval_s), limits.shape[1])
        settled = (lived & (limits == present[:, None]))[:, -count:].all(1)
        cut = settled & (needed < _WORTH_CUTTING * present)
        slowly = np.where(cut, np.sqrt(needed * present), present)
        # What not even a full pod needs goes at once.
        slowly = np.where(most < _WORTH_CUTTING * present, most, slowly)
        return np.where(needed > present, needed, slowly)


def _about(measured: Measured, largest: Floats) -> Floats:
    """About so many pods, before it is known how busy they may be."""
    work = _or_zero(measured.cores_lately)
    return np.maximum(rounded_up(work / (_FIRST_UTILISATION * largest)), 1.0)


def _pods(cores: Floats, largest: Floats, present: Floats) -> Floats:
    """Pods of at most `largest` cores for so many in all, [E]; as many as there are where nobody knows."""
    return np.where(np.isnan(cores), present, np.maximum(rounded_up(cores / largest), 1.0))


def _or_zero(values: Floats) -> Floats:
    return np.where(np.isnan(values), 0.0, values)


def _behind(snapshot: Snapshot) -> Floats:
    """Requests per second on top to work off, within an interval, what waits longer than the limit, [E]."""
    samples = snapshot.samples
    inside, rate = samples.in_flight[:, -1], samples.rate[:, -1]
    told = known(snapshot, samples.rate, samples.in_flight)[:, -1]
    # Little's law: so many are inside when each stays as long as the limit.
    usual = rate * snapshot.services.slo_s
    return np.where(told, np.maximum(inside - usual, 0.0), 0.0) / snapshot.interval_s


def _behaviour(snapshot: Snapshot, work_s: Floats) -> Behaviour:
    """What the last minutes say of latency under load, given the work of a request in each interval."""
    samples = snapshot.samples
    held = samples.ready * samples.cpu_limit
    counts = known(snapshot, samples.cpu, samples.latency_s, samples.latency_p99_s)
    counts &= (held > 0) & (samples.rate > 0) & (samples.latency_p99_s > 0)
    utilisation = np.clip(samples.cpu / np.maximum(held, 1e-9), 0.01, 1.0)
    return fitted(
        work_s,
        utilisation,
        samples.cpu_limit,
        samples.ready,
        samples.latency_s,
        samples.latency_p99_s,
        counts,
    )


def _memory_used(snapshot: Snapshot) -> tuple[Floats, Floats]:
    """MiB of the largest pod: its peak in the last minutes, and that of an average interval; NaN: unknown."""
    memory = snapshot.samples.memory
    counts = known(snapshot, memory) & (memory > 0)
    number = counts.sum(1)
    seen = np.where(counts, memory, 0.0)
    some = number > 0
    usual = seen.sum(1) / np.maximum(number, 1)
    return np.where(some, seen.max(1), np.nan), np.where(some, usual, np.nan)


def _after_kills(snapshot: Snapshot) -> Floats:
    """What pods that ran out of memory should have had, [E]; 0 where none did."""
    pods = snapshot.pods
    killed = pods.exists & np.isfinite(pods.killed_s) & np.isfinite(pods.killed_at)
    had = np.where(killed, pods.killed_at, 0.0).max(1, initial=0.0)
    return np.where(had > 0, np.maximum(_KILL_FACTOR * had, had + _KILL_MIB), 0.0)
