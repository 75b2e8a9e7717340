"""The arithmetic of the guard: rounding, raising, cutting and slowing down, for all environments at once.

Amounts are counted in quanta (whole numbers, held as floats), so that whatever is worked out is a multiple
of its quantum to begin with. Arrays are [E, K]: environments by dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from trimtab.control.evidence import Flags, Floats, Integers
from trimtab.core.errors import ActionError

__all__ = [
    "Measure",
    "PaceLimits",
    "Slowed",
    "cut_to_cost",
    "nearest",
    "pace_limits",
    "product_of",
    "raised_to_capacity",
    "slowed",
    "whole_bounds",
]

Measure: TypeAlias = Callable[[Floats], Floats]
"""From amounts in their units, [N, K], to one number each, [N]; must not fall where an amount grows."""

# Dividing by a quantum such as 0.01 leaves the 16th digit wrong: 0.29 / 0.01 = 28.999999999999996.
_SLACK = 1e-9
# Halvings on the way from the dear to the cheap: to within 1/65536 of the distance.
_HALVINGS = 16


def product_of(*indices: int) -> Measure:
    """The product of some dimensions, such as replicas times cores of each.

    >>> product_of(0, 1)(np.array([[3.0, 0.5, 99.0]]))
    array([1.5])
    """

    def product(amounts: Floats) -> Floats:
        return amounts[:, indices].prod(axis=1)

    return product


def whole_bounds(least: Floats, most: Floats, quantum: Floats) -> tuple[Floats, Floats]:
    """The smallest and largest number of quanta within the bounds.

    >>> whole_bounds(np.array([[0.05]]), np.array([[0.29]]), np.array([0.01]))
    (array([[5.]]), array([[29.]]))
    """
    low, high = np.ceil(least / quantum - _SLACK), np.floor(most / quantum + _SLACK)
    fits = (low <= high) & (low >= 0) & np.isfinite(high)
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        raise ActionError(
            f"environment {row}, dimension {column}: no multiple of {quantum[column]:g}, 0 or more, "
            f"lies between {least[row, column]:g} and {most[row, column]:g}; widen these bounds"
        )
    return low, high


def nearest(amounts: Floats, low: Floats, high: Floats) -> Floats:
    """The nearest whole number within the bounds; halves are rounded up."""
    return np.clip(np.floor(amounts + 0.5), low, high)


def raised_to_capacity(
    amounts: Floats, needed: Floats, most: Floats, *, capacity: Measure, order: Integers, quantum: Floats
) -> Floats:
    """Raise the dimensions in `order`, each as little as suffices, until the capacity needed is there.

    A dimension that does not suffice at its most stays there, and the next one is raised, too.
    """
    enough = needed * (1 - _SLACK)
    rows = np.flatnonzero(~(capacity(amounts * quantum) >= enough))
    if not len(rows):
        return amounts
    part, enough, most = amounts[rows].copy(), enough[rows], most[rows]
    for index in order:
        part[:, index] = _least_that_suffices(part, int(index), most[:, index], enough, capacity, quantum)
    raised = amounts.copy()
    raised[rows] = part
    return raised


def _least_that_suffices(
    amounts: Floats, index: int, most: Floats, enough: Floats, capacity: Measure, quantum: Floats
) -> Floats:
    trial = amounts.copy()

    def suffices(values: Floats) -> Flags:
        trial[:, index] = values
        return capacity(trial * quantum) >= enough

    low = amounts[:, index]
    high = np.where(suffices(low), low, np.maximum(most, low))
    # Bisection between "too little" (or the answer itself) and "enough" (or all that there is).
    while ((high - low) > 1).any():
        middle = np.floor((low + high) / 2)
        found = suffices(middle) | (high - low <= 1)
        low, high = np.where(found, low, middle), np.where(found & (high - low > 1), middle, high)
    return high


def cut_to_cost(
    amounts: Floats, towards: Floats, ceiling: Floats, *, cost: Measure, quantum: Floats
) -> Floats:
    """Go from the amounts towards lower ones on a straight line until the cost is no more than the ceiling.

    Whole quanta are kept on the way, rounded down. Where the whole way does not suffice, its end is taken.
    """
    towards = np.minimum(amounts, towards)
    rows = np.flatnonzero(~(cost(amounts * quantum) <= ceiling * (1 + _SLACK)))
    if not len(rows):
        return amounts
    start, end, ceiling = amounts[rows], towards[rows], ceiling[rows] * (1 + _SLACK)
    kept, lost = np.zeros(len(rows)), np.ones(len(rows))
    for _ in range(_HALVINGS):
        share = (kept + lost) / 2
        affordable = cost(_between(end, start, share) * quantum) <= ceiling
        kept, lost = np.where(affordable, share, kept), np.where(affordable, lost, share)
    cut = amounts.copy()
    cut[rows] = _between(end, start, kept)
    return cut


def _between(end: Floats, start: Floats, share: Floats) -> Floats:
    return np.maximum(np.floor(end + (start - end) * share[:, None] + _SLACK), end)


class PaceLimits(NamedTuple):
    """How far one tick may lead, [E, K] each, in quanta: at all, and where a change that way is barred."""

    lowest: Floats
    highest: Floats
    barred_down: Floats  # as it is, or down with the heuristic
    barred_up: Floats  # as it is, or up with the heuristic


def pace_limits(
    current: Floats, heuristic: Floats, may_follow_down: Flags, up_factor: Floats, down_factor: Floats
) -> PaceLimits:
    """The least and the most after this tick.

    One quantum is always allowed, or 1 could not become 0 nor 0 become 1. So is going up as far as the
    heuristic goes, since a guard slower than the heuristic in a burst would do harm; and going down as far,
    [E] where `may_follow_down`.

    >>> now, asked, twice = np.array([[6.0, 1.0]]), np.array([[20.0, 1.0]]), np.full(2, 2.0)
    >>> limits = pace_limits(now, asked, np.array([True]), twice, np.full(2, 1.5))
    >>> limits.lowest, limits.highest
    (array([[4., 0.]]), array([[20.,  2.]]))
    """
    highest = np.maximum(np.floor(current * up_factor + _SLACK), np.floor(current + _SLACK) + 1)
    lowest = np.minimum(np.ceil(current / down_factor - _SLACK), np.ceil(current - _SLACK) - 1)
    followed = np.where(may_follow_down[:, None], heuristic, np.inf)
    return PaceLimits(
        np.maximum(np.minimum(lowest, followed), 0),
        np.maximum(highest, heuristic),
        np.minimum(np.floor(current + 0.5), followed),
        np.maximum(np.floor(current + 0.5), heuristic),
    )


class Slowed(NamedTuple):
    """What is left of a wish, and which rule took the rest, dimension by dimension."""

    amounts: Floats
    too_fast_up: Flags
    too_fast_down: Flags
    stabilised: Flags
    flip: Flags


def slowed(
    asked: Floats,
    current: Floats,
    limits: PaceLimits,
    *,
    most_asked: Floats,
    turned_up: Flags,
    turned_down: Flags,
) -> Slowed:
    """Apply the pace: so far in one tick, down no lower than lately asked for, no turning round at once.

    `most_asked` is the largest wish of the stabilisation window, this one included; `turned_up` and
    `turned_down` say which way the last change went, where it is recent.
    """
    amounts = np.clip(asked, limits.lowest, limits.highest)
    too_fast_up, too_fast_down = amounts < asked, amounts > asked
    settled = np.maximum(amounts, np.minimum(limits.barred_down, most_asked))
    stabilised = (amounts < current) & (settled > amounts)
    amounts = np.where(stabilised, settled, amounts)
    kept = np.where(turned_up, np.maximum(amounts, limits.barred_down), amounts)
    kept = np.where(turned_down, np.minimum(kept, limits.barred_up), kept)
    return Slowed(kept, too_fast_up, too_fast_down, stabilised, kept != amounts)
