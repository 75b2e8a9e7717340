"""The engine and the reference give the same numbers: every request, every pod, every interval."""

from __future__ import annotations

import numpy as np
import pytest
from tests.pod_autoscaling.random_services import INTERVALS, Instance, random_instance

from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.problem import Samples, Snapshot, allowed
from trimtab.pod_autoscaling.reference import Interval, ReferenceRun
from trimtab.pod_autoscaling.simulator import Simulator

pytestmark = pytest.mark.pods

HOW = ("", "answered", "refused", "unreached", "given_up", "lost")
STATES = ("gone", "waiting", "pulling", "starting", "down", "ready", "ending")
BINNED = ("latency_p50_s", "latency_p99_s", "tail_s")
BATCH = 10
PER_POD = (
    *("cpu", "memory", "cpu_asked", "memory_asked", "due_s", "resize_due_s", "cpu_s", "cache_mib"),
    *("created_s", "started_s", "ready_changed_s", "killed_s", "killed_at"),
)


def close(actual: object, expected: object, what: str, *, binned: bool = False) -> None:
    """1e-9 relative; the absolute part is for differences of nearly equal numbers. Bins are 1 % wide."""
    np.testing.assert_allclose(
        np.asarray(actual, float),
        np.asarray(expected, float),
        rtol=0.0051 if binned else 1e-9,
        atol=1e-4 if binned else 1e-9,
        err_msg=what,
    )


def compare_interval(simulator: Simulator, row: int, expected: Interval, where: str) -> None:
    truth = simulator.truth._asdict()
    for name, value in expected.truth.items():
        close(truth[name][row], value, f"{where}: {name}", binned=name in BINNED)
    samples = simulator.snapshot().samples
    for name, value in expected.sample.items():
        close(getattr(samples, name)[row, -1], value, f"{where}: sample {name}", binned=name in BINNED)


def compare_pods(simulator: Simulator, row: int, expected: Interval, where: str) -> None:
    """Every pod by its number: what it is, what it holds, what is inside, when it was killed."""
    pods = simulator.state.pods[row]
    pods = pods[pods["state"] > 0]
    assert sorted(pods["number"].tolist()) == sorted(expected.pods), where
    for pod in pods:
        other = expected.pods[int(pod["number"])]
        assert STATES[pod["state"]] == other.state, f"{where}, pod {other.number}"
        assert pod["inside"] == len(other.requests), f"{where}, pod {other.number}"
        for name in PER_POD:
            close(pod[name], getattr(other, name), f"{where}, pod {other.number}: {name}")


def compare_scrapes(
    snapshot: Snapshot, simulator: Simulator, row: int, reference: ReferenceRun, where: str
) -> None:
    """What the metrics server tells: the newest look that is old enough, where it was not missing."""
    deployment = simulator.deployment
    window_s = int(np.ceil(deployment.metric_window_s))
    number = int((simulator.state.run[row, 0]["second"] - deployment.metric_lag_s) // window_s)
    numbers = simulator.state.pods["number"][row]
    for column in np.flatnonzero(snapshot.pods.exists[row]):
        expected = reference.samples.get((number, int(numbers[column])))
        assert snapshot.pods.measured[row, column] == (expected is not None), where
        if expected is not None:
            seen = (snapshot.pods.cpu[row, column], snapshot.pods.memory[row, column])
            close(seen, expected, f"{where}: scrape")
            assert snapshot.pods.measured_s[row, column] == number * window_s


def compare_requests(simulator: Simulator, row: int, reference: ReferenceRun, where: str) -> None:
    arrived = reference.counts.arrived
    ends = simulator.state.outcomes[row, :arrived]
    assert simulator.state.run[row, 0]["arrived"] == arrived, where
    expected = np.zeros((arrived, 2))
    for number, (end_s, how) in reference.outcomes.items():
        expected[number] = end_s, HOW.index(how)
    wrong = np.flatnonzero(ends[:, 1] != expected[:, 1])
    assert wrong.size == 0, f"{where}: request {wrong[:5]} ended {ends[wrong[:5]]}, not {expected[wrong[:5]]}"
    close(ends[:, 0], expected[:, 0], f"{where}: ends of requests")


def play_both(instances: list[Instance], seeds: list[int]) -> list[ReferenceRun]:
    """Instances share their deployment."""
    deployment = instances[0].deployment
    simulator = Simulator([one.application for one in instances], deployment, outcomes=20_000)
    simulator.reset([one.rates for one in instances], seeds, drifts=[one.drift for one in instances])
    start = (deployment.start_replicas, deployment.start_cpu, deployment.start_memory_mib)
    references = [
        ReferenceRun(one.application, one.rates.tolist(), deployment, seed=seed, size=start, drift=one.drift)
        for one, seed in zip(instances, seeds, strict=True)
    ]
    for at in range(INTERVALS):
        wanted = np.stack([one.wanted[at] for one in instances])
        done = allowed(simulator.snapshot(), wanted)
        snapshot, _, _ = simulator.step(wanted)
        for row, reference in enumerate(references):
            expected = reference.step(tuple(done[row].tolist()))
            where = f"seed {seeds[row]}, interval {at}"
            compare_requests(simulator, row, reference, where)
            compare_pods(simulator, row, expected, where)
            compare_interval(simulator, row, expected, where)
            compare_scrapes(snapshot, simulator, row, reference, where)
    return references


@pytest.mark.parametrize("batch", range(24))
def test_engine_and_reference_agree_on_random_services(batch):
    first = random_instance(batch * BATCH)
    fixed = first.deployment.model_dump() | {"objective": first.deployment.objective}
    seeds = list(range(batch * BATCH, (batch + 1) * BATCH))
    play_both([first] + [random_instance(seed, **fixed) for seed in seeds[1:]], seeds)


def test_random_services_meet_every_way_to_end_and_every_state():
    """Otherwise agreement would say less than it seems to."""
    ways: set[str] = set()
    states: set[str] = set()
    kills = deferred = 0
    for number in range(0, 120, 3):
        instance = random_instance(number)
        deployment = instance.deployment
        start = (deployment.start_replicas, deployment.start_cpu, deployment.start_memory_mib)
        run = ReferenceRun(
            instance.application,
            instance.rates.tolist(),
            deployment,
            seed=number,
            size=start,
            drift=instance.drift,
        )
        for wanted in instance.wanted:
            pods = run.step(tuple(wanted.tolist())).pods.values()
            states |= {pod.state for pod in pods}
            deferred += sum(pod.resize_due_s == run.second for pod in pods)
        ways |= {how for _, how in run.outcomes.values()}
        kills += run.counts.kills
    assert ways == set(HOW[1:])
    assert states == set(STATES[1:])
    assert kills > 0 and deferred > 0


def test_samples_of_the_reference_are_all_that_a_sample_has():
    instance = random_instance(0, missing=0.0)
    deployment = instance.deployment
    start = (deployment.start_replicas, deployment.start_cpu, deployment.start_memory_mib)
    run = ReferenceRun(instance.application, instance.rates.tolist(), deployment, seed=0, size=start)
    sample = run.step(start).sample
    assert set(sample) | {"present"} == set(Samples._fields)
    assert isinstance(deployment, Deployment)
