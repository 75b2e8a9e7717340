"""Small problems with numbers for actions whose best policy is known, as tasks of off-policy learning."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape
from trimtab.learning.off_policy_task import Outcome
from trimtab.learning.replay import Layout
from trimtab.networks.contextual_actor import ContextualActor


class Ticking:
    """A clock that moves a second at each look."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class ContinuousToy:
    """The common part: luck, and a score that is played with the numpy form of the actor."""

    layout: Layout
    steps = 20

    def __init__(self, settings: OffPolicySettings, size: int = 16) -> None:
        self.settings, self.size = settings, size

    def reset(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.age = 0
        self.known: Any = None

    def privileged(self) -> NDArray[np.float32] | None:
        return None

    def teacher(self, observation: NDArray[np.float32]) -> NDArray[np.float32] | None:
        return None

    def score(self, parameters: Any) -> dict[str, float]:
        shape = LearnerShape.of(self.settings, self.layout)
        return {"score": -self.mean_reward(parameters, shape)}

    def mean_reward(self, parameters: Any, shape: LearnerShape, size: int = 64) -> float:
        """Play fresh luck without noise."""
        field = type(self)(self.settings, size)
        field.reset(999)
        actor = ContextualActor(parameters, shape.networks, shape.encoder, systems=size)
        rewards = []
        for _ in range(self.steps):
            observation = field.observe()
            actions = actor.decide(observation)
            outcome = field.step(actions)
            rewards.append(outcome.rewards.mean())
            self.told, self.true = actor.profile, field.known
            actor.tell(observation, actions, outcome.rewards, outcome.terminated, outcome.renewed)
        return float(np.mean(rewards))

    def describe(self) -> dict[str, Any]:
        return {"toy": type(self).__name__}

    def observe(self) -> NDArray[np.float32]:
        raise NotImplementedError

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        raise NotImplementedError

    def outcome(self, rewards: Any, *, terminated: bool, truncated: bool, renewed: bool) -> Outcome:
        flags = [np.full(self.size, flag) for flag in (terminated, truncated, renewed)]
        return Outcome(np.asarray(rewards, np.float32), *flags, seen=self.observe())


class Aim(ContinuousToy):
    """One step at a time: the cost is the squared distance to what is seen, halved and turned."""

    layout = Layout(observation=2, actions=2)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.at = self.random.uniform(-1, 1, (self.size, 2))

    def observe(self) -> NDArray[np.float32]:
        return self.at.astype(np.float32)

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        wanted = np.stack([0.5 * self.at[:, 1], -0.5 * self.at[:, 0]], axis=1)
        rewards = -np.square(actions - wanted).sum(axis=1)
        outcome = self.outcome(rewards, terminated=True, truncated=False, renewed=False)
        self.at = self.random.uniform(-1, 1, (self.size, 2))
        return outcome


class Choice(ContinuousToy):
    """Three numbers, of which the largest is what is chosen: the place that is marked pays 1."""

    layout = Layout(observation=3, actions=3)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.marked = self.random.integers(0, 3, self.size)

    def observe(self) -> NDArray[np.float32]:
        return np.eye(3, dtype=np.float32)[self.marked]

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        rewards = actions.argmax(axis=1) == self.marked
        outcome = self.outcome(rewards, terminated=True, truncated=False, renewed=False)
        self.marked = self.random.integers(0, 3, self.size)
        return outcome


class Regulator(ContinuousToy):
    """Keep three numbers near 0: x' = x + B a + luck, cost x.x + 0.1 a.a; episodes are cut after 20 steps.

    The best policy of such a linear-quadratic problem is linear; `optimal_gain` solves for it.
    """

    layout = Layout(observation=3, actions=2)
    push = np.array([[0.5, 0.0, 0.25], [0.0, 0.5, -0.25]])
    keep = np.diag([0.9, 0.9, 0.8])
    effort = 0.1

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.at = self.random.uniform(-0.7, 0.7, (self.size, 3))

    def observe(self) -> NDArray[np.float32]:
        return self.at.astype(np.float32)

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        actions = np.clip(actions, -1, 1)
        cost = np.square(self.at).sum(axis=1) + self.effort * np.square(actions).sum(axis=1)
        luck = 0.1 * self.random.normal(size=self.at.shape)
        self.at = self.at @ self.keep + actions @ self.push + luck
        self.age += 1
        over = self.age % 20 == 0
        outcome = self.outcome(-cost, terminated=False, truncated=over, renewed=over)
        if over:
            self.at = self.random.uniform(-0.7, 0.7, (self.size, 3))
        return outcome

    @classmethod
    @cache
    def optimal_gain(cls, discount: float) -> NDArray[np.float64]:
        """Iterate Riccati's equation for row vectors: a = -x K."""
        move, push, worth = cls.keep.T, cls.push.T, np.eye(3)
        for _ in range(500):
            inner = cls.effort * np.eye(2) + discount * push.T @ worth @ push
            gain = np.linalg.solve(inner, discount * push.T @ worth @ move)
            worth = np.eye(3) + discount * move.T @ worth @ (move - push @ gain)
        return gain.T

    def cost_of(self, gain: NDArray[np.float64], size: int = 64) -> float:
        """What a linear policy costs, on the luck of `score`."""
        field = type(self)(self.settings, size)
        field.reset(999)
        return -float(
            np.mean([field.step(-field.observe() @ gain).rewards.mean() for _ in range(self.steps)])
        )


class Coached(Regulator):
    """The same with a teacher who does the right thing with two fifths of the force."""

    def teacher(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.taught(observation)

    @classmethod
    def taught(cls, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return (-0.4 * observation @ cls.optimal_gain(0.9)).astype(np.float32)


class Slopes(ContinuousToy):
    """A family: the cost is (a - slope x)**2, and the slope of a system shows only in what it pays.

    Systems live for 30 steps. Without a past the best action is 0, and costs E[slope**2] E[x**2] = 1/9.
    """

    layout = Layout(observation=1, actions=1, privileged=1)
    steps = 30

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self._renew()

    def _renew(self) -> None:
        self.slope = self.random.uniform(-1, 1, (self.size, 1))
        self.at = self.random.uniform(-1, 1, (self.size, 1))

    def observe(self) -> NDArray[np.float32]:
        return self.at.astype(np.float32)

    def privileged(self) -> NDArray[np.float32]:
        return self.slope.astype(np.float32)

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        rewards = -np.square(actions - self.slope * self.at)[:, 0]
        self.known = self.slope
        self.at = self.random.uniform(-1, 1, (self.size, 1))
        self.age += 1
        over = self.age % 30 == 0
        outcome = self.outcome(rewards, terminated=False, truncated=over, renewed=over)
        if over:
            self._renew()
        return outcome
