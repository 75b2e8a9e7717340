"""Kubernetes' horizontal pod autoscaler, applied to each vertex as if it were a deployment of its own.

wanted = ceil(parallelism * utilisation / target), nothing within the tolerance, and a scale-down only to
the largest of the recommendations of the last five minutes. Utilisation is the share of busy time.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.measures import intervals_in, just_begun, mean, window
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.problem import Floats, Graph, Integers, Snapshot

__all__ = ["STABILISATION", "TOLERANCE", "Stabilised", "desired_replicas", "hpa"]

TOLERANCE = Parameter(
    "tolerance", 0.1, "no change while the ratio is this close to 1", (0.05, 0.1, 0.2, 0.3), low=0.0, high=1.0
)
STABILISATION = Parameter(
    "down_wait_s",
    300.0,
    "seconds whose largest recommendation is what is scaled down to",
    (0, 300, 900, 1800, 3600),
    low=0.0,
    high=86_400.0,
)


def hpa() -> Rule:
    """Parallelism in proportion to utilisation over its target, vertex by vertex (Kubernetes HPA)."""
    return Rule(
        "hpa",
        HpaDecider,
        (
            Parameter(
                "target",
                0.7,
                "share of busy time to aim at",
                (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8),
                low=0.05,
                high=1.0,
            ),
            TOLERANCE,
            STABILISATION,
            Parameter(
                "window_s",
                60.0,
                "seconds over which utilisation is averaged",
                (60, 180, 300),
                low=1.0,
                high=86_400.0,
            ),
        ),
    )


def desired_replicas(parallelism: Integers, ratio: Floats, *, tolerance: float) -> Integers:
    """ceil(parallelism * ratio), or as it is within the tolerance or where the ratio is unknown (NaN).

    >>> desired_replicas(np.array([4, 4, 4]), np.array([1.3, 0.95, np.nan]), tolerance=0.1).tolist()
    [6, 4, 4]
    """
    known = np.where(np.isnan(ratio), 1.0, ratio)
    scaled = np.ceil(parallelism * known - 1e-9).astype(np.int64)
    return np.where(np.abs(known - 1) <= tolerance + 1e-12, parallelism, np.maximum(scaled, 1))


class Stabilised:
    """Scale up at once, down only to the largest recommendation of the last `down_wait_s`.

    The first recommendation is what there is: a fresh autoscaler does not scale down for a while either.
    """

    def __init__(self, shape: tuple[int, ...], down_wait_s: float) -> None:
        self._shape, self._down_wait_s = shape, down_wait_s
        self._kept = np.zeros((0, *shape), np.int64)  # newest last

    def __call__(self, recommended: Integers, snapshot: Snapshot, present: Integers) -> Integers:
        """What to do, given what is recommended now and what there is at present."""
        fresh = just_begun(snapshot)
        if not len(self._kept):
            # One of exactly `down_wait_s` ago counts too: five minutes of one-minute intervals hold six.
            count = 1 + intervals_in(self._down_wait_s, snapshot.interval_s) if self._down_wait_s > 0 else 1
            self._kept = np.zeros((count, *self._shape), np.int64)
            fresh = np.ones_like(fresh)
        self._kept[:, fresh] = 0
        self._kept[:-1] = self._kept[1:]
        self._kept[-1] = recommended
        if self._down_wait_s > 0:
            self._kept[-1, fresh] = np.maximum(recommended, present)[fresh]
        return np.where(recommended > present, recommended, np.minimum(present, self._kept.max(0)))


class HpaDecider:
    def __init__(self, graph: Graph, values: Values) -> None:
        self._target, self._tolerance = values["target"], values["tolerance"]
        self._window_s = values["window_s"]
        self._stabilised = Stabilised(graph.exists.shape, values["down_wait_s"])

    def decide(self, snapshot: Snapshot) -> Integers:
        seen = window(snapshot, self._window_s)
        ratio = mean(seen.samples.busy, seen.counts) / self._target
        desired = desired_replicas(snapshot.parallelism, ratio, tolerance=self._tolerance)
        bounded = np.clip(desired, snapshot.graph.least, snapshot.graph.most)
        return self._stabilised(bounded, snapshot, snapshot.parallelism)
