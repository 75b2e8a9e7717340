"""Rows of the ablations over trainings, on numbers made up by hand."""

import numpy as np
import pytest
from benchmarks.stream_ablations import RANDOM, RULE, UNINFORMED, WHOLE, by_training, training_rows
from benchmarks.stream_settings import Played

from trimtab.benchmark.suite import FIRST_TEST_SEED

SEEDS = range(FIRST_TEST_SEED, FIRST_TEST_SEED + 10)


def played(name: str, costs: list[float]) -> Played:
    """Two jobs, two days for each of five trainings; the second job and round of days cost more."""
    days = np.tile(costs, 2) + np.repeat([0.0, 0.2], 5)
    return Played(name, "", {"cost": np.stack([days, days + 1.0])})


def test_a_training_is_judged_by_its_own_days() -> None:
    costs = by_training(played(WHOLE, [1.0, 2.0, 3.0, 4.0, 5.0]), SEEDS)
    assert costs == pytest.approx([1.6, 2.6, 3.6, 4.6, 5.6])


def test_five_trainings_cannot_tell_more_than_one_in_32() -> None:
    found = {
        WHOLE: played(WHOLE, [1.0, 1.0, 1.0, 1.0, 2.0]),
        RANDOM: played(RANDOM, [1.1, 1.1, 2.0, 2.0, 2.1]),
        UNINFORMED: played(UNINFORMED, [9.0, 9.0, 9.0, 1.0, 1.0]),
        RULE: played(RULE, [2.0] * 5),
    }
    p, sampler, random, uninformed = training_rows(found, SEEDS)
    assert (p.name, p.bar) == ("random subset / sampler: p over trainings", "none")
    assert p.value == pytest.approx(1 / 32, rel=0.05)
    assert [row.value for row in (sampler, random, uninformed)] == [1, 3, 3]
    assert sampler.name == "random subset / sampler: sampler: trainings that learned next to nothing, of 5"


def test_one_training_that_failed_is_no_proof() -> None:
    """Four of five are alike: half of all flips of the fifth are as high."""
    alike = [1.0] * 5
    found = {name: played(name, alike) for name in (WHOLE, UNINFORMED, RULE)}
    found[RANDOM] = played(RANDOM, [1.0, 1.0, 1.0, 1.0, 3.0])
    assert training_rows(found, SEEDS)[0].value == pytest.approx(1 / 2, rel=0.02)
