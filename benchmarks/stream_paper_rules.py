"""Rules under the published rules of SURE: usual settings, settings tuned on training days, and a search.

Dhalion needs backpressure, AWS's rule six hours of minutes and KEDA a lag to aim at: none of these exists
there. A rule decides every hour, from the minutes of that hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.decima_settings import Numbers
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Decider, Graph, Integers, Snapshot, StreamPolicy
from trimtab.stream_autoscaling.simulator.paper import PaperRules, PaperSimulator
from trimtab.stream_autoscaling.sure.paper.setting import (
    half_busy,
    normalised,
    paper_job,
    play_hours,
    rewards_of,
    scale_of,
)
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.stream_autoscaling.workload.traces import RateTrace

# Five minutes of waiting before a scale-down are over when the next decision is due.
USUAL = ("static", "hpa:down_wait_s=0", "ds2")
TARGETS = (0.2, 0.35, 0.5, 0.65)
GRIDS: dict[str, tuple[str, ...]] = {
    "static": tuple(f"static:parallelism={number}" for number in (3, 4, 5, 6, 8, 10)),
    "hpa": tuple(
        f"hpa:target={target},down_wait_s=0,window_s=3600,tolerance={tolerance}"
        for target, tolerance in product(TARGETS, (0.1, 0.3))
    ),
    "ds2": tuple(
        f"ds2:target={target},window_s=3600,tolerance={tolerance}"
        for target, tolerance in product(TARGETS, (0.0, 0.3))
    ),
}
TUNING_SEEDS = range(3)
SEARCH_SEEDS = range(12)
SEARCH_DAYS = 2
SEARCH_ROUNDS = 6
MERGED = 12
_GAIN = 1e-4


def training_days(job: Job, seeds: Sequence[int]) -> list[RateTrace]:
    return [draw_trace(TraceSettings(), job, seed=seed, part="training") for seed in seeds]


def mean_reward(policy: StreamPolicy, name: str, rules: PaperRules) -> float:
    """On the training days that rules are tuned on."""
    job, scale = paper_job(name), scale_of(name, rules)
    episodes = play_hours(policy, job, training_days(job, TUNING_SEEDS), rules, seeds=TUNING_SEEDS)
    return float(np.mean([rewards_of(one, scale, rules.latency_weight) for one in episodes]))


def tuned(kind: str, name: str, rules: PaperRules) -> StreamPolicy:
    """The settings of a rule that earn most on training days of a job."""
    return max((make_policy(one) for one in GRIDS[kind]), key=lambda one: mean_reward(one, name, rules))


@dataclass(frozen=True)
class Fixed:
    """A parallelism for each task that never changes; a `StreamPolicy` for one job."""

    name: str
    parallelism: Integers

    def begin(self, graph: Graph) -> Decider:
        return _Unmoved(np.tile(self.parallelism, (len(graph.exists), 1)))


@dataclass(frozen=True)
class _Unmoved:
    wanted: Integers

    def decide(self, snapshot: Snapshot) -> Integers:
        return self.wanted


def searched(name: str, rules: PaperRules) -> Fixed:
    """A fixed parallelism, task by task, found by climbing on the busiest of some training days.

    Each round tries one and three instances more or less for every task, then joins the best moves of
    different tasks as long as it pays.
    """
    job = paper_job(name)
    days = training_days(job, SEARCH_SEEDS)
    days = sorted(days, key=lambda day: -float(day.rates.reshape(-1, 60).mean(1).max()))[:SEARCH_DAYS]
    first = half_busy(job, rules)
    starts = [
        np.clip(np.ceil(first * factor), 1, rules.most).astype(np.int64) for factor in (1, 1.25, 1.5, 2)
    ]
    starts += [np.full_like(first, number) for number in range(4, rules.most + 1)]
    earned = _earned(name, job, starts, days, rules)
    best, found = float(earned.max()), starts[int(earned.argmax())]
    for _ in range(SEARCH_ROUNDS):
        moves = _moves(found, rules)
        earned = _earned(name, job, moves, days, rules)
        joined = _joined(found, moves, earned, best)
        if not joined:
            break
        earned = _earned(name, job, joined, days, rules)
        best, found = float(earned.max()), joined[int(earned.argmax())]
    return Fixed("fixed, searched", found)


def _moves(found: Integers, rules: PaperRules) -> list[Integers]:
    moves = []
    for task, step in product(range(len(found)), (-3, -1, 1, 3)):
        moved = found.copy()
        moved[task] = np.clip(moved[task] + step, 1, rules.most)
        if (moved != found).any():
            moves.append(moved)
    return moves


def _joined(found: Integers, moves: Sequence[Integers], earned: Numbers, best: float) -> list[Integers]:
    """The best move, the best two, and so on."""
    joined: list[Integers] = []
    moved = found.copy()
    for place in np.argsort(-earned):
        task = int(np.flatnonzero(moves[place] != found)[0])
        if earned[place] <= best + _GAIN or len(joined) == MERGED:
            break
        if moved[task] == found[task]:
            moved = moved.copy()
            moved[task] = moves[place][task]
            joined.append(moved)
    return joined


def _earned(
    name: str, job: Job, allocations: Sequence[Integers], days: Sequence[RateTrace], rules: PaperRules
) -> Numbers:
    """Mean reward of each allocation over some days; none where there are not so many instances."""
    count, scale = len(allocations), scale_of(name, rules)
    total = np.zeros(count)
    for day in days:
        simulator = PaperSimulator(
            [job] * count, [day] * count, rules, seeds=[0] * count, parallelism=np.array(allocations)
        )
        hours = []
        while not simulator.ended.all():
            simulator.step(simulator.snapshot().parallelism)
            hours.append(normalised(*simulator.components, scale, rules.latency_weight))
        total += np.mean(hours, axis=0)
    fits = np.array([one.sum() <= rules.total for one in allocations])
    return np.where(fits, total / len(days), -np.inf)
