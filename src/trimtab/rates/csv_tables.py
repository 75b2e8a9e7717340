"""Tables in CSV: rows, names of columns, and times in whatever form they come."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import LATEST_S
from trimtab.rates.reading import lines_of

__all__ = [
    "Clock",
    "amount_of",
    "clock_of",
    "header_and_rows",
    "number_of",
    "place_named",
    "singular",
    "time_place",
]

UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
NUMBERED = ("bin", "index", "step", "interval", "slot", "row")
STOPWATCHES = ("time", "timestamp", "ts")
"""Clocks that may count from the beginning; a small number as a date is a date without dashes."""
CLOCKS = (*STOPWATCHES, "epoch", "unix", "date", "datetime")
EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e8, 1.0))
"""Numbers from here on are since 1970, in units of so many seconds; in seconds 1e8 is March 1973."""
MOST_SHOWN = 60
"""Letters of a first line in a message; that of no CSV may be a whole file."""
UNKNOWN = ("", "nan", "null", "none", "na", "-")


class Clock:
    """Turns cells of a column into seconds; dates of several zones are put on the clock of the first."""

    def __init__(self, unit_s: float | None, *, has_date: bool) -> None:
        self.unit_s = unit_s
        """Seconds of one unit; None for dates."""
        self.has_date = has_date
        """Whether it tells the time of day."""
        self.offset: timedelta | None = None

    def seconds(self, cell: str) -> float | None:
        """Seconds since 1970 or since the beginning; None for what is no time."""
        if self.unit_s is not None:
            number = number_of(cell)
            return None if number is None or abs(number * self.unit_s) > LATEST_S else number * self.unit_s
        moment = _date(cell)
        if moment is not None and moment.tzinfo is not None:
            self.offset = moment.utcoffset() if self.offset is None else self.offset
            moment = moment.astimezone(UTC).replace(tzinfo=None) + (self.offset or timedelta(0))
        return None if moment is None else (moment - datetime(1970, 1, 1)).total_seconds()


def header_and_rows(
    path: Path, *, keep_going: bool, report: ImportReport, way_out: str
) -> tuple[list[str], list[list[str]]]:
    """Names in lower case, none if the first row has a number or a date; and the rows below."""
    text = (
        line.decode("utf-8-sig", "replace") for line in lines_of(path, keep_going=keep_going, report=report)
    )
    lines = [line for line in text if line.strip() and not line.startswith("#")]
    if not lines:
        raise HistoryError(f"{path}: is empty; {way_out}")
    separator = max(",;\t", key=lines[0].count)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator)]
    except csv.Error as problem:
        raise HistoryError(f"{path}: not a CSV ({problem}); {way_out}") from None
    if any(number_of(cell) is not None or _date(cell) is not None for cell in rows[0]):
        return [], rows
    if len(rows) == 1:
        names = ", ".join(rows[0])
        shown = names if len(names) <= MOST_SHOWN else f"{names[:MOST_SHOWN]}..."
        raise HistoryError(f"{path}: has no rows below {shown}; {way_out}")
    return [cell.lower() for cell in rows[0]], rows[1:]


def time_place(names: Sequence[str], first: Sequence[str]) -> int | None:
    """Which column has times: a date is best, then a clock, then a running number."""
    dated = [place for place, cell in enumerate(first) if _date(cell) is not None]
    clocks = [place for place, name in enumerate(names) if name in CLOCKS]
    numbered = [place for place, name in enumerate(names) if singular(name) in (*UNITS_S, *NUMBERED)]
    return next(iter(dated + clocks + numbered), None)


def place_named(path: str, names: Sequence[str], wanted: str) -> int:
    """Where the column of this name is."""
    if wanted.lower() in names:
        return names.index(wanted.lower())
    raise HistoryError(f"{path}: no column {wanted!r}; it has {', '.join(names)}")


def clock_of(path: str, name: str, cell: str, *, step_s: float | None, report: ImportReport) -> Clock:
    """The clock of a column, told by its name and its first cell."""
    if _date(cell) is not None:
        return Clock(None, has_date=True)
    value = number_of(cell)
    if value is None:
        raise HistoryError(
            f"{path}: {cell!r} in column {name!r} is no time; write dates as 2024-05-31 12:00, or name the "
            "column (time_column)"
        )
    for least, unit_s in EPOCHS:
        if value >= least:
            return Clock(unit_s, has_date=True)
    if singular(name) in UNITS_S:
        return Clock(float(UNITS_S[singular(name)]), has_date=False)
    if name in STOPWATCHES:
        report.assume(
            f"column {name!r} tells seconds since the beginning ({cell}, ...); if it numbers minutes or "
            "steps, call it so"
        )
        return Clock(1.0, has_date=False)
    if step_s is None:
        raise HistoryError(
            f"{path}: column {name!r} numbers the steps ({cell}, ...), but does not tell how long one is; "
            "give step_s"
        )
    return Clock(step_s, has_date=False)


def singular(name: str) -> str:
    """A name without the s of the plural."""
    return name.removesuffix("s")


def amount_of(cell: str) -> float | None:
    """A number that is not negative, NaN for one that is unknown, None for nonsense."""
    if cell.lower() in UNKNOWN:
        return math.nan
    value = number_of(cell)
    return None if value is None or value < 0 else value


def number_of(cell: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(cell: str) -> datetime | None:
    """A date such as 1995-08-28 00:01; digits alone are a number."""
    if "-" not in cell[1:] or not cell[:1].isdigit() or number_of(cell) is not None:
        return None
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        return None
