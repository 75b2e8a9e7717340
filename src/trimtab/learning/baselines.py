"""What a decision's outcome is measured against.

In a system that is driven from outside (jobs arrive, requests come), most of what follows a
decision is the work of the input, not of the decision. Any baseline that knows the state and the
whole input, but not the decision, leaves the policy gradient where it points, because the decision
cannot influence the input; one that knows the input takes its noise out (Mao et al., "Variance
reduction for reinforcement learning in input-driven environments", ICLR 2019). Seven kinds, beside
none at all:

- ``critic``: the agent's own value head, with generalised advantage estimation;
- ``foreseen``: none here, because the environment's rewards are already measured against a foresight;
- ``state_value``: a separate value network, blind to the input like the critic;
- ``same_sequence``: the mean return of the other rollouts of the same workload at the same time;
- ``same_sequence_value``: that, and a value network for how this rollout's state differs from theirs;
- ``multi_value``: one value network for each of a fixed number of workloads;
- ``meta``: one value network that adapts to a workload by a gradient step on half its rollouts.

All but the first two need whole episodes, begun together: returns have to reach to the end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trimtab.learning.advantages import Credit, decision_advantages, returns_to_go
from trimtab.learning.agent import Parameters
from trimtab.learning.passes import Metrics
from trimtab.learning.rollouts import Rollout

__all__ = [
    "Baseline",
    "critic_baseline",
    "decision_times",
    "foreseen_baseline",
    "no_baseline",
    "others_at_same_time",
    "same_sequence_baseline",
    "whole_returns",
]


class Baseline(NamedTuple):
    """A way to credit decisions, with a state of its own (networks, if it has any).

    `credit` returns the credit of a rollout, the state to use next time, and what to report. Credit
    comes from the state before it learned from this rollout: a network that already saw the returns
    would know the decisions, and bend the gradient.
    """

    init: Callable[[jax.Array], Any]
    credit: Callable[[Any, Parameters, Rollout], tuple[Credit, Any, Metrics]]


def critic_baseline(*, discount_s: float, smoothing: float) -> Baseline:
    """The agent's own value head, with generalised advantage estimation."""

    def credit(state: Any, parameters: Parameters, rollout: Rollout) -> tuple[Credit, Any, Metrics]:
        found = decision_advantages(
            jnp.asarray(rollout.rewards),
            rollout.value,
            rollout.last_value,
            jnp.asarray(rollout.elapsed_s),
            jnp.asarray(rollout.ended),
            discount_s=discount_s,
            smoothing=smoothing,
        )
        return found, state, {}

    return Baseline(lambda key: (), credit)


def foreseen_baseline(*, discount_s: float, smoothing: float) -> Baseline:
    """Rewards that are 0 on average need no critic: later ones count `smoothing` times less at each decision.

    With 0, a decision answers for its own reward alone, as if whoever foresaw took over after it
    (Ross and Bagnell 2014); with 1 it also answers for everything the policy does later.
    """
    trusting = critic_baseline(discount_s=discount_s, smoothing=smoothing)

    def credit(state: Any, parameters: Parameters, rollout: Rollout) -> tuple[Credit, Any, Metrics]:
        nothing = jnp.zeros_like(rollout.value)
        return trusting.credit(
            state, parameters, rollout._replace(value=nothing, last_value=jnp.zeros_like(rollout.last_value))
        )

    return Baseline(trusting.init, credit)


def no_baseline(*, discount_s: float) -> Baseline:
    """Nothing is subtracted: the bare return-to-go."""

    def credit(state: Any, parameters: Parameters, rollout: Rollout) -> tuple[Credit, Any, Metrics]:
        returns = whole_returns(rollout, discount_s)
        return Credit(returns, returns), state, {}

    return Baseline(lambda key: (), credit)


def same_sequence_baseline(*, rollouts: int, discount_s: float) -> Baseline:
    """The mean return of the other rollouts of the same workload, at the time of the decision.

    A rollout's own return is left out: with it, a decision would be measured against itself.
    """

    def credit(state: Any, parameters: Parameters, rollout: Rollout) -> tuple[Credit, Any, Metrics]:
        returns = whole_returns(rollout, discount_s)
        foretold = others_at_same_time(returns, decision_times(rollout), jnp.asarray(rollout.valid), rollouts)
        return Credit(returns - foretold, returns), state, {}

    return Baseline(lambda key: (), credit)


def whole_returns(rollout: Rollout, discount_s: float) -> jax.Array:
    """Returns-to-go [time, envs] up to the end of each episode."""
    rewards, elapsed_s = jnp.asarray(rollout.rewards), jnp.asarray(rollout.elapsed_s)
    return returns_to_go(rewards, elapsed_s, jnp.asarray(rollout.ended), discount_s=discount_s)


def decision_times(rollout: Rollout) -> jax.Array:
    """Seconds [time, envs] since the first decision; all rollouts of a workload begin together."""
    elapsed_s = jnp.asarray(rollout.elapsed_s)
    return jnp.cumsum(elapsed_s, axis=0) - elapsed_s


def others_at_same_time(returns: jax.Array, times: jax.Array, valid: jax.Array, rollouts: int) -> jax.Array:
    """Average over the neighbours what each expected at the time of each decision; [time, envs].

    Returns are interpolated linearly between a neighbour's decisions and held at its first and
    last. Neighbours that count nowhere are left out; with none left, the answer is 0.

    >>> returns = jnp.array([[4.0, 8.0], [2.0, 0.0]])
    >>> times = jnp.array([[0.0, 0.0], [3.0, 4.0]])
    >>> others_at_same_time(returns, times, jnp.ones((2, 2), bool), 2).tolist()
    [[8.0, 4.0], [2.0, 2.0]]
    """
    length, environments = returns.shape

    def held(values: jax.Array) -> jax.Array:
        """Repeat each environment's last counting value to the end of the array."""
        last = jnp.maximum(valid.sum(axis=0) - 1, 0)
        return jnp.where(valid, values, values[last, jnp.arange(environments)])

    def grouped(values: jax.Array) -> jax.Array:
        return values.T.reshape(-1, rollouts, values.shape[0])

    own_times, known_times, known_returns = grouped(times), grouped(held(times)), grouped(held(returns))
    counts = grouped(valid).any(axis=-1)
    at_times = jax.vmap(jax.vmap(jnp.interp))

    def with_next_neighbour(sums: tuple[jax.Array, jax.Array], shift: jax.Array) -> tuple[Any, None]:
        total, number = sums
        there = jnp.roll(counts, shift, axis=1)[..., None].astype(returns.dtype)
        told = at_times(
            own_times, jnp.roll(known_times, shift, axis=1), jnp.roll(known_returns, shift, axis=1)
        )
        return (total + there * told, number + there), None

    nothing = jnp.zeros_like(own_times)
    (total, number), _ = jax.lax.scan(with_next_neighbour, (nothing, nothing), jnp.arange(1, rollouts))
    return (total / jnp.maximum(number, 1)).reshape(environments, length).T
