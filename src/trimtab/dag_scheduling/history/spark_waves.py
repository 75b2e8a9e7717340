"""Task durations of an application: which tasks count, on which slot they ran, beside how many.

A *slot* is room for one task: an executor with four cores has four. trimtab's executor is one slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.spark_records import (
    Application,
    ExecutorSpan,
    Outcome,
    SparkTask,
)
from trimtab.dag_scheduling.workload import FIRST_WAVE, FRESH, LATER_WAVE

__all__ = ["StageTasks", "stage_tasks"]

Column = NDArray[np.int64]
NEVER = -1


@dataclass
class StageTasks:
    """What really ran of one stage."""

    tasks: int = 0
    writes_shuffle: bool = False
    waves: tuple[dict[int, list[int]], dict[int, list[int]], dict[int, list[int]]] = field(
        default_factory=lambda: ({}, {}, {})
    )


def stage_tasks(application: Application, report: ImportReport) -> dict[int, StageTasks]:
    """Tasks and durations of every stage of which at least one task succeeded."""
    table = _columns(application)
    counted = _counted(table, _announced(application))
    _report_tasks(table, counted, report)
    order = np.argsort(table["launch_ms"], kind="stable")
    waves = _waves(table, order, application.executors)
    alive = _slots_alive(table, application.executors)
    stages: dict[int, StageTasks] = {}
    rows = order[counted[order]]
    picked = (table[name][rows].tolist() for name in ("stage_id", "writes_shuffle"))
    durations = (table["finish_ms"] - table["launch_ms"])[rows].tolist()
    for stage_id, writes, duration, wave, slots in zip(
        *picked, durations, waves[rows].tolist(), alive[rows].tolist(), strict=True
    ):
        stage = stages.setdefault(stage_id, StageTasks())
        stage.tasks += 1
        stage.writes_shuffle |= bool(writes)
        stage.waves[wave].setdefault(slots, []).append(duration)
    return stages


def _columns(application: Application) -> dict[str, Column]:
    names = SparkTask._fields
    table = np.array(application.tasks.values, np.int64).reshape(-1, len(names))
    return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(names)}


def _announced(application: Application) -> dict[int, int]:
    return {stage.stage_id: stage.task_count for job in application.jobs.values() for stage in job.stages}


def _counted(table: Mapping[str, Column], announced: Mapping[int, int]) -> NDArray[np.bool_]:
    """The first success of every partition; everything else is repetition or failure."""
    success = table["outcome"] == Outcome.SUCCESS
    counted = np.zeros(len(success), bool)
    is_certain = success & ((table["has_partition"] == 1) | (table["attempt"] == 0))
    certain = np.flatnonzero(is_certain)
    width = table["partition"].max(initial=0) + 1
    keys = table["stage_id"][certain] * width + table["partition"][certain]
    _, first = np.unique(keys, return_index=True)
    counted[certain[first]] = True
    # Old logs number the tasks of a retry from 0 again: they can only fill what is still missing.
    retried = np.flatnonzero(success & ~is_certain)
    for stage_id in np.unique(table["stage_id"][retried]).tolist():
        of_stage = table["stage_id"] == stage_id
        missing = announced.get(stage_id, 0) - int(counted[of_stage].sum())
        counted[retried[of_stage[retried]][: max(missing, 0)]] = True
    return counted


def _report_tasks(table: Mapping[str, Column], counted: NDArray[np.bool_], report: ImportReport) -> None:
    report.count("task attempts", len(counted))
    left_out = ~counted
    speculative = left_out & (table["is_speculative"] == 1)
    rest = left_out & ~speculative
    report.drop("speculative task copy", int(speculative.sum()))
    report.drop("failed task attempt", int((rest & (table["outcome"] == Outcome.FAILED)).sum()))
    report.drop("killed task attempt", int((rest & (table["outcome"] == Outcome.KILLED)).sum()))
    report.drop(
        "task attempt that repeated finished work",
        int((rest & (table["outcome"] == Outcome.SUCCESS)).sum()),
    )


def _waves(
    table: Mapping[str, Column], order: Column, executors: Sequence[ExecutorSpan]
) -> NDArray[np.int64]:
    """Fresh for a slot's first task, first wave for its first task of a stage, else later wave.

    Failed and speculative attempts occupy slots too, so they take part; their durations do not.
    """
    free_at = [[NEVER] * executor.slots for executor in executors]
    seen: set[tuple[int, int, int]] = set()
    waves = np.empty(len(order), np.int64)
    columns = ("stage_id", "executor", "launch_ms", "finish_ms")
    ordered = (table[name][order].tolist() for name in columns)
    for row, stage_id, executor, launch_ms, finish_ms in zip(order.tolist(), *ordered, strict=True):
        slot = _slot_for(free_at[executor], launch_ms)
        key = (executor, slot, stage_id)
        if free_at[executor][slot] == NEVER:
            waves[row] = FRESH
        else:
            waves[row] = LATER_WAVE if key in seen else FIRST_WAVE
        seen.add(key)
        free_at[executor][slot] = finish_ms
    return waves


def _slot_for(free_at: list[int], launch_ms: int) -> int:
    """The slot that came free last: it is its end that made room for this task.

    Spark frees a slot some milliseconds before it writes the finish time, so "none free" means "the
    one that ends soonest".
    """
    if len(free_at) == 1:
        return 0
    free = [slot for slot, moment in enumerate(free_at) if moment <= launch_ms]
    if free:
        return max(free, key=lambda slot: free_at[slot])
    return min(range(len(free_at)), key=lambda slot: free_at[slot])


def _slots_alive(table: Mapping[str, Column], executors: Sequence[ExecutorSpan]) -> Column:
    """Slots of the application at each launch; at least those of the task's own executor."""
    changes = [(span.added_ms, span.slots) for span in executors]
    changes += [(span.removed_ms, -span.slots) for span in executors if span.removed_ms is not None]
    changes.sort()
    moments = np.array([moment for moment, _ in changes], np.int64)
    totals = np.cumsum([0, *(slots for _, slots in changes)], dtype=np.int64)
    alive = totals[np.searchsorted(moments, table["launch_ms"], side="right")]
    own = np.array([span.slots for span in executors], np.int64)[table["executor"]]
    return np.maximum(alive, own)
