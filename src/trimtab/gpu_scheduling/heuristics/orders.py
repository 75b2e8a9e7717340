"""Which job goes first: `order(snapshot, job, parameters)`, lower first, equal ones in order of arrival.

An order looks at one job, waiting or running, and at what is free; it must not write anything.
"""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.heuristics.rule import Parameters
from trimtab.gpu_scheduling.heuristics.words import (
    age_ms,
    attained_gpu_ms,
    expected_ms,
    gang_milli,
    other_capacity,
    run_ms,
    shuffled,
    work_left_ms,
)
from trimtab.gpu_scheduling.problem import WHOLE, Snapshot

__all__ = [
    "aged_smallest",
    "drf",
    "expansion_factor",
    "fifo",
    "largest",
    "las",
    "qssf",
    "random_order",
    "sjf",
    "smallest",
    "srsf",
    "srtf",
    "tetris_order",
    "themis",
    "tiresias",
    "unicef",
    "wfp",
]

MINUTE = 60_000.0
HOUR = 3_600_000.0
NEXT_QUEUE = 1e15
"""More than any time of arrival in milliseconds: 30,000 years."""


# --- without knowledge of durations ------------------------------------------------------------------------


def fifo(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """In order of arrival."""
    return float(snapshot.arrival_ms[job])


def smallest(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Fewest GPUs first.

    For gangs that cannot shrink this is dominant resource fairness between jobs (DRF, NSDI'11).
    """
    return float(gang_milli(snapshot, job))


def largest(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Most GPUs first."""
    return -float(gang_milli(snapshot, job))


def aged_smallest(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Fewest GPUs first, but age counts: GPUs / (1 + minutes since arrival)^power.

    With power 0 it is `smallest`; the larger the power, the nearer to the order of arrival.
    """
    return gang_milli(snapshot, job) / (1.0 + age_ms(snapshot, job) / MINUTE) ** parameters[0]


def drf(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """The user first who would hold the smallest dominant share of the cluster (DRF).

    The share is the largest of the user's shares of GPUs, CPUs and memory, this job included.
    """
    cpu_capacity, memory_capacity = other_capacity(snapshot)
    milli = gang_milli(snapshot, job)
    cpu_milli = snapshot.instances[job] * snapshot.cpu_milli[job]
    memory_mib = snapshot.instances[job] * snapshot.memory_mib[job]
    for other in snapshot.running:
        if snapshot.user[other] == snapshot.user[job] and other != job:
            milli += gang_milli(snapshot, other)
            cpu_milli += snapshot.instances[other] * snapshot.cpu_milli[other]
            memory_mib += snapshot.instances[other] * snapshot.memory_mib[other]
    share = milli / (snapshot.total_gpus * WHOLE)
    if cpu_capacity > 0:
        share = max(share, cpu_milli / cpu_capacity)
    if memory_capacity > 0:
        share = max(share, memory_mib / memory_capacity)
    return share


def las(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Least GPU time attained first (LAS)."""
    return attained_gpu_ms(snapshot, job)


def tiresias(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Two queues by GPU time attained, in order of arrival within each (Tiresias, NSDI'19).

    A job with `threshold` GPU-seconds or more is in the second. Where `promote` > 0, it is back in the first
    while it has waited longer than `promote` times as long as it has run.
    """
    threshold, promote = parameters[0], parameters[1]
    arrival = float(snapshot.arrival_ms[job])
    if attained_gpu_ms(snapshot, job) < threshold * 1000.0:
        return arrival
    ran = run_ms(snapshot, job)
    if promote > 0.0 and age_ms(snapshot, job) - ran > promote * ran:
        return arrival
    return NEXT_QUEUE + arrival


def tetris_order(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """The job whose demand matches best what is free, less work left preferred (Tetris, SIGCOMM'14).

    The match is the sum over GPUs, CPUs and memory of (demand x free) / capacity^2. From it goes `shortness`
    times the hours the whole cluster would need for the work left, where that is known.
    """
    shortness = parameters[0]
    cpu_capacity, memory_capacity = other_capacity(snapshot)
    gpu_capacity = float(snapshot.total_gpus * WHOLE)
    match = gang_milli(snapshot, job) / gpu_capacity * (snapshot.free_total_milli / gpu_capacity)
    cpu_demand = snapshot.instances[job] * snapshot.cpu_milli[job]
    memory_demand = snapshot.instances[job] * snapshot.memory_mib[job]
    if cpu_demand > 0 or memory_demand > 0:
        free_cpu = 0
        free_memory = 0
        for machine in range(len(snapshot.gpus)):
            free_cpu += snapshot.free_cpu_milli[machine]
            free_memory += snapshot.free_memory_mib[machine]
        if cpu_demand > 0:
            match += cpu_demand / cpu_capacity * (free_cpu / cpu_capacity)
        if memory_demand > 0:
            match += memory_demand / memory_capacity * (free_memory / memory_capacity)
    if math.isnan(snapshot.expected_ms[job]):
        return -match
    gpu_hours = work_left_ms(snapshot, job) / HOUR * (gang_milli(snapshot, job) / WHOLE)
    return shortness * gpu_hours / snapshot.total_gpus - match


def random_order(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """In random order."""
    return shuffled(snapshot.job_id[job], 0, int(parameters[0]))


# --- with durations, predicted or true ---------------------------------------------------------------------


def sjf(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Shortest expected duration first (SJF)."""
    return expected_ms(snapshot, job)


def srtf(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Shortest remaining time first (SRTF)."""
    return work_left_ms(snapshot, job)


def srsf(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Least remaining GPU time first (SRSF)."""
    return work_left_ms(snapshot, job) * gang_milli(snapshot, job)


def qssf(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Least expected GPU time first (QSSF, SC'21)."""
    return expected_ms(snapshot, job) * gang_milli(snapshot, job)


def themis(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """The job treated worst first: completion time over that with an equal share (Themis, NSDI'20).

    Time since arrival plus work left, over the expected duration with an equal share of the cluster: a gang
    of g of G GPUs among n jobs would take g*n/G times as long, where that is more than 1.
    """
    jobs = len(snapshot.pending) + len(snapshot.running)
    share = max(jobs * gang_milli(snapshot, job) / (snapshot.total_gpus * float(WHOLE)), 1.0)
    expected = expected_ms(snapshot, job)
    if expected == math.inf:
        return 0.0
    return -(age_ms(snapshot, job) + work_left_ms(snapshot, job)) / (max(expected, 1.0) * share)


def expansion_factor(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Largest expansion factor first: (wait + duration) / duration."""
    waited = max(age_ms(snapshot, job) - run_ms(snapshot, job), 0.0)
    return -(1.0 + waited / max(expected_ms(snapshot, job), 1.0))


def wfp(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Largest (wait / duration)^power x GPUs first (WFP3)."""
    waited = max(age_ms(snapshot, job) - run_ms(snapshot, job), 0.0)
    factor = waited / max(expected_ms(snapshot, job), 1.0)
    return -(factor ** parameters[0]) * gang_milli(snapshot, job) / WHOLE


def unicef(snapshot: Snapshot, job: int, parameters: Parameters) -> float:
    """Largest wait / (duration x log GPUs) first: small and short jobs gain soonest (UNICEF)."""
    waited = max(age_ms(snapshot, job) - run_ms(snapshot, job), 0.0)
    size = math.log2(1.0 + gang_milli(snapshot, job) / WHOLE)
    return -waited / (max(expected_ms(snapshot, job), 1.0) * size)
