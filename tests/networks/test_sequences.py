"""Recurrent cells, convolutions over time and graph isomorphism layers: hand-made numbers, numpy = JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.learning.jax_tools import JAX_TOOLS
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.graph_isomorphism import isomorphism_layers, new_isomorphism_layers, snapshot_messages
from trimtab.networks.recurrent import (
    gated_unit,
    last_gated_state,
    last_memory_state,
    new_gated_unit,
    new_memory_cell,
)
from trimtab.networks.temporal import new_normalisation, new_time_convolution, normalised, time_convolution


def test_a_gated_unit_by_hand() -> None:
    """Gates at one half and weights 0: the state goes half the way to tanh of the input's bias."""
    unit = new_gated_unit(np.random.default_rng(0), 1, 1)
    unit["input"]["weights"][:] = 0
    unit["input"]["bias"][:] = [0.0, 0.0, 1.0]
    unit["state"]["weights"][:] = 0
    prepared = np.array([[0.0, 0.0, 1.0]])
    assert gated_unit(unit, np.array([[0.2]]), prepared, np) == pytest.approx(0.5 * (0.2 + np.tanh(1)))


@pytest.mark.parametrize(
    ("new", "last"), [(new_gated_unit, last_gated_state), (new_memory_cell, last_memory_state)]
)
def test_sequences_are_the_same_by_numpy_and_jax_and_skip_what_is_not_real(new, last) -> None:
    random = np.random.default_rng(0)
    cell = new(random, 3, 4)
    sequence = random.normal(size=(6, 2, 3)).astype(np.float32)
    real = np.ones((6, 2, 1), np.float32)
    real[:2, 1] = 0
    ours = last(cell, sequence, real, PLAIN)
    theirs = last(cell, jnp.asarray(sequence), jnp.asarray(real), JAX_TOOLS)
    assert ours == pytest.approx(np.asarray(theirs), abs=1e-6)
    shorter = last(cell, sequence[2:], real[2:], PLAIN)
    assert ours[1] == pytest.approx(shorter[1], abs=1e-6)
    assert ours[0] != pytest.approx(shorter[0], abs=1e-3)


def test_a_stride_keeps_the_newest_step() -> None:
    layer = {"weights": np.ones((1, 1)), "bias": np.zeros(1)}
    sequence = np.arange(6.0)[:, None]
    assert time_convolution(layer, sequence, 1, np, stride=2).ravel().tolist() == [1, 3, 5]
    wide = new_time_convolution(np.random.default_rng(0), 2, 5, 3)
    assert time_convolution(wide, np.ones((4, 7, 2)), 3, np).shape == (4, 7, 5)


def test_normalised_rows_have_mean_0_and_deviation_1() -> None:
    rows = normalised(new_normalisation(64), np.random.default_rng(0).normal(3, 5, (4, 64)), np)
    assert rows.mean(-1) == pytest.approx(0, abs=1e-6) and rows.std(-1) == pytest.approx(1, abs=1e-3)


def test_isomorphism_layers_sum_neighbours_and_silence_what_is_not_real() -> None:
    """Node 1 hears node 2 (its child) and node 0 (its parent); what stands at node 3 is not real."""
    layers = new_isomorphism_layers(np.random.default_rng(0), size=4, layers=1)
    edges = np.eye(4, k=1)
    real = np.array([1.0, 1, 1, 0])[:, None]
    nodes = np.random.default_rng(1).normal(size=(1, 4, 4))

    def read(values):
        def heard(now):
            return snapshot_messages(now, edges, np.zeros((1, 4, 1)), np)

        return isomorphism_layers(layers, values, heard, real, np)[0][0]

    found = read(nodes)
    assert not found[3].any()
    other = nodes.copy()
    other[0, 3] = 99.0
    assert read(other) == pytest.approx(found)
    summed = np.zeros_like(nodes)
    summed[0, 1] = nodes[0, :3].sum(0)  # alone, a node with the sum of the three is read the same
    assert read(summed)[1] == pytest.approx(found[1])
