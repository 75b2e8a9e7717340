"""DS2 behind a band: what is needed as DS2 computes it, and a commit only where it is worth a restart.

DS2 acts on any difference, and every restart stops the whole job. Here the job is left alone while it is
within a band: no vertex is about to be busier than `limit`, and going back would save less than `saving` of
all subtasks. Scaling down keeps room for the highest rate of the last while (`memory_s`), as the
stabilisation window of Kubernetes does, and waits after a restart. Nothing is remembered from decision to
decision, so the rule can take over any job in mid-flight.

Who sends in bursts, as windows do, waits for whoever comes next to take each of them in, however idle that is
in between, and does nothing meanwhile: such a vertex is full well before it is busy all the time. `blocked`
counts that time as work. The usual settings are the best of some 150 for the six frozen jobs together, on
training days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.measures import (
    Window,
    as_parallelism,
    blocked_by_bursts,
    intervals_in,
    latest,
    mean,
    output_ratios,
    refuse_short_history,
    target_rates,
    true_rates,
    window,
)
from trimtab.stream_autoscaling.heuristics.rule import Rule
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Snapshot

__all__ = ["MOST_CATCHING_UP", "ROOM_FOR_LUCK", "Arrivals", "BandedDecider", "Measured", "Weighed"]
__all__ += ["banded", "busy_subtasks", "enough", "useful", "within_reach"]

MOST_CATCHING_UP = 1.0
"""What waits asks for so much more than what comes, at most."""
ROOM_FOR_LUCK = 1.25
"""In a job that cannot keep up, the others get so much more than its slowest vertex, against bad luck."""
_MOST_ROOM = 4.0
_TINY = 1e-9


def banded() -> Rule:
    """DS2's parallelism, set only when a vertex gets too busy or enough subtasks would be saved."""
    return Rule(
        "banded",
        BandedDecider,
        (
            Parameter(
                "target",
                0.65,
                "utilisation to aim at",
                (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9),
                low=0.05,
                high=1.0,
            ),
            Parameter(
                "limit",
                0.85,
                "utilisation of the busiest vertex above which the job is scaled up",
                (0.8, 0.85, 0.9, 0.95, 1.0, 1.1),
                low=0.05,
                high=10.0,
            ),
            Parameter(
                "saving",
                0.15,
                "share of all subtasks that must be saved for the job to be scaled down",
                (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
                low=0.0,
                high=1.0,
            ),
            Parameter(
                "memory_s",
                1800.0,
                "seconds whose highest rate fits after scaling down",
                (300, 600, 1200, 1800, 2700, 3540),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "recent_s",
                1800.0,
                "seconds over which rates are averaged",
                (300, 600, 900, 1800),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "window_s",
                900.0,
                "seconds of metrics behind what a subtask can do",
                (300, 600, 900, 1800),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "catch_up_s",
                300.0,
                "seconds in which records that wait are to be caught up with",
                (120, 300, 600, 1200, 1800),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "patience_s",
                2700.0,
                "seconds after a restart in which the job is not scaled down",
                (0, 600, 1200, 1800, 2700, 3600),
                low=0.0,
                high=86_400.0,
            ),
            Parameter(
                "blocked",
                1.0,
                "times that the time counts as work in which a vertex waits for idle ones to take in a burst",
                (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
                low=0.0,
                high=10.0,
            ),
        ),
    )


class Measured(NamedTuple):
    """What the band is laid around; it does not depend on target, limit, saving and patience."""

    needed: Floats  # [E, V]: subtasks that would be busy all the time at present rates; NaN: nobody knows
    hurry: Floats  # [E]: times so much to catch up with what waits
    room: Floats  # [E]: times so much for the highest rate within memory


class Weighed(NamedTuple):
    """What the rule makes of a snapshot."""

    needed: Floats  # [E, V]: subtasks that would be busy all the time, with room kept; NaN: nobody knows
    goal: Integers  # [E, V]: where to go if committed
    commits: Flags  # [E]


class BandedDecider:
    """DS2's parallelism, set only when a vertex gets too busy or enough subtasks would be saved."""

    def __init__(self, graph: Graph, values: Mapping[str, float | Floats]) -> None:
        """Target, limit, saving and patience may differ from job to job: arrays [E]."""
        size = len(graph.exists)
        self._target, self._limit, self._saving, self._patience_s = (
            np.broadcast_to(np.asarray(values[name], np.float64), (size,))
            for name in ("target", "limit", "saving", "patience_s")
        )
        self._memory_s, self._recent_s, self._window_s, self._catch_up_s, self._blocked = (
            float(values[name]) for name in ("memory_s", "recent_s", "window_s", "catch_up_s", "blocked")
        )

    def decide(self, snapshot: Snapshot) -> Integers:
        found = self.weigh(snapshot)
        return np.where(found.commits[:, None], found.goal, snapshot.parallelism)

    def weigh(self, snapshot: Snapshot, measured: Measured | None = None) -> Weighed:
        """Where to go, and whether that is worth a restart; what was measured may be shared by several."""
        graph, exists, now = snapshot.graph, snapshot.graph.exists, snapshot.parallelism
        needed, hurry, room = self.measure(snapshot) if measured is None else measured
        busy = needed * hurry[:, None]
        roomy = needed * np.maximum(hurry, room)[:, None]
        up, down = (
            enough(one * within_reach(1 / self._target[:, None], one, graph, room=ROOM_FOR_LUCK), snapshot)
            for one in (busy, roomy)
        )
        # Who has all it may have stays too busy: that is no reason to restart the others every minute.
        full = busy * within_reach(1 / self._limit[:, None], busy, graph) > useful(now, graph)
        over = np.any(full & (up > now) & exists, axis=1)
        goal = np.where(over[:, None], np.maximum(up, np.minimum(down, now)), down)
        before, after = (np.where(exists, one, 0).sum(1) for one in (now, goal))
        saved = after <= (1 - self._saving) * before
        caught_up = hurry < 1 + MOST_CATCHING_UP
        commits = over | (saved & caught_up & (snapshot.since_rescale_s >= self._patience_s))
        return Weighed(np.where(over[:, None], busy, roomy), goal, commits)

    def measure(self, snapshot: Snapshot) -> Measured:
        """What is needed."""
        graph, interval_s = snapshot.graph, snapshot.interval_s
        looked_back_s = max(self._recent_s, self._memory_s)
        # The interval before tells what piled up in the first.
        refuse_short_history(snapshot.samples.present.shape[1], looked_back_s, interval_s, before=1)
        came = Arrivals(snapshot, looked_back_s)
        seen = window(snapshot, self._window_s)
        recent = intervals_in(self._recent_s, interval_s)
        needed = busy_subtasks(came, seen, graph, recent)
        if self._blocked:
            needed = needed * (1 + self._blocked * blocked_by_bursts(seen, graph))
        now = came.all_sources(0, recent)
        highest = came.highest(range(0, intervals_in(self._memory_s, interval_s), recent), recent)
        some = now > 0
        room = np.where(some, highest / np.where(some, now, 1.0), 1.0)
        behind = came.waiting() / self._catch_up_s / np.where(some, now, 1.0)
        hurry = 1 + np.where(some, np.minimum(behind, MOST_CATCHING_UP), 0.0)
        return Measured(needed, hurry, np.clip(room, 1.0, _MOST_ROOM))


class Arrivals:
    """What came for the sources in the last intervals, read or left waiting; S columns have a source."""

    def __init__(self, snapshot: Snapshot, span_s: float) -> None:
        self._graph, samples = snapshot.graph, snapshot.samples
        history = samples.present.shape[1]
        since = history - min(intervals_in(span_s, snapshot.interval_s), history - 1)
        self._columns = np.flatnonzero((self._graph.is_source & self._graph.exists).any(0))
        self._sources = (self._graph.is_source & self._graph.exists)[:, self._columns]
        complete = samples.complete[:, since - 1 :, self._columns] & samples.present[:, since - 1 :, None]
        pending = samples.pending[:, since - 1 :, self._columns]
        grew = (pending[:, 1:] - pending[:, :-1]) / snapshot.interval_s
        # A restart goes back to a checkpoint: what is read once more waits again, but has not come again.
        parallelism = samples.parallelism[:, since - 1 :]
        ran_on: Flags = np.all(parallelism[:, 1:] == parallelism[:, :-1], axis=2)
        self._known = complete[:, 1:] & complete[:, :-1] & ran_on[:, :, None]  # [E, n, S], newest last
        self._rates = samples.records_in[:, since:, self._columns] + grew
        self._waited = np.where(self._sources, latest(pending[:, 1:], complete[:, 1:]), 0.0)
        read = np.where(self._sources[:, None], self._rates, 0.0)
        self._total = np.maximum(read.sum(2), 0.0)
        self._told: Flags = np.all(self._known | ~self._sources[:, None], axis=2)  # [E, n]: of all sources

    def by_source(self, recent: int) -> Floats:
        """Records per second of each source on average, [E, V]; NaN where nobody knows, 0 elsewhere."""
        found = np.zeros(self._graph.exists.shape)
        rates = np.maximum(mean(self._rates[:, -recent:], self._known[:, -recent:]), 0.0)
        found[:, self._columns] = np.where(self._sources, rates, 0.0)
        return found

    def all_sources(self, begin: int, count: int) -> Floats:
        """Records per second of all sources on average, so long ago, [E]; 0 where nobody knows."""
        last = self._total.shape[1] - begin
        span = slice(max(last - count, 0), max(last, 0))
        number = self._told[:, span].sum(1)
        total = np.where(self._told[:, span], self._total[:, span], 0.0).sum(1)
        return total / np.maximum(number, 1)

    @property
    def length(self) -> int:
        """So many intervals are looked back."""
        return self._total.shape[1]

    def highest(self, begins: range, count: int) -> Floats:
        """The highest of the means that lie so long ago, [E]; 0 where there is none."""
        return np.max([self.all_sources(begin, count) for begin in begins], axis=0, initial=0.0)

    def noise(self, count: int) -> Floats:
        """How much neighbouring ones of the last intervals differ, as a standard deviation of each, [E]."""
        changes, both = self._changes(count)
        return np.sqrt((changes**2).sum(1) / np.maximum(both.sum(1), 1) / 2)

    def usual_change(self, count: int) -> Floats:
        """The same as it mostly is: a single rush hardly counts, [E]; infinite where too little is known."""
        changes, both = self._changes(count)
        number = both.sum(1)
        middle = (np.sqrt(np.abs(changes)).sum(1) / np.maximum(number, 1)) ** 2
        return np.where(2 * number >= count, middle, np.inf)

    def _changes(self, count: int) -> tuple[Floats, Flags]:
        """From each of the last intervals to the next, 0 where nobody knows; and where somebody does."""
        total, told = self._total[:, -count - 1 :], self._told[:, -count - 1 :]
        both: Flags = told[:, 1:] & told[:, :-1]
        return np.where(both, np.diff(total, axis=1), 0.0), both

    def waiting(self) -> Floats:
        """Records that waited before all sources when each last reported, [E]."""
        return np.nan_to_num(self._waited).sum(1)


def busy_subtasks(came: Arrivals, seen: Window, graph: Graph, recent: int) -> Floats:
    """Subtasks that would be busy all the time at the rates of the last intervals, [E, V]; NaN: unknown."""
    rates = target_rates(came.by_source(recent), output_ratios(seen, graph))
    return np.where(rates == 0, 0.0, rates / true_rates(seen))


def useful(parallelism: Integers, graph: Graph) -> Floats:
    """How many subtasks are worth as much as these, of which the busiest has most key groups, [E, V].

    128 groups on 31 subtasks: five on the busiest, which is as good as 25.6 subtasks with equal shares.
    """
    groups = graph.key_groups
    most = -(-groups // np.maximum(parallelism, 1))
    return np.where(groups > 0, groups / np.maximum(most, 1), parallelism)


def within_reach(factors: Floats, busy: Floats, graph: Graph, *, room: float = 1.0) -> Floats:
    """Subtasks for each busy one, [E, V]: no more than the most pressed vertex may have, times `room`.

    Where that one falls behind with all it may have, the others need not be made for what it cannot pass on.
    """
    pressed = np.where(graph.exists, np.nan_to_num(busy) / np.maximum(useful(graph.most, graph), 1), 0.0)
    return np.minimum(factors, room / pressed.max(1, initial=_TINY)[:, None])


def enough(needed: Floats, snapshot: Snapshot) -> Integers:
    """The least parallelism that is worth so many subtasks, within bounds; as it is where nobody knows."""
    groups = snapshot.graph.key_groups
    known = ~np.isnan(needed)
    most = np.maximum(np.floor(groups / np.maximum(np.where(known, needed, 1.0), 1e-9) + 1e-9), 1)
    aligned = np.where(groups > 0, np.ceil(groups / most), needed)
    return as_parallelism(np.where(known, aligned, np.nan), snapshot)
