"""What one simulated episode leaves behind, and the numbers people judge a scheduler by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.step_functions import count_over_time

__all__ = ["METRICS", "Episode", "TaskLog", "jobs_in_system"]


@dataclass(frozen=True, eq=False)
class TaskLog:
    """Every task that ran, in order of start."""

    job: NDArray[np.int64]  # position of the job in the workload
    stage: NDArray[np.int64]  # position of the stage in the job
    executor: NDArray[np.int64]
    start_ms: NDArray[np.int64]
    end_ms: NDArray[np.int64]
    wave: NDArray[np.int8]  # FRESH, FIRST_WAVE or LATER_WAVE


@dataclass(frozen=True, eq=False)
class Episode:
    """One workload under one policy and one seed; every job has finished."""

    policy: str
    seed: int
    executor_count: int
    job_names: tuple[str, ...]  # kind of each job
    arrival_ms: NDArray[np.int64]
    first_start_ms: NDArray[np.int64]
    completion_ms: NDArray[np.int64]
    alone_ms: NDArray[np.int64]  # time each job takes alone on the same cluster
    busy_ms: int  # executor time spent in tasks
    moving_ms: int  # executor time spent between jobs
    reward: int  # minus the sum of jobs in system over time
    decisions: int
    events: int  # task ends, arrivals of jobs and of executors
    tasks: TaskLog | None = None

    @property
    def jct_ms(self) -> NDArray[np.int64]:
        """Job completion times."""
        return self.completion_ms - self.arrival_ms

    @property
    def makespan_ms(self) -> int:
        return int(self.completion_ms.max() - self.arrival_ms.min())

    def metrics(self) -> dict[str, float]:
        """The row of this episode in a table; times in seconds, shares between 0 and 1."""
        jct_s = self.jct_ms / 1000.0
        capacity_ms = self.executor_count * max(self.makespan_ms, 1)
        return {
            "mean_jct_s": float(jct_s.mean()),
            "p50_jct_s": float(np.percentile(jct_s, 50)),
            "p95_jct_s": float(np.percentile(jct_s, 95)),
            "p99_jct_s": float(np.percentile(jct_s, 99)),
            "mean_slowdown": float((self.jct_ms / np.maximum(self.alone_ms, 1)).mean()),
            "makespan_s": self.makespan_ms / 1000.0,
            "utilisation": self.busy_ms / capacity_ms,
            "longest_wait_s": float((self.first_start_ms - self.arrival_ms).max()) / 1000.0,
            "moving_share": self.moving_ms / capacity_ms,
        }


METRICS: dict[str, str] = {
    "mean_jct_s": "mean job completion time",
    "p50_jct_s": "median job completion time",
    "p95_jct_s": "95th percentile of job completion times",
    "p99_jct_s": "99th percentile of job completion times",
    "mean_slowdown": "completion time over that of the same job alone on the cluster, mean",
    "makespan_s": "first arrival to last completion",
    "utilisation": "share of executor time spent in tasks",
    "longest_wait_s": "longest time from arrival to first task (starvation)",
    "moving_share": "share of executor time lost to moving between jobs",
}


def jobs_in_system(episode: Episode) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times and the number of unfinished jobs from each of them on (a step function)."""
    return count_over_time(episode.arrival_ms, episode.completion_ms)
