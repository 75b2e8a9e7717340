"""Kinds of jobs: their DAGs and how long their tasks take, as arrays.

A *job record* is what an importer or generator writes down about one kind of job; a `Profile` holds
many of them as flat arrays. Task durations come in three kinds, after Decima (SIGCOMM'19): `FRESH`
(the executor has just come to the job), `FIRST_WAVE` (its first task of this stage) and `LATER_WAVE`
(it has just done another task of this stage), each recorded with some numbers of executors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError

__all__ = [
    "FIRST_WAVE",
    "FRESH",
    "LATER_WAVE",
    "LONGEST_TASK_MS",
    "MOST_TASKS",
    "JobRecord",
    "Profile",
    "StageRecord",
    "WaveDurations",
    "build_profile",
]

FRESH, FIRST_WAVE, LATER_WAVE = 0, 1, 2
WAVE_NAMES = ("fresh", "first wave", "later wave")
LONGEST_TASK_MS = 24 * 24 * 3600 * 1000
"""A task of more than 24 days is taken for a wrong unit; 32 bits hold 24.8 days of milliseconds."""
MOST_TASKS = 10_000_000
"""A stage of more tasks is taken for a mistake; the largest in public traces have 100,000."""

WaveDurations = Mapping[int, Sequence[int]]
"""Number of executors of the job → durations in milliseconds seen with that many."""


@dataclass(frozen=True)
class StageRecord:
    """One stage: `tasks` equal tasks that may start when all parents have finished.

    `parents` are positions in the job's list of stages. Kinds of duration that were never seen may be
    left empty; at least one kind needs values.
    """

    tasks: int
    parents: Sequence[int] = ()
    fresh: WaveDurations = field(default_factory=dict)
    first_wave: WaveDurations = field(default_factory=dict)
    later_wave: WaveDurations = field(default_factory=dict)
    memory: float = 0.0
    """Memory an executor needs, as a share of the largest executor."""
    name: str = ""
    usual_ms: float | None = None
    """What schedulers are told a task takes; by default the mean over everything recorded."""

    @property
    def waves(self) -> tuple[WaveDurations, WaveDurations, WaveDurations]:
        return (self.fresh, self.first_wave, self.later_wave)

    @property
    def told_ms(self) -> float | None:
        """`usual_ms`, or else the mean over all durations; None where there are none."""
        if self.usual_ms is not None:
            return self.usual_ms
        values = [value for wave in self.waves for values in wave.values() for value in values]
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class JobRecord:
    """One kind of job.

    >>> scan = StageRecord(tasks=8, later_wave={1: [1000]}, name="scan")
    >>> join = StageRecord(tasks=2, parents=[0], later_wave={1: [500]}, name="join")
    >>> build_profile([JobRecord("report", [scan, join])]).work_ms.tolist()
    [9000.0]
    """

    name: str
    stages: Sequence[StageRecord]


@dataclass(frozen=True, eq=False)
class Profile:
    """Many kinds of jobs as flat arrays; row `stage_offset[t] + s` is stage `s` of template `t`.

    Stages are in topological order. `durations_ms[duration_offset[row, wave, k] :][: duration_count[row,
    wave, k]]` are the sorted durations recorded with `points[k]` executors.
    """

    names: tuple[str, ...]
    stage_names: tuple[str, ...]
    stage_offset: NDArray[np.int64]
    tasks: NDArray[np.int64]
    memory: NDArray[np.float64]
    parent_offset: NDArray[np.int64]
    parent: NDArray[np.int64]
    child_offset: NDArray[np.int64]
    child: NDArray[np.int64]
    points: NDArray[np.int64]
    duration_offset: NDArray[np.int64]
    duration_count: NDArray[np.int64]
    durations_ms: NDArray[np.int32]
    task_ms: NDArray[np.float64]  # by row: what schedulers are told a task takes

    @property
    def template_count(self) -> int:
        return len(self.names)

    @property
    def stage_count(self) -> NDArray[np.int64]:
        """Stages of each template."""
        return np.diff(self.stage_offset)

    @property
    def work_ms(self) -> NDArray[np.float64]:
        """Executor-milliseconds of each template: tasks times usual duration."""
        return np.add.reduceat(self.tasks * self.task_ms, self.stage_offset[:-1])

    @property
    def task_count(self) -> NDArray[np.int64]:
        """Tasks of each template."""
        return np.add.reduceat(self.tasks, self.stage_offset[:-1])


def build_profile(jobs: Sequence[JobRecord]) -> Profile:
    """Check job records and lay them out as arrays; stages are put in topological order."""
    if not jobs:
        raise WorkloadError("the history holds no job; nothing to build a workload from")
    repeated = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if repeated:
        raise WorkloadError(f"job {repeated[0]!r} appears twice; give every job a name of its own")
    ordered = [_checked(job) for job in jobs]
    stages = [stage for job in ordered for stage in job.stages]
    points = np.array(sorted({count for stage in stages for wave in stage.waves for count in wave}), np.int64)
    offset, count, durations = _duration_table(stages, points)
    parent_offset, parent = _ragged([stage.parents for stage in stages])
    child_offset, child = _ragged([row for job in ordered for row in _children(job)])
    return Profile(
        names=tuple(job.name for job in ordered),
        stage_names=tuple(stage.name for stage in stages),
        stage_offset=np.cumsum([0, *(len(job.stages) for job in ordered)], dtype=np.int64),
        tasks=np.array([stage.tasks for stage in stages], np.int64),
        memory=np.array([stage.memory for stage in stages], np.float64),
        parent_offset=parent_offset,
        parent=parent,
        child_offset=child_offset,
        child=child,
        points=points,
        duration_offset=offset,
        duration_count=count,
        durations_ms=durations,
        task_ms=np.array([stage.told_ms for stage in stages], np.float64),
    )


def _checked(job: JobRecord) -> JobRecord:
    """The same job with stages in topological order, or the reason why it cannot be scheduled."""
    if not job.stages:
        raise WorkloadError(f"job {job.name!r} has no stages; drop it or export it again")
    for position, stage in enumerate(job.stages):
        _check_stage(job, position, stage)
    order = _topological_order(job)
    place = {old: new for new, old in enumerate(order)}
    stages = []
    for old in order:
        stage = job.stages[old]
        parents = tuple(sorted({place[parent] for parent in stage.parents}))
        stages.append(replace(stage, parents=parents, name=stage.name or f"stage {old}"))
    return JobRecord(job.name, stages)


def _check_stage(job: JobRecord, position: int, stage: StageRecord) -> None:
    where = f"job {job.name!r}, stage {stage.name or position}"
    if stage.tasks < 1:
        raise WorkloadError(f"{where}: {stage.tasks} tasks; a stage needs at least one task")
    if stage.tasks > MOST_TASKS:
        raise WorkloadError(
            f"{where}: {stage.tasks} tasks; a stage has at most {MOST_TASKS}, check the number"
        )
    missing = [parent for parent in stage.parents if not 0 <= parent < len(job.stages)]
    if missing:
        raise WorkloadError(
            f"{where} depends on stage {missing[0]}, which is not in the job; re-export with complete DAGs"
        )
    if not 0.0 <= stage.memory <= 1.0:
        raise WorkloadError(f"{where}: memory {stage.memory} is not a share between 0 and 1")
    if not any(len(values) for wave in stage.waves for values in wave.values()):
        raise WorkloadError(f"{where}: no task duration was recorded; drop the job or record it again")
    if stage.usual_ms is not None and not 0 <= stage.usual_ms <= LONGEST_TASK_MS:
        raise WorkloadError(
            f"{where}: usual task duration {stage.usual_ms} ms is out of range, check the unit"
        )
    for wave in stage.waves:
        for executors, values in wave.items():
            if executors < 1:
                raise WorkloadError(
                    f"{where}: durations recorded with {executors} executors; need at least 1"
                )
            for value in values:
                if not (value == 0 or 1 <= value <= LONGEST_TASK_MS):
                    raise WorkloadError(
                        f"{where}: a task of {value} ms; expected 0, or 1 to {LONGEST_TASK_MS} ms (24 days), "
                        "check the unit"
                    )


def _topological_order(job: JobRecord) -> list[int]:
    waiting = {position: set(stage.parents) for position, stage in enumerate(job.stages)}
    order: list[int] = []
    while waiting:
        ready = [position for position, parents in waiting.items() if not parents]
        if not ready:
            names = ", ".join(job.stages[p].name or str(p) for p in list(waiting)[:5])
            raise WorkloadError(
                f"job {job.name!r} has a cycle through stages {names}; a DAG job must not wait for itself"
            )
        position = ready[0]
        order.append(position)
        del waiting[position]
        for parents in waiting.values():
            parents.discard(position)
    return order


def _children(job: JobRecord) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in job.stages]
    for position, stage in enumerate(job.stages):
        for parent in stage.parents:
            children[parent].append(position)
    return children


def _ragged(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    offset = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return offset, np.array([value for row in rows for value in row], np.int64)


def _duration_table(
    stages: Sequence[StageRecord], points: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    column = {int(point): k for k, point in enumerate(points)}
    offset = np.zeros((len(stages), 3, len(points)), np.int64)
    count = np.zeros_like(offset)
    lists: list[NDArray[np.int32]] = []
    used = 0
    for row, stage in enumerate(stages):
        for wave, by_executors in enumerate(stage.waves):
            for executors, values in by_executors.items():
                # Sorted, so that one random number means the same luck with any number of executors.
                lists.append(np.sort(np.asarray(values, np.float64).round().astype(np.int32)))
                offset[row, wave, column[executors]] = used
                count[row, wave, column[executors]] = len(values)
                used += len(values)
    return offset, count, np.concatenate(lists)
