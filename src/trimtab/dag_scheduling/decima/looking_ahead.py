"""Compiled: what would the rest cost, if a rule decided everything from here on?

The engine is fast enough to answer by playing on: the rest of a batch takes less than a millisecond. The
answer knows the very jobs and luck to come, which no decision can change, so as a baseline it is
input-dependent (ICLR'19) and leaves the gradient unbiased; of the noise it leaves almost nothing.
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
from trimtab.dag_scheduling.simulator.rounds import apply
from trimtab.dag_scheduling.simulator.state import COST, TIME_LIMIT, State
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["look_ahead_with"]


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in `cost_to_go`; replaced by `compiling.specialise`."""
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


@cache
def look_ahead_with(function: Callable[..., object]) -> Callable[..., None]:
    """`cost_to_go` with a rule in it, compiled once for each rule."""
    name = f"{function.__name__}_{fingerprint(function)}"
    return specialise(cost_to_go, {"decide": compiled(function)}, name, cached=is_importable(function))
