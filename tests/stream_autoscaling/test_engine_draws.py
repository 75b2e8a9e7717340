"""Random numbers of the engine have the distributions they should have."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from trimtab.core.randomness import hash_counters, uniform
from trimtab.stream_autoscaling.simulator.draws import draw_normal, draw_poisson


def test_normal_numbers_are_quantiles_of_uniform_ones():
    words = [*hash_counters(1, np.arange(2000)), *(np.uint64(w) for w in (0, 1 << 30, (1 << 64) - 1))]
    shares = [*uniform(1, np.arange(2000)), 0.0, (1 << 19) * 2.0**-53, 1 - 2.0**-53]
    expected = [NormalDist().inv_cdf(min(share + 2.0**-54, 1 - 2.0**-53)) for share in shares]
    np.testing.assert_allclose([draw_normal(word) for word in words], expected, rtol=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.05, 3.0, 19.9, 20.1, 400.0])
def test_poisson_numbers_have_their_mean_as_variance(mean):
    drawn = np.array([draw_poisson(word, mean) for word in hash_counters(2, np.arange(40_000))])
    assert (drawn == np.rint(drawn)).all() and (drawn >= 0).all()
    # Standard errors: sqrt(mean / n) of the mean, about mean sqrt(2 / n) of the variance.
    assert drawn.mean() == pytest.approx(mean, abs=4 * np.sqrt(mean / 40_000) + 1e-12)
    assert drawn.var() == pytest.approx(mean, rel=0.05, abs=1e-12)
