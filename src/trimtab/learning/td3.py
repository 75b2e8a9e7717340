"""Twin delayed DDPG (Fujimoto et al., ICML 2018), held to what was done before where there is a log of it.

Three changes to DDPG keep a critic from believing its own mistakes: the lesser of two critics is believed,
the next action is blurred before it is valued, and the actor moves less often than the critics.

TD3+BC (Fujimoto and Gu, NeurIPS 2021) learns from a log alone: the worth of an action, divided by the mean
absolute worth so that one weight fits all rewards, against the squared distance to the action in the log.
The same pull, fading, keeps a policy near its teacher, or near where it began, while it goes on learning
online. Between two bell curves of equal spread such a squared distance is their divergence (KL), up to a
factor; deterministic actors have no other.
"""

import jax
import jax.numpy as jnp

from trimtab.learning.ddpg import worth_loss
from trimtab.learning.off_policy_settings import ActorWeights

__all__ = [
    "actor_loss",
    "blurred_actions",
    "cloning_loss",
    "distance_loss",
    "least_values",
    "scaled_worth_loss",
]


def blurred_actions(
    actions: jax.Array, normal: jax.Array, *, noise: float, largest: float, bound: float = 1.0
) -> jax.Array:
    """Actions with some noise, none of it larger than `largest`, and all within the bounds.

    >>> blurred_actions(jnp.array([0.0, 0.9]), jnp.array([-9.0, 1.0]), noise=0.2, largest=0.5)
    Array([-0.5,  1. ], dtype=float32)
    """
    return jnp.clip(actions + jnp.clip(noise * normal, -largest, largest), -bound, bound)


def least_values(values: list[jax.Array]) -> jax.Array:
    """For each row the lowest opinion of all critics.

    >>> least_values([jnp.array([1.0, 5.0]), jnp.array([2.0, 3.0])])
    Array([1., 3.], dtype=float32)
    """
    return jnp.min(jnp.stack(values), axis=0)


def scaled_worth_loss(values: jax.Array) -> jax.Array:
    """Minus the mean worth, divided by the mean size of worths, which is taken as a constant."""
    return worth_loss(values) / jax.lax.stop_gradient(jnp.maximum(jnp.mean(jnp.abs(values)), 1e-6))


def cloning_loss(actions: jax.Array, guide: jax.Array, guided: jax.Array) -> jax.Array:
    """The Huber loss of copying: half the square of an error up to 1, the error less a half beyond.

    Averaged over the rows [rows, actions] that are guided [rows].

    >>> float(cloning_loss(jnp.array([[1.0, 0.0]]), jnp.array([[-1.0, 1.0]]), jnp.array([1.0])))
    1.0
    """
    error = jnp.abs(actions - guide)
    return _guided_mean(jnp.where(error < 1, 0.5 * jnp.square(error), error - 0.5), guided)


def distance_loss(actions: jax.Array, others: jax.Array, guided: jax.Array | None = None) -> jax.Array:
    """The mean squared distance, over the rows that are guided, or all.

    >>> float(distance_loss(jnp.array([[1.0], [5.0]]), jnp.array([[-1.0], [0.0]]), jnp.array([1.0, 0.0])))
    4.0
    """
    guided = jnp.ones(len(actions)) if guided is None else guided
    return _guided_mean(jnp.square(actions - others), guided)


def actor_loss(
    actions: jax.Array,
    values: jax.Array,
    guide: jax.Array,
    guided: jax.Array,
    begun: jax.Array | None,
    weights: ActorWeights,
) -> jax.Array:
    """All an actor may learn from, each by its weight; `begun` are the actions of the actor at the start.

    The weights (1, 0, 0, 0, 0) make TD3, (alpha, 1, 0, 1, 0) TD3+BC, and (0, 0, 1, 0, 0) behaviour cloning.
    """
    worth = weights.scaled * scaled_worth_loss(values) + (1 - weights.scaled) * worth_loss(values)
    total = weights.worth * worth + weights.cloning * cloning_loss(actions, guide, guided)
    total += weights.guide * distance_loss(actions, guide, guided)
    return total if begun is None else total + weights.start * distance_loss(actions, begun)


def _guided_mean(errors: jax.Array, guided: jax.Array) -> jax.Array:
    return jnp.sum(errors.mean(-1) * guided) / jnp.maximum(jnp.sum(guided), 1)
