"""From a view to the numbers the network works with, on numpy or JAX.

Counts and times reach over several orders of magnitude, so they enter as logarithms. Everything is
relative to the cluster or free of units: one policy serves clusters of all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.view import View
from trimtab.networks.graph_encoder import Grid
from trimtab.networks.graph_rows import Packed
from trimtab.networks.layers import Array

__all__ = ["CLASS_FEATURES", "CLUSTER_FEATURES", "JOB_FEATURES", "LIMIT_FEATURES", "READY_FEATURE"]
__all__ += ["SIZE_FEATURES", "STAGE_FEATURES"]
__all__ += ["Facts", "Features", "TooLarge"]
__all__ += ["children_of", "class_features", "facts_of", "limit_features", "paper_features", "rich_features"]
__all__ += ["too_large"]

STAGE_FEATURES = (
    "tasks left",
    "work left",
    "task duration",
    "tasks running",
    "demand",
    "runnable",
    "schedulable",
    "memory",
    "slowdown when wide",
    "longest path below, in time",
    "longest path below, in work",
    "share of its job's work",
    "waves on the free executors",
    "path as share of its job's longest",
)
READY_FEATURE = "time until its parents are done"
SIZE_FEATURES = ("free executors that fit", "classes too small", "work that needs as much memory")
JOB_FEATURES = (
    "executors of the cluster",
    "executors",
    "source of the free executors",
    "work left",
    "total work",
    "longest path",
    "time in system",
    "work left against the mean",
    "jobs with less work left",
    "has least work left",
    "demand of schedulable stages",
    "time left with present executors",
    "work done",
    "slowdown when wide",
)
CLUSTER_FEATURES = (
    "jobs",
    "free executors of the cluster",
    "free executors",
    "cluster size",
    "work left in the system",
    "time between arrivals",
    "may idle",
    "jobs not shown",
    "load of late",
)
LIMIT_FEATURES = (
    "limit",
    "limit of the cluster",
    "executors sent of the cluster",
    "executors sent",
    "sent of the demand",
    "sent of the free",
    "waves",
    "executors of the job afterwards",
    "time left afterwards",
    "takes all that are free",
)
CLASS_FEATURES = ("memory to spare", "memory", "free executors of the cluster")


class Facts(NamedTuple):
    """A view in plain units; trailing axes are [jobs, stages], or [rows] where stages are packed."""

    rows: Grid | Packed  # how the stages are arranged, and their graph
    unstarted: Array
    running: Array
    demand: Array
    task_s: Array
    memory: Array
    slowdown: Array  # logarithm
    runnable: Array
    schedulable: Array
    choice: Array  # [..., classes]: may be chosen
    unfinished: Array
    work_s: Array
    # by job: [envs, jobs]
    executors: Array
    source: Array
    age_s: Array
    total_work_s: Array
    present: Array
    job_work_s: Array
    open_demand: Array  # of its schedulable stages
    wide_s: Array  # work, weighted by slowdown
    # of the cluster
    executor_count: Array
    may_idle: Array
    gap_s: Array
    hidden_jobs: Array
    free: Array  # by class
    class_memory: Array  # by class


class Features(NamedTuple):
    """What enters the network."""

    stages: Array  # [envs, jobs, stages, n] or [rows, n]
    jobs: Array  # [envs, jobs, n]
    cluster: Array  # [envs, n]


class TooLarge(NamedTuple):
    """Work left, in seconds, that needs more memory than an executor of each class has."""

    by_job: Array  # [envs, jobs, classes]
    in_all: Array  # [envs, classes]
    everything: Array  # [envs, 1]: all work left, to see it beside


def facts_of(view: View, classes: int, xp: Any, rows: Grid | Packed | None = None) -> Facts:
    """Undo the compact storage of a view; numpy is faster with the `rows` of a single one."""
    rows = rows or Grid(children_of(view, xp), xp)
    stored = rows.rows(view.stages)
    fields = stored.astype(xp.float32)
    flags = stored[..., v.FLAGS]
    unstarted = fields[..., v.UNSTARTED]
    running = fields[..., v.RUNNING]
    demand = fields[..., v.DEMAND]
    slowdown = fields[..., v.SLOWDOWN] * (0.6931472 / v.LOG_SCALE)
    schedulable = ((flags & v.SCHEDULABLE_FLAG) > 0).astype(xp.float32)
    task_s = (xp.exp2(fields[..., v.TASK_MS] / v.LOG_SCALE) - 1.0) / 1000.0
    work_s = unstarted * task_s
    by_job = rows.total(side_by_side([work_s, demand * schedulable, slowdown * work_s], xp))
    cluster = view.cluster
    return Facts(
        rows=rows,
        unstarted=unstarted,
        running=running,
        demand=demand,
        task_s=task_s,
        memory=fields[..., v.MEMORY] / v.MEMORY_SCALE,
        slowdown=slowdown,
        runnable=(flags & v.RUNNABLE_FLAG).astype(xp.float32),
        schedulable=schedulable,
        choice=(flags[..., None] & _class_flags(classes)) > 0,
        unfinished=((unstarted + running) > 0).astype(xp.float32),
        work_s=work_s,
        executors=view.jobs[..., v.EXECUTORS],
        source=view.jobs[..., v.SOURCE],
        age_s=view.jobs[..., v.AGE_S],
        total_work_s=view.jobs[..., v.TOTAL_WORK_S],
        present=view.jobs[..., v.PRESENT],
        job_work_s=by_job[..., 0],
        open_demand=by_job[..., 1],
        wide_s=by_job[..., 2],
        executor_count=cluster[..., v.EXECUTOR_COUNT],
        may_idle=cluster[..., v.MAY_IDLE],
        gap_s=cluster[..., v.GAP_S],
        hidden_jobs=cluster[..., v.HIDDEN_JOBS],
        free=cluster[..., v.CLUSTER_FIELDS : v.CLUSTER_FIELDS + classes],
        class_memory=cluster[..., v.CLUSTER_FIELDS + classes :],
    )


@cache
def _class_flags(classes: int) -> NDArray[np.int16]:
    """By class, the flag that says whether a stage may be chosen for it."""
    return (1 << (v.CLASS_BITS + np.arange(classes))).astype(np.int16)


def children_of(view: View, xp: Any) -> Array:
    """1 where a stage is a child of another: [envs, jobs, stages, stages]."""
    stages = view.stages.shape[-2]
    bit = xp.arange(min(stages, 32), dtype=xp.uint32)
    bits = (view.children[..., None] >> bit) & 1
    return bits.reshape(*bits.shape[:-2], -1)[..., :stages].astype(xp.float32)


def side_by_side(parts: Sequence[Array], xp: Any) -> Array:
    """Arrays of one shape on a new last axis; numpy needs a third of the time of its own `stack`.

    >>> side_by_side([np.zeros((2, 3)), np.ones((2, 3))], np).shape
    (2, 3, 2)
    """
    stacked = xp.asarray(parts)
    return stacked.transpose(*range(1, stacked.ndim), 0)


def _logs(parts: Sequence[tuple[Array, float]], xp: Any) -> list[Array]:
    """log(1 + x) / scale of every (x, scale).

    Of many numbers at once, numpy takes the plain logarithm in less than half the time of log1p.
    """
    stacked = xp.asarray([part for part, _ in parts])
    scales = np.array([scale for _, scale in parts], np.float32)
    return [*(xp.log(1 + stacked) / scales.reshape(-1, *(1 for _ in stacked.shape[1:])))]


def rich_features(
    facts: Facts, xp: Any, *, paths: bool = True, ready: bool = False, sizes: TooLarge | None = None
) -> Features:
    """Ours; `paths` off hides everything that needs the graph, `ready` adds when parents will be done.

    `sizes` adds what executors of several sizes are wanted for.
    """
    lengths = xp.asarray([facts.task_s * facts.unfinished, facts.work_s])
    path_s, path_work_s = facts.rows.longest_path(lengths) if paths else lengths
    job_path_s = facts.rows.largest(path_s)
    features = Features(
        _stage_features(facts, path_s, path_work_s, job_path_s, ready, xp),
        _job_features(facts, job_path_s, xp),
        _cluster_features(facts, xp),
    )
    if sizes is None:
        return features
    return Features._make(
        xp.concatenate(both, axis=-1) for both in zip(features, _size_features(facts, sizes, xp), strict=True)
    )


def _by_job(of_cluster: Array, f: Facts, xp: Any) -> Array:
    """What is known of a cluster, said to each of its jobs: [envs, jobs, n]."""
    return xp.broadcast_to(of_cluster[:, None], (*f.present.shape, of_cluster.shape[-1]))


def too_large(f: Facts, xp: Any) -> TooLarge:
    """For which executors the work left is too large."""
    needs_more = f.memory[..., None] > f.rows.spread(_by_job(f.class_memory, f, xp))
    by_job = f.rows.total(f.work_s[..., None] * needs_more) * f.present[..., None]
    return TooLarge(by_job, by_job.sum(1), (f.job_work_s * f.present).sum(-1)[:, None])


def _size_features(f: Facts, sizes: TooLarge, xp: Any) -> Features:
    """What sets stages, jobs and clusters apart where executors differ in memory.

    Of stages in the order of SIZE_FEATURES; of jobs the work left that is too large for each class; of the
    cluster the same of all jobs, and the free executors of each class.
    """
    size = f.executor_count[:, None]
    beyond = sizes.in_all / size
    memory, free, left_behind, whole = (
        f.rows.spread(_by_job(kind, f, xp))
        for kind in (f.class_memory, f.free, beyond, sizes.everything / size)
    )
    too_small = (f.memory[..., None] > memory).astype(xp.float32)
    # What a class too small for a stage leaves behind needs as much memory; the largest of them leaves least.
    as_large = xp.where(too_small > 0, left_behind, whole).min(-1)
    fitting, contended = _logs([((free * (1 - too_small)).sum(-1), 3), (as_large, 4)], xp)
    return Features(
        side_by_side([fitting, too_small.mean(-1), contended], xp),
        xp.log(1 + sizes.by_job) / 5,
        xp.concatenate([xp.log(1 + beyond) / 4, f.free / size], axis=-1),
    )


def _stage_features(
    f: Facts, path_s: Array, path_work_s: Array, job_path_s: Array, ready: bool, xp: Any
) -> Array:
    """[..., n] in the order of STAGE_FEATURES, then READY_FEATURE if it is wanted."""
    free = f.free.sum(-1)[:, None, None] + 1e-3
    counted = [
        (f.unstarted, 4),
        (f.work_s, 5),
        (10 * f.task_s, 4),
        (f.running, 3),
        (f.demand, 4),
        (path_s, 4),
        (path_work_s, 5),
        (f.demand / free.reshape(free.shape[: f.demand.ndim]), 2),
    ]
    if ready:
        # At the present pace: the tasks still to begin by those running, and half a task on average.
        done_in_s = f.task_s * (f.unstarted / xp.maximum(f.running, 1) + 0.5) * f.unfinished
        counted.append((f.rows.latest_parent(done_in_s), 3))
    tasks, work, task_s, running, demand, path, path_work, waves, *wait = _logs(counted, xp)
    work_share = f.work_s / f.rows.spread(f.job_work_s + 0.1)
    path_share = path_s / f.rows.spread(job_path_s + 0.1)
    return side_by_side(
        [tasks, work, task_s, running, demand, f.runnable, f.schedulable, f.memory, f.slowdown]
        + [path, path_work, work_share, waves, path_share, *wait],
        xp,
    )


def _job_features(f: Facts, job_path_s: Array, xp: Any) -> Array:
    """[envs, jobs, n] in the order of JOB_FEATURES, 0 in rows that hold no job."""
    work_s = f.job_work_s
    count = xp.maximum(f.present.sum(-1), 1)
    mean_work_s = (work_s * f.present).sum(-1) / count
    less = (work_s[:, None, :] < work_s[:, :, None]).astype(xp.float32) * f.present[:, None, :]
    rank = less.sum(-1)
    executors, work, total_work, path, age, place, open_demand, left = _logs(
        [
            (f.executors, 3),
            (work_s, 5),
            (f.total_work_s, 5),
            (job_path_s, 4),
            (f.age_s, 5),
            (rank, 2),
            (f.open_demand, 4),
            (work_s / (f.executors + 1), 4),
        ],
        xp,
    )
    jobs = side_by_side(
        [
            f.executors / f.executor_count[:, None],
            executors,
            f.source,
            work,
            total_work,
            path,
            age,
            5 * work - xp.log(mean_work_s + 1)[:, None],
            place,
            (rank == 0).astype(xp.float32),
            open_demand,
            left,
            1 - work_s / (f.total_work_s + 0.1),
            f.wide_s / (work_s + 0.1),
        ],
        xp,
    )
    return jobs * f.present[..., None]


def _cluster_features(f: Facts, xp: Any) -> Array:
    """[envs, n] in the order of CLUSTER_FEATURES."""
    count = f.present.sum(-1)
    free = f.free.sum(-1)
    in_system_s = (f.job_work_s * f.present).sum(-1)
    mean_total_s = (f.total_work_s * f.present).sum(-1) / xp.maximum(count, 1)
    jobs, free_count, size, work, gap, hidden, load = _logs(
        [
            (count, 3),
            (free, 3),
            (f.executor_count, 4),
            (in_system_s / f.executor_count, 4),
            (f.gap_s, 4),
            (f.hidden_jobs, 1),
            (mean_total_s / (f.executor_count * (f.gap_s + 1)), 1),
        ],
        xp,
    )
    free_share = free / f.executor_count
    return side_by_side([jobs, free_share, free_count, size, work, gap, f.may_idle, hidden, load], xp)


def class_features(f: Facts, few: Grid | Packed, xp: Any, *, sizes: TooLarge | None = None) -> Array:
    """What sets the classes apart for each stage of `few`: [..., classes, n], as in CLASS_FEATURES.

    With `sizes` also which part of the work left needs more memory: of all jobs, and of the stage's own.
    """
    memory = few.spread(_by_job(f.class_memory, f, xp))
    share = few.spread(_by_job(f.free / f.executor_count[:, None], f, xp))
    parts = [memory - few.picked(f.memory)[..., None], memory, share]
    if sizes is not None:
        parts.append(few.spread(_by_job(sizes.in_all / (sizes.everything + 0.1), f, xp)))
        parts.append(few.spread(sizes.by_job / (f.job_work_s[..., None] + 0.1)))
    return xp.stack(xp.broadcast_arrays(*parts), axis=-1)


def paper_features(facts: Facts, xp: Any) -> Features:
    """The five published features of a stage, and the three of a job, in their published units."""
    f = facts
    free = xp.broadcast_to(f.free.sum(-1)[:, None] / 20, f.executors.shape)
    jobs = xp.stack([f.executors / 20, 4 * f.source - 2, free], axis=-1)
    own = xp.stack([f.work_s / 100, f.unstarted / 200], axis=-1)
    around = xp.broadcast_to(f.rows.spread(jobs), (*f.work_s.shape, 3))
    return Features(xp.concatenate([around, own], axis=-1), jobs, xp.zeros((len(f.free), 0), xp.float32))


def limit_features(
    limits: Array,
    sent: Array,
    *,
    demand: Array,
    free: Array,
    others: Array,
    work_s: Array,
    executors: Array,
    xp: Any,
) -> Array:
    """What each limit would do to the chosen stage: [envs, limits, n].

    `others` are the executors of the job without those being placed, `free` those of the chosen class.
    """
    sending = xp.maximum(sent, 1)
    demand, free, size = demand[:, None], free[:, None], executors[:, None]
    after = others[:, None] + sending
    limit, sent_count, waves, left = _logs(
        [(limits, 4), (sending, 3), (demand / sending, 2), (work_s[:, None] / after, 4)], xp
    )
    return side_by_side(
        [
            limit,
            limits / size,
            sending / size,
            sent_count,
            sending / (demand + 1e-3),
            sending / (free + 1e-3),
            waves,
            after / size,
            left,
            (sending >= free).astype(xp.float32),
        ],
        xp,
    )
