"""What rules read out of a snapshot, by hand-computed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of

from trimtab.core.errors import SettingsError
from trimtab.stream_autoscaling.heuristics.measures import (
    arrivals,
    as_parallelism,
    just_begun,
    latest,
    mean,
    output_ratios,
    slope,
    target_rates,
    true_rates,
    window,
)


def of_intervals(*values: float) -> np.ndarray:
    """One environment, one vertex."""
    return np.array(values)[None, :, None]


def test_a_window_holds_the_newest_intervals() -> None:
    snapshot = snapshot_of(chain_graph(1), history=6, records_in=of_intervals(1, 2, 3, 4, 5, 6))
    seen = window(snapshot, 150.0)  # 2.5 intervals of 60 s: three are looked at
    assert seen.samples.records_in[0, :, 0].tolist() == [4, 5, 6]
    assert mean(seen.samples.records_in, seen.counts).tolist() == [[5.0]]


def test_what_was_before_a_restart_and_its_settling_does_not_count() -> None:
    records = of_intervals(1, 2, 3, 4, 5, 6)
    snapshot = snapshot_of(chain_graph(1), history=6, records_in=records, since_rescale_s=250.0)
    # The restart was 250 s ago: the interval that began 300 s ago saw it, that of 240 s ago did not.
    assert window(snapshot, 360.0).counts[0, :, 0].tolist() == [False, False, True, True, True, True]
    settled = window(snapshot, 360.0, settle_s=120.0)  # 130 s are left: two intervals
    assert settled.counts[0, :, 0].tolist() == [False, False, False, False, True, True]


def test_incomplete_and_absent_intervals_do_not_count() -> None:
    complete = np.array([True, False, True, True])[None, :, None]
    present = np.array([False, True, True, True])[None]
    snapshot = snapshot_of(
        chain_graph(1),
        history=4,
        records_in=of_intervals(9, np.nan, 2, 4),
        complete=complete,
        present=present,
    )
    seen = window(snapshot, 240.0)
    assert mean(seen.samples.records_in, seen.counts).tolist() == [[3.0]]
    assert latest(seen.samples.records_in, seen.counts).tolist() == [[4.0]]
    nothing = window(snapshot._replace(since_rescale_s=np.array([0.0])), 240.0)
    assert np.isnan(mean(nothing.samples.records_in, nothing.counts)).all()
    assert np.isnan(latest(nothing.samples.records_in, nothing.counts)).all()


def test_a_window_longer_than_the_history_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"900 s takes 15 intervals of 60 s, but the history holds 10; raise"
    ):
        window(snapshot_of(chain_graph(1), history=10), 900.0)


def test_slopes() -> None:
    every = np.ones((1, 4, 1), bool)
    assert slope(of_intervals(0, 600, 1200, 1800), every, 60.0)[0, 0] == pytest.approx(10.0)
    # Least squares of 0, 1, 0, 1 over steps -1.5 to 1.5: (-0.5 + 1.5) / 5 = 0.2 per step.
    assert slope(of_intervals(0, 1, 0, 1), every, 1.0)[0, 0] == pytest.approx(0.2)
    one = np.array([False, False, False, True])[None, :, None]
    assert slope(of_intervals(7, 7, 7, 7), one, 60.0)[0, 0] == 0.0


def test_true_rates_are_records_over_useful_time() -> None:
    # Two intervals: 100 and 300 records/s, busy 0.2 and 0.4 of 4 subtasks: 400 / (0.8 + 1.6) = 166.7 each.
    snapshot = snapshot_of(
        chain_graph(1),
        history=2,
        records_in=of_intervals(100, 300),
        busy=of_intervals(0.2, 0.4),
        parallelism=4,
    )
    assert true_rates(window(snapshot, 120.0))[0, 0] == pytest.approx(400 / 2.4)


def test_nothing_is_learned_from_an_idle_vertex() -> None:
    assert np.isnan(true_rates(window(snapshot_of(chain_graph(2)), 60.0))).all()


def test_measured_output_is_split_as_the_graph_says() -> None:
    graph = chain_graph(3, edges={(0, 1): 1.0, (0, 2): 3.0})
    snapshot = snapshot_of(graph, records_in=[100, 1, 1], records_out=[600, 0, 0])
    ratios = output_ratios(window(snapshot, 60.0), graph)[0]
    # 6 records sent for each read: a quarter of them to vertex 1.
    assert (ratios[0, 1], ratios[0, 2]) == (1.5, 4.5)
    unknown = output_ratios(window(snapshot_of(graph), 60.0), graph)[0]
    assert (unknown[0, 1], unknown[0, 2]) == (1.0, 3.0)


def test_arrivals_are_what_is_read_plus_what_piles_up() -> None:
    pending = np.zeros((1, 3, 2))
    pending[0, :, 0] = [0, 1200, 2400]
    snapshot = snapshot_of(chain_graph(2), history=3, records_in=[100, 100], pending=pending)
    assert arrivals(window(snapshot, 180.0), snapshot.graph).tolist() == [[120.0, 0.0]]


def test_targets_flow_down_a_diamond() -> None:
    graph = chain_graph(4, edges={(0, 1): 0.5, (0, 2): 2.0, (1, 3): 1.0, (2, 3): 0.25})
    targets = target_rates(np.array([[80.0, 0, 0, 0]]), graph.selectivity)
    assert targets.tolist() == [[80.0, 40.0, 160.0, 80.0]]


def test_what_lies_below_an_unknown_is_unknown() -> None:
    graph = chain_graph(4, edges={(0, 2): 1.0, (1, 3): 1.0})
    targets = target_rates(np.array([[np.nan, 5.0, 0.0, 0.0]]), graph.selectivity)
    assert np.isnan(targets[0]).tolist() == [True, False, True, False]
    missing_ratio = graph.selectivity.copy()
    missing_ratio[0, 1, 3] = np.nan
    targets = target_rates(np.array([[4.0, 5.0, 0.0, 0.0]]), missing_ratio)
    assert targets[0, :3].tolist() == [4.0, 5.0, 4.0] and np.isnan(targets[0, 3])


def test_parallelism_is_rounded_up_and_bounded() -> None:
    snapshot = snapshot_of(chain_graph(5, most=10), parallelism=3)
    needed = np.array([[2.1, 3.0000000000000004, np.nan, np.inf, 0.0]])
    assert as_parallelism(needed, snapshot).tolist() == [[3, 3, 3, 10, 1]]


def test_an_environment_has_just_begun_while_one_interval_is_there() -> None:
    graph = chain_graph(1, environments=3)
    present = np.zeros((3, 5), bool)
    present[1, -1:] = True
    present[2, -2:] = True
    assert just_begun(snapshot_of(graph, history=5, present=present)).tolist() == [True, True, False]
