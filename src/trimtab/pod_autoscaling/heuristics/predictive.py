"""A seasonal forecast ahead of Kubernetes' autoscaler, as Alibaba's AHPA and Crane's EHPA do it.

What came at the same time of the last period, corrected by how the last minutes differ from it, plus a
quantile of the error: pods for the highest of that within the time a pod takes to start. The autoscaler
runs beside it, and the larger number counts; in the first period, and for a service without a pattern, it
is alone.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.hpa import BEHAVIOUR, TARGET, CpuUtilisation
from trimtab.pod_autoscaling.heuristics.measures import (
    POD_CPU,
    cpu_per_request,
    intervals_in,
    just_begun,
    known,
    replicas_for,
    size_of,
)
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.problem import CPU, Flags, Floats, Integers, Services, Snapshot

__all__ = ["LastPeriod", "PredictiveDecider", "predictive_hpa", "start_up_s"]

_COST_SPAN_S = 300.0
# A service that doubled or halved since yesterday is followed; beyond that the pattern is not the same one.
_LEAST_CORRECTION, _MOST_CORRECTION = 0.5, 2.0


def predictive_hpa() -> Rule:
    """HPA with pods started in time for what came yesterday at this time (AHPA, EHPA)."""
    return Rule(
        "predictive-hpa",
        PredictiveDecider,
        (
            TARGET,
            POD_CPU,
            Parameter(
                "quantile",
                0.95,
                "of the forecast's error that is prepared for",
                (0.5, 0.75, 0.9, 0.95, 0.99),
                low=0.01,
                high=0.999,
            ),
            Parameter("period_s", 86_400.0, "seconds after which the pattern repeats", low=60.0, high=1e7),
            Parameter(
                "recent_s",
                300.0,
                "seconds of which the error corrects the forecast",
                (120, 300, 900),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "lead_s", 0.0, "seconds ahead; 0: as pods were seen to take to start", low=0.0, high=3600.0
            ),
            *BEHAVIOUR,
        ),
    )


def start_up_s(snapshot: Snapshot) -> Floats:
    """Seconds that pods took from their start to readiness, the median of those there are, [E]; 0 if none."""
    pods = snapshot.pods
    took = pods.ready_changed_s - pods.started_s
    counts = pods.exists & pods.ready & np.isfinite(took) & (took >= 0)
    found = np.zeros(len(took))
    for row in np.flatnonzero(counts.any(1)):
        found[row] = np.median(took[row, counts[row]])
    return found


class LastPeriod:
    """What came one period ago, interval by interval, and how the last minutes compare with it."""

    def __init__(self, services: int, intervals: int, compared: int) -> None:
        self._rates = np.full((services, intervals), np.nan)
        self._came = np.full((services, compared), np.nan)
        self._foretold = np.full((services, compared), np.nan)

    def forget(self, rows: Flags) -> None:
        """Services that begin anew."""
        for kept in (self._rates, self._came, self._foretold):
            kept[rows] = np.nan

    def lived(self, place: Integers, rate: Floats) -> None:
        """An interval has passed, number `place` [E] of its period; NaN where nobody knows what came."""
        rows = np.arange(len(rate))
        for kept, newest in ((self._came, rate), (self._foretold, self._rates[rows, place])):
            kept[:, :-1] = kept[:, 1:]
            kept[:, -1] = newest
        # What nobody knows does not wipe out what was known.
        self._rates[rows, place] = np.where(np.isnan(rate), self._rates[rows, place], rate)

    def ahead(self, place: Integers, count: Integers, quantile: float) -> Floats:
        """The highest rate within the `count` intervals [E] from `place` on, [E]; NaN without a pattern."""
        rows, intervals = np.arange(len(self._rates))[:, None], self._rates.shape[1]
        steps = np.arange(min(int(count.max()), intervals))
        coming = self._rates[rows, (place[:, None] + steps) % intervals]
        coming = np.where(steps < count[:, None], coming, np.nan)
        both = np.isfinite(self._came) & np.isfinite(self._foretold)
        came, foretold = (np.where(both, one, 0.0).sum(1) for one in (self._came, self._foretold))
        some = foretold > 0
        ratio = np.where(some, came / np.where(some, foretold, 1.0), 1.0)
        ratio = np.clip(ratio, _LEAST_CORRECTION, _MOST_CORRECTION)
        missed = np.where(both, self._came - ratio[:, None] * self._foretold, 0.0)
        error = np.sqrt((missed**2).sum(1) / np.maximum(both.sum(1), 1))
        highest = np.where(np.isfinite(coming).any(1), np.nan_to_num(coming, nan=-np.inf).max(1), np.nan)
        return np.maximum(highest * ratio + NormalDist().inv_cdf(quantile) * error, 0.0)


class PredictiveDecider:
    """HPA with pods started in time for what came yesterday at this time (AHPA, EHPA)."""

    def __init__(self, services: Services, values: Values) -> None:
        self._values, self._size = values, len(services.slo_s)
        self._autoscaler = CpuUtilisation(services, values)
        self._past: LastPeriod | None = None

    def decide(self, snapshot: Snapshot) -> Floats:
        reactive = self._autoscaler.replicas(snapshot)
        cpu = np.full(self._size, self._values["cpu"] or np.nan)
        cpu = size_of(snapshot, cpu=cpu)[:, CPU]
        cores = self._foretold(snapshot) * cpu_per_request(snapshot, _COST_SPAN_S)
        ahead = replicas_for(cores, utilisation=self._values["target"] / 100, cpu=cpu)
        return size_of(snapshot, replicas=np.fmax(reactive, ahead), cpu=cpu)

    def _foretold(self, snapshot: Snapshot) -> Floats:
        interval_s, values = snapshot.interval_s, self._values
        intervals = intervals_in(values["period_s"], interval_s)
        if self._past is None:
            self._past = LastPeriod(self._size, intervals, intervals_in(values["recent_s"], interval_s))
        self._past.forget(just_begun(snapshot))
        now = np.floor(snapshot.now_s / interval_s + 0.5).astype(np.int64)
        rate = snapshot.samples.rate[:, -1]
        counts = known(snapshot, snapshot.samples.rate)[:, -1]
        self._past.lived((now - 1) % intervals, np.where(counts, rate, np.nan))
        # Decided now, there in so long: a pod started at the next decision would be ready one interval later.
        lead_s = np.full(self._size, values["lead_s"]) if values["lead_s"] else start_up_s(snapshot)
        count = np.ceil(lead_s / interval_s - 1e-9).astype(np.int64) + 1
        return self._past.ahead(now % intervals, count, values["quantile"])
