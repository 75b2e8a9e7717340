"""Import the job log of a Helios cluster (`cluster_log.csv`; Hu et al., SC 2021), or one like it.

Columns: job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time, duration,
queue, and in some copies jobname. Times are dates on the cluster's clock, durations seconds.
"""

from __future__ import annotations

import polars as pl

from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.tables import Reading, read_table
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file

__all__ = ["import_helios_cluster_log"]

NEEDED = ("job_id", "gpu_num", "submit_time", "start_time", "end_time")
WAY_OUT = "name cluster_log.csv of a Helios cluster"
UNFINISHED = ("RUNNING", "PENDING", "SUSPENDED", "REQUEUED")


def import_helios_cluster_log(
    path: str, *, keep_going: bool = False, vc: str | None = None, only_completed: bool = False
) -> tuple[Workload, ImportReport]:
    """Read GPU jobs of all virtual clusters, or of `vc`; failed and cancelled ones held GPUs, too.

    A duration is end less start. An instance is what a job has on one of its nodes.

    >>> from pathlib import Path
    >>> head = "job_id,gpu_num,node_num,submit_time,start_time,end_time\\n"
    >>> _ = Path("cluster_log.csv").write_text(head + "1,16,2,0,5,65\\n")
    >>> jobs, report = import_helios_cluster_log("cluster_log.csv")
    >>> jobs.instances.tolist(), jobs.gpu_milli.tolist()
    ([2], [8000])
    """
    reading = Reading(find_file(path, "cluster_log*.csv*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=WAY_OUT, lower=True)
    reading.need(frame, NEEDED, WAY_OUT)
    if vc is not None:
        reading.need(frame, ["vc"], WAY_OUT)
        frame = reading.dropping(
            frame, pl.col("vc").ne_missing(vc), f"job of another virtual cluster than {vc}"
        )
    if "state" in frame.columns:
        frame = reading.dropping(frame, pl.col("state").is_in(UNFINISHED), "job that still runs")
        if only_completed:
            frame = reading.dropping(
                frame, pl.col("state").ne_missing("COMPLETED"), "job that did not complete"
            )
    elif only_completed:
        reading.need(frame, ["state"], WAY_OUT)
    frame = reading.numbers(frame, "gpu_num", "cpu_num", "node_num")
    frame = reading.times(frame, "submit_time", "start_time", "end_time")
    frame = reading.dropping(frame, pl.col("gpu_num") == 0, "job without GPUs")
    frame = reading.dropping(frame, pl.col("start_time").is_null(), "job that never started")
    frame = reading.dropping(frame, pl.col("end_time").is_null(), "job that still runs")
    users = [name for name in ("vc", "user") if name in frame.columns]
    frame = frame.select(
        "line",
        pl.col("job_id").alias("id"),
        pl.col("submit_time").alias("arrival_s"),
        pl.col("start_time").alias("start_s"),
        (pl.col("end_time") - pl.col("start_time")).alias("duration_s"),
        pl.col("gpu_num").alias("gpus"),
        pl.col("node_num").alias("nodes"),
        pl.col("cpu_num").alias("cpus"),
        (pl.concat_str(users, separator="/", ignore_nulls=True) if users else pl.lit(None, pl.String)).alias(
            "user"
        ),
        (pl.col("jobname") if "jobname" in frame.columns else pl.lit(None, pl.String)).alias("name"),
    )
    settings = {"vc": vc, "only_completed": only_completed}
    return workload_from(reading, frame, source=f"helios {reading.path.name}", settings=settings), report
