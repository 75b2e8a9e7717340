"""What off-policy learning learns from: environments that step together, or a log of what was done."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import split
from trimtab.learning.agent import Parameters
from trimtab.learning.replay import Layout, Replay, Steps

__all__ = ["Before", "OffPolicyTask", "Outcome", "looked", "recorded", "step_rows"]


class Outcome(NamedTuple):
    """What one step of all environments led to; each array has one entry, or row, per environment."""

    rewards: NDArray[Any]
    terminated: NDArray[Any]
    """The episode ended, and nothing was to follow."""
    truncated: NDArray[Any]
    """The episode ended because somebody stopped watching."""
    renewed: NDArray[Any]
    """The next step is of another system: what was learned about this one is void."""
    seen: NDArray[Any]
    """Observations the step led to, before any new episode begins."""
    actions: NDArray[Any] | None = None
    """What was carried out, where that may differ from what was asked (a guard, a teacher that acts)."""
    measured: Mapping[str, NDArray[Any]] | None = None
    """Further numbers whose means are to be written down."""


class OffPolicyTask(Protocol):
    """What to learn: environments that step together, each beginning anew by itself where an episode ends."""

    @property
    def layout(self) -> Layout:
        """Sizes of observations, actions and of what only a simulator knows."""
        ...

    @property
    def size(self) -> int:
        """How many environments there are."""
        ...

    def reset(self, seed: int) -> None:
        """Begin everywhere anew."""
        ...

    def observe(self) -> NDArray[np.float32]:
        """What is seen now: [environments, observation]."""
        ...

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        """Decide everywhere, [environments, actions]; a choice among several goes to the largest number."""
        ...

    def privileged(self) -> NDArray[np.float32] | None:
        """What only a simulator knows of each system, [environments, privileged], if there is any."""
        ...

    def teacher(self, observation: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """What a rule would do now, in terms of these actions, if there is one."""
        ...

    def score(self, parameters: Parameters) -> dict[str, float]:
        """Play validation workloads; ``score`` is what counts, lower is better."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say what is trained on, for whoever finds the folder."""
        ...


class Before(NamedTuple):
    """What there is to know before a step."""

    observation: NDArray[np.float32]
    guide: NDArray[np.float32] | None
    privileged: NDArray[np.float32] | None


def looked(task: OffPolicyTask) -> Before:
    """Look at a task; copied, since what is on its way to the device must not change."""
    observation = np.array(task.observe(), np.float32)
    return Before(observation, task.teacher(observation), task.privileged())


def step_rows(
    layout: Layout, before: Before, actions: NDArray[np.float32], outcome: Outcome, *, guides: bool = False
) -> NDArray[np.float32]:
    """A step of all environments as rows of a replay; `guides`: for want of a teacher, what was done."""
    done = actions if outcome.actions is None else outcome.actions
    guided = np.full((len(done), 1), guides or before.guide is not None)
    ended = outcome.terminated | outcome.truncated
    rows = Steps(
        observation=before.observation,
        action=done,
        reward=outcome.rewards[:, None],
        ended=ended[:, None],
        renewed=outcome.renewed[:, None],
        next_observation=outcome.seen,
        terminated=outcome.terminated[:, None],
        guide=done if before.guide is None else before.guide,
        guided=guided,
        privileged=np.zeros((len(done), 0)) if before.privileged is None else before.privileged,
    )
    return layout.joined(rows)


def recorded(
    task: OffPolicyTask,
    decide: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    *,
    steps: int,
    seed: int,
) -> Replay:
    """A log of some controller, which maps observations to actions.

    The teacher, where the task has one, is what the log is labelled with; else the controller is.
    """
    task.reset(split(seed, "record"))
    log: list[NDArray[np.float32]] = []
    for _ in range(steps):
        before = looked(task)
        actions = np.asarray(decide(before.observation), np.float32)
        log.append(step_rows(task.layout, before, actions, task.step(actions), guides=True))
    replay = Replay.of(task.layout, np.stack(log))
    replay.cut()
    return replay
