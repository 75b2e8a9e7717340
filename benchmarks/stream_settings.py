"""Words that the benchmarks of autoscalers share: who plays which days, and what came of it.

A rule plays every day of a job. Of policies that were trained alike with other seeds, each plays its share of
the same days: a day is played once by everybody, and every training counts as much as the others. They play
in one batch, because what five see at once takes hardly longer to prepare than what one sees.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decima_settings import PROCESSES, Numbers
from benchmarks.results import ROOT
from benchmarks.stream_shared_batch import SharedBatch
from trimtab.benchmark.playing import Unit, Workers
from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite
from trimtab.benchmark.suite import Scenario
from trimtab.benchmark.tuned import TunedValues
from trimtab.core.bundle import Bundle, load_bundle
from trimtab.core.errors import TrimtabError
from trimtab.core.policy import tunable_parameters
from trimtab.stream_autoscaling.episode import METRICS
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import StreamPolicy
from trimtab.stream_autoscaling.simulator.simulator import simulate_batch
from trimtab.stream_autoscaling.sure.compact import CompactPolicy, compact_policy
from trimtab.stream_autoscaling.sure.policy import SurePolicy
from trimtab.stream_autoscaling.workload.jobs import make_job

BUNDLES = ROOT / "benchmarks" / "bundles" / "stream"
TRAINING_SEEDS = 5
LIKE_SIZE = 0.8
"""Jobs with at least so large a share of each other's vertices are played together."""
MEASURES = {
    "cost": "cost of an interval",
    "violation_share": "share of the time too late",
    "rescales": "restarts a day",
    "slot_hours": "slot-hours a day",
}


@dataclass(frozen=True)
class MeasuredUnit(Unit):
    """The days of some jobs under one policy, all at once: a network takes little longer for two jobs.

    Its episodes stay where they were played: a day of 46 vertices has a megabyte.
    """

    together: tuple[Scenario, ...] = ()
    """All scenarios, `scenario` among them."""

    @property
    def days(self) -> list[tuple[str, int]]:
        """Job and seed of every episode, in the order of `play`: all jobs of a day before the next day."""
        return [(one.name, seed) for seed in self.seeds for one in self.together]

    def play(self) -> list[list[Any]]:
        suite: Any = self.suite
        drawn = [suite.draw(one, seed) for seed in self.seeds for one in self.together]
        jobs, traces = [job for job, _ in drawn], [trace for _, trace in drawn]
        seeds = [seed for _, seed in self.days]
        return [
            [one.metrics() for one in simulate_batch(policy, jobs, traces, suite.deployment, seeds=seeds)]
            for policy in self.policies
        ]


@dataclass(frozen=True)
class Contestant:
    """Who plays: for each job one policy, or several that share its days."""

    name: str
    told: str
    """Whose settings it had."""
    policies: Mapping[str, tuple[StreamPolicy, ...]]

    @property
    def label(self) -> str:
        return f"{self.name}{self.told}"

    @property
    def trainings(self) -> int:
        """How many policies share the days of a job."""
        return max(len(policies) for policies in self.policies.values())

    def shares(self, job: str, seeds: Sequence[int]) -> list[tuple[StreamPolicy, tuple[int, ...]]]:
        """The policies with the days of each: those whose number, divided by theirs, leaves its place."""
        policies = self.policies[job]
        days = [tuple(seed for seed in seeds if seed % len(policies) == at) for at in range(len(policies))]
        return [(policy, its) for policy, its in zip(policies, days, strict=True) if its]


@dataclass(frozen=True)
class Played:
    """Measures of every day, [jobs, days] each, of one contestant."""

    name: str
    told: str
    values: Mapping[str, Numbers]

    @property
    def label(self) -> str:
        return f"{self.name}{self.told}"

    @property
    def cost(self) -> float:
        return float(self.values["cost"].mean())

    def by_day(self, measure: str) -> Numbers:
        """The mean over jobs, for each day."""
        return self.values[measure].mean(0)


def rule_for(
    name: str, suite: AutoscalingSuite, scenario: Scenario, known: TunedValues
) -> tuple[StreamPolicy, bool]:
    """The rule for a job, and whether tuned settings were found for it."""
    entry = known.find(name, suite, scenario)
    return (make_policy(name), False) if entry is None else (make_policy(name, entry.values), True)


def told_of(name: str, tuned_jobs: int, jobs: int) -> str:
    """What a row says about settings.

    >>> told_of("ds2", 0, 6), told_of("ds2", 6, 6), told_of("reactive", 0, 6)
    (' (usual settings)', ' (tuned)', '')
    """
    if not tunable_parameters(make_policy(name)):
        return ""
    if tuned_jobs in (0, jobs):
        return " (tuned)" if tuned_jobs else " (usual settings)"
    return f" (tuned for {tuned_jobs} of {jobs} jobs)"


def tuned_rule(name: str, suite: AutoscalingSuite, known: TunedValues) -> Contestant:
    """A rule with the settings tuned for each job, where there are such."""
    found = {one.name: rule_for(name, suite, one, known) for one in suite.scenarios()}
    told = told_of(name, sum(tuned for _, tuned in found.values()), len(found))
    return Contestant(name, told, {job: (policy,) for job, (policy, _) in found.items()})


def same_for_all(name: str, policies: Sequence[StreamPolicy], jobs: Sequence[str]) -> Contestant:
    """The same policies for every job."""
    return Contestant(name, "", dict.fromkeys(jobs, tuple(policies)))


def learned(names: Sequence[str], folder: Path) -> dict[str, list[SurePolicy]]:
    """The trainings of each name; the first that is missing ends the benchmark before anything is played."""
    return {name: [SurePolicy(bundle) for bundle in _bundles(name, folder)] for name in names}


def learned_compact(name: str, folder: Path) -> list[CompactPolicy]:
    """The trainings of a compact autoscaler."""
    return [compact_policy(bundle) for bundle in _bundles(name, folder)]


def _bundles(name: str, folder: Path) -> list[Bundle]:
    try:
        return [load_bundle(folder / f"{name}-{seed}") for seed in range(TRAINING_SEEDS)]
    except TrimtabError as missing:
        sys.exit(f"error: {str(missing).replace(f'{ROOT}/', '')}")


def started_workers() -> Workers:
    """Processes with one thread of linear algebra each: with more, threads wait for one another."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return Workers(PROCESSES)


def play(workers: Workers, suite: AutoscalingSuite, contestants: Sequence[Contestant]) -> list[Played]:
    """Everybody on every job and day; what takes longest first, so that no process waits long."""
    units, owners = [], []
    for alike in of_like_size(suite.scenarios()):
        for one in sorted(contestants, key=lambda contestant: -contestant.trainings):
            # Tuned rules have other settings for every job.
            same = all(one.policies[scenario.name] is one.policies[alike[0].name] for scenario in alike)
            for some in [alike] if same else [(scenario,) for scenario in alike]:
                units.append(unit_of(suite, some, one))
                owners.append(one.label)
    found = {}
    for label, unit, (days,) in zip(owners, units, workers.play(units), strict=True):
        for (job, seed), measured in zip(unit.days, days, strict=True):
            found[label, job, seed] = measured
    return [_collected(one, suite, found) for one in contestants]


def unit_of(suite: AutoscalingSuite, some: tuple[Scenario, ...], contestant: Contestant) -> MeasuredUnit:
    """All days of some jobs under one contestant, those of each training one after the other."""
    shares = contestant.shares(some[0].name, suite.test_seeds())
    policies: list[Any] = [policy for policy, _ in shares]
    counts = [len(its) * len(some) for _, its in shares]
    seeds = tuple(seed for _, its in shares for seed in its)
    return MeasuredUnit(suite, some[0], seeds, (_side_by_side(policies, counts),), together=some)


def _side_by_side(policies: Sequence[Any], counts: Sequence[int]) -> StreamPolicy:
    """Several trainings as one policy for a batch of which each has so many jobs, one after the other."""
    if len(policies) == 1:
        return policies[0]
    if isinstance(policies[0], CompactPolicy):
        rows = np.repeat([one.numbers for one in policies], counts, axis=0)
        return CompactPolicy(policies[0].name, rows)
    return SharedBatch(policies, counts)


def of_like_size(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, ...]]:
    """Scenarios whose jobs have about as many vertices, the largest first.

    >>> from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
    >>> [[one.name for one in alike] for alike in of_like_size(JobsSuite().scenarios())]
    [['large-1', 'large-2'], ['medium-1', 'medium-2'], ['small-1', 'small-2']]
    """
    sizes = {one.name: len(make_job(one.name).vertices) for one in scenarios}
    groups: list[list[Scenario]] = []
    for one in sorted(scenarios, key=lambda scenario: -sizes[scenario.name]):
        if groups and sizes[one.name] >= LIKE_SIZE * sizes[groups[-1][0].name]:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [tuple(group) for group in groups]


def _collected(
    contestant: Contestant,
    suite: AutoscalingSuite,
    found: Mapping[tuple[str, str, int], Mapping[str, float]],
) -> Played:
    days = [[found[contestant.label, job, seed] for seed in suite.test_seeds()] for job in suite.jobs]
    values = {measure: np.array([[day[measure] for day in job] for job in days]) for measure in METRICS}
    return Played(contestant.name, contestant.told, values)


def asked_for(description: str, seeds: int, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of a benchmark of learned policies."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help="unseen days of each job")
    parser.add_argument("--bundles", type=Path, default=BUNDLES, help="folder of the trained policies")
    return parser.parse_args(arguments)
