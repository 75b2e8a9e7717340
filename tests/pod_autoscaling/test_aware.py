"""The learned autoscaler's parts: what it sees, what its answers mean, what an interval is worth, bundles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.errors import BundleError
from trimtab.networks.actor_critic import ActorCriticDesign, new_actor
from trimtab.networks.context_encoder import ContextDesign, new_context_encoder
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, actuator_of
from trimtab.pod_autoscaling.aware.design import ActionKind, Design, design_from
from trimtab.pod_autoscaling.aware.features import FEATURES, Observer, Seen
from trimtab.pod_autoscaling.aware.policy import AwarePolicy, LearnedPolicy, make_bundle
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.aware.rewards import as_measured, reward_of
from trimtab.pod_autoscaling.aware.services import Ground, draw_services
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import Change, Drift
from trimtab.pod_autoscaling.heuristics.hpa_vpa import hpa_vpa
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, Services, Snapshot
from trimtab.rates.traces import Provenance, RateTrace, save_trace


def design_of(actions: ActionKind = "around3", *, context: bool = False) -> Design:
    parts = len(ACTION_PARTS[actions])
    networks = ActorCriticDesign(len(FEATURES) + 1 + parts, parts, context=4 if context else 0, hidden=(8,))
    token = networks.observation + parts + 2
    encoder = ContextDesign(token, width=6, state=6, embedding=4, profile=len(PROFILE)) if context else None
    return Design(networks, encoder, actions)


def parameters_of(design: Design) -> dict:
    random = np.random.default_rng(0)
    drawn = {"actor": new_actor(random, design.networks)}
    if design.encoder is not None:
        drawn["encoder"] = new_context_encoder(random, design.encoder)
    return drawn


def looked(actions: ActionKind, services: Services, snapshot: Snapshot) -> tuple[Seen, Observer, Design]:
    design = design_of(actions)
    observer = Observer(services, design)
    return observer.see(snapshot), observer, design


# --- what is seen ---------------------------------------------------------------------------------


def test_numbers_are_those_of_their_names() -> None:
    services = services_of(1, slo_s=0.4)
    snapshot = snapshot_of(services, size=(4, 1.0, 512), cpu=2.0, memory=256.0, latency_p99_s=0.4, late=0.01)
    seen, _, _ = looked("around3", services, snapshot)
    numbers = dict(zip(FEATURES, seen.observation[0].tolist(), strict=False))
    assert numbers["cpu utilisation"] == pytest.approx(0.5)
    assert numbers["memory utilisation"] == pytest.approx(0.5)
    assert numbers["tail latency over limit"] == pytest.approx(0.0, abs=1e-6)
    assert numbers["late"] == pytest.approx(np.log(2) / 2, rel=1e-5)
    assert numbers["metrics missing"] == 0
    assert numbers["ready over replicas"] == 1


def test_nothing_known_gives_numbers_and_a_flag() -> None:
    services = services_of(2)
    snapshot = snapshot_of(services, complete=False, rate=0.0, cpu=np.nan, latency_p99_s=np.nan)
    seen, _, _ = looked("around3", services, snapshot)
    assert np.isfinite(seen.observation).all()
    assert (seen.observation[:, FEATURES.index("metrics missing")] == 1).all()


def test_a_new_service_in_the_place_of_another_is_not_taken_for_it() -> None:
    services = services_of(2)
    design = design_of()
    observer = Observer(services, design)
    observer.see(snapshot_of(services, kills=1.0))
    observer.acted(np.ones((2, 3), np.float32))
    present = np.ones((2, 20), bool)
    present[1] = False
    seen = observer.see(snapshot_of(services, present=present))
    killed = FEATURES.index("out of memory lately")
    assert seen.fresh.tolist() == [False, True]
    assert seen.observation[0, killed] > 0 and seen.observation[1, killed] == 0
    before = seen.observation[:, len(FEATURES) + 1 :]
    assert (before[0] == 1).all() and not before[1].any()


def test_rushes_are_remembered_longer_than_a_snapshot_holds() -> None:
    services, design = services_of(1), design_of()
    observer = Observer(services, design)
    observer.see(snapshot_of(services, rate=900.0, cpu=18.0))
    for _ in range(30):
        seen = observer.see(snapshot_of(services, rate=100.0, cpu=2.0))
    numbers = dict(zip(FEATURES, seen.observation[0].tolist(), strict=False))
    assert numbers["peak of an hour over present"] == pytest.approx(np.log(9), abs=0.1)
    assert numbers["intervals since near that peak"] == pytest.approx(30 / 40)
    assert seen.peak_cores[0] == pytest.approx(18.0, rel=0.1)


def test_copies_remember_what_their_rows_did() -> None:
    services, design = services_of(2), design_of()
    observer = Observer(services, design)
    observer.see(snapshot_of(services, kills=np.array([[0.0], [1.0]])))
    rows = np.array([1, 1, 0])
    three = services_of(3)
    copy = observer.taken(three, rows)
    killed = FEATURES.index("out of memory lately")
    seen = copy.see(snapshot_of(three))
    assert (seen.observation[:, killed] > 0).tolist() == [True, True, False]


# --- what answers mean ----------------------------------------------------------------------------


def test_zeros_around_the_rule_are_the_rule() -> None:
    services = services_of(3, slo_s=[0.3, 0.4, 2.0])
    snapshot = snapshot_of(services, rate=np.array([[50.0], [100.0], [0.0]]), cpu=[[1.0], [3.5], [0.0]])
    seen, observer, design = looked("around3", services, snapshot)
    actuator = actuator_of(services, design, observer)
    taught = actuator.taught(snapshot, seen)
    assert not taught.any()
    np.testing.assert_array_equal(actuator.sized(taught, snapshot, seen), seen.rule)
    rule = make_policy(design.teacher).begin(services).decide(snapshot)
    np.testing.assert_array_equal(seen.rule, rule)


def test_more_headroom_is_more_cores_and_a_rush_is_held_for() -> None:
    services, design = services_of(1), design_of()
    observer = Observer(services, design)
    observer.see(snapshot_of(services, rate=600.0, cpu=12.0))
    snapshot = snapshot_of(services, size=(1, 3.0, 512), rate=100.0, cpu=2.0)
    seen = observer.see(snapshot)
    actuator = actuator_of(services, design, observer)

    def cores(*answer: float) -> float:
        size = actuator.sized(np.array([answer], np.float32), snapshot, seen)[0]
        return float(size[REPLICAS] * size[CPU])

    assert cores(-1, 0, 0) < cores(0, 0, 0) < cores(1, 0, 0)
    assert cores(1, 0, 0) < cores(0, 0.7, 0) < cores(0, 1, 0)
    assert cores(0, -1, 0) == cores(0, 0, 0)
    assert cores(0, 1, 0) > 12.0


def test_smaller_pods_are_more_pods() -> None:
    services = services_of(1)
    snapshot = snapshot_of(services, size=(2, 3.0, 512), rate=300.0, cpu=5.0)
    seen, observer, design = looked("around3", services, snapshot)
    sized = actuator_of(services, design, observer).sized
    few, many = (sized(np.array([[0, 0, pod]], np.float32), snapshot, seen)[0] for pod in (0, -1))
    assert many[REPLICAS] > few[REPLICAS]


def test_ratios_go_by_powers_and_are_taught_back() -> None:
    services = services_of(1)
    snapshot = snapshot_of(services, size=(4, 1.0, 512))
    seen, observer, design = looked("logratio3", services, snapshot)
    actuator = actuator_of(services, design, observer)
    size = actuator.sized(np.array([[1.0, -1.0, 0.0]], np.float32), snapshot, seen)[0]
    assert size.tolist() == pytest.approx([8, 0.67, 512])
    back = actuator.taught(snapshot, seen._replace(rule=np.array([[8.0, 1.5, 512.0]])))
    assert back[0].tolist() == pytest.approx([1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("choice", "size"),
    [
        (0, (4, 1.0, 512)), (1, (5, 1.0, 512)), (2, (3, 1.0, 512)), (3, (4, 1.13, 512)),
        (4, (4, 0.87, 512)), (5, (4, 1.0, 640)), (6, (4, 1.0, 384)),
    ],
)  # fmt: skip
def test_each_of_seven_steps_is_what_it_says(choice: int, size: tuple[float, ...]) -> None:
    services = services_of(1)
    snapshot = snapshot_of(services, size=(4, 1.0, 512))
    seen, observer, design = looked("discrete7", services, snapshot)
    actuator = actuator_of(services, design, observer)
    answer = np.full((1, 7), -1.0, np.float32)
    answer[0, choice] = 1.0
    assert actuator.sized(answer, snapshot, seen)[0].tolist() == pytest.approx(size)
    taught = actuator.taught(snapshot, seen._replace(rule=np.array([size], float)))
    assert int(taught.argmax()) == choice


def test_knobs_are_those_of_the_two_autoscalers() -> None:
    services = services_of(2)
    snapshot = snapshot_of(services, size=(4, 1.0, 512), cpu=3.6)
    seen, observer, design = looked("knobs2", services, snapshot)
    actuator = actuator_of(services, design, observer)
    usual = actuator.taught(snapshot, seen)
    rule = hpa_vpa().begin(services).decide(snapshot)
    np.testing.assert_array_equal(actuator.sized(usual, snapshot, seen), rule)
    low = actuator_of(services, design, observer).sized(np.full((2, 2), -1, np.float32), snapshot, seen)
    high = actuator_of(services, design, observer).sized(np.full((2, 2), 1, np.float32), snapshot, seen)
    # 3.6 cores at 30 percent, and at 95.
    assert low[0, REPLICAS] == 8 and high[0, REPLICAS] == 4


# --- what an interval is worth ----------------------------------------------------------------------


def test_the_live_reward_is_that_of_the_formula() -> None:
    services, design = services_of(1, slo_s=0.4), design_of()
    snapshot = snapshot_of(services, size=(4, 1.0, 512), cpu=2.0, late=0.03, rate=100.0)
    lived = as_measured(snapshot)
    usual, price = np.array([2.0]), np.array([20.0])
    worth = reward_of(lived, services.slo_s, services.budget, usual, price, design)
    held = 4 + 0.12 * 4 * 512 / 1024
    assert worth[0] == pytest.approx(-(held + 20 * 2.0 * 0.02) / 2.0)
    published = replace(design, reward="aware")
    worth = reward_of(lived, services.slo_s, services.budget, usual, price, published)
    assert worth[0] == pytest.approx(0.3 * (0.5 + 400 / 512) / 2 + 0.7 * 1.0)


def test_ruin_is_not_worse_than_ten() -> None:
    services, design = services_of(1), design_of()
    snapshot = snapshot_of(services, size=(20, 4.0, 512), late=1.0, cpu=80.0)
    one, price = np.ones(1), np.array([20.0])
    worth = reward_of(as_measured(snapshot), services.slo_s, services.budget, one, price, design)
    assert worth[0] == -10


def test_the_price_of_lateness_rises_with_it_and_falls_without() -> None:
    services, design = services_of(2), design_of()
    observer = Observer(services, design)
    for _ in range(240):
        observer.see(snapshot_of(services, late=np.array([[0.0], [0.01]])))
    # Without a late request it falls to the least; exactly the budget leaves it as it is.
    assert observer.prices.tolist() == pytest.approx([design.least_price, 20.0], rel=0.01)
    observer.see(snapshot_of(services, late=0.11))
    assert observer.prices[1] == pytest.approx(20 * np.exp(0.1), rel=0.01)
    seen = observer.see(snapshot_of(services, complete=False, late=1.0))
    assert observer.prices[1] == pytest.approx(20 * np.exp(0.1), rel=0.01)
    assert seen.observation[1, len(FEATURES)] == pytest.approx(0.1 / np.log(4), abs=0.01)


def test_prices_that_are_given_stay() -> None:
    services, design = services_of(1), design_of()
    observer = Observer(services, design)
    observer.set_prices(np.array([7.0]))
    observer.see(snapshot_of(services, late=0.5))
    assert observer.prices.tolist() == [7.0]


# --- policies and bundles -------------------------------------------------------------------------


@pytest.mark.parametrize("context", [False, True])
def test_a_bundle_decides_as_what_it_was_made_of(tmp_path: Path, context: bool) -> None:
    design = design_of(context=context)
    parameters = parameters_of(design)
    parameters["actor"]["last"]["bias"] = np.linspace(-1, 1, 3).astype(np.float32)
    bundle = make_bundle("mine", {**parameters, "critics": [1]}, design, trained={}, scores={})
    save_bundle(tmp_path / "mine", bundle)
    policy = AwarePolicy(load_bundle(tmp_path / "mine"))
    assert policy.design == design == design_from(design.as_manifest())
    services = services_of(2)
    ours, theirs = policy.begin(services), LearnedPolicy("x", parameters, design).begin(services)
    for rate in (50.0, 80.0, 120.0):
        snapshot = snapshot_of(services, rate=rate, cpu=rate / 50)
        found = ours.consider(snapshot)
        np.testing.assert_array_equal(found.wanted, theirs.decide(snapshot))
    assert (found.context is None) == (not context) and (found.profile is None) == (not context)


def test_answers_are_gone_towards_step_by_step() -> None:
    design = replace(design_of(), smoothing=0.25)
    parameters = parameters_of(design)
    parameters["actor"]["last"]["bias"] = np.full(3, 0.5, np.float32)
    services = services_of(1)
    decider = LearnedPolicy("x", parameters, design).begin(services)
    first = decider.consider(snapshot_of(services)).action
    assert first[0].tolist() == pytest.approx([np.tanh(0.5)] * 3, abs=0.01)
    decider._actor._parameters["actor"]["last"]["bias"] = np.full(3, -0.5, np.float32)
    second = decider.consider(snapshot_of(services)).action
    assert second[0].tolist() == pytest.approx([0.5 * np.tanh(0.5)] * 3, abs=0.01)
    # Another service in its place: its first answer is taken as is.
    third = decider.consider(snapshot_of(services, present=False)).action
    assert third[0].tolist() == pytest.approx([-np.tanh(0.5)] * 3, abs=0.01)


def test_a_context_is_of_what_was_lived_through() -> None:
    design, services = design_of(context=True), services_of(1)
    policy = LearnedPolicy("x", parameters_of(design), design)
    busy, calm = policy.begin(services), policy.begin(services)
    for _ in range(4):
        found_busy = busy.consider(snapshot_of(services, rate=400.0, cpu=4.0, late=0.5))
        found_calm = calm.consider(snapshot_of(services, rate=10.0, cpu=0.2))
    assert found_busy.context is not None and found_calm.context is not None
    assert np.abs(found_busy.context - found_calm.context).max() > 1e-3


def test_bundles_of_other_kinds_and_versions_are_refused() -> None:
    design = design_of()
    bundle = make_bundle("mine", parameters_of(design), design, trained={}, scores={})
    with pytest.raises(BundleError, match="AWARE needs pod_autoscaling/aware"):
        AwarePolicy(replace(bundle, kind="sure"))
    other = {**bundle.manifest, "features": {**bundle.manifest["features"], "service": ["x"]}}
    with pytest.raises(BundleError, match="other features"):
        AwarePolicy(replace(bundle, manifest=other))
    with pytest.raises(BundleError, match="does not describe a network"):
        AwarePolicy(replace(bundle, manifest={**bundle.manifest, "settings": {"design": {"deep": 1}}}))
    with pytest.raises(BundleError, match="tensors"):
        AwarePolicy(replace(bundle, tensors=dict(list(bundle.tensors.items())[1:])))


# --- services to practise on ----------------------------------------------------------------------


def test_services_of_two_parts_have_nothing_in_common() -> None:
    ground, deployment = Ground(hours=0.1), Deployment(most_replicas=40)
    training = draw_services(ground, deployment, range(30), "training")
    validation = draw_services(ground, deployment, range(30), "validation")
    names = [{one.application.name for one in drawn} for drawn in (training, validation)]
    assert not names[0] & names[1]
    again = draw_services(ground, deployment, range(30), "training")
    assert [one.application for one in again] == [one.application for one in training]
    np.testing.assert_array_equal(again[3].trace.rates, training[3].trace.rates)


def test_services_are_within_what_was_asked_for() -> None:
    ground = Ground(hours=0.1, most_rate=20, drift_share=0.5, traces=("constant",))
    drawn = draw_services(ground, Deployment(most_replicas=40), range(60), "training")
    changed = [one for one in drawn if one.drift.changes]
    assert 15 < len(changed) < 45
    for one in drawn:
        rate = one.trace.rates.mean()
        assert rate <= 20.001 and rate * one.application.cpu_s <= 6.001
        assert 1 <= one.size[REPLICAS] <= 40 and one.size[MEMORY] >= 512


def test_a_trace_file_keeps_its_rates_in_training(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.trace")
    save_trace(RateTrace(np.full(14 * 24, 3.0), 3600.0, Provenance("mine")), Path(path))
    ground = Ground(hours=1.0, traces=(path,))
    for given, rate in ((ground, 3.0), (ground.model_copy(update={"mean_rate": 7.0}), 7.0)):
        drawn = draw_services(given, Deployment(most_replicas=40), range(6), "training")
        assert [one.trace.rates.mean() for one in drawn] == pytest.approx([rate] * 6)
    named = Ground(hours=0.1, traces=("constant",), mean_rate=7.0)
    (one,) = draw_services(named, Deployment(most_replicas=40), [1], "training")
    assert one.trace.rates.mean() == pytest.approx(7.0)


def test_a_profile_follows_its_drift() -> None:
    app = Application()
    before, after = (
        profile_of(app, Drift(changes=(Change(at_s=60, cpu=2.0),)), at_s=at_s) for at_s in (0, 60)
    )
    assert len(before) == len(PROFILE)
    moved = np.flatnonzero(before != after).tolist()
    assert moved == [PROFILE.index("work of a request")]
    assert after[0] - before[0] == pytest.approx(np.log(2) / np.log(4))
