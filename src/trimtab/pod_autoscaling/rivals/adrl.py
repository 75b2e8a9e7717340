"""ADRL: a detector of anomalies, and two Q-networks that are asked when it fires.

After Kardani-Moghaddam, Buyya and Ramamohanarao, "ADRL: a hybrid anomaly-aware deep reinforcement
learning-based resource scaling in clouds" (TPDS 2021).

Kept: a detector of anomalies decides when there is anything to decide; at first a local agent changes the
resources of the machines that exist (a deep Q-network, Mnih et al. 2015), and where that does not cure it a
global one changes their number. Changed: the detector is a Gaussian of what good intervals look like, and far
from it is an anomaly, too idle as well as too busy (the paper has neural networks over more metrics of
machines, and kinds of anomaly that faults were injected for); the global agent is a Q-network like the local
one and is asked when an anomaly lasts or the pods are at a bound; pods of a service share one size, so there
is one local agent per service; targets are those of double Q-learning (van Hasselt et al., 2016); the reward
is `worth`. Memory is that of `multi`: the local agent changes CPU alone.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.randomness import split
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import CPU, Flags, Floats, Integers, Services, Snapshot
from trimtab.pod_autoscaling.rivals.learning import Network, Replay
from trimtab.pod_autoscaling.rivals.rival import LEARN, Knowledge, Rival, Wish, pods_in_a_step
from trimtab.pod_autoscaling.rivals.seeing import FEATURES, Seen, features_of, worth

__all__ = ["Adrl", "adrl"]

_LOCAL = np.array([1.0, 1.25, 0.8])
_GLOBAL = np.array([0.0, 1.0, -1.0])
_SMALLEST_CORES = 0.5
_INPUTS = len(FEATURES) + 1
_HIDDEN = (48, 48)
# An interval is good that keeps to the budget with pods that are busy for half of the time.
_GOOD_BUSY = 0.5
# Of a Gaussian with three dimensions, 85 % lies within this square of a distance.
_FAR = 5.32
_SLOWEST = 1e-3
_SPREAD = np.eye(3) * np.array([0.03, 0.3, 0.02])
_PATIENCE = 2
_DISCOUNT = 0.9
_KEPT_TOGETHER, _KEPT_EACH = 60_000, 512
_DRAWN_TOGETHER, _DRAWN_EACH = 256, 32
_RATE_TOGETHER, _RATE_EACH = 1e-3, 5e-5
_LESSONS_TOGETHER, _LESSONS_EACH = 2, 1
_FIRST_LESSON = 64
_FOLLOWED = 0.01


def adrl() -> Rule:
    """CPU of pods, then their number, by two Q-networks when a detector fires (ADRL, TPDS 2021)."""
    return Rule(Adrl.name, Adrl, (LEARN,))


class Adrl(Rival):
    """CPU of pods, then their number, by two Q-networks when a detector fires (ADRL, TPDS 2021)."""

    name = "adrl"

    @classmethod
    def fresh(cls, seed: int) -> Knowledge:
        sizes = (_INPUTS, *_HIDDEN, len(_LOCAL))
        networks = {
            part: Network.fresh(sizes, seed=split(seed, cls.name, part), last_scale=0.1)
            for part in ("local", "global")
        }
        usual = np.array([[0.65, -0.5, 0.0]])
        return {
            "normal/middle": usual.astype(np.float32),
            "normal/spread": _SPREAD[None].astype(np.float32),
            "normal/number": np.ones(1, np.float32),
            **networks["local"].tensors("local"),
            **networks["global"].tensors("global"),
        }

    def begin_with(self, knowledge: Knowledge) -> None:
        self._middle, self._spread, self._number = (
            np.repeat(knowledge[f"normal/{name}"].astype(np.float64), self.agents, axis=0)
            for name in ("middle", "spread", "number")
        )
        self._networks = {
            part: Network.of(knowledge, part, agents=self.agents) for part in ("local", "global")
        }
        self._targets = {part: network.copied() for part, network in self._networks.items()}
        self._replay = Replay(
            agents=self.agents,
            capacity=_KEPT_TOGETHER if self.manner.together else _KEPT_EACH,
            # State, two actions, reward, next state.
            width=2 * _INPUTS + 3,
            seed=split(self.manner.seed, self.name, "replay"),
        )

    def knowledge(self) -> Knowledge:
        return {
            "normal/middle": self._middle[:1].astype(np.float32),
            "normal/spread": self._spread[:1].astype(np.float32),
            "normal/number": self._number[:1].astype(np.float32),
            **self._networks["local"].tensors("local"),
            **self._networks["global"].tensors("global"),
        }

    def restart(self, services: Services) -> None:
        super().restart(services)
        self._lasting = np.zeros(self.count, np.int64)
        self._last: tuple[Floats, Integers, Integers] | None = None

    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        looked = np.stack([seen.busy, np.log(seen.latency), seen.growth], 1)
        fired = self._far(looked) > _FAR
        self._lasting = np.where(fired, self._lasting + 1, 0)
        state = np.concatenate([features_of(seen), np.minimum(self._lasting, 4)[:, None] / 2 - 1], 1)
        if self.manner.learn:
            self._learn(seen, lived, state)
            self._learn_normal(looked, seen, seen.told)
        changed = self._asked_of("local", state)
        cpu = seen.cpu * _LOCAL[changed]
        least, most = snapshot.services.least[:, CPU], snapshot.services.most[:, CPU]
        least = np.maximum(least, np.minimum(_SMALLEST_CORES, most))
        at_bound = (cpu < least - 1e-9) | (cpu > most + 1e-9)
        changed = np.where(fired & ~at_bound, changed, 0)
        globally = fired & (at_bound | (self._lasting >= _PATIENCE))
        moved = np.where(globally, self._asked_of("global", state), 0)
        self._last = state, changed, moved
        replicas = seen.asked + _GLOBAL[moved] * pods_in_a_step(seen.asked)
        return Wish(replicas, seen.cpu * _LOCAL[changed])

    def _asked_of(self, part: str, state: Floats) -> Integers:
        scores = self._networks[part](self.grouped(state)).reshape(self.count, -1)
        return self.chosen(scores)

    def _far(self, looked: Floats) -> Floats:
        """Squares of distances from what is normal, in deviations, [E]."""
        away = self.grouped(looked) - self._middle[:, None]
        inverse = np.linalg.inv(self._spread + 1e-6 * np.eye(3))
        return np.einsum("ani,aij,anj->an", away, inverse, away).reshape(self.count)

    def _learn_normal(self, looked: Floats, seen: Seen, told: Flags) -> None:
        good = told & (seen.late <= seen.budget) & (seen.busy >= _GOOD_BUSY) & (seen.rate > 0)
        values, counts = self.grouped(looked), self.grouped(good).astype(np.float64)
        number = counts.sum(1)
        self._number += number
        share = np.where(number > 0, np.maximum(number / (1 + self._number), _SLOWEST), 0.0)
        away = (values - self._middle[:, None]) * counts[..., None]
        some = np.maximum(number, 1.0)
        self._middle += share[:, None] * away.sum(1) / some[:, None]
        square = np.swapaxes(away, 1, 2) @ away / some[:, None, None]
        self._spread += share[:, None, None] * (square - self._spread)

    def _learn(self, seen: Seen, lived: Flags, state: Floats) -> None:
        if self._last is None:
            return
        before, changed, moved = self._last
        row = np.concatenate([before, np.stack([changed, moved, worth(seen)], 1), state], 1)
        self._replay.add(self.grouped(row), self.grouped(lived))
        together = self.manner.together
        ready = self._replay.lengths >= _FIRST_LESSON
        if not ready.any():
            return
        for _ in range(_LESSONS_TOGETHER if together else _LESSONS_EACH):
            rows = self._replay.draw(_DRAWN_TOGETHER if together else _DRAWN_EACH)
            for place, part in enumerate(("local", "global")):
                self._lesson(part, rows, rows[..., _INPUTS + place].astype(np.int64), ready)

    def _lesson(self, part: str, rows: Floats, actions: Integers, ready: Flags) -> None:
        network, target = self._networks[part], self._targets[part]
        before, after = rows[..., :_INPUTS], rows[..., _INPUTS + 3 : 2 * _INPUTS + 3]
        best = network(after).argmax(-1)[..., None]
        worth_then = np.take_along_axis(target(after), best, -1)[..., 0]
        aims = (1 - _DISCOUNT) * rows[..., _INPUTS + 2] + _DISCOUNT * worth_then
        steps = network.steps(before)
        slopes = np.zeros_like(steps[-1])
        found = np.take_along_axis(steps[-1], actions[..., None], -1)[..., 0]
        # Huber's loss: one disaster does not turn everything over.
        np.put_along_axis(slopes, actions[..., None], np.clip(found - aims, -1, 1)[..., None], -1)
        rate = _RATE_TOGETHER if self.manner.together else _RATE_EACH
        network.descend(steps, slopes / rows.shape[1], rate=rate, which=ready)
        target.follow(network, _FOLLOWED)
