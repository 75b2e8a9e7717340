"""MALO: an ant lion optimiser with differential evolution around the elite, for order and machines.

After Abualigah and Diabat (Cluster Computing 24, 2021), on the ant lion optimiser of Mirjalili (2015): every
ant walks at random around an ant lion drawn by its fitness and around the best one, the elite; the bounds of
the walks shrink from iteration to iteration; an ant lion takes the place of an ant that is fitter. Then
each ant lion tries a step of differential evolution, elite + 0.5 (one - another), with crossover 0.9. Their
population of 30 and 100 iterations is a larger budget than the usual one here; two solutions of common sense
are among the first. Plain loops: compiled in replay.
"""

from __future__ import annotations

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

__all__ = ["Malo", "malo", "shrinkage"]

Floats: TypeAlias = NDArray[np.float64]

MOST_ELITES = 50
"""Solutions of the archive."""
SCALE, CROSSOVER = 0.5, 0.9
"""Of differential evolution."""
_WALK = 16
"""Steps of a random walk: bits of a word."""
_BITS = np.uint64(2**_WALK - 1)
_BYTE = np.cumsum(2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1) - 1, axis=1)
_END, _LEAST, _MOST = _BYTE[:, -1].copy(), np.minimum(_BYTE.min(axis=1), 0), np.maximum(_BYTE.max(axis=1), 0)
"""Of the walk by each byte: where it ends, and how far it goes down and up."""
_FIRST, _PICK, _SIDES, _ANTS, _ELITE, _PARENTS, _CROSS = range(7)
"""Purposes of luck."""


@dataclass(frozen=True)
class Malo(Planner):
    """Order and machines by ant lions and differential evolution (MALO, 2021), looking ahead."""

    salt = "malo"

    def search(self, outlook: Outlook) -> Floats:
        """The solution with the lowest score in the archive."""
        values = self.values
        count, iterations = int(values["ants"]), int(values["iterations"])
        window, size = outlook.window, outlook.window.size
        hunt = _Hunt(
            np.empty((count, size)),
            np.empty(count),
            np.empty(count),
            np.empty((2 * count, size)),
            np.empty(2 * count),
            np.empty(2 * count),
        )
        archive = new_archive(MOST_ELITES + 2 * count, size)
        row = at_full_speed(hunted)(
            window, outlook.judge, outlook.known, outlook.seed, hunt, archive, new_desk(window), iterations
        )
        return archive.solutions[row]


class _Hunt(NamedTuple):
    """P ant lions, and what is tried in their place: P ants, then P steps of differential evolution."""

    lions: Floats  # [P, size]
    score: Floats  # [P]
    weight: Floats  # [P]: chances to be drawn, summed up
    tried: Floats  # [2 P, size]
    jct_ms: Floats  # [2 P]
    fee: Floats  # [2 P]


def hunted(
    window: Window,
    judge: Judge,
    known: Floats,
    seed: np.uint64,
    hunt: _Hunt,
    archive: Archive,
    desk: Desk,
    iterations: int,
) -> int:
    """Search; the row of the archive with the lowest score."""
    luck = luck_of(seed)
    count, size = hunt.lions.shape
    draws = counted(counted(luck, _FIRST), 0)
    for lion in range(count):
        if lion < len(known):
            copy_into(hunt.lions[lion], known[lion])
        else:
            for place in range(size):
                hunt.lions[lion, place] = 2.0 * unit(counted(draws, lion * size + place)) - 1.0
    foretell(window, hunt.lions, hunt.jct_ms, hunt.fee, desk)
    for lion in range(count):
        hunt.score[lion] = score_of(hunt.jct_ms[lion], hunt.fee[lion], judge)
        keep(archive, hunt.lions[lion], hunt.jct_ms[lion], hunt.fee[lion])
    shorten(archive, MOST_ELITES)
    for step in range(1, iterations + 1):
        walk(hunt, luck, step, iterations)
        evolve(hunt, archive.solutions[best_kept(archive, judge)[0]], luck, step)
        foretell(window, hunt.tried, hunt.jct_ms, hunt.fee, desk)
        for one in range(2 * count):
            keep(archive, hunt.tried[one], hunt.jct_ms[one], hunt.fee[one])
        shorten(archive, MOST_ELITES)
        for one in range(2 * count):
            lion, score = one % count, score_of(hunt.jct_ms[one], hunt.fee[one], judge)
            if score < hunt.score[lion]:
                hunt.score[lion] = score
                copy_into(hunt.lions[lion], hunt.tried[one])
    return best_kept(archive, judge)[0]


def walk(hunt: _Hunt, luck: np.uint64, step: int, iterations: int) -> None:
    """New ants: halfway between a walk around an ant lion and one around the elite."""
    count, size = hunt.lions.shape
    half = 1.0 / shrinkage(step, iterations)
    steps = -(-_WALK * step // iterations)
    elite, total = 0, 0.0
    for lion in range(count):
        if hunt.score[lion] < hunt.score[elite]:
            elite = lion
        total += 1.0 / max(hunt.score[lion], 1e-9)
        hunt.weight[lion] = total
    picks = counted(counted(luck, _PICK), step)
    sides = counted(counted(luck, _SIDES), 2 * step)
    elite_sides = counted(counted(luck, _SIDES), 2 * step + 1)
    words, elite_words = counted(counted(luck, _ANTS), step), counted(counted(luck, _ELITE), step)
    for ant in range(count):
        lion = drawn(hunt.weight, unit(counted(picks, ant)))
        down, up = half * side(sides, ant), half * side(sides, count + ant)
        elite_down, elite_up = half * side(elite_sides, ant), half * side(elite_sides, count + ant)
        for place in range(size):
            middle, elite_middle = hunt.lions[lion, place], hunt.lions[elite, place]
            word, elite_word = counted(words, ant * size + place), counted(elite_words, ant * size + place)
            around = walked(word, steps, middle - down, middle + up)
            near_elite = walked(elite_word, steps, elite_middle - elite_down, elite_middle + elite_up)
            hunt.tried[ant, place] = min(max((around + near_elite) / 2.0, -1.0), 1.0)


def drawn(weight: Floats, luck: float) -> int:
    """Roulette: the fitter, the more often."""
    last = len(weight) - 1
    lion = 0
    while lion < last and weight[lion] / weight[last] <= luck:
        lion += 1
    return lion


def side(luck: np.uint64, counter: int) -> float:
    """Up or down from the ant lion: either bound is on either side of it."""
    return 1.0 if unit(counted(luck, counter)) < 0.5 else -1.0


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


def walked(word: np.uint64, steps: int, low: float, high: float) -> float:
    """Where a random walk of +1 and -1, by the bits of a word, is after some steps, scaled into bounds."""
    bits = int(word & _BITS)
    first, second = bits & 255, bits >> 8
    least = min(_LEAST[first], _END[first] + _LEAST[second])
    most = max(_MOST[first], _END[first] + _MOST[second])
    # As if the steps to come went down, less those.
    so_far = bits & ((1 << steps) - 1)
    here = _END[so_far & 255] + _END[so_far >> 8] + _WALK - steps
    return low + (here - least) * (high - low) / max(most - least, 1)


def evolve(hunt: _Hunt, elite: Floats, luck: np.uint64, step: int) -> None:
    """Elite + SCALE x (one - another), crossed with each ant lion."""
    count, size = hunt.lions.shape
    parents, crossing = counted(counted(luck, _PARENTS), step), counted(counted(luck, _CROSS), step)
    for lion in range(count):
        one = int(unit(counted(parents, lion)) * count)
        another = int(unit(counted(parents, count + lion)) * count)
        for place in range(size):
            tried = hunt.lions[lion, place]
            if unit(counted(crossing, lion * size + place)) < CROSSOVER:
                tried = elite[place] + SCALE * (hunt.lions[one, place] - hunt.lions[another, place])
            hunt.tried[count + lion, place] = min(max(tried, -1.0), 1.0)


def malo() -> Malo:
    """Order and machines by ant lions and differential evolution (MALO, 2021), looking ahead."""
    budget = (
        budget_setting("ants", 12, "solutions that search together", (8, 12, 30), least=2),
        budget_setting("iterations", 3, "times they move", (2, 3, 10, 100)),
    )
    return Malo("malo", malo.__doc__ or "", (*budget, *SHARED))
