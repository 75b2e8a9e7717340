"""Compiled entry points: step an environment, and play it with a rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.problem import Action, Snapshot
from trimtab.gpu_scheduling.simulator.compiling import jit
from trimtab.gpu_scheduling.simulator.events import DECIDE, ILLEGAL, advance, apply
from trimtab.gpu_scheduling.simulator.looking import look
from trimtab.gpu_scheduling.simulator.state import State
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["play", "step"]


@jit
def step(s: State, t: Tables, verb: int, slot: int, machines: np.ndarray, gpu: int) -> int:
    """Apply one action and run to the next question."""
    if not apply(s, t, verb, slot, machines, gpu):
        return ILLEGAL
    return advance(s, t)


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in `play`; replaced by `compiling.specialise`."""
    raise NotImplementedError


def play(s: State, t: Tables, status: int, parameters: np.ndarray) -> int:
    """Play with a rule until something other than a question is due. Compiled once per rule."""
    while status == DECIDE:
        action = decide(look(s, t), parameters)
        if not apply(s, t, action.verb, action.job, action.machines, action.gpu):
            return ILLEGAL
        status = advance(s, t)
    return status
