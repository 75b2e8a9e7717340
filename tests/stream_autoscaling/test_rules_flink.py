"""The Flink port as a whole: when it acts, on what, and what it remembers; by hand-computed numbers."""

from __future__ import annotations

import numpy as np
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of

from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot

AT_ONCE = "flink:down_interval_s=0"


def job(
    graph: Graph, rates: list[float], capacity: list[float], parallelism: list[int], **more: object
) -> Snapshot:
    """Steady metrics of a linear chain: `capacity` records/s of one subtask."""
    busy = np.array(rates) / (np.array(capacity) * parallelism)
    sent = [*rates[1:], 0.0]
    return snapshot_of(graph, parallelism=parallelism, records_in=rates, records_out=sent, busy=busy, **more)  # pyright: ignore


def decide(name: str, snapshot: Snapshot) -> Integers:
    return make_policy(name).begin(snapshot.graph).decide(snapshot)


def test_scaling_up_by_hand() -> None:
    graph = chain_graph(2, ratios=[2.0])
    # The second vertex has a true rate of 1900 and must process 1900: all there is, yet within its band. So
    # the source stays too, though it is not at its target.
    assert decide("flink", job(graph, [950.0, 1900.0], [500.0, 100.0], [2, 19])).tolist() == [[2, 19]]
    # A little more and it is out of its band: now both are set. Source: 951 / 6 + 951 / 0.7 = 1517.07 -> 1517
    # against 1000: 1.517 * 2 -> 4. Second: 1902 / 6 + 1902 / 0.7 = 3034.1 -> 3034 against 1900: 30.3 -> 31.
    assert decide("flink", job(graph, [951.0, 1902.0], [500.0, 100.0], [2, 19])).tolist() == [[4, 31]]


def test_the_restart_counts_for_the_target_and_for_scaling_down_only() -> None:
    graph = chain_graph(1)
    # 700/s at a true rate of 1000 is 70 % busy. The target alone calls for 1000; with a restart of 300 s in
    # 1800 s for 700 / 6 + 1000 = 1116.67 -> 1117: 12 subtasks, but the band is 40 % to 100 %: it stays.
    snapshot = job(graph, [700.0], [100.0], [10])
    assert decide("flink", snapshot).tolist() == [[10]]
    assert decide("flink:boundary=0.0", snapshot).tolist() == [[10]]  # 1000 < 1000 is false
    assert decide("flink:boundary=0.0", job(graph, [701.0], [100.0], [10])).tolist() == [[12]]
    # Down: out of the band above 701 / 6 + 701 / 0.4 = 1869.3: 18 subtasks stay, 19 go down to
    # ceil(1118.26 -> 1118 / 1900 * 19) = 12.
    assert decide(AT_ONCE, job(graph, [701.0], [100.0], [18])).tolist() == [[18]]
    assert decide(AT_ONCE, job(graph, [701.0], [100.0], [19])).tolist() == [[12]]
    assert decide(AT_ONCE + ",restart_s=0", job(graph, [701.0], [100.0], [18])).tolist() == [[11]]


def test_at_most_60_percent_are_taken_away_at_once() -> None:
    graph = chain_graph(1)
    # 10/s need ceil(16 / 1000 * 100) = 2 of 100 subtasks; 40 is as far as it goes.
    snapshot = job(graph, [10.0], [10.0], [100])
    assert decide(AT_ONCE, snapshot).tolist() == [[40]]
    assert decide(AT_ONCE + ",down_factor=1", snapshot).tolist() == [[2]]


def test_an_idle_job_shrinks_as_fast_as_it_may() -> None:
    graph = chain_graph(2)
    idle = snapshot_of(graph, parallelism=10)
    # Nothing comes in: the true rate is infinite, which is out of any band: ceil(0.4 * 10) = 4.
    assert decide(AT_ONCE, idle).tolist() == [[4, 4]]


def test_a_growing_backlog_is_part_of_the_target() -> None:
    graph = chain_graph(1)
    pending = 60.0 * 50.0 * np.arange(30)[None, :, None] + 3000.0
    snapshot = job(graph, [100.0], [10.0], [10], pending=pending)
    # 15 intervals: pending grows by 50/s, so 150/s arrive. 90,000 wait: more than 300 s of 100/s.
    # Observed while catching up: 100/s as by busy time. The target: 90,000 / 1800 = 50; 150 / 6 = 25;
    # 150 / 0.7 = 214.29: 289.29 -> 289. 289 / 100 * 10 -> 29.
    assert decide("flink", snapshot).tolist() == [[29]]
    # Without catching up: 150 / 0.7 = 214.29 -> 214: 22.
    assert decide("flink:catch_up_s=0", snapshot).tolist() == [[22]]


def test_a_join_catches_up_with_what_waits_before_one_of_its_sources() -> None:
    graph = chain_graph(3, edges={(0, 2): 2.0, (1, 2): 1.0})
    pending = np.zeros((1, 30, 3))
    steady = {
        "parallelism": [1, 2, 3],
        "records_in": [50.0, 150.0, 250.0],
        "records_out": [100.0, 150.0, 0.0],
        "busy": [0.5, 0.75, 250 / 300],
    }
    # 9,000 wait: 5/s at the source, 10/s at the join; 10 + 250 = 260 is below its true rate of 300.
    pending[..., 0] = 9_000.0
    assert decide("flink", snapshot_of(graph, pending=pending, **steady)).tolist() == [[1, 2, 3]]
    # 90,000 wait: 50/s at the source, and 100 + 250 = 350 is more than the join can. Then all are set:
    # 50 + 50 / 6 + 50 / 0.7 = 129.8 -> 130 / 100; 150 / 6 + 150 / 0.7 = 239.3 -> 239 / 200 * 2 = 2.39;
    # 100 + 250 / 6 + 250 / 0.7 = 498.8 -> 499 / 300 * 3 = 4.99.
    pending[..., 0] = 90_000.0
    assert decide("flink", snapshot_of(graph, pending=pending, **steady)).tolist() == [[2, 3, 5]]


def test_while_working_off_a_backlog_nothing_is_scaled_down() -> None:
    graph = chain_graph(1)
    # 350 s of input wait, and the busy time says 10 %: by itself far too many subtasks. (Backpressure 0.
    # The observed rate is 100/s, which is what counts: busy time promises 1000/s.)
    pending = np.full((1, 30, 1), 35_000.0)
    lagging = job(graph, [100.0], [100.0], [10], pending=pending)
    # Seen as catching up for one interval only: too few observations, so that busy time counts: 1000/s.
    assert decide(AT_ONCE, lagging).tolist() == [[10]]
    # 290 s of input: the band is 40 % to 100 % again. 29,000 / 1800 = 16.1; 100 / 6 = 16.7; 100 / 0.4 = 250:
    # 283 < 1000. Down to (16.1 + 16.7 + 142.9 -> 176) / 1000, but 40 % at least: 4.
    assert decide(AT_ONCE, job(graph, [100.0], [100.0], [10], pending=pending - 6000)).tolist() == [[4]]


def test_the_observed_rate_corrects_busy_time_from_the_second_observation_on() -> None:
    graph = chain_graph(1)
    decider = make_policy(AT_ONCE).begin(graph)
    pending = np.full((1, 30, 1), 6_000.0)
    snapshot = job(graph, [100.0], [100.0], [10], pending=pending)
    # 60 s of input wait, so the source catches up, at 100/s: that is all it can, whatever busy time says.
    # First: 1000/s by busy time; out of band: 6000 / 1800 = 3.3 + 16.7 + 142.9 -> 163, a factor of 0.4: 4.
    assert decider.decide(snapshot).tolist() == [[4]]
    # Then: 100/s observed twice; 6000 / 1800 + 100 / 1 = 103 is more: 163 / 100 * 10 = 16.3 -> 17.
    assert decider.decide(snapshot._replace(now_s=snapshot.now_s + 60)).tolist() == [[17]]
    # The lag is gone: what was observed goes on for a while.
    no_lag = job(graph, [100.0], [100.0], [10])
    assert decider.decide(no_lag._replace(now_s=snapshot.now_s + 120)).tolist() == [
        [10]
    ]  # 100 is not below 100
    # A restart begins a new history.
    restarted = no_lag._replace(since_rescale_s=np.array([0.0]))
    decider.decide(restarted)
    assert decider.decide(no_lag._replace(now_s=snapshot.now_s + 240)).tolist() == [[4]]


def test_it_waits_for_stabilisation_and_a_full_window() -> None:
    graph = chain_graph(1)
    pending = 60.0 * 800.0 * np.arange(40)[None, :, None]
    # 900/s arrive, 100/s are read at full load, 800 * 39 * 60 s = 1,872,000 wait:
    # 1040 + 150 + 1285.7 = 2475.7 -> 2476 against 100: 25 subtasks.
    for since_s, expected in ((1199.0, 1), (1200.0, 25)):
        snapshot = job(graph, [100.0], [100.0], [1], since_rescale_s=since_s, history=40, pending=pending)
        assert decide("flink", snapshot).tolist() == [[expected]]


def test_after_the_start_it_waits_as_well() -> None:
    graph = chain_graph(1)
    decider = make_policy("flink:highest=0.9").begin(graph)
    wanted = []
    for lived in range(1, 23):
        present = (np.arange(30) >= 30 - lived)[None]
        snapshot = job(graph, [100.0], [20.0], [5], present=present, now_s=60.0 * lived)
        wanted.append(int(decider.decide(snapshot)[0, 0]))
    # Five intervals of stabilisation, fifteen of the window. 100 / 0.9 = 111 is above the true rate of 100:
    # 100 / 6 + 100 / 0.7 = 159.5 -> 160: 8 subtasks.
    assert wanted == [5] * 19 + [8] * 3


def test_no_source_no_decision() -> None:
    graph = chain_graph(2)
    snapshot = job(graph, [90.0, 900.0], [100.0, 10.0], [1, 10])
    snapshot.samples.busy[:, :, 1] = 5.0
    assert decide("flink", snapshot)[0, 1] > 10
    snapshot.samples.complete[:, :, 0] = False
    assert decide("flink", snapshot).tolist() == [[1, 10]]


def test_scale_downs_wait_an_hour_and_scale_ups_do_not() -> None:
    graph = chain_graph(1)
    decider = make_policy("flink").begin(graph)
    wanted = []
    for minute in range(62):
        rate = 70.0 if minute == 30 else 40.0
        snapshot = job(graph, [rate], [10.0], [20], now_s=36_000.0 + 60 * minute)
        wanted.append(int(decider.decide(snapshot)[0, 0]))
    # 40/s: 40 / 6 + 40 / 0.7 = 63.8 -> 64 of 200, 8 subtasks at the limit of 40 %. 70/s: 111.7 -> 112: 12,
    # which is the largest of the hour. Once it is done the waiting begins anew.
    assert wanted == [20] * 60 + [12, 20]
    # 300 / 6 + 300 / 0.7 = 478.6 -> 479 of 200: 47.9.
    assert decider.decide(job(graph, [300.0], [10.0], [20], now_s=40_000.0)).tolist() == [[48]]


def test_any_rescale_ends_all_waiting() -> None:
    graph = chain_graph(2, edges={(0, 1): 1.0})
    decider = make_policy("flink:down_interval_s=120").begin(graph)

    def at(minute: int, first: float, second_busy: float) -> list[int]:
        snapshot = job(graph, [first, first], [10.0, 10.0], [20, 20], now_s=36_000.0 + 60 * minute)
        snapshot.samples.busy[:, :, 1] = second_busy
        return decider.decide(snapshot)[0].tolist()

    assert at(0, 40.0, 0.2) == [20, 20]
    # The second vertex is far too slow now: scaled up at once; that the first has waited is forgotten.
    up = at(1, 40.0, 2.0)
    assert up[0] == 20 and up[1] > 20
    assert at(2, 40.0, 0.2) == [20, 20]
    assert at(3, 40.0, 0.2) == [20, 20]
    assert at(4, 40.0, 0.2) == [8, 8]


def test_a_scale_up_in_vain_is_not_repeated_if_detection_is_on() -> None:
    graph = chain_graph(1)
    for name, expected in (("flink", 32), ("flink:effectiveness=1", 18)):
        decider = make_policy(name).begin(graph)
        # True rate 100, needed 110 / 6 + 110 / 0.7 = 175.5 -> 175: 18 subtasks.
        assert decider.decide(job(graph, [110.0], [10.0], [10])).tolist() == [[18]]
        # Later, with 18, the true rate is 101: 75 more were hoped for, 1 was gained. 175 / 101 * 18 -> 32.
        later = job(graph, [110.0], [101.0 / 18], [18], now_s=40_000.0)
        assert decider.decide(later).tolist() == [[expected]]


def test_keyed_vertices_are_aligned() -> None:
    graph = chain_graph(2, key_groups=[0, 128])
    snapshot = job(graph, [1000.0, 1000.0], [1000.0, 26.0], [2, 32])
    # 1000 / 6 + 1000 / 0.7 = 1595.2 -> 1595 against 26 * 32 = 832: 61.3 -> 62. 128 groups on 62 subtasks
    # leave some with three; the next that divides, or leaves each with fewer than two, is 64.
    assert decide("flink", snapshot)[0, 1] == 64
    assert decide("flink:alignment=0", snapshot)[0, 1] == 62


def test_less_than_linear_scaling_is_learned_if_asked_for() -> None:
    graph = chain_graph(1, most=500)
    wanted = {}
    for name in ("flink", "flink:scalability=1"):
        decider = make_policy(name).begin(graph)
        # Three scale-ups seen: 100/s at 10 subtasks, 160/s at 20, 240/s at 40.
        for step, (subtasks, rate) in enumerate(((10, 100.0), (20, 160.0), (40, 240.0))):
            decider.decide(
                job(graph, [1.2 * rate], [rate / subtasks], [subtasks], now_s=36_000.0 + 3600 * step)
            )
        last = job(graph, [360.0], [300.0 / 60], [60], now_s=50_000.0)
        wanted[name] = int(decider.decide(last)[0, 0])
    # 360 / 6 + 360 / 0.7 = 574.3 -> 574 against 300: 114.8 -> 115. Base 10/s a subtask;
    # (1000 + 3200 + 9600) / (10 * 2100) = 0.657, rounded up 0.66: 114.8 / 0.66 = 173.9.
    assert wanted == {"flink": 115, "flink:scalability=1": 174}


def test_the_restart_time_is_tracked_if_asked_for() -> None:
    graph = chain_graph(1)
    snapshot = job(graph, [1010.0], [100.0], [10], downtime_s=1200.0, since_rescale_s=5000.0)
    # The 1200 s that were seen are capped at 900: 1010 / 2 + 1010 / 0.7 = 1947.9 -> 1948 against 1000: 20.
    assert decide("flink:restart_tracked=1", snapshot).tolist() == [[20]]
    # Not tracked: 1010 / 6 + 1442.9 = 1611.2: 17.
    assert decide("flink", snapshot).tolist() == [[17]]
