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
from dataclasses import dataclass, replace
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
"""Total work of the same job by number of executors, relative to 5, mean over jobs."""
PUBLISHED_FRESH_MS = ((5, 50, 100), (2387.0, 2656.0, 3168.0))
PUBLISHED_FIRST_MS = ((5, 50, 100), (1019.0, 1438.0, 1839.0))
"""Mean task durations by number of executors; their growth is used, and what a fresh start adds."""
FIRST_RATIO, FIRST_EXTRA_MS = 1.35, 200.0
"""A first task of a stage loads code and opens connections: short tasks pay a constant, long ones a share.

1.35 x 605 + 200 = 1017 ms, against published means of 605 ms (later waves) and 1019 ms (first wave).
"""
FRESH_EXTRA_MS = PUBLISHED_FRESH_MS[1][0] - PUBLISHED_FIRST_MS[1][0]

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


@dataclass(frozen=True)
class _Calibration:
    """What turns a recorded stage into durations."""

    overhead_ms: float  # of a later-wave task on no data, 5 executors
    scale: float  # milliseconds per recorded millisecond
    growth: dict[str, NDArray[np.float64]]  # by wave and point: duration relative to 5 executors

    def means_ms(self, stage: _RecordedStage, size_gb: float) -> dict[str, NDArray[np.float64]]:
        """Mean duration by wave and point."""
        tasks = _tasks(stage, size_gb)
        later = self.overhead_ms + self.scale * stage.work_ms_per_gb * size_gb / tasks
        first = FIRST_RATIO * later + FIRST_EXTRA_MS
        return {
            "fresh": first * self.growth["first"] + FRESH_EXTRA_MS * self.growth["fresh"],
            "first": first * self.growth["first"],
            "later": later * self.growth["later"],
        }

    def work_ms(self, stage: _RecordedStage, size_gb: float) -> NDArray[np.float64]:
        """Work of a stage by point: every executor's first task is of the first wave."""
        tasks = _tasks(stage, size_gb)
        means = self.means_ms(stage, size_gb)
        in_first = np.minimum(POINTS, tasks)
        return in_first * means["first"] + (tasks - in_first) * means["later"]


def tpch_profile(sizes_gb: Sequence[float] = TPCH_SIZES_GB) -> Profile:
    """The 22 queries at some input sizes, with 5 to 100 executors.

    >>> tpch_profile().template_count
    132
    """
    if not sizes_gb or min(sizes_gb) <= 0:
        raise WorkloadError(f"TPC-H input sizes {list(sizes_gb)}: need at least one, each above 0 GB")
    return _profile(tuple(sizes_gb))


@lru_cache(maxsize=4)
def _profile(sizes_gb: tuple[float, ...]) -> Profile:
    queries, spread = _recorded()
    calibration = _calibrate(queries)
    return build_profile(
        [
            _job(query, stages, size, spread, calibration)
            for size in sizes_gb
            for query, stages in queries.items()
        ]
    )


def _calibrate(queries: dict[int, list[_RecordedStage]]) -> _Calibration:
    """Find what gives the published work per job and the published inflation.

    Work is linear in overhead and scale, so the two sizes determine them, given how later-wave tasks
    grow; that growth follows, point by point, from the published inflation. A few rounds settle both.
    """
    one = np.ones(len(POINTS))
    first = np.interp(POINTS, *PUBLISHED_FIRST_MS) / PUBLISHED_FIRST_MS[1][0]
    fresh = np.interp(POINTS, *PUBLISHED_FRESH_MS) / PUBLISHED_FRESH_MS[1][0]
    found = _Calibration(1.0, 1.0, {"fresh": fresh, "first": first, "later": one})
    sizes = list(PUBLISHED_WORK_S)
    for _ in range(12):
        constant, by_overhead, by_scale = (
            np.array([_mean_work_s(queries, size, replace(found, overhead_ms=a, scale=b)) for size in sizes])
            for a, b in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
        )
        overhead_ms, scale = np.linalg.solve(
            np.stack([by_overhead - constant, by_scale - constant], axis=1),
            np.array(list(PUBLISHED_WORK_S.values())) - constant,
        )
        found = replace(found, overhead_ms=float(overhead_ms), scale=float(scale))
        excess = _inflation(queries, found) / np.interp(POINTS, *PUBLISHED_INFLATION)
        later = np.maximum(found.growth["later"] / excess, 0.5)
        found = replace(found, growth=found.growth | {"later": later / later[0]})
    return found


def _mean_work_s(
    queries: dict[int, list[_RecordedStage]], size_gb: float, calibration: _Calibration
) -> float:
    """Mean work of a job as schedulers are told it: over all points, without fresh starts."""
    work_ms = [calibration.work_ms(stage, size_gb).mean() for stages in queries.values() for stage in stages]
    return float(np.sum(work_ms)) / len(queries) / 1000.0


def _inflation(queries: dict[int, list[_RecordedStage]], calibration: _Calibration) -> NDArray[np.float64]:
    """Total work by point relative to 5 executors, each of which starts once; mean over jobs."""
    ratios = []
    starts = np.array(POINTS) * FRESH_EXTRA_MS * calibration.growth["fresh"]
    for size in TPCH_SIZES_GB:
        for stages in queries.values():
            work = starts + np.sum([calibration.work_ms(stage, size) for stage in stages], axis=0)
            ratios.append(work / work[0])
    return np.mean(ratios, axis=0)


def _job(
    query: int,
    stages: list[_RecordedStage],
    size_gb: float,
    spread: NDArray[np.float64],
    calibration: _Calibration,
) -> JobRecord:
    records = []
    for position, stage in enumerate(stages):
        tasks = _tasks(stage, size_gb)
        fresh, first, later = (
            {
                point: np.maximum(mean * spread, 1.0).round().astype(int).tolist()
                for point, mean in zip(POINTS, means, strict=True)
            }
            for means in calibration.means_ms(stage, size_gb).values()
        )
        records.append(
            StageRecord(
                tasks,
                stage.parents,
                fresh,
                first,
                later,
                name=f"{'scan' if stage.is_scan else 'shuffle'} {position}",
                usual_ms=float(calibration.work_ms(stage, size_gb).mean()) / tasks,
            )
        )
    return JobRecord(f"tpch-q{query}-{size_gb:g}g", records)


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
        stages.append(
            _RecordedStage(
                tasks=stage["tasks"],
                parents=tuple(parent for parent, child in job["edges"] if child == position),
                bytes_per_gb=volume / job["size_gb"],
                is_scan=stage["kind"] == "scan",
                all_partitions=stage["tasks"] == partitions,
                work_ms_per_gb=work_ms / job["size_gb"],
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
