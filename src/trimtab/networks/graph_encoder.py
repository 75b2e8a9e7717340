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
    messages, embeddings = _Rows(own.shape, xp), _Rows(own.shape, xp)
    for stage in reversed(range(features.shape[-2])):
        heard = (children[..., stage, stage + 1 :, None] * messages.after(stage)).sum(-2)
        embedding = own[..., stage, :] + leaky(mlp(parameters["combine"], heard, xp), xp)
        embeddings.put(stage, embedding)
        messages.put(stage, leaky(mlp(parameters["message"], embedding, xp), xp))
    return embeddings.after(-1)


class _Rows:
    """One row per stage, written from the last to the first; numpy writes in place, JAX collects."""

    def __init__(self, shape: tuple[int, ...], xp: Any) -> None:
        self._xp = xp
        self._written: Any = (
            np.empty(shape, np.float32) if xp is np else [xp.zeros((*shape[:-2], 0, shape[-1]))]
        )

    def put(self, stage: int, row: Array) -> None:
        if self._xp is np:
            self._written[..., stage, :] = row
        else:
            self._written.insert(0, row[..., None, :])

    def after(self, stage: int) -> Array:
        """The rows of all later stages."""
        if self._xp is np:
            return self._written[..., stage + 1 :, :]
        return self._xp.concatenate(self._written, axis=-2)


def longest_path(lengths: Array, children: Array, xp: Any) -> Array:
    """Length of the longest path from each stage down, its own length included: [..., stages].

    >>> lengths, diamond = np.array([1.0, 5.0, 2.0, 1.0]), np.zeros((4, 4))
    >>> diamond[0, 1] = diamond[0, 2] = diamond[1, 3] = diamond[2, 3] = 1
    >>> longest_path(lengths, diamond, np).tolist()
    [7.0, 6.0, 3.0, 1.0]
    """
    paths = _Rows((*lengths.shape, 1), xp)
    for stage in reversed(range(lengths.shape[-1])):
        below = children[..., stage, stage + 1 :] * paths.after(stage)[..., 0]
        paths.put(stage, lengths[..., stage, None] + below.max(-1, initial=0.0)[..., None])
    return paths.after(-1)[..., 0]
