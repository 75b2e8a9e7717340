"""Words that orders, placements and disciplines share. Plain loops: compiled in replay."""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.problem import NOWHERE, WAIT, WHOLE, Action, Snapshot, allowed_on

__all__ = [
    "age_ms",
    "attained_gpu_ms",
    "best_rate",
    "crowding",
    "expected_end_ms",
    "expected_ms",
    "gang_milli",
    "hold",
    "other_capacity",
    "rate_if_started",
    "run_ms",
    "shuffled",
    "work_left_ms",
]

_WORD = 0xFFFFFFFF
_MIXER = 0x45D9F3B


def hold(snapshot: Snapshot) -> Action:
    """`HOLD`, with an array of the kind the other actions have."""
    return Action(WAIT, NOWHERE, snapshot.machine_order[:0], NOWHERE)


def gang_milli(snapshot: Snapshot, job: int) -> int:
    """Thousandths of GPUs that all instances of a job need together."""
    return snapshot.instances[job] * snapshot.gpu_milli[job]


def age_ms(snapshot: Snapshot, job: int) -> float:
    """Time since the job came."""
    return float(snapshot.now_ms - snapshot.arrival_ms[job])


def run_ms(snapshot: Snapshot, job: int) -> float:
    """Time the job has run, all starts together."""
    if snapshot.rate[job] > 0.0:
        return float(snapshot.attained_ms[job] + snapshot.now_ms - snapshot.started_ms[job])
    return float(snapshot.attained_ms[job])


def attained_gpu_ms(snapshot: Snapshot, job: int) -> float:
    """GPU-milliseconds the job has had."""
    return run_ms(snapshot, job) * gang_milli(snapshot, job) / WHOLE


def expected_ms(snapshot: Snapshot, job: int) -> float:
    """Duration at the reference speed; what nobody knows counts as endless."""
    expected = snapshot.expected_ms[job]
    return math.inf if math.isnan(expected) else expected


def work_left_ms(snapshot: Snapshot, job: int) -> float:
    """Work left at the reference speed; what nobody knows counts as endless."""
    done = snapshot.done_ms[job] + snapshot.rate[job] * (snapshot.now_ms - snapshot.since_ms[job])
    return max(expected_ms(snapshot, job) - done, 0.0)


def expected_end_ms(snapshot: Snapshot, job: int) -> float:
    """When a running job is expected to end, at its present speed."""
    return snapshot.now_ms + work_left_ms(snapshot, job) / snapshot.rate[job]


def crowding(snapshot: Snapshot, job: int, machine: int) -> float:
    """How much slower the jobs on a machine would make one that waits: 0.2 is a time of 1.2."""
    sensitivity = snapshot.sensitivity[job] / 1000.0
    return snapshot.contention * sensitivity * (snapshot.load[machine] / 1e6) / snapshot.gpus[machine]


def rate_if_started(snapshot: Snapshot, job: int, count: int) -> float:
    """Rate of a job that waits, if it were started on `machine_order[:count]`, each of which takes some."""
    slowest = math.inf
    racks = 1
    for place in range(count):
        machine: int = snapshot.machine_order[place]
        alone: float = snapshot.nominal[snapshot.kind[job], machine]
        slowest = min(slowest, alone / (1.0 + crowding(snapshot, job, machine)))
        if snapshot.rack[machine] != snapshot.rack[snapshot.machine_order[0]]:
            racks = 2
    spread = 0.0
    if count > 1:
        across = snapshot.across_racks if racks > 1 else 0.0
        spread = snapshot.communication_weight * snapshot.communication[job] * (1.0 + across)
    return slowest / (1.0 + spread)


def best_rate(snapshot: Snapshot, job: int) -> float:
    """Rate of a job on the best machines of an empty cluster."""
    fastest = 0.0
    largest = 0
    for machine in range(len(snapshot.gpus)):
        if allowed_on(snapshot, job, machine):
            fastest = max(fastest, snapshot.nominal[snapshot.kind[job], machine])
            largest = max(largest, snapshot.gpus[machine])
    if gang_milli(snapshot, job) <= largest * WHOLE:
        return fastest
    return fastest / (1.0 + snapshot.communication_weight * snapshot.communication[job])


def other_capacity(snapshot: Snapshot) -> tuple[int, int]:
    """Thousandths of CPUs and MiB of memory of the whole cluster: what is free and what jobs hold."""
    cpu_milli, memory_mib = 0, 0
    for machine in range(len(snapshot.gpus)):
        cpu_milli += snapshot.free_cpu_milli[machine]
        memory_mib += snapshot.free_memory_mib[machine]
    for place in range(len(snapshot.running)):
        job: int = snapshot.running[place]
        cpu_milli += snapshot.instances[job] * snapshot.cpu_milli[job]
        memory_mib += snapshot.instances[job] * snapshot.memory_mib[job]
    return cpu_milli, memory_mib


def shuffled(first: int, second: int, seed: int) -> float:
    """A number in [0, 1) that looks random and is the same for the same three numbers."""
    word = seed & _WORD
    for part in (first, second, 0):
        word = (word + part + 1) & _WORD
        word = ((word ^ (word >> 16)) * _MIXER) & _WORD
        word = ((word ^ (word >> 16)) * _MIXER) & _WORD
    return (word ^ (word >> 16)) / (_WORD + 1.0)
