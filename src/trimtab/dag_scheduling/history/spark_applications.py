"""From applications to a workload: the one path for event logs and for the history server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    jobs = []
    claimed: set[int] = set()
    for query in finished_queries(application, report):
        # Queries that run side by side may share a stage; it belongs to the one that came first.
        announced = {stage.stage_id for job in query.jobs for stage in job.stages} - claimed
        claimed |= announced
        own = {stage_id: ran[stage_id] for stage_id in announced if stage_id in ran}
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
                _stage_records(parents, ran),
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
    for application in applications:
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


def _stage_records(parents: Mapping[int, Sequence[int]], ran: Mapping[int, StageTasks]) -> list[StageRecord]:
    place = {stage_id: position for position, stage_id in enumerate(sorted(parents))}
    return [
        StageRecord(
            ran[stage_id].tasks,
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
