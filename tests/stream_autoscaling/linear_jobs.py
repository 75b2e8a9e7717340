"""Jobs in closed form, on which DS2 must converge: capacity grows with parallelism, metrics are exact.

Imported by the tests and by `benchmarks/stream_rules.py`, which states the same law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.stream_autoscaling.snapshots import snapshot_of

from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot, allowed

__all__ = ["TARGET", "Convergence", "LinearJob", "converge", "random_linear_job"]

TARGET = 0.75
STEPS = 8


@dataclass
class LinearJob:
    """A job in closed form: capacity is proportional to parallelism, metrics are exact."""

    graph: Graph
    arriving: np.ndarray  # [V] records per second from outside
    capacity: np.ndarray  # [V] records per second of one subtask

    @property
    def demand(self) -> np.ndarray:
        demand = self.arriving.copy()
        for vertex in range(len(demand)):
            demand[vertex] += (demand[:vertex] * self.graph.selectivity[0, :vertex, vertex]).sum()
        return demand

    def observed(self, parallelism: np.ndarray) -> Snapshot:
        """Steady metrics: backpressure slows all sources alike, until no vertex is asked for too much."""
        demand = self.demand
        pace = min(1.0, (self.capacity * parallelism / demand).min())
        processed = pace * demand
        history = 5
        pending = 60.0 * (1 - pace) * self.arriving * np.arange(1, history + 1)[:, None]
        return snapshot_of(
            self.graph,
            history=history,
            parallelism=parallelism,
            records_in=processed,
            records_out=processed * self.graph.selectivity[0].sum(1),
            busy=processed / (self.capacity * parallelism),
            pending=pending[None],
            since_rescale_s=1e6,
        )


def random_linear_job(seed: int) -> LinearJob:
    """A DAG of 2 to 15 vertices with random selectivities, rates and speeds."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 16))
    selectivity = np.zeros((1, count, count))
    sources = int(random.integers(1, max(2, count // 3)))
    for vertex in range(sources, count):
        parents = random.choice(vertex, size=int(random.integers(1, min(vertex, 3) + 1)), replace=False)
        selectivity[0, parents, vertex] = random.uniform(0.3, 2.0, len(parents))
    shape = (1, count)
    graph = Graph(
        exists=np.ones(shape, bool),
        is_source=np.logical_not(np.any(selectivity > 0, axis=1)),
        selectivity=selectivity,
        least=np.ones(shape, np.int64),
        most=np.full(shape, 10**6),
        key_groups=np.zeros(shape, np.int64),
        slot_group=np.zeros(shape, np.int64),
    )
    arriving = np.where(graph.is_source[0], random.uniform(10, 1000, count), 0.0)
    return LinearJob(graph, arriving, capacity=random.uniform(5, 500, count))


@dataclass(frozen=True)
class Convergence:
    """What DS2 did on one job from a random start."""

    steps: int
    """Decisions until the parallelism is what the job needs and stays so; more than `STEPS`: never."""
    seen: tuple[Integers, ...]
    enough: np.ndarray


def converge(seed: int) -> Convergence:
    """Let DS2 decide eight times on the job of a seed, each time on steady metrics."""
    job = random_linear_job(seed)
    random = np.random.default_rng(1000 + seed)
    parallelism = random.integers(1, 40, len(job.capacity))
    decider = make_policy("ds2", {"target": TARGET}).begin(job.graph)
    seen = [parallelism]
    for _ in range(STEPS):
        snapshot = job.observed(parallelism)
        parallelism = allowed(snapshot, decider.decide(snapshot))[0]
        seen.append(parallelism)
    enough = np.ceil(job.demand / (job.capacity * TARGET) - 1e-9)
    wrong = [step for step, found in enumerate(seen) if (found != enough).any()]
    return Convergence(max(wrong, default=-1) + 1, tuple(seen), enough)
