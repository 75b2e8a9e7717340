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
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess

from trimtab.benchmark.suites import DagSuite, Scenario
from trimtab.core.errors import TrimtabError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.episode import Episode
from trimtab.dag_scheduling.heuristics import Rule, RuleFunction
from trimtab.dag_scheduling.policies import DagPolicy
from trimtab.dag_scheduling.simulator.compiling import cache_folder
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload.tiny import tiny_workload

__all__ = ["Progress", "Unit", "Workers", "compile_rules", "is_compiled", "play_units"]

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


class Workers:
    """Processes that play units, kept from one call to the next; with one, everything is done here.

    >>> with Workers(1) as workers:
    ...     workers.play([])
    []
    """

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._children: list[BaseProcess] = []
        self._compiled: set[RuleFunction] = set()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:
            # After an error (or Ctrl-C) nobody waits for what is still being played.
            # Not cancelled: on Python 3.11 a pool that loses its processes trips over cancelled futures.
            for child in self._children:
                child.terminate()
        self._pool.shutdown(wait=True)

    def play(self, units: Sequence[Unit], progress: Progress | None = None) -> list[list[Episode]]:
        """Play every unit; entry i of the answer holds the episodes of unit i, by policy."""
        total = sum(len(unit.policies) for unit in units)
        report = progress or (lambda done, total: None)
        report(0, total)
        done = 0
        answers: list[list[Episode]] = [[] for _ in units]
        for place, episodes in self._finished(units):
            answers[place] = episodes
            done += len(episodes)
            report(done, total)
        return answers

    def _finished(self, units: Sequence[Unit]) -> Iterator[tuple[int, list[Episode]]]:
        """Places of units and their episodes, in the order in which they are done."""
        if self._processes <= 1 or len(units) <= 1:
            yield from ((place, _play(unit)) for place, unit in enumerate(units))
            return
        pool = self._ready_pool([policy for unit in units for policy in unit.policies])
        waiting: dict[Future[list[Episode]], int] = {
            pool.submit(_play, unit): place for place, unit in enumerate(units)
        }
        for finished in as_completed(waiting):
            yield waiting[finished], finished.result()

    def _ready_pool(self, policies: Sequence[DagPolicy]) -> ProcessPoolExecutor:
        """The first rule compiles the engine that all share; the others then compile side by side."""
        kinds = [rule for rule in _kinds_of_rules(policies) if rule.function not in self._compiled]
        if self._pool is None:
            compile_rules(kinds[:1])
            others = active_children()
            self._pool = _started_pool(self._processes)
            self._children = [child for child in active_children() if child not in others]
            kinds = kinds[1:]
        list(self._pool.map(compile_rules, [[rule] for rule in kinds]))
        self._compiled.update(rule.function for rule in _kinds_of_rules(policies))
        return self._pool


def play_units(
    units: Sequence[Unit], *, processes: int = 1, progress: Progress | None = None
) -> list[list[Episode]]:
    """Play every unit once; entry i of the answer holds the episodes of unit i, by policy."""
    with Workers(min(processes, len(units))) as workers:
        return workers.play(units, progress)


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


def _started_pool(processes: int) -> ProcessPoolExecutor:
    """Fresh processes (no fork under a threaded parent) that leave Ctrl-C to the parent."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    with _interrupts_ignored():
        for _ in range(processes):
            pool.submit(int)  # starts a process, as none is idle yet; it inherits the ignoring
    return pool


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
