"""Recurrent cells: a gated recurrent unit (Cho et al. 2014) and a long short-term memory (Hochreiter 1997).

A cell is a function of its state and one input, so it serves a whole history at once as well as one new
input at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, new_dense

__all__ = [
    "gated_unit",
    "last_gated_state",
    "last_memory_state",
    "new_gated_unit",
    "new_memory_cell",
    "sigmoid",
]


def sigmoid(values: Array, xp: Any) -> Array:
    """The logistic function, written so that nothing overflows.

    >>> sigmoid(np.array([-1e4, 0.0, 1e4]), np).tolist()
    [0.0, 0.5, 1.0]
    """
    return 0.5 + 0.5 * xp.tanh(0.5 * values)


def new_gated_unit(random: np.random.Generator, inputs: int, size: int) -> Parameters:
    """Parameters of a gated recurrent unit; the update gate begins near 'keep' (memory of some ten steps)."""
    from_input, from_state = new_dense(random, inputs, 3 * size), new_dense(random, size, 3 * size)
    from_input["bias"][:size] = 2.0
    return {
        "input": from_input,
        "state": {"weights": from_state["weights"]},
        "new_bias": np.zeros(size, np.float32),
    }


def gated_unit(parameters: Parameters, state: Array, prepared: Array, xp: Any) -> Array:
    """One step; `prepared` is the input after the dense layer ``input``: that part needs no state."""
    size = state.shape[-1]
    told = (state.reshape(-1, size) @ parameters["state"]["weights"]).reshape(*state.shape[:-1], 3 * size)
    keep = sigmoid(prepared[..., :size] + told[..., :size], xp)
    reset = sigmoid(prepared[..., size : 2 * size] + told[..., size : 2 * size], xp)
    new = xp.tanh(prepared[..., 2 * size :] + reset * (told[..., 2 * size :] + parameters["new_bias"]))
    return new + keep * (state - new)


def last_gated_state(parameters: Parameters, sequence: Array, real: Array, tools: Tools) -> Array:
    """The state after a sequence [time, ..., inputs]; where `real` [time, ..., 1] is 0 nothing changes."""
    xp = tools.xp
    prepared = dense(parameters["input"], sequence)
    begin = xp.zeros((*sequence.shape[1:-1], prepared.shape[-1] // 3), xp.float32)

    def step(state: Array, item: tuple[Array, Array]) -> tuple[Array, None]:
        told, counts = item
        return state + counts * (gated_unit(parameters, state, told, xp) - state), None

    return tools.scan(step, begin, (prepared, real))[0]


def new_memory_cell(random: np.random.Generator, inputs: int, size: int) -> Parameters:
    """Parameters of a long short-term memory; it forgets little at first, as is customary."""
    cell = new_dense(random, inputs + size, 4 * size)
    cell["bias"][size : 2 * size] = 1.0
    return cell


def last_memory_state(parameters: Parameters, sequence: Array, real: Array, tools: Tools) -> Array:
    """The output after a sequence [time, batch, inputs]; where `real` [time, batch, 1] is 0 nothing changes.

    >>> from trimtab.networks.array_tools import PLAIN
    >>> cell = new_memory_cell(np.random.default_rng(0), 3, 5)
    >>> last_memory_state(cell, np.ones((7, 2, 3), np.float32), np.ones((7, 2, 1), np.float32), PLAIN).shape
    (2, 5)
    """
    xp = tools.xp
    size = parameters["bias"].shape[0] // 4
    nothing = xp.zeros((*sequence.shape[1:-1], size), xp.float32)

    def step(state: tuple[Array, Array], item: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        (output, memory), (told, counts) = state, item
        gates = dense(parameters, xp.concatenate([told, output], axis=-1))
        take, keep, show = (sigmoid(gates[..., at * size : (at + 1) * size], xp) for at in (0, 1, 2))
        kept = keep * memory + take * xp.tanh(gates[..., 3 * size :])
        shown = show * xp.tanh(kept)
        return (output + counts * (shown - output), memory + counts * (kept - memory)), None

    return tools.scan(step, (nothing, nothing), (sequence, real))[0][0]
