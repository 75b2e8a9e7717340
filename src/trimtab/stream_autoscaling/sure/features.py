"""What a learned autoscaler is told: numbers without units for every vertex and interval, and what it may do.

Each interval's numbers are made once, when it is the newest, and kept in a ring that is written twice, so
that the window of the last L intervals is one view. They are kept in half precision: metrics are three per
cent off anyway, and a batch for training is half as large.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Snapshot, slots_taken
from trimtab.stream_autoscaling.sure.actions import Bands, Offer, Suggestion, ladders, offer
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import encoder_of

__all__ = ["COUPLING", "FEATURES", "LARGEST_FEATURE", "FeatureHistory", "Seen", "View"]
__all__ += ["couplings_of", "features_of", "hops_of"]

FEATURES = (
    "complete",
    "records in against the window's mean",
    "records in against five intervals ago",
    "records out per record in",
    "busy",
    "backpressured",
    "idle",
    "parallelism",
    "parallelism against the most",
    "service time",
    "load, as the base rule sees it",
    "suggestion against parallelism",
    "input buffers full",
    "records that came against records sent",
    "key groups dealt unevenly",
    "state",
    "is source",
    "seconds of records waiting",
    "recently rescaled",
    "time since checkpoint",
    "hour of day, sine",
    "hour of day, cosine",
    "latency against the limit",
    "95th percentile of latency against the limit",
    "latency unknown",
    "slots",
    "slots against the budget",
    "downtime of a rescale",
    "rescale not possible now",
)
LARGEST_FEATURE = 8.0
"""Features are cut off here, on both sides of 0."""
COUPLING = 8
"""Rank of the graph's factors that CCRNN begins from."""
_DAY_S = 86_400.0
_TINY = 1e-9


class View(NamedTuple):
    """What enters the network, one row per environment."""

    window: NDArray[np.float16]  # [E, L, V, features], newest last
    present: Flags  # [E, L]: intervals that were seen
    exists: Flags  # [E, V]
    hops: NDArray[np.int8]  # [E, V, V]: steps from i down to j; negative: up; 0: not within reach
    coupling: NDArray[np.float32]  # [E, V, 2 * COUPLING], or one 0 for encoders that do not ask for it
    parallelism: NDArray[np.int32]  # [E, V]
    needed: NDArray[np.float32]  # [E, V]: subtasks that will be busy all the time
    choices: NDArray[np.int32]  # [E, V, choices]: parallelism behind each
    mask: Flags  # [E, V, choices]
    may_commit: Flags  # [E]
    base_commits: Flags  # [E]: the base rule would
    luck: NDArray[np.uint32]  # [E]: of the sampler


class Seen(NamedTuple):
    """A view, and what it was made of."""

    view: View
    suggestion: Suggestion
    offer: Offer


class FeatureHistory:
    """The last intervals of some jobs as features; `see` each snapshot once, in order.

    A job that begins anew needs no call: its earlier intervals are not `present` any more.
    """

    def __init__(self, graph: Graph, design: Design) -> None:
        size, vertices = graph.exists.shape
        self._graph, self._design = graph, design
        self._ring = np.zeros((size, 2 * design.history, vertices, len(FEATURES)), np.float16)
        self._seen = 0
        self._bands = Bands(graph, design)
        self._ladder = ladders(graph)
        self._hops = hops_of(graph, design.hops)
        coupled = encoder_of(design.history_encoder).coupled
        self._coupling = couplings_of(graph) if coupled else np.zeros((size, vertices, 1), np.float32)

    def see(self, snapshot: Snapshot, luck: NDArray[np.uint32] | None = None) -> Seen:
        """Take in the newest interval; show everything that is known. The window is a view: copy to keep."""
        length = self._design.history
        suggestion = self._bands.suggest(snapshot)
        offered = offer(snapshot, suggestion, self._ladder)
        newest = features_of(snapshot, suggestion)
        place = self._seen % length
        self._ring[:, place] = self._ring[:, place + length] = newest
        self._seen += 1
        size = len(snapshot.now_s)
        view = View(
            window=self._ring[:, place + 1 : place + 1 + length],
            present=self._present(snapshot),
            exists=self._graph.exists,
            hops=self._hops,
            coupling=self._coupling,
            parallelism=snapshot.parallelism.astype(np.int32),
            needed=_needed(snapshot, suggestion).astype(np.float32),
            choices=offered.values.astype(np.int32),
            mask=offered.mask,
            may_commit=offered.may_commit,
            base_commits=suggestion.commits,
            luck=_own_luck(snapshot) if luck is None else np.broadcast_to(luck, size).astype(np.uint32),
        )
        return Seen(view, suggestion, offered)

    def _present(self, snapshot: Snapshot) -> Flags:
        length = self._design.history
        present = np.zeros((len(snapshot.now_s), length), bool)
        had = snapshot.samples.present[:, -length:]
        present[:, length - had.shape[1] :] = had
        present[:, : max(0, length - self._seen)] = False
        return present


def _own_luck(snapshot: Snapshot) -> NDArray[np.uint32]:
    """Without luck from outside, that of the moment: only a random subset needs any when served."""
    return (snapshot.now_s // max(snapshot.interval_s, 1.0)).astype(np.int64).astype(np.uint32)


def _needed(snapshot: Snapshot, suggestion: Suggestion) -> Floats:
    """Busy subtasks that the base rule foresees; where it knows nothing, those that are busy now."""
    samples = snapshot.samples
    busy = np.where(samples.complete[:, -1], samples.busy[:, -1], 0.0) * snapshot.parallelism
    needed = np.where(np.isnan(suggestion.needed), busy, suggestion.needed)
    return np.where(snapshot.graph.exists, needed, 0.0)


def features_of(snapshot: Snapshot, suggestion: Suggestion) -> NDArray[np.float16]:
    """The newest interval in the order of `FEATURES`, [E, V, features]; 0 where a vertex did not report."""
    graph, samples = snapshot.graph, snapshot.samples
    complete = samples.complete[:, -1] & samples.present[:, -1, None] & graph.exists
    measured = [np.where(complete, one, 0.0) for one in _measured(snapshot, suggestion, complete)]
    always = [np.where(graph.exists, one, 0.0) for one in _of_job(snapshot)]
    rows = np.stack([complete.astype(np.float64), *measured, *always], axis=-1)
    return np.clip(rows, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float16)


def _measured(snapshot: Snapshot, suggestion: Suggestion, complete: Flags) -> list[Floats]:
    """What only a vertex that reported tells; numbers of others mean nothing and are not used."""
    graph, samples = snapshot.graph, snapshot.samples
    came = np.where(complete, samples.records_in[:, -1], 0.0)
    sent = np.where(complete, samples.records_out[:, -1], 0.0)
    busy = np.where(complete, samples.busy[:, -1], 0.0)
    parallelism = np.maximum(samples.parallelism[:, -1], 1)
    groups = np.maximum(graph.key_groups, 1)
    uneven = np.where(graph.key_groups > 0, -(-groups // parallelism) * parallelism / groups - 1, 0.0)
    service_ms = 1000.0 * busy * parallelism / np.maximum(came, _TINY)
    load = np.nan_to_num(suggestion.needed, nan=0.0) / np.maximum(snapshot.parallelism, 1)
    waiting_s = np.where(complete, samples.pending[:, -1], 0.0) / np.maximum(came, 1.0)
    return [
        _log_ratio(came, _window_mean(samples.records_in, samples.complete)),
        _log_ratio(came, _earlier(samples.records_in, samples.complete, 5)),
        np.log1p(sent / np.maximum(came, _TINY)).clip(0, 4),
        busy,
        samples.backpressured[:, -1],
        samples.idle[:, -1],
        np.log2(parallelism) / 4,
        samples.parallelism[:, -1] / np.maximum(graph.most, 1),
        np.where(came > 0, np.log10(service_ms + 1e-3), 0.0),
        load.clip(0, 4),
        _log_ratio(suggestion.parallelism, snapshot.parallelism),
        samples.queue_fill[:, -1],
        _imbalance(snapshot, came, sent, complete),
        uneven,
        np.log1p(np.where(complete, samples.state_mb[:, -1], 0.0)) / 4,
        graph.is_source.astype(np.float64),
        np.log1p(waiting_s) / 2,
    ]


def _of_job(snapshot: Snapshot) -> list[Floats]:
    """What is known without any vertex's report, the same for all vertices of a job."""
    samples = snapshot.samples
    shape = snapshot.graph.exists.shape
    latency, tail = (
        np.where(samples.present[:, -1], one[:, -1], np.nan)
        for one in (samples.latency_s, samples.latency_p95_s)
    )
    angle = 2 * np.pi * snapshot.now_s / _DAY_S
    taken = slots_taken(snapshot.parallelism, snapshot.graph)
    budget = np.where(snapshot.slots > 0, taken / np.maximum(snapshot.slots, 1), 0.0)
    since = np.nan_to_num(snapshot.since_checkpoint_s, nan=0.0, posinf=1e6)
    blocked = snapshot.rescaling | (snapshot.cooldown_s > 0)
    rows = [
        1 / (1 + snapshot.since_rescale_s / 300.0),
        np.log1p(since) / 4,
        np.sin(angle),
        np.cos(angle),
        _against_limit(latency, snapshot.slo_s),
        _against_limit(tail, snapshot.slo_s),
        np.isnan(latency),
        np.log2(np.maximum(taken, 1)) / 4,
        budget,
        np.log1p(snapshot.downtime_s) / 4,
        blocked,
    ]
    return [np.broadcast_to(np.asarray(row, np.float64)[:, None], shape) for row in rows]


def _against_limit(latency_s: Floats, slo_s: float) -> Floats:
    """0 at the limit, 1 at e times it; 0 also where nobody knows, which another number tells."""
    known = np.isfinite(latency_s)
    return np.where(known, np.log(np.maximum(np.where(known, latency_s, slo_s), 1e-3) / slo_s), 0.0).clip(
        -4, 4
    )


def _log_ratio(above: Floats | Integers, below: Floats | Integers) -> Floats:
    """log2 of a ratio within -3 and 3; 0 where either is 0."""
    known = (above > 0) & (below > 0)
    return np.where(known, np.log2(np.where(known, above, 1) / np.where(known, below, 1)), 0.0).clip(-3, 3)


def _window_mean(values: Floats, complete: Flags) -> Floats:
    number = complete.sum(1)
    return np.where(complete, values, 0.0).sum(1) / np.maximum(number, 1)


def _earlier(values: Floats, complete: Flags, intervals: int) -> Floats:
    """The value so many intervals ago; 0 where there is none."""
    if values.shape[1] <= intervals:
        return np.zeros(values[:, -1].shape)
    return np.where(complete[:, -1 - intervals], values[:, -1 - intervals], 0.0)


def _imbalance(snapshot: Snapshot, came: Floats, sent: Floats, complete: Flags) -> Floats:
    """What was sent to a vertex and has not come yet, relative to both: it fills buffers nobody else sees.

    Of a source: what its backlog grew by.
    """
    graph, samples = snapshot.graph, snapshot.samples
    split = graph.selectivity / np.maximum(graph.selectivity.sum(2, keepdims=True), _TINY)
    meant = (sent[:, :, None] * split).sum(1)
    parents_known = ~((graph.selectivity > 0) & ~complete[:, :, None]).any(1)
    before = _earlier(samples.pending, samples.complete & samples.present[:, :, None], 1)
    growth = (samples.pending[:, -1] - before) / snapshot.interval_s
    grew = (
        (samples.complete[:, -2] & samples.present[:, -2, None])
        if samples.present.shape[1] > 1
        else complete & False
    )
    meant = np.where(graph.is_source, came + np.where(grew & complete, growth, 0.0), meant)
    known = complete & (parents_known | graph.is_source)
    return np.where(known, (meant - came) / np.maximum(np.abs(meant) + came, _TINY), 0.0)


def hops_of(graph: Graph, most: int) -> NDArray[np.int8]:
    """Length of the shortest path from i down to j, negative where it leads up, 0 beyond `most`: [E, V, V].

    >>> chain = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]]) > 0
    >>> nothing = np.zeros((1, 3), int)
    >>> hops_of(Graph(nothing == 0, nothing == 0, chain * 1.0, *[nothing] * 4), 2)[0].tolist()
    [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]
    """
    edges = graph.selectivity > 0
    reached = np.zeros(edges.shape, np.int8)
    frontier = edges
    for distance in range(1, most + 1):
        reached = np.where((reached == 0) & frontier, np.int8(distance), reached)
        frontier = (frontier.astype(np.float32) @ edges.astype(np.float32)) > 0
    return (reached - np.swapaxes(reached, 1, 2)).astype(np.int8)


def couplings_of(graph: Graph) -> NDArray[np.float32]:
    """Two factors of each vertex whose products come near the edges (singular values): [E, V, 2 * COUPLING].

    Signs are free; the largest entry of each left factor is made positive, so that the same graph always
    gets the same numbers.
    """
    edges = (graph.selectivity > 0).astype(np.float64)
    edges = edges + np.swapaxes(edges, 1, 2) + np.eye(edges.shape[1]) * graph.exists[:, :, None]
    left, sizes, right = np.linalg.svd(edges)
    rank = min(COUPLING, edges.shape[1])
    largest = np.take_along_axis(left, np.abs(left).argmax(1)[:, None], 1)
    signs = np.where(largest < 0, -1.0, 1.0)
    weights = np.sqrt(sizes)[:, None]
    left, right = left * signs * weights, np.swapaxes(right, 1, 2) * signs * weights
    factors = np.zeros((*graph.exists.shape, 2, COUPLING), np.float32)
    factors[:, :, 0, :rank], factors[:, :, 1, :rank] = left[..., :rank], right[..., :rank]
    return factors.reshape(*graph.exists.shape, 2 * COUPLING)
