"""RIFLING: first come, first served, placed by a table of Q-values (Chen, Softw. Pract. Exper. 2022).

Kept: jobs go in order of arrival; a job's state is its group, by how much it communicates, and how full the
cluster is; an action is a manner of placement or to wait; the reward is the rate at which the job is
processed; values are learned by Q-learning with tries. Not told by what is published, and chosen here: four
groups that are equally common in practice, five classes of free GPUs, step 0.1, discount 0.9, tries 0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.words import gang_milli, hold, rate_if_started
from trimtab.gpu_scheduling.problem import (
    NOWHERE,
    WHOLE,
    Action,
    Snapshot,
    allowed_on,
    fits_on,
    gang_fits,
    start,
)
from trimtab.gpu_scheduling.rivals.bundles import checked

__all__ = [
    "ACTIONS",
    "KIND",
    "WAIT_ACTION",
    "RiflingPolicy",
    "learn",
    "placed",
    "processing_rate",
    "state_of",
]

Floats: TypeAlias = NDArray[np.float64]

KIND = "rifling"
GROUPS, FREE_CLASSES = 4, 5
STEP, DISCOUNT, TRIES = 0.1, 0.9, 0.1
_USUAL = np.array([1.0, 0.0, 0.0])


def least_loaded(snapshot: Snapshot, job: int, parameters: Floats) -> tuple[int, int]:
    """On the machines whose jobs disturb least."""
    if gang_milli(snapshot, job) > snapshot.free_total_milli:
        return 0, NOWHERE
    for machine in range(len(snapshot.gpus)):
        snapshot.machine_score[machine] = placements.NEVER
        if snapshot.free_milli[machine] >= snapshot.gpu_milli[job] and fits_on(snapshot, job, machine) > 0:
            snapshot.machine_score[machine] = -snapshot.load[machine] / snapshot.gpus[machine]
    return placements.highest_first(snapshot, job), NOWHERE


ACTIONS: dict[str, Callable[[Snapshot, int, Floats], tuple[int, int]] | None] = {
    "fastest": placements.fast,
    "consolidate": placements.best_fit,
    "spread": placements.worst_fit,
    "least-loaded": least_loaded,
    "wait": None,
}
"""Of equally good ones the first is taken."""
_PLACEMENTS = tuple(ACTIONS.values())
WAIT_ACTION = len(ACTIONS) - 1


def state_of(snapshot: Snapshot, job: int, bounds: Floats) -> int:
    """Group of a job and class of free GPUs, as a row of the table.

    `bounds` are the shares of communication between groups.
    """
    group = int(np.searchsorted(bounds, snapshot.communication[job], side="right"))
    free = snapshot.free_total_milli / (WHOLE * snapshot.total_gpus)
    return group * FREE_CLASSES + min(int(free * FREE_CLASSES), FREE_CLASSES - 1)


def placed(snapshot: Snapshot, job: int, action: int) -> tuple[int, int]:
    """Machines of a job in `machine_order`: how many, and the GPU for a share of one."""
    placement = _PLACEMENTS[action]
    return (0, NOWHERE) if placement is None else placement(snapshot, job, _USUAL)


def processing_rate(snapshot: Snapshot, job: int, count: int) -> float:
    """Rate of a job on `machine_order[:count]` beside that alone on its fastest machine."""
    best = max(
        float(snapshot.nominal[snapshot.kind[job], machine])
        for machine in range(len(snapshot.gpus))
        if allowed_on(snapshot, job, machine)
    )
    return rate_if_started(snapshot, job, count) / best


def learn(table: Floats, state: int, action: int, reward: float, following: int) -> None:
    """One step of Q-learning, in place.

    >>> table = np.zeros((2, 5))
    >>> table[1, 3] = 2.0
    >>> learn(table, 0, 1, 0.5, 1)
    >>> round(float(table[0, 1]), 3)
    0.23
    """
    target = reward + DISCOUNT * table[following].max()
    table[state, action] += STEP * (target - table[state, action])


class RiflingPolicy:
    """First come, first served; where, by a table of Q-values (RIFLING, 2022)."""

    needs_durations = False
    timed = False

    def __init__(self, bundle: Bundle) -> None:
        shapes = {"table": (GROUPS * FREE_CLASSES, len(ACTIONS)), "bounds": (GROUPS - 1,)}
        tensors = checked(bundle, KIND, shapes)
        self.name = bundle.name
        self.table, self.bounds = tensors["table"], tensors["bounds"]

    def decide(self, snapshot: Snapshot) -> Action:
        if len(snapshot.pending) == 0 or not gang_fits(snapshot, snapshot.pending[0]):
            return hold(snapshot)
        job = int(snapshot.pending[0])
        values = self.table[state_of(snapshot, job, self.bounds)]
        action = int(np.argmax(values if snapshot.may_hold else values[:WAIT_ACTION]))
        if action == WAIT_ACTION:
            return hold(snapshot)
        count, gpu = placed(snapshot, job, action)
        return start(job, snapshot.machine_order[:count], gpu)
