"""Import Spark event logs: one file, rolled files, a zip, or a folder of many applications."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.inflation import EXECUTOR_POINTS
from trimtab.dag_scheduling.history.spark_applications import workload_of_applications
from trimtab.dag_scheduling.history.spark_log_events import read_application
from trimtab.dag_scheduling.history.spark_log_files import find_application_logs
from trimtab.dag_scheduling.workload import Workload

__all__ = ["import_spark"]


def import_spark(
    path: str,
    *,
    keep_going: bool = False,
    extrapolate: bool = True,
    executor_points: Sequence[int] = EXECUTOR_POINTS,
) -> tuple[Workload, ImportReport]:
    """Every finished query under `path` becomes one job that arrives when the query did.

    With `extrapolate`, stages also get durations at `executor_points`, from a work inflation curve.
    """
    report = ImportReport(str(path))
    logs = find_application_logs(Path(path), report)
    # A generator: one application's tasks are in memory at a time.
    applications = (read_application(log, keep_going=keep_going, report=report) for log in logs)
    workload = workload_of_applications(
        applications,
        source=f"spark {Path(path).resolve().name}",
        keep_going=keep_going,
        extrapolate=extrapolate,
        executor_points=executor_points,
        report=report,
    )
    return workload, report
