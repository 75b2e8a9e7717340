"""A streaming job: operators, what a record costs there, and where it goes next."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.core.errors import WorkloadError
from trimtab.stream_autoscaling.problem import Floats, Graph, Integers

__all__ = [
    "Edge",
    "Job",
    "Vertex",
    "enough_parallelism",
    "enough_subtasks",
    "graph_of",
    "job_from",
    "load_job",
    "narrowest",
    "refuse_loose_vertices",
    "save_job",
]

FORMAT = "trimtab-stream-job"
VERSION = 1
USUAL_RATE = 1000.0
_WHOLE = ("key_groups", "least_parallelism", "most_parallelism")


@dataclass(frozen=True, kw_only=True)
class Vertex:
    """One operator (or chain of operators) of a job."""

    name: str
    service_ms: float
    """What one record takes in one subtask."""
    scaling: float = 1.0
    """p subtasks do the work of p to this power: 1 is linear; Nexmark's mapper has 0.80."""
    service_spread: float = 0.0
    """Standard deviation of the service time over its mean: 0 is M/D/1, 1 is M/M/1."""
    key_groups: int = 0
    """Keys are dealt out in so many groups, which is also the most parallelism; 0: not keyed."""
    hot_share: float = 0.0
    """Share of the records that the busiest key has: one subtask must take them all."""
    window_s: float = 0.0
    """Results are sent at the end of every window of this length; 0: as records come."""
    state_mb: float = 0.0
    """State that a restart must restore."""
    record_bytes: float = 200.0
    """Size of a record that this vertex sends."""
    input_share: float = 1.0
    """Of a source: its share of what arrives, relative to the other sources."""
    least_parallelism: int = 1
    most_parallelism: int = 128
    slot_group: str = "default"


@dataclass(frozen=True)
class Edge:
    """From one vertex to another: `selectivity` records are sent for every record processed."""

    source: int
    target: int
    selectivity: float = 1.0
    forward: bool = False
    """Each subtask feeds one other only; otherwise every one may feed every other."""


@dataclass(frozen=True)
class Job:
    """Vertices in topological order, parents before children, and the edges between them.

    >>> job = Job(
    ...     "two", (Vertex(name="read", service_ms=0.1), Vertex(name="count", service_ms=2)), (Edge(0, 1),)
    ... )
    >>> job.demand_ms.round(2).tolist()
    [0.1, 2.0]
    """

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    usual_rate: float = USUAL_RATE
    """Records per second that arrive on average: what a trace by name is scaled to unless told otherwise."""

    def __post_init__(self) -> None:
        if not self.vertices:
            raise WorkloadError(f"job {self.name}: no vertices; a job needs at least one")
        if not (_is_number(self.usual_rate) and np.isfinite(self.usual_rate) and self.usual_rate > 0):
            raise WorkloadError(
                f"job {self.name}: usual_rate = {self.usual_rate}; give records per second, above 0"
            )
        for vertex in self.vertices:
            _check_vertex(self.name, vertex)
        names = [vertex.name for vertex in self.vertices]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise WorkloadError(f"job {self.name}: two vertices are called {twice!r}; rename one")
        seen: set[tuple[int, int]] = set()
        for edge in self.edges:
            self._check_edge(edge)
            if (edge.source, edge.target) in seen:
                raise WorkloadError(
                    f"job {self.name}: {names[edge.source]} -> {names[edge.target]} twice; "
                    "add up their selectivities"
                )
            seen.add((edge.source, edge.target))

    def _check_edge(self, edge: Edge) -> None:
        count = len(self.vertices)
        if not (isinstance(edge.source, Integral) and isinstance(edge.target, Integral)):
            raise WorkloadError(
                f"job {self.name}: edge {edge.source!r} -> {edge.target!r}; name vertices by their number"
            )
        if not (0 <= edge.source < count and 0 <= edge.target < count):
            raise WorkloadError(
                f"job {self.name}: edge {edge.source} -> {edge.target}, but its vertices are 0 to {count - 1}"
            )
        if edge.source >= edge.target:
            raise WorkloadError(
                f"job {self.name}: edge {self.vertices[edge.source].name} -> "
                f"{self.vertices[edge.target].name} goes back; list parents before children, "
                "and break the cycle if there is one"
            )
        if not (_is_number(edge.selectivity) and np.isfinite(edge.selectivity) and edge.selectivity > 0):
            raise WorkloadError(
                f"job {self.name}: selectivity {edge.selectivity} from {self.vertices[edge.source].name}; "
                "give records sent per record processed, above 0"
            )

    @property
    def is_source(self) -> np.ndarray:
        """Vertices without inputs, [V]."""
        fed = {edge.target for edge in self.edges}
        return np.array([index not in fed for index in range(len(self.vertices))])

    @property
    def is_sink(self) -> np.ndarray:
        """Vertices that send nothing on, [V]."""
        feeding = {edge.source for edge in self.edges}
        return np.array([index not in feeding for index in range(len(self.vertices))])

    @property
    def source_shares(self) -> np.ndarray:
        """What part of the arriving records each vertex reads from outside, [V]."""
        shares = np.array([vertex.input_share for vertex in self.vertices]) * self.is_source
        return shares / shares.sum()

    @property
    def flow(self) -> np.ndarray:
        """Records each vertex must process per record that arrives at the job, [V]."""
        flow = self.source_shares.copy()
        for edge in sorted(self.edges, key=lambda one: one.source):
            flow[edge.target] += flow[edge.source] * edge.selectivity
        return flow

    @property
    def demand_ms(self) -> np.ndarray:
        """Work per record that arrives at the job, by vertex, [V]."""
        return self.flow * np.array([vertex.service_ms for vertex in self.vertices])


def _made(kind: type[Any], told: Any, number: int | None = None) -> Any:
    """A record from a table of a file; a field that is unknown, missing or no number is named."""
    what = kind.__name__.lower()
    if not isinstance(told, dict):
        raise WorkloadError(f"{what} {number} is {told!r}, no table of fields; compare it with a saved job")
    what += "" if number is None else f" {told.get('name', number)}"
    known = {field.name: field for field in fields(kind)}
    for name, value in told.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
            raise WorkloadError(f"{what} has no field {name!r}; {hint}")
        if name in ("source", "target"):
            continue  # The job that has the vertices refuses these.
        if known[name].type in ("int", "float") and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise WorkloadError(f"{what}: {name} = {json.dumps(value)} is no number; write it without quotes")
        if known[name].type == "int" and value != value // 1:
            raise WorkloadError(f"{what}: {name} = {value} is no whole number; round it")
        if known[name].type == "bool" and not isinstance(value, bool):
            raise WorkloadError(f"{what}: {name} = {json.dumps(value)}; write true or false, without quotes")
        if known[name].type == "str" and not isinstance(value, str):
            raise WorkloadError(f"{what}: {name} = {json.dumps(value)} is no text; put it in quotes")
    for name, field in known.items():
        if name not in told and field.default is MISSING:
            raise WorkloadError(f"{what}: {name} is missing; add it")
    return kind(**told)


def _is_number(value: object) -> bool:
    """Also one of numpy's; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_vertex(job: str, vertex: Vertex) -> None:
    ranges = {
        "service_ms": (vertex.service_ms, 1e-9, 1e9),
        "scaling": (vertex.scaling, 0.05, 1.0),
        "service_spread": (vertex.service_spread, 0.0, 10.0),
        "key_groups": (vertex.key_groups, 0, 32768),
        "hot_share": (vertex.hot_share, 0.0, 1.0),
        "window_s": (vertex.window_s, 0.0, 1e6),
        "state_mb": (vertex.state_mb, 0.0, 1e9),
        "record_bytes": (vertex.record_bytes, 1.0, 1e9),
        "input_share": (vertex.input_share, 1e-9, 1e9),
        "least_parallelism": (vertex.least_parallelism, 1, 32768),
        "most_parallelism": (vertex.most_parallelism, 1, 32768),
    }
    if not (isinstance(vertex.name, str) and vertex.name):
        raise WorkloadError(f"job {job}: a vertex is called {vertex.name!r}; give it a name")
    for name in ranges:
        value = getattr(vertex, name)
        if not _is_number(value):
            raise WorkloadError(f"job {job}, vertex {vertex.name}: {name} = {value!r} is no number; give one")
    for name, (value, low, high) in ranges.items():
        if not (np.isfinite(value) and low <= value <= high):
            raise WorkloadError(
                f"job {job}, vertex {vertex.name}: {name} = {value} is out of range; use {low:g} to {high:g}"
            )
        if name in _WHOLE and value != int(value):
            raise WorkloadError(
                f"job {job}, vertex {vertex.name}: {name} = {value} is no whole number; round it"
            )
    if vertex.hot_share and not vertex.key_groups:
        raise WorkloadError(
            f"job {job}, vertex {vertex.name}: hot_share = {vertex.hot_share} is of the busiest key, but "
            "key_groups = 0: nothing is keyed; give key_groups (Flink's usual number is 128), or no hot_share"
        )
    if vertex.least_parallelism > vertex.most_parallelism:
        raise WorkloadError(
            f"job {job}, vertex {vertex.name}: least_parallelism = {vertex.least_parallelism} is above "
            f"most_parallelism = {vertex.most_parallelism}; lower it, or raise the other"
        )
    if 0 < vertex.key_groups < vertex.least_parallelism:
        raise WorkloadError(
            f"job {job}, vertex {vertex.name}: {vertex.key_groups} key groups feed no more than so many "
            f"subtasks, but least_parallelism = {vertex.least_parallelism}; lower it"
        )


def enough_subtasks(vertex: Vertex, rate: float, *, utilisation: float) -> int:
    """The least parallelism at which a vertex processes `rate` records/s at no more than this utilisation.

    More subtasks help less than in proportion (`scaling`), and not at all once the busiest key has one of
    its own. Where nothing is enough: the most the vertex may have.
    """
    subtasks, worth = _worth(vertex)
    enough = worth * 1000 * utilisation >= rate * vertex.service_ms * (1 - 1e-9)
    return int(subtasks[np.argmax(enough)] if enough.any() else subtasks[-1])


def _worth(vertex: Vertex) -> tuple[Integers, Floats]:
    """Every parallelism that a vertex may have, and how many subtasks it is worth in work done."""
    most = min(vertex.most_parallelism, vertex.key_groups or vertex.most_parallelism)
    subtasks = np.arange(vertex.least_parallelism, max(most, vertex.least_parallelism) + 1)
    worth = subtasks.astype(np.float64) ** vertex.scaling
    if vertex.key_groups:
        largest_share = np.maximum(
            np.ceil(vertex.key_groups / subtasks) / vertex.key_groups, vertex.hot_share
        )
        worth = np.minimum(worth, 1 / largest_share)
    return subtasks, worth


def narrowest(job: Job) -> tuple[float, str]:
    """The most records/s of the job that can be kept up with, and the vertex that can no more.

    >>> job = Job(
    ...     "two",
    ...     (Vertex(name="read", service_ms=0.1), Vertex(name="count", service_ms=2)),
    ...     (Edge(0, 1, 4.0),),
    ... )
    >>> narrowest(job)
    (16000.0, 'count')
    """
    rates = [
        float(1000 * _worth(vertex)[1].max() / max(demand_ms, 1e-300))
        for vertex, demand_ms in zip(job.vertices, job.demand_ms.tolist(), strict=True)
    ]
    place = int(np.argmin(rates))
    return rates[place], job.vertices[place].name


def enough_parallelism(job: Job, rate: float, *, utilisation: float = 0.7) -> Integers:
    """The least parallelism of each vertex, [V], that handles `rate` records/s of the job at a utilisation.

    >>> job = Job(
    ...     "two", (Vertex(name="read", service_ms=0.1), Vertex(name="count", service_ms=2)), (Edge(0, 1),)
    ... )
    >>> enough_parallelism(job, 1000.0).tolist()
    [1, 3]
    """
    if not (rate >= 0 and 0 < utilisation <= 1):
        raise WorkloadError(
            f"rate {rate:g}/s at utilisation {utilisation:g}; give a rate of 0 or more, 0 < share <= 1"
        )
    pairs = zip(job.vertices, (job.flow * rate).tolist(), strict=True)
    return np.array([enough_subtasks(vertex, own, utilisation=utilisation) for vertex, own in pairs])


def graph_of(jobs: Sequence[Job]) -> Graph:
    """One job for every environment, padded to the largest."""
    size, most = len(jobs), max(len(job.vertices) for job in jobs)
    exists = np.zeros((size, most), bool)
    is_source = np.zeros((size, most), bool)
    selectivity = np.zeros((size, most, most))
    least, limit, key_groups, slot_group = (np.zeros((size, most), np.int64) for _ in range(4))
    for row, job in enumerate(jobs):
        count = len(job.vertices)
        exists[row, :count] = True
        is_source[row, :count] = job.is_source
        for edge in job.edges:
            selectivity[row, edge.source, edge.target] = edge.selectivity
        groups = sorted({vertex.slot_group for vertex in job.vertices})
        for index, vertex in enumerate(job.vertices):
            least[row, index] = vertex.least_parallelism
            keyed = vertex.key_groups or vertex.most_parallelism
            limit[row, index] = min(vertex.most_parallelism, keyed)
            key_groups[row, index] = vertex.key_groups
            slot_group[row, index] = groups.index(vertex.slot_group)
    return Graph(exists, is_source, selectivity, least, limit, key_groups, slot_group)


def save_job(job: Job, path: str | Path) -> None:
    """Write a job as JSON that people can read and edit."""
    content = {"format": FORMAT, "version": VERSION, **asdict(job)}
    text = json.dumps(content, indent=1, default=np.generic.item)  # numbers of numpy as plain ones
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)


def load_job(path: str | Path) -> Job:
    """Read a job, or say in one line why it cannot be read."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise WorkloadError(f"{path}: no such file; `trimtab import flink` writes job files") from None
    except (OSError, ValueError) as problem:
        raise WorkloadError(
            f"{path}: not a job file ({problem}); `trimtab import flink` writes them"
        ) from None
    return job_from(content, str(path))


def job_from(content: Any, where: str) -> Job:
    """A job from what its JSON file holds; `where` begins a refusal."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
        raise WorkloadError(f"{where}: not a job file; expected format {FORMAT!r} version {VERSION}")
    told = {name: value for name, value in content.items() if name not in ("format", "version")}
    try:
        for name, kind in (("vertices", Vertex), ("edges", Edge)):
            if not isinstance(told.get(name), list):
                raise WorkloadError(f"{name} is no list; compare it with a saved job")
            told[name] = tuple(_made(kind, one, number) for number, one in enumerate(told[name]))
        job: Job = _made(Job, told)
    except WorkloadError as problem:
        raise WorkloadError(f"{where}: {problem}") from None
    refuse_loose_vertices(job, where)
    return job


def refuse_loose_vertices(job: Job, where: str) -> None:
    """A vertex whose edges were lost would pass for one more source, and take its share of what arrives."""
    tied = {end for edge in job.edges for end in (edge.source, edge.target)}
    loose = [vertex.name for place, vertex in enumerate(job.vertices) if place not in tied]
    if loose and len(job.vertices) > 1:
        raise WorkloadError(
            f"{where}: {len(loose)} of {len(job.vertices)} vertices on no edge, such as {loose[0]!r}; "
            "say what feeds what, or make a job of each"
        )
