"""Small cases of the engine with the numbers worked out by hand."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from trimtab.core.errors import ActionError, SettingsError, WorkloadError
from trimtab.core.randomness import exponential
from trimtab.core.settings import load_settings
from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment, Objective
from trimtab.pod_autoscaling.drift import Change, Drift
from trimtab.pod_autoscaling.problem import Snapshot
from trimtab.pod_autoscaling.simulator import Simulator, simulate, simulate_batch
from trimtab.pod_autoscaling.simulator.draws import ARRIVAL
from trimtab.pod_autoscaling.simulator.simulator import compile_engine
from trimtab.pod_autoscaling.simulator.stepping import is_compiled

pytestmark = pytest.mark.pods

ANSWERED, REFUSED, UNREACHED, GIVEN_UP, LOST = range(1, 6)


def constant(cpu_ms: float, io_ms: float = 0.0, **rest: object) -> Application:
    """Every request is the same."""
    segment = Segment(cpu_ms=cpu_ms, cpu_variation=0, io_ms=io_ms, io_variation=0)
    return Application.model_validate({"segments": (segment,), "start_spread": 0.0} | rest)


def exact(**settings: object) -> Deployment:
    """Metrics without error or gaps; decisions every 10 s, and one pod."""
    usual: dict[str, object] = {"interval_s": 10, "history": 4, "start_replicas": 1, "missing": 0.0}
    return Deployment.model_validate(usual | {"metric_noise": 0.0, "report_lag_s": 0.0} | settings)


def played(
    application: Application,
    deployment: Deployment,
    rates: np.ndarray,
    sizes: list[list[float]],
    **reset: object,
) -> Simulator:
    made = Simulator([application], deployment, outcomes=10_000)
    made.reset([rates], [1], **reset)  # pyright: ignore[reportArgumentType]
    for size in sizes:
        made.step(np.array([size], float))
    return made


def arrivals(rate: float, count: int, seed: int = 1) -> np.ndarray:
    """When requests come at a constant rate: the same formula, all at once."""
    return np.cumsum(exponential(seed, int(ARRIVAL), np.arange(count))) / rate


def latencies(made: Simulator, rate: float) -> np.ndarray:
    ends = made.state.outcomes[0, : int(made.state.run[0, 0]["arrived"])]
    return ends[:, 0] - arrivals(rate, len(ends))


def pod(made: Simulator, number: int) -> np.void:
    pods = made.state.pods[0]
    return pods[(pods["number"] == number) & (pods["state"] > 0)][0]


def test_a_lone_request_takes_its_work_over_its_cores_and_its_wait():
    # One request every 20 s: 0.1 core-s at 0.5 cores, then 30 ms outside. Seed 1 has two in 20 s.
    made = played(constant(100, 30), exact(start_cpu=0.5, interval_s=20), np.full(20, 0.05), [[1, 0.5, 512]])
    assert latencies(made, 0.05).tolist() == pytest.approx([0.23, 0.23])


@pytest.mark.parametrize(
    ("cores", "each", "expected_s"), [(2.0, 1.0, 0.1), (2.0, 2.0, 0.05), (0.25, 1.0, 0.4)]
)
def test_no_request_uses_more_cores_than_it_can(cores, each, expected_s):
    application = constant(100, cores_per_request=each, slo_ms=1000)
    made = played(application, exact(start_cpu=cores), np.full(10, 1.0), [[1, cores, 512]])
    spans = latencies(made, 1.0)
    assert spans.min() == pytest.approx(expected_s)


def test_requests_share_a_pod_evenly():
    # Two requests of 0.1 s of one core come a gap g < 0.1 s apart and no third one soon. The first runs alone
    # for g, then both at half speed: it is through 0.2 - g after it came, the second another g later.
    seed = next(
        n
        for n in range(10_000)
        if np.diff(arrivals(1.0, 3, n))[0] < 0.1 < np.diff(arrivals(1.0, 3, n))[1] - 0.1
    )
    first_s, second_s, _ = arrivals(1.0, 3, seed)
    made = Simulator([constant(100)], exact(interval_s=20), outcomes=10)
    made.reset([np.ones(20)], [seed])
    made.step(np.array([[1, 1, 512.0]]))
    ends = made.state.outcomes[0, :2, 0]
    gap_s = second_s - first_s
    assert ends == pytest.approx([first_s + 0.2 - gap_s, first_s + 0.2])


def test_arrivals_are_where_the_exponentials_say():
    rates = np.full(10, 50.0)
    made = played(constant(1), exact(), rates, [[1, 1, 512]])
    spans = latencies(made, 50.0)
    assert spans.min() == pytest.approx(0.001)
    assert made.truth.arrived[0] == (arrivals(50.0, 1000) < 10).sum()


def test_a_quota_lets_short_requests_run_and_holds_long_ones_back():
    # L = 0.5, period 100 ms: 50 ms of CPU per period. A request of 190 ms that finds the period's quota whole
    # and comes x before its end runs 50 ms (or x, if less), and 50 ms in each period that follows.
    application = constant(190, workers=1, slo_ms=2000)
    made = played(application, exact(start_cpu=0.5, sharing="cfs"), np.full(10, 0.4), [[1, 0.5, 512]])
    starts = arrivals(0.4, int(made.state.run[0, 0]["arrived"]))
    spans = latencies(made, 0.4)
    alone = np.flatnonzero(np.diff(starts, prepend=-9) > 1.0)
    assert len(alone) > 0
    for number in alone:
        left_s = 0.1 - starts[number] % 0.1
        rest_s = 0.19 - min(left_s, 0.05)
        periods = np.ceil(rest_s / 0.05)
        assert spans[number] == pytest.approx(left_s + (periods - 1) * 0.1 + rest_s - (periods - 1) * 0.05)
    assert 0 < made.truth.throttled[0] <= 1
    short = played(
        constant(40, slo_ms=2000), exact(start_cpu=0.5, sharing="cfs"), np.full(10, 0.4), [[1, 0.5, 512]]
    )
    assert np.median(latencies(short, 0.4)) == pytest.approx(0.04)
    assert short.truth.throttled[0] == 0


def test_queues_are_first_come_first_served_and_refuse_what_they_cannot_hold():
    # One worker, one place in the queue, 1 s of work: of five in the first second three are refused.
    made = played(constant(1000, workers=1, queue=1), exact(), np.r_[5.0, np.zeros(9)], [[1, 1, 512]])
    how = made.state.outcomes[0, :, 1]
    count = int(made.truth.arrived[0])
    assert (how[:count] == ANSWERED).sum() + (how[:count] == REFUSED).sum() == count > 3
    answered = made.state.outcomes[0, :count][how[:count] == ANSWERED, 0]
    assert np.diff(answered).min() == pytest.approx(1.0)
    assert how[0] == how[1] == ANSWERED and how[2] == REFUSED


def test_callers_give_up_and_the_server_goes_on_unless_the_request_is_queued():
    # One worker, 1 s of work, patience 0.8 s: the first is given up at 0.8 s and still takes its second of
    # CPU; the second, queued, gives up without any.
    application = constant(1000, workers=1, queue=10, timeout_s=0.8)
    made = played(application, exact(), np.r_[6.0, np.zeros(9)], [[1, 1, 512]])
    count = int(made.truth.arrived[0])
    assert (made.state.outcomes[0, :count, 1] == GIVEN_UP).all()
    spans = made.state.outcomes[0, :count, 0] - arrivals(6.0, count)
    np.testing.assert_allclose(spans, 0.8)
    assert made.truth.failed[0] == made.truth.late[0] == count
    # Whoever came within a second after the first was queued; a later one may have found the worker free.
    assert made.truth.cores_used[0] * 10 == pytest.approx(round(made.truth.cores_used[0] * 10))
    assert made.truth.cores_used[0] * 10 < count


def test_without_a_ready_pod_requests_fail_at_once():
    # Idle memory is more than the limit: every container is killed when it would become ready.
    application = constant(10, memory_mib=100)
    made = played(application, exact(start_memory_mib=64), np.full(10, 20.0), [[1, 1, 64]])
    assert (made.state.outcomes[0, : int(made.truth.arrived[0]), 1] == UNREACHED).all()
    assert made.truth.latency_s[0] != made.truth.latency_s[0]
    assert made.truth.kills[0] > 0


def test_kills_wait_longer_each_time():
    # Killed at 0; then 2 s, start 3 s, killed at 5; 2 + 10 + 3: at 20; 2 + 20 + 3: at 45; 2 + 25 + 3 each.
    application = constant(10, memory_mib=100, start_s=3.0, start_cpu_s=0.0)
    deployment = exact(start_memory_mib=64, longest_backoff_s=25.0, interval_s=1)
    made = Simulator([application], deployment)
    made.reset([np.zeros(120)], [1])
    killed = set()
    for _ in range(120):
        snapshot, _, _ = made.step(np.array([[1, 1, 64.0]]))
        killed.add(float(snapshot.pods.killed_s[0, 0]))
    assert sorted(killed) == [0.0, 5.0, 20.0, 45.0, 75.0, 105.0]
    assert snapshot.pods.killed_at[0, 0] == 64


def test_memory_kills_the_pod_with_everything_inside():
    # 60 MiB idle and 30 for each request in 128 MiB: the third inside is one too many, and all are lost.
    application = constant(5000, memory_mib=60, memory_per_request_mib=30)
    made = played(application, exact(start_memory_mib=128), np.r_[3.5, np.zeros(9)], [[1, 1, 128]])
    count = int(made.truth.arrived[0])
    assert count >= 3
    assert made.state.outcomes[0, :3, 1].tolist() == [LOST] * 3
    third_s = arrivals(3.5, 3)[2]
    np.testing.assert_allclose(made.state.outcomes[0, :3, 0], third_s)
    assert (made.state.outcomes[0, 3:count, 1] == UNREACHED).all()
    assert pod(made, 0)["killed_at"] == 128


def test_leaks_are_noticed_at_the_next_whole_second():
    # 60 + 1 MiB a second in 64 MiB: above after 4 s, and seen at 5 s.
    application = constant(10, memory_mib=60, leak_mib_per_hour=3600.0)
    made = played(application, exact(start_memory_mib=64), np.zeros(10), [[1, 1, 64]])
    assert pod(made, 0)["killed_s"] == 5.0


def test_a_cache_is_gathered_request_by_request():
    # 63 % after as many requests as it is said to take.
    application = constant(1, memory_mib=100, cache_mib=200, cache_requests=500.0, memory_per_request_mib=0)
    made = played(application, exact(), np.full(10, 50.0), [[1, 1, 512]])
    served = made.truth.finished[0]
    assert pod(made, 0)["cache_mib"] == pytest.approx(200 * (1 - np.exp(-served / 500)))


@pytest.mark.parametrize(("cores", "ready_s"), [(1.0, 8.0), (0.1, 13.0)])
def test_a_new_pod_is_scheduled_pulled_and_started(cores, ready_s):
    # 1 s scheduling, 2 s image, 5 s start; 1 CPU second at 0.1 cores takes 10 s.
    application = constant(10, start_s=5.0, start_cpu_s=1.0)
    deployment = exact(schedule_s=1.0, pull_s=2.0, start_cpu=cores, interval_s=1)
    made = Simulator([application], deployment)
    made.reset([np.zeros(30)], [1])
    seen: list[Snapshot] = [made.step(np.array([[2, cores, 512.0]]))[0] for _ in range(20)]
    assert seen[-1].pods.ready_changed_s[0, 1] == ready_s
    assert seen[-1].pods.started_s[0, 1] == 1.0
    pending = [bool(one.pods.pending[0, 1]) for one in seen[:6]]
    assert pending == [True, True, True, False, False, False]
    # It holds room from its placing on, and burns its CPU seconds while it starts.
    assert made.state.totals[0, 8] == pytest.approx(20 * cores + 19 * cores)
    assert pod(made, 1)["cpu_s"] == pytest.approx(1.0)
    assert np.isnan(seen[0].pods.started_s[0, 1]) and np.isnan(seen[5].pods.ready_changed_s[0, 1])


def test_the_pod_that_goes_first_is_not_placed_or_not_ready_or_the_youngest():
    deployment = exact(start_replicas=2, nodes=1, node_cpu=3.0, schedule_s=0.0, interval_s=1)
    application = constant(10, start_s=50.0)
    made = Simulator([application], deployment)
    made.reset([np.zeros(30)], [1])
    # Two ready, one starts, one finds no room: pods 0 and 1, 2, 3.
    made.step(np.array([[4, 1, 512.0]]))
    assert made.snapshot().pods.pending[0, :4].tolist() == [False, False, False, True]
    numbers = []
    for replicas in (3, 2, 1):
        before = set(made.state.pods["number"][0][made.snapshot().pods.exists[0]].tolist())
        made.step(np.array([[replicas, 1, 512.0]]))
        after = set(made.state.pods["number"][0][made.snapshot().pods.exists[0]].tolist())
        numbers += list(before - after)
    assert numbers == [3, 2, 1]


def test_a_pod_on_its_way_out_finishes_its_requests_for_a_while():
    # Work of 4 s. With 30 s to drain it is done; with 1 s it is lost then.
    application = constant(4000, workers=500)
    for drain_s, how in ((30.0, ANSWERED), (1.0, LOST)):
        deployment = exact(
            start_replicas=2, drain_s=drain_s, start_cpu=4.0, balancing="round-robin", interval_s=1
        )
        made = Simulator([application], deployment, outcomes=100)
        made.reset([np.r_[2.0, np.zeros(30)]], [4])
        made.step(np.array([[2, 4, 512.0]]))
        count = int(made.truth.arrived[0])
        assert count >= 2  # in turn: the second one is in pod 1
        made.step(np.array([[1, 4, 512.0]]))
        # What is due at the very end of an interval happens after the look.
        assert made.snapshot().pods.ending[0].tolist()[:2] == [False, True]
        for _ in range(10):
            made.step(np.array([[1, 4, 512.0]]))
        assert made.state.outcomes[0, 1, 1] == how
        assert made.snapshot().pods.exists[0].sum() == 1
        if how == LOST:
            assert made.state.outcomes[0, 1, 0] == 2.0


def test_nodes_are_filled_evenly_and_pods_wait_for_room():
    deployment = exact(start_replicas=4, nodes=2, node_cpu=3.0, schedule_s=0.0, interval_s=1)
    made = Simulator([constant(10, start_s=1.0, start_cpu_s=0)], deployment)
    made.reset([np.zeros(30)], [1])
    assert made.state.pods["node"][0, :4].tolist() == [0, 1, 0, 1]
    for _ in range(3):
        snapshot, _, _ = made.step(np.array([[8, 1, 512.0]]))
    assert snapshot.ready[0] == 6 and snapshot.pods.pending[0].sum() == 2
    made.step(np.array([[7, 0.5, 512.0]]))
    for _ in range(8):
        snapshot, _, _ = made.step(np.array([[7, 0.5, 512.0]]))
    assert snapshot.ready[0] == 7 and not snapshot.resizing[0]


def test_a_resize_in_place_takes_from_half_to_double_its_time():
    deployment = exact(start_replicas=8, resize_s=2.0, interval_s=5)
    made = Simulator([constant(10)], deployment)
    made.reset([np.zeros(30)], [1])
    snapshot, _, _ = made.step(np.array([[8, 2, 512.0]]))
    assert (snapshot.pods.cpu_request[0, :8] == 2).all() and not snapshot.resizing[0]
    # Ever held: 8 cores before, 16 after; 1 to 4 s of the first 5 at the old size.
    assert 16 - 8 * 4 / 5 < made.truth.cores_held[0] < 16 - 8 * 1 / 5


def test_memory_is_not_taken_away_below_what_is_used():
    # 100 MiB idle + 50 for each of two requests of 4 s that wait outside: 96 MiB must wait, CPU need not.
    application = constant(1, 4000, memory_mib=100, memory_per_request_mib=50)
    deployment = exact(start_memory_mib=512, resize_s=0.0, interval_s=1)
    made = Simulator([application], deployment)
    made.reset([np.r_[3.0, np.zeros(30)]], [1])
    made.step(np.array([[1, 1, 512.0]]))
    assert made.truth.arrived[0] > 0
    snapshot, _, _ = made.step(np.array([[1, 2, 112.0]]))
    assert snapshot.resizing[0] and pod(made, 0)["cpu"] == 2 and pod(made, 0)["memory"] == 512
    for _ in range(8):
        snapshot, _, _ = made.step(np.array([[1, 2, 112.0]]))
    assert not snapshot.resizing[0] and pod(made, 0)["memory"] == 112
    assert made.state.totals[0, 14] == 0


def test_a_size_that_no_node_can_hold_is_infeasible_and_a_full_node_makes_it_wait():
    deployment = exact(start_replicas=2, nodes=1, node_cpu=3.0, most_cpu=8, resize_s=0.0, interval_s=1)
    made = Simulator([constant(10)], deployment)
    made.reset([np.zeros(30)], [1])
    snapshot, _, _ = made.step(np.array([[2, 4, 512.0]]))
    assert snapshot.infeasible[0] and snapshot.resizing[0] and made.truth.cores_held[0] == 2
    # 2 x 2 cores do not fit on 3 either, but 1 x 2 would: one pod gets it, the other waits.
    snapshot, _, _ = made.step(np.array([[2, 2, 512.0]]))
    assert not snapshot.infeasible[0] and snapshot.resizing[0] and made.truth.cores_held[0] == 3
    snapshot, _, _ = made.step(np.array([[1, 2, 512.0]]))
    for _ in range(2):
        snapshot, _, _ = made.step(np.array([[1, 2, 512.0]]))
    assert not snapshot.resizing[0] and made.truth.cores_held[0] == 2


def test_restarts_replace_one_pod_at_a_time():
    application = constant(10, start_s=2.0, start_cpu_s=0.0)
    deployment = exact(start_replicas=3, resize="restart", schedule_s=0.0, interval_s=1)
    made = Simulator([application], deployment)
    made.reset([np.full(30, 20.0)], [1])
    ready = []
    for _ in range(12):
        snapshot, _, _ = made.step(np.array([[3, 2, 512.0]]))
        ready.append(int(snapshot.ready[0]))
    assert min(ready) == 2 and ready[-1] == 3
    assert sorted(made.state.pods["number"][0][snapshot.pods.exists[0]].tolist()) == [3, 4, 5]
    # Three times two seconds of start, each noticed at a tick.
    assert ready.index(3) >= 5


def test_an_application_may_change_while_it_runs():
    drift = Drift(changes=(Change(at_s=5, cpu=3.0, io=0.0, memory=2.0),))
    made = played(constant(10, 100), exact(), np.full(10, 5.0), [[1, 1, 512]], drifts=[drift])
    starts, spans = arrivals(5.0, int(made.state.run[0, 0]["arrived"])), latencies(made, 5.0)
    before = spans[(starts < 4.8)]
    assert np.median(before) == pytest.approx(0.11)
    after = spans[(starts > 5) & (spans > 0)]
    assert np.median(after) == pytest.approx(0.03)
    assert made.state.run[0, 0]["memory_mib"] == 120


def test_refusals_name_the_culprit():
    made = Simulator([constant(10)], exact())
    with pytest.raises(WorkloadError, match=r"rate -1\.0 at step 1"):
        made.reset([np.array([1.0, -1.0])], [1])
    with pytest.raises(WorkloadError, match="covers 3 s, less than one interval of 10 s"):
        made.reset([np.ones(3)], [1])
    with pytest.raises(WorkloadError, match="2 seeds for 1 environments"):
        made.reset([np.ones(30)], [1, 2])
    with pytest.raises(WorkloadError, match="no application"):
        Simulator([], exact())
    with pytest.raises(WorkloadError, match=r"rates of shape \(2, 2\)"):
        made.reset([np.ones((2, 2))], [1])
    made.reset([np.ones(30)], [1])
    with pytest.raises(ActionError, match="cpu = nan"):
        made.step(np.array([[1, np.nan, 512]]))
    with pytest.raises(ActionError, match="recording=True"):
        made.episodes("x")
    with pytest.raises(ActionError, match="no interval"):
        Simulator([constant(10)], exact(), recording=True).episodes("x")
    with pytest.raises(ActionError, match="another deployment"):
        made.load(np.array([0]), Simulator([constant(10)], exact(interval_s=3)), np.array([0]))
    with pytest.raises(ActionError, match="2 rows for 1"):
        made.load(np.array([0, 1]), made, np.array([0]))
    with pytest.raises(SettingsError, match="put them in order"):
        load_settings(Drift, None, {"changes": [{"at_s": 5}, {"at_s": 5}]})


class Static:
    name = "static"

    def begin(self, services):
        return self

    def decide(self, snapshot):
        return snapshot.size


class Told(Static):
    """Notes what it is told."""

    def knowing(self, applications, traces, deployment):
        self.told = (applications, traces, deployment)
        return Static()


def test_episodes_have_an_entry_for_every_interval_of_their_own_trace():
    policy = Told()
    traces = [np.full(95, 20.0), np.full(40, 5.0)]
    long, short = simulate_batch(policy, [constant(10)] * 2, traces, exact(), seeds=[1, 2], threads=2)
    assert len(long.arrived) == 9 and len(short.arrived) == 4
    assert policy.told[0] == [constant(10)] * 2 and policy.told[1][0].rates is traces[0]
    alone = simulate(constant(10), traces[1], Static(), exact(), seed=2)
    np.testing.assert_array_equal(alone.latency_p99_s, short.latency_p99_s)
    np.testing.assert_array_equal(alone.rewards, short.rewards)
    assert alone.metrics()["core_hours"] == pytest.approx(24.0)


def test_services_may_begin_anew_one_by_one():
    made = Simulator([constant(10)] * 3, exact(), recording=True)
    made.reset([np.full(30, 20.0)] * 3, [1, 2, 3])
    for _ in range(3):
        _, _, ended = made.step(made.snapshot().size)
    assert ended.all()
    still = made.state.totals.copy()
    _, rewards, _ = made.step(made.snapshot().size)
    assert (rewards == 0).all() and (made.state.totals == still).all()
    other = constant(20, name="other")
    snapshot = made.reset_some(
        np.array([False, True, False]),
        [np.full(30, 20.0)],
        [9],
        applications=[other],
        sizes=np.array([[2, 1, 256.0]]),
    )
    assert snapshot.size[1].tolist() == [2, 1, 256] and snapshot.services.slo_s[1] == other.slo_s
    assert not snapshot.samples.present[1].any() and snapshot.samples.present[0].any()
    _, _, ended = made.step(made.snapshot().size)
    assert ended.tolist() == [True, False, True]
    episodes = made.episodes("static")
    assert [len(one.arrived) for one in episodes] == [3, 1, 3] and episodes[1].application == "other"


def test_traces_of_any_step_are_lived_through():
    class Coarse:
        rates, step_s, start_s = np.array([10.0, 0.0, 30.0]), 20.0, 3600.0

    class Odd:
        rates, step_s, start_s = np.array([10.0, 0.0, 30.0]), 2.5, 0.0

    made = Simulator([constant(1)] * 2, exact(interval_s=5))
    made.reset([Coarse(), Odd()], [1, 1])
    assert made.snapshot().now_s.tolist() == [3600.0, 0.0]
    # 2.5 s at 10, 2.5 at 0, 2.5 at 30 are seconds at 10, 10, 5, 0, 0, 30, 30; half a second is cut off.
    assert made.state.rates[1, :7].tolist() == [10, 10, 5, 0, 0, 30, 30]
    arrived = []
    for _ in range(12):
        _, _, ended = made.step(made.snapshot().size)
        arrived.append(made.truth.arrived[0])
    assert ended.all() and sum(arrived[4:8]) == 0 and sum(arrived[8:]) > sum(arrived[:4]) > 0


def test_rewards_are_those_of_the_objective_and_add_up_to_the_cost():
    objective = Objective(reward="lagrangian")
    deployment = exact(objective=objective, start_cpu=0.3, start_memory_mib=256)
    episode = simulate(constant(20), np.full(200, 16.0), Static(), deployment, seed=3)
    found = episode.metrics()
    assert found["late_share"] > objective.budget
    # 16 x 0.02 = 0.32 cores are needed, and that is what rewards are divided by.
    assert episode.rewards.mean() * 0.32 == pytest.approx(-found["cost"])
    utilisation = (episode.cores_used / 0.3 + episode.memory_used / 256) / 2
    answered = episode.failed == 0
    preserved = np.minimum(episode.slo_s / episode.latency_p99_s, 1)
    expected = 0.3 * utilisation + 0.7 * preserved
    np.testing.assert_allclose(episode.rewards_aware[answered], expected[answered], rtol=1e-9)


def test_the_engine_says_whether_it_is_compiled():
    compile_engine()
    assert is_compiled() is not bool(numba.config.DISABLE_JIT)


@pytest.mark.parametrize(
    ("deployment", "said"),
    [
        (Deployment(most_memory_mib=1024), "needs 1030 MiB, but the deployment has most_memory_mib = 1024"),
        (Deployment(nodes=3, node_memory_mib=1029), "needs 1030 MiB, but the deployment has node_memory_mib"),
    ],
)
def test_a_pod_that_cannot_hold_one_request_in_any_size_is_refused(deployment: Deployment, said: str) -> None:
    simulator = Simulator([Application(memory_mib=1000, memory_per_request_mib=30)], deployment)
    with pytest.raises(WorkloadError, match=said):
        simulator.reset([np.ones(60)], [0])


def test_rates_in_another_unit_are_refused_before_they_are_played_one_by_one() -> None:
    """20 ms each and 20 pods of 4 cores: 400,000 requests a second are 100 times what can be served."""
    simulator = Simulator([Application()], Deployment())
    with pytest.raises(
        WorkloadError, match="400,001 requests per second are work for 8,000 cores, 80 are the"
    ):
        simulator.reset([np.full(60, 400_001.0)], [0])
    simulator.reset([np.full(60, 400_000.0)], [0])
