"""SURE's encoder: a vertex looks at a few moments of its past and a few neighbours in each; it learns which.

For vertex i the candidates in time are its own L snapshots; in each snapshot picked, the candidates are its
neighbours within a few hops, up and down the graph. Theta (over time) and phi (over neighbours) are Gaussian
latents of `networks.subgraph_sampler`. The picks make a subgraph of k1 (1 + k2) nodes, which a graph
isomorphism network reads:

    edges between vertices of one snapshot        vertex i of one snapshot picked -> i of the next one picked

Two ablations share everything but the picks: a random subset, and the full graph of all L snapshots.

The lower bound of SURE is an extra loss: divergence of the latents from N(0, 1), surprise of the picks, and
minus the mutual information between subgraph and full graph. It is a mean over vertices, so that its weights
mean the same for jobs of all sizes. Where the published bound takes the logarithm of the estimated
information, this one takes the information itself: the estimate may be negative. Layers are not normalised
over the batch as published: a decision about one job must not depend on who else is asked.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.graph_isomorphism import isomorphism_layers, new_isomorphism_layers, snapshot_messages
from trimtab.networks.layers import Array, Parameters, dense, leaky, mlp, new_dense, new_mlp
from trimtab.networks.mutual_information import jensen_shannon_information
from trimtab.networks.noise import gumbel_noise, normal_noise, uniform_noise
from trimtab.networks.subgraph_sampler import (
    Latents,
    Picked,
    cross_entropy,
    divergence,
    latents_of,
    log_volume,
    pick,
)
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Encoded, Encoder, Inputs, embedded, over_vertices

__all__ = ["FULL", "RANDOM", "SAMPLER", "Subgraph", "subgraphs"]

# What draws are for: the last counter of their hash.
_TIME, _SPACE = 0, 1
_SURE = (None, None)
"""No noise."""
_FIRST_LOG_VARIANCE = -2.0


class Subgraph(NamedTuple):
    """What was picked, and the latents it was picked by (None for a random subset)."""

    moments: Picked  # [B, V, k1]: positions in the window
    members: Picked  # [B, V, k1, k2]: neighbours in each
    time: Latents | None  # over [B, V, L]
    space: Latents | None  # over [B, L, V, V]
    space_picked: Latents | None  # the same at the moments picked, [B, V, k1, V]


def _new_reader(random: np.random.Generator, features: int, design: Design) -> Parameters:
    hidden = design.hidden
    return {
        "embed": new_dense(random, features, hidden),
        "rounds": new_isomorphism_layers(random, size=hidden, layers=design.layers),
        "pooled": new_dense(random, design.layers * hidden, hidden),
        "refine": new_mlp(random, (hidden, hidden, hidden, hidden)),
    }


def _new_subset(random: np.random.Generator, features: int, design: Design) -> Parameters:
    marks = random.normal(0, 0.1, (2 * design.hops + 1, design.hidden)).astype(np.float32)
    return {**_new_reader(random, features, design), "hop_mark": marks}


def _new_sampler(random: np.random.Generator, features: int, design: Design) -> Parameters:
    hidden, size = design.hidden, _key_size(design)
    spread = {name: new_dense(random, hidden, 1, 0.1) for name in ("time_spread", "space_spread")}
    for layer in spread.values():
        layer["bias"] += _FIRST_LOG_VARIANCE
    return {
        **_new_subset(random, features, design),
        **{
            name: new_dense(random, hidden, size)
            for name in ("time_query", "time_key", "space_query", "space_key")
        },
        "age": new_dense(random, 3, size),
        "hop_score": np.zeros(2 * design.hops + 1, np.float32),
        **spread,
    }


def _key_size(design: Design) -> int:
    return max(4, design.hidden // 2)


def _encode_sampled(
    parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool
) -> Encoded:
    xp = tools.xp
    hidden = embedded(parameters, inputs, xp)
    found = subgraphs(parameters, hidden, inputs, design, tools, draws)
    codes = _read(parameters, hidden, found, inputs, design, tools)
    bound = _bound(parameters, hidden, codes, found, inputs, design, xp) if draws else None
    return Encoded(codes, bound)


def _encode_random(
    parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool
) -> Encoded:
    xp = tools.xp
    hidden = embedded(parameters, inputs, xp)
    found = _random_subgraphs(inputs, design, tools)
    return Encoded(_read(parameters, hidden, found, inputs, design, tools))


def _encode_full(
    parameters: Parameters, inputs: Inputs, design: Design, tools: Tools, draws: bool
) -> Encoded:
    """Every vertex is told by all its own snapshots, after they heard from all others."""
    xp = tools.xp
    hidden = embedded(parameters, inputs, xp)
    rounds = _full_rounds(parameters, hidden, inputs, xp)
    number = inputs.present.sum(-1).clip(1)[:, None, None]
    pooled = xp.concatenate([one.sum(1) / number for one in rounds], axis=-1)
    return Encoded(_refined(parameters, pooled, xp))


SAMPLER = Encoder(_new_sampler, _encode_sampled, embeds=True)
RANDOM = Encoder(_new_subset, _encode_random, embeds=True)
FULL = Encoder(_new_reader, _encode_full, embeds=True)


def subgraphs(
    parameters: Parameters, hidden: Array, inputs: Inputs, design: Design, tools: Tools, draws: bool
) -> Subgraph:
    """Pick moments and neighbours for every vertex: at random where it `draws`, else the highest scores."""
    xp = tools.xp
    batch, length, vertices = hidden.shape[:3]
    time = _time_latents(parameters, hidden, inputs, design, xp, draws)
    if not draws:
        moments = _picked(time, design.snapshots, _SURE, design, tools)
        return Subgraph(
            moments, _likeliest(parameters, hidden, moments, inputs, design, tools), None, None, None
        )
    places = (xp.arange(vertices)[:, None], xp.arange(length))
    noise = _noise(inputs.luck[:, None, None], *places, _TIME, xp=xp)
    moments = _picked(time, design.snapshots, noise, design, tools)
    space = _space_latents(parameters, hidden, inputs, design, xp)
    row, own = xp.arange(batch)[:, None, None], xp.arange(vertices)[:, None]
    at_moments = Latents(*(one[row, moments.positions, own] for one in space))
    where = (xp.arange(vertices)[:, None, None], moments.positions[..., None], xp.arange(vertices))
    noise = _noise(inputs.luck[:, None, None, None], *where, _SPACE, xp=xp)
    members = _picked(at_moments, min(design.neighbours, vertices), noise, design, tools)
    return Subgraph(moments, members, time, space, at_moments)


def _likeliest(
    parameters: Parameters, hidden: Array, moments: Picked, inputs: Inputs, design: Design, tools: Tools
) -> Picked:
    """The neighbours of the highest scores, scored at the moments picked alone: the cost is not that of L."""
    xp = tools.xp
    batch, _, vertices = hidden.shape[:3]
    reach = _reachable(inputs, design)
    width = max(tools.widest(reach.sum(-1), vertices), min(design.neighbours, vertices))
    # Those within reach come first, in their own order; of equal scores the first is picked, as in training.
    near = xp.sort(tools.largest(reach.astype(xp.float32), width), axis=-1)[:, :, None, :]
    row, at = xp.arange(batch)[:, None, None, None], moments.positions[..., None]
    own = xp.arange(vertices)[:, None, None]
    query = dense(parameters["space_query"], hidden[row, at, own])
    keys = dense(parameters["space_key"], hidden)[row, at, near]
    score = (keys @ xp.swapaxes(query, -1, -2))[..., 0] / math.sqrt(query.shape[-1])
    score = score + parameters["hop_score"][_marks(inputs, design)[row, own, near]]
    allowed = xp.broadcast_to(reach[row, own, near], score.shape)
    latents = Latents(score, score, score, allowed & moments.real[..., None])
    found = _picked(latents, min(design.neighbours, vertices), _SURE, design, tools)
    ids = xp.take_along_axis(xp.broadcast_to(near, score.shape), found.positions, -1)
    return found._replace(positions=ids)


def _noise(luck: Array, *places: Any, xp: Any) -> tuple[Array, Array]:
    return normal_noise(luck, *places, xp=xp), gumbel_noise(luck, *places, 2, xp=xp)


def _picked(
    latents: Latents, count: int, noise: tuple[Array | None, Array | None], design: Design, tools: Tools
) -> Picked:
    normal, gumbel = noise
    found = pick(latents, count, normal=normal, gumbel=gumbel, temperature=design.temperature, tools=tools)
    return found if design.straight_through else found._replace(slope=None)


def _time_latents(
    parameters: Parameters, hidden: Array, inputs: Inputs, design: Design, xp: Any, draws: bool
) -> Latents:
    """Theta: how much the vertex of today wants to see of itself at each moment, [B, V, L]."""
    key, ages = parameters["time_key"], _ages(hidden.shape[1], xp)
    query = dense(parameters["time_query"], hidden[:, -1])
    # The query is projected and not every key: the same products, a fraction of the work.
    asked = query @ key["weights"].T
    by_age = query @ (dense(parameters["age"], ages) + key["bias"]).T
    score = (xp.einsum("blvh,bvh->bvl", hidden, asked) + by_age) / math.sqrt(query.shape[-1])
    allowed = (inputs.present[:, None, :] * inputs.exists[:, :, None]) > 0
    if not draws:
        return Latents(score, score, score, allowed)
    spread = xp.swapaxes(dense(parameters["time_spread"], hidden)[..., 0], 1, 2)
    return latents_of(score, spread, allowed, reach=design.reach, xp=xp)


def _ages(length: int, xp: Any) -> Array:
    """A moment's age in three ways: [L, 3], newest last."""
    age = np.arange(length - 1, -1, -1, dtype=np.float32)
    return xp.asarray(np.stack([age / length, np.log1p(age) / 4, np.exp(-age / 5)], axis=-1))


def _space_latents(parameters: Parameters, hidden: Array, inputs: Inputs, design: Design, xp: Any) -> Latents:
    """Phi: how much vertex i wants to see of vertex v at each moment, [B, L, V, V]."""
    query, key = dense(parameters["space_query"], hidden), dense(parameters["space_key"], hidden)
    score = query @ xp.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    score = score + parameters["hop_score"][_marks(inputs, design)][:, None]
    spread = dense(parameters["space_spread"], hidden)[..., 0][:, :, None, :]
    allowed = (inputs.present[:, :, None, None] > 0) & _reachable(inputs, design)[:, None]
    return latents_of(score, spread, allowed, reach=design.reach, xp=xp)


def _marks(inputs: Inputs, design: Design) -> Array:
    """Rows of the tables by signed distance, [B, V, V]."""
    return inputs.hops + design.hops


def _reachable(inputs: Inputs, design: Design) -> Array:
    return inputs.hops > 0 if design.downstream_only else inputs.hops != 0


def _random_subgraphs(inputs: Inputs, design: Design, tools: Tools) -> Subgraph:
    """Moments and neighbours by luck alone; the newest moments and nearest neighbours have no preference."""
    xp = tools.xp
    batch, length = inputs.present.shape
    vertices = inputs.exists.shape[1]
    own = xp.arange(vertices)[:, None]
    score = uniform_noise(inputs.luck[:, None, None], own, xp.arange(length), _TIME, xp=xp)
    allowed = (inputs.present[:, None, :] * inputs.exists[:, :, None]) > 0
    moments = _picked(Latents(score, score, score, allowed), design.snapshots, _SURE, design, tools)
    where = (own[:, :, None], moments.positions[..., None], xp.arange(vertices))
    score = uniform_noise(inputs.luck[:, None, None, None], *where, _SPACE, xp=xp)
    shape = (batch, vertices, design.snapshots, vertices)
    allowed = xp.broadcast_to(_reachable(inputs, design)[:, :, None], shape)
    count = min(design.neighbours, vertices)
    members = _picked(Latents(score, score, score, allowed), count, _SURE, design, tools)
    return Subgraph(moments, members, None, None, None)


def _read(
    parameters: Parameters, hidden: Array, found: Subgraph, inputs: Inputs, design: Design, tools: Tools
) -> Array:
    """Run the graph isomorphism network over the subgraph of each vertex: [B, V, hidden]."""
    xp = tools.xp
    nodes, real, ids = _nodes(parameters, hidden, found, inputs, design, xp)
    batch = xp.arange(hidden.shape[0])[:, None, None, None, None]
    edges = inputs.edges(xp)[batch, ids[..., :, None], ids[..., None, :]]
    before = (xp.arange(ids.shape[-1]) == 0).astype(xp.float32)[:, None]

    def heard(now: Array) -> list[Array]:
        return snapshot_messages(now, edges, before, xp)

    rounds = isomorphism_layers(parameters["rounds"], nodes, heard, real, xp)
    # Divided by the number of places: sums as published, of the size of one node.
    places = design.snapshots * (1 + design.neighbours)
    pooled = xp.concatenate([one.sum((-3, -2)) / places for one in rounds], axis=-1)
    return _refined(parameters, pooled, xp)


def _nodes(
    parameters: Parameters, hidden: Array, found: Subgraph, inputs: Inputs, design: Design, xp: Any
) -> tuple[Array, Array, Array]:
    """Nodes [B, V, k1, 1 + k2, hidden] (the vertex itself first), which are real, and what vertex each is."""
    batch, length, vertices, size = hidden.shape
    moments, members = found.moments, found.members
    own = xp.broadcast_to(xp.arange(vertices)[:, None, None], (*moments.positions.shape, 1))
    ids = xp.concatenate([own, members.positions], axis=-1)
    rows = (moments.positions[..., None] * vertices + ids).reshape(batch, -1)
    nodes = hidden.reshape(batch, length * vertices, size)[xp.arange(batch)[:, None], rows]
    nodes = nodes.reshape(*ids.shape, size)
    first = xp.arange(batch)[:, None, None, None]
    marks = _marks(inputs, design)[first, xp.arange(vertices)[:, None, None], ids]
    nodes = nodes + parameters["hop_mark"][marks]
    here = moments.real[..., None]
    real = xp.concatenate([here, members.real & here], axis=-1)[..., None].astype(xp.float32)
    if moments.slope is not None and members.slope is not None:
        slopes = xp.concatenate([xp.ones_like(here, dtype=xp.float32), members.slope], axis=-1)
        nodes = nodes * (moments.slope[..., None] * slopes)[..., None]
    return nodes, real, ids


def _full_rounds(parameters: Parameters, hidden: Array, inputs: Inputs, xp: Any) -> list[Array]:
    """The same network over all L snapshots at once: arrays [B, L, V, hidden]."""
    real = (inputs.present[:, :, None] * inputs.exists[:, None])[..., None]
    edges = inputs.edges(xp)[:, None]

    def heard(now: Array) -> list[Array]:
        return snapshot_messages(now, edges, real, xp)

    return isomorphism_layers(parameters["rounds"], hidden, heard, real, xp)


def _refined(parameters: Parameters, pooled: Array, xp: Any) -> Array:
    pooled = leaky(dense(parameters["pooled"], pooled), xp)
    return pooled + mlp(parameters["refine"], pooled, xp)


def _bound(
    parameters: Parameters,
    hidden: Array,
    codes: Array,
    found: Subgraph,
    inputs: Inputs,
    design: Design,
    xp: Any,
) -> Array:
    """Minus the lower bound of SURE, weighed: [B]."""
    assert found.time is not None
    assert found.space is not None
    assert found.space_picked is not None
    total = xp.zeros(hidden.shape[0], xp.float32)
    picks = found.moments.real

    def mean(by_vertex: Array) -> Array:
        return over_vertices(by_vertex[..., None], inputs.exists)[..., 0]

    if design.divergence_weight:
        apart = divergence(found.time, xp) + divergence(found.space, xp).sum(1)
        total = total + design.divergence_weight * mean(apart)
    if design.volume_weight:
        volume = log_volume(found.time, xp) + log_volume(found.space, xp).sum(1)
        total = total + design.volume_weight * mean(volume)
    if design.surprise_weight:
        surprise = cross_entropy(found.time, found.moments, xp)
        in_space = cross_entropy(found.space_picked, found.members, xp)
        surprise = surprise + xp.where(picks, in_space, 0.0).sum(-1)
        total = total + design.surprise_weight * mean(surprise)
    if design.information_weight:
        rounds = _full_rounds(parameters, hidden, inputs, xp)
        number = (inputs.present.sum(-1) * inputs.exists.sum(-1)).clip(1)[:, None]
        pooled = xp.concatenate([one.sum((1, 2)) / number for one in rounds], axis=-1)
        whole = _refined(parameters, pooled, xp)
        information = jensen_shannon_information(codes, whole, inputs.exists, xp)
        total = total - design.information_weight * information
    return total
