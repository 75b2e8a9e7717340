"""Lessons: what an answer would have been worth, found out by trying several in copies of the same moment.

While somebody acts on the services, some moments are set aside. Each is copied as often as there are answers
to try; an answer is held for some intervals, then whoever acts goes on alone for some more. All copies meet
the same requests with the same luck, so the difference in what they earn is the answer's doing and hardly
chance: a hundredth of what a service costs can be told from noise, which rewards alone, whose spread is a
hundred times that, could not in any time one has.

What a lesson tells is what the answer held and what it let be late, each less than that of whoever acted; so
it can be told for any price of lateness. `advantages` makes of many lessons what answers are worth in
general, and a network copies the best ones. They are the best with respect to whoever acted: rounds of
lessons in which the last learner acts make policy iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import split
from trimtab.pod_autoscaling.aware.features import FEATURES, price_number
from trimtab.pod_autoscaling.aware.task import AwareTask
from trimtab.pod_autoscaling.problem import Floats

__all__ = ["Actor", "Lessons", "collect_lessons"]

Actor = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Answers [E, actions] to observations [E, numbers]."""

_NEAR = 0.3
_LARGEST = 2.0
"""More than this nothing is worth, per interval and core used: ruin is bad enough."""


class Lessons(NamedTuple):
    """Answers that were tried, one row each."""

    observation: NDArray[np.float32]  # [rows, numbers], with a price of lateness that means nothing yet
    answer: NDArray[np.float32]  # [rows, parts]
    usual: NDArray[np.float32]  # [rows, parts]: what whoever acted would have answered
    held: NDArray[np.float32]  # [rows]: held more than by the usual answer, per interval
    late: NDArray[np.float32]  # [rows]: and late more
    privileged: NDArray[np.float32]  # [rows, profile]

    @staticmethod
    def joined(several: Sequence[Lessons]) -> Lessons:
        """All of them, in order."""
        return Lessons(*(np.concatenate(parts) for parts in zip(*several, strict=True)))

    def at_prices(self, prices: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What was seen with a price for each row put in, and what the answers were worth at it."""
        observation = self.observation.copy()
        observation[:, len(FEATURES)] = price_number(prices)
        worth = -(self.held + prices * self.late)
        return observation, np.clip(worth, -_LARGEST, _LARGEST).astype(np.float32)


def collect_lessons(
    task: AwareTask,
    count: int,
    *,
    seed: int,
    actor: Actor | None = None,
    candidates: int = 8,
    hold: int = 4,
    follow: int = 6,
    every: int = 6,
    share: float = 0.25,
    spread: float = 0.15,
) -> Lessons:
    """Lessons from at least so many moments; `actor` acts and goes on, or the rule where there is none.

    Every `every` intervals a share of the services is set aside. Whoever acts does so with some noise
    (`spread`), lest only its own ways are learned about.
    """
    random = np.random.default_rng(split(seed, "lessons"))
    task.reset(split(seed, "services"))
    found: list[Lessons] = []
    moments = 0
    while moments < count:
        for _ in range(every):
            answers = _answers(task, actor)
            noise = random.normal(0, spread, answers.shape)
            task.step(np.clip(answers + noise, -1, 1).astype(np.float32))
        rows = np.sort(random.permutation(task.size)[: max(1, round(share * task.size))])
        found.append(_tried(task, rows, actor, random, candidates=candidates, hold=hold, follow=follow))
        moments += len(rows)
    return Lessons.joined(found)


def _answers(task: AwareTask, actor: Actor | None) -> NDArray[np.float32]:
    observation = task.observe()
    return task.teacher(observation) if actor is None else actor(observation)


def _tried(
    task: AwareTask,
    rows: NDArray[np.int64],
    actor: Actor | None,
    random: np.random.Generator,
    *,
    candidates: int,
    hold: int,
    follow: int,
) -> Lessons:
    """Lessons of these services at this moment; those of the usual answer itself are left out."""
    observation, usual = task.observe()[rows], _answers(task, actor)[rows]
    tried = random.uniform(-1, 1, (candidates, *usual.shape)).astype(np.float32)
    tried[0] = usual
    # Near ones teach the slope, far ones where it ends.
    near = slice(1, 1 + (candidates - 1) // 2)
    tried[near] = np.clip(usual + random.normal(0, _NEAR, tried[near].shape), -1, 1)
    copies = task.copied(np.tile(rows, candidates))
    answers = tried.reshape(-1, tried.shape[-1])
    spent = np.zeros((2, len(answers)))
    for number in range(hold + follow):
        if number >= hold:
            answers = _answers(copies, actor)
        outcome = copies.step(answers)
        measured = outcome.measured or {}
        spent += np.stack([measured["held"], measured["fined"]])
        if outcome.truncated.any():
            break
    spent = spent.reshape(2, candidates, len(rows))
    more = ((spent - spent[:, :1]) / hold)[:, 1:].reshape(2, -1)
    others = candidates - 1
    return Lessons(
        observation=np.tile(observation, (others, 1)),
        answer=tried[1:].reshape(others * len(rows), -1),
        usual=np.tile(usual, (others, 1)),
        held=more[0].astype(np.float32),
        late=more[1].astype(np.float32),
        privileged=np.tile(task.privileged()[rows], (others, 1)),
    )
