"""The agents of DAS: what they sample they judge alike, never what is masked; JAX decides as numpy does."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from tests.gpu_scheduling.das.random_views import (
    hasty,
    mapped,
    moved_network,
    padded,
    random_views,
    small_design,
)

from trimtab.core.bundle import flatten
from trimtab.gpu_scheduling.das.agent import das_agent, lone_cholesky, lone_solve, ranking_log_prob
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.network import encode, order_scores, place_scores
from trimtab.gpu_scheduling.das.network_policy import best_choice, mean_scores
from trimtab.gpu_scheduling.das.view import View
from trimtab.networks.node_gaussian_process import log_probability

VIEWS, WINDOW, MACHINES = 200, 6, 7
FLAVOURS = ("scores", "choices", "places")
"""The last are choices of those who hear of places."""
NEVER = -1e9


class Made(NamedTuple):
    design: Design
    agent: Any
    network: Any
    view: View
    observation: dict[str, Any]
    act: Any
    judge: Any
    acted: Any
    judged: Any
    slopes: Any


def observed(view: View) -> dict[str, Any]:
    return {name: jnp.asarray(values) for name, values in view._asdict().items()}


def with_an_empty_one(view: View) -> View:
    """The last of the views has no job at all, and nothing to do but hold."""
    for name in ("jobs", "waits", "fits", "pairs"):
        getattr(view, name)[-1] = 0
    view.may_hold[-1] = True
    return view


def design_of(flavour: str, **changes: Any) -> Design:
    if flavour == "places":
        changes |= {"places": True, "process": False}
    return small_design(actions="choices" if flavour == "places" else flavour, **changes)


@cache
def made(actions: str) -> Made:
    """One compilation of acting and one of judging for all tests of a flavour."""
    design = design_of(actions)
    agent, network, view = das_agent(design), moved_network(design), with_an_empty_one(random_views(VIEWS))
    observation = observed(view)

    def told(parameters: Any, observation: Any, action: Any) -> tuple[Any, Any]:
        judged = agent.judge(parameters, observation, action)
        return judged.log_prob.sum() + 0.1 * judged.entropy.sum() + judged.value.sum(), judged

    act, judge = hasty(agent.act), hasty(jax.value_and_grad(told, has_aux=True))
    acted = act(network, observation, jax.random.key(0))
    (_, judged), slopes = judge(network, observation, acted.action)
    return Made(design, agent, network, view, observation, act, judge, acted, judged, slopes)


def rankings(action: Any) -> np.ndarray:
    return np.asarray(action)[:, 1:]


def one(view: View, row: int) -> View:
    return mapped(lambda values: values[row : row + 1], view)


@pytest.mark.parametrize("actions", FLAVOURS)
def test_what_is_sampled_is_judged_alike(actions: str) -> None:
    case = made(actions)
    assert case.acted.log_prob.shape == case.judged.entropy.shape == (VIEWS, 2)
    assert np.asarray(case.judged.log_prob) == pytest.approx(np.asarray(case.acted.log_prob), abs=1e-4)
    assert np.asarray(case.judged.value) == pytest.approx(np.asarray(case.acted.value), abs=1e-5)
    parts = 1 + MACHINES if actions != "scores" else WINDOW + WINDOW * MACHINES
    assert case.acted.action.shape == (VIEWS, parts)
    assert case.acted.action.dtype == (jnp.int32 if actions != "scores" else jnp.float32)


def test_no_job_that_does_not_fit_and_no_machine_without_room_is_chosen() -> None:
    case = made("choices")
    for row, choice in enumerate(np.asarray(case.acted.action[:, 0])):
        ranking = rankings(case.acted.action)[row]
        assert sorted(ranking) == list(range(MACHINES))
        if choice == WINDOW:
            assert case.view.may_hold[row]
            assert np.asarray(case.acted.log_prob)[row, 1] == np.asarray(case.judged.entropy)[row, 1] == 0
            continue
        assert case.view.fits[row, choice] and case.view.waits[row, choice]
        has_room = case.view.pairs[row, choice, :, 0] > 0
        assert has_room[ranking[: has_room.sum()]].all()


def test_scores_of_no_job_and_no_machine_come_last() -> None:
    case = made("scores")
    action = np.asarray(case.acted.action)
    of_machines = action[:, WINDOW:].reshape(VIEWS, WINDOW, MACHINES)
    there = case.view.waits[:, :, None] & case.view.real[:, None, :]
    assert (action[:, :WINDOW][~case.view.waits] == NEVER).all() and (of_machines[~there] == NEVER).all()
    assert abs(action[:, :WINDOW][case.view.waits]).max() < 100 and abs(of_machines[there]).max() < 100


def test_a_ranking_is_as_likely_as_the_picks_the_gang_needs() -> None:
    """Of all rankings of four machines; the third has no room, and any two of the others hold the gang."""
    scores = np.array([0.3, -1.0, 5.0, 0.8])
    room = np.array([0.5, 0.6, 0.0, 0.5])
    weights = np.where(room > 0, np.exp(scores), 0)
    total = 0.0
    for ranking in itertools.permutations(range(4)):
        first, second = [machine for machine in ranking if room[machine] > 0][:2]
        chance = weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first])
        found = np.exp(ranking_log_prob(jnp.asarray(scores), jnp.asarray(room), jnp.asarray(ranking)))
        assert float(found) == pytest.approx(chance, rel=1e-5)
        total += chance
    # Each pair of picks stands for the orders of the third, times four places of the one without room.
    assert total == pytest.approx(4)


def test_choices_are_drawn_as_often_as_judged() -> None:
    """Many draws for one view: shares of jobs, and of rankings, are those of their log-probabilities."""
    case = made("choices")
    several = np.minimum(case.view.fits.sum(-1), 2) + case.view.may_hold + (case.view.real.sum(-1) > 2)
    row = int(np.argmax(several))
    many = observed(mapped(lambda values: np.repeat(values, VIEWS, axis=0), one(case.view, row)))
    drawn = [case.act(case.network, many, jax.random.key(seed)) for seed in range(40)]
    action = np.concatenate([acted.action for acted in drawn])
    chances = np.exp(np.concatenate([acted.log_prob for acted in drawn]))
    assert len(np.unique(action[:, 0])) > 2
    for choice in np.unique(action[:, 0]):
        chosen = action[:, 0] == choice
        assert chosen.mean() == pytest.approx(chances[chosen, 0].mean(), abs=0.02)
        first, counts = np.unique(action[chosen, 1], return_counts=True)
        alone = case.view.pairs[row, choice, :, 0] >= 1 if choice < WINDOW else np.zeros(MACHINES)
        for machine, count in zip(first, counts, strict=True):
            if alone[machine]:
                likely = chances[chosen & (action[:, 1] == machine), 1].mean()
                assert count / chosen.sum() == pytest.approx(likely, abs=5 / np.sqrt(chosen.sum()))


def test_densities_of_scores_are_those_of_normal_draws() -> None:
    case = made("scores")
    known = encode(case.network, case.view, case.design, np)
    mean = order_scores(case.network, known, case.design, np)
    gaussian = place_scores(case.network, case.view, known, case.design, np)
    action = np.asarray(case.acted.action)
    deviation = np.exp(3 * np.tanh(case.network["actor"]["order_log_deviation"] / 3))
    of_jobs = norm.logpdf(action[:, :WINDOW], mean, deviation)
    affinities = action[:, WINDOW:].reshape(gaussian.mean.shape)
    of_machines = log_probability(gaussian, affinities, np)
    found = np.asarray(case.judged.log_prob)
    assert found[:, 0] == pytest.approx((of_jobs * case.view.waits).sum(-1), rel=1e-4, abs=1e-3)
    wanted = np.where(case.view.waits, of_machines, 0).sum(-1)
    assert found[:, 1] == pytest.approx(wanted, rel=1e-4, abs=1e-2)
    drawn = ((action[:, :WINDOW] - mean) / deviation)[case.view.waits]
    assert abs(drawn.mean()) < 0.15 and drawn.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("actions", FLAVOURS)
def test_padding_changes_no_log_probability(actions: str) -> None:
    case = made(actions)
    design = design_of(actions, window=WINDOW + 2)
    network = jax.tree.map(np.asarray, case.network)
    table = network["actor"]["place_in_queue"]
    network["actor"] = {**network["actor"], "place_in_queue": np.concatenate([table, table[:2]])}
    wider = padded(case.view, jobs=2, machines=3)
    action = np.asarray(case.acted.action)
    if actions != "scores":
        hold = np.where(action[:, :1] == WINDOW, WINDOW + 2, action[:, :1])
        extra = np.tile(np.arange(MACHINES, MACHINES + 3), (VIEWS, 1))
        action = np.concatenate([hold, extra, action[:, 1:]], axis=1)
    else:
        places = action[:, WINDOW:].reshape(VIEWS, WINDOW, MACHINES)
        places = np.pad(places, [(0, 0), (0, 2), (0, 3)], constant_values=7.0)
        jobs = np.pad(action[:, :WINDOW], [(0, 0), (0, 2)], constant_values=7.0)
        action = np.concatenate([jobs, places.reshape(VIEWS, -1)], axis=1)
    judged = hasty(das_agent(design).judge)(network, observed(wider), jnp.asarray(action))
    for ours, theirs in zip(case.judged[:3], judged[:3], strict=True):
        assert np.asarray(theirs) == pytest.approx(np.asarray(ours), rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("actions", FLAVOURS)
def test_gradients_are_finite_and_reach_both_agents_and_the_critic(actions: str) -> None:
    """Also where rows are empty, and of a view without any job."""
    case = made(actions)
    assert not case.view.waits[-1].any() and not case.view.waits.all() and not case.view.real.all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(case.slopes))
    # What a bias adds to all scores alike changes no choice.
    for name, leaf in flatten(case.slopes).items():
        assert np.abs(leaf).max() > 0, name


@pytest.mark.parametrize("actions", FLAVOURS)
def test_jax_and_numpy_decide_alike(actions: str) -> None:
    case = made(actions)
    best = np.asarray(hasty(case.agent.best)(case.network, case.observation))
    for row in range(VIEWS):
        view = one(case.view, row)
        if actions != "scores":
            choice, ranking = best_choice(case.network, view, case.design)
            assert choice == best[row, 0]
            if choice < WINDOW:
                assert ranking.tolist() == best[row, 1:].tolist()
            continue
        of_jobs, of_machines = mean_scores(case.network, view, case.design)
        waits, there = view.waits[0], view.waits[0][:, None] & view.real[0][None, :]
        assert np.argsort(of_jobs[waits]).tolist() == np.argsort(best[row, :WINDOW][waits]).tolist()
        theirs = best[row, WINDOW:].reshape(of_machines.shape)
        assert of_machines[there] == pytest.approx(theirs[there], abs=1e-4)
        for job in np.flatnonzero(waits):
            ours, other = of_machines[job][view.real[0]], theirs[job][view.real[0]]
            assert np.argsort(ours).tolist() == np.argsort(other).tolist()


@pytest.mark.parametrize("actions", FLAVOURS)
def test_doubt_makes_undecided_and_leaves_the_best_where_it_was(actions: str) -> None:
    case = made(actions)
    doubting = case.agent.doubting(case.network, 0.5)
    (_, judged), _ = case.judge(doubting, case.observation, case.acted.action)
    more, less = np.asarray(judged.entropy), np.asarray(case.judged.entropy)
    assert more.mean(0)[0] > less.mean(0)[0] and more.mean(0)[1] > less.mean(0)[1]
    best = hasty(case.agent.best)
    ours, theirs = (np.asarray(best(one, case.observation)) for one in (case.network, doubting))
    if actions != "scores":
        assert (ours == theirs).mean() > 0.995
    else:
        assert ours == pytest.approx(theirs, abs=1e-4)


def test_it_starts_from_what_it_is_given_and_summaries_have_one_row_each() -> None:
    case = made("choices")
    agent = das_agent(case.design, start={"actor": case.network["actor"]})
    parameters = agent.init(jax.random.key(0))
    assert (np.asarray(parameters["actor"]["skip"]) == case.network["actor"]["skip"]).all()
    assert "critic" in parameters
    assert agent.summary is not None
    assert agent.summary(parameters, case.observation).shape == (VIEWS, 1 + 16 + 12)


def test_nothing_factorises_by_calls_that_wait_for_each_other() -> None:
    """Batched LU and Cholesky calls of JAX block the few threads they need, and then never end."""
    random = np.random.default_rng(0)
    factors = random.normal(size=(5, 4, 16, 16)).astype(np.float32)
    matrices = factors @ np.swapaxes(factors, -1, -2) + 4 * np.eye(16, dtype=np.float32)
    root, values = np.linalg.cholesky(matrices), random.normal(size=(5, 4, 16, 2)).astype(np.float32)
    assert np.asarray(jax.jit(lone_cholesky)(matrices)) == pytest.approx(root, abs=1e-4)
    for triangle in (root, np.swapaxes(root, -1, -2)):
        found = jax.jit(lone_solve)(triangle, values)
        assert np.asarray(found) == pytest.approx(np.linalg.solve(triangle, values), abs=1e-4)
    for actions in FLAVOURS:
        case = made(actions)
        told = case.judge.lower(case.network, case.observation, case.acted.action).as_text()
        assert "getrf" not in told and "potrf" not in told and "cholesky" not in told
