"""Gradient steps: several passes over a batch in minibatches, as one compiled loop."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from trimtab.learning.agent import Parameters

__all__ = [
    "Loss",
    "Metrics",
    "Optimiser",
    "flat_rows",
    "gradient_passes",
    "make_optimiser",
    "summed_gradient",
    "summed_step",
    "weighted_mean",
]

Metrics: TypeAlias = dict[str, jax.Array]
Loss: TypeAlias = Callable[[Parameters, Any], tuple[jax.Array, Metrics]]
"""(parameters, minibatch) -> (loss, what to report); a reported ``kl`` may stop the passes."""


class Optimiser(NamedTuple):
    """Adam behind a limit on the length of the gradient; the learning rate comes with each step."""

    init: Callable[[Parameters], Any]
    update: Callable[[Any, Any, jax.Array], tuple[Any, Any]]
    of_late: Callable[[Any], Any]
    """(state) -> the gradients of the last ten steps or so, averaged; shorter than they were at first."""


def make_optimiser(gradient_norm: float) -> Optimiser:
    """Build the optimiser; longer gradients than `gradient_norm` are shortened to it.

    >>> optimiser = make_optimiser(1.0)
    >>> parameters = {"weight": jnp.ones(2)}
    >>> updates, state = optimiser.update({"weight": jnp.ones(2)}, optimiser.init(parameters), jnp.array(0.1))
    >>> [round(float(x), 2) for x in updates["weight"]]
    [-0.1, -0.1]
    """
    chain = optax.chain(optax.clip_by_global_norm(gradient_norm), optax.scale_by_adam(eps=1e-5))

    def update(gradient: Any, state: Any, learning_rate: jax.Array) -> tuple[Any, Any]:
        directions, state = chain.update(gradient, state)
        return jax.tree.map(lambda direction: -learning_rate * direction, directions), state

    return Optimiser(chain.init, update, lambda state: state[1].mu)


def flat_rows(tree: Any) -> Any:
    """Join the leading axes, time and environments, into one of rows.

    >>> flat_rows({"seen": jnp.zeros((2, 3, 5))})["seen"].shape
    (6, 5)
    """
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def weighted_mean(values: jax.Array, weights: jax.Array) -> jax.Array:
    """Average rows by weight; further axes (agents) count equally.

    >>> float(weighted_mean(jnp.array([1.0, 5.0]), jnp.array([1.0, 0.0])))
    1.0
    """
    if values.ndim > weights.ndim:
        values = values.mean(axis=-1)
    return jnp.sum(values * weights) / jnp.maximum(jnp.sum(weights), 1e-9)


def gradient_passes(
    loss: Loss,
    optimiser: Optimiser,
    parameters: Parameters,
    state: Any,
    rows: Any,
    key: jax.Array,
    *,
    learning_rate: jax.Array,
    epochs: int,
    minibatches: int,
    largest_kl: float = 0.0,
) -> tuple[Parameters, Any, Metrics]:
    """Shuffle the rows anew in every pass and step once per minibatch; average the metrics.

    Once a minibatch reports a ``kl`` above `largest_kl` (0: no limit), neither it nor any later one
    moves the parameters.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    gradient_of = jax.value_and_grad(loss, has_aux=True)

    def moved(carry: Any, picks: jax.Array) -> tuple[Any, Metrics]:
        parameters, state, _ = carry
        minibatch = jax.tree.map(lambda leaf: leaf[picks], rows)
        (total, metrics), gradient = gradient_of(parameters, minibatch)
        updates, next_state = optimiser.update(gradient, state, learning_rate)
        after = (optax.apply_updates(parameters, updates), next_state)
        too_far = jnp.array(False)
        if largest_kl:
            too_far = metrics["kl"] > largest_kl
            after = jax.tree.map(lambda new, old: jnp.where(too_far, old, new), after, (parameters, state))
        found = {"loss": total, "gradient_norm": optax.tree.norm(gradient), **metrics, "passes": 1.0}
        return (*after, too_far), found

    def step(carry: Any, picks: jax.Array) -> tuple[Any, Metrics]:
        if not largest_kl:
            return moved(carry, picks)
        skipped = jax.eval_shape(moved, carry, picks)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), skipped)
        return jax.lax.cond(carry[2], lambda carry, picks: (carry, nothing), moved, carry, picks)

    shuffles = jax.vmap(lambda part: jax.random.permutation(part, count))(jax.random.split(key, epochs))
    picks = shuffles.reshape(epochs * minibatches, count // minibatches)
    begin = (parameters, state, jnp.array(False))
    (parameters, state, _), metrics = jax.lax.scan(step, begin, picks)
    ran = metrics.pop("passes")
    means = {name: weighted_mean(values, ran) for name, values in metrics.items()}
    return parameters, state, {**means, "passes": ran.sum() / minibatches}


def summed_step(
    loss: Loss,
    optimiser: Optimiser,
    parameters: Parameters,
    state: Any,
    rows: Any,
    weight: jax.Array,
    *,
    learning_rate: jax.Array,
    parts: int,
) -> tuple[Parameters, Any, Metrics]:
    """Take one step along the gradient over all rows (see `summed_gradient`)."""
    gradient, found = summed_gradient(loss, parameters, rows, weight, parts=parts)
    updates, state = optimiser.update(gradient, state, learning_rate)
    return optax.apply_updates(parameters, updates), state, found


def summed_gradient(
    loss: Loss, parameters: Parameters, rows: Any, weight: jax.Array, *, parts: int
) -> tuple[Any, Metrics]:
    """The gradient over all rows, gathered part by part to save memory, and what to report.

    The loss must be a mean over rows by `weight`; parts then count by their share of it.
    """
    gradient_of = jax.value_and_grad(loss, has_aux=True)
    total_weight = jnp.maximum(weight.sum(), 1e-9)

    def gathered(so_far: Any, part: tuple[Any, jax.Array]) -> tuple[Any, Metrics]:
        minibatch, part_weight = part
        share = part_weight.sum() / total_weight
        (total, metrics), gradient = gradient_of(parameters, minibatch)
        so_far = jax.tree.map(lambda all_parts, one: all_parts + share * one, so_far, gradient)
        return so_far, {name: share * value for name, value in {"loss": total, **metrics}.items()}

    def cut(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(parts, -1, *leaf.shape[1:])

    nothing = jax.tree.map(jnp.zeros_like, parameters)
    gradient, metrics = jax.lax.scan(gathered, nothing, jax.tree.map(cut, (rows, weight)))
    sums = {name: values.sum() for name, values in metrics.items()}
    return gradient, {**sums, "gradient_norm": optax.tree.norm(gradient)}
