"""Read the events of one application, line by line.

A log is mostly task metrics. Lines of no interest are told by their first bytes, and of a task's
end only the part before its metrics is parsed, so reading costs a fraction of parsing all JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.spark_log_files import ApplicationLog, Line, read_lines
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

__all__ = ["read_application"]

BEGINNING = b'{"Event":"'
METRICS = b',"Accumulables"'
LATEST_MS = 1 << 48
"""Year 10,889."""
SQL = "org.apache.spark.sql.execution.ui."
Event = Mapping[str, Any]


class BadEvent(Exception):
    """The line is JSON, but says something impossible."""


def read_application(log: ApplicationLog, *, keep_going: bool, report: ImportReport) -> Application:
    """Everything of interest in one application's log."""
    reader = _Reader(log.label)
    for line in read_lines(log, keep_going=keep_going, report=report):
        try:
            reader.read(line.text)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, BadEvent) as problem:
            if line.is_last_of_open_file:
                report.drop("last line of a running application, not yet whole")
                continue
            _refuse_or_lose(line, problem, reader, keep_going=keep_going, report=report)
        report.count("lines")
    if log.is_compacted:
        report.drop("log whose finished queries Spark's history server has compacted away")
    return reader.application


def _refuse_or_lose(
    line: Line, problem: Exception, reader: _Reader, *, keep_going: bool, report: ImportReport
) -> None:
    if not keep_going:
        if not reader.events_read:
            raise HistoryError(
                f"{line.label}: not a Spark event log (line {line.number} starts with "
                f"{line.text[:24]!r}); point to a file or folder in spark.eventLog.dir"
            )
        raise HistoryError(
            f"{line.label}: line {line.number} is damaged ({_said(problem)}); copy the log again, "
            "or import what is sound with --keep-going"
        )
    report.lose("lines")
    report.lose("bytes", len(line.text))
    if b"SparkListenerTaskEnd" in line.text[:40]:
        report.lose("tasks")


def _said(problem: Exception) -> str:
    if isinstance(problem, BadEvent):
        return str(problem)
    if isinstance(problem, KeyError):
        return f"no field {problem.args[0]!r}"
    if isinstance(problem, json.JSONDecodeError | UnicodeDecodeError):
        return "not whole JSON"
    return "an impossible number" if isinstance(problem, OverflowError) else "a field of the wrong kind"


class _Reader:
    """Takes one line after another and keeps what matters of it."""

    def __init__(self, label: str) -> None:
        self.application = Application(label)
        self.events_read = 0
        self._executor_place: dict[str, int] = {}
        self._task_cores = 1.0
        self._executor_cores = 1
        self._profile_task_cores: dict[int, float] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            "SparkListenerApplicationStart": self._application_start,
            "SparkListenerApplicationEnd": self._application_end,
            "SparkListenerEnvironmentUpdate": self._environment,
            "SparkListenerResourceProfileAdded": self._resource_profile,
            "SparkListenerExecutorAdded": self._executor_added,
            "SparkListenerExecutorRemoved": self._executor_removed,
            "SparkListenerJobStart": self._job_start,
            "SparkListenerJobEnd": self._job_end,
            "SparkListenerStageSubmitted": self._stage_submitted,
            "SparkListenerTaskEnd": self._task_end,
            SQL + "SparkListenerSQLExecutionStart": self._sql_start,
            SQL + "SparkListenerSQLExecutionEnd": self._sql_end,
        }

    def read(self, text: bytes) -> None:
        text = text.rstrip()
        if not text:
            return
        if not text.startswith(BEGINNING):
            self._dispatch(_whole(text))
            return
        name = text[len(BEGINNING) : text.index(b'"', len(BEGINNING))].decode()
        if name not in self._handlers:
            # Not parsed, so only a torn end is noticed; nothing in it would have been used.
            if not text.endswith(b"}"):
                raise json.JSONDecodeError("torn", "", 0)
            self.events_read += 1
        else:
            self._dispatch(_task_head(text) if name == "SparkListenerTaskEnd" else _whole(text))

    def _dispatch(self, event: Event) -> None:
        handler = self._handlers.get(event["Event"])
        if handler:
            handler(event)
        self.events_read += 1

    def _application_start(self, event: Event) -> None:
        self.application.name = event.get("App Name") or ""
        self.application.application_id = event.get("App ID") or ""
        self.application.started_ms = _optional_int(event.get("Timestamp"))

    def _application_end(self, event: Event) -> None:
        self.application.ended = True

    def _environment(self, event: Event) -> None:
        properties = dict(event.get("Spark Properties") or {})
        self._task_cores = float(properties.get("spark.task.cpus", self._task_cores))
        self._executor_cores = int(properties.get("spark.executor.cores", self._executor_cores))

    def _resource_profile(self, event: Event) -> None:
        cores = (event.get("Task Resource Requests") or {}).get("cpus") or {}
        if "Amount" in cores:
            self._profile_task_cores[event["Resource Profile Id"]] = float(cores["Amount"])

    def _executor_added(self, event: Event) -> None:
        about = event["Executor Info"]
        # Profile 0 is the default one; before Spark 3.1 there was no other.
        profile = about.get("Resource Profile Id", 0)
        per_task = self._profile_task_cores.get(profile, self._task_cores)
        slots = max(1, int(about["Total Cores"] / max(per_task, 1e-9)))
        self._place(event["Executor ID"], slots, _moment(event["Timestamp"]))

    def _executor_removed(self, event: Event) -> None:
        place = self._executor_place.pop(event["Executor ID"], None)
        if place is not None:
            self.application.executors[place].removed_ms = _moment(event["Timestamp"])

    def _place(self, name: str, slots: int, added_ms: int) -> int:
        self._executor_place[name] = len(self.application.executors)
        self.application.executors.append(ExecutorSpan(name, slots, added_ms))
        return self._executor_place[name]

    def _executor_of(self, name: str, launch_ms: int) -> int:
        """Its place; one never announced (a compacted log) is there from its first task on."""
        place = self._executor_place.get(name)
        if place is None:
            for known, span in reversed(list(enumerate(self.application.executors))):
                if span.name == name:
                    return known
            slots = max(1, int(self._executor_cores / max(self._task_cores, 1e-9)))
            place = self._place(name, slots, launch_ms)
        return place

    def _job_start(self, event: Event) -> None:
        properties = event.get("Properties") or {}
        job = SparkJob(
            job_id=int(event["Job ID"]),
            submitted_ms=_moment(event["Submission Time"]),
            stages=[_stage(about) for about in event["Stage Infos"]],
            execution_id=_optional_int(properties.get("spark.sql.execution.id")),
            root_execution_id=_optional_int(properties.get("spark.sql.execution.root.id")),
        )
        self.application.jobs[job.job_id] = job

    def _job_end(self, event: Event) -> None:
        job = self.application.jobs.get(event["Job ID"])
        if job is not None:
            job.ended_ms = _moment(event["Completion Time"])
            job.succeeded = event["Job Result"]["Result"] == "JobSucceeded"

    def _stage_submitted(self, event: Event) -> None:
        about = event["Stage Info"]
        if about.get("Stage Attempt ID", 0) == 0:
            self.application.submitted_tasks[int(about["Stage ID"])] = int(about["Number of Tasks"])

    def _sql_start(self, event: Event) -> None:
        execution_id = int(event["executionId"])
        root = _optional_int(event.get("rootExecutionId"))
        self.application.executions[execution_id] = SqlExecution(
            execution_id, execution_id if root is None else root, _moment(event["time"])
        )

    def _sql_end(self, event: Event) -> None:
        execution = self.application.executions.get(event["executionId"])
        if execution is not None:
            execution.ended_ms = _moment(event["time"])
            message = event.get("errorMessage")
            execution.failed = None if message is None else message != ""

    def _task_end(self, event: Event) -> None:
        about = event["Task Info"]
        launch_ms, finish_ms = _moment(about["Launch Time"]), _moment(about["Finish Time"])
        reason = event["Task End Reason"]["Reason"]
        outcome = Outcome.SUCCESS if reason == "Success" else Outcome.FAILED
        if about.get("Killed") or reason == "TaskKilled":
            outcome = Outcome.KILLED
        if outcome == Outcome.SUCCESS and not 0 <= finish_ms - launch_ms <= LONGEST_TASK_MS:
            took = f"took {finish_ms - launch_ms} ms"
            raise BadEvent(f"task {about['Task ID']} of stage {event['Stage ID']} {took}")
        partition = about.get("Partition ID", -1)
        has_partition = partition >= 0
        self.application.tasks.append(
            SparkTask(
                stage_id=int(event["Stage ID"]),
                attempt=int(event.get("Stage Attempt ID", 0)),
                partition=int(partition if has_partition else about["Index"]),
                has_partition=has_partition,
                executor=self._executor_of(about["Executor ID"], launch_ms),
                launch_ms=launch_ms,
                finish_ms=max(launch_ms, finish_ms),
                outcome=outcome,
                is_speculative=bool(about.get("Speculative")),
                writes_shuffle=event.get("Task Type") == "ShuffleMapTask",
            )
        )


def _whole(text: bytes) -> Event:
    event = json.loads(text)
    if not isinstance(event, dict) or not isinstance(event.get("Event"), str):
        raise BadEvent("not a Spark event")
    return event


def _task_head(text: bytes) -> Event:
    """A task's end without its metrics (95 % of the line); Spark writes `Task Info` before them."""
    cut = text.find(METRICS)
    if cut > 0 and text.endswith(b"}"):
        try:
            return json.loads(text[:cut] + b"}}")
        except ValueError:
            pass
    return _whole(text)


def _stage(about: Event) -> SparkStage:
    # Spark lists the stage's own data set first, then those it is computed from.
    data_sets = about.get("RDD Info") or []
    return SparkStage(
        stage_id=int(about["Stage ID"]),
        task_count=int(about["Number of Tasks"]),
        parent_ids=tuple(int(parent) for parent in about.get("Parent IDs") or ()),
        output_rdd=int(data_sets[0]["RDD ID"]) if data_sets else None,
    )


def _moment(value: Any) -> int:
    """Milliseconds since 1970; a time that no calendar has is damage."""
    moment_ms = int(value)
    if abs(moment_ms) > LATEST_MS:
        raise BadEvent(f"a time of {moment_ms} ms")
    return moment_ms


def _optional_int(value: object) -> int | None:
    return None if value is None or value == "" else int(str(value))
