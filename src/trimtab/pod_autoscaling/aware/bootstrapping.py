"""Starting learners on live services that must not suffer for it, after AWARE's bootstrapper (ATC 2023).

The phases are those of `trimtab.control.bootstrap`, for each service its own; one learner for each service:

observe   The rule acts. What metrics say is kept.
offline   The rule acts. An application is fitted to what was seen; once every `offline_every` intervals the
          learner copies the rule (cloning), later learns by TD3+BC from the log and from episodes of its own
          on the fitted copy, where its noise harms nobody. Where no application fits (say, nothing arrived)
          it waits for metrics that one can be fitted to. When these iterations are over it plays
          evaluations there, without noise, and goes online when their mean reward reaches R1. Until then it
          goes on learning, and is evaluated again once an episode (`horizon`).
online    The learner acts and learns, held to the rule by an anchor that fades. When the mean reward of the
          last steps falls below R2 the rule acts again, the application is fitted anew, and the learner goes
          back offline with all that was seen. So it does at an alarm of `DriftWatch`, where rewards are
          watched (`drift`): they may no longer be what they were, and still be above R2.

A fitted copy is not the service: it is harder or easier. So the rule plays the episodes of evaluation too,
and what it earned there less than live is credited to the learner before its reward is held against R1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trimtab.control.bootstrap import Bootstrap, BootstrapSettings, Phase
from trimtab.control.drift import Drift, DriftSettings, DriftWatch
from trimtab.core.errors import HistoryError, SettingsError
from trimtab.core.randomness import split
from trimtab.core.settings import Field, Settings
from trimtab.learning.off_policy_learner import Learner
from trimtab.learning.off_policy_player import Player
from trimtab.learning.off_policy_settings import ActorWeights, OffPolicySchedule, OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, OffPolicyState, begun
from trimtab.learning.off_policy_task import looked, step_rows
from trimtab.learning.replay import Replay, Source, drawn_rows
from trimtab.networks.actor_critic import actor_actions
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.retraining import (
    GivenServices,
    MetricsLog,
    fit_services,
    practice_services,
)
from trimtab.pod_autoscaling.fitting.service_history import LEAST_SAMPLES
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers

__all__ = ["Bootstrapper", "BootstrappingSettings", "Event"]

Answers = NDArray[np.float32]


class BootstrappingSettings(Settings):
    """How learners are started; the learning itself is told by `AwareSettings`.

    >>> BootstrappingSettings().phases.window
    10
    """

    phases: BootstrapSettings = Field(
        default=BootstrapSettings(), description="How long to look, how sure to be, how long to wait."
    )
    offline_every: int = Field(
        default=4, ge=1, le=100_000, description="Intervals of the service per iteration offline."
    )
    practice_copies: int = Field(
        default=2, ge=1, le=1000, description="Episodes on the copy per iteration offline, with noise."
    )
    practice_exploration: float = Field(
        default=0.2, ge=0, le=2, description="Deviation of the noise of these episodes."
    )
    practice_steps: int = Field(
        default=40_000, ge=1, le=10**9, description="Steps on copies that a learner remembers."
    )
    drift: DriftSettings | None = Field(
        default=None, description="Watch the rewards of learners that act, to retrain them; none: R2 alone."
    )


class Event(NamedTuple):
    """A service changed its phase, or waits in it for metrics that an application fits."""

    tick: int
    service: int
    phase: Phase
    because: str


class Bootstrapper:
    """Services with one learner each. `live` goes on for some intervals; the task remembers what became.

    `online` notes, for every interval so far, which learners acted.
    """

    def __init__(
        self, task: GivenServices, settings: BootstrappingSettings | None = None, *, seed: int = 0
    ) -> None:
        training = task.settings.training
        if training.context != "none":
            raise SettingsError(
                f"context = {training.context}: a learner with one service of its own has nothing to tell "
                "apart; set context = none"
            )
        if task.settings.reward != "aware":
            raise SettingsError(
                f"reward = {task.settings.reward}: R1 and R2 are rewards of AWARE's kind, and no other "
                "reaches them; set reward = aware"
            )
        self.settings = settings or BootstrappingSettings()
        if not training.needs_log:
            raise SettingsError(
                "neither cloning_iterations nor offline_iterations: nothing is learned before the learner "
                "acts; set both"
            )
        least = max(LEAST_SAMPLES, training.horizon + 1)
        if self.settings.phases.observe_ticks < least:
            raise SettingsError(
                f"observe_ticks = {self.settings.phases.observe_ticks}: applications are fitted to "
                f"{LEAST_SAMPLES} intervals or more, and episodes on copies have horizon = "
                f"{training.horizon}; observe {least} or more"
            )
        self._task, self._training, self._seed = task, training, seed
        self._fleet = _Fleet(task, training, seed)
        phases = self.settings.phases
        self.starts = [Bootstrap(phases) for _ in range(task.size)]
        drift = self.settings.drift
        self._watches = [] if drift is None else [DriftWatch(drift) for _ in range(task.size)]
        self._random = np.random.default_rng(split(seed, "draws"))
        # Nobody looks further back than `_lately`.
        self._log = MetricsLog(keep=phases.observe_ticks)
        self._practice = [
            Replay(task.layout, lanes=1, capacity=self.settings.practice_steps) for _ in range(task.size)
        ]
        self.fitted: dict[int, Application] = {}
        self._unfit: set[int] = set()
        self._credits: dict[int, float] = {}
        self._iterations, self._acted = np.zeros(task.size, np.int64), np.zeros(task.size, np.int64)
        self._ticks = 0
        self.online: list[Flags] = []
        self._rewards: list[Floats] = []
        self.events: list[Event] = []
        self._fleet.player.begin(split(seed, "services"))

    @property
    def fallbacks(self) -> int:
        """How often the rule had to take over."""
        return sum(one.phase is Phase.OFFLINE and "below R2" in one.because for one in self.events)

    def live(self, ticks: int) -> None:
        """Go on for so many intervals."""
        for _ in range(ticks):
            self._tick()

    def _tick(self) -> None:
        self._learn_offline(self._due())
        acting = np.array([one.phase is Phase.ONLINE for one in self.starts])
        schedules = [self._online_schedule(row) for row in np.flatnonzero(acting).tolist()]
        exploration = np.zeros(len(acting), np.float32)
        exploration[acting] = [one.exploration for one in schedules]
        asked = self._fleet.ask(self._random, exploration)
        self._task.by_rule[:] = ~acting
        if schedules:
            self._learn(np.flatnonzero(acting), schedules)
        taught = self._task.teacher(self._task.observe())
        self._fleet.player.answer(np.where(acting[:, None], asked, taught))
        self._log.note(self._task.snapshot)
        self.online.append(acting)
        self._acted += acting
        self._ticks += 1
        self._tell_phases()

    def _tell_phases(self) -> None:
        rewards, busy = self._task.measured()
        self._rewards.append(rewards)
        for row, start in enumerate(self.starts):
            acted = start.phase is Phase.ONLINE
            turn = start.tick(float(rewards[row]), utilisation=float(busy[row]))
            if self._watches and acted and not turn.changed:
                said = self._watches[row].update(float(rewards[row]))
                if said.drift is Drift.ALARM:
                    turn = start.retrain(said.because)
            if turn.changed:
                self._turned(row, turn.phase, turn.because)

    def _turned(self, row: int, phase: Phase, because: str) -> None:
        self.events.append(Event(self._ticks, row, phase, because))
        if self._watches:
            self._watches[row].reset_reference()
        if phase is Phase.OFFLINE:
            if (unfit := self._fit(row)) is not None:
                self.events.append(Event(self._ticks, row, phase, unfit))
            again = self._acted[row] > 0
            # What was cloned once need not be cloned again.
            self._iterations[row] = self._training.cloning_iterations if again else 0
            self._acted[row] = 0
            self._credits.pop(row, None)

    # --- offline ----------------------------------------------------------------------------------

    def _fit(self, row: int) -> str | None:
        """Fit an application to what was seen lately; why that cannot be done, if it cannot."""
        try:
            self.fitted |= fit_services(self._log, self._task, [row], span=self._lately)
        except HistoryError as error:
            self._unfit.add(row)
            return f"no application fits yet: {error}"
        self._unfit.discard(row)
        return None

    def _due(self) -> Integers:
        """Services offline that have an iteration now: often at first, once an episode later."""
        offline = np.array([one.phase is Phase.OFFLINE for one in self.starts])
        pace = np.where(self._iterations > self._last, self._training.horizon, self.settings.offline_every)
        return np.flatnonzero(offline & (self._ticks % pace == 0))

    @property
    def _lately(self) -> slice:
        """As much of the log as was observed at first, from its end."""
        return slice(-self.settings.phases.observe_ticks, None)

    @property
    def _last(self) -> int:
        """The last scheduled iteration offline."""
        return self._training.cloning_iterations + self._training.offline_iterations - 1

    def _learn_offline(self, rows: Integers) -> None:
        """One iteration of these services; evaluations where the scheduled ones are over."""
        rows = rows[[row not in self._unfit or self._fit(row) is None for row in rows.tolist()]]
        if not len(rows):
            return
        training, last = self._training, self._last
        schedules = [training.schedule(min(int(self._iterations[row]), last)) for row in rows]
        practising = rows[[one.phase == "offline" for one in schedules]]
        if len(practising):
            self._play(practising, self.settings.practice_copies, self.settings.practice_exploration)
        for _ in range(training.horizon):
            self._learn(rows, schedules)
        for row in rows.tolist():
            self.starts[row].trained()
        self._iterations[rows] += 1
        ready = rows[self._iterations[rows] > last]
        if len(ready):
            self._evaluate(ready)

    def _evaluate(self, rows: Integers) -> None:
        """Play as many episodes as count, with the rule beside, and tell the phases how they went."""
        phases, seed = self.settings.phases, split(self._seed, "evaluation")
        live = dict(zip(rows.tolist(), self._ruled_lately(rows).tolist(), strict=True))
        # Right after a learner that acted for long nobody knows what the rule earns: it is evaluated later.
        rows = rows[[row in self._credits or math.isfinite(live[row]) for row in rows.tolist()]]
        if not len(rows):
            return
        rewards = self._play(rows, phases.evaluation_episodes, 0.0, seed=seed)
        unknown = np.array([row for row in rows if row not in self._credits], np.int64)
        if len(unknown):
            ruled = np.nanmean(self._play(unknown, phases.evaluation_episodes, None, seed=seed), axis=1)
            for row, mean in zip(unknown.tolist(), ruled.tolist(), strict=True):
                self._credits[row] = live[row] - mean
        for at, row in enumerate(rows.tolist()):
            start = self.starts[row]
            for reward in rewards[at]:
                turn = start.evaluated(float(reward) + self._credits[row])
                if turn.changed:
                    self._turned(row, turn.phase, turn.because)

    def _ruled_lately(self, rows: Integers) -> Floats:
        """Mean reward of the rule in the intervals of late in which it acted; NaN where there were none."""
        rewards = np.stack(self._rewards[self._lately])[:, rows]
        ruled = ~np.stack(self.online[self._lately])[:, rows] & np.isfinite(rewards)
        count = ruled.sum(axis=0)
        mean = np.where(ruled, rewards, 0.0).sum(axis=0) / np.maximum(count, 1)
        return np.where(count > 0, mean, np.nan)

    def _play(
        self, rows: Integers, copies: int, exploration: float | None, *, seed: int | None = None
    ) -> Floats:
        """Mean rewards of episodes on fitted copies, [rows, copies].

        Without exploration (None) the rule plays, and nothing is remembered.
        """
        steps, task = self._training.horizon, self._task
        seed = split(self._seed, "practice", self._ticks) if seed is None else seed
        drawn = practice_services(
            self._log,
            self.fitted,
            rows.tolist(),
            copies=copies,
            steps=steps + 1,
            seed=seed,
            span=self._lately,
        )
        copy = GivenServices(task.settings, lambda _: drawn)
        copy.reset(seed)
        copy.by_rule[:] = exploration is None
        actor = self._fleet.actors(np.repeat(rows, copies))
        random = np.random.default_rng(split(seed, "noise"))
        rewards: list[Floats] = []
        for _ in range(steps):
            before = looked(copy)
            if exploration is None:
                copy.step(copy.teacher(before.observation))
            else:
                answers = actor(before.observation)
                noise = exploration * random.standard_normal(answers.shape)
                answers = np.clip(answers + noise, -1, 1).astype(np.float32)
                found = step_rows(task.layout, before, answers, copy.step(answers))
                for at, row in enumerate(np.repeat(rows, copies)):
                    self._practice[row].add(found[at : at + 1])
            rewards.append(copy.measured()[0])
        return np.nanmean(rewards, axis=0).reshape(len(rows), copies)

    # --- updates ----------------------------------------------------------------------------------

    def _online_schedule(self, row: int) -> OffPolicySchedule:
        training = self._training
        before = training.cloning_iterations + training.offline_iterations
        return training.schedule(before + int(self._acted[row]) // training.horizon)

    def _learn(self, rows: Integers, schedules: list[OffPolicySchedule]) -> None:
        """The updates of one step."""
        shape = (self._training.updates_per_step, self._training.batch)
        drawn: list[Any] = []
        for row, schedule in zip(rows, schedules, strict=True):
            lived = Source(self._fleet.replay, 1.0, slice(int(row), int(row) + 1))
            share = schedule.logged_share if schedule.phase == "online" else 0.5
            sources = [lived]
            if len(self._practice[row]) and share:
                sources = [lived._replace(share=1 - share), Source(self._practice[row], share)]
            drawn.append(drawn_rows(sources, self._random, shape))
        self._fleet.update(rows, np.stack(drawn), schedules, self._random)


class _Fleet:
    """Learners side by side, each in a phase of its own; their states are stacked, the first axis theirs."""

    def __init__(self, task: GivenServices, training: OffPolicySettings, seed: int) -> None:
        self._count, self._task = task.size, task
        alone = training.model_copy(update={"members": 1})
        self.shape = LearnerShape.of(alone, task.layout)
        random = np.random.default_rng(split(seed, "networks"))
        singles = [begun(alone, self.shape, random) for _ in range(task.size)]
        self._state: Any = jax.tree.map(lambda *leaves: jnp.stack(leaves), *singles)
        acting = _learner(training.model_copy(update={"members": task.size}).model_dump_json(), self.shape)
        self.replay = Replay(task.layout, lanes=task.size, capacity=training.capacity)
        self.player = Player(task, acting, self.replay)
        self._some, self._updates = _updating(alone.model_dump_json(), self.shape), 0

    def ask(self, random: np.random.Generator, exploration: Answers) -> Answers:
        """What every learner would do now, each with noise of its own size, [learners]."""
        parameters = self._state.parameters
        if self._count == 1:
            parameters, exploration = jax.tree.map(lambda leaf: leaf[0], (parameters, exploration))
        key = random.integers(0, 2**32, 2, np.uint32)
        return self.player.ask(parameters, key, exploration, random)

    def actors(self, rows: Integers) -> Callable[[Answers], Answers]:
        """What these learners answer, without noise; a row may be named twice, beside itself."""
        every: Any = jax.device_get(self._state.parameters["actor"])
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        ends = [*firsts[1:].tolist(), len(rows)]
        parts = [
            (slice(int(first), end), jax.tree.map(lambda leaf, at=rows[first]: leaf[at], every))
            for first, end in zip(firsts, ends, strict=True)
        ]

        def answer(observation: Answers) -> Answers:
            return np.concatenate(
                [
                    actor_actions(actor, observation[part], None, self.shape.networks, np)
                    for part, actor in parts
                ]
            )

        return answer

    def update(
        self, rows: Integers, drawn: Any, schedules: list[OffPolicySchedule], random: np.random.Generator
    ) -> None:
        """Update some learners on their batches [rows, updates, batch, ...], each as its schedule says."""
        # Compiled for 4, 16, ... learners. The first fills up with the same numbers: it ends up the same.
        size = min(4 ** max(1, math.ceil(math.log(len(rows), 4) - 1e-9)), self._count)
        fill = np.concatenate([np.arange(len(rows)), np.zeros(size - len(rows), np.int64)])
        keys = random.integers(0, 2**32, (len(rows), 2), np.uint32)
        weights = ActorWeights(
            *(
                np.array(column, np.float32)[fill]
                for column in zip(*(one.weights for one in schedules), strict=True)
            )
        )
        moves = np.array([one.actor_moves for one in schedules])
        self._state = self._some(
            self._state, rows[fill], drawn[fill], keys[fill], weights, moves[fill], np.int32(self._updates)
        )
        self._updates += drawn.shape[1]


# Compiled once, however many starts there are; settings as JSON, which can be looked up by.
@lru_cache(maxsize=8)
def _learner(training: str, shape: LearnerShape) -> Learner:
    return Learner(OffPolicySettings.model_validate_json(training), shape)


@lru_cache(maxsize=8)
def _updating(training: str, shape: LearnerShape) -> Callable[..., Any]:
    """Update some of many learners, each on batches and with weights of its own."""
    learner = _learner(training, shape)
    each = jax.vmap(learner.update, in_axes=(0, 0, 0, 0, 0, 0, None))

    def some(
        state: OffPolicyState, rows: Any, drawn: Any, keys: Any, weights: Any, moves: Any, before: Any
    ) -> OffPolicyState:
        picked = jax.tree.map(lambda leaf: leaf[rows], state)
        nothing = {name: jnp.zeros(rows.shape) for name in learner.nothing_measured()}
        moved, _ = each(picked, nothing, drawn, keys, weights, moves, before)
        return jax.tree.map(lambda leaf, new: leaf.at[rows].set(new), state, moved)

    return jax.jit(some, donate_argnums=0)
