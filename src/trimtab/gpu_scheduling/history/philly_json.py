"""Import the job log of Microsoft's Philly (`cluster_job_log`, JSON; Jeon et al., ATC 2019).

A list of jobs {status, vc, jobid, user, submitted_time, attempts}; an attempt has start_time, end_time and in
`detail` the GPUs on every machine. Jobs have no names, so those of one user and virtual cluster are a group.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.tables import LINE, NOTHING, Reading, seconds_of
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file, load_json

__all__ = ["import_philly_json"]

WAY_OUT = "name the cluster_job_log of the Philly traces"
COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    LINE: pl.Int64,
    "id": pl.String,
    "user": pl.String,
    "name": pl.String,
    "arrival_s": pl.Float64,
    "start_s": pl.Float64,
    "duration_s": pl.Float64,
    "gpus": pl.Float64,
    "nodes": pl.Float64,
}


class Useless(Exception):
    """Why a job that is sound cannot become one of the workload."""


def import_philly_json(
    path: str, *, keep_going: bool = False, only_completed: bool = False
) -> tuple[Workload, ImportReport]:
    """Read jobs with the time of all their attempts, and the machines and GPUs of the largest attempt.

    Failed and killed jobs are kept unless `only_completed`: they held their GPUs. Waiting between attempts
    does not count as running. In messages, "line" is the position of a job in the list, from 1.

    >>> from pathlib import Path
    >>> attempt = '{"start_time": "5", "end_time": "65", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}'
    >>> job = f'{{"jobid": "a", "user": "u", "submitted_time": "0", "attempts": [{attempt}]}}'
    >>> _ = Path("cluster_job_log").write_text(f"[{job}]")
    >>> jobs, report = import_philly_json("cluster_job_log")
    >>> jobs.duration_ms.tolist()
    [60000]
    """
    reading = Reading(find_file(path, "cluster_job_log*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    jobs = load_json(reading.path, way_out=WAY_OUT)
    if not isinstance(jobs, list):
        raise HistoryError(f"{reading.path}: not a list of jobs; {WAY_OUT}")
    rows: list[dict[str, Any]] = []
    for number, job in enumerate(jobs, start=1):
        try:
            if only_completed and job["status"] != "Pass":
                raise Useless("job that did not complete")
            rows.append({LINE: number, **_row(job, report)})
        except Useless as reason:
            report.drop(str(reason))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            said = f"no {problem}" if isinstance(problem, KeyError) else str(problem)
            reading.refuse(f"job {number}", f"not a job of the log ({said})", lost="jobs")
    report.count("rows", len(jobs))
    report.assume("a job runs for the sum of its attempts")
    frame = pl.DataFrame(rows, schema=COLUMNS)
    settings = {"only_completed": only_completed}
    return workload_from(reading, frame, source=f"philly {reading.path.name}", settings=settings), report


def _row(job: dict[str, Any], report: ImportReport) -> dict[str, Any]:
    attempts: list[dict[str, Any]] = job["attempts"]
    if not attempts:
        raise Useless("job that never started")
    if _seconds(attempts[-1].get("end_time")) is None:
        raise Useless("job that still runs")
    duration_s, starts = 0.0, []
    for attempt in attempts:
        start, end = _seconds(attempt.get("start_time")), _seconds(attempt.get("end_time"))
        if start is None or end is None:
            report.drop("attempt without times")
        else:
            if end < start:
                raise ValueError(f"an attempt ends before it starts, at {attempt['end_time']}")
            duration_s += end - start
            starts.append(start)
    held = max(
        ([len(machine["gpus"]) for machine in attempt["detail"]] for attempt in attempts), key=sum, default=[]
    )
    held = [count for count in held if count]
    arrival_s = _seconds(job["submitted_time"])
    if arrival_s is None:
        raise ValueError("no submitted_time")
    return {
        "id": str(job["jobid"]),
        "user": str(job["user"]),
        "name": str(job.get("vc", "")),
        "arrival_s": arrival_s,
        "start_s": min(starts, default=None),
        "duration_s": duration_s,
        "gpus": float(sum(held)),
        # Uneven over machines: not told, so that every GPU is an instance.
        "nodes": float(len(held)) if len(set(held)) == 1 else None,
    }


def _seconds(cell: str | None) -> float | None:
    if cell is None or cell in NOTHING:
        return None
    # Some copies end with a zone, such as PST.
    seconds = seconds_of(cell.rstrip(" PSDT"))
    if seconds is None:
        raise ValueError(f"{cell!r} is no time")
    return seconds
