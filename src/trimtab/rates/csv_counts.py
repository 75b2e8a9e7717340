"""Import counts or rates from a CSV: a column of times and a column of numbers.

Times may be dates, seconds (or milli-, micro-, nanoseconds) since 1970, seconds since the beginning, or a
running number of minutes, hours or steps. What is not told by the file (how long a step is, whether numbers
are counts or rates) is found out from its names and numbers, and said in the report; it can always be given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import Fill, Series, mended
from trimtab.rates.csv_tables import (
    UNITS_S,
    Clock,
    amount_of,
    clock_of,
    header_and_rows,
    place_named,
    singular,
    time_place,
)
from trimtab.rates.even_steps import Steps, steps_of
from trimtab.rates.reading import BrokenLines
from trimtab.rates.traces import DAY_S, Floats, RateTrace

__all__ = ["import_csv_counts"]

AMOUNTS = ("count", "requests", "records", "messages", "events", "invocations", "arrivals", "value", "n")
PER_S = {
    **dict.fromkeys(("s", "sec", "second", "rate", "rps", "qps", "tps"), 1.0),
    **dict.fromkeys(("min", "minute", "rpm", "qpm"), 60.0),
    **dict.fromkeys(("h", "hr", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86_400.0),
}
"""Words by which the name of a column says that it holds rates, and the seconds that they are told for."""
PER = re.compile(
    r"(?:per[ _]|/ ?)(s|sec|second|min|minute|h|hr|hour|d|day)s?(?![a-z])"
    r"|per(sec|second|min|minute|hour|day)s?(?![a-z])"
)
RATE = re.compile(
    rf"(?<![a-z])(?:(?:{'|'.join(map(singular, AMOUNTS))})s?)?(rate|rps|qps|tps|rpm|qpm)s?(?![a-z])"
)
LONGEST_STEP_S = 366 * DAY_S
WAY_OUT = "name a CSV with a column of times and one of counts"


class Columns(NamedTuple):
    """Where the numbers are, and what they mean."""

    time: int
    amount: int
    clock: Clock
    unit_s: float | None
    """Seconds that the rates are told for; None: counts of a step."""


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
    """What came per second. With a `step_s` of several rows, these are put together; all have to be there.

    `step_s` is also the unit of a column that only numbers its steps, and the time of a row where there is no
    other column than that of the numbers. `zeros = "gaps"` is for recordings that write 0 where they were not
    running.
    """
    file = Path(path)
    report = ImportReport(path)
    if step_s is not None and not 0 < step_s <= LONGEST_STEP_S:
        raise HistoryError(f"{path}: steps of {step_s:g} s; give a length above 0, of a year at most")
    if zeros not in ("data", "gaps"):
        raise HistoryError(f"{path}: zeros = {zeros!r}; use data or gaps")
    header, rows = header_and_rows(file, keep_going=keep_going, report=report, way_out=WAY_OUT)
    if len(rows[0]) == 1 and step_s is not None:
        report.assume(f"there is one column: every row is a step of {step_s:g} s")
        header, rows = ["step", *(header or ["value"])], [[str(n), *row] for n, row in enumerate(rows)]
    columns = _columns(
        path,
        header,
        rows[0],
        time_column=time_column,
        count_column=count_column,
        step_s=step_s,
        report=report,
    )
    columns = _with_kind(columns, header, values, report)
    broken = BrokenLines(path, tolerated_share=tolerated_share, keep_going=keep_going)
    times_s, amounts, unknown = _numbers(rows, columns, broken, first_line=1 + bool(header))
    broken.settle(len(rows), way_out=WAY_OUT, report=report)
    report.count("rows", len(times_s))
    if zeros == "gaps":
        amounts = np.where(amounts == 0, np.nan, amounts)
    if (np.diff(times_s) < 0).any():
        report.assume("rows are not in order of time; they were sorted")
    order = np.argsort(times_s, kind="stable")
    amounts = amounts[order]
    report.drop(
        "row without a count, before the first or after the last that has one", _unknown_ends(amounts)
    )
    steps = steps_of(path, times_s[order], step_s, keep_going=keep_going, report=report)
    series = _series(file, steps, amounts, columns)
    if columns.clock.offset is not None:
        report.assume("times are of the time zone of the first row")
    settings = {"step_s": series.step_s, "fill": fill, "zeros": zeros}
    trace = mended(
        series,
        fill=fill,
        keep_going=keep_going,
        report=report,
        settings=settings,
        because=broken.first or unknown or steps.too_few(),
    )
    return trace, report


def _unknown_ends(amounts: Floats) -> int:
    """Rows that end the history and tell nothing; those between others are gaps."""
    known = np.flatnonzero(~np.isnan(amounts))
    return len(amounts) - int(known[-1] - known[0] + 1) if known.size else 0


def _columns(
    path: str,
    header: list[str],
    first: Sequence[str],
    *,
    time_column: str | None,
    count_column: str | None,
    step_s: float | None,
    report: ImportReport,
) -> Columns:
    names = header or [f"column {place}" for place in range(1, len(first) + 1)]
    # Without any sign, times are taken to come first.
    time = place_named(path, names, time_column) if time_column else time_place(names, first) or 0
    amount = place_named(path, names, count_column) if count_column else _amount_place(path, names, time)
    if max(time, amount) >= len(first):
        raise HistoryError(f"{path}: {len(names)} names for {len(first)} columns; {WAY_OUT}")
    clock = clock_of(path, names[time], first[time], step_s=step_s, report=report)
    return Columns(time, amount, clock, unit_s=None)


def _amount_place(path: str, names: list[str], time: int) -> int:
    others = [place for place in range(len(names)) if place != time]
    known = [place for place in others if singular(names[place]) in map(singular, AMOUNTS)]
    rated = [place for place in others if _unit_of(names[place]) is not None]
    chosen = known or rated or others
    if len(chosen) == 1:
        return chosen[0]
    if not others:
        raise HistoryError(f"{path}: one column only; give step_s, the seconds of a row, or {WAY_OUT}")
    raise HistoryError(
        f"{path}: which of {', '.join(names[place] for place in chosen)} is the count? name it (count_column)"
    )


def _with_kind(columns: Columns, header: list[str], values: str, report: ImportReport) -> Columns:
    if values not in ("auto", "counts", "rates"):
        raise HistoryError(f"{report.source}: values = {values!r}; use auto, counts or rates")
    name = header[columns.amount] if header else ""
    unit_s = _unit_of(name)
    if values == "counts":
        return columns
    if values == "rates":
        unit_s = unit_s or 1.0
    if values == "auto" or unit_s != 1:
        report.assume(f"column {name!r} holds " + _told(unit_s))
    return columns._replace(unit_s=unit_s)


def _unit_of(name: str) -> float | None:
    """Seconds that the rates of a column are told for, by its name; None: it holds counts.

    >>> [
    ...     _unit_of(name)
    ...     for name in ("rps", "requests/s", "rate_per_minute", "requests_per_step", "generated")
    ... ]
    [1.0, 1.0, 60.0, None, None]
    """
    found = PER.search(name) or RATE.search(name)
    return None if found is None else PER_S[next(filter(None, found.groups()))]


def _told(unit_s: float | None) -> str:
    if unit_s is None:
        return "counts of a step, not rates"
    return "rates per " + next(unit for unit, length_s in UNITS_S.items() if length_s == unit_s)


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


def _series(file: Path, steps: Steps, amounts: Floats, columns: Columns) -> Series:
    rates = steps.rates(amounts / (columns.unit_s or 1.0), are_rates=columns.unit_s is not None)
    begins = datetime(1970, 1, 1) + timedelta(seconds=steps.first_s) if columns.clock.has_date else None
    return Series(f"csv-counts {file.name}", rates, steps.length_s, begins)
