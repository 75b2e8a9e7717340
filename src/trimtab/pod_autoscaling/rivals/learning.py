"""What learning needs, in plain numpy: networks with Adam, a memory of what happened, tables, luck.

Everything has a first axis of agents, A. A service that runs has an agent of its own (A = E), which nobody
else's data touches; in practice one agent learns from all services (A = 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import BundleError
from trimtab.core.randomness import split, uniform
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers

__all__ = ["Luck", "Network", "Replay", "Table", "bins_of", "gaussian_slopes", "softmax"]

_FIRST_DECAY, _SECOND_DECAY, _TINY = 0.9, 0.999, 1e-8
_LONGEST_STEP = 1.0
_TABLE = ("values", "visits")


class Luck:
    """Draws in sequence, each a hash of a seed and a count.

    >>> luck = Luck(3)
    >>> luck.uniform(2, 2).shape, bool(luck.uniform(1)[0] == luck.uniform(1)[0])
    ((2, 2), False)
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._count = seed, 0

    def uniform(self, *shape: int) -> Floats:
        """Numbers from [0, 1)."""
        self._count += 1
        places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
        return uniform(self._seed, self._count, places)

    def integers(self, high: Integers | int, *shape: int) -> Integers:
        """Whole numbers from 0 up to, not including, `high`, which broadcasts."""
        return np.minimum((self.uniform(*shape) * high).astype(np.int64), np.asarray(high) - 1)


class Network:
    """Networks of one shape side by side, one for each agent: dense layers with tanh between them.

    >>> network = Network.fresh((2, 8, 1), seed=1)
    >>> points = Luck(2).uniform(1, 64, 2)
    >>> for _ in range(400):
    ...     steps = network.steps(points)
    ...     network.descend(steps, (steps[-1] - points.sum(2, keepdims=True)) / 64, rate=0.02)
    >>> bool(abs(network(points) - points.sum(2, keepdims=True)).mean() < 0.05)
    True
    """

    def __init__(self, weights: Sequence[Floats], biases: Sequence[Floats]) -> None:
        """Weights [A, inputs, outputs] and biases [A, 1, outputs] of each layer."""
        self.weights, self.biases = list(weights), list(biases)
        self._first = [np.zeros_like(one) for one in (*weights, *biases)]
        self._second = [np.zeros_like(one) for one in (*weights, *biases)]
        self._descents = np.zeros(len(weights[0]), np.int64)

    @classmethod
    def fresh(cls, sizes: Sequence[int], *, seed: int, last_scale: float = 1.0) -> Network:
        """One network of these sizes; weights after Glorot and Bengio (2010), no bias at first."""
        pairs, weights = list(itertools.pairwise(sizes)), []
        for place, (inputs, outputs) in enumerate(pairs):
            reach = math.sqrt(6.0 / (inputs + outputs)) * (last_scale if place == len(pairs) - 1 else 1.0)
            draws = Luck(split(seed, "layer", place)).uniform(1, inputs, outputs)
            weights.append(reach * (2 * draws - 1))
        return cls(weights, [np.zeros((1, 1, outputs)) for _, outputs in pairs])

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]], name: str, *, agents: int) -> Network:
        """The network of that name out of a bundle, for each agent one to go on with."""
        count = sum(key.startswith(f"{name}/weights/") for key in tensors)
        if not count:
            raise BundleError(f"no network {name!r} in the bundle; practise again")
        layers = [
            [
                np.repeat(tensors[f"{name}/{part}/{place}"].astype(np.float64), agents, axis=0)
                for place in range(count)
            ]
            for part in ("weights", "biases")
        ]
        return cls(*layers)

    def tensors(self, name: str) -> dict[str, NDArray[Any]]:
        """What a bundle keeps of it: the first agent's."""
        return {
            f"{name}/{part}/{place}": values[:1].astype(np.float32)
            for part, many in (("weights", self.weights), ("biases", self.biases))
            for place, values in enumerate(many)
        }

    def __call__(self, inputs: Floats) -> Floats:
        """Answers [A, N, outputs] to [A, N, inputs]."""
        return self.steps(inputs)[-1]

    def steps(self, inputs: Floats) -> list[Floats]:
        """The inputs, what each hidden layer says, and the answers."""
        found = [inputs]
        for place, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            answer = found[-1] @ weights + bias
            found.append(answer if place == len(self.weights) - 1 else np.tanh(answer))
        return found

    def gradients(self, steps: Sequence[Floats], slopes: Floats) -> list[Floats]:
        """Of all weights, then of all biases, where the loss has these slopes in the answers, [A, N, o]."""
        weights: list[Floats] = []
        biases: list[Floats] = []
        for place in reversed(range(len(self.weights))):
            weights.insert(0, np.swapaxes(steps[place], 1, 2) @ slopes)
            biases.insert(0, slopes.sum(1, keepdims=True))
            if place:
                slopes = (slopes @ np.swapaxes(self.weights[place], 1, 2)) * (1 - steps[place] ** 2)
        return weights + biases

    def descend(
        self, steps: Sequence[Floats], slopes: Floats, *, rate: float, which: Flags | None = None
    ) -> None:
        """One step of Adam (Kingma and Ba, 2015) for some agents, along gradients of length 1 at most."""
        found = self.gradients(steps, slopes)
        chosen = np.ones(len(self._descents), bool) if which is None else which
        if not chosen.any():
            return
        length = np.sqrt(sum((one * one).sum((1, 2)) for one in found))
        shrink = np.minimum(1.0, _LONGEST_STEP / np.maximum(length, _TINY))[:, None, None]
        moving = chosen[:, None, None]
        self._descents += chosen
        times = np.maximum(self._descents, 1)[:, None, None]
        for one, first, second, gradient in zip(
            (*self.weights, *self.biases), self._first, self._second, found, strict=True
        ):
            gradient = gradient * shrink
            first += np.where(moving, (1 - _FIRST_DECAY) * (gradient - first), 0.0)
            second += np.where(moving, (1 - _SECOND_DECAY) * (gradient * gradient - second), 0.0)
            middle = first / (1 - _FIRST_DECAY**times)
            spread = np.sqrt(second / (1 - _SECOND_DECAY**times))
            one -= np.where(moving, rate * middle / (spread + _TINY), 0.0)

    def copied(self) -> Network:
        """The same weights, its own."""
        return Network([one.copy() for one in self.weights], [one.copy() for one in self.biases])

    def follow(self, other: Network, share: float) -> None:
        """Move so much of the way to another network's weights."""
        for mine, theirs in zip((*self.weights, *self.biases), (*other.weights, *other.biases), strict=True):
            mine += share * (theirs - mine)


class Replay:
    """What happened, for each agent: the newest `capacity` rows of some numbers.

    >>> memory = Replay(agents=2, capacity=3, width=1, seed=0)
    >>> memory.add(np.array([[[1.0]], [[2.0]]]), np.array([[True], [False]]))
    >>> memory.lengths.tolist(), memory.draw(2)[0].tolist()
    ([1, 0], [[1.0], [1.0]])
    """

    def __init__(self, *, agents: int, capacity: int, width: int, seed: int) -> None:
        self._rows = np.zeros((agents, capacity, width), np.float32)
        self._written = np.zeros(agents, np.int64)
        self._luck = Luck(seed)

    @property
    def lengths(self) -> Integers:
        """Rows that each agent has, [A]."""
        return np.minimum(self._written, self._rows.shape[1])

    def add(self, rows: Floats, counts: Flags) -> None:
        """Keep those rows [A, N, width] that count, [A, N]."""
        place = (self._written[:, None] + np.cumsum(counts, 1) - 1) % self._rows.shape[1]
        agents, columns = np.nonzero(counts)
        self._rows[agents, place[agents, columns]] = rows[agents, columns]
        self._written += counts.sum(1)

    def draw(self, count: int) -> Floats:
        """So many rows of each agent, [A, count, width]; nothing but zeros where it has none."""
        agents = len(self._written)
        places = self._luck.integers(np.maximum(self.lengths, 1)[:, None], agents, count)
        return self._rows[np.arange(agents)[:, None], places].astype(np.float64)


class Table:
    """What an action is worth in a state, for each agent, [A, states, actions].

    >>> table = Table.fresh(states=2, actions=2)
    >>> one = np.zeros(1, np.int64)
    >>> for _ in range(50):
    ...     table.learn(one, one, one + 1, np.array([4.0]), least_rate=0.1)
    >>> table.all_of(one, one).round(2).tolist()
    [[0.0, 4.0]]
    """

    def __init__(self, values: Floats, visits: Floats) -> None:
        self.values, self.visits = values, visits

    @classmethod
    def fresh(cls, states: int, actions: int) -> Table:
        """One that knows nothing: all is worth 0."""
        return cls(np.zeros((1, states, actions)), np.zeros((1, states, actions)))

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]], states: int, actions: int, *, agents: int) -> Table:
        """That of a bundle, for each agent one to go on with."""
        for name in _TABLE:
            found = tensors[name].shape if name in tensors else "nothing"
            if found != (1, states, actions):
                raise BundleError(
                    f"table {name!r} of the bundle is {found}, and here {(1, states, actions)} is needed; "
                    "practise again"
                )
        return cls(*(np.repeat(tensors[name].astype(np.float64), agents, axis=0) for name in _TABLE))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a bundle keeps of it: the first agent's."""
        kept = (self.values, self.visits)
        return {name: one[:1].astype(np.float32) for name, one in zip(_TABLE, kept, strict=True)}

    def all_of(self, agents: Integers, states: Integers) -> Floats:
        """Of all actions, [E, actions]."""
        return self.values[agents, states]

    def learn(
        self, agents: Integers, states: Integers, actions: Integers, targets: Floats, *, least_rate: float
    ) -> None:
        """Move towards these targets, by less the more often an action was tried, but never below a rate."""
        shape = self.values.shape
        cells, back = np.unique(np.ravel_multi_index((agents, states, actions), shape), return_inverse=True)
        number = np.bincount(back, minlength=len(cells))
        mean = np.bincount(back, targets, minlength=len(cells)) / number
        values, visits = self.values.reshape(-1), self.visits.reshape(-1)
        visits[cells] += number
        rate = np.maximum(least_rate, 1 / (1 + visits[cells]) ** 0.7)
        # Several services may say something of one cell at once: each would have moved it.
        values[cells] += (1 - (1 - rate) ** number) * (mean - values[cells])


def bins_of(values: Floats, edges: Sequence[float]) -> Integers:
    """Number of the bin of each value: 0 below the first edge.

    >>> bins_of(np.array([0.1, 0.5, 0.9]), (0.5, 0.8)).tolist()
    [0, 1, 2]
    """
    return np.searchsorted(np.asarray(edges), values, side="right").astype(np.int64)


def softmax(scores: Floats) -> Floats:
    """Chances in proportion to the exponentials, over the last axis."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def gaussian_slopes(answers: Floats, targets: Floats) -> Floats:
    """Slopes of the mean negative log-likelihood of targets [A, N, 1] in (mean, log deviation), [A, N, 2].

    >>> gaussian_slopes(np.zeros((1, 1, 2)), np.full((1, 1, 1), 2.0)).tolist()
    [[[-2.0, -3.0]]]
    """
    middle, spread = answers[..., :1], np.exp(answers[..., 1:])
    away = (targets - middle) / spread
    return np.concatenate([-away / spread, 1 - away * away], -1) / answers.shape[1]
