"""Natural steps: their direction against the closed form, and their length against the divergence."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from tests.learning.toys import linear_agent

from trimtab.learning.natural import natural_direction, natural_step, row_scores
from trimtab.learning.passes import make_optimiser
from trimtab.learning.ppo import Experience, Weights
from trimtab.learning.reinforce import reinforce_loss

FEATURES, ACTIONS, ROWS = 3, 3, 512
AGENT = linear_agent(FEATURES, ACTIONS)


def drawn(seed: int = 0) -> tuple[Any, Experience]:
    """A policy, and decisions it made in random situations; the first action was good, the second bad."""
    random = np.random.default_rng(seed)
    parameters = AGENT.init(jax.random.PRNGKey(seed))
    features = random.normal(size=(ROWS, FEATURES))
    features[:, 0] = 1.0
    seen = {
        "features": jnp.asarray(features, jnp.float32),
        "mask": jnp.ones((ROWS, ACTIONS), bool),
    }
    acted = AGENT.act(parameters, seen, jax.random.PRNGKey(1))
    advantage = jnp.array([1.0, -1.0, 0.0])[acted.action[:, 0]]
    nothing = jnp.zeros(ROWS)
    return parameters, Experience(
        seen, acted.action, acted.log_prob, nothing, advantage, nothing, jnp.ones(ROWS)
    )


def test_scores_are_the_gradients_of_single_decisions() -> None:
    parameters, rows = drawn()
    scores = row_scores(AGENT, parameters, rows)
    flat, restored = ravel_pytree(parameters)

    def all_log_probs(flat: jax.Array) -> jax.Array:
        return AGENT.judge(restored(flat), rows.observation, rows.action).log_prob

    np.testing.assert_allclose(scores, jax.jacrev(all_log_probs)(flat), atol=1e-6)


def test_the_direction_solves_the_damped_equations() -> None:
    random = np.random.default_rng(1)
    scores, uphill = random.normal(size=(200, 12)), random.normal(size=12)
    scores[:, 7] = 0.0  # what changes no decision counts in no mean
    fisher = scores.T @ scores / 200
    damped = fisher + 0.3 * np.trace(fisher) / 11 * np.eye(12)
    wanted = np.linalg.solve(damped, uphill)
    wanted /= np.sqrt(wanted @ fisher @ wanted)
    found = natural_direction(jnp.asarray(scores), jnp.asarray(uphill), 0.3)
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.01)


def stepped(parameters: Any, rows: Experience, length: float, *, scored: int, damping: float) -> Any:
    """A first step; the good action should grow likelier."""
    optimiser = make_optimiser(1.0)
    step = jax.jit(partial(natural_step, parts=4, scored=scored, damping=damping), static_argnums=(0, 1, 2))
    loss = reinforce_loss(AGENT, Weights(np.float32(0), np.float32(0)), value_weight=0.0)
    begun, key = optimiser.init(parameters), jax.random.PRNGKey(2)
    return step(loss, AGENT, optimiser, parameters, begun, rows, key, length=jnp.float32(length))


@pytest.mark.parametrize("length", [0.05, 0.3])
def test_a_step_moves_the_policy_by_its_length(length: float) -> None:
    parameters, rows = drawn()
    moved, _, found = stepped(parameters, rows, length, scored=256, damping=0.1)
    before, after = (AGENT.judge(p, rows.observation, jnp.zeros((ROWS, 1), int)) for p in (parameters, moved))
    assert float((after.log_prob - before.log_prob).mean()) > 0.1 * length
    assert float(found["kl"]) == pytest.approx(0.5 * length**2, rel=0.35)
    assert float(found["kl"]) <= 0.5 * length**2 * 1.05
    assert 0 < float(found["shortened"]) <= 1


def test_a_step_measured_by_too_few_decisions_is_looked_for_with_more_damping() -> None:
    """Of one decision's score hardly any direction is known to change the policy: the step is far too long.

    Cut to its length it would hardly follow the gradient; damped, it does.
    """
    parameters, rows = drawn()
    well, _, measured = stepped(parameters, rows, 0.1, scored=256, damping=1e-3)
    badly, _, found = stepped(parameters, rows, 0.1, scored=1, damping=1e-3)
    assert float(measured["damping"]) == pytest.approx(1e-3)
    assert float(found["damping"]) > 0.1
    assert 0.002 < float(found["kl"]) < 0.006
    likelier = [
        float((AGENT.judge(p, rows.observation, jnp.zeros((ROWS, 1), int)).log_prob).mean())
        for p in (parameters, badly, well)
    ]
    assert likelier[1] - likelier[0] > 0.5 * (likelier[2] - likelier[0])


def test_a_step_of_which_nothing_can_be_said_is_looked_for_again() -> None:
    """So long that a probability overflows."""
    _, _, found = stepped(*drawn(), 1e4, scored=1, damping=1e-3)
    assert np.isfinite([float(value) for value in found.values()]).all()


def test_no_more_decisions_are_scored_than_there_are() -> None:
    """A tiny iteration took minutes for the same few decisions, drawn thousands of times."""
    parameters, rows = drawn()
    asked, there = (stepped(parameters, rows, 0.1, scored=scored, damping=0.1) for scored in (100_000, ROWS))
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), asked[0], there[0])))
