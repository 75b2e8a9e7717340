"""`make bench-decima-hindsight`: how short completion times become for who knows the luck of every task.

A scheduler decides without knowing how long the tasks to come will really take. Here a search decides that
does: before each decision it tries up to two dozen answers (stages of every job, with few, some or all of the
free executors; leaving them idle), plays each on to the end of the batch with the durations that will come
about, and takes what was best. The compact scheduler plays on, as it is and in three variants drawn anew at
each decision; the variant that was best plays on from there, so a batch never becomes longer than what was
found before. That is some ten thousand plays for each batch.

It is no bound: a better search may find more. But it uses what no scheduler can know, on batches of
`make bench-decima-batch`; a bar far below what it finds asks for more than better decisions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.decima_settings import (
    PROCESSES,
    Numbers,
    best_of,
    finish_after,
    networks,
    of_kind,
    play_jct_s,
    ratio_reported,
    reported,
    tuned_rules,
)
from trimtab.benchmark.dag_scheduling.suites import BatchSuite
from trimtab.core.processes import Processes
from trimtab.core.randomness import split
from trimtab.dag_scheduling.decima.compact import BOTH, CompactRule, widths
from trimtab.dag_scheduling.decima.looking_ahead import copy_into
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.dag_scheduling.simulator.compiling import compiled, fingerprint, specialise
from trimtab.dag_scheduling.simulator.events import DECIDE, FINISHED, advance
from trimtab.dag_scheduling.simulator.replay import look
from trimtab.dag_scheduling.simulator.rounds import apply, executors_taken
from trimtab.dag_scheduling.simulator.state import COST, State
from trimtab.dag_scheduling.simulator.tables import Tables

BATCHES = 16
ANSWERS, VARIANTS, VARIED = 24, 3, 0.3
"""Answers tried at a decision; variants of who plays on, and how far they lie off, in useful steps."""
WIDE = 6
"""Variants are tried after the best so many answers only."""
PLAYER, NETWORK = "compact-tpch", "decima-tpch-batch"
RIVALS = {
    "best tuned capped SRPT": ("capped-srpt", "capped-srpt-local"),
    "best weighted fair": ("weighted-fair",),
}
NEVER = np.iinfo(np.int64).max


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule in `outcomes`; replaced by `compiling.specialise`."""
    raise NotImplementedError


def outcomes(
    now: State,
    s: State,
    t: Tables,
    answers: NDArray[np.int64],
    parameters: NDArray[np.float64],
    costs: NDArray[np.int64],
) -> None:
    """What all that is left costs after each answer, in job-ms, if the rule plays on with known luck."""
    for place in range(len(answers)):
        copy_into(s, now)
        s.scalar[COST] = 0
        costs[place] = NEVER
        if not apply(s, t, answers[place, 0], answers[place, 1], 0):
            continue
        status = advance(s, t)
        while status == DECIDE:
            action = decide(look(s, t), parameters)
            if not apply(s, t, action.stage, action.limit, action.executor_class):
                break
            status = advance(s, t)
        if status == FINISHED:
            costs[place] = s.scalar[COST]


@cache
def outcomes_of(function: Any) -> Any:
    """Compiled with a rule in it."""
    name = f"{function.__name__}_{fingerprint(function)}"
    return specialise(outcomes, {"decide": compiled(function)}, name)


def answers_to(snapshot: Snapshot, row: State, tables: Tables, own: Action) -> NDArray[np.int64]:
    """What could be answered, the rule's own first: stages and limits that send different executors."""
    free = int(snapshot.free_executors.sum())
    found = {(NOWHERE, 0) if own.stage == NOWHERE else (own.stage, _sent(row, tables, own)): own}
    for action in _offered(snapshot, free):
        sent = _sent(row, tables, action)
        if action.stage == NOWHERE or sent:
            found.setdefault((action.stage, sent), action)
    return np.array([(one.stage, one.limit) for one in found.values()], np.int64)


def _sent(row: State, tables: Tables, action: Action) -> int:
    if action.stage == NOWHERE:
        return 0
    return int(executors_taken(row, tables, action.stage, action.limit, 0))


def _offered(snapshot: Snapshot, free: int) -> list[Action]:
    """Of every job its two largest stages, those that may run before others, with one to all executors."""
    found = [Action(NOWHERE, 0)] if snapshot.may_idle else []
    for slot in snapshot.jobs.tolist():
        stages = range(snapshot.first_stage[slot], snapshot.first_stage[slot] + snapshot.stage_count[slot])
        ready = sorted(
            (stage for stage in stages if snapshot.schedulable[stage]),
            key=lambda stage: (snapshot.runnable[stage], snapshot.unstarted[stage] * snapshot.task_ms[stage]),
            reverse=True,
        )
        have = int(snapshot.executors[slot] + snapshot.incoming[slot])
        if slot == snapshot.source_job:
            have -= free
        found += [
            Action(stage, max(1, have + count))
            for stage in ready[:2]
            for count in sorted({1, 2, 5, max(1, free // 4), max(1, free // 2), free})
        ]
    return found


class Found(NamedTuple):
    """What a search came to."""

    jct_s: float  # mean completion time
    decisions: int
    changed: int  # answered otherwise than the compact scheduler would
    plays: int


@dataclass(frozen=True)
class Search:
    """One batch to be searched."""

    suite: BatchSuite
    seed: int

    def found(self) -> Found:
        workload = self.suite.draw(self.suite.scenarios()[0], self.seed)
        simulator = BatchSimulator(self.suite.cluster, size=1)
        simulator.reset([workload], [self.seed])
        looking, total, decisions, changed = _Looking(self.seed), 0, 0, 0
        while not simulator.ended.all():
            taken, is_own = looking.best(simulator)
            decisions, changed = decisions + 1, changed + (not is_own)
            total -= int(simulator.step([[*taken, 0]]).rewards[0])
        return Found(total / workload.job_count / 1000, decisions, changed, looking.plays)


class _Looking:
    """Tries answers by playing on; remembers who plays on best."""

    def __init__(self, seed: int) -> None:
        rule = make_policy(PLAYER)
        assert isinstance(rule, CompactRule)
        self._decide, self._play_on = rule.function, outcomes_of(rule.function)
        self._usual, self._widely = np.array(rule.numbers), VARIED * widths(next(iter(BOTH)))
        self._player = self._usual
        self._draws = np.random.default_rng(split(seed, "hindsight"))
        self.plays = 0

    def best(self, simulator: BatchSimulator) -> tuple[list[int], bool]:
        """Stage and limit of the best answer, and whether it is the player's own."""
        snapshot = simulator.snapshot(0)
        row = State._make(part[0] for part in simulator.state)
        offered = answers_to(snapshot, row, simulator.tables, self._decide(snapshot, self._player))
        others = 1 + self._draws.permutation(len(offered) - 1)
        tried = offered[np.concatenate([[0], others[: ANSWERS - 1]])]
        costs = self._costs(simulator, row, tried, self._player)
        taken, least = tried[costs.argmin()], costs.min()
        promising = tried[np.argsort(costs, kind="stable")[:WIDE]]
        for _ in range(VARIANTS):
            variant = self._usual + self._widely * self._draws.standard_normal(len(self._usual))
            costs = self._costs(simulator, row, promising, variant)
            if costs.min() < least:
                taken, least, self._player = promising[costs.argmin()], costs.min(), variant
        return taken.tolist(), bool((taken == tried[0]).all())

    def _costs(
        self, simulator: BatchSimulator, row: State, tried: NDArray[np.int64], player: Numbers
    ) -> NDArray[np.int64]:
        scratch = State._make(np.empty_like(part) for part in row)
        costs = np.empty(len(tried), np.int64)
        with np.errstate(over="ignore"):
            self._play_on(row, scratch, simulator.tables, tried, player, costs)
        self.plays += len(tried)
        return costs


def searched(searches: Sequence[Search]) -> list[Found]:
    """What each search found, by batch."""
    with Processes(PROCESSES) as share:
        return share(Search.found, searches)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Completion times for who knows the luck of every task.")
    parser.add_argument("--seeds", type=int, default=BATCHES, help="batches")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    suite = BatchSuite(seeds=asked.seeds)
    players = {**tuned_rules(suite), PLAYER: make_policy(PLAYER), **networks(NETWORK)}
    jct_s = play_jct_s(suite, players)
    found = searched([Search(suite, seed) for seed in suite.test_seeds()])
    hindsight = np.array([one.jct_s for one in found])
    rivals = {kind: best_of(jct_s, of_kind(jct_s, *names)) for kind, names in RIVALS.items()}
    rows = [
        reported("batches", float(len(hindsight))),
        *(ratio_reported(f"with hindsight / {told}", hindsight, jct_s[who]) for told, who in rivals.items()),
        ratio_reported(f"with hindsight / {PLAYER}", hindsight, jct_s[PLAYER]),
        ratio_reported(f"with hindsight / {NETWORK}", hindsight, jct_s[NETWORK]),
        *(ratio_reported(f"{NETWORK} / {told}", jct_s[NETWORK], jct_s[who]) for told, who in rivals.items()),
        reported("decisions of a batch", float(np.mean([one.decisions for one in found]))),
        reported("of them changed with hindsight", float(np.mean([one.changed for one in found]))),
        reported("plays of what is left of a batch, for each", float(np.mean([one.plays for one in found]))),
    ]
    finish_after("decima-hindsight", rows, started)


if __name__ == "__main__":
    main()
