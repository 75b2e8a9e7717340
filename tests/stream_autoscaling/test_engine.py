"""Hand-computed numbers of the fluid engine, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.core.errors import ActionError, WorkloadError
from trimtab.stream_autoscaling.deployment import Deployment, Objective
from trimtab.stream_autoscaling.job import Edge, Job, Vertex, enough_parallelism
from trimtab.stream_autoscaling.simulator import StreamSimulator, simulate, simulate_batch
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

EXACT = {"arrivals": "smooth", "staleness_s": 0, "metric_noise": 0, "missing": 0, "restart_spread": 0}


def trace_of(*rates: float, step_s: float = 60.0, start_s: float = 0.0) -> RateTrace:
    return RateTrace(np.array(rates, float), step_s, Provenance("by hand"), start_s=start_s)


def one_of(job: Job, trace: RateTrace, parallelism: list[int], **settings: object) -> StreamSimulator:
    deployment = Deployment(**(EXACT | settings))  # pyright: ignore[reportArgumentType]
    return StreamSimulator(
        [job], [trace], deployment, seeds=[3], parallelism=np.array([parallelism]), recording=True
    )


def hold(simulator: StreamSimulator, intervals: int = 1) -> None:
    for _ in range(intervals):
        simulator.step(simulator.snapshot().parallelism)


def chain(*service_ms: float, **of_last: object) -> Job:
    count = len(service_ms)
    vertices = tuple(
        Vertex(name=f"v{i}", service_ms=ms, **(of_last if i == count - 1 else {}))  # pyright: ignore[reportArgumentType]
        for i, ms in enumerate(service_ms)
    )
    return Job("chain", vertices, tuple(Edge(i, i + 1) for i in range(count - 1)))


def test_an_overloaded_source_keeps_a_backlog_of_what_it_cannot_read():
    # 150/s come, one subtask reads 100/s: 50/s pile up; after 60 s 3000, after 120 s 6000.
    simulator = one_of(chain(10.0), trace_of(150, 150, 150), [1])
    hold(simulator, 2)
    episode = simulator.episodes("static")[0]
    np.testing.assert_allclose(episode.backlog, [3000, 6000])
    np.testing.assert_allclose(episode.left, [100, 100])
    np.testing.assert_allclose(episode.busy[:, 0], [1, 1])
    # Age of what leaves at t is t (1 - 100/150): t/3 at the interval's middle, plus 10 ms of service.
    np.testing.assert_allclose(episode.latency_s, [10.01, 30.01], rtol=0.02)


def test_work_scales_as_its_exponent_says_and_no_subtask_has_less_than_its_keys():
    scaled = one_of(chain(10.0, scaling=0.5), trace_of(1000), [9])
    hold(scaled)
    assert scaled.episodes("x")[0].left[0] == pytest.approx(300)  # 9^0.5 = 3
    keyed = one_of(chain(10.0, key_groups=10), trace_of(1000), [4])
    hold(keyed)
    assert keyed.episodes("x")[0].left[0] == pytest.approx(100 / 0.3)  # one subtask has 3 of 10 groups
    hot = one_of(chain(10.0, key_groups=128, hot_share=0.5), trace_of(1000), [8])
    hold(hot)
    assert hot.episodes("x")[0].left[0] == pytest.approx(200)  # half of all must go through one


def test_cores_are_shared_by_busy_subtasks():
    # Both want all of 4 + 4 subtasks; 2 cores give each a quarter: 4 x 100/s / 4.
    simulator = one_of(chain(10.0, 10.0), trace_of(1000, 1000), [4, 4], cores=2)
    hold(simulator, 2)
    assert simulator.episodes("x")[0].left[1] == pytest.approx(100, rel=0.02)


def test_full_buffers_stop_the_sender():
    # `work` does 100/s of 300/s. Buffers before it: (2 + 8) x 2 = 20 of 32 KiB, 65.5 records of 10,000 bytes.
    vertices = (Vertex(name="read", service_ms=1, record_bytes=10_000), Vertex(name="work", service_ms=10))
    job = Job("narrow", vertices, (Edge(0, 1),))
    simulator = one_of(job, trace_of(300, 300), [1, 1])
    hold(simulator, 2)
    episode = simulator.episodes("x")[0]
    samples = simulator.snapshot().samples
    assert simulator.state.queues["amount"][0, 0] == pytest.approx(20 * 32_768 / 10_000)
    np.testing.assert_allclose(episode.left, 100)
    assert episode.backlog[1] == pytest.approx(2 * 60 * 200 - 20 * 32_768 / 10_000)
    np.testing.assert_allclose(samples.queue_fill[0, -1], [0, 1])
    np.testing.assert_allclose(samples.busy[0, -1], [0.1, 1.0], atol=1e-9)
    assert samples.backpressured[0, -1, 0] == pytest.approx(0.9)
    assert samples.pending[0, -1, 0] == pytest.approx(episode.backlog[1])


def test_small_records_hide_a_backlog_in_buffers_and_debloating_shows_it():
    # The blind spot of pendingRecords: 80/s too much for 60 s fit into buffers of 16,384 records.
    vertices = (Vertex(name="read", service_ms=1, record_bytes=40), Vertex(name="work", service_ms=10))
    job = Job("small", vertices, (Edge(0, 1),))
    hidden = one_of(job, trace_of(180), [1, 1])
    hold(hidden)
    assert hidden.snapshot().samples.pending[0, -1, 0] == 0
    assert hidden.state.queues["amount"][0, 0] == pytest.approx(4800)
    shown = one_of(job, trace_of(180), [1, 1], debloat_s=2.0)
    hold(shown)
    assert shown.state.queues["amount"][0, 0] == pytest.approx(200)  # 2 s of 100/s
    assert shown.snapshot().samples.pending[0, -1, 0] == pytest.approx(4600)


def test_inputs_of_a_join_are_taken_in_proportion_to_what_waits():
    vertices = (
        Vertex(name="a", service_ms=0.1, input_share=3, record_bytes=20),
        Vertex(name="b", service_ms=0.1, record_bytes=20),
        Vertex(name="join", service_ms=10),
    )
    job = Job("join", vertices, (Edge(0, 2), Edge(1, 2)))
    simulator = one_of(job, trace_of(200, 200), [1, 1, 1])
    hold(simulator, 2)
    amounts = simulator.state.queues["amount"][0, :2]
    # 150/s and 50/s come, 100/s are taken: 75 and 25 of each, so 75/s and 25/s pile up.
    np.testing.assert_allclose(amounts, [120 * 75, 120 * 25], rtol=0.01)


def test_a_window_sends_its_results_at_its_end():
    vertices = (
        Vertex(name="read", service_ms=0.1),
        Vertex(name="count", service_ms=1, window_s=60, state_mb=60),
        Vertex(name="write", service_ms=0.1),
    )
    job = Job("window", vertices, (Edge(0, 1), Edge(1, 2, 0.01)))
    trace = trace_of(100, 100, 100, 100, start_s=30.0)
    simulator = one_of(job, trace, [1, 1, 1])
    hold(simulator, 4)
    episode = simulator.episodes("x")[0]
    # The reset is half a window in: 30 s x 100/s x 0.01 = 30 results leave first, then 60 each.
    np.testing.assert_allclose(episode.left * 60, [30, 60, 60, 60])
    # Waiting for its end is no latency: two buffers of 100 ms and 0.1 + 1 + 0.1 ms of service are all.
    np.testing.assert_allclose(episode.latency_s, 0.2012)
    assert simulator.snapshot().samples.state_mb[0, -1, 1] == pytest.approx(30)


def test_what_waits_before_a_window_is_latency():
    """100/s come, 50/s are counted: at t seconds those of t / 2 are, on average 105 s old from 180 to 240."""
    vertices = (Vertex(name="count", service_ms=20, window_s=60), Vertex(name="write", service_ms=0.1))
    job, trace = Job("late", vertices, (Edge(0, 1, 0.01),)), trace_of(*[100.0] * 5)
    simulator = one_of(job, trace, [1, 1])
    hold(simulator, 5)
    assert simulator.episodes("x")[0].latency_s[-1] == pytest.approx(105, abs=1)


def test_buffers_that_fill_sooner_than_the_timeout_are_sent_sooner():
    # 163.84 records of 200 bytes fill a segment; at 16,384/s that takes 10 ms.
    simulator = one_of(chain(0.01, 0.01), trace_of(16_384), [1, 1])
    hold(simulator)
    assert simulator.episodes("x")[0].latency_s[0] == pytest.approx(0.010 + 0.00002)


def test_a_rescale_at_once_replays_what_was_read_since_the_last_checkpoint():
    # No checkpoint is due within the hour; all that was read comes back: 60 s x 100/s.
    settings = {"rescale": "at_once", "checkpoint_s": 86_400, "restart_s": 3.0, "worker_start_s": 7.0}
    simulator = one_of(chain(1.0), trace_of(*[100] * 5), [4], **settings)
    hold(simulator)
    outcome = simulator.step(np.array([[5]]))
    vertex = simulator.state.vertices[0, 0]
    assert outcome.rescaled[0] and vertex["returned_total"] == pytest.approx(6000)
    # Five slots need a second worker of four: 3 + 7 s, in which nothing runs.
    assert simulator.snapshot().downtime_s[0] == pytest.approx(10)
    assert simulator.episodes("x")[0].down_s.tolist() == pytest.approx([0, 10])
    # 5000/s catch up at once: 6000 + 1000 that waited, then 100/s.
    assert simulator.episodes("x")[0].left[1] * 60 == pytest.approx(12_000)
    # Replayed records have their old births: those of the first minute are 10 to 70 s old.
    assert outcome.latency_s[0] > 20


def test_a_rescale_waits_for_a_checkpoint_that_begins_after_it_and_replays_little():
    settings = {"checkpoint_s": 10, "restart_s": 3.0}
    simulator = one_of(chain(1.0), trace_of(*[100] * 5), [3], **settings)
    hold(simulator)
    outcome = simulator.step(np.array([[4]]))
    # A checkpoint begins within 10 s of the command; without state it is complete one substep later.
    assert outcome.rescaled[0]
    assert simulator.state.vertices[0, 0]["returned_total"] <= 200
    assert simulator.episodes("x")[0].down_s[1] == pytest.approx(3)


def test_a_rescale_does_not_wait_for_ever():
    # Writing 10 GB takes 1000 s; the patience is 2 checkpoints of 60 s.
    job = chain(1.0, state_mb=10_000.0)
    settings = {"checkpoint_s": 60, "checkpoint_patience": 2, "checkpoint_mb_per_s": 10.0, "cooldown_s": 0}
    simulator = one_of(job, trace_of(*[100] * 6), [3], **settings)
    flags = [bool(simulator.step(np.array([[4]])).rescaled[0]) for _ in range(4)]
    assert flags == [False, False, True, False]


def test_rescaling_and_cooldown_are_told_and_kept():
    settings = {"rescale": "at_once", "restart_s": 2.0, "cooldown_s": 150.0, "interval_s": 60}
    simulator = one_of(chain(1.0), trace_of(*[100] * 8), [2], **settings)
    hold(simulator)
    assert np.isinf(simulator.snapshot().since_rescale_s[0])
    simulator.step(np.array([[3]]))
    snapshot = simulator.snapshot()
    assert snapshot.since_rescale_s[0] == pytest.approx(58) and snapshot.cooldown_s[0] == pytest.approx(92)
    flags = [bool(simulator.step(np.array([[4]])).rescaled[0]) for _ in range(3)]
    assert flags == [False, False, True], "152 s after the first one"


def test_unchanged_parallelism_is_no_rescale():
    simulator = one_of(chain(1.0), trace_of(100, 100, 100), [2])
    hold(simulator, 3)
    assert not simulator.episodes("x")[0].rescaled.any()


def test_reward_is_made_of_latency_utilisation_rescales_and_violations():
    goal = Objective(slo_s=5, latency_weight=0.6, rescale_cost=0.25, violation_cost=0.5)
    simulator = one_of(chain(10.0), trace_of(50, 150), [1], objective=goal)
    first = simulator.step(np.array([[1]]))
    # Latency 10 ms: 0.6 x 0.002 / 10; one subtask is half busy.
    assert first.rewards[0] == pytest.approx(-0.6 * 0.002 / 10 + 0.4 * 0.5)
    second = simulator.step(np.array([[1]]))
    assert second.violated[0]
    assert second.rewards[0] == pytest.approx(-0.6 * second.latency_s[0] / 50 + 0.4 - 0.5)


def test_an_environment_whose_trace_is_over_stands_still():
    jobs, traces = [chain(1.0)] * 2, [trace_of(100), trace_of(100, 100)]
    simulator = StreamSimulator(jobs, traces, Deployment(), seeds=[1, 2], recording=True)
    assert simulator.step(simulator.snapshot().parallelism).ended.tolist() == [True, False]
    last = simulator.step(simulator.snapshot().parallelism)
    assert last.ended.all() and last.rewards[0] == 0 and last.rewards[1] != 0
    assert [len(episode.rewards) for episode in simulator.episodes("x")] == [1, 2]


def test_chosen_environments_begin_anew_with_other_traces():
    jobs, traces = [chain(1.0)] * 2, [trace_of(*[100] * 4)] * 2
    simulator = StreamSimulator(jobs, traces, Deployment(), seeds=[1, 2], recording=True)
    hold(simulator, 2)
    longer = trace_of(*[900] * 10)
    simulator.reset(np.array([False, True]), traces=[longer] * 2, seeds=[7, 7])
    assert simulator.snapshot().now_s.tolist() == [120, 0]
    assert simulator.seeds == (1, 7)
    hold(simulator)
    first, second = simulator.episodes("x")
    assert len(first.rewards) == 3 and len(second.rewards) == 1
    assert second.arrived[0] == pytest.approx(900, rel=0.02) and first.arrived[-1] == pytest.approx(
        100, rel=0.1
    )


def test_nothing_is_left_of_the_samples_of_an_earlier_episode():
    """Where nothing was reported the numbers are 0 and latencies NaN, whatever was there before."""
    jobs, traces = [chain(1.0)] * 2, [trace_of(*[100] * 9)] * 2
    simulator = StreamSimulator(jobs, traces, Deployment(history=3), seeds=[1, 2])
    hold(simulator, 5)
    simulator.reset(np.array([False, True]))
    samples = simulator.snapshot().samples
    assert samples.present[0].all() and not samples.present[1].any()
    assert np.isnan(samples.latency_s[1]).all() and np.isnan(samples.latency_p95_s[1]).all()
    assert not any(field[1].any() for field in samples[1:-2]) and samples.records_in[0].all()


def test_time_of_day_is_known():
    simulator = one_of(chain(1.0), trace_of(100, 100, start_s=3600.0), [1])
    hold(simulator)
    assert simulator.snapshot().now_s.tolist() == [3660.0]


def test_jobs_begin_with_enough_for_the_first_hour_within_the_slots():
    job = chain(1.0, 8.0)
    free = StreamSimulator([job], [trace_of(700)], Deployment(), seeds=[1])
    assert free.snapshot().parallelism.tolist() == [[1, 8]]
    bound = StreamSimulator([job], [trace_of(700)], Deployment(slots=5), seeds=[1])
    assert bound.snapshot().parallelism.tolist() == [[1, 5]]
    assert enough_parallelism(job, 700.0, utilisation=1.0).tolist() == [1, 6]


def test_an_interval_of_steps_that_floats_make_a_hair_shorter_is_lived_through():
    trace = trace_of(*[100] * 11, step_s=120 / 11)
    assert trace.length_s < 120
    simulator = StreamSimulator([chain(1.0)], [trace], Deployment(interval_s=120), seeds=[1])
    assert simulator.step(simulator.snapshot().parallelism).ended.all()


def test_simulate_plays_whole_episodes():
    class Static:
        name = "static"

        def begin(self, graph):
            return self

        def decide(self, snapshot):
            return snapshot.parallelism

    job, trace = chain(1.0), trace_of(100, 100)
    episodes = simulate_batch(Static(), [job] * 2, [trace] * 2, seeds=[1, 2])
    assert [episode.seed for episode in episodes] == [1, 2]
    assert episodes[0].metrics()["rescales"] == 0
    alone = simulate(job, trace, Static(), seed=2)
    np.testing.assert_array_equal(alone.rewards, episodes[1].rewards)
    assert alone.seed == 2 and alone.metrics() == episodes[1].metrics()


def test_bad_input_is_refused_in_one_line():
    job, trace = chain(1.0), trace_of(100)
    with pytest.raises(WorkloadError, match="2 jobs, 1 traces and 1 seeds"):
        StreamSimulator([job] * 2, [trace], Deployment(), seeds=[1])
    with pytest.raises(WorkloadError, match=r"covers 30 s, less than one interval of 60 s"):
        StreamSimulator([job], [trace_of(100, step_s=30)], Deployment(), seeds=[1])
    with pytest.raises(WorkloadError, match="vertex v0 begins with parallelism 129; it must be 1 to 128"):
        StreamSimulator([job], [trace], Deployment(), seeds=[1], parallelism=np.array([[129]]))
    two = chain(1.0, 1.0)
    for start, said in (
        ([[2]], r"parallelism of shape \(1, 1\); give \(1, 2\)"),
        ([[2, 1, 1]], r"parallelism of shape \(1, 3\); give \(1, 2\)"),
        ([[2.7, 1.0]], "parallelism of type float64; give whole numbers"),
    ):
        with pytest.raises(WorkloadError, match=said):
            StreamSimulator([two], [trace], Deployment(), seeds=[1], parallelism=np.array(start))
    with pytest.raises(WorkloadError, match="begins with 9 slots of 8"):
        StreamSimulator([job], [trace], Deployment(slots=8), seeds=[1], parallelism=np.array([[9]]))
    simulator = StreamSimulator([job], [trace], Deployment(), seeds=[1])
    with pytest.raises(ActionError, match="whole numbers"):
        simulator.step(np.array([[1.5]]))
    with pytest.raises(ActionError, match="shape"):
        simulator.step(np.array([[1, 2]]))
    with pytest.raises(ActionError, match="recording=True"):
        simulator.episodes("x")
    with pytest.raises(WorkloadError, match="2 seeds for 1 environments"):
        simulator.reset(seeds=[1, 2])
    apart = tuple(Vertex(name=name, service_ms=1, slot_group=name) for name in ("a", "b"))
    narrow = Job("two", apart, (Edge(0, 1),))
    with pytest.raises(WorkloadError, match="1 slots; the job takes 2"):
        StreamSimulator([narrow], [trace], Deployment(slots=1), seeds=[1])
