"""The network: no input makes it lose its head; its size, its limits, its scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.dag_scheduling.decima_networks import DESIGNS, SMALL, extreme_views, first_look, quick_jit
from tests.dag_scheduling.test_decima_view import view_in

from trimtab.core.bundle import flatten
from trimtab.dag_scheduling.decima.agent import decima_agent
from trimtab.dag_scheduling.decima.features import facts_of, paper_features, rich_features
from trimtab.dag_scheduling.decima.network import (
    FUTURE_FEATURES,
    Design,
    limit_scores,
    limits_of,
    new_network,
    stage_scores,
    summary,
    value,
)
from trimtab.dag_scheduling.decima.view import View

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", extreme_views())
def test_extreme_inputs_give_finite_numbers(name):
    view = extreme_views()[name]
    facts = facts_of(view, 1, np)
    parts = [rich_features(facts, np), rich_features(facts, np, paths=False), paper_features(facts, np)]
    for features in parts:
        for part in features:
            assert np.isfinite(part).all()
    for features in parts[:2]:
        # Ours are on logarithmic or relative scales, so that nothing drowns the rest.
        assert max(np.abs(part).max() for part in features) < 30
    for design in DESIGNS.values():
        parameters = new_network(design, 0)
        scores = stage_scores(parameters, view, design, np)
        logits, mask, limits = limit_scores(parameters, scores, np.array([0]), design, 4, np)
        assert np.isfinite(scores.logits).all() and np.isfinite(logits).all() and np.isfinite(limits).all()
        assert mask.any() == (name not in ("nothing", "no free executor"))
    assert np.isfinite(
        value(new_network(SMALL, 0), facts, np.ones((1, FUTURE_FEATURES), np.float32), np)
    ).all()
    assert np.isfinite(summary(view, 1, np)).all()


def test_extreme_inputs_give_finite_gradients():
    views = extreme_views()
    joined = View(*(np.concatenate(parts) for parts in zip(*views.values(), strict=True)))
    agent = decima_agent(SMALL, most_executors=4)
    observation = {**joined._asdict(), "future": np.zeros((len(views), FUTURE_FEATURES), np.float32)}

    def loss(parameters: Any) -> jax.Array:
        judged = agent.judge(parameters, observation, jnp.zeros((len(views), 2), jnp.int32))
        return (judged.value + judged.entropy + jnp.maximum(judged.log_prob, -50.0)).sum()

    gradients = jax.tree.leaves(quick_jit(jax.grad(loss))(new_network(SMALL, 0)))
    assert all(np.isfinite(leaf).all() for leaf in gradients)
    assert sum(float(np.abs(leaf).sum()) for leaf in gradients) > 0


def test_an_agent_that_doubts_chooses_the_same_but_tries_more():
    views = extreme_views()
    joined = View(*(np.concatenate(parts) for parts in zip(*views.values(), strict=True)))
    agent = decima_agent(SMALL, most_executors=4)
    observation = {**joined._asdict(), "future": np.zeros((len(views), FUTURE_FEATURES), np.float32)}
    sure = new_network(SMALL, 0)
    assert agent.doubting is not None
    doubting = agent.doubting(sure, 0.25)
    actions = quick_jit(agent.best)(sure, observation)
    np.testing.assert_array_equal(quick_jit(agent.best)(doubting, observation), actions)
    judge = quick_jit(agent.judge)
    before, after = (judge(parameters, observation, actions).entropy for parameters in (sure, doubting))
    assert after.sum() > before.sum()


# --- sizes ------------------------------------------------------------------------------------------


def parameter_count(tree: Any) -> int:
    return sum(leaf.size for leaf in flatten(tree).values())


def test_networks_are_as_small_as_the_published_one():
    """The published network has 12,736 parameters."""
    assert 10_000 < parameter_count(new_network(Design(), 0)["actor"]) < 25_000
    assert 5_000 < parameter_count(new_network(Design(paper=True), 0)["actor"]) < 13_000
    without = new_network(Design(limit_head=False), 0)["actor"]
    assert not any(name.startswith("limit") for name in without)
    assert "encoder" not in new_network(Design(graph=False), 0)["actor"]


def test_limits_by_hand():
    """Log-spaced: 50 / 1, 1.41, 2, 2.83 … rounded up, down to 1; or every number, up to the cluster's."""
    design = Design(limits=6)
    assert limits_of(np.array([50.0], np.float32), design, 50, np)[0].tolist() == [50, 23, 11, 5, 3, 1]
    assert limits_of(np.array([3.0], np.float32), design, 3, np)[0].tolist() == [3, 3, 2, 2, 2, 1]
    every = limits_of(np.array([3.0], np.float32), Design(limits=0), 5, np)[0].tolist()
    assert every == [3, 3, 3, 2, 1]


def test_the_same_seed_draws_the_same_network():
    one, again, other = (flatten(new_network(Design(), seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not all(np.array_equal(one[name], other[name]) for name in one)


def test_bent_scores_stay_within_bounds_and_keep_their_order():
    view, parameters = view_in(first_look("tpch")), new_network(SMALL, 0)
    plain = stage_scores(parameters, view, SMALL, np)
    bound = float(np.abs(plain.logits[plain.mask]).max()) / 2
    bent = stage_scores(parameters, view, replace(SMALL, largest_score=bound), np)
    assert np.abs(bent.logits[bent.mask]).max() < bound
    np.testing.assert_array_equal(plain.logits.argmax(1), bent.logits.argmax(1))
