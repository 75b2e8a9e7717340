"""Evolution strategies: a known optimum, resuming, and what is kept."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from trimtab.benchmark.suite import FIRST_TEST_SEED
from trimtab.core.bundle import load_tensors, save_tensors
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import load_settings
from trimtab.learning.evolution import (
    VALIDATION_SEEDS,
    EvolutionSettings,
    evolved,
    first_state,
    seeds_of_iteration,
    train_evolution,
)
from trimtab.learning.run_files import STATE
from trimtab.learning.runs import best_of_run, is_finished


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


class Bowl:
    """A bowl with its lowest point at (1, -2, 3), where the second number matters most."""

    start, widths = np.zeros(3), np.array([1.0, 0.5, 1.0])
    target, weight = np.array([1.0, -2.0, 3.0]), np.array([1.0, 5.0, 1.0])

    def __init__(self) -> None:
        self.decisions = 0

    def trial(self, candidates: np.ndarray, iteration: int) -> np.ndarray:
        self.decisions += len(candidates)
        # The same luck for all candidates of an iteration, so it cancels.
        luck = 100 * np.sin(iteration)
        return (self.weight * (candidates - self.target) ** 2).sum(axis=1) + luck

    def score(self, numbers: np.ndarray) -> dict[str, float]:
        return {
            "score": float((self.weight * (numbers - self.target) ** 2).sum()),
            "first": float(numbers[0]),
        }

    def described(self) -> dict[str, Any]:
        return {"shape": "bowl"}


def test_finds_the_lowest_point():
    state = first_state(Bowl.start)
    task, settings = Bowl(), EvolutionSettings(iterations=300)
    for _ in range(300):
        state, _ = evolved(state, task, settings)
    assert np.abs(state.average - Bowl.target).max() < 0.1
    assert task.decisions == 300 * 2 * settings.pairs


def test_one_step_goes_downhill_by_the_learning_rate():
    # Adam's first step has the length of the learning rate in every number, times the width: the slope over
    # its own size is 1, and the mean of slopes has seen (1 - momentum) of it.
    settings = EvolutionSettings(iterations=2, pairs=400, step=0.01, learning_rate=0.1, momentum=0.0)
    state, _ = evolved(first_state(Bowl.start), Bowl(), settings)
    assert np.sign(state.numbers).tolist() == [1, -1, 1]
    assert np.abs(state.numbers) == pytest.approx([0.1, 0.05, 0.1], rel=1e-6)


def test_workloads_of_a_search_are_its_own():
    """Below those of validation and of comparisons; other iterations and other runs have others."""
    seen = [
        seeds_of_iteration(EvolutionSettings(seed=seed), iteration, count=50)
        for seed, iteration in ((0, 0), (0, 1), (1, 0))
    ]
    assert len(set().union(*seen)) == 150
    assert min(map(min, seen)) >= 0 and max(map(max, seen)) < VALIDATION_SEEDS < FIRST_TEST_SEED
    assert seen[1] == seeds_of_iteration(EvolutionSettings(), 1, count=50)


def test_a_resumed_run_is_the_same_run(tmp_path):
    settings = EvolutionSettings(iterations=12, pairs=4, validate_every=4, checkpoint_every=4)
    whole = train_evolution(Bowl(), settings, tmp_path / "whole", clock=clock)
    # No time passes by this clock, so a run that may take no time ends at its first checkpoint.
    short = settings.model_copy(update={"minutes": 1e-9})

    class Ticking:
        seconds = 0

        def __call__(self) -> datetime:
            self.seconds += 1
            return datetime.fromtimestamp(self.seconds, tz=UTC)

    first = train_evolution(Bowl(), short, tmp_path / "parts", clock=Ticking())
    assert len(first.read_metrics()) == 4
    assert not is_finished(first, settings)  # pyright: ignore[reportArgumentType]
    second = train_evolution(Bowl(), settings, tmp_path / "parts", clock=clock, resume=True)
    assert is_finished(second, settings)  # pyright: ignore[reportArgumentType]
    one, other = (load_tensors(run.path / "state-last.safetensors")[0] for run in (whole, second))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_what_is_kept_may_lie_short_of_what_was_found(tmp_path):
    """Half way from the start."""

    class Elsewhere(Bowl):
        start = np.full(3, 7.0)

    settings = EvolutionSettings(iterations=6, pairs=4, validate_every=6, checkpoint_every=3, kept=0.5)
    run = train_evolution(Elsewhere(), settings, tmp_path / "whole", clock=clock)
    arrays, _ = load_tensors(run.path / STATE)
    assert (arrays["start"] == 7.0).all() and (arrays["average"] != 7.0).all()
    half_way = (7.0 + arrays["average"]) / 2
    best = best_of_run(run)
    np.testing.assert_allclose(best.parameters["numbers"], half_way)
    assert best.score == pytest.approx(Bowl().score(half_way)["score"])
    whole = train_evolution(
        Elsewhere(), settings.model_copy(update={"kept": 1.0}), tmp_path / "all", clock=clock
    )
    np.testing.assert_array_equal(best_of_run(whole).parameters["numbers"], arrays["average"])


def test_a_search_that_began_from_another_policy_goes_on_from_it(tmp_path):
    """Killed before its first checkpoint; who goes on with it does not know what it began from."""

    class Elsewhere(Bowl):
        start = np.full(3, 7.0)

    class Killed(Elsewhere):
        def trial(self, candidates: np.ndarray, iteration: int) -> np.ndarray:
            raise KeyboardInterrupt

    settings = EvolutionSettings(iterations=3, pairs=4, kept=0.5)
    whole = train_evolution(Elsewhere(), settings, tmp_path / "whole", clock=clock)
    with pytest.raises(KeyboardInterrupt):
        train_evolution(Killed(), settings, tmp_path / "parts", clock=clock)
    parts = train_evolution(Bowl(), settings, tmp_path / "parts", clock=clock, resume=True)
    assert parts.read_metrics() == whole.read_metrics()


def test_the_best_by_validation_is_kept(tmp_path):
    settings = EvolutionSettings(iterations=40, validate_every=10)
    run = train_evolution(Bowl(), settings, tmp_path / "run", clock=clock)
    best = best_of_run(run)
    scores = [line["score"] for line in run.read_metrics() if "score" in line]
    assert best.score == min(scores)
    assert best.task == {"shape": "bowl"}
    assert best.measured["first"] == best.parameters["numbers"][0]


@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_a_trial_that_is_no_number_ends_the_search(tmp_path, worst):
    class Broken(Bowl):
        def trial(self, candidates: np.ndarray, iteration: int) -> np.ndarray:
            scores = super().trial(candidates, iteration)
            scores[0] = scores[0] if iteration < 2 else worst
            return scores

    settings = EvolutionSettings(iterations=4, pairs=4, checkpoint_every=2)
    said = rf"iteration 3: mean_trial_score is {worst}; the last good checkpoint is .*last"
    with pytest.raises(TrimtabError, match=said):
        train_evolution(Broken(), settings, tmp_path / "run", clock=clock)
    arrays, notes = load_tensors(tmp_path / "run" / STATE)
    assert notes["iteration"] == "2"
    assert all(np.isfinite(array).all() for array in arrays.values())


@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_a_validation_that_is_no_number_ends_the_search(tmp_path, worst):
    class Broken(Bowl):
        def score(self, numbers: np.ndarray) -> dict[str, float]:
            return {"score": worst, "first": 0.0}

    with pytest.raises(TrimtabError, match=rf"iteration 2: score is {worst}; no checkpoint was written yet"):
        train_evolution(Broken(), EvolutionSettings(iterations=2, pairs=2), tmp_path / "run", clock=clock)


def test_a_search_without_steps_is_refused():
    """It would leave a run without numbers, which nothing can go on with."""
    with pytest.raises(SettingsError, match="iterations = 0"):
        load_settings(EvolutionSettings, None, {"iterations": 0})


def test_a_run_goes_on_as_it_began(tmp_path):
    settings = EvolutionSettings(iterations=2, pairs=2)
    train_evolution(Bowl(), settings, tmp_path / "run", clock=clock)
    other = settings.model_copy(update={"pairs": 3})
    with pytest.raises(SettingsError, match="began with pairs = 2"):
        train_evolution(Bowl(), other, tmp_path / "run", clock=clock, resume=True)


def test_a_search_goes_on_only_from_a_state_of_its_own(tmp_path):
    settings = EvolutionSettings(iterations=2)
    run = train_evolution(Bowl(), settings, tmp_path / "run", clock=clock)
    state = run.path / STATE
    arrays, notes = load_tensors(state)
    for other in ({"numbers": arrays["numbers"]}, {name: value[:2] for name, value in arrays.items()}):
        save_tensors(state, other, notes)
        with pytest.raises(TrimtabError, match=r"state-last\.safetensors: no state of this search"):
            train_evolution(Bowl(), settings, run.path, clock=clock, resume=True)


def test_one_at_a_time_trains_in_a_folder(tmp_path):
    settings = EvolutionSettings(iterations=4, pairs=2)

    class Meddled(Bowl):
        """Somebody else goes on with the run while it is going on."""

        def trial(self, candidates: np.ndarray, iteration: int) -> np.ndarray:
            with pytest.raises(TrimtabError, match="another process is at work in this folder"):
                train_evolution(Bowl(), settings, tmp_path / "run", clock=clock, resume=True)
            return super().trial(candidates, iteration)

    run = train_evolution(Meddled(), settings, tmp_path / "run", clock=clock)
    assert [line["iteration"] for line in run.read_metrics()] == [1, 2, 3, 4]
    train_evolution(Bowl(), settings, tmp_path / "run", clock=clock, resume=True)  # over, and free again


@pytest.mark.parametrize(("failing", "kept"), [(TrimtabError, False), (KeyboardInterrupt, True)])
def test_a_run_refused_before_its_first_iteration_leaves_no_folder(tmp_path, failing, kept):
    """Whoever is only interrupted can go on."""

    class Broken(Bowl):
        def trial(self, candidates: np.ndarray, iteration: int) -> np.ndarray:
            raise failing("too few jobs")

    settings = EvolutionSettings(iterations=2, pairs=2)
    with pytest.raises(failing):
        train_evolution(Broken(), settings, tmp_path / "run", clock=clock)
    assert (tmp_path / "run").exists() == kept
    train_evolution(Bowl(), settings, tmp_path / "run", clock=clock, resume=kept)


def test_iterations_are_counted_by_their_numbers(tmp_path):
    """Not by lines, of which two that trained at once have left too many."""
    settings = EvolutionSettings(iterations=2, pairs=2)
    run = train_evolution(Bowl(), settings, tmp_path / "run", clock=clock)
    lines = (run.path / "metrics.jsonl").read_text()
    (run.path / "metrics.jsonl").write_text(lines + lines)
    assert best_of_run(RunFolder.open(run.path, clock=clock)).history["iterations"] == 2


INTERRUPTED = """
import os, signal, time
from trimtab.core.processes import Processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
playing = Processes(2)
playing(len, ["one"])
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    print(playing(len, ["one", "three"]))
"""


def test_workers_leave_ctrl_c_to_whoever_started_them():
    """It reaches the whole group of processes; each worker would print where it was."""
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[3, 5]\n", "")
