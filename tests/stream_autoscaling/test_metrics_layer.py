"""What a policy sees: late, noisy, sometimes missing, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

JOB = Job(
    "three",
    (
        Vertex(name="read", service_ms=0.1),
        Vertex(name="work", service_ms=5.0, state_mb=12.0),
        Vertex(name="write", service_ms=0.1),
    ),
    (Edge(0, 1, 2.0), Edge(1, 2, 0.5)),
)
PARALLELISM = np.array([1, 4, 1])


def play(
    size: int, intervals: int, *, rates: np.ndarray | None = None, **settings: object
) -> StreamSimulator:
    values = {"arrivals": "smooth", "staleness_s": 0, "metric_noise": 0, "missing": 0} | settings
    trace = RateTrace(np.full(intervals + 3, 300.0) if rates is None else rates, 60, Provenance("flat"))
    simulator = StreamSimulator(
        [JOB] * size,
        [trace] * size,
        Deployment(**values),  # pyright: ignore[reportArgumentType]
        seeds=range(size),
        parallelism=np.tile(PARALLELISM, (size, 1)),
    )
    for _ in range(intervals):
        simulator.step(simulator.snapshot().parallelism)
    return simulator


def test_without_noise_samples_are_the_truth():
    # 300/s read, 600/s at work: 600 x 5 ms over 4 subtasks = 0.75; half of them go on.
    samples = play(1, 3).snapshot().samples
    np.testing.assert_allclose(samples.records_in[0, -1], [300, 600, 300])
    np.testing.assert_allclose(samples.records_out[0, -1], [600, 300, 0])
    np.testing.assert_allclose(samples.busy[0, -1], [0.03, 0.75, 0.03])
    np.testing.assert_allclose(samples.state_mb[0, -1], [0, 12, 0])
    assert samples.complete[0, -1].all() and samples.parallelism[0, -1].tolist() == [1, 4, 1]
    # Service 0.1 + 5 + 0.1 ms and two exchanges of 100 ms (buffers fill only after 1 s).
    assert samples.latency_s[0, -1] == pytest.approx(0.2052)
    assert samples.latency_p95_s[0, -1] == pytest.approx(0.2052)


def test_the_window_shows_the_last_intervals_newest_last_and_says_which_were_lived_through():
    rates = np.array([100.0, 200, 300, 400, 500, 600, 700])
    simulator = play(2, 2, rates=rates, history=3)
    samples = simulator.snapshot().samples
    assert samples.present.tolist() == [[False, True, True]] * 2
    np.testing.assert_allclose(samples.records_in[0, 1:, 0], [100, 200])
    for _ in range(3):
        simulator.step(simulator.snapshot().parallelism)
    samples = simulator.snapshot().samples
    np.testing.assert_allclose(samples.records_in[0, :, 0], [300, 400, 500])
    assert samples.records_in.base is not None, "a view, not a copy"
    simulator.reset(np.array([True, False]))
    assert simulator.snapshot().samples.present.tolist() == [[False] * 3, [True] * 3]


def test_samples_are_late_by_up_to_the_staleness():
    # The rate doubles with every interval: a reading that is late by x s shows (60 - x) / (60 - x + x_before)
    # parts of the new rate. Lateness is uniform, so over many environments its mean is half of the most.
    size = 400
    simulator = play(size, 2, rates=np.array([100.0, 200.0, 400.0]), staleness_s=30.0, substep_ms=500)
    first, second = simulator.snapshot().samples.records_in[:, -2:, 0].T
    np.testing.assert_allclose(first, 100)
    assert (second <= 200 + 1e-9).all() and (second > 130).all()
    assert second.mean() < 185


def test_noise_is_relative_on_rates_and_keeps_shares_a_whole():
    simulator = play(800, 1, metric_noise=0.03)
    samples = simulator.snapshot().samples
    ratio = samples.records_in[:, -1, 0] / 300
    assert ratio.mean() == pytest.approx(1, abs=0.004) and ratio.std() == pytest.approx(0.03, rel=0.1)
    latency = samples.latency_s[:, -1] / 0.2052
    assert latency.std() == pytest.approx(0.03, rel=0.1)
    shares = samples.busy + samples.backpressured + samples.idle
    np.testing.assert_allclose(shares[:, -1], 1)


def test_a_share_of_vertices_does_not_report_and_shows_zeros():
    samples = play(500, 1, missing=0.2).snapshot().samples
    complete = samples.complete[:, -1]
    assert complete.mean() == pytest.approx(0.8, abs=0.04)
    for name in ("records_in", "busy", "idle", "pending"):
        assert not getattr(samples, name)[:, -1][~complete].any()


def test_after_a_restart_metrics_are_silent_for_a_while_and_then_speak_of_the_new_parallelism():
    settings = {
        "rescale": "at_once",
        "restart_spread": 0,
        "restart_s": 10,
        "missing_after_s": 30,
        "worker_start_s": 0,
    }
    simulator = play(200, 1, interval_s=20, cooldown_s=0, **settings)
    simulator.step(np.tile([1, 5, 1], (200, 1)))
    samples = simulator.snapshot().samples
    # Up again 10.12 s into the interval (12 MB are restored); 9.88 s later, of U(0, 30) a third is over.
    assert samples.complete[:, -1].all(1).mean() == pytest.approx(9.88 / 30, abs=0.1)
    for _ in range(4):  # the first two still catch up
        simulator.step(simulator.snapshot().parallelism)
    samples = simulator.snapshot().samples
    assert samples.complete[:, -1].all()
    np.testing.assert_allclose(samples.busy[:, -1, 1], 0.6, rtol=1e-6)


def test_while_down_no_sample_is_complete_and_latency_is_unknown():
    settings = {"rescale": "at_once", "restart_spread": 0, "restart_s": 100, "worker_start_s": 0}
    simulator = play(1, 1, cooldown_s=0, **settings)
    outcome = simulator.step(np.array([[1, 5, 1]]))
    snapshot = simulator.snapshot()
    assert not snapshot.samples.complete[0, -1].any() and np.isnan(snapshot.samples.latency_s[0, -1])
    assert snapshot.rescaling[0] and outcome.rescaled[0]
    # Nothing left: the truth is the age of the oldest record, which came up to 10 s before the interval.
    assert 59.0 < outcome.latency_s[0] < 75.0


def test_spread_changes_the_job_but_not_what_is_known_of_it():
    simulator = play(300, 1, spread=0.3)
    np.testing.assert_allclose(simulator.graph.selectivity[:, 0, 1], 2.0)
    true_s = simulator.state.vertices["service_s"][:, 1]
    assert 0.0035 <= true_s.min() < 0.0037 and 0.0063 < true_s.max() <= 0.0065
