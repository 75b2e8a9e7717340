"""Workloads: bad input is refused in one line that names the culprit; files come back as they went."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dag_scheduling.random_instances import random_profile, random_workload

from trimtab.core.errors import WorkloadError
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.heuristics import Rule, fair
from trimtab.dag_scheduling.simulator import simulate
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Provenance,
    StageRecord,
    Workload,
    batch,
    build_profile,
    load_workload,
    poisson,
    save_workload,
)
from trimtab.dag_scheduling.workload.profile import LONGEST_TASK_MS
from trimtab.dag_scheduling.workload.tpch import TPCH_SIZES_GB, tpch_profile


def stage(tasks: int = 2, parents: tuple[int, ...] = (), **more) -> StageRecord:
    return StageRecord(tasks, parents, **({"later_wave": {1: [100]}} | more))


BAD_JOBS = {
    "cycle": ([stage(parents=(1,), name="a"), stage(parents=(0,), name="b")], "cycle through stages a, b"),
    "self": ([stage(parents=(0,), name="a")], "cycle through stages a"),
    "no stages": ([], "'bad' has no stages"),
    "no tasks": ([stage(tasks=0, name="scan")], "stage scan: 0 tasks"),
    "negative tasks": ([stage(tasks=-4)], "-4 tasks"),
    "missing parent": ([stage(parents=(9,))], "depends on stage 9, which is not in the job"),
    "too many tasks": ([stage(tasks=99_999_999_999)], "99999999999 tasks; a stage has at most 10000000"),
    "seconds": ([stage(later_wave={1: [0.1]})], "a task of 0.1 ms; .* check the unit"),
    "negative duration": ([stage(later_wave={1: [100, -5]})], "a task of -5 ms"),
    "absurd duration": ([stage(later_wave={1: [10**12]})], "check the unit"),
    "beyond 32 bits": ([stage(later_wave={1: [25 * 24 * 3600 * 1000]})], r"\(24 days\), check the unit"),
    "not a number": ([stage(later_wave={1: [float("nan")]})], "a task of nan ms"),
    "no durations": ([stage(later_wave={})], "no task duration was recorded"),
    "no executors": ([stage(later_wave={0: [5]})], "recorded with 0 executors"),
    "memory": ([stage(memory=1.5)], "memory 1.5 is not a share"),
    "usual": ([stage(usual_ms=-1.0)], "usual task duration -1.0 ms"),
}


@pytest.mark.parametrize("case", BAD_JOBS)
def test_bad_jobs_are_refused_in_one_line(case):
    stages, message = BAD_JOBS[case]
    with pytest.raises(WorkloadError, match=message) as caught:
        build_profile([JobRecord("bad", stages)])
    assert "\n" not in str(caught.value) and "'bad'" in str(caught.value)


def test_the_longest_task_keeps_its_length():
    profile = build_profile([JobRecord("long", [stage(later_wave={1: [LONGEST_TASK_MS]})])])
    assert profile.durations_ms.tolist() == [24 * 24 * 3600 * 1000]


def test_duplicate_names_and_empty_histories_are_refused():
    with pytest.raises(WorkloadError, match="'twin' appears twice"):
        build_profile([JobRecord("twin", [stage()]), JobRecord("twin", [stage()])])
    with pytest.raises(WorkloadError, match="holds no job"):
        build_profile([])


def test_stages_are_put_in_topological_order():
    profile = build_profile(
        [JobRecord("j", [stage(3, (2,), name="last"), stage(1, name="root"), stage(2, (1,), name="middle")])]
    )
    assert profile.stage_names == ("root", "middle", "last")
    assert profile.tasks.tolist() == [1, 2, 3]
    assert profile.parent.tolist() == [0, 1] and profile.child.tolist() == [1, 2]


def test_usual_duration_is_the_mean_of_everything_unless_given():
    mean = stage(fresh={2: [300]}, later_wave={1: [100, 200]})
    given = stage(usual_ms=42.0)
    assert build_profile([JobRecord("j", [mean, given])]).task_ms.tolist() == [200.0, 42.0]


@pytest.mark.parametrize(
    ("template", "arrival", "message"),
    [
        ([], [], "no jobs"),
        ([0, 0], [0], "2 jobs but 1 arrivals"),
        ([9], [0], "template 9 of"),
        ([0, 0], [5, 3], "sorted and not negative"),
        ([0], [-1], "sorted and not negative"),
    ],
)
def test_bad_workloads_are_refused(template, arrival, message):
    with pytest.raises(WorkloadError, match=message):
        Workload(random_profile(1), np.array(template, int), np.array(arrival, int), Provenance("test"))


def test_a_workload_file_comes_back_as_it_went(tmp_path):
    workload = random_workload(5)
    path = tmp_path / "my.workload"
    save_workload(workload, path)
    again = load_workload(path)
    cluster, rule = Cluster(executors=4), Rule("fair", fair)
    assert again.provenance == workload.provenance
    assert again.profile.names == workload.profile.names
    one, two = (simulate(w, rule, cluster, seed=3).completion_ms for w in (workload, again))
    assert np.array_equal(one, two)


def test_broken_workload_files_are_named(tmp_path):
    with pytest.raises(WorkloadError, match=r"gone\.workload: no such file"):
        load_workload(tmp_path / "gone.workload")
    garbage = tmp_path / "garbage.workload"
    garbage.write_bytes(b"\x00\x01 not a zip")
    with pytest.raises(WorkloadError, match=r"garbage\.workload: not a workload file"):
        load_workload(garbage)
    truncated = tmp_path / "half.workload"
    save_workload(random_workload(1), truncated)
    truncated.write_bytes(truncated.read_bytes()[:500])
    with pytest.raises(WorkloadError, match=r"half\.workload: not a workload file"):
        load_workload(truncated)
    other = tmp_path / "other.workload"
    with other.open("wb") as file:
        np.savez(file, header=np.array('{"format": "something", "version": 7}'))
    with pytest.raises(WorkloadError, match="format 'something' version 7"):
        load_workload(other)
    kept = {
        "header": np.array('{"format": "trimtab-dag-workload", "version": 1}'),
        "template": np.zeros(1, int),
    }
    with other.open("wb") as file:
        np.savez(file, allow_pickle=False, **kept)
    with pytest.raises(WorkloadError, match=r"other\.workload: a workload file with wrong fields") as refused:
        load_workload(other)
    assert "'arrival_ms'" in str(refused.value) and "\n" not in str(refused.value)


def test_splits_by_time_keep_the_jobs_of_the_span():
    workload = poisson(random_profile(3), jobs=200, mean_gap_ms=1000.0, seed=1)
    middle = int(workload.arrival_ms[100])
    early, late = workload.between(0, middle), workload.between(middle, 10**9)
    assert early.job_count + late.job_count == 200
    assert late.arrival_ms[0] == 0
    assert early.provenance.settings["end_ms"] == middle


def test_poisson_gaps_have_the_mean_asked_for():
    workload = poisson(random_profile(3), jobs=20_000, mean_gap_ms=2500.0, seed=4)
    gaps = np.diff(workload.arrival_ms)
    # The standard error of the mean of 20,000 exponential gaps is 0.7 %.
    assert abs(gaps.mean() / 2500.0 - 1) < 0.03
    assert abs(gaps.std() / gaps.mean() - 1) < 0.03
    with pytest.raises(WorkloadError, match="mean gap of nan ms"):
        poisson(random_profile(3), jobs=2, mean_gap_ms=float("nan"), seed=4)


def test_batches_draw_all_kinds_alike():
    counts = np.bincount(batch(random_profile(3), jobs=30_000, seed=9).template)
    assert counts.min() > 9500 and counts.max() < 10_500


def test_a_stage_that_fits_no_executor_is_refused():
    profile = build_profile([JobRecord("wide", [stage(memory=0.9, name="join")])])
    workload = batch(profile, jobs=1, seed=0)
    small = Cluster(classes=(ExecutorClass(count=2, memory=0.5),))
    with pytest.raises(WorkloadError, match="'wide', stage join: needs memory 0"):
        simulate(workload, Rule("fair", fair), small)


def test_compat_rules_need_the_points_of_the_published_simulator():
    jobs = [
        JobRecord("known", [stage(later_wave={5: [10]})]),
        JobRecord("unknown", [stage(later_wave={3: [10]}, name="odd")]),
    ]
    workload = batch(build_profile(jobs), jobs=4, seed=0)
    with pytest.raises(WorkloadError, match="stage odd has no durations with 5 to 100 executors"):
        simulate(workload, Rule("fair", fair), Cluster(executors=2, rules="compat"))
    assert simulate(workload, Rule("fair", fair), Cluster(executors=2)).jct_ms.min() > 0


def test_the_tpch_profile_has_the_published_statistics():
    """Calibrated at 2 and 100 GB; what lies between, and the counts, are checks."""
    profile = tpch_profile()
    assert profile.template_count == 132
    assert profile.stage_count.min() == 2 and profile.stage_count.max() == 18
    assert abs(profile.stage_count.mean() / 9.2 - 1) < 0.10
    published = {2: (912, 203), 10: (963, 380), 50: (1234, 1152), 100: (1575, 2209)}
    for size, (tasks, work_s) in published.items():
        mine = slice(22 * TPCH_SIZES_GB.index(size), 22 * TPCH_SIZES_GB.index(size) + 22)
        assert abs(profile.task_count[mine].mean() / tasks - 1) < 0.10
        assert abs(profile.work_ms[mine].mean() / 1000 / work_s - 1) < 0.10
    assert abs(np.median(profile.work_ms) / 431_000 - 1) < 0.15
    with pytest.raises(WorkloadError, match="above 0 GB"):
        tpch_profile((0,))


def test_tpch_tasks_slow_down_as_published():
    """The same job, all its work done by 5 or by 50 executors: 2.16 times as much work."""
    profile = tpch_profile((10,))
    busy = {}
    for executors in (5, 50):
        cluster = Cluster(executors=executors)
        totals = []
        for kind in range(22):
            one = Workload(profile, np.array([kind]), np.zeros(1, np.int64), Provenance("one"))
            totals.append(simulate(one, Rule("fair", fair), cluster, seed=0).busy_ms)
        busy[executors] = np.array(totals)
    assert 1.8 < (busy[50] / busy[5]).mean() < 2.6
