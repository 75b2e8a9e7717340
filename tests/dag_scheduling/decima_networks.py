"""Designs to try, courses to try them on, and inputs at the edge of what may come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from tests.dag_scheduling.random_instances import random_profile
from tests.dag_scheduling.test_decima_view import FOUR_SIZES, course_of, course_on, observe, rule

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.network import Design
from trimtab.dag_scheduling.decima.rollouts import RolloutEnvironment
from trimtab.dag_scheduling.decima.view import View

SMALL = Design(hidden=8, embedding=4)
STREAM = course_of(Cluster(executors=9), name="tpch", jobs=6, arrivals="poisson", load=1.2)
FOUR_STREAM = course_of(FOUR_SIZES, name="tpch", jobs=6, arrivals="poisson", load=1.2, random_memory=True)
DESIGNS = {
    "ours": SMALL,
    "every limit": replace(SMALL, limits=0),
    "paper, every limit": replace(SMALL, limits=0, paper=True),
    "no limit head": replace(SMALL, limit_head=False),
    "no graph": replace(SMALL, graph=False),
    "ready, bent": replace(SMALL, ready=True, largest_score=2.0),
    "sizes": replace(SMALL, sizes=True),
}
COURSES = {
    "tpch": course_of(Cluster(executors=10), name="tpch", jobs=3),
    "stream": STREAM,
    "synthetic": course_of(Cluster(executors=7), rule("fair"), name="synthetic", jobs=3),
    "tiny": course_of(Cluster(executors=1), name="tiny:two-jobs", jobs=3),
    "random": course_on(Cluster(executors=4, moving_delay_ms=0), random_profile(35), 5, 400.0),
    "four sizes": FOUR_STREAM,
}


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with less care: most of the time of these tests is compiling."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def first_look(name: str) -> dict[str, Any]:
    course = COURSES[name]
    design = replace(SMALL, classes=len(course.cluster.class_memory))
    playing = RolloutEnvironment([course], design, size=2, jobs_shown=3)
    playing.reset(0, float("inf"))
    return observe(playing)


def extreme_views() -> dict[str, View]:
    """One environment each: nothing, the least, the most, and everything mixed."""
    flags = v.RUNNABLE_FLAG + v.SCHEDULABLE_FLAG + 4
    nothing = View(
        np.zeros((1, 2, 2, v.STAGE_FIELDS), np.int16),
        np.zeros((1, 2, 2, 1), np.uint32),
        np.zeros((1, 2, v.JOB_FIELDS), np.float32),
        np.array([[1, 0, 0, 0, 0, 1]], np.float32),
    )

    def filled(unstarted: int, task_ms: float, cluster: list[float], age_s: float, work_s: float) -> View:
        stages, jobs = nothing.stages.copy(), nothing.jobs.copy()
        stages[..., v.UNSTARTED] = stages[..., v.DEMAND] = stages[..., v.RUNNING] = unstarted
        stages[..., v.TASK_MS] = round(v.LOG_SCALE * np.log2(1 + task_ms))
        stages[..., v.SLOWDOWN] = round(v.LOG_SCALE * 10)
        stages[..., v.FLAGS] = flags
        jobs[..., v.AGE_S], jobs[..., v.TOTAL_WORK_S], jobs[..., v.PRESENT] = age_s, work_s, 1
        jobs[:, 0, v.SOURCE], jobs[..., v.EXECUTORS] = 1, cluster[4]
        children = np.broadcast_to(np.array([[2], [0]], np.uint32), (1, 2, 2, 1))
        return View(stages, children, jobs, np.array([cluster], np.float32))

    return {
        "nothing": nothing,
        "no free executor": filled(3, 1000, [5, 1, 0, 0, 0, 1], 0, 9),
        "one executor": filled(1, 1, [1, 0, 0, 0, 1, 1], 0, 0.003),
        "10,000 tasks": filled(10_000, 1000, [100_000, 1, 1e6, 1000, 100_000, 1], 1e7, 3e4),
        "tasks of 0 ms": filled(10, 0, [10, 1, 0, 0, 10, 1], 0, 0),
        "tasks of a month": filled(32_767, 2.6e9, [1, 1, 0, 0, 1, 1], 1e8, 2.6e11),
    }
