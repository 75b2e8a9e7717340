"""Q-learning on a table: Schuler, Jamil and Kühl, "AI-based resource allocation" (CCGrid 2021).

Kept: states are classes of (size, CPU utilisation, memory utilisation), an action moves the size by one step,
values are learned by Q-learning (Watkins, 1989) with tries that become fewer, and latency is no part of the
state. Changed: the paper sets the concurrency limit of a serverless platform, which then adds pods by itself;
here the size is the number of pods. Its reward compares throughput and latency with the best seen so far;
here it is `worth`: CPU held over what the throughput takes, and a fine for what is late. Pods have one core,
and memory is that of `multi`: the paper has neither dimension.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers, Services, Snapshot
from trimtab.pod_autoscaling.rivals.learning import Table, bins_of
from trimtab.pod_autoscaling.rivals.rival import LEARN, Knowledge, Rival, Wish, pods_in_a_step
from trimtab.pod_autoscaling.rivals.seeing import Seen, worth

__all__ = ["QLearning", "q_learning"]

# Steps of size; of equally good actions the first is taken.
_ACTIONS = np.array([0.0, 1.0, -1.0])

_SIZES = (1.5, 2.5, 4.5, 8.5)
_BUSY = (0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_MEMORY = (0.5, 0.7, 0.9)
_STATES = (len(_SIZES) + 1, len(_BUSY) + 1, len(_MEMORY) + 1)
_DISCOUNT = 0.9
_LEAST_RATE_TOGETHER, _LEAST_RATE_EACH = 0.005, 0.03


def q_learning() -> Rule:
    """One step up or down by a table of size, CPU and memory classes (Schuler et al., CCGrid 2021)."""
    return Rule(QLearning.name, QLearning, (LEARN,))


class QLearning(Rival):
    """One step up or down by a table of size, CPU and memory classes (Schuler et al., CCGrid 2021)."""

    name = "q-learning"

    @classmethod
    def fresh(cls, seed: int) -> Knowledge:
        return Table.fresh(math.prod(_STATES), len(_ACTIONS)).tensors()

    def begin_with(self, knowledge: Knowledge) -> None:
        self._table = Table.of(knowledge, math.prod(_STATES), len(_ACTIONS), agents=self.agents)

    def knowledge(self) -> Knowledge:
        return self._table.tensors()

    def restart(self, services: Services) -> None:
        super().restart(services)
        self._last: tuple[Integers, Integers] | None = None

    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        states = _states_of(seen)
        scores = self._table.all_of(self.agent, states)
        if self._last is not None and self.manner.learn:
            self._learn(lived, worth(seen) + _DISCOUNT * scores.max(1))
            scores = self._table.all_of(self.agent, states)
        actions = self.chosen(scores)
        self._last = states, actions
        return Wish(seen.asked + _ACTIONS[actions] * pods_in_a_step(seen.asked))

    def _learn(self, lived: Flags, targets: Floats) -> None:
        assert self._last is not None
        states, actions = self._last
        rows = np.flatnonzero(lived)
        rate = _LEAST_RATE_TOGETHER if self.manner.together else _LEAST_RATE_EACH
        self._table.learn(self.agent[rows], states[rows], actions[rows], targets[rows], least_rate=rate)


def _states_of(seen: Seen) -> Integers:
    classes = (bins_of(seen.asked, _SIZES), bins_of(seen.used, _BUSY), bins_of(seen.memory, _MEMORY))
    return np.ravel_multi_index(classes, _STATES).astype(np.int64)
