"""What an event log and a history server both tell about an application."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "Application",
    "ExecutorSpan",
    "Outcome",
    "SparkJob",
    "SparkStage",
    "SparkTask",
    "SqlExecution",
    "TaskTable",
]


class Outcome:
    """How a task ended. Small integers, because there are millions of them."""

    SUCCESS, FAILED, KILLED = 0, 1, 2


class SparkTask(NamedTuple):
    """One attempt of one task."""

    stage_id: int
    attempt: int
    """Attempt of the stage."""
    partition: int
    has_partition: bool
    """False in logs before Spark 3.4: the index counts within the attempt, not over the stage."""
    executor: int
    """Position in `Application.executors`."""
    launch_ms: int
    finish_ms: int
    outcome: int
    is_speculative: bool
    writes_shuffle: bool


@dataclass
class TaskTable:
    """Tasks in the order in which they ended, 80 bytes each."""

    values: array[int] = field(default_factory=lambda: array("q"))

    def append(self, task: SparkTask) -> None:
        self.values.extend(array("q", task))  # a number beyond 64 bits leaves the table as it was

    def __len__(self) -> int:
        return len(self.values) // len(SparkTask._fields)


@dataclass
class ExecutorSpan:
    """One executor process: how many tasks it can run at once, and when it was there."""

    name: str
    slots: int
    added_ms: int
    removed_ms: int | None = None


@dataclass(frozen=True)
class SparkStage:
    """A stage as a job announced it; it may be skipped when its shuffle output already exists."""

    stage_id: int
    task_count: int
    parent_ids: tuple[int, ...]
    output_rdd: int | None
    """The data set its tasks write; two stages with the same one do the same work."""


@dataclass
class SparkJob:
    """One Spark job: what an action started."""

    job_id: int
    submitted_ms: int
    stages: list[SparkStage]
    execution_id: int | None = None
    root_execution_id: int | None = None
    ended_ms: int | None = None
    succeeded: bool = False


@dataclass
class SqlExecution:
    """One SQL query or command."""

    execution_id: int
    root_id: int
    started_ms: int
    ended_ms: int | None = None
    failed: bool | None = None
    """None where the log does not say (before Spark 3.4)."""


@dataclass
class Application:
    """One application, whichever way its history was read."""

    label: str
    application_id: str = ""
    name: str = ""
    ended: bool = False
    started_ms: int | None = None
    """None where the history does not say."""
    executors: list[ExecutorSpan] = field(default_factory=list)
    jobs: dict[int, SparkJob] = field(default_factory=dict)
    executions: dict[int, SqlExecution] = field(default_factory=dict)
    submitted_tasks: dict[int, int] = field(default_factory=dict)
    """Stage → tasks that its first attempt was to run: fewer than announced where some output existed."""
    tasks: TaskTable = field(default_factory=TaskTable)
