"""A-SARSA: Zhang, Wu, Pan et al., "A-SARSA: a predictive container auto-scaling algorithm" (ICWS 2020).

Kept: ARIMA foretells the load, a small network foretells from it the CPU utilisation and the response time
of the next interval, the state is the class of what is foretold, and values of -1, 0 and +1 are learned by
SARSA with tries that become fewer. Changed: the order of ARIMA is fixed at (2, 1, 0) and its weights are
fitted anew at every decision; response time is the 99th percentile over the limit; the class of size is part
of the state, so that one table serves services of any size, and a step is an eighth of the pods where there
are many; the reward is `worth`. Pods have one core, and memory is that of `multi`: the paper has neither
dimension.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.core.randomness import split
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers, Services, Snapshot
from trimtab.pod_autoscaling.rivals.forecasting import arima_forecast
from trimtab.pod_autoscaling.rivals.learning import Network, Replay, Table, bins_of
from trimtab.pod_autoscaling.rivals.rival import LEARN, Knowledge, Rival, Wish, pods_in_a_step
from trimtab.pod_autoscaling.rivals.seeing import Seen, worth

__all__ = ["ASarsa", "a_sarsa"]

_ACTIONS = np.array([0.0, 1.0, -1.0])
_BUSY = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_LATENCY = (0.25, 0.4, 0.6, 0.8, 1.0, 1.3)
# One pod of four or more is a small step anywhere.
_SIZES = (1.5, 3.5)
_STATES = (len(_BUSY) + 1, len(_LATENCY) + 1, len(_SIZES) + 1)
_DISCOUNT = 0.9
_LEAST_RATE_TOGETHER, _LEAST_RATE_EACH = 0.005, 0.03

_INPUTS, _OUTPUTS = 6, 2
_HIDDEN = 24
_KEPT_TOGETHER, _KEPT_EACH = 50_000, 512
_DRAWN_TOGETHER, _DRAWN_EACH = 128, 16
_RATE_TOGETHER, _RATE_EACH = 2e-3, 2e-4
_FIRST_LESSON = 64


def a_sarsa() -> Rule:
    """One pod more or less by a table of the CPU and latency that are foretold (Zhang et al., ICWS 2020)."""
    return Rule(ASarsa.name, ASarsa, (LEARN,))


class ASarsa(Rival):
    """One pod more or less by a table of the CPU and latency that are foretold (Zhang et al., ICWS 2020)."""

    name = "a-sarsa"

    @classmethod
    def fresh(cls, seed: int) -> Knowledge:
        network = Network.fresh((_INPUTS, _HIDDEN, _OUTPUTS), seed=split(seed, cls.name))
        table = Table.fresh(math.prod(_STATES), len(_ACTIONS))
        return {**table.tensors(), **network.tensors("next")}

    def begin_with(self, knowledge: Knowledge) -> None:
        self._table = Table.of(knowledge, math.prod(_STATES), len(_ACTIONS), agents=self.agents)
        self._network = Network.of(knowledge, "next", agents=self.agents)
        self._replay = Replay(
            agents=self.agents,
            capacity=_KEPT_TOGETHER if self.manner.together else _KEPT_EACH,
            width=_INPUTS + _OUTPUTS,
            seed=split(self.manner.seed, self.name, "replay"),
        )

    def knowledge(self) -> Knowledge:
        return {**self._table.tensors(), **self._network.tensors("next")}

    def restart(self, services: Services) -> None:
        super().restart(services)
        self._last: tuple[Integers, Integers, Floats] | None = None

    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        coming = arima_forecast(snapshot.samples.rate, snapshot.samples.present)
        if self._last is not None and self.manner.learn:
            self._learn_next(seen, lived, self._last[2])
        still = self._told(seen, coming, np.zeros(self.count))
        states = self._states_of(seen, still)
        scores = self._table.all_of(self.agent, states)
        actions = self.chosen(scores)
        if self._last is not None and self.manner.learn:
            came = np.take_along_axis(scores, actions[:, None], 1)[:, 0]
            self._learn_values(lived, worth(seen) + _DISCOUNT * came)
        replicas = np.maximum(seen.asked + _ACTIONS[actions] * pods_in_a_step(seen.asked), 1.0)
        self._last = states, actions, self._told(seen, coming, np.log(replicas / seen.asked))
        return Wish(replicas)

    def _told(self, seen: Seen, coming: Floats, change: Floats) -> Floats:
        """What the network is told, [E, 6]: the last of it is what becomes of the size."""
        more = np.log((coming + 1) / (seen.rate + 1))
        starting = np.log(np.maximum(seen.asked / seen.ready, 0.5))
        return np.stack(
            [
                3 * (seen.busy - 0.6),
                _level(seen.latency),
                4 * more,
                2 * seen.growth_minute,
                starting,
                2 * change,
            ],
            axis=1,
        )

    def _states_of(self, seen: Seen, told: Floats) -> Integers:
        foretold = self._network(self.grouped(told)).reshape(self.count, _OUTPUTS)
        busy, latency = foretold[:, 0] / 3 + 0.6, np.exp(foretold[:, 1])
        classes = (bins_of(busy, _BUSY), bins_of(latency, _LATENCY), bins_of(seen.asked, _SIZES))
        return np.ravel_multi_index(classes, _STATES).astype(np.int64)

    def _learn_next(self, seen: Seen, lived: Flags, told: Floats) -> None:
        """The network learns what came after what it was told."""
        came = np.stack([3 * (seen.busy - 0.6), _level(seen.latency)], 1)
        self._replay.add(self.grouped(np.concatenate([told, came], 1)), self.grouped(lived))
        together = self.manner.together
        rows = self._replay.draw(_DRAWN_TOGETHER if together else _DRAWN_EACH)
        steps = self._network.steps(rows[..., :_INPUTS])
        slopes = (steps[-1] - rows[..., _INPUTS:]) / rows.shape[1]
        rate = _RATE_TOGETHER if together else _RATE_EACH
        self._network.descend(steps, slopes, rate=rate, which=self._replay.lengths >= _FIRST_LESSON)

    def _learn_values(self, lived: Flags, targets: Floats) -> None:
        assert self._last is not None
        states, actions, _ = self._last
        rows = np.flatnonzero(lived)
        rate = _LEAST_RATE_TOGETHER if self.manner.together else _LEAST_RATE_EACH
        self._table.learn(self.agent[rows], states[rows], actions[rows], targets[rows], least_rate=rate)


def _level(latency: Floats) -> Floats:
    return np.clip(np.log(latency), -2.5, 1.5)
