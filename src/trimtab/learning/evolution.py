"""Evolution strategies: learn a few hundred numbers from whole episodes, without a gradient of anything.

After Salimans et al. (2017). Each iteration tries the present numbers plus and minus random steps on the same
workloads; the differences of the two scores say how much each direction helps. It fits where an episode
takes milliseconds and the reward of one decision drowns in the luck of those that follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import load_tensors, save_tensors
from trimtab.core.errors import TrimtabError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import Field, Settings
from trimtab.learning.run_files import (
    LAST,
    STATE,
    forget_metrics_after,
    keep_best,
    refuse_non_finite,
    run_to_train,
)
from trimtab.learning.training import Progress

__all__ = [
    "VALIDATION_SEEDS",
    "EvolutionSettings",
    "EvolutionState",
    "EvolutionTask",
    "evolved",
    "first_state",
    "seeds_of_iteration",
    "train_evolution",
]

Floats = NDArray[np.float64]

VALIDATION_SEEDS = 900_000
"""Validation takes the seeds from here on, training those below; those of comparisons begin at a million."""
SLOWLY = 0.99
"""How long the mean square of the slopes is remembered."""


class EvolutionSettings(Settings):
    """How to search.

    >>> EvolutionSettings(iterations=10).total_iterations
    10
    """

    iterations: int = Field(default=200, ge=1, le=1_000_000, description="Steps of the search.")
    pairs: int = Field(
        default=24, ge=1, le=100_000, description="Random directions tried in each, both ways."
    )
    step: float = Field(default=0.3, gt=0, le=10, description="Length of a trial step, in units of the task.")
    final_step: float = Field(default=0.1, gt=0, le=10, description="The same at the last iteration.")
    learning_rate: float = Field(
        default=0.12, gt=0, le=10, description="Step size of Adam, in the same units."
    )
    final_learning_rate: float = Field(default=0.02, gt=0, le=10, description="The same at the end.")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="How long Adam remembers directions.")
    averaging: float = Field(
        default=0.95, ge=0, lt=1, description="How slowly a mean of the numbers over iterations forgets."
    )
    kept: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="So far from the start to that mean lies what is kept: luck moves numbers, too.",
    )
    validate_every: int = Field(default=10, ge=1, le=100_000, description="Iterations between validations.")
    checkpoint_every: int = Field(default=10, ge=1, le=100_000, description="Iterations between checkpoints.")
    minutes: float = Field(default=0, ge=0, description="Stop at the first checkpoint after this; 0: never.")
    seed: int = Field(default=0, ge=0, le=1_000_000, description="Number that fixes the directions.")

    @property
    def total_iterations(self) -> int:
        return self.iterations


class EvolutionState(NamedTuple):
    """Where a search stands: everything it needs to go on."""

    iteration: int
    start: Floats
    numbers: Floats
    average: Floats  # of the numbers over the last iterations
    slope: Floats  # mean over the last iterations
    square: Floats  # mean square of the slopes

    def kept(self, settings: EvolutionSettings) -> Floats:
        """What a policy gets of it."""
        return (1 - settings.kept) * self.start + settings.kept * self.average


class EvolutionTask(Protocol):
    """What is searched for. All candidates of a trial meet the same workloads and luck."""

    start: Floats
    widths: Floats
    """How far each number may usefully move."""

    def trial(self, candidates: Floats, iteration: int) -> Floats:
        """Scores of `candidates` [n, numbers]; lower is better."""
        ...

    def score(self, numbers: Floats) -> Mapping[str, float]:
        """What counts on validation workloads: `score`, lower is better, and what else is worth keeping."""
        ...

    def described(self) -> dict[str, Any]:
        """What is trained on, for the bundle."""
        ...

    @property
    def decisions(self) -> int:
        """Decisions made so far in trials and scores."""
        ...


def seeds_of_iteration(settings: EvolutionSettings, iteration: int, count: int) -> list[int]:
    """Seeds of the workloads of an iteration, which no validation and no comparison ever has.

    >>> seeds = seeds_of_iteration(EvolutionSettings(), 7, count=100)
    >>> len(set(seeds)), max(seeds) < VALIDATION_SEEDS
    (100, True)
    """
    luck = split(settings.seed, "workloads", iteration)
    return [split(luck, number) % VALIDATION_SEEDS for number in range(count)]


def first_state(start: Floats) -> EvolutionState:
    """A search that has not begun."""
    numbers = np.array(start, np.float64)
    return EvolutionState(0, numbers, numbers, numbers, np.zeros_like(numbers), np.zeros_like(numbers))


def evolved(
    state: EvolutionState, task: EvolutionTask, settings: EvolutionSettings
) -> tuple[EvolutionState, float]:
    """One iteration of a search; also the mean score of the candidates.

    >>> class Parabola:
    ...     start, widths = np.zeros(4), np.ones(4)
    ...
    ...     def trial(self, candidates, iteration):
    ...         return ((candidates - 3.0) ** 2).sum(axis=1)
    >>> settings = EvolutionSettings(iterations=150)
    >>> state = first_state(Parabola.start)
    >>> for _ in range(150):
    ...     state, _ = evolved(state, Parabola(), settings)
    >>> bool(np.abs(state.average - 3.0).max() < 0.2)
    True
    """
    share = state.iteration / max(settings.iterations - 1, 1)
    step = settings.step + (settings.final_step - settings.step) * share
    rate = settings.learning_rate + (settings.final_learning_rate - settings.learning_rate) * share
    luck = np.random.default_rng(split(settings.seed, "directions", state.iteration))
    directions = luck.standard_normal((settings.pairs, len(state.numbers)))
    scores = task.trial(
        state.numbers + step * task.widths * np.concatenate([directions, -directions]), state.iteration
    )
    gain = scores[: settings.pairs] - scores[settings.pairs :]
    slope = (gain / (float(gain.std()) or 1.0)) @ directions / settings.pairs
    mean = settings.momentum * state.slope + (1 - settings.momentum) * slope
    square = SLOWLY * state.square + (1 - SLOWLY) * slope**2
    size = np.sqrt(square / (1 - SLOWLY ** (state.iteration + 1))) + 1e-8
    numbers = state.numbers - rate * task.widths * mean / size
    average = settings.averaging * state.average + (1 - settings.averaging) * numbers
    after = state._replace(
        iteration=state.iteration + 1, numbers=numbers, average=average, slope=mean, square=square
    )
    return after, float(scores.mean())


def train_evolution(
    task: EvolutionTask,
    settings: EvolutionSettings,
    folder: str | Path,
    *,
    clock: Clock,
    progress: Progress | None = None,
    texts: Mapping[str, str] | None = None,
    resume: bool = False,
) -> RunFolder:
    """Search into a run folder, which keeps the best numbers by validation; goes on exactly where it was."""
    with run_to_train(
        folder, settings, clock=clock, resume=resume, describe=task.described, texts=texts
    ) as run:
        _search(run, task, settings, clock, progress)
        return run


def _search(
    run: RunFolder,
    task: EvolutionTask,
    settings: EvolutionSettings,
    clock: Clock,
    progress: Progress | None,
) -> None:
    """Go on until the last iteration, or until time is up."""
    state, best = _continued(run, task, settings)
    began, first = clock(), state.iteration
    while state.iteration < settings.total_iterations:
        started, before = clock(), task.decisions
        with np.errstate(invalid="ignore"):  # infinite scores, which are refused right below
            state, mean = evolved(state, task, settings)
        way_out = "lower step or practise on other workloads"
        refuse_non_finite(run, {"mean_trial_score": mean}, iteration=state.iteration, way_out=way_out)
        metrics: dict[str, Any] = {
            "iteration": state.iteration,
            "phase": "evolution",
            "mean_trial_score": mean,
        }
        score: float | None = None
        last = state.iteration == settings.total_iterations
        if state.iteration % settings.validate_every == 0 or last:
            kept = state.kept(settings)
            found, best = keep_best(
                run,
                {"numbers": kept},
                task.score(kept),
                iteration=state.iteration,
                best=best,
            )
            metrics |= found
            score = float(found["score"])
        seconds = (clock() - started).total_seconds()
        metrics |= {"decisions": task.decisions - before, "seconds": seconds}
        metrics["decisions_per_s"] = metrics["decisions"] / max(seconds, 1e-9)
        run.append_metrics(metrics)
        total_s = (clock() - began).total_seconds()
        if progress is not None:
            left = total_s / (state.iteration - first) * (settings.total_iterations - state.iteration)
            progress(state.iteration, settings.total_iterations, score, metrics["decisions_per_s"], left)
        if state.iteration % settings.checkpoint_every == 0 or last:
            _keep(run, state, best, settings)
            if settings.minutes and total_s >= 60 * settings.minutes:
                break


def _keep(run: RunFolder, state: EvolutionState, best: float, settings: EvolutionSettings) -> None:
    notes = {"iteration": str(state.iteration), "best_score": repr(best)}
    if state.iteration:
        save_tensors(run.path / LAST, {"numbers": state.kept(settings)}, notes)
    arrays = {name: value for name, value in state._asdict().items() if name != "iteration"}
    # Written last: what it speaks of, metrics and numbers, is there.
    save_tensors(run.path / STATE, arrays, notes)


def _continued(
    run: RunFolder, task: EvolutionTask, settings: EvolutionSettings
) -> tuple[EvolutionState, float]:
    """The last state; metrics after it are forgotten.

    The first is kept, too: a search may begin from another policy, and going on is not told from which.
    """
    state, best, path = first_state(task.start), math.inf, run.path / STATE
    if path.exists():
        arrays, notes = load_tensors(path)
        shapes = {name: value.shape for name, value in arrays.items()}
        if shapes != dict.fromkeys(state._fields[1:], state.numbers.shape):
            raise TrimtabError(
                f"{path}: no state of this search; it was made by another task or other settings"
            )
        state, best = EvolutionState(int(notes["iteration"]), **arrays), float(notes["best_score"])
    else:
        _keep(run, state, best, settings)
    forget_metrics_after(run, state.iteration)
    return state, best
