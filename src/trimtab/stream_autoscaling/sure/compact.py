"""The compact autoscaler: the rule `banded` with learned functions in place of its settings.

What every vertex needs is measured as `banded` does. By how much more it is given, how busy a vertex may get
before the job is scaled up, how much must be saved before it is scaled down, and how all that differs from
vertex to vertex are exponentials of linear functions of a few facts: the trend of the last hour, its noise,
the time of day, what waits, how long ago the job restarted, and again of all of these times how even arrivals
are. Subtasks are whole, so some sizes waste less than others: of those near the one aimed at, that is taken
where all vertices together have fewest for it. These are 155 numbers, which evolution finds by playing whole
days. All of it runs on numpy, for many jobs at once, and remembers nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import BundleError
from trimtab.core.parts import place_of
from trimtab.stream_autoscaling.heuristics.banded import (
    MOST_CATCHING_UP,
    ROOM_FOR_LUCK,
    Arrivals,
    banded,
    busy_subtasks,
    enough,
    useful,
    within_reach,
)
from trimtab.stream_autoscaling.heuristics.measures import (
    LEAST_BUSY,
    Window,
    blocked_by_bursts,
    intervals_in,
    mean,
    window,
)
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Snapshot

__all__ = ["EVENNESS", "FACTS", "KIND", "PARTS", "SIZE", "VERTEX_FACTS", "WING"]
__all__ += [
    "CompactDecider",
    "CompactPolicy",
    "Factors",
    "Thought",
    "compact_bundle",
    "compact_policy",
    "first_numbers",
    "for_even_arrivals",
    "part",
    "thrifty",
    "widths",
]

WING, KIND = "stream_autoscaling", "sure-compact"

_FACTS = (
    "usual",
    "last 10 minutes against 30",
    "last 3 minutes against 10",
    "last 30 minutes against 60",
    "busiest 10 minutes of the hour against 30",
    "hour of day, sine",
    "hour of day, cosine",
    "half day, sine",
    "half day, cosine",
    "noise from minute to minute",
    "mean parallelism",
    "latency against the limit",
    "minutes of records waiting",
    "vertices",
    "restarted within 15 minutes",
    "restarted within 45 minutes",
    "not restarted for an hour",
)
EVENNESS = len(_FACTS)
FACTS = (*_FACTS, "how even arrivals are", *(f"{name}, even" for name in _FACTS[1:]))
"""About the job as a whole at this moment; around -1 to 1, mostly logarithms.

The second half, from `EVENNESS` on, are those of the first times how even arrivals are. A web server's come
in bursts from minute to minute, and ask for other room and patience than a stream that shows at once where it
goes.
"""
VERTEX_FACTS = (
    "is source",
    "keyed",
    "busy subtasks",
    "place in the graph",
    "input buffers full",
    "needed against parallelism",
    "variation of busy time",
)
_FUNCTIONS = ("size", "size when down", "limit", "saving")
PARTS = {
    **dict.fromkeys(_FUNCTIONS, len(FACTS)),
    "size of a vertex": len(VERTEX_FACTS),
    "limit of a vertex": len(VERTEX_FACTS),
    "rounding": 2,
    "catching up": 1,
    "worth of more": 1,
    "most given": 1,
}
"""How many numbers each part has; they lie one after the other."""
SIZE = sum(PARTS.values())

FIRST_MOST = 3.0
"""Where training starts, a vertex gets at most so many subtasks for each that the busiest of the last 3, 10
and 30 minutes would keep busy: what a rush will grow to is learned from rushes that were met."""
FIRST_PATIENCE = 3.0
"""Where training starts, e to this power times as much must be saved right after a restart."""
LARGEST, LARGEST_OF_A_VERTEX = 6.0, 2.0
"""Exponents stay within."""
RECENT_S, WINDOW_S, HOUR_S, DAY_S = 1800.0, 900.0, 3600.0, 86_400.0
CATCH_UP_S = 300.0
USUAL_NOISE, USUAL_VERTICES = 0.25, 20.0
UNEVEN = 0.1
"""Arrivals are not even at all where neighbouring minutes differ by this much and more, usually."""
MOST_PRACTISED = 0.45
"""Beyond this mean parallelism, as the fact counts it, nobody has practised: it counts as this."""
LONG_AGO_S = 7200.0
TRIED = 0.03 * np.arange(-5, 6)
"""Sizes around the one that is aimed at, as logarithms."""
_TINY = 1e-9


def part(name: str) -> slice:
    """Where the numbers of a part lie.

    >>> part("size"), part("catching up")
    (slice(0, 34, None), slice(152, 153, None))
    """
    return place_of(PARTS, name)


def first_numbers() -> Floats:
    """Where training starts: close to `banded` with its usual settings.

    >>> round(float(np.exp(-first_numbers()[part("size")][0])), 2)
    0.65
    """
    numbers, usual = np.zeros(SIZE), banded().values
    numbers[part("size")][0] = -math.log(usual["target"])
    numbers[part("limit")][0] = -math.log(usual["limit"])
    numbers[part("saving")][0] = math.log(usual["saving"])
    numbers[part("worth of more")] = 1.0
    numbers[part("most given")] = math.log(FIRST_MOST)
    numbers[part("saving")][FACTS.index("restarted within 45 minutes")] = FIRST_PATIENCE
    return numbers


def for_even_arrivals() -> Flags:
    """Which numbers are searched for where arrivals are even; elsewhere they are worth nothing.

    At most so many subtasks is among them: in uneven arrivals nobody comes near it.

    >>> int(for_even_arrivals().sum())
    69
    """
    found = np.zeros(SIZE, np.bool_)
    for name in _FUNCTIONS:
        place = part(name)
        found[place.start + EVENNESS : place.stop] = True
    found[part("most given")] = True
    return found


def widths() -> Floats:
    """How far each number may usefully move in training."""
    width = np.full(SIZE, 0.1)
    width[part("saving")] = 0.3
    width[part("catching up")] = 0.4
    width[part("worth of more")] = 0.2
    width[part("most given")] = 0.15
    width[part("size")][0] = 0.05
    width[part("limit")][0] = 0.07
    return width


class Factors(NamedTuple):
    """What the learned functions say of each job, [E]."""

    size: Floats  # subtasks given for each that would be busy all the time
    down: Floats  # times so much where the job is not too busy
    limit: Floats  # a vertex is too busy if so many subtasks for each busy one are more than it has
    saving: Floats  # share of all subtasks that must be saved to scale down


class Thought(NamedTuple):
    """One decision, and what it was made of."""

    needed: Floats  # [E, V]: subtasks that would be busy all the time at present rates; NaN: nobody knows
    facts: Floats  # [E, facts]
    vertex_facts: Floats  # [E, V, facts of a vertex]
    factors: Factors
    over: Flags  # [E, V]: too busy, and may have more
    goal: Integers  # [E, V]: where to go if committed
    commits: Flags  # [E]


class CompactPolicy:
    """Learned numbers as a policy.

    >>> CompactPolicy("mine", first_numbers()).name
    'mine'
    """

    def __init__(self, name: str, numbers: Floats, bundle: Bundle | None = None) -> None:
        self.name = name
        self.bundle = bundle
        self.numbers = np.asarray(numbers, np.float64)

    def begin(self, graph: Graph) -> CompactDecider:
        return CompactDecider(graph, self.numbers)


class CompactDecider:
    """Learned numbers at work; every job may have a row of its own, [E, numbers]."""

    def __init__(self, graph: Graph, numbers: Floats) -> None:
        size, vertices = graph.exists.shape
        numbers = np.broadcast_to(numbers, (size, SIZE))
        self._parts = {name: numbers[:, part(name)] for name in PARTS}
        self._count = np.maximum(graph.exists.sum(1), 1)
        self._place = np.arange(vertices) / self._count[:, None]

    def decide(self, snapshot: Snapshot) -> Integers:
        found = self.think(snapshot)
        return np.where(found.commits[:, None], found.goal, snapshot.parallelism)

    def think(self, snapshot: Snapshot) -> Thought:
        """A decision with all that it rests on."""
        graph, now, exists = snapshot.graph, snapshot.parallelism, snapshot.graph.exists
        came = Arrivals(snapshot, HOUR_S)
        seen = window(snapshot, min(WINDOW_S, snapshot.interval_s * snapshot.samples.present.shape[1]))
        recent = intervals_in(RECENT_S, snapshot.interval_s)
        needed = busy_subtasks(came, seen, graph, recent) * (1 + blocked_by_bursts(seen, graph))
        rates = {
            minutes: came.all_sources(0, intervals_in(60.0 * minutes, snapshot.interval_s))
            for minutes in (3, 10, 30, 60)
        }
        rate = rates[30]
        minutes_waiting = _over(came.waiting(), rate, 0.0) / 60.0
        facts = self._facts(snapshot, came, rates, minutes_waiting)
        factors = self.factors(facts)
        vertex_facts = self._vertex_facts(snapshot, seen, needed, factors.size)
        of_size, of_limit = (
            np.exp(_within((vertex_facts * self._parts[name][:, None]).sum(2), LARGEST_OF_A_VERTEX))
            for name in ("size of a vertex", "limit of a vertex")
        )
        catch_up_s = CATCH_UP_S * np.exp(self._parts["catching up"][:, 0])
        hurry = 1 + np.minimum(60.0 * minutes_waiting / catch_up_s, MOST_CATCHING_UP)
        busy = needed * hurry[:, None]
        size = factors.size[:, None] * of_size
        busiest = np.maximum.reduce([rates[minutes] for minutes in (3, 10, 30)])
        most = np.exp(self._parts["most given"]) * _over(busiest, rate, 1.0)[:, None]
        up, down = (
            self._rounded(busy * within_reach(one, busy, graph, room=ROOM_FOR_LUCK), snapshot)
            for one in (np.minimum(size, most), np.minimum(size * factors.down[:, None], most))
        )
        strained = busy * within_reach(factors.limit[:, None] * of_limit, busy, graph)
        over: Flags = (strained > useful(now, graph)) & (up > now) & exists
        any_over = np.any(over, axis=1)
        goal = np.where(any_over[:, None], np.maximum(up, np.minimum(down, now)), down)
        before, after = (np.where(exists, one, 0).sum(1) for one in (now, goal))
        saves = (1 - after / np.maximum(before, 1) >= factors.saving) & (hurry < 1 + MOST_CATCHING_UP)
        return Thought(needed, facts, vertex_facts, factors, over, goal, any_over | saves)

    def factors(self, facts: Floats) -> Factors:
        """What the learned functions make of some facts, [E, facts]."""
        return Factors(*(np.exp(_within((facts * self._parts[name]).sum(1), LARGEST)) for name in _FUNCTIONS))

    def _rounded(self, subtasks: Floats, snapshot: Snapshot) -> Integers:
        """Whole subtasks; a learned part of one may be missing."""
        less, less_if_few = self._parts["rounding"].T[:, :, None]
        worth = self._parts["worth of more"][:, 0]
        return thrifty(subtasks, snapshot, worth=worth, less=less, less_if_few=less_if_few)

    def _facts(
        self, snapshot: Snapshot, came: Arrivals, rates: Mapping[int, Floats], minutes_waiting: Floats
    ) -> Floats:
        """`rates` are of all sources, on average over the last so many minutes."""
        rate = rates[30]
        ten, thirty = (intervals_in(60.0 * minutes, snapshot.interval_s) for minutes in (10, 30))
        day = 2 * np.pi * (snapshot.now_s % DAY_S) / DAY_S
        parallelism = np.where(snapshot.graph.exists, snapshot.parallelism, 0).sum(1) / self._count
        latency = np.nan_to_num(snapshot.samples.latency_s[:, -1]) / snapshot.slo_s
        since_s = np.minimum(snapshot.since_rescale_s, LONG_AGO_S)
        highest = came.highest(range(0, came.length - ten + 1, ten), ten)
        some = rate > 0
        columns = (
            np.ones(len(rate)),
            np.where(some, _log_ratio(rates[10], rates[30]), 0.0),
            np.where(some, _log_ratio(rates[3], rates[10]), 0.0),
            np.where(some, _log_ratio(rates[30], rates[60]), 0.0),
            np.where(some & (highest > 0), _log_ratio(highest, rate), 0.0),
            np.sin(day),
            np.cos(day),
            np.sin(2 * day),
            np.cos(2 * day),
            np.clip(_over(came.noise(thirty), rate, USUAL_NOISE) / USUAL_NOISE - 1, -1, 1),
            np.minimum(np.log2(np.maximum(parallelism, 1)) / 2 - 1, MOST_PRACTISED),
            np.clip(latency, 0, 2),
            np.clip(minutes_waiting, 0, 2),
            np.log(self._count / USUAL_VERTICES),
            np.clip(1 - since_s / 900, 0, 1),
            np.clip(1 - since_s / 2700, 0, 1),
            np.clip(since_s / 3600 - 0.75, 0, 1),
        )
        even = np.clip(1 - _over(came.usual_change(thirty), rate, UNEVEN) / UNEVEN, 0, 1)
        facts = np.stack(columns, axis=1)
        return np.concatenate([facts, facts * even[:, None]], axis=1)

    def _vertex_facts(self, snapshot: Snapshot, seen: Window, needed: Floats, size: Floats) -> Floats:
        graph, known = snapshot.graph, np.nan_to_num(needed)
        wanted = np.maximum(known, 0.05) * size[:, None]
        columns = (
            np.where(graph.is_source, 1.0, 0.0),
            np.where(graph.key_groups > 0, 1.0, 0.0),
            np.log2(known + 0.5) / 3,
            self._place,
            snapshot.samples.queue_fill[:, -1],
            np.clip(np.log(wanted / np.maximum(snapshot.parallelism, 1)), -1, 1),
            _variation(seen),
        )
        return np.stack([np.broadcast_to(one, known.shape) for one in columns], axis=2)


def thrifty(
    needed: Floats,
    snapshot: Snapshot,
    *,
    worth: float | Floats = 1.0,
    less: float | Floats = 0.0,
    less_if_few: float | Floats = 0.0,
) -> Integers:
    """About so many subtasks, [E, V], with little lost to rounding up over all vertices of a job.

    Sizes up to 15 % smaller and larger than what is needed are tried, each for all vertices alike: a per cent
    more may cost `worth` per cent more subtasks. Of what is needed `less` may be missing, and `less_if_few`
    more over its number. These three may differ from job to job: [E, 1], `worth` [E].
    """
    sized = needed * np.exp(TRIED)[:, None, None]
    tried = enough(np.maximum(sized - less - less_if_few / np.maximum(sized, 1.0), 1e-3), snapshot)
    total = np.where(snapshot.graph.exists, tried, 0).sum(2)
    scores = np.log(np.maximum(total, 1)) - worth * TRIED[:, None]
    return np.take_along_axis(tried, scores.argmin(0)[None, :, None], axis=0)[0]


def _within(exponents: Floats, largest: float) -> Floats:
    return np.clip(exponents, -largest, largest)


def _over(part: Floats, whole: Floats, otherwise: float) -> Floats:
    some = whole > 0
    return np.where(some, part / np.where(some, whole, 1.0), otherwise)


def _log_ratio(one: Floats, other: Floats) -> Floats:
    return np.clip(np.log(np.maximum(one, _TINY) / np.maximum(other, _TINY)), -1.5, 1.5)


def _variation(seen: Window) -> Floats:
    """How much busy time varies from interval to interval, -1 to 1; 0 where nobody knows, [E, V]."""
    busy = np.maximum(seen.samples.busy, LEAST_BUSY)
    middle = mean(busy, seen.counts)
    spread = np.sqrt(np.maximum(mean(busy**2, seen.counts) - middle**2, 0.0))
    told = np.clip(spread / middle / USUAL_NOISE - 1, -1, 1)
    return np.where(seen.counts.sum(1) > 1, told, 0.0)


def compact_bundle(
    name: str, numbers: NDArray[Any], *, trained: Mapping[str, Any], scores: Mapping[str, Any]
) -> Bundle:
    """A bundle of learned numbers."""
    manifest = {
        "settings": {},
        "features": {"job": list(FACTS), "vertex": list(VERTEX_FACTS)},
        "trained": dict(trained),
        "scores": dict(scores),
    }
    return Bundle(name, WING, KIND, manifest, {"numbers": np.asarray(numbers, np.float64)})


def compact_policy(bundle: Bundle) -> CompactPolicy:
    """The policy of a bundle, or a line that says why it cannot be played."""
    if bundle.kind != KIND:
        raise BundleError(
            f"{bundle.name}: a bundle of kind {bundle.kind!r}; one of kind {KIND!r} is needed here"
        )
    if bundle.manifest["features"] != {"job": list(FACTS), "vertex": list(VERTEX_FACTS)}:
        raise BundleError(f"{bundle.name}: it sees other facts than this version; train it again")
    numbers = bundle.tensors.get("numbers")
    if numbers is None or numbers.shape != (SIZE,):
        raise BundleError(f"{bundle.name}: its numbers are not those of this version; train it again")
    return CompactPolicy(bundle.name, numbers, bundle)
