"""Import the Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, `;` for comments.

The format has processors, not GPUs. `processors_per_gpu` says how many go with a GPU; without it every
processor is taken for a GPU, and the report says so.
"""

from __future__ import annotations

import math

import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.tables import LINE, Reading
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file, lines_of

__all__ = ["import_standard_workload_format"]

COLUMNS = (
    *("job", "submit_s", "wait_s", "run_s", "processors", "cpu_s", "used_kib", "asked_processors", "asked_s"),
    *("asked_kib", "status", "user", "group", "executable", "queue", "partition", "before", "think_s"),
)
PARTIAL = (2.0, 3.0, 4.0)
"""Status of a line that tells a part of a job's life; the whole job has a line of its own."""
COMPLETED = 1.0
WAY_OUT = "name a .swf file of 18 numbers a line"


def import_standard_workload_format(
    path: str,
    *,
    keep_going: bool = False,
    processors_per_gpu: float | None = None,
    only_completed: bool = False,
) -> tuple[Workload, ImportReport]:
    """Read jobs with their run times and processors; -1 stands for what is not known.

    Memory is told for a processor. A job is as wide as what it got or, if that is not known, as it asked for.

    >>> from pathlib import Path
    >>> _ = Path("log.swf").write_text("1 0 5 60 8 -1 -1 8 -1 -1 1 3 1 7 1 1 -1 -1\\n")
    >>> jobs, report = import_standard_workload_format("log.swf", processors_per_gpu=4)
    >>> jobs.gpus.tolist()
    [2.0]
    """
    if processors_per_gpu is not None and not processors_per_gpu > 0:
        raise HistoryError(f"{path}: {processors_per_gpu} processors per GPU; give a number above 0")
    reading = Reading(find_file(path, "*.swf*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = _rows(reading)
    frame = reading.dropping(frame, pl.col("status").is_in(PARTIAL), "part of a job's life")
    if only_completed:
        frame = reading.dropping(frame, pl.col("status") != COMPLETED, "job that did not complete")
    frame = reading.dropping(frame, pl.col("run_s") == -1, "job that never started, or still runs")
    wide = pl.when(pl.col("processors") > 0).then(pl.col("processors")).otherwise(pl.col("asked_processors"))
    frame = frame.with_columns(wide.alias("processors"))
    frame = reading.dropping(frame, pl.col("processors") <= 0, "job without processors")
    if processors_per_gpu is None:
        report.assume("the format has no GPUs: every processor is taken for one (processors_per_gpu)")
    else:
        report.assume(f"a GPU goes with {processors_per_gpu:g} processors, rounded up")
    kib = pl.when(pl.col("used_kib") > 0).then(pl.col("used_kib")).otherwise(pl.col("asked_kib"))
    frame = frame.select(
        LINE,
        _text("job").alias("id"),
        pl.col("submit_s").alias("arrival_s"),
        pl.col("run_s").alias("duration_s"),
        (pl.col("processors") / (processors_per_gpu or 1.0)).ceil().alias("gpus"),
        pl.col("processors").alias("cpus"),
        (kib.clip(lower_bound=0) * pl.col("processors") / 1024).alias("memory_mib"),
        _text("user").alias("user"),
        # In front of the number, so that it is not taken for one of several runs.
        pl.when(pl.col("executable") >= 0)
        .then(pl.concat_str(pl.lit("executable "), _text("executable"), pl.lit(".")))
        .alias("name"),
    )
    settings = {"processors_per_gpu": processors_per_gpu, "only_completed": only_completed}
    source = f"swf {reading.path.name}"
    return workload_from(reading, frame, source=source, settings=settings, begins_at_0=True), report


def _text(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Int64).cast(pl.String)


def _rows(reading: Reading) -> pl.DataFrame:
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(
        lines_of(reading.path, keep_going=reading.keep_going, report=reading.report), start=1
    ):
        cells = line.split(b";")[0].split()
        if not cells:
            continue
        if len(cells) != len(COLUMNS):
            reading.refuse(f"line {number}", f"{len(cells)} numbers where {len(COLUMNS)} are expected")
            continue
        try:
            values = tuple(map(float, cells))
        except ValueError as problem:
            reading.refuse(f"line {number}", str(problem))
            continue
        if not all(map(math.isfinite, values)):
            reading.refuse(f"line {number}", "a number that is not finite")
            continue
        rows.append((float(number), *values))
    reading.report.count("rows", len(rows))
    if not rows:
        raise HistoryError(f"{reading.path}: no jobs in it; {WAY_OUT}")
    frame = pl.DataFrame(rows, schema=[LINE, *COLUMNS], orient="row")
    return frame.with_columns(pl.col(LINE).cast(pl.Int64))
