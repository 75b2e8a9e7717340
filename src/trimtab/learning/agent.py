"""What learns: four pure functions over a tree of parameters.

A wing brings an `Agent`; every algorithm here takes it as it is. Actions may have several parts
(which stage, how many executors), all chosen at once. Several agents that act together share one
value and one advantage, but each has its own log-probability, the last axis of `log_prob`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax

__all__ = ["Acted", "Agent", "Judged", "Observation", "Parameters"]

Parameters: TypeAlias = Any
"""A tree of dictionaries (or lists) of arrays."""
Observation: TypeAlias = dict[str, jax.Array]
"""Named arrays, one row per environment.

``teacher`` [batch, parts], where present, is what a rule would do there: the label of imitation.
``sequence`` [batch], where present, is the number of the workload: one value network for each.
"""


class Acted(NamedTuple):
    """A sampled decision: `action` [batch, parts], `log_prob` [batch] or [batch, agents], `value` [batch]."""

    action: jax.Array
    log_prob: jax.Array
    value: jax.Array


class Judged(NamedTuple):
    """What the agent thinks of a given decision; `entropy` has the shape of `log_prob`.

    `auxiliary` [batch] or a single number, where there is one, is added to the loss of the policy as it is:
    what an encoder wants to be small besides (a divergence, minus a mutual information), weighed already.
    Copying a teacher leaves it out.
    """

    log_prob: jax.Array
    entropy: jax.Array
    value: jax.Array
    auxiliary: jax.Array | None = None


class Agent(NamedTuple):
    """A decision maker as pure functions that can be compiled.

    `act` samples, `best` takes the likeliest action, `judge` weighs an action taken earlier, and
    `summary` offers the features a separate value network may look at ([batch, features]). `doubting`
    makes an agent less sure of its actions by a factor, and the likeliest one stays the likeliest.

    >>> import jax.numpy as jnp
    >>> def judge(parameters, observation, action):
    ...     nothing = jnp.zeros(len(action))
    ...     return Judged(nothing, nothing, nothing)
    >>> idle = Agent(
    ...     init=lambda key: {},
    ...     act=lambda parameters, observation, key: Acted(
    ...         jnp.zeros((2, 1), int), jnp.zeros(2), jnp.zeros(2)
    ...     ),
    ...     judge=judge,
    ...     best=lambda parameters, observation: jnp.zeros((2, 1), int),
    ... )
    >>> idle.best({}, {}).shape
    (2, 1)
    """

    init: Callable[[jax.Array], Parameters]
    act: Callable[[Parameters, Observation, jax.Array], Acted]
    judge: Callable[[Parameters, Observation, jax.Array], Judged]
    best: Callable[[Parameters, Observation], jax.Array]
    summary: Callable[[Parameters, Observation], jax.Array] | None = None
    doubting: Callable[[Parameters, float], Parameters] | None = None
