"""MOSA: multi-objective simulated annealing over order and machines.

A move swaps two jobs, or draws the machines of one job anew. It is accepted if it is no worse in completion
time and fee, otherwise with probability exp(-sum of losses / (temperature x range)), the range being that of
the archive of solutions that are not dominated. Temperature falls from 1 by 0.95 for every 20 of 2,000 moves.
Here several chains anneal side by side, because looking at many solutions takes hardly longer than at one;
whatever the budget, they cool down as far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.heuristics.metaheuristic import (
    SHARED,
    Outcome,
    Outlook,
    Planner,
    budget_setting,
    non_dominated,
)

__all__ = ["Mosa", "acceptance", "mosa"]

Floats: TypeAlias = NDArray[np.float64]

MOST_KEPT = 50
"""Solutions of the archive."""
COOLING, COOLINGS = 0.95, 100
"""Factor of the temperature, and how often it is applied in all: 2,000 moves, 20 at a temperature."""
_FIRST, _CHOICE, _WHICH, _WISHES, _ACCEPT = range(5)
"""Purposes of luck."""


@dataclass(frozen=True)
class Mosa(Planner):
    """Order and machines by simulated annealing on completion time and fee (MOSA), looking ahead."""

    salt = "mosa"

    def search(self, outlook: Outlook) -> Floats:
        """The solution of the archive with the lowest score."""
        values = self.values
        chains, moves = int(values["chains"]), int(values["moves"])
        size, jobs = outlook.window.size, len(outlook.window.jobs)
        now = outlook.known[np.arange(chains) % len(outlook.known)].copy()
        half = chains // 2
        now[half:, jobs:] = 2.0 * outlook.luck(_FIRST, 0, chains - half, size - jobs) - 1.0
        outcome = outlook.outcome(now)
        kept, kept_outcome = now, outcome
        for step in range(moves):
            kept, kept_outcome = _archived(kept, kept_outcome)
            tried = _moved(outlook, now, step)
            found = outlook.outcome(tried)
            temperature = COOLING ** (COOLINGS * step / moves)
            chance = acceptance(outcome, found, kept_outcome, temperature)
            accepted = outlook.luck(_ACCEPT, step, chains) < chance
            now = np.where(accepted[:, None], tried, now)
            outcome = Outcome(
                *(np.where(accepted, new, old) for new, old in zip(found, outcome, strict=True))
            )
            kept = np.concatenate([kept, tried])
            kept_outcome = Outcome(*(np.concatenate(pair) for pair in zip(kept_outcome, found, strict=True)))
        return kept[int(np.argmin(outlook.score(kept_outcome)))]


def acceptance(before: Outcome, after: Outcome, kept: Outcome, temperature: float) -> Floats:
    """Probability that a move is made: 1 if nothing gets worse.

    >>> one = Outcome(np.array([2.0]), np.array([1.0]))
    >>> two = Outcome(np.array([4.0]), np.array([1.0]))
    >>> acceptance(one, two, Outcome(np.array([2.0, 6.0]), np.array([1.0, 2.0])), 0.5).round(3).tolist()
    [0.368]
    """
    loss = np.zeros(len(before.jct_ms))
    for old, new, seen in zip(before, after, kept, strict=True):
        # Where all kept are alike, a hundredth of the value is the measure.
        span = max(float(seen.max() - seen.min()), 0.01 * float(seen.min()), 1e-9)
        loss += (new - old) / span
    no_worse = (after.jct_ms <= before.jct_ms) & (after.fee <= before.fee)
    return np.where(no_worse, 1.0, np.exp(-np.maximum(loss, 0.0) / max(temperature, 1e-9)))


def _archived(solutions: Floats, outcome: Outcome) -> tuple[Floats, Outcome]:
    kept = non_dominated(outcome, MOST_KEPT)
    return solutions[kept], Outcome(outcome.jct_ms[kept], outcome.fee[kept])


def _moved(outlook: Outlook, solutions: Floats, step: int) -> Floats:
    """A neighbour of each solution: two jobs swapped, or the machines of one drawn anew."""
    jobs, machines = len(outlook.window.jobs), len(outlook.window.machines)
    count = len(solutions)
    every = np.arange(count)
    which = (outlook.luck(_WHICH, step, 2, count) * jobs).astype(np.int64)
    swap = outlook.luck(_CHOICE, step, count) < 0.5 if jobs > 1 else np.zeros(count, bool)
    moved = solutions.copy()
    moved[every[swap], which[0, swap]] = solutions[every[swap], which[1, swap]]
    moved[every[swap], which[1, swap]] = solutions[every[swap], which[0, swap]]
    wishes = 2.0 * outlook.luck(_WISHES, step, count, machines) - 1.0
    columns = jobs + which[0][:, None] * machines + np.arange(machines)
    moved[every[~swap, None], columns[~swap]] = wishes[~swap]
    return moved


def mosa() -> Mosa:
    """Order and machines by simulated annealing on completion time and fee (MOSA), looking ahead."""
    budget = (
        budget_setting("chains", 16, "solutions annealed side by side", (8, 16, 64)),
        budget_setting("moves", 5, "moves of each", (3, 5, 30, 125)),
    )
    return Mosa("mosa", mosa.__doc__ or "", (*budget, *SHARED))
