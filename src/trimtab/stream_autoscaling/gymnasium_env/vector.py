"""A job many times at once for Gymnasium, all stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import TrimtabError
from trimtab.gymnasium_base.actions import checked_action, joined_mask, many_actions
from trimtab.gymnasium_base.seeds import checked_seed
from trimtab.gymnasium_base.vector import SeededVectorEnv
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.gymnasium_env.single import TraceSampler
from trimtab.stream_autoscaling.gymnasium_env.view import EnvSettings, Moment, View
from trimtab.stream_autoscaling.job import Job, graph_of
from trimtab.stream_autoscaling.problem import Snapshot
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator

__all__ = ["StreamAutoscalingVectorEnv"]


class StreamAutoscalingVectorEnv(SeededVectorEnv):
    """`num_envs` episodes of one job that take the same course as single ones with the same seeds.

    An environment that has ended is reset by the next `step`, whose action for it is not looked at
    (Gymnasium's NEXT_STEP).

    >>> from trimtab.stream_autoscaling import TraceSettings, draw_trace, make_job
    >>> job = make_job("linear:3")
    >>> envs = StreamAutoscalingVectorEnv(
    ...     job, lambda seed: draw_trace(TraceSettings(), job, seed=seed), num_envs=2
    ... )
    >>> envs.reset(seed=5)[1]["seed"].tolist()
    [5, 6]
    """

    def __init__(
        self,
        job: Job,
        sampler: TraceSampler,
        deployment: Deployment | None = None,
        settings: EnvSettings | None = None,
        *,
        num_envs: int = 1,
    ) -> None:
        super().__init__(num_envs)
        self._jobs, self._sampler = num_envs * [job], sampler
        self._deployment = deployment or Deployment()
        self._view = View(graph_of(self._jobs), settings or EnvSettings())
        self.single_observation_space = self._view.observation_space
        self.single_action_space = self._view.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = many_actions(self.single_action_space, num_envs)
        self._simulator: StreamSimulator | None = None
        self._moment: Moment | None = None

    @property
    def snapshot(self) -> Snapshot:
        """What may be known now, as policies get it; valid until the next step."""
        return self._now.snapshot

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode everywhere; one seed stands for seed, seed + 1, and so on.

        With `options["reset_mask"]` only those environments begin anew where it is true.
        """
        seeds = self._begun(seed, options, running=self._simulator is not None)
        if self._simulator is None or len(seeds) == self.num_envs:
            traces = [self._sampler(checked_seed(one)) for one in seeds.values()]
            self._simulator = StreamSimulator(
                self._jobs, traces, self._deployment, seeds=list(seeds.values()), recording=True
            )
        else:
            self._begin_anew(self._simulator, seeds)
        return self._look(self._simulator), self._infos() | self._seeds_told(seeds)

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Decide everywhere and live through one interval; what had ended begins anew."""
        moment, simulator = self._now, self._simulator
        assert simulator is not None
        over, given = simulator.ended, np.array(actions)
        if given.shape == self.action_space.shape:
            given[over] = 0
        wanted = self._view.wanted(checked_action(self.action_space, given), moment)
        outcome = simulator.step(wanted)
        seeds = {index: self._draw(index) for index in np.flatnonzero(over).tolist()}
        self._begin_anew(simulator, seeds)
        observations, infos = self._look(simulator), self._infos()
        for index, one in seeds.items():
            self._add_info(infos, {"seed": one}, index)
        truncated = outcome.ended & ~over
        if truncated.any():
            episodes = simulator.episodes("agent")
            for index in np.flatnonzero(truncated).tolist():
                self._add_info(infos, {"metrics": episodes[index].metrics()}, index)
        return observations, outcome.rewards, np.zeros(self.num_envs, np.bool_), truncated, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Which action numbers are allowed now, a row per environment."""
        masks = self._view.masks(self._now) or self.num_envs * [None]
        return np.stack([joined_mask(mask) for mask in masks])

    def _begin_anew(self, simulator: StreamSimulator, seeds: dict[int, int]) -> None:
        """Reset some environments, each with its seed."""
        if not seeds:
            return
        chosen = np.isin(np.arange(self.num_envs), list(seeds))
        traces, all_seeds = list(simulator.traces), list(simulator.seeds)
        for index, one in seeds.items():
            traces[index], all_seeds[index] = self._sampler(checked_seed(one)), one
        simulator.reset(chosen, traces=traces, seeds=all_seeds)

    def _look(self, simulator: StreamSimulator) -> NDArray[np.float32]:
        self._moment = self._view.look(simulator.snapshot())
        return self._moment.observations

    def _infos(self) -> dict[str, Any]:
        snapshot, masks = self._now.snapshot, self._view.masks(self._now)
        infos = {"now_s": snapshot.now_s, "parallelism": snapshot.parallelism.copy()}
        return self._of_all(infos | ({} if masks is None else {"action_mask": masks}))

    @property
    def _now(self) -> Moment:
        if self._moment is None:
            raise TrimtabError("no episode is running; call reset() first")
        return self._moment
