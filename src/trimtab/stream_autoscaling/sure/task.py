"""What a learned autoscaler is trained on: settings with presets, environments, and the score that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.settings import Field, Presets, Settings
from trimtab.learning.agent import Agent
from trimtab.learning.lessons import Lessons
from trimtab.learning.runs import refuse_other_network
from trimtab.learning.settings import TrainingSettings, check_lessons_from
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.heuristics.measures import refuse_short_history
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot, StreamPolicy
from trimtab.stream_autoscaling.simulator.simulator import simulate_batch
from trimtab.stream_autoscaling.sure.actions import decode_action
from trimtab.stream_autoscaling.sure.agent import sure_agent
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import encoder_of
from trimtab.stream_autoscaling.sure.features import FeatureHistory
from trimtab.stream_autoscaling.sure.lessons import Actor, by_size
from trimtab.stream_autoscaling.sure.network import FUTURE_FEATURES
from trimtab.stream_autoscaling.sure.policy import SurePolicy
from trimtab.stream_autoscaling.sure.rollouts import TRAINING_SEEDS, Course, RolloutEnvironment, shards_of
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["NetworkSettings", "SureSettings", "SureTask", "check_settings", "load_preset", "preset_names"]

_COMPARED = ("violation_share", "rescales", "slot_hours", "latency_s", "utilisation")


class NetworkSettings(Settings):
    """The design of the network (see `design.Design`)."""

    history_encoder: str = Field(
        default="sampler",
        min_length=1,
        description="sampler, random, full, gru, or a rival: deepwave, dream, tvw-rl, astgcn, ccrnn.",
    )
    actions: Literal["residual", "gaussian"] = Field(
        default="residual",
        description="Steps around the base rule's suggestion, or the published p + round(a p).",
    )
    history: int = Field(default=60, ge=2, le=1440, description="Intervals looked back.")
    hidden: int = Field(default=32, ge=4, le=512, description="Width of the hidden layers.")
    layers: int = Field(default=2, ge=1, le=8, description="Rounds of message passing.")
    hops: int = Field(default=3, ge=1, le=16, description="Neighbours are at most so far away.")
    snapshots: int = Field(default=10, ge=1, le=1440, description="Moments looked at (k1).")
    neighbours: int = Field(default=3, ge=1, le=64, description="Neighbours looked at in each (k2).")
    reach: float = Field(default=4.0, gt=0, le=20, description="Bound of the means of latents.")
    temperature: float = Field(default=0.5, gt=0, le=10, description="Softness of the relaxed picks.")
    divergence_weight: float = Field(default=1e-4, ge=0, le=100, description="Of the KL divergence.")
    surprise_weight: float = Field(default=1e-3, ge=0, le=100, description="Of the picks' cross entropy.")
    volume_weight: float = Field(default=0.0, ge=0, le=100, description="Of the latents' log density.")
    information_weight: float = Field(default=1e-2, ge=0, le=100, description="Of the mutual information.")
    suggestion_score: float = Field(
        default=4.0, ge=0, le=100, description="Head start of what the base rule suggests for a vertex."
    )
    commit_score: float = Field(
        default=3.0, ge=0, le=100, description="Head start of doing as the base rule does."
    )
    largest_score: float = Field(default=8.0, gt=0, le=1000, description="Bound of what the network adds.")
    base_target: float = Field(default=0.65, gt=0, le=1, description="Utilisation the base rule aims at.")
    base_limit: float = Field(default=0.85, gt=0, le=10, description="It scales up above this utilisation.")
    base_saving: float = Field(default=0.15, ge=0, le=1, description="It scales down to save such a share.")
    base_memory_s: float = Field(
        default=1800.0, ge=1, le=86_400, description="It keeps room for the highest rate of so long."
    )
    base_recent_s: float = Field(default=1800.0, ge=1, le=86_400, description="It averages rates over this.")
    base_window_s: float = Field(default=900.0, ge=1, le=86_400, description="Metrics behind its capacity.")
    base_catch_up_s: float = Field(
        default=300.0, ge=1, le=86_400, description="It catches up with what waits in so long."
    )
    base_patience_s: float = Field(
        default=2700.0, ge=0, le=86_400, description="It does not scale down for so long after a restart."
    )
    base_blocked: float = Field(
        default=1.0, ge=0, le=10, description="It counts time blocked by bursts as work, so many times."
    )
    band_targets: tuple[float, ...] = Field(
        default=(0.58, 0.72, 0.8),
        description="Utilisations that other rules aim at: where none of all would act, nothing is done.",
    )
    straight_through: bool = Field(
        default=True, description="Off: no gradient of the reward reaches the sampler (published defect)."
    )
    downstream_only: bool = Field(default=False, description="Neighbours downstream only (published defect).")
    truncates: bool = Field(default=False, description="p + int(a p) (published defect).")


class SureSettings(Settings):
    """Everything a training run of a learned autoscaler can be told.

    >>> SureSettings().span_h
    6.0
    """

    jobs: tuple[str, ...] = Field(
        default=("small-1",), min_length=1, description="Jobs practised side by side, by name or file."
    )
    job_variants: int = Field(
        default=1, ge=1, le=10_000, description="Of each job so many, by seed; only synthetic ones differ."
    )
    trace: TraceSettings = Field(default=TraceSettings(), description="What arrives.")
    deployment: Deployment = Field(default=Deployment(), description="Where the jobs run, and what is good.")
    network: NetworkSettings = Field(default=NetworkSettings(), description="The design of the network.")
    training: TrainingSettings = Field(default=TrainingSettings(), description="The learning algorithm.")
    teacher: str = Field(default="", description="Rule to begin from; empty: that of network.base_*.")
    span_h: float = Field(default=6.0, gt=0, le=24 * 366, description="Hours of a training episode.")
    look_ahead_h: float = Field(
        default=0.0,
        ge=0,
        le=24,
        description="Judge a decision by so many hours, the base rule deciding after it; 0: do not.",
    )
    weighed_share: float = Field(
        default=0.1, gt=0, le=1, description="Share of the decisions whose alternatives are looked at."
    )
    lessons: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="Look ahead so often for jobs of each size, then learn from that; 0: while playing.",
    )
    lessons_from: str = Field(
        default="", description="Folder with the lessons of an earlier run; empty: collect them."
    )
    lessons_rounds: int = Field(
        default=1, ge=1, le=10, description="Collect so often; after the first time what was learned acts."
    )
    start_spread: float = Field(
        default=1.0, ge=0, le=4, description="Episodes begin off the right parallelism by up to 2 to this."
    )
    environments: int = Field(default=64, ge=1, le=1 << 20, description="Environments in each lane.")
    lanes: int = Field(default=2, ge=1, le=8, description="Groups of environments stepped in turns.")
    rollouts: int = Field(default=8, ge=1, le=1024, description="Environments that share trace and luck.")
    threads: int = Field(default=1, ge=1, le=256, description="Threads that step the environments.")
    workers: int = Field(
        default=0, ge=0, le=1024, description="Processes that collect lessons; 0: one for each core."
    )
    sequences: int = Field(
        default=0, ge=0, le=TRAINING_SEEDS, description="Practise only so many episodes; 0: ever new ones."
    )
    sees_future: bool = Field(
        default=True, description="Whether the critic is told the rates to come: an input-dependent baseline."
    )
    validation: int = Field(default=4, ge=1, le=10_000, description="Validation episodes of each job.")


PRESETS = Presets("trimtab.stream_autoscaling.sure", SureSettings)
preset_names, load_preset = PRESETS.names, PRESETS.load


def check_settings(settings: SureSettings) -> None:
    """Refuse in a second what making the task would refuse after minutes of compiling."""
    settings.training.check_board()
    design = _design(settings)
    encoder_of(design.history_encoder)
    _teacher(settings, design)
    if settings.training.algorithm == "weighing" and not settings.look_ahead_h:
        raise SettingsError("training.algorithm = weighing looks ahead; set look_ahead_h")
    if settings.lessons and settings.training.algorithm != "weighing":
        raise SettingsError(
            f"lessons = {settings.lessons} needs training.algorithm = weighing, not "
            f"{settings.training.algorithm}; set it, or lessons = 0"
        )
    if settings.lessons:
        settings.training.check_lessons()
    check_lessons_from(settings.lessons_from, settings.lessons)
    if settings.look_ahead_h and settings.training.baseline != "foreseen":
        raise SettingsError(
            f"look_ahead_h = {settings.look_ahead_h:g} needs training.baseline = foreseen, not "
            f"{settings.training.baseline}; set it, or look_ahead_h = 0"
        )
    count = len(settings.jobs) * settings.job_variants
    shards_of(settings.environments, rollouts=settings.rollouts, jobs=count, threads=settings.threads)
    kept, interval_s = settings.deployment.history, settings.deployment.interval_s
    if kept < design.history:
        raise SettingsError(
            f"network.history = {design.history} intervals, but deployment.history = {kept}; raise that"
        )
    refuse_short_history(kept, max(design.base_memory_s, design.base_recent_s), interval_s, before=1)
    refuse_short_history(kept, design.base_window_s, interval_s)


def _design(settings: SureSettings) -> Design:
    return Design(**settings.network.model_dump())


def _teacher(settings: SureSettings, design: Design) -> StreamPolicy:
    name = settings.teacher or design.teacher
    try:
        return make_policy(name)
    except TrimtabError as error:
        raise SettingsError(f"teacher = {name}: {error}") from None


class SureTask:
    """Satisfies `trimtab.learning.training.Task`."""

    lessons: Sequence[Lessons] = ()

    def __init__(self, settings: SureSettings, *, start: Bundle | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.design = _design(settings)
        self.agent: Agent = sure_agent(
            self.design,
            sees_future=settings.sees_future,
            seed=settings.training.seed,
            start=None if start is None else self._checked(start),
        )
        self.jobs: tuple[Job, ...] = tuple(
            make_job(name, seed=seed) for name in settings.jobs for seed in range(settings.job_variants)
        )
        self._best = jax.jit(self.agent.best)

    def _checked(self, start: Bundle) -> Any:
        """The parameters of a bundle, if they fit the network to be trained."""
        policy = SurePolicy(start)
        refuse_other_network(start.name, policy.design, self.design)
        return policy.parameters

    @property
    def lanes(self) -> Sequence[RolloutEnvironment]:
        """The environments; made when first asked for."""
        return self._lanes

    @cached_property
    def _lanes(self) -> Sequence[RolloutEnvironment]:
        s = self.settings
        return [
            RolloutEnvironment(
                self.course(self.jobs),
                self.design,
                size=s.environments,
                rollouts=s.rollouts,
                threads=s.threads,
                labelled=s.training.anchor > 0,
                staggered=not s.training.whole_episodes,
            )
            for _ in range(s.lanes)
        ]

    def course(self, jobs: Sequence[Job]) -> Course:
        """What is practised, of these jobs."""
        s = self.settings
        return Course(
            tuple(jobs),
            self._training_trace,
            s.deployment,
            _teacher(s, self.design),
            span_s=3600 * s.span_h,
            start_spread=s.start_spread,
            sequences=s.sequences,
            look_ahead=round(3600 * s.look_ahead_h / s.deployment.interval_s),
            weighs=s.training.algorithm == "weighing",
            weighed_share=s.weighed_share,
        )

    def _training_trace(self, job: Job, seed: int) -> RateTrace:
        return draw_trace(self.settings.trace, job, seed=seed, part="training")

    def score(self, parameters: Any) -> dict[str, float]:
        """Reward per interval that the teacher has more than the policy, on validation days: lower is better.

        Also the policy's violations, rescales, slots and so on, and as ratios to those of the teacher.
        """
        played, rule = self.validated(parameters), self._rule_metrics
        short = np.array(
            [theirs["reward"] - ours["reward"] for ours, theirs in zip(played, rule, strict=True)]
        )
        found = {"score": float(short.mean()), "reward": float(np.mean([one["reward"] for one in played]))}
        for name in _COMPARED:
            ours, theirs = (float(np.mean([one[name] for one in episodes])) for episodes in (played, rule))
            found[name] = ours
            found[f"{name}_over_teacher"] = ours / max(theirs, 1e-9)
        by_job = short.reshape(len(self.jobs), -1).mean(1)
        return found | {f"job_{number}": float(one) for number, one in enumerate(by_job)}

    def validated(self, parameters: Any) -> list[dict[str, float]]:
        """What became of every validation episode, those of one job after those of another."""
        return [episode.metrics() for episode in self._played(_Best(self._best, parameters, self.design))]

    def actor(self, parameters: Any) -> Actor:
        """Does what a trained network thinks best."""
        return lambda seen: np.asarray(self._best(parameters, seen))

    def describe(self) -> dict[str, Any]:
        s = self.settings
        return {
            "wing": "stream_autoscaling",
            "kind": "sure",
            "design": asdict(self.design),
            "jobs": list(s.jobs),
            "trace": s.trace.model_dump(mode="json"),
            "deployment": s.deployment.model_dump(mode="json"),
            "teacher": s.teacher or self.design.teacher,
        }

    @cached_property
    def _rule_metrics(self) -> list[dict[str, float]]:
        return [episode.metrics() for episode in self._played(_teacher(self.settings, self.design))]

    def _played(self, policy: StreamPolicy) -> list[Episode]:
        """Validation episodes, in the order of the jobs; played by size, for padding costs time."""
        s = self.settings
        count = s.validation
        # Every job has days of its own: the same few days for all would say little about others.
        first = {id(job): TRAINING_SEEDS + place * count for place, job in enumerate(self.jobs)}
        found: dict[int, list[Episode]] = {}
        for jobs in by_size(self.jobs):
            days = [(job, first[id(job)] + day) for job in jobs for day in range(count)]
            traces = [draw_trace(s.trace, job, seed=seed, part="validation") for job, seed in days]
            each, seeds = [job for job, _ in days], [seed for _, seed in days]
            played = simulate_batch(policy, each, traces, s.deployment, seeds=seeds)
            for place, job in enumerate(jobs):
                found[id(job)] = played[place * count : (place + 1) * count]
        return [episode for job in self.jobs for episode in found[id(job)]]


class _Best:
    """The agent's likeliest actions, by JAX, as a policy for whole batches; also a `Decider`."""

    name = "in training"

    def __init__(self, best: Any, parameters: Any, design: Design) -> None:
        self._best, self._parameters, self._design = best, parameters, design

    def begin(self, graph: Graph) -> _Best:
        begun = _Best(self._best, self._parameters, self._design)
        begun.history = FeatureHistory(graph, self._design)
        return begun

    history: FeatureHistory

    def decide(self, snapshot: Snapshot) -> Integers:
        seen = self.history.see(snapshot)
        shown = {
            **seen.view._asdict(),
            "future": np.zeros((len(snapshot.now_s), FUTURE_FEATURES), np.float32),
        }
        action = np.asarray(self._best(self._parameters, shown))
        return decode_action(action, snapshot, seen.offer, self._design)
