"""The state of one environment, as a few arrays of records.

                  slot 0            slot 1                  a job lives in a slot while it is active
    stages     [ s0 s1 s2 . . | s0 s1 s2 s3 . | ... ]       stages_per_slot places for each slot
    executors  [ e0 e1 e2 ... ]                             one pending event each, or none
    promises   [ source stage → (target stage, class, count) → ... ]   linked lists in one small pool
    tournament [ . root . . leaves ]                        finds the next event; a leaf per executor

Slots are reused, so a trace of any length runs in the memory of its busiest moment. All times are
integer milliseconds. A batch of environments has the same arrays with one more axis in front.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling import problem
from trimtab.dag_scheduling.simulator.tables import Tables, record

__all__ = ["State", "grow", "new_state"]

# Positions in `State.scalar`.
(
    NOW,  # current time
    SEED,
    ORDER,  # events begun so far: ties in time go to the earlier beginning
    NEXT_ARRIVAL,  # position of the next job of the workload
    ACTIVE,  # jobs in the system
    DONE,  # finished jobs
    SOURCE_KIND,  # NO_SOURCE, FROM_STAGE, FROM_POOL or LOOSE
    SOURCE,  # the stage, or the job slot (NOWHERE = pool of the cluster)
    SOURCE_JOB,  # slot of the job the offered executors are at, or NOWHERE
    SOURCE_EXECUTOR,  # the executor that is free now, when the source is a stage
    TO_PLACE,  # executors of the source without a destination
    SCHEDULABLE,  # number of schedulable stages
    SELECTED,  # number of stages chosen in this round
    POOL,  # executors in the pool of the cluster
    REOFFER,  # next pool to offer again (0: the cluster's, i: of the i-th active job); NOWHERE = none
    REOFFER_SKIP,  # job whose pool has just been offered
    COST,  # jobs in system x time since the last decision
    COST_SINCE,  # time up to which COST is counted
    LAST_DECISION,
    BUSY,  # executor time spent in tasks
    MOVING,  # executor time spent between jobs
    DECISIONS,
    EVENTS,
    LOGGED,
    OBSERVED_MS,  # durations seen so far, over all stages
    OBSERVED,
    PROMISE_FREE,  # first unused entry of the promise pool
    POOL_HEAD,  # promises made to the executors of a pool, in this round
    BUSY_EXECUTORS,  # executors with a pending event
    LAST_RESORT,  # 1: nothing moves and all idle executors are being offered once more
    TIME_LIMIT,
    SCALARS,
) = range(32)

# Constants that are handed to compiled functions are typed: numba compiles a function again for every
# plain literal it meets, which doubled the time of a first run.
NOWHERE = np.int64(problem.NOWHERE)
FRESH, FIRST_WAVE, LATER_WAVE = (np.int64(wave) for wave in (0, 1, 2))
NO_SOURCE, FROM_STAGE, FROM_POOL, LOOSE = (np.int64(kind) for kind in range(4))
"""LOOSE: one executor whose job has just finished (only without the correction `offer_idle`)."""
NOT_MOVING = np.int64(-2)

JOB = record("template arrival_ms completion_ms first_start_ms")
EXECUTOR = record(
    "located"  # slot of its job, or NOWHERE
    " attached"  # stage it works on, or NOWHERE
    " target"  # stage it moves to; NOWHERE = its job is gone; NOT_MOVING = stays
    " task_ms"  # duration of the task it runs
    " renumbered",  # its event's new key, while events are renumbered
    flags="warm"  # has run a task of the job it is located at
    " pooled",  # waits in the pool of its job or of the cluster
)
NODE = record("key executor")  # smallest packed (time, order) below the node, and whose it is
SLOT = record(
    "active"  # i-th occupied slot, in order of arrival
    " free"  # stack of empty slots
    " job_id arrival_ms first_stage stage_count executors incoming"
    " pool"  # executors waiting at the job
    " stages_left runnable_rank",
    flags="started",
)
STAGE = record(
    "slot tasks unstarted running demand runnable_since unfinished_parents unsaturated_parents row"
    " seen_ms seen"  # finished tasks, for learned durations
    " promise_head",  # promises to the executors attached to this stage
    flags="runnable schedulable selected",
    floats="expected_ms memory",
    words="luck",
)
PROMISE = record("target executor_class count source_job following chosen")
LOG = record("job stage executor start_ms duration_ms wave")

Records = NDArray[Any]


class State(NamedTuple):
    """One environment. Everything is an array, so compiled code changes it in place."""

    scalar: NDArray[np.int64]
    jobs: Records  # the workload and what came of it
    executors: Records
    tournament: Records
    slots: Records
    stages: Records
    free_executors: NDArray[np.int64]  # by class: executors of the source to place
    promises: Records  # also holds the stages chosen in this round
    log: Records  # empty unless asked for
    scratch: NDArray[np.float64]  # lent to policies


def new_state(tables: Tables, *, slots: int, jobs: int, logged_tasks: int = 0) -> State:
    """Room for one environment; `events.reset` fills it."""
    executors = len(tables.executor_class)
    leaves = 1 << max(executors - 1, 1).bit_length()
    return State(
        scalar=np.zeros(SCALARS, np.int64),
        jobs=np.zeros(jobs, JOB),
        executors=np.zeros(executors, EXECUTOR),
        tournament=np.zeros(2 * leaves, NODE),
        slots=np.zeros(slots, SLOT),
        stages=np.zeros(slots * tables.stages_per_slot, STAGE),
        free_executors=np.zeros(len(tables.class_memory), np.int64),
        promises=np.zeros(executors + 1, PROMISE),
        log=np.zeros(logged_tasks, LOG),
        scratch=np.zeros(tables.stages_per_slot),
    )


def grow(state: State, tables: Tables) -> State:
    """The same environment with twice the slots; numbers of slots and stages keep their meaning."""
    before = len(state.slots)
    slots = np.concatenate([state.slots, np.zeros_like(state.slots)])
    slots["first_stage"] = np.arange(2 * before) * tables.stages_per_slot
    # The stack of empty slots is read from its end: lower slots are used first.
    empty = before - int(state.scalar[ACTIVE])
    slots["free"][: before + empty] = np.concatenate(
        [np.arange(2 * before - 1, before - 1, -1), state.slots["free"][:empty]]
    )
    stages = np.concatenate([state.stages, np.zeros_like(state.stages)])
    return state._replace(slots=slots, stages=stages)
