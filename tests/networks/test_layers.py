import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.networks.layers import dense, leaky, mlp, new_dense, new_mlp


def test_a_dense_layer_by_hand() -> None:
    layer = {"weights": np.array([[1.0, 2.0], [3.0, 4.0]]), "bias": np.array([10.0, 20.0])}
    assert dense(layer, np.array([1.0, -1.0])).tolist() == [8.0, 18.0]


@pytest.mark.parametrize("leading", [(), (4,), (4, 5), (2, 3, 4), (0, 3)])
def test_a_dense_layer_works_on_the_last_axis(leading: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    layer = {"weights": random.normal(size=(3, 2)), "bias": random.normal(size=2)}
    inputs = random.normal(size=(*leading, 3))
    expected = np.einsum("...i,io->...o", inputs, layer["weights"]) + layer["bias"]
    np.testing.assert_allclose(dense(layer, inputs), expected)


def test_the_rectifier_leaks_a_fifth() -> None:
    values = np.array([-5.0, -0.0, 0.0, 3.0])
    assert leaky(values, np).tolist() == [-1.0, 0.0, 0.0, 3.0]
    assert jax.vmap(jax.grad(lambda value: leaky(value, jnp)))(
        jnp.array([-2.0, 2.0])
    ).tolist() == pytest.approx([0.2, 1])


def test_layers_rectify_between_but_not_after() -> None:
    layer = {"weights": np.eye(1), "bias": np.zeros(1)}
    # One layer: untouched. Three: a fifth, twice.
    assert mlp([layer], np.array([-1.0]), np).item() == -1.0
    assert mlp([layer] * 3, np.array([-1.0]), np).item() == pytest.approx(-0.04)


def test_numpy_and_jax_agree() -> None:
    layers = new_mlp(np.random.default_rng(0), (7, 16, 16, 3))
    inputs = np.random.default_rng(1).normal(size=(20, 4, 7)).astype(np.float32)
    served, trained = mlp(layers, inputs, np), mlp(layers, jnp.asarray(inputs), jnp)
    assert served.dtype == trained.dtype == np.float32
    np.testing.assert_allclose(served, trained, rtol=1e-5, atol=1e-5)


def test_fresh_weights_are_spread_as_glorot_and_bengio_say() -> None:
    layer = new_dense(np.random.default_rng(0), 200, 300)
    # The variance of Glorot and Bengio is 2 / (inputs + outputs); 60,000 draws know theirs to about 1 %.
    assert layer["weights"].var() == pytest.approx(2 / 500, rel=0.02)
    assert abs(layer["weights"]).max() <= np.sqrt(6 / 500)
    assert not layer["bias"].any()
    assert layer["weights"].dtype == layer["bias"].dtype == np.float32


def test_only_the_last_layer_is_scaled() -> None:
    plain, scaled = (new_mlp(np.random.default_rng(0), (4, 5, 5, 2), scale) for scale in (1.0, 0.01))
    assert [layer["weights"].shape for layer in scaled] == [(4, 5), (5, 5), (5, 2)]
    for one, other in zip(plain[:-1], scaled[:-1], strict=True):
        np.testing.assert_array_equal(one["weights"], other["weights"])
    np.testing.assert_allclose(scaled[-1]["weights"], 0.01 * plain[-1]["weights"], rtol=1e-6)


def test_layers_of_the_same_shape_are_different_draws() -> None:
    first, second = new_mlp(np.random.default_rng(0), (5, 5, 5))
    assert (first["weights"] != second["weights"]).all()
