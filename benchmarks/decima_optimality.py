"""`make bench-decima-optimality`: how far from the best schedule there is, where it can be found at all.

Random instances of 3 to 5 jobs on 2 to 8 executors, with fixed durations and 9 to 12 tasks: an exhaustive
search finds the optimum in seconds there, and takes hours with 20. The search knows everything beforehand
and is bound by fewer rules than the engine, so nothing can be below 1. The hand-made tiny workloads come
on top. The policy is the one for clusters of all sizes; small jobs like these, from other seeds, are a part
of its training. The network, which is for larger clusters, is played beside it. With so little to decide,
chance alone comes near: the rows of random choices and of untrained networks say how much of the way was left
to learning.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray
from tests.dag_scheduling.optimum import optimal_total_jct_ms

from benchmarks.decima_settings import PROCESSES, compacts, finish_after, networks, reported, tuned_rules
from benchmarks.results import Row
from trimtab.benchmark.dag_scheduling.suites import BatchSuite
from trimtab.core.statistics import mean_interval
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.network import Design, new_network
from trimtab.dag_scheduling.decima.policy import DecimaPolicy, make_bundle
from trimtab.dag_scheduling.policies import DagPolicy, make_policy
from trimtab.dag_scheduling.simulator import simulate
from trimtab.dag_scheduling.workload import Provenance, Workload, build_profile
from trimtab.dag_scheduling.workload.tiny import TINY, random_small_job, tiny_workload

Instance = tuple[Workload, Cluster]

SEED = 1_000_000
INSTANCES = 30
FEWEST_TASKS, MOST_TASKS = 9, 12
UNTRAINED = 5
BAR = 1.10


def random_instances() -> Iterator[Instance]:
    """Instances in which jobs compete: more tasks than executors, few enough to try every schedule."""
    random = np.random.default_rng(SEED)
    found = 0
    while found < INSTANCES:
        executors = int(random.integers(2, 9))
        jobs = [random_small_job(random, number) for number in range(int(random.integers(3, 6)))]
        tasks = sum(stage.tasks for job in jobs for stage in job.stages)
        if executors < tasks and FEWEST_TASKS <= tasks <= MOST_TASKS:
            found += 1
            at_once = np.zeros(len(jobs), np.int64)
            workload = Workload(
                build_profile(jobs), np.arange(len(jobs)), at_once, Provenance("tiny, random")
            )
            yield workload, Cluster(executors=executors)


def hand_made_instances() -> Iterator[Instance]:
    """The tiny workloads of the package whose jobs all come at once, on two and three executors."""
    for name in TINY:
        workload = tiny_workload(name)
        if workload.arrival_ms.max() == 0:
            for executors in (2, 3):
                yield workload, Cluster(executors=executors)


def untrained(design: Design, seed: int) -> DecimaPolicy:
    """The same network before it has learned anything."""
    parameters = new_network(design, seed)
    return DecimaPolicy(
        make_bundle("untrained", parameters, design, most_executors=50, trained={}, scores={})
    )


def total_jct_ms(policy: DagPolicy, instances: Sequence[Instance]) -> NDArray[np.int64]:
    """What the jobs of each instance take together."""
    return np.array([simulate(workload, policy, cluster).jct_ms.sum() for workload, cluster in instances])


def optimum_ms(instance: Instance) -> int:
    return optimal_total_jct_ms(*instance)


def over_optimum(total_ms: NDArray[np.int64], optimum: NDArray[np.int64]) -> NDArray[np.float64]:
    """Ratios to the optimum; one below 1 says that the search has missed it, and ends the benchmark.

    >>> over_optimum(np.array([3, 4]), np.array([2, 4])).tolist()
    [1.5, 1.0]
    """
    if (below := np.flatnonzero(total_ms < optimum)).size:
        sys.exit(f"error: instance {below[0]} was played below its optimum; the search is wrong")
    return total_ms / optimum


def main() -> None:
    started = time.perf_counter()
    (ours,) = compacts("compact-tpch").values()
    (network,) = networks("decima-tpch-batch").values()
    instances = [*random_instances(), *hand_made_instances()]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        optimum = np.array(list(pool.map(optimum_ms, instances)))
    rivals: dict[str, DagPolicy] = {name: make_policy(name) for name in ("fair", "sjf-cp", "random")}
    rivals[network.name] = network
    rivals |= tuned_rules(BatchSuite(), names=("capped-srpt", "weighted-fair"))
    ratios = {
        name: over_optimum(total_jct_ms(policy, instances), optimum)
        for name, policy in ({"learned": ours} | rivals).items()
    }
    blind = [
        over_optimum(total_jct_ms(untrained(network.design, seed), instances), optimum)
        for seed in range(UNTRAINED)
    ]
    learned_ratio = mean_interval(ratios["learned"], seed=0)
    rows = [
        Row(
            f"learned / optimum, mean over {len(instances)} instances",
            learned_ratio.value,
            f"<= {BAR:g}",
            learned_ratio.value <= BAR,
            learned_ratio.low,
            learned_ratio.high,
        ),
        reported("learned / optimum, worst instance", float(ratios["learned"].max())),
        *(reported(f"{name} / optimum, mean", mean_interval(ratios[name], seed=0)) for name in rivals),
        reported(
            f"{UNTRAINED} untrained networks / optimum, mean", mean_interval(np.mean(blind, axis=0), seed=0)
        ),
    ]
    finish_after("decima-optimality", rows, started)


if __name__ == "__main__":
    main()
