"""Random numbers by counting: what a draw is for, and its ids, say what comes out."""

from __future__ import annotations

import math
from statistics import NormalDist

from trimtab.core.randomness import GOLDEN, MIX_1, MIX_2, OFFSET

__all__ = ["Luck"]

WORD = (1 << 64) - 1
PURPOSES = (
    "arrival", "burst", "work", "route", "start", "resize", "noise", "missing", "pod_noise", "pod_missing",
)  # fmt: skip


class Luck:
    """All draws of one seed."""

    def __init__(self, seed: int) -> None:
        self.start = scrambled((seed * GOLDEN + 1) & WORD)

    def word(self, purpose: str, *ids: int) -> int:
        """The formula of `trimtab.core.randomness`."""
        number = self.start
        for counter in (PURPOSES.index(purpose) + 1, *ids):
            number = scrambled(number ^ ((counter * GOLDEN + OFFSET) & WORD))
        return number

    def uniform(self, purpose: str, *ids: int) -> float:
        return (self.word(purpose, *ids) >> 11) * 2.0**-53

    def normal(self, purpose: str, *ids: int) -> float:
        """The point below which so much of the distribution lies."""
        return NormalDist().inv_cdf(min(self.uniform(purpose, *ids) + 2.0**-54, 1 - 2.0**-53))

    def exponential(self, purpose: str, *ids: int) -> float:
        return -math.log1p(-self.uniform(purpose, *ids))

    def lognormal(self, mean: float, variation: float, purpose: str, *ids: int) -> float:
        """Of this mean and squared coefficient of variation."""
        variance = math.log1p(variation)
        if variance == 0:
            return mean
        return mean * math.exp(-variance / 2) * math.exp(math.sqrt(variance) * self.normal(purpose, *ids))

    def gamma(self, shape: float, purpose: str, *ids: int) -> float:
        """Marsaglia and Tsang (2000); the tries are counted."""
        middle = (shape + 1 if shape < 1 else shape) - 1 / 3
        scale = 1 / math.sqrt(9 * middle)
        for attempt in range(40):
            z = self.normal(purpose, *ids, 2 * attempt)
            cube = (1 + scale * z) ** 3
            share = 1 - self.uniform(purpose, *ids, 2 * attempt + 1)
            if cube > 0 and math.log(share) < z * z / 2 + middle * (1 - cube + math.log(cube)):
                drawn = middle * cube
                break
        else:
            drawn = middle
        if shape < 1:
            drawn *= (1 - self.uniform(purpose, *ids, 80)) ** (1 / shape)
        return drawn


def scrambled(word: int) -> int:
    word = ((word ^ (word >> 30)) * MIX_1) & WORD
    word = ((word ^ (word >> 27)) * MIX_2) & WORD
    return word ^ (word >> 31)
