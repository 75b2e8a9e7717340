"""MOSA: multi-objective simulated annealing over order and machines.

A move swaps two jobs, or draws the machines of one job anew. It is accepted if it is no worse in completion
time and fee, otherwise with probability exp(-sum of losses / (temperature x range)), the range being that of
the archive of solutions that are not dominated. Temperature falls from 1 by 0.95 for every 20 of 2,000 moves.
Here several chains anneal side by side and share an archive; whatever the budget, they cool down as far.
Plain loops: compiled in replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.heuristics.look_ahead import (
    Archive,
    Desk,
    Judge,
    Window,
    at_full_speed,
    best_kept,
    copy_into,
    counted,
    foretell,
    keep,
    luck_of,
    new_archive,
    new_desk,
    score_of,
    shorten,
    unit,
)
from trimtab.gpu_scheduling.heuristics.metaheuristic import SHARED, Outlook, Planner, budget_setting

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
        """The solution with the lowest score of the archive."""
        values = self.values
        count, moves = int(values["chains"]), int(values["moves"])
        window, size = outlook.window, outlook.window.size
        chains = _Chains(
            np.empty((count, size)),
            np.empty(count),
            np.empty(count),
            np.empty((count, size)),
            np.empty(count),
            np.empty(count),
        )
        archive, best = new_archive(MOST_KEPT + count, size), np.empty(size)
        at_full_speed(anneal)(
            window, outlook.judge, outlook.known, outlook.seed, chains, archive, new_desk(window), moves, best
        )
        return best


class _Chains(NamedTuple):
    """Where C chains are, and where each would go."""

    now: Floats  # [C, size]
    jct_ms: Floats  # [C]
    fee: Floats  # [C]
    tried: Floats  # [C, size]
    tried_jct_ms: Floats  # [C]
    tried_fee: Floats  # [C]


def anneal(
    window: Window,
    judge: Judge,
    known: Floats,
    seed: np.uint64,
    chains: _Chains,
    archive: Archive,
    desk: Desk,
    moves: int,
    best: Floats,
) -> None:
    """Search; `best` becomes the solution with the lowest score."""
    luck = luck_of(seed)
    begin(chains, known, len(window.jobs), luck)
    foretell(window, chains.now, chains.jct_ms, chains.fee, desk)
    for chain in range(len(chains.now)):
        keep(archive, chains.now[chain], chains.jct_ms[chain], chains.fee[chain])
    for step in range(moves):
        shorten(archive, MOST_KEPT)
        move(chains, len(window.jobs), luck, step)
        foretell(window, chains.tried, chains.tried_jct_ms, chains.tried_fee, desk)
        accept(chains, archive, luck, step, COOLING ** (COOLINGS * step / moves))
        if step + 1 < moves:
            for chain in range(len(chains.now)):
                keep(archive, chains.tried[chain], chains.tried_jct_ms[chain], chains.tried_fee[chain])
    row, lowest = best_kept(archive, judge)
    copy_into(best, archive.solutions[row])
    for chain in range(len(chains.now)):
        score = score_of(chains.tried_jct_ms[chain], chains.tried_fee[chain], judge)
        if score < lowest:
            lowest = score
            copy_into(best, chains.tried[chain])


def begin(chains: _Chains, known: Floats, jobs: int, luck: np.uint64) -> None:
    """All chains begin with an order of common sense, half of them with machines by luck."""
    count, size = chains.now.shape
    draws = counted(counted(luck, _FIRST), 0)
    half = count // 2
    for chain in range(count):
        copy_into(chains.now[chain], known[chain % len(known)])
        if chain >= half:
            for wish in range(size - jobs):
                drawn = unit(counted(draws, (chain - half) * (size - jobs) + wish))
                chains.now[chain, jobs + wish] = 2.0 * drawn - 1.0


def move(chains: _Chains, jobs: int, luck: np.uint64, step: int) -> None:
    """A neighbour of each solution: two jobs swapped, or the machines of one drawn anew."""
    count, size = chains.now.shape
    machines = size // jobs - 1
    choices, which = counted(counted(luck, _CHOICE), step), counted(counted(luck, _WHICH), step)
    draws = counted(counted(luck, _WISHES), step)
    for chain in range(count):
        tried = chains.tried[chain]
        copy_into(tried, chains.now[chain])
        one = int(unit(counted(which, chain)) * jobs)
        another = int(unit(counted(which, count + chain)) * jobs)
        if jobs > 1 and unit(counted(choices, chain)) < 0.5:
            tried[one], tried[another] = chains.now[chain, another], chains.now[chain, one]
        else:
            for machine in range(machines):
                drawn = unit(counted(draws, chain * machines + machine))
                tried[jobs + one * machines + machine] = 2.0 * drawn - 1.0


def accept(chains: _Chains, archive: Archive, luck: np.uint64, step: int, temperature: float) -> None:
    """Let chains go where they would, if that is better, or by luck."""
    draws = counted(counted(luck, _ACCEPT), step)
    # Kept in order of completion time, hence the dearest first.
    last: int = archive.filled[0] - 1
    span_ms = span(archive.jct_ms[0], archive.jct_ms[last])
    span_dollars = span(archive.fee[last], archive.fee[0])
    for chain in range(len(chains.now)):
        later = (chains.tried_jct_ms[chain] - chains.jct_ms[chain]) / span_ms
        dearer = (chains.tried_fee[chain] - chains.fee[chain]) / span_dollars
        if unit(counted(draws, chain)) < acceptance(later, dearer, temperature):
            copy_into(chains.now[chain], chains.tried[chain])
            chains.jct_ms[chain] = chains.tried_jct_ms[chain]
            chains.fee[chain] = chains.tried_fee[chain]


def span(least: float, most: float) -> float:
    """What a loss is measured by; where all kept are alike, a hundredth of the value."""
    return max(most - least, 0.01 * least, 1e-9)


def acceptance(later: float, dearer: float, temperature: float) -> float:
    """Probability that a move is made, by its losses beside the ranges kept: 1 if nothing gets worse.

    >>> round(acceptance(0.5, 0.0, 0.5), 3)
    0.368
    """
    if later <= 0.0 and dearer <= 0.0:
        return 1.0
    return math.exp(-max(later + dearer, 0.0) / max(temperature, 1e-9))


def mosa() -> Mosa:
    """Order and machines by simulated annealing on completion time and fee (MOSA), looking ahead."""
    budget = (
        budget_setting("chains", 16, "solutions annealed side by side", (8, 16, 64)),
        budget_setting("moves", 5, "moves of each", (3, 5, 30, 125)),
    )
    return Mosa("mosa", mosa.__doc__ or "", (*budget, *SHARED))
