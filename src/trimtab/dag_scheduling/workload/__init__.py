"""What arrives at the cluster: kinds of jobs with recorded durations, and the jobs in time."""

from trimtab.dag_scheduling.workload.jobs import (
    Provenance,
    Workload,
    batch,
    load_workload,
    poisson,
    save_workload,
)
from trimtab.dag_scheduling.workload.profile import (
    FIRST_WAVE,
    FRESH,
    LATER_WAVE,
    JobRecord,
    Profile,
    StageRecord,
    build_profile,
)

__all__ = [
    "FIRST_WAVE",
    "FRESH",
    "LATER_WAVE",
    "JobRecord",
    "Profile",
    "Provenance",
    "StageRecord",
    "Workload",
    "batch",
    "build_profile",
    "load_workload",
    "poisson",
    "save_workload",
]
