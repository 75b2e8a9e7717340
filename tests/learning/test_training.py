import json
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from tests.learning.toys import (
    Bandit,
    Chain,
    Coordination,
    Exam,
    Gamble,
    Target,
    ToyTask,
    bell_agent,
    linear_agent,
)

from trimtab.core.bundle import load_tensors
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.learning.checkpoints import save_tree
from trimtab.learning.lessons import Lessons
from trimtab.learning.run_files import BEST, LAST, STATE, forget_metrics_after
from trimtab.learning.runs import best_of_run
from trimtab.learning.settings import TrainingSettings
from trimtab.learning.training import Result, train

QUICK = TrainingSettings(
    iterations=30,
    horizon=8,
    minibatches=4,
    epochs=4,
    learning_rate=0.05,
    final_learning_rate=0.01,
    validate_every=10,
    discount_s=20,
)


class Ticking:
    """A clock that moves a second at each look."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def run(task: ToyTask, settings: TrainingSettings, folder: Path, resume: bool = False) -> Result:
    return train(task, settings, folder, clock=Ticking(), resume=resume)


TOYS = {
    "bandit": (lambda: ToyTask(linear_agent(4, 3), [Bandit(32), Bandit(32)]), -1.0),
    "chain": (lambda: ToyTask(linear_agent(5, 2), [Chain(32), Chain(32)]), -0.2),
    "coordination": (lambda: ToyTask(linear_agent(2, 2, agents=2), [Coordination(64)]), -1.0),
    "target": (lambda: ToyTask(bell_agent(2), [Target(32), Target(32)]), 0.02),
}


@pytest.mark.parametrize("toy", TOYS)
def test_ppo_finds_the_best_policy(toy: str, tmp_path: Path) -> None:
    make, optimum = TOYS[toy]
    result = run(make(), QUICK, tmp_path / "run")
    assert result.finished
    assert result.best_score <= optimum + 1e-6


@pytest.mark.parametrize("toy", ["bandit", "exam"])
def test_natural_steps_find_the_best_policy(toy: str, tmp_path: Path) -> None:
    """Alone among rollouts of the same luck, and in fewer iterations than its rival has steps."""
    makes = {
        "bandit": lambda: ToyTask(linear_agent(4, 3), [Bandit(32, rollouts=4)]),
        "exam": lambda: ToyTask(linear_agent(5, 2), [Exam(32, rollouts=8)]),
    }
    natural = {"algorithm": "natural", "baseline": "same_sequence", "reset_every": 1, "scored": 64}
    steps = {"learning_rate": 0.7, "final_learning_rate": 0.2, "discount_s": 0, "entropy": 0}
    settings = TrainingSettings(**{**QUICK.model_dump(), **natural, **steps})
    result = run(makes[toy](), settings, tmp_path / "run")
    assert result.best_score <= -1.0 + 1e-6


def test_weighing_goes_by_what_is_to_be_expected_not_by_hindsight(tmp_path: Path) -> None:
    weighing = TrainingSettings(**{**QUICK.model_dump(), "algorithm": "weighing", "baseline": "foreseen"})
    result = run(ToyTask(linear_agent(1, 3), [Gamble(32)]), weighing, tmp_path / "run")
    assert result.best_score == pytest.approx(-0.2)  # always safe


def test_weighing_needs_alternatives(tmp_path: Path) -> None:
    weighing = TrainingSettings(**{**QUICK.model_dump(), "algorithm": "weighing", "baseline": "foreseen"})
    with pytest.raises(SettingsError, match="needs a task that looks ahead for several actions"):
        run(ToyTask(linear_agent(4, 3), [Bandit(32)]), weighing, tmp_path / "run")
    with pytest.raises(ValueError, match="set baseline = foreseen, not critic"):
        TrainingSettings(algorithm="weighing")


WHOLE = {**QUICK.model_dump(), "reset_every": 1, "minibatches": 2, "baseline_learning_rate": 0.01}


@pytest.mark.parametrize(
    ("algorithm", "baseline"),
    [
        ("reinforce", "critic"),
        ("reinforce", "same_sequence"),
        ("reinforce", "same_sequence_value"),
        ("ppo", "multi_value"),
        ("ppo", "meta"),
    ],
)
def test_whole_episodes_teach_what_is_paid_at_the_end(algorithm: str, baseline: str, tmp_path: Path) -> None:
    """Luck of up to a mark and a half either way hides which of five answers was right."""
    chosen = {"algorithm": algorithm, "baseline": baseline, "sequences": 3, "learning_rate": 0.2}
    task = ToyTask(linear_agent(5, 2), [Exam(64, rollouts=4, luck=3.0)])
    result = run(task, TrainingSettings(**{**WHOLE, **chosen}), tmp_path / "run")
    assert result.best_score == -1
    assert all(line["decisions"] == 5 * 64 and line["cut_short"] == 0 for line in lines_of(result.folder))


def test_the_average_of_the_parameters_is_scored_and_kept(tmp_path: Path) -> None:
    """Two iterations with a long memory: what is kept lies half way between the two of them."""
    make, _ = TOYS["bandit"]
    steady = QUICK.model_copy(update={"final_learning_rate": QUICK.learning_rate})

    def parameters(**changes: float) -> Any:
        return run(make(), steady.model_copy(update=changes), tmp_path / repr(changes)).parameters

    kept = (parameters(iterations=1), parameters(iterations=2), parameters(iterations=2, averaging=0.99))
    for first, second, mean in zip(*map(jax.tree.leaves, kept), strict=True):
        assert not np.allclose(first, second)
        np.testing.assert_allclose(mean, (first + second) / 2, rtol=1e-5, atol=1e-7)


def test_copying_the_teacher_is_enough_where_it_is_right(tmp_path: Path) -> None:
    copying = {
        **QUICK.model_dump(),
        "iterations": 0,
        "imitation_iterations": 10,
        "imitation_learning_rate": 0.1,
    }
    result = run(TOYS["bandit"][0](), TrainingSettings(**copying), tmp_path / "run")
    assert result.best_score == -1
    first, *_, last = lines_of(result.folder)
    assert first["phase"] == last["phase"] == "imitation"
    assert last["anchor_loss"] < 0.5 * first["anchor_loss"]
    # The critic learned too: the mean reward in each context, which is all there is to know.
    assert last["value_loss"] < first["value_loss"]


def test_a_copy_is_made_to_doubt_itself_before_it_is_reinforced(tmp_path: Path) -> None:
    copying = {
        **QUICK.model_dump(),
        "iterations": 1,
        "imitation_iterations": 10,
        "imitation_learning_rate": 0.1,
        "learning_rate": 1e-6,
    }
    sure, doubting = (
        run(TOYS["bandit"][0](), TrainingSettings(**{**copying, "doubt": doubt}), tmp_path / str(doubt))
        for doubt in (1, 0.1)
    )
    assert lines_of(doubting.folder)[-1]["entropy"] > 2 * lines_of(sure.folder)[-1]["entropy"]
    assert sure.best_score == doubting.best_score == -1  # the likeliest actions are the same


def test_lessons_are_not_begun_from_with_doubt(tmp_path: Path) -> None:
    doubting = changed(algorithm="weighing", baseline="foreseen", doubt=0.5)
    lane = Gamble(32)
    task = ToyTask(linear_agent(1, 3), [lane], [Lessons(lane.observe())])
    with pytest.raises(SettingsError, match=r"doubt = 0.5 .*; set doubt = 1"):
        run(task, doubting, tmp_path / "run")


SHORT = TrainingSettings(
    iterations=8,
    imitation_iterations=4,
    horizon=8,
    minibatches=4,
    reset_every=2,
    validate_every=3,
    checkpoint_every=4,
    anchor=0.1,
    differential=True,
    target_kl=0.01,
)


class Killed(Exception):
    """Stands for a power cut."""


class Fragile(Chain):
    """Kills the run at a given decision, counted over the whole run."""

    left = -1

    def observe(self):
        return {**super().observe(), "teacher": np.ones((self.size, 1), np.int32)}

    def step(self, actions):
        self.left -= 1
        if self.left == 0:
            raise Killed
        return super().step(actions)


def fragile_task() -> ToyTask:
    return ToyTask(linear_agent(5, 2), [Fragile(8), Fragile(8)])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(fragile_task(), SHORT, tmp_path_factory.mktemp("whole") / "run").folder


# 8 decisions an iteration: before the first checkpoint, between two, and just after one.
@pytest.mark.parametrize("decision", [5, 8 * 6 + 3, 8 * 8 + 1])
def test_a_killed_run_continues_exactly(decision: int, uninterrupted: Path, tmp_path: Path) -> None:
    task = fragile_task()
    task.lanes[1].left = decision
    with pytest.raises(Killed):
        run(task, SHORT, tmp_path / "run")
    result = run(fragile_task(), SHORT, tmp_path / "run", resume=True)
    assert result.finished
    assert untimed(tmp_path / "run") == untimed(uninterrupted)
    for name in (BEST, LAST, STATE):
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes()


def test_a_run_that_began_from_another_policy_goes_on_from_it(uninterrupted: Path, tmp_path: Path) -> None:
    """Killed before its first checkpoint; who goes on with it does not know what it began from."""
    task = fragile_task()
    task.lanes[1].left = 5
    with pytest.raises(Killed):
        run(task, SHORT, tmp_path / "run")
    first = task.agent.init
    agent = task.agent._replace(init=lambda key: jax.tree.map(lambda leaf: leaf + 1.0, first(key)))
    run(ToyTask(agent, [Fragile(8), Fragile(8)]), SHORT, tmp_path / "run", resume=True)
    assert untimed(tmp_path / "run") == untimed(uninterrupted)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def untimed(folder: Path) -> list[dict[str, Any]]:
    lines = lines_of(folder)
    assert [line["iteration"] for line in lines] == list(range(1, SHORT.total_iterations + 1))
    timed = ("time", "seconds", "decisions_per_s")
    return [{name: value for name, value in line.items() if name not in timed} for line in lines]


def test_a_run_out_of_time_stops_at_a_checkpoint_and_can_go_on(uninterrupted: Path, tmp_path: Path) -> None:
    """The clock ticks a second at each of a few looks an iteration: time is up well before the end."""
    hurried = SHORT.model_copy(update={"minutes": 0.1})
    stopped = run(fragile_task(), hurried, tmp_path / "run")
    assert not stopped.finished
    assert stopped.iterations == 4
    assert run(fragile_task(), SHORT, tmp_path / "run", resume=True).finished
    assert untimed(tmp_path / "run") == untimed(uninterrupted)
    assert (tmp_path / "run" / STATE).read_bytes() == (uninterrupted / STATE).read_bytes()


def test_a_finished_run_has_nothing_to_continue(uninterrupted: Path) -> None:
    before = (uninterrupted / STATE).read_bytes()
    assert run(fragile_task(), SHORT, uninterrupted, resume=True).iterations == SHORT.total_iterations
    assert (uninterrupted / STATE).read_bytes() == before


def test_one_at_a_time_trains_in_a_folder(uninterrupted: Path) -> None:
    other = RunFolder.open(uninterrupted, clock=Ticking())
    with other.alone(), pytest.raises(TrimtabError, match="another process is at work in this folder"):
        run(fragile_task(), SHORT, uninterrupted, resume=True)


def test_the_best_checkpoint_is_the_best_and_can_be_read_alone(uninterrupted: Path) -> None:
    tensors, notes = load_tensors(uninterrupted / BEST)
    assert sorted(tensors) == ["policy/weight", "value/0"]
    scores = {line["iteration"]: line["score"] for line in lines_of(uninterrupted) if "score" in line}
    assert sorted(scores) == [3, 6, 9, 12]
    assert scores[int(notes["iteration"])] == float(notes["score"]) == min(scores.values())


def test_a_run_and_what_is_packed_of_it_tell_the_device_and_the_versions(uninterrupted: Path) -> None:
    machine = json.loads((uninterrupted / "machine.json").read_text())
    history = best_of_run(RunFolder.open(uninterrupted, clock=Ticking())).history
    assert machine["device"] == history["device"] == jax.devices()[0].device_kind
    assert machine["versions"]["jax"] == history["versions"]["jax"] == jax.__version__


def test_a_best_checkpoint_that_is_still_to_be_done_again_is_not_packed(
    uninterrupted: Path, tmp_path: Path
) -> None:
    """As if it was killed, went on from its last state, and was stopped before it was there again."""
    shutil.copytree(uninterrupted, tmp_path / "run")
    stopped = RunFolder.open(tmp_path / "run", clock=Ticking())
    iteration = best_of_run(stopped).iteration
    forget_metrics_after(stopped, iteration - 1)
    told = f"of iteration {iteration}, which is not among its metrics; "
    # A state beyond it is not done again: going on would not bring the line back.
    with pytest.raises(TrimtabError, match=f"{told}put metrics.jsonl back as it was, or start a new run"):
        best_of_run(stopped)
    (tmp_path / "run" / STATE).unlink()
    save_tree(tmp_path / "run" / STATE, {}, {"iteration": str(iteration - 1)})
    with pytest.raises(TrimtabError, match=f"{told}let it train further with --resume"):
        best_of_run(stopped)


def test_progress_is_told_after_every_iteration(uninterrupted: Path, tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []
    train(fragile_task(), SHORT, tmp_path / "run", lambda *said: told.append(said), clock=Ticking())
    assert [one[:2] for one in told] == [(number, 12) for number in range(1, 13)]
    assert [one[0] for one in told if one[2] is not None] == [3, 6, 9, 12]
    assert told[-1][4] == 0 and all(one[3] > 0 for one in told)


class Poisoned(Fragile):
    """From the fourth restart on, rewards are no numbers."""

    restarts = 0

    def reset(self, seed, mean_episode_s, *, imitating=False):
        super().reset(seed, mean_episode_s)
        self.restarts += 1

    def step(self, actions):
        outcome = super().step(actions)
        return outcome._replace(rewards=outcome.rewards * (np.nan if self.restarts > 3 else 1))


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_what_was_good(tmp_path: Path) -> None:
    """One restart to look, then one every two iterations: the rewards of iteration 5 are bad."""
    task = ToyTask(linear_agent(5, 2), [Poisoned(8), Fragile(8)])
    with pytest.raises(TrimtabError, match=r"iteration 5: .* is nan; the last good checkpoint is .*last"):
        run(task, SHORT, tmp_path / "run")
    tensors, notes = load_tensors(tmp_path / "run" / LAST)
    assert notes["iteration"] == "4"
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def changed(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**{**QUICK.model_dump(), **changes})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (changed(minibatches=7), "minibatches = 7 does not divide horizon x environments = 8 x 16 = 128"),
        (changed(anchor=1.0), "this one has none"),
        (changed(imitation_iterations=3), "this one has none"),
        (changed(tensorboard=True), "needs the package tensorboardX"),
        (changed(baseline="same_sequence", reset_every=1), "at least 2 rollouts"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    settings: TrainingSettings, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(SettingsError, match=said):
        run(ToyTask(linear_agent(5, 2), [Chain(8), Chain(8)]), settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_lanes_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="different numbers of rollouts"):
        run(ToyTask(linear_agent(5, 2), [Chain(8, 2), Chain(8, 4)]), QUICK, tmp_path / "run")
    with pytest.raises(SettingsError, match="no multiple of its rollouts"):
        run(ToyTask(linear_agent(5, 2), [Chain(8, 3)]), QUICK, tmp_path / "run")


def test_a_run_goes_on_only_with_the_settings_it_began_with(uninterrupted: Path, tmp_path: Path) -> None:
    other = SHORT.model_copy(update={"clip": 0.3})
    with pytest.raises(SettingsError, match=r"began with clip = 0.2 and cannot go on with 0.3"):
        run(fragile_task(), other, uninterrupted, resume=True)
    with pytest.raises(TrimtabError, match="a run is never overwritten"):
        run(fragile_task(), SHORT, uninterrupted)
    with pytest.raises(TrimtabError, match="no such folder"):
        run(fragile_task(), SHORT, tmp_path / "elsewhere", resume=True)


def test_another_agent_cannot_take_over_a_run(uninterrupted: Path) -> None:
    task = ToyTask(linear_agent(5, 3), [Fragile(8), Fragile(8)])
    with pytest.raises(TrimtabError, match=r"holds float32\[5, 1, 2\] where .*float32\[5, 1, 3\] belongs"):
        run(task, SHORT, uninterrupted, resume=True)


def test_episodes_that_never_end_within_the_horizon_are_refused(tmp_path: Path) -> None:
    endless = TrainingSettings(**{**WHOLE, "baseline": "none", "horizon": 2, "minibatches": 1})

    class Endless(Chain):
        def step(self, actions):
            return super().step(actions)._replace(ended=np.zeros(self.size, bool))

    with pytest.raises(
        TrimtabError, match=r"no episode ended within horizon = 2 .*shorten episodes \(.* of streams span_h"
    ):
        run(ToyTask(linear_agent(5, 2), [Endless(4)]), endless, tmp_path / "run")


def test_more_workloads_than_networks_are_refused(tmp_path: Path) -> None:
    few = TrainingSettings(**{**WHOLE, "baseline": "multi_value", "sequences": 2})
    with pytest.raises(SettingsError, match="workload number 2 came up"):
        run(ToyTask(linear_agent(5, 2), [Exam(8)]), few, tmp_path / "run")


def test_tensorboard_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path / "run" / "tensorboard")

        def add_scalar(self, *scalar: Any) -> None:
            written.append(scalar)

        def flush(self) -> None: ...

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=SummaryWriter))
    shown = SHORT.model_copy(update={"tensorboard": True})
    folder = run(fragile_task(), shown, tmp_path / "run").folder
    losses = [(line["value_loss"], line["iteration"]) for line in lines_of(folder)]
    assert [scalar[1:] for scalar in written if scalar[0] == "value_loss"] == losses
