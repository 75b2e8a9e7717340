"""The compiled engine and the plain reference agree to the millisecond.

500 random workloads and more, each under one of the rules, with three rule sets.
"""

from __future__ import annotations

import pytest
from tests.dag_scheduling.random_instances import random_cluster, random_workload

from trimtab.dag_scheduling import heuristics
from trimtab.dag_scheduling.heuristics import Parameter, Rule
from trimtab.dag_scheduling.reference import play_reference
from trimtab.dag_scheduling.simulator import simulate


def rule(function, *values: float) -> Rule:
    parameters = tuple(Parameter(str(i), v, "") for i, v in enumerate(values))
    return Rule(function.__name__, function, parameters)


RULES = [
    rule(heuristics.fifo),
    rule(heuristics.fair),
    rule(heuristics.shortest_job_first),
    rule(heuristics.weighted_fair, -1.0),
    rule(heuristics.capped_srpt, 0.5, 0.5, 1.0),
    rule(heuristics.packed_srpt, 0.5, 0.5, 4.0, 0.3),
    rule(heuristics.tetris, 0.3),
    rule(heuristics.graphene, -0.5, 0.2, 0.8),
    rule(heuristics.random_choice, 3.0),
]


@pytest.mark.parametrize("rules", ["default", "compat", "mixed"])
@pytest.mark.parametrize("block", range(9))
def test_engine_equals_reference(rules: str, block: int) -> None:
    for number in range(block * 20, block * 20 + 20):
        policy = RULES[number % len(RULES)]
        workload = random_workload(number)
        cluster = random_cluster(number, rules)
        fast = simulate(workload, policy, cluster, seed=number, record_tasks=True)
        slow = play_reference(workload, policy.decide, cluster, number)
        where = f"instance {number}, {rules}, {policy.name}"
        assert fast.tasks is not None
        log = fast.tasks
        columns = (log.job, log.stage, log.executor, log.start_ms, log.end_ms, log.wave)
        assert list(zip(*(c.tolist() for c in columns), strict=True)) == slow.tasks, where
        assert fast.completion_ms.tolist() == slow.completion_ms, where
        assert fast.first_start_ms.tolist() == slow.first_start_ms, where
        assert fast.reward == slow.reward, where
        assert fast.decisions == slow.decisions, where
        assert fast.busy_ms == slow.busy_ms, where
        assert fast.moving_ms == slow.moving_ms, where
