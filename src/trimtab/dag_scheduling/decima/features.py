"""From a view to the numbers the network works with, on numpy or JAX.

Counts and times reach over several orders of magnitude, so they enter as logarithms. Everything is
relative to the cluster or free of units: one policy serves clusters of all sizes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.view import View
from trimtab.networks.graph_encoder import longest_path
from trimtab.networks.layers import Array

__all__ = ["CLUSTER_FEATURES", "JOB_FEATURES", "LIMIT_FEATURES", "READY_FEATURE", "STAGE_FEATURES"]
__all__ += ["Facts", "Features"]
__all__ += ["facts_of", "limit_features", "paper_features", "rich_features"]

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


class Facts(NamedTuple):
    """A view in plain units; trailing axes are [jobs, stages] unless said otherwise."""

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
    children: Array  # [..., jobs, stages, stages]
    # by job
    executors: Array
    source: Array
    age_s: Array
    total_work_s: Array
    present: Array
    job_work_s: Array
    # of the cluster
    executor_count: Array
    may_idle: Array
    gap_s: Array
    hidden_jobs: Array
    free: Array  # by class
    class_memory: Array  # by class


class Features(NamedTuple):
    """What enters the network."""

    stages: Array  # [envs, jobs, stages, n]
    jobs: Array  # [envs, jobs, n]
    cluster: Array  # [envs, n]


def facts_of(view: View, classes: int, xp: Any) -> Facts:
    """Undo the compact storage of a view."""
    fields = view.stages.astype(xp.float32)
    flags = view.stages[..., v.FLAGS].astype(xp.int32)
    stages = view.stages.shape[-2]
    unstarted = fields[..., v.UNSTARTED]
    running = fields[..., v.RUNNING]
    task_s = (xp.exp2(fields[..., v.TASK_MS] / v.LOG_SCALE) - 1.0) / 1000.0
    work_s = unstarted * task_s
    bit = xp.arange(stages, dtype=xp.uint32)
    words = xp.take(view.children, (bit // 32).astype(xp.int32), axis=-1)
    children = ((words >> (bit % 32)) & 1).astype(xp.float32)
    cluster = view.cluster
    return Facts(
        unstarted=unstarted,
        running=running,
        demand=fields[..., v.DEMAND],
        task_s=task_s,
        memory=fields[..., v.MEMORY] / v.MEMORY_SCALE,
        slowdown=fields[..., v.SLOWDOWN] * (0.6931472 / v.LOG_SCALE),
        runnable=(flags & v.RUNNABLE_FLAG).astype(xp.float32),
        schedulable=((flags & v.SCHEDULABLE_FLAG) > 0).astype(xp.float32),
        choice=((flags[..., None] >> (2 + xp.arange(classes, dtype=xp.int32))) & 1) > 0,
        unfinished=((unstarted + running) > 0).astype(xp.float32),
        work_s=work_s,
        children=children,
        executors=view.jobs[..., v.EXECUTORS],
        source=view.jobs[..., v.SOURCE],
        age_s=view.jobs[..., v.AGE_S],
        total_work_s=view.jobs[..., v.TOTAL_WORK_S],
        present=view.jobs[..., v.PRESENT],
        job_work_s=work_s.sum(-1),
        executor_count=cluster[..., v.EXECUTOR_COUNT],
        may_idle=cluster[..., v.MAY_IDLE],
        gap_s=cluster[..., v.GAP_S],
        hidden_jobs=cluster[..., v.HIDDEN_JOBS],
        free=cluster[..., v.CLUSTER_FIELDS : v.CLUSTER_FIELDS + classes],
        class_memory=cluster[..., v.CLUSTER_FIELDS + classes :],
    )


def rich_features(facts: Facts, xp: Any, *, paths: bool = True, ready: bool = False) -> Features:
    """Ours; `paths` off hides everything that needs the graph, `ready` adds when parents will be done."""
    log = xp.log1p
    f = facts
    executors = f.executor_count[:, None]
    free = f.free.sum(-1)[:, None]
    paths_time, paths_work = f.task_s * f.unfinished, f.work_s
    if paths:
        both = xp.stack([paths_time, paths_work])
        paths_time, paths_work = longest_path(both, f.children[None], xp)
    job_path = paths_time.max(-1)
    job_work = f.job_work_s
    stages = xp.stack(
        [
            log(f.unstarted) / 4,
            log(f.work_s) / 5,
            log(10 * f.task_s) / 4,
            log(f.running) / 3,
            log(f.demand) / 4,
            f.runnable,
            f.schedulable,
            f.memory,
            f.slowdown,
            log(paths_time) / 4,
            log(paths_work) / 5,
            f.work_s / (job_work[..., None] + 0.1),
            log(f.demand / (free[..., None] + 1e-3)) / 2,
            paths_time / (job_path[..., None] + 0.1),
        ],
        axis=-1,
    )
    if ready:
        # At the present pace: the tasks still to begin by those running, and half a task on average.
        done_in_s = f.task_s * (f.unstarted / xp.maximum(f.running, 1) + 0.5) * f.unfinished
        wait_s = (f.children * done_in_s[..., None]).max(-2, initial=0.0)
        stages = xp.concatenate([stages, log(wait_s)[..., None] / 3], axis=-1)
    count = f.present.sum(-1)
    less = (job_work[:, None, :] < job_work[:, :, None]).astype(xp.float32) * f.present[:, None, :]
    rank = less.sum(-1)
    in_system = (job_work * f.present).sum(-1)
    mean_work = in_system / xp.maximum(count, 1)
    open_demand = (f.demand * f.schedulable).sum(-1)
    wide = (f.slowdown * f.work_s).sum(-1) / (job_work + 0.1)
    jobs = xp.stack(
        [
            f.executors / executors,
            log(f.executors) / 3,
            f.source,
            log(job_work) / 5,
            log(f.total_work_s) / 5,
            log(job_path) / 4,
            log(f.age_s) / 5,
            xp.log((job_work + 1) / (mean_work[:, None] + 1)),
            log(rank) / 2,
            (rank == 0).astype(xp.float32),
            log(open_demand) / 4,
            log(job_work / (f.executors + 1)) / 4,
            1 - job_work / (f.total_work_s + 0.1),
            wide,
        ],
        axis=-1,
    )
    total_work = (f.total_work_s * f.present).sum(-1) / xp.maximum(count, 1)
    load = total_work / (f.executor_count * (f.gap_s + 1))
    cluster = xp.stack(
        [
            log(count) / 3,
            free[:, 0] / f.executor_count,
            log(free[:, 0]) / 3,
            log(f.executor_count) / 4,
            log(in_system / f.executor_count) / 4,
            log(f.gap_s) / 4,
            f.may_idle,
            log(f.hidden_jobs),
            log(load),
        ],
        axis=-1,
    )
    return Features(stages, jobs * f.present[..., None], cluster)


def paper_features(facts: Facts, xp: Any) -> Features:
    """The five published features of a stage, and the three of a job, in their published units."""
    f = facts
    shape = f.unstarted.shape
    free = f.free.sum(-1)[:, None]
    jobs = xp.stack(
        [f.executors / 20, 4 * f.source - 2, xp.broadcast_to(free / 20, f.executors.shape)], axis=-1
    )
    own = xp.stack([f.work_s / 100, f.unstarted / 200], axis=-1)
    stages = xp.concatenate([xp.broadcast_to(jobs[..., None, :], (*shape, 3)), own], axis=-1)
    return Features(stages, jobs, xp.zeros((len(f.free), 0), xp.float32))


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
    log = xp.log1p
    sending = xp.maximum(sent, 1)
    after = others[:, None] + sending
    size = executors[:, None]
    return xp.stack(
        [
            log(limits) / 4,
            limits / size,
            sending / size,
            log(sending) / 3,
            sending / (demand[:, None] + 1e-3),
            sending / (free[:, None] + 1e-3),
            log(demand[:, None] / sending) / 2,
            after / size,
            log(work_s[:, None] / after) / 4,
            (sending >= free[:, None]).astype(xp.float32),
        ],
        axis=-1,
    )
