"""Laws of the batch: every row takes the course of the same episode played alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.dag_scheduling.random_instances import random_cluster, random_profile

from trimtab.core.errors import ActionError, TrimtabError, WorkloadError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.heuristics import Parameter, Rule, fair, random_choice
from trimtab.dag_scheduling.problem import LEAVE_IDLE, Action
from trimtab.dag_scheduling.simulator.batch import BatchSimulator, BatchTransition
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Profile,
    StageRecord,
    Workload,
    batch,
    build_profile,
    poisson,
)

FAIR = Rule("fair", fair)
RANDOM = Rule("random", random_choice, (Parameter("seed", 3.0, ""),))


def one_stage_profile() -> Profile:
    """Jobs of four tasks of one second each, wherever they run."""
    always = {1: [1000]}
    stage = StageRecord(4, fresh=always, first_wave=always, later_wave=always)
    return build_profile([JobRecord("one", [stage])])


def decide_all(simulator: BatchSimulator, rule: Rule) -> list[Action]:
    ended = simulator.ended
    return [
        LEAVE_IDLE if ended[index] else rule.decide(simulator.snapshot(index))
        for index in range(simulator.size)
    ]


def play(simulator: BatchSimulator, rule: Rule) -> list[BatchTransition]:
    transitions = []
    while not simulator.ended.all():
        transitions.append(simulator.step(decide_all(simulator, rule)))
    return transitions


def assert_same_as_alone(
    simulator: BatchSimulator, workloads: Sequence[Workload], seeds: Sequence[int], rule: Rule
) -> None:
    for index, (workload, seed) in enumerate(zip(workloads, seeds, strict=True)):
        alone = simulate(workload, rule, simulator.cluster, seed=seed)
        row = simulator.episode(index, rule.name)
        np.testing.assert_array_equal(row.completion_ms, alone.completion_ms)
        np.testing.assert_array_equal(row.first_start_ms, alone.first_start_ms)
        np.testing.assert_array_equal(row.alone_ms, alone.alone_ms)
        for name in ("reward", "decisions", "events", "busy_ms", "moving_ms", "seed", "job_names"):
            assert getattr(row, name) == getattr(alone, name), name


@pytest.mark.parametrize("rule", [FAIR, RANDOM], ids=lambda rule: rule.name)
@pytest.mark.parametrize("number", range(8))
def test_rows_take_the_course_of_single_episodes(number: int, rule: Rule) -> None:
    profile = random_profile(number)
    workloads = [
        poisson(profile, jobs=jobs, mean_gap_ms=1 + 900 * jobs, seed=number + jobs) for jobs in (5, 1, 9)
    ]
    seeds = [number, 7, 2**40 + number]
    simulator = BatchSimulator(random_cluster(number, "default"), size=3)
    simulator.reset(workloads, seeds)
    play(simulator, rule)
    assert_same_as_alone(simulator, workloads, seeds, rule)


def test_all_rows_grow_when_one_has_many_jobs_in_system() -> None:
    profile = random_profile(5)
    workloads = [batch(profile, jobs=jobs, seed=jobs) for jobs in (3, 90, 40)]
    simulator = BatchSimulator(Cluster(executors=6), size=3)
    simulator.reset(workloads, [0, 1, 2])
    play(simulator, FAIR)
    assert_same_as_alone(simulator, workloads, [0, 1, 2], FAIR)


def test_reset_one_begins_a_longer_workload_and_leaves_the_others_alone() -> None:
    profile = random_profile(2)
    first, second, longer = (batch(profile, jobs=jobs, seed=jobs) for jobs in (4, 6, 50))
    simulator = BatchSimulator(Cluster(executors=5), size=2)
    simulator.reset([first, second], [0, 1])
    for _ in range(3):
        simulator.step(decide_all(simulator, FAIR))
    simulator.reset_one(0, longer, 9)
    play(simulator, FAIR)
    assert_same_as_alone(simulator, [longer, second], [9, 1], FAIR)


def test_a_second_reset_forgets_the_first() -> None:
    profile = random_profile(3)
    simulator = BatchSimulator(Cluster(executors=5), size=2)
    simulator.reset([batch(profile, jobs=40, seed=0)] * 2, [0, 1])
    simulator.step(decide_all(simulator, FAIR))
    workloads = [batch(profile, jobs=jobs, seed=1) for jobs in (2, 3)]
    simulator.reset(workloads, [4, 5])
    play(simulator, FAIR)
    assert_same_as_alone(simulator, workloads, [4, 5], FAIR)


def test_nothing_resets_by_itself_and_ended_rows_stand_still() -> None:
    profile = one_stage_profile()
    simulator = BatchSimulator(Cluster(executors=2, moving_delay_ms=0), size=2)
    simulator.reset([batch(profile, jobs=jobs, seed=0) for jobs in (1, 3)], [0, 0])
    transitions = play(simulator, FAIR)
    # Four tasks of one second on two executors, and nobody else there.
    assert simulator.now_ms.tolist() == [2000, 6000]
    ended = np.array([step.terminated[0] for step in transitions])
    assert ended[-1]
    assert np.all(np.diff(ended.astype(int)) >= 0)
    after = [step for step, over in zip(transitions[1:], ended[:-1], strict=True) if over]
    assert after
    assert all(step.rewards[0] == step.elapsed_ms[0] == 0 for step in after)


def test_rewards_and_times_add_up() -> None:
    profile = random_profile(4)
    workloads = [poisson(profile, jobs=6, mean_gap_ms=2000, seed=seed) for seed in range(3)]
    # Without moving delay nobody is still on the way when the last job ends.
    simulator = BatchSimulator(Cluster(executors=4, moving_delay_ms=0), size=3)
    simulator.reset(workloads, [0, 1, 2])
    transitions = play(simulator, RANDOM)
    rewards = np.sum([step.rewards for step in transitions], axis=0)
    elapsed_ms = np.sum([step.elapsed_ms for step in transitions], axis=0)
    for index in range(3):
        episode = simulator.episode(index, "random")
        assert rewards[index] == episode.reward == -episode.jct_ms.sum()
        assert elapsed_ms[index] == episode.makespan_ms


def test_time_limit_truncates_and_leaves_no_episode() -> None:
    simulator = BatchSimulator(Cluster(executors=1, moving_delay_ms=0), size=1, time_limit_ms=2500)
    simulator.reset([batch(one_stage_profile(), jobs=2, seed=0)], [0])
    last = play(simulator, FAIR)[-1]
    assert last.truncated.tolist() == [True]
    assert last.terminated.tolist() == [False]
    assert simulator.now_ms.tolist() == [2500]
    with pytest.raises(TrimtabError, match="environment 0 has not finished"):
        simulator.episode(0, "fair")


REFUSED = [
    (LEAVE_IDLE, "LEAVE_IDLE while no executor is busy"),
    (Action(99, 1), "stage 99, class 0 does not exist"),
    (Action(-2, 1), "stage -2, class 0 does not exist"),
    (Action(0, 1, 4), "stage 0, class 4 does not exist"),
    (Action(0, 0), "limit 0 sends no executor to stage 0"),
]


@pytest.mark.parametrize(("action", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_an_action_outside_the_mask_is_refused_and_nobody_moves(action: Action, reason: str) -> None:
    profile = one_stage_profile()
    simulator = BatchSimulator(Cluster(executors=2), size=3)
    simulator.reset([batch(profile, jobs=2, seed=0)] * 3, [0, 1, 2])
    before = [field.copy() for field in simulator.state]
    with pytest.raises(ActionError, match=f"environment 1: {reason}"):
        simulator.step([Action(0, 2), action, Action(0, 2)])
    for field, copy in zip(simulator.state, before, strict=True):
        np.testing.assert_array_equal(field, copy)
    play(simulator, FAIR)


def test_a_stage_that_is_not_schedulable_is_refused() -> None:
    always = {1: [1000]}
    stages = [StageRecord(4, later_wave=always), StageRecord(1, parents=[0], later_wave=always)]
    workload = batch(build_profile([JobRecord("chain", stages)]), jobs=1, seed=0)
    simulator = BatchSimulator(Cluster(executors=2), size=1)
    simulator.reset([workload], [0])
    with pytest.raises(ActionError, match="environment 0: stage 1 may not be chosen"):
        simulator.step([Action(1, 1)])


def test_workloads_of_two_profiles_are_refused() -> None:
    one, other = (batch(one_stage_profile(), jobs=2, seed=0, source=name) for name in ("left", "right"))
    simulator = BatchSimulator(Cluster(executors=2), size=2)
    with pytest.raises(WorkloadError, match=r"environment 1: its workload \(right\) has another profile"):
        simulator.reset([one, other], [0, 1])
    simulator.reset([one, one], [0, 1])
    with pytest.raises(WorkloadError, match="environment 0: its workload"):
        simulator.reset_one(0, other, 0)


def test_misuse_is_refused_in_one_line() -> None:
    workload = batch(one_stage_profile(), jobs=2, seed=0)
    with pytest.raises(TrimtabError, match="size must be at least 1"):
        BatchSimulator(Cluster(), size=0)
    simulator = BatchSimulator(Cluster(executors=2), size=2)
    with pytest.raises(TrimtabError, match="call reset"):
        simulator.step(np.zeros((2, 3), np.int64))
    with pytest.raises(TrimtabError, match="call reset"):
        simulator.reset_one(0, workload, 0)
    with pytest.raises(WorkloadError, match="1 workloads and 2 seeds for a batch of 2"):
        simulator.reset([workload], [0, 1])
    simulator.reset([workload, workload], [0, 1])
    with pytest.raises(WorkloadError, match="no environment 2 in a batch of 2"):
        simulator.reset_one(2, workload, 0)
    with pytest.raises(ActionError, match=r"shape \(3,\); expected \(2, 3\)"):
        simulator.step(LEAVE_IDLE)
