"""The network as an agent that `trimtab.learning` can train: sample, judge, choose the best.

The sampler of subgraphs draws at random while training. Its luck is a word of the observation, so whoever
judges a decision later looks at the same subgraph as when it was made, and only the change of the parameters
shows in the ratio of probabilities.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from trimtab.learning.agent import Acted, Agent, Judged
from trimtab.learning.distributions import (
    allowed_log_probs,
    choice_entropy,
    choice_log_prob,
    likeliest_choice,
    sample_choice,
)
from trimtab.learning.jax_tools import JAX_TOOLS
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FEATURES, View
from trimtab.stream_autoscaling.sure.network import Answers, answers, new_network, summary, value

__all__ = ["sure_agent", "view_in"]

_HALF_LOG_TWO_PI = 0.9189385332046727


def sure_agent(
    design: Design,
    *,
    sees_future: bool = True,
    seed: int = 0,
    start: Any = None,
    features: int = len(FEATURES),
    apart: bool = False,
) -> Agent:
    """An agent whose actions are what `actions.decode_action` reads.

    `sees_future` tells the critic, in training, what rates are still to come; off for the ablation.
    `start` holds parts of the parameters to begin from, such as those of a bundle (which has no critic).
    `features` is how many numbers a view has of each vertex. With `apart`, each vertex has a log-probability
    of its own for the published action: of dozens together, hardly any ratio would stay within a clip.
    """
    weigh = _residual if design.actions != "gaussian" else _gaussian_apart if apart else _gaussian

    def answered(parameters: Any, observation: dict[str, jax.Array], *, draws: bool) -> Answers:
        return answers(parameters, view_in(observation), design, JAX_TOOLS, draws=draws)

    def foretold(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        future = observation["future"].astype(jnp.float32) * (1.0 if sees_future else 0.0)
        return value(parameters, view_in(observation), future, jnp)

    def act(parameters: Any, observation: dict[str, jax.Array], key: jax.Array) -> Acted:
        found = answered(parameters, observation, draws=True)
        action = _drawn(found, observation["exists"], key, design)
        log_prob, _ = weigh(found, action, observation["exists"])
        return Acted(action, log_prob, foretold(parameters, observation))

    def judge(parameters: Any, observation: dict[str, jax.Array], action: jax.Array) -> Judged:
        found = answered(parameters, observation, draws=True)
        log_prob, entropy = weigh(found, action, observation["exists"])
        return Judged(log_prob, entropy, foretold(parameters, observation), found.bound)

    def best(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        found = answered(parameters, observation, draws=False)
        if design.actions == "gaussian":
            return found.mean
        commit = (found.commit > 0).astype(jnp.int32)
        return jnp.concatenate([commit[:, None], likeliest_choice(found.choices)], axis=1)

    def drawn(key: jax.Array) -> Any:
        return jax.tree.map(jnp.asarray, new_network(design, seed, features=features) | (start or {}))

    def summarised(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        return summary(view_in(observation), jnp)

    doubting = None if design.actions == "gaussian" else _doubting
    return Agent(init=drawn, act=act, judge=judge, best=best, summary=summarised, doubting=doubting)


def view_in(observation: dict[str, jax.Array]) -> View:
    """The part of an observation that the network is told."""
    return View(*(observation[name] for name in View._fields))  # pyright: ignore[reportArgumentType]


def _drawn(found: Answers, exists: jax.Array, key: jax.Array, design: Design) -> jax.Array:
    if design.actions == "gaussian":
        drawn = found.mean + jnp.exp(found.log_spread) * jax.random.normal(key, found.mean.shape)
        return jnp.where(exists, drawn, 0.0)
    commit_key, choice_key = jax.random.split(key)
    chance = jax.nn.sigmoid(found.commit)
    commits = (jax.random.uniform(commit_key, chance.shape) < chance).astype(jnp.int32)
    choices = sample_choice(choice_key, allowed_log_probs(found.choices, found.mask))
    return jnp.concatenate([commits[:, None], choices], axis=1)


def _residual(found: Answers, action: jax.Array, exists: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities and entropies, [B, 2]: of commit or hold, and of all choices, none if held."""
    commits = action[:, 0] > 0
    log_commit, log_hold = jax.nn.log_sigmoid(found.commit), jax.nn.log_sigmoid(-found.commit)
    log_probs = allowed_log_probs(found.choices, found.mask)
    chosen = jnp.where(exists, choice_log_prob(log_probs, action[:, 1:]), 0.0).sum(-1)
    chance = jax.nn.sigmoid(found.commit)
    of_choices = jnp.where(exists, choice_entropy(log_probs), 0.0).sum(-1)
    # Where nothing may be committed its logarithm is -1e9 and its chance 0: the product is 0.
    of_gate = -chance * log_commit - (1 - chance) * log_hold
    log_prob = jnp.stack([jnp.where(commits, log_commit, log_hold), jnp.where(commits, chosen, 0.0)], axis=-1)
    return log_prob, jnp.stack([of_gate, chance * of_choices], axis=-1)


def _gaussian(found: Answers, action: jax.Array, exists: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-density and entropy of the published action, over the vertices there are."""
    density, entropy = _gaussian_apart(found, action, exists)
    return density.sum(-1), entropy.sum(-1)


def _gaussian_apart(found: Answers, action: jax.Array, exists: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same for each vertex, [B, V]; 0 where there is none."""
    distance = (action - found.mean) * jnp.exp(-found.log_spread)
    density = -0.5 * jnp.square(distance) - found.log_spread - _HALF_LOG_TWO_PI
    return jnp.where(exists, density, 0.0), exists * (found.log_spread + _HALF_LOG_TWO_PI + 0.5)


def _doubting(parameters: Any, factor: float) -> Any:
    """Flatter scores beside the head start of the base rule, which stays."""
    actor = dict(parameters["actor"])
    for head in ("score", "commit"):
        last = {name: factor * values for name, values in actor[head][-1].items()}
        actor[head] = [*actor[head][:-1], last]
    return {**parameters, "actor": actor}
