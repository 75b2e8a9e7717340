"""Environments for learning: the episodes of the simulator, in groups that share their luck."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.dag_scheduling.random_instances import random_profile
from tests.dag_scheduling.test_decima_view import (
    FIFO,
    FOUR_SIZES,
    course_of,
    course_on,
    design_for,
    masked_choices,
    observe,
    rule,
    trace_course,
    view_in,
)

from trimtab.core.environment import BatchEnvironment, BatchOutcome
from trimtab.core.errors import ActionError, SettingsError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.network import Design, new_network
from trimtab.dag_scheduling.decima.rollouts import TRAINING_SEEDS, Course, RolloutEnvironment
from trimtab.dag_scheduling.decima.view import AGE_S, EXECUTOR_COUNT
from trimtab.dag_scheduling.problem import Action
from trimtab.dag_scheduling.simulator import Simulator, simulate
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Provenance,
    StageRecord,
    Workload,
    batch,
    build_profile,
    poisson,
)

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow

FOREVER = float("inf")
SMALL = Design(hidden=8, embedding=4)
EVERY_LIMIT = Design(hidden=8, embedding=4, limits=0)


def follow_teacher(playing: RolloutEnvironment) -> np.ndarray:
    """Play until every environment has ended once: what its first episode was rewarded with, exactly.

    A course with a cost scale of 0.001 s is rewarded in whole milliseconds, which float32 holds to 2^24.
    """
    rewards = np.zeros(playing.size)
    going = np.ones(playing.size, bool)
    while going.any():
        outcome = playing.step(observe(playing)["teacher"])
        assert (outcome.rewards <= 0).all() and (outcome.rewards > -(1 << 24)).all()
        rewards += np.where(going, outcome.rewards, 0.0)
        going &= ~outcome.ended
    return rewards


def mixed_jobs(seed: int) -> Workload:
    """Episodes of different length, so that some fill only a part of the environment's arrays."""
    return poisson(random_profile(7), jobs=2 + seed % 5, mean_gap_ms=900, seed=seed)


FOLLOWED = {
    "tpch": (course_of(Cluster(executors=10), name="tpch", jobs=6), SMALL),
    "stream": (course_of(Cluster(executors=9), name="tpch", jobs=8, arrivals="poisson", load=0.9), SMALL),
    "synthetic": (course_of(Cluster(executors=12), name="synthetic", jobs=4), SMALL),
    "four sizes": (course_of(FOUR_SIZES, name="tpch", jobs=5, random_memory=True), design_for(FOUR_SIZES)),
    "makespan": (course_of(Cluster(executors=5, objective="makespan"), name="tpch", jobs=4), SMALL),
    "unequal": (Course(Cluster(executors=4), mixed_jobs, FIFO), SMALL),
    # Where every limit is on offer, a rule with limits of its own is followed to the letter too.
    "capped": (
        course_of(Cluster(executors=13), rule("capped-srpt-local"), name="tpch", jobs=5),
        EVERY_LIMIT,
    ),
    "fair": (
        course_of(Cluster(executors=11), rule("fair"), name="tpch", jobs=5),
        EVERY_LIMIT,
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_who_follows_the_teacher_waits_as_long_as_the_teacher(name):
    course, design = FOLLOWED[name]
    assert course.teacher is not None
    seeds = [2, 3, 4, 1_000_000]
    most = max(course.draw(seed).job_count for seed in seeds)
    playing = RolloutEnvironment(
        [replace(course, cost_scale_s=0.001)], design, size=len(seeds), jobs_shown=most
    )
    assert isinstance(playing, BatchEnvironment)
    playing.reset_to(seeds)
    rewards = follow_teacher(playing)
    for reward, seed in zip(rewards, seeds, strict=True):
        alone = simulate(course.draw(seed), course.teacher, course.cluster, seed=seed)
        assert reward == alone.reward
        if course.cluster.objective == "average_jct":
            assert reward == -alone.jct_ms.sum()


def test_room_grows_with_the_jobs_in_the_system():
    """90 jobs at once, where a window begins with room for 32; and a neighbour with few."""

    def draw(seed: int) -> Workload:
        return batch(random_profile(5), jobs=90 if seed == 1 else 3, seed=seed)

    course = Course(Cluster(executors=6), draw, FIFO, cost_scale_s=0.001)
    playing = RolloutEnvironment([course], SMALL, size=3, jobs_shown=90)
    playing.reset_to([0, 1, 2])
    assert observe(playing)["jobs"][..., -1].sum(1).tolist() == [3, 90, 3]
    expected = [simulate(draw(seed), FIFO, course.cluster, seed=seed).reward for seed in range(3)]
    assert follow_teacher(playing).tolist() == expected


def test_a_stream_that_fills_up_on_its_way_grows_too():
    """Jobs come much faster than two executors can work them off."""
    course = course_on(Cluster(executors=2), random_profile(5), jobs=60, gap_ms=200.0)
    course = replace(course, cost_scale_s=0.001)
    playing = RolloutEnvironment([course], SMALL, size=2, jobs_shown=60)
    playing.reset_to([0, 1])
    expected = [simulate(course.draw(seed), FIFO, course.cluster, seed=seed).reward for seed in (0, 1)]
    assert follow_teacher(playing).tolist() == expected
    assert playing._shards[0].state.slots.shape[1] == 64


def test_every_step_is_that_of_the_simulator():
    """Random answers: the same actions give the same rewards and times, step by step, in both."""
    course = course_of(FOUR_SIZES, name="tpch", jobs=5, random_memory=True)
    design = design_for(course.cluster)
    parameters, random = new_network(design, 0), np.random.default_rng(0)
    playing = RolloutEnvironment([replace(course, cost_scale_s=2.0)], design, size=2, jobs_shown=5)
    playing.reset_to([8, 9])
    simulators = [Simulator(course.cluster) for _ in range(2)]
    for simulator, seed in zip(simulators, (8, 9), strict=True):
        simulator.reset(course.draw(seed), seed)
    while not any(simulator.ended for simulator in simulators):
        answers, _, _ = masked_choices(parameters, view_in(observe(playing)), design, 8, random)
        outcome = playing.step(answers)
        for index, simulator in enumerate(simulators):
            same = simulator.step(Action(*playing._shards[0]._actions[index].tolist()))
            assert outcome.rewards[index] == np.float32(same.reward / 2000.0)
            assert outcome.elapsed_s[index] == np.float32(same.elapsed_ms / 1000.0)
            assert outcome.ended[index] == same.terminated


# --- groups, seeds, limits --------------------------------------------------------------------------


def play_groups(playing: RolloutEnvironment, steps: int, most: int) -> list[BatchOutcome]:
    """Random answers, the same for all environments of a group."""
    parameters, random = new_network(SMALL, 0), np.random.default_rng(0)
    outcomes = []
    for _ in range(steps):
        observation = observe(playing)
        first = {name: field[:: playing.rollouts] for name, field in observation.items()}
        answers, _, _ = masked_choices(parameters, view_in(first), SMALL, most, random)
        outcomes.append(playing.step(np.repeat(answers, playing.rollouts, axis=0)))
    return outcomes


def test_neighbours_live_through_the_same_and_groups_through_different_things():
    course = course_of(Cluster(executors=6), name="tpch", jobs=3)
    playing = RolloutEnvironment([course], SMALL, size=6, rollouts=3, jobs_shown=3)
    playing.reset(seed=4, mean_episode_s=60.0)
    outcomes = play_groups(playing, 150, most=6)
    rewards = np.array([outcome.rewards for outcome in outcomes])
    ended = np.array([outcome.ended for outcome in outcomes])
    for field in (rewards, ended):
        np.testing.assert_array_equal(field[:, 0:3], field[:, [0]].repeat(3, 1))
        np.testing.assert_array_equal(field[:, 3:6], field[:, [3]].repeat(3, 1))
    assert ended[:, 0].sum() > 2 and ended[:, 3].sum() > 2
    assert not np.array_equal(rewards[:, 0], rewards[:, 3])
    sequence = observe(playing)["sequence"]
    assert len(set(sequence[:3])) == len(set(sequence[3:])) == 1 and sequence[0] != sequence[3]
    assert (sequence < TRAINING_SEEDS).all()


def all_of(playing: RolloutEnvironment, seed: int, mean_episode_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Rewards and sequences of 60 steps behind the teacher."""
    playing.reset(seed=seed, mean_episode_s=mean_episode_s)
    rewards, sequences = [], []
    for _ in range(60):
        observation = observe(playing)
        sequences.append(observation["sequence"])
        rewards.append(playing.step(observation["teacher"]).rewards)
    return np.array(rewards), np.array(sequences)


@pytest.mark.parametrize("mean_episode_s", [15.0, FOREVER])
def test_the_same_seed_gives_the_same_episodes(mean_episode_s):
    course = course_of(Cluster(executors=6), name="tpch", jobs=3)
    playing = RolloutEnvironment([course], SMALL, size=4, jobs_shown=3)
    first = all_of(playing, 5, mean_episode_s)
    other = all_of(playing, 6, mean_episode_s)
    again = all_of(playing, 5, mean_episode_s)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    assert not np.isin(first[1][0], other[1][0]).any()


def test_episodes_of_an_environment_follow_each_other_and_begin_anew():
    """Three short episodes each: the fourth is the first again."""
    course = course_of(Cluster(executors=4), name="tiny:two-jobs", jobs=2)
    playing = RolloutEnvironment([course], SMALL, size=2, jobs_shown=2, episodes_each=3)
    playing.reset(seed=0, mean_episode_s=FOREVER)
    played: list[list[int]] = [[], []]
    while len(played[0]) < 4 or len(played[1]) < 4:
        observation = observe(playing)
        outcome = playing.step(observation["teacher"])
        for index in np.flatnonzero(outcome.ended):
            played[index].append(int(observation["sequence"][index]))
    for sequences in played:
        assert len(set(sequences[:3])) == 3 and sequences[3] == sequences[0]
    assert not set(played[0]) & set(played[1])


def test_memoryless_limits_end_episodes():
    """A stream without end in sight: every episode lasts exactly as long as its limit, 20 s on average."""
    course = course_of(Cluster(executors=3), name="tpch", jobs=60, arrivals="poisson", mean_gap_s=1.0)
    playing = RolloutEnvironment([course], SMALL, size=16, rollouts=2, jobs_shown=60, episodes_each=4)
    playing.reset(seed=3, mean_episode_s=20.0)
    shard = playing._shards[0]
    lasted, lengths_ms = np.zeros(16), []
    for _ in range(120):
        rows = shard._episodes.row.copy()
        outcome = playing.step(observe(playing)["teacher"])
        lasted += outcome.elapsed_s
        for index in np.flatnonzero(outcome.ended):
            limit_ms = int(shard._episodes.time_limit_ms[rows[index]])
            assert lasted[index] * 1000 == pytest.approx(limit_ms, abs=1.0)
            lengths_ms.append(limit_ms)
            lasted[index] = 0.0
    assert len(lengths_ms) > 20
    # 32 draws of mean 20 s: their mean is within 2.5 standard deviations (3.5 s).
    assert shard._episodes.time_limit_ms.mean() / 1000 == pytest.approx(20.0, abs=9.0)
    assert shard._episodes.time_limit_ms.std() / 1000 > 8.0


# --- threads and courses ----------------------------------------------------------------------------


def two_courses() -> list[Course]:
    return [
        course_of(Cluster(executors=5), name="tpch", jobs=3),
        course_of(Cluster(executors=9), name="synthetic", jobs=2, arrivals="poisson", load=0.7),
    ]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(two_courses, id="two courses"),
        pytest.param(
            lambda: two_courses()[:1],
            id="one course",
        ),
    ],
)
def test_two_threads_do_what_one_does(make: Callable[[], list[Course]]):
    one, two = (
        all_of(RolloutEnvironment(make(), SMALL, size=8, rollouts=2, jobs_shown=3, threads=threads), 5, 60.0)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_two_threads_play_given_episodes_in_their_order():
    course = replace(two_courses()[0], cost_scale_s=0.001)
    seeds = [7, 5, 3, 1]
    expected = [simulate(course.draw(seed), FIFO, course.cluster, seed=seed).reward for seed in seeds]
    for threads in (1, 2):
        playing = RolloutEnvironment([course], SMALL, size=4, rollouts=2, jobs_shown=3, threads=threads)
        playing.reset_to(seeds)
        assert observe(playing)["sequence"].tolist() == seeds
        assert follow_teacher(playing).tolist() == expected


def test_courses_stand_side_by_side():
    """Each course has its half of the environments, its own cluster and its own scale."""
    courses = [
        replace(course, cost_scale_s=scale) for course, scale in zip(two_courses(), (1.0, 4.0), strict=True)
    ]
    playing = RolloutEnvironment(courses, SMALL, size=4, jobs_shown=3)
    playing.reset_to([0, 1, 0, 1])
    assert observe(playing)["cluster"][:, 0].tolist() == [5, 5, 9, 9]
    rewards = follow_teacher(playing)
    for index, (course, seed) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        alone = simulate(courses[course].draw(seed), FIFO, courses[course].cluster, seed=seed)
        scale_ms = 1000.0 * courses[course].cost_scale_s
        assert rewards[index] == pytest.approx(alone.reward / scale_ms, rel=1e-5)


# --- what is told beside the view -------------------------------------------------------------------


def test_a_course_of_more_weight_has_more_environments():
    """Of four shards, three belong to the first course, which is the one with three executors."""
    heavy = replace(course_of(Cluster(executors=3), name="tpch", jobs=3), weight=3)
    light = course_of(Cluster(executors=5), name="tpch", jobs=3)
    playing = RolloutEnvironment([heavy, light], SMALL, size=8, jobs_shown=3)
    playing.reset(0, FOREVER)
    executors = observe(playing)["cluster"][:, EXECUTOR_COUNT]
    assert executors.tolist() == [3, 3, 3, 3, 3, 3, 5, 5]


def test_first_episodes_may_begin_in_their_midst_with_the_teachers_play():
    course = course_of(Cluster(executors=5), rule("fair"), name="tpch", jobs=6)
    staggered = replace(course, usual_length_s=100.0)  # less than any of the episodes takes
    playing = RolloutEnvironment([staggered], SMALL, size=16, rollouts=2, jobs_shown=6)
    playing.reset(0, FOREVER)
    ages = observe(playing)["jobs"][..., AGE_S].max(1)
    assert np.unique(ages).size == 8  # every group elsewhere
    np.testing.assert_array_equal(ages[::2], ages[1::2])  # neighbours at the same point
    assert (ages > 0).all()
    outcome = playing.step(observe(playing)["teacher"])
    assert (outcome.elapsed_s < ages.max()).all()  # the time before the first decision is not charged
    playing.reset_to(range(16))
    assert observe(playing)["jobs"][..., AGE_S].max() == 0  # given episodes begin at their beginning


def test_the_critic_is_told_the_arrivals_to_come_by_hand():
    """Jobs at 0, 10, 50 and 1000 s, each of 3 tasks of 2 s on 2 executors: 3 cluster-seconds a job.

    Within 20 s one more comes, within 60 s (and 200, and 600) two.
    """
    always = {1: [2000]}
    stage = StageRecord(3, fresh=always, first_wave=always, later_wave=always)
    profile = build_profile([JobRecord("one", [stage])])
    arrivals = np.array([0, 10_000, 50_000, 1_000_000])
    workload = Workload(profile, np.zeros(4, np.int64), arrivals, Provenance("by hand"))
    playing = RolloutEnvironment([trace_course(Cluster(executors=2), workload)], SMALL, size=1, jobs_shown=4)
    playing.reset_to([0])
    future = observe(playing)["future"][0]
    assert future[:4] == pytest.approx([math.log1p(jobs) / 3 for jobs in (1, 2, 2, 2)])
    assert future[4:] == pytest.approx([math.log1p(3 * jobs) / 4 for jobs in (1, 2, 2, 2)])


def test_without_a_teacher_nothing_is_labelled():
    course = replace(course_of(Cluster(executors=4), name="tpch", jobs=2), teacher=None)
    playing = RolloutEnvironment([course], SMALL, size=2, jobs_shown=2)
    playing.reset(seed=0, mean_episode_s=FOREVER)
    assert not observe(playing)["teacher"].any()


def test_without_a_limit_head_the_only_limit_is_the_whole_cluster():
    course = course_of(Cluster(executors=8), rule("fair"), name="tpch", jobs=4)
    playing = RolloutEnvironment([course], replace(SMALL, limit_head=False), size=2, jobs_shown=4)
    playing.reset_to([0, 1])
    for _ in range(30):
        teacher = observe(playing)["teacher"]
        assert not teacher[:, 1].any()
        playing.step(teacher)
        sent = playing._shards[0]._actions
        assert (sent[sent[:, 0] >= 0, 1] == 8).all()


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"size": 6, "rollouts": 4},
            "6 environments cannot be split into 1 shards of groups of 4; choose a multiple of 4",
        ),
        ({"size": 6, "threads": 4}, "choose a multiple of 4"),
        ({"size": 4, "stages_shown": 3}, "stages_shown = 3, but a job has 18 stages"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(settings, message):
    course = course_of(Cluster(executors=4), name="tpch", jobs=2)
    with pytest.raises(SettingsError, match=message) as caught:
        RolloutEnvironment([course], SMALL, jobs_shown=2, **settings)
    assert "\n" not in str(caught.value)


def test_a_cluster_with_other_classes_is_refused_in_one_line():
    course = course_of(FOUR_SIZES, name="tpch", jobs=2, random_memory=True)
    with pytest.raises(SettingsError, match="has 4 executor classes, the network was made for 1") as caught:
        RolloutEnvironment([course], SMALL, size=1, jobs_shown=2)
    assert "\n" not in str(caught.value)


def test_an_answer_outside_the_mask_is_refused():
    """The last stage of the tiny job has parents, and at first nobody is busy, so none may idle."""
    course = course_of(Cluster(executors=4), name="tiny:diamond", jobs=1, arrivals="trace")
    playing = RolloutEnvironment([course], SMALL, size=2, jobs_shown=1)
    for answer in (3, 4):
        playing.reset_to([0, 1])
        observe(playing)
        with pytest.raises(ActionError, match=r"environment 1: action .* is outside the mask"):
            playing.step(np.array([[0, 0], [answer, 0]], np.int32))


def test_more_stages_may_be_shown_than_there_are():
    """So that one compiled network serves several workloads: the answer is read by the same rule."""
    course = replace(course_of(Cluster(executors=6), name="tpch", jobs=3), cost_scale_s=0.001)
    playing = RolloutEnvironment([course], SMALL, size=2, jobs_shown=5, stages_shown=40)
    playing.reset_to([0, 1])
    assert observe(playing)["children"].shape == (2, 5, 40, 2)
    expected = [simulate(course.draw(seed), FIFO, course.cluster, seed=seed).reward for seed in (0, 1)]
    assert follow_teacher(playing).tolist() == expected
