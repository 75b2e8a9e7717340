"""How tasks get slower when a job has more executors, for executor counts nobody recorded.

The curve is d(m) = d(1) * (1 + a * (m - 1) ** b). It is fitted to the history where the same stage
ran with several numbers of executors, and taken from published statistics where it did not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.workload import JobRecord, StageRecord
from trimtab.dag_scheduling.workload.profile import LONGEST_TASK_MS

__all__ = [
    "EXECUTOR_POINTS",
    "PUBLISHED_RELATIVE_WORK",
    "Curve",
    "bucket_points",
    "check_points",
    "extrapolate",
    "extrapolate_jobs",
    "fit_inflation",
    "fit_shared_inflation",
    "inflation",
    "published_inflation",
]

EXECUTOR_POINTS = (5, 10, 20, 40, 50, 60, 80, 100)

PUBLISHED_RELATIVE_WORK: Mapping[int, float] = {
    5: 1.0,
    10: 1.13,
    20: 1.37,
    40: 1.91,
    50: 2.16,
    80: 3.05,
    100: 3.74,
}
"""Total work of TPC-H jobs on Spark relative to 5 executors, mean of 132 jobs in Decima's profiles.

A part of it is that more executors mean more first tasks: measured wave by wave the growth to 100
executors is 3.25 (later waves), 2.64 (first waves) and 2.29 (fresh): the curve is a cautious one.
"""

LARGEST_LIST = 64
"""Extrapolated durations keep this many quantiles: a draw from them differs little, memory much."""

FAR = 5.0
"""Beyond this many times the largest recorded count the report asks for a better recording."""


@dataclass(frozen=True)
class Curve:
    """Mean durations of one stage and wave, by number of executors."""

    points: Sequence[int]
    mean_ms: Sequence[float]


def inflation(executors: int, a: float, b: float) -> float:
    """Duration with so many executors relative to one.

    >>> inflation(1, 0.1, 1.0), inflation(11, 0.1, 1.0)
    (1.0, 2.0)
    """
    return 1.0 + a * (executors - 1) ** b


def fit_inflation(points: Sequence[int], mean_durations: Sequence[float]) -> tuple[float, float]:
    """Fit (a, b) to durations of the same work seen with several numbers of executors.

    >>> a, b = fit_inflation([1, 11, 21], [100.0, 200.0, 300.0])
    >>> round(a, 3), round(b, 2)
    (0.1, 1.0)
    """
    return fit_shared_inflation([Curve(points, mean_durations)])


def fit_shared_inflation(curves: Sequence[Curve]) -> tuple[float, float]:
    """Fit one (a, b) to many stages, each with a scale of its own, by least squares of logarithms.

    Two points cannot tell a from b; then b is the published one and a is fitted.
    """
    usable = [curve for curve in curves if len(set(curve.points)) > 1 and min(curve.mean_ms) > 0]
    if not usable:
        raise HistoryError("no stage ran with two numbers of executors; use published_inflation()")
    bends = np.linspace(0.2, 2.5, 47)
    if len({point for curve in usable for point in curve.points}) == 2:
        bends = np.array([published_inflation()[1]])
    # a from 1e-5 (100 executors: +0.1 % at b = 1) to 10; 0 stands for "no inflation".
    slopes = np.concatenate([[0.0], np.logspace(-5, 1, 61)])
    a, b = _best(usable, slopes, bends)
    for _ in range(3):
        if a == 0.0:
            break
        slopes, bends = _around(a, slopes), _around(b, bends)
        a, b = _best(usable, slopes, bends)
    return a, b


def published_inflation() -> tuple[float, float]:
    """The curve of the published TPC-H statistics.

    >>> a, b = published_inflation()
    >>> round(inflation(100, a, b) / inflation(5, a, b), 1)
    3.7
    """
    return fit_inflation(list(PUBLISHED_RELATIVE_WORK), list(PUBLISHED_RELATIVE_WORK.values()))


def extrapolate(stage: StageRecord, targets: Iterable[int], a: float, b: float) -> StageRecord:
    """The same stage with durations at every target: recorded, or scaled from the nearest count.

    What schedulers are told stays the mean of the recorded ones: guesses do not count as work.

    >>> stage = StageRecord(tasks=1, later_wave={1: [100]})
    >>> extrapolate(stage, [11], a=0.1, b=1.0).later_wave
    {1: [100], 11: [200]}
    """
    wanted = sorted(set(targets))
    fresh, first, later = (_filled(wave, wanted, a, b) for wave in stage.waves)
    return replace(stage, fresh=fresh, first_wave=first, later_wave=later, usual_ms=stage.told_ms)


def check_points(targets: Sequence[int]) -> None:
    """Refuse numbers of executors that nothing can be extrapolated to."""
    if not targets or min(targets) < 1:
        raise HistoryError(f"executor points {list(targets)}: give at least one, and each at least 1")


def extrapolate_jobs(
    jobs: Sequence[JobRecord], targets: Sequence[int], report: ImportReport
) -> list[JobRecord]:
    """Give every stage durations at the targets and at every count recorded in the history.

    Points must be common to all stages: the simulator chooses a point, then looks for values.
    """
    check_points(targets)
    curves = [curve for job in jobs for stage in job.stages for curve in _curves(stage)]
    recorded = {count for job in jobs for stage in job.stages for wave in stage.waves for count in wave}
    if curves:
        a, b = fit_shared_inflation(curves)
        origin = f"fitted to {len(curves)} stages and waves seen with several executor counts"
    else:
        a, b = published_inflation()
        origin = "published TPC-H statistics, because no stage ran with two executor counts"
    report.assume(
        f"durations at {min(targets)} to {max(targets)} executors follow d(m) = d(1) * "
        f"(1 + {a:.4g} * (m-1)^{b:.3g}): {origin}"
    )
    if max(targets) > FAR * max(recorded):
        report.assume(
            f"nothing was recorded with more than {max(recorded)} executors; a recording with more "
            "would replace guesses"
        )
    points = sorted(recorded | set(targets))
    return [JobRecord(job.name, [extrapolate(stage, points, a, b) for stage in job.stages]) for job in jobs]


def bucket_points(jobs: Sequence[JobRecord], largest: int = 8) -> list[JobRecord]:
    """Merge executor counts into at most `largest` log-spaced points, the same for all jobs."""
    counts = sorted({count for job in jobs for stage in job.stages for wave in stage.waves for count in wave})
    if len(counts) <= largest:
        return list(jobs)
    grid = np.unique(np.round(np.geomspace(counts[0], counts[-1], largest)).astype(int))
    place = {count: int(grid[np.abs(np.log(grid / count)).argmin()]) for count in counts}
    return [JobRecord(job.name, [_merged(stage, place) for stage in job.stages]) for job in jobs]


def _best(
    curves: Sequence[Curve], slopes: NDArray[np.float64], bends: NDArray[np.float64]
) -> tuple[float, float]:
    error = np.zeros((len(slopes), len(bends)))
    for points, logs in _by_points(curves).items():
        powers = (np.array(points, np.float64) - 1.0)[None, :] ** bends[:, None]
        shape = np.log(1.0 + slopes[:, None, None] * powers)
        shape -= shape.mean(axis=2, keepdims=True)
        centred = logs - logs.mean(axis=1, keepdims=True)
        # Sum over stages of |centred - shape|^2, without a table of stages by slopes by bends.
        error += len(logs) * (shape**2).sum(axis=2) - 2 * shape @ centred.sum(axis=0)
    row, column = np.unravel_index(error.argmin(), error.shape)
    return float(slopes[row]), float(bends[column])


def _by_points(curves: Sequence[Curve]) -> dict[tuple[int, ...], NDArray[np.float64]]:
    grouped: dict[tuple[int, ...], list[list[float]]] = {}
    for curve in curves:
        grouped.setdefault(tuple(curve.points), []).append(list(curve.mean_ms))
    return {points: np.log(np.array(means, np.float64)) for points, means in grouped.items()}


def _around(best: float, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(grid) == 1:
        return grid
    place = int(np.abs(grid - best).argmin())
    low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    return np.linspace(low, high, 41)


def _curves(stage: StageRecord) -> list[Curve]:
    """Later waves tell most; the others only where no later wave was seen twice."""
    for wave in (stage.later_wave, stage.first_wave):
        means = {count: float(np.mean(values)) for count, values in wave.items() if len(values)}
        means = {count: mean for count, mean in sorted(means.items()) if mean > 0}
        if len(means) > 1:
            return [Curve(list(means), list(means.values()))]
    return []


def _filled(
    wave: Mapping[int, Sequence[int]], targets: Sequence[int], a: float, b: float
) -> dict[int, Sequence[int]]:
    known = {count: values for count, values in wave.items() if len(values)}
    filled: dict[int, Sequence[int]] = dict(known)
    for target in targets if known else ():
        if target not in known:
            donor = min(known, key=lambda count: (abs(log(count / target)), count))
            factor = inflation(target, a, b) / inflation(donor, a, b)
            scaled = (round(value * factor) for value in _thinned(known[donor]))
            filled[target] = [min(value, LONGEST_TASK_MS) for value in scaled]
    return filled


def _thinned(values: Sequence[int]) -> Sequence[int]:
    if len(values) <= LARGEST_LIST:
        return values
    middle = (np.arange(LARGEST_LIST) + 0.5) / LARGEST_LIST
    return np.quantile(np.asarray(values), middle).tolist()


def _merged(stage: StageRecord, place: Mapping[int, int]) -> StageRecord:
    waves: list[dict[int, list[int]]] = []
    for wave in stage.waves:
        merged: dict[int, list[int]] = {}
        for count, values in wave.items():
            merged.setdefault(place[count], []).extend(values)
        waves.append(merged)
    return replace(stage, fresh=waves[0], first_wave=waves[1], later_wave=waves[2])
