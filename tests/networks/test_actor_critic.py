"""Actors and critics: hand-made numbers, FIRM's architecture, numpy = JAX, bundles."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.core.bundle import Bundle, flatten, load_bundle, save_bundle, unflatten
from trimtab.core.errors import SettingsError
from trimtab.networks.actor_critic import (
    ActorCriticDesign,
    action_values,
    actor_actions,
    new_actor,
    new_critic,
    with_moments,
)

TINY = ActorCriticDesign(observation=1, actions=1, hidden=(2,))
FIRM = ActorCriticDesign(
    observation=10,
    actions=15,
    hidden=(40, 40),
    normalisation="batch",
    action_enters=1,
    critics=1,
    initialisation="firm",
)


def layer(weights, bias=0.0):
    weights = np.array(weights, np.float32)
    return {"weights": weights, "bias": np.full(weights.shape[1], bias, np.float32)}


def test_an_actor_with_layer_normalisation_by_hand() -> None:
    """Of (3, 1) layer normalisation makes (1, -1), the rectifier (1, 0), the last layer 0.5."""
    norm = {"gain": np.ones(2, np.float32), "shift": np.zeros(2, np.float32)}
    actor = {"layers": [layer([[3, 1]])], "norms": [norm], "last": layer([[0.5], [9]])}
    assert actor_actions(actor, np.ones((1, 1)), None, TINY, np) == pytest.approx(np.tanh(0.5), abs=1e-4)


def test_a_critic_sees_the_action_from_the_layer_on_that_it_enters() -> None:
    """(x, a) = (1, 2): entering first relu(x + a) = 3; entering second, relu(x) + a = 3, then times 2."""
    plain = replace(TINY, hidden=(1,), normalisation="none")
    first = {"layers": [layer([[1], [1]])], "last": layer([[10]])}
    x, a = np.ones((1, 1), np.float32), np.full((1, 1), 2, np.float32)
    assert action_values(first, x, a, None, None, plain, np) == pytest.approx(30)
    second = {"layers": [layer([[1]]), layer([[2], [2]])], "last": layer([[10]])}
    later = replace(plain, hidden=(1, 1), action_enters=1)
    assert action_values(second, x, a, None, None, later, np) == pytest.approx(60)


def test_context_and_what_only_a_simulator_knows_stand_beside_the_observation() -> None:
    design = replace(TINY, context=1, privileged=1, hidden=(1,), normalisation="none")
    critic = {"layers": [layer([[1], [10], [100], [1000]])], "last": layer([[1]])}
    one = np.ones((1, 1), np.float32)
    # The order of inputs is observation, context, privileged, action.
    assert action_values(critic, 4 * one, one, 3 * one, 2 * one, design, np) == pytest.approx(1234)
    blind = replace(design, privileged=0)
    critic["layers"] = [layer([[1], [10], [1000]])]
    assert action_values(critic, 4 * one, one, 3 * one, 2 * one, blind, np) == pytest.approx(1034)


def test_batch_normalisation_goes_by_the_batch_in_learning_and_by_running_means_when_served() -> None:
    """Inputs 1 and 3: mean 2, variance 1 of the rows, 2 of the population; a tenth of each is folded in."""
    design = replace(TINY, hidden=(1,), normalisation="batch")
    actor = new_actor(np.random.default_rng(0), design)
    actor |= {"layers": [layer([[1]])], "last": layer([[1]])}
    rows = np.array([[1], [3]], np.float32)
    moments = []
    learned = actor_actions(actor, rows, None, design, np, moments)
    # The input becomes (-1, 1), rectified (0, 1), and again (-1, 1).
    assert learned.ravel() == pytest.approx(np.tanh([-1, 1]), abs=1e-4)
    assert [float(part.item()) for part in moments[0]] == pytest.approx([2, 2])
    assert [float(part.item()) for part in moments[1]] == pytest.approx([0.5, 0.5], abs=1e-4)
    after = with_moments(actor, moments)
    assert after["input"]["mean"] == pytest.approx(0.2)
    assert after["input"]["variance"] == pytest.approx(0.9 + 0.1 * 2)
    assert after["norms"][0]["mean"] == pytest.approx(0.05, abs=1e-5)
    assert actor["input"]["mean"] == 0  # the old tree is left alone
    # Served with the running means: (3 - 0.2) / sqrt(1.1), less 0.05, over sqrt(0.9 + 0.05).
    served = actor_actions(after, np.array([[3.0]], np.float32), None, design, np)
    assert served == pytest.approx(np.tanh((2.8 / np.sqrt(1.1) - 0.05) / np.sqrt(0.95)), abs=1e-3)


def test_firm_has_the_layers_and_the_first_weights_of_its_code() -> None:
    random = np.random.default_rng(0)
    actor, critic = new_actor(random, FIRM), new_critic(random, FIRM)
    assert [one["weights"].shape for one in actor["layers"]] == [(10, 40), (40, 40)]
    assert actor["last"]["weights"].shape == (40, 15)
    assert len(actor["norms"]) == 2 and actor["input"]["mean"].shape == (10,)
    assert [one["weights"].shape for one in critic["layers"]] == [(10, 40), (55, 40)]
    assert len(critic["norms"]) == 1 and "input" not in critic  # after its first layer only
    for network in (actor, critic):
        for one in network["layers"]:
            assert 0.14 < abs(one["weights"]).max() <= 1 / np.sqrt(40)
        assert 0.0025 < abs(network["last"]["weights"]).max() <= 0.003
        assert 0.05 < abs(network["last"]["bias"]).max() <= 1 / np.sqrt(40)


DESIGNS = {
    "ours": ActorCriticDesign(observation=7, actions=3, context=4, privileged=2, hidden=(16, 16)),
    "plain": ActorCriticDesign(observation=7, actions=3, hidden=(16,), normalisation="none"),
    "firm": replace(FIRM, observation=7, actions=3),
    "shares": replace(FIRM, observation=7, actions=3, output="softmax"),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_numpy_and_jax_give_the_same_numbers(name: str) -> None:
    design, random = DESIGNS[name], np.random.default_rng(1)
    actor, critic = new_actor(random, design), new_critic(random, design)
    draws = [random.normal(size=(32, size)).astype(np.float32) for size in (7, 3, 4, 2)]
    observation, action, context, privileged = draws
    context = context if design.context else None
    if design.normalisation == "batch":
        moments = []
        actor_actions(actor, 3 + 2 * observation, context, design, np, moments)
        actor = with_moments(actor, moments)
    actor["last"]["weights"] *= 100
    ours = actor_actions(actor, observation, context, design, np)
    theirs = actor_actions(actor, jnp.asarray(observation), context, design, jnp)
    assert ours == pytest.approx(np.asarray(theirs), abs=1e-5)
    assert ours.std() > 0.02
    if design.output == "softmax":
        assert ours.sum(axis=1) == pytest.approx(1, abs=1e-5) and ours.min() >= 0
    values = action_values(critic, observation, action, context, privileged, design, np)
    also = action_values(critic, jnp.asarray(observation), action, context, privileged, design, jnp)
    assert values == pytest.approx(np.asarray(also), abs=1e-5) and values.shape == (32,)


def test_a_bundle_brings_the_same_actor_back(tmp_path: Path) -> None:
    design = DESIGNS["firm"]
    actor = new_actor(np.random.default_rng(2), design)
    bundle = Bundle("try", "pod_autoscaling", "firm", {}, flatten({"actor": actor}))
    again = unflatten(load_bundle(save_bundle(tmp_path / "try", bundle)).tensors)
    rows = np.random.default_rng(3).normal(size=(4, 7)).astype(np.float32)
    before = actor_actions(actor, rows, None, design, np)
    assert (actor_actions(again["actor"], rows, None, design, np) == before).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"actions": 0}, "actions = 0 of an actor"),
        ({"hidden": ()}, "give at least one layer's size"),
        ({"action_enters": 2}, "action_enters = 2, and there are 2 hidden layers"),
    ],
)
def test_impossible_designs_are_refused(changes, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ActorCriticDesign(**{"observation": 1, "actions": 1, **changes})
