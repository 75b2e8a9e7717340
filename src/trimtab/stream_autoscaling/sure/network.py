"""The network of a learned autoscaler, on numpy or JAX: encoder of history, heads, critic.

    window --encoder--> vertices --+-- each choice of each vertex ------------> a score for every choice
                                   +-- mean, maximum --> job -----------------> commit or hold
    newest interval, what is to come --> critic (in training only)

Scores are added to a head start for what the base rule would do (`heuristics.banded`), so a network that says
nothing is that rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, leaky, mlp, new_dense, new_mlp
from trimtab.stream_autoscaling.sure.actions import CHOICES
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Inputs, encoder_of, over_vertices
from trimtab.stream_autoscaling.sure.features import FEATURES, View

__all__ = [
    "CHOICE_FEATURES",
    "FUTURE_FEATURES",
    "JOB_FEATURES",
    "Answers",
    "answers",
    "new_network",
    "summary",
]
__all__ += ["value"]

MASKED = -1e9
FUTURE_FEATURES = 8
"""Numbers about the rate to come that the critic is told in training (never the policy)."""
CHOICE_FEATURES = (
    "against parallelism",
    "against the suggestion",
    "utilisation foreseen",
    "no change",
    "against the job's widest suggestion",
)
JOB_FEATURES = (
    "largest growth suggested",
    "largest shrinkage suggested",
    "largest utilisation foreseen as it is",
    "largest utilisation foreseen as suggested",
    "slots suggested against now",
    "base rule commits",
)
_CRITIC = 64


class Answers(NamedTuple):
    """What a network makes of some views."""

    commit: Array  # [B] score of committing; holding has 0
    choices: Array  # [B, V, choices] scores
    mask: Array  # [B, V, choices]
    mean: Array  # [B, V] of the published action, within -1 and 1
    log_spread: Array  # [] of it
    bound: Array | None  # [B]: see `encoders.Encoded`


def new_network(design: Design, seed: int, *, features: int = len(FEATURES)) -> Parameters:
    """Draw the parameters of actor and critic, which are told so many numbers of each vertex and interval."""
    random = np.random.default_rng(seed)
    hidden = design.hidden
    actor: dict[str, Any] = {"encoder": encoder_of(design.history_encoder).new(random, features, design)}
    actor["known"] = new_dense(random, 2 * hidden + features, hidden)
    if design.actions == "gaussian":
        actor["change"] = new_mlp(random, (hidden, 2 * hidden, hidden, 1), 0.01)
        actor["log_spread"] = np.full(1, -0.5, np.float32)
    else:
        actor["offer"] = new_dense(random, len(CHOICE_FEATURES), hidden)
        actor["score"] = new_mlp(random, (hidden, hidden, 1), 0.1)
        actor["commit"] = new_mlp(random, (2 * hidden + len(JOB_FEATURES), hidden, 1), 0.1)
    return {"actor": actor, "critic": _new_critic(random, features)}


def _new_critic(random: np.random.Generator, features: int) -> Parameters:
    return {
        "vertex": new_mlp(random, (2 * features, _CRITIC, _CRITIC)),
        "job": new_mlp(random, (2 * _CRITIC + len(JOB_FEATURES) + FUTURE_FEATURES, _CRITIC, _CRITIC, 1), 0.1),
    }


def inputs_of(view: View, xp: Any, hidden: Array | None = None) -> Inputs:
    """Arrays as an encoder wants them; what is not present or does not exist is 0."""
    present, exists = (xp.asarray(one).astype(xp.float32) for one in (view.present, view.exists))
    window = view.window if hidden is None else view.window[:, -1:]
    shown = present if hidden is None else present[:, -1:]
    window = xp.asarray(window).astype(xp.float32) * (shown[:, :, None, None] * exists[:, None, :, None])
    hops = xp.asarray(view.hops).astype(xp.int32)
    return Inputs(window, present, exists, hops, xp.asarray(view.coupling), xp.asarray(view.luck), hidden)


def answers(
    parameters: Parameters,
    view: View,
    design: Design,
    tools: Tools,
    *,
    draws: bool = False,
    hidden: Array | None = None,
) -> Answers:
    """Scores of everything that may be answered; `draws` lets the sampler draw at random, as in training.

    `hidden` is the window after the encoder's first layer, for who kept it from decision to decision.
    """
    xp, actor = tools.xp, parameters["actor"]
    inputs = inputs_of(view, xp, hidden)
    encoded = encoder_of(design.history_encoder).encode(actor["encoder"], inputs, design, tools, draws)
    vertices = encoded.vertices * inputs.exists[..., None]
    around = over_vertices(vertices, inputs.exists)[:, None, :]
    known = xp.concatenate([vertices, xp.broadcast_to(around, vertices.shape), inputs.window[:, -1]], axis=-1)
    context = dense(actor["known"], known)
    mask = xp.asarray(view.mask)
    nothing = xp.zeros(mask.shape[:2], xp.float32)
    if design.actions == "gaussian":
        mean = xp.tanh(mlp(actor["change"], leaky(context, xp), xp)[..., 0]) * inputs.exists
        return Answers(nothing[:, 0], mask * 0.0, mask, mean, actor["log_spread"][0], encoded.bound)
    offers = dense(actor["offer"], _choice_features(view, xp))
    scores = mlp(actor["score"], leaky(context[:, :, None, :] + offers, xp), xp)[..., 0]
    head_start = (xp.arange(len(CHOICES)) == 0).astype(xp.float32) * design.suggestion_score
    scores = xp.where(mask, _bent(scores, design, xp) + head_start, MASKED)
    commit = _commit_score(actor, leaky(context, xp), view, inputs, design, xp)
    return Answers(commit, scores, mask, nothing, xp.zeros(()), encoded.bound)


def _bent(scores: Array, design: Design, xp: Any) -> Array:
    return design.largest_score * xp.tanh(scores / design.largest_score)


def _commit_score(
    actor: Parameters, context: Array, view: View, inputs: Inputs, design: Design, xp: Any
) -> Array:
    exists = inputs.exists
    widest = xp.where(exists[..., None] > 0, context, -100.0).max(-2)
    widest = xp.where(exists.sum(-1, keepdims=True) > 0, widest, 0.0)
    job = xp.concatenate([over_vertices(context, exists), widest, job_features(view, xp)], axis=-1)
    base = 2 * xp.asarray(view.base_commits).astype(xp.float32) - 1
    score = _bent(mlp(actor["commit"], job, xp)[..., 0], design, xp) + design.commit_score * base
    return xp.where(xp.asarray(view.may_commit), score, MASKED)


def _ratio(above: Array, below: Array, xp: Any) -> Array:
    """log2 of a ratio over 2, within -2 and 2; 0 where either is 0."""
    known = (above > 0) & (below > 0)
    return xp.clip(
        xp.where(known, xp.log2(xp.where(known, above, 1.0) / xp.where(known, below, 1.0)), 0.0) / 2, -2, 2
    )


def _counts(view: View, xp: Any) -> tuple[Array, Array, Array]:
    """Parallelism by choice [B, V, choices], as it is [B, V], and busy subtasks needed [B, V]."""
    choices, now, needed = (
        xp.asarray(one).astype(xp.float32) for one in (view.choices, view.parallelism, view.needed)
    )
    return choices, now, needed


def _choice_features(view: View, xp: Any) -> Array:
    choices, now, needed = _counts(view, xp)
    now, suggested = now[..., None], choices[..., :1]
    widest = suggested.max(1, keepdims=True)
    rows = [
        _ratio(choices, now, xp),
        _ratio(choices, suggested, xp),
        xp.clip(needed[..., None] / xp.maximum(choices, 1.0), 0, 4),
        (choices == now).astype(xp.float32),
        _ratio(choices, widest, xp),
    ]
    return xp.stack(rows, axis=-1)


def job_features(view: View, xp: Any) -> Array:
    """What a commit would change, in the order of `JOB_FEATURES`: [B, n]."""
    choices, now, needed = _counts(view, xp)
    suggested = choices[..., 0]
    growth = _ratio(suggested, now, xp)
    rows = [
        xp.maximum(growth, 0.0).max(-1),
        xp.maximum(-growth, 0.0).max(-1),
        xp.clip(needed / xp.maximum(now, 1.0), 0, 4).max(-1),
        xp.clip(needed / xp.maximum(suggested, 1.0), 0, 4).max(-1),
        _ratio(suggested.max(-1), now.max(-1), xp),
        xp.asarray(view.base_commits).astype(xp.float32),
    ]
    return xp.stack(rows, axis=-1)


def value(parameters: Parameters, view: View, future: Array, xp: Any) -> Array:
    """What the critic expects, [B]: from the newest interval, the window's mean, and the rate to come.

    It may see the future: a baseline that knows the input leaves the gradient unbiased, because actions do
    not change what arrives (Mao et al., ICLR 2019).
    """
    critic = parameters["critic"]
    vertices, exists = _newest_and_mean(view, xp)
    told = leaky(mlp(critic["vertex"], vertices, xp), xp) * exists[..., None]
    pooled = [over_vertices(told, exists), told.max(1, initial=0.0), job_features(view, xp), future]
    return mlp(critic["job"], xp.concatenate(pooled, axis=-1), xp)[..., 0]


def summary(view: View, xp: Any) -> Array:
    """A few numbers about the whole situation, for separate value networks: [B, n]."""
    vertices, exists = _newest_and_mean(view, xp)
    return xp.concatenate([over_vertices(vertices, exists), job_features(view, xp)], axis=-1)


def _newest_and_mean(view: View, xp: Any) -> tuple[Array, Array]:
    inputs = inputs_of(view, xp)
    mean = inputs.window.sum(1) / inputs.present.sum(1).clip(1)[:, None, None]
    return xp.concatenate([inputs.window[:, -1], mean], axis=-1), inputs.exists
