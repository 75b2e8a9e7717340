"""Policies that serve, and are retrained where they no longer fit, after AWARE (ATC 2023); each by itself:

serve     The policy acts. `DriftWatch` looks at its rewards, and what metrics say is kept.
warning   An application is fitted to the last metrics; policy and rule play copies of it, where they harm
          nobody. Where the rule earns more, that is as good as an alarm.
alarm     Metrics of what the service has become are gathered for a while; the policy goes on.
retrain   An application is fitted to them, and the policy goes on learning on copies of it. Old and new play
          further copies, and the new one serves if it earns more. What is usual is learned anew. Metrics
          that no application can be fitted to are gathered for as long again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.control.drift import Drift, DriftSettings, DriftWatch
from trimtab.core.errors import HistoryError, SettingsError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock
from trimtab.core.settings import Field, Settings
from trimtab.learning.agent import Parameters
from trimtab.networks.actor_critic import actor_actions
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.retraining import (
    GivenServices,
    MetricsLog,
    fit_services,
    practice_services,
    retrained,
)
from trimtab.pod_autoscaling.aware.services import Service
from trimtab.pod_autoscaling.aware.task import member_of

__all__ = ["Happening", "Retrainer", "Retraining", "RetrainingSettings", "Trainer"]

Answers = NDArray[np.float32]
Trainer = Callable[[Mapping[int, slice]], Mapping[int, Parameters]]
"""Spans of the log by service in, what was learned from them out; a service may be left as it is."""


class RetrainingSettings(Settings):
    """When to retrain, and for how long; the learning itself is told by `AwareSettings`.

    >>> RetrainingSettings().gathered
    40
    """

    drift: DriftSettings = Field(default=DriftSettings(), description="What is usual, and what is not.")
    gathered: int = Field(
        default=40, ge=20, le=960, description="Intervals from an alarm until the policy is retrained."
    )
    iterations: int = Field(default=20, ge=1, le=1_000_000, description="Iterations of the retraining.")
    copies: int = Field(
        default=2, ge=1, le=1000, description="Copies of a service that its learner practises on at a time."
    )
    compared: int = Field(
        default=8,
        ge=0,
        le=1000,
        description="Copies on which old, new or rule are compared; 0: warnings are only noted, "
        "and what was learned serves whatever it is worth.",
    )


class Retraining(StrEnum):
    """What can happen to a service."""

    WARNED = "warned"
    ALARMED = "alarmed"
    SWAPPED = "swapped"
    KEPT = "kept"


class Happening(NamedTuple):
    """What happened, at which interval, and why."""

    tick: int
    service: int
    what: Retraining
    because: str


class Retrainer:
    """Services under policies, all the same at first. `live` goes on for some intervals.

    The task remembers what became of the services, `happenings` what was done about it. Who wants to train
    elsewhere gives a `trainer`; without one `practise` does it, on the spot.
    """

    def __init__(
        self,
        task: GivenServices,
        policy: Parameters,
        settings: RetrainingSettings | None = None,
        *,
        clock: Clock,
        seed: int = 0,
        trainer: Trainer | None = None,
    ) -> None:
        if task.settings.training.context != "none":
            raise SettingsError(
                f"context = {task.settings.training.context}: a policy with one service of its own has "
                "nothing to tell apart; set context = none"
            )
        self.task, self.settings = task, settings or RetrainingSettings()
        self.policies: list[Parameters] = [policy] * task.size
        self.happenings: list[Happening] = []
        self.fitted: dict[int, Application] = {}
        self._unfit: dict[int, str] = {}
        self._clock, self._seed, self._trainer = clock, seed, trainer or self.practise
        self._log, self._ticks = MetricsLog(), 0
        self._watches = [DriftWatch(self.settings.drift) for _ in range(task.size)]
        self._due: dict[int, int] = {}
        task.at_work = True
        task.reset(split(seed, "serving"))

    def live(self, ticks: int, *, retrains: bool = True) -> None:
        """Go on for so many intervals; unless it `retrains`, an alarm only makes it learn what is usual."""
        for _ in range(ticks):
            self._retrain({row for row, at in self._due.items() if at == self._ticks})
            seen = self.task.observe()
            answers = [self._answer(one, seen[row : row + 1]) for row, one in enumerate(self.policies)]
            self.task.step(np.concatenate(answers))
            self._log.note(self.task.snapshot)
            self._watch(retrains)
            self._ticks += 1

    def practise(self, spans: Mapping[int, slice]) -> dict[int, Parameters]:
        """What policies become that go on learning on copies of their services, as these spans show them.

        Without those whose metrics no application can be fitted to.
        """
        rows = [row for row in spans if self._fit(row, spans[row]) is None]
        if not rows:
            return {}
        asked, start = self.settings, self.policies[rows[0]]
        if any(self.policies[row] is not start for row in rows):
            return {row: found for one in rows for row, found in self.practise({one: spans[one]}).items()}

        def draw(seed: int) -> list[Service]:
            return [one for row in rows for one in self._copies(row, spans[row], asked.copies, seed)]

        training = self.task.settings.training.model_copy(update=_going_on(asked, members=len(rows)))
        settings = self.task.settings.model_copy(update={"training": training})
        with tempfile.TemporaryDirectory() as folder:
            found: Any = retrained(
                settings, start, draw, Path(folder) / "run", clock=self._clock, seed=self._seed
            )
        actors = {"actor": found["actor"]}
        return {row: member_of(actors, len(rows), member) for member, row in enumerate(rows)}

    def _watch(self, retrains: bool) -> None:
        rewards = self.task.measured()[0]
        for row, watch in enumerate(self._watches):
            if row in self._due:
                continue
            said = watch.update(float(rewards[row]))
            if said.drift is Drift.ALARM:
                self._alarm(row, said.because, retrains)
            elif said.drift is Drift.WARN:
                self._warn(row, said.because, retrains)

    def _warn(self, row: int, because: str, retrains: bool) -> None:
        if not (retrains and self.settings.compared and len(self._log) >= self.settings.gathered):
            self._note(row, Retraining.WARNED, because)
            return
        if (unfit := self._fit(row, self._lately)) is not None:
            self._note(row, Retraining.WARNED, f"{because}; {unfit}")
            return
        policy, rule = (self._played(row, one) for one in (self.policies[row], None))
        told = f"{because}; on copies it earns {policy:.3f}, the rule {rule:.3f}"
        self._note(row, Retraining.WARNED, told)
        if rule > policy:
            self._alarm(row, told, retrains)

    def _alarm(self, row: int, because: str, retrains: bool) -> None:
        self._note(row, Retraining.ALARMED, because)
        if retrains:
            self._due[row] = self._ticks + self.settings.gathered
        else:
            self._watches[row].reset_reference()

    def _retrain(self, rows: set[int]) -> None:
        if not rows:
            return
        for row in rows:
            # What did not fit at an earlier warning says nothing of what was gathered since.
            self._unfit.pop(row, None)
        learned = self._trainer(dict.fromkeys(sorted(rows), self._lately))
        for row in sorted(rows):
            if row not in learned and (unfit := self._unfit.get(row)) is not None:
                self._note(row, Retraining.KEPT, unfit)
                self._due[row] = self._ticks + self.settings.gathered
                continue
            del self._due[row]
            self._watches[row].reset_reference()
            if row not in learned:
                self._note(row, Retraining.KEPT, "nothing was learned")
                continue
            better, because = self._compared(row, learned[row])
            self._note(row, Retraining.SWAPPED if better else Retraining.KEPT, because)
            if better:
                self.policies[row] = learned[row]

    def _fit(self, row: int, span: slice) -> str | None:
        """Fit an application to a span of the log; why that cannot be done, if it cannot."""
        try:
            self.fitted |= fit_services(self._log, self.task, [row], span=span)
        except HistoryError as error:
            self._unfit[row] = f"no application fits: {error}"
        else:
            self._unfit.pop(row, None)
        return self._unfit.get(row)

    def _compared(self, row: int, learned: Parameters) -> tuple[bool, str]:
        """Whether what was learned is to serve, and why."""
        if not self.settings.compared:
            return True, "taken unseen"
        # Whoever trained elsewhere has fitted nothing here.
        if (unfit := self._fit(row, self._lately)) is not None:
            return False, unfit
        old, new = (self._played(row, one) for one in (self.policies[row], learned))
        return new > old, f"on copies it earns {new:.3f}, the present one {old:.3f}"

    def _played(self, row: int, policy: Parameters | None) -> float:
        """Mean reward on copies of a service as it was lately; without a policy the rule acts."""
        seed = split(self._seed, "compared", self._ticks)
        drawn = self._copies(row, self._lately, self.settings.compared, seed)
        copy = GivenServices(self.task.settings, lambda _: drawn)
        copy.at_work = True
        copy.reset(seed)
        copy.by_rule[:] = policy is None
        # The last interval of a trace is left, for a trace that ends begins anew.
        for _ in range(self.settings.gathered - 1):
            seen = copy.observe()
            copy.step(copy.teacher(seen) if policy is None else self._answer(policy, seen))
        return float(np.nanmean(copy.lived.reward))

    def _answer(self, policy: Any, observation: Answers) -> Answers:
        return actor_actions(policy["actor"], observation, None, self.task.design.networks, np)

    def _copies(self, row: int, span: slice, copies: int, seed: int) -> list[Service]:
        steps = self.settings.gathered
        return practice_services(
            self._log, self.fitted, [row], copies=copies, steps=steps, seed=seed, span=span
        )

    @property
    def _lately(self) -> slice:
        """As much of the log as is gathered, from its end."""
        return slice(-self.settings.gathered, None)

    def _note(self, row: int, what: Retraining, because: str) -> None:
        self.happenings.append(Happening(self._ticks, row, what, because))


def _going_on(asked: RetrainingSettings, *, members: int) -> dict[str, Any]:
    """How a policy that has learned before goes on: few steps, held to what it was."""
    return {
        "members": members,
        "cloning_iterations": 0,
        "offline_iterations": 0,
        "iterations": asked.iterations,
        # Critics are not in a bundle: until new ones know something, the actor rests.
        "held_iterations": asked.iterations // 4,
        "anchor": 0.1,
        "anchor_to": "start",
        "batch": 64,
        "warmup": 64,
        "updates_per_step": 1,
        "validate_every": asked.iterations,
        "checkpoint_every": asked.iterations,
        "reset_every": asked.iterations,
    }
