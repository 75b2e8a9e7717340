"""Train from replayed steps: play, remember, learn, write down, again; stop and continue at will.

A task is many environments that step together. After each step of all of them some updates run on the device
while the host steps the environments once more::

    device   act    update ... update    act    update ... update
    host            step environments           step environments

The run folder is that of `trimtab.learning.training`; the state to continue from also holds the replay.
Every so many iterations all environments begin anew with seeds that depend on the iteration alone, and only
there checkpoints are written: a run that was killed and continued gives the same numbers as one that was not.

A task is as much as this:

>>> from trimtab.learning.replay import Layout
>>> class Steering:
...     '''Be where the wind will be: the reward is minus the squared distance of action and observation.'''
...
...     size, layout = 4, Layout(observation=1, actions=1)
...
...     def reset(self, seed):
...         self.random = np.random.default_rng(seed)
...         self.wind = self.random.uniform(-1, 1, (4, 1))
...
...     def observe(self):
...         return self.wind.astype(np.float32)
...
...     def step(self, actions):
...         rewards = -np.square(actions - self.wind)[:, 0]
...         self.wind = self.random.uniform(-1, 1, (4, 1))
...         no = np.zeros(4, bool)
...         return Outcome(rewards, terminated=~no, truncated=no, renewed=no, seen=self.observe())
...
...     def privileged(self):
...         return None
...
...     def teacher(self, observation):
...         return None
...
...     def score(self, parameters):
...         return {"score": 0.0}
...
...     def describe(self):
...         return {"toy": "steering"}
>>> from datetime import UTC, datetime
>>> from tempfile import mkdtemp
>>> settings = OffPolicySettings(hidden=(8,), iterations=2, horizon=5, batch=4, warmup=4, validate_every=2)
>>> def clock():
...     return datetime(2025, 1, 1, tzinfo=UTC)
>>> train_off_policy(Steering(), settings, Path(mkdtemp()) / "run", clock=clock, seed=1).finished
True
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trimtab.core.bundle import load_tensors, save_tensors
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.agent import Parameters
from trimtab.learning.checkpoints import load_tree, named_leaves, save_tree
from trimtab.learning.jax_tools import device_name
from trimtab.learning.off_policy_learner import Learner
from trimtab.learning.off_policy_player import Player
from trimtab.learning.off_policy_settings import ActorWeights, OffPolicySchedule, OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, begun
from trimtab.learning.off_policy_task import OffPolicyTask, Outcome, recorded
from trimtab.learning.replay import Replay, Source, Windows, drawn_rows, drawn_windows
from trimtab.learning.run_files import (
    LAST,
    STATE,
    forget_metrics_after,
    keep_best,
    refuse_non_finite,
    run_to_train,
)
from trimtab.learning.training import Progress, Result

__all__ = ["OffPolicyTask", "Outcome", "recorded", "train_off_policy"]


def train_off_policy(
    task: OffPolicyTask,
    settings: OffPolicySettings,
    folder: str | Path,
    *,
    clock: Clock,
    progress: Progress | None = None,
    seed: int = 0,
    log: Replay | None = None,
    start: Parameters | None = None,
    resume: bool = False,
    texts: Mapping[str, str] | None = None,
) -> Result:
    """Train into a new run folder, or continue the run in it exactly where it could be.

    `log` is experience of another controller: learned from before playing (`cloning_iterations`,
    `offline_iterations`), and mixed with one's own while playing (`logged_share`). `start` are parameters to
    begin from, any of ``actor``, ``critics`` and ``encoder``; what it lacks is drawn. `texts` are further
    files for a new folder, by name.
    """
    _refuse(task, settings, log)
    training = _Training(task, settings, clock, progress, seed, log, start)
    with run_to_train(
        folder,
        settings,
        clock=clock,
        resume=resume,
        describe=task.describe,
        texts=texts,
        device=device_name(),
    ) as run:
        return training.run(run)


class _Training:
    """A run in progress."""

    def __init__(
        self,
        task: OffPolicyTask,
        settings: OffPolicySettings,
        clock: Clock,
        progress: Progress | None,
        seed: int,
        log: Replay | None,
        start: Parameters | None,
    ) -> None:
        self._task, self._settings, self._clock, self._progress = task, settings, clock, progress
        self._seed, self._log = seed, log
        shape = LearnerShape.of(settings, task.layout)
        self._learner = Learner(settings, shape)
        self._state = begun(settings, shape, np.random.default_rng(split(seed, "networks")), start)
        self._replay = Replay(task.layout, lanes=task.size, capacity=settings.capacity)
        self._player = Player(task, self._learner, self._replay)
        self._iteration, self._updates, self._best = 0, 0, math.inf

    def run(self, run: RunFolder) -> Result:
        self._run = run
        self._continue()
        settings = self._settings
        first, began, paced_from = self._iteration, self._clock(), None
        while self._iteration < settings.total_iterations:
            started = self._clock()
            metrics = self._iterate(started)
            self._iteration += 1
            score = self._validate(metrics)
            now = self._clock()
            metrics["seconds"] = (now - started).total_seconds()
            self._run.append_metrics(metrics)
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
        return Result(run.path, self._state.parameters, self._iteration, finished, self._best)

    def _iterate(self, started: Any) -> dict[str, Any]:
        """Play and learn once, or learn from the log alone."""
        settings, schedule = self._settings, self._settings.schedule(self._iteration, self._updates)
        seed = split(self._seed, "iteration", self._iteration)
        random = np.random.default_rng(split(seed, "draws"))
        # Any words make keys; drawn at once, since splitting on the device would cost more than deciding.
        keys = random.integers(0, 2**32, (settings.horizon, 2, 2), np.uint32)
        self._sums = self._learner.nothing_measured()
        playing = schedule.phase == "online"
        if playing and schedule.resets:
            self._player.begin(split(seed, "environments"))
        for act_key, learn_key in keys:
            if not playing:
                self._learn(schedule, random, learn_key)
                continue
            actions = self._player.ask(self._state.parameters, act_key, schedule.exploration, random)
            self._learn(schedule, random, learn_key)
            self._player.answer(actions)
        found = self._found()
        steps = settings.horizon * self._task.size if playing else int(found["updates"]) * settings.batch
        seconds = (self._clock() - started).total_seconds()
        return {
            "iteration": self._iteration + 1,
            "phase": schedule.phase,
            "decisions": steps if playing else 0,
            "decisions_per_s": steps / max(seconds, 1e-9),
            **(self._player.measured() | {"exploration": schedule.exploration} if playing else {}),
            **found,
        }

    def _learn(self, schedule: OffPolicySchedule, random: np.random.Generator, key: Any) -> None:
        """Begin the updates of one step; they run while the environments do."""
        settings = self._settings
        online = schedule.phase == "online"
        young = len(self._replay) < settings.warmup or self._replay.steps < settings.steps_at_once
        if not settings.updates_per_step or (online and young):
            return
        weights = ActorWeights(*map(np.float32, schedule.weights))
        moves, before = np.bool_(schedule.actor_moves), np.int32(self._updates)
        drawn = self._drawn(schedule, random)
        self._state, self._sums = self._learner.update(
            self._state, self._sums, drawn, key, weights, moves, before
        )
        self._updates += settings.updates_per_step

    def _drawn(self, schedule: OffPolicySchedule, random: np.random.Generator) -> Any:
        """Batches for the updates of one step: [updates, batch, ...], or [updates, members, batch, ...]."""
        members = self._settings.members
        batches = [self._member_drawn(schedule, random, number) for number in range(members)]
        return batches[0] if members == 1 else jax.tree.map(lambda *parts: np.stack(parts, axis=1), *batches)

    def _member_drawn(self, schedule: OffPolicySchedule, random: np.random.Generator, member: int) -> Any:
        settings, sources = self._settings, []
        if self._log is not None and schedule.logged_share:
            sources.append(Source(self._log, schedule.logged_share))
        if schedule.phase == "online":
            each = self._task.size // settings.members
            own = slice(member * each, (member + 1) * each)
            share = 1 - schedule.logged_share if sources else 1.0
            sources.append(Source(self._replay, share, own))
        if settings.context == "none":
            return drawn_rows(sources, random, (settings.updates_per_step, settings.batch))
        trained = settings.sequence_steps
        shape = (settings.updates_per_step, settings.batch // trained)
        drawn: Windows = drawn_windows(sources, random, shape, before=settings.context_steps, trained=trained)
        return drawn

    def _found(self) -> dict[str, float]:
        """What the updates of an iteration measured; nothing where there were none."""
        sums = {name: float(value) for name, value in jax.device_get(self._sums).items()}
        updates, actor_steps = sums.pop("updates"), sums.pop("actor_steps")
        if not updates:
            return {"updates": 0.0}
        actor_loss = sums.pop("actor_loss") / max(actor_steps, 1.0)
        found = {"updates": updates, **{name: value / updates for name, value in sums.items()}}
        found["actor_loss"] = actor_loss
        way_out = "lower critic_learning_rate or set gradient_norm"
        refuse_non_finite(self._run, found, iteration=self._iteration + 1, way_out=way_out)
        return found

    def _validate(self, metrics: dict[str, Any]) -> float | None:
        """Score where due, and keep the parameters if they are the best so far."""
        settings = self._settings
        if self._iteration % settings.validate_every and self._iteration < settings.total_iterations:
            return None
        found, self._best = keep_best(
            self._run,
            self._state.parameters,
            self._task.score(self._state.parameters),
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
        save_tree(self._run.path / LAST, self._state.parameters, self._notes())
        # In one file, written last: a state and its replay always belong together. A finished run needs none.
        kept = {} if last else self._replay.tensors()
        save_tensors(self._run.path / STATE, named_leaves(self._state) | kept, self._notes())
        return bool(settings.minutes) and seconds >= 60 * settings.minutes

    def _notes(self) -> dict[str, str]:
        return {
            "iteration": str(self._iteration),
            "best_score": repr(self._best),
            "updates": str(self._updates),
            "decisions": str(self._player.decisions),
            "seed": str(self._seed),
        }

    def _continue(self) -> None:
        """Take up the last state and forget the metrics after it.

        The first is kept, too: a run may begin from another policy, and going on is not told from which.
        """
        path = self._run.path / STATE
        if path.exists():
            self._state, notes = load_tree(path, self._state)
            if int(notes["seed"]) != self._seed:
                raise SettingsError(
                    f"{self._run.path}: began with seed = {notes['seed']} and cannot go on with "
                    f"{self._seed}; start a new run, or leave its seed alone"
                )
            self._iteration, self._updates = int(notes["iteration"]), int(notes["updates"])
            if self._iteration < self._settings.total_iterations:
                self._replay.take(load_tensors(path)[0])
            self._player.decisions = int(notes["decisions"])
            self._best = float(notes["best_score"])
        else:
            save_tensors(path, named_leaves(self._state) | self._replay.tensors(), self._notes())
        forget_metrics_after(self._run, self._iteration)


def _refuse(task: OffPolicyTask, settings: OffPolicySettings, log: Replay | None) -> None:
    """Find what cannot work before anything is written."""
    if settings.needs_log and log is None:
        raise SettingsError(
            "cloning_iterations and offline_iterations learn from a log; give one, or set both to 0"
        )
    if log is not None and log.layout != task.layout:
        raise SettingsError(f"the log has steps of {log.layout}, the task of {task.layout}; record it anew")
    if log is not None and log.steps < settings.steps_at_once:
        raise SettingsError(
            f"the log has {log.steps} steps, sequence_steps = {settings.sequence_steps} are learned from at "
            "once; record more"
        )
    settings.check_environments(task.size)
    task.reset(0)
    if settings.anchor and settings.anchor_to == "teacher" and task.teacher(task.observe()) is None:
        raise SettingsError(
            "anchor_to = teacher needs a task with a teacher, and this one has none; set anchor_to = start"
        )
    if settings.sees_privileged and not task.layout.privileged:
        raise SettingsError(
            "sees_privileged needs a task that knows more than it shows, and this one does not; turn it off"
        )
