"""What rules read out of a snapshot."""

from __future__ import annotations

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.pod_autoscaling.heuristics.measures import (
    Highest,
    completed,
    cpu_per_request,
    intervals_in,
    just_begun,
    known,
    latest,
    mean,
    replicas_for,
    size_of,
    slope,
    work_by_interval,
)

ONE = services_of()


def series(*values: float, history: int = 20) -> np.ndarray:
    """The last values of a history whose older ones are 0."""
    return np.array([[0.0] * (history - len(values)) + list(values)])


def flags(*values: bool, history: int = 20) -> np.ndarray:
    return np.array([[False] * (history - len(values)) + list(values)])


def test_intervals_cover_a_span() -> None:
    assert [intervals_in(span_s, 15.0) for span_s in (0, 15, 16, 60, 300)] == [1, 1, 2, 4, 20]


def test_what_is_not_finite_is_not_known() -> None:
    snapshot = snapshot_of(ONE, rate=series(1.0, np.nan, 3.0), complete=flags(True, True, False))
    assert known(snapshot, snapshot.samples.rate)[0, -3:].tolist() == [True, False, False]
    assert latest(snapshot.samples.rate, known(snapshot, snapshot.samples.rate)).tolist() == [1.0]
    assert np.isnan(mean(snapshot.samples.rate, np.zeros((1, 20), bool)))


def test_slope_of_one_point_is_flat() -> None:
    assert slope(np.array([[3.0, 9.0]]), np.array([[False, True]]), 15.0).tolist() == [0.0]


def test_an_overload_does_not_make_requests_look_cheap() -> None:
    # Two saturated pods finish 100/s of 300/s: 200/s pile up, 3000 in 15 s. CPU over arrivals would be 6.7
    # ms.
    snapshot = snapshot_of(
        ONE,
        size=(2, 1.0, 512),
        rate=series(300, 300, 300),
        in_flight=series(0, 3000, 6000),
        cpu=series(2, 2, 2),
        present=flags(True, True, True),
    )
    assert completed(snapshot)[0, -2:].tolist() == [100.0, 100.0]
    # The first interval has nothing before it to compare with: 300 + 100 + 100 for 6 core-intervals.
    assert cpu_per_request(snapshot, 300.0) == pytest.approx([6 / 500])
    # With two calm intervals before, only these count: 2 cores for 100/s.
    calm = {"rate": [100] * 18 + [300, 300], "in_flight": [5] * 18 + [3000, 6000], "cpu": 2.0}
    limit = np.array([[2.0] * 18 + [1.0, 1.0]])
    calmed = snapshot_of(ONE, size=(2, 1.0, 512), cpu_limit=limit, **calm)
    assert cpu_per_request(calmed, 300.0) == pytest.approx([0.02])


def test_failed_requests_cost_nothing_and_starting_pods_are_left_out() -> None:
    failing = snapshot_of(ONE, rate=100.0, failed=0.5, cpu=1.0)
    assert cpu_per_request(failing, 300.0) == pytest.approx([0.02])
    # A pod starts in the last two intervals and burns a core for it.
    ready = np.array([[4.0] * 18 + [3.2, 3.9]])
    starting = snapshot_of(ONE, rate=100.0, cpu=[2.0] * 18 + [3.0, 3.0], samples_ready=ready)
    assert cpu_per_request(starting, 300.0) == pytest.approx([0.02])


@pytest.mark.parametrize("saturated", [False, True])
def test_heavier_requests_are_noticed_in_the_first_interval(saturated: bool) -> None:
    # 100/s of 20 ms, then of 30 ms: 3 cores of 4, or of the 3 that there are.
    limit = np.array([[1.0] * 19 + [0.75 if saturated else 1.0]])
    heavier = snapshot_of(ONE, cpu=[2.0] * 19 + [3.0], cpu_limit=limit)
    assert work_by_interval(heavier)[0] == pytest.approx([0.02] * 19 + [0.03])
    # Ten intervals later both are known as well, and the mean of all is neither.
    later = snapshot_of(ONE, cpu=[2.0] * 10 + [3.0] * 10)
    assert work_by_interval(later)[0] == pytest.approx([0.02] * 10 + [0.03] * 10)


@pytest.mark.parametrize(
    "given",
    [
        {"cpu": [2.0] * 19 + [2.3]},
        {"cpu": [0.02] * 19 + [0.03], "rate": 1.0},
        {"cpu": [3.0] * 19 + [2.0]},
        {"cpu": [2.0] * 18 + [3.0, 3.0], "samples_ready": [[4.0] * 18 + [3.2, 3.9]]},
        {"cpu": [2.0] * 19 + [4.0], "rate": [100.0] * 19 + [400.0], "in_flight": [5.0] * 19 + [3000.0]},
        {"cpu": [2.0] * 19 + [3.0], "complete": [True] * 19 + [False]},
        {"cpu": [2.0] + [3.0] * 19},
    ],
    ids=["too little", "too few", "lighter", "starting", "a rush", "missing", "hardly anything before"],
)
def test_what_does_not_prove_that_requests_are_heavier(given: dict) -> None:
    snapshot = snapshot_of(ONE, **given)
    assert (work_by_interval(snapshot)[0] == cpu_per_request(snapshot, 300.0)).all()


def test_the_work_of_requests_is_unknown_where_there_are_none() -> None:
    idle = snapshot_of(services_of(2), rate=[[0.0], [100.0]], cpu=[[0.01], [0.0]])
    assert np.isnan(work_by_interval(idle)).all()


def test_without_requests_nobody_knows_what_one_costs() -> None:
    assert np.isnan(cpu_per_request(snapshot_of(ONE, rate=0.0, cpu=0.0), 300.0)).all()
    assert np.isnan(cpu_per_request(snapshot_of(ONE, complete=False), 300.0)).all()


def test_pods_for_work_are_rounded_up_but_not_by_rounding_errors() -> None:
    # 0.3 / (0.1 * 1) is 2.9999999999999996 or 3.0000000000000004 in floats: three pods either way.
    assert replicas_for(np.array([0.3, 0.31]), utilisation=0.1, cpu=np.ones(2)).tolist() == [3.0, 4.0]


def test_sizes_stay_within_bounds_and_what_is_unknown_stays() -> None:
    snapshot = snapshot_of(ONE, size=(4, 1.0, 512))
    assert size_of(snapshot, replicas=np.array([99.0]), cpu=0.001).tolist() == [[20.0, 0.1, 512.0]]
    assert size_of(snapshot, replicas=np.array([np.nan]), memory=np.array([700.0])).tolist() == [[4, 1, 704]]


def test_the_highest_want_of_a_minute_is_what_is_scaled_down_to() -> None:
    highest, done = Highest(ONE, 60.0), []
    present = np.array([6.0])
    # Fresh: 6 is kept as the first want. It counts for four more decisions (60 s), then 3, the most since.
    for wanted in (2.0, 3.0, 2.0, 2.0, 2.0, 2.0):
        present = highest(np.array([wanted]), snapshot_of(ONE), present)
        done.append(present[0])
    assert done == [6, 6, 6, 6, 6, 3]
    assert highest(np.array([9.0]), snapshot_of(ONE), present).tolist() == [9.0]
    assert highest(np.array([np.nan]), snapshot_of(ONE), np.array([9.0])).tolist() == [9.0]


@pytest.mark.parametrize(
    ("interval_s", "done"), [(40.0, [6, 6, 2, 2]), (60.0, [6, 6, 2, 2]), (90.0, [6, 2, 2, 2])]
)
def test_no_want_older_than_the_span_is_kept_for(interval_s: float, done: list[float]) -> None:
    """A want of 6 and then of 2: at intervals of 40 s the 6 is 80 s old in the third decision."""
    highest, present, found = Highest(ONE, 60.0), np.array([6.0]), []
    for _ in range(4):
        present = highest(np.array([2.0]), snapshot_of(ONE, interval_s=interval_s), present)
        found.append(present[0])
    assert found == done


def test_a_service_that_begins_anew_has_no_past() -> None:
    two, highest = services_of(2), None
    highest = Highest(two, 60.0)
    both = snapshot_of(two)
    highest(np.array([9.0, 9.0]), both, np.array([9.0, 9.0]))
    anew = both._replace(samples=both.samples._replace(present=both.samples.present & [[False], [True]]))
    assert just_begun(anew).tolist() == [True, False]
    assert highest(np.array([1.0, 1.0]), anew, np.array([2.0, 9.0])).tolist() == [2.0, 9.0]
