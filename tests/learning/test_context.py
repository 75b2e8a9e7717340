"""Contexts: a family of systems that only their past tells apart."""

from collections.abc import Generator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.continuous_toys import Slopes, Ticking

from trimtab.learning.context import profile_loss, window_contexts
from trimtab.learning.off_policy import train_off_policy
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, new_parameters

QUICK = {
    "hidden": (32, 32),
    "discount": 0.0,
    "batch": 64,
    "capacity": 20_000,
    "warmup": 500,
    "horizon": 30,
    "updates_per_step": 4,
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 3e-3,
    "exploration": 0.3,
    "iterations": 20,
    "context_size": 4,
    "context_width": 16,
    "context_state": 16,
    "context_steps": 16,
    "context_memory": 30,
    "sequence_steps": 8,
    "validate_every": 5,
}


@pytest.fixture
def fast_programs() -> Generator[None]:
    """Here programs run for longer than they are compiled: optimise them, unlike elsewhere in these tests."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.slow
@pytest.mark.usefixtures("fast_programs")
def test_with_a_context_the_hidden_slope_is_found_and_used(tmp_path: Path) -> None:
    """Without one, 1/9 a step is the least; the head must also say what the slope is."""
    costs, explained = {}, {}
    for context in ("none", "gru"):
        settings = OffPolicySettings(**{**QUICK, "context": context})
        task = Slopes(settings)
        result = train_off_policy(task, settings, tmp_path / context, clock=Ticking(), seed=1)
        costs[context] = result.best_score
        task.score(result.parameters)
        if task.told is not None:  # what the head says at the end of a life of 30 steps
            explained[context] = 1 - np.square(task.told - task.true).mean() / task.true.var()
    assert costs["none"] > 0.09
    assert costs["gru"] < 0.55 * costs["none"]
    assert explained["gru"] > 0.6


def test_gradients_reach_the_encoder_before_the_step_and_not_after() -> None:
    settings = OffPolicySettings(**{**QUICK, "context": "gru"})
    shape = LearnerShape.of(settings, Slopes.layout)
    assert shape.encoder is not None
    encoder = jax.tree.map(jnp.asarray, new_parameters(shape, np.random.default_rng(0))["encoder"])
    past = np.random.default_rng(1).normal(size=(24, 3, Slopes.layout.token + 2)).astype(np.float32)
    past[..., -2], past[..., -1] = 0, 1
    past = jnp.asarray(past)

    def total(encoder, part):
        return getattr(window_contexts(encoder, past, shape.encoder, Slopes.layout, 8), part).sum()

    slopes_of = jax.jit(jax.grad(total), static_argnums=1)
    for part, moves in (("before", True), ("after", False)):
        slopes = slopes_of(encoder, part)
        assert (float(abs(slopes["token"]["weights"]).max()) > 0) == moves


def test_the_profile_is_missed_by_the_mean_square() -> None:
    encoder = {"profile": {"weights": jnp.eye(2), "bias": jnp.zeros(2)}}
    context, profile = jnp.array([[0.5, 0.5]]), jnp.array([[0.5, -0.5]])
    assert float(profile_loss(encoder, context, profile)) == pytest.approx(0.5)
