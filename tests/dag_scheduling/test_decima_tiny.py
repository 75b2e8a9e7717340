"""Decima's environments, agent and task on workloads of a handful of tasks: fast as plain Python too."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from tests.dag_scheduling.test_decima_view import course_of, observe, rule

from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.decima.network import Design
from trimtab.dag_scheduling.decima.rollouts import Course, RolloutEnvironment, random_choices
from trimtab.dag_scheduling.decima.task import CourseSettings, DecimaSettings, DecimaTask, NetworkSettings
from trimtab.dag_scheduling.simulator import simulate
from trimtab.dag_scheduling.workload import JobRecord, StageRecord, batch, build_profile
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

SMALL = Design(hidden=8, embedding=4)
FORK = build_profile(
    [
        JobRecord(
            f"fork {tasks}",
            [
                StageRecord(tasks=tasks, later_wave={1: [700]}),
                StageRecord(tasks=2, parents=[0], later_wave={1: [900]}, memory=0.5),
                StageRecord(tasks=1, parents=[0], later_wave={1: [400]}),
            ],
        )
        for tasks in (1, 3, 6)
    ]
)


def forks(cluster: Cluster, teacher: str = "capped-srpt-local", jobs: int = 4) -> Course:
    return Course(cluster, lambda seed: batch(FORK, jobs=jobs, seed=seed), rule(teacher))


def play(playing: RolloutEnvironment, random: np.random.Generator | None) -> np.ndarray:
    """Rewards of the first episode of each environment."""
    total, going = np.zeros(playing.size), np.ones(playing.size, bool)
    while going.any():
        shown = observe(playing)
        actions = shown["teacher"] if random is None else random_choices(shown, random)
        outcome = playing.step(actions.astype(np.int32))
        total += np.where(going, outcome.rewards, 0.0)
        going &= ~outcome.ended
    return total


@pytest.mark.parametrize("look_ahead_s", [0.0, 1e6, 1.5])
def test_rewards_are_minus_completion_times_or_their_excess_over_the_teachers(look_ahead_s):
    course = replace(forks(Cluster(executors=3), "fifo"), look_ahead_s=look_ahead_s)
    playing = RolloutEnvironment([course], SMALL, size=3, jobs_shown=5)
    playing.reset_to(range(3))
    jct_s = [
        simulate(course.draw(seed), course.teacher, course.cluster, seed=seed).jct_ms.sum() / 1000
        for seed in range(3)
    ]
    expected = np.zeros(3) if look_ahead_s else -np.array(jct_s)
    np.testing.assert_allclose(play(playing, None), expected, atol=1e-3)


def test_random_choices_are_legal_with_few_rows_and_several_classes():
    classes = (ExecutorClass(count=2, memory=0.4), ExecutorClass(count=2, memory=1.0))
    course = replace(forks(Cluster(classes=classes), jobs=5), look_ahead_s=1e6, look_every=3)
    playing = RolloutEnvironment([course], replace(SMALL, classes=2), size=2, jobs_shown=2)
    playing.reset_to(range(2))
    rewards = play(playing, np.random.default_rng(0))
    assert np.isfinite(rewards).all()


def test_groups_threads_and_time_limits():
    courses = [forks(Cluster(executors=2)), forks(Cluster(executors=3))]
    playing = RolloutEnvironment(courses, SMALL, size=8, rollouts=2, jobs_shown=4, threads=2)
    playing.reset(1, 2.0)
    outcomes = [playing.step(observe(playing)["teacher"]) for _ in range(25)]
    rewards = np.array([outcome.rewards for outcome in outcomes])
    np.testing.assert_array_equal(rewards[:, ::2], rewards[:, 1::2])  # neighbours share jobs, luck and limits
    assert any(outcome.ended.any() for outcome in outcomes)


def test_a_stream_with_more_jobs_than_places_grows():
    stream = course_of(
        Cluster(executors=1), name="tiny:two-jobs", jobs=40, arrivals="poisson", mean_gap_s=0.01
    )
    playing = RolloutEnvironment([stream], SMALL, size=1, jobs_shown=3)
    playing.reset_to([0])
    assert play(playing, None)[0] < 0


@pytest.mark.usefixtures("quick_compilation")
def test_an_agent_samples_judges_and_scores_what_it_may_choose():
    course = CourseSettings(
        workload=WorkloadSettings(name="tiny:diamond", jobs=2),
        cluster=Cluster(executors=3),
        teacher="fair",
        look_ahead_s=1e6,
    )
    settings = DecimaSettings(
        courses=(course,),
        network=NetworkSettings(hidden=8, embedding=4, ready=True, largest_score=3.0),
        environments=2,
        jobs_shown=2,
        validation=2,
    )
    task = DecimaTask(settings)
    lane = task.lanes[0]
    lane.reset(0, float("inf"), imitating=True)
    shown = lane.observe()
    parameters = jax.jit(task.agent.init)(jax.random.PRNGKey(0))
    acted = jax.jit(task.agent.act)(parameters, shown, jax.random.PRNGKey(1))
    judged = jax.jit(task.agent.judge)(parameters, shown, acted.action)
    np.testing.assert_allclose(acted.log_prob, judged.log_prob, atol=1e-5)
    assert (np.asarray(judged.entropy) >= 0).all() and acted.value.shape == (2,)
    assert task.agent.summary is not None and jax.jit(task.agent.summary)(parameters, shown).shape[0] == 2
    np.testing.assert_array_equal(lane.step(np.asarray(acted.action)).rewards, 0.0)
    assert task.score(parameters)["score"] > 0.5
    assert task.describe()["most_executors"] == 3
