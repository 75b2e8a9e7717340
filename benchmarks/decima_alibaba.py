"""`make bench-decima-alibaba`: jobs of a production cluster, with the memory that they asked for.

The outside check of executors of several sizes, on a public sample of Alibaba's trace of 2018: 3,690 jobs
with their DAGs, instances, mean durations and memory. When they arrive is drawn for a load, and durations do
not grow with the executors, as the trace cannot tell how. Rules are tuned here, on training seeds; the
learned policies practised TPC-H with random memory and have never met such a job.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.decima_settings import (
    PROCESSES,
    UNTUNED,
    Numbers,
    best_of,
    compacts,
    finish_after,
    networks,
    of_kind,
    play_jct_s,
    ratio_reported,
    reported,
    surely_below_one,
)
from benchmarks.results import Row, shared_data
from trimtab.benchmark.dag_scheduling.suites import DagSuite, MultiResourceStreamSuite, MultiResourceSuite
from trimtab.benchmark.playing import Workers
from trimtab.benchmark.suite import Scenario
from trimtab.benchmark.tune import tune
from trimtab.core.statistics import mean_interval
from trimtab.dag_scheduling.history import HISTORY
from trimtab.dag_scheduling.policies import DagPolicy, make_policy
from trimtab.dag_scheduling.workload import save_workload

SAMPLE = Path("alibaba2018_dags") / "medium_dags_with_usage.csv.gz"
LOAD, SEEDS = 0.85, 100
TUNABLE = ("weighted-fair", "tetris", "graphene", "capped-srpt", "packed-srpt")


def ground_rows(ground: str, suite: DagSuite, policy: DagPolicy) -> list[Row]:
    """One learned policy over the better of the paper's rivals, and over the best of all rules."""
    scenario = suite.scenarios()[0]
    rules = rules_tuned_here(suite, scenario)
    measured: dict[str, Numbers] = play_jct_s(suite, rules | {policy.name: policy}, scenario)
    ours, best = measured[policy.name], best_of(measured, list(rules))
    rival = best_of(measured, of_kind(rules, "tetris", "graphene"))
    told = f"{ground}: {policy.name}"
    return [
        surely_below_one(f"{told} / best of Tetris and Graphene* ({rival})", ours, measured[rival]),
        ratio_reported(f"{told} / best rule ({best})", ours, measured[best]),
        ratio_reported(f"{told} / Fair", ours, measured["fair"]),
        reported(f"{told}, mean JCT (s)", mean_interval(ours, seed=0)),
    ]


def rules_tuned_here(suite: DagSuite, scenario: Scenario) -> dict[str, DagPolicy]:
    """Every rule a user could pick instead, tuned on the training seeds of the suite."""
    rules: dict[str, DagPolicy] = {name: make_policy(name) for name in UNTUNED}
    with Workers(PROCESSES) as workers:
        for name in TUNABLE:
            rule = make_policy(name, tune(name, suite, scenario, workers=workers).entry.values)
            rules[rule.name] = rule
    return rules


def stream_of(workload: Path, seeds: int, jobs: int = 200) -> MultiResourceStreamSuite:
    """The stream of the published load. Made anew from plain values, as the file has demands of its own."""
    stream = {"name": str(workload), "jobs": jobs, "load": LOAD}
    return MultiResourceStreamSuite.model_validate({"workload": stream, "loads": (LOAD,), "seeds": seeds})


def batch_of(workload: Path, seeds: int, jobs: int = 20) -> MultiResourceSuite:
    """The same jobs at once."""
    batch = {"name": str(workload), "jobs": jobs}
    return MultiResourceSuite.model_validate({"workload": batch, "seeds": seeds})


def main() -> None:
    started = time.perf_counter()
    compact, network = compacts("compact-multi")["compact-multi"], networks("decima-multi")["decima-multi"]
    history, _ = HISTORY.load("alibaba-2018")(str(shared_data() / SAMPLE))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "alibaba.workload"
        save_workload(history, path)
        rows = [
            *ground_rows(f"stream at load {LOAD:g}", stream_of(path, SEEDS), compact),
            *ground_rows("20 jobs at once", batch_of(path, SEEDS), network),
        ]
    finish_after("decima-alibaba", rows, started)


if __name__ == "__main__":
    main()
