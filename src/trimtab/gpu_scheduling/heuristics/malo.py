"""MALO: an ant lion optimiser with differential evolution around the elite, for order and machines.

After Abualigah and Diabat (Cluster Computing 24, 2021), on the ant lion optimiser of Mirjalili (2015): every
ant walks at random around an ant lion drawn by its fitness and around the best one, the elite; the bounds of
the walks shrink from iteration to iteration; an ant lion takes the place of an ant that is fitter. Then
each ant lion tries a step of differential evolution, elite + 0.5 (one - another), with crossover 0.9. Their
population of 30 and 100 iterations would take a second per decision; the usual budget here is smaller, and
two solutions of common sense are among the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import hash_counters
from trimtab.gpu_scheduling.heuristics.metaheuristic import (
    SHARED,
    Outcome,
    Outlook,
    Planner,
    budget_setting,
    non_dominated,
)

__all__ = ["Malo", "malo", "shrinkage"]

Floats: TypeAlias = NDArray[np.float64]

MOST_ELITES = 50
"""Solutions of the archive."""
SCALE, CROSSOVER = 0.5, 0.9
"""Of differential evolution."""
_WALK = 16
"""Steps of a random walk: bits of a word."""
_FIRST, _PICK, _SIDES, _ANTS, _ELITE, _PARENTS, _CROSS = range(7)
"""Purposes of luck."""


@dataclass(frozen=True)
class Malo(Planner):
    """Order and machines by ant lions and differential evolution (MALO, 2021), looking ahead."""

    salt = "malo"

    def search(self, outlook: Outlook) -> Floats:
        """The solution with the lowest score in the archive."""
        values = self.values
        population, iterations = int(values["ants"]), int(values["iterations"])
        size = outlook.window.size
        lions = 2.0 * outlook.luck(_FIRST, 0, population, size) - 1.0
        lions[: len(outlook.known)] = outlook.known[:population]
        archive = _Archive(outlook, size)
        score = archive.judged(lions)
        for step in range(1, iterations + 1):
            ants = self._walked(outlook, lions, score, step, iterations)
            tried = _evolved(outlook, lions, archive, step)
            found = archive.judged(np.concatenate([ants, tried]))
            score = _fitter_stays(lions, score, ants, found[:population])
            score = _fitter_stays(lions, score, tried, found[population:])
        return archive.best

    def _walked(self, outlook: Outlook, lions: Floats, score: Floats, step: int, iterations: int) -> Floats:
        """New ants: halfway between a walk around an ant lion and one around the elite."""
        # Roulette: the fitter, the more often.
        weight = np.cumsum(1.0 / np.maximum(score, 1e-9))
        draws = outlook.luck(_PICK, step, len(lions))
        picked = np.searchsorted(weight / weight[-1], draws, side="right")
        elite = lions[np.argmin(score)]
        around = _walks(outlook, _ANTS, step, iterations, lions[np.minimum(picked, len(lions) - 1)])
        near_elite = _walks(outlook, _ELITE, step, iterations, np.broadcast_to(elite, lions.shape))
        return np.clip((around + near_elite) / 2.0, -1.0, 1.0)


class _Archive:
    """Solutions that are not dominated, and the one with the lowest score."""

    def __init__(self, outlook: Outlook, size: int) -> None:
        self._outlook = outlook
        self.solutions = np.empty((0, size))
        self.outcome = Outcome(np.empty(0), np.empty(0))

    def judged(self, solutions: Floats) -> Floats:
        """Scores of solutions; the good ones are kept."""
        outcome = self._outlook.outcome(solutions)
        everything = np.concatenate([self.solutions, solutions])
        together = Outcome(
            np.concatenate([self.outcome.jct_ms, outcome.jct_ms]),
            np.concatenate([self.outcome.fee, outcome.fee]),
        )
        kept = non_dominated(together, MOST_ELITES)
        self.solutions = everything[kept]
        self.outcome = Outcome(together.jct_ms[kept], together.fee[kept])
        return self._outlook.score(outcome)

    @property
    def best(self) -> Floats:
        return self.solutions[int(np.argmin(self._outlook.score(self.outcome)))]


def shrinkage(step: int, iterations: int) -> float:
    """By how much the bounds of walks are smaller than at first.

    >>> [shrinkage(step, 100) for step in (5, 20, 60, 96)]
    [1.0, 20.0, 600.0, 960000.0]
    """
    done = step / iterations
    for share, power in ((0.95, 6), (0.9, 5), (0.75, 4), (0.5, 3), (0.1, 2)):
        if done > share:
            return 10.0**power * step / iterations
    return 1.0


def _walks(outlook: Outlook, purpose: int, step: int, iterations: int, middle: Floats) -> Floats:
    """Where random walks of +1 and -1 are after their share of steps, scaled into bounds about `middle`."""
    half = 1.0 / shrinkage(step, iterations)
    # Up or down from the ant lion: either bound is on either side of it.
    sides = np.where(outlook.luck(_SIDES, 2 * step + (purpose == _ELITE), 2, len(middle), 1) < 0.5, 1.0, -1.0)
    low, high = middle - half * sides[0], middle + half * sides[1]
    words = hash_counters(outlook.seed, purpose, step, np.arange(middle.size)).reshape(middle.shape)
    bits = np.arange(_WALK, dtype=np.uint64)[:, None, None]
    moves = np.where((words >> bits) & np.uint64(1), 1.0, -1.0)
    walk = np.add.accumulate(moves, axis=0)
    least, most = np.minimum(walk.min(axis=0), 0.0), np.maximum(walk.max(axis=0), 0.0)
    here = walk[-(-_WALK * step // iterations) - 1]
    return low + (here - least) * (high - low) / np.maximum(most - least, 1.0)


def _evolved(outlook: Outlook, lions: Floats, archive: _Archive, step: int) -> Floats:
    """Elite + SCALE x (one - another), crossed with each ant lion."""
    count, size = lions.shape
    parents = (outlook.luck(_PARENTS, step, 2, count) * count).astype(np.int64)
    tried = archive.best + SCALE * (lions[parents[0]] - lions[parents[1]])
    crossed = outlook.luck(_CROSS, step, count, size) < CROSSOVER
    return np.clip(np.where(crossed, tried, lions), -1.0, 1.0)


def _fitter_stays(lions: Floats, score: Floats, others: Floats, other_score: Floats) -> Floats:
    """Replace ant lions by what is fitter, in place; their scores."""
    better = other_score < score
    lions[better] = others[better]
    return np.where(better, other_score, score)


def malo() -> Malo:
    """Order and machines by ant lions and differential evolution (MALO, 2021), looking ahead."""
    budget = (
        budget_setting("ants", 12, "solutions that search together", (8, 12, 30), least=2),
        budget_setting("iterations", 3, "times they move", (2, 3, 10, 100)),
    )
    return Malo("malo", malo.__doc__ or "", (*budget, *SHARED))
