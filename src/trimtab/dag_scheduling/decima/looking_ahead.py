"""Compiled: what would the rest cost, if a rule decided everything from here on?

The engine is fast enough to answer by playing on: the rest of a batch takes less than a millisecond. The
answer knows the very jobs and luck to come, which no decision can change, so as a baseline it is
input-dependent (ICLR'19) and leaves the gradient unbiased; what noise it leaves is that of a chaotic future.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.dag_scheduling.simulator.compiling import compiled, fingerprint, is_importable, specialise
from trimtab.dag_scheduling.simulator.events import DECIDE, advance
from trimtab.dag_scheduling.simulator.replay import environment, look
from trimtab.dag_scheduling.simulator.rounds import apply, executors_taken
from trimtab.dag_scheduling.simulator.state import COST, NOWHERE, TIME_LIMIT, State
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["look_ahead_with"]


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in the functions below; replaced by `compiling.specialise`."""
    raise NotImplementedError


def cost_to_go(
    batch: State,
    t: Tables,
    chosen: NDArray[np.bool_],
    until_ms: NDArray[np.int64],
    parameters: NDArray[np.float64],
    costs: NDArray[np.int64],
) -> None:
    """Let the rule play the chosen environments to their end or to `until_ms`. Uses the batch up."""
    for index in range(len(chosen)):
        if chosen[index]:
            s = environment(batch, index)
            s.scalar[COST] = 0
            s.scalar[TIME_LIMIT] = min(s.scalar[TIME_LIMIT], until_ms[index])
            status = DECIDE
            while status == DECIDE:
                action = decide(look(s, t), parameters)
                if not apply(s, t, action.stage, action.limit, action.executor_class):
                    break
                status = advance(s, t)
            costs[index] = s.scalar[COST]


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


@cache
def look_ahead_with(function: Callable[..., object]) -> tuple[Callable[..., None], Callable[..., None]]:
    """`cost_to_go` and `does_the_same` with a rule in them, compiled once for each rule."""
    name = f"{function.__name__}_{fingerprint(function)}"
    rule, cached = {"decide": compiled(function)}, is_importable(function)
    return specialise(cost_to_go, rule, name, cached=cached), specialise(
        does_the_same, rule, name, cached=cached
    )
