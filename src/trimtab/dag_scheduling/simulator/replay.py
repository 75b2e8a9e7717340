"""Compiled entry points: look at an environment, step it, play it with a rule, step many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.dag_scheduling.simulator.compiling import jit
from trimtab.dag_scheduling.simulator.events import DECIDE, advance
from trimtab.dag_scheduling.simulator.rounds import apply
from trimtab.dag_scheduling.simulator.state import (
    ACTIVE,
    BUSY_EXECUTORS,
    NEXT_ARRIVAL,
    NOW,
    SELECTED,
    SOURCE_JOB,
    State,
)
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["ILLEGAL", "look_from_python", "play", "step", "step_many"]

ILLEGAL = 9
GAPS = 64
"""Arrivals from which the pace of a stream is judged."""


def look_from_python(s: State, t: Tables) -> Snapshot:
    """What a policy may know now. The arrays are views: valid until the next step."""
    return Snapshot(
        s.scalar[NOW],
        len(s.executors["located"]),
        s.scalar[SOURCE_JOB],
        s.free_executors,
        s.scalar[BUSY_EXECUTORS] + s.scalar[SELECTED] > 0,
        t.class_memory,
        arrival_gap_ms(s),
        s.slots["active"][: s.scalar[ACTIVE]],
        s.slots["job_id"],
        s.slots["arrival_ms"],
        s.slots["first_stage"],
        s.slots["stage_count"],
        s.slots["executors"],
        s.slots["incoming"],
        s.stages["tasks"],
        s.stages["unstarted"],
        s.stages["running"],
        s.stages["demand"],
        s.stages["runnable"],
        s.stages["runnable_since"],
        s.stages["schedulable"],
        s.stages["expected_ms"],
        s.stages["memory"],
        s.stages["row"],
        t.slowdown,
        t.child_offset,
        t.child,
        s.scratch,
    )


def arrival_gap_from_python(s: State) -> float:
    """Mean time between the latest arrivals; 0 before the second."""
    latest = s.scalar[NEXT_ARRIVAL] - 1
    first = max(latest - GAPS, 0)
    return (s.jobs["arrival_ms"][latest] - s.jobs["arrival_ms"][first]) / max(latest - first, 1)


arrival_gap_ms = jit(arrival_gap_from_python)
look = jit(look_from_python)


@jit
def step(s: State, t: Tables, stage: int, limit: int, executor_class: int) -> int:
    """Apply one action and run to the next decision."""
    if not apply(s, t, stage, limit, executor_class):
        return ILLEGAL
    return advance(s, t)


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in `play`; replaced by `compiling.specialise`."""
    raise NotImplementedError


def play(s: State, t: Tables, status: int, parameters: np.ndarray) -> int:
    """Play with a rule until something other than a decision is due. Compiled once per rule."""
    while status == DECIDE:
        action = decide(look(s, t), parameters)
        if not apply(s, t, action.stage, action.limit, action.executor_class):
            return ILLEGAL
        status = advance(s, t)
    return status


@jit
def environment(batch: State, index: int) -> State:
    """One environment of a batch; every field of the batch has one more axis, in front."""
    return State(
        batch.scalar[index],
        batch.jobs[index],
        batch.executors[index],
        batch.tournament[index],
        batch.slots[index],
        batch.stages[index],
        batch.free_executors[index],
        batch.promises[index],
        batch.log[index],
        batch.scratch[index],
    )


@jit
def step_many(batch: State, t: Tables, status: np.ndarray, actions: np.ndarray) -> None:
    """Step every environment that waits for a decision; `status` is updated in place.

    `actions[i]` is (stage, limit, executor class). Environments that have ended are left alone.
    """
    for index in range(len(status)):
        if status[index] == DECIDE:
            s = environment(batch, index)
            status[index] = step(s, t, actions[index, 0], actions[index, 1], actions[index, 2])
