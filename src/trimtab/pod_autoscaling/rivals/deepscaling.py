"""DeepScaling: load and CPU foretold by networks, a target utilisation that is raised while latency holds.

After Wang, Zhu, Li et al., "DeepScaling: microservices autoscaling for stable CPU utilization in large scale
cloud systems" (SoCC 2022).

Kept: one network foretells the load, a second, which answers with a distribution, what CPU that load takes,
the number of pods is chosen by these models so that a target utilisation is met, and the target is raised
while the latency limit holds. Changed: load is foretold from the service's own recent rates (the paper has a
graph of calls between services, which there are none of here, and days of history); pods are counted directly
from the models (the paper trains a Q-network against them); the target moves at every decision and not over
days. Pods have one core, and memory is that of `multi`: the paper has neither dimension.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.randomness import split
from trimtab.pod_autoscaling.heuristics.measures import Highest, cpu_per_request, replicas_for
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import Flags, Floats, Services, Snapshot
from trimtab.pod_autoscaling.rivals.learning import Network, Replay, gaussian_slopes
from trimtab.pod_autoscaling.rivals.rival import LEARN, Knowledge, Rival, Wish
from trimtab.pod_autoscaling.rivals.seeing import Seen

__all__ = ["DeepScaling", "deepscaling"]

_PAST = 8
_LOAD_INPUTS, _CPU_INPUTS = _PAST + 1, 4
_HIDDEN = 24
_AHEAD = 2
# Of both distributions together: seldom more is needed than this many deviations above the mean.
_DEVIATIONS = 1.0
_KEEP_S = 120.0
_FIRST_TARGET, _LEAST_TARGET, _MOST_TARGET = 0.6, 0.3, 0.95
# Raised by a hundredth in about a minute that holds, lowered by as much or more in an interval that fails: it
# stands still where about one interval in ten fails.
_RAISED, _LOWERED, _LOWERED_MOST = 0.002, 0.01, 4.0
# A limit that holds in pods far from the target proves nothing of the target.
_NEAR = 0.6
_TARGET_PACE = 1e-4
_COST_SPAN_S = 300.0
_KEPT_TOGETHER, _KEPT_EACH = 50_000, 512
_DRAWN_TOGETHER, _DRAWN_EACH = 256, 32
_RATE_TOGETHER, _RATE_EACH = 1e-3, 1e-4
_FIRST_LESSON = 64


def deepscaling() -> Rule:
    """Pods for the CPU that the foretold load takes, at a target raised while latency holds (SoCC 2022)."""
    return Rule(DeepScaling.name, DeepScaling, (LEARN,))


class DeepScaling(Rival):
    """Pods for the CPU that the foretold load takes, at a target raised while latency holds (SoCC 2022)."""

    name = "deepscaling"

    @classmethod
    def fresh(cls, seed: int) -> Knowledge:
        load = Network.fresh((_LOAD_INPUTS, _HIDDEN, 2), seed=split(seed, cls.name, "load"), last_scale=0.1)
        cpu = Network.fresh((_CPU_INPUTS, _HIDDEN, 2), seed=split(seed, cls.name, "cpu"), last_scale=0.1)
        # Before anything is learned, 20 % more or less may come.
        for network in (load, cpu):
            network.biases[-1][..., 1] = np.log(0.2)
        target = np.full(1, _FIRST_TARGET, np.float32)
        return {**load.tensors("load"), **cpu.tensors("cpu"), "target": target}

    def begin_with(self, knowledge: Knowledge) -> None:
        self._load = Network.of(knowledge, "load", agents=self.agents)
        self._cpu = Network.of(knowledge, "cpu", agents=self.agents)
        self._first_target = float(knowledge["target"][0])
        kept = _KEPT_TOGETHER if self.manner.together else _KEPT_EACH
        self._loads, self._cpus = (
            Replay(
                agents=self.agents,
                capacity=kept,
                width=width + 1,
                seed=split(self.manner.seed, self.name, name),
            )
            for name, width in (("load", _LOAD_INPUTS), ("cpu", _CPU_INPUTS))
        )

    def knowledge(self) -> Knowledge:
        target = self._first_target if self.manner.together else self._target[0]
        return {
            **self._load.tensors("load"),
            **self._cpu.tensors("cpu"),
            "target": np.full(1, target, np.float32),
        }

    def restart(self, services: Services) -> None:
        super().restart(services)
        self._target = np.full(self.count, self._first_target)
        self._highest = Highest(services, _KEEP_S)
        self._asked_before: list[tuple[Floats, Floats, Flags]] = []

    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        each_s = cpu_per_request(snapshot, _COST_SPAN_S)
        costs = np.where(np.isfinite(each_s), each_s, 0.0)
        if self.manner.learn:
            self._learn_load(seen)
            self._learn_cpu(seen, costs)
            self._move_target(seen)
        told = _past_rates(snapshot)
        self._asked_before = [*self._asked_before, (told, seen.rate, seen.told)][-_AHEAD:]
        more, doubt = self._answers(self._load, told)
        rate = (seen.rate + 1) * np.exp(more) - 1
        stretch, noise = self._answers(self._cpu, _load_told(seen, rate, costs))
        spread = _DEVIATIONS * np.sqrt(doubt**2 + noise**2)
        cores = np.maximum(rate, 0.0) * costs * np.exp(stretch + spread)
        wanted = replicas_for(cores, utilisation=self._target, cpu=np.ones(self.count))
        wanted = np.where(np.isfinite(each_s) | (seen.rate == 0), wanted, np.nan)
        return Wish(self._highest(wanted, snapshot, seen.asked))

    def _move_target(self, seen: Seen) -> None:
        holds = seen.late <= seen.budget
        proven = seen.told & holds & (seen.busy >= _NEAR * self._target)
        failed = seen.told & ~holds
        fall = _LOWERED * np.minimum(seen.late / seen.budget, _LOWERED_MOST)
        change = np.where(proven, _RAISED, 0.0) - np.where(failed, fall, 0.0)
        self._target = np.clip(self._target + change, _LEAST_TARGET, _MOST_TARGET)
        if self.manner.together:
            self._first_target += (
                _TARGET_PACE * self.count * (float(self._target.mean()) - self._first_target)
            )

    def _answers(self, network: Network, told: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation of a logarithm, [E] each."""
        found = network(self.grouped(told)).reshape(self.count, 2)
        return np.clip(found[:, 0], -1.0, 1.0), np.exp(np.clip(found[:, 1], -4.0, 0.0))

    def _learn_load(self, seen: Seen) -> None:
        if len(self._asked_before) < _AHEAD:
            return
        (told, rate_then, known_then), (_, rate_between, known_between) = self._asked_before
        came = np.log((np.maximum(rate_between, seen.rate) + 1) / (rate_then + 1))
        counts = known_then & known_between & seen.told
        self._lesson(self._load, self._loads, told, np.clip(came, -1.5, 1.5), counts)

    def _learn_cpu(self, seen: Seen, costs: Floats) -> None:
        expected = seen.rate * costs
        counts = seen.told & (expected > 0.02) & (seen.cores > 0)
        off = np.log(np.maximum(seen.cores, 1e-6) / np.maximum(expected, 1e-6))
        self._lesson(
            self._cpu, self._cpus, _load_told(seen, seen.rate, costs), np.clip(off, -1.0, 1.0), counts
        )

    def _lesson(self, network: Network, replay: Replay, told: Floats, came: Floats, counts: Flags) -> None:
        replay.add(self.grouped(np.concatenate([told, came[:, None]], 1)), self.grouped(counts))
        together = self.manner.together
        rows = replay.draw(_DRAWN_TOGETHER if together else _DRAWN_EACH)
        steps = network.steps(rows[..., :-1])
        answers = np.concatenate([steps[-1][..., :1], np.clip(steps[-1][..., 1:], -4.0, 0.0)], -1)
        slopes = gaussian_slopes(answers, rows[..., -1:])
        rate = _RATE_TOGETHER if together else _RATE_EACH
        network.descend(steps, slopes, rate=rate, which=replay.lengths >= _FIRST_LESSON)


def _past_rates(snapshot: Snapshot) -> Floats:
    """Logarithms of the rates of two minutes over the newest, 0 before the service began, and its own."""
    rate, lived = snapshot.samples.rate[:, -_PAST - 1 :], snapshot.samples.present[:, -_PAST - 1 :]
    logs = np.log(rate + 1)
    past = np.where(lived, logs - logs[:, -1:], 0.0)[:, :-1]
    short = _PAST - past.shape[1]
    past = np.pad(past, ((0, 0), (max(short, 0), 0)))
    return np.concatenate([np.clip(2 * past, -2.0, 2.0), logs[:, -1:] / 3 - 1], 1)


def _load_told(seen: Seen, rate: Floats, costs: Floats) -> Floats:
    """What the second network is told of a rate and a service, [E, 4]."""
    starting = np.clip(np.log(seen.asked / seen.ready), -1.0, 2.0)
    size = np.log(np.maximum(rate, 0.0) + 1) / 3 - 1
    return np.stack([size, np.log(costs + 1e-4) / 2 + 2, 3 * (seen.busy - 0.6), starting], axis=1)
