"""Fewer and better samples: means over several steps, without those that are plainly wrong."""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.problem import Floats

__all__ = ["smoothed"]

KEPT, MOST_STEPS = 120, 20
"""Samples are means of up to 20 steps, but 120 of them are left where there were so many."""
WRONG, LEAST = 9.0, 0.2
"""A value is wrong that is 9 median deviations (6 of a normal's) and a fifth away from its group's median."""


def smoothed(*columns: Floats) -> tuple[Floats, ...]:
    """Means over groups of rows in which every column is known.

    The rate of a step is a noisy count, and its work may be done in the next; a restart or a hiccup of the
    monitoring shows in few of them. A row with a wrong value is left out as a whole, so that columns stay
    those of the same moments.

    >>> x = np.arange(480.0)
    >>> y = 2 * x
    >>> y[7] = 1e6
    >>> first, second = smoothed(x, y)
    >>> len(first), bool(np.allclose(second, 2 * first))
    (120, True)
    """
    table = np.column_stack(columns)
    table = table[np.isfinite(table).all(1)]
    steps = min(max(len(table) // KEPT, 1), MOST_STEPS)
    if steps == 1:
        return tuple(table.T)
    groups = table[: len(table) // steps * steps].reshape(-1, steps, table.shape[1])
    medians = np.median(groups, axis=1, keepdims=True)
    away = np.abs(groups - medians)
    usual = np.median(away, axis=1, keepdims=True)
    wrong = (away > WRONG * usual) & (away > LEAST * np.abs(medians))
    sound = np.logical_not(np.any(wrong, axis=2, keepdims=True))
    # At least half of each column's values are within the usual distance, but no row need be so in all.
    sound = sound | np.logical_not(np.any(sound, axis=1, keepdims=True))
    means = (groups * sound).sum(axis=1) / sound.sum(axis=1)
    return tuple(means.T)
