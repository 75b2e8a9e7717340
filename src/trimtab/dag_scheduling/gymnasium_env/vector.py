"""Many environments at once for Gymnasium, stepped together in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.gymnasium_env.filling import Picture
from trimtab.dag_scheduling.gymnasium_env.single import LARGEST_SEED, episode_info
from trimtab.dag_scheduling.gymnasium_env.view import EnvSettings, View, WorkloadSampler, draw
from trimtab.dag_scheduling.simulator.batch import BatchSimulator

__all__ = ["DagSchedulingVectorEnv"]

Observations = dict[str, NDArray[Any]]


class DagSchedulingVectorEnv(VectorEnv[Observations, Any, NDArray[Any]]):
    """`num_envs` environments that take the same course as single ones with the same seeds.

    An environment that has ended is reset by the next `step`, whose action for it is not looked at
    (Gymnasium's NEXT_STEP). All workloads come from one profile; they may differ in number of jobs.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        sampler: WorkloadSampler,
        cluster: Cluster | None = None,
        settings: EnvSettings | None = None,
        *,
        num_envs: int = 1,
    ) -> None:
        if num_envs < 1:
            raise SettingsError(f"num_envs = {num_envs}; it must be at least 1")
        self.num_envs = num_envs
        self._sampler = sampler
        self._settings = settings or EnvSettings()
        cluster = cluster or Cluster()
        self._view = View(cluster, self._settings)
        self.single_observation_space = self._view.observation_space
        self.single_action_space = self._view.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = _many_actions(self.single_action_space, num_envs)
        self._simulator = BatchSimulator(cluster, size=num_envs, time_limit_ms=self._settings.time_limit_ms)
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]
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
        chosen = self._chosen(options)
        if seed is None or isinstance(seed, int):
            super().reset(seed=seed)
            given = [None if seed is None else seed + index for index in range(self.num_envs)]
        else:
            given = list(seed)
        if len(given) != self.num_envs:
            raise SettingsError(f"{len(given)} seeds for {self.num_envs} environments")
        seeds: dict[int, int] = {}
        for index in np.flatnonzero(chosen).tolist():
            one = given[index]
            if one is not None:
                self._generators[index] = seeding.np_random(one)[0]
            seeds[index] = self._draw(index) if one is None else one
        if chosen.all():
            drawn = list(seeds.values())
            self._simulator.reset(draw(self._sampler, self._settings, drawn), drawn)
        else:
            self._begin_anew(seeds)
        never = np.zeros(self.num_envs, np.bool_)
        observations = self._observe()
        infos = self._infos(np.zeros(self.num_envs, np.int64), never)
        infos |= {"seed": np.array([seeds.get(index, 0) for index in range(self.num_envs)]), "_seed": chosen}
        return observations, infos

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
            self._add_info(infos, episode_info(self._simulator, int(index)), int(index))
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

    def _draw(self, index: int) -> int:
        return int(self._generators[index].integers(LARGEST_SEED))

    def _chosen(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        """Who is to begin anew: all, or those of Gymnasium's `reset_mask`."""
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = np.asarray(options["reset_mask"])
        if mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
            raise SettingsError(
                f"reset_mask = {options['reset_mask']!r}; give {self.num_envs} times true or false, once true"
            )
        if self._picture is None and not mask.all():
            raise TrimtabError("no episode is running; call reset() without a reset_mask first")
        return mask

    def _begin_anew(self, seeds: dict[int, int]) -> None:
        """Reset some environments, each with its seed."""
        for index, seed in seeds.items():
            (workload,) = draw(self._sampler, self._settings, [seed])
            self._simulator.reset_one(index, workload, seed)

    def _observe(self) -> Observations:
        self._picture = self._view.look(self._simulator)
        return self._view.observations(self._picture)

    def _infos(self, elapsed_ms: NDArray[np.int64], illegal: NDArray[np.bool_]) -> dict[str, Any]:
        """What every environment reports; `_name` says who does, as Gymnasium has it."""
        assert self._picture is not None
        masks = self._view.masks(self._picture)
        infos = {
            "now_ms": self._simulator.now_ms,
            "elapsed_ms": elapsed_ms,
            "illegal_action": illegal,
            "action_mask": tuple(self._view.sampling_mask(mask) for mask in masks),
        }
        return infos | {f"_{name}": np.ones(self.num_envs, np.bool_) for name in infos}


def _many_actions(one: spaces.Space[Any], count: int) -> spaces.Space[Any]:
    """Gymnasium makes a Box of many pairs, which cannot sample under a mask; this space can."""
    if isinstance(one, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(np.tile(one.nvec, (count, 1)))
    return batch_space(one, count)
