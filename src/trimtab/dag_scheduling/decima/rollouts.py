"""Environments for learning: a batch of simulators that show views, step, and begin anew by themselves.

Environments are split into shards; compiled code gives up Python's lock, so shards run in parallel
threads. Neighbours in groups of `rollouts` live through the same workloads with the same luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.errors import ActionError, SettingsError
from trimtab.core.randomness import exponential, split
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import showing
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.network import Design, limits_of
from trimtab.dag_scheduling.decima.showing import FUTURE_WINDOWS_S, Episodes, Outcomes, Screen
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.simulator import events, replay
from trimtab.dag_scheduling.simulator.compiling import compiled, fingerprint, is_importable, specialise
from trimtab.dag_scheduling.simulator.simulator import FIRST_SLOTS, NO_LIMIT_MS, tables_for
from trimtab.dag_scheduling.simulator.state import State, grow, new_state
from trimtab.dag_scheduling.workload import Workload

__all__ = ["Course", "RolloutEnvironment"]


@dataclass(frozen=True)
class Course:
    """What some environments practise: workloads by seed, on a cluster, beside a rule to learn from."""

    cluster: Cluster
    draw: Callable[[int], Workload]
    """Gives the workload of a seed; all must share one profile."""
    teacher: Rule | None = None
    cost_scale_s: float = 1.0
    """Rewards are divided by it, so that courses of different load weigh alike."""


class RolloutEnvironment:
    """Many environments of one or more courses; satisfies `trimtab.core.environment.BatchEnvironment`."""

    def __init__(
        self,
        courses: Sequence[Course],
        design: Design,
        *,
        size: int,
        rollouts: int = 1,
        jobs_shown: int,
        stages_shown: int | None = None,
        episodes_each: int = 4,
        threads: int = 1,
    ) -> None:
        shards = max(len(courses), threads)
        if size % (shards * rollouts):
            raise SettingsError(
                f"{size} environments cannot be split into {shards} shards of groups of {rollouts}; "
                f"choose a multiple of {shards * rollouts}"
            )
        self.size = size
        self.rollouts = rollouts
        self._design = design
        each = size // shards
        self._shards = [
            _Shard(courses[place % len(courses)], design, each, rollouts, episodes_each)
            for place in range(shards)
        ]
        most = max(shard.stages for shard in self._shards)
        self._stages = most if stages_shown is None else stages_shown
        if self._stages < most:
            raise SettingsError(f"stages_shown = {self._stages}, but a job has {most} stages; raise it")
        self._jobs = jobs_shown
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._slots = np.zeros((size, jobs_shown), np.int64)
        self._each = each

    def reset(self, seed: int, mean_episode_s: float) -> None:
        """Begin new episodes everywhere."""
        for place, shard in enumerate(self._shards):
            shard.draw(split(seed, f"shard {place}"), mean_episode_s)
        self._run(lambda shard: shard.begin())

    def reset_to(self, seeds: Sequence[int]) -> None:
        """Begin given episodes, one per environment and in their order: for validation."""
        for place, shard in enumerate(self._shards):
            shard.plan(list(seeds[place * self._each : (place + 1) * self._each]), NO_LIMIT_MS, 1)
        self._run(lambda shard: shard.begin())

    def observe(self) -> dict[str, NDArray[np.generic]]:
        """Fresh arrays with one row per environment."""
        screen = self._new_screen()
        self._run(lambda shard: shard.show(_rows(screen, shard.place(self._shards, self._each))))
        self._slots = screen.slots
        shown = screen._asdict()
        del shown["slots"]
        return shown

    def step(self, actions: NDArray[np.int32]) -> BatchOutcome:
        """Carry out answers (choice, limit), one row per environment."""
        outcomes = Outcomes(
            np.zeros(self.size, np.int64), np.zeros(self.size, np.int64), np.zeros(self.size, np.bool_)
        )
        scale = np.ones(self.size, np.float64)

        def one(shard: _Shard) -> None:
            rows = shard.place(self._shards, self._each)
            shard.step(actions[rows], self._slots[rows], self._stages, Outcomes._make(part[rows] for part in outcomes))
            scale[rows] = 1000.0 * shard.course.cost_scale_s

        self._run(one)
        return BatchOutcome(
            rewards=(-outcomes.cost_ms / scale).astype(np.float32),
            elapsed_s=(outcomes.elapsed_ms / 1000.0).astype(np.float32),
            ended=outcomes.ended,
        )

    def _run(self, work: Callable[[_Shard], None]) -> None:
        with np.errstate(over="ignore"):
            if self._pool is None:
                for shard in self._shards:
                    work(shard)
            else:
                list(self._pool.map(work, self._shards))

    def _new_screen(self) -> Screen:
        size, jobs, stages, classes = self.size, self._jobs, self._stages, self._design.classes
        return Screen(
            stages=np.empty((size, jobs, stages, v.STAGE_FIELDS), np.int16),
            children=np.empty((size, jobs, stages, v.words_for(stages)), np.uint32),
            jobs=np.empty((size, jobs, v.JOB_FIELDS), np.float32),
            cluster=np.empty((size, v.CLUSTER_FIELDS + 2 * classes), np.float32),
            future=np.empty((size, 2 * len(FUTURE_WINDOWS_S)), np.float32),
            slots=np.empty((size, jobs), np.int64),
            time_s=np.empty(size, np.float32),
            sequence=np.empty(size, np.int32),
            teacher=np.zeros((size, 2), np.int32),
        )


def _rows(screen: Screen, rows: slice) -> Screen:
    return Screen._make(field[rows] for field in screen)


class _Shard:
    """Environments of one course, stepped by one thread."""

    def __init__(self, course: Course, design: Design, size: int, rollouts: int, episodes_each: int) -> None:
        self.course = course
        self._size, self._rollouts, self._episodes_each = size, rollouts, episodes_each
        first = course.draw(0)
        self._tables = tables_for(first.profile, course.cluster)
        if len(self._tables.class_memory) != design.classes:
            raise SettingsError(
                f"the cluster has {len(self._tables.class_memory)} executor classes, the network was made "
                f"for {design.classes}; use a policy trained for such a cluster"
            )
        self.stages = self._tables.stages_per_slot
        self._bits = v.child_words(self._tables.child_offset, self._tables.child, v.words_for(self.stages))
        count = course.cluster.executors
        self._limits = limits_of(np.array([count], np.float32), design, count, np)[0].astype(np.int64)
        self._state = self._new_state(first.job_count)
        self._status = np.full(size, events.FINISHED, np.int64)
        self._actions = np.zeros((size, 3), np.int64)
        self._label = None if course.teacher is None else _labeller(course.teacher.function)
        self._parameters = np.array(() if course.teacher is None else course.teacher.values, np.float64)

    def place(self, shards: Sequence[_Shard], each: int) -> slice:
        """The rows of this shard in the arrays of all."""
        first = shards.index(self) * each
        return slice(first, first + each)

    def _new_state(self, jobs: int) -> State:
        one = new_state(self._tables, slots=min(FIRST_SLOTS, jobs), jobs=jobs)
        return State._make(np.zeros((self._size, *f.shape), f.dtype) for f in one)

    def draw(self, seed: int, mean_episode_s: float) -> None:
        """Draw the next episodes; a group shares workloads, luck and time limits."""
        count = self._size // self._rollouts * self._episodes_each
        seeds = [int(split(seed, "episode", place)) % TRAINING_SEEDS for place in range(count)]
        limits_ms: NDArray[np.int64] | int = NO_LIMIT_MS
        if np.isfinite(mean_episode_s):
            draws = exponential(split(seed, "limits"), np.arange(count), mean=1000.0 * mean_episode_s)
            limits_ms = np.maximum(draws, 1).astype(np.int64)
        self.plan(seeds, limits_ms, self._rollouts)

    def plan(self, seeds: list[int], limits_ms: NDArray[np.int64] | int, rollouts: int) -> None:
        """Lay out the episodes of these seeds, equally many for each group of `rollouts` environments."""
        workloads = [self.course.draw(one) for one in seeds]
        most = max(workload.job_count for workload in workloads)
        template = np.zeros((len(seeds), most), np.int64)
        arrival_ms = np.zeros((len(seeds), most), np.int64)
        for row, workload in enumerate(workloads):
            template[row, : workload.job_count] = workload.template
            arrival_ms[row, : workload.job_count] = workload.arrival_ms
        if self._state.jobs.shape[1] != most:
            self._state = self._new_state(most)
        each = len(seeds) * rollouts // self._size
        first = np.arange(self._size) // rollouts * each
        self._episodes = Episodes(
            template=template,
            arrival_ms=arrival_ms,
            jobs=np.array([workload.job_count for workload in workloads], np.int64),
            seed=np.array(seeds, np.int64),
            time_limit_ms=np.broadcast_to(np.int64(limits_ms), len(seeds)).copy(),
            next_row=first.copy(),
            first_row=first,
            rows_each=each,
            row=first.copy(),
        )

    def begin(self) -> None:
        """Begin the first of the drawn episodes everywhere."""
        self._status[:] = events.FINISHED
        nothing = Outcomes(
            np.zeros(self._size, np.int64), np.zeros(self._size, np.int64), np.zeros(self._size, np.bool_)
        )
        showing.turn_over(self._state, self._tables, self._status, self._episodes, nothing)
        self._settle()

    def show(self, screen: Screen) -> None:
        """Fill this shard's rows of the screen, the teacher's labels among them."""
        showing.show(self._state, self._tables, self._status, self._bits, self._episodes, screen)
        if self._label is not None:
            self._label(self._state, self._tables, self._status, screen, self._limits, self._parameters)

    def step(
        self, answers: NDArray[np.int32], slots: NDArray[np.int64], stages: int, outcomes: Outcomes
    ) -> None:
        """Carry out the answers, take the rewards, begin new episodes where one has ended."""
        showing.read_actions(self._state, self._status, slots, stages, answers, self._limits, self._actions)
        replay.step_many(self._state, self._tables, self._status, self._actions)
        self._settle()
        showing.turn_over(self._state, self._tables, self._status, self._episodes, outcomes)
        self._settle()

    def _settle(self) -> None:
        """Make room for more jobs in the system, or say why an environment cannot go on."""
        if not self._status.any():
            return
        while (waiting := np.flatnonzero(self._status == events.NEED_SLOTS)).size:
            rows = [State._make(field[index] for field in self._state) for index in range(self._size)]
            grown = [grow(row, self._tables) for row in rows]
            self._state = State._make(np.stack(fields) for fields in zip(*grown, strict=True))
            for index in waiting.tolist():
                row = State._make(field[index] for field in self._state)
                self._status[index] = events.advance(row, self._tables)
        wrong = np.flatnonzero((self._status == events.STUCK) | (self._status == replay.ILLEGAL))
        if wrong.size:
            raise ActionError(
                f"environment {wrong[0]}: action {self._actions[wrong[0]].tolist()} is outside the mask"
            )


TRAINING_SEEDS = 900_000
"""Seeds of training workloads end here; validation follows, tests begin at a million."""


@cache
def _labeller(function: Callable[..., object]) -> Callable[..., None]:
    rule = compiled(function)
    name = f"{function.__name__}_{fingerprint(function)}"
    return specialise(showing.label, {"decide": rule}, name, cached=is_importable(function))
