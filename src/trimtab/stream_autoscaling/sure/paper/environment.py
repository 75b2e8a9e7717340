"""Environments for learning under the published rules: all of them begin together and end together.

Neighbours in groups of `rollouts` live through the same job and trace. The first hour of an episode belongs
to nobody: without metrics there is nothing to decide from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import hash_counters, integers, split
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.simulator.paper import MINUTE_S, PaperRules, PaperSimulator
from trimtab.stream_autoscaling.sure.actions import Offer, decode_action
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import View
from trimtab.stream_autoscaling.sure.paper.features import HourViews
from trimtab.stream_autoscaling.sure.paper.setting import Scale, normalised
from trimtab.stream_autoscaling.sure.rollouts import TRAINING_SEEDS, future_rates, shards_of
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["LARGEST_LEARNED", "PaperCourse", "PaperEnvironment"]

LARGEST_LEARNED = 100.0
"""An hour counts at most so much. Within the published 10, all hours of overload are alike but for their
utilisation, and learning makes itself at home there."""


@dataclass(frozen=True)
class PaperCourse:
    """What is practised: jobs, what their hours are measured against, the trace of a seed for each, rules."""

    jobs: tuple[Job, ...]
    scales: tuple[Scale, ...]
    draw: Callable[[Job, int], RateTrace]
    rules: PaperRules
    decisions: int = 24
    """Length of an episode; it begins at a random hour at which so much is left."""


class PaperEnvironment:
    """Many environments of a course; satisfies `trimtab.core.environment.BatchEnvironment`."""

    def __init__(self, course: PaperCourse, design: Design, *, size: int, rollouts: int = 1) -> None:
        shards_of(size, rollouts=rollouts, jobs=len(course.jobs), threads=1)
        if design.history > course.rules.span_min:
            raise SettingsError(
                f"network.history = {design.history} minutes, but a decision is made every "
                f"{course.rules.span_min} (rules.span_min) and sees the time since the last; lower it"
            )
        self.size, self.rollouts = size, rollouts
        self._course, self._design = course, design
        places = np.arange(size // rollouts) % len(course.jobs)
        self._jobs = [course.jobs[place] for place in places for _ in range(rollouts)]
        scales = [course.scales[place] for place in places for _ in range(rollouts)]
        self._scale = Scale(*np.array(scales, np.float64).T)
        self._seed, self._number, self._steps = 0, 0, 0
        self._simulator: PaperSimulator | None = None
        self._seen: tuple[View, Offer] | None = None

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        """Begin new episodes everywhere."""
        if np.isfinite(mean_episode_s):
            raise SettingsError("the published episodes all have one length; set training.mean_episode_s = 0")
        self._seed, self._number, self._steps = seed, 0, 0
        self._begin()

    def observe(self) -> dict[str, NDArray[Any]]:
        """Fresh arrays with one row per environment."""
        snapshot = self._playing.snapshot()
        if self._seen is None:
            luck = hash_counters(split(self._seed, "luck"), np.arange(self.size), self._steps)
            self._seen = self._views.see(snapshot, (luck & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        shown: dict[str, NDArray[Any]] = {
            name: np.array(one) for name, one in self._seen[0]._asdict().items()
        }
        ones = np.ones(self.size)
        shown["future"] = future_rates(
            self._sums,
            MINUTE_S * ones,
            snapshot.now_s - self._start_s,
            self._span_s * ones,
            span_s=self._span_s,
        )
        return shown

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        """Carry out answers, one row per environment; begin anew when the episodes end."""
        if self._seen is None:
            self.observe()
        assert self._seen is not None
        simulator = self._playing
        wanted = decode_action(actions, simulator.snapshot(), self._seen[1], self._design)
        outcome = simulator.step(wanted)
        weight = self._course.rules.latency_weight
        rewards = normalised(*simulator.components, self._scale, weight, largest=LARGEST_LEARNED)
        self._seen = None
        self._steps += 1
        if outcome.ended.all():
            self._number += 1
            self._begin()
        elapsed = np.full(self.size, MINUTE_S * self._course.rules.span_min, np.float32)
        return BatchOutcome(rewards.astype(np.float32), elapsed, outcome.ended)

    @property
    def _playing(self) -> PaperSimulator:
        if self._simulator is None:
            raise SettingsError("the environments have not begun; call reset first")
        return self._simulator

    @property
    def _span_s(self) -> float:
        return MINUTE_S * self._course.rules.span_min * (1 + self._course.decisions)

    def _begin(self) -> None:
        groups = np.arange(self.size // self.rollouts)
        seeds = integers(split(self._seed, "episodes"), groups, self._number, high=TRAINING_SEEDS)
        spans = [self._span(self._jobs[at * self.rollouts], int(seed)) for at, seed in enumerate(seeds)]
        traces = [trace for trace in spans for _ in range(self.rollouts)]
        each = np.repeat(seeds, self.rollouts).tolist()
        if self._simulator is None:
            self._simulator = PaperSimulator(self._jobs, traces, self._course.rules, seeds=each)
            self._views = HourViews(self._simulator.graph, self._design)
        self._simulator.reset(traces=traces, seeds=each)
        self._simulator.step(self._simulator.snapshot().parallelism)
        self._start_s = np.array([trace.start_s for trace in traces])
        self._sums = np.stack([np.concatenate([[0.0], np.cumsum(t.rates) * t.step_s]) for t in traces])
        self._seen = None

    def _span(self, job: Job, seed: int) -> RateTrace:
        """A stretch of the drawn days, from an hour that belongs to the seed."""
        whole, interval_s = self._course.draw(job, seed), MINUTE_S * self._course.rules.span_min
        free = int((whole.length_s - self._span_s) // interval_s)
        if whole.step_s != MINUTE_S or free < 0:
            raise SettingsError(
                f"a trace of {whole.length_s / 3600:g} h in steps of {whole.step_s:g} s; episodes need "
                f"{self._span_s / 3600:g} h in steps of a minute: raise trace.days, or lower decisions"
            )
        begin_s = whole.start_s + interval_s * int(integers(split(seed, "span"), 0, high=free + 1))
        return whole.between(begin_s, begin_s + self._span_s)
