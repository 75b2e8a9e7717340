"""`make bench-pod-drift`: services that change while they are served, and the detector that should notice.

Serving. Test services under unseen traffic; half-way the work of every request grows by half. The same
services without the change, with the same requests and luck, say what would have been: the degradation is the
mean reward of the 200 intervals after the change, as a share less than theirs. The bar is AWARE's: 3.6 %.
Limits of latency stay as they are, though a request that works longer takes longer whatever one gives it: so
the same services, had their work always been that, say how much of the loss nobody could avoid by noticing.

Retraining, as information (`aware.retrainer`). A policy with direct control of sizes
(`benchmarks/bundles/pod-drift-steady`) that has met only services that never change serves the same. Where
`DriftWatch` raises the alarm, ten minutes of metrics are gathered, an application is fitted to them, and the
policy goes on learning on copies of it, one learner for each service; from then on that learner serves,
unseen: old and new are not compared on copies first. `--train` makes the bundle anew.

Detector. It watches rewards of simulated services under waves of traffic, one after another for each service;
after an alarm it learns anew what is usual, as after a change of the policy. False alarms are counted where
nothing changes. Then work and waits of all requests double, or triple, which no size of pods makes up for:
where rewards fall by 15 % or more, the delay is counted in intervals, with the one in which metrics are late.
The made-up series are those that the detector was chosen with (`tests/control/rewards.py`).

    make bench-pod-drift ARGS="--services 4 --steady 2000"    # a trial; it misses the bars on numbers
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.control.rewards import BEFORE, rewards

from benchmarks.pod_bootstrap import times_more, utilisation
from benchmarks.results import ROOT, Row, at_least, at_most, finish
from trimtab.control.drift import Drift as Said
from trimtab.control.drift import DriftWatch
from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.randomness import split
from trimtab.core.run_folder import RunFolder
from trimtab.core.statistics import Estimate, bootstrap
from trimtab.learning.off_policy import train_off_policy
from trimtab.learning.off_policy_task import recorded
from trimtab.pod_autoscaling.aware.policy import AwarePolicy
from trimtab.pod_autoscaling.aware.retrainer import Retrainer, Retraining, RetrainingSettings, Trainer
from trimtab.pod_autoscaling.aware.retraining import GivenServices, Outcomes
from trimtab.pod_autoscaling.aware.services import Service, draw_services, play_services
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings, AwareTask
from trimtab.pod_autoscaling.aware.training import bundle_of_run
from trimtab.pod_autoscaling.drift import Change, Drift
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import PodPolicy

SERVICES, STEADY_STEPS = 24, 20_000
HALF, AFTER = 240, 200
"""Intervals before the change, and those after it that count."""
GROWTH = 1.5
DEGRADATION = 0.036
SERVED_SEED, WATCHED_SEED = 80_000, 90_000
WATCHED, WATCHED_STEPS = 36, 700
LARGE = (2.0, 3.0)
DROP, DELAY, FALSE_ALARMS, FOUND = 0.15, 10, 1.0, 0.95
GATHERED, PRACTICE = 40, 20
"""Intervals from an alarm until a policy is retrained, and iterations of that."""
BUNDLE = ROOT / "benchmarks" / "bundles" / "pod-drift-steady"
PRESET = "bootstrap-steady"

Numbers = NDArray[np.float64]


def settings_for(intervals: int, *traces: str) -> AwareSettings:
    """The preset, with episodes of so many intervals, and one to spare."""
    preset = PRESETS.load(PRESET)
    hours = (intervals + 1) * preset.deployment.interval_s / 3600
    ground = preset.ground.model_copy(update={"hours": hours, **({"traces": traces} if traces else {})})
    return preset.model_copy(update={"ground": ground})


def changed(services: Sequence[Service], at_s: int, **factors: float) -> list[Service]:
    """The same services, whose numbers are multiplied from then on."""
    drift = Drift(changes=(Change(at_s=at_s, **factors),))
    return [replace(one, drift=drift) for one in services]


# --- serving --------------------------------------------------------------------------------------


def served_by(policy: PodPolicy, settings: AwareSettings, services: Sequence[Service]) -> Numbers:
    """Rewards of AWARE, [services, intervals]."""
    episodes = play_services(policy, services, settings.deployment)
    return np.stack([one.rewards_aware for one in episodes])


def degradation(found: Numbers, steady: Numbers) -> Estimate:
    """By how much less is earned after the change, as a share of what would have been."""
    after = slice(HALF, HALF + AFTER)
    return bootstrap(
        lambda a, b: 1 - a.mean(-1) / b.mean(-1),
        np.nanmean(found[:, after], axis=1),
        np.nanmean(steady[:, after], axis=1),
        seed=0,
    )


# --- retraining -----------------------------------------------------------------------------------


def train() -> None:
    """Make the bundle: copy the rule from a log of it, then learn, on services that never change."""
    settings = PRESETS.load(PRESET)
    task = AwareTask(settings)
    log = recorded(task, task.teacher, steps=200, seed=settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        train_off_policy(task, settings.training, path, clock=_clock, seed=settings.seed, log=log)
        bundle = bundle_of_run(RunFolder.open(path, clock=_clock), BUNDLE.name)
    if BUNDLE.exists():
        shutil.rmtree(BUNDLE)
    save_bundle(BUNDLE, bundle)
    print(f"written to {BUNDLE.relative_to(ROOT)}: {bundle.manifest['scores']}")


def alarm_after(series: Numbers, first: int) -> int | None:
    """The first alarm after an interval; those before it make the detector learn anew."""
    watch = DriftWatch()
    for at, reward in enumerate(series):
        if watch.update(float(reward)).drift is Said.ALARM:
            if at >= first:
                return at
            watch.reset_reference()
    return None


def retraining(settings: AwareSettings, services: Sequence[Service]) -> list[Row]:
    """The steady policy: what the change costs it, and what retraining gains."""
    drifted = changed(services, HALF * settings.deployment.interval_s, cpu=GROWTH)
    steady = served(settings, services, _nothing_learned).task.lived
    alone = served(settings, drifted, _nothing_learned)
    without = alone.task.lived
    alarmed = {one.service for one in alone.happenings if one.what is Retraining.ALARMED and one.tick >= HALF}
    due: dict[int, int] = {}
    for one in alone.happenings:
        if one.what is Retraining.KEPT:
            due.setdefault(one.service, one.tick)
    rows = [
        _told(
            "steady policy: degradation without retraining", degradation(without.reward.T, steady.reward.T)
        ),
        _told("steady policy: services with an alarm after the change", float(len(alarmed))),
    ]
    if not due:
        return rows
    # One learner does not know of another, so they learn side by side, once it is known when each will.
    learned = alone.practise({row: slice(due[row] - GATHERED, due[row]) for row in sorted(due)})
    with_it = served(settings, drifted, lambda spans: {row: learned[row] for row in spans}).task.lived
    late, chosen = slice(HALF + AFTER // 2, HALF + AFTER), sorted(learned)
    gain = bootstrap(
        lambda a, b: a.mean(-1) / b.mean(-1) - 1,
        np.nanmean(with_it.reward[late, chosen], axis=0),
        np.nanmean(without.reward[late, chosen], axis=0),
        seed=0,
    )
    return [
        *rows,
        _told("steady policy: degradation with retraining", degradation(with_it.reward.T, steady.reward.T)),
        _told("retrained services: reward of the last 100 intervals, gained by retraining", gain),
        *gained_rows(without, with_it, late, chosen),
    ]


def gained_rows(without: Outcomes, with_it: Outcomes, span: slice, services: Sequence[int]) -> list[Row]:
    """What retraining gains of utilisation, as a share, and how many times fewer requests are late."""
    before, after = (
        Outcomes(*(np.nansum(column[span][:, list(services)], axis=0) for column in one))
        for one in (without, with_it)
    )
    old, new = utilisation(before), utilisation(after)
    rows = [
        _told(
            f"retrained services: {name} utilisation of the last 100 intervals, gained by retraining",
            bootstrap(lambda a, b: a.mean(-1) / b.mean(-1) - 1, new[name], old[name], seed=0),
        )
        for name in old
    ]
    rows += [
        _told(
            f"retrained services: late requests of the last 100 intervals, share {told} retraining",
            float(one.late.sum() / one.finished.sum()),
        )
        for told, one in (("without", before), ("with", after))
    ]
    name = (
        "retrained services: late requests of the last 100 intervals without retraining, times those with it"
    )
    return [*rows, _told(name, times_more(before, after))]


def served(settings: AwareSettings, services: Sequence[Service], trainer: Trainer) -> Retrainer:
    """The steady policy at work on services, watched; it may be retrained after the change."""
    asked = RetrainingSettings(gathered=GATHERED, iterations=PRACTICE, copies=2, compared=0)
    policy = AwarePolicy(load_bundle(BUNDLE)).parameters
    task = GivenServices(settings, lambda _: services)
    found = Retrainer(task, policy, asked, clock=_clock, trainer=trainer)
    found.live(HALF, retrains=False)
    found.live(AFTER)
    return found


def _nothing_learned(spans: Mapping[int, slice]) -> dict[int, Any]:
    return {}


# --- detector -------------------------------------------------------------------------------------


def watched(settings: AwareSettings, services: Sequence[Service], steps: int) -> Numbers:
    """Rewards under the rule, as metrics tell them: [services, steps]."""
    task = GivenServices(settings, lambda _: services)
    task.reset(split(0, "watched"))
    task.by_rule[:] = True
    for _ in range(steps):
        task.step(task.teacher(task.observe()))
    return task.lived.reward.T


def alarms_of(series: Numbers) -> tuple[int, int]:
    """Alarms, and intervals that were watched; after an alarm what is usual is learned anew.

    >>> alarms_of(np.concatenate([np.ones(150), np.full(100, 0.5), np.ones(10)]))
    (1, 60)
    """
    watch, alarms, steps = DriftWatch(), 0, 0
    for reward in series:
        said = watch.update(float(reward)).drift
        steps += said is not Said.LEARNING
        if said is Said.ALARM:
            alarms += 1
            watch.reset_reference()
    return alarms, steps


def delay_of(series: Numbers, first: int) -> float:
    """Intervals from `first` on until the alarm; infinite if there is none.

    >>> delay_of(np.concatenate([np.ones(150), np.full(100, 0.5)]), 150)
    2.0
    """
    found = alarm_after(series, first)
    return float("inf") if found is None else float(found - first + 1)


def large_drops(settings: AwareSettings, services: Sequence[Service]) -> tuple[Numbers, Numbers]:
    """Drops, as shares, and their delays, where work and waits of all requests grow and none can follow."""
    drops, delays = [], []
    for factor in LARGE:
        at_s = HALF * settings.deployment.interval_s
        found = watched(settings, changed(services, at_s, cpu=factor, io=factor), HALF + 60)
        for series in found:
            drops.append(1 - np.nanmean(series[HALF + 1 : HALF + 41]) / np.nanmean(series[HALF - 100 : HALF]))
            delays.append(delay_of(series[HALF - 140 :], 140))
    return np.array(drops), np.array(delays)


def detector_rows(steady_steps: int) -> list[Row]:
    """False alarms and delays, on simulated services and on made-up series."""
    settings = settings_for(WATCHED_STEPS, "diurnal")
    count = max(2, round(WATCHED * steady_steps / STEADY_STEPS))
    seeds = range(WATCHED_SEED, WATCHED_SEED + count)
    services = draw_services(settings.ground, settings.deployment, seeds, "test")
    counted = [alarms_of(series) for series in watched(settings, services, WATCHED_STEPS)]
    alarms, steps = (float(sum(column)) for column in zip(*counted, strict=True))
    drops, delays = large_drops(settings, services[: max(2, count // 2)])
    large = delays[drops >= DROP]
    made_up = [rewards("step -.19", seed) for seed in range(60)]
    made_up_delays = np.array([delay_of(series, BEFORE) for series in made_up])
    quiet = [alarms_of(rewards("none", seed)) for seed in range(60)]
    false = 1000 * sum(one for one, _ in quiet) / sum(many for _, many in quiet)
    return [
        at_least("steady intervals watched, simulated", steps, STEADY_STEPS),
        at_most("false alarms per 1,000 intervals, simulated", 1000 * alarms / steps, FALSE_ALARMS),
        at_least("drops of 15 % or more, simulated", float(len(large)), 10),
        at_most("their median delay, intervals", float(np.median(large)), DELAY),
        at_least("share of them found within 10 intervals", float((large <= DELAY).mean()), FOUND),
        at_most("false alarms per 1,000 steps, made-up series", false, FALSE_ALARMS),
        at_most("longest delay of a drop by 21.8 %, made-up series", float(made_up_delays.max()), DELAY),
    ]


def _told(name: str, found: Estimate | float) -> Row:
    if isinstance(found, Estimate):
        return Row(name, found.value, "none", True, found.low, found.high)
    return Row(name, found, "none", True)


def _clock() -> datetime:
    return datetime.now(UTC)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Services that change while they are served.")
    parser.add_argument("--services", type=int, default=SERVICES, help="services that are served")
    parser.add_argument("--steady", type=int, default=STEADY_STEPS, help="steady intervals to watch")
    parser.add_argument("--train", action="store_true", help="make the steady policy anew, and nothing else")
    asked = parser.parse_args(arguments)
    if asked.train:
        train()
        return
    started, ours = time.perf_counter(), make_policy("aware")
    settings = settings_for(HALF + AFTER)
    seeds = range(SERVED_SEED, SERVED_SEED + asked.services)
    services = draw_services(settings.ground, settings.deployment, seeds, "test")
    drifted = changed(services, HALF * settings.deployment.interval_s, cpu=GROWTH)
    rows: list[Row] = []
    for policy in (ours, make_policy("hpa:target=70,cpu=1")):
        lived, steady = (served_by(policy, settings, one) for one in (drifted, services))
        found, name = (
            degradation(lived, steady),
            f"{policy.name}: reward lost in the 200 intervals after the change",
        )
        if policy is not ours:
            rows.append(_told(name, found))
            continue
        rows.append(
            Row(name, found.value, f"<= {DEGRADATION:g}", found.value <= DEGRADATION, found.low, found.high)
        )
        heavier = served_by(policy, settings, changed(services, 0, cpu=GROWTH))
        rows += [
            _told("of it, what services lose that were always so heavy", degradation(heavier, steady)),
            _told("and what is lost against these, by not being used to it", degradation(lived, heavier)),
        ]
    rows += retraining(settings, services)
    rows += detector_rows(asked.steady)
    rows += [
        at_least("services", float(asked.services), SERVICES),
        _told("minutes this benchmark took", (time.perf_counter() - started) / 60),
    ]
    finish("pod-drift", rows)


if __name__ == "__main__":
    main()
