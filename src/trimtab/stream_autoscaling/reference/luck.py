"""Random numbers by counting: what a draw is for, and its ids, say what comes out."""

from __future__ import annotations

import math
from statistics import NormalDist

from trimtab.core.randomness import GOLDEN, MIX_1, MIX_2, OFFSET

__all__ = ["Luck"]

WORD = (1 << 64) - 1
PURPOSES = (
    "arrivals",
    "capacity",
    "restart",
    "lateness",
    "noise",
    "missing",
    "missing_after",
    "phase",
    "spread",
)


class Luck:
    """All draws of one seed."""

    def __init__(self, seed: int) -> None:
        self.start = scrambled((seed * GOLDEN + 1) & WORD)

    def uniform(self, purpose: str, *ids: int) -> float:
        """The formula of `trimtab.core.randomness`."""
        number = self.start
        for counter in (PURPOSES.index(purpose) + 1, *ids):
            number = scrambled(number ^ ((counter * GOLDEN + OFFSET) & WORD))
        return (number >> 11) * 2.0**-53

    def normal(self, purpose: str, *ids: int) -> float:
        """The point below which so much of the distribution lies."""
        return NormalDist().inv_cdf(min(self.uniform(purpose, *ids) + 2.0**-54, 1 - 2.0**-53))

    def poisson(self, mean: float, purpose: str, *ids: int) -> float:
        """By inversion up to a mean of 20; beyond, a normal number with Poisson's skewness, rounded."""
        if mean > 20:
            z = self.normal(purpose, *ids)
            return max(0.0, float(math.floor(mean + math.sqrt(mean) * z + (z * z - 1) / 6 + 0.5)))
        drawn = self.uniform(purpose, *ids)
        number, chance = 0, math.exp(-mean)
        reached = chance
        while drawn >= reached and number < 200:
            number += 1
            chance *= mean / number
            reached += chance
        return float(number)


def scrambled(word: int) -> int:
    word = ((word ^ (word >> 30)) * MIX_1) & WORD
    word = ((word ^ (word >> 27)) * MIX_2) & WORD
    return word ^ (word >> 31)
