"""A search that knows the luck never does worse than who plays on for it, nor better than the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.decima_hindsight import PLAYER, Search, answers_to
from tests.dag_scheduling.optimum import optimal_total_jct_ms

from trimtab.benchmark.dag_scheduling.suites import BatchSuite
from trimtab.dag_scheduling import simulate
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.problem import NOWHERE
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.dag_scheduling.simulator.rounds import executors_taken
from trimtab.dag_scheduling.simulator.state import State
from trimtab.dag_scheduling.workload.presets import WorkloadSettings
from trimtab.dag_scheduling.workload.tiny import TINY, tiny_workload

SUITE = BatchSuite(cluster=Cluster(executors=4), workload=WorkloadSettings(name="small:1", jobs=4))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TINY if tiny_workload(name).arrival_ms.max() == 0])
@pytest.mark.parametrize("executors", [1, 2, 3])
def test_hindsight_lies_between_the_optimum_and_who_plays_on(name: str, executors: int) -> None:
    cluster, jobs = Cluster(executors=executors), tiny_workload(name).job_count
    suite = BatchSuite(cluster=cluster, workload=WorkloadSettings(name=f"tiny:{name}", jobs=jobs))
    workload = suite.draw(suite.scenarios()[0], 1_000_000)
    alone = simulate(workload, make_policy(PLAYER), cluster, seed=1_000_000)
    found = Search(suite, 1_000_000).found()
    total_ms = round(1000 * found.jct_s * workload.job_count)
    assert optimal_total_jct_ms(workload, cluster) <= total_ms <= alone.jct_ms.sum()
    assert found.changed <= found.decisions <= found.plays


@pytest.mark.slow
def test_answers_differ_in_the_executors_they_send() -> None:
    simulator = BatchSimulator(SUITE.cluster, size=1)
    simulator.reset([SUITE.draw(SUITE.scenarios()[0], 1_000_001)], [1_000_001])
    snapshot, row = simulator.snapshot(0), State._make(part[0] for part in simulator.state)
    own = make_policy(PLAYER).decide(snapshot)
    offered = answers_to(snapshot, row, simulator.tables, own)
    assert offered[0].tolist() == [own.stage, own.limit]
    sent = {
        (stage, 0 if stage == NOWHERE else int(executors_taken(row, simulator.tables, stage, limit, 0)))
        for stage, limit in offered.tolist()
    }
    assert len(sent) == len(offered) > 1
    assert all(number > 0 for stage, number in sent if stage != NOWHERE)
    assert {stage for stage, _ in sent} - {NOWHERE} <= set(np.flatnonzero(snapshot.schedulable).tolist())
