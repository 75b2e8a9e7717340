"""Credit: what followed a decision, and how much better that was than foretold.

All arrays are [time, envs]. The reward of a decision is what accrued between it and the next one.
Decisions are unevenly spaced, so a discount depends on the seconds between them: `discount_s` is
the time after which a reward counts 1/e; ``inf`` discounts nothing. `ended` cuts: nothing flows
from an episode into the one before it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = [
    "AverageRate",
    "Credit",
    "ReturnSpread",
    "decision_advantages",
    "differential_rewards",
    "returns_to_go",
    "update_average_rate",
    "update_return_spread",
]

# The spread of returns remembers about this many iterations, so that it follows longer episodes.
_SPREAD_MEMORY = 100
_SMALLEST_SPREAD = 1e-6


class Credit(NamedTuple):
    """`advantages` of decisions, and the `targets` a critic should have foretold."""

    advantages: jax.Array
    targets: jax.Array


def _kept_share(elapsed_s: jax.Array, ended: jax.Array, discount_s: jax.Array | float) -> jax.Array:
    """How much of what follows a decision counts at the decision; nothing across an end."""
    return jnp.where(ended, 0.0, jnp.exp(-elapsed_s / discount_s))


def returns_to_go(
    rewards: jax.Array,
    elapsed_s: jax.Array,
    ended: jax.Array,
    *,
    discount_s: jax.Array | float = jnp.inf,
    last_value: jax.Array | float = 0.0,
) -> jax.Array:
    """Sum what each decision was followed by; `last_value` [envs] stands for what lies beyond.

    >>> rewards, second = jnp.array([[1.0], [2.0], [4.0]]), jnp.ones((3, 1))
    >>> ended = jnp.array([[False], [True], [False]])
    >>> returns_to_go(rewards, second, ended)[:, 0].tolist()
    [3.0, 2.0, 4.0]
    """
    kept = _kept_share(elapsed_s, ended, discount_s)

    def back(following: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, share = step
        total = reward + share * following
        return total, total

    beyond = jnp.broadcast_to(jnp.asarray(last_value, rewards.dtype), rewards.shape[1:])
    return jax.lax.scan(back, beyond, (rewards, kept), reverse=True)[1]


def decision_advantages(
    rewards: jax.Array,
    values: jax.Array,
    last_value: jax.Array,
    elapsed_s: jax.Array,
    ended: jax.Array,
    *,
    discount_s: jax.Array | float = jnp.inf,
    smoothing: float = 1.0,
) -> Credit:
    """Credit each decision with how much better things went than foretold.

    Generalised advantage estimation; `smoothing` (lambda) counts decisions, not seconds: 0 trusts
    the critic after one decision, 1 sums all rewards up to the end or the horizon.

    >>> one = jnp.ones((2, 1))
    >>> never = jnp.zeros((2, 1), bool)
    >>> decision_advantages(one, 0 * one, jnp.zeros(1), one, never).advantages[:, 0].tolist()
    [2.0, 1.0]
    """
    kept = _kept_share(elapsed_s, ended, discount_s)
    following = jnp.concatenate([values[1:], last_value[None]])
    surprises = rewards + kept * following - values

    def back(ahead: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        surprise, share = step
        advantage = surprise + share * smoothing * ahead
        return advantage, advantage

    advantages = jax.lax.scan(back, jnp.zeros_like(last_value), (surprises, kept), reverse=True)[1]
    return Credit(advantages, advantages + values)


class AverageRate(NamedTuple):
    """Reward per second over roughly the last decisions, as two fading sums."""

    rewards: jax.Array
    seconds: jax.Array

    @classmethod
    def unknown(cls) -> "AverageRate":
        """Before anything was seen; its rate is 0."""
        return cls(jnp.zeros(()), jnp.zeros(()))

    @property
    def per_second(self) -> jax.Array:
        return self.rewards / jnp.maximum(self.seconds, 1e-9)


def update_average_rate(
    rate: AverageRate, rewards: jax.Array, elapsed_s: jax.Array, *, window: int
) -> AverageRate:
    """Add new decisions; what is older than about `window` decisions fades.

    >>> rate = update_average_rate(AverageRate.unknown(), jnp.array([-6.0]), jnp.array([2.0]), window=100)
    >>> float(rate.per_second)
    -3.0
    """
    kept = max(0.0, 1.0 - rewards.size / window)
    return AverageRate(kept * rate.rewards + rewards.sum(), kept * rate.seconds + elapsed_s.sum())


def differential_rewards(rewards: jax.Array, elapsed_s: jax.Array, rate: AverageRate) -> jax.Array:
    """Subtract what an average stretch of the same length brings.

    Sums then stay bounded without a discount, and the average reward per second is what counts.

    >>> rate = AverageRate(jnp.array(-6.0), jnp.array(2.0))
    >>> differential_rewards(jnp.array([-5.0]), jnp.array([2.0]), rate).tolist()
    [1.0]
    """
    return rewards - rate.per_second * elapsed_s


class ReturnSpread(NamedTuple):
    """How far discounted sums of rewards spread, so that rewards can be brought near one.

    `running` [envs] is the sum of past rewards in each environment, discounted to now. Past sums
    rather than returns-to-go: they need no critic, so a wrong critic cannot feed on itself.
    """

    running: jax.Array
    mean: jax.Array
    variance: jax.Array
    updates: jax.Array

    @classmethod
    def unknown(cls, environments: int) -> "ReturnSpread":
        """Before anything was seen."""
        return cls(jnp.zeros(environments), jnp.zeros(()), jnp.zeros(()), jnp.zeros((), jnp.int32))

    def restarted(self) -> "ReturnSpread":
        """After every environment began anew."""
        return self._replace(running=jnp.zeros_like(self.running))

    @property
    def deviation(self) -> jax.Array:
        """The standard deviation; 1 while nothing varies."""
        deviation = jnp.sqrt(self.variance)
        return jnp.where(deviation > _SMALLEST_SPREAD, deviation, 1.0)


def update_return_spread(
    spread: ReturnSpread,
    rewards: jax.Array,
    elapsed_s: jax.Array,
    ended: jax.Array,
    *,
    discount_s: jax.Array | float = jnp.inf,
) -> ReturnSpread:
    """Add one iteration's rewards; each of the last hundred iterations weighs the same or more.

    >>> rewards, second = jnp.array([[1.0], [2.0]]), jnp.ones((2, 1))
    >>> never = jnp.zeros((2, 1), bool)
    >>> spread = update_return_spread(ReturnSpread.unknown(1), rewards, second, never)
    >>> float(spread.deviation)  # of the sums 1 and 3
    1.0
    """
    kept = _kept_share(elapsed_s, ended, discount_s)

    def forward(past: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, share = step
        total = past + reward
        return total * share, total

    running, totals = jax.lax.scan(forward, spread.running, (rewards, kept))
    updates = spread.updates + 1
    weight = 1.0 / jnp.minimum(updates, _SPREAD_MEMORY)
    shift = totals.mean() - spread.mean
    variance = (1 - weight) * (spread.variance + weight * jnp.square(shift)) + weight * totals.var()
    return ReturnSpread(running, spread.mean + weight * shift, variance, updates)
