"""How DL2 learns: it copies smallest first, then goes on by actor-critic.

The reward between two decisions is minus the jobs in the system over time; by Little's law its sum is minus
the sum of completion times. Everything is plain numpy: the network has 14,000 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import split
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.heuristics.words import gang_milli, hold
from trimtab.gpu_scheduling.problem import Snapshot
from trimtab.gpu_scheduling.rivals.dl2 import HIDDEN, SKIP, View, action_of, layers, shapes, view_of
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.gpu_scheduling.workload import Workload

__all__ = [
    "Adam",
    "Lived",
    "advantages",
    "copy_smallest",
    "fresh",
    "gradients",
    "improve",
    "mean_jct_ms",
    "play",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Tensors: TypeAlias = dict[str, Floats]
Chooser: TypeAlias = Callable[[Snapshot, View], int]

HORIZON_MS = 2 * 3_600_000.0
"""Rewards so far ahead count by 1/e."""
SMOOTHING = 0.9
REWARD_SCALE = 50 * 3_600_000.0
"""Jobs in the system x milliseconds that count as 1: some 25 jobs over the horizon."""
ENTROPY = 0.01


class Lived(NamedTuple):
    """An episode as it was lived, decision by decision."""

    inputs: Floats  # [T, INPUTS]
    mask: NDArray[np.bool_]  # [T, WINDOW + 1]
    choice: Integers  # [T]
    reward: Floats  # [T]: until the next decision
    elapsed_ms: Floats  # [T]


def fresh(seed: int) -> tuple[Tensors, Tensors]:
    """An actor and a critic that know nothing."""
    luck = np.random.default_rng(split(seed, "dl2"))
    wide = {**shapes(), "w2": (HIDDEN, 1), "b2": (1,)}

    def drawn(sizes: dict[str, tuple[int, ...]]) -> Tensors:
        return {
            name: luck.normal(size=size) * np.sqrt(2.0 / size[0]) if len(size) == 2 else np.zeros(size)
            for name, size in sizes.items()
        }

    actor, critic = drawn(shapes()), drawn(wide)
    for last in (actor, critic):
        last["w2"] *= 0.1
    return actor, critic


def play(simulator: Simulator, workload: Workload, seed: int, choose: Chooser) -> Lived:
    """Play one workload; only moments with something to choose are decisions."""
    snapshot = simulator.reset(workload, seed)
    inputs: list[Floats] = []
    mask: list[NDArray[np.bool_]] = []
    choices: list[int] = []
    reward: list[float] = []
    elapsed: list[float] = []
    while not simulator.ended:
        view = view_of(snapshot)
        if view.jobs:
            choice = choose(snapshot, view)
            inputs.append(view.inputs)
            mask.append(view.mask)
            choices.append(choice)
            reward.append(0.0)
            elapsed.append(0.0)
            action = action_of(snapshot, view, choice)
        else:
            action = hold(snapshot)
        step = simulator.step(action)
        snapshot = step.snapshot
        if reward:
            reward[-1] += float(step.reward)
            elapsed[-1] += float(step.elapsed_ms)
    return Lived(np.array(inputs), np.array(mask), np.array(choices), np.array(reward), np.array(elapsed))


def smallest_first(snapshot: Snapshot, view: View) -> int:
    """The rule that is copied: the job with fewest GPUs, the oldest of equals."""
    return int(np.argmin([gang_milli(snapshot, job) for job in view.jobs]))


def mean_jct_ms(simulator: Simulator, workloads: Sequence[Workload], actor: Tensors) -> float:
    """Mean completion time when the likeliest is always chosen."""
    found = []
    for seed, workload in enumerate(workloads):
        play(simulator, workload, seed, lambda _, view: int(np.argmax(_scores(actor, view))))
        found.append(float(simulator.episode("dl2").jct_ms.mean()))
    return float(np.mean(found))


def _scores(actor: Tensors, view: View) -> Floats:
    return np.where(view.mask, layers(actor, view.inputs)[-1], -np.inf)


# --- gradients ---------------------------------------------------------------------------------------------


def gradients(tensors: Tensors, out: Sequence[Floats], wanted: Floats) -> Tensors:
    """Slopes of the parameters, from what came `out` of each layer and the slopes of the scores, [T, n]."""
    found: Tensors = {}
    slope = wanted
    for place in reversed(range(len(out) - 1)):
        found[f"w{place}"], found[f"b{place}"] = out[place].T @ slope, slope.sum(axis=0)
        if place:
            slope = (slope @ tensors[f"w{place}"].T) * (out[place] > 0)
    return found


def probabilities(scores: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Softmax over what may be chosen."""
    scores = np.where(mask, scores, -np.inf)
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


@dataclass
class Adam:
    """Adam (Kingma and Ba, 2015)."""

    rate: float
    steps: int = 0
    mean: Tensors = field(default_factory=dict)
    square: Tensors = field(default_factory=dict)

    def step(self, tensors: Tensors, slopes: Tensors, *, most: float = 1.0) -> None:
        """Go down the slopes, in place; together they are at most so long."""
        length = np.sqrt(sum(float((slope**2).sum()) for slope in slopes.values()))
        shorter = min(1.0, most / max(length, 1e-12))
        self.steps += 1
        for name, slope in slopes.items():
            slope = slope * shorter
            self.mean[name] = 0.9 * self.mean.get(name, 0.0) + 0.1 * slope
            self.square[name] = 0.999 * self.square.get(name, 0.0) + 0.001 * slope**2
            mean = self.mean[name] / (1.0 - 0.9**self.steps)
            square = self.square[name] / (1.0 - 0.999**self.steps)
            tensors[name] -= self.rate * mean / (np.sqrt(square) + 1e-8)


# --- learning ----------------------------------------------------------------------------------------------


def copy_smallest(
    actor: Tensors, cluster: Cluster, workloads: Iterable[Workload], *, epochs: int, seed: int
) -> float:
    """Warm up: do as smallest first does; returns the share of decisions that are the same at the end."""
    simulator = Simulator(cluster)
    lived = [play(simulator, one, number, smallest_first) for number, one in enumerate(workloads)]
    inputs, mask, choice = (
        np.concatenate([getattr(one, name) for one in lived]) for name in Lived._fields[:3]
    )
    luck, adam, same = np.random.default_rng(split(seed, "copying")), Adam(1e-3), 0.0
    for _ in range(epochs):
        order = luck.permutation(len(choice))
        same = 0.0
        for rows in np.array_split(order, max(1, len(order) // 64)):
            out = layers(actor, inputs[rows])
            chance = probabilities(out[-1], mask[rows])
            same += float((chance.argmax(axis=1) == choice[rows]).sum())
            chance[np.arange(len(rows)), choice[rows]] -= 1.0
            adam.step(actor, gradients(actor, out, chance / len(rows)))
    return same / len(choice)


def advantages(reward: Floats, values: Floats, elapsed_ms: Floats) -> Floats:
    """How much better than foretold things went after each decision (generalised advantages).

    The last decision is the end: nothing comes after it.

    >>> advantages(np.array([-1.0, -2.0]), np.array([0.0, 0.0]), np.array([0.0, 0.0])).tolist()
    [-2.8, -2.0]
    """
    discount = np.exp(-elapsed_ms / HORIZON_MS)
    following = np.append(values[1:], 0.0)
    surprise = reward + discount * following - values
    found = np.empty(len(reward))
    ahead = 0.0
    for place in reversed(range(len(reward))):
        ahead = surprise[place] + discount[place] * SMOOTHING * ahead
        found[place] = ahead
    return found


@dataclass
class Learner:
    """An actor and a critic, and how far each has come."""

    actor: Tensors
    critic: Tensors
    of_actor: Adam = field(default_factory=lambda: Adam(1e-4))
    of_critic: Adam = field(default_factory=lambda: Adam(1e-3))


def improve(learner: Learner, lived: Lived, *, acting: bool = True) -> float:
    """One episode's lesson; returns the critic's mean squared error."""
    out = layers(learner.critic, lived.inputs)
    values = out[-1][:, 0]
    gained = advantages(lived.reward / REWARD_SCALE, values, lived.elapsed_ms)
    steps = len(gained)
    learner.of_critic.step(learner.critic, gradients(learner.critic, out, -gained[:, None] / steps))
    if acting:
        normal = (gained - gained.mean()) / (gained.std() + 1e-8)
        out = layers(learner.actor, lived.inputs)
        chance = probabilities(out[-1], lived.mask)
        taken = np.zeros_like(chance)
        taken[np.arange(steps), lived.choice] = 1.0
        told = np.log(np.maximum(chance, 1e-12))
        entropy = -(chance * told).sum(axis=1, keepdims=True)
        slope = -normal[:, None] * (taken - chance) + ENTROPY * chance * (told + entropy)
        learner.of_actor.step(learner.actor, gradients(learner.actor, out, slope / steps))
    return float((gained**2).mean())


def sampler(actor: Tensors, seed: int) -> Chooser:
    """Choose by the actor's probabilities."""
    luck = np.random.default_rng(seed)

    def choose(snapshot: Snapshot, view: View) -> int:
        chance = probabilities(layers(actor, view.inputs)[-1], view.mask)
        return min(int(np.searchsorted(np.cumsum(chance), luck.random(), side="right")), _last(view))

    return choose


def _last(view: View) -> int:
    """The last choice there is: rounding must not lead beyond it."""
    return SKIP if view.mask[SKIP] else len(view.jobs) - 1
