"""KEDA's Kafka scaler: as many workers as the records that wait call for.

KEDA hands the lag to Kubernetes' horizontal pod autoscaler as an average per replica, so that its
tolerance and its slow scale-down apply. Replicas are task managers, and in reactive mode all vertices
follow their number; more than the sources have partitions would stand idle.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.hpa import STABILISATION, TOLERANCE, Stabilised, desired_replicas
from trimtab.stream_autoscaling.heuristics.measures import latest, window
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot

__all__ = ["keda_lag"]


def keda_lag() -> Rule:
    """As many subtasks of every vertex as records wait, over a threshold (KEDA's Kafka scaler)."""
    return Rule(
        "keda-lag",
        KedaDecider,
        (
            Parameter(
                "lag_threshold",
                10.0,
                "records that may wait for each subtask",
                (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
                low=1e-3,
                high=1e12,
            ),
            Parameter(
                "least",
                1.0,
                "minReplicaCount",
                (1, 2, 3, 4, 6, 8, 12, 16),
                low=1.0,
                high=32_768.0,
                whole=True,
            ),
            Parameter("most", 100.0, "maxReplicaCount", low=1.0, high=32_768.0, whole=True),
            TOLERANCE,
            STABILISATION,
        ),
    )


class KedaDecider:
    """One number for the whole job: the largest parallelism among its vertices counts as the replicas."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self._threshold, self._tolerance = values["lag_threshold"], values["tolerance"]
        self._least, self._most = int(values["least"]), int(values["most"])
        self._stabilised = Stabilised((len(graph.exists),), values["down_wait_s"])

    def decide(self, snapshot: Snapshot) -> Integers:
        graph = snapshot.graph
        sources = graph.is_source & graph.exists
        seen = window(snapshot, snapshot.interval_s)
        lag = np.where(sources, latest(seen.samples.pending, seen.counts), 0.0).sum(1)
        present = np.maximum(snapshot.parallelism.max(1), 1)
        ratio = lag / (self._threshold * present)
        desired = desired_replicas(present, ratio, tolerance=self._tolerance)
        partitions = np.where(sources, graph.most, 0).max(1)
        most = np.minimum(np.maximum(partitions, 1), self._most)
        wanted = self._stabilised(np.clip(desired, np.minimum(self._least, most), most), snapshot, present)
        # Where nothing changes, vertices that differ stay different: nobody asked to make them alike.
        everywhere = np.where(graph.exists, np.clip(wanted[:, None], graph.least, graph.most), 0)
        return np.where((wanted == present)[:, None], snapshot.parallelism, everywhere)
