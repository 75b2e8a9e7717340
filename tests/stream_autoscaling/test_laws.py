"""Laws of the engine on random jobs, traces, settings and actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stream_autoscaling.random_jobs import Instance, random_instance

from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.traces import RateTrace

numbers = st.integers(0, 10**6)
few = settings(max_examples=40, deadline=None)


def simulator_of(instance: Instance, *, seed: int = 1, **options: object) -> StreamSimulator:
    return StreamSimulator(
        [instance.job],
        [instance.trace],
        instance.deployment,
        seeds=[seed],
        parallelism=instance.parallelism[None],
        **options,  # pyright: ignore[reportArgumentType]
    )


def edges_of(simulator: StreamSimulator, row: int = 0) -> np.ndarray:
    return simulator.state.queues[row, : simulator.state.run[row, 0]["edge_count"]]


def expected_processed(simulator: StreamSimulator) -> np.ndarray:
    """What every vertex must have processed, by what its inputs got, less what waits or was dropped."""
    state, run = simulator.state, simulator.state.run[0, 0]
    vertices = state.vertices[0, : run["vertex_count"]]
    holds = (vertices["window_ms"] > 0) & (vertices["outs"] > 0)
    sent = np.where(holds, vertices["released_total"], vertices["processed_total"])
    expected = np.zeros(len(vertices))
    for edge in edges_of(simulator):
        gone = edge["dropped_total"] + edge["amount"]
        expected[edge["target"]] += sent[edge["source"]] * edge["selectivity"] - gone
    backlogs = state.queues["amount"][0, run["edge_count"] :]
    for index in np.flatnonzero(vertices["source"] >= 0):
        v = vertices[index]
        expected[index] = v["arrived_total"] + v["returned_total"] - backlogs[v["source"]]
    return expected


@few
@given(numbers)
def test_no_record_is_lost_or_made_up_on_the_way(number):
    instance = random_instance(number, slots=0)
    simulator = simulator_of(instance)
    for wanted in instance.wanted:
        simulator.step(wanted[None])
        processed = simulator.state.vertices["processed_total"][0]
        np.testing.assert_allclose(processed, expected_processed(simulator), rtol=1e-9, atol=1e-5)


@few
@given(numbers)
def test_windows_give_everything_they_got_when_nothing_restarts(number):
    instance = random_instance(number, slots=0)
    simulator = simulator_of(instance)
    for _ in instance.wanted:
        simulator.step(instance.parallelism[None])
        vertices = simulator.state.vertices[0]
        given_out = vertices["held"] + vertices["pending"] + vertices["released_total"]
        windows = (vertices["window_ms"] > 0) & (vertices["outs"] > 0)
        np.testing.assert_allclose(given_out[windows], vertices["processed_total"][windows], rtol=1e-9)


@few
@given(numbers)
def test_every_record_is_processed_at_least_once_whatever_restarts_there_are(number):
    # Bursts and rescales first; then silence, in which everything drains and every window ends.
    instance = random_instance(number, slots=0, spread=0.0, cores=0.0, debloat_s=0.0)
    interval_s = instance.deployment.interval_s
    busy_steps = len(instance.wanted) * interval_s
    rates = np.zeros(int((busy_steps + 40_000) / 5))
    rates[: int(busy_steps / 5)] = 200.0
    trace = RateTrace(rates, 5.0, instance.trace.provenance)
    simulator = simulator_of(instance._replace(trace=trace))
    for wanted in instance.wanted:
        simulator.step(wanted[None])
    vertices, queues = simulator.state.vertices[0], simulator.state.queues[0]
    to_do = 1.0
    while to_do > 1e-6:
        assert not simulator.ended[0], "40,000 s of silence are enough to drain"
        simulator.step(simulator.snapshot().parallelism)
        run = simulator.state.run[0, 0]
        waiting = queues["amount"][: run["edge_count"] + run["source_count"]].sum()
        to_do = waiting + vertices["held"].sum() + vertices["pending"].sum()
    arrived = vertices["arrived_total"].copy()
    needed = arrived.copy()
    for edge in edges_of(simulator):  # edges come by source, so parents are complete before children
        needed[edge["target"]] += needed[edge["source"]] * edge["selectivity"]
    assert (vertices["processed_total"] >= needed * (1 - 1e-9) - 1e-3).all()


@few
@given(numbers)
def test_no_queue_exceeds_its_bound(number):
    instance = random_instance(number, slots=0, debloat_s=0.0)
    simulator = simulator_of(instance)
    for wanted in instance.wanted:
        simulator.step(wanted[None])
        for edge in edges_of(simulator):
            assert edge["amount"] <= edge["bound"] * (1 + 1e-9) + 1e-6
            assert edge["amount"] >= 0


@few
@given(numbers)
def test_busy_backpressured_and_idle_sum_to_one_where_metrics_are_complete(number):
    instance = random_instance(number, slots=0)
    simulator = simulator_of(instance)
    for wanted in instance.wanted:
        simulator.step(wanted[None])
        samples = simulator.snapshot().samples
        parts = np.stack([samples.busy, samples.backpressured, samples.idle])[:, 0, -1]
        np.testing.assert_allclose(parts.sum(0), samples.complete[0, -1].astype(float), atol=1e-12)
        assert (parts >= -1e-12).all() and (parts <= 1 + 1e-12).all()


def shortest_path_s(simulator: StreamSimulator) -> float:
    """Least a record can take: service along some path to a sink; results of windows begin there."""
    vertices = simulator.state.vertices[0, : simulator.state.run[0, 0]["vertex_count"]]
    best = np.where(vertices["source"] >= 0, vertices["service_age_s"], np.inf)
    best = np.where((vertices["window_ms"] > 0) & (vertices["outs"] > 0), 0.0, best)
    for edge in edges_of(simulator):
        target = edge["target"]
        here = vertices[target]["service_age_s"]
        if not (vertices[target]["window_ms"] and vertices[target]["outs"]):
            best[target] = min(best[target], best[edge["source"]] + here)
    return float(best[vertices["outs"] == 0].min())


@few
@given(numbers)
def test_latency_is_not_below_the_service_times_of_the_shortest_path(number):
    instance = random_instance(number, slots=0)
    simulator = simulator_of(instance)
    for _ in instance.wanted:
        outcome = simulator.step(instance.parallelism[None])
        if simulator.state.run[0, 0]["left"] > 0:
            assert outcome.latency_s[0] >= shortest_path_s(simulator) * (1 - 1e-9)


@few
@given(numbers, st.integers(1, 6))
def test_more_parallelism_never_raises_the_backlog_of_a_linear_job(number, more):
    # Small records, so that buffers are not what limits: more subtasks also mean more of those.
    instance = random_instance(number, plain=True, slots=0, cores=0.0, spread=0.0, debloat_s=0.0)
    vertices = tuple(replace(vertex, record_bytes=20.0) for vertex in instance.job.vertices)
    job = Job(instance.job.name, vertices, instance.job.edges)
    less, greater = (
        simulator_of(instance._replace(job=job, parallelism=instance.parallelism + extra))
        for extra in (0, more)
    )
    for _ in instance.wanted:
        less.step(instance.parallelism[None])
        greater.step(instance.parallelism[None] + more)
        backlogs = [one.state.run[0, 0]["backlog"] for one in (less, greater)]
        assert backlogs[1] <= backlogs[0] + 1e-6


@few
@given(numbers, st.integers(0, 2**40))
def test_the_same_seed_gives_the_same_numbers(number, seed):
    instance = random_instance(number, slots=0, arrivals="poisson")
    first, second = (simulator_of(instance, seed=seed, recording=True) for _ in range(2))
    for wanted in instance.wanted:
        first.step(wanted[None])
        second.step(wanted[None])
    for one, other in zip(first.episodes("a"), second.episodes("a"), strict=True):
        for name in ("arrived", "left", "latency_s", "latency_p95_s", "busy", "rewards"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


@few
@given(st.lists(numbers, min_size=2, max_size=5))
def test_a_batch_is_so_many_single_environments(chosen):
    first = random_instance(chosen[0], slots=0)
    fixed = first.deployment.model_dump() | {"objective": first.deployment.objective}
    instances = [random_instance(number, **fixed) for number in chosen]
    most = max(len(one.job.vertices) for one in instances)
    start = np.zeros((len(instances), most), np.int64)
    for row, one in enumerate(instances):
        start[row, : len(one.parallelism)] = one.parallelism
    together = StreamSimulator(
        [one.job for one in instances],
        [one.trace for one in instances],
        first.deployment,
        seeds=chosen,
        parallelism=start,
    )
    alone = [simulator_of(one, seed=seed) for one, seed in zip(instances, chosen, strict=True)]
    for at in range(len(first.wanted)):
        wanted = np.zeros_like(start)
        for row, one in enumerate(instances):
            wanted[row, : len(one.parallelism)] = one.wanted[at]
        outcome = together.step(wanted)
        for row, one in enumerate(alone):
            single = one.step(instances[row].wanted[at][None])
            assert all(ours[row] == theirs[0] for ours, theirs in zip(outcome, single, strict=True))
