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

_SHARED = "trimtab.rates"

HISTORY: Registry[Importer] = Registry(
    "history",
    {
        "common-log": f"{_SHARED}.common_log:import_common_log",
        "csv-counts": f"{_SHARED}.csv_counts:import_csv_counts",
        "flink": "trimtab.stream_autoscaling.history.flink:import_flink",
        "flink-rates": "trimtab.stream_autoscaling.history.flink_rates:import_flink_rates",
        "prometheus": f"{_SHARED}.prometheus:import_prometheus",
    },
    ENTRY_POINTS,
)
