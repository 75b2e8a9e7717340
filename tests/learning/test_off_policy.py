"""Off-policy runs: what settings do when, exact continuation, beginnings, members, refusals."""

import json
import math
import operator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.continuous_toys import Aim, Coached, Slopes, Ticking

from trimtab.core.bundle import Bundle, flatten, load_bundle, load_tensors, save_bundle, unflatten
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.learning.off_policy import recorded, train_off_policy
from trimtab.learning.off_policy_learner import Learner
from trimtab.learning.off_policy_player import Player
from trimtab.learning.off_policy_settings import ActorWeights, OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, begun
from trimtab.learning.replay import Layout, Replay
from trimtab.learning.run_files import BEST, LAST, STATE
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Result
from trimtab.networks.contextual_actor import ContextualActor

SHORT = OffPolicySettings(
    hidden=(16,),
    batch=8,
    warmup=8,
    capacity=120,
    horizon=5,
    updates_per_step=2,
    cloning_iterations=2,
    offline_iterations=2,
    iterations=8,
    reset_every=2,
    validate_every=3,
    checkpoint_every=4,
    anchor=0.5,
    anchor_to="start",
    anchor_iterations=4,
    context="gru",
    context_size=2,
    context_width=4,
    context_state=4,
    context_steps=3,
    sequence_steps=2,
)


def changed(**changes: Any) -> OffPolicySettings:
    return OffPolicySettings(**{**SHORT.model_dump(), **changes})


PLAIN_AIM = {"context": "none", "anchor": 0.0, "cloning_iterations": 0, "offline_iterations": 0}


# --- settings ------------------------------------------------------------------------------------


def test_a_run_copies_then_learns_from_the_log_then_plays() -> None:
    found = [SHORT.schedule(iteration) for iteration in range(SHORT.total_iterations)]
    assert [one.phase for one in found] == ["cloning"] * 2 + ["offline"] * 2 + ["online"] * 8
    assert found[0].weights == ActorWeights(0, 0, 1, 0, 0)
    assert found[2].weights == ActorWeights(2.5, 1, 0, 1, 0)
    assert [one.logged_share for one in found[3:6]] == [1, 0.5, 0.5]
    # Held to where it began, less and less: 0.5, 3/8, 2/8, 1/8, 0.
    assert [one.weights.start for one in found[4:9]] == pytest.approx([0.5, 0.375, 0.25, 0.125, 0])
    assert [one.weights.scaled for one in found[4:9]] == [1] * 5
    assert [one.resets for one in found[4:8]] == [True, False, True, False]
    assert [one.exploration for one in found[4:6]] == pytest.approx([0.1, 0.09])


def test_who_goes_on_for_longer_than_planned_explores_as_at_the_end() -> None:
    """As learners on live services do: a deviation below 0 would be noise that grows again."""
    found = [SHORT.schedule(SHORT.total_iterations + more).exploration for more in (0, 1, 100)]
    assert found == pytest.approx([SHORT.final_exploration] * 3)


def test_the_log_and_the_anchor_end_when_told() -> None:
    settings = changed(anchor_to="teacher", anchor_iterations=0, logged_iterations=3, held_iterations=1)
    found = [settings.schedule(4 + number) for number in range(5)]
    assert [one.logged_share for one in found] == [0.5, 0.5, 0.5, 0, 0]
    assert [one.actor_moves for one in found] == [False, True, True, True, True]
    assert {one.weights for one in found} == {ActorWeights(1, 1, 0, 0.5, 0)}
    assert changed(**PLAIN_AIM).schedule(0).weights == ActorWeights(1, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"checkpoint_every": 3}, "checkpoint_every = 3 is no multiple of reset_every = 2"),
        ({"cloning_iterations": 0, "offline_iterations": 0, "iterations": 0}, "no iterations of any phase"),
        ({"updates_per_step": 0}, "learns nothing, and a log is only learned from"),
        ({"sequence_steps": 3}, "sequence_steps = 3 does not divide batch = 8"),
        ({"final_exploration": 1.0}, "final_exploration = 1.0 is more than exploration = 0.1"),
        ({"warmup": 121}, "warmup = 121 is more than capacity = 120; no step would be learned from"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        changed(**changes)


def test_a_replay_may_be_small_where_nothing_is_learned_from_it() -> None:
    changed(warmup=121, iterations=0)
    changed(**PLAIN_AIM, warmup=121, updates_per_step=0)


# --- continuing ----------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for a power cut."""


class Fragile(Slopes):
    """Kills the run at a given step, counted over the whole run."""

    left = -1

    def step(self, actions):
        self.left -= 1
        if self.left == 0:
            raise Killed
        return super().step(actions)


def log_for(settings: OffPolicySettings, toy: Any = Slopes) -> Replay:
    return recorded(toy(settings, 6), lambda seen: 0.5 * seen, steps=12, seed=2)


def run(folder: Path, settings: OffPolicySettings = SHORT, *, left: int = -1, **more: Any) -> Result:
    task = Fragile(settings, 6)
    task.left = left
    given = {"log": log_for(settings), "seed": 5, **more}
    return train_off_policy(task, settings, folder, clock=Ticking(), **given)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run").folder


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def untimed(folder: Path) -> list[dict[str, Any]]:
    lines = lines_of(folder)
    assert [line["iteration"] for line in lines] == list(range(1, len(lines) + 1))
    timed = ("time", "seconds", "decisions_per_s")
    return [{name: value for name, value in line.items() if name not in timed} for line in lines]


# Played from iteration 5 on, 5 steps each, checkpoints after 4, 8 and 12; the ring is full after 4 of 8.
@pytest.mark.parametrize("step", [3, 5 * 5 + 2])
def test_a_killed_run_continues_exactly(step: int, uninterrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "run", left=step)
    assert run(tmp_path / "run", resume=True).finished
    assert untimed(tmp_path / "run") == untimed(uninterrupted)
    for name in (BEST, LAST, STATE):
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes()


def test_a_run_that_began_from_another_policy_goes_on_from_it(uninterrupted: Path, tmp_path: Path) -> None:
    """Killed before its first checkpoint; who goes on with it does not know what it began from."""

    def kill(*told: Any) -> None:
        raise Killed

    begun = best_of_run(RunFolder.open(uninterrupted, clock=Ticking())).parameters
    run(tmp_path / "whole", start=begun)
    with pytest.raises(Killed):
        run(tmp_path / "run", start=begun, progress=kill)
    run(tmp_path / "run", resume=True)
    assert untimed(tmp_path / "run") == untimed(tmp_path / "whole")


def test_a_run_out_of_time_stops_at_a_checkpoint(uninterrupted: Path, tmp_path: Path) -> None:
    """The clock ticks a second at each of a few looks an iteration: time is up well before the end."""
    stopped = run(tmp_path / "run", changed(minutes=0.1))
    assert (stopped.finished, stopped.iterations) == (False, 4)
    assert run(tmp_path / "run", resume=True).finished
    assert untimed(tmp_path / "run") == untimed(uninterrupted)


def test_one_at_a_time_trains_in_a_folder(uninterrupted: Path) -> None:
    other = RunFolder.open(uninterrupted, clock=Ticking())
    with other.alone(), pytest.raises(TrimtabError, match="another process is at work in this folder"):
        run(uninterrupted, resume=True)


def test_what_was_measured_is_written_down(uninterrupted: Path) -> None:
    lines = lines_of(uninterrupted)
    assert [line["phase"] for line in lines] == ["cloning"] * 2 + ["offline"] * 2 + ["online"] * 8
    assert [line["decisions"] for line in lines] == [0] * 4 + [30] * 8
    # The first steps are remembered before anything is learned: 8 steps of 6 environments take 2 of them.
    assert [line["updates"] for line in lines] == [10] * 4 + [6] + [10] * 7
    assert all(
        math.isfinite(line[name]) for line in lines for name in ("critic_loss", "auxiliary_loss", "value")
    )
    assert [line["iteration"] for line in lines if "score" in line] == [3, 6, 9, 12]
    best = best_of_run(RunFolder.open(uninterrupted, clock=Ticking()))
    assert best.score == min(line["score"] for line in lines if "score" in line)
    assert sorted(best.parameters) == ["actor", "critics", "encoder"] and best.history["decisions"] == 240


def test_progress_is_told_after_every_iteration(uninterrupted: Path, tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []
    run(tmp_path / "run", progress=lambda *said: told.append(said))
    assert [one[:2] for one in told] == [(number, 12) for number in range(1, 13)]
    assert [one[0] for one in told if one[2] is not None] == [3, 6, 9, 12]
    assert told[-1][4] == 0 and all(one[3] > 0 for one in told)


def test_a_run_goes_on_only_as_it_began(uninterrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"began with discount = 0.97 and cannot go on with 0.5"):
        run(uninterrupted, changed(discount=0.5), resume=True)
    with pytest.raises(SettingsError, match=r"began with seed = 5 and cannot go on with 6"):
        run(uninterrupted, resume=True, seed=6)
    with pytest.raises(TrimtabError, match="a run is never overwritten"):
        run(uninterrupted)


# --- beginnings ----------------------------------------------------------------------------------


def parameters_of(folder: Path, name: str = LAST) -> Any:
    return unflatten(load_tensors(folder / name)[0])


def same(one: Any, other: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), one, other)))


def test_zero_shot_plays_and_learns_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    start = parameters_of(uninterrupted)
    watching = changed(updates_per_step=0, cloning_iterations=0, offline_iterations=0, iterations=2, anchor=0)
    result = run(tmp_path / "run", watching, start=start)
    assert same(result.parameters, start)
    assert [line["updates"] for line in lines_of(result.folder)] == [0, 0]
    assert [line["decisions"] for line in lines_of(result.folder)] == [30, 30]


def test_fine_tuning_leaves_a_frozen_encoder_and_a_held_actor_alone(
    uninterrupted: Path, tmp_path: Path
) -> None:
    start = parameters_of(uninterrupted)
    tuning = changed(
        cloning_iterations=0, offline_iterations=0, iterations=2, frozen_encoder=True, held_iterations=2
    )
    result = run(tmp_path / "run", tuning, start=start)
    assert same(result.parameters["encoder"], start["encoder"])
    assert same(result.parameters["actor"], start["actor"])
    assert not same(result.parameters["critics"], start["critics"])


def test_parts_to_begin_from_are_taken_and_the_rest_is_drawn() -> None:
    shape = LearnerShape.of(SHORT, Slopes.layout)
    first, second = (begun(SHORT, shape, np.random.default_rng(seed)) for seed in (0, 1))
    mixed = begun(SHORT, shape, np.random.default_rng(1), {"actor": first.parameters["actor"]})
    assert same(mixed.parameters["actor"], first.parameters["actor"])
    assert same(mixed.targets["actor"], first.parameters["actor"])
    assert same(mixed.start, first.parameters["actor"])  # what the run is held to
    assert same(mixed.parameters["critics"], second.parameters["critics"])
    plain, wide = changed(**PLAIN_AIM), changed(hidden=(32,))
    for other, said in (
        (plain, "no encoder in this learner"),
        (wide, "the actor to begin from has other sizes"),
    ):
        shape = LearnerShape.of(other, Slopes.layout)
        with pytest.raises(SettingsError, match=said):
            begun(other, shape, np.random.default_rng(0), first.parameters)


@pytest.mark.slow
def test_a_strong_anchor_holds_the_actor_to_its_teacher(tmp_path: Path) -> None:
    """With critics that know nothing an actor goes anywhere; held to the teacher it comes close to it."""
    quick = {
        **PLAIN_AIM,
        "iterations": 20,
        "horizon": 10,
        "batch": 32,
        "capacity": 10_000,
        "actor_learning_rate": 3e-3,
    }

    def distance(anchor: float) -> float:
        settings = changed(**{**quick, "anchor": anchor, "anchor_to": "teacher", "anchor_iterations": 0})
        task = Coached(settings, 8)
        folder = tmp_path / str(anchor)
        parameters = train_off_policy(task, settings, folder, clock=Ticking(), seed=1).parameters
        seen = np.random.default_rng(0).uniform(-0.7, 0.7, (100, 3)).astype(np.float32)
        shape = LearnerShape.of(settings, task.layout)
        done = ContextualActor(parameters, shape.networks, None, systems=100).decide(seen)
        return float(np.square(done - task.taught(seen)).mean())

    assert distance(100.0) < 0.01
    assert distance(1e-6) > 0.03


def test_shares_of_a_log_are_learned_from(tmp_path: Path) -> None:
    """Rewards of the log are no numbers: learning from it cannot be missed."""
    poisoned = log_for(SHORT)
    rows = poisoned.in_order()
    Slopes.layout.split(rows).reward[:] = np.nan
    log = Replay.of(Slopes.layout, rows)
    online = {"cloning_iterations": 0, "offline_iterations": 0}
    with pytest.raises(TrimtabError, match=r"iteration 1: .* is nan; no checkpoint was written yet"):
        run(tmp_path / "half", changed(**online), log=log)
    assert run(tmp_path / "none", changed(**online, logged_share=0.0), log=log).finished


# --- playing -------------------------------------------------------------------------------------


def played(
    settings: OffPolicySettings, task: Any, steps: int, *, exploration: float = 0.0
) -> tuple[Any, Replay]:
    shape = LearnerShape.of(settings, task.layout)
    parameters = begun(settings, shape, np.random.default_rng(3)).parameters
    parameters["actor"]["last"]["weights"] *= 100
    replay = Replay(task.layout, lanes=task.size, capacity=10_000)
    player = Player(task, Learner(settings, shape), replay)
    player.begin(7)
    random = np.random.default_rng(0)
    for _ in range(steps):
        key = random.integers(0, 2**32, 2, np.uint32)
        player.answer(player.ask(parameters, key, exploration, random))
    return parameters, replay


def test_what_was_played_is_what_the_numpy_actor_of_a_saved_bundle_does(tmp_path: Path) -> None:
    """50 steps with a renewal at 30: decisions of compiled JAX and of numpy differ by rounding only."""
    parameters, replay = played(SHORT, Slopes(SHORT, 4), 50)
    shape = LearnerShape.of(SHORT, Slopes.layout)
    bundle = Bundle("try", "pod_autoscaling", "aware", {}, flatten(jax.device_get(parameters)))
    loaded = unflatten(load_bundle(save_bundle(tmp_path / "try", bundle)).tensors)
    actor = ContextualActor(loaded, shape.networks, shape.encoder, systems=4)
    steps = Slopes.layout.split(replay.in_order())
    assert steps.renewed[:, 0, 0].nonzero()[0].tolist() == [29]
    for at in range(50):
        assert actor.decide(steps.observation[at]) == pytest.approx(steps.action[at], abs=1e-5)
        told = (steps.reward[at, :, 0], steps.ended[at, :, 0], steps.renewed[at, :, 0])
        actor.tell(steps.observation[at], steps.action[at], *told)
    assert steps.action.std() > 0.01


def test_steps_are_remembered_as_they_were() -> None:
    """The last observation of an episode is kept beside the first of the next, and a cut is no end."""
    plain = changed(**PLAIN_AIM)
    _, replay = played(plain, Coached(plain, 2), 25)
    steps = Coached.layout.split(replay.in_order())
    assert not steps.terminated.any()
    assert steps.ended[:, 0, 0].nonzero()[0].tolist() == [19]
    follows = np.abs(steps.next_observation[:-1] - steps.observation[1:]).max(axis=(1, 2)) < 1e-6
    assert (~follows).nonzero()[0].tolist() == [19]
    assert steps.guide == pytest.approx(Coached.taught(steps.observation), abs=1e-6)
    assert steps.guided.all()


def test_what_a_guard_carried_out_is_what_is_remembered() -> None:
    class Guarded(Aim):
        def step(self, actions):
            tame = np.clip(actions, -0.01, 0.01)
            return super().step(tame)._replace(actions=tame, measured={"cut": abs(actions) > 0.01})

    plain = changed(**PLAIN_AIM)
    _, replay = played(plain, Guarded(plain, 4), 10)
    steps = Aim.layout.split(replay.in_order())
    assert abs(steps.action).max() <= 0.0101
    assert not steps.guided.any()


def test_exploration_is_even_at_first_where_wanted_and_unbounded_as_in_firm() -> None:
    plain = changed(**PLAIN_AIM, random_steps=1000)
    _, replay = played(plain, Aim(plain, 50), 40)
    drawn = Aim.layout.split(replay.in_order()).action
    assert (drawn.min(), drawn.max(), drawn.std()) == pytest.approx((-1, 1, np.sqrt(1 / 3)), abs=0.01)
    for clips, largest in ((True, 1.0), (False, 6.0)):
        loud = changed(**PLAIN_AIM, clips_actions=clips)
        _, replay = played(loud, Aim(loud, 50), 40, exploration=2.0)
        found = abs(Aim.layout.split(replay.in_order()).action).max()
        assert found == 1 if clips else found > largest


# --- members -------------------------------------------------------------------------------------


def test_members_learn_side_by_side_as_if_each_were_alone() -> None:
    """Two members with batches of their own end where single learners from the same state would."""
    alone = changed(**PLAIN_AIM, target_noise=0.0)
    both = changed(**PLAIN_AIM, target_noise=0.0, members=2)
    shape = LearnerShape.of(alone, Aim.layout)
    rows = np.random.default_rng(1).normal(size=(4, 2, 8, Aim.layout.columns)).astype(np.float32)
    weights, key = ActorWeights(*np.float32([1, 0, 0, 0, 0])), jax.random.PRNGKey(0)

    def learned(settings: OffPolicySettings, state: Any, drawn: Any) -> Any:
        learner = Learner(settings, shape)
        state = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), state)
        sums = learner.nothing_measured()
        return learner.update(state, sums, drawn, key, weights, np.bool_(True), np.int32(0))[0]

    states = begun(both, shape, np.random.default_rng(0))
    together = learned(both, states, rows)
    for member in (0, 1):
        first, last = (
            jax.tree.map(operator.itemgetter(member), tree) for tree in (states, together.parameters)
        )
        one = learned(alone, first, rows[:, member]).parameters
        close = jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-5), last, one)
        assert all(jax.tree.leaves(close))


def test_members_play_in_their_own_environments(tmp_path: Path) -> None:
    settings = changed(**{**PLAIN_AIM, "members": 3, "iterations": 4})

    class Several(Aim):
        def score(self, parameters):
            return {"score": float(len(parameters["actor"]["last"]["bias"]))}

    result = train_off_policy(Several(settings, 6), settings, tmp_path / "run", clock=Ticking(), seed=1)
    assert result.best_score == 3
    lines = lines_of(result.folder)
    assert all(len(line["member_rewards"]) == 3 for line in lines)
    assert np.mean(lines[0]["member_rewards"]) == pytest.approx(lines[0]["mean_reward"])


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "given", "said"),
    [
        ({}, {"log": None}, "learn from a log; give one"),
        ({}, {"log": log_for(SHORT, Aim)}, "the log has steps of Layout"),
        ({"sequence_steps": 8, "batch": 16, "context_steps": 20}, {"log": "short"}, "the log has 4 steps"),
        ({"members": 4}, {}, "members = 4 cannot share 6 environments evenly"),
        (
            {"capacity": 11},
            {},
            "capacity = 11 keeps 1 steps of each of 6 environments, and learning .* needs 2;",
        ),
        (
            {"capacity": 20, "warmup": 19},
            {},
            "keeps 3 steps of each of 6 environments, and .* needs 4; raise",
        ),
        ({"anchor_to": "teacher"}, {}, "needs a task with a teacher, and this one has none"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    changes, given, said: str, tmp_path: Path
) -> None:
    settings = changed(**changes)
    if given.get("log") == "short":
        given = {"log": recorded(Slopes(settings, 6), lambda seen: seen, steps=4, seed=0)}
    with pytest.raises(SettingsError, match=said):
        run(tmp_path / "run", settings, **given)
    assert not (tmp_path / "run").exists()


def test_critics_cannot_see_what_nobody_knows(tmp_path: Path) -> None:
    settings = changed(**PLAIN_AIM, sees_privileged=True)
    with pytest.raises(SettingsError, match="needs a task that knows more than it shows"):
        train_off_policy(Aim(settings), settings, tmp_path / "run", clock=Ticking())


def test_a_layout_is_all_a_learner_needs_to_know_of_a_task() -> None:
    shape = LearnerShape.of(changed(sees_privileged=True), Layout(observation=4, actions=2, privileged=3))
    assert shape.encoder is not None
    assert (shape.encoder.token, shape.encoder.profile) == (8, 3)
    assert (shape.networks.context, shape.networks.privileged) == (2, 3)
