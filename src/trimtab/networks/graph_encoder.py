"""The graph encoder of Decima (SIGCOMM'19): what a stage knows about the work below it.

    e_v = h(x_v) + g( sum over children w of f(e_w) )

Messages go from children to parents, each stage once, in topological order: no depth is cut off. The
outer non-linearity `g` lets the sum imitate a maximum, which a critical path needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.layers import Array, Parameters, leaky, mlp, new_mlp

__all__ = ["encode", "longest_path", "new_encoder"]


def new_encoder(
    random: np.random.Generator, *, features: int, hidden: int, size: int, inner: tuple[int, ...] = ()
) -> Parameters:
    """Parameters for embeddings of `size` numbers; `inner` adds layers to the two functions of a message."""
    return {
        "own": new_mlp(random, (features, hidden, size)),
        "message": new_mlp(random, (size, *inner, size)),
        "combine": new_mlp(random, (size, *inner, size)),
    }


def encode(parameters: Parameters, features: Array, children: Array, xp: Any) -> Array:
    """Embed every stage: features [..., stages, n], children [..., stages, stages] -> [..., stages, size].

    `children[..., v, w]` is 1 where w is a child of v; children come after their parents.

    >>> random = np.random.default_rng(0)
    >>> chain = np.eye(3, k=1, dtype=np.float32)
    >>> encode(
    ...     new_encoder(random, features=2, hidden=8, size=4), np.ones((3, 2), np.float32), chain, np
    ... ).shape
    (3, 4)
    """
    own = mlp(parameters["own"], features, xp)
    heard = xp.zeros_like(own)
    embeddings: list[Array] = []
    for stage in reversed(range(features.shape[-2])):
        embedding = own[..., stage, :] + leaky(mlp(parameters["combine"], heard[..., stage, :], xp), xp)
        embeddings.append(embedding)
        message = leaky(mlp(parameters["message"], embedding, xp), xp)
        heard = heard[..., :stage, :] + children[..., :stage, stage, None] * message[..., None, :]
    return xp.stack(embeddings[::-1], axis=-2)


def longest_path(lengths: Array, children: Array, xp: Any) -> Array:
    """Length of the longest path from each stage down, its own length included: [..., stages].

    >>> lengths, diamond = np.array([1.0, 5.0, 2.0, 1.0]), np.zeros((4, 4))
    >>> diamond[0, 1] = diamond[0, 2] = diamond[1, 3] = diamond[2, 3] = 1
    >>> longest_path(lengths, diamond, np).tolist()
    [7.0, 6.0, 3.0, 1.0]
    """
    below = xp.zeros_like(lengths)
    paths: list[Array] = []
    for stage in reversed(range(lengths.shape[-1])):
        path = lengths[..., stage] + below[..., stage]
        paths.append(path)
        below = xp.maximum(below[..., :stage], children[..., :stage, stage] * path[..., None])
    return xp.stack(paths[::-1], axis=-1)
