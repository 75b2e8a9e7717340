"""`make bench-pod-learning`: one learned autoscaler for services that it has never seen, against every rule.

Eight test applications, five kinds of traffic, five unseen stretches of an hour and a half each: 200
workloads, see `pod_services`. The policy has the same settings everywhere. Everybody begins with pods for
twice the mean need, those of one core where the rule has no size of its own, and meets the same requests.

- HPA with a target of 50 or 70 and pods of one core; and HPA with the target (50 to 90) and the pod size (0.5
  to 4 cores) tuned for every pair of service and traffic on training hours: fewest cores with no larger share
  of late requests than HPA-70 there. `python -m benchmarks.pod_learning --tune` wrote `pod_tuned_hpa.json`.
- MPC that is told the true CPU work of a request, with its usual 85 % of pods of two cores; and MPC that
  believes 1.5 times that, or that over 1.5, or knew the truth until the work grew by half in mid-episode
  (hours of their own; what was before the change does not count). Against a wrong model the bar is 15 % fewer
  cores or a third of the late requests: the value is the better of the two ratios, each over its bar.
- The oracle that knows what will come, with the share of memory that got it the highest reward among six from
  0.2 to 0.85: with the usual 0.85 its pods run out of memory all the time.
- The policy once more where pods have at least the memory that a full one holds, which whoever deploys a
  service may know and no metric tells before the first rush: how many are killed then, and at what price.
- Every other rule, as information, on the first two of the five stretches.
- Six learned rivals (`trimtab.pod_autoscaling.rivals`) as they are shipped, on every second service and the
  first two of the five stretches: no more cost than each of them. They see the same metrics, begin every
  episode with what they knew after practice, and go on learning from the service they run. They practised on
  224 hours of training services and four of the five kinds of traffic, for a reward of their own and not for
  the cost; `aware` has learned from all five, and for the cost. So this compares what is shipped, not what
  their papers report.

Shares of late requests are over all requests of all workloads. Intervals are over workloads.

    make bench-pod-learning ARGS="--policy multi --seeds 1"    # a trial; it misses the bar on seeds
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.decima_settings import Numbers, finish_after, reported
from benchmarks.pod_services import (
    MEAN_CORES,
    MOST_RATE,
    TRAFFIC,
    Contestant,
    HeldOutSuite,
    Played,
    held_out_services,
    play,
    same_for_all,
    started_workers,
    workloads,
)
from benchmarks.results import ROOT, Row, at_least, at_most
from trimtab.benchmark.playing import Workers
from trimtab.benchmark.pod_autoscaling.wing import scenario_ground
from trimtab.benchmark.suite import Scenario
from trimtab.core.errors import TrimtabError
from trimtab.core.statistics import Estimate, bootstrap, mean_interval, paired_difference, paired_ratio
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import Change, Drift
from trimtab.pod_autoscaling.heuristics.oracle import Oracle
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import PodPolicy
from trimtab.pod_autoscaling.rivals.practice import RIVALS
from trimtab.pod_autoscaling.workload.applications import make_application

OURS = "aware"
SEEDS, INFORMATION_SEEDS, RIVAL_SEEDS = 5, 2, 2
HPA_50, HPA_70, TUNED = "hpa-50", "hpa-70", "hpa tuned for each workload"
MPC, MPC_MORE, MPC_LESS = "mpc with the true work", "mpc with 1.5 x the work", "mpc with the work / 1.5"
WRONG, FEWER_CORES, FEWER_LATE = 1.5, 0.85, 1 / 3
CHANGE_S = 1800
DRIFTING = HeldOutSuite(
    hours=1.0, drift=Drift(changes=(Change(at_s=CHANGE_S, cpu=WRONG),)), from_s=float(CHANGE_S)
)
INFORMATION = (
    "multi",
    "mpc",
    "static",
    "vpa",
    "hpa-vpa",
    "keda",
    # The season of the traces; that of a day needs days of history.
    "predictive-hpa:period_s=3600",
    "autothrottle",
)
CORE_BARS = {HPA_50: 0.75, HPA_70: 0.92, TUNED: 1.05, MPC: 1.03}
MEMORY_BAR, REWARD_BAR = 0.70, -0.02
ORACLE = Oracle(memory_utilisation=0.6)
FULL_MARGIN = 1.05

TUNED_FILE = ROOT / "benchmarks" / "pod_tuned_hpa.json"
TUNING = HeldOutSuite(hours=1.0)
TUNING_SEEDS = 3
TARGETS, POD_CORES = (50, 60, 70, 80, 90), (0.5, 1, 2, 4)
USUAL = {"target": 70.0, "cpu": 1.0}


class RivalSuite(HeldOutSuite):
    """Every second service, in the hours that it has among all: six who learn while they play take long.

    Each pair is played by itself: a rival's luck depends on its place among the services that it runs.
    """

    episodes_together: ClassVar[int] = 1

    def scenarios(self) -> tuple[Scenario, ...]:
        chosen = held_out_services()[::2]
        return tuple(one for one in super().scenarios() if one.workload.application in chosen)

    def seeds_of(self, place: int, count: int, *, test: bool = True) -> tuple[int, ...]:
        among_all = HeldOutSuite.scenarios(self).index(self.scenarios()[place])
        return super().seeds_of(among_all, count, test=test)


class FullPodSuite(HeldOutSuite):
    """Services whose pods have at least the memory that a full one holds."""

    def deployment_of(self, application: Application) -> Deployment:
        least = FULL_MARGIN * application.full_mib + application.leak_mib_per_hour * self.hours
        start = max(least, self.deployment.start_memory_mib)
        return self.deployment.model_copy(update={"least_memory_mib": least, "start_memory_mib": start})


def hpa(target: float, cpu: float) -> PodPolicy:
    return make_policy("hpa", {"target": target, "cpu": cpu})


def told_mpc(name: str, error: float = 1.0) -> Contestant:
    """MPC that is told a request's true CPU work, and believes so many times that."""

    def policy(scenario: Scenario) -> PodPolicy:
        work_s = make_application(scenario.workload.application).cpu_s
        return make_policy("mpc", {"cpu_ms": 1000 * work_s, "error": error})

    return Contestant(name, policy)


def tuning_ground(scenario: Scenario) -> dict[str, Any]:
    """What tuned settings depend on."""
    workload, cluster = scenario_ground(TUNING, scenario)
    rates = {"mean_cores": MEAN_CORES, "most_rate": MOST_RATE}
    return workload | cluster | rates | {"seeds": TUNING_SEEDS}


def best_setting(found: Mapping[tuple[float, float], tuple[float, float]]) -> tuple[float, float]:
    """The setting with the fewest cores whose late share is no larger than that of HPA-70 with one core.

    Entries are (cores, late share) by (target, pod size); that of HPA-70 is among them.

    >>> best_setting({(70, 1): (6.0, 0.01), (80, 2): (5.0, 0.01), (90, 4): (4.0, 0.2)})
    (80, 2)
    """
    allowed = found[USUAL["target"], USUAL["cpu"]][1]
    return min((one for one in found if found[one][1] <= allowed), key=lambda one: found[one])


def tune(workers: Workers) -> None:
    """Play the grid on training hours and write the best settings of each pair."""
    grid = [(float(target), float(cpu)) for target in TARGETS for cpu in POD_CORES]
    contestants = [same_for_all(str(one), hpa(*one)) for one in grid]
    found = play(workers, TUNING, contestants, seeds=TUNING_SEEDS, test=False)
    cores = {one: found[str(one)]["core_hours"].reshape(-1, TUNING_SEEDS).mean(1) / 24 for one in grid}
    late = {one: _late_by_pair(found[str(one)]) for one in grid}
    entries: dict[str, Any] = {}
    for place, scenario in enumerate(TUNING.scenarios()):
        here = {one: (float(cores[one][place]), float(late[one][place])) for one in grid}
        target, cpu = best_setting(here)
        entries[scenario.name] = {
            "target": target,
            "cpu": cpu,
            "cores": round(here[target, cpu][0], 4),
            "late_share": round(here[target, cpu][1], 6),
            "ground": tuning_ground(scenario),
        }
    content = {"command": "python -m benchmarks.pod_learning --tune", "tuned": entries}
    TUNED_FILE.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written to {TUNED_FILE.relative_to(ROOT)}")


def _late_by_pair(played: Played) -> Numbers:
    late, finished = (played[name].reshape(-1, TUNING_SEEDS).sum(1) for name in ("late", "finished"))
    return late / np.maximum(finished, 1)


def tuned_hpa(file: Path = TUNED_FILE) -> Contestant:
    """HPA with the settings that were found for each pair; settings for other workloads are refused."""
    again = "run `python -m benchmarks.pod_learning --tune`"
    if not file.is_file():
        sys.exit(f"error: {file.name} is missing; {again}")
    entries = json.loads(file.read_text())["tuned"]
    for scenario in TUNING.scenarios():
        if entries.get(scenario.name, {}).get("ground") != json.loads(json.dumps(tuning_ground(scenario))):
            sys.exit(f"error: {file.name} has no settings for {scenario.name} as it is now; {again}")

    def policy(scenario: Scenario) -> PodPolicy:
        entry = entries[scenario.name]
        return hpa(entry["target"], entry["cpu"])

    return Contestant(TUNED, policy)


def share_ratio(ours: Played, theirs: Played) -> Estimate:
    """Late requests over all requests, ours over theirs; two shares of nothing are alike."""
    return bootstrap(
        lambda *columns: _over(_share(*columns[:2]), _share(*columns[2:])), *_counts(ours, theirs), seed=0
    )


def _counts(*played: Played) -> list[Numbers]:
    return [one[name] for one in played for name in ("late", "finished")]


def _share(late: Numbers, finished: Numbers) -> Numbers:
    return late.sum(-1) / finished.sum(-1)


def _over(ours: Numbers, theirs: Numbers) -> Numbers:
    """Ours over theirs; 1 where both are 0, and beyond every bar where theirs alone is."""
    alike = np.where(ours > 0, np.finfo(np.float64).max, 1.0)
    return np.divide(ours, theirs, out=alike, where=theirs > 0)


def late_share(played: Played) -> Estimate:
    return bootstrap(_share, *_counts(played), seed=0)


def barred(name: str, found: Estimate, bar: float) -> Row:
    """At most the bar, by the value; the interval stands beside it."""
    return Row(name, found.value, f"<= {bar:g}", found.value <= bar, found.low, found.high)


def quality_rows(ours: Played, found: Mapping[str, Played]) -> list[Row]:
    """No more late requests than HPA-70 has, and fewer cores than whoever else."""
    told, theirs = ours.name, found[HPA_70]
    return [
        barred(f"{told} / {HPA_70}: share of late requests", share_ratio(ours, theirs), 1.0),
        reported(
            f"{told} / {HPA_70}: share of late requests, mean of workloads",
            ratio_of_means(ours["late_share"], theirs["late_share"]),
        ),
        *(
            barred(
                f"{told} / {name}: core-hours",
                paired_ratio(ours["core_hours"], found[name]["core_hours"], seed=0),
                bar,
            )
            for name, bar in CORE_BARS.items()
        ),
        *(
            reported(f"{told} / {name}: share of late requests", share_ratio(ours, found[name]))
            for name in CORE_BARS
            if name != HPA_70
        ),
    ]


def ratio_of_means(ours: Numbers, theirs: Numbers) -> Estimate:
    """Mean over mean; theirs may be 0 on some workloads."""
    return bootstrap(lambda a, b: _over(a.mean(-1), b.mean(-1)), ours, theirs, seed=0)


def either_rows(case: str, ours: Played, theirs: Played) -> list[Row]:
    """15 % fewer cores or a third of the late requests; the better of the two, each over its bar."""

    def better(cores: Numbers, other: Numbers, *counts: Numbers) -> Numbers:
        late = _over(_share(*counts[:2]), _share(*counts[2:]))
        return np.minimum(cores.mean(-1) / other.mean(-1) / FEWER_CORES, late / FEWER_LATE)

    columns = (ours["core_hours"], theirs["core_hours"])
    value = bootstrap(better, *columns, *_counts(ours, theirs), seed=0)
    return [
        barred(f"{ours.name} / {case}: the better of core-hours / 0.85 and late share x 3", value, 1.0),
        reported(f"{ours.name} / {case}: core-hours", paired_ratio(*columns, seed=0)),
        reported(f"{ours.name} / {case}: share of late requests", share_ratio(ours, theirs)),
    ]


def memory_rows(ours: Played) -> list[Row]:
    """How much of the memory is used, and whether it is enough."""

    def share(used: Numbers, held: Numbers) -> Numbers:
        return used.sum(-1) / held.sum(-1)

    found = {
        told: bootstrap(share, ours[f"{which}memory_used"], ours[f"{which}memory_held"], seed=0)
        for told, which in (("after the first hour", "settled_"), ("from the beginning on", ""))
    }
    settled = found["after the first hour"]
    return [
        Row(
            f"{ours.name}: memory used over memory held, after the first hour",
            settled.value,
            f">= {MEMORY_BAR:g}",
            settled.value >= MEMORY_BAR,
            settled.low,
            settled.high,
        ),
        reported(
            f"{ours.name}: memory used over memory held, from the beginning on",
            found["from the beginning on"],
        ),
        at_most(
            f"{ours.name}: pods that ran out of memory after the first hour",
            float(ours["late_kills"].sum()),
            0,
        ),
        reported(f"{ours.name}: pods that ran out of memory", float(ours["kills"].sum())),
    ]


def full_pod_rows(ours: Played, told: Played) -> list[Row]:
    """Where it is known what a full pod holds: who is killed then, and at what price."""
    used, held = told["settled_memory_used"].sum(), told["settled_memory_held"].sum()
    name = f"{ours.name}, no pod smaller than a full one is"
    ratios = {
        measure: paired_ratio(told[column], ours[column], seed=0)
        for measure, column in (("memory held", "memory_held"), ("core-hours", "core_hours"))
    }
    return [
        reported(f"{name}: killed for memory after the first hour", float(told["late_kills"].sum())),
        reported(f"{name}: killed for memory", float(told["kills"].sum())),
        reported(f"{name}: memory used over memory held, after the first hour", float(used / held)),
        *(reported(f"{name} / {ours.name}: {measure}", ratio) for measure, ratio in ratios.items()),
        reported(f"{name} / {ours.name}: share of late requests", share_ratio(told, ours)),
    ]


def reward_row(ours: Played, oracle: Played) -> Row:
    """Ours less that of whoever knows what will come."""
    gap = paired_difference(ours["reward"], oracle["reward"], seed=0)
    name = f"{ours.name} - {oracle.name}: mean reward (AWARE's)"
    return Row(name, gap.value, f">= {REWARD_BAR:g}", gap.value >= REWARD_BAR, gap.low, gap.high)


def overview_rows(played: Played, seeds: int, where: str = "") -> list[Row]:
    """What somebody held, and how much was late with it."""
    told = f"{played.name} ({where and f'{where}, '}{seeds} {'seed' if seeds == 1 else 'seeds'})"
    return [
        reported(f"{told}: core-hours a day", mean_interval(played["core_hours"], seed=0)),
        reported(f"{told}: share of late requests", late_share(played)),
    ]


def costs(suite: HeldOutSuite, played: Played, seeds: int) -> Numbers:
    """The cost of each workload, as an episode has it: cores and memory held, and a fine for lateness."""
    objective, seconds = suite.deployment.objective, 3600 * suite.hours
    intervals = seconds / suite.deployment.interval_s
    work_s = np.array([make_application(one.service).cpu_s for one in workloads(suite, seeds)])
    needed = played["finished"] * work_s / seconds
    held = played["core_hours"] / 24 + objective.memory_price * played["memory_held"] / intervals / 1024
    return held + objective.multiplier * needed * np.maximum(played["late_share"] - objective.budget, 0.0)


def rival_rows(suite: HeldOutSuite, ours: Played, found: Mapping[str, Played], seeds: int) -> list[Row]:
    """Ours over each learned rival: no more cost, and what it is made of; then what everybody held."""
    where = f"{len(suite.scenarios()) // len(TRAFFIC)} services"
    our_cost = costs(suite, ours, seeds)
    rows: list[Row] = []
    for name, theirs in found.items():
        told, cost = f"{ours.name} / {name}, {where}", costs(suite, theirs, seeds)
        cores = paired_ratio(ours["core_hours"], theirs["core_hours"], seed=0)
        rows += [
            barred(f"{told}: cost", paired_ratio(our_cost, cost, seed=0), 1.0),
            reported(f"{told}: core-hours", cores),
            reported(f"{told}: share of late requests", share_ratio(ours, theirs)),
        ]
    return [*rows, *(row for one in (ours, *found.values()) for row in overview_rows(one, seeds, where))]


def traffic_rows(played: Played, seeds: int) -> list[Row]:
    """Late requests by kind of traffic: rushes that nobody foresees make most of them."""
    kinds = [one.traffic for one in workloads(HeldOutSuite(), seeds)]
    return [
        reported(
            f"{played.name}, {kind}: share of late requests",
            late_share(played.only([one == kind for one in kinds])),
        )
        for kind in TRAFFIC
    ]


def rivals() -> list[Contestant]:
    """Whom a bar is about."""
    return [
        same_for_all(HPA_50, hpa(50, 1)),
        same_for_all(HPA_70, hpa(70, 1)),
        tuned_hpa(),
        told_mpc(MPC),
        told_mpc(MPC_MORE, WRONG),
        told_mpc(MPC_LESS, 1 / WRONG),
        same_for_all(ORACLE.name, ORACLE),
    ]


def main_rows(workers: Workers, policy: Contestant, seeds: int) -> list[Row]:
    """Everything that is measured on all workloads, and the other rules on some."""
    found = play(workers, HeldOutSuite(), [policy, *rivals()], seeds=seeds)
    ours, fewer = found[policy.name], min(seeds, INFORMATION_SEEDS)
    others = [same_for_all(name, make_policy(name)) for name in INFORMATION if name != policy.name]
    informed = play(workers, HeldOutSuite(), others, seeds=fewer)
    same = [ours.only([one.number < fewer for one in workloads(HeldOutSuite(), seeds)])]
    beside = [*(same if fewer < seeds else []), *informed.values()]
    told = play(workers, FullPodSuite(), [policy], seeds=seeds)[policy.name]
    return [
        at_least("seeds of each service and traffic", seeds, SEEDS),
        *quality_rows(ours, found),
        *(row for case in (MPC_MORE, MPC_LESS) for row in either_rows(case, ours, found[case])),
        *drift_rows(workers, policy, seeds),
        *memory_rows(ours),
        *full_pod_rows(ours, told),
        reward_row(ours, found[ORACLE.name]),
        *(row for one in found.values() for row in overview_rows(one, seeds)),
        *(row for one in beside for row in overview_rows(one, fewer)),
        *learned_rows(workers, ours, seeds),
        *(row for one in (ours, found[HPA_70]) for row in traffic_rows(one, seeds)),
    ]


def learned_rows(workers: Workers, ours: Played, seeds: int) -> list[Row]:
    """The learned rivals, beside ours on the same workloads."""
    suite, fewer = RivalSuite(), min(seeds, RIVAL_SEEDS)
    others = [same_for_all(name, make_policy(name)) for name in RIVALS if name != ours.name]
    found = play(workers, suite, others, seeds=fewer)
    known = {(one.service, one.number) for one in workloads(suite, fewer)}
    same = ours.only([(one.service, one.number) in known for one in workloads(HeldOutSuite(), seeds)])
    return rival_rows(suite, same, found, fewer)


def drift_rows(workers: Workers, policy: Contestant, seeds: int) -> list[Row]:
    """After the work of requests has grown by half, against a model that was true before."""
    found = play(workers, DRIFTING, [policy, told_mpc(MPC)], seeds=seeds)
    return either_rows("mpc after the work grew by half", found[policy.name], found[MPC])


def asked_policy(name: str) -> Contestant:
    """The policy under test; one that is missing ends the benchmark before anything is played."""
    try:
        return same_for_all(name, make_policy(name))
    except TrimtabError as missing:
        sys.exit(f"error: {str(missing).replace(f'{ROOT}/', '')}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="One policy on services it has never seen.")
    parser.add_argument("--policy", default=OURS, help="the policy under test: a name or a bundle's folder")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="stretches of each service and traffic")
    parser.add_argument("--tune", action="store_true", help="tune HPA for each workload, and end")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    with started_workers() as workers:
        if asked.tune:
            tune(workers)
            return
        rows = main_rows(workers, asked_policy(asked.policy), asked.seeds)
    finish_after("pod-learning", rows, started)


if __name__ == "__main__":
    main()
