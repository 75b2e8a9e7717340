"""Decisions of the learned autoscaler taken apart: what answers mean, what moved them, what came of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.core.errors import ActionError
from trimtab.networks.actor_critic import ActorCriticDesign, new_actor
from trimtab.networks.context_encoder import ContextDesign, new_context_encoder
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, actuator_of
from trimtab.pod_autoscaling.aware.design import ActionKind, Design
from trimtab.pod_autoscaling.aware.explaining import PAST, Explanation, explain, opinion_of
from trimtab.pod_autoscaling.aware.features import FEATURES, PRICE, Observer, numbers_of
from trimtab.pod_autoscaling.aware.policy import Considered, LearnedPolicy
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.heuristics.hpa_vpa import HpaVpaDecider
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, Snapshot

BARE = ActorCriticDesign(1, 1)
USUAL: ActionKind = Design(BARE).actions
"""Around the rule `multi`."""


def policy_of(actions: ActionKind = USUAL, *, context: bool = False) -> LearnedPolicy:
    parts = len(ACTION_PARTS[actions])
    seen = len(numbers_of(Design(BARE, actions=actions))) + parts
    networks = ActorCriticDesign(seen, parts, context=4 if context else 0, hidden=(8,))
    encoder = None
    random = np.random.default_rng(0)
    drawn: dict[str, Any] = {"actor": new_actor(random, networks)}
    drawn["actor"]["last"]["weights"] *= 100
    if context:
        encoder = ContextDesign(seen + parts + 2, width=6, state=6, embedding=4, profile=len(PROFILE))
        drawn["encoder"] = new_context_encoder(random, encoder)
    return LearnedPolicy("learned", drawn, Design(networks, encoder, actions))


def episode_of(policy: LearnedPolicy) -> tuple[list[Considered], list[Snapshot]]:
    """Three calm decisions, then one in a rush."""
    services = services_of(1)
    calm: dict[str, Any] = {"rate": 100.0, "cpu": 2.0, "latency_p99_s": 0.2}
    rush: dict[str, Any] = {"rate": 180.0, "cpu": 3.6, "latency_p99_s": 0.5, "late": 0.03, "throttled": 0.25}
    snapshots = [snapshot_of(services, **given) for given in (calm, calm, calm, rush)]
    decider = policy.begin(services)
    return [decider.consider(one) for one in snapshots], snapshots


def told_of(policy: LearnedPolicy, application: Application | None = None) -> Explanation:
    thoughts, snapshots = episode_of(policy)
    return explain(policy, thoughts[-1], snapshots[-1], others=thoughts, application=application)


def answered(policy: LearnedPolicy, *answers: float) -> tuple[Explanation, Considered, Snapshot]:
    """The rush as if the network had said this."""
    thoughts, snapshots = episode_of(policy)
    thought, snapshot = thoughts[-1], snapshots[-1]
    action = np.array([answers], np.float32)
    actuator = actuator_of(snapshot.services, policy.design, Observer(snapshot.services, policy.design))
    thought = thought._replace(action=action, wanted=actuator.sized(action, snapshot, thought.seen))
    return explain(policy, thought, snapshot, others=thoughts), thought, snapshot


def number_in(text: str) -> float:
    """The first number of a sentence, per cent as a share."""
    word = next(word for word in text.split() if word[0].isdigit())
    return float(word.rstrip("%")) / (100 if word.endswith("%") else 1)


# --- what answers mean ----------------------------------------------------------------------------


def test_the_rule_plays_the_same_with_the_numbers_that_answers_are_said_to_mean() -> None:
    """As told: work times 1.22, in calm pods of so many cores."""
    policy = policy_of()
    told, thought, snapshot = answered(policy, 0.5, -1.0, -0.3)
    more, pod = number_in(told.parts[0].means), number_in(told.parts[2].means)
    assert told.parts[1].means == "past rushes are let go"
    measured = thought.seen.measured
    needed = measured._replace(
        cores=measured.cores * more,
        cores_lately=measured.cores_lately * more,
    )
    rule = Observer(snapshot.services, policy.design).rule
    again = rule.sized(snapshot, needed, calm_cpu=np.array([pod]))[0]
    # Two digits are told, and sizes come in steps.
    np.testing.assert_allclose(told.wanted, again, rtol=0.02, atol=16)
    np.testing.assert_array_equal(told.around, thought.seen.rule[0])
    zeros, _, _ = answered(policy, 0.0, 0.0, 0.0)
    np.testing.assert_array_equal(zeros.wanted, zeros.around)
    assert zeros.parts[0].means == "work to prepare for times 1.00"


def test_a_rush_is_held_for_by_so_much_of_the_way() -> None:
    told, thought, _ = answered(policy_of(), 0.0, 0.6, 0.0)
    assert told.parts[1].means.startswith("60% of the way to the ")
    assert f"{thought.seen.peak_cores[0]:.3g} cores" in told.parts[1].means


def test_pods_are_not_said_to_be_larger_than_they_may_be() -> None:
    told, _, snapshot = answered(policy_of(), 0.0, 0.0, 1.0)
    assert number_in(told.parts[2].means) == snapshot.services.most[0, CPU]


def test_ratios_are_those_of_the_sizes() -> None:
    told, thought, snapshot = answered(policy_of("logratio3"), 1.0, -0.5, 0.25)
    ratios = thought.wanted[0] / snapshot.size[0]
    np.testing.assert_allclose([number_in(one.means) for one in told.parts], ratios, rtol=0.02)


def test_the_largest_step_is_the_one_that_is_done() -> None:
    told, thought, snapshot = answered(policy_of("discrete7"), 0, 0.9, 0, 0, 0, 0, 0.1)
    assert [one.name for one in told.parts if one.means] == ["replica more"]
    assert thought.wanted[0, REPLICAS] == snapshot.size[0, REPLICAS] + 1


def test_knobs_are_those_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[float] = []

    def decide(self: Any, snapshot: Snapshot, *, targets: Any, percentiles: Any) -> Any:
        set_to.extend([float(targets[0]), float(percentiles[0])])
        return snapshot.size

    monkeypatch.setattr(HpaVpaDecider, "decide", decide)
    told, _, _ = answered(policy_of("knobs2"), -0.4, 0.8)
    assert [number_in(one.means) for one in told.parts] == pytest.approx(set_to[-2:], abs=0.005)
    assert all(one.cores is None for one in told.influences)


# --- what was seen --------------------------------------------------------------------------------


def test_numbers_are_told_with_what_is_usual_and_the_metrics_behind() -> None:
    told = {one.feature: one for one in told_of(policy_of()).facts}
    busy = told["cpu utilisation"]
    assert (busy.value, busy.usual) == (pytest.approx(0.9), pytest.approx(0.5))
    assert busy.behind == "3.6 of 4 cores used"
    assert told["tail latency over limit"].behind == "p99 500 ms, limit 400 ms"
    assert told["late"].behind == "3.00 % of the requests, budget 1 %"
    assert told["throttled"].behind == "25% of the time"
    assert told["ready over replicas"].behind == "4 of 4"
    assert told["time of day, sine"].behind == "10:00"
    assert told["metrics missing"].behind == "no"
    assert {*told} == {*FEATURES, PRICE, *(f"{one}, answered before" for one in ACTION_PARTS[USUAL])}


def test_nearly_all_features_have_metrics_behind_them() -> None:
    """Those that remember more than a snapshot holds are what they are called."""
    bare = {one.feature for one in told_of(policy_of()).facts if not one.behind}
    assert {one for one in bare if "answered before" not in one} == {
        "intervals since change",
        "load variation",
        "intervals since near that peak",
        "share of time near that peak",
        PRICE,
    }


def test_what_nobody_knows_is_called_unknown() -> None:
    services, policy = services_of(1), policy_of()
    nothing: dict[str, Any] = {
        "complete": False,
        "rate": np.nan,
        "cpu": np.nan,
        "latency_p99_s": np.nan,
        "late": np.nan,
    }
    snapshot = snapshot_of(services, **nothing)
    thought = policy.begin(services).consider(snapshot)
    facts = {one.feature: one for one in explain(policy, thought, snapshot, others=[thought]).facts}
    assert facts["highest load over present"].behind == "unknown requests/s, unknown now"
    assert facts["tail latency lately over limit"].behind == "p99 unknown ms, limit 400 ms"
    assert facts["late lately"].behind.startswith("unknown of the requests")
    assert facts["metrics missing"].behind == "yes"
    assert all(np.isfinite([one.value, one.usual]).all() for one in facts.values())


# --- what moved the answer ------------------------------------------------------------------------


def test_only_what_the_network_looks_at_moves_it() -> None:
    policy = policy_of()
    at = FEATURES.index("throttled")
    first = policy.parameters["actor"]["layers"][0]["weights"]
    first[np.arange(len(first)) != at] = 0.0
    told = told_of(policy)
    strongest, *others = told.influences
    assert strongest.feature == "throttled" and any(strongest.moved)
    assert all(not any(one.moved) and one.cores == 0 for one in others)


def test_what_is_as_usual_moves_nothing_and_the_strongest_come_first() -> None:
    told = told_of(policy_of())
    facts = {one.feature: one for one in told.facts}
    strength = [sum(abs(part) for part in one.moved) for one in told.influences]
    assert strength == sorted(strength, reverse=True)
    for one in told.influences:
        same = facts[one.feature].value == facts[one.feature].usual
        assert not same or max(abs(part) for part in one.moved) < 1e-6
    assert {one.feature for one in told.influences} == {*facts}


def test_cores_are_those_of_the_answer_less_those_of_the_other() -> None:
    """Asked with every number as in another decision, the difference is that of the two sizes."""
    policy = policy_of("logratio3")
    at = FEATURES.index("throttled")
    first = policy.parameters["actor"]["layers"][0]["weights"]
    first[np.arange(len(first)) != at] = 0.0
    thoughts, snapshots = episode_of(policy)
    told = explain(policy, thoughts[-1], snapshots[-1], others=thoughts)
    # The network sees nothing else, and all calm decisions had the usual number.
    calm, rushed = thoughts[0].wanted[0], thoughts[-1].wanted[0]
    cores = rushed[REPLICAS] * rushed[CPU] - calm[REPLICAS] * calm[CPU]
    assert told.influences[0].cores == pytest.approx(cores)


def test_the_first_answer_is_gone_towards_all_the_way_in_what_is_told_too() -> None:
    """However slowly a policy follows its answers, before the first there is none to come from."""
    policy = policy_of("logratio3")
    policy.design = replace(policy.design, smoothing=0.5)
    first = policy.parameters["actor"]["layers"][0]["weights"]
    first[np.arange(len(first)) != FEATURES.index("throttled")] = 0.0
    services = services_of(1)
    usual, rush = snapshot_of(services), snapshot_of(services, throttled=0.25)
    calm, rushed = (policy.begin(services).consider(one) for one in (usual, rush))
    told = explain(policy, rushed, rush, others=[calm, calm, rushed])
    cores = [one.wanted[0, REPLICAS] * one.wanted[0, CPU] for one in (rushed, calm)]
    assert told.influences[0].cores == pytest.approx(cores[0] - cores[1]) != 0


# --- what the service seems to be like ------------------------------------------------------------


def test_the_context_has_a_row_and_what_it_believes_is_held_against_the_truth() -> None:
    policy, application = policy_of(context=True), Application(memory_mib=90)
    thoughts, _ = episode_of(policy)
    told = told_of(policy, application)
    assert PAST in {one.feature for one in told.influences}
    assert told.beliefs is not None and thoughts[-1].profile is not None
    assert [one.what for one in told.beliefs] == list(PROFILE)
    np.testing.assert_allclose([one.seems for one in told.beliefs], thoughts[-1].profile[0], rtol=1e-6)
    np.testing.assert_allclose([one.truly for one in told.beliefs], profile_of(application))
    units = dict(zip(PROFILE, [one.in_units for one in told.beliefs], strict=True))
    assert units["memory of a pod"] == "90 MiB"
    assert units["work of a request"] == "20 ms of CPU"
    assert told_of(policy).beliefs is None  # in a live cluster nobody knows the truth
    without = told_of(policy_of(), application)
    assert without.beliefs is None and PAST not in {one.feature for one in without.influences}


def test_one_service_at_a_time() -> None:
    policy, services = policy_of(), services_of(2)
    snapshot = snapshot_of(services)
    thought = policy.begin(services).consider(snapshot)
    with pytest.raises(ActionError, match="2 services; a decision is explained for one"):
        explain(policy, thought, snapshot, others=[thought])


# --- what becomes of a wish -----------------------------------------------------------------------


def test_what_may_be_done_of_a_wish_and_why() -> None:
    snapshot = snapshot_of(services_of(1))
    fine = opinion_of("rule", snapshot, np.array([[5, 1.004, 500.0]]))
    assert fine.because == () and fine.done.tolist() == [5, 1.0, 496]
    much = opinion_of("rule", snapshot, np.array([[50, 9.0, 512.0]]))
    assert much.because == ("replicas may be 1 to 20", "cpu may be 0.1 to 4")
    blind = snapshot_of(services_of(1), complete=False)
    less = opinion_of("rule", blind, np.array([[2, 1.0, 512.0]]))
    assert less.because == ("monitoring does not answer, so nothing is made smaller",)
    assert less.done[REPLICAS] == 4 and less.done[MEMORY] == 512
