"""Luck by counting: the same on numpy and JAX, with the right moments."""

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.networks.noise import gumbel_noise, normal_noise, uniform_noise

LUCK = np.arange(20, dtype=np.uint32)[:, None]
PLACES = np.arange(2_000)


def test_numpy_and_jax_draw_the_same() -> None:
    ours, theirs = (uniform_noise(xp.asarray(LUCK), xp.asarray(PLACES), 3, xp=xp) for xp in (np, jnp))
    assert np.array_equal(ours, np.asarray(theirs))


def test_uniform_draws_are_even_and_never_at_the_ends() -> None:
    draws = uniform_noise(LUCK, PLACES, xp=np)
    assert draws.min() > 0 and draws.max() < 1
    counts, _ = np.histogram(draws, bins=16, range=(0, 1))
    # 2,500 each; chi-square with 15 degrees of freedom exceeds 37.7 once in a thousand times.
    assert ((counts - 2_500) ** 2 / 2_500).sum() < 37.7


def test_draws_of_neighbouring_words_and_places_are_not_alike() -> None:
    draws = uniform_noise(LUCK, PLACES, xp=np)
    assert abs(np.corrcoef(draws[0], draws[1])[0, 1]) < 0.07
    assert abs(np.corrcoef(draws[0, :-1], draws[0, 1:])[0, 1]) < 0.07


@pytest.mark.parametrize(
    ("draw", "mean", "variance"), [(normal_noise, 0, 1), (gumbel_noise, 0.5772, np.pi**2 / 6)]
)
def test_moments(draw, mean, variance) -> None:
    draws = draw(LUCK, PLACES, xp=np)
    assert draws.mean() == pytest.approx(mean, abs=0.03)
    assert draws.var() == pytest.approx(variance, rel=0.03)
