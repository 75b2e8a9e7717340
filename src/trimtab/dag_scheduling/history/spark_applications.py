"""From applications to a workload: the one path for event logs and for the history server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.inflation import bucket_points, extrapolate_jobs
from trimtab.dag_scheduling.history.spark_queries import finished_queries, stage_parents
from trimtab.dag_scheduling.history.spark_records import Application
from trimtab.dag_scheduling.history.spark_waves import StageTasks, stage_tasks
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Provenance,
    StageRecord,
    Workload,
    build_profile,
)

__all__ = ["ImportedJob", "application_jobs", "workload_of_applications"]


@dataclass(frozen=True)
class ImportedJob:
    """One query with its moment of arrival (milliseconds since 1970)."""

    application_id: str
    application_name: str
    query_name: str
    arrival_ms: int
    stages: Sequence[StageRecord]


def application_jobs(
    application: Application, *, keep_going: bool, report: ImportReport
) -> list[ImportedJob]:
    """All finished queries of one application as jobs."""
    report.count("applications")
    if not application.ended:
        report.drop("end of an application (still running, or killed)")
    ran = stage_tasks(application, report)
    report.drop("task of a stage that no job announced", _unannounced(application, ran))
    planned = _planned_tasks(application)
    jobs = []
    claimed: set[int] = set()
    for query in finished_queries(application, report):
        # Queries that run side by side may share a stage; it belongs to the one that came first.
        announced = {stage.stage_id for job in query.jobs for stage in job.stages} - claimed
        claimed |= announced
        own = {stage_id: ran[stage_id] for stage_id in announced if stage_id in ran}
        unseen = sum(application.submitted_tasks.get(stage_id, 0) > 0 for stage_id in announced - own.keys())
        report.lose("stages that ran, but without the end of any task", unseen)
        try:
            parents = stage_parents(query, own, report)
        except HistoryError as problem:
            if not keep_going:
                raise HistoryError(f"{application.label}: {problem}") from None
            report.lose("queries with stages that wait for one another")
            continue
        if not parents:
            report.drop("query of which no task ran")
            continue
        jobs.append(
            ImportedJob(
                application.application_id,
                application.name,
                query.name,
                query.arrival_ms,
                _stage_records(parents, ran, planned, report),
            )
        )
    return jobs


def workload_of_applications(
    applications: Iterable[Application],
    *,
    source: str,
    keep_going: bool,
    extrapolate: bool,
    executor_points: Sequence[int],
    report: ImportReport,
) -> Workload:
    """All queries of all applications on one clock that starts with the first of them."""
    imported: list[ImportedJob] = []
    for application in _once(applications, keep_going=keep_going, report=report):
        imported += application_jobs(application, keep_going=keep_going, report=report)
    if not imported:
        raise HistoryError(f"{report.source}: no finished query or job in it{_why(report)}; {_WAY_OUT}")
    imported.sort(key=lambda job: job.arrival_ms)
    report.assume(
        "the executors of a task are all slots of its application at its launch, also when several "
        "queries shared them"
    )
    jobs = [JobRecord(name, job.stages) for name, job in zip(_names(imported), imported, strict=True)]
    jobs = bucket_points(jobs)
    if extrapolate:
        jobs = extrapolate_jobs(jobs, executor_points, report)
    report.count("jobs", len(jobs))
    report.count("stages", sum(len(job.stages) for job in jobs))
    report.count("tasks", sum(stage.tasks for job in jobs for stage in job.stages))
    arrivals = np.array([job.arrival_ms for job in imported], np.int64)
    settings = {"extrapolate": extrapolate, "executor_points": list(executor_points)}
    return Workload(
        build_profile(jobs),
        np.arange(len(jobs)),
        arrivals - arrivals[0],
        Provenance(source, {**settings, "keep_going": keep_going}),
    )


_WAY_OUT = "import the history of an application that ran at least one query to its end"


def _why(report: ImportReport) -> str:
    found = [f"{amount} x {reason}" for reason, amount in (report.dropped + report.lost).items()]
    return f" ({', '.join(found[:4])})" if found else ""


def _once(
    applications: Iterable[Application], *, keep_going: bool, report: ImportReport
) -> Iterator[Application]:
    """Every application once: folders also hold copies of a log, packed or as a backup.

    Attempts of one application have the same id, but not the same start.
    """
    seen: dict[tuple[str, int], tuple[str, object]] = {}
    for application in applications:
        if not application.application_id or application.started_ms is None:
            yield application
            continue
        size = (len(application.jobs), len(application.tasks), application.ended)
        key = (application.application_id, application.started_ms)
        label, known = seen.setdefault(key, (application.label, size))
        if label == application.label:
            yield application
            continue
        if known != size and not keep_going:
            raise HistoryError(
                f"{application.label}: the same application as in {label}, but the two do not hold "
                "the same; leave one out, or take the first by name with --keep-going"
            )
        report.drop("log of an application that was read already")


def _planned_tasks(application: Application) -> dict[int, int]:
    """How many tasks each stage was to run: as it was submitted, or else as a job announced it."""
    planned = dict(application.submitted_tasks)
    for job in application.jobs.values():
        for stage in job.stages:
            planned.setdefault(stage.stage_id, stage.task_count)
    return planned


def _stage_records(
    parents: Mapping[int, Sequence[int]],
    ran: Mapping[int, StageTasks],
    planned: Mapping[int, int],
    report: ImportReport,
) -> list[StageRecord]:
    """Stages with all their tasks, also those of which no end was seen: a busy Spark drops events."""
    place = {stage_id: position for position, stage_id in enumerate(sorted(parents))}
    missing = {stage_id: max(planned[stage_id] - ran[stage_id].tasks, 0) for stage_id in parents}
    report.fill("tasks without an end, like the others of their stage", sum(missing.values()))
    return [
        StageRecord(
            ran[stage_id].tasks + missing[stage_id],
            [place[parent] for parent in parents[stage_id]],
            *ran[stage_id].waves,
            name=f"stage {stage_id}",
        )
        for stage_id in sorted(parents)
    ]


def _unannounced(application: Application, ran: Mapping[int, StageTasks]) -> int:
    known = {stage.stage_id for job in application.jobs.values() for stage in job.stages}
    return sum(stage.tasks for stage_id, stage in ran.items() if stage_id not in known)


def _names(jobs: Sequence[ImportedJob]) -> list[str]:
    """`application name-sql3`; with the application's id, or a counter, only where names meet."""
    plain = [f"{job.application_name or job.application_id}-{job.query_name}" for job in jobs]
    counts = Counter(plain)
    seen: Counter[str] = Counter()
    unique = []
    for name, job in zip(plain, jobs, strict=True):
        if counts[name] > 1:
            name = f"{job.application_name}-{job.application_id}-{job.query_name}"
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique
