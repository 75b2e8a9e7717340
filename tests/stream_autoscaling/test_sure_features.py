"""What a learned autoscaler is told: by hand, bounded, without units, newest last."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.stream_autoscaling.sure.actions import Bands
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import (
    FEATURES,
    FeatureHistory,
    couplings_of,
    features_of,
    hops_of,
)

DESIGN = Design(history=30, base_target=0.75, base_window_s=180.0, base_memory_s=1740.0, base_recent_s=1740.0)


def told(snapshot, vertex: int = 0) -> dict[str, float]:
    row = features_of(snapshot, Bands(snapshot.graph, DESIGN).suggest(snapshot))[0, vertex]
    return dict(zip(FEATURES, row.tolist(), strict=True))


def test_a_vertex_by_hand() -> None:
    """Two subtasks, 75 % busy, do 150/s: 10 ms each; 300/s were sent to it: half of them wait somewhere."""
    graph = chain_graph(2, most=16, key_groups=[0, 5])
    snapshot = snapshot_of(
        graph,
        parallelism=[1, 2],
        records_in=[300.0, 150.0],
        records_out=[300.0, 75.0],
        busy=[0.3, 0.75],
        latency_s=10.0,
        now_s=6 * 3600.0,
    )
    found = told(snapshot, 1)
    assert found["service time"] == pytest.approx(1.0, abs=1e-2)
    assert found["records out per record in"] == pytest.approx(np.log(1.5), abs=1e-3)
    assert found["records that came against records sent"] == pytest.approx(150 / 450, abs=1e-3)
    assert found["key groups dealt unevenly"] == pytest.approx(3 * 2 / 5 - 1, abs=1e-3)
    assert found["latency against the limit"] == pytest.approx(np.log(2), abs=1e-3)
    assert found["hour of day, sine"] == 1 and found["complete"] == 1
    assert found["load, as the base rule sees it"] == pytest.approx(3 / 2, abs=1e-2)
    assert found["suggestion against parallelism"] == pytest.approx(
        np.log2(5 / 2), abs=1e-3
    )  # of 5 key groups, 4 are no better than 3
    assert told(snapshot, 0)["is source"] == 1 and found["is source"] == 0


def test_a_backlog_and_its_growth_show_at_the_source() -> None:
    pending = np.zeros((1, 30, 1))
    pending[0, -1] = 6_000.0  # 100/s more than are read, in a minute
    snapshot = snapshot_of(chain_graph(1), records_in=100.0, busy=0.9, pending=pending)
    found = told(snapshot)
    assert found["seconds of records waiting"] == pytest.approx(np.log1p(60) / 2, abs=2e-3)
    assert found["records that came against records sent"] == pytest.approx(100 / 300, abs=1e-3)


def test_a_vertex_that_did_not_report_is_silent_but_for_its_job() -> None:
    snapshot = snapshot_of(chain_graph(2), records_in=[5.0, np.nan], busy=[0.5, np.nan], latency_s=np.nan)
    snapshot.samples.complete[0, :, 1] = False
    found = told(snapshot, 1)
    first_of_job = FEATURES.index("recently rescaled")
    assert not any(found[name] for name in FEATURES[:first_of_job])
    assert found["latency unknown"] == 1 and found["latency against the limit"] == 0


def test_nothing_is_infinite_or_large_whatever_is_reported() -> None:
    random = np.random.default_rng(0)
    graph = random_graph(random, [1, 7, 12])
    for seen in (0, 1, 2, 30):
        snapshot = random_snapshot(random, graph, history=30, seen=seen)
        snapshot.samples.records_in[:, -1, ::2] = 0.0
        snapshot.samples.pending[:, -1] = 1e15
        rows = features_of(snapshot, Bands(snapshot.graph, DESIGN).suggest(snapshot))
        assert np.isfinite(rows).all() and np.abs(rows).max() <= 8
        assert not rows[~graph.exists].any()


def test_the_window_is_contiguous_newest_last_and_forgets_at_a_new_beginning() -> None:
    design = Design(history=4, snapshots=2, base_window_s=180.0, base_memory_s=180.0, base_recent_s=180.0)
    graph = chain_graph(2)
    history = FeatureHistory(graph, design)
    busy = FEATURES.index("busy")
    for number in range(1, 8):
        present = np.arange(4) >= 4 - number
        snapshot = snapshot_of(graph, history=4, busy=number / 16, records_in=1.0, present=present)
        view = history.see(snapshot).view
        wanted = [max(number - back, 0) / 16 for back in (3, 2, 1, 0)]
        assert view.window[0, :, 0, busy].tolist() == wanted
        assert view.window[0].flags.c_contiguous
        assert view.present[0].tolist() == present.tolist()
    fresh = snapshot_of(graph, history=4, busy=0.5, present=[False, False, False, True])
    assert history.see(fresh).view.present[0].tolist() == [False, False, False, True]


def test_a_history_that_is_new_knows_nothing_of_the_past() -> None:
    """A controller that starts beside a running job: monitoring remembers, its features do not."""
    snapshot = snapshot_of(chain_graph(2), history=30)
    assert FeatureHistory(snapshot.graph, DESIGN).see(snapshot).view.present.sum() == 1


def test_hops_go_both_ways_and_end() -> None:
    graph = chain_graph(5)
    hops = hops_of(graph, 3)[0]
    assert hops[0].tolist() == [0, 1, 2, 3, 0] and np.array_equal(hops, -hops.T)


def test_couplings_multiply_to_the_graph() -> None:
    """Of full rank (8 or fewer vertices) the factors give the symmetric edges plus the diagonal back."""
    graph = random_graph(np.random.default_rng(0), [8])
    left, right = np.split(couplings_of(graph)[0], 2, axis=-1)
    edges = (graph.selectivity[0] > 0).astype(float)
    assert left @ right.T == pytest.approx(edges + edges.T + np.eye(8), abs=1e-5)
