"""Random jobs and what monitoring might say of them: snapshots and views for tests of learned autoscalers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from trimtab.stream_autoscaling.problem import Graph, Samples, Snapshot
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FeatureHistory, Seen, View

SMALL = Design(
    history=8,
    hidden=8,
    snapshots=4,
    neighbours=2,
    hops=2,
    base_window_s=180.0,
    base_memory_s=420.0,
    base_recent_s=420.0,
)


def random_graph(random: np.random.Generator, sizes: list[int], *, padded: int = 0) -> Graph:
    """Jobs of these sizes, every vertex but the first fed by one or two before it."""
    most = max(padded, *sizes)
    shape = (len(sizes), most)
    exists = np.arange(most) < np.array(sizes)[:, None]
    selectivity = np.zeros((*shape, most))
    for row, size in enumerate(sizes):
        for child in range(1, size):
            for parent in {int(random.integers(child)), int(random.integers(child))}:
                selectivity[row, parent, child] = random.uniform(0.5, 1.5)
    groups = np.where(exists & (random.random(shape) < 0.4), 128, 0)
    return Graph(
        exists=exists,
        is_source=exists & ~(selectivity > 0).any(1),
        selectivity=selectivity,
        least=np.where(exists, 1, 0),
        most=np.where(exists, 64, 0),
        key_groups=groups,
        slot_group=np.zeros(shape, np.int64),
    )


def random_snapshot(
    random: np.random.Generator, graph: Graph, *, history: int, seen: int, **changes: Any
) -> Snapshot:
    """A moment `seen` intervals after the beginning, with a few metrics missing."""
    size, vertices = graph.exists.shape
    shape = (size, history, vertices)
    parallelism = np.where(graph.exists, random.integers(1, 20, (size, vertices)), 0)
    present = np.broadcast_to(np.arange(history) >= history - seen, (size, history)).copy()
    complete = (random.random(shape) < 0.95) & graph.exists[:, None] & present[..., None]
    shares = random.dirichlet(np.ones(3), shape)
    samples = Samples(
        present=present,
        complete=complete,
        records_in=random.lognormal(5, 1, shape),
        records_out=random.lognormal(5, 1, shape),
        busy=shares[..., 0],
        backpressured=shares[..., 1],
        idle=shares[..., 2],
        queue_fill=random.random(shape),
        pending=random.lognormal(3, 2, shape) * graph.is_source[:, None],
        parallelism=np.broadcast_to(parallelism[:, None], shape),
        state_mb=random.lognormal(2, 2, shape),
        latency_s=np.where(
            random.random((size, history)) < 0.9, random.lognormal(0, 1, (size, history)), np.nan
        ),
        latency_p95_s=random.lognormal(1, 1, (size, history)),
    )
    values = {
        "now_s": np.full(size, 60.0 * seen),
        "interval_s": 60.0,
        "graph": graph,
        "parallelism": parallelism,
        "rescaling": np.zeros(size, bool),
        "cooldown_s": np.zeros(size),
        "since_rescale_s": np.where(random.random(size) < 0.5, np.inf, 600.0),
        "since_checkpoint_s": random.uniform(0, 20, size),
        "downtime_s": random.uniform(1, 30, size),
        "slots": np.zeros(size, np.int64),
        "slo_s": 5.0,
        "samples": samples,
    }
    return Snapshot(**{**values, **changes})


def random_seen(
    random: np.random.Generator, graph: Graph, design: Design, *, steps: int
) -> tuple[Snapshot, Seen]:
    """What a history shows after so many random snapshots."""
    history = FeatureHistory(graph, design)
    for number in range(1, steps + 1):
        snapshot = random_snapshot(random, graph, history=design.history, seen=number)
        luck = random.integers(0, 2**32, len(graph.exists), dtype=np.uint32)
        seen = history.see(snapshot, luck)
    return snapshot, seen


def random_view(sizes: list[int], design: Design, *, steps: int = 0, seed: int = 0) -> View:
    random = np.random.default_rng(seed)
    steps = steps or design.history + 3
    return random_seen(random, random_graph(random, sizes), design, steps=steps)[1].view


def observation_of(view: View, *, future: int = 8) -> dict[str, np.ndarray]:
    """As a training environment shows it."""
    shown = {name: np.array(value) for name, value in view._asdict().items()}
    return {**shown, "future": np.zeros((len(view.exists), future), np.float32)}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile in a third of the time, for functions that are called once or twice."""
    hasty = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=hasty)


def random_action(view: View, *, commit: bool = True, seed: int = 0) -> np.ndarray:
    """Allowed choices at random; every second row holds unless all are to commit."""
    scores = np.where(view.mask, np.random.default_rng(seed).random(view.mask.shape), -1)
    commits = np.ones(len(view.mask)) if commit else np.arange(len(view.mask)) % 2
    return np.concatenate([commits[:, None], scores.argmax(-1)], axis=1).astype(np.int32)
