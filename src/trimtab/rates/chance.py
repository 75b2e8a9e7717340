"""Random processes for made-up traces, each a pure function of a seed and a place in time.

Nothing is carried along, so any span can be made without what comes before it: `first` is the number of its
first step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trimtab.core.randomness import split, uniform
from trimtab.rates.traces import Floats

__all__ = ["dispersed", "interpolated", "normal", "wandering"]

TURN = 2 * np.pi


def normal(seed: int, *counters: ArrayLike) -> Floats:
    """Standard normal draws, one for each counter (Box and Muller)."""
    radius = np.sqrt(-2 * np.log1p(-uniform(split(seed, "radius"), *counters)))
    return radius * np.cos(TURN * uniform(split(seed, "angle"), *counters))


def wandering(seed: int, count: int, persistence: float, *, first: int = 0) -> Floats:
    """A process of mean 0 and deviation 1 in which each step keeps this share of the one before.

    It is the sum of old shocks that fade; those below a thousandth are left out, so no state is carried.

    >>> whole = wandering(1, 100, 0.9)
    >>> bool(np.allclose(wandering(1, 30, 0.9, first=70), whole[70:], rtol=1e-12))
    True
    """
    reach = 1 + int(np.ceil(np.log(1e-3) / np.log(persistence))) if persistence > 0 else 1
    fading = persistence ** np.arange(reach)
    shocks = normal(seed, first + np.arange(count + reach - 1))
    return np.convolve(shocks, fading, "valid") / np.sqrt((fading**2).sum())


def interpolated(
    seed: int, count: int, persistence: float, *, every: int, deviation: float = 1.0, first: int = 0
) -> Floats:
    """Wandering from one knot to the next, `every` so many steps, straight in between."""
    knot = first // every
    knots = -(-(first + count) // every) + 1 - knot
    points = deviation * wandering(seed, knots, persistence, first=knot)
    return np.interp((first - knot * every + np.arange(count)) / every, np.arange(knots), points)


def dispersed(mean: Floats, dispersion: float, draws: Floats) -> Floats:
    """Counts with this mean, variance = dispersion x mean, never negative: a squared normal.

    (a + b z)^2 with b^2 = dispersion / 4 has the mean a^2 + b^2, and the variance dispersion x a^2 and a bit.
    """
    spread = np.sqrt(dispersion) / 2
    return (np.sqrt(np.maximum(mean - spread**2, 0.0)) + spread * draws) ** 2
