"""MIRAS: a learned model of the work in progress, and plans made inside it.

After Yang, Nguyen, Jin and Nahrstedt, "MIRAS: model-based reinforcement learning for microservice resource
allocation over scientific workflows" (ICDCS 2019).

Kept: a network learns from what happened how the work in progress follows from the consumers there are, data
is gathered with the policy that the model has so far, decisions are planned inside the model, and the reward
is minus the work in progress. Changed: plans are the best of some random ones a few intervals ahead (random
shooting, as Nagabandi et al., 2018), where the paper trains an actor and a critic inside the model; three
models instead of one, whose mean counts; consumers have a price instead of a common budget, because services
here do not share a cluster, and work in progress counts in proportion to what the latency limit allows. Pods
have one core, and memory is that of `multi`: the paper has neither dimension.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.randomness import split
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import Flags, Floats, Services, Snapshot
from trimtab.pod_autoscaling.rivals.learning import Network, Replay
from trimtab.pod_autoscaling.rivals.rival import LEARN, Knowledge, Rival, Wish, pods_in_a_step
from trimtab.pod_autoscaling.rivals.seeing import Seen

__all__ = ["Miras", "miras"]

_MODELS = 3
_STATE, _OUTPUTS = 6, 3
_ASKED, _READY, _INSIDE, _GROWTH, _MINUTE, _SIZE = range(_STATE)
_HIDDEN = (32, 32)
_FIRST_STEPS = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 4.0])
_LATER_CHANGES = np.array([-0.3, -0.15, 0.0, 0.0, 0.15, 0.3])
_PLANS_EACH = 6
_HORIZON = 4
# The work in progress that the limit allows is as dear as five times the pods that the work needs. At the
# limit a mean is about a fifth of the 99th percentile, so both terms are about as large there.
_PROGRESS_WEIGHT = 5.0
_WORST_PROGRESS = 3.0
_KEPT_TOGETHER, _KEPT_EACH = 60_000, 512
_DRAWN_TOGETHER, _DRAWN_EACH = 256, 32
_RATE_TOGETHER, _RATE_EACH = 1e-3, 1e-4
_FIRST_LESSON = 64


def miras() -> Rule:
    """Replicas by plans inside a learned model of the work in progress (MIRAS, ICDCS 2019)."""
    return Rule(Miras.name, Miras, (LEARN,))


class Miras(Rival):
    """Replicas by plans inside a learned model of the work in progress (MIRAS, ICDCS 2019)."""

    name = "miras"

    @classmethod
    def fresh(cls, seed: int) -> Knowledge:
        found: dict[str, np.ndarray] = {}
        for place in range(_MODELS):
            model = Network.fresh((_STATE + 1, *_HIDDEN, _OUTPUTS), seed=split(seed, cls.name, place))
            found |= model.tensors(f"model{place}")
        return found

    def begin_with(self, knowledge: Knowledge) -> None:
        self._models = [
            Network.of(knowledge, f"model{place}", agents=self.agents) for place in range(_MODELS)
        ]
        self._replay = Replay(
            agents=self.agents,
            capacity=_KEPT_TOGETHER if self.manner.together else _KEPT_EACH,
            width=_STATE + 1 + _OUTPUTS,
            seed=split(self.manner.seed, self.name, "replay"),
        )

    def knowledge(self) -> Knowledge:
        found: dict[str, np.ndarray] = {}
        for place, model in enumerate(self._models):
            found |= model.tensors(f"model{place}")
        return found

    def restart(self, services: Services) -> None:
        super().restart(services)
        self._last: tuple[Floats, Floats] | None = None

    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        need = np.maximum(seen.cores / seen.cpu, 0.02)
        state = _state_of(seen, need)
        if self._last is not None and self.manner.learn:
            self._learn(seen, need, lived)
        tried = np.maximum(seen.asked[:, None] + _FIRST_STEPS * pods_in_a_step(seen.asked)[:, None], 1.0)
        best = self.chosen(-self._costs(state, np.log(tried / seen.asked[:, None])))
        replicas = np.take_along_axis(tried, best[:, None], 1)[:, 0]
        change = np.log(replicas / seen.asked)
        self._last = np.concatenate([state, change[:, None]], 1), need
        return Wish(replicas)

    def _costs(self, state: Floats, first: Floats) -> Floats:
        """What the best plan that begins with each of these changes [E, K] would cost, [E, K]."""
        options = first.shape[1]
        later = _LATER_CHANGES[self.luck.integers(len(_LATER_CHANGES), _PLANS_EACH, _HORIZON - 1)]
        # The plan that changes nothing later is always among them.
        later[0] = 0.0
        plans = options * _PLANS_EACH
        now = np.repeat(state[:, None], plans, axis=1)
        change = np.repeat(first, _PLANS_EACH, axis=1)
        cost = np.zeros((self.count, plans))
        for at in range(_HORIZON):
            if at:
                change = np.broadcast_to(np.tile(later[:, at - 1], options), change.shape)
            now = self._after(now, change)
            cost += _cost(now)
        return cost.reshape(self.count, options, _PLANS_EACH).min(2)

    def _after(self, state: Floats, change: Floats) -> Floats:
        """The states [E, N, 6] after these changes of the logarithm of the pods, as the models foretell."""
        told = np.concatenate([state, change[..., None]], -1).reshape(self.agents, -1, _STATE + 1)
        foretold = np.mean([model(told) for model in self._models], axis=0)
        serving, inside, grown = np.moveaxis(foretold.reshape(*state.shape[:-1], _OUTPUTS), -1, 0)
        after = np.empty_like(state)
        after[..., _ASKED] = state[..., _ASKED] + change - grown
        after[..., _READY] = after[..., _ASKED] + serving
        after[..., _INSIDE] = np.clip(inside, -4.0, 3.0)
        after[..., _GROWTH] = grown
        after[..., _MINUTE] = 0.75 * state[..., _MINUTE] + grown
        after[..., _SIZE] = state[..., _SIZE] + change
        return after

    def _learn(self, seen: Seen, need: Floats, lived: Flags) -> None:
        assert self._last is not None
        told, needed = self._last
        came = np.stack([_serving(seen), _inside(seen), np.clip(np.log(need / needed), -1.0, 1.0)], axis=1)
        self._replay.add(self.grouped(np.concatenate([told, came], 1)), self.grouped(lived))
        together, ready = self.manner.together, self._replay.lengths >= _FIRST_LESSON
        for model in self._models:
            rows = self._replay.draw(_DRAWN_TOGETHER if together else _DRAWN_EACH)
            steps = model.steps(rows[..., : _STATE + 1])
            slopes = (steps[-1] - rows[..., _STATE + 1 :]) / rows.shape[1]
            model.descend(steps, slopes, rate=_RATE_TOGETHER if together else _RATE_EACH, which=ready)


def _state_of(seen: Seen, need: Floats) -> Floats:
    asked = np.log(seen.asked / need)
    return np.stack(
        [asked, asked + _serving(seen), _inside(seen), seen.growth, seen.growth_minute, np.log(seen.asked)],
        axis=1,
    )


def _serving(seen: Seen) -> Floats:
    """Logarithm of the share of the pods that serve."""
    return np.clip(np.log(seen.ready / seen.asked), -2.0, 1.0)


def _inside(seen: Seen) -> Floats:
    return np.clip(np.log(seen.inside), -4.0, 3.0)


def _cost(state: Floats) -> Floats:
    """Pods over those that the work needs, and the work in progress over what the limit allows."""
    held = np.minimum(np.exp(np.minimum(state[..., _ASKED], 3.0)), 10.0)
    progress = np.minimum(np.exp(state[..., _INSIDE]), _WORST_PROGRESS)
    return held + _PROGRESS_WEIGHT * progress
