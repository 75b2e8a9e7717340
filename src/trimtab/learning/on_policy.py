"""A task of off-policy learning for those who learn from what they have just played.

`OnPolicyTask` makes of an `OffPolicyTask` a `trimtab.learning.training.Task`, so that the same environments,
networks and score are there for the common `train`::

    OffPolicyTask ──> train_off_policy            (DDPG, TD3)
          └──> OnPolicyTask ──> train             (PPO)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.learning.agent import Parameters
from trimtab.learning.gaussian_agent import gaussian_agent
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape
from trimtab.learning.off_policy_task import OffPolicyTask, looked
from trimtab.learning.rollouts import CutShort

__all__ = ["OnPolicyTask", "PlayedEnvironment"]


class OnPolicyTask:
    """Satisfies `trimtab.learning.training.Task`; a step takes `interval_s`."""

    def __init__(
        self,
        task: OffPolicyTask,
        settings: OffPolicySettings,
        *,
        interval_s: float,
        seed: int,
        start: Parameters | None = None,
    ) -> None:
        shape = LearnerShape.of(settings, task.layout)
        self.agent = gaussian_agent(settings, shape, seed=split(seed, "networks"), start=start)
        self.lanes: Sequence[PlayedEnvironment] = (PlayedEnvironment(task, shape, interval_s=interval_s),)
        self.lessons = ()
        self._task = task

    def score(self, parameters: Parameters) -> dict[str, float]:
        """As the task has it: what the actor answers is done, without its bell curve."""
        return self._task.score(parameters)

    def describe(self) -> dict[str, Any]:
        return self._task.describe()


class PlayedEnvironment:
    """Environments of an off-policy task as a `BatchEnvironment` that says where episodes were cut short.

    Actions are cut to [-1, 1]. Where a context is wanted, the last steps of each environment are shown beside
    what is seen: [environments, window + 1, token + 2], as `Windows.past` has them; the last row is the step
    to come, and empty.
    """

    rollouts = 1

    def __init__(self, task: OffPolicyTask, shape: LearnerShape, *, interval_s: float) -> None:
        self.size = task.size
        self._task, self._shape, self._interval_s = task, shape, interval_s
        self._cut: CutShort | None = None

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        if np.isfinite(mean_episode_s):
            raise SettingsError("episodes of this task have a length of their own; set mean_episode_s = 0")
        self._task.reset(seed)
        self._past = self._no_past()
        self._look()

    def observe(self) -> dict[str, NDArray[Any]]:
        return self._shown

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        asked = np.clip(actions, -1, 1).astype(np.float32)
        outcome = self._task.step(asked)
        ended = outcome.terminated | outcome.truncated
        done = asked if outcome.actions is None else outcome.actions
        self._remember(done, outcome.rewards, ended)
        cut = outcome.truncated & ~outcome.terminated
        # What was known besides is a step old there: the task shows other systems already.
        led_to = self._shown | {"seen": np.array(outcome.seen, np.float32)} | self._context()
        self._cut = CutShort(led_to, cut) if cut.any() else None
        self._past[np.asarray(outcome.renewed, bool)] = 0
        self._look()
        elapsed_s = np.full(self.size, self._interval_s, np.float32)
        return BatchOutcome(np.asarray(outcome.rewards, np.float32), elapsed_s, np.asarray(ended, bool))

    def cut_short(self) -> CutShort | None:
        """What the last step led to, where somebody stopped watching there."""
        return self._cut

    def _look(self) -> None:
        before = looked(self._task)
        known = {"seen": before.observation, "teacher": before.guide, "privileged": before.privileged}
        self._shown = {name: part for name, part in known.items() if part is not None} | self._context()

    def _no_past(self) -> NDArray[np.float32]:
        encoder = self._shape.encoder
        window = 0 if encoder is None else encoder.window
        return np.zeros((self.size, window + 1, self._shape.layout.token + 2), np.float32)

    def _context(self) -> dict[str, NDArray[Any]]:
        return {} if self._shape.encoder is None else {"past": self._past.copy()}

    def _remember(self, done: NDArray[Any], rewards: NDArray[Any], ended: NDArray[Any]) -> None:
        """One more step, before the last row, which stays empty."""
        if self._shape.encoder is None:
            return
        self._past[:, :-2] = self._past[:, 1:-1]
        flags = np.stack([rewards, ended, np.zeros(self.size), np.ones(self.size)], axis=1)
        self._past[:, -2] = np.concatenate([self._shown["seen"], done, flags], axis=1)
