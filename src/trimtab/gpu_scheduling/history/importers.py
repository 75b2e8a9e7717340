"""The sources of history by name; other packages add theirs through entry points."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.import_report import ImportReport
from trimtab.core.registry import Registry
from trimtab.gpu_scheduling.workload import Workload

__all__ = ["ENTRY_POINTS", "HISTORY", "Importer"]

ENTRY_POINTS = "trimtab.gpu_history"
"""A group of its own: what is imported here are training jobs, not a workload of another wing."""

Importer = Callable[..., tuple[Workload, ImportReport]]
"""`(path: str, *, keep_going: bool = False, ...)`; a source's own options have defaults."""

_HERE = "trimtab.gpu_scheduling.history"

HISTORY: Registry[Importer] = Registry(
    "history",
    {
        "alibaba-pai-2020": f"{_HERE}.alibaba_pai_2020:import_alibaba_pai_2020",
        "gpu-jobs-csv": f"{_HERE}.gpu_jobs_csv:import_gpu_jobs_csv",
        "helios": f"{_HERE}.helios_cluster_log:import_helios_cluster_log",
        "kubernetes-pods": f"{_HERE}.kubernetes_pods:import_kubernetes_pods",
        "openb-2023": f"{_HERE}.openb_2023:import_openb_2023",
        "philly": f"{_HERE}.philly_json:import_philly_json",
        "slurm-sacct": f"{_HERE}.slurm_sacct:import_slurm_sacct",
        "swf": f"{_HERE}.standard_workload_format:import_standard_workload_format",
    },
    ENTRY_POINTS,
)
