"""Choices and scores of the network agents, carried out or refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu_scheduling.snapshots import Scene

from trimtab.core.errors import ActionError
from trimtab.gpu_scheduling.das.executing import action_of_choice, action_of_scores, parts_of_action
from trimtab.gpu_scheduling.problem import START, WAIT

NOBODY = -1


def scored(jobs: list[float], machines: list[list[float]]) -> np.ndarray:
    return np.concatenate([np.array(jobs), *(np.array(row) for row in machines)]).astype(np.float32)


def test_a_choice_starts_the_job_of_its_row_on_the_preferred_machines() -> None:
    scene = Scene([4, 4])
    scene.runs({0: 3})
    job = scene.waits(gpus=2)
    action = action_of_choice(scene.snapshot(), np.array([job, NOBODY]), np.array([0, 1, 0]))
    assert (action.verb, action.job, action.machines.tolist()) == (START, job, [1, 0])


def test_machines_that_only_padding_has_are_left_out() -> None:
    scene = Scene([4, 4])
    job = scene.waits(gpus=8)
    action = action_of_choice(scene.snapshot(), np.array([job]), np.array([0, 3, 1, 2, 0]))
    assert action.machines.tolist() == [1, 0]


def test_the_row_after_the_last_holds() -> None:
    scene = Scene([4])
    job = scene.waits(gpus=1)
    assert action_of_choice(scene.snapshot(), np.array([job, NOBODY]), np.array([2, 0])).verb == WAIT


def test_what_may_not_be_chosen_is_refused() -> None:
    scene = Scene([4])
    large, small = scene.waits(gpus=5), scene.waits(gpus=1)
    slots = np.array([large, small, NOBODY])
    seen = scene.snapshot()
    with pytest.raises(ActionError, match="row 2 of the window has no job; choose one below 2, or 3 to hold"):
        action_of_choice(seen, slots, np.array([2, 0]))
    with pytest.raises(ActionError, match="needs room for 1 more instances"):
        action_of_choice(seen, slots, np.array([0, 0]))
    scene.more_to_come = False
    with pytest.raises(ActionError, match="HOLD while nothing runs"):
        action_of_choice(scene.snapshot(), slots, np.array([3, 0]))


def test_scores_are_walked_through_from_the_highest_down() -> None:
    """The highest does not fit and is passed over; the next goes to the machine it prefers, then holds."""
    scene = Scene([4, 4])
    scene.runs({0: 1})
    oldest, large, small = scene.waits(gpus=4), scene.waits(gpus=8), scene.waits(gpus=3)
    slots = np.array([oldest, large, small, NOBODY])
    # For padding, the fourth row has the highest scores of all.
    scores = scored([1.0, 3.0, 2.0, 9.0], [[5, 1], [0, 0], [1, 2], [0, 0]])
    started = []
    for _ in range(3):
        seen = scene.snapshot()
        action = action_of_scores(seen, slots, scores)
        if action.verb == WAIT:
            break
        started.append((action.job, action.machines.tolist()))
        scene.act(action, seen)
    # The small one takes three GPUs of the second machine, so that the oldest is left with 3 + 1.
    assert started == [(small, [1]), (oldest, [0, 1])]


def test_equal_scores_go_by_arrival_and_by_number() -> None:
    scene = Scene([4, 4])
    first, second = scene.waits(gpus=1), scene.waits(gpus=1)
    action = action_of_scores(scene.snapshot(), np.array([first, second]), scored([0, 0], [[0, 0], [0, 0]]))
    assert (action.job, action.machines.tolist()) == (first, [0])


def test_broken_scores_are_refused() -> None:
    scene = Scene([4, 4])
    job = scene.waits(gpus=1)
    with pytest.raises(ActionError, match="2 scores for a window of 1 jobs on 2 machines"):
        action_of_scores(scene.snapshot(), np.array([job]), np.zeros(2))
    with pytest.raises(ActionError, match="some scores are not finite"):
        action_of_scores(scene.snapshot(), np.array([job]), np.array([0.0, np.nan, 0.0]))


def test_scores_that_start_nothing_where_nothing_runs_are_refused() -> None:
    """Only a window that was shown at another moment can lead there."""
    scene = Scene([4])
    scene.waits(gpus=1)
    scene.more_to_come = False
    with pytest.raises(ActionError, match="HOLD while nothing runs"):
        action_of_scores(scene.snapshot(), np.array([NOBODY]), np.zeros(2))


def test_an_answer_has_as_many_numbers_as_the_networks_give() -> None:
    assert parts_of_action("choices", 64, 13) == 14
    assert parts_of_action("scores", 64, 13) == 64 + 64 * 13
