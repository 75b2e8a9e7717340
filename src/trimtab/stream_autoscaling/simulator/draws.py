"""What chance decides, each by a hash of (seed, what it is for, ids): the same luck under every policy."""

from __future__ import annotations

import math

import numpy as np

from trimtab.compiling.counters import count_in, uniform_of
from trimtab.compiling.normal import draw_normal
from trimtab.stream_autoscaling.simulator.compiling import jit

__all__ = [
    "ARRIVALS",
    "CAPACITY",
    "LATENESS",
    "MISSING",
    "MISSING_AFTER",
    "NOISE",
    "NORMAL_ABOVE",
    "PHASE",
    "RESTART",
    "SPREAD",
    "count_in",
    "draw_normal",
    "draw_poisson",
    "uniform_of",
]

# What a draw is for: the first counter after the seed.
ARRIVALS, CAPACITY, RESTART, LATENESS, NOISE, MISSING, MISSING_AFTER, PHASE, SPREAD = (
    np.int64(number) for number in range(1, 10)
)
NORMAL_ABOVE = 20.0
"""Poisson numbers of a larger mean come from a rounded normal one, corrected for skewness."""


@jit
def draw_poisson(luck: np.uint64, mean: float) -> float:
    """How many records come; by inversion where they are few."""
    if mean > NORMAL_ABOVE:
        normal = draw_normal(luck)
        # Cornish and Fisher's next term: at a mean of 20 it brings 2.8 % of wrong weight down to 0.12 %.
        return max(0.0, math.floor(mean + math.sqrt(mean) * normal + (normal * normal - 1.0) / 6.0 + 0.5))
    chance = math.exp(-mean)
    reached, number, drawn = chance, 0.0, uniform_of(luck)
    # Beyond 200 a mean of 20 has less than 10^-100 of its weight: only rounding could ask for more.
    while drawn >= reached and number < 200.0:
        number += 1.0
        chance *= mean / number
        reached += chance
    return number
