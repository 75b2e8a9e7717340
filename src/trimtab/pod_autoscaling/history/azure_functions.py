"""Import calls of a function from Azure's public traces, of 2019 (per minute) or 2021 (a row per call)."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.pod_autoscaling.history.azure_tables import (
    DAMAGED,
    WAY_OUT,
    Choice,
    choose,
    files_of,
    minutes_of,
    said_by,
    scan,
)
from trimtab.rates.counting import LONGEST, Fill, Series, mended
from trimtab.rates.traces import Floats, RateTrace

__all__ = ["import_azure_functions", "read_calls"]

DAY = re.compile(r"\.d(\d\d?)\.")
MINUTES = 1440


def import_azure_functions(
    path: str,
    *,
    keep_going: bool = False,
    fill: Fill | None = None,
    function: str | None = None,
    app: str | None = None,
    rank: int = 1,
    step_s: int = 60,
) -> tuple[RateTrace, ImportReport]:
    """Requests per second of one function or of all functions of an app.

    `path` is a file or a folder; several days of 2019 (`...d01.csv`, ...) are put together. `function` and
    `app` are names or beginnings of names; without them `rank` 1 is the function with the most calls.
    `step_s` may be changed for calls of 2021 only.
    """
    report = ImportReport(path)
    files = files_of(Path(path))
    choice = Choice(function, app, rank)
    if "minutes" in files:
        if step_s != 60:
            raise HistoryError(
                f"{path}: step_s = {step_s}, but calls of 2019 were counted by the minute; leave it"
            )
        series = _per_minute(path, files["minutes"], choice, keep_going=keep_going, report=report)
    elif "calls" in files:
        if step_s < 1:
            raise HistoryError(f"{path}: steps of {step_s} s; give 1 or more")
        series = _per_call(path, files["calls"], choice, step_s=step_s, keep_going=keep_going, report=report)
    else:
        raise HistoryError(f"{path}: durations or memory only, no calls; {WAY_OUT}")
    settings = {"function": function, "app": app, "rank": rank, "fill": fill}
    return mended(series, fill=fill, keep_going=keep_going, report=report, settings=settings), report


def _per_minute(
    path: str,
    files: list[Path],
    choice: Choice,
    *,
    keep_going: bool,
    report: ImportReport,
) -> Series:
    days = _days(path, files)
    totals: dict[str, tuple[str, float]] = {}
    for file in files:
        for name, owner, amount in _totals(file, keep_going=keep_going, report=report):
            totals[name] = (owner, totals.get(name, (owner, 0.0))[1] + amount)
    chosen, called = choose(totals, choice, source=path)
    # Minute 1 of the first day is place 0; what no file tells is a gap.
    first, last = min(days), max(days) + 1
    counts = np.full((last - first) * MINUTES, np.nan)
    for file, day in zip(files, days, strict=True):
        minutes, amounts = _minutes(file, chosen, keep_going=keep_going)
        counts[(day - first) * MINUTES + minutes - 1] = amounts
    report.count("files", len(files))
    report.count("functions", len(totals))
    report.count("calls", int(np.nansum(counts)))
    report.assume("minute 1 begins at midnight; a function that a day does not list was not called")
    return Series(f"azure-functions {called}", counts / 60, 60.0, datetime(1970, 1, 1))


def _days(path: str, files: list[Path]) -> list[int]:
    found = [DAY.search(file.name) for file in files]
    days = [int(match[1]) if match else place + 1 for place, match in enumerate(found)]
    if len(files) > 1 and not all(found):
        raise HistoryError(
            f"{path}: several files, but not all are called ...d01.csv by their day; rename them"
        )
    if len(set(days)) < len(days):
        raise HistoryError(f"{path}: two files of day {max(days, key=days.count)}; keep one of them")
    return days


def _totals(file: Path, *, keep_going: bool, report: ImportReport) -> list[tuple[str, str, float]]:
    """Calls of every function on a day, and whose they are."""
    table = scan(file, keep_going=keep_going)
    try:
        minutes = minutes_of(table)
        cells = [pl.col(minute).cast(pl.Int64, strict=not keep_going) for minute in minutes]
        rows = table.select(
            pl.col("HashFunction", "HashApp"),
            total=pl.sum_horizontal(cells),
            least=pl.min_horizontal(cells),
            unknown=pl.sum_horizontal([cell.is_null() for cell in cells]),
        ).collect()
    except DAMAGED as problem:
        raise HistoryError(
            f"{file}: {said_by(problem)}; mend it, or import the rest with --keep-going"
        ) from None
    is_empty = pl.col("HashFunction", "HashApp").is_null() & (pl.col("unknown") == len(minutes))
    rows = rows.filter(~pl.all_horizontal(is_empty))
    rows = _named(rows, file, keep_going=keep_going, report=report)
    negative = rows.filter(pl.col("least") < 0)
    if negative.height:
        name, amount = negative["HashFunction"][0], negative["least"][0]
        raise HistoryError(f"{file}: function {name[:8]} was called {amount} times in a minute; mend it")
    broken = rows.filter(pl.col("unknown") > 0)
    if broken.height and not keep_going:
        raise HistoryError(
            f"{file}: function {broken['HashFunction'][0][:8]} has minutes without a number; mend it, or "
            "take them for 0 with --keep-going"
        )
    report.lose("minutes without a number, taken for 0", int(rows["unknown"].sum()))
    return list(zip(rows["HashFunction"], rows["HashApp"], rows["total"], strict=True))


def _named(rows: pl.DataFrame, file: Path, *, keep_going: bool, report: ImportReport) -> pl.DataFrame:
    """Rows that tell whose calls they count."""
    named = rows.drop_nulls(["HashFunction", "HashApp"])
    lost = rows.height - named.height
    if lost and not keep_going:
        raise HistoryError(
            f"{file}: {lost:,} of {rows.height:,} rows have no HashFunction or HashApp; mend them, or import "
            "the rest with --keep-going"
        )
    report.lose("rows without a function or an app", lost)
    return named


def _minutes(file: Path, chosen: list[str], *, keep_going: bool) -> tuple[np.ndarray, Floats]:
    table = scan(file, keep_going=keep_going)
    minutes = minutes_of(table)
    if int(minutes[0]) < 1 or int(minutes[-1]) > MINUTES:
        raise HistoryError(f"{file}: minutes {minutes[0]} to {minutes[-1]}; a day has 1 to {MINUTES}")
    own = table.filter(pl.col("HashFunction").is_in(chosen), pl.col("HashApp").is_not_null())
    amounts = own.select(pl.col(minute).cast(pl.Int64, strict=not keep_going).sum() for minute in minutes)
    places = np.array([int(minute) for minute in minutes])
    return places, np.array(amounts.collect().row(0), np.float64)


def _per_call(
    path: str,
    files: list[Path],
    choice: Choice,
    *,
    step_s: int,
    keep_going: bool,
    report: ImportReport,
) -> Series:
    table = read_calls(files, keep_going=keep_going, report=report)
    groups = table.group_by("func").agg(pl.col("app").first(), pl.len())
    totals = {name: (owner, float(amount)) for name, owner, amount in groups.iter_rows()}
    chosen, called = choose(totals, choice, source=path)
    own = table.filter(pl.col("func").is_in(chosen))
    begin_s = np.maximum((own["end_timestamp"] - own["duration"]).to_numpy(), 0.0)
    # The trace goes on after this function's last call: silence to its end is data.
    count = int(table["end_timestamp"].to_numpy().max() // step_s) + 1
    if count > LONGEST:
        raise HistoryError(f"{path}: {count:,} steps of {step_s} s; some call has a wrong time, mend it")
    counts = np.bincount((begin_s // step_s).astype(np.int64), minlength=count)
    report.count("functions", len(totals))
    report.count("calls", own.height)
    report.assume("calls begin at their end less their duration")
    return Series(f"azure-functions {called}", counts / step_s, float(step_s), None)


def read_calls(files: list[Path], *, keep_going: bool, report: ImportReport) -> pl.DataFrame:
    """All calls of 2021's files; broken rows are refused, or dropped and counted."""
    number = pl.col("end_timestamp", "duration").cast(pl.Float64, strict=not keep_going)
    try:
        table = pl.concat(
            [scan(file, keep_going=keep_going).select("app", "func", number).collect() for file in files]
        )
    except DAMAGED as problem:
        raise HistoryError(
            f"{files[0]}: {said_by(problem)}; mend it, or import the rest with --keep-going"
        ) from None
    table = table.filter(~pl.all_horizontal(pl.all().is_null()))  # Empty lines.
    sound = table.filter(pl.col("end_timestamp", "duration").is_finite(), pl.col("duration") >= 0)
    lost = table.height - sound.height
    if lost and not keep_going:
        raise HistoryError(
            f"{files[0]}: {lost:,} of {table.height:,} calls have no end, or a duration that is negative or "
            "no number; mend them, or import the rest with --keep-going"
        )
    if not sound.height:
        raise HistoryError(f"{files[0]}: no calls; {WAY_OUT}")
    report.lose("calls without an end, or with a duration that is negative or no number", lost)
    return sound
