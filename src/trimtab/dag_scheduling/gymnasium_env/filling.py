"""Observations of fixed shape, filled in compiled code.

    row      0 … S-1 | S … 2S-1 | ...        S = max_stages rows for each shown job
             job 0     job 1                  jobs in order of arrival

The features are those of `problem.observe`, stage by stage and without new arrays, as compiled code
needs it; a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.heuristics import class_for, executors_of, next_stage, usable
from trimtab.dag_scheduling.problem import NOWHERE, Snapshot
from trimtab.dag_scheduling.simulator.compiling import compiled, jit
from trimtab.dag_scheduling.simulator.replay import environment, look
from trimtab.dag_scheduling.simulator.state import State
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["ILLEGAL", "LARGEST_FEATURE", "LEGAL", "NO_ACTION", "Picture", "fill", "new_picture", "read"]

LARGEST_FEATURE = 1e6
"""Features are cut off here, so that their space is bounded: 1e6 is 3 years of waiting."""

LEGAL, ILLEGAL, NO_ACTION = 0, 1, 2
"""Whether an answer is inside the mask, outside it, or not even in the action space."""

_class_for = compiled(class_for)
_executors_of = compiled(executors_of)
_next_stage = compiled(next_stage)
_usable = compiled(usable)

Marks = NDArray[np.int8]
Numbers = NDArray[np.int64]


class Picture(NamedTuple):
    """What the agents of all environments see, and how their answers are read."""

    features: NDArray[np.float32]  # [envs, rows, features]
    row_mask: Marks  # [envs, rows]: the row shows a stage
    children: Marks  # [envs, jobs, stages, stages]: the last is a child of the one before
    choice_mask: Marks  # [envs, rows + 1]: may be chosen; the last means to leave the rest idle
    limit_mask: Marks  # [envs, rows, levels]: limits of a row that send an executor
    # by row, for reading actions
    stage: Numbers
    executor_class: Numbers
    least_limit: Numbers


def new_picture(envs: int, *, jobs: int, stages: int, levels: int, features: int) -> Picture:
    """An empty picture. Agents keep what they are shown, so every decision needs a new one."""
    rows = jobs * stages
    return Picture(
        features=np.zeros((envs, rows, features), np.float32),
        row_mask=np.zeros((envs, rows), np.int8),
        children=np.zeros((envs, jobs, stages, stages), np.int8),
        choice_mask=np.zeros((envs, rows + 1), np.int8),
        limit_mask=np.zeros((envs, rows, levels), np.int8),
        stage=np.zeros((envs, rows), np.int64),
        executor_class=np.zeros((envs, rows), np.int64),
        least_limit=np.zeros((envs, rows), np.int64),
    )


@jit
def fill(picture: Picture, batch: State, t: Tables, ended: NDArray[np.bool_], levels: Numbers) -> None:
    """Fill an empty picture; an ended environment shows no row, and only idling is left to choose."""
    for index in range(len(ended)):
        if ended[index]:
            picture.choice_mask[index, -1] = 1
        else:
            fill_one(picture, index, look(environment(batch, index), t), levels)


@jit
def fill_one(picture: Picture, index: int, snapshot: Snapshot, levels: Numbers) -> None:
    picture.choice_mask[index, -1] = snapshot.may_idle
    blocks = picture.children.shape[1]
    last = last_shown(snapshot, blocks)
    for block in range(min(blocks, len(snapshot.jobs))):
        job = snapshot.jobs[last if block == blocks - 1 else block]
        first = snapshot.first_stage[job]
        for position in range(snapshot.stage_count[job]):
            row = block * picture.children.shape[2] + position
            stage = first + position
            picture.row_mask[index, row] = 1
            picture.stage[index, row] = stage
            describe(picture.features[index, row], snapshot, job, stage)
            show_children(picture.children[index, block, position], snapshot, stage)
            if _usable(snapshot, stage):
                show_choice(picture, index, row, snapshot, job, levels)


@jit
def last_shown(snapshot: Snapshot, blocks: int) -> int:
    """Which job has the last block: the one next in order of arrival, unless nothing could be chosen.

    Then it is the first job with a choice: the engine never asks without one, and the mask must show it.
    """
    for place in range(len(snapshot.jobs)):
        if _next_stage(snapshot, snapshot.jobs[place]) != NOWHERE:
            return max(place, blocks - 1)
    return blocks - 1


@jit
def describe(features: NDArray[np.float32], snapshot: Snapshot, job: int, stage: int) -> None:
    """The row of `problem.observe` for one stage."""
    work_ms = snapshot.unstarted[stage] * snapshot.task_ms[stage]
    features[0] = (snapshot.executors[job] + snapshot.incoming[job]) / 20.0
    features[1] = 2.0 if job == snapshot.source_job else -2.0
    features[2] = snapshot.free_executors.sum() / 20.0
    features[3] = min(work_ms / 1e5, LARGEST_FEATURE)
    features[4] = min(snapshot.unstarted[stage] / 200.0, LARGEST_FEATURE)
    features[5] = snapshot.running[stage] / 20.0
    features[6] = snapshot.runnable[stage]
    features[7] = min((snapshot.now_ms - snapshot.arrival_ms[job]) / 1e5, LARGEST_FEATURE)
    features[8] = snapshot.memory[stage]


@jit
def show_children(marks: Marks, snapshot: Snapshot, stage: int) -> None:
    row = snapshot.profile_stage[stage]
    for place in range(snapshot.child_offset[row], snapshot.child_offset[row + 1]):
        marks[snapshot.child[place]] = 1


@jit
def show_choice(
    picture: Picture, index: int, row: int, snapshot: Snapshot, job: int, levels: Numbers
) -> None:
    """A stage that may be chosen: with which class of executor, and which limits send one."""
    least = _executors_of(snapshot, job) + 1
    picture.choice_mask[index, row] = 1
    picture.executor_class[index, row] = _class_for(snapshot, picture.stage[index, row])
    picture.least_limit[index, row] = least
    for level in range(len(levels)):
        picture.limit_mask[index, row, level] = levels[level] >= least


@jit
def read(
    verdicts: Numbers,
    sent: Numbers,
    picture: Picture,
    answers: Numbers,
    ended: NDArray[np.bool_],
    levels: Numbers,
    flat: bool,
) -> None:
    """Turn answers (row, level) into the engine's (stage, limit, class) and judge each.

    A limit below the least that sends an executor means that least limit; in the flat form, where the
    mask knows pairs, it is illegal.
    """
    rows = picture.stage.shape[1]
    for index in range(len(ended)):
        row, level = answers[index, 0], answers[index, 1]
        sent[index, 0], sent[index, 1], sent[index, 2] = NOWHERE, 0, 0
        verdicts[index] = LEGAL
        if ended[index]:
            continue
        # In the flat form leaving idle is one number, the last, and not one for each level.
        beyond = flat and row == rows and level > 0
        if beyond or not (0 <= row <= rows and 0 <= level < len(levels)):
            verdicts[index] = NO_ACTION
        elif not picture.choice_mask[index, row]:
            verdicts[index] = ILLEGAL
        elif row < rows:
            if flat and not picture.limit_mask[index, row, level]:
                verdicts[index] = ILLEGAL
            sent[index, 0] = picture.stage[index, row]
            sent[index, 1] = max(levels[level], picture.least_limit[index, row])
            sent[index, 2] = picture.executor_class[index, row]
