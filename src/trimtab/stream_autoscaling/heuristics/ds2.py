"""DS2 (Kalavri et al., OSDI'18): measure what a subtask can do, then compute all parallelism at once.

As published: true processing rates from useful time, one traversal of the graph with measured
selectivities, a warm-up after each restart, and several decisions in a row (the activation time) of which
the median is taken. The paper scales to 100 % utilisation, ignores records that wait already, and acts on
any difference; `target`, `catch_up_s` and `tolerance` say otherwise, because every restart costs.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.measures import (
    Window,
    arrivals,
    as_parallelism,
    just_begun,
    latest,
    output_ratios,
    target_rates,
    true_rates,
    window,
)
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.problem import Floats, Graph, Integers, Snapshot

__all__ = ["ds2", "ds2_parallelism", "needed_subtasks"]


def ds2() -> Rule:
    """Enough subtasks of every vertex for what arrives, computed from true processing rates (DS2)."""
    return Rule(
        "ds2",
        Ds2Decider,
        (
            Parameter(
                "target",
                0.75,
                "utilisation to aim at",
                (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9),
                low=0.05,
                high=1.0,
            ),
            Parameter(
                "window_s",
                180.0,
                "seconds of metrics behind a decision",
                (60, 180, 300, 600, 900),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "warm_up_s", 0.0, "seconds after a restart whose metrics are ignored", low=0.0, high=86_400.0
            ),
            Parameter(
                "activation",
                1.0,
                "decisions in a row whose median is taken",
                (1, 3, 5, 10),
                low=1.0,
                high=100.0,
                whole=True,
            ),
            Parameter(
                "tolerance",
                0.0,
                "nothing changes while no vertex is off by more than this share of what it needs",
                (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
                low=0.0,
                high=10.0,
            ),
            Parameter(
                "catch_up_s",
                0.0,
                "seconds in which records that wait are to be caught up with; 0: they are ignored",
                (0, 120, 300, 900, 1800),
                low=0.0,
                high=86_400.0,
            ),
        ),
    )


def needed_subtasks(snapshot: Snapshot, seen: Window, *, target: float, catch_up_s: float = 0.0) -> Floats:
    """Subtasks every vertex needs to run at the target utilisation, before rounding, [E, V].

    NaN where the true rate or what arrives is unknown; a vertex that gets nothing needs nothing.
    """
    graph = snapshot.graph
    incoming = arrivals(seen, graph)
    if catch_up_s > 0:
        waiting = latest(seen.samples.pending, seen.counts)
        incoming = incoming + np.where(graph.is_source, waiting / catch_up_s, 0.0)
    rates = target_rates(incoming, output_ratios(seen, graph))
    needed = rates / (true_rates(seen) * target)
    return np.where(rates == 0, 0.0, needed)


def ds2_parallelism(
    snapshot: Snapshot,
    *,
    target: float = 0.75,
    window_s: float = 180.0,
    warm_up_s: float = 0.0,
    catch_up_s: float = 0.0,
) -> Integers:
    """What DS2 would set now, [E, V], from this snapshot alone: nothing is remembered."""
    seen = window(snapshot, window_s, settle_s=warm_up_s)
    return as_parallelism(needed_subtasks(snapshot, seen, target=target, catch_up_s=catch_up_s), snapshot)


class Ds2Decider:
    """Remembers the last few answers, so that the median of them can be taken."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self._target, self._catch_up_s = values["target"], values["catch_up_s"]
        self._window_s, self._warm_up_s = values["window_s"], values["warm_up_s"]
        self._tolerance = values["tolerance"]
        self._answers = np.zeros((int(values["activation"]), *graph.exists.shape))
        self._number = np.zeros(len(graph.exists), np.int64)  # answers since the last restart, [E]

    def decide(self, snapshot: Snapshot) -> Integers:
        present, graph = snapshot.parallelism, snapshot.graph
        seen = window(snapshot, self._window_s, settle_s=self._warm_up_s)
        needed = needed_subtasks(snapshot, seen, target=self._target, catch_up_s=self._catch_up_s)
        needed = np.clip(np.where(np.isnan(needed), present, needed), graph.least, graph.most)
        needed = self._median(snapshot, needed)
        wanted = as_parallelism(needed, snapshot)
        # By rounding alone a need of 1.01 and then 0.99 would restart the job twice: what is taken away must
        # not be missed with the tolerance added, what is added must be missed by more than that.
        with_tolerance = as_parallelism(needed * (1 + self._tolerance), snapshot)
        off = (needed > present * (1 + self._tolerance) + 1e-9) | (with_tolerance < present)
        act = (self._number >= len(self._answers)) & np.any(off & graph.exists, axis=1)
        return np.where(act[:, None], wanted, present)

    def _median(self, snapshot: Snapshot, needed: Floats) -> Floats:
        """The median of the answers since the last restart, or of the last few of them."""
        unsettled = snapshot.since_rescale_s < snapshot.interval_s + self._warm_up_s
        self._number[just_begun(snapshot) | snapshot.rescaling | unsettled] = 0
        self._answers[:-1] = self._answers[1:]
        self._answers[-1] = needed
        self._number += 1
        return np.median(self._answers, axis=0)
