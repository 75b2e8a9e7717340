"""The graph encoder of Decima (SIGCOMM'19): what a stage knows about the work below it.

    e_v = h(x_v) + g( sum over children w of f(e_w) )

Messages go from children to parents, each stage once, in topological order: no depth is cut off. The
outer non-linearity `g` lets the sum imitate a maximum, which a critical path needs.

Training and batches keep their graphs in a grid, [envs, graphs, stages]. Whoever decides with numpy alone
packs the stages of one environment into rows (`graph_rows.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.layers import Array, Parameters, leaky, mlp, new_mlp

__all__ = ["Grid", "encode", "latest_parent", "longest_path", "new_encoder"]


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
    found: list[Array] = []
    for stage in reversed(range(lengths.shape[-1])):
        path = lengths[..., stage] + below[..., stage]
        found.append(path)
        below = xp.maximum(below[..., :stage], children[..., :stage, stage] * path[..., None])
    return xp.stack(found[::-1], axis=-1)


def latest_parent(times: Array, children: Array) -> Array:
    """The largest time among the parents of each stage, 0 for those without any: [..., stages].

    >>> latest_parent(np.array([2.0, 3.0, 9.0]), np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]])).tolist()
    [0.0, 0.0, 3.0]
    """
    return (children * times[..., None]).max(-2, initial=0.0)


class Grid:
    """Graphs as they come: arrays by stage are [envs, graphs, stages, ...], by graph [envs, graphs, ...].

    `Packed` offers the same, so that a network is written once for both.
    """

    def __init__(self, children: Array, xp: Any) -> None:
        self.children = children
        self.xp = xp

    def rows(self, by_stage: Array) -> Array:
        """What is stored in a grid, in this arrangement."""
        return by_stage

    def placed(self, by_stage: Array, otherwise: float | bool) -> Array:
        """The way back: into a grid, with something in the places that hold no stage."""
        return by_stage

    def among(self, wanted: Array) -> Grid:
        """The arrangement that has room for the wanted stages."""
        return self

    def picked(self, by_stage: Array) -> Array:
        """Of all stages, those that were wanted."""
        return by_stage

    def spread(self, by_graph: Array) -> Array:
        """To each stage what is known of its graph."""
        return by_graph[:, :, None]

    def total(self, by_stage: Array) -> Array:
        """Sum over the stages of each graph; there is one axis after that of the stages."""
        return by_stage.sum(-2)

    def largest(self, by_stage: Array) -> Array:
        """Maximum over the stages of each graph; nothing is negative."""
        return by_stage.max(-1)

    def longest_path(self, lengths: Array) -> Array:
        """As the function above, of several lengths at once: they are the first axis."""
        return longest_path(lengths, self.children[None], self.xp)

    def latest_parent(self, times: Array) -> Array:
        """As the function above."""
        return latest_parent(times, self.children)

    def encode(self, parameters: Parameters, features: Array) -> Array:
        """As the function above."""
        return encode(parameters, features, self.children, self.xp)
