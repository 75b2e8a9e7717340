"""What the network agents are trained on: settings with presets, environments, and the score that counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.settings import Field, Presets, Settings, model_validator
from trimtab.gpu_scheduling.cluster import GpuType
from trimtab.gpu_scheduling.das.agent import das_agent
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.experience import Experience, gathered
from trimtab.gpu_scheduling.das.grounds import check_grounds
from trimtab.gpu_scheduling.das.network_policy import KIND, WING, network_policy
from trimtab.gpu_scheduling.das.rollouts import (
    TRAINING_SEEDS,
    Course,
    Reward,
    RolloutEnvironment,
    check_teacher,
)
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.clusters import capacity_gpus, find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload, past_jobs
from trimtab.learning.agent import Agent
from trimtab.learning.lessons import Lessons
from trimtab.learning.settings import TrainingSettings

__all__ = [
    "PRESETS",
    "NetworkSettings",
    "NetworkTask",
    "check_settings",
    "experience_of",
    "load_preset",
    "preset_names",
]

USUAL_RULE = "smallest+fast:neighbours=2,tightness=0.3"


class NetworkSettings(Settings):
    """Everything a training run of the network agents can be told.

    >>> NetworkSettings().design.actions
    'choices'
    """

    workload: WorkloadSettings = Field(
        default=WorkloadSettings(jobs=1000),
        description="Which jobs arrive; how many, is what is usual on each cluster, times a factor.",
    )
    worlds: tuple[str, ...] = Field(
        default=(), description="Further workloads by name, each drawn as often as the first."
    )
    loads: tuple[float, float] = Field(
        default=(0.8, 1.15), description="Least and largest factor on the usual load of a cluster."
    )
    clusters: tuple[str, ...] = Field(
        default=("das-small", "das-medium", "das-large"),
        min_length=1,
        description="Clusters to practise on, by name, size (64x8) or table, side by side.",
    )
    gpu_types: tuple[GpuType, ...] = Field(
        default=(), description="GPU models of these clusters beside the known ones, or in place of them."
    )
    design: Design = Field(default=Design(), description="Actions and sizes of the networks.")
    reward: Literal["little", "paper"] = Field(
        default="little",
        description="little: adds up to completion time and fee; paper: as published, for scores alone.",
    )
    fee_weight: float = Field(
        default=1.0, ge=0, le=100, description="What a per cent of fee counts beside one of completion time."
    )
    waiting_weight: float = Field(
        default=1e-3,
        ge=0,
        le=1,
        description="Of the published reward: cost of a GPU-minute that a job waits.",
    )
    rule: str = Field(
        default=USUAL_RULE,
        min_length=1,
        description="Rule that rewards and scores are measured against, on the same workloads.",
    )
    teacher: str = Field(
        default=USUAL_RULE,
        description="Rule, or bundle of compact agents, to copy and to stay near; empty: none.",
    )
    environments: int = Field(default=96, ge=1, le=1 << 20, description="Environments in each lane.")
    lanes: int = Field(default=2, ge=1, le=8, description="Groups of environments stepped in turns.")
    rollouts: int = Field(default=1, ge=1, le=1024, description="Environments that share their workloads.")
    threads: int = Field(default=1, ge=1, le=256, description="Threads that step the environments.")
    validation: int = Field(default=16, ge=1, le=10_000, description="Validation workloads of each cluster.")
    training: TrainingSettings = Field(default=TrainingSettings(), description="The learning algorithm.")

    @model_validator(mode="after")
    def _ordered_loads(self) -> NetworkSettings:
        least, largest = self.loads
        if not 0 < least <= largest:
            raise ValueError(f"loads = {least:g} to {largest:g}; give the least factor first, above 0")
        return self


PRESETS = Presets("trimtab.gpu_scheduling.das", NetworkSettings, "network_presets")
preset_names, load_preset = PRESETS.names, PRESETS.load


def check_settings(settings: NetworkSettings) -> None:
    """Refuse early what cannot work."""
    settings.training.check_board()
    check_grounds(settings.clusters, settings.gpu_types, _workloads(settings))
    rule = _rule_named(settings.rule, "rule")
    if rule.needs_durations:
        raise SettingsError(f"rule = {settings.rule!r} needs durations, which these agents do not know")
    teacher = _rule_named(settings.teacher, "teacher") if settings.teacher else None
    check_teacher(teacher, settings.design)
    training = settings.training
    if teacher is None and (training.anchor or training.imitation_iterations):
        raise SettingsError(
            "training.anchor and training.imitation_iterations need a teacher; name one, or set both to 0"
        )
    if settings.reward == "paper" and settings.design.actions != "scores":
        raise SettingsError(
            "reward = paper counts whole rounds, and choices are single jobs; set reward = little, or "
            "design.actions = scores"
        )
    if training.baseline == "multi_value":
        raise SettingsError(
            "training.baseline = multi_value needs numbered workloads, which there are not; use critic or "
            "same_sequence"
        )
    least = settings.rollouts * len(settings.clusters)
    if settings.environments % least:
        raise SettingsError(
            f"environments = {settings.environments} cannot be split into groups of {settings.rollouts} on "
            f"each of {len(settings.clusters)} clusters; choose a multiple of {least}"
        )
    training.check_batch(settings.environments * settings.lanes)


def experience_of(settings: NetworkSettings) -> Experience | None:
    """What earlier jobs of the same workloads tell about durations, where the design asks for it."""
    if not settings.design.experienced:
        return None
    return gathered([past_jobs(workload) for workload in _workloads(settings)])


def _workloads(settings: NetworkSettings) -> list[WorkloadSettings]:
    """The workload, and the same settings for the further worlds."""
    names = (settings.workload.name, *settings.worlds)
    return [settings.workload.model_copy(update={"name": name}) for name in names]


class NetworkTask:
    """Satisfies `trimtab.learning.training.Task`."""

    def __init__(self, settings: NetworkSettings, *, start: Bundle | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.agent: Agent = das_agent(
            settings.design,
            seed=settings.training.seed,
            start=None if start is None else self._checked(start),
        )
        self.rule = _rule_named(settings.rule, "rule")
        self.experience = experience_of(settings)
        self._courses = [_course(settings, name) for name in settings.clusters]
        self._best = jax.jit(self.agent.best)

    def _checked(self, start: Bundle) -> Any:
        """The parameters of a bundle, if they fit the network to be trained."""
        policy = network_policy(start)
        had, wanted = policy.design.model_dump(), self.settings.design.model_dump()
        other = ", ".join(f"{name} = {had[name]}" for name in wanted if had[name] != wanted[name])
        if other:
            raise SettingsError(
                f"{start.name} has another network ({other}) than asked for; begin with the preset it was "
                "trained with, or set what makes the network alike"
            )
        return policy.parameters

    def course(self, cluster: str) -> Course:
        """What is practised on one of the clusters."""
        return self._courses[self.settings.clusters.index(cluster)]

    @property
    def lanes(self) -> Sequence[RolloutEnvironment]:
        """The environments; made when first asked for."""
        return self._lanes

    @cached_property
    def _lanes(self) -> Sequence[RolloutEnvironment]:
        asked = self.settings
        teacher = _rule_named(asked.teacher, "teacher") if asked.teacher else None
        return [
            RolloutEnvironment(
                self._courses,
                asked.design,
                size=asked.environments,
                rule=self.rule,
                rollouts=asked.rollouts,
                reward=Reward(asked.reward, asked.fee_weight, asked.waiting_weight),
                teacher=teacher,
                experience=self.experience,
                labelled=asked.training.anchor > 0,
                even=asked.training.whole_episodes,
                threads=asked.threads,
            )
            for _ in range(asked.lanes)
        ]

    @property
    def lessons(self) -> Sequence[Lessons]:
        """None: these agents learn from what they play."""
        return ()

    def score(self, parameters: Any) -> dict[str, float]:
        """Completion time (times fee to the power of its weight) over the rule's: geometric means."""
        ratios = np.log(self.validation_ratios(parameters))
        weights = np.array([1.0, self.settings.fee_weight])
        found = {"score": float(np.exp((ratios @ weights).mean()))}
        clusters = self.settings.clusters
        for place, cluster in enumerate(clusters):
            time, fee = np.exp(ratios[place :: len(clusters)].mean(axis=0))
            found |= {f"completion time on {cluster}": float(time), f"fee on {cluster}": float(fee)}
        return found

    def validation_ratios(self, parameters: Any) -> NDArray[np.float64]:
        """[workloads, 2]: completion time and fee over the rule's; clusters take turns."""
        playing = self._validation
        playing.reset_to(range(TRAINING_SEEDS, TRAINING_SEEDS + playing.size))
        while playing.going:
            actions = self._best(parameters, playing.observe())
            playing.step(np.asarray(actions))
        return playing.measured / playing.usual

    @cached_property
    def _validation(self) -> RolloutEnvironment:
        asked = self.settings
        return RolloutEnvironment(
            self._courses,
            asked.design,
            size=asked.validation * len(asked.clusters),
            rule=self.rule,
            experience=self.experience,
            staggered=False,
            threads=asked.threads,
        )

    def describe(self) -> dict[str, Any]:
        settings = self.settings
        names = ", ".join((settings.workload.name, *settings.worlds))
        return {
            "wing": WING,
            "kind": KIND,
            "workloads": [f"{names} on {', '.join(settings.clusters)}"],
            "settings": settings.model_dump(mode="json"),
        }


def _rule_named(name: str, field: str) -> Rule:
    try:
        found = make_policy(name)
    except TrimtabError as error:
        raise SettingsError(f"{field} = {name!r}: {error}") from None
    if not isinstance(found, Rule):
        raise SettingsError(f"{field} = {name!r} is no rule; `trimtab policies gpu` lists them")
    return found


def _course(settings: NetworkSettings, name: str) -> Course:
    """Workloads by seed: which world and how much load belongs to the seed."""
    cluster = find_cluster(name, settings.gpu_types)
    gpus = capacity_gpus(cluster)
    worlds = _workloads(settings)
    least, largest = settings.loads

    def draw(seed: int) -> Workload:
        world = worlds[int(integers(split(seed, "world"), 0, high=len(worlds)))]
        factor = least + (largest - least) * float(uniform(split(seed, "load"), 0))
        changed = {"load": factor * usual_load(name), "mean_gap_s": None}
        return draw_workload(world.model_copy(update=changed), gpus=gpus, seed=seed, part="training")

    return Course(cluster, draw)
