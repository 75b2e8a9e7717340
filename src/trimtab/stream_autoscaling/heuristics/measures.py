"""What rules read out of a snapshot: each measure is written once, here.

Everything is vectorised over environments (E) and vertices (V). NaN means "nobody knows": no complete
sample of that vertex is in the window. A rule leaves such a vertex as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Samples, Snapshot

__all__ = [
    "LEAST_BUSY",
    "LEAST_IDLE",
    "MOST_BLOCKED",
    "Window",
    "arrivals",
    "as_parallelism",
    "blocked_by_bursts",
    "intervals_in",
    "just_begun",
    "latest",
    "mean",
    "output_ratios",
    "refuse_short_history",
    "slope",
    "target_rates",
    "true_rates",
    "window",
]

LEAST_BUSY = 1e-3
"""Flink reports busy time in whole milliseconds per second; less than one cannot be told from none."""
LEAST_IDLE = 0.1
"""A vertex that is idle for a larger share of the time could take in more, if it did not come all at once."""
MOST_BLOCKED = 2.0
"""Waiting for such vertices counts for so many times the time that a vertex works, at most."""

# Ratios of floats that are whole numbers on paper must not be rounded up: ceil(3.0000000000000004) is 4.
_ROUNDING = 1e-9


class Window(NamedTuple):
    """The last n intervals of metrics, and which of them count."""

    samples: Samples
    counts: Flags  # [E, n, V]: complete, and after the last restart has settled
    interval_s: float


def intervals_in(span_s: float, interval_s: float) -> int:
    """So many whole intervals cover a span; at least one."""
    return max(1, math.ceil(span_s / interval_s - _ROUNDING))


def refuse_short_history(history: int, span_s: float, interval_s: float, *, before: int = 0) -> None:
    """Refuse to look back further than metrics are kept, perhaps with some intervals before the span.

    >>> refuse_short_history(60, 3540, 60.0, before=1)
    """
    count = intervals_in(span_s, interval_s) + before
    if count > history:
        raise SettingsError(
            f"a window of {span_s:g} s takes {count} intervals of {interval_s:g} s, but the history holds "
            f"{history}; raise `history` of the deployment or shorten the window"
        )


def window(snapshot: Snapshot, span_s: float, *, settle_s: float = 0.0) -> Window:
    """The last `span_s` seconds of metrics, without those of before the last restart plus `settle_s`.

    Numbers of before a restart belong to another parallelism, and those of right after it to a job that
    is still warming up.
    """
    samples, interval_s = snapshot.samples, snapshot.interval_s
    count, history = intervals_in(span_s, interval_s), samples.present.shape[1]
    refuse_short_history(history, span_s, interval_s)
    recent = Samples._make(values[:, history - count :] for values in samples)
    began_s = interval_s * np.arange(count, 0, -1)  # so long ago each interval began, oldest first
    settled = began_s <= snapshot.since_rescale_s[:, None] - settle_s + _ROUNDING
    counts = recent.complete & (recent.present & settled)[:, :, None]
    return Window(recent, counts, interval_s)


def mean(values: Floats, counts: Flags) -> Floats:
    """Mean over the intervals that count, [E, V]; NaN where none does.

    >>> values, counts = np.array([[[1.0], [3.0], [8.0]]]), np.array([[[True], [True], [False]]])
    >>> mean(values, counts).tolist(), mean(values, counts & False).tolist()
    ([[2.0]], [[nan]])
    """
    number = counts.sum(1)
    total = np.where(counts, values, 0.0).sum(1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def latest(values: Floats, counts: Flags) -> Floats:
    """The newest value that counts, [E, V]; NaN where there is none."""
    count = counts.shape[1]
    place = count - 1 - np.argmax(counts[:, ::-1], axis=1)
    found = np.take_along_axis(values, place[:, None], axis=1)[:, 0]
    return np.where(counts.any(1), found, np.nan)


def slope(values: Floats, counts: Flags, interval_s: float) -> Floats:
    """Growth per second: least squares over the intervals that count, [E, V]; 0 where fewer than two do.

    >>> values, counts = np.array([[[10.0], [99.0], [16.0]]]), np.array([[[True], [False], [True]]])
    >>> slope(values, counts, 60.0).tolist()
    [[0.05]]
    """
    time_s = interval_s * np.arange(counts.shape[1], dtype=np.float64)[None, :, None]
    number = np.maximum(counts.sum(1), 1)
    middle = np.where(counts, time_s, 0.0).sum(1) / number
    away = np.where(counts, time_s - middle[:, None], 0.0)
    spread = (away * away).sum(1)
    moment = (away * np.where(counts, values, 0.0)).sum(1)
    return np.where(spread > 0, moment / np.maximum(spread, 1e-12), 0.0)


def true_rates(seen: Window) -> Floats:
    """Records per second that one subtask would process were it busy all the time, [E, V].

    The true processing rate of DS2 (Kalavri et al., OSDI'18): records over useful time. NaN where nothing
    was processed, for then nothing was learned.
    """
    samples, counts = seen.samples, seen.counts
    records = np.where(counts, samples.records_in, 0.0).sum(1)
    busy = np.maximum(samples.busy, LEAST_BUSY)
    useful = np.where(counts, busy * samples.parallelism, 0.0).sum(1)
    known = (records > 0) & (useful > 0)
    return np.where(known, records / np.where(known, useful, 1.0), np.nan)


def output_ratios(seen: Window, graph: Graph) -> Floats:
    """Records sent along each edge per record processed, [E, V, V].

    Monitoring tells how much a vertex sends in all; over its edges that is split as the graph says. Where
    nothing was processed, the graph's own selectivity is all there is.
    """
    samples, counts = seen.samples, seen.counts
    processed = np.where(counts, samples.records_in, 0.0).sum(1)
    sent = np.where(counts, samples.records_out, 0.0).sum(1)
    expected = graph.selectivity.sum(2)
    known = (processed > 0) & (expected > 0)
    factor = np.where(known, sent / np.where(known, processed * expected, 1.0), 1.0)
    return graph.selectivity * factor[:, :, None]


def blocked_by_bursts(seen: Window, graph: Graph) -> Floats:
    """Time that a vertex waits for idle ones to take in what it sends, over the time that it works, [E, V].

    Who sends in bursts, as windows do, waits for whoever comes next to take each of them in, however idle
    that is in between. Where one that it sends to is hardly idle, that one is too small, and no more of this
    vertex would help.
    """
    samples, counts = seen.samples, seen.counts
    busy, blocked, idle = (mean(one, counts) for one in (samples.busy, samples.backpressured, samples.idle))
    least_idle = np.where(graph.selectivity > 0, idle[:, None], np.inf).min(2)
    bursts = (least_idle > LEAST_IDLE) & (busy > LEAST_BUSY)
    return np.where(bursts, np.minimum(blocked / np.where(bursts, busy, 1.0), MOST_BLOCKED), 0.0)


def arrivals(seen: Window, graph: Graph) -> Floats:
    """Records per second that come in from outside, [E, V]: those read plus those that pile up.

    0 for vertices that are not sources, NaN for sources nobody knows about.
    """
    samples, counts = seen.samples, seen.counts
    growth = slope(samples.pending, counts, seen.interval_s)
    rates = np.maximum(mean(samples.records_in, counts) + growth, 0.0)
    return np.where(graph.is_source, rates, 0.0)


def target_rates(source_rates: Floats, ratios: Floats) -> Floats:
    """Records per second every vertex must process, [E, V], in one pass from the sources down.

    Vertices are numbered parents before children. What lies below an unknown (NaN) is unknown.

    >>> ratios = np.array([[[0.0, 2.0, 1.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]])
    >>> target_rates(np.array([[10.0, 0.0, 0.0]]), ratios).tolist()
    [[10.0, 20.0, 20.0]]
    """
    unknown = np.isnan(source_rates) | np.isnan(ratios).any(1)
    rates = np.where(np.isnan(source_rates), 0.0, source_rates)
    edges = ratios != 0
    ratios = np.where(np.isnan(ratios), 0.0, ratios)
    all_known = not unknown.any()
    for vertex in range(1, rates.shape[1]):
        above = ratios[:, :vertex, vertex]
        rates[:, vertex] += (rates[:, :vertex] * above).sum(1)
        if not all_known:
            unknown[:, vertex] |= (unknown[:, :vertex] & edges[:, :vertex, vertex]).any(1)
    return np.where(unknown, np.nan, rates)


def as_parallelism(needed: Floats, snapshot: Snapshot) -> Integers:
    """Round up to a parallelism within the vertex's bounds; where nobody knows (NaN), as it is."""
    graph = snapshot.graph
    known = ~np.isnan(needed) & graph.exists
    rounded = np.ceil(np.where(known, needed, 0.0) - _ROUNDING)
    bounded = np.clip(rounded, graph.least, graph.most).astype(np.int64)
    return np.where(known, bounded, snapshot.parallelism)


def just_begun(snapshot: Snapshot) -> Flags:
    """Environments that have lived through one interval at most, [E]: what was remembered is not theirs."""
    return ~snapshot.samples.present[:, -2]
