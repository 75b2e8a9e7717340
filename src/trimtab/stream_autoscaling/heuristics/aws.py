"""The automatic scaling of Amazon's Managed Service for Apache Flink.

Double the parallelism of the application when its CPU is used to 75 % or more for 15 minutes, halve it
when to less than 10 % for 6 hours. The service sells one core with every slot, and the subtasks that share
the slot share the core: the CPU in use is the busy time of all subtasks over the number of slots.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.measures import just_begun, mean, window
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.problem import Floats, Graph, Integers, Snapshot, slots_taken

__all__ = ["aws", "cpu_use"]


def aws() -> Rule:
    """Double when the CPU is busy for 15 minutes, halve when idle for 6 hours (Amazon Managed Flink)."""
    return Rule(
        "aws",
        AwsDecider,
        (
            Parameter("cores", 1.0, "cores that come with a slot", (1, 2, 4, 8), low=0.01, high=1024.0),
            Parameter(
                "high",
                0.75,
                "use of the CPU from which on to double",
                (0.5, 0.6, 0.75, 0.85),
                low=0.05,
                high=1.0,
            ),
            Parameter("high_s", 900.0, "seconds it must last", (120, 300, 900), low=0.0, high=86_400.0),
            Parameter("low", 0.1, "use of the CPU below which to halve", (0.1, 0.2, 0.3), low=0.0, high=1.0),
            Parameter(
                "low_s", 21_600.0, "seconds it must last", (900, 3600, 21_600), low=0.0, high=604_800.0
            ),
        ),
    )


class AwsDecider:
    """Counts for how long the use of the CPU has been high, and for how long low."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self._values = dict(values)
        self._high_s = np.zeros(len(graph.exists))
        self._low_s = np.zeros(len(graph.exists))

    def decide(self, snapshot: Snapshot) -> Integers:
        use = cpu_use(snapshot, cores=self._values["cores"])
        self._count(snapshot, use)
        doubled = self._high_s >= max(self._values["high_s"], snapshot.interval_s)
        halved = self._low_s >= max(self._values["low_s"], snapshot.interval_s)
        graph, present = snapshot.graph, snapshot.parallelism
        wanted = np.where(doubled[:, None], 2 * present, np.where(halved[:, None], -(-present // 2), present))
        return np.where(graph.exists, np.clip(wanted, graph.least, graph.most), 0)

    def _count(self, snapshot: Snapshot, use: Floats) -> None:
        """A missing point neither counts nor interrupts; a restart begins anew."""
        anew = just_begun(snapshot) | snapshot.rescaling | (snapshot.since_rescale_s < snapshot.interval_s)
        for seconds, now in (
            (self._high_s, use >= self._values["high"]),
            (self._low_s, use < self._values["low"]),
        ):
            seconds[anew | ~(now | np.isnan(use))] = 0
            seconds[now] += snapshot.interval_s


def cpu_use(snapshot: Snapshot, *, cores: float) -> Floats:
    """Busy subtasks over the cores of all slots in the last interval, [E], 1 at most.

    NaN where some vertex did not report.
    """
    exists = snapshot.graph.exists
    seen = window(snapshot, snapshot.interval_s)
    busy = np.where(exists, mean(seen.samples.busy, seen.counts), 0.0)
    slots = np.maximum(slots_taken(snapshot.parallelism, snapshot.graph), 1)
    return np.minimum((busy * snapshot.parallelism).sum(1) / (slots * cores), 1.0)
