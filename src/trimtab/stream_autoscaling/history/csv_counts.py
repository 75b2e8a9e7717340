"""Import counts or rates from a CSV: a column of times and a column of numbers.

Times may be dates, seconds (or milli-, micro-, nanoseconds) since 1970, or a running number of minutes,
hours or steps. What is not told by the file (how long a step is, whether numbers are counts or rates) is
found out from its names and numbers, and said in the report; it can always be given.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.stream_autoscaling.history.counting import LONGEST, Fill, Series, mended
from trimtab.stream_autoscaling.history.reading import BrokenLines, lines_of
from trimtab.stream_autoscaling.problem import Floats
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["import_csv_counts"]

UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
NUMBERED = ("bin", "index", "step", "interval", "slot", "row")
CLOCKS = ("time", "timestamp", "ts", "epoch", "unix", "date", "datetime")
AMOUNTS = ("count", "requests", "records", "messages", "events", "invocations", "arrivals", "value", "n")
RATES = ("rate", "rps", "qps", "per_s", "per_second", "/s")
EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e8, 1.0))
"""Numbers from here on are since 1970, in units of so many seconds; in seconds 1e8 is March 1973."""
OFF_GRID = 0.1
"""Share of a step by which a time may miss its place."""
WAY_OUT = "name a CSV with a column of times and one of counts"


class Columns(NamedTuple):
    """Where the numbers are; `unit_s` is None for dates."""

    time: int
    amount: int
    unit_s: float | None
    has_date: bool
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
    """Records per second. With `step_s` longer than the rows are apart, rows are put together.

    `step_s` is also the unit of a column that only numbers its steps. `zeros = "gaps"` is for recordings
    that write 0 where they were not running.
    """
    file = Path(path)
    report = ImportReport(path)
    if step_s is not None and not (np.isfinite(step_s) and step_s > 0):
        raise HistoryError(f"{path}: steps of {step_s} s; give a length above 0")
    if zeros not in ("data", "gaps"):
        raise HistoryError(f"{path}: zeros = {zeros!r}; use data or gaps")
    rows = _rows(file, keep_going=keep_going, report=report)
    header, rows = _header(rows)
    columns = _columns(
        path, header, rows[0], time_column=time_column, count_column=count_column, step_s=step_s
    )
    columns = _with_kind(columns, header, values, report)
    broken = BrokenLines(path, tolerated_share=tolerated_share, keep_going=keep_going)
    times_s, amounts, zone = _numbers(rows, columns, broken, first_line=1 + bool(header))
    broken.settle(len(rows), way_out=WAY_OUT, report=report)
    report.count("rows", len(times_s))
    if zeros == "gaps":
        amounts = np.where(amounts == 0, np.nan, amounts)
    series = _series(path, times_s, amounts, columns, step_s=step_s, keep_going=keep_going, report=report)
    if zone:
        report.assume("times are of the time zone of the first row")
    settings = {"step_s": series.step_s, "fill": fill, "zeros": zeros}
    return mended(series, fill=fill, keep_going=keep_going, report=report, settings=settings), report


def _rows(path: Path, *, keep_going: bool, report: ImportReport) -> list[list[str]]:
    text = (
        line.decode("utf-8-sig", "replace") for line in lines_of(path, keep_going=keep_going, report=report)
    )
    lines = [line for line in text if line.strip() and not line.startswith("#")]
    if not lines:
        raise HistoryError(f"{path}: is empty; {WAY_OUT}")
    separator = max(",;\t", key=lines[0].count)
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator)]
    except csv.Error as problem:
        raise HistoryError(f"{path}: not a CSV ({problem}); {WAY_OUT}") from None


def _header(rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The first row is names if none of its cells is a number or a date."""
    if any(_number(cell) is not None or _date(cell) is not None for cell in rows[0]) or len(rows) == 1:
        return [], rows
    return [cell.lower() for cell in rows[0]], rows[1:]


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
    time = _named(path, names, time_column) if time_column else _time_place(names, first)
    amount = _named(path, names, count_column) if count_column else _amount_place(path, names, time)
    if max(time, amount) >= len(first):
        raise HistoryError(f"{path}: {len(names)} names for {len(first)} columns; {WAY_OUT}")
    unit_s, has_date = _unit(path, names[time], first[time], step_s)
    return Columns(time, amount, unit_s, has_date, are_rates=False)


def _named(path: str, names: list[str], wanted: str) -> int:
    if wanted.lower() in names:
        return names.index(wanted.lower())
    raise HistoryError(f"{path}: no column {wanted!r}; it has {', '.join(names)}")


def _time_place(names: list[str], first: Sequence[str]) -> int:
    """A date is best, then a clock, then a running number; without a sign, the first column."""
    dated = [place for place, cell in enumerate(first) if _date(cell) is not None]
    clocks = [place for place, name in enumerate(names) if name in CLOCKS]
    numbered = [place for place, name in enumerate(names) if _singular(name) in (*UNITS_S, *NUMBERED)]
    return next(iter(dated + clocks + numbered), 0)


def _amount_place(path: str, names: list[str], time: int) -> int:
    others = [place for place in range(len(names)) if place != time]
    known = [place for place in others if _singular(names[place]) in map(_singular, AMOUNTS)]
    rated = [place for place in others if any(sign in names[place] for sign in RATES)]
    chosen = known or rated or others
    if len(chosen) == 1:
        return chosen[0]
    if not others:
        raise HistoryError(f"{path}: one column only; {WAY_OUT}")
    raise HistoryError(
        f"{path}: which of {', '.join(names[place] for place in chosen)} is the count? name it (count_column)"
    )


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _unit(path: str, name: str, cell: str, step_s: float | None) -> tuple[float | None, bool]:
    if _date(cell) is not None:
        return None, True
    value = _number(cell)
    if value is None:
        raise HistoryError(f"{path}: {cell!r} in column {name!r} is no time; name the column (time_column)")
    for least, unit_s in EPOCHS:
        if value >= least:
            return unit_s, True
    if _singular(name) in UNITS_S:
        return float(UNITS_S[_singular(name)]), False
    if step_s is None:
        raise HistoryError(
            f"{path}: column {name!r} numbers the steps ({cell}, ...), but does not tell how long one is; "
            "give step_s"
        )
    return step_s, False


def _with_kind(columns: Columns, header: list[str], values: str, report: ImportReport) -> Columns:
    if values not in ("auto", "counts", "rates"):
        raise HistoryError(f"{report.source}: values = {values!r}; use auto, counts or rates")
    if values != "auto":
        return columns._replace(are_rates=values == "rates")
    name = header[columns.amount] if header else ""
    are_rates = any(sign in name for sign in RATES)
    report.assume(
        f"column {name!r} holds " + ("records per second" if are_rates else "counts of a step, not rates")
    )
    return columns._replace(are_rates=are_rates)


def _numbers(
    rows: Sequence[Sequence[str]], columns: Columns, broken: BrokenLines, *, first_line: int
) -> tuple[Floats, Floats, bool]:
    """Times and amounts of the sound rows; an empty amount is NaN. Also whether times had a zone."""
    times, amounts = [], []
    offset: timedelta | None = None
    for line, row in enumerate(rows, start=first_line):
        if len(row) <= max(columns.time, columns.amount):
            broken.add(f"line {line}", f"has {len(row)} columns")
            continue
        cell, amount = row[columns.time], _amount(row[columns.amount])
        if amount is None:
            broken.add(f"line {line}", f"has the count {row[columns.amount]!r}")
            continue
        if columns.unit_s is None:
            moment = _date(cell)
            if moment is not None and moment.tzinfo is not None:
                offset = moment.utcoffset() if offset is None else offset
                moment = moment.astimezone(UTC).replace(tzinfo=None) + (offset or timedelta(0))
            time_s = None if moment is None else (moment - datetime(1970, 1, 1)).total_seconds()
        else:
            number = _number(cell)
            time_s = None if number is None else number * columns.unit_s
        if time_s is None:
            broken.add(f"line {line}", f"has the time {cell!r}")
            continue
        times.append(time_s)
        amounts.append(amount)
    return np.array(times), np.array(amounts), offset is not None


def _amount(cell: str) -> float | None:
    if cell.lower() in ("", "nan", "null", "none", "na", "-"):
        return float("nan")
    value = _number(cell)
    return None if value is None or value < 0 else value


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(cell: str) -> datetime | None:
    """A date such as 1995-08-28 00:01; digits alone are a number."""
    if "-" not in cell[1:] or not cell[:1].isdigit() or _number(cell) is not None:
        return None
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        return None


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
    begins = datetime(1970, 1, 1) + timedelta(seconds=float(first_s)) if columns.has_date else None
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
