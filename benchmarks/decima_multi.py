"""`make bench-decima-multi`: learning elsewhere: memory sizes, makespan, free moves, no durations."""

from __future__ import annotations

import time

from benchmarks.decima_settings import (
    Numbers,
    all_rules,
    best_of,
    compacts,
    finish_after,
    makespan_s,
    mean_jct_s,
    networks,
    of_kind,
    play,
    play_jct_s,
    ratio_at_most,
    ratio_reported,
    reported,
    surely_above_one,
    surely_below_one,
    tuned_rules,
)
from benchmarks.results import Row
from trimtab.benchmark.dag_scheduling.suites import (
    BatchSuite,
    DagSuite,
    MultiResourceStreamSuite,
    MultiResourceSuite,
)
from trimtab.benchmark.suite import Scenario
from trimtab.core.statistics import mean_interval
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.policy import DecimaPolicy
from trimtab.dag_scheduling.policies import DagPolicy, make_policy

SEEDS = 100
PUBLISHED_LOAD = 0.85


def multi_resource_rows(policy: DagPolicy, compact: DagPolicy) -> list[Row]:
    """Random memory demands on executors of four sizes; the paper's rivals, and every other rule.

    The bar is that of the network: on training workloads it is better than the compact scheduler.
    """
    suite = MultiResourceSuite(seeds=SEEDS)
    measured, rival, best = _beside_all_rules(suite, suite.scenarios()[0], policy, compact)
    ours = measured[policy.name]
    return [
        ratio_at_most("multi-resource: learned / best of Tetris and Graphene*", ours, measured[rival], 0.80),
        ratio_reported(f"multi-resource: learned / best rule ({best})", ours, measured[best]),
        ratio_reported(
            "multi-resource: compact / best of Tetris and Graphene*", measured[compact.name], measured[rival]
        ),
        ratio_reported("multi-resource: learned / compact", ours, measured[compact.name]),
        reported("multi-resource: learned, mean JCT (s)", mean_interval(ours, seed=0)),
        reported(f"multi-resource: {rival}, mean JCT (s)", mean_interval(measured[rival], seed=0)),
    ]


def multi_resource_stream_rows(compact: DagPolicy) -> list[Row]:
    """The same where jobs keep coming, as they did in the paper; its load has the bar, others are told."""
    suite = MultiResourceStreamSuite(seeds=SEEDS)
    rows = []
    for scenario in suite.scenarios():
        measured, rival, best = _beside_all_rules(suite, scenario, compact)
        ours = measured[compact.name]
        ground = f"multi-resource stream, {scenario.name}"
        bar = 0.80 if scenario.load == PUBLISHED_LOAD else 1.0
        rows += [
            ratio_at_most(f"{ground}: compact / best of Tetris and Graphene*", ours, measured[rival], bar),
            surely_below_one(f"{ground}: compact / best rule ({best})", ours, measured[best]),
            reported(f"{ground}: compact, mean JCT (s)", mean_interval(ours, seed=0)),
            reported(f"{ground}: {rival}, mean JCT (s)", mean_interval(measured[rival], seed=0)),
        ]
    return rows


def _beside_all_rules(
    suite: DagSuite, scenario: Scenario, *policies: DagPolicy
) -> tuple[dict[str, Numbers], str, str]:
    """Completion times by label, the better of the paper's rivals, and the best of all rules."""
    rules = all_rules(suite, scenario) | tuned_rules(suite, scenario, names=("packed-srpt",))
    measured = play_jct_s(suite, rules | {policy.name: policy for policy in policies}, scenario)
    rival = best_of(measured, of_kind(rules, "tetris", "graphene"))
    return measured, rival, best_of(measured, list(rules))


def objective_rows(for_jct: DecimaPolicy, for_makespan: DecimaPolicy) -> list[Row]:
    """One policy trained for each objective, both measured by both."""
    episodes = play(BatchSuite(seeds=SEEDS), {p.name: p for p in (for_jct, for_makespan)})
    jct, makespan = episodes[for_jct.name], episodes[for_makespan.name]
    rows = [
        surely_below_one(
            "objective: makespan, trained for makespan / for JCT", makespan_s(makespan), makespan_s(jct)
        ),
        surely_above_one(
            "objective: mean JCT, trained for makespan / for JCT", mean_jct_s(makespan), mean_jct_s(jct)
        ),
    ]
    for told, played in (("JCT", jct), ("makespan", makespan)):
        rows += [
            reported(
                f"objective: trained for {told}, mean JCT (s)", mean_interval(mean_jct_s(played), seed=0)
            ),
            reported(
                f"objective: trained for {told}, makespan (s)", mean_interval(makespan_s(played), seed=0)
            ),
        ]
    return rows


def free_moving_rows(usual: DecimaPolicy, free: DecimaPolicy) -> list[Row]:
    """Moving an executor for nothing, by a policy trained so, against the usual 2 s."""
    with_delay = play_jct_s(BatchSuite(seeds=SEEDS), {usual.name: usual})[usual.name]
    suite = BatchSuite(seeds=SEEDS, cluster=Cluster(executors=50, moving_delay_ms=0))
    without = play_jct_s(suite, {usual.name: usual, free.name: free})
    return [
        surely_below_one("free moves: mean JCT / with the delay", without[free.name], with_delay),
        ratio_reported(
            "free moves: trained for them / trained with the delay", without[free.name], without[usual.name]
        ),
    ]


def missing_duration_rows(policy: DecimaPolicy) -> list[Row]:
    """Nobody knows how long tasks take: schedulers learn it from those that have ended."""
    suite = BatchSuite(seeds=SEEDS, cluster=Cluster(executors=50, durations="learned"))
    rules = {"fair": make_policy("fair")} | tuned_rules(BatchSuite())
    measured = play_jct_s(suite, rules | {policy.name: policy})
    ours, best = measured[policy.name], best_of(measured, list(rules))
    return [
        ratio_at_most("durations unknown: learned / Fair", ours, measured["fair"], 0.90),
        ratio_reported(
            f"durations unknown: learned / best rule tuned with them ({best})", ours, measured[best]
        ),
    ]


def main() -> None:
    started = time.perf_counter()
    compact = compacts("compact-multi")["compact-multi"]
    p = networks(
        "decima-multi", "decima-tpch-batch", "makespan-batch", "free-moving-batch", "learned-durations-batch"
    )
    rows = [
        *multi_resource_rows(p["decima-multi"], compact),
        *multi_resource_stream_rows(compact),
        *objective_rows(p["decima-tpch-batch"], p["makespan-batch"]),
        *free_moving_rows(p["decima-tpch-batch"], p["free-moving-batch"]),
        *missing_duration_rows(p["learned-durations-batch"]),
    ]
    finish_after("decima-multi", rows, started)


if __name__ == "__main__":
    main()
