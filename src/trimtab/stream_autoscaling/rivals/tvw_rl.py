"""TVW-RL: each vertex's metrics over time as an image, and the class of its workload; no edges.

After Mondal, Sheoran and Mitra (AAAI 2021), scheduling of time-varying workloads. They cluster workloads into
classes beforehand; here the classes are soft and their centres are learned with the rest, so that nothing
has to be clustered anew for another job.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, leaky, new_dense
from trimtab.networks.subgraph_sampler import softmax
from trimtab.networks.temporal import new_time_convolution, time_convolution
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs

__all__ = ["TVW_RL"]

_FILTERS = (16, 32, 12)
_WIDTH, _STRIDE = 3, 2
_CLASSES = 6


def _new(random: np.random.Generator, features: int, design: Design) -> Parameters:
    sizes = (features, *_FILTERS)
    layers = [new_time_convolution(random, below, above, _WIDTH) for below, above in pairwise(sizes)]
    # The newest column of the image and the mean over it.
    told = 2 * _FILTERS[-1] + _CLASSES
    centres = random.normal(0, 0.5, (_CLASSES, 2 * features)).astype(np.float32)
    return {"image": layers, "centres": centres, "out": new_dense(random, told, design.hidden)}


def _encode(parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool) -> Encoded:
    xp = tools.xp
    image = xp.swapaxes(inputs.window, 1, 2)
    for layer in parameters["image"]:
        image = leaky(time_convolution(layer, image, _WIDTH, xp, stride=_STRIDE), xp)
    classes = _classes(parameters["centres"], inputs, tools)
    told = xp.concatenate([image[..., -1, :], image.mean(-2), classes], axis=-1)
    return Encoded(leaky(dense(parameters["out"], told), xp))


def _classes(centres: Array, inputs: Inputs, tools: Tools) -> Array:
    """How much a vertex's workload, its mean and deviation over the window, belongs to each class."""
    xp = tools.xp
    number = inputs.present.sum(1).clip(1)[:, None, None]
    mean = inputs.window.sum(1) / number
    off = (inputs.window - mean[:, None]) * inputs.present[:, :, None, None]
    # The root of 0 has no slope.
    deviation = xp.sqrt((off * off).sum(1) / number + 1e-6)
    profile = xp.concatenate([mean, deviation], axis=-1)[..., None, :]
    away = profile - centres
    return softmax(-(away * away).mean(-1) * 4, xp)


TVW_RL = Encoder(_new, _encode)
