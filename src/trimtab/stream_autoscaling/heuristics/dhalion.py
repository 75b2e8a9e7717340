"""A rule like Dhalion (Floratou et al., VLDB'17): symptoms, a diagnosis, one remedy, wait, look again.

Symptom: a vertex is held up by those below it (backpressure), or records pile up before a source.
Diagnosis: the bottleneck is the vertex that holds others up and is not held up itself. Remedy: scale it by
1 + time blocked / time not blocked. Where nothing is held up and a vertex is mostly idle it is scaled
down a little; a step that led to a bottleneck is not repeated for a while, as Dhalion's blacklist has it.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.stream_autoscaling.heuristics.measures import Window, arrivals, just_begun, latest, mean, window
from trimtab.stream_autoscaling.heuristics.rule import Rule, Values
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Snapshot

__all__ = ["bottlenecks", "dhalion"]

# A vertex blocked all the time would call for infinitely many subtasks; ten times as many at once is a lot.
_MOST_BLOCKED = 0.9


def dhalion() -> Rule:
    """Scale the vertex that holds others up, by how long they are blocked; shrink what idles (Dhalion)."""
    return Rule(
        "dhalion",
        DhalionDecider,
        (
            Parameter(
                "blocked",
                0.05,
                "share of blocked time that counts as backpressure",
                (0.02, 0.05, 0.1, 0.2),
                low=0.0,
                high=1.0,
            ),
            Parameter(
                "lag_s",
                10.0,
                "seconds of input that may wait before a source",
                (5, 10, 30, 60),
                low=0.0,
                high=86_400.0,
            ),
            Parameter(
                "idle",
                0.6,
                "share of idle time from which on to scale down",
                (0.4, 0.5, 0.6, 0.7, 0.8),
                low=0.0,
                high=1.0,
            ),
            Parameter(
                "down",
                0.2,
                "share of the subtasks that is then taken away",
                (0.1, 0.2, 0.3, 0.5),
                low=0.01,
                high=1.0,
            ),
            Parameter(
                "window_s",
                120.0,
                "seconds in which symptoms are looked for",
                (60, 120, 300),
                low=1.0,
                high=86_400.0,
            ),
            Parameter(
                "wait_s", 300.0, "seconds to wait after a restart", (120, 300, 600), low=0.0, high=86_400.0
            ),
            Parameter(
                "memory_s",
                3600.0,
                "seconds for which a step that failed is not repeated",
                low=0.0,
                high=604_800.0,
            ),
        ),
    )


def bottlenecks(blocked: Floats, graph: Graph, *, threshold: float) -> tuple[Flags, Floats]:
    """Vertices that hold others up and are not held up themselves, and the share of time those are blocked.

    `blocked` is the share of time in which each vertex could not send, [E, V].
    """
    feeds = graph.selectivity > 0
    above = np.where(feeds, blocked[:, :, None], 0.0).max(1, initial=0.0)
    return (above > threshold) & (blocked <= threshold) & graph.exists, above


class DhalionDecider:
    """Remembers at which parallelism a vertex was a bottleneck, and until when that counts."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self._values = dict(values)
        self._too_few = np.zeros(graph.exists.shape, np.int64)
        self._until_s = np.full(graph.exists.shape, -np.inf)

    def decide(self, snapshot: Snapshot) -> Integers:
        values, graph, present = self._values, snapshot.graph, snapshot.parallelism
        begun = just_begun(snapshot)
        self._too_few[begun], self._until_s[begun] = 0, -np.inf
        seen = window(snapshot, values["window_s"])
        reported = seen.counts.any(1)
        blocked = np.where(reported, mean(seen.samples.backpressured, seen.counts), 0.0)
        slow, above = bottlenecks(blocked, graph, threshold=values["blocked"])
        behind, missing = self._sources_behind(graph, seen, blocked)
        slow, share = slow | behind, np.minimum(np.maximum(above, missing), _MOST_BLOCKED)
        self._remember(snapshot, slow)
        more = np.ceil(present / (1 - share) - 1e-9).astype(np.int64)
        up = np.where(slow, np.maximum(more, present + 1), present)
        held_up = (blocked > values["blocked"]) & graph.exists
        healthy = ~np.any(held_up | slow, axis=1) & np.all(reported | ~graph.exists, axis=1)
        idle = mean(seen.samples.idle, seen.counts)
        wanted = np.where(np.any(slow, axis=1)[:, None], up, self._fewer(snapshot, idle, healthy))
        ready = snapshot.since_rescale_s >= values["wait_s"]
        return np.where(ready[:, None] & graph.exists, np.clip(wanted, graph.least, graph.most), present)

    def _sources_behind(self, graph: Graph, seen: Window, blocked: Floats) -> tuple[Flags, Floats]:
        """Sources that read less than arrives though nothing holds them up, and by what share."""
        values = self._values
        arriving = arrivals(seen, graph)
        read = mean(seen.samples.records_in, seen.counts)
        waiting = latest(seen.samples.pending, seen.counts)
        late = (waiting > values["lag_s"] * read) & (blocked <= values["blocked"]) & (arriving > read)
        behind = late & graph.is_source & graph.exists
        share = np.where(behind, 1 - read / np.where(behind, arriving, 1.0), 0.0)
        return behind, share

    def _remember(self, snapshot: Snapshot, slow: Flags) -> None:
        now_s = snapshot.now_s[:, None]
        self._too_few[slow] = snapshot.parallelism[slow]
        self._until_s = np.where(slow, now_s + self._values["memory_s"], self._until_s)

    def _fewer(self, snapshot: Snapshot, idle: Floats, healthy: Flags) -> Integers:
        """Idle vertices of healthy jobs lose some subtasks, yet not so many as turned out too few."""
        present = snapshot.parallelism
        remembered = self._until_s > snapshot.now_s[:, None]
        floor = np.where(remembered, self._too_few + 1, 1)
        fewer = np.minimum(np.floor(present * (1 - self._values["down"])).astype(np.int64), present - 1)
        lower = np.minimum(np.maximum(fewer, floor), present)
        return np.where((idle > self._values["idle"]) & healthy[:, None], lower, present)
