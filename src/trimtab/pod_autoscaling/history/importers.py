"""The sources of history by name; other packages add theirs through entry points."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.import_report import ImportReport
from trimtab.core.registry import Registry
from trimtab.pod_autoscaling.application import Application
from trimtab.rates.traces import RateTrace

__all__ = ["ENTRY_POINTS", "HISTORY", "Importer"]

ENTRY_POINTS = "trimtab.pod_history"
"""A group of its own: what is imported here is a trace or an application, not a workload of another wing."""

Importer = Callable[..., tuple[RateTrace | Application, ImportReport]]
"""`(path_or_url: str, *, keep_going: bool = False, ...)`; a source's own options have defaults."""

_HERE = "trimtab.pod_autoscaling.history"

HISTORY: Registry[Importer] = Registry(
    "history",
    {
        "azure-functions": f"{_HERE}.azure_functions:import_azure_functions",
        "azure-profile": f"{_HERE}.azure_profile:import_azure_profile",
        "common-log": "trimtab.rates.common_log:import_common_log",
        "csv-counts": "trimtab.rates.csv_counts:import_csv_counts",
        "prometheus": "trimtab.rates.prometheus:import_prometheus",
    },
    ENTRY_POINTS,
)
