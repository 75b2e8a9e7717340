"""Import an application from Azure's public traces: how long a function takes, and its memory.

The traces tell how long a call took, not how much of it was work: `cpu_share` says that.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.history.azure_functions import read_calls
from trimtab.pod_autoscaling.history.azure_tables import (
    DAMAGED,
    WAY_OUT,
    Choice,
    choose,
    files_of,
    said_by,
    scan,
)

__all__ = ["import_azure_profile"]

SHORTEST_MS = 0.5
"""Durations are whole milliseconds: 0 is taken for half of one."""
MOST_VARIATION = 50.0
MIB_OF_MB = 1e6 / 2**20
Z99 = 2.3263478740408408


class Durations(NamedTuple):
    """Of one call, in ms."""

    mean: float
    variation: float
    """Squared coefficient of variation."""


def import_azure_profile(
    path: str,
    *,
    keep_going: bool = False,
    function: str | None = None,
    app: str | None = None,
    rank: int = 1,
    cpu_share: float = 1.0,
) -> tuple[Application, ImportReport]:
    """An application of one segment with the durations of a function, and its memory where that is told.

    `path` is a folder with the durations (and memory) of 2019, or a file of calls of 2021. Of a duration
    `cpu_share` is work, the rest waiting.
    """
    if not 0 < cpu_share <= 1:
        raise HistoryError(f"{path}: cpu_share = {cpu_share}; give a share above 0, at most 1")
    report = ImportReport(path)
    files = files_of(Path(path))
    if "durations" in files:
        table = _joined(files["durations"], ["HashApp", "HashFunction", "Average", "Count"], keep_going)
        totals = {
            name: (owner, float(amount))
            for name, owner, amount in table.group_by("HashFunction")
            .agg(pl.col("HashApp").first(), pl.col("Count").sum())
            .iter_rows()
        }
        chosen, called = choose(totals, Choice(function, app, rank), source=path)
        durations = _of_2019(files["durations"], chosen, keep_going, report)
    elif "calls" in files:
        calls = read_calls(files["calls"], keep_going=keep_going, report=report)
        groups = calls.group_by("func").agg(pl.col("app").first(), pl.len())
        totals = {name: (owner, float(amount)) for name, owner, amount in groups.iter_rows()}
        chosen, called = choose(totals, Choice(function, app, rank), source=path)
        durations = _of_2021(calls, chosen, report)
    else:
        raise HistoryError(f"{path}: no durations; {WAY_OUT}")
    owner = totals[chosen[0]][0]
    memory_mib = _memory_mib(files.get("memory", []), owner, chosen, keep_going, report)
    if memory_mib is None:
        memory_mib = Application().memory_mib
    segment = Segment(
        name=called.partition(" ")[0],
        cpu_ms=max(cpu_share * durations.mean, SHORTEST_MS),
        cpu_variation=durations.variation,
        io_ms=(1 - cpu_share) * durations.mean,
        io_variation=durations.variation,
    )
    report.assume(f"{cpu_share:.0%} of a call's duration is CPU work; the traces do not tell")
    report.assume("memory of a request, start-up, workers and limits are the usual ones; edit the file")
    application = Application(
        name=f"azure-{called.replace(' ', '-')}", segments=(segment,), memory_mib=memory_mib
    )
    return application.with_patient_callers(), report


def _joined(files: list[Path], columns: list[str], keep_going: bool) -> pl.DataFrame:
    try:
        return pl.concat(
            [scan(file, keep_going=keep_going).select(columns).collect() for file in files],
            how="vertical_relaxed",
        ).drop_nulls()
    except DAMAGED as problem:
        raise HistoryError(
            f"{files[0]}: {said_by(problem)}; mend it, or import the rest with --keep-going"
        ) from None


def _of_2019(files: list[Path], chosen: list[str], keep_going: bool, report: ImportReport) -> Durations:
    columns = ["HashFunction", "Average", "Count", "percentile_Average_50", "percentile_Average_99"]
    own = _joined(files, columns, keep_going).filter(
        pl.col("HashFunction").is_in(chosen) & (pl.col("Count") > 0)
    )
    if not own.height:
        raise HistoryError(f"{files[0]}: no duration of {chosen[0][:8]}; name another function")
    weights = own["Count"].to_numpy().astype(float)
    mean, median, high = (
        float(np.average(own[name].to_numpy().astype(float), weights=weights))
        for name in ("Average", "percentile_Average_50", "percentile_Average_99")
    )
    report.count("calls", int(weights.sum()))
    report.assume("percentiles are of means over 30 s: single calls may vary more")
    # A lognormal's 99th percentile is exp(2.33 s) medians; its squared variation exp(s^2) - 1.
    spread = np.log(max(high, SHORTEST_MS) / max(median, SHORTEST_MS)) / Z99
    return Durations(max(mean, SHORTEST_MS), min(float(np.expm1(max(spread, 0.0) ** 2)), MOST_VARIATION))


def _of_2021(calls: pl.DataFrame, chosen: list[str], report: ImportReport) -> Durations:
    own_ms = 1000 * calls.filter(pl.col("func").is_in(chosen))["duration"].to_numpy()
    report.count("calls", len(own_ms))
    mean = max(float(own_ms.mean()), SHORTEST_MS)
    return Durations(mean, min(float(own_ms.var() / mean**2), MOST_VARIATION))


def _memory_mib(
    files: list[Path], owner: str, chosen: list[str], keep_going: bool, report: ImportReport
) -> float | None:
    """The median memory of the application; samplers of the trace write it by function."""
    if not files:
        report.assume("no file tells the memory: the usual one")
        return None
    by_function = "HashFunction" in scan(files[0], keep_going=keep_going).collect_schema().names()
    key, wanted = ("HashFunction", chosen) if by_function else ("HashApp", [owner])
    table = _joined(files, [key, "SampleCount", "AverageAllocatedMb_pct50"], keep_going)
    own = table.filter(pl.col(key).is_in(wanted) & (pl.col("SampleCount") > 0))
    if not own.height:
        report.assume("the memory of this application was not sampled: the usual one")
        return None
    report.count("samples of memory", int(own["SampleCount"].sum()))
    weights = own["SampleCount"].to_numpy().astype(float)
    median = float(np.average(own["AverageAllocatedMb_pct50"].to_numpy(), weights=weights))
    return max(round(MIB_OF_MB * median, 2), 1.0)
