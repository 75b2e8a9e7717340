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

import numpy as np
import pytest
from tests.stream_autoscaling.linear_jobs import converge

from benchmarks.decima_settings import finish_after, ratio_reported, reported
from benchmarks.results import ROOT, Row, at_least, at_most
from benchmarks.stream_settings import MEASURES, play, started_workers, tuned_rule
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.benchmark.tuned import shipped_tuned_values
from trimtab.core.statistics import mean_interval
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import StreamPolicy
from trimtab.stream_autoscaling.simulator.simulator import Foreknowing, StreamSimulator
from trimtab.stream_autoscaling.workload.jobs import FROZEN, make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace

SEEDS = 16
BASELINE = "ds2"
RULES = ("ds2", "banded", "flink", "hpa", "dhalion", "keda-lag", "aws", "reactive", "static", "oracle-static")
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
LEARNED = ("sure", "sure-compact")
DARK_HOURS, DARK_SHARE = 8, 0.2


def rule_rows(seeds: int) -> list[Row]:
    """Means over the six jobs, ratios of cost to DS2's, and the cost on each job."""
    suite, known = JobsSuite(seeds=seeds), shipped_tuned_values()
    with started_workers() as workers:
        played = play(workers, suite, [tuned_rule(name, suite, known) for name in RULES])
    baseline = next(one for one in played if one.name == BASELINE)
    cheapest = sorted(played, key=lambda one: one.cost)
    rows = [at_least("unseen days of each job", seeds, SEEDS)]
    for one in cheapest:
        for measure, words in MEASURES.items():
            mean = mean_interval(one.by_day(measure), seed=0)
            rows.append(reported(f"six jobs: {one.label}: {words}", mean))
    for one in cheapest:
        if one is not baseline:
            ratio = (one.by_day("cost"), baseline.by_day("cost"))
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
    """Some hours in which every fifth sample is missing, under learned policies and rules, hasty ones too."""
    jobs = [make_job(name) for name in FROZEN]
    seeds = range(len(jobs))
    whole = [draw_trace(TraceSettings(name="steps"), job, seed=seed) for seed, job in enumerate(jobs)]
    traces = [trace.between(trace.start_s, trace.start_s + 3600 * DARK_HOURS) for trace in whole]
    dark = Dark()
    for name in (*RULES, *HASTY, *LEARNED):
        rule = make_policy(name)
        told: StreamPolicy = rule.knowing(jobs, traces) if isinstance(rule, Foreknowing) else rule
        simulator = StreamSimulator(jobs, traces, Deployment(missing=DARK_SHARE), seeds=seeds)
        dark.watch(simulator, told)
    return [
        at_most("incomplete metrics: vertices scaled down", dark.done, 0),
        # Otherwise nothing was held back, and the first row says nothing.
        at_least("incomplete metrics: vertices that policies wanted to scale down", dark.asked, 1),
        at_least("incomplete metrics: vertices met", dark.met, 1),
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
