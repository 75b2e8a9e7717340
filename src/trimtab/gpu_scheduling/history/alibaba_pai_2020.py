"""Import Alibaba's GPU trace of 2020 (PAI; Weng et al., NSDI 2022) from its raw tables without headers.

    pai_task_table       job_name, task_name, inst_num, status, start_time, end_time, plan_cpu, plan_mem,
                         plan_gpu, gpu_type
    pai_job_table        job_name, inst_id, user, status, start_time, end_time
    pai_group_tag_table  inst_id, user, gpu_type_spec, group, workload
    pai_machine_spec     machine, gpu_type, cap_cpu, cap_mem, cap_gpu

Needed is the table of tasks. That of jobs, in the same folder, tells users and when a job was submitted; that
of groups tells which tasks are alike. plan_cpu and plan_gpu are percent of one, of every instance; plan_mem
is GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.machines import write_machines
from trimtab.gpu_scheduling.history.tables import LINE, Reading, read_table
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file

__all__ = ["import_alibaba_pai_2020", "write_pai_machines"]

TASKS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
GROUPS = ("inst_id", "user", "gpu_type_spec", "group", "workload")
MACHINES = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
WAY_OUT = "name pai_task_table.csv, or the folder it is in"
MACHINES_WAY_OUT = "name pai_machine_spec.csv"


def import_alibaba_pai_2020(
    path: str, *, keep_going: bool = False, only_completed: bool = False, keep_gpu_type: bool = False
) -> tuple[Workload, ImportReport]:
    """Read every task with GPUs as a job: a gang of as many instances as the task has.

    A job comes when it was submitted or, without the table of jobs, when the task started. Failed tasks are
    kept unless `only_completed`: they held their GPUs. The type of GPU a task was given is not taken for one
    it must have, unless `keep_gpu_type`.

    >>> row = "j,worker,2.0,Terminated,100.0,160.0,600.0,29.3,50.0,T4\\n"
    >>> _ = Path("pai_task_table.csv").write_text(row)
    >>> jobs, report = import_alibaba_pai_2020("pai_task_table.csv")
    >>> jobs.instances.tolist(), jobs.gpu_milli.tolist()
    ([2], [500])
    """
    reading = Reading(find_file(path, "pai_task_table*.csv*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=WAY_OUT, names=TASKS)
    frame = reading.dropping(frame, pl.col("status").is_in(["Running", "Waiting"]), "task that still runs")
    if only_completed:
        frame = reading.dropping(
            frame, pl.col("status").ne_missing("Terminated"), "task that did not complete"
        )
    frame = reading.numbers(frame, "inst_num", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu")
    frame = reading.dropping(
        frame, pl.col("plan_gpu").is_null() | (pl.col("plan_gpu") == 0), "task without GPUs"
    )
    frame = reading.dropping(frame, pl.col("inst_num").is_null(), "task without a number of instances")
    outside = pl.col("start_time").is_null() | pl.col("end_time").is_null() | (pl.col("start_time") == 0)
    frame = reading.dropping(frame, outside, "task that started or ended outside the trace")
    frame = _with_submission(reading, frame)
    each = pl.col("inst_num")
    frame = frame.select(
        LINE,
        pl.concat_str("job_name", "task_name", separator="/", ignore_nulls=True).alias("id"),
        "arrival_s",
        pl.col("start_time").alias("start_s"),
        (pl.col("end_time") - pl.col("start_time")).alias("duration_s"),
        each.alias("instances"),
        (pl.col("plan_gpu") * 10).round().alias("gpu_milli"),
        (pl.col("plan_cpu") / 100 * each).alias("cpus"),
        (pl.col("plan_mem") * 1024 * each).alias("memory_mib"),
        "user",
        "name",
        (pl.col("gpu_type") if keep_gpu_type else pl.lit(None, pl.String)).alias("models"),
    )
    report.assume("a task is a job of its own; tasks of one job do not wait for each other")
    settings = {"only_completed": only_completed, "keep_gpu_type": keep_gpu_type}
    source = f"alibaba-pai-2020 {reading.path.name}"
    return workload_from(reading, frame, source=source, settings=settings, begins_at_0=True), report


def _with_submission(reading: Reading, tasks: pl.DataFrame) -> pl.DataFrame:
    """Add when the job came, its user, and the name of what is alike."""
    jobs = _beside(reading, "pai_job_table", JOBS)
    if jobs is None:
        reading.report.assume(
            "a task comes when it starts, since there is no pai_job_table: waiting is not told"
        )
        return tasks.with_columns(
            pl.col("start_time").alias("arrival_s"),
            pl.lit(None, pl.String).alias("user"),
            pl.col("task_name").alias("name"),
        )
    jobs = jobs.unique("job_name", keep="first", maintain_order=True)
    jobs = jobs.select(
        "job_name", "inst_id", "user", pl.col("start_time").cast(pl.Float64, strict=False).alias("sent")
    )
    tasks = tasks.join(jobs, on="job_name", how="left", maintain_order="left")
    known = tasks["inst_id"].is_not_null()
    reading.report.fill("tasks of jobs that pai_job_table does not have", int((~known).sum()))
    unsent = int((known & tasks["sent"].is_null()).sum())
    reading.report.fill("tasks of jobs whose submission is not told: they come when they start", unsent)
    groups = _beside(reading, "pai_group_tag_table", GROUPS)
    if groups is None:
        tasks = tasks.with_columns(pl.lit(None, pl.String).alias("group"))
    else:
        groups = groups.unique("inst_id", keep="first", maintain_order=True).select("inst_id", "group")
        tasks = tasks.join(groups, on="inst_id", how="left", maintain_order="left")
    # A group is a hash that may end in digits, which are no number of a run.
    alike = pl.concat_str(pl.col("group"), pl.lit("."), pl.col("task_name"))
    return tasks.with_columns(
        pl.coalesce("sent", "start_time").alias("arrival_s"),
        pl.coalesce(alike, "task_name").alias("name"),
    )


def _beside(reading: Reading, name: str, columns: Sequence[str]) -> pl.DataFrame | None:
    """Another table of the same folder, if it is there."""
    folder, pattern = reading.path.parent, f"{name}*.csv*"
    if not any(folder.glob(pattern)):
        return None
    way_out = f"name a folder with {name}.csv as published"
    beside = Reading(find_file(folder, pattern, way_out), keep_going=reading.keep_going)
    frame = read_table(beside, way_out=way_out, names=columns)
    reading.report.count(f"rows of {name}", beside.report.read["rows"])
    reading.report.lose(f"rows of {name}", sum(beside.report.lost.values()))
    return frame


def write_pai_machines(path: str, out: Path, *, keep_going: bool = False) -> ImportReport:
    """Turn `pai_machine_spec` into a table for `Cluster(table=...)`.

    Models such as MISC are declared in `trimtab.gpu_scheduling.workload.clusters.TRACE_TYPES`.

    >>> _ = Path("pai_machine_spec.csv").write_text("a,MISC,96,512,8\\nb,CPU,96,512,0\\n")
    >>> write_pai_machines("pai_machine_spec.csv", Path("machines.csv")).read["machines"]
    1
    """
    reading = Reading(find_file(path, "pai_machine_spec*.csv*", MACHINES_WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=MACHINES_WAY_OUT, names=MACHINES)
    frame = reading.numbers(frame, "cap_cpu", "cap_mem", "cap_gpu")
    frame = frame.select(
        LINE,
        "machine",
        pl.col("cap_gpu").alias("gpus"),
        "gpu_type",
        pl.col("cap_cpu").alias("cpus"),
        pl.col("cap_mem").alias("memory_gib"),
    )
    write_machines(reading, frame, out)
    return report
