"""Many environments at once for Gymnasium, stepped together in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import TrimtabError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.gymnasium_env.filling import Picture
from trimtab.dag_scheduling.gymnasium_env.single import metrics_of
from trimtab.dag_scheduling.gymnasium_env.view import EnvSettings, View, WorkloadSampler, draw
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.gymnasium_base.actions import many_actions
from trimtab.gymnasium_base.vector import SeededVectorEnv

__all__ = ["DagSchedulingVectorEnv"]

Observations = dict[str, NDArray[Any]]


class DagSchedulingVectorEnv(SeededVectorEnv):
    """`num_envs` environments that take the same course as single ones with the same seeds.

    An environment that has ended is reset by the next `step`, whose action for it is not looked at
    (Gymnasium's NEXT_STEP). All workloads come from one profile; they may differ in number of jobs.
    """

    def __init__(
        self,
        sampler: WorkloadSampler,
        cluster: Cluster | None = None,
        settings: EnvSettings | None = None,
        *,
        num_envs: int = 1,
    ) -> None:
        super().__init__(num_envs)
        self._sampler = sampler
        self._settings = settings or EnvSettings()
        cluster = cluster or Cluster()
        self._view = View(cluster, self._settings)
        self.single_observation_space = self._view.observation_space
        self.single_action_space = self._view.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = many_actions(self.single_action_space, num_envs)
        self._simulator = BatchSimulator(cluster, size=num_envs, time_limit_ms=self._settings.time_limit_ms)
        self._picture: Picture | None = None

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode everywhere; one seed stands for seed, seed + 1, and so on.

        With `options["reset_mask"]` only those environments begin anew where it is true.
        """
        seeds = self._begun(seed, options, running=self._picture is not None)
        if len(seeds) == self.num_envs:
            drawn = list(seeds.values())
            self._simulator.reset(draw(self._sampler, self._settings, drawn), drawn)
        else:
            self._begin_anew(seeds)
        never = np.zeros(self.num_envs, np.bool_)
        observations = self._observe()
        infos = self._infos(np.zeros(self.num_envs, np.int64), never)
        return observations, infos | self._seeds_told(seeds)

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observations, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Answer all questions and run to the next ones; what had ended begins anew."""
        if self._picture is None:
            raise TrimtabError("no episode is running; call reset() first")
        over = self._simulator.ended
        sent, illegal = self._view.read(self._picture, actions, over)
        transition = self._simulator.step(sent)
        seeds = {index: self._draw(index) for index in np.flatnonzero(over).tolist()}
        self._begin_anew(seeds)
        observations = self._observe()
        infos = self._infos(transition.elapsed_ms, illegal)
        for index, seed in seeds.items():
            self._add_info(infos, {"seed": seed}, index)
        for index in np.flatnonzero(transition.terminated & ~over):
            self._add_info(infos, {"metrics": metrics_of(self._simulator, int(index))}, int(index))
        return (
            observations,
            transition.rewards / self._settings.reward_unit_ms,
            transition.terminated & ~over,
            transition.truncated & ~over,
            infos,
        )

    def action_masks(self) -> NDArray[np.bool_]:
        """Which action numbers are allowed now, a row per environment."""
        if self._picture is None:
            raise TrimtabError("no episode is running; call reset() first")
        masks = self._view.masks(self._picture)
        return np.stack([self._view.agent_mask(mask) for mask in masks])

    def _begin_anew(self, seeds: dict[int, int]) -> None:
        """Reset some environments, each with its seed."""
        for index, seed in seeds.items():
            (workload,) = draw(self._sampler, self._settings, [seed])
            self._simulator.reset_one(index, workload, seed)

    def _observe(self) -> Observations:
        self._picture = self._view.look(self._simulator)
        return self._view.observations(self._picture)

    def _infos(self, elapsed_ms: NDArray[np.int64], illegal: NDArray[np.bool_]) -> dict[str, Any]:
        assert self._picture is not None
        masks = self._view.masks(self._picture)
        return self._of_all(
            {
                "now_ms": self._simulator.now_ms,
                "elapsed_ms": elapsed_ms,
                "illegal_action": illegal,
                "action_mask": tuple(self._view.sampling_mask(mask) for mask in masks),
            }
        )
