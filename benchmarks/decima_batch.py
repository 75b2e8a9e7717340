"""`make bench-decima-batch`: 20 TPC-H jobs at once on 50 executors, learned against every tuned rule.

Two grounds: the embedded workload under the default rules, and as an outside check the public profile
under the published rules, with a policy trained on it and rivals tuned on it here. For each ground there are
a network and a compact scheduler; the bars are those of the one that is better on training workloads (here
the network, there the compact scheduler), and the other one is played beside it. More rows play the policies
of the embedded workload elsewhere.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.decima_settings import (
    PROCESSES,
    Numbers,
    all_rules,
    best_of,
    compacts,
    finish_after,
    goal_at_most,
    networks,
    of_kind,
    play_jct_s,
    ratio_at_most,
    ratio_reported,
    reported,
    suite_of_file,
    tuned_rules,
)
from benchmarks.published_setting import CLUSTER, published_profile
from benchmarks.results import Row
from trimtab.benchmark.dag_scheduling.suites import BatchSuite, DagSuite
from trimtab.benchmark.playing import Workers
from trimtab.benchmark.tune import tune
from trimtab.core.statistics import mean_interval
from trimtab.dag_scheduling.policies import DagPolicy, make_policy
from trimtab.dag_scheduling.workload import Provenance, Workload, save_workload
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

SEEDS = 100
ELSEWHERE_SEEDS = 50


def judged(ground: str, measured: dict[str, Numbers], policy: str, kind: str, other: str) -> list[Row]:
    """The bars of one ground, and where the learned policy stands beside the paper's baselines.

    `other` is a learned policy of another `kind`.
    """
    ours = measured[policy]
    srpt = best_of(measured, of_kind(measured, "capped-srpt", "capped-srpt-local"))
    weighted = best_of(measured, of_kind(measured, "weighted-fair"))
    return [
        ratio_at_most(f"{ground}: learned / best tuned capped SRPT", ours, measured[srpt], 0.97),
        goal_at_most(f"{ground}: learned / best tuned capped SRPT, goal", ours, measured[srpt], 0.90),
        ratio_at_most(f"{ground}: learned / best weighted fair", ours, measured[weighted], 0.79),
        ratio_reported(f"{ground}: {kind} / best tuned capped SRPT", measured[other], measured[srpt]),
        ratio_reported(f"{ground}: learned / Fair", ours, measured["fair"]),
        ratio_reported(f"{ground}: learned / FIFO", ours, measured["fifo"]),
        ratio_reported(f"{ground}: learned / SJF-CP", ours, measured["sjf-cp"]),
        reported(f"{ground}: learned, mean JCT (s)", mean_interval(ours, seed=0)),
        reported(f"{ground}: {srpt}, mean JCT (s)", mean_interval(measured[srpt], seed=0)),
        reported(f"{ground}: {weighted}, mean JCT (s)", mean_interval(measured[weighted], seed=0)),
    ]


def embedded_rows(network: DagPolicy, compact: DagPolicy, paper: DagPolicy) -> list[Row]:
    """The embedded workload; beside it the published design."""
    suite = BatchSuite(seeds=SEEDS)
    learned = {one.name: one for one in (network, compact, paper)}
    measured = play_jct_s(suite, all_rules(suite) | learned)
    srpt = best_of(measured, of_kind(measured, "capped-srpt", "capped-srpt-local"))
    design = "embedded: published design after 220 iterations"
    return [
        *judged("embedded", measured, network.name, "compact", compact.name),
        ratio_reported(f"{design} / Fair", measured[paper.name], measured["fair"]),
        ratio_reported(f"{design} / best tuned capped SRPT", measured[paper.name], measured[srpt]),
    ]


def public_rows(compact: DagPolicy, network: DagPolicy, strangers: Sequence[DagPolicy]) -> list[Row]:
    """The public profile; without it the rows are missing, and one that fails says why."""
    try:
        profile = published_profile()
    except SystemExit as missing:
        print(missing)
        return [Row("public profile: not measured, its data is missing", 0.0, "the data", False)]
    kinds = np.arange(profile.template_count)
    once_each = Workload(profile, kinds, np.zeros(len(kinds), np.int64), Provenance("public profile"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "public.workload"
        save_workload(once_each, path)
        suite = suite_of_file(path, BatchSuite(seeds=SEEDS, cluster=CLUSTER))
        rules = rules_tuned_here(suite)
        learned = {one.name: one for one in (compact, network, *strangers)}
        measured = play_jct_s(suite, rules | learned)
    return [
        *judged("public profile", measured, compact.name, "network", network.name),
        *elsewhere("the public profile", measured, strangers),
    ]


def elsewhere(ground: str, measured: dict[str, Numbers], strangers: Sequence[DagPolicy]) -> list[Row]:
    """Policies of the embedded workload on another one."""
    return [
        ratio_reported(f"elsewhere: {one.name} on {ground} / Fair", measured[one.name], measured["fair"])
        for one in strangers
    ]


def rules_tuned_here(suite: DagSuite) -> dict[str, DagPolicy]:
    """The paper's baselines and the rules to beat, tuned on the training seeds of the suite."""
    usual = "capped-srpt:kappa=0.15,power=0.67"  # the best known from outside
    rules = {name: make_policy(name) for name in ("fifo", "fair", "sjf-cp", usual)}
    scenario = suite.scenarios()[0]
    with Workers(PROCESSES) as workers:
        for name in ("capped-srpt", "capped-srpt-local", "weighted-fair"):
            rule = make_policy(name, tune(name, suite, scenario, workers=workers).entry.values)
            rules[rule.name] = rule
    return rules


def elsewhere_rows(strangers: Sequence[DagPolicy]) -> list[Row]:
    """Random DAGs instead of TPC-H, and clusters of other sizes; rules as tuned for 50 executors."""
    grounds = {
        "synthetic jobs": BatchSuite(seeds=ELSEWHERE_SEEDS, workload=WorkloadSettings(name="synthetic"))
    } | {
        f"{executors} executors": BatchSuite(
            seeds=ELSEWHERE_SEEDS, cluster=BatchSuite().cluster.model_copy(update={"executors": executors})
        )
        for executors in (10, 20, 100)
    }
    rules = {"fair": make_policy("fair")} | tuned_rules(BatchSuite())
    rows = []
    for ground, suite in grounds.items():
        measured = play_jct_s(suite, rules | {one.name: one for one in strangers})
        best = best_of(measured, list(rules))
        rows += elsewhere(ground, measured, strangers)
        rows += [
            ratio_reported(
                f"elsewhere: {one.name} on {ground} / best rule ({best})", measured[one.name], measured[best]
            )
            for one in strangers
        ]
    return rows


def main() -> None:
    started = time.perf_counter()
    compact, compact_public = compacts("compact-tpch", "compact-public-batch").values()
    network, network_public, paper = networks(
        "decima-tpch-batch", "public-batch", "decima-paper-batch"
    ).values()
    rows = embedded_rows(network, compact, paper)
    rows += public_rows(compact_public, network_public, (compact, network))
    rows += elsewhere_rows((compact, network))
    finish_after("decima-batch", rows, started)


if __name__ == "__main__":
    main()
