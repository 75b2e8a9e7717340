"""Getting used to a service: lives of many episodes, who is told what, and when somebody is used to it."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from benchmarks.pod_adaptation import (
    BARS,
    Tuned,
    adaptation_rows,
    area_under_curve,
    deficit_rows,
    episodes_needed,
    explained,
    fine_tuning,
    strangeness,
)

from trimtab.core.bundle import save_bundle
from trimtab.core.errors import BundleError
from trimtab.learning.off_policy_state import LearnerShape, new_parameters
from trimtab.learning.off_policy_task import Outcome
from trimtab.pod_autoscaling.aware.adaptation import (
    HAND_FEATURES,
    STATE,
    AdaptationTask,
    Episodes,
    draw_lives,
    life_of,
    live,
)
from trimtab.pod_autoscaling.aware.adaptation_arms import ARMS, fine_tuned, load_arm, pre_trained
from trimtab.pod_autoscaling.aware.services import Ground
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings
from trimtab.pod_autoscaling.deployment import Deployment

GROUND = Ground(traces=("constant",), hours=1 / 30, least_cores=0.2, most_cores=0.4, most_rate=4.0)
STEPS = 8
"""Decisions of an episode of two minutes."""
SMALL = {
    "environments": 4,
    "ground.hours": 1 / 30,
    "ground.most_rate": 4.0,
    "training.hidden": (8,),
    "training.horizon": STEPS,
    "training.iterations": 2,
    "training.reset_every": 2,
    "training.checkpoint_every": 2,
    "training.validate_every": 2,
    "training.batch": 16,
    "training.warmup": 8,
}


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def small(preset: str, **more: object) -> AwareSettings:
    return PRESETS.load(preset, {**SMALL, **more})


def played(task: AdaptationTask, steps: int) -> list[Outcome]:
    still = np.zeros((task.size, 3), np.float32)
    return [task.step(still) for _ in range(steps)]


# --- lives --------------------------------------------------------------------------------------


def test_a_life_keeps_its_application_and_has_other_hours_and_sizes_in_each_episode() -> None:
    life = life_of("synthetic:3", GROUND, 5, "training")
    one, other, again = (life.episode(number, GROUND, Deployment()) for number in (0, 1, 0))
    assert one.application == other.application
    assert one.trace.start_s != other.trace.start_s
    assert (one.size != other.size).any()
    assert (one.size == again.size).all()


def test_no_application_lives_in_two_parts() -> None:
    names = [
        {life.application.name for life in draw_lives(GROUND, range(40), part)}
        for part in ("training", "validation", "test")
    ]
    assert not names[0] & names[1] and not names[0] & names[2] and not names[1] & names[2]


def test_nobody_is_asked_for_more_requests_than_allowed() -> None:
    assert max(life.rate for life in draw_lives(GROUND, range(40), "training")) <= GROUND.most_rate


# --- the task -----------------------------------------------------------------------------------


@pytest.mark.pods
def test_a_service_is_replaced_when_its_generation_is_over_and_not_before() -> None:
    task = AdaptationTask(small("pooled"), generation=2)
    task.reset(1)
    first = task.lives
    outcomes = played(task, 2 * STEPS)
    ended = [bool(one.truncated.all()) for one in outcomes]
    renewed = [bool(one.renewed.all()) for one in outcomes]
    assert [place for place, one in enumerate(ended) if one] == [STEPS - 1, 2 * STEPS - 1]
    assert [place for place, one in enumerate(renewed) if one] == [2 * STEPS - 1]
    assert task.lives != first


@pytest.mark.pods
def test_given_services_live_on() -> None:
    lives = draw_lives(GROUND, range(3), "test")
    task = AdaptationTask(small("pooled"), lives=lives, generation=1)
    task.reset(1)
    assert not any(one.renewed.any() for one in played(task, 2 * STEPS))
    assert task.lives == lives


@pytest.mark.pods
def test_the_last_thing_seen_of_an_episode_is_not_of_the_next() -> None:
    task = AdaptationTask(small("pooled"), lives=draw_lives(GROUND, range(3), "test"))
    task.reset(1)
    last = played(task, STEPS)[-1]
    # A service that has not lived yet has used nothing; one that has lived for two minutes has.
    assert (task.observe()[:, 0] == 0).all()
    assert (last.seen[:, 0] > 0).all()


@pytest.mark.pods
def test_only_those_who_are_told_see_numbers_about_the_application() -> None:
    lives = [life_of("matMul+matMul+sleep", GROUND, 5, "test")] * 2
    plain = AdaptationTask(small("pooled"), lives=lives)
    told = AdaptationTask(small("transfer-plus", **{"training.members": 1}), told=True, lives=lives)
    own = len(STATE) + 3
    assert plain.observe().shape == (2, own)
    assert told.observe().shape == (2, own + len(HAND_FEATURES))
    extra = dict(zip(HAND_FEATURES, told.observe()[0, own:].tolist(), strict=True))
    calls = {name: value for name, value in extra.items() if name.startswith("calls ") and value}
    assert calls == {"calls matMul": 2.0, "calls sleep": 1.0}


@pytest.mark.pods
def test_rewards_are_those_of_aware_whatever_the_learner_feels() -> None:
    settings = small("pooled")
    task = AdaptationTask(settings, lives=draw_lives(settings.ground, range(3), "test"))
    shape = LearnerShape.of(settings.training, task.layout)
    lived = live(new_parameters(shape, np.random.default_rng(0)), task, episodes=2)
    assert lived.rewards.shape == (2, 3)
    assert ((lived.rewards > 0) & (lived.rewards <= 1)).all()
    assert lived.contexts is None and lived.missed is None


# --- training and fine-tuning -------------------------------------------------------------------


@pytest.mark.pods
@pytest.mark.usefixtures("quick_compilation")
def test_an_arm_is_trained_written_read_and_goes_on_learning(tmp_path: Path) -> None:
    changes = {**SMALL, "training.context_steps": 4, "training.sequence_steps": 4}
    arm = ARMS["meta"]
    bundle = pre_trained(arm, tmp_path / "run", clock=clock, changes=changes)
    parameters, settings = load_arm(save_bundle(tmp_path / "bundle", bundle), arm)
    assert set(parameters) == {"actor", "critics", "encoder"}
    lives = draw_lives(GROUND, range(3), "test")
    asked = fine_tuning(arm, settings, members=3, episodes=2)
    rewards, lived = fine_tuned(arm, parameters, asked, lives, tmp_path / "tuned", clock=clock)
    assert rewards.shape == (2, 3) and all(one.shape == (2, 3) for one in lived)
    assert (lived.cores_used <= lived.cores_held).all() and (lived.late <= lived.finished).all()
    assert (lived.finished > 0).all()
    assert ((rewards > 0) & (rewards <= 1)).all()
    with pytest.raises(BundleError, match="for transfer; pre-train that one"):
        load_arm(tmp_path / "bundle", ARMS["transfer"])


@pytest.mark.pods
@pytest.mark.usefixtures("quick_compilation")
def test_the_best_of_several_sources_is_one_learner(tmp_path: Path) -> None:
    changes = {**SMALL, "training.members": 2}
    bundle = pre_trained(ARMS["transfer"], tmp_path / "run", clock=clock, changes=changes)
    scores = bundle.manifest["scores"]
    assert scores["source"] in (0, 1)
    assert scores["mean reward"] >= scores["of all"]
    assert bundle.tensors["actor/last/bias"].shape == (3,)


def test_the_encoder_rests_while_others_go_on_learning() -> None:
    for name, arm in ARMS.items():
        asked = fine_tuning(arm, PRESETS.load(arm.preset), members=50, episodes=20).training
        assert asked.frozen_encoder == (name == "meta")
        assert (asked.members, asked.iterations, asked.warmup) == (50, 20, 50 * asked.horizon)


# --- measures -----------------------------------------------------------------------------------


def test_one_who_is_good_from_the_beginning_needs_one_episode() -> None:
    assert episodes_needed(np.ones((20, 1)), np.array([1.0])).tolist() == [1.0]


def test_a_good_moment_that_does_not_last_does_not_count() -> None:
    rewards = np.concatenate([np.ones(9), np.zeros(10), np.ones(21)])[:, None]
    # From episode 20 on all are 1; ten of them are the first ten whose mean is 1 again.
    assert episodes_needed(rewards, np.array([1.0])).tolist() == [29.0]


def test_whoever_never_gets_there_counts_as_the_budget_and_one() -> None:
    late = np.concatenate([np.zeros(15), np.ones(15)])[:, None]
    assert episodes_needed(late, np.array([1.0])).tolist() == [31.0]


def test_strange_contexts_are_far_from_known_ones() -> None:
    # Around (1, 0), with deviations of 1 and 0.1.
    known = np.array([[0.0, 0.1], [2.0, 0.1], [0.0, -0.1], [2.0, -0.1]])
    found = strangeness(np.array([[2.0, 0.0], [1.0, 1.0]]), known)
    # One deviation away, and ten.
    assert found == pytest.approx([1.0, 100.0], rel=0.001)
    assert area_under_curve(found[:1], found[1:]) == 1.0


def test_variance_explained_is_1_less_that_which_is_left() -> None:
    true = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert explained(np.zeros((2, 2)), true).tolist() == [1.0, 1.0]
    assert explained(true - true.mean(0), true).tolist() == [0.0, 0.0]


def tuned(name: str, used: float, late: float, cpu_s: float = 60.0) -> Tuned:
    """Two services for 60 episodes, on ten cores and 100 requests each; at last scratch uses half of them."""
    held = np.full((60, 2), 10.0)
    cores = np.full((60, 2), 10 * used)
    if name == "scratch":
        cores[-50:] = 5.0
    lived = Episodes(10 * held, 100 * late * np.ones((60, 2)), cores, held, 0 * held + 4, held)
    return Tuned(np.ones((60, 2)), cpu_s, lived)


def test_what_is_lost_while_adapting_is_told_against_scratch_and_meta() -> None:
    """Meta uses 0.4 of its cores where scratch comes to 0.5: a fifth is lacking."""
    found = {name: tuned(name, 0.25, 0.04) for name in (*BARS, "scratch")}
    found["meta"] = tuned("meta", 0.4, 0.01)
    rows = {row.name.partition("episodes, ")[2]: row for row in deficit_rows(found)}
    assert rows["meta: deficit of CPU utilisation, share"].value == pytest.approx(0.2)
    assert rows["transfer: deficit of CPU utilisation, share"].value == pytest.approx(0.5)
    assert rows["meta: deficit of memory utilisation, share"].value == pytest.approx(0)
    assert rows["transfer / meta: late or failed requests (paper 7.1)"].value == pytest.approx(4)
    assert all(row.bar == "none" for row in rows.values())


def test_cpu_seconds_saved_are_told_against_tl_and_tl_plus() -> None:
    """Everybody is there at once; TL took three times the time of meta for as many episodes."""
    found = {name: tuned(name, 0.5, 0.0, cpu_s=180.0) for name in (*BARS, "scratch")}
    found["meta"] = tuned("meta", 0.5, 0.0, cpu_s=60.0)
    rows = {row.name: row for row in adaptation_rows(found, 0.95, barred=True)}
    for name in ("transfer", "transfer-plus"):
        saved = rows[f"meta: CPU seconds saved against {name}, per cent (paper 68-72)"]
        assert saved.value == pytest.approx(100 * 2 / 3) and saved.bar == "none"
