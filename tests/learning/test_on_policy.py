"""PPO on tasks of off-policy learning: known optima, contexts, cut episodes, exact continuation, refusals."""

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.continuous_toys import Aim, Coached, Regulator, Slopes, Ticking

from trimtab.core.bundle import load_tensors
from trimtab.core.errors import SettingsError
from trimtab.core.run_folder import RunFolder
from trimtab.learning.advantages import AverageRate, ReturnSpread
from trimtab.learning.learner import LearnerState, rescaled
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape
from trimtab.learning.on_policy import OnPolicyTask, PlayedEnvironment
from trimtab.learning.on_policy_settings import PpoSettings, refuse_meaningless, training_settings
from trimtab.learning.rollouts import collect, compiled
from trimtab.learning.run_files import BEST, STATE
from trimtab.learning.settings import TrainingSettings
from trimtab.learning.training import Result, train
from trimtab.networks.contextual_actor import ContextualActor

FAST = PpoSettings(epochs=4, minibatches=4, learning_rate=1e-2, final_learning_rate=1e-3)
SHORT = OffPolicySettings(
    hidden=(16,), discount=0.9, exploration=0.3, final_exploration=0.05, iterations=30, horizon=20,
    reset_every=5, validate_every=10, checkpoint_every=10,
)  # fmt: skip
CONTEXT = {"context": "gru", "context_size": 2, "context_width": 8, "context_state": 8, "context_steps": 6}


def changed(**changes: Any) -> OffPolicySettings:
    return OffPolicySettings(**{**SHORT.model_dump(), **changes})


def trained(
    toy: Any, settings: OffPolicySettings, folder: Path, *, resume: bool = False, ppo: PpoSettings = FAST
) -> Result:
    asked = training_settings(settings, ppo, interval_s=1, seed=3)
    task = OnPolicyTask(toy(settings), settings, interval_s=1, seed=3)
    return train(task, asked, folder, clock=Ticking(), resume=resume)


# --- learning ------------------------------------------------------------------------------------


def test_it_regulates_nearly_as_well_as_can_be(tmp_path: Path) -> None:
    """Episodes are cut after 20 steps, and the best policy is that of a problem without an end."""
    settings = changed(iterations=60)
    field = Regulator(settings)
    optimum, nothing = field.cost_of(Regulator.optimal_gain(0.9)), field.cost_of(np.zeros((3, 2)))
    found = trained(Regulator, settings, tmp_path / "run").best_score
    assert found < optimum + 0.15 * (nothing - optimum)


def test_a_teacher_is_copied_first(tmp_path: Path) -> None:
    settings = changed(cloning_iterations=15, iterations=0, horizon=10, validate_every=15)
    result = trained(Coached, settings, tmp_path / "run")
    shape = LearnerShape.of(settings, Coached.layout)
    seen = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3)).astype(np.float32)
    answers = ContextualActor(result.parameters, shape.networks, None).decide(seen)
    wanted = Coached.taught(seen)
    assert np.abs(answers - wanted).mean() < 0.25 * np.abs(wanted).mean()


@pytest.mark.slow
def test_contexts_tell_what_a_system_is_like(tmp_path: Path) -> None:
    """Without a past nothing is better than 0, which costs 1/9."""
    found = trained(Slopes, changed(**CONTEXT, iterations=40, horizon=30), tmp_path / "run").best_score
    assert found < 0.6 / 9


# --- parts ---------------------------------------------------------------------------------------


def test_the_agent_decides_as_the_actor_that_serves() -> None:
    """The same contexts, from windows that JAX reads anew and from a memory that numpy carries along."""
    settings = changed(**{**CONTEXT, "context_steps": 40})
    toy = Slopes(settings, size=5)
    task = OnPolicyTask(toy, settings, interval_s=1, seed=1)
    (lane,) = task.lanes
    shape = LearnerShape.of(settings, toy.layout)
    parameters = task.agent.init(jnp.zeros(2, jnp.uint32))
    # What is drawn answers nearly nothing: make it speak up.
    parameters["actor"]["last"]["weights"] = 100 * parameters["actor"]["last"]["weights"]
    serving = ContextualActor(parameters, shape.networks, shape.encoder, systems=5)
    lane.reset(7, math.inf)
    best, answers = jax.jit(task.agent.best), []
    for number in range(35):
        seen = lane.observe()
        answer = serving.decide(seen["seen"])
        shown = {name: jnp.asarray(part) for name, part in seen.items()}
        np.testing.assert_allclose(best(parameters, shown), answer, atol=2e-6)
        answers.append(answer)
        outcome = lane.step(answer)
        renewed = np.full(5, number == 29)  # systems live for 30 steps
        serving.tell(seen["seen"], answer, outcome.rewards, outcome.ended, renewed)
    assert np.std(answers) > 0.05


def test_it_begins_from_what_another_learner_left() -> None:
    """The actor is taken over, the rest is drawn; one of another size is refused."""
    toy = Aim(SHORT)
    drawn = [OnPolicyTask(toy, SHORT, interval_s=1, seed=seed).agent.init(jnp.zeros(2)) for seed in (0, 1)]
    actor = drawn[0]["actor"]
    taken = OnPolicyTask(toy, SHORT, interval_s=1, seed=1, start={"actor": actor}).agent.init(jnp.zeros(2))
    weights = [tree["actor"]["layers"][0]["weights"] for tree in (*drawn, taken)]
    assert (weights[2] == weights[0]).all() and (weights[1] != weights[0]).any()
    critics = [tree["critic"]["layers"][0]["weights"] for tree in (drawn[1], taken)]
    np.testing.assert_array_equal(*critics)
    with pytest.raises(SettingsError, match="the actor to begin from has other sizes"):
        OnPolicyTask(toy, changed(hidden=(8,)), interval_s=1, seed=1, start={"actor": actor})


def test_samples_lie_around_the_answer_and_spread_no_less_than_the_least() -> None:
    settings = changed(exploration=0.3, final_exploration=0.2)
    task = OnPolicyTask(Aim(settings), settings, interval_s=1, seed=0)
    parameters = task.agent.init(jnp.zeros(2, jnp.uint32))
    observation = {"seen": jnp.zeros((4000, 2))}
    for log_spread, deviation in ((math.log(0.3), 0.3), (-9.0, 0.2)):
        some = {**parameters, "log_spread": jnp.full(2, log_spread)}
        acted = task.agent.act(some, observation, jnp.array([1, 2], jnp.uint32))
        off = np.asarray(acted.action - task.agent.best(some, observation))
        assert off.std() == pytest.approx(deviation, rel=0.05)
        judged = task.agent.judge(some, observation, acted.action)
        np.testing.assert_allclose(judged.log_prob, acted.log_prob, atol=1e-5)


def test_a_cut_episode_is_valued_as_if_it_went_on() -> None:
    settings = changed()
    toy = Regulator(settings, size=4)
    task = OnPolicyTask(toy, settings, interval_s=1, seed=0)
    parameters = task.agent.init(jnp.zeros(2, jnp.uint32))
    parameters["critic"]["last"]["bias"] = parameters["critic"]["last"]["bias"] + 5
    (lane,) = task.lanes
    lane.reset(1, math.inf)
    rollout = collect([lane], compiled(task.agent.act), parameters, jnp.array([0, 1], jnp.uint32), 25)
    assert rollout.beyond is not None
    # The twentieth step is the last: what it led to is worth about 5, and no other step leads beyond.
    assert np.flatnonzero(rollout.ended.all(1)).tolist() == [19]
    assert np.flatnonzero(rollout.beyond.any(1)).tolist() == [19]
    np.testing.assert_allclose(rollout.beyond[19], 5, atol=0.5)
    asked = TrainingSettings(discount_s=-1 / math.log(0.9), scale_rewards=False)
    state = LearnerState(parameters, parameters, (), AverageRate.unknown(), ReturnSpread.unknown(4), ())
    _, credited = rescaled(state, rollout, asked)
    wanted = rollout.rewards + 0.9 * rollout.beyond
    np.testing.assert_allclose(credited.rewards, wanted, rtol=1e-5)


def test_an_end_is_worth_nothing_beyond() -> None:
    toy = Aim(SHORT, size=3)
    lane = PlayedEnvironment(toy, LearnerShape.of(SHORT, toy.layout), interval_s=15)
    lane.reset(0, math.inf)
    outcome = lane.step(np.full((3, 2), 7.0))
    assert outcome.ended.all() and lane.cut_short() is None
    assert outcome.elapsed_s.tolist() == [15] * 3
    toy.reset(0)
    np.testing.assert_array_equal(outcome.rewards, toy.step(np.ones((3, 2), np.float32)).rewards)
    with pytest.raises(SettingsError, match="set mean_episode_s = 0"):
        lane.reset(0, 60.0)


# --- runs ----------------------------------------------------------------------------------------


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = changed(iterations=8, reset_every=2, checkpoint_every=4, validate_every=2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    trained(Regulator, settings, whole)
    in_time = settings.model_copy(update={"minutes": 1e-9})
    assert trained(Regulator, in_time, parts).iterations == 4
    assert trained(Regulator, settings, parts, resume=True).finished
    for name in (BEST, STATE):
        ours, theirs = load_tensors(whole / name), load_tensors(parts / name)
        assert ours[1] == theirs[1] and ours[0].keys() == theirs[0].keys()
        for key, tensor in ours[0].items():
            np.testing.assert_array_equal(tensor, theirs[0][key], err_msg=key)
    scores = [
        [line.get("score") for line in RunFolder.open(path, clock=Ticking()).read_metrics()]
        for path in (whole, parts)
    ]
    assert scores[0] == scores[1] and scores[0][-1] is not None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"policy_delay": 3}, "training.policy_delay = 3 means nothing to PPO; leave it out"),
        ({"members": 4}, "training.members = 4 means nothing to PPO"),
        ({"offline_iterations": 2}, "training.offline_iterations = 2 means nothing"),
        ({"anchor_to": "start"}, "training.anchor_to = start means nothing"),
        ({"normalisation": "batch"}, "training.normalisation = batch goes by replayed batches"),
        ({"discount": 0}, "training.discount = 0 leaves PPO nothing"),
        ({"final_exploration": 0}, "training.final_exploration = 0 leaves PPO nothing"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        refuse_meaningless(changed(**changes))
    refuse_meaningless(SHORT)


def test_parts_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="minibatches = 7 does not divide"):
        trained(Aim, SHORT, tmp_path / "run", ppo=PpoSettings(minibatches=7))
    assert not (tmp_path / "run").exists()
