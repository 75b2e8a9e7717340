"""What an agent sees and how its answers are read: spaces, masks, and the way between the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import ActionError, WorkloadError
from trimtab.core.settings import Field, Settings
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.gymnasium_env.filling import (
    LARGEST_FEATURE,
    LEGAL,
    NO_ACTION,
    Picture,
    fill,
    new_picture,
    read,
)
from trimtab.dag_scheduling.problem import NODE_FEATURES
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.dag_scheduling.workload import Workload
from trimtab.gymnasium_base.actions import Illegal, action_inside
from trimtab.gymnasium_base.seeds import checked_seed

__all__ = ["EnvSettings", "View", "WorkloadSampler", "draw"]

WorkloadSampler = Callable[[int], Workload]
"""From the seed of an episode to its workload."""

Marks = NDArray[np.int8]
Numbers = NDArray[np.int64]


class EnvSettings(Settings):
    """The shape of observations and actions, and what happens to an action outside the mask.

    >>> EnvSettings(max_jobs=5, max_stages=8).illegal
    'raise'
    """

    max_jobs: int = Field(default=20, ge=1, le=1000, description="Jobs shown at once, in order of arrival.")
    max_stages: int = Field(default=20, ge=1, le=1000, description="Stages shown of each job.")
    limit_levels: int = Field(
        default=8, ge=1, le=100, description="Parallelism limits to choose from, spaced by ratio."
    )
    flat_actions: bool = Field(
        default=False, description="One number for stage and limit, with one mask over all pairs."
    )
    illegal: Illegal = Field(
        default="raise",
        description="Refuse an action outside the mask, or take the nearest inside it and say so.",
    )
    reward_unit_ms: float = Field(
        default=1000.0, gt=0, description="Job-milliseconds that make a reward of -1."
    )
    time_limit_ms: int | None = Field(
        default=None, ge=1, description="Simulated time after which an episode is truncated."
    )


class View:
    """Spaces of one environment, and everything that depends on their shape."""

    def __init__(self, cluster: Cluster, settings: EnvSettings) -> None:
        self.settings = settings
        self.rows = settings.max_jobs * settings.max_stages
        spread = np.geomspace(1, cluster.executors, settings.limit_levels)
        self.levels = np.unique([*spread.round().astype(np.int64), cluster.executors])
        jobs, stages, levels = settings.max_jobs, settings.max_stages, len(self.levels)
        flat_size = self.rows * levels + 1
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "features": spaces.Box(-2.0, LARGEST_FEATURE, (self.rows, len(NODE_FEATURES)), np.float32),
                "row_mask": spaces.MultiBinary(self.rows),
                "children": spaces.MultiBinary((jobs, stages, stages)),
                "limit_mask": spaces.MultiBinary((self.rows, levels)),
                "action_mask": spaces.MultiBinary(flat_size if settings.flat_actions else self.rows + 1),
            }
        )
        self.action_space: spaces.Discrete[Any] | spaces.MultiDiscrete[Any] = (
            spaces.Discrete(flat_size)
            if settings.flat_actions
            else spaces.MultiDiscrete([self.rows + 1, levels])
        )

    def look(self, simulator: BatchSimulator) -> Picture:
        """What the agents of all environments see now."""
        picture = new_picture(
            simulator.size,
            jobs=self.settings.max_jobs,
            stages=self.settings.max_stages,
            levels=len(self.levels),
            features=len(NODE_FEATURES),
        )
        fill(picture, simulator.state, simulator.tables, simulator.ended, self.levels)
        return picture

    def observations(self, picture: Picture) -> dict[str, NDArray[Any]]:
        """The picture as the observation space wants it, with one more axis in front."""
        return {
            "features": picture.features,
            "row_mask": picture.row_mask,
            "children": picture.children,
            "limit_mask": picture.limit_mask,
            "action_mask": self.masks(picture).copy(),
        }

    def masks(self, picture: Picture) -> Marks:
        """The mask over stages, or in the flat form over pairs; by environment."""
        if not self.settings.flat_actions:
            return picture.choice_mask
        pairs = picture.limit_mask.reshape(len(picture.limit_mask), -1)
        return np.concatenate([pairs, picture.choice_mask[:, -1:]], axis=1)

    def sampling_mask(self, mask: Marks) -> Marks | tuple[Marks, Marks]:
        """One environment's mask in the form that `action_space.sample(mask=...)` takes."""
        if self.settings.flat_actions:
            return mask.copy()
        return mask.copy(), np.ones(len(self.levels), np.int8)

    def agent_mask(self, mask: Marks) -> NDArray[np.bool_]:
        """One environment's mask as sb3-contrib takes it: those of all action numbers, in a row."""
        parts = self.sampling_mask(mask)
        return np.concatenate(parts if isinstance(parts, tuple) else [parts]).astype(np.bool_)

    def read(
        self, picture: Picture, actions: ArrayLike, ended: NDArray[np.bool_]
    ) -> tuple[Numbers, NDArray[np.bool_]]:
        """Turn answers into the engine's (stage, limit, class), and tell which were outside the mask.

        Answers for environments that have ended are not looked at.
        """
        answers = self._answers(actions, len(ended))
        sent = np.empty((len(ended), 3), np.int64)
        verdicts = np.empty(len(ended), np.int64)
        flat = self.settings.flat_actions
        read(verdicts, sent, picture, answers, ended, self.levels, flat)
        illegal = verdicts != LEGAL
        if illegal.any():
            for index in np.flatnonzero(illegal):
                answers[index] = self._mend(picture, int(index), answers[index], verdicts[index])
            read(verdicts, sent, picture, answers, ended, self.levels, flat)
        return sent, illegal

    def _answers(self, actions: ArrayLike, envs: int) -> Numbers:
        """Stage row and limit level of each answer, as an array of our own."""
        numbers = np.array(actions)
        parts = 1 if self.settings.flat_actions else 2
        if numbers.size != envs * parts or numbers.dtype.kind not in "iu":
            raise ActionError(
                f"actions of type {numbers.dtype} and shape {numbers.shape}; expected {parts} whole "
                f"number(s) for each of {envs} environment(s)"
            )
        numbers = numbers.reshape(envs, parts).astype(np.int64, copy=False)
        if self.settings.flat_actions:
            return np.concatenate(np.divmod(numbers, len(self.levels)), axis=1)
        return numbers

    def _mend(self, picture: Picture, index: int, answer: Numbers, verdict: int) -> Numbers:
        """The nearest answer inside the mask; or refuse."""
        flat = self.settings.flat_actions
        wanted = int(answer[0] * len(self.levels) + answer[1] if flat else answer[0])
        if verdict == NO_ACTION:
            given = wanted if flat else answer.tolist()
            raise ActionError(f"environment {index}: {given} is not in the action space {self.action_space}")
        mask = self.masks(picture)[index]
        nearest = action_inside(mask, wanted, self.settings.illegal, where=f"environment {index}: ")
        return np.array(divmod(nearest, len(self.levels)) if flat else (nearest, answer[1]))


def draw(sampler: WorkloadSampler, settings: EnvSettings, seeds: Sequence[int]) -> list[Workload]:
    """Draw the workloads of some episodes; refuses seeds too large to count, jobs too large to be shown."""
    workloads = [sampler(checked_seed(seed)) for seed in seeds]
    for workload in workloads:
        stages = workload.profile.stage_count
        if stages.max() > settings.max_stages:
            raise WorkloadError(
                f"job {workload.profile.names[stages.argmax()]!r} has {stages.max()} stages, but "
                f"max_stages = {settings.max_stages}; set max_stages to at least {stages.max()}"
            )
    return workloads
