"""Luck by counting, compiled: the formula of `trimtab.core.randomness.hash_counters` for single numbers."""

from __future__ import annotations

import numpy as np

from trimtab.compiling.compiler import Compiler
from trimtab.core.randomness import GOLDEN, MIX_1, MIX_2, OFFSET

__all__ = ["count_in", "finalise", "luck_of_seed", "uniform_of"]

_compiler = Compiler([])

_GOLDEN, _OFFSET, _FIRST, _SECOND = (np.uint64(word) for word in (GOLDEN, OFFSET, MIX_1, MIX_2))
_ONE, _11, _27, _30, _31 = (np.uint64(number) for number in (1, 11, 27, 30, 31))
# A double holds 53 bits: the top 53 of the hash give every multiple of 2**-53 in [0, 1).
_UNIT = 2.0**-53


@_compiler.inlined
def finalise(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


@_compiler.inlined
def count_in(luck: np.uint64, counter: int) -> np.uint64:
    """Mix one more counter into a hash."""
    return finalise(luck ^ (np.uint64(counter) * _GOLDEN + _OFFSET))


@_compiler.inlined
def luck_of_seed(seed: int) -> np.uint64:
    """The hash of a seed before any counter is mixed in."""
    return finalise(np.uint64(seed) * _GOLDEN + _ONE)


@_compiler.inlined
def uniform_of(luck: np.uint64) -> float:
    """A hash as a number in [0, 1)."""
    return np.float64(luck >> _11) * _UNIT
