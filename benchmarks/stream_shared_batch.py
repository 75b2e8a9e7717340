"""Several trainings side by side in one batch, so that what they see is prepared once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.core.errors import ActionError
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot
from trimtab.stream_autoscaling.sure.actions import decode_action
from trimtab.stream_autoscaling.sure.features import FeatureHistory
from trimtab.stream_autoscaling.sure.policy import NetworkAtWork, SurePolicy, rows_of

__all__ = ["SharedBatch"]


class SharedBatch:
    """Several trainings of one design, each for its own jobs of a batch: what they see is prepared once.

    The first `counts[0]` jobs are the first policy's, and so on. Each decides as it would alone.
    """

    def __init__(self, policies: Sequence[SurePolicy], counts: Sequence[int]) -> None:
        if any(one.design != policies[0].design for one in policies):
            raise ActionError("policies of different designs in one batch; give each a batch of its own")
        self.name = policies[0].name
        self._policies = tuple(zip(policies, counts, strict=True))

    def begin(self, graph: Graph) -> _SharedDecider:
        """Start afresh on these jobs, with an empty history."""
        total = sum(count for _, count in self._policies)
        if total != len(graph.exists):
            raise ActionError(f"policies for {total} jobs in a batch of {len(graph.exists)}")
        return _SharedDecider(self._policies, graph)


class _SharedDecider:
    """Several networks behind one history of features."""

    def __init__(self, policies: Sequence[tuple[SurePolicy, int]], graph: Graph) -> None:
        self._design = policies[0][0].design
        self._history = FeatureHistory(graph, self._design)
        self._networks: list[tuple[slice, NetworkAtWork]] = []
        first = 0
        for policy, count in policies:
            rows = slice(first, first + count)
            network = NetworkAtWork(
                policy.parameters, self._design, Graph._make(field[rows] for field in graph)
            )
            self._networks.append((rows, network))
            first += count

    def decide(self, snapshot: Snapshot) -> Integers:
        seen = self._history.see(snapshot)
        actions = [network.action(rows_of(seen.view, rows)) for rows, network in self._networks]
        return decode_action(np.concatenate(actions), snapshot, seen.offer, self._design)
