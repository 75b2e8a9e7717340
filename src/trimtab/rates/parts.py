"""Which part of a trace is for training, which for validation, which for tests: a split by time.

Of 14 days, days 0 to 8 are for training, 9 and 10 for validation, 11 to 13 for tests, and proportionally for
other lengths: what a policy is judged on, it has not seen.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from trimtab.core.errors import WorkloadError
from trimtab.rates.traces import DAY_S, RateTrace

__all__ = ["LEAST_DAYS", "Part", "days_of_part", "split_days", "whole_days"]

Part: TypeAlias = Literal["all", "training", "validation", "test"]
TRAINING_SHARE, VALIDATION_SHARE = 9 / 14, 2 / 14
LEAST_DAYS = 3


def whole_days(trace: RateTrace) -> tuple[int, int]:
    """First whole day, and the one after the last; days at either end may be covered in part only.

    Steps longer than a day tell of no day.
    """
    if trace.step_s > DAY_S:
        return 0, 0
    # A span may end a rounding error before midnight.
    slack = 0.5 * trace.step_s
    first = int(-((slack - trace.start_s) // DAY_S))
    last = int((trace.start_s + trace.length_s + slack) // DAY_S)
    return first, max(first, last)


def days_of_part(trace: RateTrace, part: Part) -> tuple[int, int]:
    """First day of a part, and the one after its last.

    >>> from trimtab.rates.generated import flat
    >>> [days_of_part(flat(days=14), part) for part in ("training", "validation", "test")]
    [(0, 9), (9, 11), (11, 14)]
    """
    first, last = whole_days(trace)
    if part != "all" and last - first < LEAST_DAYS:
        raise WorkloadError(
            f"{trace.provenance.source}: {last - first} whole days cannot be split into training, validation "
            f"and test; bring at least {LEAST_DAYS}, or use part = all"
        )
    return split_days(first, last, part)


def split_days(first: int, last: int, part: Part) -> tuple[int, int]:
    """The same for days (or other steps) `first` up to `last`, three at least; no part is empty."""
    if part == "all":
        return first, last
    days = last - first
    training = min(max(1, round(TRAINING_SHARE * days)), days - 2)
    validation = min(max(1, round(VALIDATION_SHARE * days)), days - training - 1)
    ends = (first, first + training, first + training + validation, last)
    place = ("training", "validation", "test").index(part)
    return ends[place], ends[place + 1]
