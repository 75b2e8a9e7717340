"""Presets, the score that counts, and a short training run from settings to a policy that plays."""

from __future__ import annotations

from datetime import UTC, datetime

import jax
import numpy as np
import pytest

from trimtab.core.bundle import load_bundle
from trimtab.core.errors import SettingsError
from trimtab.core.run_folder import RunFolder
from trimtab.learning.runs import is_finished
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.simulator.simulator import simulate
from trimtab.stream_autoscaling.sure.policy import SurePolicy, make_bundle
from trimtab.stream_autoscaling.sure.rollouts import TRAINING_SEEDS
from trimtab.stream_autoscaling.sure.task import (
    SureSettings,
    SureTask,
    check_settings,
    load_preset,
    preset_names,
)
from trimtab.stream_autoscaling.sure.training import train_sure
from trimtab.stream_autoscaling.workload.presets import draw_trace

TINY = {
    "jobs": ["q5"],
    "deployment": {"history": 6, "substep_ms": 12_000, "interval_s": 120},
    "network": {
        "history_encoder": "gru",
        "history": 6,
        "snapshots": 2,
        "hidden": 8,
        "base_window_s": 240,
        "base_memory_s": 600,
        "base_recent_s": 600,
    },
    "environments": 4,
    "rollouts": 2,
    "lanes": 1,
    "validation": 1,
    "span_h": 1.0,
}
COARSE = {
    "deployment": {"history": 6, "substep_ms": 30_000, "interval_s": 600},
    "network": {**TINY["network"], "base_window_s": 1200, "base_memory_s": 3000, "base_recent_s": 3000},
}
"""A validation day of 144 decisions."""
TRAINING = {"iterations": 2, "horizon": 4, "minibatches": 2, "reset_every": 1}
TRAINING |= {"validate_every": 2, "checkpoint_every": 2}


def settings_of(**changes) -> SureSettings:
    return SureSettings.model_validate({**TINY, "training": TRAINING, **changes})


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_sound(name: str) -> None:
    settings = load_preset(name)
    check_settings(settings)
    settings.training.check_batch(settings.environments * settings.lanes)
    assert not (settings.training.whole_episodes and settings.training.baseline == "critic")


def test_presets_by_name_and_file(tmp_path) -> None:
    assert {"sure", "sure-paper", "sure-sampler", "sure-cpu"} <= set(preset_names())
    assert load_preset("sure", {"lanes": 3}).lanes == 3
    path = tmp_path / "own.toml"
    path.write_text("lanes = 3\n")
    assert load_preset(str(path)).lanes == 3
    with pytest.raises(
        SettingsError, match=r"no preset 'sure-nothing'; there are .*sure-cpu.*or give a .toml"
    ):
        load_preset("sure-nothing")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"environments": 5}, "choose a multiple of 2"),
        ({"teacher": "ds3"}, "teacher = ds3"),
        ({"network": {"history": 60}}, "network.history = 60 intervals, but deployment.history = 6"),
        ({"network": {**TINY["network"], "base_memory_s": 601}}, "601 s takes 7 intervals of 120 s"),
        ({"network": {**TINY["network"], "base_window_s": 721}}, "721 s takes 7 intervals of 120 s"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, said) -> None:
    with pytest.raises(SettingsError, match=said):
        SureTask(settings_of(**changes))


def test_an_untrained_policy_scores_as_its_teacher_and_numpy_plays_what_jax_plays() -> None:
    task = SureTask(settings_of(**COARSE))
    parameters = task.agent.init(jax.random.key(0))
    silent = jax.tree.map(lambda leaf: leaf, parameters)
    for head in ("score", "commit"):
        silent["actor"][head][-1] = jax.tree.map(lambda leaf: 0 * leaf, silent["actor"][head][-1])
    score = task.score(silent)
    assert score["score"] == score["job_0"] == 0 and score["rescales_over_teacher"] == 1
    loud = jax.tree.map(lambda leaf: leaf, parameters)
    for head in ("score", "commit"):
        loud["actor"][head][-1] = jax.tree.map(lambda leaf: 60 * leaf, loud["actor"][head][-1])
    bundle = make_bundle("loud", jax.device_get(loud), task.design, trained={}, scores={})
    settings, job = task.settings, task.jobs[0]
    trace = draw_trace(settings.trace, job, seed=TRAINING_SEEDS, part="validation")
    found = [
        simulate(job, trace, policy, settings.deployment, seed=TRAINING_SEEDS).rewards.mean()
        for policy in (make_policy(task.design.teacher), SurePolicy(bundle))
    ]
    scored = task.score(loud)
    assert scored["score"] == pytest.approx(found[0] - found[1], abs=1e-9) and scored["score"] != 0
    assert scored["reward"] == pytest.approx(found[1])


@pytest.mark.slow
def test_training_leaves_a_bundle_that_plays(tmp_path) -> None:
    """With the sampler, whose lower bound is part of the loss."""

    def clock() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    network = {**COARSE["network"], "history_encoder": "sampler", "layers": 1}
    settings = settings_of(**{**COARSE, "network": network})
    folder = train_sure(settings, tmp_path / "run", name="mine", clock=clock)
    run = RunFolder.open(tmp_path / "run", clock=clock)
    assert is_finished(run, settings.training)
    assert all(np.isfinite(line["auxiliary_loss"]) for line in run.read_metrics())
    manifest = load_bundle(folder).manifest
    assert manifest["trained"]["jobs"] == ["q5"] and "violation_share" in manifest["scores"]
    task = SureTask(settings, start=load_bundle(folder))
    trace = draw_trace(settings.trace, task.jobs[0], seed=1, part="test")
    trace = trace.between(trace.start_s, trace.start_s + 3600)
    policy = make_policy(str(tmp_path / "run"))
    episode = simulate(task.jobs[0], trace, policy, settings.deployment, seed=1)
    assert np.isfinite(episode.rewards).all() and len(episode.rewards) == 6
    other = settings_of(**{**COARSE, "network": {**network, "hidden": 12}})
    with pytest.raises(SettingsError, match=r"mine has another network \(hidden = 8\)"):
        SureTask(other, start=load_bundle(folder))
