"""DS2: converges in one to three steps on linear jobs, and then stays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.linear_jobs import LinearJob, converge
from tests.stream_autoscaling.snapshots import snapshot_of

from trimtab.stream_autoscaling.heuristics.ds2 import ds2_parallelism
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Graph


@pytest.mark.parametrize("batch", range(4))
def test_ds2_converges_in_three_steps_on_every_linear_job_and_stays(batch: int) -> None:
    for seed in range(50 * batch, 50 * batch + 50):
        found = converge(seed)
        assert found.steps <= 3, f"seed {seed}: {found.seen[3]} after three steps, enough is {found.enough}"


def simple_job() -> LinearJob:
    """100 records/s; 50/s and 20/s a subtask; every record becomes two."""
    selectivity = np.array([[[0.0, 2.0], [0.0, 0.0]]])
    ones = np.ones((1, 2), np.int64)
    graph = Graph(
        np.ones((1, 2), bool), np.array([[True, False]]), selectivity, ones, 500 * ones, 0 * ones, 0 * ones
    )
    return LinearJob(graph, np.array([100.0, 0.0]), np.array([50.0, 20.0]))


def test_one_step_by_hand() -> None:
    # 100 / (50 * 0.75) = 2.67, 200 / (20 * 0.75) = 13.3.
    assert ds2_parallelism(simple_job().observed(np.array([1, 3])), target=0.75).tolist() == [[3, 14]]
    # At full utilisation, as published: 2 and 10.
    assert ds2_parallelism(simple_job().observed(np.array([1, 3])), target=1.0).tolist() == [[2, 10]]


def test_records_that_wait_are_caught_up_with_if_asked_for() -> None:
    snapshot = simple_job().observed(np.array([2, 10]))
    snapshot.samples.pending[:, :, 0] = 6000
    # 6000 records in 60 s are another 100/s: twice as much of everything.
    assert ds2_parallelism(snapshot, target=1.0, catch_up_s=60).tolist() == [[4, 20]]
    assert ds2_parallelism(snapshot, target=1.0).tolist() == [[2, 10]]


def test_small_differences_are_tolerated_and_large_ones_change_all() -> None:
    decider = make_policy("ds2:target=1,tolerance=0.2").begin(simple_job().graph)
    # Needed are 2 and 10. With a fifth added those are 12: what has 12 stays, what has 13 goes to 10.
    assert decider.decide(simple_job().observed(np.array([2, 12]))).tolist() == [[2, 12]]
    assert decider.decide(simple_job().observed(np.array([2, 13]))).tolist() == [[2, 10]]
    # Of 9 one is missing, less than a fifth; of 8 two are, which is more: then the source is set right too.
    assert decider.decide(simple_job().observed(np.array([3, 9]))).tolist() == [[3, 9]]
    assert decider.decide(simple_job().observed(np.array([3, 8]))).tolist() == [[2, 10]]


def test_the_median_of_the_activation_time_decides() -> None:
    job, decider = simple_job(), make_policy("ds2:target=1,activation=3").begin(simple_job().graph)
    steady = job.observed(np.array([5, 5]))
    spike = LinearJob(job.graph, 3 * job.arriving, job.capacity).observed(np.array([5, 5]))
    assert ds2_parallelism(spike, target=1.0).tolist() == [[6, 30]]
    answers = [decider.decide(snapshot).tolist() for snapshot in (steady, spike, steady)]
    # Two answers are too few; the third time the spike is outvoted.
    assert answers == [[[5, 5]], [[5, 5]], [[2, 10]]]
    restarted = steady._replace(since_rescale_s=np.array([30.0]))
    assert decider.decide(restarted).tolist() == [[5, 5]]


def test_without_arrivals_the_least_is_enough_and_unknown_rates_are_left_alone() -> None:
    job = simple_job()
    quiet = snapshot_of(job.graph, parallelism=7)
    assert ds2_parallelism(quiet).tolist() == [[1, 1]]
    snapshot = job.observed(np.array([5, 5]))
    snapshot.samples.complete[:, :, 1] = False
    assert ds2_parallelism(snapshot, target=1.0).tolist() == [[2, 5]]
    snapshot.samples.complete[:] = False
    assert ds2_parallelism(snapshot, target=1.0).tolist() == [[5, 5]]
