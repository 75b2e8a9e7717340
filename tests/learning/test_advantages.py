"""Credit against closed forms: constant rewards, unequal spacing, an episode that ends midway."""

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.learning.advantages import (
    AverageRate,
    ReturnSpread,
    decision_advantages,
    differential_rewards,
    returns_to_go,
    update_average_rate,
    update_return_spread,
)

STEPS = 6


def column(values) -> jnp.ndarray:
    return jnp.asarray(values, jnp.float32)[:, None]


def never(steps: int = STEPS) -> jnp.ndarray:
    return jnp.zeros((steps, 1), bool)


def test_a_constant_reward_sums_to_a_geometric_series() -> None:
    kept = np.exp(-2.0 / 10.0)
    found = returns_to_go(column([3.0] * STEPS), column([2.0] * STEPS), never(), discount_s=10.0)
    expected = [3.0 * (1 - kept**left) / (1 - kept) for left in range(STEPS, 0, -1)]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_the_discount_depends_on_seconds_not_decisions() -> None:
    """One reward of 1 after 5 s counts exp(-5/10) at the start, however many decisions lie between."""
    few = returns_to_go(column([0, 1]), column([5, 1]), never(2), discount_s=10.0)
    many = returns_to_go(column([0, 0, 0, 1]), column([1, 0, 4, 1]), never(4), discount_s=10.0)
    np.testing.assert_allclose([few[0, 0], many[0, 0]], np.exp(-0.5), rtol=1e-6)


def test_nothing_flows_back_across_an_end() -> None:
    ended = column([0, 1, 0]).astype(bool)
    found = returns_to_go(column([1, 2, 4]), column([1, 1, 1]), ended, last_value=jnp.array([100.0]))
    assert found[:, 0].tolist() == [3, 2, 104]


def test_a_perfect_critic_leaves_no_advantage() -> None:
    rewards, elapsed_s = column([1, 5, 2, 0, 3, 1]), column([1, 0, 3, 2, 9, 1])
    ended = column([0, 0, 1, 0, 0, 0]).astype(bool)
    last = jnp.array([7.0])
    values = returns_to_go(rewards, elapsed_s, ended, discount_s=4.0, last_value=last)
    for smoothing in (0.0, 0.5, 1.0):
        credit = decision_advantages(
            rewards, values, last, elapsed_s, ended, discount_s=4.0, smoothing=smoothing
        )
        np.testing.assert_allclose(credit.advantages, 0, atol=1e-5)
        np.testing.assert_allclose(credit.targets, values, rtol=1e-5)


def test_full_smoothing_is_the_return_minus_the_value() -> None:
    rewards, elapsed_s = column([1, 5, 2, 0, 3, 1]), column([1, 0, 3, 2, 9, 1])
    values, last = column([4, -1, 0, 2, 2, 5]), jnp.array([3.0])
    credit = decision_advantages(rewards, values, last, elapsed_s, never(), discount_s=4.0, smoothing=1.0)
    returns = returns_to_go(rewards, elapsed_s, never(), discount_s=4.0, last_value=last)
    np.testing.assert_allclose(credit.targets, returns, rtol=1e-5)
    np.testing.assert_allclose(credit.advantages, returns - values, rtol=1e-5, atol=1e-5)


def test_two_decisions_by_hand() -> None:
    """Surprises 1 + 0.5 * 4 - 2 = 1 and 3 + 0.5 * 6 - 4 = 2; the second counts 0.5 * 0.9 at the first."""
    half = float(1 / np.log(2))
    credit = decision_advantages(
        column([1, 3]),
        column([2, 4]),
        jnp.array([6.0]),
        column([1, 1]),
        never(2),
        discount_s=half,
        smoothing=0.9,
    )
    np.testing.assert_allclose(credit.advantages[:, 0], [1.9, 2.0], rtol=1e-6)
    np.testing.assert_allclose(credit.targets[:, 0], [3.9, 6.0], rtol=1e-6)


def test_differential_rewards_of_a_steady_stretch_vanish() -> None:
    elapsed_s = column([1, 4, 0.5])
    rewards = -3.0 * elapsed_s
    rate = update_average_rate(AverageRate.unknown(), rewards, elapsed_s, window=1000)
    np.testing.assert_allclose(differential_rewards(rewards, elapsed_s, rate), 0, atol=1e-6)


def test_the_average_rate_forgets() -> None:
    rate = AverageRate.unknown()
    second = jnp.ones(50)
    for level in (1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0):
        rate = update_average_rate(rate, level * second, second, window=100)
    # Half is kept each time: after eight, 1/256 of the weight is still at the old level.
    assert float(rate.per_second) == pytest.approx(5.0, abs=4 / 128)


def test_the_spread_of_sums_is_their_deviation() -> None:
    """Sums 1, 2, 3, then (after the end) 1, 2, 3 again: deviation sqrt(2/3)."""
    ended = column([0, 0, 1, 0, 0, 1]).astype(bool)
    spread = update_return_spread(ReturnSpread.unknown(1), column([1] * 6), column([1] * 6), ended)
    assert float(spread.deviation) == pytest.approx((2 / 3) ** 0.5)
    assert spread.running.tolist() == [0]


def test_the_spread_runs_on_from_one_batch_to_the_next() -> None:
    """Two batches of equal size count the same as both at once."""
    rewards, second = column([1, -4, 2, 2, 0, 7]), column([1] * 6)
    whole = update_return_spread(ReturnSpread.unknown(1), rewards, second, never())
    halves = ReturnSpread.unknown(1)
    for part in (slice(0, 3), slice(3, 6)):
        halves = update_return_spread(halves, rewards[part], second[part], never(3))
    assert float(halves.deviation) == pytest.approx(float(whole.deviation), rel=1e-5)
    assert float(halves.running[0]) == float(whole.running[0]) == 8


def test_rewards_that_never_vary_are_left_alone() -> None:
    spread = update_return_spread(ReturnSpread.unknown(1), column([0] * 6), column([1] * 6), never())
    assert float(spread.deviation) == 1
