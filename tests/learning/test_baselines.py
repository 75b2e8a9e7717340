"""Baselines may take noise out of the policy gradient, never bend it.

The law is checked by enumerating a problem so small that every pair of rollouts can be listed: two
rollouts of one workload, two decisions each, two actions, so 16 pairs with known probabilities.
Over them, the mean of (gradient of log-probability x baseline) must vanish.
"""

from functools import cache
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.toys import linear_agent

from trimtab.core.errors import SettingsError
from trimtab.learning.agent import Agent
from trimtab.learning.baselines import others_at_same_time
from trimtab.learning.learner import make_baseline
from trimtab.learning.rollouts import Rollout
from trimtab.learning.settings import BaselineName, TrainingSettings

AGENT = linear_agent(features=3, actions=2)
judge = jax.jit(jax.vmap(AGENT.judge, in_axes=(None, 0, 0)))
# The one left out has a test of its own.
NAMES: tuple[BaselineName, ...] = tuple(name for name in get_args(BaselineName) if name != "foreseen")
# The first decision is made in state 0, the second in state 1 or 2, depending on the first action.
REWARDS = np.array([[[3.0, -1.0], [0.5, 2.0]], [[0.0, 4.0], [-2.0, 1.0]]], np.float32)
SECONDS = np.array([1.0, 3.0], np.float32)


def parameters() -> Any:
    weight = np.array([[0.3, -0.2], [0.8, 0.1], [-0.5, 0.4]], np.float32)[:, None]
    return {"policy": {"weight": weight}, "value": [np.array([1.0, 0.2, -2.0], np.float32)]}


@cache
def every_pair() -> Rollout:
    """All 16 pairs of rollouts side by side; pair p is environments 2 p and 2 p + 1."""
    actions = np.stack(np.meshgrid(*[[0, 1]] * 4, indexing="ij"), axis=-1).reshape(32, 2).T
    first, second = actions
    states = np.stack([np.zeros_like(first), 1 + first])
    rewards = np.stack([REWARDS[0, first, 0], REWARDS[1, first, second]])
    observation = {"features": np.eye(3, dtype=np.float32)[states], "sequence": np.full((2, 32), 1)}
    judged = judge(parameters(), observation, actions[..., None])
    return Rollout(
        observation,
        actions[..., None],
        judged.log_prob,
        judged.value,
        np.zeros(32, np.float32),
        rewards,
        np.stack([SECONDS[first], np.ones(32, np.float32)]),
        np.array([[False] * 32, [True] * 32]),
        np.ones((2, 32), bool),
    )


@jax.jit
def bend(rollout: Rollout, baseline: jax.Array) -> jax.Array:
    """The exact mean over pairs of what the baseline adds to the policy gradient."""

    def weighed(parameters: Any) -> jax.Array:
        judged = judge(parameters, rollout.observation, rollout.action)
        chances = jnp.exp(rollout.log_prob.sum(axis=0)).reshape(16, 2).prod(axis=1)
        return jnp.sum(chances * (judged.log_prob * baseline).sum(axis=0).reshape(16, 2).sum(axis=1))

    return jax.grad(weighed)(parameters())["policy"]["weight"]


def foretold(name: BaselineName, rollout: Rollout, agent: Agent = AGENT) -> jax.Array:
    """What the baseline expected, with value networks stirred so that they expect something."""
    settings = TrainingSettings(baseline=name, reset_every=1, smoothing=1.0)
    look = jax.tree.map(lambda leaf: leaf[0], rollout.observation)
    baseline = make_baseline(agent, settings, look, rollouts=2)
    state = jax.device_get(jax.jit(baseline.init)(jax.random.PRNGKey(0)))
    luck = np.random.default_rng(1)

    def stirred(leaf: jax.Array) -> Any:
        return leaf + 0.3 * luck.normal(size=leaf.shape).astype(np.float32) if leaf.ndim else leaf

    credit, _, _ = jax.jit(baseline.credit)(jax.tree.map(stirred, state), parameters(), rollout)
    return credit.targets - credit.advantages


@pytest.mark.parametrize("name", NAMES)
def test_no_baseline_bends_the_gradient(name: BaselineName) -> None:
    rollout = every_pair()
    expected = foretold(name, rollout)
    np.testing.assert_allclose(bend(rollout, expected), 0, atol=2e-6)
    if name != "none":
        assert float(jnp.std(expected)) > 0.05


def test_a_baseline_that_knows_the_decision_would_be_caught() -> None:
    rollout = every_pair()
    own_return = np.cumsum(rollout.rewards[::-1], axis=0)[::-1]
    assert float(jnp.abs(bend(rollout, own_return)).max()) > 0.1


@pytest.mark.parametrize("name", ["same_sequence", "same_sequence_value", "meta"])
def test_the_neighbours_are_really_looked_at(name: BaselineName) -> None:
    """Where only the neighbour's rewards change, the expectation changes, and the own one's do not count."""
    rollout = every_pair()
    richer = rollout.rewards.copy()
    richer[:, 1::2] += 10
    change = foretold(name, rollout._replace(rewards=richer)) - foretold(name, rollout)
    assert float(jnp.abs(change[:, 0::2]).min()) > 1e-4
    np.testing.assert_allclose(change[:, 1::2], 0, atol=1e-5)


def test_foreseen_rewards_are_credited_without_the_critic() -> None:
    rollout = every_pair()
    for smoothing in (0.0, 0.5):
        settings = TrainingSettings(baseline="foreseen", smoothing=smoothing)
        baseline = make_baseline(AGENT, settings, rollout.observation, rollouts=2)
        credit, _, _ = baseline.credit(baseline.init(jax.random.PRNGKey(0)), parameters(), rollout)
        first, second = np.asarray(rollout.rewards)
        np.testing.assert_allclose(credit.advantages, [first + smoothing * second, second], rtol=1e-6)


def test_interpolation_in_time_by_hand() -> None:
    """Neighbours: 8 at 0 s falling to 0 at 4 s, and 6 at 1 s falling to 2 at 3 s; both held outside."""
    returns = jnp.array([[5.0, 8.0, 6.0], [1.0, 0.0, 2.0]])
    times = jnp.array([[0.0, 0.0, 1.0], [2.5, 4.0, 3.0]])
    found = others_at_same_time(returns, times, jnp.ones((2, 3), bool), 3)
    # At 0 s: 8 and 6 (held); at 2.5 s: 3 and 3.
    np.testing.assert_allclose(found[:, 0], [7.0, 3.0], rtol=1e-6)


def test_rows_that_do_not_count_are_not_looked_at() -> None:
    returns = jnp.array([[5.0, 8.0, 777.0], [1.0, 777.0, 777.0]])
    times = jnp.array([[0.0, 0.0, 0.0], [2.5, 1.0, 1.0]])
    valid = jnp.array([[True, True, False], [True, False, False]])
    found = others_at_same_time(returns, times, valid, 3)
    np.testing.assert_allclose(found[:, 0], [8.0, 8.0], rtol=1e-6)


@pytest.mark.parametrize("name", ["state_value", "meta"])
def test_value_networks_learn_what_usually_follows(name: BaselineName) -> None:
    """Credit comes from before learning; afterwards only what no network can know is left.

    Returns from the first state are 3, 7, -1.5, 1.5 (variance 9.375), from the others 0, 4 and -2, 1
    (4 and 2.25): of the mean square of 10.4375, 6.25 is the work of later luck.
    """
    rollout = every_pair()
    settings = TrainingSettings(baseline=name, reset_every=1, baseline_learning_rate=0.02, baseline_steps=200)
    baseline = make_baseline(AGENT, settings, {"features": jnp.zeros((1, 3))}, rollouts=2)
    credit_of = jax.jit(baseline.credit)
    first, state, _ = credit_of(jax.jit(baseline.init)(jax.random.PRNGKey(0)), parameters(), rollout)
    if name == "state_value":
        np.testing.assert_allclose(first.advantages, first.targets)
    assert float(jnp.square(first.targets).mean()) == pytest.approx(10.4375)
    second, _, _ = credit_of(state, parameters(), rollout)
    assert float(jnp.square(second.advantages).mean()) == pytest.approx(6.25, abs=0.01)


def test_beside_other_rollouts_a_network_learns_what_the_own_state_is_worth() -> None:
    """State 1 is worth 10 more than state 2, and each workload has its own luck, the same for both rollouts.

    The others of the workload know the luck and not the state; the network knows the state and not the
    luck. Together they leave nothing unexplained where nothing is left to decide; what the first decision
    was worth stays its own.
    """
    rollout = every_pair()
    first = np.asarray(rollout.action)[0, :, 0]
    luck = np.repeat(np.random.default_rng(0).normal(0, 20, 16), 2)
    rewards = np.stack([np.zeros(32), np.where(first == 0, 10.0, 0.0) + luck]).astype(np.float32)
    rollout = rollout._replace(rewards=rewards, elapsed_s=np.ones((2, 32), np.float32))
    settings = TrainingSettings(
        baseline="same_sequence_value", reset_every=1, baseline_learning_rate=0.02, baseline_steps=300
    )
    baseline = make_baseline(AGENT, settings, {"features": jnp.zeros((1, 3))}, rollouts=2)
    credit_of = jax.jit(baseline.credit)
    blind, state, _ = credit_of(jax.jit(baseline.init)(jax.random.PRNGKey(0)), parameters(), rollout)
    learned, _, _ = credit_of(state, parameters(), rollout)
    differs = first != first.reshape(16, 2)[:, ::-1].ravel()
    own = np.where(differs, np.where(first == 0, 10.0, -10.0), 0.0)
    np.testing.assert_allclose(blind.advantages, [own, own], atol=1e-4)
    np.testing.assert_allclose(learned.advantages, [own, 0 * own], atol=0.3)


def test_only_networks_of_played_workloads_learn() -> None:
    settings = TrainingSettings(baseline="multi_value", reset_every=1, sequences=3)
    rollout = every_pair()
    look = jax.tree.map(lambda leaf: leaf[0], rollout.observation)
    baseline = make_baseline(AGENT, settings, look, rollouts=2)
    state = jax.jit(baseline.init)(jax.random.PRNGKey(0))
    _, after, _ = jax.jit(baseline.credit)(state, parameters(), rollout)
    moved = jax.tree.map(
        lambda new, old: jnp.abs(new - old).reshape(3, -1).max(axis=1),
        *((one.networks[-1]) for one in (after, state)),
    )
    for leaf in jax.tree.leaves(moved):
        assert leaf[1] > 0 and leaf[0] == leaf[2] == 0


@pytest.mark.parametrize(
    ("name", "rollouts", "agent", "observation", "said"),
    [
        ("same_sequence", 1, AGENT, {}, "at least 2 rollouts"),
        ("same_sequence_value", 1, AGENT, {}, "at least 2 rollouts"),
        ("same_sequence_value", 2, AGENT._replace(summary=None), {}, "offers a summary"),
        ("meta", 3, AGENT, {}, "3 is odd"),
        ("meta", 2, AGENT._replace(summary=None), {}, "offers a summary"),
        ("multi_value", 1, AGENT, {}, "name their workload"),
    ],
)
def test_a_baseline_that_cannot_work_is_refused(
    name: BaselineName, rollouts: int, agent: Agent, observation: dict[str, Any], said: str
) -> None:
    settings = TrainingSettings(baseline=name, reset_every=1)
    with pytest.raises(SettingsError, match=said):
        make_baseline(agent, settings, observation, rollouts=rollouts)
