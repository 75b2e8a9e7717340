"""Jobs drawn at random: a shape, and then what every record costs and where it goes.

`dress` turns any shape (the parents of every vertex) into a job; the six frozen jobs of this package are
shapes of real batch jobs dressed by it. `random_shape` makes up a shape where none is at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.problem import Flags, Floats

__all__ = ["INITIAL_PARALLELISM", "chain_job", "dress", "random_shape", "synthetic_job"]

Shape = Sequence[Sequence[int]]
"""Parents of every vertex, which come before it."""

INITIAL_PARALLELISM = 5
"""Subtasks per vertex that a load is measured against; SURE's jobs begin with so many."""

LOAD = (0.4, 0.6)
"""Share of the initial subtasks that the usual rate keeps busy, over the whole job."""
WORK = (0.15, 1.0)
"""Work of the vertices relative to one another. At a load of 0.6 the mean over ln(1 / 0.15) is 0.45, so the
heaviest keeps 5 x 0.6 / 0.45 = 6.7 subtasks busy; with a scaling of 0.8 that takes 11, and 40 at three times
the usual rate."""
SELECTIVITY = (0.3, 2.0)
WINDOW_SELECTIVITY = (0.3, 0.6)
FLOW = (0.05, 3.0)
"""Records of a vertex per record of the job: selectivities multiply along a path, and keep within this."""
SCALING = (0.8, 1.0)
"""Nexmark's mapper has 0.80, measured from 1 to 26 subtasks by the authors of ContTune (VLDB'23)."""
SERVICE_SPREAD = (0.0, 0.5)
HOT_SHARE = (0.01, 0.03)
"""At most 3 %: one key then keeps a subtask busy when the whole vertex needs 33."""
WINDOWS_S = (1, 2, 3)
"""Short, because a window is let out at once: a vertex that is 90 % busy takes 0.9 windows to swallow it."""
STATE_MB = (50.0, 3000.0)
RATE = (10_000.0, 100_000.0)
RECORD_BYTES = (100.0, 1000.0)
"""Between two vertices of five subtasks lie 180 buffers of 32 kB: 20,000 records of 300 bytes, which is 7 s
of what a vertex gets that sees 3,000 records/s."""
SOURCE_SHARE = (0.5, 2.0)
KEY_GROUPS = 128
KEYED_CHANCE, HOT_CHANCE, WINDOW_CHANCE = 0.4, 0.5, 0.5
UNREAD_CHANCE = 0.9
"""Nearly every vertex reads one that nobody reads yet, so that few are left as sinks."""
LARGEST = 500


def synthetic_job(count: int, seed: int = 0) -> Job:
    """A random job of so many vertices.

    >>> job = synthetic_job(20, seed=3)
    >>> len(job.vertices), job == synthetic_job(20, seed=3), job == synthetic_job(20, seed=4)
    (20, True, False)
    """
    shape = random_shape(count, seed)
    return dress(f"synthetic:{count}", shape, seed=seed)


def chain_job(count: int) -> Job:
    """The textbook case: a chain, linear scaling, no keys, no windows, no state, even service.

    Vertex i does twice the work of vertex i - 1, and the fourth starts anew, so parallelisms must differ.

    >>> job = chain_job(3)
    >>> (job.demand_ms * job.usual_rate / 1000).tolist()
    [1.0, 2.0, 4.0]
    """
    if not 1 <= count <= LARGEST:
        raise WorkloadError(f"linear:{count}: a chain has 1 to {LARGEST} vertices, such as linear:3")
    rate = 1000.0
    vertices = tuple(
        Vertex(name=f"step-{index + 1}", service_ms=float(2 ** (index % 3))) for index in range(count)
    )
    return Job(f"linear:{count}", vertices, tuple(Edge(i, i + 1) for i in range(count - 1)), rate)


def random_shape(count: int, seed: int) -> list[list[int]]:
    """Parents of so many vertices: one connected graph with several sources, joins and forks.

    About a quarter are sources, as in the batch jobs of Alibaba's trace; every other vertex reads from one
    (six times in ten), two or three of the vertices shortly before it.
    """
    if not 2 <= count <= LARGEST:
        raise WorkloadError(f"synthetic:{count}: a job has 2 to {LARGEST} vertices, such as synthetic:20")
    seed = split(seed, "shape")
    sources = max(1, round(count / 4))
    parents: list[list[int]] = [[] for _ in range(sources)]
    unread = list(range(sources))
    for vertex in range(sources, count):
        wanted = 1 + int(np.searchsorted([0.6, 0.9], uniform(split(seed, "inputs"), vertex), side="right"))
        chosen = set()
        if uniform(split(seed, "unread"), vertex) < UNREAD_CHANCE:
            chosen.add(unread[int(integers(split(seed, "which"), vertex, high=len(unread)))])
        low = max(0, vertex - max(sources, 5))
        for draw in range(wanted - len(chosen)):
            chosen.add(int(integers(split(seed, "parent"), vertex, draw, low=low, high=vertex)))
        parents.append(sorted(chosen))
        unread = [one for one in unread if one not in chosen] + [vertex]
    return _connected(parents)


def _connected(parents: list[list[int]]) -> list[list[int]]:
    """Let the last vertex read what no other is connected with."""
    last = len(parents) - 1
    while outside := sorted(set(range(len(parents))) - _reached(parents, last)):
        parents[last] = sorted({*parents[last], outside[-1]})
    return parents


def _reached(parents: Shape, start: int) -> set[int]:
    """All vertices connected with one, in whichever direction."""
    reached, fresh = {start}, {start}
    while fresh:
        above = {parent for vertex in fresh for parent in parents[vertex]}
        below = {vertex for vertex, of_it in enumerate(parents) if fresh & set(of_it)}
        fresh = (above | below) - reached
        reached |= fresh
    return reached


def dress(name: str, parents: Shape, *, seed: int) -> Job:
    """Give a shape its numbers: what a record costs at every vertex, and how many it sends on.

    Service times are log-uniform over the span in which no vertex does more than 6.7 times the work of
    another, and scaled so that the usual rate keeps 40 to 60 % of five subtasks per vertex busy.

    >>> job = dress("two", [[], [0]], seed=1)
    >>> load = job.demand_ms.sum() * job.usual_rate / 1000 / (5 * 2)
    >>> bool(0.39 < load < 0.61)
    True
    """
    count = len(parents)
    ids = np.arange(count)
    read_by = {parent for of_it in parents for parent in of_it}
    is_source = np.array([not of_it for of_it in parents])
    is_sink = np.array([vertex not in read_by for vertex in ids])
    is_join = np.array([len(of_it) > 1 for of_it in parents])
    keyed = ~is_source & (is_join | (uniform(split(seed, "keyed"), ids) < KEYED_CHANCE))
    windowed = keyed & ~is_join & ~is_sink & (uniform(split(seed, "windowed"), ids) < WINDOW_CHANCE)
    shares = _rounded(_log_uniform(split(seed, "shares"), ids, SOURCE_SHARE))
    edges, flow = _edges(parents, np.where(is_source, shares / shares[is_source].sum(), 0.0), windowed, seed)
    rate = float(f"{_log_uniform(split(seed, 'rate'), np.array(0), RATE):.2g}")
    service_ms = _service_ms(flow, rate, seed)
    state_mb = _state_mb(keyed, seed)
    hot = keyed & (uniform(split(seed, "hot"), ids) < HOT_CHANCE)
    hot_share = _rounded(np.where(hot, _between(split(seed, "hot share"), ids, HOT_SHARE), 0.0))
    scaling = _rounded(_between(split(seed, "scaling"), ids, SCALING))
    spread = _rounded(_between(split(seed, "spread"), ids, SERVICE_SPREAD))
    size = _rounded(_log_uniform(split(seed, "bytes"), ids, RECORD_BYTES))
    window = integers(split(seed, "window"), ids, high=len(WINDOWS_S))
    kinds = _kinds(is_source, is_sink, is_join, keyed, windowed)
    vertices = tuple(
        Vertex(
            name=f"{kinds[i]}-{i + 1}",
            service_ms=float(service_ms[i]),
            scaling=float(scaling[i]),
            service_spread=float(spread[i]),
            key_groups=KEY_GROUPS if keyed[i] else 0,
            hot_share=float(hot_share[i]),
            window_s=float(WINDOWS_S[window[i]]) if windowed[i] else 0.0,
            state_mb=float(state_mb[i]),
            record_bytes=float(size[i]),
            input_share=float(shares[i]) if is_source[i] else 1.0,
        )
        for i in range(count)
    )
    return Job(name, vertices, tuple(edges), rate)


def _edges(parents: Shape, flow: Floats, windowed: Flags, seed: int) -> tuple[list[Edge], Floats]:
    """Selectivities, and the records of each vertex per record of the job that follow from them."""
    flow = flow.copy()
    edges: list[Edge] = []
    seed = split(seed, "selectivity")
    for target, above in enumerate(parents):
        for parent in above:
            least, most = WINDOW_SELECTIVITY if windowed[parent] else SELECTIVITY
            # What this input may bring so that all of them together stay within FLOW.
            floor, ceiling = (bound / (len(above) * flow[parent]) for bound in FLOW)
            low, high = float(np.clip(floor, least, most)), float(np.clip(ceiling, least, most))
            drawn = _log_uniform(seed, np.array(parent), (low, high), target)
            selectivity = float(_rounded(drawn))
            edges.append(Edge(parent, target, selectivity))
            flow[target] += flow[parent] * selectivity
    return edges, flow


def _service_ms(flow: Floats, rate: float, seed: int) -> Floats:
    ids = np.arange(len(flow))
    work = _log_uniform(split(seed, "work"), ids, WORK)
    load = float(_between(split(seed, "load"), np.array(0), LOAD))
    busy = work / work.mean() * load * INITIAL_PARALLELISM
    return _rounded(1000 * busy / (rate * flow))


def _state_mb(keyed: Flags, seed: int) -> Floats:
    ids = np.arange(len(keyed))
    parts = np.where(keyed, 0.1 + uniform(split(seed, "state"), ids), 0.0)
    total = float(_log_uniform(split(seed, "all state"), np.array(0), STATE_MB))
    return _rounded(total * parts / max(parts.sum(), 1e-9))


def _kinds(is_source: Flags, is_sink: Flags, is_join: Flags, keyed: Flags, windowed: Flags) -> list[str]:
    chosen = np.select(
        [is_source, is_sink, is_join, windowed, keyed],
        ["source", "sink", "join", "window", "aggregate"],
        "map",
    )
    return chosen.tolist()


def _between(seed: int, ids: np.ndarray, span: tuple[float, float]) -> Floats:
    low, high = span
    return low + (high - low) * uniform(seed, ids)


def _log_uniform(seed: int, ids: np.ndarray, span: tuple[float, float], *more: int) -> Floats:
    low, high = span
    return low * (high / low) ** uniform(seed, ids, *more)


def _rounded(values: Floats) -> Floats:
    """Four significant digits: short in a file, and not at the mercy of a machine's last bit."""
    return np.vectorize(lambda value: float(f"{value:.4g}"), otypes=[np.float64])(values)
