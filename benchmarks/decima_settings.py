"""Words that the benchmarks of Decima share: learned policies, tuned rivals, paired play, and their rows.

A rival is tuned on training seeds; which of the rivals counts is then chosen on the test seeds, where the
learned policy is judged too. That favours the rivals, never the learned policy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import ROOT, Row, finish
from trimtab.benchmark.dag_scheduling.suites import BatchSuite, DagSuite
from trimtab.benchmark.playing import play_units, units_of
from trimtab.benchmark.suite import Scenario
from trimtab.benchmark.tuned import shipped_tuned_values
from trimtab.core.bundle import Bundle, load_bundle
from trimtab.core.errors import TrimtabError
from trimtab.core.settings import Field
from trimtab.core.statistics import Estimate, paired_ratio
from trimtab.dag_scheduling.decima.compact import CompactRule, compact_policy
from trimtab.dag_scheduling.decima.policy import DecimaPolicy
from trimtab.dag_scheduling.episode import Episode
from trimtab.dag_scheduling.policies import DagPolicy, find_bundle, make_policy
from trimtab.dag_scheduling.workload import Workload

Numbers = NDArray[np.float64]

PROCESSES = 2
BUNDLES = ROOT / "benchmarks" / "bundles"
TUNABLE = ("weighted-fair", "tetris", "graphene", "capped-srpt", "capped-srpt-local")
UNTUNED = ("fifo", "sjf-cp", "fair", "naive-weighted-fair")
MINUTES = "minutes this benchmark took"


def networks(*names: str) -> dict[str, DecimaPolicy]:
    """Load trained networks; the first that is missing ends the benchmark before anything is played."""
    return {name: DecimaPolicy(bundle) for name, bundle in _bundles(names).items()}


def compacts(*names: str) -> dict[str, CompactRule]:
    """Load compact schedulers, in the same way."""
    return {name: compact_policy(bundle) for name, bundle in _bundles(names).items()}


def _bundles(names: Sequence[str]) -> dict[str, Bundle]:
    """Those of the package by name, all others from the folder of the benchmarks."""
    try:
        return {
            name: load_bundle(BUNDLES / name if (BUNDLES / name).exists() else find_bundle(name))
            for name in names
        }
    except TrimtabError as missing:
        sys.exit(f"error: {_inside(missing)}")


def _inside(problem: TrimtabError) -> str:
    """The message with paths as seen from the checkout."""
    return str(problem).replace(f"{ROOT}/", "")


def tuned_rules(
    suite: DagSuite, scenario: Scenario | None = None, names: Sequence[str] = TUNABLE
) -> dict[str, DagPolicy]:
    """Rules with the settings found for exactly this workload and cluster, by `name:setting=value`."""
    known = shipped_tuned_values()
    made: dict[str, DagPolicy] = {}
    for name in names:
        entry = known.find(name, suite, scenario or suite.scenarios()[0])
        if entry is None:
            sys.exit(f"error: {name} was never tuned for this workload and cluster; run `trimtab tune`")
        rule = make_policy(name, entry.values)
        made[rule.name] = rule
    return made


def all_rules(suite: DagSuite, scenario: Scenario | None = None) -> dict[str, DagPolicy]:
    """Every rule a user could pick instead, the tunable ones tuned."""
    return {name: make_policy(name) for name in UNTUNED} | tuned_rules(suite, scenario)


def play(
    suite: DagSuite, policies: Mapping[str, DagPolicy], scenario: Scenario | None = None
) -> dict[str, list[Episode]]:
    """All policies on the same test seeds of one scenario; episodes by label, in the order of the seeds."""
    where = scenario or suite.scenarios()[0]
    units = units_of(suite, where, suite.test_seeds(), tuple(policies.values()))
    played = play_units(units, processes=PROCESSES)
    return {
        label: [episode for unit in played for episode in unit[place]] for place, label in enumerate(policies)
    }


def mean_jct_s(episodes: Sequence[Episode]) -> Numbers:
    """Mean completion time of each episode."""
    return np.array([episode.jct_ms.mean() / 1000.0 for episode in episodes])


def makespan_s(episodes: Sequence[Episode]) -> Numbers:
    """Makespan of each episode."""
    return np.array([episode.makespan_ms / 1000.0 for episode in episodes])


def play_jct_s(
    suite: DagSuite, policies: Mapping[str, DagPolicy], scenario: Scenario | None = None
) -> dict[str, Numbers]:
    """Mean completion time of each episode, by label."""
    return {label: mean_jct_s(episodes) for label, episodes in play(suite, policies, scenario).items()}


def best_of(measured: Mapping[str, Numbers], among: Sequence[str]) -> str:
    """The label with the lowest mean on the test seeds."""
    return min(among, key=lambda label: float(measured[label].mean()))


def of_kind(labels: Sequence[str] | Mapping[str, object], *kinds: str) -> list[str]:
    """The labels of some rules, whatever their settings.

    >>> of_kind(["fair", "capped-srpt:kappa=1", "capped-srpt-local:kappa=1"], "capped-srpt")
    ['capped-srpt:kappa=1']
    """
    return [label for label in labels if label.partition(":")[0] in kinds]


def ratio_at_most(name: str, ours: Numbers, theirs: Numbers, bar: float) -> Row:
    """Ours over theirs, paired: at most the bar, and surely below 1."""
    ratio = paired_ratio(ours, theirs, seed=0)
    wanted = f"<= {bar:g}, interval < 1" if bar < 1 else "interval < 1"
    return Row(name, ratio.value, wanted, ratio.value <= bar and ratio.high < 1, ratio.low, ratio.high)


def surely_below_one(name: str, ours: Numbers, theirs: Numbers) -> Row:
    """Ours over theirs, paired: the interval lies below 1."""
    return ratio_at_most(name, ours, theirs, 1.0)


def surely_above_one(name: str, ours: Numbers, theirs: Numbers) -> Row:
    """Ours over theirs, paired: the interval lies above 1."""
    ratio = paired_ratio(ours, theirs, seed=0)
    return Row(name, ratio.value, "interval > 1", ratio.low > 1, ratio.low, ratio.high)


def goal_at_most(name: str, ours: Numbers, theirs: Numbers, goal: float) -> Row:
    """A wish beyond the bar: it says whether it is met, and fails nothing."""
    ratio = paired_ratio(ours, theirs, seed=0)
    told = f"none (goal {goal:g} {'met' if ratio.value <= goal else 'not met'})"
    return Row(name, ratio.value, told, True, ratio.low, ratio.high)


def reported(name: str, value: float | Estimate) -> Row:
    """A number without a bar."""
    if isinstance(value, Estimate):
        return Row(name, value.value, "none", True, value.low, value.high)
    return Row(name, value, "none", True)


def ratio_reported(name: str, ours: Numbers, theirs: Numbers) -> Row:
    """Ours over theirs, paired, without a bar."""
    return reported(name, paired_ratio(ours, theirs, seed=0))


def finish_after(topic: str, rows: Sequence[Row], started: float, *, target: str = "") -> None:
    """Finish as every benchmark does, with the time it took as the last row."""
    finish(topic, [*rows, reported(MINUTES, (time.perf_counter() - started) / 60)], target=target)


class HourSuite(BatchSuite):
    """A stream that stops after an hour of arrivals; every job that came is played to its end."""

    mean_gap_s: float = Field(gt=0, le=1e6, description="Mean time between jobs, in seconds.")

    def draw(self, scenario: Scenario, seed: int) -> Workload:
        # Six standard deviations more jobs than an hour is expected to bring, so the hour is always full.
        expected = 3600 / self.mean_gap_s
        jobs = int(expected + 6 * expected**0.5) + 2
        settings = scenario.workload.model_copy(
            update={"arrivals": "poisson", "jobs": jobs, "mean_gap_s": self.mean_gap_s}
        )
        stream = super().draw(Scenario(scenario.name, settings), seed)
        return stream.between(0, 3_600_000)


def suite_of_file(path: Path, like: DagSuite) -> DagSuite:
    """The same suite with the kinds of jobs of a workload file."""
    workload = like.workload.model_copy(update={"name": str(path)})
    return like.model_copy(update={"workload": workload})
