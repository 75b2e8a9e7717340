"""What one simulated episode leaves behind, and the numbers people judge a GPU scheduler by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.step_functions import count_over_time

__all__ = ["METRICS", "Episode", "RunLog", "jobs_in_system"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RunLog:
    """Every stay of a job on a machine, in order of its end: one row per part and start."""

    job: Integers  # position of the job in the workload
    machine: Integers
    gpu_mask: NDArray[np.uint64]  # bit g: holds GPU g of the machine (or a share of it)
    milli: Integers  # thousandths of GPUs held
    start_ms: Integers
    end_ms: Integers
    completed: NDArray[np.bool_]  # the job was complete at the end of this stay; else it was preempted


@dataclass(frozen=True, eq=False)
class Episode:
    """One workload under one policy and one seed; every job has finished."""

    policy: str
    seed: int
    machine_names: tuple[str, ...]
    machine_gpus: Integers
    gpus: Floats  # by job
    arrival_ms: Integers
    first_start_ms: Integers
    completion_ms: Integers
    duration_ms: Integers  # alone, at the reference speed
    alone_ms: Integers  # alone on the best machines of the same cluster
    run_ms: Integers  # by job: time it ran, all starts together
    fee: Floats  # dollars, by job
    preemptions: Integers
    busy_gpu_ms: float  # GPU time held by jobs
    stranded_gpu_ms: float  # free GPU time while jobs waited
    reward: int  # minus the sum of jobs in system over time
    decisions: int
    events: int  # arrivals, ends, and steps of drift
    runs: RunLog | None = None

    @property
    def jct_ms(self) -> Integers:
        """Job completion times."""
        return self.completion_ms - self.arrival_ms

    @property
    def makespan_ms(self) -> int:
        return int(self.completion_ms.max() - self.arrival_ms.min())

    @property
    def total_gpus(self) -> int:
        return int(self.machine_gpus.sum())

    @property
    def slowdown(self) -> Floats:
        """Completion time over that of the same job alone on the cluster."""
        return self.jct_ms / np.maximum(self.alone_ms, 1)

    @property
    def fairness(self) -> Floats:
        """Finish-time fairness of each job: its completion time over that with an equal share of the cluster.

        After Themis (NSDI'20). With `n` jobs in the system on average during its stay, a job's own share of
        G GPUs is G/n; a gang of g GPUs that needs more would take g·n/G times as long.
        """
        moments, level = jobs_in_system(self)
        area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(moments))])
        at = [area[np.searchsorted(moments, times)] for times in (self.arrival_ms, self.completion_ms)]
        beside = (at[1] - at[0]) / np.maximum(self.jct_ms, 1)
        share = np.maximum(beside * self.gpus / self.total_gpus, 1.0)
        return self.slowdown / share

    def metrics(self) -> dict[str, float]:
        """The row of this episode in a table; times in minutes, shares between 0 and 1."""
        jct_min = self.jct_ms / 60_000.0
        slowdown, fairness = self.slowdown, self.fairness
        capacity = self.total_gpus * max(self.makespan_ms, 1)
        return {
            "mean_jct_min": float(jct_min.mean()),
            "p50_jct_min": float(np.percentile(jct_min, 50)),
            "p95_jct_min": float(np.percentile(jct_min, 95)),
            "p99_jct_min": float(np.percentile(jct_min, 99)),
            "mean_fee": float(self.fee.mean()),
            "mean_wait_min": float((self.jct_ms - self.run_ms).mean()) / 60_000.0,
            "mean_slowdown": float(slowdown.mean()),
            "p50_slowdown": float(np.percentile(slowdown, 50)),
            "p95_slowdown": float(np.percentile(slowdown, 95)),
            "p99_slowdown": float(np.percentile(slowdown, 99)),
            "mean_unfairness": float(fairness.mean()),
            "worst_unfairness": float(fairness.max()),
            "utilisation": self.busy_gpu_ms / capacity,
            "fragmentation": self.stranded_gpu_ms / capacity,
            "makespan_min": self.makespan_ms / 60_000.0,
            "longest_wait_min": float((self.first_start_ms - self.arrival_ms).max()) / 60_000.0,
            "preemptions": float(self.preemptions.mean()),
        }


METRICS: dict[str, str] = {
    "mean_jct_min": "mean job completion time",
    "p50_jct_min": "median job completion time",
    "p95_jct_min": "95th percentile of job completion times",
    "p99_jct_min": "99th percentile of job completion times",
    "mean_fee": "dollars for the GPUs a job holds while it runs, mean",
    "mean_wait_min": "time a job waits, mean",
    "mean_slowdown": "completion time over that of the same job alone on the cluster, mean",
    "p50_slowdown": "median of slowdowns",
    "p95_slowdown": "95th percentile of slowdowns",
    "p99_slowdown": "99th percentile of slowdowns",
    "mean_unfairness": "finish-time fairness: completion time over that with an equal share, mean",
    "worst_unfairness": "finish-time fairness of the job treated worst",
    "utilisation": "share of GPU time held by jobs",
    "fragmentation": "share of GPU time that lay free while jobs waited",
    "makespan_min": "first arrival to last completion",
    "longest_wait_min": "longest time from arrival to first start (starvation)",
    "preemptions": "times a job was stopped, mean",
}


def jobs_in_system(episode: Episode) -> tuple[Integers, Integers]:
    """Times and the number of unfinished jobs from each of them on (a step function)."""
    return count_over_time(episode.arrival_ms, episode.completion_ms)
