"""Where Python enters compiled code: one engine, and for each rule a loop between the rule and the engine.

The engine is compiled once. Loops call it by its address, which stands in the row of an environment (see
by_address.py), so that compiling a rule is compiling the rule and nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from trimtab.gpu_scheduling.problem import Action, Snapshot
from trimtab.gpu_scheduling.simulator import by_address, events
from trimtab.gpu_scheduling.simulator.by_address import look, machines_at, state_at, tables_at
from trimtab.gpu_scheduling.simulator.compiling import called_from_python, jit
from trimtab.gpu_scheduling.simulator.events import DECIDE, ILLEGAL, advance, apply
from trimtab.gpu_scheduling.simulator.state import State
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["ANSWER", "BEGIN", "GO_ON", "ask_engine", "engine_at", "play", "row_of"]

BEGIN, GO_ON, ANSWER = range(3)
"""What the engine is to do: begin an episode, run on to the next question, or act and run on."""


@called_from_python
@jit
def engine(row: Any, task: int, verb: int, slot: int, machines: Any, count: int, step: int, gpu: int) -> int:
    """Do one task; returns what is due next. `machines` is the address of the first, `step` in bytes."""
    s, t = state_at(row), tables_at(row)
    if task == BEGIN:
        events.reset(s, t)
    elif task == ANSWER and not apply(s, t, verb, slot, machines_at(machines, count, step), gpu):
        return ILLEGAL
    return advance(s, t)


@cache
def engine_at() -> int:
    """Address of the compiled engine; 0 where nothing is compiled."""
    if not isinstance(engine, Dispatcher):
        return 0
    engine.compile((types.int64,) * 8)
    made = engine.overloads[(types.int64,) * 8]
    return made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)


def row_of(s: State, t: Tables) -> Any:
    """An environment for compiled code; valid as long as both live and keep their arrays."""
    return by_address.row_of(s, t, engine_at())


def _answer_directly(row: Any, task: int, verb: int, slot: int, machines: Any, gpu: int) -> int:
    """In place of a call by address, where nothing is compiled."""
    return engine(row, task, verb, slot, machines, len(machines), 8, gpu)


answer: Any = _answer_directly if by_address.WITHOUT_COMPILER else by_address.answer


@called_from_python
@jit
def ask_engine(row: Any, task: int, verb: int, slot: int, machines: np.ndarray, gpu: int) -> int:
    """Let the engine do one task."""
    return answer(row, task, verb, slot, machines, gpu)


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in `play`; replaced by `compiling.specialise`."""
    raise NotImplementedError


def play(row: Any, status: int, parameters: np.ndarray) -> int:
    """Play with a rule until something other than a question is due. Compiled once per rule."""
    while status == DECIDE:
        action = decide(look(state_at(row), tables_at(row)), parameters)
        status = answer(row, ANSWER, action.verb, action.job, action.machines, action.gpu)
    return status
