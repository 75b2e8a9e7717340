"""The variational sampler: counts, masks, closed forms, and a gradient that is not zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.learning.jax_tools import JAX_TOOLS
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.noise import gumbel_noise, normal_noise
from trimtab.networks.subgraph_sampler import (
    Latents,
    cross_entropy,
    divergence,
    latents_of,
    log_volume,
    pick,
    relaxed_counts,
)

ALLOWED = np.ones(6, bool)


def latents(scores, spread=-2.0, allowed=ALLOWED, xp=np) -> Latents:
    scores = xp.asarray(scores, xp.float32)
    return latents_of(scores, xp.full(scores.shape, spread), xp.asarray(allowed), reach=4.0, xp=xp)


def drawn(found: Latents, count: int, luck: int, tools=PLAIN):
    words, places = tools.xp.full((1,), luck, dtype=tools.xp.uint32), tools.xp.arange(found.score.shape[-1])
    normal, gumbel = normal_noise(words, places, xp=tools.xp), gumbel_noise(words, places, 2, xp=tools.xp)
    return pick(found, count, normal=normal, gumbel=gumbel, temperature=0.5, tools=tools)


def test_without_noise_the_highest_scores_are_picked_in_order_of_position() -> None:
    found = pick(latents([5, 1, 9, 0, 7, 2]), 3, normal=None, gumbel=None, temperature=0.5, tools=PLAIN)
    assert found.positions.tolist() == [0, 2, 4] and found.real.all()
    assert found.slope is None and found.omega is None


def test_scores_beyond_the_bend_are_still_told_apart() -> None:
    """The means of 900 and 800 are both 4 exactly; ranked by score, there is no tie."""
    found = pick(latents([1, 900, 2, 800, 0, 0]), 1, normal=None, gumbel=None, temperature=0.5, tools=PLAIN)
    assert found.positions.tolist() == [1]


@pytest.mark.parametrize("luck", range(5))
def test_draws_never_repeat_and_never_leave_the_mask(luck: int) -> None:
    allowed = np.array([True, False, True, True, False, True])
    found = drawn(latents(np.zeros(6), allowed=allowed), 3, luck)
    assert len(set(found.positions.tolist())) == 3 and allowed[found.positions].all() and found.real.all()


def test_fewer_candidates_than_picks_leave_places_that_are_not_real() -> None:
    allowed = np.array([False, True, False, False, True, False])
    for found in (
        drawn(latents(np.zeros(6), allowed=allowed), 4, 1),
        pick(
            latents(np.zeros(6), allowed=allowed), 4, normal=None, gumbel=None, temperature=0.5, tools=PLAIN
        ),
    ):
        assert sorted(found.positions[found.real].tolist()) == [1, 4] and found.real.sum() == 2


def test_chances_of_a_first_pick_are_those_of_the_softmax() -> None:
    """With next to no variance of the latents: softmax(0, 1, 2) = 0.09, 0.245, 0.665."""
    found = latents([[0.0, 1.0, 2.0]] * 4_000, spread=-20.0, allowed=np.ones(3, bool))
    luck = np.arange(4_000, dtype=np.uint32)[:, None]
    normal, gumbel = normal_noise(luck, np.arange(3), xp=np), gumbel_noise(luck, np.arange(3), 2, xp=np)
    picks = pick(found, 1, normal=normal, gumbel=gumbel, temperature=0.5, tools=PLAIN).positions[:, 0]
    mean = 4 * np.tanh(np.arange(3) / 4)
    wanted = np.exp(mean) / np.exp(mean).sum()
    assert np.bincount(picks) / 4_000 == pytest.approx(wanted, abs=0.03)


def test_noise_has_the_standard_deviation_and_not_the_variance() -> None:
    """Of log variance log 0.25: the deviation is 0.5 (the published code had 0.25)."""
    found = latents(np.zeros((1, 20_000)), spread=np.log(0.25), allowed=np.ones(20_000, bool))
    normal = normal_noise(np.array([[1]], np.uint32), np.arange(20_000), xp=np)
    omega = pick(found, 1, normal=normal, gumbel=0 * normal, temperature=0.5, tools=PLAIN).omega
    assert omega is not None and omega.std() == pytest.approx(0.5, rel=0.02)


def test_divergence_in_closed_form() -> None:
    """KL(N(m, s^2) || N(0, 1)) = (s^2 + m^2 - 1 - log s^2) / 2; what is not allowed adds nothing."""
    mean, log_variance = np.array([0.5, 9.0, -1.0]), np.array([np.log(4.0), 0.0, 0.0])
    found = divergence(Latents(mean, mean, log_variance, np.array([True, False, True])), np)
    assert found == pytest.approx(0.5 * (4 + 0.25 - 1 - np.log(4)) + 0.5)
    nothing = divergence(Latents(*[np.zeros(3)] * 3, np.ones(3, bool)), np)
    assert nothing == 0


def test_volume_and_surprise_by_hand() -> None:
    """Two of four equal candidates: each has a chance of 1/4, so the surprise is 2 log 4."""
    found = latents(np.zeros(4), spread=-2.0, allowed=np.ones(4, bool))
    zeros = np.zeros(4)
    picked = pick(found, 2, normal=zeros, gumbel=zeros, temperature=0.5, tools=PLAIN)
    assert cross_entropy(found, picked, np) == pytest.approx(2 * np.log(4))
    assert log_volume(found, np) == pytest.approx(4 * -1.0)


def test_relaxed_counts_add_up_and_sharpen() -> None:
    keys = np.random.default_rng(0).permuted(np.tile(np.arange(9.0), (5, 1)), axis=1)
    for temperature in (1.0, 0.3, 0.05):
        assert relaxed_counts(keys, 3, temperature, PLAIN).sum(-1) == pytest.approx(3)
    hard = np.sort(relaxed_counts(keys, 3, 0.02, PLAIN), -1)
    assert hard[:, -3:].min() > 0.9 and hard[:, :-3].max() < 0.1


def test_the_gradient_of_a_reward_reaches_mean_and_deviation() -> None:
    """The slope is 1 as a number; its gradient moves scores towards candidates that pay."""

    def paid(parts):
        scores, spread = parts
        found = latents_of(scores, spread, jnp.ones(6, bool), reach=4.0, xp=jnp)
        picked = drawn(found, 2, 3, JAX_TOOLS)
        return (jnp.array([1.0, 2, 5, 3, -1, -4])[picked.positions] * picked.slope).sum(), picked

    parts = (jnp.zeros(6), jnp.full(6, -2.0))
    (_, picked), (by_score, by_spread) = jax.value_and_grad(paid, has_aux=True)(parts)
    assert np.allclose(picked.slope, 1)
    assert np.abs(by_score).max() > 1e-3 and np.abs(by_spread).max() > 1e-5


def test_numpy_and_jax_pick_the_same() -> None:
    scores = np.random.default_rng(1).normal(size=(40, 30)).astype(np.float32)
    allowed = np.random.default_rng(2).random((40, 30)) < 0.5
    for luck in (None, 7):
        ours, theirs = (
            pick(
                latents(scores, allowed=allowed, xp=t.xp),
                5,
                normal=None,
                gumbel=None,
                temperature=0.5,
                tools=t,
            )
            if luck is None
            else drawn(latents(scores, allowed=allowed, xp=t.xp), 5, luck, t)
            for t in (PLAIN, JAX_TOOLS)
        )
        same = ours.positions == np.asarray(theirs.positions)
        assert same[ours.real].all() and np.array_equal(ours.real, np.asarray(theirs.real))
