"""Chances of actions: a choice among allowed ones, and a bell curve for continuous ones.

Masked actions have probability exactly 0. Minus infinity never enters arithmetic whose gradient
is taken: a masked logit is replaced by a large negative constant, through which no gradient flows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = [
    "Gaussian",
    "allowed_log_probs",
    "choice_entropy",
    "choice_log_prob",
    "gaussian_entropy",
    "gaussian_log_prob",
    "likeliest_choice",
    "sample_choice",
    "sample_gaussian",
]

# exp of this is exactly 0 in float32, and differences of two stay finite.
_NEVER = -1e9
_HALF_LOG_TWO_PI = 0.9189385332046727
# atanh of 1 is infinite; at this distance from the border it is 8.7 and its slope still in range.
_BORDER = 1e-7


def allowed_log_probs(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Normalise logits over the allowed actions of the last axis; forbidden ones get -1e9.

    A row with nothing allowed spreads evenly over all: its decision is not used anywhere.

    >>> mask = jnp.array([True, False, True])
    >>> [round(float(p), 2) for p in jnp.exp(allowed_log_probs(jnp.array([0.0, 9.0, 0.0]), mask))]
    [0.5, 0.0, 0.5]
    """
    shown = jnp.where(mask, logits, _NEVER)
    return jnp.where(mask, jax.nn.log_softmax(shown, axis=-1), _NEVER)


def sample_choice(key: jax.Array, log_probs: jax.Array) -> jax.Array:
    """Draw an allowed action of the last axis by adding Gumbel noise and taking the largest.

    >>> int(sample_choice(jax.random.key(0), allowed_log_probs(jnp.zeros(3), jnp.arange(3) == 1)))
    1
    """
    noise = jax.random.gumbel(key, log_probs.shape, log_probs.dtype)
    return jnp.argmax(log_probs + noise, axis=-1).astype(jnp.int32)


def likeliest_choice(log_probs: jax.Array) -> jax.Array:
    """Take the likeliest action; the first of equals."""
    return jnp.argmax(log_probs, axis=-1).astype(jnp.int32)


def choice_log_prob(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    """Look up the log-probability of one action of the last axis.

    >>> round(float(choice_log_prob(jnp.log(jnp.array([0.25, 0.75])), jnp.array(1))), 3)
    -0.288
    """
    return jnp.take_along_axis(log_probs, action[..., None].astype(jnp.int32), axis=-1)[..., 0]


def choice_entropy(log_probs: jax.Array) -> jax.Array:
    """Say how undecided the choice is, in nats; forbidden actions add nothing.

    >>> round(float(choice_entropy(jnp.log(jnp.array([0.5, 0.5])))), 3)
    0.693
    """
    return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class Gaussian(NamedTuple):
    """An independent bell curve for each part of the last axis."""

    mean: jax.Array
    log_spread: jax.Array


def sample_gaussian(key: jax.Array, curve: Gaussian, *, squashed: bool = False) -> jax.Array:
    """Draw all parts; squashed draws pass through tanh and lie in (-1, 1)."""
    drawn = curve.mean + jnp.exp(curve.log_spread) * jax.random.normal(key, curve.mean.shape)
    return jnp.tanh(drawn) if squashed else drawn


def gaussian_log_prob(curve: Gaussian, action: jax.Array, *, squashed: bool = False) -> jax.Array:
    """Log-density of all parts together.

    >>> at_mean = gaussian_log_prob(Gaussian(jnp.zeros(2), jnp.zeros(2)), jnp.zeros(2))
    >>> round(float(at_mean), 4)
    -1.8379
    """
    correction = jnp.zeros(())
    if squashed:
        within = jnp.clip(action, -1 + _BORDER, 1 - _BORDER)
        action = jnp.arctanh(within)
        correction = jnp.sum(jnp.log1p(-jnp.square(within)), axis=-1)
    distance = (action - curve.mean) * jnp.exp(-curve.log_spread)
    density = -0.5 * jnp.square(distance) - curve.log_spread - _HALF_LOG_TWO_PI
    return jnp.sum(density, axis=-1) - correction


def gaussian_entropy(curve: Gaussian) -> jax.Array:
    """Entropy before any squashing, which has no closed form after it.

    >>> round(float(gaussian_entropy(Gaussian(jnp.zeros(1), jnp.zeros(1)))), 4)
    1.4189
    """
    return jnp.sum(curve.log_spread + _HALF_LOG_TWO_PI + 0.5, axis=-1)
