"""Tiny workloads, each with a cluster and the best mean completion time there is, found by hand.

Each teaches one thing a scheduler must know. Jobs are never stopped once they run (no preemption).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from trimtab.core.errors import WorkloadError
from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.workload.jobs import Workload, make_workload

__all__ = ["TINY", "TinyCase", "TinyJob", "tiny_case", "tiny_workload"]

MINUTE_MS = 60_000


@dataclass(frozen=True)
class TinyJob:
    """One job of a tiny workload; times in minutes."""

    minutes: float
    gpus: int = 1
    arrives: float = 0.0
    communication: float = 0.0


@dataclass(frozen=True)
class TinyCase:
    """Jobs, their cluster, and the best answer."""

    lesson: str
    jobs: tuple[TinyJob, ...]
    cluster: Cluster
    best_mean_jct_ms: int


def _machines(*gpus_and_speed: tuple[int, float], contention: float = 0.0) -> Cluster:
    groups = (MachineGroup(gpus=gpus, speed=speed) for gpus, speed in gpus_and_speed)
    return Cluster(machines=tuple(groups), contention=contention)


TINY: dict[str, TinyCase] = {
    # 1, then 2, then 3 minutes end at 1, 3 and 6; in order of arrival they end at 3, 4 and 6.
    "short-first": TinyCase(
        "short jobs go first",
        (TinyJob(3), TinyJob(1), TinyJob(2)),
        _machines((1, 1.0)),
        best_mean_jct_ms=200_000,
    ),
    # Four small jobs end at 1, the gang at 3: 7 minutes in all; the gang first: 2 + 4 x 3 = 14.
    "gang": TinyCase(
        "four short jobs go before a gang of four GPUs",
        (TinyJob(2, gpus=4), *[TinyJob(1)] * 4),
        _machines((4, 1.0)),
        best_mean_jct_ms=84_000,
    ),
    # Long on fast, short on slow: 6 + 2 / 0.8 = 8.5; swapped 9.5; both on the fast one 2 + 8 = 10.
    "fast-machine": TinyCase(
        "the long job gets the fast machine",
        (TinyJob(2), TinyJob(6)),
        _machines((1, 1.0), (1, 0.8)),
        best_mean_jct_ms=255_000,
    ),
    # The small ones side by side leave a whole machine: 4 + 4 + 4; spread, the gang takes 4 x 1.5.
    "consolidate": TinyCase(
        "small jobs share a machine so that a gang fits on the other",
        (TinyJob(4), TinyJob(4), TinyJob(4, gpus=2, communication=0.5)),
        _machines((2, 1.0), (2, 1.0)),
        best_mean_jct_ms=240_000,
    ),
    # Alone on a machine both take 4 minutes; together each is slowed down by the other.
    "apart": TinyCase(
        "jobs that disturb each other go to different machines",
        (TinyJob(4), TinyJob(4)),
        _machines((2, 1.0), (2, 1.0), contention=0.5),
        best_mean_jct_ms=240_000,
    ),
    # The gang comes at 1 and runs to 2, then the long job to 12: 12 + 1; started at once: 10 + 10.
    "hold": TinyCase(
        "a long job is held back for a gang that comes soon",
        (TinyJob(10), TinyJob(1, gpus=2, arrives=1)),
        _machines((2, 1.0)),
        best_mean_jct_ms=390_000,
    ),
}


def tiny_case(name: str) -> TinyCase:
    """Look up one of the tiny cases.

    >>> tiny_case("gang").best_mean_jct_ms
    84000
    """
    if name not in TINY:
        close = difflib.get_close_matches(name, TINY, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise WorkloadError(f"no tiny workload {name!r}; {hint}known: {', '.join(TINY)}")
    return TINY[name]


def tiny_workload(name: str) -> Workload:
    """The jobs of a tiny case.

    >>> tiny_workload("gang").gpus.tolist()
    [4.0, 1.0, 1.0, 1.0, 1.0]
    """
    jobs = tiny_case(name).jobs
    return make_workload(
        [round(job.arrives * MINUTE_MS) for job in jobs],
        duration_ms=[round(job.minutes * MINUTE_MS) for job in jobs],
        gpus=[job.gpus for job in jobs],
        group=range(len(jobs)),
        communication=[job.communication for job in jobs],
        source=f"tiny {name}",
    )
