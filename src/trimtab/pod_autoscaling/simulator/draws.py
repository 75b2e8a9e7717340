"""What chance decides, each by a hash of (seed, what it is for, ids): the same luck under every policy."""

from __future__ import annotations

import math

import numpy as np

from trimtab.compiling.counters import count_in, uniform_of
from trimtab.compiling.normal import draw_normal
from trimtab.pod_autoscaling.simulator.compiling import inlined, jit

__all__ = [
    "ARRIVAL",
    "BURST",
    "MISSING",
    "NOISE",
    "POD_MISSING",
    "POD_NOISE",
    "RESIZE",
    "ROUTE",
    "START",
    "WORK",
    "count_in",
    "draw_exponential",
    "draw_gamma",
    "draw_lognormal",
    "draw_normal",
    "uniform_of",
]

# What a draw is for: the first counter after the seed.
ARRIVAL, BURST, WORK, ROUTE, START, RESIZE, NOISE, MISSING, POD_NOISE, POD_MISSING = range(1, 11)


@inlined
def draw_exponential(luck: np.uint64) -> float:
    """A waiting time of mean 1; at most 36.8."""
    return -math.log1p(-uniform_of(luck))


@inlined
def draw_lognormal(luck: np.uint64, median: float, spread: float) -> float:
    """`spread` is the deviation of the logarithm."""
    return median if spread == 0.0 else median * math.exp(spread * draw_normal(luck))


@jit
def draw_gamma(luck: np.uint64, shape: float) -> float:
    """A number of mean `shape`: Marsaglia and Tsang (2000), tries being counted.

    Below a shape of 1, Gamma(shape + 1) times a uniform number to the power of 1 / shape.
    """
    boosted = shape + 1.0 if shape < 1.0 else shape
    middle = boosted - 1.0 / 3.0
    scale = 1.0 / math.sqrt(9.0 * middle)
    drawn = middle
    # A try fails with a chance below 5 %; 40 in a row are as good as impossible.
    for attempt in range(40):
        normal = draw_normal(count_in(luck, 2 * attempt))
        root = 1.0 + scale * normal
        if root <= 0.0:
            continue
        cube = root * root * root
        share = 1.0 - uniform_of(count_in(luck, 2 * attempt + 1))
        if math.log(share) < 0.5 * normal * normal + middle - middle * cube + middle * math.log(cube):
            drawn = middle * cube
            break
    if shape < 1.0:
        drawn *= (1.0 - uniform_of(count_in(luck, 80))) ** (1.0 / shape)
    return drawn
