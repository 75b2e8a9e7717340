"""The natural policy gradient: one step an iteration, measured by how much it changes decisions.

A gradient tells what each parameter does to the return, and not what it does to the policy: along some
parameters a step changes every decision, along others none. The natural gradient (Kakade, NIPS 2001; with a
step of given divergence as in TRPO, Schulman et al., ICML 2015) divides by the latter, the Fisher matrix: the
mean over decisions of their *scores* (gradients of the log-probability), each times itself. Here it is never
built: the scores of some decisions are kept, and the equations solved by conjugate gradients.

Where most of a return is luck, one iteration's gradient is mostly noise, and many small steps along it are a
random walk. So there is one step an iteration, along the gradients of the last ten or so, averaged.

Scores speak of small steps. Where a few decisions tell little of a direction, the solution goes far along it,
and layers that cancel each other to first order do not to second: a step may move the policy a hundred times
too far. Shortened until it does not, it would lead nowhere, so the equations are damped more instead (as in
Levenberg's and Marquardt's method), and only what is left of the excess is cut.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from trimtab.learning.agent import Agent, Parameters
from trimtab.learning.passes import Loss, Metrics, Optimiser, summed_gradient
from trimtab.learning.ppo import Experience

__all__ = ["natural_direction", "natural_step", "row_scores"]

_AT_ONCE = 1024
"""Decisions whose scores are worked out side by side."""
_MEASURED = 4096
"""Decisions on which a divergence is measured, at least: quick, and few miss what a step does to the rest."""
_ROUNDS = 50
"""Conjugate gradients at most; with a damping of 1 ten are enough."""
_TOO_FAR = 2.0
"""Times the divergence asked for, beyond which the equations do not describe the step."""
_MORE = 3.0
_TRIES = 9
"""Up to 10,000 times the damping asked for: the plain gradient."""
_SHORTENINGS = 3


def natural_step(
    loss: Loss,
    agent: Agent,
    optimiser: Optimiser,
    parameters: Parameters,
    state: Any,
    rows: Experience,
    key: jax.Array,
    *,
    length: jax.Array,
    parts: int,
    scored: int,
    damping: float,
) -> tuple[Parameters, Any, Metrics]:
    """Move the policy by `length` (the root of twice the divergence), to where returns of late have grown.

    Of `scored` decisions the scores are kept; on others the divergence is measured. A step that turns
    out far too long is looked for again with more damping, one that is a little too long is shortened.
    """
    gradient, found = summed_gradient(loss, parameters, rows, rows.weight, parts=parts)
    _, state = optimiser.update(gradient, state, length)
    downhill, restored = ravel_pytree(jax.tree.map(jnp.negative, optimiser.of_late(state)))
    for_scores, for_length = jax.random.split(key)
    scores = row_scores(agent, parameters, _some(rows, for_scores, scored))
    others = _some(rows, for_length, max(scored, _MEASURED))

    def moved(share: jax.Array, step: Parameters) -> Parameters:
        return optax.apply_updates(parameters, jax.tree.map(lambda leaf: share * leaf, step))

    def excess(share: jax.Array, step: Parameters) -> jax.Array:
        return _divergence(agent, moved(share, step), others) / (0.5 * jnp.square(length))

    def looked_for(damping: jax.Array) -> _Tried:
        step = restored(length * natural_direction(scores, downhill, damping))
        return _Tried(damping, step, excess(jnp.ones(()), step))

    def again(carry: tuple[jax.Array, _Tried]) -> tuple[jax.Array, _Tried]:
        return carry[0] + 1, looked_for(_MORE * carry[1].damping)

    def goes_too_far(carry: tuple[jax.Array, _Tried]) -> jax.Array:
        # Not "beyond": a step may be so long that nothing can be said of it.
        return (carry[0] < _TRIES) & ~(carry[1].excess <= _TOO_FAR)

    tries = (jnp.zeros((), int), looked_for(jnp.asarray(damping, downhill.dtype)))
    found_at = jax.lax.while_loop(goes_too_far, again, tries)[1]

    def shortened(_: int, share: jax.Array) -> jax.Array:
        return share * jax.lax.rsqrt(jnp.maximum(excess(share, found_at.step), 1.0))

    # The divergence grows with the square of a short step; of one that is far too long once is not enough.
    share = jax.lax.fori_loop(0, _SHORTENINGS, shortened, jnp.ones(()))
    after = moved(share, found_at.step)
    divergence = _divergence(agent, after, others)
    return after, state, {**found, "kl": divergence, "damping": found_at.damping, "shortened": share}


class _Tried(NamedTuple):
    """A step, and how often the divergence asked for it brings about."""

    damping: jax.Array
    step: Parameters
    excess: jax.Array


def row_scores(agent: Agent, parameters: Parameters, rows: Experience) -> jax.Array:
    """The gradient of each decision's log-probability by all parameters, flat: [rows, parameters]."""
    flat, restored = ravel_pytree(parameters)

    def score(row: Experience) -> jax.Array:
        return jax.grad(lambda flat: _log_prob(agent, restored(flat), row))(flat)

    return jax.lax.map(score, rows, batch_size=_AT_ONCE)


def natural_direction(scores: jax.Array, uphill: jax.Array, damping: float | jax.Array) -> jax.Array:
    """Where a gradient leads if distances are those between policies; it moves the policy by 1.

    Or less: a policy that is sure of all it does can hardly be moved, and parameters move by no more than 1
    for it, on average. The `damping` counts in means of the Fisher matrix's diagonal, where that is not 0.

    >>> scores = jnp.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 0.2], [0.0, -0.2]])
    >>> [round(float(x), 2) for x in natural_direction(scores, jnp.array([1.0, 1.0]), 1e-6)]
    [0.01, 1.41]
    >>> [round(float(x), 2) for x in natural_direction(scores, jnp.array([1.0, 1.0]), 1e6)]
    [0.7, 0.7]
    """
    squares = jnp.mean(jnp.square(scores), axis=0)
    usual = squares.sum() / jnp.maximum(jnp.sum(squares > 0), 1)

    def damped_fisher(direction: jax.Array) -> jax.Array:
        return scores.T @ (scores @ direction) / len(scores) + damping * usual * direction

    direction, _ = jax.scipy.sparse.linalg.cg(damped_fisher, uphill, tol=1e-3, maxiter=_ROUNDS)
    moves = jnp.sqrt(jnp.mean(jnp.square(scores @ direction)))
    return direction / jnp.maximum(jnp.maximum(moves, jnp.sqrt(jnp.mean(jnp.square(direction)))), 1e-30)


def _some(rows: Experience, key: jax.Array, count: int) -> Experience:
    """Rows drawn among those that count, no more than there are."""
    there = len(rows.weight)
    picks = jax.random.choice(
        key, there, (min(count, there),), p=rows.weight / jnp.maximum(rows.weight.sum(), 1e-9)
    )
    return jax.tree.map(lambda leaf: leaf[picks], rows)


def _divergence(agent: Agent, parameters: Parameters, rows: Experience) -> jax.Array:
    """How far the policy has moved since the rows were played."""

    def of_one(row: Experience) -> jax.Array:
        change = _log_prob(agent, parameters, row) - row.log_prob.sum()
        return jnp.exp(change) - 1 - change

    return jnp.mean(jax.lax.map(of_one, rows, batch_size=_AT_ONCE))


def _log_prob(agent: Agent, parameters: Parameters, row: Experience) -> jax.Array:
    """Of one decision; agents that act together make one."""
    alone = jax.tree.map(lambda leaf: leaf[None], (row.observation, row.action))
    return agent.judge(parameters, *alone).log_prob.sum()
