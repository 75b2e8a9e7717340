"""From Spark jobs to DAGs: which jobs make one query, which stages ran, and what waits for what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.spark_records import Application, SparkJob, SparkStage
from trimtab.dag_scheduling.history.spark_waves import StageTasks

__all__ = ["Query", "finished_queries", "stage_parents"]


@dataclass(frozen=True)
class Query:
    """One unit of scheduling: a SQL execution with all its jobs, or a job outside SQL."""

    name: str
    arrival_ms: int
    jobs: Sequence[SparkJob]


def finished_queries(application: Application, report: ImportReport) -> list[Query]:
    """Queries that ran to their end, by arrival; the others are counted with the reason."""
    groups: dict[tuple[str, int], list[SparkJob]] = {}
    for job in application.jobs.values():
        root = _root_execution(job, application)
        key = ("job", job.job_id) if root is None else ("sql", root)
        groups.setdefault(key, []).append(job)
    with_jobs = {number for kind, number in groups if kind == "sql"}
    empty = [e for e in application.executions.values() if e.root_id not in with_jobs]
    report.drop("SQL command that started no Spark job", len(empty))
    queries = []
    for (kind, number), jobs in groups.items():
        execution = application.executions.get(number) if kind == "sql" else None
        reason = _reason_to_drop(jobs, number if execution else None, application)
        if reason:
            report.drop(reason)
            continue
        kept = sorted((job for job in jobs if job.succeeded), key=_by_submission)
        report.drop("cancelled or failed job inside a successful query", len(jobs) - len(kept))
        arrival = execution.started_ms if execution else min(job.submitted_ms for job in jobs)
        queries.append(Query(f"{kind}{number}", arrival, kept))
    return sorted(queries, key=lambda query: query.arrival_ms)


def stage_parents(query: Query, ran: Mapping[int, StageTasks], report: ImportReport) -> dict[int, list[int]]:
    """Stages of the query that ran, each with the stages it waits for.

    A skipped stage stands for the stage that really wrote its shuffle output. A job submitted when
    another one of the query had ended waits for that one: the driver would not go on before.
    """
    announced: dict[int, SparkStage] = {}
    owned: dict[int, list[int]] = {job.job_id: [] for job in query.jobs}
    for job in query.jobs:
        for stage in job.stages:
            if stage.stage_id not in announced:
                announced[stage.stage_id] = stage
                if stage.stage_id in ran:
                    owned[job.job_id].append(stage.stage_id)
    writers = _shuffle_writers(announced, ran)
    parents: dict[int, list[int]] = {}
    for job in query.jobs:
        for stage_id in owned[job.job_id]:
            found: set[int] = set()
            for parent_id in announced[stage_id].parent_ids:
                producers = _producers(parent_id, announced, ran, writers, set())
                if not producers:
                    report.drop("dependency on the shuffle output of another query")
                found |= producers
            parents[stage_id] = sorted(found - {stage_id})
    _refuse_cycle(query, parents)
    _chain_jobs(query.jobs, owned, parents)
    return parents


def _by_submission(job: SparkJob) -> tuple[int, int]:
    return job.submitted_ms, job.job_id


def _root_execution(job: SparkJob, application: Application) -> int | None:
    if job.root_execution_id is not None:
        return job.root_execution_id
    if job.execution_id is None:
        return None
    execution = application.executions.get(job.execution_id)
    return execution.root_id if execution else job.execution_id


def _reason_to_drop(
    jobs: Sequence[SparkJob], execution_id: int | None, application: Application
) -> str | None:
    execution = None if execution_id is None else application.executions[execution_id]
    if execution and execution.failed:
        return "query failed"
    if execution and execution.ended_ms is None and not application.ended:
        return "query not finished"
    if execution and execution.failed is False and any(job.succeeded for job in jobs):
        return None
    if any(job.ended_ms is None for job in jobs):
        return "query not finished"
    return None if all(job.succeeded for job in jobs) else "query failed"


def _shuffle_writers(
    announced: Mapping[int, SparkStage], ran: Mapping[int, StageTasks]
) -> dict[int, list[int]]:
    """Data set → stages that ran and wrote its shuffle output, oldest first."""
    writers: dict[int, list[int]] = {}
    for stage_id, stage in sorted(announced.items()):
        if stage.output_rdd is not None and stage_id in ran and ran[stage_id].writes_shuffle:
            writers.setdefault(stage.output_rdd, []).append(stage_id)
    return writers


def _producers(
    stage_id: int,
    announced: Mapping[int, SparkStage],
    ran: Mapping[int, StageTasks],
    writers: Mapping[int, Sequence[int]],
    visited: set[int],
) -> set[int]:
    """The stages of this query that must end before the output of `stage_id` exists."""
    stage = announced.get(stage_id)
    if stage is None or stage_id in visited:
        return set()
    if stage_id in ran:
        return {stage_id}
    of_data_set = () if stage.output_rdd is None else writers.get(stage.output_rdd, ())
    earlier = [writer for writer in of_data_set if writer < stage_id]
    if earlier:
        return {earlier[-1]}
    if stage.task_count > 0:
        return set()
    # An empty stage runs no task: who waits for it waits for its parents.
    visited.add(stage_id)
    above = (_producers(p, announced, ran, writers, visited) for p in stage.parent_ids)
    return set().union(*above)


def _refuse_cycle(query: Query, parents: Mapping[int, Sequence[int]]) -> None:
    waiting = {stage: set(above) for stage, above in parents.items()}
    while ready := [stage for stage, above in waiting.items() if not above & waiting.keys()]:
        for stage in ready:
            del waiting[stage]
    if waiting:
        names = ", ".join(map(str, sorted(waiting)[:5]))
        raise HistoryError(
            f"{query.name}: stages {names} wait for one another; the log is damaged, leave this "
            "query out with --keep-going"
        )


def _chain_jobs(
    jobs: Sequence[SparkJob], owned: Mapping[int, Sequence[int]], parents: dict[int, list[int]]
) -> None:
    """Let the first stages of a job wait for the last stages of jobs that ended before it began."""
    above: dict[int, set[int]] = {}
    ends: list[tuple[int, list[int]]] = []
    for job in jobs:
        stages = _in_order(owned[job.job_id], parents)
        ended = [s for ended_ms, last in ends if ended_ms <= job.submitted_ms for s in last]
        covered = set().union(*(above[stage] for stage in ended))
        frontier = {stage for stage in ended if stage not in covered}
        for stage in stages:
            if not set(parents[stage]) & set(stages):
                known = _closure(parents[stage], above)
                parents[stage] = sorted({*parents[stage], *(frontier - known - {stage})})
            above[stage] = _closure(parents[stage], above)
        if job.ended_ms is not None:
            ends.append((job.ended_ms, _last_stages(stages, parents)))


def _closure(stages: Iterable[int], above: Mapping[int, set[int]]) -> set[int]:
    closure = set(stages)
    return closure.union(*(above.get(stage, set()) for stage in tuple(closure)))


def _in_order(stages: Collection[int], parents: Mapping[int, Sequence[int]]) -> list[int]:
    order: list[int] = []
    waiting = set(stages)
    while waiting:
        ready = sorted(stage for stage in waiting if not waiting & set(parents[stage]))
        order += ready
        waiting -= set(ready)
    return order


def _last_stages(stages: Collection[int], parents: Mapping[int, Sequence[int]]) -> list[int]:
    inner = {parent for stage in stages for parent in parents[stage]}
    return [stage for stage in stages if stage not in inner]
