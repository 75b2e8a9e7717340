"""Autothrottle (Wang et al., NSDI 2024): CPU of pods by how much they are throttled; the tower says how much.

The captain raises the CPU of pods that are throttled more than three times the target, in proportion, and
otherwise lowers it to what was used at most plus a margin of standard deviations, which grows while there
is more throttling than the target and shrinks while there is less. A cut that hurts is taken back twice
over. The paper's captain decides every second on the node; this one once per interval, on what monitoring
says. Pods are not added or removed.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.measures import intervals_in, just_begun, known, latest, mean, size_of
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.heuristics.tower import TARGETS, Tower
from trimtab.pod_autoscaling.problem import CPU, Flags, Floats, Services, Snapshot

__all__ = ["AutothrottleDecider", "Captain", "autothrottle"]

_FIRST_MARGIN = 3.0
_TOO_MUCH = 3.0  # times the target
_LEAST_CUT, _LARGEST_CUT = 0.9, 0.5


def autothrottle() -> Rule:
    """CPU of pods driven to a share of throttled time that a bandit learns from latency (Autothrottle)."""
    return Rule(
        "autothrottle",
        AutothrottleDecider,
        (
            Parameter(
                "target",
                -1.0,
                "share of throttled periods to aim at; -1: the tower learns it",
                (-1.0, *TARGETS.tolist()),
                low=-1.0,
                high=1.0,
            ),
            Parameter(
                "replicas",
                0.0,
                "pods; 0: as started",
                (0, 1, 2, 3, 4, 6, 8),
                low=0.0,
                high=1000.0,
                whole=True,
            ),
            Parameter(
                "window_s",
                60.0,
                "seconds whose highest use CPU is not cut below",
                (30, 60, 120, 300),
                low=1.0,
                high=86_400.0,
            ),
            Parameter("explore", 0.1, "share of minutes in which a neighbour is tried", low=0.0, high=1.0),
            Parameter("seed", 0.0, "of the tower's luck", low=0.0, high=1e9, whole=True),
        ),
    )


class Captain:
    """CPU of a pod, driven to a target of throttling; remembers its margin and its last cut."""

    def __init__(self, size: int) -> None:
        self._margin = np.full(size, _FIRST_MARGIN)
        self._before = np.zeros(size)
        self._was_cut = np.zeros(size, bool)

    def forget(self, rows: Flags) -> None:
        """Services that begin anew."""
        self._margin[rows], self._was_cut[rows] = _FIRST_MARGIN, False

    def limits(
        self, limit: Floats, throttled: Floats, target: Floats, most: Floats, deviation: Floats
    ) -> Floats:
        """The next limit, [E], given throttling and what pods used at most lately; as it is where unknown."""
        told = np.isfinite(throttled) & np.isfinite(most)
        throttled, most = np.nan_to_num(throttled), np.nan_to_num(most)
        hurt = throttled > _TOO_MUCH * target
        back = told & hurt & self._was_cut
        over = throttled - target
        self._margin = np.where(told, np.maximum(self._margin + over, 0.0), self._margin)
        raised = limit * (1 + throttled - _TOO_MUCH * target)
        goal = most + self._margin * deviation
        cut = told & ~hurt & (goal <= _LEAST_CUT * limit)
        lowered = np.maximum(_LARGEST_CUT * limit, goal)
        wanted = np.where(back, 2 * self._before - limit, np.where(cut, lowered, limit))
        wanted = np.where(told & hurt & ~back, raised, wanted)
        self._before = np.where(told, limit, self._before)
        self._was_cut = np.where(told, cut, self._was_cut)
        return wanted


class AutothrottleDecider:
    """CPU of pods driven to a share of throttled time that a bandit learns from latency (Autothrottle)."""

    def __init__(self, services: Services, values: Values) -> None:
        size = len(services.slo_s)
        self._values = values
        self._captain = Captain(size)
        self._tower = Tower(services.slo_s, explore=values["explore"], seed=int(values["seed"]))

    def decide(self, snapshot: Snapshot) -> Floats:
        fresh, samples = just_begun(snapshot), snapshot.samples
        self._captain.forget(fresh)
        self._tower.forget(fresh)
        count = min(intervals_in(self._values["window_s"], snapshot.interval_s), samples.present.shape[1])
        each = samples.cpu / np.maximum(samples.ready, 1e-9)
        counts = known(snapshot, samples.cpu, samples.throttled) & (samples.ready > 0)
        counts, each = counts[:, -count:], each[:, -count:]
        some = counts.any(1)
        most = np.where(some, np.where(counts, each, -np.inf).max(1), np.nan)
        away = np.where(counts, each - mean(each, counts)[:, None], 0.0)
        deviation = np.sqrt((away**2).sum(1) / np.maximum(counts.sum(1) - 1, 1))
        newest = samples.throttled[:, -1:]
        throttled = latest(newest, counts[:, -1:])
        limit = snapshot.size[:, CPU]
        wanted = self._captain.limits(limit, throttled, self._targets(snapshot), most, deviation)
        replicas = np.full(len(limit), self._values["replicas"] or np.nan)
        return size_of(snapshot, replicas=replicas, cpu=wanted)

    def _targets(self, snapshot: Snapshot) -> Floats:
        if self._values["target"] >= 0:
            return np.full(len(snapshot.size), self._values["target"])
        samples = snapshot.samples
        minute = min(intervals_in(60.0, snapshot.interval_s), samples.present.shape[1])
        cores = samples.replicas * samples.cpu_limit
        counts = known(snapshot, samples.rate, samples.latency_p99_s)[:, -minute:]
        of_minute = (mean(one[:, -minute:], counts) for one in (samples.rate, samples.latency_p99_s, cores))
        return self._tower.targets(snapshot.now_s, *of_minute)
