"""Small problems whose best policy is known, and agents just able to find it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.randomness import uniform
from trimtab.learning.agent import Acted, Agent, Judged, Observation, Parameters
from trimtab.learning.distributions import (
    Gaussian,
    allowed_log_probs,
    choice_entropy,
    choice_log_prob,
    gaussian_entropy,
    gaussian_log_prob,
    likeliest_choice,
    sample_choice,
    sample_gaussian,
)
from trimtab.learning.lessons import Lessons


class Toy:
    """The common part: a seed, a count of decisions, ones for seconds."""

    def __init__(self, size: int, rollouts: int = 1) -> None:
        self.size, self.rollouts = size, rollouts
        self.seed, self.count = 0, 0

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        self.seed, self.count = seed, 0
        self.mean_episode_s = mean_episode_s

    def luck(self, *names: int) -> NDArray[np.float64]:
        """One number per environment, equal within a group of rollouts."""
        return uniform(self.seed, np.arange(self.size) // self.rollouts, *names)

    def outcome(
        self, rewards: NDArray[Any], ended: NDArray[Any] | bool, elapsed_s: float = 1.0
    ) -> BatchOutcome:
        self.count += 1
        return BatchOutcome(
            np.asarray(rewards, np.float32),
            np.full(self.size, elapsed_s, np.float32),
            np.broadcast_to(ended, self.size).copy(),
        )


class Bandit(Toy):
    """Four contexts, three arms, the third never allowed: arm (context % 2) is right."""

    def observe(self) -> dict[str, NDArray[Any]]:
        self.context = (self.luck(self.count) * 4).astype(np.int32)
        return {
            "features": np.eye(4, dtype=np.float32)[self.context],
            "mask": np.broadcast_to([True, True, False], (self.size, 3)).copy(),
            "teacher": (self.context % 2).astype(np.int32)[:, None],
        }

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        assert actions.max() < 2
        return self.outcome(actions[:, 0] == self.context % 2, True)


class Gamble(Toy):
    """Hold and get nothing, play safe for 0.2, or gamble: 1 at heads, -2 at tails, and nobody knows the coin.

    All three are looked at for every second decision; in hindsight gambling is best half of the time.
    """

    def observe(self) -> dict[str, NDArray[Any]]:
        heads = self.luck(self.count, 1) < 0.5
        looked = self.luck(self.count, 2) < 0.5
        self.pays = np.stack([0 * heads, 0.2 + 0 * heads, np.where(heads, 1.0, -2.0)], axis=1)
        return {
            "features": np.ones((self.size, 1), np.float32),
            "mask": np.ones((self.size, 3), bool),
            "alternatives": np.broadcast_to(np.arange(3, dtype=np.int32)[:, None], (self.size, 3, 1)).copy(),
            "offered": np.repeat(looked[:, None], 3, axis=1),
            "gains": np.where(looked[:, None], self.pays, 1e6).astype(np.float32),
        }

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        return self.outcome(self.pays[np.arange(self.size), actions[:, 0]], True)


class Chain(Toy):
    """Five steps; going right all the way pays 1 at the end, going left pays 0.1 and starts over."""

    length = 5

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        super().reset(seed, mean_episode_s)
        self.place = np.zeros(self.size, int)

    def observe(self) -> dict[str, NDArray[Any]]:
        return {
            "features": np.eye(self.length, dtype=np.float32)[self.place],
            "mask": np.ones((self.size, 2), bool),
        }

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        right = actions[:, 0] == 1
        arrived = right & (self.place == self.length - 1)
        self.place = np.where(right & ~arrived, self.place + 1, 0)
        return self.outcome(np.where(arrived, 1.0, np.where(right, 0.0, 0.1)), arrived | ~right)


class Exam(Toy):
    """Five questions, each with a right answer; only at the end the marks are paid, plus some luck.

    The luck is that of the workload: it is the same for all rollouts of a group.
    """

    questions = 5

    def __init__(self, size: int, rollouts: int = 1, luck: float = 0.0) -> None:
        super().__init__(size, rollouts)
        self.spread = luck

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        super().reset(seed, mean_episode_s)
        self.marks = np.zeros(self.size)

    def observe(self) -> dict[str, NDArray[Any]]:
        question = self.count % self.questions
        return {
            "features": np.eye(self.questions, dtype=np.float32)[np.full(self.size, question)],
            "sequence": np.arange(self.size) // self.rollouts % 3,
        }

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        question = self.count % self.questions
        self.marks += actions[:, 0] == question % 2
        last = question == self.questions - 1
        paid = (self.marks + self.spread * (self.luck(self.count) - 0.5)) * last
        self.marks *= not last
        return self.outcome(paid, last)


class Coordination(Toy):
    """Two agents see the same of two signals; both must name it, or nothing is paid."""

    def observe(self) -> dict[str, NDArray[Any]]:
        self.signal = (self.luck(self.count) * 2).astype(np.int32)
        return {"features": np.eye(2, dtype=np.float32)[self.signal]}

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        return self.outcome((actions == self.signal[:, None]).all(axis=1), True)


class Target(Toy):
    """One step, one number: the cost is the squared distance to 2 x - 0.5."""

    def observe(self) -> dict[str, NDArray[Any]]:
        self.at = (2 * self.luck(self.count) - 1).astype(np.float32)
        features = np.stack([self.at, np.ones(self.size, np.float32)], axis=1)
        return {"features": features, "teacher": (2 * self.at - 0.5)[:, None]}

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        return self.outcome(-np.square(actions[:, 0] - (2 * self.at - 0.5)), True)


def linear_agent(features: int, actions: int, agents: int = 1) -> Agent:
    """Choices by a table: logits and value are linear in the features."""

    def init(key: jax.Array) -> Parameters:
        small = 0.01 * jax.random.normal(key, (features, agents, actions))
        return {"policy": {"weight": small}, "value": [jnp.zeros(features)]}

    def log_probs(parameters: Parameters, observation: Observation) -> jax.Array:
        logits = jnp.einsum("bf,fga->bga", observation["features"], parameters["policy"]["weight"])
        mask = observation.get("mask")
        return allowed_log_probs(logits, jnp.ones_like(logits, bool) if mask is None else mask[:, None])

    def value(parameters: Parameters, observation: Observation) -> jax.Array:
        return observation["features"] @ parameters["value"][0]

    def shaped(per_agent: jax.Array) -> jax.Array:
        return per_agent[:, 0] if agents == 1 else per_agent

    def act(parameters: Parameters, observation: Observation, key: jax.Array) -> Acted:
        chances = log_probs(parameters, observation)
        action = sample_choice(key, chances)
        return Acted(action, shaped(choice_log_prob(chances, action)), value(parameters, observation))

    def judge(parameters: Parameters, observation: Observation, action: jax.Array) -> Judged:
        chances = log_probs(parameters, observation)
        taken = shaped(choice_log_prob(chances, action))
        return Judged(taken, shaped(choice_entropy(chances)), value(parameters, observation))

    def best(parameters: Parameters, observation: Observation) -> jax.Array:
        return likeliest_choice(log_probs(parameters, observation))

    def doubting(parameters: Parameters, factor: float) -> Parameters:
        return {**parameters, "policy": {"weight": factor * parameters["policy"]["weight"]}}

    def summary(parameters: Parameters, observation: Observation) -> jax.Array:
        return observation["features"]

    return Agent(init, act, judge, best, summary, doubting)


def bell_agent(features: int) -> Agent:
    """A number by a bell curve whose mean is linear in the features."""

    def init(key: jax.Array) -> Parameters:
        return {"mean": jnp.zeros((features, 1)), "log_spread": jnp.zeros(1), "value": jnp.zeros(features)}

    def curve(parameters: Parameters, observation: Observation) -> Gaussian:
        mean = observation["features"] @ parameters["mean"]
        return Gaussian(mean, jnp.broadcast_to(parameters["log_spread"], mean.shape))

    def value(parameters: Parameters, observation: Observation) -> jax.Array:
        return observation["features"] @ parameters["value"]

    def act(parameters: Parameters, observation: Observation, key: jax.Array) -> Acted:
        bell = curve(parameters, observation)
        action = sample_gaussian(key, bell)
        return Acted(action, gaussian_log_prob(bell, action), value(parameters, observation))

    def judge(parameters: Parameters, observation: Observation, action: jax.Array) -> Judged:
        bell = curve(parameters, observation)
        log_prob = gaussian_log_prob(bell, action)
        return Judged(log_prob, gaussian_entropy(bell), value(parameters, observation))

    return Agent(init, act, judge, lambda parameters, observation: curve(parameters, observation).mean)


class ToyTask:
    """A toy as a task: the score is minus the mean reward of the best actions on fresh luck."""

    def __init__(self, agent: Agent, lanes: Sequence[Toy], lessons: Sequence[Lessons] = ()) -> None:
        self.agent, self.lanes, self.lessons = agent, lanes, lessons
        self._best = jax.jit(agent.best)

    def score(self, parameters: Parameters) -> dict[str, float]:
        field = type(self.lanes[0])(64)
        field.reset(999, np.inf)
        rewards = []
        for _ in range(20):
            actions = np.asarray(self._best(parameters, field.observe()))
            rewards.append(field.step(actions).rewards.mean())
        return {"score": -float(np.mean(rewards))}

    def describe(self) -> dict[str, Any]:
        return {"toy": type(self.lanes[0]).__name__}
