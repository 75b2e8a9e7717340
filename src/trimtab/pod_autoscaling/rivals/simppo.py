"""SIMPPO: policy optimisation for each service beside a virtual agent, the mean of all others.

After Qiu, Mao, Patke et al., "SIMPPO: a scalable and incremental online learning framework for serverless
resource management" (SoCC 2022).

Kept: every service has an agent that learns by proximal policy optimisation (Schulman et al., 2017), and sees
beside its own state the mean state and the mean last action of all other services as one virtual agent; five
actions: nothing, a step of replicas or of CPU, up or down. Changed: in practice all agents share their
weights (published, each is trained in turn), among neighbours of four services; a step of CPU is a fifth and
not 128 shares, a step of replicas an eighth where there are many; nine numbers make a state and not six; the
reward is `worth`, and not a weighted sum of utilisation and latency. Services here do not compete for a
cluster, so what the virtual agent adds is little. A service alone is its own virtual agent. Memory is that of
`multi`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import split
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import CPU, Flags, Floats, Integers, Services, Snapshot
from trimtab.pod_autoscaling.rivals.learning import Network, softmax
from trimtab.pod_autoscaling.rivals.rival import LEARN, Knowledge, Rival, Wish, pods_in_a_step
from trimtab.pod_autoscaling.rivals.seeing import FEATURES, Seen, features_of, worth

__all__ = ["Simppo", "simppo"]

_PODS = np.array([0.0, 1.0, -1.0, 0.0, 0.0])
_CORES = np.array([0.0, 0.0, 0.0, 1.0, -1.0])
_CORE_STEP = 1.2
_SMALLEST_CORES = 0.5
_INPUTS = 2 * (len(FEATURES) + 2)
_HIDDEN = (48, 48)
_NEIGHBOURS = 4
_DISCOUNT, _SMOOTHING = 0.9, 0.95
_CLIP, _ENTROPY = 0.2, 0.003
_LENGTH_TOGETHER, _LENGTH_EACH = 24, 80
_PASSES_TOGETHER, _PASSES_EACH = 5, 3
_PART = 384
_RATE_TOGETHER, _RATE_EACH = 1e-3, 5e-5


def simppo() -> Rule:
    """Steps of replicas or CPU by policy optimisation beside a mean of the others (SIMPPO, SoCC 2022)."""
    return Rule(Simppo.name, Simppo, (LEARN,))


class _Moment(NamedTuple):
    """One decision of every service and what came of it, [E, ...] each."""

    inputs: Floats
    actions: Integers
    chances: Floats
    rewards: Floats
    lived: Flags


class Simppo(Rival):
    """Steps of replicas or CPU by policy optimisation beside a mean of the others (SIMPPO, SoCC 2022)."""

    name = "simppo"

    @classmethod
    def fresh(cls, seed: int) -> Knowledge:
        actor = Network.fresh(
            (_INPUTS, *_HIDDEN, len(_PODS)), seed=split(seed, cls.name, "actor"), last_scale=0.01
        )
        critic = Network.fresh((_INPUTS, *_HIDDEN, 1), seed=split(seed, cls.name, "critic"))
        return {**actor.tensors("actor"), **critic.tensors("critic")}

    def begin_with(self, knowledge: Knowledge) -> None:
        self._actor = Network.of(knowledge, "actor", agents=self.agents)
        self._critic = Network.of(knowledge, "critic", agents=self.agents)

    def knowledge(self) -> Knowledge:
        return {**self._actor.tensors("actor"), **self._critic.tensors("critic")}

    def restart(self, services: Services) -> None:
        super().restart(services)
        self._direction = np.zeros((self.count, 2))
        self._last: tuple[Floats, Integers, Floats] | None = None
        self._moments: list[_Moment] = []

    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        inputs = self._beside_others(np.concatenate([features_of(seen), self._direction], 1))
        if self._last is not None and self.manner.learn:
            self._moments.append(_Moment(*self._last, worth(seen), lived))
            if len(self._moments) >= (_LENGTH_TOGETHER if self.manner.together else _LENGTH_EACH):
                self._learn(inputs)
                self._moments.clear()
        chances = softmax(self._actor(self.grouped(inputs)).reshape(self.count, -1))
        actions = self._drawn(chances) if self.manner.learn else chances.argmax(1)
        taken = np.take_along_axis(chances, actions[:, None], 1)[:, 0]
        self._last = inputs, actions, taken
        self._direction = np.stack([_PODS[actions], _CORES[actions]], 1)
        replicas = seen.asked + _PODS[actions] * pods_in_a_step(seen.asked)
        least = np.minimum(_SMALLEST_CORES, snapshot.services.most[:, CPU])
        return Wish(replicas, np.maximum(seen.cpu * _CORE_STEP ** _CORES[actions], least))

    def _drawn(self, chances: Floats) -> Integers:
        """An action by its chance; one that is hardly ever right is never tried."""
        worth_trying = np.where(chances >= self.manner.explore, chances, 0.0)
        upto = np.cumsum(worth_trying, 1)
        draw = self.luck.uniform(self.count)[:, None] * upto[:, -1:]
        return np.minimum((draw >= upto).sum(1), len(_PODS) - 1).astype(np.int64)

    def _beside_others(self, own: Floats) -> Floats:
        """Each service's own numbers, and the mean of those of its neighbours, [E, 2 F]."""
        width = _NEIGHBOURS if self.manner.together and self.count % _NEIGHBOURS == 0 else self.count
        if width == 1:
            return np.concatenate([own, own], 1)
        among = own.reshape(-1, width, own.shape[1])
        others = (among.sum(1, keepdims=True) - among) / (width - 1)
        return np.concatenate([own, others.reshape(own.shape)], 1)

    def _learn(self, inputs_now: Floats) -> None:
        inputs, actions, taken, rewards, lived = (np.stack(each) for each in zip(*self._moments, strict=True))
        values = self._values(np.concatenate([inputs, inputs_now[None]]))
        gained = self._advantages(rewards, values, lived)
        aims = gained + values[:-1]
        known = self._by_agent(lived)
        inputs, taken, gained, aims = (self._by_agent(one) for one in (inputs, taken, gained, aims))
        picks = self._by_agent(actions)
        weights = known / np.maximum(known.sum(1, keepdims=True), 1)
        middle = (weights * gained).sum(1, keepdims=True)
        spread = np.sqrt((weights * (gained - middle) ** 2).sum(1, keepdims=True))
        gained = (gained - middle) / (spread + 1e-3)
        count = inputs.shape[1]
        parts = max(1, count // _PART)
        for _ in range(_PASSES_TOGETHER if self.manner.together else _PASSES_EACH):
            order = np.argsort(self.luck.uniform(count))
            for places in np.array_split(order, parts):
                part = (one[:, places] for one in (inputs, taken, gained, aims))
                self._lesson(*part, actions=picks[:, places], lived=known[:, places])

    def _lesson(
        self, inputs: Floats, taken: Floats, gained: Floats, aims: Floats, *, actions: Integers, lived: Flags
    ) -> None:
        weights = (lived / np.maximum(lived.sum(1, keepdims=True), 1))[..., None]
        rate = _RATE_TOGETHER if self.manner.together else _RATE_EACH
        steps = self._actor.steps(inputs)
        chances = softmax(steps[-1])
        picked = np.zeros_like(chances)
        np.put_along_axis(picked, actions[..., None], 1.0, -1)
        ratio = (chances * picked).sum(-1) / taken
        # Where a step would go further the way it has gone far enough, there is nothing to gain.
        beyond = ((gained > 0) & (ratio > 1 + _CLIP)) | ((gained < 0) & (ratio < 1 - _CLIP))
        pull = np.where(beyond, 0.0, ratio * gained)[..., None]
        logs = np.log(np.maximum(chances, 1e-9))
        entropy = -(chances * logs).sum(-1, keepdims=True)
        slopes = -pull * (picked - chances) + _ENTROPY * chances * (logs + entropy)
        some = lived.sum(1) > 0
        self._actor.descend(steps, weights * slopes, rate=rate, which=some)
        steps = self._critic.steps(inputs)
        self._critic.descend(steps, weights * (steps[-1] - aims[..., None]), rate=rate, which=some)

    def _values(self, inputs: Floats) -> Floats:
        """[T, E] of [T, E, F]."""
        answers = self._critic(self._by_agent(inputs))[..., 0]
        return answers.reshape(self.count, len(inputs)).T

    def _advantages(self, rewards: Floats, values: Floats, lived: Flags) -> Floats:
        """How much better it went than foretold (Schulman et al., 2016), [T, E]; not across the unknown."""
        gained = np.zeros_like(rewards)
        later = np.zeros(self.count)
        for at in reversed(range(len(rewards))):
            short = (1 - _DISCOUNT) * rewards[at] + _DISCOUNT * values[at + 1] - values[at]
            later = np.where(lived[at], short + _DISCOUNT * _SMOOTHING * later, 0.0)
            gained[at] = later
        return gained

    def _by_agent(self, values: NDArray[Any]) -> NDArray[Any]:
        """[T, E, ...] as [A, E / A x T, ...], service by service."""
        moved = np.moveaxis(values, 0, 1)
        return moved.reshape(self.agents, -1, *values.shape[2:])
