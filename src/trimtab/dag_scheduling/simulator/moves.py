"""The elementary moves: an executor begins a task, moves, or waits; a stage's demand changes."""

from __future__ import annotations

import numpy as np

from trimtab.dag_scheduling.simulator.compiling import inlined, jit, merged
from trimtab.dag_scheduling.simulator.draws import draw_duration_ms
from trimtab.dag_scheduling.simulator.state import (
    BUSY,
    BUSY_EXECUTORS,
    FIRST_WAVE,
    FRESH,
    LATER_WAVE,
    LOGGED,
    MOVING,
    NOT_MOVING,
    NOW,
    NOWHERE,
    ORDER,
    POOL,
    SCHEDULABLE,
    State,
)
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = [
    "NO_EVENT",
    "ORDER_BITS",
    "arrive_at_job",
    "begin_task",
    "clear_event",
    "enter_pool",
    "leave_pool",
    "move_to",
    "refresh_schedulable",
    "set_demand",
    "start_task",
]

ORDER_BITS = 27
"""An event's key is time << 27 | order: 2^35 ms (1 year) and 134 million events before renumbering."""
NO_EVENT = np.int64(1 << 62)


@inlined
def play_up(s: State, executor: int, key: int) -> None:
    """Enter a key for an executor and replay its way to the top of the tournament."""
    node = len(s.tournament["key"]) // 2 + executor
    s.tournament["key"][node] = key
    while node > 1:
        other = node ^ 1
        winner = other if s.tournament["key"][other] < s.tournament["key"][node] else node
        parent = node >> 1
        s.tournament["key"][parent] = s.tournament["key"][winner]
        s.tournament["executor"][parent] = s.tournament["executor"][winner]
        node = parent


@merged
def renumber_events(s: State) -> None:
    """Give pending events the smallest orders again; happens once in 134 million events."""
    executors = len(s.executors)
    leaves = len(s.tournament) // 2
    for executor in range(executors):
        key = s.tournament["key"][leaves + executor]
        if key != NO_EVENT:
            earlier = 0
            for other in range(executors):
                rival = s.tournament["key"][leaves + other]
                earlier += rival >> ORDER_BITS == key >> ORDER_BITS and rival < key
            s.executors["renumbered"][executor] = (key >> ORDER_BITS << ORDER_BITS) | earlier
    for executor in range(executors):
        if s.tournament["key"][leaves + executor] != NO_EVENT:
            play_up(s, executor, s.executors["renumbered"][executor])
    s.scalar[ORDER] = executors


@inlined
def set_event(s: State, executor: int, moment_ms: int) -> None:
    if s.scalar[ORDER] >> ORDER_BITS:
        renumber_events(s)
    play_up(s, executor, (moment_ms << ORDER_BITS) | s.scalar[ORDER])
    s.scalar[ORDER] += 1


@inlined
def clear_event(s: State, executor: int) -> None:
    play_up(s, executor, NO_EVENT)
    s.scalar[BUSY_EXECUTORS] -= 1


@inlined
def refresh_schedulable(s: State, stage: int) -> None:
    now = (
        s.stages["demand"][stage] > 0
        and s.stages["unsaturated_parents"][stage] == 0
        and not s.stages["selected"][stage]
    )
    if now != s.stages["schedulable"][stage]:
        s.stages["schedulable"][stage] = now
        s.scalar[SCHEDULABLE] += 1 if now else -1


@jit
def set_demand(s: State, t: Tables, stage: int, demand: int) -> None:
    """Change a stage's demand; when it becomes (un)saturated, its children learn of it."""
    before = s.stages["demand"][stage]
    s.stages["demand"][stage] = demand
    if (before > 0) == (demand > 0):
        return
    first = s.slots["first_stage"][s.stages["slot"][stage]]
    row = s.stages["row"][stage]
    for place in range(t.child_offset[row], t.child_offset[row + 1]):
        child = first + t.child[place]
        s.stages["unsaturated_parents"][child] += 1 if demand > 0 else -1
        refresh_schedulable(s, child)
    refresh_schedulable(s, stage)


@inlined
def begin_task(s: State, t: Tables, executor: int, stage: int, wave: int) -> None:
    """The executor, attached to the stage, begins its next task now."""
    slot = s.stages["slot"][stage]
    task = s.stages["tasks"][stage] - s.stages["unstarted"][stage]
    duration = draw_duration_ms(s, t, stage, task, wave, s.slots["executors"][slot])
    now = s.scalar[NOW]
    s.executors["task_ms"][executor] = duration
    set_event(s, executor, now + duration)
    s.scalar[BUSY] += duration
    s.stages["unstarted"][stage] -= 1
    if s.stages["unstarted"][stage] == 0:
        s.stages["runnable"][stage] = False
    demand = s.stages["demand"][stage]
    if demand == 1:
        set_demand(s, t, stage, np.int64(0))
    else:
        s.stages["demand"][stage] = demand - 1
    logged = s.scalar[LOGGED]
    if logged < len(s.log):
        s.log["job"][logged] = s.slots["job_id"][slot]
        s.log["stage"][logged] = stage - s.slots["first_stage"][slot]
        s.log["executor"][logged] = executor
        s.log["start_ms"][logged] = now
        s.log["duration_ms"][logged] = duration
        s.log["wave"][logged] = wave
        s.scalar[LOGGED] += 1


@inlined
def start_task(s: State, t: Tables, executor: int, stage: int) -> None:
    """An executor located at the job goes to work on one of its runnable stages."""
    if s.executors["attached"][executor] == stage:
        wave = LATER_WAVE
    elif s.executors["warm"][executor]:
        wave = FIRST_WAVE
    else:
        wave = FRESH
    s.executors["attached"][executor] = stage
    s.executors["warm"][executor] = True
    s.stages["running"][stage] += 1
    s.scalar[BUSY_EXECUTORS] += 1
    slot = s.stages["slot"][stage]
    if not s.slots["started"][slot]:
        s.slots["started"][slot] = True
        s.jobs["first_start_ms"][s.slots["job_id"][slot]] = s.scalar[NOW]
    begin_task(s, t, executor, stage, wave)


@inlined
def leave_job(s: State, executor: int) -> None:
    s.executors["attached"][executor] = NOWHERE
    slot = s.executors["located"][executor]
    if slot != NOWHERE:
        s.slots["executors"][slot] -= 1
        s.executors["located"][executor] = NOWHERE
    s.executors["warm"][executor] = False


@jit
def move_to(s: State, t: Tables, executor: int, stage: int) -> None:
    """Send an executor to a stage of another job."""
    leave_job(s, executor)
    s.executors["target"][executor] = stage
    set_demand(s, t, stage, s.stages["demand"][stage] - 1)
    s.slots["incoming"][s.stages["slot"][stage]] += 1
    s.scalar[MOVING] += t.moving_delay_ms
    s.scalar[BUSY_EXECUTORS] += 1
    set_event(s, executor, s.scalar[NOW] + t.moving_delay_ms)


@merged
def arrive_at_job(s: State, t: Tables, executor: int) -> int:
    """The executor has arrived; returns the stage it came for, NOWHERE if that job is gone."""
    stage = s.executors["target"][executor]
    s.executors["target"][executor] = NOT_MOVING
    if stage != NOWHERE:
        slot = s.stages["slot"][stage]
        s.executors["located"][executor] = slot
        s.slots["executors"][slot] += 1
        s.slots["incoming"][slot] -= 1
        set_demand(s, t, stage, s.stages["demand"][stage] + 1)
    return stage


@inlined
def enter_pool(s: State, t: Tables, executor: int, slot: int) -> None:
    """Wait at a job, or with NOWHERE in the pool of the cluster."""
    if slot == NOWHERE:
        leave_job(s, executor)
        s.scalar[POOL] += 1
    else:
        s.executors["attached"][executor] = NOWHERE
        s.slots["pool"][slot] += 1
        if not t.warm_waiting:
            s.executors["warm"][executor] = False
    s.executors["pooled"][executor] = True


@inlined
def leave_pool(s: State, executor: int) -> None:
    if s.executors["pooled"][executor]:
        s.executors["pooled"][executor] = False
        if s.executors["located"][executor] == NOWHERE:
            s.scalar[POOL] -= 1
        else:
            s.slots["pool"][s.executors["located"][executor]] -= 1
