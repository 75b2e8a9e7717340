"""Who plays which days in the benchmarks of autoscalers."""

import numpy as np
from benchmarks.stream_settings import play, same_for_all, unit_of
from benchmarks.stream_shared_batch import SharedBatch
from tests.stream_autoscaling.test_sure_policy import bundle

from trimtab.benchmark.playing import Workers
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.sure.policy import SurePolicy

JOBS = ("small-1", "small-2")


def trainings(number: int) -> list[SurePolicy]:
    return [SurePolicy(bundle(seed=seed)) for seed in range(number)]


def test_the_days_of_each_training_lie_one_after_the_other() -> None:
    suite = JobsSuite(jobs=JOBS, seeds=4)
    unit = unit_of(suite, tuple(suite.scenarios()), same_for_all("mine", trainings(2), JOBS))
    even_days_first = sorted(suite.test_seeds(), key=lambda seed: seed % 2)
    assert unit.days == [(job, seed) for seed in even_days_first for job in JOBS]
    assert isinstance(unit.policies[0], SharedBatch)


def test_a_rule_or_a_single_training_plays_by_itself() -> None:
    suite = JobsSuite(jobs=JOBS, seeds=3)
    (policy,) = trainings(1)
    unit = unit_of(suite, (suite.scenarios()[0],), same_for_all("mine", [policy], JOBS))
    assert unit.policies == (policy,) and len(unit.days) == 3


def test_a_day_comes_out_alike_whoever_is_played_beside() -> None:
    """Two trainings in one batch against each alone, on intervals of an hour to be quick."""
    suite = JobsSuite(jobs=JOBS, seeds=2, deployment=Deployment(interval_s=3600, history=8))
    both = trainings(2)
    alone = [same_for_all(f"alone {place}", [one], JOBS) for place, one in enumerate(both)]
    with Workers(1) as workers:
        shared, *each = play(workers, suite, [same_for_all("mine", both, JOBS), *alone])
    for day, seed in enumerate(suite.test_seeds()):
        theirs = each[seed % 2]
        for measure, values in shared.values.items():
            assert np.array_equal(values[:, day], theirs.values[measure][:, day])
