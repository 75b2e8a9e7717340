from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.learning.passes import gradient_passes, make_optimiser, summed_step, weighted_mean

ROWS = {"at": np.arange(12, dtype=np.float32), "weight": np.array([1, 0, 1] * 4, np.float32)}
START = {"guess": np.float32(2.0)}
RATE = np.float32(0.1)


def distance(parameters: Any, rows: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Half the mean square distance of a guess to the rows that count: best is their mean."""
    error = weighted_mean(0.5 * jnp.square(rows["at"] - parameters["guess"]), rows["weight"])
    return error, {"seen": rows["at"].sum(), "kl": jnp.abs(parameters["guess"] - START["guess"])}


def passes(**settings: Any) -> Any:
    optimiser = make_optimiser(100.0)
    run = jax.jit(
        lambda rows, key: gradient_passes(
            distance, optimiser, START, optimiser.init(START), rows, key, learning_rate=RATE, **settings
        )
    )
    return run(ROWS, jax.random.PRNGKey(0))


def test_every_row_is_seen_once_in_every_pass() -> None:
    """The rows sum to 66, whichever way they are shuffled into minibatches."""
    _, _, metrics = passes(epochs=3, minibatches=4)
    assert float(metrics["seen"]) * 4 == pytest.approx(66)
    assert float(metrics["passes"]) == 3


def test_many_passes_find_the_best_guess() -> None:
    parameters, _, metrics = passes(epochs=300, minibatches=1)
    counting = ROWS["at"][ROWS["weight"] > 0]
    assert float(parameters["guess"]) == pytest.approx(counting.mean(), abs=0.02)
    assert float(metrics["gradient_norm"]) > 0


def test_passes_stop_once_the_policy_moved_far_enough() -> None:
    """Each step moves by about 0.1: the fifth minibatch sees 0.4 and is the first not to count."""
    parameters, _, metrics = passes(epochs=10, minibatches=2, largest_kl=0.35)
    assert float(parameters["guess"]) == pytest.approx(2.4, abs=0.02)
    assert float(metrics["passes"]) == 2.5


def test_a_step_gathered_in_parts_is_the_step_on_all_rows() -> None:
    optimiser = make_optimiser(100.0)

    def stepped(parts: int) -> Any:
        state = optimiser.init(START)
        return summed_step(
            distance, optimiser, START, state, ROWS, ROWS["weight"], learning_rate=RATE, parts=parts
        )

    whole, parted = jax.jit(lambda: (stepped(1), stepped(4)))()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), whole[:2], parted[:2])
    # The mean of the rows that count is 5.5: the gradient at 2 is -3.5.
    assert float(parted[2]["gradient_norm"]) == pytest.approx(3.5)
    assert float(parted[2]["loss"]) == pytest.approx(float(whole[2]["loss"]))


def test_long_gradients_are_shortened() -> None:
    optimiser = make_optimiser(0.5)
    _, state = optimiser.update({"guess": jnp.float32(40.0)}, optimiser.init(START), jnp.float32(0.1))
    # Adam remembers a tenth of the gradient it was given.
    assert float(state[1].mu["guess"]) == pytest.approx(0.05)


def test_agents_share_the_weight_of_their_row() -> None:
    values = jnp.array([[1.0, 3.0], [10.0, 20.0], [100.0, 100.0]])
    assert float(weighted_mean(values, jnp.array([1.0, 1.0, 0.0]))) == pytest.approx(8.5)
    assert float(weighted_mean(values, jnp.zeros(3))) == 0
