"""The state of one environment, as a few arrays of records.

    slots     [ j0 j1 j2 ... ]      a job lives in a slot from its arrival to its end; slots are reused
    lists     [ pending | running | heap | ends | empty | order ]   one row each, as long as there are slots
    parts     [ p0 p1 ... ]         instances of one job on one machine; linked by job and by machine
    shares    [ h0 h1 ... ]         a share of a GPU held by a part; linked by part
    machines  [ m0 m1 ... ]         what is free there, and the head of its list of parts
    free_milli [ f0 f1 ... ]        thousandths free of the GPUs of each machine together
    gpu_free  [ g g g g | g g ... ] thousandths free of each GPU, machine after machine

The heap holds the running jobs by (end, start number). Empty parts and shares are linked into lists of their
own. A trace of any length runs in the memory of its busiest moment. All times are integer milliseconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.simulator.tables import PREDICTED, Tables, record

__all__ = ["ARRAYS", "State", "copied", "grow", "grow_log", "new_state"]

# Positions in `State.scalar`.
(
    NOW,
    SEED,
    NEXT_ARRIVAL,  # position of the next job of the workload
    PENDING,  # jobs that wait
    RUNNING,
    DONE,
    UNSEEN,  # see problem.Snapshot
    ASKING,  # 1: questions are being asked at this moment
    ASK_AT,  # when to ask next if nothing happens before
    CHANGED,  # 1: a job came or ended at this moment
    HEARTBEAT,  # from a HOLD to the next question
    STARTS,  # starts so far, which number them
    FREE_MILLI,
    FREE_PART,  # first empty part
    FREE_SHARE,  # first empty share
    PARTS,  # parts in use
    DRIFT_STEP,
    COST,  # jobs in system x time since the last decision
    COUNTED_TO,  # time up to which COST and STRANDED are counted
    STRANDED,  # thousandths of GPUs x time that lay free while jobs waited
    BUSY,  # thousandths of GPUs x time held by jobs
    DECISIONS,
    EVENTS,
    LOGGED,
    LAST_DECISION,
    TIME_LIMIT,
    SCALARS,
) = range(27)

PENDING_ROW, RUNNING_ROW, HEAP_ROW, END_ROW, EMPTY_ROW, ORDER_ROW = range(6)

NEVER = np.int64(1 << 60)
NOWHERE = np.int64(-1)

SLOT = record(
    "job_id arrival_ms instances gpu_milli cpu_milli memory_mib allowed_types user group kind sensitivity"
    " started_ms attained_ms since_ms preemptions first_part end_ms start_number heap_place",
    floats="communication expected_ms work_ms done_ms done_at_start rate noise"
    " slowing"  # 1 + what it loses by being spread
    " nominal"  # rate of this stay without contention, drift and noise
    " score",  # lent to policies
)
PART = record("slot machine instances milli next_part next_here previous_here first_share", words="gpu_mask")
SHARE = record("gpu next_share")
MACHINE_STATE = record(
    "free_gpus free_cpu_milli free_memory_mib load jobs first_part order",
    floats="observed observed_speed drift drift_factor score",
)
RESULT = record("first_start_ms completion_ms run_ms preemptions", floats="fee")
LOG = record("job machine milli start_ms end_ms completed", words="gpu_mask")

Records = NDArray[Any]


class State(NamedTuple):
    """One environment. Everything is an array, so compiled code changes it in place."""

    scalar: NDArray[np.int64]
    fee: NDArray[np.float64]  # [1]: dollars since the last decision
    slots: Records
    lists: NDArray[np.int64]  # [6, slots]
    parts: Records
    shares: Records
    machines: Records
    free_milli: NDArray[np.int64]  # by machine; apart, because rules look through all of it
    gpu_free: NDArray[np.int64]
    seen: NDArray[np.int64]  # [groups + 64 + 1, 2], for predictions: count and run time of finished jobs
    results: Records  # by job of the workload
    log: Records  # empty unless asked for


ARRAYS: dict[str, tuple[Any, int]] = {
    "scalar": (np.int64, 1),
    "fee": (np.float64, 1),
    "slots": (SLOT, 1),
    "lists": (np.int64, 2),
    "parts": (PART, 1),
    "shares": (SHARE, 1),
    "machines": (MACHINE_STATE, 1),
    "free_milli": (np.int64, 1),
    "gpu_free": (np.int64, 1),
    "seen": (np.int64, 2),
    "results": (RESULT, 1),
    "log": (LOG, 1),
}
"""What each array of a state holds, and its dimensions."""


def new_state(tables: Tables, *, slots: int, logged: bool = False) -> State:
    """Room for one environment; `events.reset` fills it."""
    return State(
        scalar=np.zeros(SCALARS, np.int64),
        fee=np.zeros(1),
        slots=np.zeros(slots, SLOT),
        lists=np.zeros((6, slots), np.int64),
        parts=np.zeros(tables.part_room, PART),
        shares=np.zeros(tables.part_room, SHARE),
        machines=np.zeros(len(tables.machines), MACHINE_STATE),
        free_milli=np.zeros(len(tables.machines), np.int64),
        gpu_free=np.zeros(tables.total_gpus, np.int64),
        seen=np.zeros((tables.group_count + 65 if tables.information == PREDICTED else 0, 2), np.int64),
        results=np.zeros(len(tables.jobs), RESULT),
        log=np.zeros(4 * tables.part_room if logged else 0, LOG),
    )


def copied(state: State) -> State:
    """The same environment in memory of its own."""
    return state._replace(**{name: getattr(state, name).copy() for name in ARRAYS})


def grow(state: State) -> State:
    """The same environment with twice the slots; their numbers keep their meaning."""
    before = len(state.slots)
    lists = np.concatenate([state.lists, np.zeros_like(state.lists)], axis=1)
    empty = before - int(state.scalar[PENDING] + state.scalar[RUNNING])
    # The stack of empty slots is read from its end: lower slots are used first.
    lists[EMPTY_ROW, : before + empty] = np.concatenate(
        [np.arange(2 * before - 1, before - 1, -1), state.lists[EMPTY_ROW, :empty]]
    )
    return state._replace(slots=np.concatenate([state.slots, np.zeros_like(state.slots)]), lists=lists)


def grow_log(state: State) -> State:
    """The same environment with room for twice as many stays."""
    return state._replace(log=np.concatenate([state.log, np.zeros_like(state.log)]))
