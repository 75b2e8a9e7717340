"""Read the event log of one application that ran exactly one query, as our recorder writes it.

This is not the importer for users' histories: it knows nothing of compressed or rolled logs, of
several queries in one application or of lost executors, and refuses a log that has them.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.dag_scheduling.recording.errors import RecordingError

__all__ = ["RecordedApplication", "RecordedStage", "RecordedTask", "read_application"]


@dataclass(frozen=True)
class RecordedTask:
    """One successful task, as the scheduler saw it."""

    executor: str
    launch_ms: int
    finish_ms: int
    cpu_ms: float
    shuffle_read_bytes: int

    @property
    def duration_ms(self) -> int:
        """From launch to finish: all the time the executor is taken, sending the task included."""
        return self.finish_ms - self.launch_ms


@dataclass(frozen=True)
class RecordedStage:
    """One stage that really ran; tasks in the order of their launch, parents as stage indices."""

    operators: str
    kind: str
    parents: tuple[int, ...]
    tasks: tuple[RecordedTask, ...]
    input_bytes: int


@dataclass(frozen=True)
class RecordedApplication:
    """One run of one query: its stages in topological order and when its phases began."""

    stages: tuple[RecordedStage, ...]
    started_ms: int
    executors_ready_ms: int
    first_job_ms: int
    last_job_ended_ms: int

    @property
    def edges(self) -> list[list[int]]:
        """All [parent, child] pairs, sorted."""
        return sorted([parent, child] for child, stage in enumerate(self.stages) for parent in stage.parents)


@dataclass(frozen=True)
class _Job:
    submitted_ms: int
    ended_ms: int
    stage_ids: tuple[int, ...]


class _Log:
    """The events of one log, grouped by kind (without the package part of the name)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                self.events[event["Event"].rpartition(".")[2]].append(event)
        self.stage_infos: dict[int, dict[str, Any]] = {}
        for event in self.events["SparkListenerJobStart"]:
            for info in event["Stage Infos"]:
                self.stage_infos.setdefault(info["Stage ID"], info)

    def first_time_ms(self, kind: str) -> int:
        return int(self._some(kind)[0]["Timestamp"])

    def last_time_ms(self, kind: str) -> int:
        return int(self._some(kind)[-1]["Timestamp"])

    def _some(self, kind: str) -> list[dict[str, Any]]:
        if not self.events[kind]:
            raise RecordingError(f"{self.path}: no {kind} event; delete this log and record it again")
        return self.events[kind]


def read_application(path: Path) -> RecordedApplication:
    """Read one log into stages and tasks."""
    log = _Log(path)
    jobs = _jobs(log)
    tasks = _tasks(log)
    parents = _data_parents(log, ran=tasks.keys())
    for stage_id, earlier in _chain_parents(jobs, parents).items():
        parents[stage_id] = parents[stage_id] | earlier
    order = _topological_order(parents, tie_break={s: _plan_order(log, s) for s in parents})
    index = {stage_id: position for position, stage_id in enumerate(order)}
    input_bytes = _input_bytes(log)
    stages = tuple(
        RecordedStage(
            operators=_operators(log, stage_id),
            kind="scan" if _reads_files(log, stage_id) else "shuffle",
            parents=tuple(sorted(index[parent] for parent in parents[stage_id])),
            tasks=tuple(sorted(tasks[stage_id], key=lambda task: (task.launch_ms, task.finish_ms))),
            input_bytes=input_bytes.get(stage_id, 0),
        )
        for stage_id in order
    )
    return RecordedApplication(
        stages=stages,
        started_ms=log.first_time_ms("SparkListenerApplicationStart"),
        executors_ready_ms=log.last_time_ms("SparkListenerExecutorAdded"),
        first_job_ms=min(job.submitted_ms for job in jobs),
        last_job_ended_ms=max(job.ended_ms for job in jobs),
    )


def _jobs(log: _Log) -> list[_Job]:
    ended_ms = {e["Job ID"]: e["Completion Time"] for e in log.events["SparkListenerJobEnd"]}
    executions: set[str | None] = set()
    jobs: list[_Job] = []
    for event in log.events["SparkListenerJobStart"]:
        executions.add(event["Properties"].get("spark.sql.execution.id"))
        if event["Job ID"] not in ended_ms:
            raise RecordingError(f"{log.path}: job {event['Job ID']} never ended; record it again")
        jobs.append(_Job(event["Submission Time"], ended_ms[event["Job ID"]], tuple(event["Stage IDs"])))
    if len(executions) != 1 or None in executions:
        raise RecordingError(
            f"{log.path}: expected the jobs of one SQL query, found {len(executions)} of them; "
            "use `trimtab import` for logs that trimtab did not record"
        )
    return jobs


def _tasks(log: _Log) -> dict[int, list[RecordedTask]]:
    tasks: dict[int, list[RecordedTask]] = defaultdict(list)
    for event in log.events["SparkListenerTaskEnd"]:
        if event["Task End Reason"]["Reason"] != "Success":
            continue
        info, metrics = event["Task Info"], event["Task Metrics"]
        read = metrics["Shuffle Read Metrics"]
        tasks[event["Stage ID"]].append(
            RecordedTask(
                executor=info["Executor ID"],
                launch_ms=info["Launch Time"],
                finish_ms=info["Finish Time"],
                cpu_ms=(metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) / 1e6,
                shuffle_read_bytes=read["Remote Bytes Read"] + read["Local Bytes Read"],
            )
        )
    for stage_id, done in tasks.items():
        planned = log.stage_infos[stage_id]["Number of Tasks"]
        if len(done) != planned:
            raise RecordingError(
                f"{log.path}: stage {stage_id} has {len(done)} successful tasks of {planned}; "
                "delete this log and record it again"
            )
    return dict(tasks)


def _output_rdd(log: _Log, stage_id: int) -> int:
    """Return the id of the RDD a stage ends with: the same for a stage and its skipped double.

    A later job that needs the output of a finished stage lists it under a new stage id with no
    tasks ("skipped"), but with the same RDD.
    """
    return max(rdd["RDD ID"] for rdd in log.stage_infos[stage_id]["RDD Info"])


def _operators(log: _Log, stage_id: int) -> str:
    """Return the plan operators of a stage, like "Exchange, Scan parquet, WholeStageCodegen (5)".

    The numbers in it are set when the query is planned, so they name the same stage in every run.
    Stage and RDD ids do not: branches and subqueries are submitted by threads that race.
    """
    scopes = (rdd.get("Scope") for rdd in log.stage_infos[stage_id]["RDD Info"])
    return ", ".join(sorted({json.loads(scope)["name"].strip() for scope in scopes if scope}))


def _plan_order(log: _Log, stage_id: int) -> tuple[int, str, int]:
    """Return where a stage stands in the plan; its RDD decides only between like operators."""
    operators = _operators(log, stage_id)
    numbers = [int(number) for number in re.findall(r"\((\d+)\)", operators)]
    return min(numbers, default=0), operators, _output_rdd(log, stage_id)


def _reads_files(log: _Log, stage_id: int) -> bool:
    return any(rdd["Name"] == "FileScanRDD" for rdd in log.stage_infos[stage_id]["RDD Info"])


def _data_parents(log: _Log, *, ran: Collection[int]) -> dict[int, set[int]]:
    """Map each stage that ran to those that made its input; a skipped stage means the real one."""
    ran_with_rdd = {_output_rdd(log, stage_id): stage_id for stage_id in ran}

    def real_stages(stage_id: int) -> Iterator[int]:
        real = ran_with_rdd.get(_output_rdd(log, stage_id))
        if real is not None:
            yield real
            return
        # A stage without any task (its input was empty) passes its own parents on.
        for parent in log.stage_infos[stage_id]["Parent IDs"]:
            yield from real_stages(parent)

    return {
        stage_id: {real for parent in log.stage_infos[stage_id]["Parent IDs"] for real in real_stages(parent)}
        for stage_id in ran
    }


def _chain_parents(jobs: list[_Job], parents: dict[int, set[int]]) -> dict[int, set[int]]:
    """Let a job's first stages wait for the last stages of the jobs that ended before it began.

    One query can be several jobs: a scalar subquery, a broadcast, or the sampling before a global
    sort. The driver starts the next job only when it has the result of the one before. Jobs that
    overlap in time do not wait for each other.
    """
    ran_in = {id(job): [s for s in job.stage_ids if s in parents] for job in jobs}
    chained: dict[int, set[int]] = defaultdict(set)
    for job in jobs:
        before = [j for j in jobs if j.ended_ms <= job.submitted_ms and ran_in[id(j)]]
        latest = [j for j in before if not any(j.ended_ms <= k.submitted_ms for k in before)]
        last_stages = {s for j in latest for s in _sinks(ran_in[id(j)], parents)}
        inside = set(ran_in[id(job)])
        for stage_id in inside:
            if not parents[stage_id] & inside:
                chained[stage_id] |= last_stages - inside
    return chained


def _sinks(stage_ids: list[int], parents: dict[int, set[int]]) -> set[int]:
    return set(stage_ids) - {parent for stage_id in stage_ids for parent in parents[stage_id]}


def _topological_order(
    parents: dict[int, set[int]], *, tie_break: dict[int, tuple[int, str, int]]
) -> list[int]:
    """Parents first; among ready stages the one earliest in the plan, so that all runs agree."""
    waiting_for = {stage_id: set(before) for stage_id, before in parents.items()}
    ready = [(tie_break[stage_id], stage_id) for stage_id, w in waiting_for.items() if not w]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, done = heapq.heappop(ready)
        order.append(done)
        for stage_id, before in waiting_for.items():
            if done in before:
                before.remove(done)
                if not before:
                    heapq.heappush(ready, (tie_break[stage_id], stage_id))
    return order


def _input_bytes(log: _Log) -> dict[int, int]:
    """Return the size of the files each stage scans, from the query plan's own counters.

    The task metric "Bytes Read" misses what parquet's vectored reads fetch (5 kB for a 2.5 MB
    file), so the plan's counter "size of files read" is tied to a stage by the other counters of
    the same scan node, which the stage updates.
    """
    stage_of_counter = {
        counter["ID"]: event["Stage Info"]["Stage ID"]
        for event in log.events["SparkListenerStageCompleted"]
        for counter in event["Stage Info"]["Accumulables"]
    }
    driver_values = {
        counter: value
        for event in log.events["SparkListenerDriverAccumUpdates"]
        for counter, value in event["accumUpdates"]
    }
    scans = {
        tuple((metric["name"], metric["accumulatorId"]) for metric in node["metrics"])
        for event in log.events["SparkListenerSQLExecutionStart"]
        for node in _plan_nodes(event["sparkPlanInfo"])
        if node["nodeName"].startswith("Scan")
    }
    total: dict[int, int] = defaultdict(int)
    for metrics in scans:
        stage_ids = {stage_of_counter[c] for _, c in metrics if c in stage_of_counter}
        size = sum(driver_values.get(c, 0) for name, c in metrics if name == "size of files read")
        for stage_id in stage_ids:
            total[stage_id] += size
    return total


def _plan_nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from _plan_nodes(child)
