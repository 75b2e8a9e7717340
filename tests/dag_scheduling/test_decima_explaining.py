"""One decision taken apart: what is said must be what the network did."""

from typing import Any

import numpy as np
import pytest
from tests.untrained_bundle import SMALL, untrained_bundle

from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.decima.explaining import Explanation, candidates_of, explain, opinion_of
from trimtab.dag_scheduling.decima.features import STAGE_FEATURES
from trimtab.dag_scheduling.decima.network import Design, new_network
from trimtab.dag_scheduling.decima.policy import DecimaPolicy
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.problem import LEAVE_IDLE, Command, Snapshot
from trimtab.dag_scheduling.simulator.simulator import Simulator
from trimtab.dag_scheduling.workload.presets import WorkloadSettings, draw_workload
from trimtab.dag_scheduling.workload.tiny import tiny_workload


def zeros(design: Design) -> Any:
    """A network that thinks nothing of anything."""
    parameters = new_network(design, seed=0)

    def wipe(branch: Any) -> None:
        for inner in branch.values() if isinstance(branch, dict) else branch:
            if isinstance(inner, np.ndarray):
                inner[...] = 0.0
            else:
                wipe(inner)

    wipe(parameters)
    return parameters


def situation(policy: Any, *, decisions: int, executors: int = 10) -> tuple[Simulator, Snapshot]:
    """Some decisions into a batch of random jobs."""
    jobs = draw_workload(WorkloadSettings(name="synthetic", jobs=5), executors=executors, seed=1)
    simulator = Simulator(Cluster(executors=executors))
    snapshot = simulator.reset(jobs, seed=1)
    for _ in range(decisions):
        snapshot = simulator.step(policy.decide(snapshot)).snapshot
    return simulator, snapshot


def told(policy: DecimaPolicy, decisions: int) -> tuple[Explanation, Snapshot]:
    _, snapshot = situation(policy, decisions=decisions)
    return explain(policy, snapshot), snapshot


PAPER = Design(paper=True, limits=0, hidden=8, embedding=4)


@pytest.mark.parametrize("design", [SMALL, PAPER, Design(graph=False, limit_head=False)], ids=str)
@pytest.mark.parametrize("decisions", [0, 7, 30])
def test_what_is_said_is_what_is_decided(design: Design, decisions: int) -> None:
    policy = DecimaPolicy(untrained_bundle(design))
    explanation, snapshot = told(policy, decisions)
    assert explanation.action == policy.decide(snapshot)
    first = explanation.candidates[0]
    slot = next(slot for slot in snapshot.jobs if snapshot.job_id[slot] == first.job)
    assert snapshot.first_stage[slot] + first.stage == explanation.action.stage
    assert explanation.limits[0].limit == explanation.action.limit
    for alternatives in (explanation.candidates, explanation.limits):
        likely = [one.probability or 0.0 for one in alternatives]
        assert likely == sorted(likely, reverse=True)
        assert sum(likely) == pytest.approx(1.0)
    chosen = opinion_of(policy, snapshot).command
    assert chosen is not None
    assert chosen.executors == explanation.limits[0].executors > 0
    named = [one[:3] for one in explanation.candidates if one.job >= 0]
    assert sorted(named) == sorted(one[:3] for one in candidates_of(snapshot))


def test_executor_classes_are_told_apart() -> None:
    classes = (ExecutorClass(count=2, memory=0.5), ExecutorClass(count=2, memory=1.0))
    policy = DecimaPolicy(untrained_bundle(Design(classes=2, hidden=8, embedding=4)))
    snapshot = Simulator(Cluster(classes=classes)).reset(tiny_workload("three-sizes"), seed=0)
    explanation = explain(policy, snapshot)
    # Three stages that need no memory, each on either class.
    assert sorted(one[:3] for one in explanation.candidates) == [
        (job, 0, kind) for job in range(3) for kind in range(2)
    ]
    chosen = opinion_of(policy, snapshot).command
    assert chosen is not None
    assert (chosen.job_id, chosen.stage, chosen.executor_class) == explanation.candidates[0][:3]
    assert chosen.executors == explanation.limits[0].executors <= 2


def test_a_network_without_opinions_finds_all_candidates_equal() -> None:
    explanation, snapshot = told(DecimaPolicy(untrained_bundle(SMALL, zeros(SMALL))), 5)
    count = len(candidates_of(snapshot)) + bool(snapshot.may_idle)
    assert [one.probability for one in explanation.candidates] == pytest.approx([1 / count] * count)
    assert all(one.on_stage == 0.0 for one in explanation.influences)


def test_only_what_the_network_hears_moves_it() -> None:
    """The score rises with running tasks and hears of nothing else: only they can speak for a choice."""
    design = Design(hidden=8, embedding=4, graph=False)
    parameters = zeros(design)
    actor = parameters["actor"]
    actor["stage_known"]["weights"][STAGE_FEATURES.index("tasks running")] = 1.0
    for layer in actor["score"]:
        layer["weights"][...] = 1.0
    policy = DecimaPolicy(untrained_bundle(design, parameters))
    heard = []
    # Two neighbouring decisions place the executors of one source: some stage has tasks running.
    for decisions in range(10, 20):
        explanation, _ = told(policy, decisions)
        for one in explanation.influences:
            if one.fact != "tasks running in the stage":
                assert one.on_stage == 0.0, one
            else:
                heard.append(one.on_stage)
    assert min(heard) >= 0.0
    assert max(heard) > 0.1


def test_a_policy_that_rests_leaves_nothing_to_explain() -> None:
    parameters = zeros(SMALL)
    parameters["actor"]["idle"][-1]["bias"][...] = 50.0
    policy = DecimaPolicy(untrained_bundle(SMALL, parameters))
    simulator, snapshot = situation(make_policy("fair"), decisions=6)
    while not snapshot.may_idle:
        snapshot = simulator.step(make_policy("fair").decide(snapshot)).snapshot
    explanation = explain(policy, snapshot)
    assert explanation.action == LEAVE_IDLE
    assert (explanation.limits, explanation.influences) == ([], [])
    assert explanation.candidates[0].job == -1
    assert opinion_of(policy, snapshot).command is None


def test_first_come_first_served_by_hand() -> None:
    """The first stage of the first of two jobs has four tasks; of three executors all can be used."""
    snapshot = Simulator(Cluster(executors=3)).reset(tiny_workload("two-jobs"), seed=0)
    opinion = opinion_of(make_policy("fifo"), snapshot)
    assert opinion.command == Command(job_id=0, stage=0, executors=3, executor_class=0)
    assert [one[:3] for one in candidates_of(snapshot)] == [(0, 0, 0), (1, 0, 0)]
