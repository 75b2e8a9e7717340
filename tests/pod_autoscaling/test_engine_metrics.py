"""What the monitoring says, by hand: windows, lags, gaps and noise; and what chance draws."""

from __future__ import annotations

import numpy as np
import pytest
from tests.pod_autoscaling.test_engine import arrivals, constant, exact, latencies

from trimtab.core.randomness import hash_counters
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.problem import allowed
from trimtab.pod_autoscaling.simulator import Simulator
from trimtab.pod_autoscaling.simulator.draws import draw_exponential, draw_gamma, draw_lognormal

pytestmark = pytest.mark.pods


def test_percentiles_are_within_half_a_percent_of_the_true_ones_and_late_is_counted_exactly():
    application = constant(20, slo_ms=60)
    made = Simulator([application], exact(interval_s=60), outcomes=5000)
    made.reset([np.full(60, 40.0)], [1])
    made.step(np.array([[1, 1, 512.0]]))
    ends = made.state.outcomes[0, : int(made.truth.arrived[0])]
    spans = np.sort(latencies(made, 40.0)[ends[:, 1] == 1])
    rank = int(np.ceil(0.99 * len(spans))) - 1
    assert made.truth.latency_p99_s[0] == pytest.approx(spans[rank], rel=0.0051)
    assert made.truth.latency_p50_s[0] == pytest.approx(spans[(len(spans) + 1) // 2 - 1], rel=0.0051)
    assert made.truth.late[0] == (spans > 0.06).sum() > 0
    assert made.truth.latency_s[0] == pytest.approx(spans.mean())


def test_samples_are_those_of_the_interval_read_a_little_early():
    # Read 4 s before the end: the first sample covers 6 s, later ones the 10 s up to 4 s before a decision.
    made = Simulator([constant(10)], exact(report_lag_s=4.0))
    rates = np.r_[np.full(6, 30.0), np.zeros(4), np.full(6, 50.0), np.zeros(4)]
    snapshot = made.reset([rates], [1])
    assert not snapshot.samples.present.any()
    snapshot, _, _ = made.step(snapshot.size)
    first = made.truth.arrived[0]
    assert snapshot.samples.rate[0, -1] == pytest.approx(first / 6)
    snapshot, _, _ = made.step(snapshot.size)
    assert snapshot.samples.rate[0, -2:] == pytest.approx([first / 6, made.truth.arrived[0] / 10])
    assert snapshot.samples.present[0].tolist() == [False, False, True, True]
    assert snapshot.samples.replicas[0, -1] == 1 and snapshot.samples.ready[0, -1] == 1
    assert snapshot.samples.cpu_limit[0, -1] == 1 and snapshot.samples.memory_limit[0, -1] == 512
    assert snapshot.samples.memory[0, -1] >= 61


def test_a_snapshot_stays_true_for_one_step():
    made = Simulator([constant(10)], exact())
    before = made.reset([np.full(100, 30.0)], [1])
    for _ in range(5):
        after, _, _ = made.step(before.size)
        kept = after.samples.rate.copy(), after.pods.cpu.copy()
        made.step(after.size)
        np.testing.assert_array_equal(kept[0], after.samples.rate)
        np.testing.assert_array_equal(kept[1], after.pods.cpu)
        before = after


def test_while_monitoring_does_not_answer_numbers_repeat_and_nothing_shrinks():
    made = Simulator([constant(10)] * 40, exact(missing=0.5, start_replicas=3))
    snapshot = made.reset([np.full(60, 30.0)] * 40, range(40))
    for _ in range(4):
        before = snapshot
        snapshot, _, _ = made.step(snapshot.size)
    gap = ~snapshot.samples.complete[:, -1]
    assert 5 < gap.sum() < 35
    for name in ("rate", "latency_p99_s", "cpu"):
        now, then = getattr(snapshot.samples, name)[:, -1], getattr(before.samples, name)[:, -1]
        assert (now[gap] == then[gap]).all() and (now[~gap] != then[~gap]).all()
    wanted = np.tile([1, 0.5, 64.0], (40, 1))
    assert (allowed(snapshot, wanted)[gap] == snapshot.size[gap]).all()
    after, _, _ = made.step(wanted)
    assert (after.size[gap] == [3, 1, 512]).all() and (after.size[~gap] == [1, 0.5, 64]).all()


def test_noise_is_relative_and_as_large_as_said():
    made = Simulator(
        [constant(10)] * 400, Deployment(interval_s=10, missing=0, metric_noise=0.05, report_lag_s=0)
    )
    snapshot = made.reset([np.full(10, 30.0)] * 400, range(400))
    snapshot, _, _ = made.step(snapshot.size)
    error = snapshot.samples.rate[:, -1] / (made.truth.arrived / 10) - 1
    assert abs(error.mean()) < 0.01 and error.std() == pytest.approx(0.05, rel=0.15)
    slow = snapshot.samples.latency_s[:, -1] / made.truth.latency_s
    np.testing.assert_allclose(snapshot.samples.latency_p99_s[:, -1] / made.truth.latency_p99_s, slow)
    np.testing.assert_allclose(snapshot.samples.late[:, -1] * made.truth.finished, made.truth.late)


def test_pods_are_measured_after_a_whole_window_and_with_a_lag():
    # Looks every 4 s, told 3 s later: at 6 s nobody knows anything, at 7 s the mean of the first 4 s.
    made = Simulator([constant(100)], exact(metric_window_s=4.0, metric_lag_s=3.0, interval_s=1))
    snapshot = made.reset([np.full(30, 5.0)], [1])
    seen = []
    used_s = []
    for _ in range(16):
        snapshot, _, _ = made.step(snapshot.size)
        used_s.append(float(made.truth.cores_used[0]))
        seen.append((bool(snapshot.pods.measured[0, 0]), float(snapshot.pods.cpu[0, 0])))
    assert [one for one, _ in seen] == [False] * 6 + [True] * 10
    assert seen[6][1] == pytest.approx(np.mean(used_s[:4]))
    assert seen[9][1] == seen[6][1] and seen[10][1] == pytest.approx(np.mean(used_s[4:8]))
    assert (snapshot.pods.measured_s[0, 0], snapshot.metric_window_s) == (12.0, 4.0)
    # Windows are of whole seconds.
    assert Simulator([constant(100)], exact(metric_window_s=2.5)).snapshot().metric_window_s == 3.0
    assert snapshot.pods.memory[0, 0] >= 60


def test_a_new_container_is_measured_only_after_it_has_run_through_a_window():
    deployment = exact(metric_window_s=4.0, metric_lag_s=0.0, interval_s=1, schedule_s=0.0)
    made = Simulator([constant(10, start_s=3.0)], deployment)
    snapshot = made.reset([np.full(30, 5.0)], [1])
    first = None
    for second in range(1, 20):
        snapshot, _, _ = made.step(np.array([[2, 1, 512.0]]))
        if first is None and snapshot.pods.measured[0, 1]:
            first = second
    # It starts at 0, before the look at 4 s: that is the first of two.
    assert first == 8


def test_times_are_times_of_day():
    class Evening:
        rates, step_s, start_s = np.full(20, 5.0), 1.0, 64_800.0

    made = Simulator([constant(10)], exact())
    made.reset([Evening()], [1])
    snapshot, _, _ = made.step(np.array([[2, 1, 512.0]]))
    assert snapshot.now_s[0] == 64_810
    assert snapshot.pods.started_s[0, :2].tolist() == [64_200, 64_801]


def test_the_age_of_the_oldest_counts_while_nobody_is_answered():
    # 30 s of work each: after 10 s nobody has been answered, and the first came a fraction of a second in.
    made = Simulator([constant(30_000, slo_ms=40_000)], exact())
    made.reset([np.r_[20.0, np.zeros(19)]], [1])
    snapshot, _, _ = made.step(np.array([[1, 1, 512.0]]))
    age_s = 10 - arrivals(20.0, 1)[0]
    assert made.truth.finished[0] == 0 and np.isnan(made.truth.latency_s[0])
    assert made.truth.tail_s[0] == pytest.approx(age_s)
    assert snapshot.samples.latency_p99_s[0, -1] == pytest.approx(age_s)


def test_draws_have_the_moments_they_should_have():
    words = hash_counters(7, np.arange(20_000))
    drawn = np.array([draw_exponential(word) for word in words])
    assert drawn.mean() == pytest.approx(1, rel=0.03) and drawn.var() == pytest.approx(1, rel=0.08)
    for shape in (0.3, 1.0, 4.0, 50.0):
        with np.errstate(over="ignore"):
            drawn = np.array([draw_gamma(word, shape) for word in words])
        assert drawn.mean() == pytest.approx(shape, rel=0.05) and drawn.var() == pytest.approx(
            shape, rel=0.08
        )
    drawn = np.log([draw_lognormal(word, 3.0, 0.5) for word in words])
    assert drawn.mean() == pytest.approx(np.log(3.0), rel=0.02) and drawn.std() == pytest.approx(
        0.5, rel=0.03
    )
