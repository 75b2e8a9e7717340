"""The compact scheduler: where it starts, what it sees, that it stays legal, and how it is trained."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.dag_scheduling.random_instances import random_cluster, random_workload

from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.errors import BundleError, SettingsError
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.decima.compact import (
    FIRST,
    OF_MEMORY,
    SIZE,
    CompactRule,
    compact_bundle,
    compact_policy,
    first_numbers,
    rule_of,
    widths,
)
from trimtab.dag_scheduling.decima.compact_rule import (
    JOB_FEATURES,
    best_stage,
    capped,
    crowd_of,
    four_weighed,
    full_waves,
    job_work,
    longest_path_s,
    opens_soon,
    part,
    set_in_force,
    squashed,
    weighed,
)
from trimtab.dag_scheduling.decima.compact_task import PRESETS, CompactSettings, CompactTask, check_settings
from trimtab.dag_scheduling.decima.compact_training import COMPACT
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.problem import NOWHERE, Snapshot
from trimtab.dag_scheduling.simulator import Simulator, simulate
from trimtab.dag_scheduling.workload import Workload
from trimtab.dag_scheduling.workload.presets import WorkloadSettings, draw_workload
from trimtab.dag_scheduling.workload.tiny import tiny_workload

# Marked slow: whole TPC-H episodes, which take minutes as plain Python, as the coverage run plays them.

CLUSTER = Cluster(executors=10)
FOUR_SIZES = Cluster(classes=tuple(ExecutorClass(count=3, memory=m) for m in (0.25, 0.5, 0.75, 1.0)))


def jobs(count: int = 6, seed: int = 3, **settings: Any) -> Workload:
    asked = WorkloadSettings.model_validate({"jobs": count, **settings})
    return draw_workload(asked, executors=10, seed=seed)


def first_question(workload: Workload, cluster: Cluster = CLUSTER) -> Snapshot:
    return Simulator(cluster).reset(workload, seed=0)


def scattered(number: int, manner: Any = "packed") -> NDArray[np.float64]:
    """Numbers around a start, far enough away to reach every branch."""
    random = np.random.default_rng(number)
    numbers = first_numbers(manner, number)
    numbers += random.normal(0.0, 1.0, SIZE) * 3 * widths(manner)
    numbers[part("wider")][0] = random.uniform(0, 1)
    numbers[part("waves")] = random.uniform(0, 4)
    numbers[part("idle")][0] = random.uniform(-30, 5)
    return numbers


# --- what it sees ----------------------------------------------------------------------------------


def test_what_is_known_of_a_job():
    """The diamond: one task of each stage along its longest way, all tasks of all of them as work."""
    snapshot = first_question(tiny_workload("diamond"))
    job = int(snapshot.jobs[0])
    stages = range(int(snapshot.stage_count[job]))
    work_s = sum(int(snapshot.tasks[s]) * float(snapshot.task_ms[s]) for s in stages) / 1000
    assert job_work(snapshot, job) == pytest.approx((work_s, work_s))
    assert len(snapshot.jobs) == 1
    crowd = crowd_of(snapshot)
    assert crowd.left == crowd.total == pytest.approx(math.log1p(work_s))
    assert crowd.jobs == -2.0
    assert crowd.work == pytest.approx(math.log1p(work_s / snapshot.executor_count) - 3.0)
    assert crowd.free == 1.0
    times = [float(snapshot.task_ms[s]) / 1000 for s in stages]
    longest = times[0] + max(times[1], times[2]) + times[3]
    assert longest_path_s(snapshot, job) == pytest.approx(longest)


def test_sums_of_four_are_the_single_ones_and_the_tangent_is_the_tangent():
    random = np.random.default_rng(0)
    features, numbers = tuple(random.normal(size=24).tolist()), random.normal(size=SIZE)
    singly = tuple(weighed(features, numbers, 7 + 24 * place) for place in range(4))
    assert four_weighed(features, numbers, 7) == singly
    for value in (-1000.0, -3.0, -1e-3, 0.0, 0.4, 20.0, 1000.0):
        assert squashed(value) == pytest.approx(math.tanh(value), abs=1e-15)


def test_where_one_stage_may_run_nothing_is_weighed():
    """Numbers that are no numbers do no harm there."""
    alone = first_question(tiny_workload("diamond"))
    job = int(alone.jobs[0])
    assert alone.schedulable[: alone.stage_count[job]].sum() == 1
    assert best_stage(alone, job, 1.0, np.full(SIZE, np.nan)) == 0
    schedulable = alone.schedulable.copy()
    schedulable[:] = False
    assert best_stage(alone._replace(schedulable=schedulable), job, 1.0, np.zeros(SIZE)) == NOWHERE
    schedulable[1:3] = True
    assert best_stage(alone._replace(schedulable=schedulable), job, 1.0, np.zeros(SIZE)) in (1, 2)


def test_a_stage_opens_soon_where_short_tasks_are_the_last():
    snapshot = first_question(tiny_workload("diamond"))
    job = int(snapshot.jobs[0])
    assert opens_soon(snapshot, job) == 0.0
    unstarted, running = snapshot.unstarted.copy(), snapshot.running.copy()
    unstarted[0], running[0] = 0, 2
    ending = snapshot._replace(unstarted=unstarted, running=running)
    assert opens_soon(ending, job) == pytest.approx(1 / (1 + float(snapshot.task_ms[0]) / 2000))


@pytest.mark.parametrize(
    ("demand", "running", "sent", "waves", "kept"),
    [
        (10, 0, 8, 3.0, 5),  # two waves of five end when two waves of eight would
        (10, 0, 8, 1.0, 8),  # but only stages of one wave are rounded
        (10, 0, 10, 3.0, 10),
        (10, 4, 4, 3.0, 1),  # four work there: two waves of five need one more
        (3, 0, 1, 9.0, 1),
    ],
)
def test_waves_are_filled(demand, running, sent, waves, kept):
    snapshot = first_question(tiny_workload("diamond"))
    demands, runs = snapshot.demand.copy(), snapshot.running.copy()
    demands[0], runs[0] = demand, running
    assert full_waves(snapshot._replace(demand=demands, running=runs), 0, sent, waves) == kept


def test_caps_are_shares_of_the_cluster_between_one_and_all():
    assert [capped(math.log(share), 50) for share in (0.001, 0.099, 0.101, 1.0, 30.0)] == [1, 5, 6, 50, 50]


def test_of_two_sets_the_first_decides_where_no_job_is_expected_any_more():
    one, two = np.zeros(SIZE), np.zeros(2 * SIZE)
    stream = first_question(jobs(arrivals="poisson", load=0.7))._replace(arrival_gap_ms=20_000.0)
    arrived_ms = int(stream.arrival_ms[stream.jobs[0]])
    for waited_s, first in ((0, SIZE), (119, SIZE), (120, 0)):
        moment = stream._replace(now_ms=arrived_ms + 1000 * waited_s)
        assert set_in_force(moment, two) == first
        assert set_in_force(moment, one) == 0
    assert set_in_force(first_question(jobs()), two) == 0


# --- what it does ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_starts_as_the_rules_it_is_made_of():
    """Within some per cent of capped SRPT on batches; of equal shares, on a stream."""
    cluster = Cluster(executors=50)
    for manner, rule, settings in (
        ("shortest", "capped-srpt-local:kappa=0.15,power=0.65", {"jobs": 20}),
        ("shared", "weighted-fair:alpha=0.1", {"jobs": 60, "arrivals": "poisson", "load": 0.7}),
    ):
        ratios = []
        for seed in range(4):
            workload = draw_workload(WorkloadSettings.model_validate(settings), executors=50, seed=seed)
            ours = simulate(workload, rule_of(first_numbers(manner, 0)), cluster, seed=seed)  # pyright: ignore[reportArgumentType]
            theirs = simulate(workload, make_policy(rule), cluster, seed=seed)
            ratios.append(ours.jct_ms.mean() / theirs.jct_ms.mean())
        assert 0.9 < np.mean(ratios) < 1.1


@pytest.mark.parametrize("number", range(12))
def test_compiled_and_plain_it_decides_the_same(number):
    """Whatever the numbers, one set or two: no action outside the mask, and the same episode either way."""
    workload = random_workload(number)
    cluster = random_cluster(number, ("default", "compat", "mixed")[number % 3])
    rule = rule_of(np.concatenate([scattered(number + 100 * k) for k in range(1 + number % 2)]))
    compiled = simulate(workload, rule, cluster, seed=number)
    simulator = Simulator(cluster)
    snapshot = simulator.reset(workload, number)
    while not simulator.ended:
        snapshot = simulator.step(rule.decide(snapshot)).snapshot
    np.testing.assert_array_equal(simulator.episode("plain").completion_ms, compiled.completion_ms)


@pytest.mark.parametrize("manner", FIRST)
def test_hidden_units_say_nothing_at_the_start(manner):
    workload = jobs(random_memory=True)
    episodes = [
        simulate(workload, rule_of(first_numbers(manner, seed)), FOUR_SIZES, seed=0) for seed in (0, 1)
    ]
    np.testing.assert_array_equal(episodes[0].completion_ms, episodes[1].completion_ms)


def test_for_all_it_decides_as_one_rule_in_batches_and_as_another_in_streams():
    both, batches, streams = (rule_of(first_numbers(manner, 0)) for manner in ("both", "shortest", "shared"))
    for workload, expected in ((jobs(), {0}), (jobs(12, arrivals="poisson", mean_gap_s=15.0), {0, SIZE})):
        simulator, seen = Simulator(CLUSTER), set()
        snapshot = simulator.reset(workload, 0)
        while not simulator.ended:
            first, action = set_in_force(snapshot, np.array(both.values)), both.decide(snapshot)
            assert action == (streams if first else batches).decide(snapshot)
            seen.add(first)
            snapshot = simulator.step(action).snapshot
        assert seen == expected


def test_a_high_price_of_idling_keeps_executors_at_home():
    """Whoever values idleness above everything moves executors only where nothing else would go on."""
    numbers = first_numbers("shared", 0)
    usual = simulate(jobs(), rule_of(numbers), CLUSTER, seed=0)
    numbers[part("idle")][0] = 1000.0
    idle = simulate(jobs(), rule_of(numbers), CLUSTER, seed=0)
    assert idle.makespan_ms > 1.5 * usual.makespan_ms


def test_where_executors_are_alike_nothing_wanders():
    places = [JOB_FEATURES.index(name) for name in OF_MEMORY if name in JOB_FEATURES]
    for name in ("order", "cap", "wider"):
        assert not widths("shortest")[part(name)][places].any() and widths("packed")[part(name)][places].all()
    assert not widths("shortest")[part("stage")][-1] and widths("packed")[part("stage")][-1]
    assert not widths("packed")[part("hidden")].any()
    np.testing.assert_array_equal(widths("both-packed"), np.tile(widths("packed"), 2))
    np.testing.assert_array_equal(first_numbers("both-packed", 0), np.tile(first_numbers("packed", 0), 2))


# --- bundles ---------------------------------------------------------------------------------------


def test_a_bundle_brings_the_same_policy_back(tmp_path):
    numbers = first_numbers("shared", 1)
    path = save_bundle(tmp_path / "mine", compact_bundle("mine", numbers, trained={"courses": []}, scores={}))
    policy = make_policy(str(path))
    assert isinstance(policy, CompactRule)
    assert policy.values == tuple(numbers.tolist())


def test_bundles_of_another_kind_are_refused(tmp_path):
    bundle = compact_bundle("mine", first_numbers("shared", 1), trained={}, scores={})
    with pytest.raises(BundleError, match="mine: it sees other features"):
        compact_policy(replace(bundle, manifest={**bundle.manifest, "features": {}}))
    with pytest.raises(BundleError, match="mine: its numbers are not those"):
        compact_policy(replace(bundle, tensors={"numbers": np.zeros(3)}))


# --- training --------------------------------------------------------------------------------------

TINY = {
    "courses": [
        {
            "workload": {"name": "tpch", "jobs": 3},
            "cluster": {"executors": 6},
            "sequences": 3,
            "rule": "capped-srpt-local",
        },
        {
            "workload": {"name": "tpch", "jobs": 4, "arrivals": "poisson", "load": 0.8},
            "cluster": {"executors": 6},
            "sequences": 2,
            "rule": "fair",
        },
    ],
    "validation": 4,
    "workers": 1,
    "training": {"iterations": 2, "pairs": 2, "validate_every": 1, "checkpoint_every": 1},
}


def settings_of(**changes: Any) -> CompactSettings:
    return CompactSettings.model_validate({**TINY, **changes})


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.slow
def test_a_run_ends_in_a_bundle_that_can_be_played(tmp_path):
    settings = settings_of()
    bundle = load_bundle(COMPACT.train(settings, tmp_path / "run", name="mine", clock=clock))
    scores = bundle.manifest["scores"]
    assert set(scores) == {COMPACT.score, "at iteration", "course_0", "course_1"}
    assert scores[COMPACT.score] == pytest.approx(math.sqrt(scores["course_0"] * scores["course_1"]))
    assert simulate(jobs(3), compact_policy(bundle), CLUSTER, seed=0).jct_ms.shape == (3,)
    # What it scored is what its numbers score.
    task = CompactTask(settings, start=bundle)
    np.testing.assert_array_equal(task.start, bundle.tensors["numbers"])
    assert task.score(task.start)["score"] == scores[COMPACT.score]


@pytest.mark.slow
def test_scores_are_ratios_to_the_rules_on_the_same_workloads():
    task = CompactTask(settings_of())
    numbers = first_numbers("shortest", 0)
    ratios = []
    for course in task.settings.courses:
        costs = [0.0, 0.0]
        for seed in task._validation[0]:
            workload = draw_workload(course.workload, executors=6, seed=seed, part="training")
            for place, rule in enumerate((rule_of(numbers), make_policy(course.rule))):
                costs[place] += float(simulate(workload, rule, course.cluster, seed=seed).jct_ms.sum())
        ratios.append(costs[0] / costs[1])
    found = task.score(numbers)
    assert [found["course_0"], found["course_1"]] == pytest.approx(ratios)


@pytest.mark.slow
def test_candidates_meet_the_same_workloads_and_iterations_others():
    task = CompactTask(settings_of())
    same = np.stack([task.start, task.start])
    first, again, other = task.trial(same, 0), task.trial(same, 0), task.trial(same, 1)
    assert first[0] == first[1] == again[0] != other[0]
    assert task.decisions > 0


@pytest.mark.slow
def test_evolution_repairs_what_was_spoiled(tmp_path):
    """Jobs with most work first, and it should not be so: some iterations take back half of the damage."""
    settings = settings_of(
        courses=[{**TINY["courses"][0], "workload": {"name": "tpch", "jobs": 6}, "sequences": 12}],
        validation=16,
        training={"iterations": 12, "pairs": 12, "step": 1.0, "learning_rate": 1.0, "averaging": 0.5},
    )
    task = CompactTask(settings)
    good = task.score(task.start)["score"]
    spoiled = task.start.copy()
    spoiled[part("order")][JOB_FEATURES.index("work left")] = 3.0
    start = compact_bundle("spoiled", spoiled, trained={}, scores={})
    bad = task.score(spoiled)["score"]
    assert bad > 1.1 * good
    made = load_bundle(COMPACT.train(settings, tmp_path / "run", name="mine", clock=clock, start=start))
    assert made.manifest["scores"][COMPACT.score] < (good + bad) / 2


def test_a_run_takes_the_set_it_needs_from_where_it_starts():
    batches, streams = (first_numbers(manner, 0) for manner in ("shortest", "shared"))
    one = compact_bundle("one", streams, trained={}, scores={})
    two = compact_bundle("two", np.concatenate([batches, streams]), trained={}, scores={})
    for begin, start, expected in (
        ("both", two, [batches, streams]),
        ("both", one, [streams, streams]),
        ("both-packed", two, [batches, streams]),
        ("both-packed", one, [streams, streams]),
        ("shortest", two, [batches]),
        ("shared", two, [streams]),
        ("shortest", one, [streams]),
    ):
        task = CompactTask(settings_of(begin=begin), start=start)
        np.testing.assert_array_equal(task.start, np.concatenate(expected))
        assert task.start.shape == task.widths.shape


def test_what_cannot_work_is_refused():
    course = TINY["courses"][0]
    with pytest.raises(SettingsError, match=r"courses\.0\.rule = 'decima-tpch-batch' is no rule"):
        check_settings(settings_of(courses=[{**course, "rule": "decima-tpch-batch"}]))


@pytest.mark.parametrize("name", PRESETS.names())
def test_presets_load(name):
    check_settings(PRESETS.load(name))
