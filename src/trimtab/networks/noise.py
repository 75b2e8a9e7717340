"""Luck for networks by counting: the same draws on numpy and JAX, from one word per row and places in it.

A draw is a hash of the word and the place it is for, so whoever judges a decision later draws what was
drawn when it was made, and a graph padded to more vertices is drawn the same luck. 32 bits, because
JAX computes with no more unless told to; the mixing step is the finaliser of MurmurHash3 (public domain).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.layers import Array

__all__ = ["gumbel_noise", "normal_noise", "uniform_noise"]

_GOLDEN = 0x9E3779B9
_MIX_1 = 0x85EBCA6B
_MIX_2 = 0xC2B2AE35


def uniform_noise(luck: Array, *places: Array, xp: Any) -> Array:
    """Draws from (0, 1) for words `luck` and whole-number places, all broadcast against each other.

    >>> draws = uniform_noise(np.array([[7]], np.uint32), np.arange(2000), xp=np)
    >>> draws.shape, bool(abs(draws.mean() - 0.5) < 0.02)
    ((1, 2000), True)
    """
    mixed = _mixed(xp.asarray(luck).astype(xp.uint32), xp)
    for place in places:
        # At least one axis: numpy warns of single numbers that wrap around, not of arrays.
        counted = xp.atleast_1d(xp.asarray(place)).astype(xp.uint32) * xp.uint32(_GOLDEN)
        mixed = _mixed(mixed ^ (counted + xp.uint32(_MIX_1)), xp)
    # The middle of one of 2**23 equal parts: never 0 nor 1 in single precision.
    return ((mixed >> xp.uint32(9)).astype(xp.float32) + xp.float32(0.5)) * xp.float32(2.0**-23)


def gumbel_noise(luck: Array, *places: Array, xp: Any) -> Array:
    """Draws whose largest picks a place with chances in proportion to exp of what they are added to."""
    return -xp.log(-xp.log(uniform_noise(luck, *places, xp=xp)))


def normal_noise(luck: Array, *places: Array, xp: Any) -> Array:
    """Standard normal draws, after Box and Muller (1958); places 0 and 1 are appended for its two parts.

    >>> draws = normal_noise(np.array([[7]], np.uint32), np.arange(4000), xp=np)
    >>> bool(abs(draws.mean()) < 0.05 and abs(draws.std() - 1) < 0.05)
    True
    """
    radius = xp.sqrt(-2 * xp.log(uniform_noise(luck, *places, 0, xp=xp)))
    return radius * xp.cos(xp.float32(2 * np.pi) * uniform_noise(luck, *places, 1, xp=xp))


def _mixed(words: Array, xp: Any) -> Array:
    words = (words ^ (words >> xp.uint32(16))) * xp.uint32(_MIX_1)
    words = (words ^ (words >> xp.uint32(13))) * xp.uint32(_MIX_2)
    return words ^ (words >> xp.uint32(16))
