"""What lessons say in general: the worth of an answer as a parabola in it, shaped by what is seen.

An answer is worth nothing if it is that of whoever acted, so there is no constant. The other coefficients
(slopes, bends, slopes of the part above 0, one for each part of the answer) are linear in what is seen and in
some random rectified mixtures of it (Rahimi and Recht, NeurIPS 2008); products of two parts have one
coefficient each. All are found together by ridge regression: nothing is left to luck or to stopping in time,
and of thousands of lessons none is enough to be learned by heart. A network learned by gradients from the
same lessons told training moments better and others worse.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import TrimtabError

__all__ = ["Advantages", "best_answers", "fitted_advantages"]

_MIXTURES = 64
_RIDGE = 30.0
_LEAST_LESSONS = 64
_LEVELS = 7
_BLOCK = 4096


class Advantages(NamedTuple):
    """The fitted parabola."""

    mixing: NDArray[np.float64]  # [numbers + 1, mixtures]
    shapes: NDArray[np.float64]  # [3 x parts, 1 + numbers + mixtures]: slopes, bends, slopes above 0
    products: NDArray[np.float64]  # one for each pair of parts
    explained: float  # share of the variance that it tells of lessons kept aside


def fitted_advantages(
    observation: NDArray[np.float32],
    answers: NDArray[np.float32],
    usual: NDArray[np.float32],
    worth: NDArray[np.float32],
    *,
    seed: int,
) -> Advantages:
    """Fit to lessons: rows of what was seen, tried, usual, and what it was worth more than the usual.

    Every fifth moment is kept aside to tell how much is explained; then all are used.
    """
    if len(observation) < _LEAST_LESSONS:
        raise TrimtabError(
            f"{len(observation)} answers were tried, too few to learn from; collect {_LEAST_LESSONS} or more"
        )
    numbers, parts = observation.shape[1], answers.shape[1]
    mixing = np.random.default_rng(seed).normal(0, 1, (numbers + 1, _MIXTURES)) / np.sqrt(numbers)
    shown = _shown(observation, mixing)
    bent, paired = (_shape(answers)[at] - _shape(usual)[at] for at in (0, 1))
    terms = np.concatenate([(bent[:, :, None] * shown[:, None]).reshape(len(shown), -1), paired], 1)
    _, moment = np.unique(observation, axis=0, return_inverse=True)
    aside = moment.ravel() % 5 == 0
    target = worth.astype(np.float64)
    missed = target[aside] - terms[aside] @ _solved(terms[~aside], target[~aside])
    explained = 1 - np.square(missed).mean() / max(np.square(target[aside]).mean(), 1e-12)
    found = _solved(terms, target)
    count = 3 * parts * shown.shape[1]
    return Advantages(mixing, found[:count].reshape(3 * parts, -1), found[count:], float(explained))


def best_answers(
    advantages: Advantages,
    observation: NDArray[np.float32],
    usual: NDArray[np.float32],
    *,
    caution: float,
) -> NDArray[np.float32]:
    """The answer worth most, less `caution` times its squared distance from the usual one: [rows, parts]."""
    levels = np.linspace(-1, 1, _LEVELS)
    grid = np.array(list(itertools.product(levels, repeat=usual.shape[1])))
    bent, paired = _shape(grid)
    found = np.empty(usual.shape, np.float32)
    for first in range(0, len(observation), _BLOCK):
        block = slice(first, first + _BLOCK)
        shapes = _shown(observation[block], advantages.mixing) @ advantages.shapes.T
        worth = shapes @ bent.T + paired @ advantages.products
        if caution:
            off = grid[None] - usual[block, None]
            worth -= caution * np.square(off).sum(2)
        found[block] = grid[worth.argmax(1)]
    return found


def _shape(answers: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Parts, their squares and what is above 0, [rows, 3 x parts]; and the products of pairs."""
    values = answers.astype(np.float64)
    pairs = [values[:, i] * values[:, j] for i in range(values.shape[1]) for j in range(i)]
    bent = np.concatenate([values, values**2, np.maximum(values, 0.0)], 1)
    return bent, np.stack(pairs, 1) if pairs else np.zeros((len(values), 0))


def _shown(observation: NDArray[Any], mixing: NDArray[np.float64]) -> NDArray[np.float64]:
    """A one, what is seen, and its mixtures."""
    one = np.ones((len(observation), 1))
    plain = np.concatenate([one, observation.astype(np.float64)], 1)
    return np.concatenate([plain, np.maximum(plain @ mixing, 0.0)], 1)


def _solved(terms: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.linalg.solve(terms.T @ terms + _RIDGE * np.eye(terms.shape[1]), terms.T @ target)
    return np.asarray(found, np.float64)
