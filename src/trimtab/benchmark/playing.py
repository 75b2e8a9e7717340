"""Play many episodes, in this process or in several; the order of the results never changes.

A unit of work is one seed of one scenario under all policies: they meet the same jobs and luck.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from trimtab.benchmark.suites import DagSuite, Scenario
from trimtab.core.errors import TrimtabError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.episode import Episode
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import DagPolicy
from trimtab.dag_scheduling.simulator.compiling import cache_folder
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload.tiny import tiny_workload

__all__ = ["Progress", "Unit", "compile_rules", "is_compiled", "play_units"]

Progress = Callable[[int, int], None]
"""Called with episodes done and episodes in all."""


@dataclass(frozen=True)
class Unit:
    """One seed under several policies."""

    suite: DagSuite
    scenario: Scenario
    seed: int
    policies: tuple[DagPolicy, ...]
    record_tasks: bool = False


def play_units(
    units: Sequence[Unit], *, processes: int = 1, progress: Progress | None = None
) -> list[list[Episode]]:
    """Play every unit; entry i of the answer holds the episodes of unit i, by policy."""
    total = sum(len(unit.policies) for unit in units)
    report = progress or (lambda done, total: None)
    report(0, total)
    done = 0
    answers: list[list[Episode]] = [[] for _ in units]
    if processes <= 1 or len(units) <= 1:
        for place, unit in enumerate(units):
            answers[place] = _play(unit)
            done += len(unit.policies)
            report(done, total)
        return answers
    kinds = _kinds_of_rules([policy for unit in units for policy in unit.policies])
    # The first rule compiles the engine that all share; the others then compile side by side.
    compile_rules(kinds[:1])
    with _workers(min(processes, len(units))) as pool:
        list(pool.map(compile_rules, [[rule] for rule in kinds[1:]]))
        waiting: dict[Future[list[Episode]], int] = {
            pool.submit(_play, unit): place for place, unit in enumerate(units)
        }
        for finished in as_completed(waiting):
            place = waiting[finished]
            answers[place] = finished.result()
            done += len(units[place].policies)
            report(done, total)
    return answers


def compile_rules(rules: Sequence[Rule]) -> None:
    """Play each rule once on a toy, so that its compiled code lies on disk for everybody."""
    for rule in rules:
        simulate(tiny_workload("chain"), rule, Cluster(executors=2))


def is_compiled(policies: Sequence[DagPolicy]) -> bool:
    """Whether this version of the engine and of these rules was compiled before."""
    return all(
        next(cache_folder().rglob(f"*play_{rule.function.__name__}_*.nbi"), None)
        for rule in _kinds_of_rules(policies)
    )


def _kinds_of_rules(policies: Sequence[DagPolicy]) -> list[Rule]:
    """One rule for each function: its settings are not compiled in."""
    kinds = {policy.function: policy for policy in policies if isinstance(policy, Rule)}
    return list(kinds.values())


def _play(unit: Unit) -> list[Episode]:
    workload = unit.suite.draw(unit.scenario, unit.seed)
    episodes = [
        simulate(workload, policy, unit.suite.cluster, seed=unit.seed, record_tasks=unit.record_tasks)
        for policy in unit.policies
    ]
    for episode in episodes:
        if (episode.completion_ms < episode.arrival_ms).any():
            raise TrimtabError(
                f"{episode.policy}, seed {unit.seed}: an episode was cut off before every job was "
                "done; averages need whole episodes, raise the time limit"
            )
    return episodes


@contextmanager
def _workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes (no fork under a threaded parent) that leave Ctrl-C to the parent."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        with _interrupts_ignored():
            for _ in range(processes):
                pool.submit(int)  # starts a process, as none is idle yet; it inherits the ignoring
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
