from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tests.learning.toys import Toy

from trimtab.core.environment import BatchEnvironment, BatchOutcome
from trimtab.learning.agent import Acted, Observation, Parameters
from trimtab.learning.rollouts import Rollout, collect, compiled


class Counter(Toy):
    """Shows its step and name; environment i ends every `lengths[i]` steps; pays ten times the action."""

    def __init__(self, *lengths: int, name: int = 0) -> None:
        super().__init__(len(lengths))
        self.lengths, self.name = np.array(lengths), name
        self.reset(0, np.inf)

    def observe(self) -> dict[str, NDArray[Any]]:
        return {"step": np.full(self.size, self.count, np.float32), "name": np.full(self.size, self.name)}

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        return self.outcome(10 * actions[:, 0], (self.count + 1) % self.lengths == 0)


def act_on_sight(parameters: Parameters, observation: Observation, key: jax.Array) -> Acted:
    """Step plus bias as action, a hundred times that as value: no luck involved."""
    action = observation["step"] + parameters["bias"]
    return Acted(action[:, None], -action, 100 * action)


def play(lanes: list[BatchEnvironment], horizon: int, whole_episodes: bool = False) -> Rollout:
    key = jax.random.PRNGKey(0)
    bias = {"bias": jnp.array(0.5)}
    return collect(lanes, compiled(act_on_sight), bias, key, horizon, whole_episodes=whole_episodes)


def test_every_row_belongs_together() -> None:
    """At step t the action is t + 0.5, which pays 10 t + 5; the value after three steps is 350."""
    rollout = play([Counter(9, 9), Counter(9, name=1)], horizon=3)
    np.testing.assert_array_equal(rollout.observation["step"], [[0] * 3, [1] * 3, [2] * 3])
    np.testing.assert_array_equal(rollout.observation["name"], [[0, 0, 1]] * 3)
    np.testing.assert_array_equal(rollout.action[..., 0], rollout.observation["step"] + 0.5)
    np.testing.assert_array_equal(rollout.rewards, [[5] * 3, [15] * 3, [25] * 3])
    np.testing.assert_array_equal(rollout.value, 100 * rollout.action[..., 0])
    np.testing.assert_array_equal(rollout.last_value, [350] * 3)
    assert rollout.valid.all() and not rollout.ended.any()
    assert rollout.decisions == 9


def test_a_second_call_goes_on_where_the_first_stopped() -> None:
    lane = Counter(9)
    play([lane], horizon=3)
    np.testing.assert_array_equal(play([lane], horizon=2).observation["step"], [[3], [4]])


def test_lanes_side_by_side_live_as_they_would_alone() -> None:
    together = play([Counter(2, 3), Counter(4, name=1)], horizon=7)
    alone = [play([Counter(2, 3)], horizon=7), play([Counter(4, name=1)], horizon=7)]

    def both(left: Any, right: Any) -> Any:
        return np.concatenate([left, right], axis=min(1, left.ndim - 1))

    expected = jax.tree.map(both, *alone)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(together), expected)


def test_luck_differs_between_steps_lanes_and_environments() -> None:
    def act_by_luck(parameters: Parameters, observation: Observation, key: jax.Array) -> Acted:
        drawn = jax.random.uniform(key, observation["step"].shape)
        return Acted(drawn[:, None], drawn, drawn)

    def draws(seed: int) -> NDArray[Any]:
        key = jax.random.PRNGKey(seed)
        rollout = collect([Counter(9, 9), Counter(9, 9)], compiled(act_by_luck), {}, key, 5)
        return np.asarray(rollout.action)

    assert len(np.unique(draws(0))) == 20
    np.testing.assert_array_equal(draws(0), draws(0))
    assert not np.isin(draws(0), draws(1)).any()


def test_whole_episodes_count_up_to_their_first_end() -> None:
    rollout = play([Counter(1, 2), Counter(4)], horizon=50, whole_episodes=True)
    np.testing.assert_array_equal(rollout.valid.T, [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    assert rollout.decisions == 7


def test_an_episode_that_the_horizon_cuts_does_not_count() -> None:
    rollout = play([Counter(2, 9)], horizon=4, whole_episodes=True)
    np.testing.assert_array_equal(rollout.valid.T, [[1, 1, 0, 0], [0, 0, 0, 0]])


def test_the_time_axis_has_few_lengths() -> None:
    lengths = {play([Counter(n)], 50, whole_episodes=True).rewards.shape[0] for n in (5, 6, 7, 8, 41)}
    assert lengths == {6, 8, 48}
    padded = play([Counter(5)], 50, whole_episodes=True)
    assert padded.decisions == 5
    assert not padded.rewards[5:].any()


def test_episodes_of_many_blocks_stay_in_order() -> None:
    rollout = play([Counter(300, 200), Counter(300, name=1)], horizon=300, whole_episodes=True)
    np.testing.assert_array_equal(rollout.observation["step"], np.arange(300)[:, None].repeat(3, 1))
    np.testing.assert_array_equal(rollout.observation["name"], [[0, 0, 1]] * 300)
    assert rollout.decisions == 800
