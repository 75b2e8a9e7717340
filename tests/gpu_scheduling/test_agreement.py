"""The compiled engine and the plain reference agree bit for bit.

With random actions they go hand in hand: before every answer all that a policy may see is compared, job by
job and machine by machine, floats included. Rules are played to the end inside compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gpu_scheduling.random_instances import InOrder, RandomActions, instances, seeds, twins

from trimtab.core.errors import WorkloadError
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.episode import Episode, jobs_in_system
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.problem import NOWHERE, Snapshot, decode
from trimtab.gpu_scheduling.reference import ReferenceSimulator, reference_run
from trimtab.gpu_scheduling.simulator.simulator import FIRST_SLOTS, Simulator, simulate
from trimtab.gpu_scheduling.workload import Workload, make_workload

BY_JOB = (
    "job_id", "arrival_ms", "instances", "gpu_milli", "cpu_milli", "memory_mib", "user", "group", "kind",
    "sensitivity", "communication", "expected_ms", "attained_ms", "done_ms", "rate", "preemptions",
)  # fmt: skip
OF_RUNNING = ("started_ms", "since_ms")
BY_MACHINE = (
    "gpus", "gpu_type", "rack", "speed", "price", "free_gpus", "free_milli", "free_cpu_milli",
    "free_memory_mib", "load", "jobs", "observed_speed", "observed", "first_gpu", "free_of_gpu", "nominal",
)  # fmt: skip
OF_CLUSTER = (
    "now_ms", "may_hold", "unseen", "total_gpus", "free_total_milli", "contention", "communication_weight",
    "across_racks",
)  # fmt: skip
OF_EPISODE = ("reward", "decisions", "events", "busy_gpu_ms", "stranded_gpu_ms")
OF_EPISODE_BY_JOB = (
    "gpus", "arrival_ms", "first_start_ms", "completion_ms", "duration_ms", "alone_ms", "run_ms", "fee",
    "preemptions", "machine_gpus",
)  # fmt: skip
RULES = (
    "fifo+first-fit+strict",
    "smallest+fast+backfill",
    "drf+load-balance+strict",
    "fifo+fgd+easy",
    "tiresias+best-fit+preemptive:threshold=1,min_run_s=1,margin=0",
    "srtf+tetris+preemptive:min_run_s=1,margin=0",
)
OF_LOG = ("job", "machine", "gpu_mask", "milli", "start_ms", "end_ms", "completed")


def parts_of(snapshot: Snapshot, job: int) -> list[tuple[int, int]]:
    found, part = [], int(snapshot.first_part[job])
    while part != NOWHERE:
        found.append((int(snapshot.part_machine[part]), int(snapshot.part_instances[part])))
        part = int(snapshot.next_part[part])
    return found


def as_seen(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot without slots: jobs by their ids, floats as their bits."""
    seen: dict[str, Any] = {name: getattr(snapshot, name) for name in OF_CLUSTER}
    seen |= {name: np.asarray(getattr(snapshot, name)).tobytes() for name in BY_MACHINE}
    types = (1 << (int(snapshot.gpu_type.max()) + 1)) - 1
    for group in ("pending", "running"):
        slots = getattr(snapshot, group)
        seen[group] = snapshot.job_id[slots].tolist()
        for job in slots:
            about = {name: getattr(snapshot, name)[job].tobytes() for name in BY_JOB}
            if group == "running":
                about |= {name: int(getattr(snapshot, name)[job]) for name in OF_RUNNING}
            about["allowed_types"] = int(snapshot.allowed_types[job]) & types
            seen[f"job {snapshot.job_id[job]}"] = about | {"parts": parts_of(snapshot, job)}
    return seen


def assert_same_episode(fast: Episode, slow: Episode) -> None:
    assert fast.machine_names == slow.machine_names and (fast.policy, fast.seed) == (slow.policy, slow.seed)
    for name in OF_EPISODE:
        assert getattr(fast, name) == getattr(slow, name), name
    for name in OF_EPISODE_BY_JOB:
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist(), name
    assert fast.runs is not None and slow.runs is not None
    for name in OF_LOG:
        assert getattr(fast.runs, name).tolist() == getattr(slow.runs, name).tolist(), name


def go_hand_in_hand(cluster: Cluster, workload: Workload, seed: int, policies: tuple[Any, Any]) -> Episode:
    """Step engine and reference, each asked by a policy of its own, and compare all they show."""
    fast, slow = Simulator(cluster, record_runs=True), ReferenceSimulator(cluster)
    one, two = fast.reset(workload, seed), slow.reset(workload, seed)
    while not slow.ended:
        assert not fast.ended and as_seen(one) == as_seen(two)
        answers = policies[0].decide(one), policies[1].decide(two)
        assert decode(one, answers[0]) == decode(two, answers[1])
        fast_step, slow_step = fast.step(answers[0]), slow.step(answers[1])
        assert (fast_step.reward, fast_step.elapsed_ms) == (slow_step.reward, slow_step.elapsed_ms)
        one, two = fast_step.snapshot, slow_step.snapshot
    assert fast.ended
    episode = fast.episode("stepped")
    assert_same_episode(episode, slow.episode("stepped"))
    return episode


@settings(max_examples=150)
@given(st.one_of(instances(), twins()), seeds)
def test_engine_equals_reference_step_by_step(instance, seed):
    go_hand_in_hand(*instance, seed, (RandomActions(seed), RandomActions(seed)))


@pytest.mark.parametrize("strict", [True, False])
def test_engine_equals_reference_with_a_crowd(strict):
    """More jobs at once than a new engine has slots for, on a cluster with everything switched on."""
    random, jobs = np.random.default_rng(0), 120
    workload = make_workload(
        np.cumsum(random.integers(0, 12, jobs)) * 1000,
        duration_ms=random.integers(1000, 900_000, jobs),
        instances=random.integers(1, 5, jobs),
        gpu_milli=random.choice([250, 500, 1000, 2000], jobs),
        cpu_milli=random.choice([0, 8000, 24_000], jobs),
        group=random.integers(0, 99, jobs),  # so many that durations are foretold from sizes, too
        sensitivity=random.choice([0.5, 1.0, 1.5], jobs),
        communication=random.choice([0.0, 0.4], jobs),
    )
    cluster = Cluster(noise=0.05, drift=0.1, drift_period_s=120, heartbeat_s=300, information="predicted")
    episode = go_hand_in_hand(cluster, workload, 0, (InOrder(strict=strict), InOrder(strict=strict)))
    assert jobs_in_system(episode)[1].max() > FIRST_SLOTS


@settings(max_examples=15)
@pytest.mark.parametrize("name", RULES)
@given(instance=instances(), seed=seeds)
def test_engine_equals_reference_under_rules(name, instance, seed):
    cluster, workload = instance
    rule = make_policy(name)
    if cluster.information == "none" and getattr(rule, "needs_durations", False):
        cluster = cluster.model_copy(update={"information": "oracle"})
    fast = simulate(workload, rule, cluster, seed=seed, record_runs=True)
    assert_same_episode(fast, reference_run(workload, rule, cluster, seed))


@pytest.mark.parametrize(
    "demands",
    [
        {"gpus": [1, 33]},
        {"gpus": [1, 1], "cpu_milli": [0, 97_000]},
        {"gpus": [1, 1], "memory_mib": [0, 1 << 20]},
        {"gpus": [1, 1], "allowed_types": [0, 1], "type_names": ("H900",)},
        {"instances": [1, 2], "gpu_milli": [1000, 5000]},
    ],
)
def test_both_refuse_jobs_that_could_never_start(demands):
    workload = make_workload([0, 0], duration_ms=1000, **demands)
    for simulator in (Simulator(Cluster()), ReferenceSimulator(Cluster())):
        with pytest.raises(WorkloadError, match=r"jobs: job 1\b.+; "):
            simulator.reset(workload, 0)
