"""Compiled: what would the rest cost, if a rule decided everything from here on?

The engine is fast enough to answer by playing on: the rest of a batch takes one or two milliseconds. The
answer knows the very jobs and luck to come, which no decision can change, so as a baseline it is
input-dependent (ICLR'19). To the end it leaves the gradient unbiased, with the noise of a chaotic future; a
shorter look is quieter, and as wrong as its estimate of the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.dag_scheduling.simulator.compiling import compiled, fingerprint, is_importable, jit, specialise
from trimtab.dag_scheduling.simulator.events import DECIDE, NEED_SLOTS, TRUNCATED, advance
from trimtab.dag_scheduling.simulator.replay import environment, look
from trimtab.dag_scheduling.simulator.rounds import apply, executors_taken
from trimtab.dag_scheduling.simulator.state import ACTIVE, COST, NOW, NOWHERE, TIME_LIMIT, State
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["NO_ROOM", "Foresight", "foresight_of"]

NO_ROOM = -1


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in the functions below; replaced by `compiling.specialise`."""
    raise NotImplementedError


@jit
def copy_into(target: State, source: State) -> None:
    """Make one environment like another of the same size; compiled, so that other threads go on meanwhile."""
    copy_entries(target.scalar, source.scalar)
    copy_entries(target.jobs, source.jobs)
    copy_entries(target.executors, source.executors)
    copy_entries(target.tournament, source.tournament)
    copy_entries(target.slots, source.slots)
    copy_entries(target.stages, source.stages)
    copy_entries(target.free_executors, source.free_executors)
    copy_entries(target.promises, source.promises)


@jit
def copy_entries(target: NDArray[Any], source: NDArray[Any]) -> None:
    # One by one: assigning a slice would want reference counting, which the engine goes without.
    for place in range(len(source)):
        target[place] = source[place]


def cost_to_go(
    batch: State,
    s: State,
    t: Tables,
    chosen: NDArray[np.bool_],
    until_ms: NDArray[np.int64],
    parameters: NDArray[np.float64],
    costs: NDArray[np.int64],
) -> None:
    """Let the rule play copies of the chosen environments, made in `s`, to their end or to `until_ms`.

    What is left at `until_ms` is estimated. Where more jobs come than there is room for, the answer is
    NO_ROOM.
    """
    for index in range(len(chosen)):
        if chosen[index]:
            copy_into(s, environment(batch, index))
            s.scalar[COST] = 0
            s.scalar[TIME_LIMIT] = min(s.scalar[TIME_LIMIT], until_ms[index])
            status = DECIDE
            while status == DECIDE:
                action = decide(look(s, t), parameters)
                if not apply(s, t, action.stage, action.limit, action.executor_class):
                    break
                status = advance(s, t)
            costs[index] = s.scalar[COST]
            if status == TRUNCATED:
                costs[index] += fluid_cost(s, t)
            if status == NEED_SLOTS:
                costs[index] = NO_ROOM


@jit
def fluid_cost(s: State, t: Tables) -> int:
    """What the jobs in the system would still cost, if their work were a fluid and the least went first.

    The k-th job ends when the k smallest amounts of work are done, so every pair of jobs waits for the
    smaller of the two. For the makespan, all of the work counts once.
    """
    active = s.scalar[ACTIVE]
    total = 0.0
    waiting = 0.0
    for place in range(active):
        slot = s.slots["active"][place]
        work = work_left_ms(s, slot)
        total += work
        if not t.makespan:
            for other in range(place):
                waiting += min(work, work_left_ms(s, s.slots["active"][other]))
    return int((total + waiting) / len(s.executors["located"]))


@jit
def work_left_ms(s: State, slot: int) -> float:
    """Of the tasks that have not begun, and half of those that run."""
    total = 0.0
    first = s.slots["first_stage"][slot]
    for stage in range(first, first + s.slots["stage_count"][slot]):
        tasks = s.stages["unstarted"][stage] + 0.5 * s.stages["running"][stage]
        total += tasks * s.stages["expected_ms"][stage]
    return total


def does_the_same(
    batch: State,
    t: Tables,
    status: NDArray[np.int64],
    actions: NDArray[np.int64],
    parameters: NDArray[np.float64],
    same: NDArray[np.bool_],
) -> None:
    """Mark environments whose action does what the rule's would: same stage, class and executors sent."""
    for index in range(len(same)):
        same[index] = True
        if status[index] == DECIDE:
            s = environment(batch, index)
            action = decide(look(s, t), parameters)
            stage, limit, executor_class = actions[index, 0], actions[index, 1], actions[index, 2]
            same[index] = stage == action.stage
            if same[index] and stage != NOWHERE:
                sent = executors_taken(s, t, stage, limit, executor_class)
                wanted = executors_taken(s, t, action.stage, action.limit, action.executor_class)
                same[index] = executor_class == action.executor_class and sent == wanted


def play_until(
    batch: State, t: Tables, status: NDArray[np.int64], until_ms: NDArray[np.int64], parameters: np.ndarray
) -> None:
    """Let the rule decide up to a moment of each environment's time."""
    for index in range(len(status)):
        s = environment(batch, index)
        while status[index] == DECIDE and s.scalar[NOW] < until_ms[index]:
            action = decide(look(s, t), parameters)
            if not apply(s, t, action.stage, action.limit, action.executor_class):
                break
            status[index] = advance(s, t)


class Foresight(NamedTuple):
    """The functions above with a rule in them."""

    cost_to_go: Callable[..., None]
    does_the_same: Callable[..., None]
    play_until: Callable[..., None]


@cache
def foresight_of(function: Callable[..., object]) -> Foresight:
    """Compile once for each rule."""
    name = f"{function.__name__}_{fingerprint(function)}"
    rule, cached = {"decide": compiled(function)}, is_importable(function)
    parts = (cost_to_go, does_the_same, play_until)
    return Foresight._make(specialise(part, rule, name, cached=cached) for part in parts)
