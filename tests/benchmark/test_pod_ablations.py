"""Ablations of the learned autoscaler of services: what is varied, what is trained, and how it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.decima_settings import Numbers
from benchmarks.pod_ablation_training import TRAININGS, VARIANTS, WEIGHTS, Variant, loaded, trained, weighted
from benchmarks.pod_ablations import (
    DIFFERENCES,
    EMPTIED,
    ENCODERS,
    POLICIES,
    Learned,
    encoder_rows,
    judged,
    means_of_services,
    reweighted,
    trained_weight_rows,
    turned_pairs,
    weight_rows,
    without_context,
)
from benchmarks.pod_services import Played, Workload, measured
from tests.pod_autoscaling.test_aware_adaptation import SMALL

from trimtab.core.bundle import save_bundle
from trimtab.learning.off_policy_state import LearnerShape, new_parameters
from trimtab.networks.contextual_actor import ContextualActor
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.adaptation import AdaptationTask, Episodes
from trimtab.pod_autoscaling.aware.adaptation_arms import load_arm
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings
from trimtab.pod_autoscaling.deployment import Deployment, Objective
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.simulator import simulate

SERVICES = [Workload(name, "noisy", number) for name in ("a", "b") for number in range(3)]


def asked_of(variant: Variant) -> AwareSettings:
    return PRESETS.load(variant.arm.preset, variant.changes)


def differing(one: Any, other: Any, within: str = "") -> set[str]:
    """Dotted names of the settings in which two differ."""
    if not isinstance(one, dict):
        return set() if one == other else {within}
    return set().union(*(differing(one[key], other[key], f"{within}.{key}".strip(".")) for key in one))


def played(rewards: list[float], used: float = 0.5) -> Played:
    return Played("", {"reward": np.array(rewards), "share_used": np.full(len(rewards), used)})


def learned(reward: Numbers, *, late: float = 10.0, cores: float = 2.0) -> Learned:
    """Three trainings of applications that differ in the reward alone."""
    like = np.ones_like(reward)
    sums = Episodes(1000 * like, late * like, like, cores * like, 512 * like, 1024 * like)
    return Learned(reward, sums, 0.25 * np.ones((len(reward), 7)))


def test_variants_differ_in_one_thing() -> None:
    asked = {name: asked_of(one).model_dump(mode="json") for name, one in VARIANTS.items()}
    assert differing(asked["features"], asked["bidirectional"]) == {"training.context"}
    assert differing(asked["gru"], asked["bidirectional"]) == {"training.context"}
    without = {**asked["gru"], "training": {**asked["gru"]["training"], "context": "none"}}
    sizes = {
        f"training.{name}" for name in ("context_size", "context_width", "context_state", "context_memory")
    }
    assert differing(asked["none"], without) <= sizes | {"training.context_steps", "training.sequence_steps"}
    for weight in WEIGHTS:
        found = differing(asked[weighted(weight)], asked["none"])
        assert found <= {"deployment.objective.utilisation_weight"}
        assert asked[weighted(weight)]["deployment"]["objective"]["utilisation_weight"] == weight


@pytest.mark.parametrize("name", VARIANTS)
def test_the_shipped_trainings_are_what_they_are_called(name: str) -> None:
    variant = VARIANTS[name]
    for seed in range(TRAININGS):
        parameters, settings = loaded(variant, seed)
        assert settings == asked_of(variant).model_copy(update={"seed": seed})
        assert "critics" not in parameters


def test_a_missing_training_ends_the_benchmark_with_the_way_out() -> None:
    with pytest.raises(SystemExit, match="make train-pod-ablations"):
        loaded(VARIANTS["gru"], 99)


@pytest.mark.pods
def test_a_training_keeps_what_acts(tmp_path: Path) -> None:
    variant = VARIANTS["features"]
    small = {**SMALL, "training.sequence_steps": 4, "training.context_steps": 4}
    bundle = trained(variant, 3, tmp_path / "run", small)
    assert {key.partition("/")[0].partition(".")[0] for key in bundle.tensors} == {"actor", "encoder"}
    parameters, settings = load_arm(save_bundle(tmp_path / "bundle", bundle), variant.arm)
    assert (settings.seed, settings.training.context) == (3, "features")
    # Time is what the unit over features sees at once.
    assert parameters["encoder"]["forward"]["input"]["weights"].shape[0] == settings.training.context_steps


def test_another_weight_values_the_same_hours() -> None:
    """What is worked out from an episode with weight 0.3 is what the simulator pays with 0.5."""
    rates = 20 - 15 * np.cos(np.arange(600) / 50)

    def earned(weight: float) -> Played:
        objective = Objective(reward="aware", utilisation_weight=weight)
        policy = make_policy("hpa:target=70,cpu=1")
        episode = simulate(Application(), rates, policy, Deployment(objective=objective), seed=1)
        values = measured(episode, 0.0)
        return Played("", {name: np.array([value]) for name, value in values._asdict().items()})

    usual = earned(0.3)
    assert reweighted(usual, 0.3) == pytest.approx(usual["reward"])
    assert reweighted(usual, 0.5) == pytest.approx(earned(0.5)["reward"])
    assert reweighted(usual, 0.5) != pytest.approx(usual["reward"], abs=1e-3)


def test_pairs_turn_only_where_the_order_does() -> None:
    low, high = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.2, 0.3, 0.4, 0.5])
    unsure = np.array([0.9, 0.0, 0.0, 0.2])
    assert turned_pairs({"a": low, "b": high}, {"a": low, "b": high}) == (0, 0)
    assert turned_pairs({"a": high, "b": low}, {"a": low, "b": high}) == (1, 1)
    assert turned_pairs({"a": unsure, "b": low}, {"a": low, "b": high}) == (1, 0)


def test_a_service_has_one_mean() -> None:
    assert means_of_services(np.arange(6.0), SERVICES).tolist() == [1.0, 4.0]


def test_rows_of_weights_know_who_is_first() -> None:
    """With more weight on utilisation, who uses much overtakes who is never late."""
    found = {name: played([0.75] * 6, used=0.5) for name in POLICIES}
    found["aware"] = played([0.3 * 0.9 + 0.7 * 0.65] * 6, used=0.9)
    rows = {row.name: row.value for row in weight_rows(found, SERVICES)}
    assert rows["weight 0.1: place of aware among 5"] == 5
    assert rows["weight 0.5: place of aware among 5"] == 1
    assert rows["weight 0.5: reward of aware less that of hpa-70"] == pytest.approx(0.775 - 0.6786, abs=1e-4)
    assert rows["weight 0.1: deviation of a policy's reward over services"] == pytest.approx(0)


def test_rows_of_trained_weights_compare_with_the_usual_one() -> None:
    reward = np.full((TRAININGS, 4), 0.8)
    found = {weighted(weight): learned(reward, cores=10 * weight) for weight in WEIGHTS}
    rows = {row.name: row.value for row in trained_weight_rows(found)}
    assert rows["trained with weight 0.1 / with 0.3: cores held"] == pytest.approx(1 / 3)
    assert rows["trained with weight 0.5: share of cores used"] == pytest.approx(1 / 5)
    assert rows["trained with weight 0.3: late or failed requests, share"] == pytest.approx(0.01)
    assert not any("0.3 / with" in name for name in rows)


def test_rows_of_encoders_tell_how_trainings_differ() -> None:
    base = np.full((TRAININGS, 4), 0.8)
    found = {name: learned(base) for name in (*ENCODERS, EMPTIED)}
    found["gru"] = learned(base + np.array([[0.06], [0.03], [-0.03]]))
    rows = {row.name: row for row in encoder_rows(found)}
    assert rows["encoder gru less none: reward"].value == pytest.approx(0.02)
    assert rows["encoder gru less none: trainings of 3 that earn more"].value == 2
    assert rows["encoder gru: reward of the worst training"].value == pytest.approx(0.77)
    assert f"encoder {EMPTIED}: R2 of the profile told from contexts" not in rows
    assert all(f"encoder {one} less {other}: reward" in rows for one, other in DIFFERENCES)
    assert all(row.bar == "none" for row in rows.values())


def test_an_emptied_context_is_nought_and_the_rest_is_as_it_was() -> None:
    settings = PRESETS.load("meta", SMALL)
    shape: LearnerShape = AdaptationTask(settings).shape
    parameters = new_parameters(shape, np.random.default_rng(0))
    observation = np.ones((2, shape.networks.observation), np.float32)
    answer, one, no = np.ones((2, shape.networks.actions)), np.ones(2), np.zeros(2)

    def context(of: Any) -> Numbers:
        actor = ContextualActor(of, shape.networks, shape.encoder, systems=2)
        actor.tell(observation, answer, one, no, no)
        return np.asarray(actor.context)

    assert (context(without_context(parameters)) == 0).all()
    assert (context(parameters) != 0).any()
    assert without_context(parameters)["actor"] is parameters["actor"]


def test_everybody_is_judged_with_the_usual_weight() -> None:
    settings = judged(asked_of(VARIANTS[weighted(0.5)]))
    assert settings == asked_of(VARIANTS[weighted(0.3)])
