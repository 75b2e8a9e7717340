"""How many there are at a time, from when each begins and ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_over_time"]

Integers = NDArray[np.int64]


def count_over_time(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Times and the number of spans open from each of them on (a step function).

    >>> times, open_spans = count_over_time(np.array([0, 5]), np.array([9, 7]))
    >>> times.tolist(), open_spans.tolist()
    ([0, 5, 7, 9], [1, 2, 1, 0])
    """
    times = np.concatenate([begins, ends])
    change = np.repeat([1, -1], [len(begins), len(ends)])
    order = np.argsort(times, kind="stable")
    moments, last = np.unique(times[order][::-1], return_index=True)
    return moments, np.cumsum(change[order])[::-1][last]
