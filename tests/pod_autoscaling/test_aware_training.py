"""Training of the learned autoscaler: services that step together, lessons from copies, runs to bundles."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.core.bundle import load_bundle
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.pod_autoscaling.aware.advantages import best_answers, fitted_advantages
from trimtab.pod_autoscaling.aware.features import FEATURES
from trimtab.pod_autoscaling.aware.lessons import collect_lessons
from trimtab.pod_autoscaling.aware.policy import AwarePolicy
from trimtab.pod_autoscaling.aware.profile import profile_of
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings, AwareTask, check_settings
from trimtab.pod_autoscaling.aware.training import SCORE, copied_log, loaded_lessons, train_aware
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.workload.applications import make_application

pytestmark = pytest.mark.pods

SMALL: dict[str, Any] = {
    "environments": 3,
    "validation_services": 2,
    "ground": {"hours": 0.1, "most_rate": 5.0, "least_cores": 0.2, "most_cores": 0.5, "traces": ["steps"]},
    "training": {
        "hidden": [8], "batch": 16, "warmup": 6, "iterations": 2, "horizon": 3, "updates_per_step": 1,
        "reset_every": 1, "checkpoint_every": 1, "validate_every": 1, "capacity": 1000,
    },
}  # fmt: skip


def settings_of(changes: dict[str, Any] | None = None, **training: Any) -> AwareSettings:
    plain = {**SMALL, **(changes or {})}
    return AwareSettings.model_validate({**plain, "training": {**SMALL["training"], **training}})


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def test_steps_earn_what_the_simulator_says_and_end_together() -> None:
    task = AwareTask(settings_of())
    task.reset(5)
    first = [task.observe().copy()]
    ends: list[int] = []
    for number in range(50):
        outcome = task.step(np.zeros((3, 3), np.float32))
        assert np.isfinite(outcome.rewards).all() and (outcome.rewards < 0).all()
        if outcome.truncated.any():
            assert outcome.truncated.all() and outcome.renewed.all() and not outcome.terminated.any()
            ends.append(number)
        first.append(task.observe().copy())
    # Six minutes are 24 intervals.
    assert ends == [23, 47]
    task.reset(5)
    np.testing.assert_array_equal(task.observe(), first[0])
    task.step(np.zeros((3, 3), np.float32))
    np.testing.assert_array_equal(task.observe(), first[1])


def test_nobody_begins_from_answers_that_mean_something_else(tmp_path: Path) -> None:
    """The networks are alike: three numbers each."""
    aware = make_policy("aware")
    assert isinstance(aware, AwarePolicy)
    settings = PRESETS.load("aware", {"actions": "logratio3", "lessons": 0})
    with pytest.raises(SettingsError, match=r"actions = around3, and logratio3 is asked for; set actions ="):
        train_aware(settings, tmp_path / "run", name="mine", clock=clock, start=aware.bundle)


def test_profiles_are_those_of_the_services() -> None:
    task = AwareTask(settings_of({"ground": {**SMALL["ground"], "applications": ["textbook"]}}))
    assert task.privileged().shape == (3, task.layout.privileged)
    wanted = profile_of(make_application("textbook"))
    np.testing.assert_allclose(task.privileged()[0], wanted)


def test_copies_go_the_way_of_what_they_are_copies_of() -> None:
    task = AwareTask(settings_of())
    task.reset(2)
    for _ in range(5):
        task.step(np.full((3, 3), 0.2, np.float32))
    rows = np.array([2, 0, 2])
    copy = task.copied(rows)
    answers = np.array([[0.5, 0, 0], [-0.5, 0, 0], [0, 0.5, 0]], np.float32)
    for _ in range(3):
        ours, theirs = task.step(answers), copy.step(answers[rows])
        np.testing.assert_array_equal(ours.rewards[rows], theirs.rewards)
        np.testing.assert_array_equal(task.observe()[rows], copy.observe())


def test_lessons_are_what_answers_spend_more_than_who_acts() -> None:
    task = AwareTask(settings_of())
    lessons = collect_lessons(task, 4, seed=1, candidates=4, hold=2, follow=2, every=3, share=0.7)
    # Two moments of two of the three services, and three answers to each beside the rule's.
    assert len(lessons.held) == 2 * 2 * 3
    assert not lessons.usual.any() and np.abs(lessons.answer).max() <= 1
    assert np.abs(lessons.held).max() > 0
    observation, worth = lessons.at_prices(np.full(12, 80.0))
    assert (observation[:, len(FEATURES)] == 1).all()
    np.testing.assert_allclose(worth, np.clip(-(lessons.held + 80 * lessons.late), -2, 2), rtol=1e-6)


def test_a_waste_is_taught_as_one() -> None:
    """Cores for half as much more work than foreseen, at an even load, cost more than they save."""
    ground = {**SMALL["ground"], "traces": ["constant"], "drift_share": 0.0, "hours": 0.3}
    task = AwareTask(settings_of({"ground": ground, "environments": 6}))
    lessons = collect_lessons(task, 30, seed=3, candidates=6, hold=4, follow=2, every=5)
    headroom = lessons.answer[:, 0]
    assert lessons.held[headroom > 0.5].mean() > lessons.held[headroom < -0.5].mean() + 0.1


def test_a_parabola_is_found_again_and_its_top_is_the_best_answer() -> None:
    random = np.random.default_rng(0)
    seen = np.repeat(random.uniform(-1, 1, (300, 3)), 4, 0).astype(np.float32)
    answers = random.uniform(-1, 1, (1200, 2)).astype(np.float32)
    usual = np.zeros((1200, 2), np.float32)

    def truth(seen: np.ndarray, answers: np.ndarray) -> np.ndarray:
        # The top is at (half of the first number, -1/3).
        return (
            -np.square(answers[:, 0] - seen[:, 0] / 2)
            + np.square(seen[:, 0] / 2)
            + (-np.square(answers[:, 1] + 1 / 3) + 1 / 9)
        )

    worth = (truth(seen, answers) + 0.01 * random.normal(size=1200)).astype(np.float32)
    found = fitted_advantages(seen, answers, usual, worth, seed=1)
    assert found.explained > 0.9
    best = best_answers(found, seen, usual, caution=0.0)
    assert np.abs(best[:, 0] - seen[:, 0] / 2).mean() < 0.15
    assert np.abs(best[:, 1] + 1 / 3).max() < 0.01
    # Who is cautious does not move for little.
    np.testing.assert_array_equal(best_answers(found, seen, usual, caution=9.0), usual)
    with pytest.raises(TrimtabError, match="too few to learn from"):
        fitted_advantages(seen[:8], answers[:8], usual[:8], worth[:8], seed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_run_from_rewards_leaves_a_policy(tmp_path: Path) -> None:
    settings = settings_of(context="gru", context_steps=4, sequence_steps=4, context_width=4, context_state=4)
    found = train_aware(settings, tmp_path / "run", name="mine", clock=clock)
    policy = AwarePolicy(load_bundle(found))
    assert policy.design.encoder is not None and policy.bundle.manifest["scores"][SCORE] > 0
    task = AwareTask(settings)
    episodes = task.played(policy)
    assert len(episodes) == 2 and all(one.metrics()["core_hours"] > 0 for one in episodes)
    assert make_policy(str(tmp_path / "run")).name == str(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("preset", "actions", "parts"), [("firm", "discrete7", 7), ("td3", "knobs2", 2)])
def test_other_answers_are_learned_and_acted_on(
    tmp_path: Path, preset: str, actions: str, parts: int
) -> None:
    training = {**SMALL["training"], "hidden": [8, 8], "context": "none"}
    changes = {**SMALL, "actions": actions, "training": training}
    settings = PRESETS.load(preset, changes)
    run = RunFolder.open(
        train_aware(settings, tmp_path / "run", name="mine", clock=clock).parent, clock=clock
    )
    # Nine steps, of which six or more are there before the first update: one after each step from then on.
    assert sum(line["updates"] for line in run.read_metrics()) == 4
    policy = AwarePolicy(load_bundle(run.path / "bundle"))
    assert policy.design.networks.actions == parts
    task = AwareTask(settings)
    services = [one.size for one in task.played(policy)]
    least, most = settings.deployment.least_replicas, settings.deployment.most_replicas
    assert all(((least <= sizes[:, 0]) & (sizes[:, 0] <= most)).all() for sizes in services)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_run_may_begin_by_copying_the_rule(tmp_path: Path) -> None:
    settings = settings_of({"logged_steps": 12, "actions": "logratio3"}, cloning_iterations=3, iterations=0)
    found = train_aware(settings, tmp_path / "run", name="mine", clock=clock)
    phases = [line["phase"] for line in RunFolder.open(tmp_path / "run", clock=clock).read_metrics()]
    assert phases == ["cloning"] * 3
    assert AwarePolicy(load_bundle(found)).design.actions == "logratio3"


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_run_from_lessons_in_two_rounds_leaves_a_policy_and_its_lessons(tmp_path: Path) -> None:
    changes = {"lessons": 6, "lessons_rounds": 2, "lessons_hold": 1, "lessons_follow": 1}
    settings = settings_of(changes, cloning_iterations=1, iterations=0, warmup=1)
    found = train_aware(settings, tmp_path / "run", name="mine", clock=clock)
    assert AwarePolicy(load_bundle(found)).design.actions == "around3"
    kept = sorted(path.name for path in (tmp_path / "run-lessons").iterdir())
    assert kept == ["round-1.safetensors", "round-2.safetensors"]
    task = AwareTask(settings)
    logs = [
        copied_log(task, loaded_lessons(path, task)) for path in sorted((tmp_path / "run-lessons").iterdir())
    ]
    # Seven answers to each of six moments or more, at three prices each.
    assert all(len(log) >= 3 * 7 * 6 for log in logs)
    # Lessons that lie beside a folder are those of its run, and no others.
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(SettingsError, match=r"lessons of other settings \(seed\); remove"):
        train_aware(settings.model_copy(update={"seed": 1}), tmp_path / "run", name="mine", clock=clock)
    missing = settings.model_copy(update={"lessons_from": str(tmp_path / "nowhere")})
    with pytest.raises(SettingsError, match="no such lessons"):
        train_aware(missing, tmp_path / "third", name="mine", clock=clock)


@pytest.mark.parametrize(
    ("changes", "training", "told"),
    [
        ({"ground": {"applications": ["textbok"]}}, {}, "textbook"),
        ({"ground": {"traces": ["diurnl"]}}, {}, "diurnal"),
        (
            {"ground": {"hours": 10 / 240}},
            {},
            "is 10 decisions, one every 15 s, and the first 10 do not tell",
        ),
        ({"deployment": {"interval_s": 600}}, {}, r"ground\.hours = 0\.1 is 0 decisions, one every 600 s"),
        ({"environments": 3}, {"members": 2}, "members = 2 cannot share 3 environments evenly"),
        ({"ground": {"least_cores": 9.0}}, {}, "least_cores = 9 is above most_cores = 6"),
        ({"least_price": 90.0}, {}, "least_price = 90 is above most_price = 80"),
        ({"lessons": 5}, {}, "set training.cloning_iterations too"),
        ({"lessons": 5, "actions": "knobs2"}, {"cloning_iterations": 1}, "need actions = around3"),
        ({"lessons": 5}, {"cloning_iterations": 1, "context": "gru"}, "set training.context = none"),
        ({}, {"action_enters": 1}, "action_enters = 1, and there are 1 hidden layers"),
        ({"lessons_from": "nowhere"}, {}, "lessons_from = nowhere without lessons"),
        ({"lessons": 5, "lessons_from": "nowhere"}, {"cloning_iterations": 1}, "nowhere: no such folder"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], training: dict[str, Any], told: str) -> None:
    with pytest.raises(TrimtabError, match=told):
        check_settings(settings_of(changes, **training))


def test_the_shortest_episodes_tell_what_is_familiar() -> None:
    check_settings(settings_of({"ground": {"hours": 11 / 240}}))


@pytest.mark.parametrize("name", PRESETS.names())
def test_presets_can_be_trained(name: str) -> None:
    settings = PRESETS.load(name)
    check_settings(settings)
    assert PRESETS.sentence(name).endswith(".")
    assert settings.training.total_iterations > 0


def test_firm_is_updated_once_a_step_of_one_environment_as_published() -> None:
    firm = PRESETS.load("firm")
    assert (firm.environments, firm.training.updates_per_step, firm.training.members) == (1, 1, 1)
    assert (firm.training.iterations, firm.training.horizon, firm.training.output) == (9000, 300, "tanh")


@pytest.mark.parametrize("name", ["meta", "pooled", "transfer", "transfer-plus", "bootstrap"])
def test_presets_of_experiments_say_what_train_does_with_them(name: str) -> None:
    """In the first line, which is what `trimtab train pod --presets` shows."""
    sentence = PRESETS.sentence(name)
    assert "make bench-pod-" in sentence and "`train`" in sentence


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_of_several_learners_the_first_is_kept(tmp_path: Path) -> None:
    settings = settings_of({"environments": 4}, members=2)
    policy = AwarePolicy(load_bundle(train_aware(settings, tmp_path / "run", name="mine", clock=clock)))
    assert policy.familiar is not None and policy.bundle.manifest["trained"]["familiar"]["services"] == 8
    # It is the one that was scored.
    alone = AwareTask(settings_of({"environments": 4})).score(policy.parameters)["score"]
    assert policy.bundle.manifest["scores"][SCORE] == pytest.approx(alone)
