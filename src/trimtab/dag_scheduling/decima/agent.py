"""The network as an agent that `trimtab.learning` can train: sample, judge, choose the best."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from trimtab.dag_scheduling.decima.network import (
    Design,
    Scores,
    limit_scores,
    new_network,
    stage_scores,
    summary,
    value,
)
from trimtab.dag_scheduling.decima.view import Catalogue, View, completed
from trimtab.learning.agent import Acted, Agent, Judged
from trimtab.learning.distributions import (
    allowed_log_probs,
    choice_entropy,
    choice_log_prob,
    likeliest_choice,
    sample_choice,
)

__all__ = ["decima_agent"]


def decima_agent(
    design: Design,
    *,
    most_executors: int,
    sees_future: bool = True,
    seed: int = 0,
    start: Any = None,
    catalogue: Catalogue | None = None,
) -> Agent:
    """An agent whose actions are (choice, limit): positions in the scores of the network.

    `sees_future` tells the critic, in training, which jobs are still to come; off for the ablation.
    `start` holds parts of the parameters to begin from, such as those of a bundle (which has no critic).
    With a `catalogue` it also understands observations that tell only what changes.
    """

    def viewed(observation: dict[str, jax.Array]) -> View:
        if "rows" not in observation:
            return View(*(observation[name] for name in View._fields))  # pyright: ignore[reportArgumentType]
        assert catalogue is not None
        known = Catalogue._make(jnp.asarray(part) for part in catalogue)  # pyright: ignore[reportArgumentType]
        stages, children = completed(observation["stages"], observation["rows"], known, jnp)
        return View(stages, children, observation["jobs"], observation["cluster"])  # pyright: ignore[reportArgumentType]

    def scored(parameters: Any, observation: dict[str, jax.Array]) -> tuple[Scores, jax.Array]:
        scores = stage_scores(parameters, viewed(observation), design, jnp)
        return scores, allowed_log_probs(scores.logits, scores.mask)

    def limits(parameters: Any, scores: Scores, choice: jax.Array) -> jax.Array:
        logits, mask, _ = limit_scores(parameters, scores, choice, design, most_executors, jnp)
        # Where the rest stays idle there is no limit to choose: all weight on the first.
        idle = (choice == scores.logits.shape[1] - 1)[:, None]
        first = jnp.arange(mask.shape[1])[None, :] == 0
        return allowed_log_probs(jnp.where(idle, 0.0, logits), jnp.where(idle, first, mask))

    def foretold(parameters: Any, scores: Scores, observation: dict[str, jax.Array]) -> jax.Array:
        future = observation["future"] * (1.0 if sees_future else 0.0)
        return value(parameters, scores.facts, future, jnp)

    def act(parameters: Any, observation: dict[str, jax.Array], key: jax.Array) -> Acted:
        scores, choices = scored(parameters, observation)
        first, second = jax.random.split(key)
        choice = sample_choice(first, choices)
        offered = limits(parameters, scores, choice)
        limit = sample_choice(second, offered)
        log_prob = choice_log_prob(choices, choice) + choice_log_prob(offered, limit)
        return Acted(jnp.stack([choice, limit], axis=1), log_prob, foretold(parameters, scores, observation))

    def judge(parameters: Any, observation: dict[str, jax.Array], action: jax.Array) -> Judged:
        scores, choices = scored(parameters, observation)
        offered = limits(parameters, scores, action[:, 0])
        log_prob = choice_log_prob(choices, action[:, 0]) + choice_log_prob(offered, action[:, 1])
        entropy = choice_entropy(choices) + choice_entropy(offered)
        return Judged(log_prob, entropy, foretold(parameters, scores, observation))

    def best(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        scores, choices = scored(parameters, observation)
        choice = likeliest_choice(choices)
        return jnp.stack([choice, likeliest_choice(limits(parameters, scores, choice))], axis=1)

    def drawn(key: jax.Array) -> Any:
        return jax.tree.map(jnp.asarray, new_network(design, seed) | (start or {}))

    def summarised(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        return summary(viewed(observation), design.classes, jnp)

    return Agent(init=drawn, act=act, judge=judge, best=best, summary=summarised, doubting=_doubting)


def _doubting(parameters: Any, factor: float) -> Any:
    """Flatter scores: of stages by the factor, of limits by its root, since those differ less."""
    actor = dict(parameters["actor"])
    for head, share in (("score", factor), ("idle", factor), ("limit_score", factor**0.5)):
        if head in actor:
            last = {name: share * values for name, values in actor[head][-1].items()}
            actor[head] = [*actor[head][:-1], last]
    return {**parameters, "actor": actor}
