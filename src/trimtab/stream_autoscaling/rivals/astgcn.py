"""ASTGCN: attention over time and over vertices, Chebyshev graph convolutions, convolutions over time.

After Guo et al. (AAAI 2019), traffic forecasting on a fixed road network. Published attention has weights for
every vertex; here time attends over the mean of the vertices, and vertices attend by their own history
alone, with a gain and an offset in place of a matrix by vertex, so that one network serves all graphs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, leaky, new_dense
from trimtab.networks.recurrent import sigmoid
from trimtab.networks.subgraph_sampler import softmax
from trimtab.networks.temporal import new_normalisation, new_time_convolution, normalised, time_convolution
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs, over_vertices

__all__ = ["ASTGCN"]

_BLOCKS, _ORDER, _WIDTH = 2, 3, 3
_ATTENTION = 8


def _new(random: np.random.Generator, features: int, design: Design) -> Parameters:
    sizes = [features] + [design.hidden] * _BLOCKS
    return [_new_block(random, below, design) for below in sizes[:-1]]


def _new_block(random: np.random.Generator, inputs: int, design: Design) -> Parameters:
    hidden, length = design.hidden, design.history
    near = (np.eye(length) + random.normal(0, 0.02, (length, length))).astype(np.float32)
    return {
        "time_left": new_dense(random, inputs, _ATTENTION),
        "time_right": {"weights": new_dense(random, inputs, _ATTENTION)["weights"]},
        "time_mix": near,
        "time_offset": np.zeros((length, length), np.float32),
        "moment_weights": np.full(length, 1 / length, np.float32),
        "vertex_left": new_dense(random, inputs, _ATTENTION),
        "vertex_right": {"weights": new_dense(random, inputs, _ATTENTION)["weights"]},
        "vertex_gain": np.ones(1, np.float32),
        "vertex_offset": np.zeros(1, np.float32),
        "orders": [new_dense(random, inputs, hidden) for _ in range(_ORDER)],
        "time": new_time_convolution(random, hidden, hidden, _WIDTH),
        "residual": new_dense(random, inputs, hidden),
        "normal": new_normalisation(hidden),
    }


def _encode(parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool) -> Encoded:
    xp = tools.xp
    polynomials = _chebyshev(inputs, xp)
    values = inputs.window
    for number, block in enumerate(parameters, start=1):
        # Of the last block only the newest moment is looked at, and that depends on its neighbours in time.
        newest = 1 + _WIDTH // 2 if number == len(parameters) else values.shape[1]
        values = _block(block, values, polynomials, inputs, newest, xp)
        values = values * inputs.exists[:, None, :, None]
    return Encoded(values[:, -1])


def _block(
    block: Parameters, values: Array, polynomials: list[Array], inputs: Inputs, newest: int, xp: Any
) -> Array:
    """[B, L, V, n] -> [B, newest, V, hidden]; where not all moments are asked for, the last one is right."""
    batch, length = values.shape[:2]
    attention = _time_attention(block, values, inputs, xp)
    attended = (attention @ values.reshape(batch, length, -1)).reshape(values.shape)
    among = _vertex_attention(block, attended, inputs, xp)
    values = values[:, -newest:]
    convolved = xp.zeros((), xp.float32)
    for order, polynomial in zip(block["orders"], polynomials, strict=True):
        convolved = convolved + dense(order, (polynomial * among)[:, None] @ values)
    convolved = xp.swapaxes(leaky(convolved, xp), 1, 2)
    over_time = xp.swapaxes(time_convolution(block["time"], convolved, _WIDTH, xp), 1, 2)
    return normalised(block["normal"], leaky(dense(block["residual"], values) + over_time, xp), xp)


def _time_attention(block: Parameters, values: Array, inputs: Inputs, xp: Any) -> Array:
    """How much each moment takes from each other one: [B, L, L]."""
    job = over_vertices(values, inputs.exists[:, None])
    left, right = dense(block["time_left"], job), job @ block["time_right"]["weights"]
    scores = block["time_mix"] @ sigmoid(left @ xp.swapaxes(right, 1, 2) + block["time_offset"], xp)
    return softmax(xp.where(inputs.present[:, None, :] > 0, scores, -1e9), xp) * inputs.present[:, None, :]


def _vertex_attention(block: Parameters, values: Array, inputs: Inputs, xp: Any) -> Array:
    """How much each vertex takes from each other one: [B, V, V]."""
    told = (values * block["moment_weights"][:, None, None]).sum(1)
    left, right = dense(block["vertex_left"], told), told @ block["vertex_right"]["weights"]
    scores = block["vertex_gain"] * sigmoid(left @ xp.swapaxes(right, 1, 2) + block["vertex_offset"], xp)
    return softmax(xp.where(inputs.exists[:, None, :] > 0, scores, -1e9), xp)


def _chebyshev(inputs: Inputs, xp: Any) -> list[Array]:
    """Chebyshev polynomials of the scaled Laplacian of the graph without directions.

    Of the normalised Laplacian the largest eigenvalue is at most 2; with 2 the scaled one is minus the
    normalised adjacency.
    """
    edges = inputs.edges(xp)
    both = edges + xp.swapaxes(edges, 1, 2)
    degree = both.sum(-1)
    root = xp.where(degree > 0, 1 / xp.sqrt(xp.maximum(degree, 1.0)), 0.0)
    laplacian = -both * root[:, :, None] * root[:, None, :]
    identity = xp.eye(edges.shape[-1], dtype=xp.float32) * inputs.exists[:, :, None]
    polynomials = [identity, laplacian]
    for _ in range(2, _ORDER):
        polynomials.append(2 * laplacian @ polynomials[-1] - polynomials[-2])
    return polynomials


ASTGCN = Encoder(_new, _encode)
