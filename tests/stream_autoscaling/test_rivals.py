"""What tells the rivals apart: who sees the past, who sees the graph, and which way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.stream_autoscaling.sure_snapshots import random_view

from trimtab.networks.array_tools import PLAIN
from trimtab.stream_autoscaling.rivals.astgcn import _block, _chebyshev
from trimtab.stream_autoscaling.rivals.ccrnn import _graphs
from trimtab.stream_autoscaling.rivals.tvw_rl import _classes
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import Inputs, encoder_of
from trimtab.stream_autoscaling.sure.features import FEATURES
from trimtab.stream_autoscaling.sure.network import inputs_of

RIVALS = ("deepwave", "dream", "tvw-rl", "astgcn", "ccrnn")
DESIGN = Design(
    history=15, hidden=16, snapshots=4, base_window_s=840.0, base_memory_s=840.0, base_recent_s=840.0
)


def inputs_for(name: str) -> Inputs:
    view = random_view([7, 5], replace(DESIGN, history_encoder=name), seed=3)
    return inputs_of(view, np)


def encoded(name: str, inputs: Inputs) -> np.ndarray:
    design = replace(DESIGN, history_encoder=name)
    encoder = encoder_of(name)
    parameters = encoder.new(np.random.default_rng(0), len(FEATURES), design)
    return encoder.encode(parameters, inputs, design, PLAIN, False).vertices


def change(inputs: Inputs, moment: int, vertex: int) -> Inputs:
    window = inputs.window.copy()
    window[0, moment, vertex] += 1.0
    return inputs._replace(window=window)


def heard_by(name: str, moment: int, vertex: int) -> np.ndarray:
    """Which vertices are described otherwise after one vertex reported something else at one moment."""
    inputs = inputs_for(name)
    return np.abs(encoded(name, inputs) - encoded(name, change(inputs, moment, vertex)))[0].max(-1) > 1e-7


@pytest.mark.parametrize("name", RIVALS)
def test_shapes_and_a_description_that_differs_by_vertex(name: str) -> None:
    found = encoded(name, inputs_for(name))
    assert found.shape == (2, 7, 16) and np.isfinite(found).all()
    assert np.ptp(found[0], axis=0).max() > 1e-3


@pytest.mark.parametrize("name", RIVALS)
def test_who_sees_the_past(name: str) -> None:
    assert heard_by(name, moment=-4, vertex=3).any() == (name != "deepwave")


def test_deepwave_tells_parents_of_their_children_and_not_the_reverse() -> None:
    """Two rounds: up to two steps above; nobody below hears anything."""
    heard = heard_by("deepwave", moment=-1, vertex=4)
    hops = inputs_for("deepwave").hops[0, :, 4]
    assert np.array_equal(heard, ((hops == 1) | (hops == 2)) | (np.arange(7) == 4))


def test_dream_knows_the_job_as_a_whole_and_tvw_rl_each_vertex_alone() -> None:
    assert heard_by("dream", moment=-4, vertex=3).all()
    assert heard_by("tvw-rl", moment=-4, vertex=3).tolist() == [v == 3 for v in range(7)]
    for name in ("dream", "tvw-rl"):
        inputs = inputs_for(name)
        assert np.array_equal(encoded(name, inputs), encoded(name, inputs._replace(hops=0 * inputs.hops)))


@pytest.mark.parametrize("name", ["astgcn", "ccrnn"])
def test_spatio_temporal_rivals_hear_from_other_vertices(name: str) -> None:
    assert heard_by(name, moment=-3, vertex=1)[[0, 2, 3]].any()


def test_chebyshev_polynomials_of_a_pair() -> None:
    """Two vertices, one edge: the scaled Laplacian is minus the swap, its second polynomial the identity."""
    inputs = inputs_for("astgcn")
    hops = np.array([[[0, 1], [-1, 0]]])
    pair = inputs._replace(hops=hops, exists=np.ones((1, 2), np.float32))
    first, second, third = (one[0] for one in _chebyshev(pair, np))
    assert np.array_equal(first, np.eye(2)) and np.array_equal(second, -np.eye(2)[::-1])
    assert np.array_equal(third, np.eye(2))


def test_astgcn_computes_the_newest_moment_alone_as_it_does_all() -> None:
    design, inputs = replace(DESIGN, history_encoder="astgcn"), inputs_for("astgcn")
    block = encoder_of("astgcn").new(np.random.default_rng(0), len(FEATURES), design)[0]
    polynomials = _chebyshev(inputs, np)
    whole = _block(block, inputs.window, polynomials, inputs, design.history, np)
    newest = _block(block, inputs.window, polynomials, inputs, 2, np)
    assert whole.shape[1] == 15 and newest.shape[1] == 2
    assert newest[:, -1] == pytest.approx(whole[:, -1], abs=1e-6)


def test_ccrnn_graphs_are_averages_over_the_vertices_there_are() -> None:
    design = replace(DESIGN, history_encoder="ccrnn")
    parameters = encoder_of("ccrnn").new(np.random.default_rng(0), len(FEATURES), design)
    inputs = inputs_for("ccrnn")
    for graph in _graphs(parameters["maps"], inputs, np):
        assert graph.sum(-1) == pytest.approx(inputs.exists)
        assert not graph[1, :, 5:].any()


def test_tvw_rl_classes_are_shares_and_the_nearest_centre_leads() -> None:
    inputs = inputs_for("tvw-rl")
    mean = inputs.window[0].mean(0)[2]
    deviation = np.sqrt(inputs.window[0].var(0)[2] + 1e-6)
    centres = np.stack([np.concatenate([mean, deviation]), np.full(2 * len(FEATURES), 3.0)])
    shares = _classes(centres, inputs, PLAIN)
    assert shares.sum(-1) == pytest.approx(1) and shares[0, 2, 0] > 0.99
