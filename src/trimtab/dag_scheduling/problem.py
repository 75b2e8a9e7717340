"""What a DAG scheduler sees, what it may decide, and what is good.

An executor that has nothing to do is offered to the policy together with all others of the same
*source* (the stage it worked on, the pool of its job, or the pool of the cluster). The policy
answers with a stage and a *parallelism limit* for the job of that stage, or with `LEAVE_IDLE`; it is
asked again until every executor of the source has a destination.

Everything here is plain numpy, so the same words serve the simulator and a live cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError

__all__ = [
    "LEAVE_IDLE",
    "NODE_FEATURES",
    "NOWHERE",
    "Action",
    "Command",
    "Observation",
    "Snapshot",
    "choices",
    "decode",
    "executors_sent",
    "observe",
]

NOWHERE = -1
"""In place of a job: the cluster's own pool. In place of a stage: none."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Snapshot(NamedTuple):
    """What an outsider can know at the moment of a decision.

    Jobs live in *slots*; `jobs` lists the occupied slots in order of arrival. The stages of the job in
    slot `j` are numbered `first_stage[j] … first_stage[j] + stage_count[j] - 1`, parents before
    children. Arrays "by job" are indexed by slot, arrays "by stage" by that number.
    """

    now_ms: int
    executor_count: int  # all executors of the cluster
    source_job: int  # slot of the job whose executors are to be placed, or NOWHERE
    free_executors: Integers  # by class: executors to place now
    may_idle: bool  # some executor is busy or will be, so leaving these idle cannot stop the cluster
    class_memory: Floats  # by class: memory of an executor, as a share of the largest
    arrival_gap_ms: float  # mean time between the latest arrivals, at most 64; 0 = all came at once
    jobs: Integers  # occupied slots in order of arrival
    # by job
    job_id: Integers  # position of the job in the workload
    arrival_ms: Integers
    first_stage: Integers
    stage_count: Integers
    executors: Integers  # located at the job
    incoming: Integers  # on the way to the job, or promised to it by another job
    # by stage
    tasks: Integers
    unstarted: Integers  # tasks nobody has begun
    running: Integers  # tasks being worked on
    demand: Integers  # unstarted tasks for which no executor is promised or under way
    runnable: Flags  # every parent has finished and tasks are left to begin
    runnable_since: Integers  # rank in which the stages of one job became runnable
    schedulable: Flags  # may be chosen now: demand left, all parents saturated, not chosen before
    task_ms: Floats  # what a task is expected to take
    memory: Floats  # demand per executor, as a share of the largest executor
    profile_stage: Integers  # row of the stage in the three tables below
    slowdown: Floats  # how many times longer a task takes when its job has the whole cluster; 1 = unknown
    child_offset: Integers  # children of row r: child[child_offset[r] : child_offset[r + 1]]
    child: Integers  # position within the job: stage = first_stage[job] + child
    scratch: Floats  # room for a policy's own sums, one place per stage of the largest job


class Action(NamedTuple):
    """Send executors of one class to a stage, until its job has `limit` of them.

    >>> Action(stage=3, limit=20)
    Action(stage=3, limit=20, executor_class=0)
    """

    stage: int
    limit: int
    executor_class: int = 0


LEAVE_IDLE = Action(NOWHERE, 0, 0)
"""Leave the remaining executors of this source without work until something changes."""


class Command(NamedTuple):
    """An action in words that a cluster manager understands."""

    job_id: int
    stage: int  # position of the stage within its job
    executors: int
    executor_class: int


def executors_sent(snapshot: Snapshot, job: int, stage: int, limit: int, executor_class: int) -> int:
    """How many executors an action really moves; not positive when the limit is reached.

    The executors of the source already count among those of the source job, so they are taken off
    before the room under the limit is measured.
    """
    free = snapshot.free_executors[executor_class]
    room = limit - snapshot.executors[job] - snapshot.incoming[job]
    if job == snapshot.source_job:
        room += snapshot.free_executors.sum()
    return min(snapshot.demand[stage], free, room)


def choices(snapshot: Snapshot) -> Flags:
    """Which (stage, executor class) pairs may be chosen now; everything else is refused.

    The mask has a row per stage number and a column per class.
    """
    fits = snapshot.memory[:, None] <= snapshot.class_memory[None, :]
    return snapshot.schedulable[:, None] & fits & (snapshot.free_executors > 0)[None, :]


def decode(snapshot: Snapshot, action: Action) -> Command | None:
    """Turn an action into a command, or refuse it with the reason; `LEAVE_IDLE` gives None."""
    stage, limit, executor_class = (int(part) for part in action)
    if (stage, limit, executor_class) != tuple(action):
        raise ActionError(f"{tuple(action)}: stage, limit and class are whole numbers; round them")
    if stage == NOWHERE:
        if not snapshot.may_idle:
            raise ActionError("LEAVE_IDLE while no executor is busy would stop the cluster; choose a stage")
        return None
    mask = choices(snapshot)
    if not (0 <= stage < mask.shape[0] and 0 <= executor_class < mask.shape[1]):
        raise ActionError(
            f"stage {stage}, class {executor_class} does not exist; there are {mask.shape[0]} stage "
            f"numbers and {mask.shape[1]} classes"
        )
    if not mask[stage, executor_class]:
        allowed = np.flatnonzero(mask[:, executor_class])[:8].tolist()
        raise ActionError(
            f"stage {stage} may not be chosen for class {executor_class} now; choose one of {allowed} "
            "or LEAVE_IDLE"
        )
    job = int(np.searchsorted(snapshot.first_stage, stage, side="right")) - 1
    executors = int(executors_sent(snapshot, job, stage, limit, executor_class))
    if executors <= 0:
        have = int(snapshot.executors[job] + snapshot.incoming[job])
        raise ActionError(
            f"limit {limit} sends no executor to stage {stage}: its job has {have}; choose a limit of "
            f"at most {snapshot.executor_count} that is larger, or LEAVE_IDLE"
        )
    position = stage - int(snapshot.first_stage[job])
    return Command(int(snapshot.job_id[job]), position, executors, executor_class)


NODE_FEATURES = (
    "executors_of_job",
    "source_is_this_job",
    "free_executors",
    "work_left",
    "tasks_left",
    "executors_on_stage",
    "runnable",
    "time_in_system",
    "memory",
)


class Observation(NamedTuple):
    """Features and masks of the active stages, one row per stage, jobs in order of arrival."""

    features: NDArray[np.float32]  # [stages, len(NODE_FEATURES)]
    stage: Integers  # number of the stage in the snapshot, by row
    job: Integers  # position of the row's job in `snapshot.jobs`, by row
    mask: Flags  # [stages, classes]: may be chosen
    smallest_limit: Integers  # by row: the least limit that sends an executor


def observe(snapshot: Snapshot) -> Observation:
    """Features in the units of the published Decima (executors/20, work/100 s, tasks/200)."""
    if len(snapshot.jobs) == 0:
        stage = position = np.zeros(0, np.int64)
    else:
        counts = snapshot.stage_count[snapshot.jobs]
        position = np.repeat(np.arange(len(snapshot.jobs)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        stage = snapshot.first_stage[snapshot.jobs][position] + within
    job = snapshot.jobs[position]
    have = snapshot.executors[job] + snapshot.incoming[job]
    free = snapshot.free_executors.sum()
    local = job == snapshot.source_job
    features = np.empty((len(stage), len(NODE_FEATURES)), np.float32)
    features[:, 0] = have / 20.0
    features[:, 1] = np.where(local, 2.0, -2.0)
    features[:, 2] = free / 20.0
    features[:, 3] = snapshot.unstarted[stage] * snapshot.task_ms[stage] / 1e5
    features[:, 4] = snapshot.unstarted[stage] / 200.0
    features[:, 5] = snapshot.running[stage] / 20.0
    features[:, 6] = snapshot.runnable[stage]
    features[:, 7] = (snapshot.now_ms - snapshot.arrival_ms[job]) / 1e5
    features[:, 8] = snapshot.memory[stage]
    mask = choices(snapshot)[stage]
    return Observation(features, stage, position, mask, have - local * free + 1)
