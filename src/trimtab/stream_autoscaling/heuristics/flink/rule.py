"""The autoscaler of the Flink Kubernetes operator as a rule: its options, and its formulas put together.

Not ported, because a snapshot has nothing to say about it: memory tuning, garbage collection and heap
limits, quotas of the cluster (the slot budget stands for them), excluded periods and vertices, partitions
of sources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.flink.alignment import aligned
from trimtab.stream_autoscaling.heuristics.flink.formulas import (
    busiest_subtask,
    capacity_needed,
    chosen_rate,
    edge_ratios,
    mean_observed,
    observed_rate,
    scalability,
    scale_factor,
    scaled_parallelism,
    true_rate,
)
from trimtab.stream_autoscaling.heuristics.flink.memory import DelayedScaleDown, ScalingHistory
from trimtab.stream_autoscaling.heuristics.measures import (
    Window,
    intervals_in,
    just_begun,
    latest,
    mean,
    target_rates,
    window,
)
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Snapshot, allowed

__all__ = ["PARAMETERS", "FlinkDecider", "flink"]

_WEEK_S = 604_800.0

PARAMETERS = (
    Parameter(
        "target",
        0.7,
        "utilization.target: utilisation to aim at",
        (0.5, 0.6, 0.7, 0.8, 0.9),
        low=0.05,
        high=1.0,
    ),
    Parameter(
        "boundary",
        0.3,
        "target.utilization.boundary: band around it",
        (0.1, 0.2, 0.3, 0.4),
        low=0.0,
        high=1.0,
    ),
    Parameter(
        "highest", -1.0, "utilization.max: upper end of the band; -1: target + boundary", low=-1.0, high=1.0
    ),
    Parameter(
        "lowest", -1.0, "utilization.min: lower end of the band; -1: target - boundary", low=-1.0, high=1.0
    ),
    Parameter(
        "window_s",
        900.0,
        "metrics.window: seconds averaged over",
        (180, 300, 600, 900),
        low=1.0,
        high=86_400.0,
    ),
    Parameter(
        "stabilisation_s",
        300.0,
        "stabilization.interval: pause after a restart",
        (0, 60, 300),
        low=0.0,
        high=86_400.0,
    ),
    Parameter(
        "down_interval_s",
        3600.0,
        "scale-down.interval: a scale-down waits",
        (0, 900, 1800, 3600),
        low=0.0,
        high=_WEEK_S,
    ),
    Parameter(
        "down_factor", 0.6, "scale-down.max-factor: largest share taken away at once", low=0.0, high=1.0
    ),
    Parameter("up_factor", 100_000.0, "scale-up.max-factor: largest share added at once", low=0.0, high=1e9),
    Parameter("least", 1.0, "vertex.min-parallelism", low=1.0, high=32_768.0, whole=True),
    Parameter("most", 200.0, "vertex.max-parallelism", low=1.0, high=32_768.0, whole=True),
    Parameter(
        "catch_up_s",
        1800.0,
        "catch-up.duration: backlog is worked off in it",
        (300, 600, 1800),
        low=0.0,
        high=86_400.0,
    ),
    Parameter(
        "restart_s",
        300.0,
        "restart.time: what a restart is thought to take",
        (0, 60, 300),
        low=0.0,
        high=86_400.0,
    ),
    Parameter(
        "restart_tracked",
        0.0,
        "restart.time-tracking.enabled: use the longest seen",
        low=0.0,
        high=1.0,
        whole=True,
    ),
    Parameter(
        "restart_limit_s", 900.0, "restart.time-tracking.limit: no more than this", low=0.0, high=86_400.0
    ),
    Parameter(
        "backlog_s",
        300.0,
        "backlog-processing.lag-threshold: beyond it the band is 0 to 1",
        low=0.0,
        high=_WEEK_S,
    ),
    Parameter("observe_lag_s", 30.0, "observed-true-processing-rate.lag-threshold", low=0.0, high=_WEEK_S),
    Parameter("observe_switch", 0.15, "observed-true-processing-rate.switch-threshold", low=0.0, high=10.0),
    Parameter(
        "observations",
        2.0,
        "observed-true-processing-rate.min-observations",
        low=1.0,
        high=1000.0,
        whole=True,
    ),
    Parameter(
        "busiest",
        1.0,
        "metrics.busy-time.aggregator: 1 the busiest subtask, 0 the mean",
        low=0.0,
        high=1.0,
        whole=True,
    ),
    Parameter(
        "alignment",
        1.0,
        "0 off, 1 balanced, 2 evenly spread, 3 and 4 as in 1.13",
        low=0.0,
        high=4.0,
        whole=True,
    ),
    Parameter("effectiveness", 0.0, "scaling.effectiveness.detection.enabled", low=0.0, high=1.0, whole=True),
    Parameter(
        "effect", 0.1, "scaling.effectiveness.threshold: least share of the hoped-for gain", low=0.0, high=1.0
    ),
    Parameter(
        "scalability",
        0.0,
        "observed-scalability.enabled: less than linear if seen",
        low=0.0,
        high=1.0,
        whole=True,
    ),
    Parameter("scalability_least", 0.5, "observed-scalability.coefficient-min", low=0.01, high=1.0),
    Parameter(
        "scalability_seen", 3.0, "observed-scalability.min-observations", low=1.0, high=100.0, whole=True
    ),
    Parameter(
        "history",
        3.0,
        "history.max.count: rescales remembered for each vertex",
        low=1.0,
        high=100.0,
        whole=True,
    ),
    Parameter("history_s", 86_400.0, "history.max.age: for so many seconds", low=0.0, high=1e8),
)


def flink() -> Rule:
    """The autoscaler of the Flink Kubernetes operator, with its formulas and its defaults."""
    return Rule("flink", FlinkDecider, PARAMETERS)


class Judgement(NamedTuple):
    """What the metrics of the window say, each [E, V]."""

    rate: Floats  # the true rate
    needed: Floats  # capacity at the target utilisation, a restart included
    outside: Flags  # the true rate is out of its band
    complete: Flags  # [E]: every source is known; otherwise nothing is decided


class FlinkDecider:
    """Evaluates every interval; acts once the window is full, and then on all vertices together."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self._values = dict(values)
        shape = graph.exists.shape
        self._history = ScalingHistory(shape, int(values["history"]), values["history_s"])
        self._began_s = np.full(len(graph.exists), np.nan)
        self._longest_s = np.zeros(len(graph.exists))
        self._delayed: DelayedScaleDown | None = None  # made once the interval is known
        self._observed = np.zeros((0, *shape))

    def decide(self, snapshot: Snapshot) -> Integers:
        self._begin(snapshot)
        seen = window(snapshot, self._values["window_s"], settle_s=self._values["stabilisation_s"])
        self._observe(snapshot)
        judged = self._judge(snapshot, seen)
        wanted, outside = self._recommend(snapshot, judged, self._ready(snapshot) & judged.complete)
        changes = wanted != snapshot.parallelism
        act = np.any(changes & outside, axis=1)
        wanted = np.where(act[:, None], wanted, snapshot.parallelism)
        self._write_down(snapshot, allowed(snapshot, wanted), judged)
        return wanted

    def _begin(self, snapshot: Snapshot) -> None:
        """Make room at the first decision; forget what belongs to another episode or another parallelism."""
        values, shape = self._values, snapshot.graph.exists.shape
        if self._delayed is None:
            self._delayed = DelayedScaleDown(shape, values["down_interval_s"], snapshot.interval_s)
            kept = intervals_in(values["window_s"], snapshot.interval_s)
            self._observed = np.full((kept, *shape), np.nan)
        begun = just_begun(snapshot)
        fresh = begun | np.isnan(self._began_s)
        self._began_s[fresh] = snapshot.now_s[fresh]
        self._history.trim(begun, snapshot.now_s)
        self._delayed.forget(np.broadcast_to(begun[:, None], shape))
        self._longest_s[begun] = 0.0
        restarted = np.isfinite(snapshot.since_rescale_s)
        self._longest_s = np.where(
            restarted, np.maximum(self._longest_s, snapshot.downtime_s), self._longest_s
        )
        anew = begun | snapshot.rescaling | (snapshot.since_rescale_s < snapshot.interval_s)
        self._observed[:, anew] = np.nan

    def _ready(self, snapshot: Snapshot) -> Flags:
        """The job has run for the stabilisation interval and a full window since, [E]."""
        watched_s = snapshot.now_s - self._began_s + snapshot.interval_s
        reported_s = snapshot.samples.present.sum(1) * snapshot.interval_s
        running_s = np.minimum(snapshot.since_rescale_s, np.maximum(watched_s, reported_s))
        return running_s >= self._values["stabilisation_s"] + self._values["window_s"] - 1e-6

    def _observe(self, snapshot: Snapshot) -> None:
        """Note what sources read while they catch up; while they do not, what was noted before goes on."""
        newest = window(snapshot, snapshot.interval_s)
        samples = newest.samples
        now = observed_rate(
            samples.records_in[:, -1],
            samples.pending[:, -1],
            samples.backpressured[:, -1],
            lag_s=self._values["observe_lag_s"],
        )
        before = mean_observed(self._observed, at_least=int(self._values["observations"]))
        noted = np.where(np.isnan(now), before, now)
        counts = newest.counts[:, -1] & snapshot.graph.is_source
        self._observed[:-1] = self._observed[1:]
        self._observed[-1] = np.where(counts, noted, np.nan)

    def _judge(self, snapshot: Snapshot, seen: Window) -> Judgement:
        values, graph = self._values, snapshot.graph
        samples, counts = seen.samples, seen.counts
        records_in, waiting = mean(samples.records_in, counts), latest(samples.pending, counts)
        rate = self._true_rate(snapshot, seen, records_in)
        ratios = edge_ratios(records_in, mean(samples.records_out, counts), graph)
        source = graph.is_source & graph.exists
        arriving = np.maximum(0.0, records_in + _growth(samples.pending, counts, seen.interval_s))
        catching_up = (
            waiting / values["catch_up_s"]
            if values["catch_up_s"] > 0
            else np.where(counts.any(1), 0.0, np.nan)
        )
        known = ~np.isnan(arriving) | ~source
        target = target_rates(np.where(source, arriving, 0.0), ratios)
        extra = target_rates(np.where(source, catching_up, 0.0), ratios)
        late = source & (waiting > values["backlog_s"] * records_in)
        backlog = np.any(late, axis=1)[:, None]
        restart_s = self._restart_s()[:, None]
        low, high = self._band()
        band = {"catch_up_s": values["catch_up_s"]}
        needed = capacity_needed(target, extra, values["target"], restart_s=restart_s, **band)
        least = capacity_needed(target, extra, np.where(backlog, 1.0, high), restart_s=0.0, **band)
        most = capacity_needed(target, extra, np.where(backlog, 0.0, low), restart_s=restart_s, **band)
        return Judgement(rate, needed, (rate < least) | (rate > most), np.all(known, axis=1))

    def _true_rate(self, snapshot: Snapshot, seen: Window, records_in: Floats) -> Floats:
        busy = mean(seen.samples.busy, seen.counts)
        if self._values["busiest"]:
            busy = busiest_subtask(busy, snapshot.parallelism, snapshot.graph.key_groups)
        observed = mean_observed(self._observed, at_least=int(self._values["observations"]))
        return chosen_rate(true_rate(records_in, busy), observed, switch=self._values["observe_switch"])

    def _restart_s(self) -> Floats:
        """What the next restart is thought to take, [E]."""
        expected = np.full(len(self._longest_s), self._values["restart_s"])
        if not self._values["restart_tracked"]:
            return expected
        longest = np.minimum(self._longest_s, self._values["restart_limit_s"])
        return np.where(self._longest_s > 0, longest, expected)

    def _band(self) -> tuple[float, float]:
        values = self._values
        low = values["lowest"] if values["lowest"] >= 0 else values["target"] - values["boundary"]
        high = values["highest"] if values["highest"] >= 0 else values["target"] + values["boundary"]
        return low, high

    def _recommend(self, snapshot: Snapshot, judged: Judgement, ready: Flags) -> tuple[Integers, Flags]:
        """New parallelism of every vertex, and whether it was out of its band when that was found."""
        assert self._delayed is not None
        values, graph, current = self._values, snapshot.graph, snapshot.parallelism
        factor = self._factor(judged)
        wanted, lower, upper = scaled_parallelism(
            factor, current, graph.most, least=int(values["least"]), most=int(values["most"])
        )
        known = ~np.isnan(factor) & ready[:, None] & graph.exists
        wanted = np.where(known, wanted, current)
        wanted = aligned(current, wanted, graph.key_groups, lower, upper, int(values["alignment"]))
        if values["effectiveness"]:
            in_vain = self._history.ineffective(current, judged.rate, threshold=values["effect"])
            wanted = np.where((wanted > current) & in_vain, current, wanted)
        return self._delayed.apply(wanted, judged.outside, current, known, snapshot.now_s)

    def _factor(self, judged: Judgement) -> Floats:
        values = self._values
        coefficient: Floats | float = 1.0
        if values["scalability"]:
            history = self._history
            coefficient = scalability(
                history.before,
                history.rate,
                at_least=int(values["scalability_seen"]),
                lowest=values["scalability_least"],
            )
        return scale_factor(
            judged.needed,
            judged.rate,
            coefficient,
            down_factor=values["down_factor"],
            up_factor=values["up_factor"],
        )

    def _write_down(self, snapshot: Snapshot, done: Integers, judged: Judgement) -> None:
        """Keep what is going to happen in mind: the rate hoped for, and that nothing waits any more."""
        assert self._delayed is not None
        changed = done != snapshot.parallelism
        factor = self._factor(judged)
        finite = np.isfinite(judged.rate) & np.isfinite(factor)
        hoped = np.where(finite, judged.rate, 0.0) * np.where(finite, factor, 0.0)
        self._history.add(changed, snapshot.parallelism, done, judged.rate, hoped, snapshot.now_s)
        self._delayed.forget(np.broadcast_to(changed.any(1)[:, None], changed.shape))


def _growth(values: Floats, counts: Flags, interval_s: float) -> Floats:
    """From the first value that counts to the last, per second; NaN with fewer than two (as the operator)."""
    count = counts.shape[1]
    first = np.argmax(counts, axis=1)
    last = count - 1 - np.argmax(counts[:, ::-1], axis=1)
    apart = np.where(counts.any(1), last - first, 0)
    difference = (
        np.take_along_axis(values, last[:, None], 1)[:, 0]
        - np.take_along_axis(values, first[:, None], 1)[:, 0]
    )
    return np.where(apart > 0, difference / np.maximum(apart * interval_s, 1e-12), np.nan)
