"""Compiled: show many environments to a network, and begin new episodes in those that have ended.

The arrays are those of `decima/view.py`, filled here without an intermediate snapshot per environment;
a test holds both ways together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.dag_scheduling.simulator.compiling import jit
from trimtab.dag_scheduling.simulator.events import DECIDE, FINISHED, NO_MOMENT, TRUNCATED, advance, reset
from trimtab.dag_scheduling.simulator.replay import arrival_gap_ms, environment, look
from trimtab.dag_scheduling.simulator.rounds import executors_taken, may_idle
from trimtab.dag_scheduling.simulator.state import (
    ACTIVE,
    COST,
    DONE,
    LAST_DECISION,
    NEXT_ARRIVAL,
    NOW,
    NOWHERE,
    SOURCE_JOB,
    State,
)
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["FUTURE_WINDOWS_S", "Drawn", "Episodes", "Outcomes", "Screen"]
__all__ += ["catalogue", "drawn", "label", "read_actions", "show", "turn_over"]

FUTURE_WINDOWS_S = np.array([20.0, 60.0, 200.0, 600.0])
"""The critic is told how many jobs, and how much work, arrive within each of these."""


class Drawn(NamedTuple):
    """What never changes about a profile, in the form in which it is shown."""

    first_row: int  # of this profile in the catalogue
    children: NDArray[np.uint32]  # [rows, words], see `view.child_words`
    task_log: NDArray[np.int16]  # by row: usual task duration, as it is stored
    slowdown_log: NDArray[np.int16]
    work_s: NDArray[np.float64]  # by template


def drawn(t: Tables, words: int) -> Drawn:
    """Logarithms take longer than all the rest of showing a stage: they are taken once."""
    work_ms = np.add.reduceat(t.rows["tasks"] * t.rows["task_ms"], t.stage_offset[:-1])
    return Drawn(
        first_row=0,
        children=v.child_words(t.child_offset, t.child, words),
        task_log=v.stored_log(1.0 + t.rows["task_ms"]),
        slowdown_log=v.stored_log(t.slowdown),
        work_s=work_ms / 1000.0,
    )


def catalogue(parts: Sequence[Tables], stages: int) -> v.Catalogue:
    """The profiles of several tables one after the other, for jobs of so many stages."""
    known, children, counts = [], [], []
    for t in parts:
        part = drawn(t, v.words_for(stages))
        memory = np.rint(v.MEMORY_SCALE * t.rows["memory"]).astype(np.int16)
        known.append(np.stack([part.task_log, memory, part.slowdown_log], axis=1))
        children.append(part.children)
        count = np.zeros(len(memory), np.int32)
        count[t.stage_offset[:-1]] = np.diff(t.stage_offset)
        counts.append(count)
    return v.Catalogue(
        np.pad(np.concatenate(known), ((0, 1), (0, 0))),
        np.pad(np.concatenate(children), ((0, 1), (0, 0))),
        np.pad(np.concatenate(counts), (0, 1)),
    )


class Screen(NamedTuple):
    """What is shown of each environment, and how to read the answer.

    Where the rest is known from a catalogue, stages have the changing fields only, and no children.
    """

    stages: NDArray[np.int16]
    children: NDArray[np.uint32]
    rows: NDArray[np.int32]  # [envs, jobs]: first row of the job in the catalogue, or its last
    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]
    future: NDArray[np.float32]  # [envs, 2 * windows]
    slots: NDArray[np.int64]  # [envs, jobs]: slot of the job in a row, or NOWHERE
    sequence: NDArray[np.int32]
    teacher: NDArray[np.int32]  # [envs, 2]: choice and limit of a rule


class Episodes(NamedTuple):
    """Episodes drawn beforehand: row p is one workload; environment i plays `next_row[i]` next."""

    template: NDArray[np.int64]  # [rows, jobs]
    arrival_ms: NDArray[np.int64]
    jobs: NDArray[np.int64]  # by row: so many of them count
    seed: NDArray[np.int64]
    time_limit_ms: NDArray[np.int64]
    next_row: NDArray[np.int64]  # by environment
    first_row: NDArray[np.int64]  # by environment: its rows are first_row … first_row + rows_each - 1
    rows_each: int
    row: NDArray[np.int64]  # by environment: the row being played


class Outcomes(NamedTuple):
    """What the last decision led to, by environment."""

    cost_ms: NDArray[np.int64]  # jobs in system x time, or time
    elapsed_ms: NDArray[np.int64]
    ended: NDArray[np.bool_]


@jit
def turn_over(batch: State, t: Tables, status: np.ndarray, episodes: Episodes, outcomes: Outcomes) -> None:
    """Take the reward of every environment; those that have ended begin their next episode."""
    for index in range(len(status)):
        s = environment(batch, index)
        outcomes.cost_ms[index] = s.scalar[COST]
        outcomes.elapsed_ms[index] = s.scalar[NOW] - s.scalar[LAST_DECISION]
        outcomes.ended[index] = status[index] == FINISHED or status[index] == TRUNCATED
        s.scalar[COST] = 0
        s.scalar[LAST_DECISION] = s.scalar[NOW]
        if outcomes.ended[index]:
            status[index] = begin(s, t, index, episodes)


@jit
def begin(s: State, t: Tables, index: int, episodes: Episodes) -> int:
    """Put the next workload into an environment and run to its first question."""
    row = episodes.next_row[index]
    episodes.row[index] = row
    following = row + 1
    if following >= episodes.first_row[index] + episodes.rows_each:
        following = episodes.first_row[index]
    episodes.next_row[index] = following
    count = episodes.jobs[row]
    for job in range(len(s.jobs["template"])):
        s.jobs["template"][job] = episodes.template[row, job] if job < count else 0
        s.jobs["arrival_ms"][job] = episodes.arrival_ms[row, job] if job < count else NO_MOMENT
    reset(s, t, episodes.seed[row], episodes.time_limit_ms[row])
    s.scalar[DONE] = len(s.jobs["template"]) - count
    status = advance(s, t)
    s.scalar[COST] = 0
    s.scalar[LAST_DECISION] = s.scalar[NOW]
    return status


@jit
def show(
    batch: State,
    t: Tables,
    status: np.ndarray,
    known: Drawn,
    episodes: Episodes,
    screen: Screen,
    scratch: np.ndarray,
) -> None:
    """Fill the screen for every environment that has a decision to make; `scratch` has a number per slot."""
    for index in range(len(status)):
        if status[index] == DECIDE:
            s = environment(batch, index)
            choose_jobs(s, t, screen.slots[index], scratch)
            show_stages(s, t, known, screen, index)
            show_cluster(s, t, screen, index)
            show_future(s, known.work_s, episodes.jobs[episodes.row[index]], screen.future[index])
            screen.sequence[index] = episodes.seed[episodes.row[index]]


@jit
def job_work_left(s: State, slot: int) -> float:
    total = 0.0
    first = s.slots["first_stage"][slot]
    for stage in range(first, first + s.slots["stage_count"][slot]):
        total += s.stages["unstarted"][stage] * s.stages["expected_ms"][stage]
    return total


@jit
def has_choice(s: State, t: Tables, slot: int) -> bool:
    """Whether some stage of the job may be chosen for some offered executor."""
    first = s.slots["first_stage"][slot]
    for stage in range(first, first + s.slots["stage_count"][slot]):
        for executor_class in range(len(s.free_executors)):
            if executors_taken(s, t, stage, len(s.executors["located"]), executor_class) > 0:
                return True
    return False


@jit
def choose_jobs(s: State, t: Tables, slots: np.ndarray, work: np.ndarray) -> None:
    """Jobs in order of arrival; if there are too many, the source and those with least work left."""
    room = len(slots)
    active = s.scalar[ACTIVE]
    slots[:] = NOWHERE
    if active <= room:
        for place in range(active):
            slots[place] = s.slots["active"][place]
        return
    source = s.scalar[SOURCE_JOB]
    with_source = source != NOWHERE and (room > 1 or has_choice(s, t, source))
    taken = 0
    if with_source:
        slots[0] = source
        taken = 1
    for place in range(active):
        slot = s.slots["active"][place]
        # Jobs that can use nothing now come last; equal amounts of work are told apart by place.
        work[place] = job_work_left(s, slot) + place * 1e-3
        if not has_choice(s, t, slot):
            work[place] += v.NO_USE
        if with_source and slot == source:
            work[place] = math.inf
    while taken < room:
        least = 0
        for place in range(1, active):
            if work[place] < work[least]:
                least = place
        slots[taken] = s.slots["active"][least]
        work[least] = math.inf
        taken += 1


@jit
def show_stages(s: State, t: Tables, known: Drawn, screen: Screen, index: int) -> None:
    stages = screen.stages[index]
    children = screen.children[index]
    jobs = screen.jobs[index]
    stages[:] = 0
    children[:] = 0
    jobs[:] = 0
    for row in range(jobs.shape[0]):
        slot = screen.slots[index, row]
        if slot == NOWHERE:
            continue
        screen.rows[index, row] = known.first_row + s.stages["row"][s.slots["first_stage"][slot]]
        jobs[row, v.EXECUTORS] = s.slots["executors"][slot] + s.slots["incoming"][slot]
        jobs[row, v.SOURCE] = 1.0 if slot == s.scalar[SOURCE_JOB] else 0.0
        jobs[row, v.AGE_S] = (s.scalar[NOW] - s.slots["arrival_ms"][slot]) / 1000.0
        jobs[row, v.PRESENT] = 1.0
        first = s.slots["first_stage"][slot]
        total = 0.0
        for position in range(s.slots["stage_count"][slot]):
            stage = first + position
            place = s.stages["row"][stage]
            total += s.stages["tasks"][stage] * s.stages["expected_ms"][stage]
            show_stage(s, t, known, stage, stages[row, position])
            for word in range(min(children.shape[2], known.children.shape[1])):
                children[row, position, word] = known.children[place, word]
        jobs[row, v.TOTAL_WORK_S] = total / 1000.0


@jit
def show_stage(s: State, t: Tables, known: Drawn, stage: int, fields: np.ndarray) -> None:
    row = s.stages["row"][stage]
    fields[v.UNSTARTED] = min(s.stages["unstarted"][stage], v.LARGEST_COUNT)
    fields[v.RUNNING] = min(s.stages["running"][stage], v.LARGEST_COUNT)
    fields[v.DEMAND] = min(max(s.stages["demand"][stage], 0), v.LARGEST_COUNT)
    if len(fields) > v.CHANGING_FIELDS:
        if t.learned:
            fields[v.TASK_MS] = np.rint(v.LOG_SCALE * math.log2(1.0 + s.stages["expected_ms"][stage]))
        else:
            fields[v.TASK_MS] = known.task_log[row]
        fields[v.MEMORY] = np.rint(v.MEMORY_SCALE * s.stages["memory"][stage])
        fields[v.SLOWDOWN] = known.slowdown_log[row]
    flags = 0
    if s.stages["runnable"][stage]:
        flags += v.RUNNABLE_FLAG
    if s.stages["schedulable"][stage]:
        flags += v.SCHEDULABLE_FLAG
        for executor_class in range(len(s.free_executors)):
            fits = s.stages["memory"][stage] <= t.class_memory[executor_class]
            if fits and s.free_executors[executor_class] > 0:
                flags += 1 << (v.CLASS_BITS + executor_class)
    fields[v.FLAGS] = flags


@jit
def show_cluster(s: State, t: Tables, screen: Screen, index: int) -> None:
    cluster = screen.cluster[index]
    classes = len(s.free_executors)
    cluster[v.EXECUTOR_COUNT] = len(s.executors["located"])
    cluster[v.MAY_IDLE] = 1.0 if may_idle(s) else 0.0
    cluster[v.GAP_S] = arrival_gap_ms(s) / 1000.0
    cluster[v.HIDDEN_JOBS] = max(s.scalar[ACTIVE] - screen.slots.shape[1], 0)
    for executor_class in range(classes):
        cluster[v.CLUSTER_FIELDS + executor_class] = s.free_executors[executor_class]
        cluster[v.CLUSTER_FIELDS + classes + executor_class] = t.class_memory[executor_class]


@jit
def show_future(s: State, work_s: np.ndarray, jobs: int, future: np.ndarray) -> None:
    """Jobs and work (in cluster-seconds) that arrive within each window; logarithms."""
    windows = len(FUTURE_WINDOWS_S)
    count = 0
    work = 0.0
    job = s.scalar[NEXT_ARRIVAL]
    for window in range(windows):
        until = s.scalar[NOW] + 1000.0 * FUTURE_WINDOWS_S[window]
        while job < jobs and s.jobs["arrival_ms"][job] <= until:
            work += work_s[s.jobs["template"][job]]
            count += 1
            job += 1
        future[window] = math.log1p(count) / 3.0
        future[windows + window] = math.log1p(work / len(s.executors["located"])) / 4.0


@jit
def read_actions(
    batch: State,
    status: np.ndarray,
    slots: np.ndarray,
    stages: int,
    answers: np.ndarray,
    limits: np.ndarray,
    actions: np.ndarray,
) -> None:
    """Turn answers (choice, limit) into (stage, limit, class); a choice past the last one is to idle."""
    for index in range(len(status)):
        classes = batch.free_executors.shape[1]
        choice = answers[index, 0]
        if choice >= slots.shape[1] * stages * classes:
            actions[index, 0] = NOWHERE
            actions[index, 1] = 0
            actions[index, 2] = 0
        else:
            slot = slots[index, choice // (stages * classes)]
            actions[index, 0] = batch.slots["first_stage"][index, slot] + choice // classes % stages
            actions[index, 1] = limits[answers[index, 1]]
            actions[index, 2] = choice % classes


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the teacher in `label`; replaced by `compiling.specialise`."""
    raise NotImplementedError


def label(
    batch: State, t: Tables, status: np.ndarray, screen: Screen, limits: np.ndarray, parameters: np.ndarray
) -> None:
    """Write down what a rule would do: its choice, and the limit that sends as many executors or more."""
    stages = screen.stages.shape[2]
    classes = batch.free_executors.shape[1]
    for index in range(len(status)):
        if status[index] == DECIDE:
            s = environment(batch, index)
            action = decide(look(s, t), parameters)
            screen.teacher[index, 0] = screen.slots.shape[1] * stages * classes
            screen.teacher[index, 1] = 0
            if action.stage != NOWHERE:
                if not is_shown(s, action.stage, screen.slots[index]):
                    action = first_shown(s, t, screen.slots[index])
                slot = s.stages["slot"][action.stage]
                position = action.stage - s.slots["first_stage"][slot]
                for row in range(screen.slots.shape[1]):
                    if screen.slots[index, row] == slot:
                        place = (row * stages + position) * classes + action.executor_class
                        screen.teacher[index, 0] = place
                sent = executors_taken(s, t, action.stage, action.limit, action.executor_class)
                screen.teacher[index, 1] = limit_for(s, t, action, sent, limits)


@jit
def is_shown(s: State, stage: int, slots: np.ndarray) -> bool:
    for row in range(len(slots)):
        if slots[row] == s.stages["slot"][stage]:
            return True
    return False


@jit
def first_shown(s: State, t: Tables, slots: np.ndarray) -> Action:
    """Where the rule's own job is not shown: the first choice among those that are, without a limit."""
    for row in range(len(slots)):
        if slots[row] != NOWHERE:
            first = s.slots["first_stage"][slots[row]]
            for stage in range(first, first + s.slots["stage_count"][slots[row]]):
                for executor_class in range(len(s.free_executors)):
                    if executors_taken(s, t, stage, len(s.executors["located"]), executor_class) > 0:
                        return Action(stage, len(s.executors["located"]), executor_class)
    return Action(0, 0, 0)


@jit
def limit_for(s: State, t: Tables, action: Action, sent: int, limits: np.ndarray) -> int:
    """The least limit that sends at least so many; among equals the smallest, as in the mask."""
    best = 0
    most = executors_taken(s, t, action.stage, limits[0], action.executor_class)
    for place in range(1, len(limits)):
        sends = executors_taken(s, t, action.stage, limits[place], action.executor_class)
        if sends >= min(sent, most) and sends > 0:
            best = place
    return best
