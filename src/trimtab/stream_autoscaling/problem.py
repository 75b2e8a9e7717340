"""What an autoscaler of streaming jobs sees, what it may decide, and what is good.

A streaming job is a graph of *vertices* (operators, chained as Flink chains them). Each runs as so many
parallel subtasks, its *parallelism*. Once per interval the policy sees the latest metrics of all vertices
and answers with the parallelism it wants for each; as long as that is what there is, nothing happens.
Any change stops and restarts the whole job.

Arrays carry many environments at once, E of them; a live job is a batch of one. Jobs of a batch may differ:
all are padded to V vertices, and `Graph.exists` says which are real.

Everything here is plain numpy, so the same words serve the simulator and a live cluster.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError

__all__ = [
    "Command",
    "Decider",
    "Graph",
    "Samples",
    "Snapshot",
    "StreamPolicy",
    "allowed",
    "decode",
    "slots_taken",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Graph(NamedTuple):
    """The jobs: what does not change while they run. Vertices are numbered parents before children."""

    exists: Flags  # [E, V]
    is_source: Flags  # [E, V]
    selectivity: Floats  # [E, V, V]: records sent to vertex j per record processed by i; 0 where no edge
    least: Integers  # [E, V]: parallelism may not be less
    most: Integers  # [E, V]: nor more
    key_groups: Integers  # [E, V]: keys are dealt out in so many groups; 0 = not keyed
    slot_group: Integers  # [E, V]: vertices of one group share slots; numbered from 0


class Samples(NamedTuple):
    """Metrics of the last L intervals, newest last: what the monitoring reports, late and noisy.

    Rates are records per second of the whole vertex; busy, backpressured and idle are shares of its
    subtasks' time and sum to 1.
    """

    present: Flags  # [E, L]: the interval has been lived through and reported on
    complete: Flags  # [E, L, V]: this vertex reported everything; otherwise its numbers mean nothing
    records_in: Floats  # [E, L, V]; of a source: records read
    records_out: Floats  # [E, L, V]: sent, summed over all edges
    busy: Floats  # [E, L, V]
    backpressured: Floats  # [E, L, V]
    idle: Floats  # [E, L, V]
    queue_fill: Floats  # [E, L, V]: share of the input buffers that is full, 0 to 1
    pending: Floats  # [E, L, V]: records that wait before a source; 0 elsewhere
    parallelism: Integers  # [E, L, V]: at the end of the interval
    state_mb: Floats  # [E, L, V]
    latency_s: Floats  # [E, L]: mean time from arrival to sink; NaN if nothing arrived there
    latency_p95_s: Floats  # [E, L]


class Snapshot(NamedTuple):
    """What an outsider can know at the moment of a decision."""

    now_s: Floats  # [E]: time of day counts from midnight of the first day
    interval_s: float  # between decisions
    graph: Graph
    parallelism: Integers  # [E, V]: as asked for last; 0 where no vertex exists
    rescaling: Flags  # [E]: a change is under way; another one is not taken
    cooldown_s: Floats  # [E]: until a change is taken
    since_rescale_s: Floats  # [E]: infinite if there was none
    since_checkpoint_s: Floats  # [E]: since the last completed one
    downtime_s: Floats  # [E]: what the last rescale took, or what one is expected to take
    slots: Integers  # [E]: budget of the job; 0 = none
    slo_s: float  # latency that must not be exceeded
    samples: Samples


class Command(NamedTuple):
    """A change for one live job: parallelism by vertex name, and why it is not what was asked for."""

    parallelism: dict[str, int]
    because: tuple[str, ...] = ()


class Decider(Protocol):
    """A policy at work on some jobs; may remember what it has seen."""

    def decide(self, snapshot: Snapshot) -> Integers:
        """Parallelism wanted for every vertex, [E, V]; as it is where nothing should change."""
        ...


class StreamPolicy(Protocol):
    """Any object with a name and a `begin`."""

    @property
    def name(self) -> str: ...

    def begin(self, graph: Graph, /) -> Decider:
        """Start afresh on these jobs."""
        ...


def slots_taken(parallelism: Integers, graph: Graph) -> Integers:
    """Slots of each job, [E]: vertices of a sharing group run in the same slots, so the largest counts.

    >>> one = np.ones((1, 3), bool)
    >>> graph = Graph(one, one, np.zeros((1, 3, 3)), *[np.array([[0, 0, 1]])] * 4)
    >>> slots_taken(np.array([[2, 5, 3]]), graph)
    array([8])
    """
    groups = int(graph.slot_group.max(initial=0)) + 1
    total = np.zeros(len(parallelism), np.int64)
    for group in range(groups):
        total += np.where(graph.exists & (graph.slot_group == group), parallelism, 0).max(1, initial=0)
    return total


def allowed(snapshot: Snapshot, wanted: Integers) -> Integers:
    """The nearest to what is wanted that may be done, [E, V].

    Parallelism stays within its bounds. A vertex without complete metrics is not scaled down: nobody knows
    what it does. Where the slots do not suffice, every vertex above the largest parallelism that fits is
    cut down to it, yet none below what it has.
    """
    graph = snapshot.graph
    if wanted.shape != graph.exists.shape:
        raise ActionError(f"parallelism of shape {wanted.shape} for {graph.exists.shape} vertices")
    within = np.clip(wanted, graph.least, graph.most)
    known = snapshot.samples.complete[:, -1] & snapshot.samples.present[:, -1, None]
    within = np.where(known, within, np.maximum(within, snapshot.parallelism))
    within = _within_slots(within, snapshot)
    still = snapshot.rescaling | (snapshot.cooldown_s > 0)
    return np.where(graph.exists & ~still[:, None], within, snapshot.parallelism)


def _within_slots(wanted: Integers, snapshot: Snapshot) -> Integers:
    graph, slots = snapshot.graph, snapshot.slots
    over = (slots > 0) & (slots_taken(wanted, graph) > slots)
    if not over.any():
        return wanted
    for cap in range(int(wanted.max()) - 1, 0, -1):
        cut = np.maximum(np.minimum(wanted, cap), np.minimum(wanted, snapshot.parallelism))
        wanted = np.where(over[:, None], cut, wanted)
        over &= slots_taken(wanted, graph) > slots
        if not over.any():
            break
    return wanted


def decode(snapshot: Snapshot, wanted: Integers, names: tuple[str, ...]) -> Command | None:
    """The command of a live job (a batch of one), or None where nothing is to be done.

    `names` are those of its vertices.
    """
    if len(wanted) != 1:
        raise ActionError(f"{len(wanted)} jobs; a command is for one")
    done = allowed(snapshot, wanted)
    because = tuple(
        f"{name}: {int(wanted[0, i])} wanted, {int(done[0, i])} allowed"
        for i, name in enumerate(names)
        if wanted[0, i] != done[0, i]
    )
    if (done == snapshot.parallelism).all():
        return None
    return Command({name: int(done[0, i]) for i, name in enumerate(names)}, because)
