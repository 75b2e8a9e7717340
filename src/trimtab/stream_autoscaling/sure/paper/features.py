"""What a policy is told under the published rules: 27 numbers for each task and minute of the last hour.

As published: what waits, own utilisation, parallelism and latency, latencies of parents and of children
(number, mean, sum), utilisation and latency of the job, and ten sines and cosines of the depth in the graph
and of the minute, added. The published numbers of queued batches are one here, since batches of a minute are
alike; a task's latency is the time its batches wait and the time it is busy in a minute, which is that of a
batch as long as the task keeps up. Sines and cosines are computed from positions, not from sines (defect 8).
Counts of minutes may be in the thousands, so they enter as logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.stream_autoscaling.problem import Floats, Graph, Integers, Snapshot, slots_taken
from trimtab.stream_autoscaling.sure.actions import Offer
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import encoder_of
from trimtab.stream_autoscaling.sure.features import View, couplings_of, hops_of

__all__ = ["PAPER_FEATURES", "HourViews", "depths_of"]

_WAVES = 5
PAPER_FEATURES = (
    "batches waiting",
    "minutes to work them off",
    "records begun against the hour's mean",
    "busy",
    "parallelism",
    "instances of the job against the most",
    "latency",
    "parents",
    "mean latency of parents",
    "latency of parents",
    "children",
    "mean latency of children",
    "latency of children",
    "utilisation of the job",
    "latency of the job",
    "latency of the job, last five minutes",
    "is source",
    *(f"{wave} {number}" for number in range(_WAVES) for wave in ("sine", "cosine")),
)
_TINY = 1e-9


class _Numbers(NamedTuple):
    """What does not change while the jobs run."""

    edges: Floats  # [E, V, V]
    parents: Floats  # [E, V]: how many
    children: Floats  # [E, V]
    waves: NDArray[np.float32]  # [E, L, V, 10]


class HourViews:
    """Makes views of snapshots of `simulator.paper`; the window is the last hour, nothing is remembered."""

    def __init__(self, graph: Graph, design: Design) -> None:
        edges = (graph.selectivity > 0).astype(np.float64)
        self._graph, self._length = graph, design.history
        self._numbers = _Numbers(edges, edges.sum(1), edges.sum(2), _waves(graph, design.history))
        self._hops = hops_of(graph, design.hops)
        coupled = encoder_of(design.history_encoder).coupled
        self._coupling = couplings_of(graph) if coupled else np.zeros((*graph.exists.shape, 1), np.float32)

    def see(self, snapshot: Snapshot, luck: NDArray[np.uint32] | None = None) -> tuple[View, Offer]:
        """A view, and the offer that goes with it: there is no base rule here, so nothing is suggested."""
        graph, now, samples = self._graph, snapshot.parallelism, snapshot.samples
        hour = (snapshot.now_s // 3600).astype(np.uint32)
        busy = samples.busy.mean(1) * now
        nothing = np.zeros(len(now), bool)
        view = View(
            window=self._window(snapshot),
            present=samples.present[:, -self._length :],
            exists=graph.exists,
            hops=self._hops,
            coupling=self._coupling,
            parallelism=now.astype(np.int32),
            needed=busy.astype(np.float32),
            choices=now[..., None].astype(np.int32),
            mask=graph.exists[..., None],
            may_commit=~nothing,
            base_commits=nothing,
            luck=hour if luck is None else luck,
        )
        return view, Offer(now[..., None], view.mask, view.may_commit)

    def _window(self, snapshot: Snapshot) -> NDArray[np.float16]:
        graph, numbers, length = self._graph, self._numbers, self._length
        samples = snapshot.samples
        came, busy, waiting = (
            one[:, -length:] for one in (samples.records_in, samples.busy, samples.pending)
        )
        usual = np.maximum(came.mean(1, keepdims=True), _TINY)
        waiting_min = waiting / (60 * usual)
        latency = waiting_min + busy
        above, below = latency @ numbers.edges, latency @ np.swapaxes(numbers.edges, 1, 2)
        slots = slots_taken(snapshot.parallelism, graph) / np.maximum(snapshot.slots, 1)
        of_job = samples.latency_s[:, -length:] / 60
        used = (busy * graph.exists[:, None]).sum(2) / np.maximum(graph.exists.sum(1), 1)[:, None]
        columns = [
            _log(waiting_min),
            _log(waiting_min * busy.mean(1, keepdims=True)),
            np.log2(np.maximum(came / usual, 0.125)) / 2,
            busy,
            (np.log2(np.maximum(snapshot.parallelism, 1)) / 4)[:, None],
            slots[:, None, None],
            _log(latency),
            numbers.parents[:, None] / 4,
            _log(above / np.maximum(numbers.parents, 1)[:, None]),
            _log(above),
            numbers.children[:, None] / 4,
            _log(below / np.maximum(numbers.children, 1)[:, None]),
            _log(below),
            used[:, :, None],
            _log(of_job)[:, :, None],
            _log(_recent(of_job))[:, :, None],
            graph.is_source[:, None],
        ]
        shown = [np.broadcast_to(np.asarray(one, np.float32), came.shape) for one in columns]
        window = np.concatenate([np.stack(shown, axis=-1), numbers.waves], axis=-1)
        return np.clip(window * graph.exists[:, None, :, None], -8, 8).astype(np.float16)


def _log(minutes: Floats) -> Floats:
    return np.log1p(np.maximum(minutes, 0.0)) / 2


def _recent(values: Floats) -> Floats:
    """Mean over the last five minutes, or as many as there are: [E, L]."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    ends = np.arange(1, sums.shape[1])
    begins = np.maximum(ends - 5, 0)
    return (sums[:, ends] - sums[:, begins]) / (ends - begins)


def depths_of(graph: Graph) -> Integers:
    """Steps on the longest way from a source, [E, V].

    >>> edges = np.array([[[0, 1, 1], [0, 0, 1], [0, 0, 0]]]) * 1.0
    >>> nothing = np.zeros((1, 3), int)
    >>> depths_of(Graph(nothing == 0, nothing == 0, edges, *[nothing] * 4)).tolist()
    [[0, 1, 2]]
    """
    size, vertices = graph.exists.shape
    depths = np.zeros((size, vertices), np.int64)
    for vertex in range(1, vertices):
        above = np.where(graph.selectivity[:, :vertex, vertex] > 0, depths[:, :vertex] + 1, 0)
        depths[:, vertex] = above.max(1)
    return depths


def _waves(graph: Graph, length: int) -> NDArray[np.float32]:
    """Sines and cosines of depth and minute, added, within -1 and 1: [E, L, V, 10]."""
    rates = 10_000.0 ** (-np.arange(_WAVES) / _WAVES)

    def waves(positions: Integers) -> Floats:
        angles = positions[..., None] * rates
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, 2 * _WAVES)

    both = waves(np.arange(length))[None, :, None] + waves(depths_of(graph))[:, None]
    return (both / 2).astype(np.float32)
