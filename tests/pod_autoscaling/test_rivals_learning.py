"""What rivals learn with: gradients against differences, known answers, and agents that do not mix."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.core.errors import BundleError
from trimtab.pod_autoscaling.rivals.forecasting import arima_forecast
from trimtab.pod_autoscaling.rivals.learning import (
    Luck,
    Network,
    Replay,
    Table,
    bins_of,
    gaussian_slopes,
    softmax,
)


def some_network(agents: int = 1) -> Network:
    one = Network.fresh((3, 5, 4, 2), seed=4)
    return Network.of(one.tensors("it"), "it", agents=agents)


def test_gradients_are_those_of_the_loss() -> None:
    network, inputs = some_network(), Luck(1).uniform(1, 7, 3)
    aims = Luck(2).uniform(1, 7, 2)

    def loss() -> float:
        return float(0.5 * ((network(inputs) - aims) ** 2).sum())

    steps = network.steps(inputs)
    found = network.gradients(steps, steps[-1] - aims)
    for values, gradient in zip((*network.weights, *network.biases), found, strict=True):
        place = (0, values.shape[1] - 1, 0)
        here, tiny = values[place], 1e-6
        values[place] = here + tiny
        above = loss()
        values[place] = here - tiny
        below = loss()
        values[place] = here
        assert gradient[place] == pytest.approx((above - below) / (2 * tiny), rel=1e-5, abs=1e-8)


def test_slopes_of_a_gaussian_are_those_of_its_likelihood() -> None:
    answers, came = np.array([[[0.3, -0.4]]]), np.array([[[0.9]]])

    def loss(values: np.ndarray) -> float:
        return float(
            values[0, 0, 1] + 0.5 * ((came[0, 0, 0] - values[0, 0, 0]) / np.exp(values[0, 0, 1])) ** 2
        )

    slopes = gaussian_slopes(answers, came)
    for place in range(2):
        step = np.zeros_like(answers)
        step[0, 0, place] = 1e-6
        assert slopes[0, 0, place] == pytest.approx(
            (loss(answers + step) - loss(answers - step)) / 2e-6, rel=1e-6
        )


def test_only_the_agents_that_are_named_learn() -> None:
    network, inputs = some_network(agents=3), Luck(1).uniform(3, 7, 3)
    before = network(inputs)
    steps = network.steps(inputs)
    network.descend(steps, np.ones_like(steps[-1]), rate=0.01, which=np.array([True, False, True]))
    moved = np.abs(network(inputs) - before).max((1, 2))
    assert moved[0] > 0 and moved[1] == 0 and moved[2] > 0


def test_agents_do_not_mix() -> None:
    """Three agents at once learn what one of them learns alone."""
    three, alone = some_network(agents=3), some_network()
    inputs, aims = Luck(1).uniform(3, 7, 3), Luck(2).uniform(3, 7, 2)
    for _ in range(20):
        steps = three.steps(inputs)
        three.descend(steps, steps[-1] - aims, rate=0.01)
        steps = alone.steps(inputs[1:2])
        alone.descend(steps, steps[-1] - aims[1:2], rate=0.01)
    np.testing.assert_allclose(three(inputs)[1], alone(inputs[1:2])[0], rtol=1e-9)


def test_the_first_step_of_adam_is_as_long_as_its_rate() -> None:
    network = some_network()
    before = network.biases[-1].copy()
    steps = network.steps(np.ones((1, 1, 3)))
    network.descend(steps, np.array([[[0.5, -0.25]]]), rate=0.01)
    np.testing.assert_allclose(network.biases[-1] - before, [[[-0.01, 0.01]]], rtol=1e-5)


def test_a_network_that_is_not_there() -> None:
    with pytest.raises(BundleError, match="no network 'actor' in the bundle; practise again"):
        Network.of({}, "actor", agents=1)


def test_a_table_of_another_shape() -> None:
    small = Table.fresh(3, 2).tensors()
    with pytest.raises(
        BundleError, match=r"table 'values' of the bundle is \(1, 3, 2\), and here \(1, 4, 2\)"
    ):
        Table.of(small, 4, 2, agents=1)
    with pytest.raises(BundleError, match="is nothing, and here"):
        Table.of({}, 4, 2, agents=1)
    assert Table.of(small, 3, 2, agents=5).values.shape == (5, 3, 2)


def test_following_another_network() -> None:
    leader, follower = some_network(), some_network().copied()
    leader.weights[0] += 1.0
    follower.follow(leader, 0.25)
    np.testing.assert_allclose(leader.weights[0] - follower.weights[0], 0.75)


def test_a_memory_keeps_the_newest() -> None:
    memory = Replay(agents=1, capacity=4, width=1, seed=0)
    for number in range(10):
        memory.add(np.array([[[float(number)]]]), np.array([[number != 8]]))
    assert memory.lengths.tolist() == [4]
    assert set(memory.draw(200).ravel().tolist()) == {5.0, 6.0, 7.0, 9.0}


def test_a_table_averages_what_it_is_told_at_once() -> None:
    table = Table(np.zeros((1, 1, 2)), np.full((1, 1, 2), 1e9))
    twice = np.zeros(2, np.int64)
    table.learn(twice, twice, twice, np.array([1.0, 3.0]), least_rate=0.5)
    # Two halves of the way to the mean of 2: 0.75 of it.
    assert table.values[0, 0].tolist() == [1.5, 0.0]


def test_chances_and_bins() -> None:
    np.testing.assert_allclose(softmax(np.array([[0.0, np.log(3.0)]])), [[0.25, 0.75]])
    assert bins_of(np.array([-1.0, 0.0, 5.0]), (0.0, 1.0)).tolist() == [0, 1, 2]


def test_luck_does_not_repeat_itself_and_can_be_repeated() -> None:
    one, other = Luck(5), Luck(5)
    first = one.uniform(4)
    assert (first == other.uniform(4)).all()
    assert (first != one.uniform(4)).any()
    assert set(one.integers(3, 500).tolist()) == {0, 1, 2}


def test_an_even_trend_is_drawn_out() -> None:
    rate = np.linspace(100, 290, 20)[None]
    found = float(arima_forecast(rate, np.ones((1, 20), bool))[0])
    # Changes of 10 that repeat themselves; a prior of four unconnected ones holds back a little.
    assert 297 < found < 300


def test_noise_is_not_drawn_out() -> None:
    rate = 100 + 10 * np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    # After a rise of 20 comes a fall of 20.
    assert 90 <= float(arima_forecast(rate, np.ones((1, 20), bool))[0]) < 100
