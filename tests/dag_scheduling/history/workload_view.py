"""Look into a workload as into plain lists, to compare it with numbers worked out by hand."""

from __future__ import annotations

from trimtab.dag_scheduling.workload import Workload


def stages_of(workload: Workload, job: int = 0) -> dict[str, tuple[int, list[str]]]:
    """Stage name → (tasks, names of the stages it waits for)."""
    profile = workload.profile
    template = int(workload.template[job])
    first, last = profile.stage_offset[template : template + 2]
    stages = {}
    for row in range(first, last):
        parents = profile.parent[profile.parent_offset[row] : profile.parent_offset[row + 1]]
        names = [profile.stage_names[first + parent] for parent in parents]
        stages[profile.stage_names[row]] = (int(profile.tasks[row]), names)
    return stages


def durations_of(workload: Workload, stage: str, wave: int, job: int = 0) -> dict[int, list[int]]:
    """Number of executors → recorded durations, where there are any."""
    profile = workload.profile
    template = int(workload.template[job])
    first, last = profile.stage_offset[template : template + 2]
    row = first + list(profile.stage_names[first:last]).index(stage)
    found = {}
    for column, point in enumerate(profile.points.tolist()):
        start = profile.duration_offset[row, wave, column]
        values = profile.durations_ms[start : start + profile.duration_count[row, wave, column]]
        if len(values):
            found[point] = values.tolist()
    return found


def names_of(workload: Workload) -> list[str]:
    """Names of the jobs in order of arrival."""
    return [workload.profile.names[template] for template in workload.template]
