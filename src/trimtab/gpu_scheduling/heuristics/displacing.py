"""Which running jobs must go, so that one that waits fits.

What a victim would give back is counted so that the job fits for certain: its CPUs, memory and whole GPUs on
each machine; where it holds shares of GPUs, which may lie anywhere, only what one share makes room for.
`machine_score` holds the room on each machine, in instances of the job.
"""

from __future__ import annotations

from trimtab.gpu_scheduling.heuristics.queue import next_by_score
from trimtab.gpu_scheduling.heuristics.words import gang_milli
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot, allowed_on, fits_on

__all__ = ["first_victim", "may_be_displaced"]


def may_be_displaced(snapshot: Snapshot, job: int, min_run_s: float) -> bool:
    """Whether a running job has run long enough, so that jobs do not displace each other in turns."""
    return snapshot.now_ms - snapshot.started_ms[job] >= min_run_s * 1000.0


def first_victim(snapshot: Snapshot, head: int, candidates: int) -> int:
    """The job to displace next, of a heap of candidates in `job_order`; NOWHERE: they would not be enough.

    Candidates are taken until the head fits; then those it does not need are let off.
    """
    within_reach = snapshot.free_total_milli
    for place in range(candidates):
        within_reach += gang_milli(snapshot, snapshot.job_order[place])
    if within_reach < gang_milli(snapshot, head):
        return NOWHERE
    room = 0
    for machine in range(len(snapshot.gpus)):
        fitting = fits_on(snapshot, head, machine)
        snapshot.machine_score[machine] = float(fitting)
        room += fitting
    first = candidates
    while room < snapshot.instances[head]:
        if first == 0:
            return NOWHERE
        victim = next_by_score(snapshot, first)
        first -= 1
        room += room_changed(snapshot, head, victim, first, candidates)
    last = NOWHERE
    for place in range(first, candidates):
        victim = snapshot.job_order[place]
        snapshot.job_order[place] = NOWHERE
        change = room_changed(snapshot, head, victim, first, candidates)
        if room + change >= snapshot.instances[head]:
            room += change
        else:
            snapshot.job_order[place] = victim
            room_changed(snapshot, head, victim, first, candidates)
            last = victim
    return last


def room_changed(snapshot: Snapshot, head: int, victim: int, first: int, end: int) -> int:
    """Count the room for the head anew on the machines of one victim; how much more it is than before."""
    change = 0
    part: int = snapshot.first_part[victim]
    while part != NOWHERE:
        machine = snapshot.part_machine[part]
        room = room_without(snapshot, head, machine, first, end)
        change += room - int(snapshot.machine_score[machine])
        snapshot.machine_score[machine] = float(room)
        part = snapshot.next_part[part]
    return change


def room_without(snapshot: Snapshot, head: int, machine: int, first: int, end: int) -> int:
    """Instances of a job that surely fit on a machine, once the jobs in `job_order[first:end]` are gone."""
    if not allowed_on(snapshot, head, machine):
        return 0
    milli = snapshot.gpu_milli[head]
    gpus = 0
    shares = 0
    cpu_milli = snapshot.free_cpu_milli[machine]
    memory_mib = snapshot.free_memory_mib[machine]
    for place in range(first, end):
        victim: int = snapshot.job_order[place]
        part: int = NOWHERE
        if victim != NOWHERE:
            part = snapshot.first_part[victim]
        while part != NOWHERE:
            if snapshot.part_machine[part] == machine:
                instances = snapshot.part_instances[part]
                if snapshot.gpu_milli[victim] >= WHOLE:
                    gpus += instances * (snapshot.gpu_milli[victim] // WHOLE)
                else:
                    shares += instances * (snapshot.gpu_milli[victim] // milli)
                cpu_milli += instances * snapshot.cpu_milli[victim]
                memory_mib += instances * snapshot.memory_mib[victim]
            part = snapshot.next_part[part]
    room = snapshot.instances[head]
    if milli >= WHOLE:
        room = min(room, (snapshot.free_gpus[machine] + gpus) * WHOLE // milli)
    else:
        shares += gpus * (WHOLE // milli)
        for gpu in range(snapshot.first_gpu[machine], snapshot.first_gpu[machine] + snapshot.gpus[machine]):
            shares += snapshot.free_of_gpu[gpu] // milli
        room = min(room, shares)
    if snapshot.cpu_milli[head] > 0:
        room = min(room, cpu_milli // snapshot.cpu_milli[head])
    if snapshot.memory_mib[head] > 0:
        room = min(room, memory_mib // snapshot.memory_mib[head])
    return room
