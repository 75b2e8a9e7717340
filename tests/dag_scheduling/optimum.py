"""The least total completion time of a tiny workload, found by trying every schedule.

An independent model, not the engine: no events, no rounds, no promises. A schedule is an order of
tasks with an executor for each; a task starts as soon as its executor has come over (`moving_ms`
when it last worked for another job, or for none) and its parents are done. For a sum of completion
times some schedule of this kind is best among all, so nothing the engine allows can be better.
The model knows future arrivals; only moving towards a job before it arrives is ruled out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.workload import Workload

NOWHERE = -1


@dataclass(frozen=True)
class Stage:
    job: int
    tasks: int
    task_ms: int
    parents: tuple[int, ...]  # numbers of stages, over all jobs


def optimal_total_jct_ms(workload: Workload, cluster: Cluster) -> int:
    """Search depth first; a branch ends when even its lower bound is no better than the best."""
    stages = _stages(workload)
    search = _Search(stages, workload.arrival_ms.tolist(), cluster.moving_delay_ms)
    executors = ((0, NOWHERE),) * cluster.executors
    search.visit(executors, tuple(s.tasks for s in stages), (0,) * len(stages))
    return search.best - int(workload.arrival_ms.sum())


class _Search:
    def __init__(self, stages: list[Stage], arrivals: list[int], moving_ms: int) -> None:
        self.stages, self.arrivals, self.moving_ms = stages, arrivals, moving_ms
        self.best = 1 << 60
        self.seen: set[tuple[object, ...]] = set()
        self.below_ms = self._critical_paths()

    def visit(
        self,
        executors: tuple[tuple[int, int], ...],  # free from, at which job; sorted
        left: tuple[int, ...],  # tasks without an executor, by stage
        done_ms: tuple[int, ...],  # latest end of a task so far, by stage
    ) -> None:
        state = (executors, left, done_ms)
        if state in self.seen:
            return
        self.seen.add(state)
        if not any(left):
            self.best = min(self.best, sum(self._completions(done_ms)))
            return
        if self._bound(executors, left, done_ms) >= self.best:
            return
        for number, stage in enumerate(self.stages):
            if left[number] == 0 or any(left[parent] for parent in stage.parents):
                continue
            ready = max([done_ms[p] for p in stage.parents], default=0)
            for place, executor in enumerate(executors):
                if executor in executors[:place]:
                    continue  # the same as one already tried
                end = max(self._there_ms(executor, stage.job), ready) + stage.task_ms
                others = (*executors[:place], *executors[place + 1 :], (end, stage.job))
                self.visit(
                    tuple(sorted(others)),
                    (*left[:number], left[number] - 1, *left[number + 1 :]),
                    (*done_ms[:number], max(done_ms[number], end), *done_ms[number + 1 :]),
                )

    def _there_ms(self, executor: tuple[int, int], job: int) -> int:
        free_from, at = executor
        if at == job:
            return free_from
        return max(free_from, self.arrivals[job]) + self.moving_ms

    def _completions(self, done_ms: tuple[int, ...]) -> list[int]:
        latest = [0] * len(self.arrivals)
        for stage, end in zip(self.stages, done_ms, strict=True):
            latest[stage.job] = max(latest[stage.job], end)
        return latest

    def _bound(
        self, executors: tuple[tuple[int, int], ...], left: tuple[int, ...], done_ms: tuple[int, ...]
    ) -> int:
        """Every job as if it had all executors to itself and were held up by its longest path only."""
        soonest = self._completions(done_ms)
        for number, stage in enumerate(self.stages):
            if left[number]:
                ready = max([done_ms[p] for p in stage.parents], default=0)
                there = min(self._there_ms(executor, stage.job) for executor in executors)
                end = max(ready, there) + self.below_ms[number]
                soonest[stage.job] = max(soonest[stage.job], end)
        return sum(soonest)

    def _critical_paths(self) -> list[int]:
        below = [stage.task_ms for stage in self.stages]
        for number in reversed(range(len(self.stages))):
            for parent in self.stages[number].parents:
                below[parent] = max(below[parent], self.stages[parent].task_ms + below[number])
        return below


def _stages(workload: Workload) -> list[Stage]:
    profile = workload.profile
    task_ms = profile.task_ms
    assert np.array_equal(task_ms, np.round(task_ms)), "durations must not vary"
    stages: list[Stage] = []
    for job, kind in enumerate(workload.template):
        first = len(stages)
        for row in range(profile.stage_offset[kind], profile.stage_offset[kind + 1]):
            parents = profile.parent[profile.parent_offset[row] : profile.parent_offset[row + 1]]
            stages.append(
                Stage(
                    job,
                    int(profile.tasks[row]),
                    int(task_ms[row]),
                    tuple(first + int(parent) for parent in parents),
                )
            )
    return stages
