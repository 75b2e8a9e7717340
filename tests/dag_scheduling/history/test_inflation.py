"""The curve of work inflation: known curves are found again, unknown counts are filled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.inflation import (
    PUBLISHED_RELATIVE_WORK,
    Curve,
    bucket_points,
    extrapolate,
    extrapolate_jobs,
    fit_inflation,
    fit_shared_inflation,
    inflation,
    published_inflation,
)
from trimtab.dag_scheduling.workload import JobRecord, StageRecord


@given(
    a=st.floats(0.001, 2.0),
    b=st.floats(0.3, 1.8),
    first_ms=st.floats(10, 1e5),
    top=st.sampled_from([40, 100]),
)
def test_a_known_curve_is_found_again(a: float, b: float, first_ms: float, top: int) -> None:
    points = [1, 2, 5, 10, 20, top]
    fitted = fit_inflation(points, [first_ms * inflation(m, a, b) for m in points])
    for m in points:
        assert inflation(m, *fitted) == pytest.approx(inflation(m, a, b), rel=0.02)


def test_the_published_statistics_are_met() -> None:
    a, b = published_inflation()
    for executors, relative in PUBLISHED_RELATIVE_WORK.items():
        assert inflation(executors, a, b) / inflation(5, a, b) == pytest.approx(relative, rel=0.03)


def test_stages_of_different_size_share_one_curve() -> None:
    points = [2, 8, 32]
    curves = [Curve(points, [scale * inflation(m, 0.05, 0.9) for m in points]) for scale in (1, 7, 900)]
    a, b = fit_shared_inflation(curves)
    assert (a, b) == (pytest.approx(0.05, rel=0.02), pytest.approx(0.9, rel=0.02))


def test_two_points_take_the_published_bend() -> None:
    a, b = fit_inflation([2, 50], [100.0, 200.0])
    assert b == published_inflation()[1]
    assert inflation(50, a, b) / inflation(2, a, b) == pytest.approx(2.0, rel=0.01)


def test_faster_with_more_executors_means_no_inflation() -> None:
    assert fit_inflation([1, 10, 20], [300.0, 200.0, 100.0])[0] == 0.0


def test_one_point_is_not_a_curve() -> None:
    with pytest.raises(HistoryError, match="two numbers of executors"):
        fit_inflation([5], [100.0])


def test_an_empty_wave_stays_empty_and_recorded_values_stay() -> None:
    stage = StageRecord(tasks=2, fresh={4: [100, 200]}, later_wave={4: [50], 8: [70]})
    filled = extrapolate(stage, [4, 8, 13], a=1.0, b=1.0)
    assert filled.first_wave == {}
    assert filled.fresh == {4: [100, 200], 8: [200, 400], 13: [325, 650]}
    # From 8, the nearer one: 70 * 13 / 8.
    assert filled.later_wave == {4: [50], 8: [70], 13: [114]}


def test_a_guess_is_no_longer_than_a_task_may_be() -> None:
    days = 24 * 3600 * 1000
    stage = StageRecord(tasks=1, later_wave={1: [10 * days]})
    assert extrapolate(stage, [2, 3], a=1.0, b=1.0).later_wave == {
        1: [10 * days],
        2: [20 * days],
        3: [24 * days],
    }


def test_guesses_are_not_what_schedulers_are_told() -> None:
    stage = StageRecord(tasks=2, fresh={4: [100, 200]}, later_wave={4: [60]})
    filled = extrapolate(stage, [4, 100], a=1.0, b=1.0)
    assert filled.usual_ms == 120
    assert extrapolate(filled, [200], a=1.0, b=1.0).usual_ms == 120
    assert extrapolate(StageRecord(tasks=2), [4], a=1.0, b=1.0).usual_ms is None


def test_long_lists_are_thinned_to_their_quantiles() -> None:
    stage = StageRecord(tasks=1000, later_wave={1: list(range(1000))})
    thin = extrapolate(stage, [2], a=0.0, b=1.0).later_wave[2]
    assert len(thin) == 64
    assert np.mean(thin) == pytest.approx(499.5, abs=1)


def test_points_are_common_to_all_jobs_and_the_origin_is_told() -> None:
    small = JobRecord("small", [StageRecord(tasks=1, later_wave={3: [100]})])
    large = JobRecord("large", [StageRecord(tasks=1, later_wave={7: [100], 14: [200]})])
    report = ImportReport("x")
    jobs = extrapolate_jobs([small, large], [5, 100], report)
    assert [sorted(job.stages[0].later_wave) for job in jobs] == [[3, 5, 7, 14, 100]] * 2
    assert "fitted to 1 stages" in report.assumptions[0]
    assert "more than 14 executors" in report.assumptions[1]


@pytest.mark.parametrize("points", [[], [0, 5]])
def test_impossible_points_are_refused(points: list[int]) -> None:
    job = JobRecord("one", [StageRecord(tasks=1, later_wave={3: [100]})])
    with pytest.raises(HistoryError, match="executor points"):
        extrapolate_jobs([job], points, ImportReport("x"))


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=60))
def test_buckets_keep_every_value(counts: set[int]) -> None:
    job = JobRecord("one", [StageRecord(tasks=1, later_wave={c: [c] for c in counts})])
    wave = bucket_points([job])[0].stages[0].later_wave
    assert len(wave) <= 8
    assert sorted(value for values in wave.values() for value in values) == sorted(counts)
