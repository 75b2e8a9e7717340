"""Put rows with times into steps of one length; a step from which rows are missing is not known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import LONGEST
from trimtab.rates.traces import Floats

__all__ = ["Steps", "steps_of"]

OFF_GRID = 0.1
"""Share of a step by which a time may miss its place."""
OFF_WHOLE = 0.01
"""Share by which the length of a step may miss a whole number of rows."""
STEADY = 0.9
"""Uneven rows keep a pace if so many of them come at it, give or take a half of it."""
MISSING = 0.05
"""Share of the rows of a step that may be missing where they keep a pace; and one more."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Into which step each row falls, in the order of time."""

    of_row: NDArray[np.int64]
    cells: NDArray[np.float64] | NDArray[np.int64]
    """By row; the rows of a time that came twice have the same."""
    length_s: float
    first_s: float
    least_rows: float
    """Steps with fewer rows are not covered whole."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of each step; a time that came twice counts once."""
        return np.bincount(self.of_row[np.unique(self.cells, return_index=True)[1]])

    @property
    def whole(self) -> NDArray[np.intp]:
        """The steps that are covered whole."""
        return np.flatnonzero(self.rows >= self.least_rows)

    def rates(self, amounts: Floats, *, are_rates: bool) -> Floats:
        """What came per second; NaN for steps that are not covered whole, or hold an amount that is NaN."""
        if are_rates:
            _, cell, rows_of_cell = np.unique(self.cells, return_inverse=True, return_counts=True)
            amounts = amounts / rows_of_cell[cell]
        over = np.maximum(self.rows, 1) if are_rates else self.length_s
        return np.where(self.rows < self.least_rows, np.nan, np.bincount(self.of_row, amounts) / over)

    def too_few(self) -> str:
        """What is wrong with the first step that has some rows, but not enough; nothing at either end."""
        rows = self.rows[self.whole[0] : self.whole[-1]]
        few = rows[(rows > 0) & (rows < self.least_rows)]
        return f"{few[0]} of {self.least_rows:.0f} rows" if few.size else ""


def steps_of(
    path: str, times_s: Floats, step_s: float | None, *, keep_going: bool, report: ImportReport
) -> Steps:
    """Steps of rows in the order of time: of one each, or as long as asked for.

    >>> minutes = 60.0 * np.arange(30, 150)
    >>> hours = steps_of("counts.csv", minutes, 3600.0, keep_going=False, report=ImportReport(""))
    >>> hours.rows.tolist(), hours.whole.tolist()
    ([30, 60, 30], [1])
    """
    apart_s = _apart(path, times_s, step_s)
    asked_s = step_s or apart_s
    places = _places(path, times_s, apart_s, asked_s)
    cells = times_s if places is None else places
    _refuse_twice(path, times_s, cells, keep_going=keep_going, report=report)
    if places is None:
        steps = _by_the_clock(path, times_s, asked_s, report)
    else:
        steps = _of_whole_rows(path, times_s[0], places, apart_s, asked_s, report)
    if steps.whole.size == 0:
        raise HistoryError(f"{path}: no step of {steps.length_s:g} s is covered whole; give a shorter step_s")
    outside = (steps.of_row < steps.whole[0]) | (steps.of_row > steps.whole[-1])
    report.drop("row of a first or last step that is not covered whole", int(outside.sum()))
    return steps


def _apart(path: str, times_s: Floats, step_s: float | None) -> float:
    """Seconds between rows: what is most common, or the given step where rows come less often than that."""
    gaps = np.diff(times_s)
    gaps = np.round(gaps[gaps > 0], 6)
    if gaps.size == 0:
        if step_s is None:
            raise HistoryError(f"{path}: one time only, so no step can be seen; give step_s")
        return step_s
    lengths, amounts = np.unique(gaps, return_counts=True)
    common_s = float(lengths[amounts.argmax()])
    if step_s is None or step_s > common_s * (1 - OFF_GRID):
        return common_s
    if step_s < lengths[0] * (1 - OFF_GRID):
        raise HistoryError(
            f"{path}: rows are {lengths[0]:g} s apart or more, steps of {step_s:g} s are shorter; raise it"
        )
    return step_s


def _places(path: str, times_s: Floats, apart_s: float, asked_s: float) -> NDArray[np.int64] | None:
    """Which row of an even grid each is; None: they are uneven, and are put together by the clock."""
    exact = (times_s - times_s[0]) / apart_s
    places = np.round(exact).astype(np.int64)
    astray = np.flatnonzero(np.abs(exact - places) > OFF_GRID)
    if astray.size == 0:
        return places
    if asked_s >= 1.5 * apart_s:
        return None
    row = int(astray[0])
    raise HistoryError(
        f"{path}: rows are mostly {apart_s:g} s apart, but {times_s[row] - times_s[row - 1]:g} s before "
        f"row {row + 1}; give a step_s of several rows to put them together"
    )


def _of_whole_rows(
    path: str,
    first_s: float,
    places: NDArray[np.int64],
    apart_s: float,
    asked_s: float,
    report: ImportReport,
) -> Steps:
    """Steps of so many rows of an even grid, which begin at full steps of the clock."""
    together = max(1, round(asked_s / apart_s))
    length_s = together * apart_s
    if abs(asked_s - length_s) > OFF_WHOLE * length_s:
        raise HistoryError(
            f"{path}: rows are {apart_s:g} s apart, and {asked_s:g} s are no whole number of them; give a "
            f"step_s such as {length_s:g}"
        )
    if abs(asked_s - length_s) > 1e-6 * length_s:
        report.assume(f"rows are {apart_s:g} s apart: a step is {together} of them, {length_s:g} s")
    else:
        length_s = asked_s
    before = int(first_s % length_s / apart_s + OFF_GRID) % together
    of_row = (before + places) // together
    _refuse_endless(path, of_row)
    return Steps(of_row, places, length_s, float(first_s - before * apart_s), together)


def _by_the_clock(path: str, times_s: Floats, length_s: float, report: ImportReport) -> Steps:
    """Steps of the clock into which uneven rows fall; their pace, if they keep one, tells where some lack."""
    numbers = np.floor(times_s / length_s).astype(np.int64)
    of_row, first_s = numbers - numbers[0], float(numbers[0]) * length_s
    _refuse_endless(path, of_row)
    gaps = np.diff(times_s)
    gaps = gaps[gaps > 0]
    usual = np.abs(gaps / np.median(gaps) - 1) < 0.5
    if usual.mean() < STEADY:
        report.assume(
            "rows come at uneven times: only a step without any is a gap, and the first and the last may be "
            "covered in part"
        )
        return Steps(of_row, times_s, length_s, first_s, 1)
    pace_s = float(gaps[usual].mean())
    least = max(1.0, np.ceil((1 - MISSING) * length_s / pace_s - 1))
    report.assume(f"rows are about {pace_s:.3g} s apart: a step with fewer than {least:.0f} of them is a gap")
    return Steps(of_row, times_s, length_s, first_s, least)


def _refuse_endless(path: str, of_row: NDArray[np.int64]) -> None:
    if of_row[-1] >= LONGEST:
        raise HistoryError(f"{path}: {of_row[-1] + 1:,} steps; some row has a wrong time, mend it")


def _refuse_twice(
    path: str, times_s: Floats, cells: NDArray[np.generic], *, keep_going: bool, report: ImportReport
) -> None:
    again = np.flatnonzero(cells[1:] == cells[:-1])
    if again.size and not keep_going:
        raise HistoryError(
            f"{path}: the time {times_s[again[0]]:.15g} s (row {again[0] + 1} in the order of time) comes "
            "twice; remove one, or add them up with --keep-going"
        )
    report.lose("rows whose time came twice, added up", int(again.size))
