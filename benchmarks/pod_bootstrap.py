"""`make bench-pod-bootstrap`: learners that start on live services, with and without bootstrapping.

Twelve services that nothing was tuned on (test applications, unseen hours of three kinds of traffic) live for
two hours under a rule, and then for 100 episodes of 40 intervals of 15 s, which are what is measured. Nothing
begins anew between episodes: a live service goes on. Everybody meets the same requests.

- heuristic alone: the rule `multi` all the time.
- with bootstrap: one learner for each service is started beside the rule, see `aware.bootstrapping`. Of the
  two hours the first is observed; in the second the learners practise on fitted copies. Whenever the rule has
  to act in what is measured, because a learner is not good enough or has just failed, that counts too.
- without bootstrap: the same learners (TD3, same settings, no anchor) act from the first episode on.

Violations are late or failed requests over all of all services. Utilisation is the mean over services of what
was used over what was held. Intervals are over services. The slides of AWARE have 16.9 times fewer violations
with bootstrapping, over other services and hardware, and compare with nothing but no bootstrapping.

    make bench-pod-bootstrap ARGS="--services 4 --episodes 8"    # a trial; it misses the bars on numbers
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Row, at_least, finish
from trimtab.core.randomness import split
from trimtab.core.statistics import Estimate, bootstrap, mean_interval
from trimtab.learning.off_policy import train_off_policy
from trimtab.pod_autoscaling.aware.bootstrapping import Bootstrapper
from trimtab.pod_autoscaling.aware.retraining import GivenServices, Outcomes
from trimtab.pod_autoscaling.aware.services import Service, draw_services
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings
from trimtab.pod_autoscaling.workload.presets import Part

SERVICES, EPISODES, STEPS = 12, 100, 40
BEFORE = 480
"""Intervals under the rule before anything is measured."""
FIRST_SEED, SEED = 70_000, 0
QUARTERS = 4
MOST_VIOLATIONS, LEAST_HARM, LEAST_UTILISATION = 1.2, 5.0, 0.95
PAPER_HARM = 16.9

Numbers = NDArray[np.float64]


def settings_for(episodes: int) -> AwareSettings:
    """The preset, with days long enough."""
    preset = PRESETS.load("bootstrap")
    hours = (BEFORE + episodes * STEPS + 1) * preset.deployment.interval_s / 3600
    ground = preset.ground.model_copy(update={"hours": hours})
    return preset.model_copy(update={"ground": ground})


class AfterTheRule(GivenServices):
    """Services as the rule leaves them: whoever resets them gets them two hours later, with the same luck."""

    def reset(self, seed: int) -> None:
        super().reset(split(SEED, "services"))
        self.by_rule[:] = True
        for _ in range(BEFORE):
            self.step(self.teacher(self.observe()))
        self.by_rule[:] = False


def heuristic_alone(settings: AwareSettings, services: Sequence[Service]) -> Outcomes:
    task = AfterTheRule(settings, lambda _: services)
    task.reset(SEED)
    task.by_rule[:] = True
    for _ in range(intervals_of(settings) - BEFORE):
        task.step(task.teacher(task.observe()))
    return task.lived


def with_bootstrap(settings: AwareSettings, services: Sequence[Service]) -> tuple[Outcomes, Bootstrapper]:
    task = GivenServices(settings, lambda _: services)
    started = Bootstrapper(task, seed=SEED)
    started.live(intervals_of(settings))
    return task.lived, started


def without_bootstrap(settings: AwareSettings, services: Sequence[Service]) -> Outcomes:
    """The same learners from the beginning, online at once, with nothing to hold on to."""
    changed = {
        "cloning_iterations": 0,
        "offline_iterations": 0,
        "anchor": 0.0,
        "members": len(services),
        "iterations": (intervals_of(settings) - BEFORE) // STEPS,
    }
    training = settings.training.model_copy(update=changed)
    task = AfterTheRule(settings.model_copy(update={"training": training}), lambda _: services)
    with tempfile.TemporaryDirectory() as folder:
        train_off_policy(task, training, Path(folder) / "run", clock=lambda: datetime.now(UTC), seed=SEED)
    return task.lived


def intervals_of(settings: AwareSettings) -> int:
    """All that is lived through; the last interval of a trace is left, for a trace that ends begins anew."""
    return round(settings.ground.hours * 3600 / settings.deployment.interval_s) - 1


def counted(lived: Outcomes, first: int = 0, last: int | None = None) -> Outcomes:
    """What is measured: sums over episodes [first, last) of each service, [services] each."""
    end = None if last is None else BEFORE + last * STEPS
    return Outcomes(*(np.nansum(column[BEFORE + first * STEPS : end], axis=0) for column in lived))


def times_more(ours: Outcomes, theirs: Outcomes) -> Estimate:
    """Violations over theirs; over all requests of all services, resampled by service."""

    def ratio(late: Numbers, finished: Numbers, other: Numbers, others: Numbers) -> Numbers:
        return (late.sum(-1) / finished.sum(-1)) / np.maximum(other.sum(-1) / others.sum(-1), 1e-12)

    return bootstrap(ratio, ours.late, ours.finished, theirs.late, theirs.finished, seed=0)


def utilisation(lived: Outcomes) -> dict[str, Numbers]:
    """Of CPU and of memory, by service."""
    return {
        "CPU": lived.cores_used / lived.cores_held,
        "memory": lived.memory_used / lived.memory_held,
    }


def shares(ours: Outcomes, theirs: Outcomes) -> dict[str, Estimate]:
    """Mean utilisation over theirs."""
    left, right = utilisation(ours), utilisation(theirs)
    return {
        name: bootstrap(lambda a, b: a.mean(-1) / b.mean(-1), left[name], right[name], seed=0)
        for name in left
    }


def most(name: str, found: Estimate, bar: float) -> Row:
    return Row(name, found.value, f"<= {bar:g}", found.value <= bar, found.low, found.high)


def least(name: str, found: Estimate, bar: float) -> Row:
    return Row(name, found.value, f">= {bar:g}", found.value >= bar, found.low, found.high)


def told(name: str, found: Estimate | float) -> Row:
    if isinstance(found, Estimate):
        return Row(name, found.value, "none", True, found.low, found.high)
    return Row(name, found, "none", True)


def rows_of(alone: Outcomes, booted: Outcomes, scratch: Outcomes, episodes: int) -> list[Row]:
    """What is claimed, and the curve by quarters."""
    rule, ours, bare = (counted(one) for one in (alone, booted, scratch))
    rows = [
        most("violations with bootstrap, times the heuristic's", times_more(ours, rule), MOST_VIOLATIONS),
        least(
            "violations without bootstrap, times those with it (paper 16.9)",
            times_more(bare, ours),
            LEAST_HARM,
        ),
    ]
    rows += [
        least(f"{name} utilisation with bootstrap, of the heuristic's", share, LEAST_UTILISATION)
        for name, share in shares(ours, rule).items()
    ]
    rows += [
        told(f"{name} utilisation without bootstrap, of that with it", share)
        for name, share in shares(bare, ours).items()
    ]
    for name, one in (("heuristic alone", rule), ("with bootstrap", ours), ("without bootstrap", bare)):
        rows.append(
            told(f"{name}: violations, share of requests", float(one.late.sum() / one.finished.sum()))
        )
        rows += [
            told(f"{name}: {what} utilisation", mean_interval(share, seed=0))
            for what, share in utilisation(one).items()
        ]
    rows += [
        told(
            f"{name}: mean reward of an interval",
            mean_interval(np.nanmean(one.reward[BEFORE:], axis=0), seed=0),
        )
        for name, one in (
            ("heuristic alone", alone),
            ("with bootstrap", booted),
            ("without bootstrap", scratch),
        )
    ]
    for quarter in range(QUARTERS):
        first, last = quarter * episodes // QUARTERS, (quarter + 1) * episodes // QUARTERS
        rule, ours, bare = (counted(one, first, last) for one in (alone, booted, scratch))
        span = f"EP {first + 1}-{last}"
        rows += [
            told(f"{span}: violations with bootstrap, times the heuristic's", times_more(ours, rule)),
            told(f"{span}: violations without bootstrap, times the heuristic's", times_more(bare, rule)),
        ]
        rows += [
            told(f"{span}: {what} utilisation without bootstrap, of the heuristic's", share)
            for what, share in shares(bare, rule).items()
        ]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Learners that start on live services.")
    parser.add_argument("--services", type=int, default=SERVICES, help="services side by side")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes of 40 intervals")
    parser.add_argument("--part", choices=("validation", "test"), default="test", help="whose services")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    settings, part = settings_for(asked.episodes), part_of(asked.part)
    seeds = range(FIRST_SEED, FIRST_SEED + asked.services)
    services = draw_services(settings.ground, settings.deployment, seeds, part)
    alone = heuristic_alone(settings, services)
    booted, bootstrapper = with_bootstrap(settings, services)
    scratch = without_bootstrap(settings, services)
    acting = np.stack(bootstrapper.online)[BEFORE:]
    work = [
        abs(np.log(fitted.cpu_s / services[row].application.cpu_s))
        for row, fitted in bootstrapper.fitted.items()
    ]
    rows = rows_of(alone, booted, scratch, asked.episodes)
    rows += [
        told("share of the intervals in which the learner acts", mean_interval(acting.mean(0), seed=0)),
        at_least("services whose learner came to act", float(acting.any(0).sum()), asked.services / 2),
        told("times the rule had to take over", float(bootstrapper.fallbacks)),
        told("median error of the fitted work of a request", float(np.median(np.expm1(work)))),
        at_least("services", float(asked.services), SERVICES),
        at_least("episodes", float(asked.episodes), EPISODES),
        told("minutes this benchmark took", (time.perf_counter() - started) / 60),
    ]
    finish("pod-bootstrap", rows)


def part_of(name: str) -> Part:
    return "validation" if name == "validation" else "test"


if __name__ == "__main__":
    main()
