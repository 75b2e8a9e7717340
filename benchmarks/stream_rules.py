"""`make bench-stream-rules`: every autoscaling rule on the six frozen jobs, and three laws that rules keep.

Each job is played on 16 unseen days, the same days and the same luck for every rule. A rule has the settings
that were tuned for the job where such are shipped; where not, its usual ones, and the row says so. Means over
jobs are means over the six; their intervals are over days, because a day brings the same weather to all jobs.

The laws: DS2 is done after three steps on linear jobs; the port of the Flink operator's autoscaler gives its
hand-computed vectors; while a vertex reports nothing, no rule gets it scaled down.

    make bench-stream-rules ARGS="--seeds 2"    # a trial; it misses the bar on the number of days
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.stream_autoscaling.linear_jobs import converge

from benchmarks.decima_settings import PROCESSES, Numbers, finish_after, ratio_reported, reported
from benchmarks.results import ROOT, Row, at_least, at_most
from trimtab.benchmark.playing import Unit, Workers
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.benchmark.suite import Scenario
from trimtab.benchmark.tuned import TunedValues, shipped_tuned_values
from trimtab.core.policy import tunable_parameters
from trimtab.core.statistics import mean_interval
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import StreamPolicy
from trimtab.stream_autoscaling.simulator.simulator import Foreknowing, StreamSimulator
from trimtab.stream_autoscaling.workload.jobs import FROZEN, make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace

SEEDS = 16
BASELINE = "ds2"
RULES = ("ds2", "flink", "hpa", "dhalion", "keda-lag", "aws", "reactive", "static", "oracle-static")
MEASURES = {
    "cost": "cost of an interval",
    "violation_share": "share of the time too late",
    "rescales": "restarts a day",
    "slot_hours": "slot-hours a day",
}
LINEAR_JOBS = 200
FLINK_VECTORS = ("test_rules_flink_formulas.py", "test_rules_flink.py")
# Settings that make patient rules act at once: the more they want to scale down, the more is tested.
HASTY = (
    "aws:high_s=0,low_s=0,low=0.9",
    "dhalion:wait_s=0",
    "flink:window_s=120,stabilisation_s=0,down_interval_s=0",
    "hpa:down_wait_s=0",
    "static:parallelism=2",
)
DARK_HOURS, DARK_SHARE = 8, 0.2


@dataclass(frozen=True)
class MeasuredUnit(Unit):
    """A unit that leaves its episodes where they were played: a day of 46 vertices has a megabyte."""

    def play(self) -> list[list[Any]]:
        return [[episode.metrics() for episode in of_policy] for of_policy in super().play()]


@dataclass(frozen=True)
class Played:
    """Measures of every day, [jobs, days] each, of one rule."""

    rule: str
    told: str
    """Whose settings it had."""
    values: dict[str, Numbers]

    @property
    def label(self) -> str:
        return f"{self.rule}{self.told}"


def rule_for(
    name: str, suite: JobsSuite, scenario: Scenario, known: TunedValues
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


def play_rules(suite: JobsSuite) -> list[Played]:
    """Every rule on every job and day; jobs with most vertices first, so that no process waits long."""
    known = shipped_tuned_values()
    scenarios = sorted(suite.scenarios(), key=lambda one: -len(make_job(one.name).vertices))
    seeds, units, tuned = tuple(suite.test_seeds()), [], dict.fromkeys(RULES, 0)
    for scenario in scenarios:
        for name in RULES:
            policy, found = rule_for(name, suite, scenario, known)
            tuned[name] += found
            units.append(MeasuredUnit(suite, scenario, seeds, (policy,)))
    with Workers(PROCESSES) as workers:
        answers = workers.play(units)
    played = []
    for place, name in enumerate(RULES):
        of_rule = [answers[row * len(RULES) + place][0] for row in range(len(scenarios))]
        values = {
            measure: np.array([[day[measure] for day in job] for job in of_rule]) for measure in MEASURES
        }
        order = [scenarios.index(scenario) for scenario in suite.scenarios()]
        told = told_of(name, tuned[name], len(scenarios))
        played.append(Played(name, told, {measure: found[order] for measure, found in values.items()}))
    return played


def rule_rows(seeds: int) -> list[Row]:
    """Means over the six jobs, ratios of cost to DS2's, and the cost on each job."""
    suite = JobsSuite(seeds=seeds)
    played = play_rules(suite)
    baseline = next(one for one in played if one.rule == BASELINE)
    cheapest = sorted(played, key=lambda one: float(one.values["cost"].mean()))
    rows = [at_least("unseen days of each job", seeds, SEEDS)]
    for one in cheapest:
        for measure, words in MEASURES.items():
            mean = mean_interval(one.values[measure].mean(0), seed=0)
            rows.append(reported(f"six jobs: {one.label}: {words}", mean))
    for one in cheapest:
        if one is not baseline:
            ratio = (one.values["cost"].mean(0), baseline.values["cost"].mean(0))
            rows.append(ratio_reported(f"six jobs: {one.label} / {baseline.label}: cost", *ratio))
    for place, job in enumerate(suite.jobs):
        for one in cheapest:
            mean = mean_interval(one.values["cost"][place], seed=0)
            rows.append(reported(f"{job}: {one.label}: cost of an interval", mean))
    return rows


def ds2_rows() -> list[Row]:
    """Steps until DS2 is where it stays, from random starts on random linear DAGs."""
    steps = [converge(seed).steps for seed in range(LINEAR_JOBS)]
    return [
        at_most(f"DS2: most steps on {LINEAR_JOBS} linear jobs", max(steps), 3),
        reported("DS2: share of those jobs done in one step", float(np.mean([step <= 1 for step in steps]))),
    ]


class Verdicts:
    """A plugin of pytest that counts."""

    def __init__(self) -> None:
        self.passed, self.failed = 0, 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed


def flink_rows() -> list[Row]:
    """The golden vectors of the Flink port, as the tests hold them."""
    verdicts = Verdicts()
    files = [str(ROOT / "tests" / "stream_autoscaling" / name) for name in FLINK_VECTORS]
    code = pytest.main(
        ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:terminal", *files], plugins=[verdicts]
    )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"error: the golden vectors did not run (pytest says {code!r}); run them by hand")
    return [
        at_most("Flink port: hand-computed vectors it misses", verdicts.failed, 0),
        at_least("Flink port: hand-computed vectors it meets", verdicts.passed, 60),
    ]


@dataclass
class Dark:
    """Vertices that did not report, and how often they were to be, and were, scaled down."""

    met: int = 0
    asked: int = 0
    done: int = 0

    def watch(self, simulator: StreamSimulator, policy: StreamPolicy) -> None:
        """Play to the end, looking at every vertex without complete metrics."""
        decider = policy.begin(simulator.graph)
        while not simulator.ended.all():
            snapshot = simulator.snapshot()
            newest = snapshot.samples.complete[:, -1] & snapshot.samples.present[:, -1, None]
            dark = ~newest & simulator.graph.exists & ~simulator.ended[:, None]
            wanted = decider.decide(snapshot)
            self.met += int(dark.sum())
            self.asked += int(((wanted < snapshot.parallelism) & dark).sum())
            simulator.step(wanted)
            self.done += int(((simulator.snapshot().parallelism < snapshot.parallelism) & dark).sum())


def dark_rows() -> list[Row]:
    """Some hours in which every fifth sample is missing, under all rules, patient and hasty."""
    jobs = [make_job(name) for name in FROZEN]
    seeds = range(len(jobs))
    whole = [draw_trace(TraceSettings(name="steps"), job, seed=seed) for seed, job in enumerate(jobs)]
    traces = [trace.between(trace.start_s, trace.start_s + 3600 * DARK_HOURS) for trace in whole]
    dark = Dark()
    for name in (*RULES, *HASTY):
        rule = make_policy(name)
        told: StreamPolicy = rule.knowing(jobs, traces) if isinstance(rule, Foreknowing) else rule
        simulator = StreamSimulator(jobs, traces, Deployment(missing=DARK_SHARE), seeds=seeds)
        dark.watch(simulator, told)
    return [
        at_most("incomplete metrics: vertices scaled down", dark.done, 0),
        reported("incomplete metrics: vertices that rules wanted to scale down", dark.asked),
        reported("incomplete metrics: vertices met", dark.met),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Every autoscaling rule on the six frozen jobs.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="unseen days of each job")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    rows = ds2_rows() + flink_rows() + dark_rows() + rule_rows(asked.seeds)
    finish_after("stream-rules", rows, started)


if __name__ == "__main__":
    main()
