"""Parallelism that never moves: a number, enough for the peak, or every slot there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.job import Job, enough_parallelism
from trimtab.stream_autoscaling.problem import Decider, Graph, Integers, Snapshot, StreamPolicy
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["Oracle", "oracle_static", "reactive", "static"]


def static() -> Rule:
    """The same parallelism for every vertex all the time; 0 leaves it as the job was started."""
    parallelism = Parameter(
        "parallelism",
        0.0,
        "subtasks of every vertex; 0: as started",
        (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
        low=0.0,
        high=32_768.0,
        whole=True,
    )
    return Rule("static", StaticDecider, (parallelism,))


class StaticDecider:
    def __init__(self, graph: Graph, values: Values) -> None:
        self._parallelism = int(values["parallelism"])

    def decide(self, snapshot: Snapshot) -> Integers:
        if self._parallelism == 0:
            return snapshot.parallelism
        graph = snapshot.graph
        return np.where(graph.exists, np.clip(self._parallelism, graph.least, graph.most), 0)


def reactive() -> Rule:
    """Every slot there is, as in Flink's reactive mode; without a budget every vertex at its most."""
    return Rule("reactive", ReactiveDecider)


class ReactiveDecider:
    """Slots are dealt out evenly among slot-sharing groups, and each vertex fills those of its group."""

    def __init__(self, graph: Graph, values: Values) -> None:
        numbered = np.where(graph.exists, graph.slot_group, -1)
        self._groups = np.maximum(numbered.max(1) + 1, 1)

    def decide(self, snapshot: Snapshot) -> Integers:
        graph = snapshot.graph
        share = (snapshot.slots // self._groups)[:, None]
        wanted = np.where(share > 0, np.clip(share, graph.least, graph.most), graph.most)
        return np.where(graph.exists, wanted, 0)


@dataclass(frozen=True)
class Oracle(Rule):
    """A rule that must be told what will arrive, so it plays in simulations only."""

    def knowing(self, jobs: Sequence[Job], traces: Sequence[RateTrace]) -> StreamPolicy:
        """The policy for these jobs and what arrives at them."""
        utilisation = self.values["utilisation"]
        pairs = zip(jobs, traces, strict=True)
        peaks = [(job, float(trace.rates.max())) for job, trace in pairs]
        return _Told(
            self.name, [enough_parallelism(job, peak, utilisation=utilisation) for job, peak in peaks]
        )


def oracle_static() -> Oracle:
    """The fixed parallelism that is enough for the peak of what will arrive: what over-provisioning costs."""
    grid = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    utilisation = Parameter("utilisation", 0.7, "busy share at the peak", grid, low=0.05, high=1)
    return Oracle("oracle-static", _must_be_told, (utilisation,))


def _must_be_told(graph: Graph, values: Values) -> Decider:
    """Enough for the peak of what will arrive, known beforehand and never changed: over-provisioning."""
    raise SettingsError(
        "oracle-static must know what will arrive; it can be simulated, not run on a live job"
    )


@dataclass(frozen=True)
class _Told:
    name: str
    parallelism: Sequence[Integers]

    def begin(self, graph: Graph) -> Decider:
        wanted = np.zeros(graph.exists.shape, np.int64)
        for row, own in enumerate(self.parallelism):
            wanted[row, : len(own)] = own
        return _Unmoved(wanted)


@dataclass(frozen=True)
class _Unmoved:
    wanted: Integers

    def decide(self, snapshot: Snapshot) -> Integers:
        return self.wanted
