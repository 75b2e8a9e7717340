"""Made-up episodes for tests of pictures: random chains of stages, list-scheduled on executors."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.episode import Episode, TaskLog
from trimtab.dag_scheduling.workload import FIRST_WAVE, FRESH, LATER_WAVE

MOVE_MS = 1500


@dataclass
class Job:
    number: int
    arrival_ms: int
    stages: list[NDArray[np.int64]]  # task durations
    stage: int = 0
    begun: int = 0
    done: int = 0
    executors: int = 0
    finished_ms: int = -1
    started_ms: int = -1
    work_left_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.work_left_ms = int(sum(stage.sum() for stage in self.stages))

    def waiting(self, now_ms: int) -> bool:
        return (
            now_ms >= self.arrival_ms
            and self.stage < len(self.stages)
            and self.begun < len(self.stages[self.stage])
        )


RULES: dict[str, Callable[[Job], float]] = {
    "fifo": lambda job: job.number,
    "fair": lambda job: job.executors,
    "shortest-job-first": lambda job: job.work_left_ms,
}


def make_jobs(jobs: int, tasks: int, seed: int, gap_ms: int) -> list[Job]:
    """About `tasks` tasks in all; sizes of jobs spread over more than a factor of ten."""
    random = np.random.default_rng(seed)
    share = random.pareto(1.5, jobs) + 0.3
    share /= share.sum()
    made = []
    for number in range(jobs):
        stage_count = int(random.integers(2, 9))
        parts = random.dirichlet(np.ones(stage_count)) * share[number] * tasks
        stages = [
            random.gamma(4, random.uniform(200, 1500), max(1, round(size))).astype(np.int64) + 50
            for size in parts
        ]
        made.append(Job(number, number * gap_ms, stages))
    return made


def episode(
    policy: str = "fair",
    *,
    jobs: int = 6,
    executors: int = 8,
    tasks: int = 300,
    seed: int = 0,
    gap_ms: int = 2000,
    name: Callable[[int], str] = lambda job: f"query {job % 22 + 1}",
) -> Episode:
    """One workload (fixed by the numbers and the seed) under one of `RULES`."""
    pending = make_jobs(jobs, tasks, seed, gap_ms)
    total_ms = [job.work_left_ms for job in pending]
    rows = _play(pending, executors, RULES[policy])
    columns = np.array(sorted(rows, key=lambda row: row[3]), np.int64).T
    job, stage, executor, start_ms, end_ms, wave = columns
    return Episode(
        policy=policy,
        seed=seed,
        executor_count=executors,
        job_names=tuple(name(j) for j in range(jobs)),
        arrival_ms=np.array([j.arrival_ms for j in pending], np.int64),
        first_start_ms=np.array([j.started_ms for j in pending], np.int64),
        completion_ms=np.array([j.finished_ms for j in pending], np.int64),
        alone_ms=np.maximum(np.array(total_ms, np.int64) // executors, 1),
        busy_ms=int((end_ms - start_ms).sum()),
        moving_ms=int((wave == FRESH).sum()) * MOVE_MS,
        reward=-sum(j.finished_ms - j.arrival_ms for j in pending),
        decisions=len(start_ms),
        events=len(start_ms) + jobs,
        tasks=TaskLog(job, stage, executor, start_ms, end_ms, wave.astype(np.int8)),
    )


def _play(jobs: list[Job], executors: int, rule: Callable[[Job], float]) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    at: list[tuple[int, int]] = [(-1, -1)] * executors  # job and stage each executor worked on last
    idle: set[int] = set(range(executors))
    # (time, kind, executor, job): kind 0 = arrival, 1 = end of a task
    events = [(job.arrival_ms, 0, -1, job.number) for job in jobs]
    heapq.heapify(events)
    while events:
        now, kind, executor, number = heapq.heappop(events)
        if kind == 1:
            _finish(jobs[number], now)
            idle.add(executor)
        for executor in sorted(idle):
            ready = [job for job in jobs if job.waiting(now)]
            if not ready:
                break
            job = min(ready, key=rule)
            wave = _wave(at[executor], job)
            start = now + (MOVE_MS if wave == FRESH else 0)
            end = start + int(job.stages[job.stage][job.begun])
            rows.append((job.number, job.stage, executor, start, end, wave))
            job.started_ms = start if job.started_ms < 0 else job.started_ms
            job.work_left_ms -= int(job.stages[job.stage][job.begun])
            at[executor] = (job.number, job.stage)
            job.begun, job.executors = job.begun + 1, job.executors + 1
            idle.discard(executor)
            heapq.heappush(events, (end, 1, executor, job.number))
    return rows


def _wave(last: tuple[int, int], job: Job) -> int:
    if last[0] != job.number:
        return FRESH
    return LATER_WAVE if last[1] == job.stage else FIRST_WAVE


def _finish(job: Job, now_ms: int) -> None:
    job.done, job.executors = job.done + 1, job.executors - 1
    if job.done == len(job.stages[job.stage]):
        job.stage, job.begun, job.done = job.stage + 1, 0, 0
        job.finished_ms = now_ms if job.stage == len(job.stages) else -1
