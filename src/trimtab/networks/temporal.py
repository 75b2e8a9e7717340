"""Along time: convolutions over the last steps, and layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.layers import Array, Parameters, dense, new_dense

__all__ = ["new_normalisation", "new_time_convolution", "normalised", "time_convolution"]


def new_time_convolution(random: np.random.Generator, inputs: int, outputs: int, width: int) -> Parameters:
    """Parameters of a convolution over `width` neighbouring steps."""
    return new_dense(random, width * inputs, outputs)


def time_convolution(
    parameters: Parameters, sequence: Array, width: int, xp: Any, *, stride: int = 1
) -> Array:
    """[..., time, inputs] -> [..., time / stride, outputs]; zeros stand before the first and after the last.

    The last output is always centred on the last step: it is the newest.

    >>> layer = {"weights": np.ones((3, 1)), "bias": np.zeros(1)}
    >>> time_convolution(layer, np.array([[1.0], [2.0], [4.0]]), 3, np).ravel().tolist()
    [3.0, 7.0, 6.0]
    """
    steps = sequence.shape[-2]
    edge = xp.zeros((*sequence.shape[:-2], width // 2, sequence.shape[-1]), sequence.dtype)
    padded = xp.concatenate([edge, sequence, edge], axis=-2)
    seen = [padded[..., at : at + steps, :] for at in range(width)]
    first = (steps - 1) % stride
    return dense(parameters, xp.concatenate(seen, axis=-1)[..., first::stride, :])


def new_normalisation(size: int) -> Parameters:
    return {"gain": np.ones(size, np.float32), "shift": np.zeros(size, np.float32)}


def normalised(parameters: Parameters, values: Array, xp: Any) -> Array:
    """Layer normalisation (Ba et al. 2016) over the last axis.

    Unlike that of a batch it does not let a decision about one job depend on who else is asked.

    >>> normalised(new_normalisation(2), np.array([[1.0, 3.0]]), np).round(3).tolist()
    [[-1.0, 1.0]]
    """
    centred = values - values.mean(-1, keepdims=True)
    deviation = xp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred / deviation * parameters["gain"] + parameters["shift"]
