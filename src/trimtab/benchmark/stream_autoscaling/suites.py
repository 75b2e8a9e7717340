"""The suites of stream autoscaling: which jobs, what arrives, and who scales them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.benchmark.stream_autoscaling.wing import STREAM
from trimtab.benchmark.suite import (
    FIRST_TEST_SEED,
    SEEDS_PER_DRAW,
    Scenario,
    Suite,
    Wing,
    few_episodes_told,
)
from trimtab.core.settings import Field
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.policies import POLICIES, PREFIX
from trimtab.stream_autoscaling.simulator.simulator import simulate_batch
from trimtab.stream_autoscaling.workload.jobs import FROZEN, make_job
from trimtab.stream_autoscaling.workload.presets import (
    TraceSettings,
    draw_trace,
    find_trace,
    separate_episodes,
)
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["AutoscalingSuite", "Ground", "JobsSuite", "NexmarkSuite", "SureSuite"]

RULES = (
    "static",
    "oracle-static",
    "reactive",
    "hpa:tuned",
    "ds2:tuned",
    "banded:tuned",
    "flink:tuned",
    "dhalion:tuned",
    "keda-lag:tuned",
    "aws:tuned",
)
NEXMARK = ("q1", "q3", "q5", "q8", "q11", "q20")


@dataclass(frozen=True)
class Ground:
    """What one scenario plays: a job, and what arrives at it."""

    name: str
    trace: TraceSettings


class AutoscalingSuite(Suite):
    """A comparison of autoscalers."""

    wing: ClassVar[Wing] = STREAM
    # One call of the engine steps them all: the more, the less time goes into calling it.
    seeds_together: ClassVar[int] = 16

    jobs: tuple[str, ...] = Field(
        default=FROZEN, min_length=1, description="Jobs by name or file, each a table of its own."
    )
    trace: TraceSettings = Field(default=TraceSettings(), description="What arrives.")
    deployment: Deployment = Field(default=Deployment(), description="Where and how the jobs run.")
    policies: tuple[str, ...] = Field(
        default=RULES, min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )
    baseline: str = Field(default="ds2:tuned", description="Policy that the others are measured against.")
    seeds: int = Field(
        default=16, ge=2, le=SEEDS_PER_DRAW, description="Test episodes of each policy and job."
    )
    training_seeds: int = Field(
        default=8, ge=2, le=FIRST_TEST_SEED, description="Episodes `trimtab tune` judges by."
    )

    def scenarios(self) -> tuple[Scenario, ...]:
        """One for each job."""
        return tuple(Scenario(name, Ground(name, self.trace), self.trace.load) for name in self.jobs)

    def draw(self, scenario: Scenario, seed: int) -> tuple[Job, RateTrace]:
        """The job and what arrives at it under this seed: days of the part that the seed belongs to."""
        part = "test" if seed >= FIRST_TEST_SEED else "training"
        job = make_job(scenario.workload.name)
        return job, draw_trace(scenario.workload.trace, job, seed=seed, part=part)

    def play(
        self, scenario: Scenario, seeds: Sequence[int], policies: Sequence[Any], *, record: bool = False
    ) -> list[list[Episode]]:
        """Whole episodes, by policy and seed; they always hold what pictures need."""
        drawn = [self.draw(scenario, seed) for seed in seeds]
        jobs, traces = [job for job, _ in drawn], [trace for _, trace in drawn]
        return [simulate_batch(policy, jobs, traces, self.deployment, seeds=seeds) for policy in policies]

    def check(self) -> None:
        """Refuse unknown jobs and traces, and traces too short to be split."""
        for scenario in self.scenarios():
            self.draw(scenario, FIRST_TEST_SEED)
        find_trace(self.trace.name)

    def notes(self) -> list[str]:
        """Whether a trace file is too short to give every seed days of its own."""
        fit = separate_episodes(self.trace, "test")
        return few_episodes_told(self.trace.name, fit, self.seeds)


class JobsSuite(AutoscalingSuite):
    """The six frozen jobs under a web server's load: every rule."""


class NexmarkSuite(AutoscalingSuite):
    """Six jobs shaped like Nexmark's queries."""

    jobs: tuple[str, ...] = Field(
        default=NEXMARK, min_length=1, description="Jobs by name or file, each a table of its own."
    )


class SureSuite(AutoscalingSuite):
    """Trained policies against the rules they have to beat."""

    policies: tuple[str, ...] = Field(
        default_factory=lambda: (
            "oracle-static",
            "hpa:tuned",
            "ds2:tuned",
            "flink:tuned",
            *(name for name in ("sure", "sure-compact", "sure-sampler") if PREFIX + name in POLICIES),
        ),
        min_length=1,
        description="Policies; `:tuned` takes the tuned settings.",
    )
