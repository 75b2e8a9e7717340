"""Which running job had better be somewhere else.

What a job holds now counts as free for itself. `machine_order` holds the room on each machine, in instances
of the job, `machine_score` its speed there.
"""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.heuristics.displacing import may_be_displaced
from trimtab.gpu_scheduling.heuristics.words import best_rate
from trimtab.gpu_scheduling.problem import NOWHERE, Snapshot, fits_on

__all__ = ["badly_placed", "rate_if_moved"]

TAKEN = -1.0


def badly_placed(snapshot: Snapshot, gain: float, after_s: float) -> int:
    """The job that would become faster by the largest factor above `gain`; NOWHERE: none, or `gain` is 0."""
    worst = NOWHERE
    if gain == 0.0 or snapshot.free_total_milli == 0:
        return worst
    most = gain
    for job in snapshot.running:
        if not may_be_displaced(snapshot, job, after_s):
            continue
        if gain * snapshot.rate[job] >= best_rate(snapshot, job):
            continue
        factor = rate_if_moved(snapshot, job) / snapshot.rate[job]
        if factor > most:
            worst, most = job, factor
    return worst


def rate_if_moved(snapshot: Snapshot, job: int) -> float:
    """Rate of a running job on one machine, or on the fastest ones, of those that it and nobody hold."""
    room, speed = snapshot.machine_order, snapshot.machine_score
    needed = snapshot.instances[job]
    for machine in range(len(snapshot.gpus)):
        room[machine] = fits_on(snapshot, job, machine)
        speed[machine] = speed_beside_others(snapshot, job, machine, 0)
    part: int = snapshot.first_part[job]
    while part != NOWHERE:
        holding: int = snapshot.part_machine[part]
        instances: int = snapshot.part_instances[part]
        room[holding] += instances
        speed[holding] = speed_beside_others(snapshot, job, holding, instances)
        part = snapshot.next_part[part]
    best = 0.0
    for machine in range(len(snapshot.gpus)):
        if room[machine] >= needed:
            best = max(best, speed[machine])
    slowest = math.inf
    first_rack, racks = NOWHERE, 0
    while needed > 0:
        fastest = NOWHERE
        for machine in range(len(snapshot.gpus)):
            if room[machine] > 0 and speed[machine] > (TAKEN if fastest == NOWHERE else speed[fastest]):
                fastest = machine
        if fastest == NOWHERE:
            return best
        if racks == 0 or (racks == 1 and snapshot.rack[fastest] != first_rack):
            first_rack, racks = snapshot.rack[fastest], racks + 1
        slowest = speed[fastest]
        speed[fastest] = TAKEN
        needed -= room[fastest]
    across = snapshot.across_racks if racks > 1 else 0.0
    spread = snapshot.communication_weight * snapshot.communication[job] * (1.0 + across)
    return max(best, slowest / (1.0 + spread))


def speed_beside_others(snapshot: Snapshot, job: int, machine: int, instances: int) -> float:
    """Speed of a job that runs, beside the others on a machine where it has so many instances."""
    sensitivity = snapshot.sensitivity[job]
    others = snapshot.load[machine] - sensitivity * instances * snapshot.gpu_milli[job]
    crowd = snapshot.contention * (sensitivity / 1000.0) * (others / 1e6) / snapshot.gpus[machine]
    return snapshot.nominal[snapshot.kind[job], machine] / (1.0 + crowd)
