"""Tables of text: every cell as it stands, its line, and one clear sentence for what makes no sense."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.reading import lines_of

__all__ = ["LINE", "Reading", "parsed", "read_table"]

LINE = "line"
"""Column of line numbers, beside those of the file."""
NOTHING = ["", "nan", "NaN", "NA", "null", "None", "none", "Unknown", "N/A", "-", "<none>"]
"""What files write where they know nothing."""
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DATE = r"^\s*\d{4}-"
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class Reading:
    """One file being read: where faults are refused or, if asked, counted in the report on it."""

    def __init__(self, path: Path, *, keep_going: bool) -> None:
        self.path = path
        self.keep_going = keep_going
        self.report = ImportReport(str(path))

    def refuse(self, where: str, why: str, *, lost: str = "rows") -> None:
        """Refuse the file for one row, or count the row as lost."""
        if not self.keep_going:
            raise HistoryError(
                f"{self.path}, {where}: {why}; mend it, or import what is sound with --keep-going"
            )
        self.report.lose(lost)

    def without(
        self, frame: pl.DataFrame, bad: pl.Expr, why: str, *, column: str | None = None, lost: str = "rows"
    ) -> pl.DataFrame:
        """The frame without rows that are damaged; `why` may hold the value of `column` as `{}`."""
        marked = frame.with_columns(bad.fill_null(False).alias("_bad"))
        faulty = marked.filter("_bad")
        if faulty.is_empty():
            return frame
        if not self.keep_going:
            first = faulty.row(0, named=True)
            self.refuse(f"line {first[LINE]}", why.format(repr(first[column]) if column else ""))
        self.report.lose(lost, len(faulty))
        return marked.filter(~pl.col("_bad")).drop("_bad")

    def dropping(self, frame: pl.DataFrame, useless: pl.Expr, reason: str) -> pl.DataFrame:
        """The frame without rows that are sound but of no use; they are counted."""
        kept = frame.filter(~useless.fill_null(False))
        self.report.drop(reason, len(frame) - len(kept))
        return kept

    def numbers(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Cells become numbers; nothing stays nothing, and what is no number is damage."""
        for column in columns:
            if column not in frame.columns:
                frame = frame.with_columns(pl.lit(None, pl.Float64).alias(column))
                continue
            cell = pl.col(column)
            frame = self.without(
                frame,
                cell.is_not_null() & ~cell.str.contains(NUMBER),
                f"{column} is {{}}, which is no number",
                column=column,
            )
            frame = frame.with_columns(cell.cast(pl.Float64))
        return frame

    def times(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Cells become seconds: numbers as they are, dates since 1970 (without a zone: as if in UTC)."""
        for column in columns:
            if column not in frame.columns:
                frame = frame.with_columns(pl.lit(None, pl.Float64).alias(column))
                continue
            frame = self._of_one_clock(frame, column)
            frame = parsed(self, frame, column, seconds_of, "which is no time")
        return frame

    def _of_one_clock(self, frame: pl.DataFrame, column: str) -> pl.DataFrame:
        """Dates count from 1970, seconds from any moment: where a column has both, the fewer are damage."""
        is_date, is_number = pl.col(column).str.contains(DATE), pl.col(column).str.contains(NUMBER)
        dates, numbers = frame.select(is_date.sum().alias("dates"), is_number.sum().alias("numbers")).row(0)
        if not (dates and numbers):
            return frame
        odd, told = (is_number, "number among dates") if dates >= numbers else (is_date, "date among numbers")
        return self.without(frame, odd, f"{column} is {{}}, a {told}", column=column)

    def need(self, frame: pl.DataFrame, columns: Sequence[str], way_out: str) -> None:
        """Refuse a table that lacks columns."""
        missing = [name for name in columns if name not in frame.columns]
        if missing:
            there = ", ".join(name for name in frame.columns if name != LINE)
            raise HistoryError(f"{self.path}: no column {missing[0]!r} (it has {there}); {way_out}")


def parsed(
    reading: Reading, frame: pl.DataFrame, column: str, parse: Callable[[str], float | None], why: str
) -> pl.DataFrame:
    """Turn the cells of a column into numbers by a function that gives None for nonsense."""
    known: dict[str, float | None] = {}
    for cell in frame[column].unique().drop_nulls():
        known[cell] = parse(cell)
    bad = [cell for cell, value in known.items() if value is None]
    if bad:
        frame = reading.without(frame, pl.col(column).is_in(bad), f"{column} is {{}}, {why}", column=column)
    return frame.with_columns(
        pl.col(column).replace_strict(known, default=None, return_dtype=pl.Float64)
        if known
        else pl.lit(None, pl.Float64).alias(column)
    )


def seconds_of(cell: str) -> float | None:
    """Seconds of a time: a number, or a date such as 2020-06-09 18:41:01.

    >>> seconds_of("1970-01-01T00:01:00Z"), seconds_of("90.5"), seconds_of("soon")
    (60.0, 90.5, None)
    """
    try:
        return float(cell)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_table(
    reading: Reading,
    *,
    way_out: str,
    separator: str = ",",
    names: Sequence[str] | None = None,
    lower: bool = False,
) -> pl.DataFrame:
    """All cells as text (nothing where the file knows nothing), with the line each row stands in.

    With `names` the file may come without a header; one that begins with the first name is its header. Rows
    with too few or too many cells are damage.
    """
    numbered = list(_sound_lines(reading))
    if not numbered:
        raise HistoryError(f"{reading.path}: is empty; {way_out}")
    first = numbered[0][1].split(separator)
    if len(first) == 1 and separator == ",":
        _refuse_other_separator(reading, first[0])
    has_header = names is None or first[0].strip().strip('"') == names[0]
    if has_header:
        header = [name.strip().strip('"') for name in first]
        header = [name.lower() for name in header] if lower else header
        numbered = numbered[1:]
    else:
        header = list(names or ())
    twice = next((name for place, name in enumerate(header) if name in header[:place]), None)
    if twice is not None:
        raise HistoryError(
            f"{reading.path}: two columns are called {twice!r} in its first line; rename or remove one of "
            f"them, or, if that line names no columns, {way_out}"
        )
    # `sacct -p` ends every line with the separator.
    ends_empty = has_header and header[-1] == ""
    rows = [one for one in numbered if _fits(reading, one, header, separator, way_out)]
    reading.report.count("rows", len(rows))
    if not rows:
        raise HistoryError(f"{reading.path}: no rows in it; {way_out}")
    try:
        frame = pl.read_csv(
            BytesIO("\n".join(line for _, line in rows).encode()),
            has_header=False,
            new_columns=header,
            separator=separator,
            infer_schema=False,
            null_values=NOTHING,
            quote_char='"' if separator == "," else None,
        )
    except pl.exceptions.PolarsError as problem:
        said = str(problem).splitlines()[0]
        raise HistoryError(f"{reading.path}: not such a table ({said}); {way_out}") from None
    if len(frame) != len(rows):
        raise HistoryError(f"{reading.path}: a cell goes over several lines; {way_out}")
    if ends_empty:
        frame = frame.drop("")
    return frame.with_columns(pl.Series(LINE, [number for number, _ in rows], pl.Int64))


def _refuse_other_separator(reading: Reading, first: str) -> None:
    """Spreadsheets in many countries write semicolons where others write commas."""
    sign = max(OTHER_SEPARATORS, key=first.count)
    if sign in first:
        raise HistoryError(
            f"{reading.path}: its cells are separated by {OTHER_SEPARATORS[sign]}; save it with commas"
        )


def _sound_lines(reading: Reading) -> list[tuple[int, str]]:
    """Lines with their numbers, without empty ones; the last of a file cut short is not whole."""
    report = reading.report
    cut_before = report.lost["files cut short"]
    lines = [
        line.decode("utf-8-sig" if number == 0 else "utf-8", "replace").rstrip("\r\n")
        for number, line in enumerate(lines_of(reading.path, keep_going=reading.keep_going, report=report))
    ]
    if report.lost["files cut short"] > cut_before and lines:
        lines.pop()
    if not report.lost["files cut short"]:
        del report.lost["files cut short"]
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _fits(
    reading: Reading, numbered: tuple[int, str], header: Sequence[str], separator: str, way_out: str
) -> bool:
    number, line = numbered
    # Only in comma files a quoted cell may hold the separator.
    is_quoted = separator == "," and '"' in line
    cells = len(next(csv.reader([line]))) if is_quoted else line.count(separator) + 1
    if cells == len(header):
        return True
    if number == 1:
        raise HistoryError(
            f"{reading.path}: {cells} columns where {len(header)} are expected "
            f"({', '.join(header)}); {way_out}"
        )
    reading.refuse(f"line {number}", f"{cells} cells where {len(header)} are expected")
    return False
