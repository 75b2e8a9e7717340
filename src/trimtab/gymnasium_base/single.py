"""What single environments have in common, and what those of autoscalers have beyond that.

A wing says how an episode begins, what an agent sees and what an action means; here are seeds, the order of
calls, masks and the end.
"""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import ActionError, TrimtabError
from trimtab.gymnasium_base.actions import Mask, checked_action, joined_mask
from trimtab.gymnasium_base.seeds import LARGEST_DRAWN_SEED, checked_seed

__all__ = ["AutoscalingEnv", "SeededEnv"]

Observation = TypeVar("Observation")


class SeededEnv(gymnasium.Env[Observation, Any]):
    """One environment whose episodes depend on their seeds and on what is answered, on nothing else."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    _ended: bool | None = None  # None: no episode has begun

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the episode of this seed, or of one drawn from earlier seeds."""
        super().reset(seed=seed)
        drawn = checked_seed(int(self.np_random.integers(LARGEST_DRAWN_SEED)) if seed is None else seed)
        self._ended = None
        observation = self._begin(drawn)
        self._ended = False
        return observation, self._told() | {"seed": drawn}

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer the present question, and live through the time up to the next one."""
        self._refuse_before_reset()
        if self._ended:
            raise ActionError("the episode has ended; call reset() to begin another")
        observation, reward, terminated, truncated = self._answer(action)
        self._ended = terminated or truncated
        info = self._told()
        if self._ended and (metrics := self._metrics()) is not None:
            info["metrics"] = metrics  # not named "episode", which recorders claim
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Which action numbers are allowed now, as sb3-contrib's MaskablePPO asks for them."""
        self._refuse_before_reset()
        return joined_mask(self._mask())

    def _told(self) -> dict[str, Any]:
        """What `info` holds at every decision."""
        mask = self._mask()
        return self._facts() | ({} if mask is None else {"action_mask": mask})

    def _refuse_before_reset(self) -> None:
        if self._ended is None:
            raise TrimtabError("no episode is running; call reset() first")

    def _begin(self, seed: int) -> Observation:
        """Begin an episode; what is seen then."""
        raise NotImplementedError

    def _answer(self, action: ArrayLike) -> tuple[Observation, float, bool, bool]:
        """Carry an action out, or refuse it: what is seen then, the reward, terminated, truncated."""
        raise NotImplementedError

    def _mask(self) -> Mask | None:
        """Which actions are allowed now; None where actions of this kind have no mask."""
        raise NotImplementedError

    def _facts(self) -> dict[str, Any]:
        """What else is known now."""
        raise NotImplementedError

    def _metrics(self) -> dict[str, float] | None:
        """What became of the episode; None where its end leaves that open."""
        raise NotImplementedError


class AutoscalingEnv(SeededEnv[NDArray[np.float32]]):
    """One system whose size is decided once per interval, for as long as a trace lasts.

    The system would go on after the trace: an episode is truncated at its end and never terminated.
    """

    def _answer(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool]:
        observation, reward, over = self._live(checked_action(self.action_space, action))
        return observation, reward, False, over

    def _live(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], float, bool]:
        """Live through an interval: what is seen then, its reward, whether the trace is over."""
        raise NotImplementedError
