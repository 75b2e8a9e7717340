"""One environment for Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import ActionError, TrimtabError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.gymnasium_env.filling import Picture
from trimtab.dag_scheduling.gymnasium_env.view import EnvSettings, View, WorkloadSampler, draw
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.gymnasium_base.seeds import LARGEST_DRAWN_SEED

__all__ = ["DagSchedulingEnv", "episode_info"]


class DagSchedulingEnv(gymnasium.Env[dict[str, NDArray[Any]], Any]):
    """Schedule DAG jobs, one decision at a time; see docs/gymnasium.md for spaces and masks.

    `sampler` gives the workload of an episode from its seed. `reset(seed=7)` plays `sampler(7)` with the
    luck of seed 7, just as `simulate(sampler(7), policy, cluster, seed=7)` does; further resets draw
    their seeds. Returns add up to minus the sum of job completion times, in `reward_unit_ms`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        sampler: WorkloadSampler,
        cluster: Cluster | None = None,
        settings: EnvSettings | None = None,
    ) -> None:
        self._sampler = sampler
        self._settings = settings or EnvSettings()
        cluster = cluster or Cluster()
        self._view = View(cluster, self._settings)
        self.observation_space = self._view.observation_space
        self.action_space = self._view.action_space
        self._simulator = BatchSimulator(cluster, size=1, time_limit_ms=self._settings.time_limit_ms)
        self._picture: Picture | None = None

    @property
    def limits(self) -> list[int]:
        """The parallelism limit that each level stands for."""
        return self._view.levels.tolist()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Begin an episode on the workload of this seed, or of one drawn from earlier seeds."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(LARGEST_DRAWN_SEED)) if seed is None else seed
        self._simulator.reset(draw(self._sampler, self._settings, [drawn]), [drawn])
        observation = self._observe()
        return observation, self._info(0, False) | {"seed": drawn}

    def step(self, action: ArrayLike) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Answer the present question and run to the next one."""
        if self._picture is None:
            raise TrimtabError("no episode is running; call reset() first")
        ended = self._simulator.ended
        if ended[0]:
            raise ActionError("the episode has ended; call reset() to begin another")
        sent, illegal = self._view.read(self._picture, action, ended)
        transition = self._simulator.step(sent)
        observation = self._observe()
        info = self._info(int(transition.elapsed_ms[0]), bool(illegal[0]))
        if transition.terminated[0]:
            info |= episode_info(self._simulator, 0)
        return (
            observation,
            float(transition.rewards[0] / self._settings.reward_unit_ms),
            bool(transition.terminated[0]),
            bool(transition.truncated[0]),
            info,
        )

    def action_masks(self) -> NDArray[np.bool_]:
        """Which action numbers are allowed now, as sb3-contrib's MaskablePPO asks for them."""
        if self._picture is None:
            raise TrimtabError("no episode is running; call reset() first")
        return self._view.agent_mask(self._view.masks(self._picture)[0])

    def _observe(self) -> dict[str, NDArray[Any]]:
        self._picture = self._view.look(self._simulator)
        return {name: part[0] for name, part in self._view.observations(self._picture).items()}

    def _info(self, elapsed_ms: int, illegal: bool) -> dict[str, Any]:
        assert self._picture is not None
        return {
            "now_ms": int(self._simulator.now_ms[0]),
            "elapsed_ms": elapsed_ms,
            "illegal_action": illegal,
            "action_mask": self._view.sampling_mask(self._view.masks(self._picture)[0]),
        }


def episode_info(simulator: BatchSimulator, index: int) -> dict[str, Any]:
    """What a finished episode adds to `info`; not named "episode", which recorders claim."""
    return {"metrics": simulator.episode(index, "agent").metrics()}
