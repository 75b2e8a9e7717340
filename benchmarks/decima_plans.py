"""`make bench-decima-plans`: how short completion times become under a plan made with hindsight.

`decima_hindsight` changes single decisions. This changes the whole schedule of a batch: every job has a
factor on its remaining work, a cap of executors, a wider one for when nobody else wants them, and a
reluctance to let executors go, and all caps grow as jobs end. It begins at capped SRPT. A search that may
play the batch as often as it likes, with the durations that will come about, mutates a few or all of these 81
numbers and keeps what is better.

It is no bound either: a better search, or plans of another form, may find more. But both searches know the
luck of every task, and a bar far below what either finds asks for more than better decisions.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.decima_hindsight import BATCHES, NETWORK, NEVER, RIVALS
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
from trimtab.dag_scheduling.decima.looking_ahead import copy_into
from trimtab.dag_scheduling.heuristics import critical_stage, executors_of, leave, next_stage, send, work_left
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.dag_scheduling.simulator.compiling import compiled, fingerprint, specialise
from trimtab.dag_scheduling.simulator.events import DECIDE, FINISHED, advance
from trimtab.dag_scheduling.simulator.replay import look
from trimtab.dag_scheduling.simulator.rounds import apply
from trimtab.dag_scheduling.simulator.state import COST, State
from trimtab.dag_scheduling.simulator.tables import Tables

JOBS = 20
WORK, CAP, LOYALTY, WIDER, GROWTH = 0, JOBS, 2 * JOBS, 3 * JOBS, 4 * JOBS
"""Where each part of a plan begins: logarithms, one for each job; the last is one number for all."""
SIZE = GROWTH + 1
KAPPA, POWER = 0.15, 0.65
"""Capped SRPT as tuned for these batches: the plan that a search begins with."""
USEFUL = np.repeat([0.7, 0.5, 1.5, 0.7, 0.5], [JOBS, JOBS, JOBS, JOBS, 1])
"""How far each number may usefully move at once."""
FAR = 50.0
PLAYS, TOGETHER = 12_000, 40


def planned(snapshot: Snapshot, plan: NDArray[np.float64]) -> Action:
    """Capped SRPT with numbers of its own for each job."""
    executors = float(snapshot.executor_count)
    growth = plan[GROWTH] * math.log(JOBS / len(snapshot.jobs))
    best, best_cap, best_score = NOWHERE, 0, -math.inf
    for job in snapshot.jobs:
        if next_stage(snapshot, job) == NOWHERE:
            continue
        score = -math.log(work_left(snapshot, job) / 1000.0 + 1.0) - plan[WORK + job]
        if job == snapshot.source_job:
            score += plan[LOYALTY + job]
        share = plan[CAP + job] + growth
        have = executors_of(snapshot, job)
        if have >= math.exp(share):
            score -= FAR
            share += plan[WIDER + job]
        cap = max(1, math.ceil(min(math.exp(share), executors)))
        if have < cap and score > best_score:
            best, best_cap, best_score = job, cap, score
    if best == NOWHERE:
        return leave(snapshot)
    return send(snapshot, critical_stage(snapshot, best), best_cap)


def decide(snapshot: Snapshot, plan: NDArray[np.float64]) -> Action:
    """Stands for `planned` in `lives`; replaced by `compiling.specialise`."""
    raise NotImplementedError


def lives(now: State, s: State, t: Tables, plans: NDArray[np.float64], costs: NDArray[np.int64]) -> None:
    """What the batch costs under each plan, in job-ms."""
    for place in range(len(plans)):
        copy_into(s, now)
        s.scalar[COST] = 0
        costs[place] = NEVER
        status = DECIDE
        while status == DECIDE:
            action = decide(look(s, t), plans[place])
            if not apply(s, t, action.stage, action.limit, action.executor_class):
                break
            status = advance(s, t)
        if status == FINISHED:
            costs[place] = s.scalar[COST]


@cache
def compiled_lives() -> Any:
    """With the plan's rule in it."""
    return specialise(lives, {"decide": compiled(planned)}, f"{lives.__name__}_{fingerprint(planned)}")


class Found(NamedTuple):
    """Mean completion times of one batch."""

    first_s: float  # under the plan that the search began with
    jct_s: float  # under the best that it found


@dataclass(frozen=True)
class Search:
    """One batch to be planned."""

    suite: BatchSuite
    seed: int
    plays: int

    def found(self) -> Found:
        workload = self.suite.draw(self.suite.scenarios()[0], self.seed)
        simulator = BatchSimulator(self.suite.cluster, size=1)
        simulator.reset([workload], [self.seed])
        plan, draws = first_plan(simulator.snapshot(0)), np.random.default_rng(split(self.seed, "plans"))
        first = least = _costs(simulator, plan[None])[0]
        for _ in range(self.plays // TOGETHER):
            tried = plan + _mutations(draws)
            costs = _costs(simulator, tried)
            if costs.min() <= least:
                plan, least = tried[costs.argmin()], costs.min()
        return Found(*(float(cost) / workload.job_count / 1000 for cost in (first, least)))


def first_plan(snapshot: Snapshot) -> Numbers:
    """Capped SRPT, which leaves a job only for one that is a good deal shorter."""
    plan = np.zeros(SIZE)
    work_s = np.array([work_left(snapshot, job) for job in range(JOBS)]) / 1000
    plan[CAP : CAP + JOBS] = np.log(KAPPA) + POWER * np.log(work_s)
    plan[LOYALTY : LOYALTY + JOBS] = 1.0
    plan[WIDER : WIDER + JOBS] = 3.0
    return plan


def _mutations(draws: np.random.Generator) -> Numbers:
    """Steps of all lengths, in one number, a few or all of them."""
    share = draws.choice(
        [1 / SIZE, 3 / SIZE, 8 / SIZE, 0.3, 1.0], (TOGETHER, 1), p=[0.3, 0.3, 0.2, 0.15, 0.05]
    )
    length = 10 ** draws.uniform(-1.2, 0.3, (TOGETHER, 1))
    steps = length * USEFUL * draws.standard_normal((TOGETHER, SIZE))
    return np.where(draws.random((TOGETHER, SIZE)) < share, steps, 0.0)


def _costs(simulator: BatchSimulator, plans: Numbers) -> NDArray[np.int64]:
    row = State._make(part[0] for part in simulator.state)
    scratch = State._make(np.empty_like(part) for part in row)
    costs = np.empty(len(plans), np.int64)
    with np.errstate(over="ignore"):
        compiled_lives()(row, scratch, simulator.tables, np.ascontiguousarray(plans), costs)
    return costs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Completion times under plans made with hindsight.")
    parser.add_argument("--seeds", type=int, default=BATCHES, help="batches")
    parser.add_argument("--plays", type=int, default=PLAYS, help="plays of each batch")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    suite = BatchSuite(seeds=asked.seeds)
    jct_s = play_jct_s(suite, {**tuned_rules(suite), **networks(NETWORK)})
    with Processes(PROCESSES) as share:
        found = share(Search.found, [Search(suite, seed, asked.plays) for seed in suite.test_seeds()])
    first, planned_s = (np.array(times) for times in zip(*found, strict=True))
    rivals = {kind: best_of(jct_s, of_kind(jct_s, *names)) for kind, names in RIVALS.items()}
    rows = [
        reported("batches", float(len(found))),
        reported("plays of each batch", float(asked.plays)),
        *(ratio_reported(f"planned / {told}", planned_s, jct_s[who]) for told, who in rivals.items()),
        ratio_reported("planned / the plan it began with", planned_s, first),
        ratio_reported(f"planned / {NETWORK}", planned_s, jct_s[NETWORK]),
        *(ratio_reported(f"{NETWORK} / {told}", jct_s[NETWORK], jct_s[who]) for told, who in rivals.items()),
    ]
    finish_after("decima-plans", rows, started)


if __name__ == "__main__":
    main()
