"""PPO as base learner of the learned autoscaler: settings, a run to a policy, exact continuation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.core.bundle import flatten, load_bundle, load_tensors
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import load_settings, settings_as_toml
from trimtab.learning.on_policy import OnPolicyTask
from trimtab.learning.on_policy_settings import PpoSettings
from trimtab.learning.run_files import BEST, STATE
from trimtab.networks.contextual_actor import ContextualActor
from trimtab.pod_autoscaling.aware.policy import AwarePolicy
from trimtab.pod_autoscaling.aware.retraining import GivenServices
from trimtab.pod_autoscaling.aware.task import (
    PRESETS,
    AwareSettings,
    AwareTask,
    check_settings,
    ppo_training_of,
)
from trimtab.pod_autoscaling.aware.training import SCORE, train_aware
from trimtab.pod_autoscaling.policies import make_policy

pytestmark = pytest.mark.pods

SMALL: dict[str, Any] = {
    "actions": "logratio3",
    "reward": "aware",
    "environments": 8,
    "validation_services": 3,
    "ground": {
        "applications": ["thumbnails"], "traces": ["constant"], "hours": 0.1, "most_rate": 5.0,
        "least_cores": 0.2, "most_cores": 0.5, "start_factor": 6.0, "start_spread": 0.0, "drift_share": 0.0,
    },
    "training": {
        "hidden": [16], "discount": 0.8, "exploration": 0.4, "final_exploration": 0.1, "iterations": 12,
        "horizon": 24, "reset_every": 2, "checkpoint_every": 6, "validate_every": 6,
    },
    "ppo": {"learning_rate": 1e-2, "epochs": 6, "minibatches": 4},
}  # fmt: skip


def settings_of(changes: dict[str, Any] | None = None, **training: Any) -> AwareSettings:
    plain = {**SMALL, **(changes or {})}
    return AwareSettings.model_validate({**plain, "training": {**SMALL["training"], **training}})


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def on_policy(settings: AwareSettings) -> OnPolicyTask:
    return OnPolicyTask(AwareTask(settings), settings.training, interval_s=15, seed=settings.seed)


def test_the_preset_differs_from_that_of_td3_in_the_learner_alone() -> None:
    ours, theirs = PRESETS.load("ppo"), PRESETS.load("pooled")
    assert ours.ppo is not None and theirs.ppo is None
    without = {"training", "ppo"}
    assert ours.model_dump(exclude=without) == theirs.model_dump(exclude=without)
    for name in ("hidden", "discount", "exploration", "final_exploration", "horizon", "context"):
        assert getattr(ours.training, name) == getattr(theirs.training, name)


def test_settings_come_back_from_their_file_and_mean_what_they_say(tmp_path: Path) -> None:
    settings = settings_of({"seed": 4}, cloning_iterations=3, anchor=0.1)
    (tmp_path / "asked.toml").write_text(settings_as_toml(settings))
    assert load_settings(AwareSettings, tmp_path / "asked.toml") == settings
    asked = ppo_training_of(settings)
    assert asked is not None
    assert (asked.algorithm, asked.seed, asked.clip, asked.epochs) == ("ppo", 4, PpoSettings().clip, 6)
    assert (asked.imitation_iterations, asked.iterations, asked.anchor) == (3, 12, 0.1)
    assert asked.total_iterations == settings.training.total_iterations
    # An interval of 15 s counts 0.8 of the one before.
    assert np.exp(-15 / asked.discount_s) == pytest.approx(0.8)
    assert ppo_training_of(settings_of({"ppo": None})) is None


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_services_that_begin_too_large_are_made_smaller(tmp_path: Path) -> None:
    """They begin with six times what they need; who has learned nothing leaves them so."""
    settings = settings_of()
    task = on_policy(settings)
    before = task.score(task.agent.init(jax.random.PRNGKey(0)))
    found = train_aware(settings, tmp_path / "run", name="mine", clock=clock)
    policy = AwarePolicy(load_bundle(found))
    after = policy.bundle.manifest["scores"][SCORE]
    assert after < 0.9 * before["score"]
    episodes = AwareTask(settings).played(policy)
    assert np.mean([one.metrics()["core_hours"] for one in episodes]) > 0
    assert make_policy(str(tmp_path / "run")).name == str(tmp_path / "run")
    own = {name for name in policy.bundle.tensors if not name.startswith("familiar/")}
    assert set(flatten({"actor": policy.parameters["actor"]})) == own
    # JAX and numpy give the same answers, those of the middle of the bell curve.
    seen = AwareTask(settings).observe()
    served = ContextualActor(policy.parameters, policy.design.networks, None).decide(seen)
    parameters = {**task.agent.init(jax.random.PRNGKey(0)), **policy.parameters}
    np.testing.assert_allclose(task.agent.best(parameters, {"seen": jnp.asarray(seen)}), served, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_run_with_contexts_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = settings_of(
        {"environments": 2}, context="gru", context_steps=4, context_width=4, context_state=4,
        horizon=10, iterations=4, reset_every=1, checkpoint_every=2, validate_every=2,
    )  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    found = train_aware(settings, whole, name="mine", clock=clock)
    assert AwarePolicy(load_bundle(found)).design.encoder is not None
    short = settings.model_copy(update={"training": settings.training.model_copy(update={"minutes": 1e-9})})
    ticking = iter(range(1000))
    train_aware(short, parts, name="mine", clock=lambda: datetime.fromtimestamp(next(ticking), UTC))
    assert len(RunFolder.open(parts, clock=clock).read_metrics()) == 2
    train_aware(settings, parts, name="mine", clock=clock, resume=True)
    for name in (BEST, STATE):
        ours, theirs = load_tensors(whole / name)[0], load_tensors(parts / name)[0]
        assert ours.keys() == theirs.keys()
        for key, tensor in ours.items():
            np.testing.assert_array_equal(tensor, theirs[key], err_msg=key)


@pytest.mark.parametrize(
    ("changes", "training", "told"),
    [
        ({}, {"capacity": 5000}, "training.capacity = 5000 means nothing to PPO; leave it out"),
        ({}, {"normalisation": "batch"}, "use layer or none"),
        ({"ppo": {"minibatches": 7}}, {}, "minibatches = 7 does not divide horizon x environments = 24 x 8"),
        ({"lessons": 5}, {"cloning_iterations": 1}, "PPO learns from what it plays; set lessons = 0"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], training: dict[str, Any], told: str) -> None:
    with pytest.raises(TrimtabError, match=told):
        check_settings(settings_of(changes, **training))
    check_settings(settings_of())


def test_given_services_are_not_for_it() -> None:
    with pytest.raises(TrimtabError, match="leave the table ppo out"):
        GivenServices(settings_of(), lambda _: [])
