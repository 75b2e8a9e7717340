"""Lessons: what an answer would have been worth, found out by trying several in copies of the same moment.

While somebody acts on the services, some moments are set aside. Each is copied as often as there are answers
to try; an answer is held for some intervals, then whoever acts goes on alone for some more. All copies meet
the same requests with the same luck, so the difference in what they earn is the answer's doing and hardly
chance: a hundredth of what a service costs can be told from noise, which rewards alone, whose spread is a
hundred times that, could not in any time one has.

A lesson is a step that ends at once, and its reward what the answer earned more than that of whoever acts,
per interval it was held. A critic that learns from lessons with no future (discount 0) so learns advantages;
they are with respect to whoever acted, and rounds of lessons in which the last learner acts make policy
iteration.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import split
from trimtab.learning.replay import Replay, Steps
from trimtab.pod_autoscaling.aware.task import AwareTask

__all__ = ["Actor", "collect_lessons"]

Actor = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Answers [E, actions] to observations [E, numbers]."""

_NEAR = 0.3
_LARGEST = 5.0


def collect_lessons(
    task: AwareTask,
    count: int,
    *,
    seed: int,
    actor: Actor | None = None,
    candidates: int = 8,
    hold: int = 4,
    follow: int = 8,
    every: int = 6,
    share: float = 0.25,
    spread: float = 0.15,
) -> Replay:
    """Lessons from at least so many moments; `actor` acts and goes on, or the rule where there is none.

    Every `every` intervals a share of the services is set aside. Whoever acts does so with some noise
    (`spread`), lest only its own ways are learned about.
    """
    random = np.random.default_rng(split(seed, "lessons"))
    task.reset(split(seed, "services"))
    found: list[NDArray[np.float32]] = []
    moments = 0
    while moments < count:
        for _ in range(every):
            answers = _answers(task, actor)
            noise = random.normal(0, spread, answers.shape)
            task.step(np.clip(answers + noise, -1, 1).astype(np.float32))
        rows = np.sort(random.permutation(task.size)[: max(1, round(share * task.size))])
        found.append(_lessons_of(task, rows, actor, random, candidates=candidates, hold=hold, follow=follow))
        moments += len(rows)
    rows_of_all = np.concatenate(found)
    return Replay.of(task.layout, rows_of_all[:, None])


def _answers(task: AwareTask, actor: Actor | None) -> NDArray[np.float32]:
    observation = task.observe()
    return task.teacher(observation) if actor is None else actor(observation)


def _lessons_of(
    task: AwareTask,
    rows: NDArray[np.int64],
    actor: Actor | None,
    random: np.random.Generator,
    *,
    candidates: int,
    hold: int,
    follow: int,
) -> NDArray[np.float32]:
    """Lessons of these services at this moment, as rows of a replay."""
    layout, observation = task.layout, task.observe()[rows]
    usual = _answers(task, actor)[rows]
    tried = random.uniform(-1, 1, (candidates, *usual.shape)).astype(np.float32)
    tried[0] = usual
    # Near ones teach the slope, far ones where it ends.
    near = slice(1, 1 + (candidates - 1) // 2)
    tried[near] = np.clip(usual + random.normal(0, _NEAR, tried[near].shape), -1, 1)
    copies = task.copied(np.tile(rows, candidates))
    answers = tried.reshape(-1, tried.shape[-1])
    earned = np.zeros(len(answers))
    for number in range(hold + follow):
        if number >= hold:
            answers = _answers(copies, actor)
        outcome = copies.step(answers)
        earned += outcome.rewards
        if outcome.truncated.any():
            break
    earned = earned.reshape(candidates, len(rows))
    more = (earned - earned[0]) / hold
    every = tried.shape[0] * len(rows)
    one = np.ones((every, 1))
    steps = Steps(
        observation=np.tile(observation, (candidates, 1)),
        action=tried.reshape(every, -1),
        reward=np.clip(more, -_LARGEST, _LARGEST).reshape(-1, 1),
        ended=one,
        renewed=one,
        next_observation=np.tile(observation, (candidates, 1)),
        terminated=one,
        guide=np.tile(usual, (candidates, 1)),
        guided=one,
        privileged=np.tile(task.privileged()[rows], (candidates, 1)),
    )
    return layout.joined(steps)
