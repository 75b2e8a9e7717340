"""`make bench-pod-foresight`: how much of the memory could be used, by how far ahead its peaks are known.

`make bench-pod-learning` asks for 70 % of the memory in use and no pod killed for want of it. Whoever sizes
pods has to say now what is enough until the next decision. Here `aware` and HPA at 70 % play the workloads
of that benchmark with pods that never run out, and the most that any pod held is noted for each interval.
Then limits are put on afterwards, the same for all pods of a service as always:

- exactly at the peak of the interval, and at that of the minute, five minutes or hour and a half around it:
  what nobody can know beforehand;
- at what the recent past says: so many times the peak of the last so many minutes, never more than a full pod
  holds (which nobody is told either). Of all such rules the one that uses most memory among those without a
  single interval above the limit is taken, in hindsight, and among those with few.

Whatever is used when limits change is free here: no resize takes time, and none is put off.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.decima_settings import Numbers, finish_after, reported
from benchmarks.pod_learning import HPA_70, MEMORY_BAR, FullPodSuite, hpa
from benchmarks.pod_services import FIRST_HOUR_S, Stretch, room_for, started_workers
from benchmarks.results import Row
from trimtab.benchmark.suite import Scenario
from trimtab.core.statistics import bootstrap
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import Decider, PodPolicy, Services, Snapshot
from trimtab.pod_autoscaling.simulator.drawn import Drawn

SEEDS = 2
AROUND_S = {"of the interval": 0, "a minute around": 60, "five minutes around": 300, "of all": 5400}
MINUTES = (1, 5, 20, 60)
TIMES = (1.0, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0)
BESIDE_MIB = (0, 16, 32, 64, 128, 256)
FEW = 0.001


class ExactSuite(FullPodSuite):
    """Pods that never run out of memory, and metrics that tell what there was."""

    def deployment_of(self, application: Application) -> Deployment:
        exact = {"metric_noise": 0.0, "missing": 0.0, "report_lag_s": 0.0}
        return super().deployment_of(application).model_copy(update=exact)


@dataclass(frozen=True)
class Noting:
    """A policy, and the memory of the largest pod at every decision."""

    policy: PodPolicy
    peaks: list[Numbers] = field(default_factory=list[Numbers])

    @property
    def name(self) -> str:
        return self.policy.name

    def begin(self, services: Services) -> NotingDecider:
        return NotingDecider(self.policy.begin(services), self.peaks)


@dataclass(frozen=True)
class NotingDecider:
    decider: Decider
    peaks: list[Numbers]

    def decide(self, snapshot: Snapshot) -> Any:
        self.peaks.append(snapshot.samples.memory[:, -1].copy())
        return self.decider.decide(snapshot)


class Held(NamedTuple):
    """One workload, by interval."""

    peak: Numbers  # MiB of the largest pod, at most
    pods: Numbers
    used: Numbers  # MiB of all pods
    settled: NDArray[np.bool_]  # after the first hour
    full_mib: float


@dataclass(frozen=True)
class Watch:
    """Satisfies `trimtab.benchmark.playing.Work`: all seeds of one pair of service and traffic."""

    suite: ExactSuite
    scenario: Scenario
    seeds: tuple[int, ...]
    policies: tuple[PodPolicy, ...]

    @property
    def episodes(self) -> int:
        return len(self.seeds) * len(self.policies)

    def play(self) -> list[list[Held]]:
        """What was held, by policy and seed."""
        stretches = self.suite.stretches(self.scenario, self.seeds)
        drawn = room_for(stretches)
        return [self._held(stretches, policy, drawn) for policy in self.policies]

    def _held(self, stretches: Sequence[Stretch], policy: PodPolicy, drawn: Drawn) -> list[Held]:
        noting = Noting(policy)
        episodes = self.suite.play_together(stretches, noting, drawn)
        # A decision sees the interval before it, so nobody sees the last one.
        peaks = np.array(noting.peaks[1:]).T
        found = []
        for stretch, episode, peak in zip(stretches, episodes, peaks, strict=True):
            pods = episode.memory_held / episode.size[:, 2]
            settled = episode.interval_s * np.arange(len(pods)) >= FIRST_HOUR_S
            full_mib = self.suite.deployment_of(stretch.application).least_memory_mib
            found.append(Held(peak, pods[:-1], episode.memory_used[:-1], settled[:-1], full_mib))
        return found


def around(peak: Numbers, intervals: int) -> Numbers:
    """The largest of so many intervals before and after each.

    >>> around(np.array([1.0, 5.0, 2.0, 3.0]), 1).tolist()
    [5.0, 5.0, 5.0, 3.0]
    """
    padded = np.pad(peak, intervals, constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * intervals + 1).max(1)


def before(peak: Numbers, intervals: int) -> Numbers:
    """The largest of so many intervals before each, without itself; the first knows only itself.

    >>> before(np.array([1.0, 5.0, 2.0, 3.0]), 2).tolist()
    [1.0, 1.0, 5.0, 5.0]
    """
    known = np.concatenate([np.full(intervals, -np.inf), peak[:-1]])
    found = np.lib.stride_tricks.sliding_window_view(known, intervals).max(1)
    return np.concatenate([peak[:1], found[1:]])


def used_and_held(one: Held, limit: Numbers) -> tuple[float, float]:
    """MiB of all pods, summed over the intervals that count."""
    return float(one.used[one.settled].sum()), float((one.pods * limit)[one.settled].sum())


def foresight_rows(name: str, found: Sequence[Held], interval_s: int) -> list[Row]:
    """Limits at the peaks of what is to come."""
    rows = []
    for told, span_s in AROUND_S.items():
        columns = [used_and_held(one, around(one.peak, span_s // interval_s)) for one in found]
        used, held = np.array(columns).T
        share = bootstrap(lambda used, held: used.sum(-1) / held.sum(-1), used, held, seed=0)
        rows.append(reported(f"{name}: memory used, limits at the peak {told}", share))
    return rows


def hindsight_rows(name: str, found: Sequence[Held], interval_s: int) -> list[Row]:
    """Limits by the recent past: the best of many rules without an interval above its limit, and with few."""
    tried = []
    for minutes, times, beside_mib in product(MINUTES, TIMES, BESIDE_MIB):
        above, columns = 0, []
        for one in found:
            recent = before(one.peak, 60 * minutes // interval_s)
            limit = np.minimum(times * recent + beside_mib, one.full_mib)
            above += int((one.peak > limit)[one.settled].sum())
            columns.append(used_and_held(one, limit))
        used, held = np.sum(columns, axis=0)
        tried.append((above, float(used / held)))
    count = sum(int(one.settled.sum()) for one in found)
    without = max((share for above, share in tried if above == 0), default=float("nan"))
    few = max((share for above, share in tried if above <= FEW * count), default=float("nan"))
    fewest = min((above for above, share in tried if share >= MEMORY_BAR), default=None)
    told = f"{name}: limits by the recent past, {len(tried)} rules:"
    rows = [
        reported(f"{told} most memory used with no interval above the limit", without),
        reported(f"{told} most memory used with at most {FEW:.1%} above", few),
    ]
    if fewest is not None:
        rows.append(reported(f"{told} share of intervals above with {MEMORY_BAR:.0%} used", fewest / count))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How much memory could be used by who knows its peaks.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="stretches of each service and traffic")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    suite, policies = ExactSuite(), (make_policy("aware"), hpa(70, 1))
    units = [
        Watch(suite, one, suite.seeds_of(place, asked.seeds), policies)
        for place, one in enumerate(suite.scenarios())
    ]
    with started_workers() as workers:
        played = workers.play(units)
    interval_s = suite.deployment.interval_s
    rows: list[Row] = []
    for at, name in enumerate(("aware", HPA_70)):
        found = [one for unit in played for one in unit[at]]
        rows += foresight_rows(name, found, interval_s)
        rows += hindsight_rows(name, found, interval_s)
    finish_after("pod-foresight", rows, started)


if __name__ == "__main__":
    main()
