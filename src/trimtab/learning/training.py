"""Train: play, learn, write down, again; stop and continue at will.

Every so many iterations (`reset_every`) all environments begin anew, with seeds that depend on the
iteration alone. Checkpoints are written only there, so a run that was killed and continued needs
nothing of the environments' state, and gives the same numbers as one that was not. The run folder::

    settings.toml                   what was asked for
    task.json                       what was trained on
    start.json                      the policy it began from, if any
    metrics.jsonl                   one line per iteration
    checkpoint-last.safetensors     parameters, to use
    checkpoint-best.safetensors     those with the best score on validation workloads
    state-last.safetensors          everything needed to continue
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.core.environment import BatchEnvironment
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.advantages import ReturnSpread
from trimtab.learning.agent import Agent, Parameters
from trimtab.learning.baselines import Baseline
from trimtab.learning.checkpoints import load_tree, save_tree
from trimtab.learning.imitation import act_beside_teacher
from trimtab.learning.jax_tools import device_name
from trimtab.learning.learner import (
    LearnerState,
    Update,
    begin,
    imitation_update,
    make_baseline,
    make_update,
)
from trimtab.learning.lessons import Lessons
from trimtab.learning.rollouts import Rollout, collect, compiled
from trimtab.learning.run_files import (
    LAST,
    STATE,
    forget_metrics_after,
    keep_best,
    refuse_non_finite,
    run_to_train,
)
from trimtab.learning.settings import Schedule, TrainingSettings, board_module
from trimtab.learning.weighing import ALTERNATIVES

__all__ = ["Progress", "Result", "Task", "train"]


Progress: TypeAlias = Callable[[int, int, float | None, float, float], None]
"""(iteration, iterations, score if just measured, decisions per second, seconds left)"""


class Task(Protocol):
    """What to learn: who decides, where it plays, and what counts."""

    @property
    def agent(self) -> Agent:
        """Who decides."""
        ...

    @property
    def lanes(self) -> Sequence[BatchEnvironment]:
        """Where it plays; two lanes keep host and device busy at once."""
        ...

    @property
    def lessons(self) -> Sequence[Lessons]:
        """What to learn from in place of playing, where there is any; each has shapes of its own."""
        ...

    def score(self, parameters: Parameters) -> dict[str, float]:
        """Play validation workloads; ``score`` is what counts, lower is better."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say what is trained on, for whoever finds the folder."""
        ...


@dataclass(frozen=True)
class Result:
    """What a run came to. `best_score` is infinite if nothing was validated."""

    folder: Path
    parameters: Parameters
    iterations: int
    finished: bool
    best_score: float


def train(
    task: Task,
    settings: TrainingSettings,
    folder: str | Path,
    progress: Progress | None = None,
    *,
    clock: Clock,
    resume: bool = False,
    texts: Mapping[str, str] | None = None,
) -> Result:
    """Train into a new run folder, or continue the run in it exactly where it could be.

    `texts` are further files for a new folder, by name: whatever the caller needs to make the task again.
    """
    environments = sum(lane.size for lane in task.lanes)
    observation = _first_observation(task, settings)
    _refuse(task, settings, environments, observation)
    baseline = make_baseline(task.agent, settings, observation, rollouts=task.lanes[0].rollouts)
    with run_to_train(
        folder,
        settings,
        clock=clock,
        resume=resume,
        describe=task.describe,
        texts=texts,
        device=device_name(),
    ) as run:
        state = begin(task.agent, settings, baseline, environments)
        return _Training(task, settings, run, clock, baseline, state, progress).run()


class _Training:
    """A run in progress."""

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        run: RunFolder,
        clock: Clock,
        baseline: Baseline,
        state: LearnerState,
        progress: Progress | None,
    ) -> None:
        self._task = task
        self._settings = settings
        self._run = run
        self._clock = clock
        self._progress = progress
        self._state = state
        self._iteration = 0
        self._best = math.inf
        self._act = compiled(task.agent.act)
        self._act_beside_teacher = compiled(act_beside_teacher(task.agent))
        self._reinforce: Update = make_update(task.agent, settings, baseline)
        self._imitate: Update = imitation_update(task.agent, settings)
        self._board = _tensorboard(run.path) if settings.tensorboard else None

    def run(self) -> Result:
        self._continue()
        settings = self._settings
        first, began, paced_from = self._iteration, self._clock(), None
        while self._iteration < settings.total_iterations:
            started = self._clock()
            schedule = settings.schedule(self._iteration)
            metrics = self._iterate(schedule)
            self._iteration += 1
            score = self._validate(metrics)
            now = self._clock()
            metrics["seconds"] = (now - started).total_seconds()
            self._run.append_metrics(metrics)
            self._show(metrics)
            stop = self._checkpoint((now - began).total_seconds())
            if self._progress is not None:
                # The first iteration compiles: it says nothing about the pace of the others.
                paced_from = paced_from or now
                done = self._iteration - first - 1
                pace = (now - paced_from).total_seconds() / done if done else metrics["seconds"]
                left = pace * (settings.total_iterations - self._iteration)
                total = settings.total_iterations
                self._progress(self._iteration, total, score, metrics["decisions_per_s"], left)
            if stop:
                break
        finished = self._iteration == settings.total_iterations
        return Result(self._run.path, self._state.average, self._iteration, finished, self._best)

    def _iterate(self, schedule: Schedule) -> dict[str, Any]:
        """Play and learn once."""
        seed = split(self._settings.seed, "iteration", self._iteration)
        if self._task.lessons:
            return self._study(schedule, seed)
        if schedule.resets:
            for number, lane in enumerate(self._task.lanes):
                lane.reset(split(seed, "lane", number), schedule.mean_episode_s, imitating=schedule.imitating)
            begins = self._iteration == self._settings.imitation_iterations
            # Environments may leave rewards out while a teacher is copied: their spread says nothing then.
            environments = sum(lane.size for lane in self._task.lanes)
            spread = ReturnSpread.unknown(environments) if begins else self._state.spread.restarted()
            parameters = self._state.parameters
            if begins and self._settings.doubt < 1:
                assert self._task.agent.doubting is not None
                parameters = self._task.agent.doubting(parameters, self._settings.doubt)
            # Copied, since an update uses up its state buffer by buffer and none may be shared.
            spread, parameters = jax.tree.map(jnp.copy, (spread, parameters))
            self._state = self._state._replace(spread=spread, parameters=parameters)
        started = self._clock()
        rollout = self._play(schedule, _key(seed, "play"))
        seconds = (self._clock() - started).total_seconds()
        update = self._imitate if schedule.imitating else self._reinforce
        self._state, measured = update(self._state, rollout, _key(seed, "learn"), schedule)
        found = {name: float(value) for name, value in jax.device_get(measured).items()}
        self._refuse_non_finite(found)
        return {
            "iteration": self._iteration + 1,
            "phase": "imitation" if schedule.imitating else self._settings.algorithm,
            "decisions": rollout.decisions,
            "episodes": int(np.count_nonzero(rollout.ended & rollout.valid)),
            "cut_short": int(np.count_nonzero(~rollout.valid.any(axis=0))),
            "mean_reward": float(rollout.rewards[rollout.valid].mean()),
            "mean_elapsed_s": float(rollout.elapsed_s[rollout.valid].mean()),
            "decisions_per_s": rollout.decisions / max(seconds, 1e-9),
            "learning_rate": schedule.learning_rate,
            **found,
        }

    def _study(self, schedule: Schedule, seed: int) -> dict[str, Any]:
        """Learn once from every collection of lessons; nothing is played."""
        started = self._clock()
        shape = (self._settings.horizon, sum(lane.size for lane in self._task.lanes))
        found: list[dict[str, float]] = []
        for number, lessons in enumerate(self._task.lessons):
            drawn = lessons.drawn(seed=split(seed, "lessons", number), shape=shape)
            key = _key(split(seed, "collection", number), "learn")
            self._state, measured = self._reinforce(self._state, drawn, key, schedule)
            found.append({name: float(value) for name, value in jax.device_get(measured).items()})
            self._refuse_non_finite(found[-1])
        studied = len(found) * shape[0] * shape[1]
        seconds = (self._clock() - started).total_seconds()
        return {
            "iteration": self._iteration + 1,
            "phase": self._settings.algorithm,
            "decisions": studied,
            "decisions_per_s": studied / max(seconds, 1e-9),
            "learning_rate": schedule.learning_rate,
            **{name: float(np.mean([one[name] for one in found])) for name in found[0]},
        }

    def _play(self, schedule: Schedule, key: jax.Array) -> Rollout:
        lanes, horizon = self._task.lanes, self._settings.horizon
        parameters = self._state.parameters
        if schedule.imitating:
            guided = (parameters, np.float32(schedule.teacher_share))
            return collect(lanes, self._act_beside_teacher, guided, key, horizon)
        whole = self._settings.whole_episodes
        rollout = collect(lanes, self._act, parameters, key, horizon, whole_episodes=whole)
        if rollout.decisions == 0:
            raise TrimtabError(
                f"no episode ended within horizon = {horizon} decisions; raise it, or shorten episodes "
                "(training.mean_episode_s; of streams span_h)"
            )
        self._refuse_unknown_sequences(rollout)
        return rollout

    def _refuse_unknown_sequences(self, rollout: Rollout) -> None:
        if self._settings.baseline != "multi_value":
            return
        largest = int(rollout.observation["sequence"].max())
        if largest >= self._settings.sequences:
            raise SettingsError(
                f"workload number {largest} came up, and multi_value keeps networks for "
                f"{self._settings.sequences}; raise sequences or let the task draw from fewer workloads"
            )

    def _refuse_non_finite(self, metrics: Mapping[str, float]) -> None:
        way_out = "lower learning_rate or gradient_norm"
        refuse_non_finite(self._run, metrics, iteration=self._iteration + 1, way_out=way_out)

    def _validate(self, metrics: dict[str, Any]) -> float | None:
        """Score where due, and keep the parameters if they are the best so far."""
        settings = self._settings
        if self._iteration % settings.validate_every and self._iteration < settings.total_iterations:
            return None
        found, self._best = keep_best(
            self._run,
            self._state.average,
            self._task.score(self._state.average),
            iteration=self._iteration,
            best=self._best,
        )
        metrics.update(found)
        return float(found["score"])

    def _checkpoint(self, seconds: float) -> bool:
        """Write checkpoints where due; say whether time is up."""
        settings = self._settings
        last = self._iteration == settings.total_iterations
        if self._iteration % settings.checkpoint_every and not last:
            return False
        save_tree(self._run.path / LAST, self._state.average, self._notes())
        # Written last: what it speaks of, metrics and parameters, is there.
        save_tree(self._run.path / STATE, self._state, self._notes())
        return bool(settings.minutes) and seconds >= 60 * settings.minutes

    def _notes(self) -> dict[str, str]:
        return {"iteration": str(self._iteration), "best_score": repr(self._best)}

    def _continue(self) -> None:
        """Take up the last state and forget the metrics after it.

        The first is kept, too: a run may begin from another policy, and going on is not told from which.
        """
        path = self._run.path / STATE
        if path.exists():
            self._state, notes = load_tree(path, self._state)
            self._iteration = int(notes["iteration"])
            self._best = float(notes["best_score"])
        else:
            save_tree(path, self._state, self._notes())
        forget_metrics_after(self._run, self._iteration)

    def _show(self, metrics: Mapping[str, Any]) -> None:
        if self._board is None:
            return
        for name, value in metrics.items():
            if isinstance(value, float):
                self._board.add_scalar(name, value, self._iteration)
        self._board.flush()


def _key(seed: int, name: str) -> jax.Array:
    return jax.random.PRNGKey(np.uint32(split(seed, name) % 2**32))


def _first_observation(task: Task, settings: TrainingSettings) -> Any:
    """Look once, for names and shapes; every environment begins anew before it is played."""
    if task.lessons:
        return {name: rows[:1] for name, rows in task.lessons[0].observations.items()}
    lane = task.lanes[0]
    lane.reset(split(settings.seed, "look"), settings.schedule(0).mean_episode_s)
    return lane.observe()


def _refuse(task: Task, settings: TrainingSettings, environments: int, observation: Any) -> None:
    """Find what cannot work before anything is written."""
    settings.check_board()
    settings.check_batch(environments)
    if len({lane.rollouts for lane in task.lanes}) != 1:
        raise SettingsError("the lanes have different numbers of rollouts of one workload; make them equal")
    if any(lane.size % lane.rollouts for lane in task.lanes):
        raise SettingsError(
            "a lane's size is no multiple of its rollouts of one workload; change one of them"
        )
    if (settings.anchor or settings.imitation_iterations) and "teacher" not in observation:
        raise SettingsError(
            "anchor and imitation_iterations need a task with a teacher, and this one has none; set both to 0"
        )
    if task.lessons:
        settings.check_lessons()
    if settings.algorithm == "weighing" and not set(ALTERNATIVES) <= set(observation):
        raise SettingsError(
            "algorithm = weighing needs a task that looks ahead for several actions, and this one does not; "
            "use ppo"
        )
    if settings.doubt < 1 and task.agent.doubting is None:
        raise SettingsError("doubt needs an agent that can be made less sure of itself; set doubt = 1")


def _tensorboard(path: Path) -> Any:
    return board_module().SummaryWriter(str(path / "tensorboard"))
