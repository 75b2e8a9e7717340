"""The compact agents: which job goes first, and what a machine is worth to it, as small learned functions.

Both are plain functions of a snapshot, so they run compiled in replay and as they stand live, like any rule.
The ordering agent is told the state of the cluster (its queue and what is free) beside each job, as the
squeeze-and-communicate of DAS does, and what a history taught about jobs like it (see `experience`). The
placement agent scores every machine for a job, and a demand says how good a place it waits for; these two
have one set of numbers for calm moments, and one for those when a crowd waits.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.das.experience import Experience, log_rest, no_experience
from trimtab.gpu_scheduling.heuristics import disciplines, placements
from trimtab.gpu_scheduling.heuristics.rule import Parameters, Rule
from trimtab.gpu_scheduling.heuristics.words import (
    age_ms,
    attained_gpu_ms,
    best_rate,
    crowding,
    gang_milli,
    rate_if_started,
    run_ms,
)
from trimtab.gpu_scheduling.problem import WHOLE, Snapshot

__all__ = [
    "DEMAND_FEATURES",
    "EXPERIENCE_AT",
    "HIDDEN",
    "JOB_FEATURES",
    "MACHINE_FEATURES",
    "MOODS",
    "PREEMPTIVE",
    "STOPPING_NUMBERS",
    "ScoredRule",
    "job_features",
    "learned_desirability",
    "learned_order",
    "learned_patience",
    "learned_place",
    "learned_preemption",
    "order_size",
]

JOB_FEATURES = (
    "gpus",
    "run time",
    "GPU time attained",
    "time waited",
    "sensitivity",
    "communication",
    "runs",
    "time since its start",
    "rate",
    "jobs waiting",
    "GPUs free",
    "machines needed",
    "rest expected",
    "quick rest expected",
)
"""What the ordering agent sees: the job, the state of the cluster, and what such jobs used to do."""
MACHINE_FEATURES = (
    "speed alone",
    "crowd",
    "GPUs left free",
    "filled exactly",
    "was empty",
    "speed observed",
    "crowd x sensitivity",
    "speed x GPUs",
    "crowd x GPUs free",
    "GPUs left free x GPUs free",
    "filled exactly x GPUs free",
)
"""What the placement agent sees of a machine for a job; GPUs free is the share of the whole cluster."""
HIDDEN = 8
"""Units between the features of a job and its score."""
DEMAND_FEATURES = (
    "usual",
    "gpus",
    "GPUs free",
    "jobs waiting",
    "time since it came",
    "rest expected",
    "communication",
    "sensitivity",
)
"""What decides how good a place a job waits for: log of its speed there over the best it could have."""
MOODS = ("calm", "crowded")
"""Numbers of placement and demand come once for each. It is crowded when more jobs wait than a quarter
of the machines: until then a job may choose, from then on it takes GPUs from others."""
GOOD_ENOUGH = -0.02
"""No job waits for a better place than this, whatever it demands: 0.98 of its full speed."""
STOPPING_NUMBERS = 4
"""How many numbers of displacing and moving come before the demands where jobs may be stopped."""
USUAL_REST = 0.8
"""Log of seconds over 10: 50 minutes."""
LARGEST = 60.0
"""Bound of a score, whose exponential is the priority."""


def order_size() -> int:
    """How many numbers the ordering agent has: a straight path, and one through hidden units."""
    return len(JOB_FEATURES) * (1 + HIDDEN) + 2 * HIDDEN


EXPERIENCE_AT = order_size()
"""Where, after the agent's numbers, its experience begins."""


def job_features(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[float, ...]:
    """Numbers near 0 to 1 that describe a job and the moment; times are logarithms of seconds over 10."""
    gpus = gang_milli(snapshot, job) / WHOLE
    ran = run_ms(snapshot, job)
    runs = 1.0 if snapshot.rate[job] > 0.0 else 0.0
    since = (snapshot.now_ms - snapshot.started_ms[job]) / 1000.0 if runs > 0.0 else 0.0
    largest = 1
    for machine in range(len(snapshot.gpus)):
        largest = max(largest, snapshot.gpus[machine])
    return (
        math.log2(gpus) / 4.0,
        math.log1p(ran / 1000.0) / 10.0,
        math.log1p(attained_gpu_ms(snapshot, job) / 1000.0) / 10.0,
        math.log1p(max(age_ms(snapshot, job) - ran, 0.0) / 1000.0) / 10.0,
        snapshot.sensitivity[job] / 1000.0 - 1.0,
        10.0 * snapshot.communication[job],
        runs,
        math.log1p(since) / 10.0,
        snapshot.rate[job],
        math.log1p(len(snapshot.pending)) / 5.0,
        snapshot.free_total_milli / (WHOLE * snapshot.total_gpus),
        1.0 if gpus > largest else 0.0,
        log_rest(snapshot.group[job], gang_milli(snapshot, job), ran, 0, parameters, EXPERIENCE_AT) / 10.0,
        log_rest(snapshot.group[job], gang_milli(snapshot, job), ran, 1, parameters, EXPERIENCE_AT) / 10.0,
    )


def learned_order(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """By a learned score of each job and the state of the cluster."""
    features = job_features(snapshot, job, parameters)
    count = len(features)
    score = 0.0
    for place in range(count):
        score += parameters[place] * features[place]
    at = count
    for _ in range(HIDDEN):
        inside = parameters[at + count]
        for place in range(count):
            inside += parameters[at + place] * features[place]
        score += parameters[at + count + 1] * max(inside, 0.0)
        at += count + 2
    return math.exp(min(max(score, -LARGEST), LARGEST))


def mood(snapshot: Snapshot) -> int:
    """Which of `MOODS` it is."""
    return 1 if 4 * len(snapshot.pending) > len(snapshot.gpus) else 0


def learned_desirability(
    snapshot: Snapshot, job: int, machine: int, taken: int, parameters: Parameters
) -> float:
    """By a learned score of each machine for the job."""
    alone = snapshot.nominal[snapshot.kind[job], machine]
    crowd = math.log1p(crowding(snapshot, job, machine))
    left = (snapshot.free_milli[machine] - taken) / (WHOLE * snapshot.gpus[machine])
    exact = 1.0 if left == 0.0 else 0.0
    free = snapshot.free_total_milli / (WHOLE * snapshot.total_gpus)
    seen = snapshot.observed[machine]
    at = mood(snapshot) * len(MACHINE_FEATURES)
    score = (
        parameters[at] * math.log(alone)
        + parameters[at + 1] * crowd
        + parameters[at + 2] * left
        + parameters[at + 3] * exact
        + parameters[at + 4] * (1.0 if snapshot.jobs[machine] == 0 else 0.0)
        + parameters[at + 5] * (snapshot.observed_speed[machine] - 1.0) * seen / (seen + 1.0)
        + parameters[at + 6] * crowd * (snapshot.sensitivity[job] / 1000.0 - 1.0)
        + parameters[at + 7] * math.log(alone) * math.log2(gang_milli(snapshot, job) / WHOLE)
        + parameters[at + 8] * crowd * free
        + parameters[at + 9] * left * free
        + parameters[at + 10] * exact * free
    )
    return math.exp(score)


def accepts(snapshot: Snapshot, job: int, count: int, parameters: Parameters) -> bool:
    """Whether the job starts on `machine_order[:count]`, by a learned demand: the hold token of DAS."""
    return is_as_fast(snapshot, job, count, demand_of(snapshot, job, parameters, 0))


def accepts_for_now(snapshot: Snapshot, job: int, count: int, parameters: Parameters) -> bool:
    """The same where it may be moved later; these numbers come after those of displacing and moving."""
    return is_as_fast(snapshot, job, count, demand_of(snapshot, job, parameters, STOPPING_NUMBERS))


def is_as_fast(snapshot: Snapshot, job: int, count: int, demand: float) -> bool:
    """Whether the place in `machine_order[:count]` meets a demand, or nearly is the best there is."""
    there = math.log(rate_if_started(snapshot, job, count) / best_rate(snapshot, job))
    return there >= min(demand, GOOD_ENOUGH)


def demand_of(snapshot: Snapshot, job: int, parameters: Parameters, start: int) -> float:
    """Log of the speed a job waits for, over the best it could have."""
    gpus = math.log2(gang_milli(snapshot, job) / WHOLE) / 4.0
    free = snapshot.free_total_milli / (WHOLE * snapshot.total_gpus)
    waited = math.log1p(age_ms(snapshot, job) / 1000.0) / 10.0
    ran, milli = run_ms(snapshot, job), gang_milli(snapshot, job)
    rest = log_rest(snapshot.group[job], milli, ran, 0, parameters[0], EXPERIENCE_AT) / 10.0
    at = start + mood(snapshot) * len(DEMAND_FEATURES)
    return (
        parameters[2, at]
        + parameters[2, at + 1] * gpus
        + parameters[2, at + 2] * free
        + parameters[2, at + 3] * math.log1p(len(snapshot.pending)) / 5.0
        + parameters[2, at + 4] * waited
        + parameters[2, at + 5] * (rest - USUAL_REST)
        + parameters[2, at + 6] * 10.0 * snapshot.communication[job]
        + parameters[2, at + 7] * (snapshot.sensitivity[job] / 1000.0 - 1.0)
    )


def _rebound(function: Callable[..., Any], name: str, told: str, **replaced: Callable[..., Any]) -> Any:
    """A copy of a function in which some names mean something else."""
    copy = types.FunctionType(function.__code__, function.__globals__ | replaced, name, function.__defaults__)
    copy.__qualname__, copy.__module__ = name, __name__
    copy.__doc__ = told
    return copy


learned_place = _rebound(
    placements.fast,
    "learned_place",
    "On the machines with the highest learned score; one machine, or equally good ones.",
    desirability=learned_desirability,
)
learned_patience = _rebound(
    disciplines.patient,
    "learned_patience",
    "The first that finds a place good enough by what was learned starts, whoever waits before it.",
    good_enough=accepts,
)
learned_preemption = _rebound(
    disciplines.preemptive,
    "learned_preemption",
    "The first may displace others; else the first that finds a place good enough for now starts.",
    worth_starting=accepts_for_now,
)
PREEMPTIVE = (disciplines.preemptive, learned_preemption)
"""Disciplines that stop running jobs."""


@dataclass(frozen=True)
class ScoredRule(Rule):
    """A rule whose order and placement have learned numbers in place of settings.

    >>> from trimtab.gpu_scheduling.heuristics import disciplines
    >>> rule = ScoredRule(
    ...     "mine", learned_order, learned_place, disciplines.backfill, numbers=((0.5,), (), ())
    ... )
    >>> float(rule.table[0, 0])
    0.5
    """

    numbers: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] = ((), (), ())
    """Of order, placement and discipline."""
    experience: Experience = field(default_factory=no_experience)

    @property
    def table(self) -> NDArray[np.float64]:
        return self._table

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        known = self.experience.row
        table = np.zeros((3, EXPERIENCE_AT + len(known)))
        for row, values in zip(table, self.numbers, strict=True):
            row[: len(values)] = values
        table[0, EXPERIENCE_AT:] = known
        return table
