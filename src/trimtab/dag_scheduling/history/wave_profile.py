"""Import recorded wave profiles: kinds of jobs with task durations by wave and executor count.

Two JSON forms are read, plain or gzipped: a list of `{query, size_gb, edges, stages}` as converted
from Decima's published profiles, and our own `{"format": "trimtab-wave-profile", "jobs": [...]}`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.core.errors import HistoryError, WorkloadError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.inflation import EXECUTOR_POINTS, check_points, extrapolate_jobs
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Provenance,
    StageRecord,
    Workload,
    build_profile,
)

__all__ = ["import_wave_profile", "read_wave_profile"]

FORMAT = "trimtab-wave-profile"
VERSION = 1
WAY_OUT = "export the profile again"
WAVES = ("fresh", "first_wave", "rest_wave")
OF_JOB = ("name", "query", "size_gb", "edges", "stages", "executors_ready_ms", "query_ms")
OF_STAGE = (*WAVES, "tasks", "memory", "name", "kind", "input_bytes", "shuffle_read_bytes", "cpu_ms")
"""All that `trimtab record` writes, also what is of no use here; anything else is a misspelling."""


def import_wave_profile(
    path: str,
    *,
    keep_going: bool = False,
    sizes_gb: Sequence[float] | None = None,
    extrapolate: bool = True,
    executor_points: Sequence[int] = EXECUTOR_POINTS,
) -> tuple[Workload, ImportReport]:
    """One job of every recorded kind, all at time 0: a profile knows no arrivals.

    Counts beyond the largest recorded one are extrapolated; a profile that reaches
    `max(executor_points)` is left as it is.
    """
    check_points(executor_points)
    report = ImportReport(str(path))
    skipped = report if keep_going else None
    jobs = _sound(_read(Path(path), sizes_gb=sizes_gb, skipped=skipped), Path(path), skipped)
    report.assume("a profile has no arrivals: one job of every kind at time 0")
    waves = [wave for job in jobs for stage in job.stages for wave in stage.waves]
    recorded = max(count for wave in waves for count in wave)
    if extrapolate and recorded < max(executor_points):
        jobs = extrapolate_jobs(jobs, executor_points, report)
    report.count("jobs", len(jobs))
    report.count("stages", sum(len(job.stages) for job in jobs))
    report.count("tasks", sum(stage.tasks for job in jobs for stage in job.stages))
    settings = {"sizes_gb": None if sizes_gb is None else list(sizes_gb)}
    workload = Workload(
        build_profile(jobs),
        np.arange(len(jobs)),
        np.zeros(len(jobs), np.int64),
        Provenance(f"wave profile {Path(path).name}", settings),
    )
    return workload, report


def read_wave_profile(path: str | Path, *, sizes_gb: Sequence[float] | None = None) -> list[JobRecord]:
    """The recorded jobs in file order, so that a job's position is its template."""
    return _read(Path(path), sizes_gb=sizes_gb, skipped=None)


def _read(path: Path, *, sizes_gb: Sequence[float] | None, skipped: ImportReport | None) -> list[JobRecord]:
    jobs: list[JobRecord] = []
    sizes: list[float | None] = []
    for position, about in enumerate(_job_entries(path)):
        try:
            if sizes_gb is None or float(about["size_gb"]) in [float(size) for size in sizes_gb]:
                jobs.append(_job(about))
                sizes.append(float(about["size_gb"]) if "size_gb" in about else None)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
            if skipped is None:
                missing = f"no field {problem}" if isinstance(problem, KeyError) else str(problem)
                raise HistoryError(
                    f"{path}: job {position} cannot be used ({missing}); {WAY_OUT}, or leave such "
                    "jobs out with --keep-going"
                ) from None
            skipped.lose("jobs")
    if not jobs:
        raise HistoryError(f"{path}: no job{_of_sizes(sizes_gb)} in it; {WAY_OUT}")
    return _told_apart(jobs, sizes)


def _told_apart(jobs: Sequence[JobRecord], sizes_gb: Sequence[float | None]) -> list[JobRecord]:
    """The recorder calls a query the same at every size: where several are read, they get their size."""
    sizes_of: dict[str, set[float | None]] = {}
    for job, size in zip(jobs, sizes_gb, strict=True):
        sizes_of.setdefault(job.name, set()).add(size)
    return [
        job if size is None or len(sizes_of[job.name]) == 1 else replace(job, name=f"{job.name}-{size:g}g")
        for job, size in zip(jobs, sizes_gb, strict=True)
    ]


def _sound(jobs: list[JobRecord], path: Path, skipped: ImportReport | None) -> list[JobRecord]:
    """Jobs without cycles and impossible durations; others are refused or, if asked, counted."""
    sound = []
    for job in jobs:
        try:
            build_profile([job])
        except WorkloadError as problem:
            if skipped is None:
                raise HistoryError(f"{path}: {problem}; skip it with --keep-going") from None
            skipped.lose("jobs")
        else:
            sound.append(job)
    if not sound:
        raise HistoryError(f"{path}: no sound job in it; {WAY_OUT}")
    return sound


def _of_sizes(sizes_gb: Sequence[float] | None) -> str:
    return "" if sizes_gb is None else " of size " + " or ".join(f"{s:g} GB" for s in sizes_gb)


def _job_entries(path: Path) -> list[Any]:
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise HistoryError(f"{path}: {problem.strerror}; name a wave profile") from None
    try:
        content = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    except (OSError, EOFError, zlib.error, ValueError) as problem:
        raise HistoryError(f"{path}: not a JSON profile ({problem}); {WAY_OUT}") from None
    if isinstance(content, Mapping):
        if content.get("format") != FORMAT or content.get("version") != VERSION:
            raise HistoryError(
                f"{path}: format {content.get('format')!r} version {content.get('version')}, "
                f"expected {FORMAT!r} version {VERSION}; {WAY_OUT}"
            )
        content = content.get("jobs")
    if not isinstance(content, list):
        raise HistoryError(f"{path}: a profile is a list of jobs; {WAY_OUT}")
    return content


def _job(about: Mapping[str, Any]) -> JobRecord:
    _refuse_others(about, OF_JOB)
    parents: list[list[int]] = [[] for _ in about["stages"]]
    for parent, child in about["edges"]:
        if min(parent, child) < 0:
            raise ValueError(f"edge from {parent} to {child}")
        parents[child].append(parent)
    stages = [_stage(s, above) for s, above in zip(about["stages"], parents, strict=True)]
    return JobRecord(about.get("name") or f"tpch-q{about['query']}-{about['size_gb']:g}g", stages)


def _stage(about: Mapping[str, Any], parents: Sequence[int]) -> StageRecord:
    _refuse_others(about, OF_STAGE)
    fresh, first, later = (_wave(about[wave]) for wave in WAVES)
    # Every executor's first task is in first_wave and the others in rest_wave, whatever the count.
    counted = next(iter(first), None)
    tasks = about.get("tasks")
    if tasks is None:
        tasks = len(first[counted]) + len(later.get(counted, ())) if counted is not None else 0
    return StageRecord(
        tasks=_whole(tasks, "tasks"),
        parents=parents,
        fresh=fresh,
        first_wave=_cleaned(first, fresh),
        later_wave=later,
        memory=float(about.get("memory", 0.0)),
        name=str(about.get("name", "")),
    )


def _refuse_others(about: Mapping[str, Any], known: Sequence[str]) -> None:
    others = [name for name in about if name not in known]
    if others:
        raise ValueError(f"unknown field {others[0]!r}; there are {', '.join(known)}")


def _wave(durations: Mapping[str, Sequence[float]]) -> dict[int, list[int]]:
    return {int(count): [_whole(value, "ms") for value in values] for count, values in durations.items()}


def _whole(value: object, unit: str) -> int:
    """A fraction of a task is a mistake, and one of a millisecond a duration in another unit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise ValueError(f"{value!r} {unit}, where a whole number is expected")
    return int(value)


def _cleaned(first: Mapping[int, Sequence[int]], fresh: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Remove the fresh tasks, which `first_wave` also lists; an empty count borrows from below."""
    cleaned: dict[int, list[int]] = {}
    below: list[int] = []
    for count in sorted(first):
        rest = Counter(first[count]) - Counter(fresh.get(count, ()))
        below = list(rest.elements()) or below
        cleaned[count] = below
    return cleaned
