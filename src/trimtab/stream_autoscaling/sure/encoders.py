"""Encoders of history: from the last intervals of all vertices to one description of each vertex.

SURE is one of them, and so are its rivals; everything around them (features, actions, heads, critic,
training, bundle) is the same, so a comparison compares encoders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from trimtab.core.registry import Registry
from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, leaky
from trimtab.stream_autoscaling.sure.design import Design

__all__ = ["ENCODERS", "Encoded", "Encoder", "Inputs", "embedded", "encoder_of", "over_vertices"]


class Inputs(NamedTuple):
    """What an encoder sees, B rows at once."""

    window: Array  # [B, L, V, features], 0 where nothing is known; only the newest where `hidden` is given
    present: Array  # [B, L] 1 for intervals that were seen
    exists: Array  # [B, V] 1 for vertices there are
    hops: Array  # [B, V, V] whole numbers: steps from i down to j, negative up, 0 out of reach
    coupling: Array  # [B, V, 2 * features.COUPLING]; one 0 for encoders that do not ask for it
    luck: Array  # [B] words
    hidden: Array | None = None
    """[B, L, V, hidden]: the window after the first layer, where it was kept from decision to decision."""

    def edges(self, xp: Any) -> Array:
        """1 where vertex i feeds vertex j, [B, V, V]."""
        return (self.hops == 1).astype(xp.float32)


class Encoded(NamedTuple):
    """What an encoder finds."""

    vertices: Array
    """[B, V, hidden]"""
    bound: Array | None = None
    """[B]: what is to be made small besides the loss of the policy, weighed; None: nothing."""


class Encoder(NamedTuple):
    """Two functions; `encode(parameters, inputs, design, tools, draws)` draws at random where it is to."""

    new: Callable[[np.random.Generator, int, Design], Parameters]
    encode: Callable[[Parameters, Inputs, Design, Tools, bool], Encoded]
    coupled: bool = False
    """Whether it wants the factors of the graph."""
    embeds: bool = False
    """Whether it looks at the window through `embedded` alone: then each interval is embedded only once."""


_HERE, _RIVALS = "trimtab.stream_autoscaling.sure", "trimtab.stream_autoscaling.rivals"
ENCODERS: Registry[Encoder] = Registry(
    "history encoder",
    {
        "sampler": f"{_HERE}.sampling:SAMPLER",
        "random": f"{_HERE}.sampling:RANDOM",
        "full": f"{_HERE}.sampling:FULL",
        "gru": f"{_HERE}.gated:GRU",
        "deepwave": f"{_RIVALS}.deepwave:DEEPWAVE",
        "dream": f"{_RIVALS}.dream:DREAM",
        "tvw-rl": f"{_RIVALS}.tvw_rl:TVW_RL",
        "astgcn": f"{_RIVALS}.astgcn:ASTGCN",
        "ccrnn": f"{_RIVALS}.ccrnn:CCRNN",
    },
)


@cache
def encoder_of(name: str) -> Encoder:
    """The encoder of that name."""
    return ENCODERS.load(name)


def embedded(parameters: Parameters, inputs: Inputs, xp: Any) -> Array:
    """The window through a first layer, each interval by itself: [B, L, V, hidden]."""
    if inputs.hidden is not None:
        return inputs.hidden
    return leaky(dense(parameters["embed"], inputs.window), xp)


def over_vertices(values: Array, exists: Array) -> Array:
    """Mean over the vertices there are: [B, V, n] -> [B, n].

    >>> over_vertices(np.array([[[1.0], [3.0], [99.0]]]), np.array([[1.0, 1.0, 0.0]])).tolist()
    [[2.0]]
    """
    return (values * exists[..., None]).sum(-2) / exists.sum(-1, keepdims=True).clip(1)
