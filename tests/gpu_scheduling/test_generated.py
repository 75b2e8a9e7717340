"""Made-up jobs have the published statistics, whatever the seed, and can be foretold as far as they shall."""

import numpy as np
import pytest

from trimtab.core.errors import WorkloadError
from trimtab.gpu_scheduling.workload.generated import (
    PAI,
    PAI_SHARED,
    PHILLY_LIKE,
    GeneratedJobs,
    daily_arrivals,
    poisson_arrivals,
)
from trimtab.gpu_scheduling.workload.jobs import GROUP_BITS

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_pai_has_the_published_durations_and_gpus(seed: int) -> None:
    """p10, p50, p90, p99: 41, 618, 12,201, 66,192 s; 77 % have one GPU; nothing takes more than 48 h."""
    jobs = GeneratedJobs(PAI, seed).draw(60_000, seed=seed)
    found = np.percentile(jobs.duration_ms / 1000, [10, 50, 90, 99])
    assert found[:3] == pytest.approx([41, 618, 12_201], rel=0.06)
    assert found[3] == pytest.approx(66_192, rel=0.10)
    assert jobs.duration_ms.max() == 172_800_000
    assert (jobs.gpus == 1).mean() == pytest.approx(0.770, abs=0.012)
    # 4.97 on average in 60,105 real tasks; gangs of 100 and more make much of it.
    assert jobs.gpus.mean() == pytest.approx(4.97, rel=0.1)


def test_the_part_that_small_clusters_get_is_like_the_real_one() -> None:
    """At most 16 GPUs, at least a minute: 95 min and 2.17 GPUs, 3.9 GPU-hours a job in the real tasks."""
    worlds = [GeneratedJobs(PAI, seed, most_gpus=16, shortest_s=60) for seed in range(6)]
    drawn = [world.draw(20_000, seed=1) for world in worlds]
    for jobs in drawn:
        assert jobs.gpus.max() <= 16
        assert jobs.duration_ms.min() >= 60_000
        assert jobs.duration_ms.mean() / 60_000 == pytest.approx(95, rel=0.2)
        assert jobs.gpus.mean() == pytest.approx(2.17, rel=0.12)
    work = np.array([world.mean_gpu_ms for world in worlds]) / 3_600_000
    assert work[0] == pytest.approx(3.9, rel=0.05)
    assert work.mean() == pytest.approx(3.9, rel=0.15)


def test_larger_jobs_are_longer_and_groups_foretell_durations() -> None:
    jobs = GeneratedJobs(PAI).draw(30_000, seed=4)
    logs = np.log(jobs.duration_ms)
    assert np.median(logs[jobs.gpus > 1]) > np.median(logs[jobs.gpus == 1])
    _, group, count = np.unique(jobs.group, return_inverse=True, return_counts=True)
    mean = np.bincount(group, logs) / count
    often = count[group] >= 5
    # Most jobs belong to groups seen several times, whose means explain three quarters of the variance.
    assert often.mean() > 0.7
    left = ((logs - mean[group])[often] ** 2).mean() / logs[often].var()
    assert 1 - left == pytest.approx(0.75, abs=0.05)
    # Popularity is uneven: a tenth of the groups have more than half of the jobs.
    assert np.sort(count)[::-1][:300].sum() > 0.5 * jobs.job_count
    # Groups ask for what they usually do.
    popular = np.argsort(count)[-20:]
    usual = {place: np.bincount(jobs.instances[group == place]).argmax() for place in popular}
    same = [(jobs.instances[group == place] == gpus).mean() for place, gpus in usual.items()]
    assert min(same) > 0.8
    assert len(np.unique(jobs.user)) > 300


def test_sensitivity_and_communication_belong_to_groups() -> None:
    jobs = GeneratedJobs(PAI).draw(20_000, seed=4)
    assert jobs.sensitivity.min() >= 0.5
    assert jobs.sensitivity.max() <= 1.5
    assert jobs.sensitivity.mean() == pytest.approx(1, abs=0.05)
    assert jobs.communication.max() <= 0.1
    assert jobs.communication.mean() == pytest.approx(0.05, abs=0.005)
    groups = np.unique(jobs.group)[:20]
    for values in (jobs.sensitivity, jobs.communication):
        assert all(len(np.unique(values[jobs.group == group])) == 1 for group in groups)


def test_groups_of_two_worlds_are_different_ones() -> None:
    one, other = (GeneratedJobs(PAI, seed).draw(5000, seed=4) for seed in (0, 1))
    assert not np.intersect1d(one.group, other.group).size
    assert one.group.max() < 1 << GROUP_BITS


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_gpus(seed: int) -> None:
    """Of requests up to one GPU 46 % are for all of it, 14 % for a half, 28 % a quarter, 12 % a tenth."""
    jobs = GeneratedJobs(PAI_SHARED, seed).draw(40_000, seed=seed)
    single = jobs.gpu_milli[jobs.instances == 1]
    shares = [(single == milli).mean() for milli in (1000, 500, 250, 100)]
    assert shares == pytest.approx([0.457, 0.141, 0.281, 0.121], abs=0.04)
    assert (jobs.gpu_milli[jobs.instances > 1] == 1000).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_philly_like_is_gavels_recipe(seed: int) -> None:
    """1, 2, 4, 8 GPUs: 70, 10, 15, 5 %; minutes 10^U(1.5, 3) in 80 %, else 10^U(3, 4)."""
    jobs = GeneratedJobs(PHILLY_LIKE, seed).draw(40_000, seed=seed)
    shares = [(jobs.gpus == count).mean() for count in (1, 2, 4, 8)]
    assert shares == pytest.approx([0.70, 0.10, 0.15, 0.05], abs=0.01)
    exponent = np.log10(jobs.duration_ms / 60_000)
    assert exponent.min() >= 1.49
    assert exponent.max() <= 4.01
    assert (exponent <= 3).mean() == pytest.approx(0.8, abs=0.01)
    assert exponent[exponent <= 3].mean() == pytest.approx(2.25, abs=0.02)
    assert exponent[exponent > 3].mean() == pytest.approx(3.5, abs=0.02)
    assert abs(np.corrcoef(exponent, jobs.gpus)[0, 1]) < 0.02


def test_a_job_depends_on_the_seed_and_its_number_only() -> None:
    world = GeneratedJobs(PAI, 7)
    first, more, other = world.draw(50, seed=3), world.draw(9000, seed=3), world.draw(50, seed=4)
    again = GeneratedJobs(PAI, 7).draw(50, seed=3)
    for name in ("duration_ms", "instances", "group", "sensitivity"):
        assert np.array_equal(getattr(first, name), getattr(more, name)[:50])
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.duration_ms, other.duration_ms)
    assert not np.array_equal(first.duration_ms, GeneratedJobs(PAI, 8).draw(50, seed=3).duration_ms)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(WorkloadError, match="0 jobs; draw at least one"):
        GeneratedJobs(PAI).draw(0, seed=1)
    with pytest.raises(WorkloadError, match="takes at least 200000 s; widen the filter"):
        GeneratedJobs(PAI, shortest_s=200_000).draw(1, seed=1)


@pytest.mark.parametrize("arrivals", [poisson_arrivals, daily_arrivals])
def test_streams_have_the_wanted_gap(arrivals) -> None:
    gaps = [arrivals(20_000, mean_gap_ms=60_000, seed=seed)[-1] / 19_999 for seed in range(6)]
    assert np.mean(gaps) == pytest.approx(60_000, rel=0.05)
    times = arrivals(500, mean_gap_ms=1000, seed=1)
    assert times[0] == 0
    assert (np.diff(times) >= 0).all()
    assert np.array_equal(times[:100], arrivals(500, mean_gap_ms=1000, seed=1)[:100])
    with pytest.raises(WorkloadError, match="mean gap of 0 ms"):
        arrivals(5, mean_gap_ms=0, seed=1)


def test_days_and_bursts_are_those_of_pai() -> None:
    """Variance over mean of counts: 2.1 in a minute, 4.3 in ten, 9.3 in an hour; 1 if it were Poisson."""

    def dispersion(times: np.ndarray, span_ms: int) -> float:
        counts = np.bincount(times // span_ms)
        return counts.var() / counts.mean()

    streams = [daily_arrivals(60_000, mean_gap_ms=91_540, seed=seed) for seed in range(4)]
    for minutes, published in ((1, 2.1), (10, 4.3), (60, 9.3)):
        found = np.mean([dispersion(times, minutes * 60_000) for times in streams])
        assert found == pytest.approx(published, rel=0.2), minutes
    even = poisson_arrivals(60_000, mean_gap_ms=91_540, seed=1)
    assert dispersion(even, 600_000) == pytest.approx(1, abs=0.1)
