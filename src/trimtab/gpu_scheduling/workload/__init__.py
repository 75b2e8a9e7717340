"""What arrives at a GPU cluster: jobs as arrays, generators, and workloads by name."""

from trimtab.gpu_scheduling.workload.jobs import (
    Provenance,
    Workload,
    load_workload,
    make_workload,
    save_workload,
)

__all__ = ["Provenance", "Workload", "load_workload", "make_workload", "save_workload"]
