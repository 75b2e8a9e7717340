"""Luck by counting: every random draw is a hash of a seed and the ids of what it is for.

Nothing is drawn in sequence, so the duration of task 7 of stage 3 of job 42 is the same whichever
policy asks for it and whenever: two policies on one workload meet the same luck. All arithmetic
is on 64-bit unsigned integers, so results are bit-identical on every machine.

The formula (all mod 2**64, `finalize` being the one of splitmix64)::

    h = finalize(seed * GOLDEN + 1)
    for each counter c:  h = finalize(h ^ (c * GOLDEN + OFFSET))

    finalize(z):  z = (z ^ (z >> 30)) * MIX_1
                  z = (z ^ (z >> 27)) * MIX_2
                  z ^ (z >> 31)

The compiled engines repeat exactly this formula. Changing a constant here changes every simulated
number there is.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "GOLDEN",
    "MIX_1",
    "MIX_2",
    "OFFSET",
    "exponential",
    "finalize",
    "hash_counters",
    "integers",
    "split",
    "uniform",
]

GOLDEN = 0x9E3779B97F4A7C15
OFFSET = 0x632BE59BD9B4E019
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB

_MASK = (1 << 64) - 1
# A double holds 53 bits: the top 53 of the hash give every multiple of 2**-53 in [0, 1).
_DROPPED_BITS = np.uint64(11)
_UNIT = 2.0**-53

Words: TypeAlias = NDArray[np.uint64]


# Wrapping around 2**64 is the point; numpy warns of it for single numbers only.
@np.errstate(over="ignore")
def hash_counters(seed: int, *counters: ArrayLike) -> Words:
    """Hash a seed with integer counters; arrays broadcast against each other.

    Negative counters count as their two's complement, as in C.

    >>> hash_counters(1, [0, 1], 5).shape
    (2,)
    >>> bool(hash_counters(1, 2, 3) == hash_counters(1, [2], 3)[0])
    True
    """
    mixed = np.asarray(_finalize_int((seed * GOLDEN + 1) & _MASK), dtype=np.uint64)
    for counter in counters:
        mixed = finalize(mixed ^ (_as_words(counter) * np.uint64(GOLDEN) + np.uint64(OFFSET)))
    return mixed


def uniform(seed: int, *counters: ArrayLike) -> NDArray[np.float64]:
    """Draw from [0, 1): the top 53 bits of the hash over 2**53.

    >>> draws = uniform(1, range(1000))
    >>> bool((draws >= 0).all() and (draws < 1).all())
    True
    """
    return (hash_counters(seed, *counters) >> _DROPPED_BITS).astype(np.float64) * _UNIT


def exponential(seed: int, *counters: ArrayLike, mean: float = 1.0) -> NDArray[np.float64]:
    """Draw waiting times with the given mean; never infinite, at most 36.8 means.

    The logarithm comes from the machine's mathematical library: its last bit may differ between
    machines. Engines round to milliseconds, where that does not show.

    >>> bool(abs(exponential(1, range(10_000), mean=3.0).mean() - 3.0) < 0.1)
    True
    """
    return -mean * np.log1p(-uniform(seed, *counters))


def integers(seed: int, *counters: ArrayLike, low: int = 0, high: int) -> NDArray[np.int64]:
    """Draw whole numbers from ``low`` up to, not including, ``high``.

    >>> sorted(set(integers(1, range(100), high=3).tolist()))
    [0, 1, 2]
    """
    span = high - low
    if not 0 < span <= 1 << 53:
        raise ValueError(f"integers needs low < high, at most 2**53 apart; got {low} and {high}")
    # Rounding of the product may reach `span` itself only for spans near 2**53.
    offset = np.minimum((uniform(seed, *counters) * span).astype(np.int64), span - 1)
    return offset + low


def split(seed: int, *names: str | int) -> int:
    """Give a named part of the work a seed of its own.

    Split once at the top and name the parts; strings are hashed by their UTF-8 bytes, so the
    result does not depend on Python's own string hash. ``7`` and ``"7"`` are different names.

    >>> split(1, "arrivals") != split(1, "durations")
    True
    >>> split(1, "training", 3) == split(split(1, "training"), 3)
    True
    """
    for name in names:
        seed = int(hash_counters(seed, *_counters_of(name)))
    return seed


@np.errstate(over="ignore")
def finalize(words: Words) -> Words:
    """Scramble 64-bit words so that each input bit moves about half of the output bits.

    >>> hex(finalize(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0])
    '0xe220a8397b1dcdaf'
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(MIX_1)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(MIX_2)
    return words ^ (words >> np.uint64(31))


def _finalize_int(word: int) -> int:
    word = ((word ^ (word >> 30)) * MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * MIX_2) & _MASK
    return word ^ (word >> 31)


def _as_words(counter: ArrayLike) -> Words:
    if isinstance(counter, int):
        return np.asarray(counter & _MASK, dtype=np.uint64)
    array = np.asarray(counter)
    if array.size and array.dtype.kind not in "iub":
        raise TypeError(f"counters must be integers, not {array.dtype}")
    return array.astype(np.uint64)


def _counters_of(name: str | int) -> list[int]:
    """Turn a name into counters: one for an integer; kind, length and 8-byte words for a string."""
    if isinstance(name, int):
        return [name]
    octets = name.encode()
    words = [int.from_bytes(octets[at : at + 8], "little") for at in range(0, len(octets), 8)]
    return [OFFSET, len(octets), *words]
