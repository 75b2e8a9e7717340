"""Import a plain CSV of GPU jobs: when each came, how long it ran, how many GPUs it had.

The first line names the columns, in any order and case. Several names are understood:

    arrival    arrival_s, arrival_time, submit_s, submit_time, arrival, timestamp   (seconds, or dates)
    duration   duration_s, service_sec, service_s, runtime_s, duration              (seconds)
    GPUs       gpu_count, num_gpus, gpu_num, gpus
    id         id, job_id, jobid, job, row   (may be missing, like all below)
    user       user, user_id, vc, cluster
    name       task, name, job_name, jobname
    nodes      nodes, node_num, num_nodes
    models     gpu_type, gpu_model, gpu_spec  (V100, or V100|P100: it may run on these only)
"""

from __future__ import annotations

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.tables import Reading, read_table
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file

__all__ = ["import_gpu_jobs_csv"]

NAMES = {
    "arrival_s": ("arrival_s", "arrival_time", "submit_s", "submit_time", "arrival", "timestamp"),
    "duration_s": ("duration_s", "service_sec", "service_s", "runtime_s", "duration"),
    "gpus": ("gpu_count", "num_gpus", "gpu_num", "gpus"),
    "id": ("id", "job_id", "jobid", "job", "row"),
    "user": ("user", "user_id", "vc", "cluster"),
    "name": ("task", "name", "job_name", "jobname"),
    "nodes": ("nodes", "node_num", "num_nodes"),
    "models": ("gpu_type", "gpu_model", "gpu_spec"),
}
NEEDED = ("arrival_s", "duration_s", "gpus")
WAY_OUT = "give a CSV with columns arrival_s, duration_s and gpus"


def import_gpu_jobs_csv(
    path: str,
    *,
    keep_going: bool = False,
    arrival_column: str | None = None,
    duration_column: str | None = None,
    gpus_column: str | None = None,
) -> tuple[Workload, ImportReport]:
    """Read jobs from a CSV; `arrival_column` and the like name a column that is called something else.

    >>> from pathlib import Path
    >>> _ = Path("jobs.csv").write_text("arrival_s,duration_s,gpus\\n5,60,4\\n")
    >>> jobs, report = import_gpu_jobs_csv("jobs.csv")
    >>> jobs.gpu_ms.tolist()
    [240000.0]
    """
    reading = Reading(find_file(path, "*.csv*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=WAY_OUT, lower=True)
    asked = {"arrival_s": arrival_column, "duration_s": duration_column, "gpus": gpus_column}
    chosen: dict[str, str] = {}
    for wanted, names in NAMES.items():
        own = asked.get(wanted)
        found = [name for name in ((own.lower(),) if own else names) if name in frame.columns]
        if found:
            chosen[wanted] = found[0]
        elif own or wanted in NEEDED:
            tried = own or ", ".join(names)
            there = ", ".join(name for name in frame.columns if name != "line")
            raise HistoryError(f"{reading.path}: no column for {wanted} ({tried}); it has {there}; {WAY_OUT}")
    others = [name for name in frame.columns if name not in ("line", *chosen.values())]
    if others:
        report.assume(f"nothing else matters: not read are the columns {', '.join(others)}")
    frame = frame.select("line", *(frame[theirs].alias(ours) for ours, theirs in chosen.items()))
    is_clock = frame["arrival_s"].str.contains(":").any()
    frame = reading.numbers(reading.times(frame, "arrival_s"), "duration_s", "gpus", "nodes")
    if "id" in chosen:
        report.assume(f"jobs are told apart by {chosen['id']}")
    if not {"user", "name"} & chosen.keys():
        report.assume("users and names are not told: all jobs are of one group")
    settings = {"columns": chosen}
    workload = workload_from(
        reading,
        frame,
        source=f"gpu-jobs-csv {reading.path.name}",
        settings=settings,
        begins_at_0=not is_clock,
    )
    return workload, report
