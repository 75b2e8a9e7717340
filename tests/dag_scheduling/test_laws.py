"""Laws every episode obeys, whatever the workload, the cluster and the policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dag_scheduling.random_instances import random_cluster, random_workload
from tests.dag_scheduling.test_agreement import RULES

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.problem import LEAVE_IDLE, Action, choices, executors_sent, observe
from trimtab.dag_scheduling.simulator import Simulator, simulate
from trimtab.dag_scheduling.workload import FRESH, LATER_WAVE

numbers = st.integers(0, 5000)
rule_sets = st.sampled_from(["default", "compat", "mixed"])
policies = st.sampled_from(RULES)


@given(numbers, rule_sets, policies)
def test_every_task_runs_exactly_once_after_its_parents(number, rules, policy):
    workload = random_workload(number)
    episode = simulate(workload, policy, random_cluster(number, rules), seed=number, record_tasks=True)
    log, profile = episode.tasks, workload.profile
    assert log is not None and len(log.job) == workload.task_count
    for job, template in enumerate(workload.template):
        first = profile.stage_offset[template]
        for stage in range(profile.stage_count[template]):
            row = first + stage
            mine = (log.job == job) & (log.stage == stage)
            assert mine.sum() == profile.tasks[row]
            assert log.start_ms[mine].min() >= workload.arrival_ms[job]
            for parent in profile.parent[profile.parent_offset[row] : profile.parent_offset[row + 1]]:
                ended = log.end_ms[(log.job == job) & (log.stage == parent)].max()
                assert log.start_ms[mine].min() >= ended
        assert log.end_ms[log.job == job].max() == episode.completion_ms[job]
        assert log.start_ms[log.job == job].min() == episode.first_start_ms[job]


@given(numbers, rule_sets, policies)
def test_an_executor_does_one_thing_at_a_time_and_pays_for_moving(number, rules, policy):
    cluster = random_cluster(number, rules)
    workload = random_workload(number)
    log = simulate(workload, policy, cluster, seed=number, record_tasks=True).tasks
    assert log is not None
    for executor in range(cluster.executors):
        mine = np.flatnonzero(log.executor == executor)
        assert np.all(log.start_ms[mine][1:] >= log.end_ms[mine][:-1])
        changed = log.job[mine][1:] != log.job[mine][:-1]
        gap = log.start_ms[mine][1:] - log.end_ms[mine][:-1]
        assert np.all(gap[changed] >= cluster.moving_delay_ms)
        assert np.all(log.wave[mine][1:][changed] == FRESH)
        same_stage = ~changed & (log.stage[mine][1:] == log.stage[mine][:-1]) & (gap == 0)
        if cluster.moving_delay_ms > 0:
            assert np.all(log.wave[mine][1:][same_stage] == LATER_WAVE)


@given(numbers, rule_sets, policies)
def test_executors_hold_the_memory_of_their_tasks(number, rules, policy):
    cluster = random_cluster(number - number % 4, rules)
    workload = random_workload(number)
    log = simulate(workload, policy, cluster, seed=number, record_tasks=True).tasks
    assert log is not None
    memory = np.repeat(cluster.class_memory, cluster.class_counts)[log.executor]
    rows = workload.profile.stage_offset[workload.template[log.job]] + log.stage
    assert np.all(workload.profile.memory[rows] <= memory)


@given(numbers, rule_sets, policies)
def test_rewards_add_up_to_minus_the_completion_times(number, rules, policy):
    cluster = random_cluster(number, rules)
    episode = simulate(random_workload(number), policy, cluster, seed=number)
    expected = episode.makespan_ms if cluster.objective == "makespan" else episode.jct_ms.sum()
    assert episode.reward == -expected


@given(numbers, rule_sets)
def test_masks_are_never_empty_and_counts_never_negative(number, rules):
    """Steps through with choices drawn from the mask; a legal choice always exists."""
    random = np.random.default_rng(number)
    cluster = random_cluster(number, rules)
    simulator = Simulator(cluster)
    snapshot = simulator.reset(random_workload(number), number)
    while not simulator.ended:
        mask = choices(snapshot)
        assert mask.any()
        assert snapshot.free_executors.min() >= 0 and snapshot.free_executors.sum() > 0
        assert snapshot.executors.min() >= 0 and snapshot.incoming.min() >= 0
        assert snapshot.executors[snapshot.jobs].sum() <= cluster.executors
        assert np.all(snapshot.unstarted >= 0) and np.all(snapshot.running >= 0)
        seen = observe(snapshot)
        assert seen.mask.sum() == mask.sum() and np.isfinite(seen.features).all()
        stage, executor_class = random.choice(np.argwhere(mask))
        job = int(np.searchsorted(snapshot.first_stage, stage, side="right")) - 1
        row = int(np.flatnonzero(seen.stage == stage)[0])
        limit = int(random.integers(seen.smallest_limit[row], cluster.executors + 1))
        assert executors_sent(snapshot, job, stage, limit, executor_class) > 0
        action = Action(int(stage), limit, int(executor_class))
        if snapshot.may_idle and random.random() < 0.2:
            action = LEAVE_IDLE
        snapshot = simulator.step(action).snapshot
    assert simulator.episode("drawn").completion_ms.min() >= 0


@given(numbers, policies)
def test_the_same_seed_gives_the_same_episode(number, policy):
    cluster, workload = random_cluster(number, "default"), random_workload(number)
    one = simulate(workload, policy, cluster, seed=number)
    two = simulate(workload, policy, cluster, seed=number)
    assert np.array_equal(one.completion_ms, two.completion_ms)


@given(numbers, policies)
def test_the_same_task_has_the_same_luck_under_every_policy(number, policy):
    """One executor: no choice of wave, so the durations of a job's only wave kinds must agree."""
    workload = random_workload(number)
    cluster = Cluster(executors=1)
    first = simulate(workload, RULES[0], cluster, seed=number, record_tasks=True).tasks
    other = simulate(workload, policy, cluster, seed=number, record_tasks=True).tasks
    assert first is not None and other is not None

    def durations(log):
        key = zip(log.job.tolist(), log.stage.tolist(), log.wave.tolist(), strict=True)
        found: dict = {}
        for place, log_end_minus_start in zip(key, (log.end_ms - log.start_ms).tolist(), strict=True):
            found.setdefault(place, []).append(log_end_minus_start)
        return found

    one, two = durations(first), durations(other)
    for place in one.keys() & two.keys():
        if len(one[place]) == len(two[place]):
            assert one[place] == two[place]


@pytest.mark.parametrize("rules", ["default", "compat"])
def test_free_migration_never_costs_moving_time(rules):
    cluster = Cluster(executors=7, moving_delay_ms=0, rules=rules)
    assert simulate(random_workload(11), RULES[1], cluster, seed=1).moving_ms == 0


def test_stepping_equals_playing():
    workload, cluster = random_workload(21), Cluster(executors=6)
    played = simulate(workload, RULES[1], cluster, seed=5)

    class Stepped:
        name = "stepped"
        decide = staticmethod(RULES[1].decide)

    stepped = simulate(workload, Stepped(), cluster, seed=5)
    assert np.array_equal(played.completion_ms, stepped.completion_ms)
    assert played.reward == stepped.reward and played.decisions == stepped.decisions


def test_a_window_grows_with_the_jobs_in_the_system_only():
    from trimtab.dag_scheduling.simulator.simulator import FIRST_SLOTS
    from trimtab.dag_scheduling.workload import Provenance, Workload

    base = random_workload(2)
    jobs = 3 * FIRST_SLOTS
    crowd = Workload(
        base.profile, np.zeros(jobs, np.int64), np.arange(jobs, dtype=np.int64), Provenance("crowd")
    )
    episode = simulate(crowd, RULES[1], Cluster(executors=5), seed=0)
    assert episode.completion_ms.min() > 0
    sparse = Workload(
        base.profile,
        np.zeros(jobs, np.int64),
        np.arange(jobs, dtype=np.int64) * 10_000_000,
        Provenance("sparse"),
    )
    simulator = Simulator(Cluster(executors=5))
    simulator.reset(sparse, 0)
    simulator.play(RULES[1])
    assert len(simulator._running_state.slots) == FIRST_SLOTS


def test_truncation_is_told_apart_from_the_end():
    simulator = Simulator(Cluster(executors=2), time_limit_ms=1500)
    simulator.reset(random_workload(3), 0)
    while not simulator.ended:
        transition = simulator.step(RULES[0].decide(simulator.snapshot))
    assert transition.truncated and not transition.terminated
    assert simulator.snapshot.now_ms == random_workload(3).arrival_ms[0] + 1500
