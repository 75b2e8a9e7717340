"""Jobs, stages and executors as plain objects."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Executor", "Job", "Stage"]


@dataclass(eq=False)
class Stage:
    job: Job
    position: int
    row: int
    tasks: int
    memory: float
    parents: list[Stage] = field(default_factory=list)
    children: list[Stage] = field(default_factory=list)
    started: int = 0
    finished: int = 0
    moving_here: int = 0
    promised: int = 0
    attached: list[Executor] = field(default_factory=list)
    promises: list[list] = field(default_factory=list)  # [target or None, executor class, count]
    runnable_since: int = 0
    durations_ms: list[int] = field(default_factory=list)

    @property
    def demand(self) -> int:
        return self.tasks - self.started - self.promised - self.moving_here

    @property
    def done(self) -> bool:
        return self.finished == self.tasks

    @property
    def runnable(self) -> bool:
        return self.started < self.tasks and all(parent.done for parent in self.parents)


@dataclass(eq=False)
class Job:
    number: int
    slot: int
    arrival_ms: int
    stages: list[Stage] = field(default_factory=list)
    executors: list[Executor] = field(default_factory=list)
    pool: list[Executor] = field(default_factory=list)
    became_runnable: int = 0

    @property
    def done(self) -> bool:
        return all(stage.done for stage in self.stages)

    def runnable_stages(self) -> list[Stage]:
        """In the order in which they became runnable."""
        return sorted((s for s in self.stages if s.runnable), key=lambda s: s.runnable_since)


@dataclass(eq=False)
class Executor:
    number: int
    executor_class: int
    job: Job | None = None
    stage: Stage | None = None
    target: Stage | None = None
    moving: bool = False
    warm: bool = False
    task_ms: int = 0
