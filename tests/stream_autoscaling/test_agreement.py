"""The engine and the reference give the same numbers, interval by interval."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.random_jobs import Instance, random_instance

from trimtab.stream_autoscaling.problem import allowed
from trimtab.stream_autoscaling.reference import Interval, ReferenceRun
from trimtab.stream_autoscaling.simulator import StreamSimulator

PER_VERTEX = (
    "complete", "records_in", "records_out", "busy", "backpressured", "idle", "queue_fill", "pending",
    "parallelism", "state_mb",
)  # fmt: skip
BATCH = 10


def close(actual: object, expected: object, what: str) -> None:
    """1e-9 relative; the absolute part is for differences of nearly equal numbers."""
    np.testing.assert_allclose(
        np.asarray(actual, float), np.asarray(expected, float), rtol=1e-9, atol=1e-9, err_msg=what
    )


def compare(simulator: StreamSimulator, row: int, expected: Interval, where: str) -> None:
    state = simulator.state
    run, count = state.run[row, 0], len(expected.busy)
    vertices = state.vertices[row, :count]
    for name, value in expected.numbers.items():
        close(run[name], value, f"{where}: {name}")
    close(vertices["busy_s"] / simulator.deployment.interval_s, expected.busy, f"{where}: busy")
    close(vertices["parallelism"], expected.parallelism, f"{where}: parallelism")
    close(vertices["held"] + vertices["pending"], expected.held, f"{where}: held")
    places = [
        state.inputs[row, first : first + ins]
        for first, ins in zip(vertices["first_in"], vertices["ins"], strict=True)
    ]
    waiting = [state.queues["amount"][row, place].sum() for place in places]
    close(waiting, expected.waiting, f"{where}: waiting")
    samples = simulator.snapshot().samples
    for name in PER_VERTEX:
        close(getattr(samples, name)[row, -1, :count], expected.sample[name], f"{where}: sample {name}")
    latency = (samples.latency_s[row, -1], samples.latency_p95_s[row, -1])
    close(latency, expected.sample_latency_s, f"{where}: sampled latency")


def play_both(instances: list[Instance], seeds: list[int]) -> int:
    """Gives the number of restarts, so that the test can say that there were some."""
    first = instances[0].deployment
    most = max(len(one.job.vertices) for one in instances)
    start = np.zeros((len(instances), most), np.int64)
    for row, one in enumerate(instances):
        start[row, : len(one.parallelism)] = one.parallelism
    simulator = StreamSimulator(
        [one.job for one in instances],
        [one.trace for one in instances],
        first,
        seeds=seeds,
        parallelism=start,
    )
    references = [
        ReferenceRun(one.job, one.trace, first, seed=seed, parallelism=one.parallelism.tolist())
        for one, seed in zip(instances, seeds, strict=True)
    ]
    restarts = 0
    for at in range(len(instances[0].wanted)):
        wanted = np.zeros_like(start)
        for row, one in enumerate(instances):
            wanted[row, : len(one.parallelism)] = one.wanted[at]
        done = allowed(simulator.snapshot(), wanted)
        outcome = simulator.step(wanted)
        restarts += int(outcome.rescaled.sum())
        for row, reference in enumerate(references):
            expected = reference.step(done[row, : len(reference.operators)].tolist())
            compare(simulator, row, expected, f"seed {seeds[row]}, interval {at}")
    return restarts


@pytest.mark.parametrize("batch", range(20))
def test_engine_and_reference_agree_on_random_instances(batch):
    # One batch shares its deployment; slots are not limited where a job might not fit.
    first = random_instance(batch * BATCH, slots=0)
    fixed = first.deployment.model_dump() | {"objective": first.deployment.objective}
    seeds = list(range(batch * BATCH, (batch + 1) * BATCH))
    instances = [first] + [random_instance(seed, **fixed) for seed in seeds[1:]]
    assert play_both(instances, seeds) > 0


def test_agreement_holds_through_merged_chunks_of_a_long_overload():
    # 100 intervals of 10 s with far too little parallelism: backlogs of 1000 chunks in rings of 64.
    instance = random_instance(7, intervals=100, interval_s=10, substep_ms=1000, arrivals="poisson", slots=0)
    start = np.ones(len(instance.job.vertices), np.int64)
    wanted = np.tile(start, (100, 1))
    wanted[50:] = np.minimum(12, instance.wanted.max(0) + 6)
    play_both([instance._replace(parallelism=start, wanted=wanted)], [7])
