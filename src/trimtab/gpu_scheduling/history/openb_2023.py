"""Import Alibaba's GPU trace of 2023 (openb; Weng et al., ATC 2023): lists of pods and of nodes.

Pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli (of one GPU), gpu_spec (`V100M16|V100M32`: it may run
on these only), qos, pod_phase, creation_time, deletion_time, scheduled_time (seconds). A pod is a job on one
node. Some lists of the same authors have no times.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.machines import write_machines
from trimtab.gpu_scheduling.history.tables import LINE, Reading, read_table
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file

__all__ = ["import_openb_2023", "write_openb_machines"]

NEEDED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
TIMES = ("creation_time", "scheduled_time", "deletion_time")
WAY_OUT = "name openb_pod_list_default.csv, or another list of pods"
NODES_WAY_OUT = "name openb_node_list_gpu_node.csv, or another list of nodes"


def import_openb_2023(
    path: str, *, keep_going: bool = False, keep_pending: bool = False, stay_s: float = 86_400.0
) -> tuple[Workload, ImportReport]:
    """Read pods with GPUs; they arrive when created and stay from when scheduled until deleted.

    Pods that were never scheduled are dropped; with `keep_pending` they stay from creation to deletion. In a
    list without times every pod comes a second after the one before and stays for `stay_s`.

    >>> from pathlib import Path
    >>> _ = Path("pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\\np,4000,1024,1,250\\n")
    >>> jobs, report = import_openb_2023("pods.csv", stay_s=60)
    >>> jobs.gpu_milli.tolist(), jobs.duration_ms.tolist()
    ([250], [60000])
    """
    reading = Reading(find_file(path, "openb_pod_list*.csv*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=WAY_OUT)
    reading.need(frame, NEEDED, WAY_OUT)
    without_times = not set(TIMES) & set(frame.columns)
    if not without_times:
        reading.need(frame, TIMES, WAY_OUT)
    frame = reading.numbers(frame, "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", *TIMES)
    frame = reading.dropping(frame, pl.col("num_gpu") == 0, "pod without GPUs")
    if without_times:
        frame = _with_made_up_times(frame, stay_s, report)
    elif keep_pending:
        unscheduled = frame["scheduled_time"].null_count()
        report.fill("pods that were never scheduled: they stay from creation to deletion", unscheduled)
        frame = frame.with_columns(pl.col("scheduled_time").fill_null(pl.col("creation_time")))
    else:
        frame = reading.dropping(frame, pl.col("scheduled_time").is_null(), "pod that was never scheduled")
    frame = reading.dropping(frame, pl.col("deletion_time").is_null(), "pod that still runs")
    spec = pl.col("gpu_spec") if "gpu_spec" in frame.columns else pl.lit(None, pl.String)
    frame = frame.select(
        LINE,
        pl.col("name").alias("id"),
        pl.col("creation_time").alias("arrival_s"),
        pl.col("scheduled_time").alias("start_s"),
        (pl.col("deletion_time") - pl.col("scheduled_time")).alias("duration_s"),
        pl.lit(1).alias("instances"),
        (pl.col("num_gpu") * pl.col("gpu_milli")).alias("gpu_milli"),
        (pl.col("cpu_milli") / 1000).alias("cpus"),
        "memory_mib",
        spec.alias("models"),
        (pl.col("qos") if "qos" in frame.columns else pl.lit(None, pl.String)).alias("name"),
    )
    report.assume("pods are told apart by their quality of service only: one group for each")
    settings = {"keep_pending": keep_pending} | ({"stay_s": stay_s} if without_times else {})
    source = f"openb-2023 {reading.path.name}"
    return workload_from(reading, frame, source=source, settings=settings, begins_at_0=True), report


def _with_made_up_times(frame: pl.DataFrame, stay_s: float, report: ImportReport) -> pl.DataFrame:
    report.fill(f"pods without times: one comes every second and stays for {stay_s:g} s", len(frame))
    moment = pl.int_range(pl.len()).cast(pl.Float64)
    return frame.with_columns(
        moment.alias("creation_time"),
        moment.alias("scheduled_time"),
        (moment + stay_s).alias("deletion_time"),
    )


def write_openb_machines(path: str, out: Path, *, keep_going: bool = False) -> ImportReport:
    """Turn a list of nodes (sn, cpu_milli, memory_mib, gpu, model) into a table for `Cluster(table=...)`.

    Models such as G2 are declared in `trimtab.gpu_scheduling.workload.clusters.TRACE_TYPES`.

    >>> _ = Path("nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\\nn,96000,393216,8,G2\\n")
    >>> write_openb_machines("nodes.csv", Path("machines.csv")).read["GPUs"]
    8
    """
    reading = Reading(find_file(path, "openb_node_list*.csv*", NODES_WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=NODES_WAY_OUT)
    reading.need(frame, ["sn", "cpu_milli", "memory_mib", "gpu", "model"], NODES_WAY_OUT)
    frame = reading.numbers(frame, "cpu_milli", "memory_mib", "gpu")
    frame = frame.select(
        LINE,
        pl.col("sn").alias("machine"),
        pl.col("gpu").alias("gpus"),
        pl.col("model").alias("gpu_type"),
        (pl.col("cpu_milli") / 1000).alias("cpus"),
        (pl.col("memory_mib") / 1024).alias("memory_gib"),
    )
    write_machines(reading, frame, out)
    return report
