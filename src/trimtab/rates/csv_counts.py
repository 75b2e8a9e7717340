"""Import counts or rates from a CSV: a column of times and a column of numbers.

Times may be dates, seconds (or milli-, micro-, nanoseconds) since 1970, or a running number of minutes,
hours or steps. What is not told by the file (how long a step is, whether numbers are counts or rates) is
found out from its names and numbers, and said in the report; it can always be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import LONGEST, Fill, Series, mended
from trimtab.rates.csv_tables import (
    Clock,
    amount_of,
    clock_of,
    header_and_rows,
    place_named,
    singular,
    time_place,
)
from trimtab.rates.reading import BrokenLines
from trimtab.rates.traces import Floats, RateTrace

__all__ = ["import_csv_counts"]

AMOUNTS = ("count", "requests", "records", "messages", "events", "invocations", "arrivals", "value", "n")
RATES = ("rate", "rps", "qps", "per_s", "per_second", "/s")
OFF_GRID = 0.1
"""Share of a step by which a time may miss its place."""
WAY_OUT = "name a CSV with a column of times and one of counts"


class Columns(NamedTuple):
    """Where the numbers are, and what they mean."""

    time: int
    amount: int
    clock: Clock
    are_rates: bool


def import_csv_counts(
    path: str,
    *,
    keep_going: bool = False,
    fill: Fill | None = None,
    time_column: str | None = None,
    count_column: str | None = None,
    step_s: float | None = None,
    values: Literal["auto", "counts", "rates"] = "auto",
    zeros: Literal["data", "gaps"] = "data",
    tolerated_share: float = 0.01,
) -> tuple[RateTrace, ImportReport]:
    """What came per second. With `step_s` longer than the rows are apart, rows are put together.

    `step_s` is also the unit of a column that only numbers its steps, and the time of a row where there is no
    other column than that of the numbers. `zeros = "gaps"` is for recordings that write 0 where they were not
    running.
    """
    file = Path(path)
    report = ImportReport(path)
    if step_s is not None and not (np.isfinite(step_s) and step_s > 0):
        raise HistoryError(f"{path}: steps of {step_s} s; give a length above 0")
    if zeros not in ("data", "gaps"):
        raise HistoryError(f"{path}: zeros = {zeros!r}; use data or gaps")
    header, rows = header_and_rows(file, keep_going=keep_going, report=report, way_out=WAY_OUT)
    if len(rows[0]) == 1 and step_s is not None:
        report.assume(f"there is one column: every row is a step of {step_s:g} s")
        header, rows = ["step", *(header or ["value"])], [[str(n), *row] for n, row in enumerate(rows)]
    columns = _columns(
        path, header, rows[0], time_column=time_column, count_column=count_column, step_s=step_s
    )
    columns = _with_kind(columns, header, values, report)
    broken = BrokenLines(path, tolerated_share=tolerated_share, keep_going=keep_going)
    times_s, amounts, unknown = _numbers(rows, columns, broken, first_line=1 + bool(header))
    broken.settle(len(rows), way_out=WAY_OUT, report=report)
    report.count("rows", len(times_s))
    if zeros == "gaps":
        amounts = np.where(amounts == 0, np.nan, amounts)
    series = _series(path, times_s, amounts, columns, step_s=step_s, keep_going=keep_going, report=report)
    if columns.clock.offset is not None:
        report.assume("times are of the time zone of the first row")
    settings = {"step_s": series.step_s, "fill": fill, "zeros": zeros}
    trace = mended(
        series,
        fill=fill,
        keep_going=keep_going,
        report=report,
        settings=settings,
        because=broken.first or unknown,
    )
    return trace, report


def _columns(
    path: str,
    header: list[str],
    first: Sequence[str],
    *,
    time_column: str | None,
    count_column: str | None,
    step_s: float | None,
) -> Columns:
    names = header or [f"column {place}" for place in range(1, len(first) + 1)]
    # Without any sign, times are taken to come first.
    time = place_named(path, names, time_column) if time_column else time_place(names, first) or 0
    amount = place_named(path, names, count_column) if count_column else _amount_place(path, names, time)
    if max(time, amount) >= len(first):
        raise HistoryError(f"{path}: {len(names)} names for {len(first)} columns; {WAY_OUT}")
    clock = clock_of(path, names[time], first[time], step_s=step_s)
    return Columns(time, amount, clock, are_rates=False)


def _amount_place(path: str, names: list[str], time: int) -> int:
    others = [place for place in range(len(names)) if place != time]
    known = [place for place in others if singular(names[place]) in map(singular, AMOUNTS)]
    rated = [place for place in others if any(sign in names[place] for sign in RATES)]
    chosen = known or rated or others
    if len(chosen) == 1:
        return chosen[0]
    if not others:
        raise HistoryError(f"{path}: one column only; {WAY_OUT}")
    raise HistoryError(
        f"{path}: which of {', '.join(names[place] for place in chosen)} is the count? name it (count_column)"
    )


def _with_kind(columns: Columns, header: list[str], values: str, report: ImportReport) -> Columns:
    if values not in ("auto", "counts", "rates"):
        raise HistoryError(f"{report.source}: values = {values!r}; use auto, counts or rates")
    if values != "auto":
        return columns._replace(are_rates=values == "rates")
    name = header[columns.amount] if header else ""
    are_rates = any(sign in name for sign in RATES)
    report.assume(
        f"column {name!r} holds " + ("rates per second" if are_rates else "counts of a step, not rates")
    )
    return columns._replace(are_rates=are_rates)


def _numbers(
    rows: Sequence[Sequence[str]], columns: Columns, broken: BrokenLines, *, first_line: int
) -> tuple[Floats, Floats, str]:
    """Times and amounts of the sound rows, NaN where a cell tells none, and where the first such cell is."""
    times, amounts, unknown = [], [], ""
    for line, row in enumerate(rows, start=first_line):
        if len(row) <= max(columns.time, columns.amount):
            broken.add(f"line {line}", f"has {len(row)} columns")
            continue
        cell, amount = row[columns.time], amount_of(row[columns.amount])
        if amount is None:
            broken.add(f"line {line}", f"has the count {row[columns.amount]!r}")
            continue
        time_s = columns.clock.seconds(cell)
        if time_s is None:
            broken.add(f"line {line}", f"has the time {cell!r}")
            continue
        if np.isnan(amount):
            unknown = unknown or f"line {line} has the count {row[columns.amount]!r}"
        times.append(time_s)
        amounts.append(amount)
    return np.array(times), np.array(amounts), unknown


def _series(
    path: str,
    times_s: Floats,
    amounts: Floats,
    columns: Columns,
    *,
    step_s: float | None,
    keep_going: bool,
    report: ImportReport,
) -> Series:
    order = np.argsort(times_s, kind="stable")
    if (np.diff(times_s) < 0).any():
        report.assume("rows are not in order of time; they were sorted")
    times_s, amounts = times_s[order], amounts[order]
    apart_s = _apart(path, times_s, step_s)
    chosen_s = step_s or apart_s
    places = _places(path, times_s, apart_s, chosen_s)
    if places[-1] >= LONGEST:
        raise HistoryError(f"{path}: {places[-1] + 1:,} steps; some row has a wrong time, mend it")
    if chosen_s < 1.5 * apart_s:
        _refuse_twice(path, times_s, places, keep_going=keep_going, report=report)
    rows = np.bincount(places)
    unknown = np.bincount(places, np.isnan(amounts)) > 0
    total = np.bincount(places, np.nan_to_num(amounts))
    whole = total / np.maximum(rows, 1) if columns.are_rates else total / chosen_s
    rates = np.where(unknown | (rows == 0), np.nan, whole)
    first_s = times_s[0]
    if chosen_s >= 1.5 * apart_s:
        first_s = np.floor(times_s[0] / chosen_s) * chosen_s
    begins = datetime(1970, 1, 1) + timedelta(seconds=float(first_s)) if columns.clock.has_date else None
    return Series(f"csv-counts {Path(path).name}", rates, float(chosen_s), begins)


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


def _places(path: str, times_s: Floats, apart_s: float, chosen_s: float) -> np.ndarray:
    if chosen_s >= 1.5 * apart_s:
        steps = np.floor(times_s / chosen_s).astype(np.int64)
        return steps - steps[0]
    exact = (times_s - times_s[0]) / apart_s
    places = np.round(exact).astype(np.int64)
    astray = np.flatnonzero(np.abs(exact - places) > OFF_GRID)
    if astray.size:
        row = int(astray[0])
        raise HistoryError(
            f"{path}: rows are mostly {apart_s:g} s apart, but {times_s[row] - times_s[row - 1]:g} s before "
            f"row {row + 1}; give a step_s of several rows to put them together"
        )
    return places


def _refuse_twice(
    path: str, times_s: Floats, places: np.ndarray, *, keep_going: bool, report: ImportReport
) -> None:
    again = np.flatnonzero(np.diff(places) == 0)
    if again.size and not keep_going:
        raise HistoryError(
            f"{path}: the time of row {again[0] + 1} ({times_s[again[0]]:g} s) comes twice; remove one, "
            "or add them up with --keep-going"
        )
    report.lose("rows whose time came twice, added up", int(again.size))
