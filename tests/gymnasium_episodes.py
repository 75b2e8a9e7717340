"""Whole episodes of Gymnasium environments, for the tests of every wing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from trimtab.gymnasium_base.single import SeededEnv


class Played(NamedTuple):
    """What an agent was told in an episode."""

    seed: int
    observations: np.ndarray  # [T + 1, ...]; those of several parts are flat
    rewards: np.ndarray  # [T]
    terminated: list[bool]
    truncated: list[bool]
    infos: list[dict[str, Any]]  # [T + 1]

    @property
    def metrics(self) -> dict[str, float]:
        return self.infos[-1]["metrics"]


def play(env: Any, choose: Callable[[dict[str, Any]], Any], seed: int | None = None) -> Played:
    """One episode; `choose` gives the action for an info."""
    observation, info = env.reset(seed=seed)
    played = Played(info["seed"], np.array([]), np.array([]), [], [], [info])
    observations, rewards = [observation], []
    while not (played.truncated and (played.truncated[-1] or played.terminated[-1])):
        observation, reward, terminated, truncated, info = env.step(choose(info))
        observations.append(observation)
        rewards.append(reward)
        played.terminated.append(terminated)
        played.truncated.append(truncated)
        played.infos.append(info)
    if isinstance(env.observation_space, spaces.Dict):
        observations = [spaces.flatten(env.observation_space, one) for one in observations]
    return played._replace(observations=np.stack(observations), rewards=np.array(rewards))


def masked_samples(env: SeededEnv[Any], seed: int) -> Callable[[dict[str, Any]], Any]:
    """An agent that knows nothing but the mask, if there is one."""
    env.action_space.seed(seed)
    return lambda info: env.action_space.sample(mask=info.get("action_mask"))


def assert_same(one: Played, other: Played) -> None:
    """Two episodes are the same bit for bit."""
    assert one.seed == other.seed
    np.testing.assert_array_equal(one.observations, other.observations)
    np.testing.assert_array_equal(one.rewards, other.rewards)
    assert one.metrics == other.metrics


def assert_equal_seeds_are_equal_episodes(env: SeededEnv[Any], other: SeededEnv[Any]) -> None:
    """Bit for bit, in two environments alike, whatever was played before; without a seed each is another."""
    drawn = play(env, masked_samples(env, 4))  # no seed is given
    play(other, masked_samples(other, 9), seed=7)
    again = play(other, masked_samples(other, 4), seed=drawn.seed)
    assert_same(drawn, again)
    assert play(env, masked_samples(env, 4)).seed != drawn.seed
