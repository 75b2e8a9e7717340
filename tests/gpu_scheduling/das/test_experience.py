"""What a history teaches about durations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.gpu_scheduling.das.experience import (
    AGE_STEP,
    AGES,
    SIZES,
    Experience,
    gathered,
    log_rest,
    no_experience,
    size_class,
)
from trimtab.gpu_scheduling.workload import make_workload
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload, past_jobs

REST, QUICK_REST = 0, 1


def history(seconds, *, group=0, gpus=1):
    seconds = np.asarray(seconds)
    return make_workload(np.arange(len(seconds)), duration_ms=seconds * 1000, gpus=gpus, group=group)


def told_s(experience: Experience, measure: int, *, ran_s: float = 0, group: int = 0, gpus: int = 1) -> float:
    return math.exp(log_rest(group, gpus * 1000, ran_s * 1000.0, measure, experience.row, 0))


@pytest.mark.parametrize(("gpus", "expected"), [(0.25, 0), (1, 0), (2, 1), (3, 2), (4, 2), (64, 6), (400, 7)])
def test_sizes(gpus, expected):
    assert size_class(int(gpus * 1000)) == expected < SIZES


def test_the_rest_is_the_mean_time_left():
    known = gathered([history([100] * 500 + [10_000] * 500)])
    assert told_s(known, REST) == pytest.approx(5050, rel=1e-9)
    # At the times in the table: those that are still there after them have 10,000 s in all.
    age = math.expm1(AGE_STEP * 10)
    assert told_s(known, REST, ran_s=age) == pytest.approx(10_000 - age, rel=1e-9)


def test_the_quick_rest_is_what_gittins_index_says():
    """Half of the jobs take 100 s: trying each for 100 s costs 200 s for every one that ends."""
    known = gathered([history([100] * 500 + [10_000] * 500)])
    assert told_s(known, QUICK_REST) == pytest.approx(200, rel=1e-9)
    age = math.expm1(AGE_STEP * 10)
    assert told_s(known, QUICK_REST, ran_s=age) == pytest.approx(10_000 - age, rel=1e-9)
    # With durations that are all alike there is nothing to gain by stopping.
    same = gathered([history([300] * 200)])
    assert told_s(same, QUICK_REST) == pytest.approx(told_s(same, REST)) == pytest.approx(300)


def test_between_two_times_lines_are_drawn_and_beyond_the_last_nothing_changes():
    known = gathered([history(np.linspace(50, 90_000, 2000).round())])
    ages = [math.expm1(AGE_STEP * place) for place in (7, 7.5, 8)]
    first, between, last = (math.log(told_s(known, REST, ran_s=age)) for age in ages)
    assert between == pytest.approx((first + last) / 2)
    longest = math.expm1(AGE_STEP * (AGES - 1))
    assert told_s(known, REST, ran_s=3 * longest) == told_s(known, REST, ran_s=longest) > 0


def test_groups_seldom_seen_lean_on_their_size():
    random = np.random.default_rng(0)
    group = np.concatenate([np.zeros(1000), np.ones(1000), [7]]).astype(int)
    seconds = np.concatenate([random.integers(50, 70, 1000), random.integers(5000, 7000, 1000), [60]])
    known = gathered([history(seconds, group=group)])
    assert told_s(known, REST, group=0) == pytest.approx(60, rel=0.15)
    assert told_s(known, REST, group=1) == pytest.approx(6000, rel=0.15)
    # Seen once: somewhere between; never seen: as any job of its size.
    assert 60 < told_s(known, REST, group=7) < told_s(known, REST, group=99)
    assert told_s(known, REST, group=99) == pytest.approx(3000, rel=0.1)


def test_groups_that_tell_nothing_lean_more_on_their_size():
    """Ten jobs each, short or long by luck: what a group seems to be is no reason to expect anything."""
    luck = np.random.default_rng(1)
    known = gathered([history(np.where(luck.random(400) < 0.5, 10, 10_000), group=np.arange(400) % 40)])
    usual = math.log(told_s(known, REST, group=99))
    off = [abs(math.log(told_s(known, REST, group=group)) - usual) for group in range(40)]
    assert max(off) < 0.15


def test_sizes_differ_and_one_never_seen_counts_as_any_job():
    gpus = np.where(np.arange(2000) % 2 == 0, 1, 8)
    known = gathered([history(np.where(gpus == 1, 100, 4000), gpus=gpus, group=np.arange(2000))])
    assert told_s(known, REST, group=-5, gpus=1) < 200
    assert told_s(known, REST, group=-5, gpus=8) > 3000
    assert told_s(known, REST, group=-5, gpus=64) == pytest.approx(2050)


def test_made_up_groups_foretell_durations_that_were_not_seen():
    asked = WorkloadSettings(jobs=1500)
    known = gathered([past_jobs(asked, made_up=10_000)])
    later = draw_workload(asked, gpus=32.0, seed=9)
    gangs = later.instances * later.gpu_milli
    guessed = [
        log_rest(int(group), int(milli), 0.0, REST, known.row, 0)
        for group, milli in zip(later.group, gangs, strict=True)
    ]
    logs = np.log(later.duration_ms / 1000)
    assert np.corrcoef(guessed, logs)[0, 1] > 0.6


def test_no_experience_says_an_hour_of_every_job():
    for measure in (REST, QUICK_REST):
        assert told_s(no_experience(), measure, ran_s=500, group=3, gpus=16) == pytest.approx(3600)
