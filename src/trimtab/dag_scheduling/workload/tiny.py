"""Tiny workloads whose best schedule can be found by trying everything, and random jobs like theirs.

Every task of a stage takes the same time, wherever and whenever it runs, so what is left to decide
is who does what, and when it pays to move.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import split
from trimtab.dag_scheduling.workload.jobs import Provenance, Workload
from trimtab.dag_scheduling.workload.profile import JobRecord, Profile, StageRecord, build_profile

__all__ = ["TINY", "random_small_job", "small_profile", "tiny_workload"]

SMALL_JOBS = 300

# name -> jobs as (arrival in ms, stages as (tasks, milliseconds per task, parents)).
TINY: dict[str, Sequence[tuple[int, Sequence[tuple[int, int, Sequence[int]]]]]] = {
    "chain": [(0, [(2, 3000, ()), (1, 2000, (0,)), (2, 1000, (1,))])],
    "diamond": [(0, [(1, 1000, ()), (2, 4000, (0,)), (1, 3000, (0,)), (1, 1000, (1, 2))])],
    "fork-join": [
        (0, [(1, 5000, ()), (2, 2000, ()), (2, 3000, ()), (1, 1000, (0, 1, 2))]),
    ],
    "two-jobs": [(0, [(4, 4000, ()), (1, 1000, (0,))]), (0, [(1, 1000, ()), (1, 1000, (0,))])],
    "three-sizes": [(0, [(4, 3000, ())]), (0, [(2, 2000, ())]), (0, [(1, 1000, ())])],
    "late-small": [(0, [(3, 6000, ())]), (3000, [(1, 1000, ()), (1, 500, (0,))])],
}


def tiny_workload(name: str) -> Workload:
    """Look up one of the tiny workloads.

    >>> tiny_workload("diamond").task_count
    5
    """
    if name not in TINY:
        close = difflib.get_close_matches(name, TINY, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise WorkloadError(f"no tiny workload {name!r}; {hint}known: {', '.join(TINY)}")
    jobs = TINY[name]
    records = [
        JobRecord(f"{name} {number}", [_stage(*stage) for stage in stages])
        for number, (_, stages) in enumerate(jobs, start=1)
    ]
    arrivals = np.array([arrival for arrival, _ in jobs], np.int64)
    return Workload(build_profile(records), np.arange(len(jobs)), arrivals, Provenance(f"tiny {name}"))


def _stage(tasks: int, task_ms: int, parents: Sequence[int]) -> StageRecord:
    always = {1: [task_ms]}
    return StageRecord(tasks, parents, fresh=always, first_wave=always, later_wave=always)


def small_profile(seed: int = 0) -> Profile:
    """Random jobs of one to three stages and a few tasks: work for clusters of a few executors.

    >>> small_profile(7).stage_count.max()
    np.int64(3)
    """
    random = np.random.default_rng(split(seed, "small"))
    return build_profile([random_small_job(random, number) for number in range(SMALL_JOBS)])


def random_small_job(random: np.random.Generator, number: int) -> JobRecord:
    """One to three stages of one to four tasks of 1 to 30 s, short ones as often as long ones."""
    stages: list[StageRecord] = []
    for position in range(int(random.integers(1, 4))):
        task_ms = 1000 * round(30 ** random.random())
        tasks = int(random.integers(1, 5))
        stages.append(_stage(tasks, task_ms, [parent for parent in range(position) if random.random() < 0.6]))
    return JobRecord(f"job {number}", stages)
