"""Play: ask the learner for actions everywhere, live through them, remember every step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy_learner import Learner
from trimtab.learning.off_policy_state import begun_playing
from trimtab.learning.off_policy_task import OffPolicyTask, looked, step_rows
from trimtab.learning.replay import Replay

__all__ = ["Player"]


class Player:
    """A task in play: the memory and the noise of every environment, and what was earned since last asked.

    One decision is `ask`, which waits for the actions, and then `answer`. Whoever wants to act otherwise (a
    rule that watches over the learner, say) may answer with other actions than those asked for.
    """

    def __init__(self, task: OffPolicyTask, learner: Learner, replay: Replay) -> None:
        self._task, self._learner, self._replay = task, learner, replay
        self._returns = np.zeros(task.size)
        self.decisions = 0
        """Steps of each environment so far, over the whole run."""
        self._forget_measured()

    def begin(self, seed: int) -> None:
        """Begin everywhere anew."""
        task, layout = self._task, self._task.layout
        task.reset(seed)
        self._replay.cut()
        self._returns[:] = 0
        self._playing = begun_playing(self._learner.settings, self._learner.shape, task.size)
        # A step before the first, after which everything is another system: memories begin empty.
        self._token = np.zeros((task.size, layout.token), np.float32)
        self._renewed = np.ones((task.size, 1), np.float32)

    def ask(
        self,
        parameters: Parameters,
        key: Any,
        exploration: float | NDArray[np.float32],
        random: np.random.Generator,
    ) -> NDArray[np.float32]:
        """Actions for what is seen now, with noise; at first, where so wanted, all noise.

        Its deviation is one for all members, or each its own, [members].
        """
        self._before = looked(self._task)
        actions, self._playing = self._learner.act(
            parameters,
            self._playing,
            self._token,
            self._renewed,
            self._before.observation,
            key,
            np.asarray(exploration, np.float32),
        )
        if self.decisions < self._learner.settings.random_steps:
            return random.uniform(-1, 1, actions.shape).astype(np.float32)
        return np.array(actions)

    def answer(self, actions: NDArray[np.float32]) -> None:
        """Carry actions out and remember what came of them."""
        layout = self._task.layout
        outcome = self._task.step(actions)
        rows = step_rows(layout, self._before, actions, outcome)
        self._replay.add(rows)
        self._token, self._renewed = rows[:, : layout.token], layout.split(rows).renewed
        self.decisions += 1
        self._returns += outcome.rewards
        ended = outcome.terminated | outcome.truncated
        self._finished.extend(self._returns[ended].tolist())
        self._returns[ended] = 0
        self._rewards += outcome.rewards
        for name, values in (outcome.measured or {}).items():
            self._further[name] = self._further.get(name, 0.0) + float(np.mean(values))
        self._steps += 1

    def measured(self) -> dict[str, Any]:
        """Means since this was last asked."""
        members = self._learner.settings.members
        means = self._rewards / max(self._steps, 1)
        found: dict[str, Any] = {
            "mean_reward": float(means.mean()),
            "episodes": len(self._finished),
            "mean_return": float(np.mean(self._finished)) if self._finished else None,
            **{f"measured/{name}": total / self._steps for name, total in self._further.items()},
        }
        if members > 1:
            found["member_rewards"] = means.reshape(members, -1).mean(axis=1).tolist()
        self._forget_measured()
        return found

    def _forget_measured(self) -> None:
        self._finished: list[float] = []
        self._rewards = np.zeros(self._task.size)
        self._further: dict[str, float] = {}
        self._steps = 0
