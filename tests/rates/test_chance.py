"""Random processes: their moments, and that any span can be made without what comes before."""

import numpy as np
import pytest

from trimtab.rates.chance import dispersed, interpolated, normal, wandering


def test_normal_draws() -> None:
    draws = normal(1, np.arange(100_000))
    assert abs(draws.mean()) < 0.01
    assert draws.std() == pytest.approx(1, abs=0.01)
    assert np.mean(np.abs(draws) < 1.96) == pytest.approx(0.95, abs=0.003)


@pytest.mark.parametrize("persistence", [0.0, 0.3, 0.9])
def test_wandering_keeps_what_it_should(persistence: float) -> None:
    walk = wandering(3, 200_000, persistence)
    assert walk.std() == pytest.approx(1, abs=0.02)
    assert np.corrcoef(walk[:-1], walk[1:])[0, 1] == pytest.approx(persistence, abs=0.01)


@pytest.mark.parametrize("first", [0, 1, 59, 60, 61, 4000])
def test_a_span_is_the_same_alone(first: int) -> None:
    assert np.allclose(wandering(5, 100, 0.8, first=first), wandering(5, 5000, 0.8)[first : first + 100])
    whole = interpolated(5, 5000, 0.8, every=60, deviation=2.0)
    alone = interpolated(5, 100, 0.8, every=60, deviation=2.0, first=first)
    assert np.allclose(alone, whole[first : first + 100])


def test_interpolated_is_straight_between_knots() -> None:
    walk = interpolated(5, 601, 0.5, every=60)
    assert np.allclose(np.diff(walk, 2).reshape(-1)[np.arange(599) % 60 != 59], 0, atol=1e-12)
    assert np.allclose(walk[::60], wandering(5, 11, 0.5))


def test_dispersed_counts() -> None:
    """A squared normal: variance = 9 x 100 and 9^2 / 8 on top."""
    counts = dispersed(np.full(200_000, 100.0), 9.0, normal(2, np.arange(200_000)))
    assert counts.min() >= 0
    assert counts.mean() == pytest.approx(100, rel=0.01)
    assert counts.var() / 100 == pytest.approx(9, rel=0.03)
