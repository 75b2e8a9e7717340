"""How long a task takes: a counter-based draw from what was recorded.

The random number of a task depends on (seed, job, stage, task) only, so the same task has the same luck
under every policy. Same formula as `trimtab.core.randomness.hash_counters`, for single numbers.
"""

from __future__ import annotations

import numpy as np

from trimtab.dag_scheduling.simulator.compiling import inlined, jit
from trimtab.dag_scheduling.simulator.state import State
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["draw_duration_ms", "luck_of"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0x632BE59BD9B4E019)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_ONE, _27, _30, _31, _32 = np.uint64(1), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@inlined
def finalise(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


@inlined
def count_in(luck: np.uint64, counter: int) -> np.uint64:
    """Mix one more counter into a hash."""
    return finalise(luck ^ (np.uint64(counter) * _GOLDEN + _STEP))


@jit
def luck_of(seed: int, job: int, stage: int) -> np.uint64:
    """The part of a task's random number that all tasks of a stage share."""
    return count_in(count_in(finalise(np.uint64(seed) * _GOLDEN + _ONE), job), stage)


@inlined
def draw_duration_ms(s: State, t: Tables, stage: int, task: int, wave: int, executors: int) -> int:
    """Draw from the durations recorded with about as many executors; high half picks the point."""
    number = count_in(s.stages["luck"][stage], task)
    if np.int64(number >> _32) < t.points["left_weight"][executors]:
        point = t.points["left"][executors]
    else:
        point = t.points["right"][executors]
    place = (s.stages["row"][stage] * 3 + wave) * t.point_count + point
    position = np.int64(((number & _LOW) * np.uint64(t.draws["count"][place])) >> _32)
    duration = t.durations_ms[t.draws["offset"][place] + position]
    return duration + t.draws["extra_ms"][place]  # pyright: ignore[reportReturnType]
