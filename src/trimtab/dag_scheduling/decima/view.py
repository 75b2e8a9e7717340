"""What the network is shown: the snapshot as a few small arrays of fixed meaning.

    stages   [envs, jobs, stages, STAGE_FIELDS]  int16    counts and flags; durations on a logarithmic scale
    children [envs, jobs, stages, words]         uint32   bit w of a stage's words: stage w is its child
    jobs     [envs, jobs, JOB_FIELDS]            float32
    cluster  [envs, CLUSTER_FIELDS + 2·classes]  float32

The simulator fills them in compiled code (`showing.py`), a live controller from a snapshot
with numpy (`view_of`); a test holds the two together. They are also what a rollout stores: features
are made of them inside the network. Where task durations are known, more than half of it never changes
while a job runs: a rollout then sends what changes, and which rows of a profile its jobs are (3 KB a
decision at 20 jobs instead of 7), and the device, which has the profile (`Catalogue`), completes the view.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.problem import LEAVE_IDLE, Action, Snapshot

__all__ = [
    "AGE_S",
    "CHANGING_FIELDS",
    "CLASS_BITS",
    "CLUSTER_FIELDS",
    "DEMAND",
    "EXECUTORS",
    "EXECUTOR_COUNT",
    "FLAGS",
    "GAP_S",
    "HIDDEN_JOBS",
    "JOB_FIELDS",
    "LARGEST_COUNT",
    "LOG_SCALE",
    "MAY_IDLE",
    "MEMORY",
    "MEMORY_SCALE",
    "MOST_CLASSES",
    "NO_USE",
    "PRESENT",
    "RUNNABLE_FLAG",
    "RUNNING",
    "SCHEDULABLE_FLAG",
    "SLOWDOWN",
    "SOURCE",
    "STAGE_FIELDS",
    "TASK_MS",
    "TOTAL_WORK_S",
    "UNSTARTED",
    "Catalogue",
    "Shown",
    "View",
    "action_of",
    "child_words",
    "completed",
    "stored_log",
    "view_of",
    "words_for",
]

# Fields of `stages`. Durations and slowdowns are stored as LOG_SCALE * log2, memory as MEMORY_SCALE * share.
# Those that change while a job runs come first.
UNSTARTED, RUNNING, DEMAND, FLAGS, TASK_MS, MEMORY, SLOWDOWN, STAGE_FIELDS = range(8)
CHANGING_FIELDS = TASK_MS
RUNNABLE_FLAG, SCHEDULABLE_FLAG, CLASS_BITS = 1, 2, 2  # of FLAGS; from this bit on, one for each class
NO_USE = 1e12  # more work than any job has
LOG_SCALE = 1024.0  # a step is 0.07 %
MEMORY_SCALE = 4096.0
LARGEST_COUNT = 32767
MOST_CLASSES = 13  # bits of FLAGS that are left

# Fields of `jobs`.
EXECUTORS, SOURCE, AGE_S, TOTAL_WORK_S, PRESENT, JOB_FIELDS = range(6)

# Fields of `cluster`; after them come the free executors of each class, then the memory of each class.
EXECUTOR_COUNT, MAY_IDLE, GAP_S, HIDDEN_JOBS, CLUSTER_FIELDS = range(5)


class View(NamedTuple):
    """The arrays of a batch of environments (see above)."""

    stages: NDArray[np.int16]
    children: NDArray[np.uint32]
    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]


class Catalogue(NamedTuple):
    """What never changes about the stages of one or more profiles; the last row stands for no stage."""

    known: NDArray[np.int16]  # [rows, STAGE_FIELDS - CHANGING_FIELDS]
    children: NDArray[np.uint32]  # [rows, words]
    stages: NDArray[np.int32]  # by row: stages of the job that begins with it, 0 where none does


def completed(changing: Any, rows: Any, catalogue: Catalogue, xp: Any) -> tuple[Any, Any]:
    """`stages` and `children` of a view; `rows` [envs, jobs] are those of each job's first stage.

    >>> chain = Catalogue(
    ...     np.array([[7, 0, 0], [8, 0, 0], [0, 0, 0]], np.int16),
    ...     np.array([[2], [0], [0]], np.uint32),
    ...     np.array([2, 0, 0], np.int32),
    ... )
    >>> stages, children = completed(np.ones((1, 2, 2, 4), np.int16), np.array([[0, 2]]), chain, np)
    >>> stages[0, :, :, TASK_MS].tolist(), children[0, :, :, 0].tolist()
    ([[7, 8], [0, 0]], [[2, 0], [0, 0]])
    """
    position = xp.arange(changing.shape[-2])
    inside = position < catalogue.stages[rows][..., None]
    place = xp.where(inside, rows[..., None] + position, len(catalogue.known) - 1)
    return xp.concatenate([changing, catalogue.known[place]], axis=-1), catalogue.children[place]


class Shown(NamedTuple):
    """A view of one snapshot, and which job stands in which row of it."""

    view: View
    slots: NDArray[np.int64]  # by row: slot of the job in the snapshot


def words_for(stages: int) -> int:
    """32-bit words that hold one bit for each stage."""
    return (stages + 31) // 32


def stored_log(values: NDArray[np.float64]) -> NDArray[np.int16]:
    """Durations and slowdowns as they are stored."""
    return np.rint(LOG_SCALE * np.log2(values)).astype(np.int16)


def child_words(child_offset: NDArray[np.int64], child: NDArray[np.int64], words: int) -> NDArray[np.uint32]:
    """For each row of a profile, its children as bits: [rows, words]."""
    bits = np.zeros((len(child_offset) - 1, words), np.uint32)
    parents = np.repeat(np.arange(len(child_offset) - 1), np.diff(child_offset))
    np.bitwise_or.at(bits, (parents, child // 32), np.uint32(1) << (child % 32).astype(np.uint32))
    return bits


def view_of(snapshot: Snapshot, bits: NDArray[np.uint32], room: int = 0) -> Shown:
    """Show a snapshot to the network; `bits` are the `child_words` of its profile.

    Where more jobs than `room` (0: any number) are in the system, those are shown that the network was
    shown in training: the one whose executors are offered, and those with least work left.
    """
    flags = _flags(snapshot)
    slots = snapshot.jobs
    if room and len(slots) > room:
        slots = _chosen_jobs(snapshot, flags, room)
    counts = snapshot.stage_count[slots]
    stages = int(counts.max())
    position = np.arange(stages)
    inside = position < counts[:, None]
    number = np.where(inside, snapshot.first_stage[slots][:, None] + position, 0)
    # `take` reads a table in a third of the time that an index in brackets needs.
    row = snapshot.profile_stage.take(number)
    task_ms = snapshot.task_ms.take(number)
    fields = np.zeros((len(slots), stages, STAGE_FIELDS), np.int16)
    fields[..., UNSTARTED] = np.minimum(snapshot.unstarted.take(number), LARGEST_COUNT)
    fields[..., RUNNING] = np.minimum(snapshot.running.take(number), LARGEST_COUNT)
    fields[..., DEMAND] = np.clip(snapshot.demand.take(number), 0, LARGEST_COUNT)
    fields[..., TASK_MS] = stored_log(1.0 + task_ms)
    fields[..., MEMORY] = np.rint(MEMORY_SCALE * snapshot.memory.take(number))
    fields[..., SLOWDOWN] = stored_log(snapshot.slowdown.take(row))
    fields[..., FLAGS] = flags.take(number)
    fields[~inside] = 0
    children = np.where(inside[..., None], bits.take(row, 0), 0).astype(np.uint32)
    jobs = np.zeros((len(slots), JOB_FIELDS), np.float32)
    jobs[:, EXECUTORS] = snapshot.executors[slots] + snapshot.incoming[slots]
    jobs[:, SOURCE] = slots == snapshot.source_job
    jobs[:, AGE_S] = (snapshot.now_ms - snapshot.arrival_ms[slots]) / 1000.0
    work_ms = np.where(inside, snapshot.tasks.take(number) * task_ms, 0.0)
    jobs[:, TOTAL_WORK_S] = work_ms.sum(1) / 1000.0
    jobs[:, PRESENT] = 1.0
    hidden = len(snapshot.jobs) - len(slots)
    cluster = np.concatenate(
        [
            [snapshot.executor_count, snapshot.may_idle, snapshot.arrival_gap_ms / 1000.0, hidden],
            snapshot.free_executors,
            snapshot.class_memory,
        ]
    ).astype(np.float32)
    return Shown(
        View(fields[None], children[None, ..., : words_for(stages)], jobs[None], cluster[None]), slots
    )


def _chosen_jobs(snapshot: Snapshot, flags: NDArray[np.int64], room: int) -> NDArray[np.int64]:
    """As in `showing.choose_jobs`."""
    slots = snapshot.jobs
    counts, first = snapshot.stage_count[slots], snapshot.first_stage[slots]
    position = np.arange(int(counts.max()))
    inside = position < counts[:, None]
    number = np.where(inside, first[:, None] + position, 0)
    work = np.where(inside, snapshot.unstarted.take(number) * snapshot.task_ms.take(number), 0.0).sum(1)
    useful = np.any(inside & (flags.take(number) >= 1 << CLASS_BITS), axis=1)
    order = work + 1e-3 * np.arange(len(slots)) + np.where(useful, 0.0, NO_USE)
    source = np.flatnonzero(slots == snapshot.source_job)
    if room > 1 or useful[source].any():
        order[source] = -1.0
    return slots[np.argsort(order)[:room]]


def _flags(snapshot: Snapshot) -> NDArray[np.int64]:
    """Runnable, schedulable, and from the third bit on: may be chosen for this class."""
    flags = RUNNABLE_FLAG * snapshot.runnable + SCHEDULABLE_FLAG * snapshot.schedulable
    for executor_class, memory in enumerate(snapshot.class_memory):
        if snapshot.free_executors[executor_class] > 0:
            fits = snapshot.schedulable & (snapshot.memory <= memory)
            flags = flags + (fits << (CLASS_BITS + executor_class))
    return flags


def action_of(shown: Shown, snapshot: Snapshot, choice: int, limit: int) -> Action:
    """Read the network's answer: a (job, stage, class) position or, past the last of them, LEAVE_IDLE."""
    _, jobs, stages, _ = shown.view.stages.shape
    classes = len(snapshot.free_executors)
    if choice >= jobs * stages * classes:
        return LEAVE_IDLE
    stage = int(snapshot.first_stage[shown.slots[choice // (stages * classes)]])
    return Action(stage + choice // classes % stages, limit, choice % classes)
