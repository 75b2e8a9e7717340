"""Graph isomorphism network (Xu et al., ICLR 2019): a node is a function of itself plus its neighbours' sum.

    h_v  <-  mlp( (1 + e) h_v + sum over kinds of edges k of g_k * sum over neighbours u of h_u )

Edges of several kinds (to children, to parents, from the moment before) each have their own gains g_k, which
start at 1: the published sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.networks.layers import Array, Parameters, leaky, mlp, new_mlp

__all__ = ["KINDS", "isomorphism_layers", "new_isomorphism_layers", "snapshot_messages"]

KINDS = 3
"""Children, parents, and the same vertex in the snapshot before."""


def new_isomorphism_layers(random: np.random.Generator, *, size: int, layers: int) -> Parameters:
    """Parameters of so many rounds; nodes are described by `size` numbers throughout."""
    return [
        {
            "transform": new_mlp(random, (size, size, size)),
            "own": np.zeros(size, np.float32),
            "gains": np.ones((KINDS, size), np.float32),
        }
        for _ in range(layers)
    ]


def isomorphism_layers(
    layers: Sequence[Parameters], nodes: Array, heard: Any, real: Array, xp: Any
) -> list[Array]:
    """Descriptions of the nodes after every round; `heard(nodes)` gives the sum over neighbours by kind.

    `real` [..., 1] is 0 for nodes that stand for nothing: they stay 0 and say nothing.

    >>> layers = new_isomorphism_layers(np.random.default_rng(0), size=4, layers=2)
    >>> silent = lambda nodes: [np.zeros_like(nodes)] * KINDS
    >>> rounds = isomorphism_layers(layers, np.ones((5, 4), np.float32), silent, np.ones((5, 1)), np)
    >>> [one.shape for one in rounds]
    [(5, 4), (5, 4)]
    """
    rounds = []
    nodes = nodes * real
    for layer in layers:
        total = nodes * (1 + layer["own"])
        for kind, message in enumerate(heard(nodes)):
            total = total + layer["gains"][kind] * message
        nodes = leaky(mlp(layer["transform"], total, xp), xp) * real
        rounds.append(nodes)
    return rounds


def snapshot_messages(nodes: Array, edges: Array, before: Array, xp: Any) -> list[Array]:
    """What nodes hear inside their snapshot and from the one before: one array for each of `KINDS`.

    nodes [..., snapshots, n, size]; edges [..., n, n] has 1 where the first feeds the second; `before`
    [..., snapshots, n, 1] is 1 for nodes that also hear from their own place one snapshot earlier.

    >>> nodes, chain = np.array([[[1.0], [10.0]], [[100.0], [1000.0]]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    >>> children, parents, earlier = snapshot_messages(nodes, chain, np.ones((2, 2, 1)), np)
    >>> children.ravel().tolist(), parents.ravel().tolist(), earlier.ravel().tolist()
    ([10.0, 0.0, 1000.0, 0.0], [0.0, 1.0, 0.0, 100.0], [0.0, 0.0, 1.0, 10.0])
    """
    earlier = xp.concatenate([xp.zeros_like(nodes[..., :1, :, :]), nodes[..., :-1, :, :]], axis=-3)
    return [edges @ nodes, xp.swapaxes(edges, -1, -2) @ nodes, before * earlier]
