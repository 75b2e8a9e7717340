"""The loss of weighing against its closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.toys import linear_agent

from trimtab.learning.ppo import Experience, Weights
from trimtab.learning.weighing import _joined, weighing_loss


def rows_of(gains: list[list[float]], offered: list[list[bool]]) -> Experience:
    size, arms = np.shape(gains)
    blank = {name: jnp.zeros(size) for name in Experience._fields}
    return Experience(**blank)._replace(
        observation={
            "features": jnp.ones((size, 1)),
            "mask": jnp.ones((size, arms), bool),
            "alternatives": jnp.broadcast_to(jnp.arange(arms)[:, None], (size, arms, 1)),
            "offered": jnp.array(offered),
            "gains": jnp.array(gains),
        },
        action=jnp.zeros((size, 1), int),
        weight=jnp.ones(size),
    )


def test_the_loss_is_minus_the_gain_expected_over_what_is_offered() -> None:
    agent = linear_agent(1, 3)
    parameters = agent.init(jax.random.PRNGKey(0))
    judge, seen = jax.jit(agent.judge), rows_of([[0.0] * 3], [[True] * 3]).observation
    log_probs = np.array([float(judge(parameters, seen, jnp.array([[arm]])).log_prob[0]) for arm in range(3)])
    rows = rows_of(
        [[1.0, 5.0, -3.0], [0.0, 2.0, 100.0], [9.0, 9.0, 9.0]], [[True] * 3, [True, True, False], [False] * 3]
    )
    shares = np.exp(log_probs)
    pair = shares[:2] / shares[:2].sum()
    gain = (shares @ [1.0, 5.0, -3.0] + pair @ [0.0, 2.0]) / 2  # the third row was not looked at
    loss, metrics = jax.jit(weighing_loss(agent, Weights(jnp.zeros(()), jnp.zeros(()))))(parameters, rows)
    assert float(metrics["gain"]) == pytest.approx(gain, rel=1e-5)
    assert float(loss) == pytest.approx(-gain, rel=1e-5)
    assert float(metrics["largest_gain"]) == pytest.approx((5.0 + 2.0) / 2)
    assert float(metrics["looked_at"]) == 2
    entropy = (-(shares * np.log(shares)).sum() - (pair * np.log(pair)).sum()) / 2
    bent, _ = jax.jit(weighing_loss(agent, Weights(jnp.full((), 0.5), jnp.zeros(()))))(parameters, rows)
    assert float(bent) == pytest.approx(-gain - 0.5 * entropy, rel=1e-5)


def test_rows_that_were_not_looked_at_have_no_gradient() -> None:
    agent = linear_agent(1, 3)
    parameters = agent.init(jax.random.PRNGKey(0))
    loss = weighing_loss(agent, Weights(jnp.full((), 0.1), jnp.zeros(())))
    rows = rows_of([[1e6, -1e6, 0.0]], [[False] * 3])
    gradient = jax.jit(jax.grad(lambda tree: loss(tree, rows)[0]))(parameters)
    assert all(np.isfinite(leaf).all() and not np.asarray(leaf).any() for leaf in jax.tree.leaves(gradient))


def test_actions_of_several_parts_are_weighed_in_two_stages() -> None:
    """To hold, or to commit to one of two: the choice is between the two, however unlikely both are."""
    gate, choices = np.log([0.4, 0.6, 0.6]), np.log([1.0, 1e-6, 3e-6])
    first, offered = jnp.array([[0], [1], [1]]), jnp.ones((3, 1), bool)
    log_prob, joined = jnp.array(np.stack([gate, choices], axis=-1)[:, None]), jax.jit(_joined)
    assert np.exp(joined(log_prob, first, offered))[:, 0] == pytest.approx([0.4, 0.15, 0.45], rel=1e-5)
    only = offered.at[2].set(False)
    assert np.exp(joined(log_prob, first, only))[:2, 0] == pytest.approx([0.4, 0.6], rel=1e-5)
