"""What the compact autoscaler practises: stretches of days, many sets of numbers on the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError
from trimtab.core.processes import Processes
from trimtab.core.randomness import split
from trimtab.core.settings import Field, Presets, Settings
from trimtab.learning.evolution import EvolutionSettings
from trimtab.rates.parts import Part
from trimtab.stream_autoscaling.deployment import MOST_VIOLATION_COST, Deployment
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Flags, Floats, StreamPolicy
from trimtab.stream_autoscaling.simulator.simulator import Foreknowing, StreamSimulator
from trimtab.stream_autoscaling.sure.compact import (
    SIZE,
    CompactPolicy,
    compact_policy,
    first_numbers,
    for_even_arrivals,
    widths,
)
from trimtab.stream_autoscaling.sure.compact_engine import Lived, play_out
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace, stretch_of

__all__ = ["PRESETS", "CompactCourse", "CompactSettings", "CompactTask", "check_settings"]

TOGETHER = 16
"""Sets of numbers that one process plays side by side."""
TRAINING_SEEDS = 1_000_000
VALIDATION_SEED = 900_000


class CompactCourse(Settings):
    """Jobs under one kind of load."""

    jobs: tuple[str, ...] = Field(default=("small-1",), min_length=1, description="Jobs by name or file.")
    jobs_at_once: int = Field(
        default=0, ge=0, le=1000, description="So many of them in each iteration, by turns; 0: all."
    )
    trace: TraceSettings = Field(default=TraceSettings(), description="What arrives.")
    stretches: int = Field(default=2, ge=1, le=1000, description="Stretches of each job in an iteration.")
    hours: float = Field(default=12.0, gt=0, le=24 * 366, description="Length of a stretch.")
    weight: float = Field(default=1.0, gt=0, le=100, description="What a per cent of a job counts.")
    slots: float = Field(
        default=0.0, ge=0, le=100, description="What a per cent of slot-hours counts, over one of the cost."
    )


class CompactSettings(Settings):
    """Everything a training run of the compact autoscaler can be told.

    >>> CompactSettings().rule
    'banded'
    """

    courses: tuple[CompactCourse, ...] = Field(
        default=(CompactCourse(),), min_length=1, description="What is practised, side by side."
    )
    deployment: Deployment = Field(default=Deployment(), description="Where the jobs run, and what is good.")
    practice_substep_ms: int = Field(
        default=1000,
        ge=10,
        le=60_000,
        description="Time step of the fluid in practice, not in validation; longer is faster, less exact.",
    )
    practice_lateness: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="What a late interval costs in practice, over what it costs in validation.",
    )
    searched: Literal["all", "even", "uneven"] = Field(
        default="all",
        description="Numbers that may move: all, those for even arrivals alone, or only the others.",
    )
    rule: str = Field(
        default="banded", min_length=1, description="Rule that validation scores are measured against."
    )
    validation: int = Field(default=4, ge=1, le=1000, description="Validation days of each job and course.")
    workers: int = Field(default=0, ge=0, le=1024, description="Processes that play; 0: one for each core.")
    training: EvolutionSettings = Field(
        default=EvolutionSettings(), description="How the numbers are searched for."
    )

    @property
    def practice(self) -> Deployment:
        """Where stretches are practised, and what is good there."""
        goal = self.deployment.objective
        stricter = {"violation_cost": goal.violation_cost * self.practice_lateness}
        changes = {"substep_ms": self.practice_substep_ms, "objective": goal.model_dump() | stricter}
        return Deployment.model_validate(self.deployment.model_dump() | changes)


PRESETS = Presets("trimtab.stream_autoscaling.sure", CompactSettings, "compact_presets")


def _may_move(settings: CompactSettings) -> Flags:
    if settings.searched == "all":
        return np.ones(SIZE, np.bool_)
    return for_even_arrivals() == (settings.searched == "even")


def check_settings(settings: CompactSettings) -> None:
    """Refuse early what cannot work."""
    if isinstance(make_policy(settings.rule), Foreknowing):
        raise SettingsError(
            f"rule = {settings.rule!r} knows what will come; take one that could run, such as banded"
        )
    interval_s = settings.deployment.interval_s
    if (1000 * interval_s) % settings.practice_substep_ms:
        raise SettingsError(
            f"practice_substep_ms = {settings.practice_substep_ms} does not divide deployment.interval_s = "
            f"{interval_s}; choose a divisor"
        )
    lateness, most = settings.practice_lateness, MOST_VIOLATION_COST
    if lateness * settings.deployment.objective.violation_cost > most:
        raise SettingsError(
            f"practice_lateness = {lateness:g} makes a late interval cost more than {most:g} in practice; "
            "lower it, or deployment.objective.violation_cost"
        )
    for number, course in enumerate(settings.courses):
        for name in course.jobs:
            draw_trace(course.trace, make_job(name), seed=0, part="validation")
        if 3600 * course.hours < interval_s:
            raise SettingsError(
                f"courses.{number}.hours = {course.hours:g} is less than an interval of {interval_s} s; "
                "raise it"
            )


class _Ground(NamedTuple):
    """One job under one load, and the seeds it is played with."""

    job: str
    trace: TraceSettings
    seeds: tuple[int, ...]
    weight: float


class _Play(NamedTuple):
    """What one process plays: the stretches once for each candidate, side by side."""

    ground: _Ground
    deployment: Deployment
    part: Part
    hours: float | None
    """Length of a stretch; None: whole days."""
    policy: StreamPolicy
    candidates: int = 1
    """Of each it has a row for every stretch."""


class CompactTask:
    """Satisfies `trimtab.learning.evolution.EvolutionTask`."""

    def __init__(self, settings: CompactSettings, *, start: Bundle | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.decisions = 0
        self.widths = np.where(_may_move(settings), widths(), 0.0)
        self.start = first_numbers() if start is None else compact_policy(start).numbers
        self._playing = Processes(settings.workers)

    def trial(self, candidates: Floats, iteration: int) -> Floats:
        """Weighted mean of the logarithms of each job's cost, and of its slots where they count."""
        grounds = [
            (course, one) for course in self.settings.courses for one in self._drawn(course, iteration)
        ]
        chunks = [candidates[first : first + TOGETHER] for first in range(0, len(candidates), TOGETHER)]
        plays = [
            _Play(
                ground,
                self.settings.practice,
                "training",
                course.hours,
                CompactPolicy("candidates", np.repeat(chunk, course.stretches, axis=0)),
                len(chunk),
            )
            for course, ground in grounds
            for chunk in chunks
        ]
        costs, slots = (found.reshape(len(grounds), len(candidates)) for found in self._measured(plays))
        counts = np.array([[course.slots] for course, _ in grounds])
        return np.average(
            np.log(costs) + counts * np.log(slots), axis=0, weights=[ground.weight for _, ground in grounds]
        )

    def score(self, numbers: Floats) -> dict[str, float]:
        ratios = self._validated(CompactPolicy("candidate", numbers)) / self._rule_costs
        weights = [ground.weight for ground in self._validation]
        found = {"score": float(np.exp(np.average(np.log(ratios), weights=weights)))}
        return found | {
            f"{ground.job} {ground.trace.name}": float(ratio)
            for ground, ratio in zip(self._validation, ratios, strict=True)
        }

    def described(self) -> dict[str, Any]:
        """The first course is what `trimtab explain` shows."""
        first = self.settings.courses[0]
        ground = {"jobs": first.jobs, "trace": first.trace.model_dump(mode="json")}
        return ground | self.settings.model_dump(mode="json")

    def _drawn(self, course: CompactCourse, iteration: int) -> Iterable[_Ground]:
        """The jobs of an iteration, each with seeds that no other iteration or course has."""
        at_once = course.jobs_at_once or len(course.jobs)
        for turn in range(iteration * at_once, (iteration + 1) * at_once):
            name = course.jobs[turn % len(course.jobs)]
            luck = split(self.settings.training.seed, name, course.trace.name, turn)
            seeds = tuple(split(luck, number) % TRAINING_SEEDS for number in range(course.stretches))
            yield _Ground(name, course.trace, seeds, course.weight)

    @cached_property
    def _validation(self) -> list[_Ground]:
        seeds = tuple(range(VALIDATION_SEED, VALIDATION_SEED + self.settings.validation))
        return [
            _Ground(name, course.trace, seeds, course.weight)
            for course in self.settings.courses
            for name in course.jobs
        ]

    @cached_property
    def _rule_costs(self) -> Floats:
        return self._validated(make_policy(self.settings.rule))

    def _validated(self, policy: StreamPolicy) -> Floats:
        """Cost of whole validation days, by ground."""
        plays = [
            _Play(ground, self.settings.deployment, "validation", None, policy) for ground in self._validation
        ]
        return self._measured(plays)[0]

    def _measured(self, plays: Sequence[_Play]) -> tuple[Floats, Floats]:
        """Mean cost and mean slots of each candidate of each play, one after the other."""
        played = self._playing(_played, plays)
        self.decisions += sum(decisions for _, _, decisions in played)
        costs, slots, _ = zip(*played, strict=True)
        return np.concatenate(costs), np.concatenate(slots)


def _played(play: _Play) -> tuple[Floats, Floats, int]:
    """What an interval of the stretches costs and takes on average, by candidate; decisions made."""
    ground, deployment = play.ground, play.deployment
    job = make_job(ground.job)
    traces = [draw_trace(ground.trace, job, seed=seed, part=play.part) for seed in ground.seeds]
    if play.hours is not None:
        span_s, interval_s = 3600 * play.hours, float(deployment.interval_s)
        traces = [
            stretch_of(trace, span_s, interval_s, seed=seed)
            for trace, seed in zip(traces, ground.seeds, strict=True)
        ]
    simulator = StreamSimulator(
        [job] * (play.candidates * len(traces)),
        traces * play.candidates,
        deployment,
        seeds=list(ground.seeds) * play.candidates,
    )
    lived = _lived(play.policy, simulator)
    intervals = np.array([trace.length_s // deployment.interval_s for trace in simulator.traces])
    costs, slots = (
        found.reshape(play.candidates, len(traces)).mean(1)
        for found in (
            1 - deployment.objective.latency_weight - lived.rewards / intervals,
            lived.slots / intervals,
        )
    )
    return costs, slots, int(intervals.sum())


def _lived(policy: StreamPolicy, simulator: StreamSimulator) -> Lived:
    """What becomes of each environment until all traces are over."""
    if isinstance(policy, CompactPolicy):
        return play_out(
            simulator, np.broadcast_to(policy.numbers, (simulator.size, policy.numbers.shape[-1]))
        )
    decider, lived = policy.begin(simulator.graph), Lived(np.zeros(simulator.size), np.zeros(simulator.size))
    while not simulator.ended.all():
        over = simulator.ended
        outcome = simulator.step(decider.decide(simulator.snapshot()))
        lived.rewards[:] += outcome.rewards
        lived.slots[:] += np.where(over, 0, outcome.slots)
    return lived
