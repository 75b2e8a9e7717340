"""Parallelism that fits the number of key groups, as the Flink operator's autoscaler aligns it.

128 key groups on 50 subtasks give some three groups and some two: the vertex is as slow as with 43. So
the autoscaler looks for a parallelism near its target that divides the groups better.
"""

from __future__ import annotations

import numpy as np

from trimtab.stream_autoscaling.problem import Flags, Integers

__all__ = [
    "ALIGNMENTS",
    "BALANCED",
    "EVENLY_SPREAD",
    "LEGACY_EVENLY_SPREAD",
    "LEGACY_MAXIMISE",
    "OFF",
    "aligned",
]

OFF, BALANCED, EVENLY_SPREAD, LEGACY_EVENLY_SPREAD, LEGACY_MAXIMISE = range(5)
ALIGNMENTS = (
    "off",
    "balanced",
    "evenly spread",
    "evenly spread up to 1.13",
    "maximise utilisation up to 1.13",
)


def aligned(
    current: Integers, target: Integers, key_groups: Integers, lower: Integers, upper: Integers, mode: int
) -> Integers:
    """The parallelism to set instead of `target`; all arrays have one shape, 0 key groups are not aligned.

    Searched is upwards from the target: to the upper bound when scaling up, to what there is when down.
    Taken is the first that divides the groups (all modes), or gives each subtask fewer of them than the
    target would (balanced and maximise). Where there is none, the target stands; in the two modes of older
    releases one below it is searched, and one that would turn the direction round is refused.

    >>> one = np.array([1])
    >>> aligned(np.array([10]), np.array([50]), np.array([128]), one, np.array([128]), EVENLY_SPREAD).tolist()
    [64]
    """
    adjustable = (key_groups > 0) & (target != current)
    if mode == OFF or not adjustable.any():
        return target
    wanted = target.copy()
    some = adjustable
    wanted[some] = _aligned(current[some], target[some], key_groups[some], lower[some], upper[some], mode)
    return wanted


def _aligned(
    current: Integers, target: Integers, groups: Integers, lower: Integers, upper: Integers, mode: int
) -> Integers:
    """The same for vertices that need it, all in one row."""
    end = np.minimum(groups, upper)
    end = np.where(target > current, end, np.minimum(current, end))
    tried = np.arange(1, int(max(end.max(), target.max())) + 1)[None]
    each = groups[:, None] // tried
    usual = (groups // target)[:, None]
    good = groups[:, None] % tried == 0
    if mode in (BALANCED, LEGACY_MAXIMISE):
        good |= each < usual
    good &= (tried >= target[:, None]) & (tried <= end[:, None])
    found, first = good.any(1), good.argmax(1) + 1
    if mode in (BALANCED, EVENLY_SPREAD):
        return np.where(found, first, target)
    below = _below(tried, each > usual, target, groups)
    below = np.maximum(below, lower)
    turned = np.where(target > current, below <= current, below >= current)
    return np.where(found, first, np.where(turned, current, below))


def _below(tried: Integers, fuller: Flags, target: Integers, groups: Integers) -> Integers:
    """The smallest parallelism below the target that does not fill subtasks more, or the divisor below."""
    fuller = fuller & (tried <= target[:, None])
    last = np.where(fuller.any(1), tried.shape[1] - np.argmax(fuller[:, ::-1], axis=1), 0)
    divides = (last > 0) & (groups % np.maximum(last, 1) == 0)
    return np.where((last == 0) | divides, last, last + 1)
