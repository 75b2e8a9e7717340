"""`make bench-decima-one`: ONE learned policy for batches and streams, 3 to 100 executors, and other jobs.

Its rival on each ground is the best of all rules, chosen on the very workloads that count; each rule may take
any of the settings that were found for batches and streams on 50 executors. Where jobs are tiny, so are
differences, and a thousand workloads cost a second: there are as many. Two specialists play beside it,
one of batches and one of streams, which were trained on TPC-H and 50 executors alone.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from benchmarks.decima_settings import (
    UNTUNED,
    best_of,
    compacts,
    finish_after,
    play_jct_s,
    ratio_reported,
    surely_below_one,
    tuned_rules,
)
from benchmarks.results import Row
from trimtab.benchmark.dag_scheduling.suites import BatchSuite, DagSuite, StreamSuite, StreamWorkload
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.policies import DagPolicy, make_policy
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

BATCH_SEEDS, STREAM_SEEDS, TINY_SEEDS = 100, 20, 1000
TUNED_LOADS = (0.5, 0.7, 0.9, 0.95)
ONE, OF_BATCHES, OF_STREAMS = "compact-tpch", "compact-tpch-batch", "compact-tpch-stream"


class Ground(NamedTuple):
    """Where all play, and which specialist it is for."""

    name: str
    suite: DagSuite
    specialist: str


def batch(executors: int, name: str = "tpch", jobs: int = 20, seeds: int = BATCH_SEEDS) -> Ground:
    return Ground(
        f"{jobs} jobs of {name} at once, {executors} executors",
        BatchSuite(
            seeds=seeds,
            cluster=Cluster(executors=executors),
            workload=WorkloadSettings(name=name, jobs=jobs),
        ),
        OF_BATCHES,
    )


def stream(executors: int, load: float, name: str = "tpch") -> Ground:
    workload = StreamWorkload(name=name, jobs=200, load=load)
    return Ground(
        f"200 jobs of {name} at load {load:g}, {executors} executors",
        StreamSuite(
            loads=(load,), seeds=STREAM_SEEDS, cluster=Cluster(executors=executors), workload=workload
        ),
        OF_STREAMS,
    )


GROUNDS = (
    *(batch(executors) for executors in (10, 20, 50, 100)),
    batch(50, "synthetic"),
    batch(3, "small:1", 4, TINY_SEEDS),
    *(stream(50, load) for load in (0.5, 0.7, 0.95)),
    *(stream(executors, load) for executors in (10, 20, 100) for load in (0.5, 0.9)),
    stream(50, 0.8, "synthetic"),
)


def rules() -> dict[str, DagPolicy]:
    """Every rule, with every setting that was found to be best somewhere."""
    found: dict[str, DagPolicy] = {name: make_policy(name) for name in UNTUNED}
    found |= tuned_rules(BatchSuite())
    suite = StreamSuite(loads=TUNED_LOADS)
    for scenario in suite.scenarios():
        found |= tuned_rules(suite, scenario)
    return found


def ground_rows(ground: Ground, learned: dict[str, DagPolicy], known: dict[str, DagPolicy]) -> list[Row]:
    """The one policy over the best rule, over the specialist, and the specialist over the best rule."""
    name, specialist = ground.name, ground.specialist
    measured = play_jct_s(ground.suite, known | {ONE: learned[ONE], specialist: learned[specialist]})
    best = best_of(measured, list(known))
    return [
        surely_below_one(f"{ONE} / best rule: {name} ({best})", measured[ONE], measured[best]),
        ratio_reported(f"{ONE} / {specialist}: {name}", measured[ONE], measured[specialist]),
        ratio_reported(f"{ONE} / Fair: {name}", measured[ONE], measured["fair"]),
    ]


def main() -> None:
    started = time.perf_counter()
    learned, known = compacts(ONE, OF_BATCHES, OF_STREAMS), rules()
    rows = [row for ground in GROUNDS for row in ground_rows(ground, dict(learned), known)]
    finish_after("decima-one", rows, started)


if __name__ == "__main__":
    main()
