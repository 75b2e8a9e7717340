"""DS2 behind a band, by hand-computed numbers, and against DS2's own measures on random snapshots."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.core.errors import SettingsError
from trimtab.stream_autoscaling.heuristics.banded import BandedDecider, banded, within_reach
from trimtab.stream_autoscaling.heuristics.measures import (
    blocked_by_bursts,
    output_ratios,
    target_rates,
    true_rates,
    window,
)
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Snapshot

# 150 records/s keep 1.5 of 2 subtasks busy, so each does 100/s.
BUSY = {"records_in": [300.0, 150.0], "records_out": [300.0, 0.0], "busy": [0.3, 0.75]}
FOUR = {**BUSY, "parallelism": [1, 4], "busy": [0.3, 0.375]}


def decided(snapshot: Snapshot, **values: float) -> list[int]:
    settings = {"target": 0.75, "recent_s": 900.0, "memory_s": 1200.0, "patience_s": 1200.0, **values}
    return make_policy("banded", settings).begin(snapshot.graph).decide(snapshot)[0].tolist()


def test_a_vertex_above_the_limit_has_the_whole_job_scaled() -> None:
    """300/s at 100/s a subtask are 3 busy ones: with parallelism 4 that is 75 %."""
    snapshot = snapshot_of(chain_graph(2), **FOUR)
    assert decided(snapshot, limit=0.76) == [1, 4]
    assert decided(snapshot, limit=0.74, target=0.5) == [1, 6]


def test_it_is_scaled_down_only_for_enough_savings_and_with_patience() -> None:
    """3 busy subtasks of 8, aimed at 75 %: 4 would do; with the source that saves 4 of 9."""
    snapshot = snapshot_of(chain_graph(2), parallelism=[1, 8], **{**BUSY, "busy": [0.3, 0.1875]})
    assert decided(snapshot, saving=0.44) == [1, 4]
    assert decided(snapshot, saving=0.45) == [1, 8]
    late = snapshot._replace(since_rescale_s=np.array([1199.0]))
    assert decided(late, saving=0.44, patience_s=1200) == [1, 8]


def test_room_is_kept_for_the_highest_rate_within_memory() -> None:
    """Twenty minutes ago twice as much came: going down to 4 would not have been enough."""
    came = np.full((1, 30, 2), [300.0, 150.0])
    came[:, 5:15, 0] = 600.0
    snapshot = snapshot_of(
        chain_graph(2), parallelism=[1, 10], **{**BUSY, "records_in": came, "busy": [0.3, 0.15]}
    )
    short = {"recent_s": 300.0, "window_s": 300.0, "saving": 0.1}
    assert decided(snapshot, **short, memory_s=600.0) == [1, 4]
    assert decided(snapshot, **short, memory_s=1500.0) == [1, 8]


def test_what_waits_is_caught_up_with() -> None:
    """30,000 records in ten minutes are 50/s more than the 300/s that come: 3.5 busy subtasks, not 3."""
    snapshot = snapshot_of(
        chain_graph(2), parallelism=[1, 4], pending=[30_000.0, 0.0], **{**BUSY, "busy": [0.3, 0.375]}
    )
    assert decided(snapshot, limit=0.86, catch_up_s=600.0) == [1, 5]
    assert decided(snapshot, limit=0.88, catch_up_s=600.0) == [1, 4]


def test_what_is_read_again_after_a_restart_has_not_come_again() -> None:
    """90,000 records went back five minutes ago: over a quarter of an hour, as if 100/s more had come."""
    parallelism, pending = np.full((1, 30, 2), [1, 4]), np.zeros((1, 30, 2))
    pending[:, 25:, 0] = 90_000.0
    back = {**FOUR, "pending": pending, "since_rescale_s": 300.0}
    slowly = {"limit": 0.8, "window_s": 300.0, "catch_up_s": 86_400.0}
    came = snapshot_of(chain_graph(2), sampled_parallelism=parallelism, **back)
    assert decided(came, **slowly) == [1, 6]
    parallelism[:, :25, 1] = 3
    assert decided(snapshot_of(chain_graph(2), sampled_parallelism=parallelism, **back), **slowly) == [1, 4]


def test_nobody_gets_more_room_than_whoever_has_all_it_may_have() -> None:
    """The second would keep 16 busy and may have 8, so half of all can pass: four will do for the third."""
    factors, busy = np.full((2, 3), 4 / 3), np.array([[2.0, 16.0, 6.0], [2.0, 4.0, np.nan]])
    graph = chain_graph(3, environments=2, most=8)
    found = within_reach(factors, busy, graph, room=1.25)
    np.testing.assert_allclose(found, [[0.625] * 3, [4 / 3] * 3])
    behind = {"records_in": [800.0] * 3, "records_out": [800.0, 800.0, 0.0], "busy": [0.5, 1.0, 0.375]}
    pending = np.zeros((1, 30, 3))
    pending[:, :, 0] = 800.0 * 60 * np.arange(30)
    fast = {**behind, "pending": pending, "parallelism": [2, 8, 8]}
    far = snapshot_of(chain_graph(3), **fast)
    assert decided(far, catch_up_s=86_400.0) == [3, 22, 9]
    assert decided(far._replace(graph=chain_graph(3, most=8)), catch_up_s=86_400.0) == [2, 8, 4]


def test_it_is_not_scaled_down_while_it_falls_behind() -> None:
    """What waits would take longer than `catch_up_s` at twice the speed: a restart puts it off again."""
    many = {**BUSY, "parallelism": [1, 16], "busy": [0.3, 0.09375]}
    near = snapshot_of(chain_graph(2), **many, pending=[89_000.0, 0.0])
    far = snapshot_of(chain_graph(2), **many, pending=[91_000.0, 0.0])
    assert decided(near, catch_up_s=300.0) == [1, 8]
    assert decided(far, catch_up_s=300.0) == [1, 16]


def test_a_vertex_that_waits_for_idle_ones_is_full_before_it_is_busy_all_the_time() -> None:
    """1.5 of 4 subtasks busy and one more blocked, as one that sends in bursts: as if 2.5 were busy."""
    steady = {"records_in": [150.0] * 3, "records_out": [150.0, 150.0, 0.0], "busy": [0.1, 0.375, 0.1]}
    bursts = {**steady, "parallelism": [1, 4, 1], "backpressured": [0.0, 0.25, 0.0]}
    snapshot = snapshot_of(chain_graph(3), **bursts, idle=[0.9, 0.375, 0.9])
    wanted = {"target": 0.5, "saving": 0.3}
    assert decided(snapshot, limit=0.62, blocked=0.0, **wanted) == [1, 4, 1]
    assert decided(snapshot, limit=0.62, blocked=1.0, **wanted) == [1, 5, 1]
    assert decided(snapshot, limit=0.63, blocked=1.0, **wanted) == [1, 4, 1]
    assert decided(snapshot, limit=0.63, blocked=2.0, **wanted) == [1, 7, 1]
    # Whoever is next has no time for more: that one is too small.
    small = snapshot_of(chain_graph(3), **bursts, idle=[0.9, 0.375, 0.05])
    assert decided(small, limit=0.62, blocked=1.0, **wanted) == [1, 4, 1]
    # Nobody knows how idle it is.
    dark = snapshot.samples.complete.copy()
    dark[:, :, 2] = False
    unknown = snapshot._replace(samples=snapshot.samples._replace(complete=dark))
    assert decided(unknown, limit=0.62, blocked=1.0, **wanted) == [1, 4, 1]


def test_its_measures_are_those_of_ds2_and_of_bursts() -> None:
    """True rates and ratios as the shared measures have them, from samples with holes, after restarts too."""
    random = np.random.default_rng(3)
    graph = random_graph(random, [3, 9, 14])
    decider = BandedDecider(
        graph, {**banded().values, "window_s": 600.0, "recent_s": 900.0, "memory_s": 900.0}
    )
    for seen in (3, 12, 30):
        snapshot = random_snapshot(random, graph, history=30, seen=seen)
        needed = decider.measure(snapshot).needed
        kept = window(snapshot, 600.0)
        known = snapshot.samples.complete & snapshot.samples.present[:, :, None]
        rate = np.zeros(graph.exists.shape)
        for env, vertex in np.argwhere(graph.is_source & graph.exists):
            moments = [
                moment
                for moment in range(15, 30)
                if known[env, moment, vertex] and known[env, moment - 1, vertex]
            ]
            came = [
                snapshot.samples.records_in[env, moment, vertex]
                + (
                    snapshot.samples.pending[env, moment, vertex]
                    - snapshot.samples.pending[env, moment - 1, vertex]
                )
                / 60
                for moment in moments
            ]
            rate[env, vertex] = max(np.mean(came), 0.0) if came else np.nan
        rates = target_rates(rate, output_ratios(kept, graph))
        busy = np.where(rates == 0, 0.0, rates / true_rates(kept))
        expected = busy * (1 + blocked_by_bursts(kept, graph))
        np.testing.assert_allclose(needed[graph.exists], expected[graph.exists], rtol=1e-9)


def test_settings_may_differ_from_job_to_job() -> None:
    snapshot = snapshot_of(
        chain_graph(2, environments=2), parallelism=[1, 4], **{**BUSY, "busy": [0.3, 0.375]}
    )
    values = {**banded().values, "target": 0.5, "limit": np.array([0.76, 0.74]), "memory_s": 1740.0}
    values["recent_s"] = 1740.0
    assert BandedDecider(snapshot.graph, values).decide(snapshot).tolist() == [[1, 4], [1, 6]]


@pytest.mark.parametrize("span", ["memory_s", "recent_s", "window_s"])
def test_it_does_not_look_back_further_than_metrics_are_kept(span: str) -> None:
    """Of 30 intervals, the first only tells what waited before the second; that of `window_s` counts."""
    snapshot = snapshot_of(chain_graph(2), **FOUR)
    longest = 1800.0 if span == "window_s" else 1740.0
    decided(snapshot, **{span: longest})
    with pytest.raises(SettingsError, match="takes 31 intervals of 60 s, but the history holds 30"):
        decided(snapshot, **{span: longest + 1})


@pytest.mark.parametrize("unknown", [{"complete": False}, {"present": False}])
def test_nobody_knows_so_nothing_is_done(unknown) -> None:
    snapshot = snapshot_of(chain_graph(2), parallelism=[1, 4], **BUSY, **unknown)
    assert decided(snapshot, limit=0.1) == [1, 4]
