"""Random DAG jobs with the published statistics of TPC-H on Spark, and no recorded data.

22 random queries at six input sizes. A query is a join tree: scans at the leaves (tasks grow with the
input), joins and aggregations of 200 tasks (Spark's default), one final task. A task of stage s in
a job with m executors takes

    later wave   r[s] * slower(m)
    first wave   r[s] * slower(m) + start(m) * (narrow(m) if the stage is narrow)
    fresh        r[s] * slower(m) + fresh_start(m)

r[s] is fixed by the work a job shall have. The four curves are fitted, point by point, to the
published means of each wave and to the published growth of total work with executors: small jobs
inflate most because they are all start-up, which is why parallelism limits pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import split, uniform
from trimtab.dag_scheduling.workload.profile import (
    JobRecord,
    Profile,
    StageRecord,
    build_profile,
)

__all__ = ["POINTS", "SIZES_GB", "synthetic_profile"]

Floats = NDArray[np.float64]

QUERIES = 22
SIZES_GB = (2, 5, 10, 20, 50, 100)
POINTS = np.array([5, 10, 20, 40, 50, 60, 80, 100])

# Published (see docs/dag-scheduling.md): 2 to 18 stages per job, 9.2 on average.
STAGE_COUNTS = (2, 3, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 15, 17, 18)
# 200 tasks come from Spark's default of shuffle partitions, 5.93 per GB from lineitem's files.
WIDE_TASKS = 200
LARGE_SCAN_TASKS_PER_GB = 5.93
MEDIUM_SCAN_TASKS_PER_GB = 1.4
NARROW_TASKS = 5
SCAN_LENGTH, SMALL_SCAN_LENGTH, WIDE_LENGTH = 1.2, 0.1, 0.035
# Mean executor-seconds of a job: 203 at 2 GB, 380 at 10, 1152 at 50, 2209 at 100.
WORK_S, WORK_S_PER_GB = 165.0, 20.4
# The spread over queries: the largest job of 100 GB has 3.4 times the mean (7608 executor-s).
WORK_SPREAD = 0.72
# Means over stages in ms with 5, 50 and 100 executors; work relative to that with 5.
WAVE_POINTS = (5, 50, 100)
REST_MS, FIRST_MS, FRESH_MS = (605, 517, 553), (1019, 1438, 1839), (2387, 2656, 3168)
INFLATION = {5: 1.0, 10: 1.13, 20: 1.37, 40: 1.91, 50: 2.16, 80: 3.05, 100: 3.74}
# Spread of durations within a stage, and how many of each kind are written down per executor count.
TASK_SPREAD = 0.35
KEPT_SHARE = 0.125


@dataclass(frozen=True)
class Stages:
    """All stages of all jobs side by side; one entry per stage unless said otherwise."""

    job: NDArray[np.int64]
    size_gb: Floats
    parents: Sequence[tuple[int, ...]]
    tasks: NDArray[np.int64]
    weight: Floats  # how long its tasks are compared with others of the job
    work_s: Floats  # by job: executor-seconds it shall have
    fresh: Floats  # [stages, points]: tasks of each kind in a run with so many executors
    first: Floats
    later: Floats


@dataclass
class Curves:
    """The fitted curves, one value per point."""

    slower: Floats
    start: Floats
    narrow: Floats
    fresh_start: Floats


def synthetic_profile(seed: int = 0) -> Profile:
    """Make 132 kinds of jobs: 22 random queries at 2, 5, 10, 20, 50 and 100 GB.

    >>> profile = synthetic_profile(0)
    >>> profile.template_count, int(profile.stage_count.min()), int(profile.stage_count.max())
    (132, 2, 18)
    """
    stages = _draw_stages(seed)
    base_ms, curves = _fit(stages)
    later = base_ms[:, None] * curves.slower
    first = later + _starts(stages, curves)
    fresh = later + curves.fresh_start
    records: list[list[StageRecord]] = [[] for _ in range(QUERIES * len(SIZES_GB))]
    for row, job in enumerate(stages.job):
        records[job].append(
            StageRecord(
                tasks=int(stages.tasks[row]),
                parents=stages.parents[row],
                fresh=_recorded(fresh[row], stages.fresh[row]),
                first_wave=_recorded(first[row], stages.first[row]),
                later_wave=_recorded(later[row], stages.later[row]),
            )
        )
    return build_profile(
        [
            JobRecord(f"synthetic {job // len(SIZES_GB) + 1}, {size} GB", records[job])
            for job, size in enumerate(SIZES_GB * QUERIES)
        ]
    )


# --- what runs ---------------------------------------------------------------------------------------


def _draw_stages(seed: int) -> Stages:
    counts = np.array(STAGE_COUNTS)[np.argsort(uniform(split(seed, "stages"), np.arange(QUERIES)))]
    work_factor = _work_factors(seed, counts)
    job, size, parents, tasks, weight, roots = [], [], [], [], [], []
    for query, count in enumerate(counts):
        tree = _join_tree(int(count), split(seed, "tree", query))
        per_gb = _scan_tasks_per_gb(int(count), split(seed, "scan", query))
        luck = np.exp(0.5 * _normal(split(seed, "weight", query), int(count)))
        for place, gigabytes in enumerate(SIZES_GB):
            job += [query * len(SIZES_GB) + place] * int(count)
            size += [float(gigabytes)] * int(count)
            parents += tree
            here = _stage_tasks(tree, per_gb, gigabytes)
            tasks += here
            roots += [not above for above in tree]
            weight += [luck[s] * _usual_length(tree[s], here[s], gigabytes) for s in range(count)]
    work_s = np.array([WORK_S + WORK_S_PER_GB * z for z in SIZES_GB] * QUERIES)
    work_s *= np.repeat(work_factor, len(SIZES_GB))
    task_count = np.array(tasks)
    fresh, first, later = _wave_counts(np.array(job), task_count, np.array(roots))
    return Stages(
        np.array(job), np.array(size), parents, task_count, np.array(weight), work_s,
        fresh, first, later,
    )  # fmt: skip


def _work_factors(seed: int, stage_counts: NDArray[np.int64]) -> Floats:
    """Lognormal over queries, mean 1; queries with many stages tend to have more work."""
    ranks = stage_counts + 6.0 * _normal(split(seed, "work"), QUERIES)
    place = (np.argsort(np.argsort(ranks)) + 0.5) / QUERIES
    factors = np.exp(WORK_SPREAD * np.array([NormalDist().inv_cdf(p) for p in place]))
    return factors / factors.mean()


def _join_tree(count: int, seed: int) -> list[tuple[int, ...]]:
    """Scans first, then joins of two random open stages, spare aggregations, one final stage."""
    scans = max(1, (count - 1) // 2)
    parents: list[tuple[int, ...]] = [()] * scans
    open_stages = list(range(scans))
    for stage in range(scans, count):
        spare = (count - 1 - stage) - max(len(open_stages) - 1, 0)
        luck = uniform(seed, stage, [0, 1, 2])
        left = open_stages.pop(int(luck[0] * len(open_stages)))
        joins = open_stages and (spare < 0 or luck[2] < 0.7 or stage == count - 1)
        right = [open_stages.pop(int(luck[1] * len(open_stages)))] if joins else []
        if stage == count - 1:
            right += open_stages
        parents.append(tuple(sorted([left, *right])))
        open_stages.append(stage)
    return parents


def _scan_tasks_per_gb(count: int, seed: int) -> list[float]:
    """Tasks per GB of each scan: one large table, perhaps a medium one, the rest small."""
    scans = max(1, (count - 1) // 2)
    medium = int(uniform(seed, 0) < 0.65)
    return [LARGE_SCAN_TASKS_PER_GB, *([MEDIUM_SCAN_TASKS_PER_GB] * medium), *([0.02] * scans)][:scans]


def _stage_tasks(tree: Sequence[tuple[int, ...]], per_gb: Sequence[float], gigabytes: int) -> list[int]:
    scans = [max(1, round(rate * gigabytes)) for rate in per_gb]
    return scans + [WIDE_TASKS] * (len(tree) - len(scans) - 1) + [1]


def _usual_length(parents: tuple[int, ...], tasks: int, gigabytes: int) -> float:
    """Relative length of tasks: 200 parts of a growing input grow; a scan reads one block anyway."""
    if not parents:
        return SCAN_LENGTH if tasks >= NARROW_TASKS else SMALL_SCAN_LENGTH
    return WIDE_LENGTH * gigabytes**0.8


def _wave_counts(
    job: NDArray[np.int64], tasks: NDArray[np.int64], root: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """How many tasks of each kind a run with m executors has: each executor begins once per stage.

    An executor's very first task is fresh; these lie in the first root stages of the job.
    """
    wave = np.minimum(tasks[:, None], POINTS[None, :]).astype(np.float64)
    fresh = np.zeros_like(wave)
    for number in np.unique(job):
        left = POINTS.astype(np.float64)
        for row in np.flatnonzero((job == number) & root):
            fresh[row] = np.minimum(wave[row], left)
            left = left - fresh[row]
    return fresh, wave - fresh, tasks[:, None] - wave


# --- how long it takes -------------------------------------------------------------------------------


def _fit(stages: Stages) -> tuple[Floats, Curves]:
    """Find task lengths and curves that give the published numbers; each step mends one of them."""
    points = len(POINTS)
    curves = Curves(np.ones(points), np.full(points, 600.0), np.ones(points), np.full(points, 2e3))
    base_ms = stages.weight * 1000.0
    for _ in range(60):
        base_ms = _meet_work(stages, base_ms, curves)
        later = base_ms[:, None] * curves.slower
        curves.slower *= (_target(REST_MS) / _stage_mean(later, stages.later)) ** 0.5
        curves.slower /= curves.slower[0]
        first = later + _starts(stages, curves)
        curves.start *= (_target(FIRST_MS) / _stage_mean(first, stages.first)).clip(0.8, 1.25)
        fresh = _target(FRESH_MS) - _stage_mean(later, stages.fresh)
        curves.fresh_start = np.maximum(fresh, 100.0)
        grown = _inflation(stages, base_ms, curves)
        wanted = np.interp(POINTS, list(INFLATION), list(INFLATION.values()))
        # More of the start-up in narrow stages, which hold few tasks, means less total work.
        curves.narrow = (curves.narrow * (grown / wanted) ** 0.5).clip(0.05, 20.0)
    return base_ms, curves


def _meet_work(stages: Stages, base_ms: Floats, curves: Curves) -> Floats:
    """Scale the task lengths of every job so that tasks times usual duration is its work."""
    recorded = stages.fresh + stages.first + stages.later
    per_task = stages.tasks / recorded.sum(axis=1)
    growing = per_task * (recorded * curves.slower).sum(axis=1) * base_ms
    fixed = (stages.first * _starts(stages, curves) + stages.fresh * curves.fresh_start).sum(axis=1)
    jobs = len(stages.work_s)
    growing_job = np.bincount(stages.job, growing, jobs)
    fixed_job = np.bincount(stages.job, fixed * per_task, jobs)
    # Even a job that is nearly all start-up keeps some work that depends on its input.
    scale = np.maximum(stages.work_s * 1000.0 - fixed_job, 50.0 * stages.work_s) / growing_job
    return base_ms * scale[stages.job]


def _starts(stages: Stages, curves: Curves) -> Floats:
    narrow = (stages.tasks < WIDE_TASKS)[:, None]
    return curves.start * np.where(narrow, curves.narrow, 1.0)


def _inflation(stages: Stages, base_ms: Floats, curves: Curves) -> Floats:
    later = base_ms[:, None] * curves.slower
    total = (stages.later + stages.first + stages.fresh) * later
    total += stages.first * _starts(stages, curves) + stages.fresh * curves.fresh_start
    by_job = np.zeros((len(stages.work_s), len(POINTS)))
    np.add.at(by_job, stages.job, total)
    return (by_job / by_job[:, :1]).mean(axis=0)


def _stage_mean(durations: Floats, counts: Floats) -> Floats:
    """Mean over the stages that have such tasks, by point."""
    seen = counts > 0
    return (durations * seen).sum(axis=0) / seen.sum(axis=0)


def _target(published: tuple[float, float, float]) -> Floats:
    return np.interp(POINTS, WAVE_POINTS, published)


def _recorded(mean_ms: Floats, counts: Floats) -> dict[int, list[int]]:
    """Durations by executors: evenly spaced quantiles of a lognormal with that mean, so no luck."""
    lists: dict[int, list[int]] = {}
    for point, mean, count in zip(POINTS, mean_ms, counts, strict=True):
        if count > 0:
            kept = max(1, round(count * KEPT_SHARE)) if count > 8 else int(count)
            lists[int(point)] = np.rint(mean * _shape(kept)).astype(int).tolist()
    return lists


_SHAPES: dict[int, Floats] = {}


def _shape(count: int) -> Floats:
    if count not in _SHAPES:
        places = [NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)]
        shape = np.exp(TASK_SPREAD * np.array(places))
        _SHAPES[count] = shape / shape.mean()
    return _SHAPES[count]


def _normal(seed: int, count: int) -> Floats:
    """Standard normal draws (Box-Muller on counted uniforms)."""
    radius = np.sqrt(-2.0 * np.log1p(-uniform(seed, 0, np.arange(count))))
    return radius * np.cos(2.0 * np.pi * uniform(seed, 1, np.arange(count)))
