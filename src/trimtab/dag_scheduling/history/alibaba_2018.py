"""Import batch jobs of the Alibaba cluster trace v2018: `batch_task.csv` or a sample with a header.

A task's name holds the DAG: `J3_1_2` is task 3, which waits for tasks 1 and 2. The trace tells when
a task began and ended and how many instances it had, not how long each instance took.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Sequence
from itertools import groupby
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.inflation import EXECUTOR_POINTS, check_points, extrapolate_jobs
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Provenance,
    StageRecord,
    Workload,
    build_profile,
)
from trimtab.dag_scheduling.workload.profile import LONGEST_TASK_MS, MOST_TASKS
from trimtab.rates.reading import find_file

__all__ = ["import_alibaba_2018"]

ORIGINAL_COLUMNS = (
    *("task_name", "instance_num", "job_name", "task_type", "status"),
    *("start_time", "end_time", "plan_cpu", "plan_mem"),
)
OTHER_NAMES = {"task": "task_name", "job": "job_name", "instances": "instance_num"}
NEEDED = ("job_name", "task_name", "instance_num", "start_time", "end_time")
DAG_NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)(?:_Stg\d+)?")
LIKE_DAG_NAME = re.compile(r"[A-Z]\d+_")
SHORTEST_MS = 500
"""The clock of the trace ticks once a second: a span of 0 s is taken for half a tick."""


class Row(NamedTuple):
    """One task of the trace."""

    job: str
    task: str
    instances: int | None
    status: str | None
    start_s: int | None
    end_s: int | None
    memory: float | None
    mean_s: float | None

    @property
    def memory_share(self) -> float:
        """Share of a machine in percent; the trace writes -1 or 101 where it does not know."""
        return self.memory if self.memory is not None and 0 <= self.memory <= 100 else 0.0

    @property
    def has_mean(self) -> bool:
        """Whether the trace tells how long an instance took."""
        return self.mean_s is not None and self.mean_s >= 0


class Unusable(Exception):
    """Why a job of the trace cannot become a job of the workload."""


def import_alibaba_2018(
    path: str,
    *,
    keep_going: bool = False,
    subset: str | None = None,
    max_jobs: int = 50_000,
    extrapolate: bool = False,
    executor_points: Sequence[int] = EXECUTOR_POINTS,
) -> tuple[Workload, ImportReport]:
    """The first `max_jobs` jobs by start time, with their DAGs, instances, spans and memory.

    Durations do not depend on the number of executors, because the trace does not tell how they
    would; `extrapolate` applies the published curve, as if every instance had run at the same time.
    """
    if max_jobs < 1:
        raise HistoryError(f"max_jobs = {max_jobs}: at least one job is needed")
    check_points(executor_points)
    file = find_file(path, "batch_task*.csv*", "name batch_task.csv of the trace")
    report = ImportReport(str(file))
    rows = _rows(file, subset=subset, max_jobs=max_jobs, keep_going=keep_going, report=report)
    if subset is not None and not rows:
        raise HistoryError(f"{file}: no job in subset {subset!r}; name another, or leave subset out")
    largest_memory = max((row.memory_share for row in rows), default=0.0) or 1.0
    has_means = any(row.has_mean for row in rows)
    points = executor_points if extrapolate else (1,)
    jobs, starts = [], []
    for name, of_job in groupby(rows, key=lambda row: row.job):
        tasks = list(of_job)
        try:
            stages = _stages(tasks, largest_memory, points, report)
        except Unusable as reason:
            report.drop(f"job: {reason}")
            continue
        if has_means:
            report.fill("mean durations of instances, from the spans", sum(not row.has_mean for row in tasks))
        jobs.append(JobRecord(name, stages))
        starts.append(min(row.start_s or 0 for row in tasks))
    if not jobs:
        found = ", ".join(f"{amount} x {reason}" for reason, amount in report.dropped.items())
        raise HistoryError(f"{file}: no usable job in it ({found or 'empty'}); name batch_task.csv")
    _state_assumptions(report, has_means, extrapolate)
    if extrapolate:
        jobs = extrapolate_jobs(jobs, executor_points, report)
    report.count("jobs", len(jobs))
    report.count("stages", sum(len(job.stages) for job in jobs))
    report.count("tasks", sum(stage.tasks for job in jobs for stage in job.stages))
    arrivals = np.array(starts, np.int64) * 1000
    order = np.argsort(arrivals, kind="stable")
    settings = {"subset": subset, "max_jobs": max_jobs, "extrapolate": extrapolate}
    workload = Workload(
        build_profile(jobs),
        order,
        arrivals[order] - arrivals.min(),
        Provenance(f"alibaba-2018 {file.name}", settings),
    )
    return workload, report


def _state_assumptions(report: ImportReport, has_means: bool, extrapolate: bool) -> None:
    report.assume(
        "an instance takes its task's mean instance duration"
        if has_means
        else "an instance takes as long as its whole task (end - start): all instances ran at once"
    )
    report.assume("a job arrives when its first task starts; memory is relative to the largest plan_mem")
    if not extrapolate:
        report.assume("durations do not grow with the number of executors: the trace cannot tell")


def _rows(
    path: Path, *, subset: str | None, max_jobs: int, keep_going: bool, report: ImportReport
) -> list[Row]:
    """Rows of the wanted jobs, sorted by job; garbled ones are refused or, if asked, counted."""
    frame = _scan(path, subset=subset)
    numbers = {
        "instance_num": pl.Int64,
        "start_time": pl.Int64,
        "end_time": pl.Int64,
        "plan_mem": pl.Float64,
        "mean_instance_duration": pl.Float64,
    }
    read = [_number(name, kind).alias(f"{name}_read") for name, kind in numbers.items()]
    garbled = pl.any_horizontal(
        *(pl.col(name).is_not_null() & pl.col(f"{name}_read").is_null() for name in numbers),
        pl.col("job_name").is_null(),
        pl.col("task_name").is_null(),
    )
    frame = frame.with_columns(read).with_columns(garbled.alias("garbled"))
    # A start of 0 stands for "before the trace".
    start = pl.col("start_time_read").replace(0, None)
    first = start.min().over("job_name").alias("job_start")
    wanted = (
        frame.filter(~pl.col("garbled"))
        .group_by("job_name")
        .agg(start.min().alias("job_start"))
        .sort("job_start", "job_name", nulls_last=True)
    )
    try:
        bad = frame.filter("garbled").select("line").collect(engine="streaming")["line"].to_list()
        job_names = wanted.collect(engine="streaming")["job_name"]
        kept = job_names.head(max_jobs)
        table = (
            frame.filter(~pl.col("garbled"))
            .filter(pl.col("job_name").is_in(kept.implode()))
            .with_columns(first)
            .sort("job_start", "job_name", "line", nulls_last=True)
            .collect(engine="streaming")
        )
    except pl.exceptions.PolarsError as problem:
        said = str(problem).splitlines()[0]
        raise HistoryError(f"{path}: not a CSV of tasks ({said}); name batch_task.csv") from None
    if bad and not keep_going:
        raise HistoryError(
            f"{path}: line {bad[0]} holds something other than numbers; mend it, or import what is "
            "sound with --keep-going"
        )
    report.lose("lines", len(bad))
    report.count("lines", len(table))
    report.drop("job beyond max_jobs", len(job_names) - len(kept))
    columns = ["job_name", "task_name", "instance_num_read", "status", "start_time_read"]
    columns += ["end_time_read", "plan_mem_read", "mean_instance_duration_read"]
    return [Row(*values) for values in table.select(columns).iter_rows()]


def _number(name: str, kind: type[pl.DataType]) -> pl.Expr:
    """A column of text as numbers; null where it holds anything else, such as `inf`."""
    number = pl.col(name).cast(kind, strict=False)
    return pl.when(number.is_finite()).then(number)


def _scan(path: Path, *, subset: str | None) -> pl.LazyFrame:
    """All columns as text with the original names, whatever the file calls them."""
    header = next(csv.reader([_first_line(path)]))
    names = [OTHER_NAMES.get(name, name) for name in header]
    has_header = set(NEEDED) <= set(names)
    if not has_header:
        if len(header) != len(ORIGINAL_COLUMNS):
            raise HistoryError(
                f"{path}: {len(header)} columns, batch_task.csv has {len(ORIGINAL_COLUMNS)}; name "
                "that file, or give a header with " + ", ".join(NEEDED)
            )
        names = list(ORIGINAL_COLUMNS)
    if subset is not None and "subset" not in names:
        raise HistoryError(f"{path}: has no column subset to look for {subset!r} in; leave subset out")
    frame = pl.scan_csv(
        path,
        has_header=has_header,
        new_columns=names,
        infer_schema=False,
        null_values=["", "nan", "NaN"],
        row_index_name="line",
        row_index_offset=2 if has_header else 1,
    )
    missing = [n for n in ("status", "plan_mem", "mean_instance_duration") if n not in names]
    frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
    if "subset" in names:
        if subset is not None:
            frame = frame.filter(pl.col("subset") == subset)
        frame = frame.with_columns(pl.concat_str("subset", "job_name", separator="-").alias("job_name"))
    return frame


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_gzip else path.open("rb") as file:
            # Spreadsheets begin a file with a mark of its encoding.
            text = file.readline(10_000).decode("utf-8-sig").strip()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise HistoryError(f"{path}: cannot be read ({problem}); copy it again") from None
    if not text:
        raise HistoryError(f"{path}: is empty; name batch_task.csv of the trace")
    return text


def _stages(
    rows: Sequence[Row], largest_memory: float, points: Sequence[int], report: ImportReport
) -> list[StageRecord]:
    numbers = [_number_and_parents(row.task) for row in rows]
    place = {number: position for position, (number, _) in enumerate(numbers) if number is not None}
    if len(place) < sum(number is not None for number, _ in numbers):
        raise Unusable("two tasks of the same number")
    parents = []
    for number, above in numbers:
        if any(parent not in place for parent in above):
            raise Unusable("a task waits for one that is not in the trace")
        if number in above:
            raise Unusable("tasks wait for one another")
        parents.append([place[parent] for parent in above])
    _refuse_cycle(parents)
    return [
        _stage(row, above, largest_memory, points, report) for row, above in zip(rows, parents, strict=True)
    ]


def _number_and_parents(task_name: str) -> tuple[int | None, list[int]]:
    """The number in a task's name and those it waits for; a name without them stands alone.

    >>> _number_and_parents("J3_1_2"), _number_and_parents("task_Nzg3ODAw==")
    ((3, [1, 2]), (None, []))
    """
    matched = DAG_NAME.fullmatch(task_name)
    if matched is None:
        if LIKE_DAG_NAME.match(task_name):
            raise Unusable("a task's name is cut off")
        return None, []
    return int(matched[1]), [int(parent) for parent in matched[2].split("_") if parent]


def _refuse_cycle(parents: Sequence[Sequence[int]]) -> None:
    waiting = {position: set(above) for position, above in enumerate(parents)}
    while ready := [position for position, above in waiting.items() if not above & waiting.keys()]:
        for position in ready:
            del waiting[position]
    if waiting:
        raise Unusable("tasks wait for one another")


def _nearest(points: Sequence[int], instances: int) -> int:
    return min(points, key=lambda point: abs(log(point / instances)))


def _stage(
    row: Row,
    parents: Sequence[int],
    largest_memory: float,
    points: Sequence[int],
    report: ImportReport,
) -> StageRecord:
    if row.status is not None and row.status != "Terminated":
        raise Unusable(f"a task has status {row.status}")
    if not row.instances or row.instances < 1:
        raise Unusable("a task has no number of instances")
    if row.instances > MOST_TASKS:
        raise Unusable(f"a task has more than {MOST_TASKS:,} instances")
    if not row.start_s or not row.end_s:
        raise Unusable("a task started or ended outside the trace")
    duration_ms = (row.end_s - row.start_s) * 1000
    if duration_ms < 0:
        raise Unusable("a task ends before it starts")
    if row.has_mean:
        duration_ms = round((row.mean_s or 0.0) * 1000)
    if duration_ms > LONGEST_TASK_MS:
        raise Unusable("a task takes more than 24 days")
    if duration_ms < SHORTEST_MS:
        duration_ms = SHORTEST_MS
        report.assume(f"spans of 0 s (the clock ticks in seconds) are {SHORTEST_MS} ms")
    instances = row.instances
    return StageRecord(
        tasks=instances,
        parents=parents,
        later_wave={_nearest(points, instances): [duration_ms]},
        memory=row.memory_share / largest_memory,
        name=row.task,
    )
