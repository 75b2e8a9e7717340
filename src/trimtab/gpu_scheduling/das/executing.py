"""What the network agents' answers mean: choices and scores into actions.

A *choice* is the row of a job in the window, or the window itself for `HOLD`, and then machines in order of
preference, of which as many are used as the gang needs. *Scores* are those of the jobs in the window, then of
the machines job by job: jobs are tried from the highest score down, each on machines from the highest score
down, and what does not fit is left out. They stand for a whole round: ask `action_of_scores` with the same
scores until it says `HOLD`. `best_of_scores` and `place_by_scores` are plain loops, compiled in rollouts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError
from trimtab.gpu_scheduling.heuristics.placements import NEVER, highest_first
from trimtab.gpu_scheduling.problem import (
    HOLD,
    NOWHERE,
    Action,
    Snapshot,
    decode,
    fits_on,
    gang_fits,
    start,
)

__all__ = [
    "action_of_choice",
    "action_of_scores",
    "best_of_scores",
    "parts_of_action",
    "place_by_scores",
]


def parts_of_action(actions: str, window: int, machines: int) -> int:
    """How many numbers an answer has.

    >>> parts_of_action("choices", 64, 8), parts_of_action("scores", 64, 8)
    (9, 576)
    """
    return window + window * machines if actions == "scores" else 1 + machines


def action_of_choice(snapshot: Snapshot, slots: NDArray[np.int64], choice: NDArray[Any]) -> Action:
    """The action of a choice; `slots` [window] are those of the jobs shown. What may not be done is refused.

    >>> from trimtab.gpu_scheduling import Cluster, make_workload
    >>> from trimtab.gpu_scheduling.simulator.simulator import Simulator
    >>> jobs = make_workload([0, 0], duration_ms=[60_000, 30_000], gpus=[4, 2])
    >>> seen = Simulator(Cluster()).reset(jobs, seed=0)
    >>> action_of_choice(seen, np.array([0, 1, -1]), np.array([1, 3, 0, 1, 2, 4, 5, 6, 7])).machines[0]
    np.int64(3)
    >>> action_of_choice(seen, np.array([0, 1, -1]), np.array([2, 3, 0, 1, 2, 4, 5, 6, 7]))
    Traceback (most recent call last):
    trimtab.core.errors.ActionError: row 2 of the window has no job; choose one below 2, or 3 to hold
    """
    row, window = int(choice[0]), len(slots)
    if row == window:
        action = HOLD
    else:
        shown = int(np.count_nonzero(slots != NOWHERE))
        if not 0 <= row < shown:
            raise ActionError(
                f"row {row} of the window has no job; choose one below {shown}, or {window} to hold"
            )
        machines = np.asarray(choice[1:]).astype(np.int64)
        action = start(int(slots[row]), machines[machines < len(snapshot.gpus)])
    decode(snapshot, action)
    return action


def action_of_scores(snapshot: Snapshot, slots: NDArray[np.int64], scores: NDArray[Any]) -> Action:
    """What is due now of a round that was scored at its beginning: a start, or `HOLD` when nothing more fits.

    `slots` are those of the jobs shown when they were scored; those that no longer wait are passed over.
    The machines of the action are a view, valid until the next one.
    """
    told = np.asarray(scores, np.float32)
    window = len(slots)
    machines = len(told) // window - 1
    if machines < len(snapshot.gpus) or len(told) != parts_of_action("scores", window, machines):
        raise ActionError(
            f"{len(told)} scores for a window of {window} jobs on {len(snapshot.gpus)} machines; score every "
            "job, and every machine for each of them"
        )
    if not np.isfinite(told).all():
        raise ActionError("some scores are not finite; the parameters are broken, train the agents again")
    waits = {int(job) for job in snapshot.pending}
    left = np.array([slot if int(slot) in waits else NOWHERE for slot in slots], np.int64)
    place = best_of_scores(snapshot, left, told)
    if place == NOWHERE:
        action = HOLD
    else:
        job = int(left[place])
        count = place_by_scores(snapshot, job, told[window + place * machines :])
        action = start(job, snapshot.machine_order[:count])
    decode(snapshot, action)
    return action


def best_of_scores(snapshot: Snapshot, slots: NDArray[np.int64], scores: NDArray[np.float32]) -> int:
    """Row of the job with the highest score whose gang fits; NOWHERE: none."""
    best = NOWHERE
    highest = -math.inf
    for place in range(len(slots)):
        if slots[place] != NOWHERE and scores[place] > highest and gang_fits(snapshot, slots[place]):
            best, highest = place, scores[place]
    return best


def place_by_scores(snapshot: Snapshot, job: int, scores: NDArray[np.float32]) -> int:
    """Write machines from the highest score down to `machine_order`, as many as the gang needs; how many."""
    for machine in range(len(snapshot.gpus)):
        has_room = fits_on(snapshot, job, machine) > 0
        snapshot.machine_score[machine] = scores[machine] if has_room else NEVER
    return highest_first(snapshot, job)
