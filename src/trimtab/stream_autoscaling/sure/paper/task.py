"""What a policy of the published table is trained on: settings with presets, environments, and its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, Presets, Settings
from trimtab.learning.agent import Agent
from trimtab.learning.lessons import Lessons
from trimtab.learning.settings import TrainingSettings
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.problem import Graph
from trimtab.stream_autoscaling.simulator.paper import PaperRules
from trimtab.stream_autoscaling.sure.agent import sure_agent
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.network import new_network
from trimtab.stream_autoscaling.sure.paper.environment import PaperCourse, PaperEnvironment
from trimtab.stream_autoscaling.sure.paper.features import PAPER_FEATURES
from trimtab.stream_autoscaling.sure.paper.policy import PaperDecider
from trimtab.stream_autoscaling.sure.paper.setting import Scale, paper_job, play_hours, rewards_of, scale_of
from trimtab.stream_autoscaling.sure.rollouts import TRAINING_SEEDS
from trimtab.stream_autoscaling.sure.task import NetworkSettings
from trimtab.stream_autoscaling.workload.jobs import FROZEN
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["PaperSettings", "PaperTask", "load_preset", "preset_names"]


class PaperSettings(Settings):
    """Everything a training run under the published rules can be told.

    >>> PaperSettings().rules.span_min
    60
    """

    jobs: tuple[str, ...] = Field(
        default=FROZEN, min_length=1, description="Jobs practised side by side, by name."
    )
    trace: TraceSettings = Field(default=TraceSettings(days=2), description="What arrives.")
    rules: PaperRules = Field(default=PaperRules(), description="Numbers of the published environment.")
    network: NetworkSettings = Field(
        default=NetworkSettings(actions="gaussian"), description="The design of the network."
    )
    training: TrainingSettings = Field(default=TrainingSettings(), description="The learning algorithm.")
    decisions: int = Field(default=24, ge=1, le=10_000, description="Decisions of a training episode.")
    environments: int = Field(default=24, ge=1, le=1 << 20, description="Environments.")
    rollouts: int = Field(default=2, ge=1, le=1024, description="Environments that share a trace.")
    sees_future: bool = Field(
        default=True, description="Whether the critic is told the rates to come: an input-dependent baseline."
    )
    first_spread: float = Field(
        default=0.6065,
        gt=0,
        le=2,
        description="Deviation of the actions tried at first; published: exp(-0.5).",
    )
    validation: int = Field(default=2, ge=1, le=10_000, description="Validation episodes of each job.")


PRESETS = Presets("trimtab.stream_autoscaling.sure.paper", PaperSettings)
preset_names, load_preset = PRESETS.names, PRESETS.load


class PaperTask:
    """Satisfies `trimtab.learning.training.Task`."""

    lessons: Sequence[Lessons] = ()

    def __init__(self, settings: PaperSettings) -> None:
        if settings.network.actions != "gaussian":
            raise SettingsError(
                f"network.actions = {settings.network.actions}: there is no base rule to step around under "
                "the published rules; set gaussian"
            )
        self.settings = settings
        self.design = Design(**settings.network.model_dump())
        seed, features = settings.training.seed, len(PAPER_FEATURES)
        actor = new_network(self.design, seed, features=features)["actor"]
        actor["log_spread"] = np.full(1, np.log(settings.first_spread), np.float32)
        self.agent: Agent = sure_agent(
            self.design,
            sees_future=settings.sees_future,
            seed=seed,
            start={"actor": actor},
            features=features,
            apart=True,
        )
        self.jobs: tuple[Job, ...] = tuple(paper_job(name) for name in settings.jobs)

    @property
    def lanes(self) -> Sequence[PaperEnvironment]:
        """The environments; made when first asked for."""
        return self._lanes

    @cached_property
    def _lanes(self) -> Sequence[PaperEnvironment]:
        s = self.settings
        course = PaperCourse(self.jobs, self._scales, self._training_trace, s.rules, s.decisions)
        return [PaperEnvironment(course, self.design, size=s.environments, rollouts=s.rollouts)]

    def score(self, parameters: Any) -> dict[str, float]:
        """Minus the mean reward of an hour on validation days, so that lower is better; and what it is of."""
        s, policy = self.settings, _Trained(parameters, self.design)
        seeds = range(TRAINING_SEEDS, TRAINING_SEEDS + s.validation)
        days = s.trace.model_copy(update={"days": 1})
        found: dict[str, list[float]] = {
            name: [] for name in ("reward", "latency_min", "utilisation", "rescales")
        }
        for job, scale in zip(self.jobs, self._scales, strict=True):
            traces = [draw_trace(days, job, seed=seed, part="validation") for seed in seeds]
            for episode in play_hours(policy, job, traces, s.rules, seeds=seeds):
                found["reward"].append(float(rewards_of(episode, scale, s.rules.latency_weight).mean()))
                found["latency_min"].append(float(episode.latency_s.mean() / 60))
                found["utilisation"].append(float(episode.busy.mean()))
                found["rescales"].append(float(episode.rescaled.mean()))
        by_job = np.array(found["reward"]).reshape(len(self.jobs), -1).mean(1)
        means = {name: float(np.mean(values)) for name, values in found.items()}
        jobs = {f"job_{number}": float(one) for number, one in enumerate(by_job)}
        return {"score": -means["reward"], **means, **jobs}

    def describe(self) -> dict[str, Any]:
        s = self.settings
        return {
            "wing": "stream_autoscaling",
            "kind": "sure-paper",
            "design": asdict(self.design),
            "jobs": list(s.jobs),
            "trace": s.trace.model_dump(mode="json"),
            "rules": s.rules.model_dump(mode="json"),
        }

    @cached_property
    def _scales(self) -> tuple[Scale, ...]:
        s = self.settings
        return tuple(scale_of(name, s.rules, s.trace.name) for name in s.jobs)

    def _training_trace(self, job: Job, seed: int) -> RateTrace:
        return draw_trace(self.settings.trace, job, seed=seed, part="training")


class _Trained:
    """Parameters in training, as a policy."""

    name = "in training"

    def __init__(self, parameters: Any, design: Design) -> None:
        self._parameters, self._design = _as_numpy({"actor": parameters["actor"]}), design

    def begin(self, graph: Graph) -> PaperDecider:
        return PaperDecider(self._parameters, self._design, graph)


def _as_numpy(tree: Any) -> Any:
    """The same tree with arrays of numpy, whatever they were."""
    if isinstance(tree, dict):
        return {name: _as_numpy(one) for name, one in tree.items()}
    if isinstance(tree, list | tuple):
        return [_as_numpy(one) for one in tree]
    return np.asarray(tree)
