import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.learning.distributions import (
    Gaussian,
    allowed_log_probs,
    choice_entropy,
    choice_log_prob,
    gaussian_entropy,
    gaussian_log_prob,
    likeliest_choice,
    sample_choice,
    sample_gaussian,
)

LOGITS = jnp.array([2.0, -1.0, 30.0, 0.0])
MASK = jnp.array([True, True, False, True])


def test_forbidden_actions_have_no_probability_at_all() -> None:
    log_probs = allowed_log_probs(LOGITS, MASK)
    chances = jnp.exp(log_probs)
    assert float(chances[2]) == 0
    np.testing.assert_allclose(chances.sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(chances[0] / chances[1], np.exp(3), rtol=1e-5)
    draws = sample_choice(jax.random.key(0), jnp.broadcast_to(log_probs, (10_000, 4)))
    assert not (draws == 2).any()
    assert int(likeliest_choice(log_probs)) == 0


def test_samples_come_with_their_probability() -> None:
    log_probs = allowed_log_probs(LOGITS, MASK)
    draws = sample_choice(jax.random.key(1), jnp.broadcast_to(log_probs, (40_000, 4)))
    shares = np.bincount(draws, minlength=4) / 40_000
    # Five standard errors of a share of 40,000 draws: at most 0.0125.
    np.testing.assert_allclose(shares, jnp.exp(log_probs), atol=0.0125)


@pytest.mark.parametrize("mask", [MASK, MASK & False, jnp.arange(4) == 1])
def test_gradients_stay_finite_and_do_not_reach_forbidden_logits(mask: jax.Array) -> None:
    def score(logits: jax.Array) -> jax.Array:
        log_probs = allowed_log_probs(logits, mask)
        return choice_log_prob(log_probs, jnp.array(1)) + choice_entropy(log_probs)

    gradient = jax.grad(score)(LOGITS)
    assert np.isfinite(gradient).all()
    assert not gradient[~mask].any()


def test_entropy_counts_allowed_actions_only() -> None:
    assert float(choice_entropy(allowed_log_probs(jnp.zeros(4), MASK))) == pytest.approx(np.log(3))
    assert float(choice_entropy(allowed_log_probs(jnp.zeros(4), jnp.arange(4) == 1))) == 0


@pytest.mark.parametrize("squashed", [False, True])
def test_a_density_integrates_to_one(squashed: bool) -> None:
    curve = Gaussian(jnp.array([0.3]), jnp.array([-0.5]))
    edge = 1 - 1e-6 if squashed else 8.0
    grid = jnp.linspace(-edge, edge, 200_001)[:, None]
    density = jnp.exp(gaussian_log_prob(curve, grid, squashed=squashed))
    assert float(jnp.trapezoid(density, grid[:, 0])) == pytest.approx(1, abs=1e-3)


def test_squashed_draws_stay_inside_and_keep_their_density_finite() -> None:
    curve = Gaussian(jnp.full((1000, 2), 5.0), jnp.ones((1000, 2)))
    drawn = sample_gaussian(jax.random.key(0), curve, squashed=True)
    assert (jnp.abs(drawn) <= 1).all()
    slope = jax.grad(lambda mean: gaussian_log_prob(curve._replace(mean=mean), drawn, squashed=True).sum())
    assert np.isfinite(slope(curve.mean)).all()


def test_entropy_is_the_mean_of_minus_the_log_density() -> None:
    curve = Gaussian(jnp.zeros((100_000, 2)), jnp.full((100_000, 2), 0.7))
    drawn = sample_gaussian(jax.random.key(3), curve)
    # The log-density of a pair deviates by 1: the mean of 100,000 by 0.003.
    found = -gaussian_log_prob(curve, drawn).mean()
    assert float(found) == pytest.approx(float(gaussian_entropy(curve)[0]), abs=0.016)
