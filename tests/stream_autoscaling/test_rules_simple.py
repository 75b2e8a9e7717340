"""The rules that need little: static, reactive, HPA, KEDA, AWS, Dhalion; by hand-computed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of

from trimtab.core.errors import SettingsError
from trimtab.stream_autoscaling.heuristics.dhalion import bottlenecks
from trimtab.stream_autoscaling.heuristics.fixed import Oracle
from trimtab.stream_autoscaling.job import Edge, Job, Vertex, enough_parallelism, enough_subtasks, graph_of
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace


def defaults(name: str) -> dict[str, float]:
    return {parameter.name: parameter.value for parameter in make_policy(name).parameters}  # pyright: ignore


# --- static, oracle, reactive --------------------------------------------------------------------------


def test_static_is_as_started_or_one_number_within_bounds() -> None:
    snapshot = snapshot_of(chain_graph(3, most=6), parallelism=[2, 3, 4])
    assert make_policy("static").begin(snapshot.graph).decide(snapshot).tolist() == [[2, 3, 4]]
    assert make_policy("static:parallelism=8").begin(snapshot.graph).decide(snapshot).tolist() == [[6, 6, 6]]


def test_oracle_static_is_enough_for_the_peak() -> None:
    job = Job(
        "fork",
        (
            Vertex(name="read", service_ms=1.0),
            Vertex(name="parse", service_ms=10.0, scaling=0.5),
            Vertex(name="count", service_ms=10.0, key_groups=8),
        ),
        (Edge(0, 1, 0.1), Edge(0, 2, 0.5)),
    )
    trace = RateTrace(np.array([10.0, 700.0, 300.0]), 60.0, Provenance("made by hand"))
    # At 700/s and 70 %: read 700 * 1 ms / 0.7 = 1 subtask; parse gets 70/s, 1 subtask's worth, so 1;
    # count gets 350/s, 5 subtasks' worth: 5 subtasks have 2 of 8 key groups at most, thus do the work of 4;
    # it takes 8 to do more.
    assert enough_parallelism(job, 700.0, utilisation=0.7).tolist() == [1, 1, 8]
    # At 35 % parse needs the work of 2 subtasks: with scaling 0.5 those are 4.
    assert enough_parallelism(job, 700.0, utilisation=0.35).tolist() == [2, 4, 8]
    assert enough_parallelism(job, 0.0).tolist() == [1, 1, 1]  # nothing arrives
    policy = make_policy("oracle-static")
    assert isinstance(policy, Oracle)
    graph = graph_of([job])
    told = policy.knowing([job], [trace])
    assert told.name == "oracle-static"
    assert told.begin(graph).decide(snapshot_of(graph)).tolist() == [[1, 1, 8]]
    with pytest.raises(SettingsError, match="must know what will arrive; it can be simulated"):
        policy.begin(graph)
    with pytest.raises(SettingsError, match="utilisation = 0 is out of range"):
        make_policy("oracle-static:utilisation=0")


def test_a_hot_key_cannot_be_scaled_away() -> None:
    hot = Vertex(name="count", service_ms=10.0, key_groups=128, hot_share=0.25)
    assert enough_subtasks(hot, 390.0, utilisation=1.0) == 4  # one subtask takes a quarter: 400/s at most
    assert enough_subtasks(hot, 500.0, utilisation=1.0) == 128  # nothing is enough


def test_reactive_takes_every_slot() -> None:
    graph = chain_graph(3, most=10)
    reactive = make_policy("reactive").begin(graph)
    assert reactive.decide(snapshot_of(graph, slots=7)).tolist() == [[7, 7, 7]]
    assert reactive.decide(snapshot_of(graph, slots=0)).tolist() == [[10, 10, 10]]
    two_groups = graph._replace(slot_group=np.array([[0, 0, 1]]))
    assert make_policy("reactive").begin(two_groups).decide(snapshot_of(two_groups, slots=7)).tolist() == [
        [3, 3, 3]
    ]


# --- HPA -----------------------------------------------------------------------------------------------


def test_hpa_defaults_are_those_of_kubernetes() -> None:
    assert defaults("hpa") == {"target": 0.7, "tolerance": 0.1, "down_wait_s": 300.0, "window_s": 60.0}


def test_hpa_scales_up_at_once_and_not_within_its_tolerance() -> None:
    graph = chain_graph(3)
    snapshot = snapshot_of(graph, parallelism=4, busy=[0.91, 0.76, 0.84])
    # Ratios to 0.7: 1.3 -> ceil(5.2) = 6; 1.086 within 0.1; 1.2 -> ceil(4.8) = 5.
    assert make_policy("hpa").begin(graph).decide(snapshot).tolist() == [[6, 4, 5]]


def test_hpa_scales_down_to_the_largest_recommendation_of_five_minutes() -> None:
    graph = chain_graph(1)
    decider = make_policy("hpa").begin(graph)
    wanted = []
    for minute, busy in enumerate([0.35, 0.42, 0.35, 0.35, 0.35, 0.35, 0.35, 0.35]):
        snapshot = snapshot_of(graph, parallelism=10, busy=busy, now_s=60.0 * minute)
        wanted.append(decider.decide(snapshot)[0, 0])
    # 0.42 recommends 6, 0.35 recommends 5. The 10 of minute 0 counts up to minute 5, the 6 of 1 up to 6.
    assert wanted == [10, 10, 10, 10, 10, 10, 6, 5]


def test_hpa_leaves_unknown_vertices_alone() -> None:
    graph = chain_graph(2)
    snapshot = snapshot_of(graph, parallelism=4, busy=0.9, complete=[True, False])
    assert make_policy("hpa").begin(graph).decide(snapshot).tolist() == [[6, 4]]


# --- KEDA ----------------------------------------------------------------------------------------------


def test_keda_defaults() -> None:
    assert defaults("keda-lag") == {
        "lag_threshold": 10.0,
        "least": 1.0,
        "most": 100.0,
        "tolerance": 0.1,
        "down_wait_s": 300.0,
    }


def test_keda_follows_the_lag_up_to_the_partitions() -> None:
    graph = chain_graph(2, most=12)
    decider = make_policy("keda-lag:lag_threshold=100").begin(graph)
    # 730 / 100 -> 8 for the whole job; 10,000 / 100 is capped at 12.
    assert decider.decide(snapshot_of(graph, parallelism=2, pending=[730, 0])).tolist() == [[8, 8]]
    assert decider.decide(snapshot_of(graph, parallelism=8, pending=[10_000, 0])).tolist() == [[12, 12]]
    # 1260 / (100 * 12) = 1.05 is within the tolerance.
    assert decider.decide(snapshot_of(graph, parallelism=[12, 3], pending=[1260, 0])).tolist() == [[12, 3]]


def test_keda_without_lag_goes_to_one_after_five_minutes() -> None:
    graph = chain_graph(2)
    decider = make_policy("keda-lag").begin(graph)
    wanted = [decider.decide(snapshot_of(graph, parallelism=5))[0].tolist() for _ in range(7)]
    assert wanted == [[5, 5]] * 6 + [[1, 1]]
    decider = make_policy("keda-lag:least=3,down_wait_s=0").begin(graph)
    assert decider.decide(snapshot_of(graph, parallelism=5)).tolist() == [[3, 3]]


# --- AWS -----------------------------------------------------------------------------------------------


def test_aws_defaults() -> None:
    assert defaults("aws") == {"cores": 1.0, "high": 0.75, "high_s": 900.0, "low": 0.1, "low_s": 21_600.0}


def test_aws_doubles_after_15_busy_minutes() -> None:
    graph = chain_graph(2, most=5)
    decider = make_policy("aws").begin(graph)
    # (0.6 * 3 + 0.5 * 1) / 3 slots = 0.767: busy enough.
    busy = snapshot_of(graph, parallelism=[3, 1], busy=[0.6, 0.5])
    wanted = [decider.decide(busy)[0].tolist() for _ in range(15)]
    assert wanted == [[3, 1]] * 14 + [[5, 2]]


def test_aws_begins_to_count_anew_when_interrupted_but_not_by_a_missing_point() -> None:
    graph = chain_graph(1)
    decider = make_policy("aws").begin(graph)
    busy, calm = snapshot_of(graph, busy=0.8), snapshot_of(graph, busy=0.7)
    missing = snapshot_of(graph, busy=0.8, complete=False)
    course = [busy] * 10 + [missing] + [busy] * 4 + [calm] + [busy] * 14 + [busy]
    wanted = [decider.decide(snapshot)[0, 0] for snapshot in course]
    assert wanted == [1] * 30 + [2]


def test_aws_halves_after_6_idle_hours() -> None:
    graph = chain_graph(2)
    decider = make_policy("aws").begin(graph)
    idle = snapshot_of(graph, parallelism=[5, 2], busy=0.05)  # (0.25 + 0.1) / 5 = 0.07
    wanted = [decider.decide(idle)[0].tolist() for _ in range(360)]
    assert wanted == [[5, 2]] * 359 + [[3, 1]]


# --- Dhalion -------------------------------------------------------------------------------------------


def test_the_bottleneck_holds_others_up_and_is_not_held_up_itself() -> None:
    graph = chain_graph(4)
    slow, above = bottlenecks(np.array([[0.5, 0.4, 0.0, 0.0]]), graph, threshold=0.05)
    assert slow.tolist() == [[False, False, True, False]]
    assert above[0, 2] == 0.4


def test_dhalion_scales_the_bottleneck_by_the_blocked_share() -> None:
    graph = chain_graph(4)
    snapshot = snapshot_of(graph, parallelism=6, backpressured=[0.5, 0.4, 0.0, 0.0])
    # 1 + 0.4 / 0.6 = 1.667 times 6 subtasks are 10.
    assert make_policy("dhalion").begin(graph).decide(snapshot).tolist() == [[6, 6, 10, 6]]


def test_dhalion_scales_a_source_that_falls_behind() -> None:
    graph = chain_graph(2)
    pending = np.zeros((1, 30, 2))
    pending[0, :, 0] = 3000.0 + 60 * 100.0 * np.arange(30)
    snapshot = snapshot_of(
        graph, parallelism=4, records_in=100, busy=[1.0, 0.3], idle=[0.0, 0.7], pending=pending
    )
    # 200/s arrive, 100/s are read: twice as many. Nothing else moves, though the other vertex idles.
    assert make_policy("dhalion").begin(graph).decide(snapshot).tolist() == [[8, 4]]


def test_dhalion_shrinks_what_idles_and_remembers_what_failed() -> None:
    graph = chain_graph(2)
    decider = make_policy("dhalion").begin(graph)
    idle = snapshot_of(graph, parallelism=[10, 2], busy=[0.5, 0.2], records_in=100)
    # 20 % of 10 are not taken from the busy one; 2 loses one at least.
    assert decider.decide(idle).tolist() == [[10, 1]]
    blocked = snapshot_of(
        graph, parallelism=[10, 1], busy=[0.5, 1.0], backpressured=[0.3, 0.0], records_in=100
    )
    assert decider.decide(blocked._replace(now_s=np.array([36_600.0]))).tolist() == [[10, 2]]
    # One was too few: it stays at two for an hour.
    assert decider.decide(idle._replace(now_s=np.array([37_000.0]))).tolist() == [[10, 2]]
    assert decider.decide(idle._replace(now_s=np.array([41_000.0]))).tolist() == [[10, 1]]


def test_dhalion_waits_after_a_restart() -> None:
    graph = chain_graph(2)
    snapshot = snapshot_of(graph, backpressured=[0.5, 0.0], since_rescale_s=240.0)
    assert make_policy("dhalion").begin(graph).decide(snapshot).tolist() == [[1, 1]]
