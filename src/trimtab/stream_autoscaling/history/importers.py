"""The sources of history by name; other packages add theirs through entry points."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.import_report import ImportReport
from trimtab.core.registry import Registry
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["ENTRY_POINTS", "HISTORY", "Importer"]

ENTRY_POINTS = "trimtab.stream_history"
"""A group of its own: what is imported here is a trace or a job, not a workload of another wing."""

Importer = Callable[..., tuple[RateTrace | Job, ImportReport]]
"""`(path_or_url: str, *, keep_going: bool = False, ...)`; a source's own options have defaults."""

_HERE = "trimtab.stream_autoscaling.history"

HISTORY: Registry[Importer] = Registry(
    "history",
    {
        "common-log": f"{_HERE}.common_log:import_common_log",
        "csv-counts": f"{_HERE}.csv_counts:import_csv_counts",
        "flink": f"{_HERE}.flink:import_flink",
        "prometheus": f"{_HERE}.prometheus:import_prometheus",
    },
    ENTRY_POINTS,
)
