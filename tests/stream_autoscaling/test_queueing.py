"""Limits in which queueing theory knows the answer; the benchmark `stream_model` has narrower bars."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

SERVICE_S = 0.1


def mean_latency_s(job: Job, rate: float, parallelism: int, *, size: int = 32, minutes: int = 60) -> float:
    """Mean over records of `size` environments, the first ten minutes left out."""
    trace = RateTrace(np.full(minutes, rate), 60, Provenance("flat"))
    deployment = Deployment(substep_ms=40, checkpoint_s=3600, buffer_timeout_ms=0)
    constant = np.full((size, len(job.vertices)), parallelism)
    simulator = StreamSimulator(
        [job] * size, [trace] * size, deployment, seeds=range(size), parallelism=constant, recording=True
    )
    while not simulator.ended.all():
        simulator.step(constant)
    episodes = simulator.episodes("static")
    left = np.concatenate([episode.left[10:] for episode in episodes])
    latency_s = np.concatenate([episode.latency_s[10:] for episode in episodes])
    return float((left * latency_s).sum() / left.sum())


@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_waits_are_those_of_pollaczek_and_khinchine(load, spread):
    job = Job("queue", (Vertex(name="server", service_ms=1000 * SERVICE_S, service_spread=spread),), ())
    waited_s = mean_latency_s(job, load / SERVICE_S, 1) - SERVICE_S
    expected_s = load * SERVICE_S * (1 + spread**2) / (2 * (1 - load))
    assert waited_s == pytest.approx(expected_s, rel=0.08)


def test_two_exponential_servers_in_a_row_are_two_queues_of_their_own():
    # Burke 1956: what leaves M/M/1 is Poisson again, so times add up: 2 x 0.1 / (1 - 0.7).
    servers = tuple(
        Vertex(name=name, service_ms=1000 * SERVICE_S, service_spread=1.0) for name in ("one", "two")
    )
    job = Job("tandem", servers, (Edge(0, 1),))
    assert mean_latency_s(job, 0.7 / SERVICE_S, 1) == pytest.approx(2 * SERVICE_S / 0.3, rel=0.05)


def test_constant_servers_in_a_row_make_records_wait_only_once():
    # Behind a server of constant speed nothing ever waits for another one: W + 2 s with W of M/D/1.
    servers = tuple(Vertex(name=name, service_ms=1000 * SERVICE_S) for name in ("one", "two"))
    job = Job("tandem", servers, (Edge(0, 1),))
    wait_s = 0.8 * SERVICE_S / (2 * 0.2)
    assert mean_latency_s(job, 0.8 / SERVICE_S, 1) == pytest.approx(wait_s + 2 * SERVICE_S, rel=0.05)
