"""The few things numpy and JAX do not spell alike, so that a network is still written once.

`PLAIN` is for numpy. Whoever trains makes the other from `jax.numpy` and `jax.lax`; nothing here imports JAX,
because what is served must not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trimtab.networks.layers import Array

__all__ = ["PLAIN", "Tools"]


class Tools(NamedTuple):
    """An array module, and what it lacks or calls otherwise.

    >>> PLAIN.largest(np.array([[3.0, 9.0, 3.0]]), 2).tolist()
    [[1, 0]]
    """

    xp: Any
    scan: Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any], tuple[Any, Any]]
    """(step, state, sequence) -> (last state, outputs): along the first axis of an array, or of several."""
    stopped: Callable[[Array], Array]
    """The same numbers, through which no gradient flows."""
    largest: Callable[[Array, int], Array]
    """Positions of the largest numbers along the last axis, largest first; of equals the first."""
    widest: Callable[[Array, int], int]
    """For the size of an array: the largest of some counts where it is known beforehand, else the limit."""


def _scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, sequence: Any) -> tuple[Any, Any]:
    outputs = []
    for item in zip(*sequence, strict=True) if isinstance(sequence, tuple) else sequence:
        state, output = step(state, item)
        outputs.append(output)
    return state, None if outputs[0] is None else np.stack(outputs)


def _unchanged(values: Array) -> Array:
    return values


def _largest(values: Array, count: int) -> Array:
    return np.argsort(-values, axis=-1, kind="stable")[..., :count]


def _widest(counts: Array, limit: int) -> int:
    return min(limit, int(counts.max(initial=0)))


PLAIN = Tools(np, _scan, _unchanged, _largest, _widest)
