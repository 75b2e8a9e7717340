"""Costs beyond the teacher's: zero for whoever does as the teacher does, and exact in sum for others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.dag_scheduling.test_decima_view import course_of, observe, rule

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.network import Design
from trimtab.dag_scheduling.decima.rollouts import Course, RolloutEnvironment, random_choices
from trimtab.dag_scheduling.simulator import simulate

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow

EVERY_LIMIT = Design(hidden=8, embedding=4, limits=0)
TO_THE_END = 1e6


def playing_on(course: Course, seeds: range) -> RolloutEnvironment:
    playing = RolloutEnvironment([course], EVERY_LIMIT, size=len(seeds), jobs_shown=8)
    playing.reset_to(seeds)
    return playing


def first_episodes(playing: RolloutEnvironment, *, random: np.random.Generator | None) -> np.ndarray:
    """Rewards of the first episode of each environment, decision by decision: [decisions, envs]."""
    going = np.ones(playing.size, bool)
    rewards = []
    while going.any():
        shown = observe(playing)
        actions = shown["teacher"]
        if random is not None:
            odd = random.random(playing.size) < 0.3
            actions = np.where(odd[:, None], random_choices(shown, random), actions)
        outcome = playing.step(actions.astype(np.int32))
        rewards.append(np.where(going, outcome.rewards, 0.0))
        going &= ~outcome.ended
    return np.array(rewards)


def tpch(look_ahead_s: float, look_every: int = 1) -> Course:
    course = course_of(Cluster(executors=7), rule("capped-srpt-local"), name="tpch", jobs=4)
    return replace(course, look_ahead_s=look_ahead_s, look_every=look_every, cost_scale_s=1.0)


def test_the_teacher_never_costs_more_than_the_teacher():
    rewards = first_episodes(playing_on(tpch(TO_THE_END), range(3)), random=None)
    np.testing.assert_array_equal(rewards, 0.0)


@pytest.mark.parametrize("look_every", [1, 5])
def test_costs_beyond_the_teachers_add_up_to_the_difference_of_the_episodes(look_every):
    seeds = range(4)
    course = tpch(TO_THE_END, look_every)
    beyond = first_episodes(playing_on(course, seeds), random=np.random.default_rng(1)).sum(0)
    alone = first_episodes(playing_on(tpch(0.0), seeds), random=np.random.default_rng(1)).sum(0)
    teacher = [
        -simulate(course.draw(seed), course.teacher, course.cluster, seed=seed).jct_ms.sum() / 1000
        for seed in seeds
    ]
    np.testing.assert_allclose(beyond, alone - teacher, atol=0.02)
    assert np.abs(beyond).max() > 1.0  # the random choices did make a difference


def test_looking_less_often_charges_the_last_decision_for_all():
    course = tpch(TO_THE_END, look_every=5)
    rewards = first_episodes(playing_on(course, range(2)), random=np.random.default_rng(2))
    charged = rewards != 0
    assert 0 < charged.mean() < 0.25


def test_a_stream_is_looked_at_over_a_stretch_of_time():
    """With a short reach the teacher is still free of charge; others are charged for a part at least."""
    stream = course_of(
        Cluster(executors=7), rule("capped-srpt-local"), name="tpch", jobs=8, arrivals="poisson", load=0.8
    )
    course = replace(stream, look_ahead_s=30.0, cost_scale_s=1.0)
    np.testing.assert_array_equal(first_episodes(playing_on(course, range(2)), random=None), 0.0)
    assert (first_episodes(playing_on(course, range(2)), random=np.random.default_rng(3)) != 0).any()


def test_who_imitates_is_not_judged():
    playing = RolloutEnvironment([tpch(TO_THE_END)], EVERY_LIMIT, size=2, jobs_shown=8)
    playing.reset(0, float("inf"), imitating=True)
    random = np.random.default_rng(0)
    for _ in range(20):
        outcome = playing.step(random_choices(observe(playing), random))
        np.testing.assert_array_equal(outcome.rewards, 0.0)


def test_a_look_that_meets_more_jobs_than_there_is_room_for_makes_room():
    """A backlog of 60 jobs in room for 32 at first: sums are right only if no look stopped half way."""
    seeds = range(2)
    crowd = course_of(
        Cluster(executors=3), rule("fifo"), name="small", jobs=60, arrivals="poisson", mean_gap_s=1.0
    )
    course = replace(crowd, look_ahead_s=TO_THE_END, cost_scale_s=1.0)
    playing = RolloutEnvironment([course], EVERY_LIMIT, size=2, jobs_shown=60)
    playing.reset_to(seeds)
    np.testing.assert_array_equal(first_episodes(playing, random=None), 0.0)
    playing.reset_to(seeds)
    beyond = first_episodes(playing, random=np.random.default_rng(1)).sum(0)
    alone = RolloutEnvironment([replace(course, look_ahead_s=0.0)], EVERY_LIMIT, size=2, jobs_shown=60)
    alone.reset_to(seeds)
    cost = first_episodes(alone, random=np.random.default_rng(1)).sum(0)
    teacher = [
        -simulate(course.draw(seed), course.teacher, course.cluster, seed=seed).jct_ms.sum() / 1000
        for seed in seeds
    ]
    np.testing.assert_allclose(beyond, cost - teacher, atol=0.05)
    assert np.abs(beyond).max() > 1.0


def test_every_decision_is_charged_for_itself_even_within_one_moment():
    """Whoever does as the teacher does right after another's odd choice is charged nothing."""
    course = tpch(TO_THE_END)
    playing = playing_on(course, range(8))
    random = np.random.default_rng(0)
    charged = same = 0
    for _ in range(60):
        shown = observe(playing)
        odd = random.random(playing.size) < 0.3
        actions = np.where(odd[:, None], random_choices(shown, random), shown["teacher"])
        outcome = playing.step(actions.astype(np.int32))
        charged += np.count_nonzero(outcome.rewards[odd])
        same += np.count_nonzero(outcome.rewards[~odd])
    assert charged > 50
    assert same == 0
