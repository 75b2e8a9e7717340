"""The sources of history by name; other packages add theirs through entry points."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.import_report import ImportReport
from trimtab.core.registry import HISTORY_ENTRY_POINTS, Registry
from trimtab.dag_scheduling.workload import Workload

__all__ = ["HISTORY", "Importer"]


Importer = Callable[..., tuple[Workload, ImportReport]]
"""`(path_or_url: str, *, keep_going: bool = False, ...)`; a source's own options have defaults."""

_HERE = "trimtab.dag_scheduling.history"

HISTORY: Registry[Importer] = Registry(
    "history",
    {
        "spark": f"{_HERE}.spark_event_log:import_spark",
        "spark-server": f"{_HERE}.spark_history_server:import_spark_server",
        "alibaba-2018": f"{_HERE}.alibaba_2018:import_alibaba_2018",
        "wave-profile": f"{_HERE}.wave_profile:import_wave_profile",
    },
    HISTORY_ENTRY_POINTS,
)
