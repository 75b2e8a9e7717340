"""Which recorded durations a task is drawn from."""

from __future__ import annotations

import numpy as np

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.workload import Profile

__all__ = ["recorded_durations", "usable_points"]

COMPAT_POINTS = (5, 10, 20, 40, 50, 60, 80, 100)


def usable_points(profile: Profile, cluster: Cluster) -> list[int]:
    points = [int(point) for point in profile.points]
    known = [point for point in points if point in COMPAT_POINTS]
    return points if cluster.corrects("all_points") or not known else known


def recorded_durations(
    profile: Profile, row: int, wave: int, point: int, points: list[int], warmup_ms: int
) -> tuple[np.ndarray, int]:
    """Durations to draw from, and what to add to them."""

    def values(wave: int, point: int) -> np.ndarray:
        k = list(profile.points).index(point)
        start = profile.duration_offset[row, wave, k]
        return profile.durations_ms[start : start + profile.duration_count[row, wave, k]]

    with_data = [p for p in points if any(len(values(w, p)) for w in range(3))]
    if point not in with_data:
        point = with_data[-1]
    fresh, first, later = (values(w, point) for w in range(3))
    if wave == 0:
        for substitute, extra in ((fresh, 0), (first, warmup_ms), (later, warmup_ms)):
            if len(substitute):
                return substitute, extra
    order = (later, first, fresh) if wave == 2 else (first, fresh, later)
    return next(v for v in order if len(v)), 0
