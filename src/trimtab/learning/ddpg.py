"""Deep deterministic policy gradient (Lillicrap et al., ICLR 2016), as FIRM (Qiu et al., OSDI 2020) has it.

A critic learns what an action is worth from single steps; an actor climbs it. Both have slow copies, the
targets, from which the value of what comes next is taken. Exploration is a random walk that is pulled home
(Uhlenbeck and Ornstein 1930), added to the actor's answer. `trimtab.learning.td3` builds on these parts.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["bellman_targets", "moved_targets", "value_loss", "walked_noise", "worth_loss"]


def bellman_targets(
    rewards: jax.Array, terminated: jax.Array, next_values: jax.Array, *, discount: float
) -> jax.Array:
    """Reward plus the discounted value of what comes next; nothing comes after a termination.

    An episode that was merely cut short is no end: its last step is valued like any other.

    >>> bellman_targets(jnp.array([1.0, 1.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 10.0]), discount=0.9)
    Array([10.,  1.], dtype=float32)
    """
    return jax.lax.stop_gradient(rewards + discount * (1 - terminated) * next_values)


def value_loss(values: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean squared error of a critic.

    >>> float(value_loss(jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0])))
    2.0
    """
    return jnp.mean(jnp.square(values - targets))


def worth_loss(values: jax.Array) -> jax.Array:
    """What an actor makes small: minus the mean worth of its actions."""
    return -jnp.mean(values)


def moved_targets(targets: Any, parameters: Any, rate: float) -> Any:
    """Targets a small step closer to what they follow.

    >>> float(moved_targets({"weight": jnp.array(0.0)}, {"weight": jnp.array(2.0)}, 0.25)["weight"])
    0.5
    """
    return jax.tree.map(lambda slow, fast: slow + rate * (fast - slow), targets, parameters)


def walked_noise(
    noise: jax.Array, normal: jax.Array, *, pull: float, spread: float, step: float
) -> jax.Array:
    """One step of the walk: `normal` are standard normal draws of the shape of the noise.

    After long its deviation is ``spread / sqrt(2 pull)``, 0.37 in FIRM, which it takes some
    ``1 / (pull step)`` = 670 decisions to forget.

    >>> walked = walked_noise(jnp.array(1.0), jnp.array(2.0), pull=0.15, spread=0.2, step=0.01)
    >>> round(float(walked), 4)
    1.0385
    """
    return noise - pull * noise * step + spread * math.sqrt(step) * normal
