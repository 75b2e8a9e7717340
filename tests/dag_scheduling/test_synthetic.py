"""The generated profile against the published statistics of TPC-H on Spark."""

import numpy as np
import pytest
from numpy.typing import NDArray

from trimtab.dag_scheduling.workload import FIRST_WAVE, FRESH, LATER_WAVE, Profile
from trimtab.dag_scheduling.workload.synthetic import SIZES_GB, synthetic_profile

SIZE_OF_TEMPLATE = np.array(SIZES_GB * 22)


@pytest.fixture(scope="module", params=[0, 1])
def profile(request: pytest.FixtureRequest) -> Profile:
    return synthetic_profile(request.param)


def stage_means(profile: Profile) -> NDArray[np.float64]:
    """Mean duration by (stage, wave, point), NaN where nothing was recorded."""
    totals = np.concatenate([[0.0], np.cumsum(profile.durations_ms, dtype=np.float64)])
    sums = totals[profile.duration_offset + profile.duration_count] - totals[profile.duration_offset]
    count = profile.duration_count
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def test_stages_per_job(profile: Profile) -> None:
    assert profile.template_count == 132
    assert (profile.stage_count.min(), profile.stage_count.max()) == (2, 18)
    assert profile.stage_count.mean() == pytest.approx(9.2, abs=0.1)


@pytest.mark.parametrize(("size_gb", "mean"), [(2, 912), (10, 963), (50, 1234), (100, 1575)])
def test_tasks_per_job_within_6_percent(profile: Profile, size_gb: int, mean: float) -> None:
    assert profile.task_count[size_gb == SIZE_OF_TEMPLATE].mean() == pytest.approx(mean, rel=0.06)


def test_the_smallest_jobs_have_the_published_tasks(profile: Profile) -> None:
    assert profile.task_count[SIZE_OF_TEMPLATE == 2].min() == 13
    assert profile.task_count[SIZE_OF_TEMPLATE == 100].min() == 594


@pytest.mark.parametrize(("size_gb", "mean_s"), [(2, 203), (10, 380), (50, 1152), (100, 2209)])
def test_work_by_size_within_6_percent(profile: Profile, size_gb: int, mean_s: float) -> None:
    work_s = profile.work_ms[size_gb == SIZE_OF_TEMPLATE] / 1000
    assert work_s.mean() == pytest.approx(mean_s, rel=0.06)


def test_spread_of_work(profile: Profile) -> None:
    work_s = profile.work_ms / 1000
    assert work_s.mean() == pytest.approx(800, rel=0.03)
    assert np.median(work_s) == pytest.approx(431, rel=0.1)
    assert work_s.max() == pytest.approx(7608, rel=0.1)
    assert 30 < work_s.min() < 80  # published: 39


@pytest.mark.parametrize(
    ("wave", "published", "tolerance"),
    [
        (FRESH, (2387, 2656, 3168), 0.01),
        (FIRST_WAVE, (1019, 1438, 1839), 0.01),
        (LATER_WAVE, (605, 517, 553), 0.06),
    ],
)
def test_wave_means(profile: Profile, wave: int, published: tuple[int, ...], tolerance: float) -> None:
    means = stage_means(profile)
    columns = [profile.points.tolist().index(point) for point in (5, 50, 100)]
    seen = np.nanmean(means[:, wave, columns], axis=0)
    assert seen == pytest.approx(published, rel=tolerance)


def test_work_inflation_within_2_percent(profile: Profile) -> None:
    """Rebuild runs with m executors: each executor begins once per stage, fresh ones in the roots."""
    means = np.nan_to_num(stage_means(profile))
    points = profile.points
    wave = np.minimum(profile.tasks[:, None], points)
    job = np.repeat(np.arange(profile.template_count), profile.stage_count)
    root = np.diff(profile.parent_offset) == 0
    fresh = np.zeros_like(wave)
    for number in range(profile.template_count):
        left = points.copy()
        for row in np.flatnonzero((job == number) & root):
            fresh[row] = np.minimum(wave[row], left)
            left = left - fresh[row]
    counts = np.stack([fresh, wave - fresh, profile.tasks[:, None] - wave], axis=1)
    total = np.add.reduceat((counts * means).sum(axis=1), profile.stage_offset[:-1])
    grown = dict(zip(points.tolist(), (total / total[:, :1]).mean(axis=0), strict=True))
    published = {10: 1.13, 20: 1.37, 40: 1.91, 50: 2.16, 80: 3.05, 100: 3.74}
    assert {m: grown[m] for m in published} == pytest.approx(published, rel=0.02)


def test_seeds_differ_and_repeat() -> None:
    again, other = synthetic_profile(0), synthetic_profile(1)
    first = synthetic_profile(0)
    assert np.array_equal(first.durations_ms, again.durations_ms)
    assert not np.array_equal(first.tasks, other.tasks)


def test_every_query_ends_in_one_stage(profile: Profile) -> None:
    children = np.diff(profile.child_offset)
    last = profile.stage_offset[1:] - 1
    sinks = np.add.reduceat(children == 0, profile.stage_offset[:-1])
    assert (sinks == 1).all()
    assert (profile.tasks[last] == 1).all()
