"""A Transformer encoder (Vaswani et al. 2017) over a few items, some of which may not be there.

Normalisation comes before attention and before the dense layers, not after (Xiong et al., ICML 2020), so
that it learns without a warm-up; one more stands at the end. Items are told apart by what they hold alone:
whoever cares for their order adds an encoding of it beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.networks.layers import Array, Parameters, dense, mlp, new_dense, new_mlp
from trimtab.networks.subgraph_sampler import softmax
from trimtab.networks.temporal import new_normalisation, normalised

__all__ = ["attention", "new_transformer", "transformer"]

# exp of this is exactly 0 in single precision, and differences of two stay finite.
_NEVER = -1e9
_WIDER = 4


def new_transformer(random: np.random.Generator, *, width: int, layers: int) -> Parameters:
    """Parameters of an encoder; its dense layers are four times as wide inside.

    >>> len(new_transformer(np.random.default_rng(0), width=8, layers=2)["layers"])
    2
    """
    found: dict[str, Any] = {"last": new_normalisation(width)}
    # A tree of parameters has no empty lists: they would be lost in a file.
    if layers:
        found["layers"] = [_new_layer(random, width) for _ in range(layers)]
    return found


def _new_layer(random: np.random.Generator, width: int) -> Parameters:
    return {
        "before_attention": new_normalisation(width),
        "asked": new_dense(random, width, 3 * width),
        "told": new_dense(random, width, width),
        "before_dense": new_normalisation(width),
        "dense": new_mlp(random, (width, _WIDER * width, width)),
    }


def transformer(parameters: Parameters, items: Array, real: Array, *, heads: int, xp: Any) -> Array:
    """Items [batch, n, width], of which those `real` [batch, n] are there -> the same shape.

    What stands in a place that is not real changes nothing elsewhere, and what comes out there is not used.

    >>> encoder = new_transformer(np.random.default_rng(0), width=8, layers=2)
    >>> items = np.ones((3, 5, 8), np.float32)
    >>> transformer(encoder, items, np.ones((3, 5), bool), heads=2, xp=np).shape
    (3, 5, 8)
    """
    for layer in parameters.get("layers", ()):
        items = items + attention(
            layer, normalised(layer["before_attention"], items, xp), real, heads=heads, xp=xp
        )
        items = items + mlp(layer["dense"], normalised(layer["before_dense"], items, xp), xp)
    return normalised(parameters["last"], items, xp)


def attention(layer: Mapping[str, Any], items: Array, real: Array, *, heads: int, xp: Any) -> Array:
    """What every item hears from all that are real, itself included: [batch, n, width]."""
    batch, count, width = items.shape
    if width % heads:
        raise SettingsError(f"{heads} heads of a Transformer of width {width}; the width must be a multiple")
    size = width // heads
    asked = dense(layer["asked"], items).reshape(batch, count, 3, heads, size)
    query, key, value = (xp.swapaxes(asked[:, :, part], 1, 2) for part in range(3))
    likeness = xp.matmul(query, xp.swapaxes(key, -1, -2)) * np.float32(1 / math.sqrt(size))
    weights = softmax(xp.where(real[:, None, None, :], likeness, np.float32(_NEVER)), xp)
    heard = xp.swapaxes(xp.matmul(weights, value), 1, 2).reshape(batch, count, width)
    return dense(layer["told"], heard)
