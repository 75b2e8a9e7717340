"""The masks are the simulator's: what they allow is carried out, and nothing is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.dag_scheduling.decima_networks import COURSES, DESIGNS, SMALL, STREAM
from tests.dag_scheduling.test_decima_view import (
    FOUR_SIZES,
    course_of,
    look,
    masked_choices,
    observe,
    view_in,
)

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.network import Design, limit_scores, limits_of, new_network, stage_scores
from trimtab.dag_scheduling.decima.rollouts import Course, RolloutEnvironment
from trimtab.dag_scheduling.decima.view import child_words, view_of, words_for
from trimtab.dag_scheduling.problem import Snapshot, choices, executors_sent

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow


def classed(design: Design, course: Course) -> Design:
    return replace(design, classes=len(course.cluster.class_memory))


@pytest.mark.parametrize("design_name", DESIGNS)
@pytest.mark.parametrize("course_name", COURSES)
def test_whatever_the_masks_allow_the_simulator_carries_out(course_name, design_name):
    """Whole episodes of any masked answers: a refusal would raise, a teacher outside the mask is one too."""
    course = COURSES[course_name]
    design = classed(DESIGNS[design_name], course)
    parameters, random = new_network(design, 0), np.random.default_rng(1)
    playing = RolloutEnvironment([course], design, size=3, jobs_shown=course.draw(0).job_count)
    playing.reset_to(range(3))
    ended = np.zeros(3, bool)
    while not ended.all():
        observation = observe(playing)
        view, teacher = view_in(observation), observation["teacher"]
        answers, choice_mask, limit_mask = masked_choices(
            parameters, view, design, course.cluster.executors, random
        )
        assert choice_mask.any(1).all() and limit_mask.any(1).all()
        allowed = np.take_along_axis(choice_mask, teacher[:, :1].astype(np.int64), 1)[:, 0]
        # The published agent never idles, whatever its teacher does.
        assert (allowed | (design.paper & (teacher[:, 0] == choice_mask.shape[1] - 1))).all()
        ended |= playing.step(answers).ended


def offered_limits(snapshot: Snapshot, design: Design) -> dict[tuple[int, int], list[int]]:
    """By (stage, class) in the choice mask: the limits in the limit mask."""
    bits = child_words(snapshot.child_offset, snapshot.child, words_for(len(snapshot.scratch)))
    shown = view_of(snapshot, bits)
    parameters = new_network(design, 0)
    scores = stage_scores(parameters, shown.view, design, np)
    offered = {}
    for choice in np.flatnonzero(scores.mask[0, :-1]):
        _, mask, limits = limit_scores(
            parameters, scores, np.array([choice]), design, snapshot.executor_count, np
        )
        action = v.action_of(shown, snapshot, int(choice), 0)
        offered[int(action.stage), int(action.executor_class)] = limits[0][mask[0]].astype(int).tolist()
    return offered


def sent(snapshot: Snapshot, stage: int, limits: Sequence[int], executor_class: int) -> list[int]:
    job = int(np.searchsorted(snapshot.first_stage, stage, side="right")) - 1
    return [int(executors_sent(snapshot, job, stage, limit, executor_class)) for limit in limits]


@pytest.mark.parametrize("design_name", ["ours", "paper, every limit", "no limit head"])
@pytest.mark.parametrize("course_name", ["stream", "four sizes"])
def test_all_that_is_on_offer_sends_somebody_and_nothing_is_left_out(course_name, design_name):
    """The choice mask is `problem.choices`; the limit mask has one limit for each number it can send."""
    course = COURSES[course_name]
    design = classed(DESIGNS[design_name], course)
    count = course.cluster.executors
    known = limits_of(np.array([count], np.float32), design, count, np)[0].astype(int).tolist()
    playing = RolloutEnvironment([course], design, size=3, jobs_shown=6)
    playing.reset_to(range(3))
    parameters, random = new_network(design, 0), np.random.default_rng(2)
    for _ in range(25):
        for snapshot in look(playing):
            offered = offered_limits(snapshot, design)
            active = {
                (int(stage), int(kind))
                for stage, kind in np.argwhere(choices(snapshot))
                if stage // len(snapshot.scratch) in snapshot.jobs
            }
            assert offered.keys() == active and active
            for (stage, kind), limits in offered.items():
                counts = sent(snapshot, stage, limits, kind)
                assert limits and min(counts) > 0
                if not design.limit_head:
                    assert limits == [count]
                elif design.limits == 0:
                    every = sent(snapshot, stage, range(count, 0, -1), kind)
                    assert len(limits) == sum(number > 0 for number in every)
                else:
                    possible = {number for number in sent(snapshot, stage, known, kind) if number > 0}
                    assert len(counts) == len(set(counts)) and set(counts) == possible
        answers, _, _ = masked_choices(parameters, view_in(observe(playing)), design, count, random)
        playing.step(answers)


def test_idling_is_on_offer_where_it_cannot_stop_the_cluster_and_never_in_the_paper():
    parameters = new_network(SMALL, 0)
    playing = RolloutEnvironment([STREAM], SMALL, size=4, jobs_shown=6)
    playing.reset_to(range(4))
    random, seen = np.random.default_rng(0), set()
    paper = DESIGNS["paper, every limit"]
    for _ in range(30):
        view = view_in(observe(playing))
        may_idle = [bool(snapshot.may_idle) for snapshot in look(playing)]
        answers, mask, _ = masked_choices(parameters, view, SMALL, 9, random)
        assert mask[:, -1].tolist() == may_idle
        assert not stage_scores(new_network(paper, 0), view, paper, np).mask[:, -1].any()
        seen.update(may_idle)
        playing.step(answers)
    assert seen == {True, False}


def play_crowded(course: Course, design: Design, shown: int) -> None:
    """A while with more jobs than room: something must always be on offer."""
    parameters, random = new_network(design, 0), np.random.default_rng(0)
    playing = RolloutEnvironment([course], design, size=8, jobs_shown=shown)
    playing.reset_to(range(8))
    for _ in range(100):
        observation = observe(playing)
        answers, mask, _ = masked_choices(
            parameters, view_in(observation), design, course.cluster.executors, random
        )
        assert mask.any(1).all(), "nothing on offer"
        labels = np.take_along_axis(mask, observation["teacher"][:, :1].astype(np.int64), 1)
        assert course.teacher is None or labels.all(), "the teacher's choice is not on offer"
        playing.step(answers)


def crowd(cluster: Cluster, *, taught: bool = False, **settings: Any) -> Course:
    course = course_of(cluster, name="tpch", jobs=12, **settings)
    return course if taught else replace(course, teacher=None)


@pytest.mark.parametrize("shown", [1, 2, 5])
def test_with_more_jobs_than_room_something_is_on_offer(shown):
    play_crowded(crowd(Cluster(executors=10)), SMALL, shown)


def test_with_more_jobs_than_room_something_is_on_offer_to_every_class():
    play_crowded(crowd(FOUR_SIZES, random_memory=True), replace(SMALL, classes=4), 2)


def test_one_row_is_enough_for_the_paper():
    play_crowded(crowd(Cluster(executors=10)), DESIGNS["paper, every limit"], 1)


def test_with_more_jobs_than_room_the_teacher_stays_inside_the_mask():
    play_crowded(crowd(Cluster(executors=10), taught=True), SMALL, 3)


def test_with_every_limit_on_offer_clusters_of_two_sizes_share_a_network():
    design = DESIGNS["every limit"]
    courses = [course_of(Cluster(executors=size), name="tiny:two-jobs", jobs=2) for size in (3, 8)]
    playing = RolloutEnvironment(courses, design, size=4, jobs_shown=2)
    playing.reset_to(range(4))
    # First the numbering itself: what lies behind the end of an array may pass for a limit by chance.
    for shard, size in zip(playing._shards, (3, 8), strict=True):
        numbered = limits_of(np.array([size], np.float32), design, 8, np)[0]
        np.testing.assert_array_equal(shard._limits, numbered)
    parameters, random = new_network(design, 0), np.random.default_rng(0)
    for _ in range(50):
        answers, _, _ = masked_choices(parameters, view_in(observe(playing)), design, 8, random)
        playing.step(answers)
