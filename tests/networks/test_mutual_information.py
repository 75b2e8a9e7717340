"""The Jensen-Shannon estimator: bounds, a closed form, and an ordering that is known."""

import numpy as np
import pytest

from trimtab.networks.mutual_information import jensen_shannon_information


def information(parts, wholes) -> float:
    counts = np.ones(parts.shape[:2])
    return float(jensen_shannon_information(parts, wholes, counts, np).mean())


def test_two_rows_by_hand() -> None:
    """T = 1 together and -1 apart: log 2 - softplus(-1) - (softplus(1) - 1 - log 2)."""
    codes = np.array([[1.0], [-1.0]])
    softplus = np.log1p(np.exp([-1.0, 1.0]))
    wanted = np.log(2) - softplus[0] - (softplus[1] - 1 - np.log(2))
    assert information(codes[:, None], codes) == pytest.approx(wanted)


def test_the_more_a_part_tells_the_higher_it_is() -> None:
    """Parts are the whole plus noise: less noise, more information; shuffled, less than none."""
    random = np.random.default_rng(0)
    wholes = 2 * random.normal(size=(200, 8))

    def told(parts):
        return information((2 * parts / np.linalg.norm(parts, axis=-1, keepdims=True))[:, None], wholes)

    found = [told(wholes + noise * random.normal(size=wholes.shape)) for noise in (0.0, 2.0, 8.0)]
    found.append(told(wholes[random.permutation(200)]))
    assert found == sorted(found, reverse=True)
    assert found[0] < 2 * np.log(2) and found[0] > 0 > found[3]


def test_parts_that_are_not_there_do_not_count() -> None:
    random = np.random.default_rng(1)
    wholes, parts = random.normal(size=(4, 3)), random.normal(size=(4, 2, 3))
    one = jensen_shannon_information(parts[:, :1], wholes, np.ones((4, 1)), np)
    masked = jensen_shannon_information(parts, wholes, np.array([[1.0, 0.0]] * 4), np)
    assert masked == pytest.approx(one)
