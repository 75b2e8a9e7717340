"""Networks of all encoders: silence is the base rule, no dead parameter, padding and order do not count."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.stream_autoscaling.sure_snapshots import (
    SMALL,
    compiled,
    observation_of,
    random_action,
    random_graph,
    random_seen,
    random_view,
)

from trimtab.core.bundle import flatten
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.layers import dense, leaky
from trimtab.stream_autoscaling.sure.actions import decode_action
from trimtab.stream_autoscaling.sure.agent import sure_agent
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import ENCODERS, encoder_of
from trimtab.stream_autoscaling.sure.features import View
from trimtab.stream_autoscaling.sure.network import answers, inputs_of, new_network
from trimtab.stream_autoscaling.sure.policy import best_action
from trimtab.stream_autoscaling.sure.sampling import subgraphs

# Its factors of the graph depend on the order of vertices; see `features.couplings_of`.
IN_ORDER = [name for name in ENCODERS.names() if name != "ccrnn"]


def of(name: str, **changes) -> Design:
    return replace(SMALL, history_encoder=name, **changes)


def lively(design: Design, seed: int = 0):
    """Parameters as drawn, but with heads that say something."""
    parameters = new_network(design, seed)
    for head in ("score", "commit"):
        parameters["actor"][head][-1]["weights"] *= 40
    return parameters


@pytest.mark.parametrize("name", ENCODERS.names())
def test_a_network_that_says_nothing_is_the_base_rule(name: str) -> None:
    design = of(name)
    random = np.random.default_rng(0)
    graph = random_graph(random, [3, 6, 9])
    parameters = new_network(design, 0)
    for head in ("score", "commit"):
        for array in parameters["actor"][head][-1].values():
            array[:] = 0
    for steps in (1, 3, 12):
        snapshot, seen = random_seen(random, graph, design, steps=steps)
        action = best_action(parameters, seen.view, design)
        wanted = np.where(seen.suggestion.commits[:, None], seen.suggestion.parallelism, snapshot.parallelism)
        assert np.array_equal(decode_action(action, snapshot, seen.offer, design), wanted)


@pytest.mark.parametrize("name", ENCODERS.names())
def test_numpy_and_jax_decide_alike(name: str) -> None:
    design = of(name, suggestion_score=0.1, commit_score=0.1)
    parameters = lively(design)
    best = compiled(sure_agent(design).best)
    kinds = set()
    for seed in range(4):
        view = random_view([2, 5, 9, 9] * 8, design, steps=(2, 5, 8, 20)[seed], seed=seed)
        ours = best_action(parameters, view, design)
        theirs = np.asarray(best(parameters, observation_of(view)))
        assert np.array_equal(ours[:, 0], theirs[:, 0])
        exists = view.exists
        assert np.array_equal(ours[:, 1:][exists], theirs[:, 1:][exists])
        kinds |= set(ours[:, 1:][exists].tolist())
    assert len(kinds) >= 3  # it is not all "as suggested"


@pytest.mark.parametrize("name", ENCODERS.names())
def test_padding_changes_nothing(name: str) -> None:
    design = of(name)
    parameters = lively(design)
    found = []
    for padded in (0, 11):
        random = np.random.default_rng(3)
        graph = random_graph(random, [4, 6])
        view = random_seen(random, graph, design, steps=9)[1].view
        found.append(answers(parameters, _padded(view, padded), design, PLAIN))
    plain, wide = found
    assert wide.choices[:, :6] == pytest.approx(plain.choices, abs=2e-4)
    assert wide.commit == pytest.approx(plain.commit, abs=2e-4)


def _padded(view: View, vertices: int) -> View:
    """The same view with room for more vertices than there are."""
    more = max(0, vertices - view.exists.shape[1])
    axes = {
        "window": (2,),
        "exists": (1,),
        "hops": (1, 2),
        "coupling": (1,),
        "parallelism": (1,),
        "needed": (1,),
    }
    axes |= {"choices": (1,), "mask": (1,)}

    def wide(name: str, array: np.ndarray) -> np.ndarray:
        return np.pad(array, [(0, more if axis in axes.get(name, ()) else 0) for axis in range(array.ndim)])

    padded = View(*(wide(name, np.asarray(array)) for name, array in view._asdict().items()))
    padded.mask[:, view.exists.shape[1] :, 0] = True
    return padded


@pytest.mark.parametrize("name", [name for name in IN_ORDER if name != "random"])
def test_the_order_of_vertices_changes_nothing(name: str) -> None:
    design = of(name)
    parameters = lively(design)
    view = random_view([7, 7, 7], design, seed=5)
    order = np.random.default_rng(0).permutation(7)
    moved = view._replace(
        window=view.window[:, :, order],
        exists=view.exists[:, order],
        hops=view.hops[:, order][:, :, order],
        coupling=view.coupling[:, order],
        parallelism=view.parallelism[:, order],
        needed=view.needed[:, order],
        choices=view.choices[:, order],
        mask=view.mask[:, order],
    )
    before, after = (answers(parameters, one, design, PLAIN) for one in (view, moved))
    assert after.choices == pytest.approx(before.choices[:, order], abs=2e-4)
    assert after.commit == pytest.approx(before.commit, abs=2e-4)


@pytest.mark.parametrize("name", ENCODERS.names())
def test_what_was_before_the_beginning_is_not_seen(name: str) -> None:
    """A ring may still hold another episode's intervals: they are not present."""
    design = of(name)
    parameters = lively(design)
    view = random_view([6, 6], design, steps=4)
    dirty = view._replace(window=np.where(view.present[..., None, None], view.window, np.float16(7)))
    before, after = (answers(parameters, one, design, PLAIN) for one in (view, dirty))
    assert np.array_equal(before.choices, after.choices) and np.array_equal(before.commit, after.commit)


@pytest.mark.parametrize("name", ENCODERS.names())
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """Of the loss of a policy gradient with the lower bound, over actor and critic."""
    design = of(name, information_weight=0.1, divergence_weight=0.1, surprise_weight=0.1)
    agent = sure_agent(design)
    view = random_view([9, 9, 6] * 4, design, seed=1)
    observation = {key: jnp.asarray(array) for key, array in observation_of(view).items()}
    observation["future"] = jnp.ones((12, 8))
    parameters = jax.tree.map(jnp.asarray, lively(design))
    action = random_action(view, commit=False)

    def loss(parameters):
        judged = agent.judge(parameters, observation, action)
        bound = 0.0 if judged.auxiliary is None else judged.auxiliary.mean()
        return (
            -(judged.log_prob.sum(-1) * jnp.linspace(-1, 1, 12)).mean()
            + jnp.square(judged.value - 1).mean()
            + bound
        )

    gradients = flatten(jax.tree.map(np.asarray, compiled(jax.grad(loss))(parameters)))
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())
    dead = [key for key, gradient in gradients.items() if not np.abs(gradient).max() > 0]
    assert dead == []


@pytest.mark.parametrize("through", [True, False])
def test_the_reward_alone_moves_theta_and_phi(through: bool) -> None:
    """Without any term of the lower bound; switched off, as in the published code, nothing reaches them."""
    design = of(
        "sampler",
        straight_through=through,
        information_weight=0.0,
        divergence_weight=0.0,
        surprise_weight=0.0,
    )
    agent = sure_agent(design)
    view = random_view([9, 9, 6] * 4, design, seed=1)
    observation = {key: jnp.asarray(array) for key, array in observation_of(view).items()}
    parameters = jax.tree.map(jnp.asarray, lively(design))
    action = random_action(view)

    def gain(parameters):
        return (agent.judge(parameters, observation, action).log_prob.sum(-1) * jnp.linspace(-1, 1, 12)).sum()

    encoder = compiled(jax.grad(gain))(parameters)["actor"]["encoder"]
    latent = ("time_query", "time_key", "time_spread", "age", "space_query", "space_key", "space_spread")
    for part in latent:
        assert bool(jnp.abs(encoder[part]["weights"]).max() > 1e-7) is through, part
    assert bool(jnp.abs(encoder["hop_score"]).max() > 1e-7) is through


def test_a_decision_is_judged_as_it_was_made() -> None:
    """Luck is part of what is observed: the same subgraph, hence a ratio of exactly 1 before any update."""
    design = of("sampler")
    agent = sure_agent(design)
    view = random_view([9, 7] * 6, design, seed=2)
    observation = observation_of(view)
    parameters = lively(design)
    judge = compiled(agent.judge)
    acted = compiled(agent.act)(parameters, observation, jax.random.key(1))
    judged = judge(parameters, observation, acted.action)
    assert np.asarray(judged.log_prob) == pytest.approx(np.asarray(acted.log_prob), abs=1e-4)
    other = {**observation, "luck": observation["luck"] + np.uint32(1)}
    assert np.asarray(judge(parameters, other, acted.action).log_prob) != pytest.approx(
        np.asarray(acted.log_prob), abs=1e-4
    )


def test_who_holds_has_chosen_nothing() -> None:
    """log p = log gate + gate * sum over vertices: of two holding answers the choices do not matter."""
    design = of("gru")
    judge, parameters = compiled(sure_agent(design).judge), lively(design)
    view = random_view([5, 4], design)
    observation = observation_of(view)
    hold = np.zeros((2, 6), np.int32)
    other = hold.copy()
    other[:, 1:] = np.where(view.mask, np.arange(6), -1).max(-1)
    by_hand = answers(parameters, view, design, PLAIN)
    one, two = (judge(parameters, observation, action).log_prob.sum(-1) for action in (hold, other))
    assert np.asarray(one) == pytest.approx(np.asarray(two))
    assert np.asarray(one) == pytest.approx(-np.log1p(np.exp(by_hand.commit)), abs=1e-5)
    hold[:, 0] = 1
    shown = np.where(view.mask, by_hand.choices, -np.inf)
    log_probs = shown[..., 0] - np.log(np.exp(shown).sum(-1))
    wanted = -np.log1p(np.exp(-by_hand.commit)) + np.where(view.exists, log_probs, 0).sum(-1)
    found = judge(parameters, observation, hold).log_prob.sum(-1)
    assert np.asarray(found) == pytest.approx(wanted, abs=1e-4)


def test_picks_are_counted_masked_and_near() -> None:
    """k1 moments that were seen, k2 neighbours within reach of each; a short history gives fewer."""
    for design in (of("sampler"), of("sampler", downstream_only=True)):
        parameters = new_network(design, 0)["actor"]["encoder"]
        view = random_view([9, 6], design, steps=3)
        inputs = inputs_of(view, np)
        hidden = leaky(dense(parameters["embed"], inputs.window), np)
        for draws in (False, True):
            found = subgraphs(parameters, hidden, inputs, design, PLAIN, draws)
            moments, members = found.moments, found.members
            assert moments.positions.shape == (2, 9, 4) and members.positions.shape == (2, 9, 4, 2)
            assert (moments.real.sum(-1) == np.where(view.exists, 3, 0)).all()
            assert (moments.positions[moments.real] >= design.history - 3).all()
            reach = view.hops > 0 if design.downstream_only else view.hops != 0
            there = reach[np.arange(2)[:, None, None, None], np.arange(9)[:, None, None], members.positions]
            assert there[members.real & moments.real[..., None]].all()
            wanted = np.minimum(reach.sum(-1), 2)[..., None] * np.ones(4)
            assert (members.real.sum(-1) == wanted)[moments.real].all()


def test_a_job_of_one_vertex_and_one_without_history_are_decided() -> None:
    for name in ENCODERS.names():
        design = of(name)
        view = random_view([1], design, steps=1)
        view = view._replace(present=view.present & False)
        action = best_action(new_network(design, 0), view, design)
        assert action.shape == (1, 2) and action[0, 1] in range(6)


def test_published_sizes_and_actions() -> None:
    """Means within -1 and 1; log-density summed over the vertices there are, padding left out."""
    design = Design(
        actions="gaussian",
        history=15,
        hidden=50,
        layers=3,
        hops=3,
        snapshots=10,
        neighbours=3,
        reach=1.0,
        base_memory_s=840.0,
        base_recent_s=840.0,
        base_window_s=180.0,
    )
    agent, parameters = sure_agent(design), new_network(design, 0)
    view = random_view([4, 6], design)
    observation = observation_of(view)
    best = np.asarray(compiled(agent.best)(parameters, observation))
    assert best.shape == (2, 6) and np.abs(best).max() <= 1 and not best[0, 4:].any()
    assert best == pytest.approx(best_action(parameters, view, design), abs=1e-5)
    judge = compiled(agent.judge)
    centre = answers(parameters, view, design, PLAIN, draws=True).mean
    moved = np.array(centre)
    moved[0, 4:] = 99.0
    for action in (centre, moved):
        log_prob = np.asarray(judge(parameters, observation, action).log_prob)
        assert log_prob == pytest.approx(np.array([4, 6]) * (0.5 - 0.9189385), abs=1e-3)


def test_doubt_flattens_what_is_said_beside_the_head_start() -> None:
    design = of("gru")
    agent, parameters = sure_agent(design), lively(design)
    assert agent.doubting is not None
    view = random_view([5, 4], design)
    sure, unsure = (
        answers(one, view, design, PLAIN) for one in (parameters, agent.doubting(parameters, 1e-4))
    )
    base = np.where(view.base_commits, 3.0, -3.0)
    assert unsure.commit == pytest.approx(base, abs=0.05)
    assert sure.commit != pytest.approx(base, abs=0.05)


def test_designs_that_cannot_be_are_refused() -> None:
    with pytest.raises(SettingsError, match="snapshots = 10 of a history of 4"):
        Design(history=4)
    with pytest.raises(SettingsError, match="hidden = 0"):
        Design(hidden=0)
    with pytest.raises(TrimtabError, match="no history encoder 'transformer'"):
        encoder_of("transformer")
