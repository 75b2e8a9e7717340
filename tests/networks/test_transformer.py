"""A Transformer encoder: attention by hand, items that are not there, numpy = JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.core.bundle import flatten
from trimtab.core.errors import SettingsError
from trimtab.networks.transformer import attention, new_transformer, transformer


def test_attention_by_hand() -> None:
    """Of width 1: the likeness is query times key, and what is heard is the mean of values so weighed."""
    layer = {
        "asked": {"weights": np.array([[1.0, 2.0, 3.0]]), "bias": np.zeros(3)},
        "told": {"weights": np.array([[1.0]]), "bias": np.array([0.5])},
    }
    items = np.array([[[1.0], [0.5], [7.0]]])
    heard = attention(layer, items, np.array([[True, True, False]]), heads=1, xp=np)
    first = np.exp([1.0 * 2.0, 1.0 * 1.0])
    wanted = first @ [3.0, 1.5] / first.sum() + 0.5
    assert heard[0, 0, 0] == pytest.approx(wanted)


def test_each_head_attends_on_its_own() -> None:
    """With no likeness in the second head, its half of what is heard is the plain mean."""
    asked = np.zeros((2, 6))
    asked[0, 0], asked[0, 2] = 5.0, 5.0  # query and key of the first head see the first number
    asked[0, 4], asked[0, 5] = 1.0, 1.0  # and so do both values
    layer = {
        "asked": {"weights": asked, "bias": np.zeros(6)},
        "told": {"weights": np.eye(2), "bias": np.zeros(2)},
    }
    items = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    heard = attention(layer, items, np.ones((1, 2), bool), heads=2, xp=np)
    assert heard[0, :, 1] == pytest.approx([0.0, 0.0])
    assert heard[0, :, 0] == pytest.approx([1.0, -1.0], abs=1e-6)


def test_what_is_not_there_changes_nothing_for_the_others() -> None:
    random = np.random.default_rng(0)
    encoder = new_transformer(random, width=8, layers=2)
    items = random.normal(size=(4, 5, 8)).astype(np.float32)
    real = np.arange(5) < np.array([[5], [3], [1], [0]])
    found = transformer(encoder, items, real, heads=2, xp=np)
    other = np.where(real[..., None], items, np.float32(1e3))
    assert transformer(encoder, other, real, heads=2, xp=np)[real] == pytest.approx(found[real], abs=1e-6)
    shorter = transformer(encoder, items[1:2, :3], real[1:2, :3], heads=2, xp=np)
    assert shorter[0] == pytest.approx(found[1, :3], abs=1e-5)
    assert np.isfinite(found).all()
    changed = items.copy()
    changed[0, 4] *= -1
    again = transformer(encoder, changed, real, heads=2, xp=np)
    assert abs(again[0, 0] - found[0, 0]).max() > 1e-3


def test_numpy_and_jax_say_the_same_and_gradients_are_finite() -> None:
    random = np.random.default_rng(1)
    encoder = new_transformer(random, width=8, layers=2)
    items = random.normal(size=(2, 4, 8)).astype(np.float32)
    real = np.array([[True, True, False, True], [False] * 4])

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def told(parameters):
        found = transformer(parameters, jnp.asarray(items), jnp.asarray(real), heads=4, xp=jnp)
        return (found[:, 0] ** 3).sum(), found

    (_, theirs), slopes = told(encoder)
    ours = transformer(encoder, items, real, heads=4, xp=np)
    assert ours == pytest.approx(np.asarray(theirs), abs=1e-5)
    assert all(np.isfinite(slope).all() for slope in jax.tree.leaves(slopes))


def test_no_layers_normalise_alone_and_odd_widths_are_refused() -> None:
    encoder = new_transformer(np.random.default_rng(0), width=4, layers=0)
    assert set(flatten(encoder)) == {"last/gain", "last/shift"}
    items = np.array([[[1.0, 1.0, -1.0, -1.0]]])
    found = transformer(encoder, 7 * items, np.ones((1, 1), bool), heads=1, xp=np)
    assert found == pytest.approx(items, abs=1e-5)
    encoder = new_transformer(np.random.default_rng(0), width=4, layers=1)
    with pytest.raises(SettingsError, match="3 heads of a Transformer of width 4"):
        transformer(encoder, items, np.ones((1, 1), bool), heads=3, xp=np)
