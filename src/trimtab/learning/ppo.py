"""Proximal policy optimisation: take several careful steps from the same experience.

The probability ratio between new and old policy is clipped, so that no decision is made much
likelier or unlikelier than it was when the experience was gathered. Several agents that act
together each have their own ratio and share the advantage.
"""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trimtab.learning.advantages import Credit
from trimtab.learning.agent import Agent, Judged, Observation, Parameters
from trimtab.learning.passes import Loss, Metrics, flat_rows, weighted_mean
from trimtab.learning.rollouts import Rollout

__all__ = [
    "Experience",
    "Scalar",
    "Weights",
    "auxiliary_loss",
    "experience_rows",
    "ppo_loss",
    "rows_that_count",
    "value_error",
    "with_critic",
]


class Experience(NamedTuple):
    """Decisions as rows, in no particular order; `weight` is 0 for those that do not count."""

    observation: Observation
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array
    weight: jax.Array


Scalar: TypeAlias = jax.Array | np.float32


class Weights(NamedTuple):
    """What may change from iteration to iteration without compiling anew."""

    entropy: Scalar
    anchor: Scalar


def experience_rows(
    rollout: Rollout,
    credit: Credit,
    *,
    kept: jax.Array | None = None,
    multiple_of: int = 1,
    normalised: bool = True,
    largest_advantage: float = 0.0,
) -> Experience:
    """Turn a rollout into rows; advantages are brought to mean 0 and deviation 1 over the batch.

    `kept` are the rows to keep, where not all count (`rows_that_count`). Whole episodes come in any
    number: rows of weight 0 fill up to the multiple. Rare decisions with huge consequences can drown
    all others: `largest_advantage` cuts at so many mean absolute ones.
    """
    weight = jnp.asarray(rollout.valid, jnp.float32)
    advantages = credit.advantages
    if largest_advantage:
        bound = largest_advantage * weighted_mean(jnp.abs(advantages).ravel(), weight.ravel())
        advantages = jnp.clip(advantages, -bound, bound)
    if normalised:
        mean = weighted_mean(advantages.ravel(), weight.ravel())
        deviation = jnp.sqrt(weighted_mean(jnp.square(advantages - mean).ravel(), weight.ravel()))
        advantages = (advantages - mean) / (deviation + 1e-8)
    rows = Experience(
        rollout.observation,
        rollout.action,
        rollout.log_prob,
        rollout.value,
        advantages,
        credit.targets,
        weight,
    )
    rows = flat_rows(rows)
    if kept is not None:
        rows = jax.tree.map(lambda leaf: leaf[kept], rows)
    missing = -len(rows.weight) % multiple_of

    def filled(leaf: jax.Array) -> jax.Array:
        return jnp.pad(leaf, ((0, missing), *((0, 0) for _ in leaf.shape[1:])), mode="edge")

    if not missing:
        return rows
    return jax.tree.map(filled, rows)._replace(weight=jnp.pad(rows.weight, (0, missing)))


def rows_that_count(valid: NDArray[np.bool_]) -> NDArray[np.int32] | None:
    """Positions of the rows that count, filled up with others to one of few numbers (each new one compiles).

    None where all count. Of whole episodes, up to half the rows lie beyond an end: nothing to learn from.

    >>> rows_that_count(np.arange(37) % 2 == 0).tolist()[-3:]
    [34, 36, 1]
    """
    if valid.all():
        return None
    counting = np.flatnonzero(valid)
    step = 1 << max(0, len(counting).bit_length() - 4)
    missing = -len(counting) % step
    return np.concatenate([counting, np.flatnonzero(~valid)[:missing]]).astype(np.int32)


def value_error(value: jax.Array, rows: Experience, clip: float) -> jax.Array:
    """Half the squared error of the critic; a positive `clip` keeps it near what it said before."""
    error = jnp.square(value - rows.target)
    if clip:
        near = rows.value + jnp.clip(value - rows.value, -clip, clip)
        error = jnp.maximum(error, jnp.square(near - rows.target))
    return 0.5 * weighted_mean(error, rows.weight)


def with_critic(loss: jax.Array, value_loss: jax.Array, value_weight: float) -> jax.Array:
    """Add the critic's error; with a weight of 0, its gradient is not even worked out."""
    return loss + value_weight * value_loss if value_weight else loss


def ppo_loss(
    agent: Agent,
    weights: Weights,
    *,
    clip: float,
    value_weight: float,
    value_clip: float = 0.0,
    anchored: bool = False,
) -> Loss:
    """Build the loss of one minibatch.

    `anchored` adds the cross entropy to what the teacher would do, which keeps a policy that began
    as its imitation from forgetting it while the critic is still learning.
    """

    def loss(parameters: Parameters, rows: Experience) -> tuple[jax.Array, Metrics]:
        judged = agent.judge(parameters, rows.observation, rows.action)
        change = judged.log_prob - rows.log_prob
        ratio = jnp.exp(change)
        advantage = rows.advantage if ratio.ndim == 1 else rows.advantage[:, None]
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
        policy_loss = -weighted_mean(gain, rows.weight)
        value_loss = value_error(judged.value, rows, value_clip)
        entropy = weighted_mean(judged.entropy, rows.weight)
        total = with_critic(policy_loss, value_loss, value_weight) - weights.entropy * entropy
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            # Never negative, and of lower variance than the mean of -change.
            "kl": weighted_mean(ratio - 1 - change, rows.weight),
            "clip_fraction": weighted_mean((jnp.abs(ratio - 1) > clip).astype(jnp.float32), rows.weight),
        }
        if judged.auxiliary is not None:
            metrics["auxiliary_loss"] = auxiliary_loss(judged, rows)
            total += metrics["auxiliary_loss"]
        if anchored:
            metrics["anchor_loss"] = _teacher_loss(agent, parameters, rows)
            total += weights.anchor * metrics["anchor_loss"]
        return total, metrics

    return loss


def auxiliary_loss(judged: Judged, rows: Experience) -> jax.Array:
    """Mean of what the agent wants to be small besides, over the decisions that count."""
    assert judged.auxiliary is not None
    return weighted_mean(jnp.broadcast_to(judged.auxiliary, rows.weight.shape), rows.weight)


def _teacher_loss(agent: Agent, parameters: Parameters, rows: Experience) -> jax.Array:
    """Cross entropy to the teacher's actions."""
    labels = rows.observation["teacher"].astype(rows.action.dtype)
    return -weighted_mean(agent.judge(parameters, rows.observation, labels).log_prob, rows.weight)
