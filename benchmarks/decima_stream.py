"""`make bench-decima-stream`: jobs that arrive one after the other; ONE learned policy at every load.

Its rival at each load is the best of all rules, each tuned for that very load. Then a long stream, and an
hour of arrivals at a rate that Fair cannot keep up with. The bars are those of the compact scheduler, which
is the one for batches too; the network of streams is played beside it.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.decima_settings import (
    HourSuite,
    all_rules,
    best_of,
    compacts,
    finish_after,
    networks,
    play_jct_s,
    ratio_at_most,
    ratio_reported,
    reported,
)
from benchmarks.results import Row
from trimtab.benchmark.dag_scheduling.suites import BatchSuite, StreamSuite, StreamWorkload
from trimtab.core.statistics import mean_interval
from trimtab.dag_scheduling.policies import DagPolicy, make_policy
from trimtab.dag_scheduling.simulator import simulate
from trimtab.dag_scheduling.workload.presets import WorkloadSettings, draw_workload

LOADS = (0.5, 0.7, 0.95)
SEEDS, LONG_SEEDS, OVERLOAD_SEEDS = 30, 10, 10
LONG_LOAD, LONG_NEIGHBOURS = 0.85, (0.8, 0.9)
OVERLOAD = 1.1
BACKLOG_JOBS = 400
BACKLOG_SEEDS = range(10)


def load_rows(policy: DagPolicy, network: DagPolicy) -> list[Row]:
    """200 jobs at three loads."""
    suite = StreamSuite(loads=LOADS, seeds=SEEDS)
    rows = []
    for scenario in suite.scenarios():
        rules = all_rules(suite, scenario)
        both = {policy.name: policy, network.name: network}
        measured = play_jct_s(suite, rules | both, scenario)
        rival, ours = best_of(measured, list(rules)), measured[policy.name]
        ground = f"{scenario.name}, 200 jobs"
        rows += [
            ratio_at_most(f"{ground}: learned / best tuned rule", ours, measured[rival], 0.95),
            ratio_reported(f"{ground}: network / best tuned rule", measured[network.name], measured[rival]),
            ratio_reported(f"{ground}: learned / Fair", ours, measured["fair"]),
            reported(f"{ground}: learned, mean JCT (s)", mean_interval(ours, seed=0)),
            reported(f"{ground}: {rival}, mean JCT (s)", mean_interval(measured[rival], seed=0)),
        ]
    return rows


def long_rows(policy: DagPolicy, network: DagPolicy) -> list[Row]:
    """1,000 jobs at a load between two that rules were tuned for: they may use either's settings."""
    tuned_at = StreamSuite(loads=LONG_NEIGHBOURS)
    rules: dict[str, DagPolicy] = {}
    for scenario in tuned_at.scenarios():
        rules |= all_rules(tuned_at, scenario)
    suite = StreamSuite(
        loads=(LONG_LOAD,), seeds=LONG_SEEDS, workload=StreamWorkload(jobs=1000, load=LONG_LOAD)
    )
    measured = play_jct_s(suite, rules | {policy.name: policy, network.name: network})
    rival, ours = best_of(measured, list(rules)), measured[policy.name]
    ground = f"load {LONG_LOAD:g}, 1,000 jobs"
    return [
        ratio_at_most(f"{ground}: learned / best tuned rule", ours, measured[rival], 0.95),
        ratio_reported(f"{ground}: network / best tuned rule", measured[network.name], measured[rival]),
        reported(f"{ground}: {rival}, mean JCT (s)", mean_interval(measured[rival], seed=0)),
    ]


def capacity_jobs_per_s() -> float:
    """The rate at which Fair finishes jobs while it never runs out of them."""
    cluster, fair = BatchSuite().cluster, make_policy("fair")
    backlog = WorkloadSettings(jobs=BACKLOG_JOBS)
    rates = []
    for seed in BACKLOG_SEEDS:
        workload = draw_workload(backlog, executors=cluster.executors, seed=seed, part="training")
        rates.append(BACKLOG_JOBS / (simulate(workload, fair, cluster, seed=seed).makespan_ms / 1000))
    return float(np.mean(rates))


def overload_rows(policy: DagPolicy, network: DagPolicy) -> list[Row]:
    """An hour at 1.1 times what Fair can do, then until all is done; and load 1.1 in the suite's unit."""
    capacity = capacity_jobs_per_s()
    both = {"fair": make_policy("fair"), policy.name: policy}
    hour = HourSuite(seeds=OVERLOAD_SEEDS, mean_gap_s=1 / (OVERLOAD * capacity))
    measured = play_jct_s(hour, both | {network.name: network})
    stream = StreamSuite(loads=(OVERLOAD,), seeds=OVERLOAD_SEEDS)
    nominal = play_jct_s(stream, both)
    told = f"an hour at {OVERLOAD:g} x capacity"
    rows = [
        reported("capacity under Fair (jobs per minute)", 60 * capacity),
        ratio_at_most(f"{told}: learned / Fair", measured[policy.name], measured["fair"], 0.7),
        ratio_reported(f"{told}: network / Fair", measured[network.name], measured["fair"]),
    ]
    for ground, jct_s in ((told, measured), (f"load {OVERLOAD:g}, 200 jobs", nominal)):
        for label, name in (("fair", "Fair"), (policy.name, "learned")):
            rows.append(reported(f"{ground}: {name}, mean JCT (s)", mean_interval(jct_s[label], seed=0)))
    rows.append(
        ratio_reported(f"load {OVERLOAD:g}, 200 jobs: learned / Fair", nominal[policy.name], nominal["fair"])
    )
    return rows


def main() -> None:
    started = time.perf_counter()
    policy = compacts("compact-tpch")["compact-tpch"]
    network = networks("decima-tpch-stream")["decima-tpch-stream"]
    both = policy, network
    rows = load_rows(*both) + long_rows(*both) + overload_rows(*both)
    finish_after("decima-stream", rows, started)


if __name__ == "__main__":
    main()
