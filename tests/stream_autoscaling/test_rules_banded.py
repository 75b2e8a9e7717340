"""DS2 behind a band, by hand-computed numbers, and against DS2's own measures on random snapshots."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.stream_autoscaling.heuristics.banded import BandedDecider, banded, thrifty
from trimtab.stream_autoscaling.heuristics.measures import output_ratios, target_rates, true_rates, window
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
    assert decided(snapshot, limit=0.74, target=0.5) == [1, 7]


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


def test_its_measures_are_those_of_ds2() -> None:
    """True rates and ratios as the shared measures have them, from samples with holes, after restarts too."""
    random = np.random.default_rng(3)
    graph = random_graph(random, [3, 9, 14])
    decider = BandedDecider(graph, {**banded().values, "window_s": 600.0, "recent_s": 900.0})
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
        expected = np.where(rates == 0, 0.0, rates / true_rates(kept))
        np.testing.assert_allclose(needed[graph.exists], expected[graph.exists], rtol=1e-9)


def test_of_sizes_near_the_target_the_one_that_wastes_least_is_taken() -> None:
    """Three vertices: sizes from 0.86 to 1.16 times, a per cent more for a per cent more subtasks."""
    needed = np.array([[4.1, 2.05, 0.5], [4.0, 2.0, 0.5], [3.5, 3.5, 0.5]])
    graph = chain_graph(3, environments=3)
    snapshot = snapshot_of(graph, parallelism=1)
    # 3 % less saves two of nine; nothing is lost; 14 % more costs nothing.
    assert thrifty(needed, snapshot).tolist() == [[4, 2, 1], [4, 2, 1], [4, 4, 1]]
    # Who wants more at any price, and who wants less.
    assert thrifty(needed[:1], snapshot_of(chain_graph(3)), worth=5.0).tolist() == [[5, 3, 1]]
    assert thrifty(needed[1:2], snapshot_of(chain_graph(3)), worth=0.0).tolist() == [[4, 2, 1]]
    # A tenth of a subtask may be missing, and another tenth over its number.
    assert thrifty(needed[:1], snapshot_of(chain_graph(3)), less=1.2).tolist() == [[3, 1, 1]]
    assert thrifty(needed[:1], snapshot_of(chain_graph(3)), less_if_few=1.2).tolist() == [[4, 2, 1]]


def test_totals_stay_near_rounding_up_and_what_nobody_knows_stays() -> None:
    """Of random jobs, those without key groups: at most 15 % from what was aimed at, and a subtask."""
    random = np.random.default_rng(5)
    graph = random_graph(random, [9, 9, 9, 9])
    snapshot = random_snapshot(random, graph, history=30, seen=30)
    needed = np.where(graph.exists, random.lognormal(1, 1, graph.exists.shape), 0.0)
    plain = np.clip(np.ceil(needed - 1e-9), graph.least, graph.most)
    keyed = graph.key_groups > 0
    found = thrifty(needed, snapshot)
    total = np.where(~keyed & graph.exists, found, 0).sum(1)
    bound = np.where(~keyed & graph.exists, plain, 0).sum(1)
    assert (total <= np.ceil(1.17 * bound)).all() and (total >= np.floor(0.85 * bound)).all()
    nobody = thrifty(np.full(graph.exists.shape, np.nan), snapshot)
    np.testing.assert_array_equal(nobody[graph.exists], snapshot.parallelism[graph.exists])


def test_settings_may_differ_from_job_to_job() -> None:
    snapshot = snapshot_of(
        chain_graph(2, environments=2), parallelism=[1, 4], **{**BUSY, "busy": [0.3, 0.375]}
    )
    values = {**banded().values, "target": 0.5, "limit": np.array([0.76, 0.74])}
    assert BandedDecider(snapshot.graph, values).decide(snapshot).tolist() == [[1, 4], [1, 7]]


@pytest.mark.parametrize("unknown", [{"complete": False}, {"present": False}])
def test_nobody_knows_so_nothing_is_done(unknown) -> None:
    snapshot = snapshot_of(chain_graph(2), parallelism=[1, 4], **BUSY, **unknown)
    assert decided(snapshot, limit=0.1) == [1, 4]
