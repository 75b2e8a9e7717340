"""What never changes during an episode: DAGs, durations and the cluster, laid out for the engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.workload import FIRST_WAVE, FRESH, LATER_WAVE, Profile

__all__ = ["COMPAT_POINTS", "Tables", "make_tables", "record"]

COMPAT_POINTS = (5, 10, 20, 40, 50, 60, 80, 100)
"""Numbers of executors the published simulator knows; a point of 2 in its data is never used."""

Integers = NDArray[np.int64]


def record(integers: str, *, flags: str = "", floats: str = "", words: str = "") -> np.dtype[np.void]:
    """A record type from names: integers first, then flags, floats and unsigned words."""
    kinds = ((integers, np.int64), (floats, np.float64), (words, np.uint64), (flags, np.bool_))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


ROW = record("tasks parents", floats="task_ms memory")
DRAW = record("offset count extra_ms")
POINT = record("left right left_weight")


class Tables(NamedTuple):
    """Arrays of records: by row (stage of the profile), by place (`(row·3 + wave)·K + k`), by executors."""

    stage_offset: Integers  # rows of template t: stage_offset[t] … stage_offset[t + 1]
    rows: NDArray[Any]
    slowdown: NDArray[np.float64]  # by row: task duration with all executors over that with the fewest
    child_offset: Integers
    child: Integers
    draws: NDArray[Any]  # by place: where its durations lie, and warm-up they do not contain
    durations_ms: NDArray[np.int32]
    points: NDArray[Any]  # by number of executors: recorded points around it, share of the left of 2^32
    executor_class: Integers  # by executor
    class_memory: NDArray[np.float64]  # by class
    point_count: int  # K
    stages_per_slot: int
    moving_delay_ms: int
    warm_waiting: bool  # the three corrections that concern events, see `cluster.CORRECTIONS`
    offer_idle: bool
    backup_stays: bool
    learned: bool
    makespan: bool


def make_tables(profile: Profile, cluster: Cluster) -> Tables:
    """Lay out a profile for a cluster; refuses stages that fit no executor."""
    columns = _usable_columns(profile, cluster)
    class_memory = np.array(cluster.class_memory, np.float64)
    _check_memory(profile, float(class_memory.max()))
    rows = np.zeros(len(profile.tasks), ROW)
    rows["tasks"] = profile.tasks
    rows["task_ms"] = profile.task_ms
    rows["memory"] = profile.memory
    rows["parents"] = np.diff(profile.parent_offset)
    draws = _draws(profile, columns, cluster.warmup_delay_ms)
    points = _points(profile.points[columns], cluster)
    learned = cluster.durations == "learned"
    return Tables(
        stage_offset=profile.stage_offset,
        rows=rows,
        slowdown=np.ones(len(rows)) if learned else _slowdown(profile, draws, points, len(columns)),
        child_offset=profile.child_offset,
        child=profile.child,
        draws=draws,
        durations_ms=profile.durations_ms,
        points=points,
        executor_class=np.repeat(np.arange(len(class_memory)), cluster.class_counts),
        class_memory=class_memory,
        point_count=len(columns),
        stages_per_slot=int(profile.stage_count.max()),
        moving_delay_ms=cluster.moving_delay_ms,
        warm_waiting=cluster.corrects("warm_waiting"),
        offer_idle=cluster.corrects("offer_idle"),
        backup_stays=cluster.corrects("backup_stays"),
        learned=learned,
        makespan=cluster.objective == "makespan",
    )


def _check_memory(profile: Profile, largest: float) -> None:
    if profile.memory.max() > largest:
        row = int(profile.memory.argmax())
        job = int(np.searchsorted(profile.stage_offset, row, side="right")) - 1
        raise WorkloadError(
            f"job {profile.names[job]!r}, stage {profile.stage_names[row]}: needs memory "
            f"{profile.memory[row]:g}, the largest executor has {largest:g}; add a larger class"
        )


def _usable_columns(profile: Profile, cluster: Cluster) -> Integers:
    columns = np.arange(len(profile.points))
    if not cluster.corrects("all_points"):
        known = np.isin(profile.points, COMPAT_POINTS)
        columns = columns[known] if known.any() else columns
    return columns


def _points(points: Integers, cluster: Cluster) -> NDArray[Any]:
    """For every number of executors the two recorded points around it and how often to use the left.

    The nearer point should be used more often. The published simulator has it the wrong way round.
    """
    counts = np.arange(cluster.executors + 1)
    right = np.minimum(np.searchsorted(points, counts, side="left"), len(points) - 1)
    left = np.clip(np.searchsorted(points, counts, side="right") - 1, 0, len(points) - 1)
    width = np.maximum(points[right] - points[left], 1)
    past_left = np.clip(counts - points[left], 0, width)
    share = width - past_left if cluster.corrects("interpolation") else past_left
    table = np.zeros(cluster.executors + 1, POINT)
    table["left"], table["right"] = left, right
    table["left_weight"] = share * (1 << 32) // width
    return table


def _draws(profile: Profile, columns: Integers, warmup_ms: int) -> NDArray[Any]:
    """Where to draw each (stage, wave, point) from, with all fall-backs resolved beforehand.

    A point without data uses the stage's largest recorded point (fewer tasks than executors). A fresh
    task without data is a first-wave task plus warm-up; a later wave without data is a first wave; a
    first wave without data is a fresh task, or else a later wave.
    """
    offset = profile.duration_offset[:, :, columns].copy()
    count = profile.duration_count[:, :, columns].copy()
    any_wave = count.sum(axis=1) > 0
    rows = np.arange(len(count))
    largest = np.where(any_wave, np.arange(len(columns)), -1).max(axis=1)
    if np.any(largest < 0):
        row = int(np.argmin(largest))
        raise WorkloadError(
            f"stage {profile.stage_names[row]} has no durations with {COMPAT_POINTS[0]} to "
            f"{COMPAT_POINTS[-1]} executors, which the compat rules need; use rules = 'default'"
        )
    for k in range(len(columns)):
        empty = ~any_wave[:, k]
        offset[empty, :, k] = offset[rows[empty], :, largest[empty]]
        count[empty, :, k] = count[rows[empty], :, largest[empty]]
    extra = np.zeros_like(count)

    def fill(wave: int, substitute: int, added_ms: int = 0) -> None:
        empty = (count[:, wave] == 0) & (count[:, substitute] > 0)
        offset[:, wave][empty] = offset[:, substitute][empty]
        count[:, wave][empty] = count[:, substitute][empty]
        extra[:, wave][empty] = added_ms

    fill(FRESH, FIRST_WAVE, warmup_ms)
    fill(FIRST_WAVE, FRESH)
    fill(FIRST_WAVE, LATER_WAVE)
    fill(LATER_WAVE, FIRST_WAVE)
    fill(FRESH, FIRST_WAVE, warmup_ms)
    table = np.zeros(offset.size, DRAW)
    table["offset"], table["count"], table["extra_ms"] = (
        offset.ravel(),
        count.ravel(),
        extra.ravel(),
    )
    return table


def _slowdown(
    profile: Profile, draws: NDArray[Any], points: NDArray[Any], point_count: int
) -> NDArray[np.float64]:
    """Mean later-wave duration at the recorded point nearest to all executors, over that at the least."""
    total_ms = np.concatenate([[0.0], np.cumsum(profile.durations_ms, dtype=np.float64)])
    later = draws.reshape(-1, 3, point_count)[:, LATER_WAVE]
    mean_ms = (total_ms[later["offset"] + later["count"]] - total_ms[later["offset"]]) / later["count"]
    mean_ms = np.maximum(mean_ms, 1.0)  # recorded tasks may take 0 ms
    return mean_ms[:, points["right"][-1]] / mean_ms[:, points["left"][0]]
