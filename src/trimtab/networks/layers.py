"""Dense layers: how they are drawn, and how they are applied."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Parameters", "dense", "leaky", "mlp", "new_dense", "new_mlp"]

Parameters = Any
"""A tree of dictionaries and lists with arrays at its leaves."""

Array = Any
"""An array of numpy or of JAX."""


def new_dense(random: np.random.Generator, inputs: int, outputs: int, scale: float = 1.0) -> Parameters:
    """Weights after Glorot and Bengio (2010), no bias at first.

    >>> new_dense(np.random.default_rng(0), 3, 2)["weights"].shape
    (3, 2)
    """
    reach = scale * math.sqrt(6.0 / (inputs + outputs))
    weights = random.uniform(-reach, reach, (inputs, outputs)).astype(np.float32)
    return {"weights": weights, "bias": np.zeros(outputs, np.float32)}


def new_mlp(random: np.random.Generator, sizes: Sequence[int], last_scale: float = 1.0) -> Parameters:
    """Layers of these sizes; a small last scale makes the first answers nearly equal."""
    steps = list(itertools.pairwise(sizes))
    return [new_dense(random, *step, last_scale if step is steps[-1] else 1.0) for step in steps]


def dense(layer: Mapping[str, Array], inputs: Array) -> Array:
    """`inputs @ weights + bias` over the last axis, as one matrix product whatever the other axes are.

    >>> layer = {"weights": np.ones((2, 1)), "bias": np.ones(1)}
    >>> dense(layer, np.ones((4, 3, 2))).shape
    (4, 3, 1)
    """
    weights = layer["weights"]
    # Numpy would multiply a stack of matrices one by one; and of two matrices `dot` begins sooner than `@`.
    flat = inputs if inputs.ndim == 2 else inputs.reshape(-1, weights.shape[0])
    flat = flat.dot(weights)
    flat += layer["bias"]
    if inputs.ndim == 2:
        return flat
    return flat.reshape(*inputs.shape[:-1], weights.shape[1])


def leaky(values: Array, xp: Any) -> Array:
    """Leaky rectifier with slope 0.2 below zero, as in the published Decima."""
    return xp.maximum(values, 0.2 * values)


def mlp(layers: Sequence[Mapping[str, Array]], inputs: Array, xp: Any) -> Array:
    """Dense layers with a leaky rectifier after each but the last."""
    for layer in layers[:-1]:
        inputs = leaky(dense(layer, inputs), xp)
    return dense(layers[-1], inputs)
