"""CCRNN: graph convolutions on learned graphs, one per layer, inside a gated recurrent unit.

After Ye et al. (AAAI 2021), travel demand forecasting. Vertices begin with two factors each, from the
singular values of the adjacency; the product of the factors, rectified, is the graph of the first layer. Each
further layer's factors are a linear map of those before. The outputs of all layers are merged by attention,
and such merged convolutions stand in for the matrices of the recurrent unit. Only the encoder is kept:
nothing is forecast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, leaky, new_dense
from trimtab.networks.recurrent import sigmoid
from trimtab.networks.subgraph_sampler import softmax
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs
from trimtab.stream_autoscaling.sure.features import COUPLING

__all__ = ["CCRNN"]

_LAYERS = 2


def _new(random: np.random.Generator, features: int, design: Design) -> Parameters:
    hidden = design.hidden
    maps = [
        {side: new_dense(random, COUPLING, COUPLING) for side in ("left", "right")}
        for _ in range(_LAYERS - 1)
    ]
    return {
        "embed": new_dense(random, features, hidden),
        "maps": maps,
        "gates": _new_convolution(random, 2 * hidden, 2 * hidden),
        "candidate": _new_convolution(random, 2 * hidden, hidden),
    }


def _new_convolution(random: np.random.Generator, inputs: int, outputs: int) -> Parameters:
    sizes = [inputs] + [outputs] * _LAYERS
    return {
        "layers": [new_dense(random, below, outputs) for below in sizes[:-1]],
        # Without a bias: it would add the same to all that is weighed against each other.
        "attention": new_dense(random, outputs, 1)["weights"],
    }


def _encode(parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool) -> Encoded:
    xp = tools.xp
    graphs = _graphs(parameters["maps"], inputs, xp)
    sequence = xp.swapaxes(leaky(dense(parameters["embed"], inputs.window), xp), 0, 1)
    real = xp.swapaxes(inputs.present, 0, 1)[:, :, None, None]
    begin = xp.zeros(sequence.shape[1:], xp.float32)
    size = design.hidden

    def step(state: Array, item: tuple[Array, Array]) -> tuple[Array, None]:
        told, counts = item
        both = _convolved(parameters["gates"], xp.concatenate([told, state], axis=-1), graphs, xp)
        keep, reset = sigmoid(both[..., :size], xp), sigmoid(both[..., size:], xp)
        known = xp.concatenate([told, reset * state], axis=-1)
        new = xp.tanh(_convolved(parameters["candidate"], known, graphs, xp))
        return state + counts * (1 - keep) * (new - state), None

    return Encoded(tools.scan(step, begin, (sequence, real))[0] * inputs.exists[..., None])


def _graphs(maps: Parameters, inputs: Inputs, xp: Any) -> list[Array]:
    """The graph of every layer: rows that sum to 1 over the vertices there are, [B, V, V]."""
    left, right = inputs.coupling[..., :COUPLING], inputs.coupling[..., COUPLING:]
    both = inputs.exists[:, :, None] * inputs.exists[:, None, :]
    graphs = []
    for layer in [None, *maps]:
        if layer is not None:
            left, right = dense(layer["left"], left), dense(layer["right"], right)
        strength = leaky(left @ xp.swapaxes(right, 1, 2), xp)
        graphs.append(softmax(xp.where(both > 0, strength, -1e9), xp) * both)
    return graphs


def _convolved(parameters: Parameters, values: Array, graphs: list[Array], xp: Any) -> Array:
    """A convolution per layer, on its own graph and the output of the one before, merged by attention."""
    outputs, scores = [], []
    for layer, graph in zip(parameters["layers"], graphs, strict=True):
        values = graph @ dense(layer, values)
        outputs.append(values)
        scores.append(leaky(values, xp) @ parameters["attention"])
    weights = softmax(xp.concatenate(scores, axis=-1), xp)
    merged = outputs[0] * weights[..., :1]
    for at, output in enumerate(outputs[1:], start=1):
        merged = merged + output * weights[..., at : at + 1]
    return merged


CCRNN = Encoder(_new, _encode, coupled=True)
