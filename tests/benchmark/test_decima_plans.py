"""A plan made with hindsight: played as the simulator plays it, and never worse than the first."""

from __future__ import annotations

import pytest
from benchmarks.decima_plans import JOBS, Search, first_plan, planned

from trimtab.benchmark.dag_scheduling.suites import BatchSuite
from trimtab.dag_scheduling import simulate
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.compact import CompactRule
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

SEED = 1_000_000


@pytest.mark.slow
def test_the_first_plan_is_played_as_by_the_simulator_and_the_search_gains() -> None:
    suite = BatchSuite(cluster=Cluster(executors=4), workload=WorkloadSettings(name="small:1", jobs=JOBS))
    workload = suite.draw(suite.scenarios()[0], SEED)
    simulator = BatchSimulator(suite.cluster, size=1)
    simulator.reset([workload], [SEED])
    plan = first_plan(simulator.snapshot(0))
    alone = simulate(workload, CompactRule("plan", planned, numbers=tuple(plan)), suite.cluster, seed=SEED)
    few, more = (Search(suite, SEED, plays).found() for plays in (40, 400))
    assert few.first_s == more.first_s == pytest.approx(alone.jct_ms.mean() / 1000)
    assert more.jct_s <= few.jct_s <= few.first_s and more.jct_s < few.first_s
