"""Snapshots made by hand, for tests of rules: every number is said or plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.stream_autoscaling.problem import Graph, Samples, Snapshot


def chain_graph(
    count: int,
    *,
    environments: int = 1,
    ratios: Sequence[float] | None = None,
    most: int = 128,
    key_groups: Sequence[int] | None = None,
    edges: dict[tuple[int, int], float] | None = None,
) -> Graph:
    """A chain of so many vertices, or any graph by its edges; the first vertex is a source in any case."""
    shape = (environments, count)
    selectivity = np.zeros((*shape, count))
    along = edges or {(i, i + 1): (ratios or [1.0] * count)[i] for i in range(count - 1)}
    for (source, target), ratio in along.items():
        selectivity[:, source, target] = ratio
    fed = (selectivity > 0).any(1)
    groups = np.tile(np.array(key_groups if key_groups else [0] * count), (environments, 1))
    return Graph(
        exists=np.ones(shape, bool),
        is_source=~fed,
        selectivity=selectivity,
        least=np.ones(shape, np.int64),
        most=np.where(groups > 0, np.minimum(groups, most), most),
        key_groups=groups,
        slot_group=np.zeros(shape, np.int64),
    )


def snapshot_of(
    graph: Graph, *, history: int = 30, parallelism: Any = 1, interval_s: float = 60.0, **given: Any
) -> Snapshot:
    """A snapshot of a job that has run unchanged for long; whatever is given replaces what is usual.

    Sample arrays may be given as anything that broadcasts to [E, L, V] (or [E, L]); so [V] means the same
    in all intervals.
    """
    environments, count = graph.exists.shape
    long, wide = (environments, history), (environments, history, count)
    present_parallelism = np.broadcast_to(np.asarray(parallelism, np.int64), (environments, count)).copy()

    def taken(name: str, usual: Any, shape: tuple[int, ...], kind: type = float) -> Any:
        return np.broadcast_to(np.asarray(given.pop(name, usual), kind), shape).copy()

    busy = taken("busy", 0.0, wide)
    backpressured = taken("backpressured", 0.0, wide)
    samples = Samples(
        present=taken("present", True, long, bool),
        complete=taken("complete", graph.exists[:, None], wide, bool),
        records_in=taken("records_in", 0.0, wide),
        records_out=taken("records_out", 0.0, wide),
        busy=busy,
        backpressured=backpressured,
        idle=taken("idle", 1 - busy - backpressured, wide),
        queue_fill=taken("queue_fill", 0.0, wide),
        pending=taken("pending", 0.0, wide),
        parallelism=taken("sampled_parallelism", present_parallelism[:, None], wide, np.int64),
        state_mb=taken("state_mb", 0.0, wide),
        latency_s=taken("latency_s", 0.5, long),
        latency_p95_s=taken("latency_p95_s", 1.0, long),
    )
    each = {
        name: taken(name, usual, (environments,), kind)
        for name, usual, kind in (
            ("now_s", 36_000.0, float),
            ("rescaling", False, bool),
            ("cooldown_s", 0.0, float),
            ("since_rescale_s", np.inf, float),
            ("since_checkpoint_s", 5.0, float),
            ("downtime_s", 2.0, float),
            ("slots", 0, np.int64),
        )
    }
    slo_s = float(given.pop("slo_s", 5.0))
    assert not given, f"unknown: {sorted(given)}"
    return Snapshot(
        graph=graph,
        parallelism=present_parallelism,
        interval_s=interval_s,
        slo_s=slo_s,
        samples=samples,
        **each,
    )
