"""Rebuild an application from the REST tables of Spark's UI, when its event log is not to be had.

The tables tell everything but the DAG. A stage is taken to wait for those stages of its job that
had completed when it was submitted: Spark submits a stage as soon as its parents are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from trimtab.dag_scheduling.history.spark_records import (
    Application,
    ExecutorSpan,
    Outcome,
    SparkJob,
    SparkStage,
    SparkTask,
    SqlExecution,
)
from trimtab.dag_scheduling.workload.profile import LONGEST_TASK_MS

__all__ = ["application_from_rest", "milliseconds"]

Table = Sequence[Mapping[str, Any]]
Ask = Callable[[str], Table]
"""From a path below the application to the table there; an absent table is empty."""

OUTCOMES = {"SUCCESS": Outcome.SUCCESS, "FAILED": Outcome.FAILED, "KILLED": Outcome.KILLED}
PAGE = 1000


def application_from_rest(
    label: str, application_id: str, name: str, *, ended: bool, ask: Ask
) -> Application:
    """The same records that an event log gives, with a derived DAG."""
    application = Application(label, application_id, name, ended)
    application.executors = _executors(ask("allexecutors"))
    place = {span.name: position for position, span in enumerate(application.executors)}
    stages = ask("stages")
    tasks = [task for stage in stages for task in _stage_tasks(stage, place, application, ask)]
    for task in sorted(tasks, key=lambda task: task.finish_ms):
        application.tasks.append(task)
    executions = list(_pages("sql?details=false&planDescription=false", ask))
    execution_of = {
        job_id: about["id"]
        for about in executions
        for kind in ("successJobIds", "failedJobIds", "runningJobIds")
        for job_id in about.get(kind) or ()
    }
    application.executions = {about["id"]: _execution(about) for about in executions}
    submitted, completed = _stage_times(stages)
    for about in ask("jobs"):
        job = _job(about, stages, submitted, completed)
        job.execution_id = execution_of.get(job.job_id)
        application.jobs[job.job_id] = job
    return application


def milliseconds(moment: str) -> int:
    """Milliseconds since 1970 of a time as Spark writes it.

    >>> milliseconds("1970-01-01T00:00:01.500GMT")
    1500
    """
    parsed = datetime.fromisoformat(moment.removesuffix("GMT") + "+00:00")
    return round(parsed.timestamp() * 1000)


def _executors(table: Table) -> list[ExecutorSpan]:
    """Executors that can run tasks; outside local mode the driver has no cores."""
    return [
        ExecutorSpan(
            name=str(about["id"]),
            slots=int(about.get("maxTasks") or about["totalCores"]),
            added_ms=milliseconds(about["addTime"]),
            removed_ms=milliseconds(about["removeTime"]) if about.get("removeTime") else None,
        )
        for about in table
        if about.get("totalCores")
    ]


def _stage_tasks(
    stage: Mapping[str, Any], place: dict[str, int], application: Application, ask: Ask
) -> Iterable[SparkTask]:
    if stage["status"] in ("SKIPPED", "PENDING"):
        return
    stage_id, attempt = int(stage["stageId"]), int(stage["attemptId"])
    writes_shuffle = bool(stage.get("shuffleWriteRecords") or stage.get("shuffleWriteBytes"))
    for about in _pages(f"stages/{stage_id}/{attempt}/taskList", ask):
        outcome = OUTCOMES.get(about["status"])
        duration_ms = about.get("duration")
        if outcome is None or duration_ms is None:
            continue
        launch_ms = milliseconds(about["launchTime"])
        if not 0 <= duration_ms <= LONGEST_TASK_MS:
            raise ValueError(f"task {about['taskId']} took {duration_ms} ms")
        executor = str(about["executorId"])
        if executor not in place:
            place[executor] = len(application.executors)
            application.executors.append(ExecutorSpan(executor, 1, launch_ms))
        partition = about.get("partitionId", -1)
        yield SparkTask(
            stage_id=stage_id,
            attempt=attempt,
            partition=int(partition if partition >= 0 else about["index"]),
            has_partition=partition >= 0,
            executor=place[executor],
            launch_ms=launch_ms,
            finish_ms=launch_ms + int(duration_ms),
            outcome=outcome,
            is_speculative=bool(about.get("speculative")),
            writes_shuffle=writes_shuffle,
        )


def _pages(path: str, ask: Ask) -> Iterable[Mapping[str, Any]]:
    join = "&" if "?" in path else "?"
    offset = 0
    while page := ask(f"{path}{join}offset={offset}&length={PAGE}"):
        yield from page
        offset += len(page)
        if len(page) < PAGE:
            return


def _execution(about: Mapping[str, Any]) -> SqlExecution:
    execution_id = int(about["id"])
    started_ms = milliseconds(about["submissionTime"])
    is_running = about["status"] == "RUNNING"
    return SqlExecution(
        execution_id=execution_id,
        root_id=int(about.get("rootExecutionId", execution_id)),
        started_ms=started_ms,
        ended_ms=None if is_running else started_ms + int(about.get("duration") or 0),
        failed=about["status"] == "FAILED",
    )


def _stage_times(stages: Table) -> tuple[dict[int, int], dict[int, int]]:
    """When each stage was first submitted and last completed, over all its attempts."""
    submitted: dict[int, int] = {}
    completed: dict[int, int] = {}
    for about in stages:
        stage_id = int(about["stageId"])
        if about.get("submissionTime"):
            moment = milliseconds(about["submissionTime"])
            submitted[stage_id] = min(moment, submitted.get(stage_id, moment))
        if about.get("completionTime"):
            moment = milliseconds(about["completionTime"])
            completed[stage_id] = max(moment, completed.get(stage_id, moment))
    return submitted, completed


def _job(
    about: Mapping[str, Any],
    stages: Table,
    submitted: Mapping[int, int],
    completed: Mapping[int, int],
) -> SparkJob:
    count = {int(stage["stageId"]): int(stage["numTasks"]) for stage in stages}
    ids = sorted(int(stage_id) for stage_id in about["stageIds"])
    ran = [stage_id for stage_id in ids if stage_id in submitted]
    above: dict[int, set[int]] = {}
    listed = []
    for stage_id in sorted(ran, key=lambda stage_id: (submitted[stage_id], stage_id)):
        before = {s for s in above if completed.get(s, LATE) <= submitted[stage_id]}
        implied = set().union(*(above[s] for s in before))
        above[stage_id] = before
        parents = tuple(sorted(before - implied))
        listed.append(SparkStage(stage_id, count[stage_id], parents, output_rdd=None))
    return SparkJob(
        job_id=int(about["jobId"]),
        submitted_ms=milliseconds(about["submissionTime"]),
        stages=listed,
        ended_ms=milliseconds(about["completionTime"]) if about.get("completionTime") else None,
        succeeded=about["status"] == "SUCCEEDED",
    )


LATE = 1 << 62
"""Later than any completion."""
