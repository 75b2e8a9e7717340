"""How long a task takes: a counter-based draw from what was recorded.

The random number of a task depends on (seed, job, stage, task) only, so the same task has the same luck
under every policy.
"""

from __future__ import annotations

import numpy as np

from trimtab.compiling.counters import count_in, luck_of_seed
from trimtab.dag_scheduling.simulator.compiling import inlined, jit
from trimtab.dag_scheduling.simulator.state import State
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["draw_duration_ms", "luck_of"]

_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


@jit
def luck_of(seed: int, job: int, stage: int) -> np.uint64:
    """The part of a task's random number that all tasks of a stage share."""
    return count_in(count_in(luck_of_seed(seed), job), stage)


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
