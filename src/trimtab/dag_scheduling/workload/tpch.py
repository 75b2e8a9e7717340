"""TPC-H on Spark: DAGs and stage costs recorded by us, sizes and executor counts extrapolated.

`trimtab record tpch` runs the 22 queries on a small local Spark cluster. From that recording come the
DAGs, how much each stage works per gigabyte, and how task durations scatter. What a small machine
cannot show comes from the statistics published for Decima's profiles (SIGCOMM'19): work per job at 2
and 100 GB, the difference between waves, and how tasks slow down as a job spreads over more executors.
docs/recording-tpch.md derives every number; `trimtab import` of your own history needs none of this.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError
from trimtab.dag_scheduling.workload.profile import JobRecord, Profile, StageRecord, build_profile

__all__ = ["TPCH_SIZES_GB", "tpch_profile"]

TPCH_SIZES_GB = (2, 5, 10, 20, 50, 100)
POINTS = (5, 10, 20, 40, 50, 60, 80, 100)

PUBLISHED_WORK_S = {2: 203.0, 100: 2209.0}
"""Mean executor-seconds of a job, by input size in GB."""
PUBLISHED_INFLATION = ((5, 10, 20, 40, 50, 80, 100), (1.0, 1.13, 1.37, 1.91, 2.16, 3.05, 3.74))
"""Total work of the same job by number of executors, relative to 5."""
GROWTH_TO_100 = (2.29, 2.64, 3.25)
"""How much fresh, first-wave and later-wave tasks slow down from 5 to 100 executors, stage by stage."""
FRESH_EXTRA_MS = 1370
"""Mean of fresh minus mean of first-wave tasks with 5 executors (2387 - 1019 ms): start of a JVM."""

SHUFFLE_PARTITIONS = 200
SPLIT_BYTES = 128 * 2**20
TEXT_PER_PARQUET = 3.6
"""lineitem takes 742 MB per GB as text, 207 MB as we recorded it; published inputs were text."""
LEAST_TASKS_FOR_A_MEAN = 3
SPREAD_QUANTILES = 16
WIDEST_SPREAD = (0.4, 3.0)
"""Recorded on two busy cores, a few tasks took ten times their stage's median; that is noise, not work."""


@dataclass(frozen=True)
class _RecordedStage:
    tasks: int
    parents: tuple[int, ...]
    bytes_per_gb: float
    is_scan: bool
    all_partitions: bool  # as many tasks as shuffle partitions, so it grows to 200
    work_ms_per_gb: float
    first_over_later: float


@lru_cache(maxsize=4)
def tpch_profile(sizes_gb: Sequence[float] = TPCH_SIZES_GB) -> Profile:
    """The 22 queries at some input sizes, with 5 to 100 executors.

    >>> tpch_profile().template_count
    132
    """
    if not sizes_gb or min(sizes_gb) <= 0:
        raise WorkloadError(f"TPC-H input sizes {list(sizes_gb)}: need at least one, each above 0 GB")
    queries, spread = _recorded()
    overhead_ms, scale = _calibrate(queries)
    return build_profile(
        [
            _job(query, stages, size, spread, overhead_ms=overhead_ms, scale=scale)
            for size in sizes_gb
            for query, stages in queries.items()
        ]
    )


def _calibrate(queries: dict[int, list[_RecordedStage]]) -> tuple[float, float]:
    """Overhead per task and time per recorded unit of work that give the published work per job.

    Work is linear in both, so two sizes determine them.
    """

    def mean_work_s(size: float, overhead_ms: float, scale: float) -> float:
        work_ms = 0.0
        for stages in queries.values():
            for stage in stages:
                tasks, first_ms, later_ms = _means(stage, size, overhead_ms, scale)
                work_ms += tasks * _usual_ms(tasks, first_ms, later_ms)
        return work_ms / len(queries) / 1000.0

    sizes = list(PUBLISHED_WORK_S)
    by_overhead = [mean_work_s(size, 1.0, 0.0) for size in sizes]
    by_scale = [mean_work_s(size, 0.0, 1.0) for size in sizes]
    overhead_ms, scale = np.linalg.solve(
        np.stack([by_overhead, by_scale], axis=1), list(PUBLISHED_WORK_S.values())
    )
    return float(overhead_ms), float(scale)


def _means(
    stage: _RecordedStage, size_gb: float, overhead_ms: float, scale: float
) -> tuple[int, float, float]:
    """Tasks of a stage and the mean durations of its first-wave and later-wave tasks, 5 executors."""
    tasks = _tasks(stage, size_gb)
    later_ms = overhead_ms + scale * stage.work_ms_per_gb * size_gb / tasks
    return tasks, later_ms * stage.first_over_later, later_ms


def _job(
    query: int,
    stages: list[_RecordedStage],
    size_gb: float,
    spread: NDArray[np.float64],
    *,
    overhead_ms: float,
    scale: float,
) -> JobRecord:
    records = []
    for position, stage in enumerate(stages):
        tasks, first_ms, later_ms = _means(stage, size_gb, overhead_ms, scale)
        waves = [
            {
                point: np.maximum(mean_ms * factor * spread, 1.0).round().astype(int).tolist()
                for point, factor in _slowdown(growth).items()
            }
            for mean_ms, growth in zip(
                (first_ms + FRESH_EXTRA_MS, first_ms, later_ms), GROWTH_TO_100, strict=True
            )
        ]
        name = f"{'scan' if stage.is_scan else 'shuffle'} {position}"
        usual_ms = _usual_ms(tasks, first_ms, later_ms)
        records.append(StageRecord(tasks, stage.parents, *waves, name=name, usual_ms=usual_ms))
    return JobRecord(f"tpch-q{query}-{size_gb:g}g", records)


def _slowdown(growth_to_100: float) -> dict[int, float]:
    """Relative duration by number of executors: the published curve, stretched to end at a growth."""
    inflation = np.interp(POINTS, *PUBLISHED_INFLATION)
    factors = 1.0 + (growth_to_100 - 1.0) * (inflation - 1.0) / (inflation[-1] - 1.0)
    return dict(zip(POINTS, factors.tolist(), strict=True))


def _usual_ms(tasks: int, first_ms: float, later_ms: float) -> float:
    """Mean task duration over all executor counts: each executor begins with a first-wave task."""
    first, later = _slowdown(GROWTH_TO_100[1]), _slowdown(GROWTH_TO_100[2])
    means = []
    for point in POINTS:
        share = min(point, tasks) / tasks
        means.append(share * first_ms * first[point] + (1 - share) * later_ms * later[point])
    return float(np.mean(means))


def _tasks(stage: _RecordedStage, size_gb: float) -> int:
    if stage.is_scan:
        text_bytes = stage.bytes_per_gb * size_gb * TEXT_PER_PARQUET
        return max(1, int(np.ceil(text_bytes / SPLIT_BYTES)))
    return SHUFFLE_PARTITIONS if stage.all_partitions else stage.tasks


@lru_cache(maxsize=1)
def _recorded() -> tuple[dict[int, list[_RecordedStage]], NDArray[np.float64]]:
    """The recording: stages of each query, and quantiles of a task's duration over its stage's mean."""
    path = resources.files("trimtab.dag_scheduling") / "data" / "tpch_recorded.json.gz"
    content = json.loads(gzip.decompress(path.read_bytes()))
    partitions = int(content["recorded"]["settings"]["spark.sql.shuffle.partitions"])
    smallest: dict[int, dict[str, Any]] = {}
    for job in content["jobs"]:
        known = smallest.get(job["query"])
        if known is None or job["size_gb"] < known["size_gb"]:
            smallest[job["query"]] = job
    intensity = _work_per_byte(smallest)
    queries = {query: _stages(job, partitions, intensity) for query, job in sorted(smallest.items())}
    return queries, _spread(smallest)


def _stages(job: dict[str, Any], partitions: int, intensity: dict[str, float]) -> list[_RecordedStage]:
    stages = []
    for position, stage in enumerate(job["stages"]):
        volume = _bytes(stage)
        excess = _excess_ms(stage)
        work_ms = intensity[stage["kind"]] * volume if excess is None else excess
        later, first = _values(stage, "rest_wave"), _values(stage, "first_wave")
        ratio = float(np.median(first) / np.median(later)) if len(first) and len(later) else 2.0
        stages.append(
            _RecordedStage(
                tasks=stage["tasks"],
                parents=tuple(parent for parent, child in job["edges"] if child == position),
                bytes_per_gb=volume / job["size_gb"],
                is_scan=stage["kind"] == "scan",
                all_partitions=stage["tasks"] == partitions,
                work_ms_per_gb=work_ms / job["size_gb"],
                first_over_later=min(max(ratio, 1.0), 4.0),
            )
        )
    return stages


def _bytes(stage: dict[str, Any]) -> int:
    return stage["input_bytes"] if stage["kind"] == "scan" else stage["shuffle_read_bytes"]


def _values(stage: dict[str, Any], wave: str) -> list[int]:
    """Durations with the fewest executors that have any: there the cores were least contended."""
    lists = [values for _, values in sorted(stage[wave].items(), key=lambda item: int(item[0]))]
    return next((values for values in lists if values), [])


def _excess_ms(stage: dict[str, Any]) -> float | None:
    """Work of a stage beyond the cost of starting its tasks, or None if it has too few later tasks.

    The quickest tasks show what starting costs.
    """
    later = _values(stage, "rest_wave")
    if len(later) < LEAST_TASKS_FOR_A_MEAN:
        return None
    return stage["tasks"] * max(float(np.median(later)) - QUICKEST_TASK_MS, 0.0)


QUICKEST_TASK_MS = 20.0
"""Recorded later-wave tasks on almost no data took 20 to 30 ms."""


def _work_per_byte(jobs: dict[int, dict[str, Any]]) -> dict[str, float]:
    """Mean work per byte of scans and of shuffles, for stages with too few tasks of their own."""
    intensity = {}
    for kind in ("scan", "shuffle"):
        stages = [stage for job in jobs.values() for stage in job["stages"] if stage["kind"] == kind]
        known = [(excess, _bytes(stage)) for stage in stages if (excess := _excess_ms(stage)) is not None]
        intensity[kind] = sum(excess for excess, _ in known) / sum(volume for _, volume in known)
    return intensity


def _spread(jobs: dict[int, dict[str, Any]]) -> NDArray[np.float64]:
    """Quantiles of later-wave durations relative to their stage, with mean 1."""
    relative: list[float] = []
    for job in jobs.values():
        for stage in job["stages"]:
            later = _values(stage, "rest_wave")
            if len(later) >= LEAST_TASKS_FOR_A_MEAN:
                relative += (np.array(later) / np.median(later)).tolist()
    levels = (np.arange(SPREAD_QUANTILES) + 0.5) / SPREAD_QUANTILES
    quantiles = np.quantile(np.clip(relative, *WIDEST_SPREAD), levels)
    return quantiles / quantiles.mean()
