"""Play many episodes, in this process or in several; the order of the results never changes.

A unit of work is some seeds of one scenario under all policies: they meet the same jobs and luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol

from trimtab.benchmark.suite import Scenario, Suite
from trimtab.core.processes import Processes

__all__ = ["Progress", "Unit", "Work", "Workers", "play_units", "units_of"]

Progress = Callable[[int, int], None]
"""Called with episodes done and episodes in all."""


class Work(Protocol):
    """What a process can be given to play."""

    @property
    def suite(self) -> Suite: ...
    @property
    def policies(self) -> Sequence[Any]: ...
    @property
    def episodes(self) -> int:
        """How many it counts for in what is reported of the progress."""
        ...

    def play(self) -> list[list[Any]]: ...


@dataclass(frozen=True)
class Unit:
    """Some seeds under several policies."""

    suite: Suite
    scenario: Scenario
    seeds: tuple[int, ...]
    policies: tuple[Any, ...]
    record: bool = False

    @property
    def episodes(self) -> int:
        return len(self.seeds) * len(self.policies)

    def play(self) -> list[list[Any]]:
        """The episodes, by policy and seed."""
        return self.suite.play(self.scenario, self.seeds, self.policies, record=self.record)


def units_of(suite: Suite, scenario: Scenario, seeds: Sequence[int], policies: Sequence[Any]) -> list[Unit]:
    """The seeds in as many units as the suite likes."""
    each = suite.seeds_together
    return [
        Unit(suite, scenario, tuple(seeds[first : first + each]), tuple(policies))
        for first in range(0, len(seeds), each)
    ]


class Workers:
    """Processes that play units, kept from one call to the next; with one, everything is done here.

    >>> with Workers(1) as workers:
    ...     workers.play([])
    []
    """

    def __init__(self, processes: int = 1) -> None:
        self._processes = Processes(max(processes, 1))
        self._compiled = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *said: object) -> None:
        self._processes.__exit__(kind, *said)

    def play(self, units: Sequence[Work], progress: Progress | None = None) -> list[list[list[Any]]]:
        """Play every unit; entry i of the answer holds the episodes of unit i, by policy and seed."""
        total = sum(unit.episodes for unit in units)
        report = progress or (lambda done, total: None)
        report(0, total)
        done = 0
        answers: list[list[list[Any]]] = [[] for _ in units]
        for place, episodes in self._finished(units):
            answers[place] = episodes
            done += units[place].episodes
            report(done, total)
        return answers

    def _finished(self, units: Sequence[Work]) -> Iterator[tuple[int, list[list[Any]]]]:
        """Places of units and their episodes, in the order in which they are done."""
        if self._processes.count == 1 or len(units) <= 1:
            yield from ((place, unit.play()) for place, unit in enumerate(units))
            return
        pool = self._ready_pool(units)
        waiting: dict[Future[list[list[Any]]], int] = {
            pool.submit(unit.play): place for place, unit in enumerate(units)
        }
        for finished in as_completed(waiting):
            yield waiting[finished], finished.result()

    def _ready_pool(self, units: Sequence[Work]) -> ProcessPoolExecutor:
        """The first policy compiles the engine that all share; the others then compile side by side."""
        wing = units[0].suite.wing
        missing = wing.uncompiled([policy for unit in units for policy in unit.policies])
        if not self._compiled:
            wing.compile(missing[:1])
            self._compiled, missing = True, missing[1:]
        self._processes(wing.compile, [[policy] for policy in missing])
        return self._processes.pool


def play_units(
    units: Sequence[Work], *, processes: int = 1, progress: Progress | None = None
) -> list[list[list[Any]]]:
    """Play every unit once; entry i of the answer holds the episodes of unit i, by policy and seed."""
    with Workers(min(processes, len(units))) as workers:
        return workers.play(units, progress)
