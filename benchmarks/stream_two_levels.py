"""`make bench-stream-two-levels`: what a day costs who may change parallelism twice, and knows the day.

DS2 tuned for each job restarts it three and a half times a day, once of which is the first change from where
every day begins. Half of that is less than two. So here every day is planned with hindsight: enough for the
highest half hour until some moment, enough for the highest half hour from then on, each times a factor. All
moments and factors of a grid are played on that very day with the luck that it will have, those near the best
once more, and the best is kept: two restarts a day, of somebody who knows what nobody can.

It says what knowing the shape of a day would be worth. It is no bound: finer plans may cost less, and the
best of some two hundred was chosen on the day itself.

    make bench-stream-two-levels ARGS="--seeds 2"
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.decima_settings import PROCESSES, Numbers, finish_after, ratio_reported, reported
from benchmarks.stream_learning import BASE, COMPACT, by_name, tuned_ds2
from benchmarks.stream_settings import MEASURES, asked_for, play, same_for_all, started_workers
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.core.processes import Processes
from trimtab.core.statistics import mean_interval
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import Job, enough_parallelism
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Integers
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.traces import RateTrace

DAYS = 2
FACTORS = (1.0, 1.15, 1.3, 1.5)
NEAR = (0.93, 1.0, 1.07)
EVERY_H, LATEST_H = 2, 24
QUICK_MS = 3000
"""Time step of the fluid while the grid is played; what is kept is played with the usual one."""
KEPT = 6


class Plan(NamedTuple):
    """Enough for the highest half hour, times a factor each, before and from an hour on."""

    hour: float
    before: float
    after: float


class Days(NamedTuple):
    """What came of plans, one number each."""

    cost: Numbers
    violation_share: Numbers
    rescales: Numbers
    slot_hours: Numbers


def grid() -> list[Plan]:
    """One level for the whole day first, then two."""
    one = [Plan(LATEST_H, factor, factor) for factor in FACTORS]
    two = [Plan(h, a, b) for h in range(EVERY_H, LATEST_H, EVERY_H) for a in FACTORS for b in FACTORS]
    return one + two


def levels(plan: Plan, job: Job, trace: RateTrace) -> list[Integers]:
    """Parallelism before and after."""
    steps = round(3600 / trace.step_s)
    halves = np.convolve(trace.rates, np.ones(steps // 2) / (steps // 2), "same")
    at = round(plan.hour * steps)
    parts = (halves[:at], halves[at:] if at < len(halves) else halves)
    factors = (plan.before, plan.after)
    peaks = [factor * float(part.max()) for part, factor in zip(parts, factors, strict=True)]
    return [enough_parallelism(job, peak, utilisation=1.0) for peak in peaks]


def played(plans: Sequence[Plan], job: Job, trace: RateTrace, seed: int, deployment: Deployment) -> Days:
    """The same day under each plan."""
    size = len(plans)
    simulator = StreamSimulator([job] * size, [trace] * size, deployment, seeds=[seed] * size)
    wanted = np.zeros((2, *simulator.graph.exists.shape), np.int64)
    for row, plan in enumerate(plans):
        wanted[:, row, : len(job.vertices)] = levels(plan, job, trace)
    changes = np.array([plan.hour * 3600 / deployment.interval_s for plan in plans])[:, None]
    rewards, late, slots, step = *np.zeros((3, len(plans))), 0
    while not simulator.ended.all():
        outcome = simulator.step(np.where(step < changes, *wanted))
        rewards, slots, step = rewards + outcome.rewards, slots + outcome.slots, step + 1
        late = late + (simulator.state.run["latency_s"].ravel() > deployment.objective.slo_s)
    best = 1 - deployment.objective.latency_weight
    restarts = simulator.state.run["restarts"].ravel().astype(np.float64)
    return Days(best - rewards / step, late / step, restarts, slots / step * 24)


@dataclass(frozen=True)
class Day:
    """One job on one day."""

    suite: JobsSuite
    job: str
    seed: int

    def found(self) -> tuple[list[float], list[float]]:
        """All measures of the best plan of one level, and of the best of two."""
        scenario = next(one for one in self.suite.scenarios() if one.name == self.job)
        job, trace = self.suite.draw(scenario, self.seed)
        usual = self.suite.deployment
        quick = Deployment.model_validate(usual.model_dump() | {"substep_ms": QUICK_MS})
        plans, ones = grid(), len(FACTORS)
        costs = played(plans, job, trace, self.seed, quick).cost
        best = plans[ones + int(costs[ones:].argmin())]
        near = [
            Plan(hour, best.before * a, best.after * b)
            for hour in (best.hour - 1, best.hour, best.hour + 1)
            for a in NEAR
            for b in NEAR
        ]
        promising = [plans[ones + place] for place in np.argsort(costs[ones:])[:KEPT]]
        kept = played([*plans[:ones], *promising, *near], job, trace, self.seed, usual)
        one, two = int(kept.cost[:ones].argmin()), ones + int(kept.cost[ones:].argmin())
        return [float(values[one]) for values in kept], [float(values[two]) for values in kept]


def main(arguments: Sequence[str] | None = None) -> None:
    asked = asked_for("What a day costs who may change parallelism twice.", DAYS, arguments)
    started = time.perf_counter()
    suite = JobsSuite(seeds=asked.seeds)
    days = [Day(suite, job, seed) for job in suite.jobs for seed in suite.test_seeds()]
    with Processes(PROCESSES) as share:
        found = np.array(share(Day.found, days))  # [jobs x days, one or two levels, measures]
    by_day = found.reshape(len(suite.jobs), asked.seeds, 2, len(MEASURES)).mean(0)
    players = [
        tuned_ds2(suite),
        *(same_for_all(name, [make_policy(name)], suite.jobs) for name in (BASE, COMPACT)),
    ]
    with started_workers() as workers:
        others = by_name(play(workers, suite, players))
    rows = [reported("unseen days of each job", float(asked.seeds))]
    for place, told in enumerate(("one level", "two levels")):
        rows += [
            reported(f"{told}, with hindsight: {measure}", mean_interval(by_day[:, place, number], seed=0))
            for number, measure in enumerate(MEASURES.values())
        ]
    rows += [
        reported(f"{one.label}: {words}", mean_interval(one.by_day(measure), seed=0))
        for one in others.values()
        for measure, words in MEASURES.items()
    ]
    rows += [
        ratio_reported(f"two levels, with hindsight / {one.label}: cost", by_day[:, 1, 0], one.by_day("cost"))
        for one in others.values()
    ]
    finish_after("stream-two-levels", rows, started)


if __name__ == "__main__":
    main()
