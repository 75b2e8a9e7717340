"""Where agents practise: whether the jobs they are to learn from can run on the clusters they are given."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.core.errors import SettingsError
from trimtab.gpu_scheduling.cluster import GpuType
from trimtab.gpu_scheduling.simulator.tables import refuse_misfits
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, all_jobs

__all__ = ["check_grounds"]


def check_grounds(
    clusters: Sequence[str], gpu_types: Sequence[GpuType], workloads: Sequence[WorkloadSettings]
) -> None:
    """Refuse unknown workloads and clusters, GPUs that cost nothing, and jobs that could never start.

    >>> check_grounds(["das-small"], [], [WorkloadSettings()])
    """
    for name in dict.fromkeys(clusters):
        machines = find_cluster(name, gpu_types).machine_table
        free = machines.gpu_type[machines.price == 0]
        if len(free):
            raise SettingsError(
                f"GPU model {machines.types[free[0]].name!r} of {name} costs nothing, and fees are measured "
                "beside those of a rule; give it any price in gpu_types (fee_weight = 0: fees do not count)"
            )
    for workload in workloads:
        jobs = all_jobs(workload)
        for name in dict.fromkeys(clusters):
            refuse_misfits(jobs, find_cluster(name, gpu_types), on=name)
