"""Baselines with value networks of their own: blind to the input, beside others, one per workload, adapting.

The networks are small and look at what the agent offers as a `summary`, with the time since the
episode began appended: without it, nothing would tell how much of a workload is still to come.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from trimtab.learning.advantages import Credit
from trimtab.learning.agent import Agent, Observation, Parameters
from trimtab.learning.baselines import Baseline, decision_times, others_at_same_time, whole_returns
from trimtab.learning.passes import Metrics, flat_rows, make_optimiser, weighted_mean
from trimtab.learning.rollouts import Rollout
from trimtab.learning.settings import TrainingSettings

__all__ = [
    "meta_baseline",
    "multi_value_baseline",
    "same_sequence_value_baseline",
    "state_value_baseline",
    "summary_size",
]

_WIDTH = 32
_LONGEST_GRADIENT = 10.0


class _State(NamedTuple):
    networks: Any
    optimiser: Any
    longest_s: jax.Array


class _Known(NamedTuple):
    """What a baseline may know of a rollout; returns only to learn from, or from other rollouts."""

    returns: jax.Array
    weight: jax.Array
    times: jax.Array
    sequence: jax.Array


# What the kinds differ in: from networks and features [time, envs, k] to values [time, envs].
_Foretell: TypeAlias = Callable[[Any, jax.Array, _Known], jax.Array]


def state_value_baseline(agent: Agent, settings: TrainingSettings, *, features: int) -> Baseline:
    """One network for all workloads: knows the state and the time, not what is still to come."""

    def foretell(network: Any, seen: jax.Array, known: _Known) -> jax.Array:
        return _value(network, seen)

    return _networks(agent, settings, lambda key: _drawn(key, features), foretell)


def same_sequence_value_baseline(
    agent: Agent, settings: TrainingSettings, *, rollouts: int, features: int
) -> Baseline:
    """What the other rollouts of the workload came to, corrected by how this one's state differs from theirs.

    The others tell what the input does, the network what the decisions so far have done: it learns only
    from differences between rollouts of one workload, in which the input's noise is not there. On its own
    (`same_sequence`) the first says nothing about a rollout that has fallen behind.
    """

    def foretell(network: Any, seen: jax.Array, known: _Known) -> jax.Array:
        value = _value(network, seen)
        return value + others_at_same_time(known.returns - value, known.times, known.weight > 0, rollouts)

    return _networks(agent, settings, lambda key: _drawn(key, features), foretell)


def multi_value_baseline(agent: Agent, settings: TrainingSettings, *, features: int) -> Baseline:
    """One network for each of a fixed number of workloads, told apart by ``sequence``."""

    def init(key: jax.Array) -> Any:
        return jax.vmap(lambda one: _drawn(one, features))(jax.random.split(key, settings.sequences))

    def foretell(networks: Any, seen: jax.Array, known: _Known) -> jax.Array:
        own = jax.tree.map(lambda leaf: leaf[known.sequence], networks)
        return jax.vmap(_value, in_axes=(0, 1), out_axes=1)(own, seen)

    return _networks(agent, settings, init, foretell)


def meta_baseline(agent: Agent, settings: TrainingSettings, *, rollouts: int, features: int) -> Baseline:
    """One network that adapts to each workload by one gradient step.

    It adapts on half of a workload's rollouts and foretells the other half, and the other way
    round, so no rollout is measured against itself. It learns to be a good place to adapt from.
    """
    first, second = slice(None, rollouts // 2), slice(rollouts // 2, None)

    def told(network: Any, group: tuple[jax.Array, ...], learned: slice, asked: slice) -> jax.Array:
        slope = jax.grad(_squared_error)(network, *(part[:, learned] for part in group))
        adapted = jax.tree.map(lambda leaf, step: leaf - settings.adaptation_rate * step, network, slope)
        return _value(adapted, group[0][:, asked])

    def told_both(network: Any, *group: jax.Array) -> jax.Array:
        halves = [told(network, group, second, first), told(network, group, first, second)]
        return jnp.concatenate(halves, axis=1)

    def grouped(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(leaf.shape[0], -1, rollouts, *leaf.shape[2:])

    def foretell(network: Any, seen: jax.Array, known: _Known) -> jax.Array:
        groups = (grouped(part) for part in (seen, known.returns, known.weight))
        values = jax.vmap(told_both, in_axes=(None, 1, 1, 1), out_axes=1)(network, *groups)
        return values.reshape(known.returns.shape)

    return _networks(agent, settings, lambda key: _drawn(key, features), foretell)


def summary_size(agent: Agent, observation: Mapping[str, Any]) -> int:
    """How many features the agent's summary has, found without computing it."""
    assert agent.summary is not None
    parameters = jax.eval_shape(agent.init, jax.random.PRNGKey(0))
    return jax.eval_shape(agent.summary, parameters, dict(observation)).shape[-1]


def _networks(
    agent: Agent, settings: TrainingSettings, init_networks: Callable[[jax.Array], Any], foretell: _Foretell
) -> Baseline:
    optimiser = make_optimiser(_LONGEST_GRADIENT)

    def init(key: jax.Array) -> _State:
        networks = init_networks(key)
        return _State(networks, optimiser.init(networks), jnp.zeros(()))

    def credit(state: _State, parameters: Parameters, rollout: Rollout) -> tuple[Credit, Any, Metrics]:
        times = decision_times(rollout)
        longest_s = jnp.maximum(state.longest_s, times.max())
        # The measure of time is that of earlier batches: in this one, how long it took is an outcome.
        measure = jnp.where(state.longest_s > 0, state.longest_s, jnp.maximum(longest_s, 1e-9))
        seen = _features(agent, parameters, rollout.observation, times / measure)
        known = _Known(
            whole_returns(rollout, settings.discount_time_s),
            jnp.asarray(rollout.valid, jnp.float32),
            times,
            rollout.observation.get("sequence", jnp.zeros_like(times, jnp.int32))[0],
        )
        told = foretell(state.networks, seen, known)

        def loss(networks: Any) -> jax.Array:
            error = jnp.square(foretell(networks, seen, known) - known.returns)
            return weighted_mean(error.ravel(), known.weight.ravel())

        def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], jax.Array]:
            networks, optimiser_state = carry
            error, gradient = jax.value_and_grad(loss)(networks)
            rate = jnp.asarray(settings.baseline_learning_rate)
            updates, optimiser_state = optimiser.update(gradient, optimiser_state, rate)
            # A network whose workload was not played must not drift on its old momentum.
            updates = jax.tree.map(lambda update, slope: jnp.where(slope == 0, 0, update), updates, gradient)
            return (optax.apply_updates(networks, updates), optimiser_state), error

        begin = (state.networks, state.optimiser)
        (networks, optimiser_state), errors = jax.lax.scan(step, begin, length=settings.baseline_steps)
        after = _State(networks, optimiser_state, longest_s)
        return Credit(known.returns - told, known.returns), after, {"baseline_loss": errors[0]}

    return Baseline(init, credit)


def _features(agent: Agent, parameters: Parameters, observation: Observation, times: jax.Array) -> jax.Array:
    assert agent.summary is not None
    summary = agent.summary(parameters, flat_rows(observation)).reshape(*times.shape, -1)
    return jnp.concatenate([summary, times[..., None]], axis=-1)


def _squared_error(network: Any, seen: jax.Array, returns: jax.Array, weight: jax.Array) -> jax.Array:
    return weighted_mean(jnp.square(_value(network, seen) - returns).ravel(), weight.ravel())


def _drawn(key: jax.Array, features: int) -> list[dict[str, jax.Array]]:
    """Two hidden layers; the last starts at 0, so a fresh network foretells nothing."""
    sizes = (features + 1, _WIDTH, _WIDTH)
    keys = jax.random.split(key, len(sizes) - 1)
    hidden = [
        {"weight": jax.random.normal(one, (below, above)) * below**-0.5, "bias": jnp.zeros(above)}
        for one, below, above in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    return [*hidden, {"weight": jnp.zeros((_WIDTH, 1)), "bias": jnp.zeros(1)}]


def _value(network: Any, features: jax.Array) -> jax.Array:
    *hidden, last = network
    for layer in hidden:
        features = jnp.tanh(features @ layer["weight"] + layer["bias"])
    return (features @ last["weight"] + last["bias"])[..., 0]
