"""`make bench-stream-overload`: autoscalers where jobs cannot keep up.

Unseen days with three to five times the usual rate, of which hours are beyond what a job manages at its most
parallelism: buffers are full, checkpoints come late, and a restart sends minutes of work back. Who scales up
for what no parallelism can manage pays for subtasks that wait, and who restarts meanwhile falls behind
further. Rules have the settings tuned for each job under its usual load. Each of the five trainings plays
its share of the days, as in `bench-stream-learning`.

    make bench-stream-overload ARGS="--seeds 2"
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.decima_settings import finish_after, ratio_reported, reported
from benchmarks.results import Row, at_least
from benchmarks.stream_learning import COMPACT, OURS, UNSEEN_JOBS, USUAL, ratio_row, tuned_ds2
from benchmarks.stream_settings import (
    MEASURES,
    TRAINING_SEEDS,
    Played,
    asked_for,
    learned,
    learned_compact,
    play,
    same_for_all,
    started_workers,
    tuned_rule,
)
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.benchmark.suite import Scenario
from trimtab.benchmark.tuned import shipped_tuned_values
from trimtab.core.settings import Field
from trimtab.core.statistics import mean_interval
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.workload.presets import TraceSettings
from trimtab.stream_autoscaling.workload.traces import RateTrace

DAYS = 10
RULES = ("flink", "hpa", "banded")


@dataclass(frozen=True)
class Load:
    """A kind of load, so many times as high as usual."""

    trace: str
    times: float

    @property
    def label(self) -> str:
        return f"{self.times:g} x {self.trace}"


LOADS = (Load("worldcup-like", 3.0), Load("steps", 3.0), Load("clarknet-like", 5.0))


class OverloadSuite(JobsSuite):
    """Days of a trace, so many times as high."""

    times: float = Field(gt=0, le=100, description="Over the usual rate.")

    def draw(self, scenario: Scenario, seed: int) -> tuple[Job, RateTrace]:
        job, trace = super().draw(scenario, seed)
        return job, trace.scaled(self.times * float(trace.rates.mean()))


def load_rows(load: Load, played: Sequence[Played]) -> list[Row]:
    """What everybody came to under one load, and the compact autoscaler against the best of the others."""
    found = {one.name: one for one in sorted(played, key=lambda one: one.cost)}
    rows = [
        reported(f"{load.label}: {one.label}: {words}", mean_interval(one.by_day(measure), seed=0))
        for one in found.values()
        for measure, words in MEASURES.items()
    ]
    best = min((one for one in played if one.name not in (COMPACT, OURS)), key=lambda one: one.cost)
    told = f"{load.label}: {COMPACT} / best of rules, {best.label}: cost"
    rows.append(ratio_row(told, found[COMPACT].by_day("cost"), best.by_day("cost"), 1.0))
    told = f"{load.label}: {OURS} / best of rules, {best.label}: cost"
    return [*rows, ratio_reported(told, found[OURS].by_day("cost"), best.by_day("cost"))]


def main(arguments: Sequence[str] | None = None) -> None:
    asked = asked_for("Autoscalers where jobs cannot keep up.", DAYS, arguments)
    started = time.perf_counter()
    networks, compact = learned([OURS], asked.bundles)[OURS], learned_compact(COMPACT, asked.bundles)
    home, known = JobsSuite(jobs=UNSEEN_JOBS), shipped_tuned_values()
    players = [
        tuned_ds2(home),
        *(tuned_rule(name, home, known) for name in RULES),
        same_for_all(USUAL, [make_policy("ds2")], UNSEEN_JOBS),
        same_for_all(OURS, networks, UNSEEN_JOBS),
        same_for_all(COMPACT, compact, UNSEEN_JOBS),
    ]
    rows = [
        at_least("training seeds of each learned policy", min(TRAINING_SEEDS, asked.seeds), 5),
        at_least("unseen days of each job and load", asked.seeds, DAYS),
    ]
    with started_workers() as workers:
        for load in LOADS:
            suite = OverloadSuite(
                jobs=UNSEEN_JOBS, seeds=asked.seeds, trace=TraceSettings(name=load.trace), times=load.times
            )
            rows += load_rows(load, play(workers, suite, players))
    finish_after("stream-overload", rows, started)


if __name__ == "__main__":
    main()
