"""Where a job goes: `placement(snapshot, job, parameters)`.

It writes machines in order of preference to `snapshot.machine_order` and returns how many, and the GPU for a
share of one (NOWHERE: the engine's choice). It returns 0 machines when, and only when, the gang does not fit;
disciplines count on that. Equal machines: the one with the lower number.

A placement writes `machine_order` and `machine_score`; `job_order` and `job_score` are the discipline's.
"""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.heuristics.fragments import added_fragments
from trimtab.gpu_scheduling.heuristics.rule import Parameters
from trimtab.gpu_scheduling.heuristics.words import (
    crowding,
    gang_milli,
    other_capacity,
    shuffled,
)
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot, fits_on

__all__ = [
    "best_fit",
    "fast",
    "fgd",
    "first_fit",
    "load_balance",
    "random_place",
    "tetris_place",
    "worst_fit",
]

NEVER = -math.inf
"""Score of a machine that has no room for the job."""


# --- the simple ones ---------------------------------------------------------------------------------------


def first_fit(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """On the machines with the lowest numbers."""
    needed = snapshot.instances[job]
    milli = snapshot.gpu_milli[job]
    if needed * milli > snapshot.free_total_milli:
        return 0, NOWHERE
    count = 0
    for machine in range(len(snapshot.gpus)):
        if snapshot.free_milli[machine] < milli:
            continue
        room = fits_on(snapshot, job, machine)
        if room > 0:
            snapshot.machine_order[count] = machine
            count += 1
            needed -= room
            if needed <= 0:
                return count, NOWHERE
    return 0, NOWHERE


def load_balance(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """On the machines with the largest share of their GPUs free."""
    if gang_milli(snapshot, job) > snapshot.free_total_milli:
        return 0, NOWHERE
    for machine in range(len(snapshot.gpus)):
        snapshot.machine_score[machine] = NEVER
        if snapshot.free_milli[machine] >= snapshot.gpu_milli[job] and fits_on(snapshot, job, machine) > 0:
            snapshot.machine_score[machine] = snapshot.free_milli[machine] / snapshot.gpus[machine]
    return highest_first(snapshot, job), NOWHERE


def worst_fit(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """On the machines with most GPUs free."""
    if gang_milli(snapshot, job) > snapshot.free_total_milli:
        return 0, NOWHERE
    for machine in range(len(snapshot.gpus)):
        snapshot.machine_score[machine] = NEVER
        if snapshot.free_milli[machine] >= snapshot.gpu_milli[job] and fits_on(snapshot, job, machine) > 0:
            snapshot.machine_score[machine] = float(snapshot.free_milli[machine])
    return highest_first(snapshot, job), NOWHERE


def random_place(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """On random machines, and GPUs for shares."""
    if gang_milli(snapshot, job) > snapshot.free_total_milli:
        return 0, NOWHERE
    seed = int(parameters[0])
    for machine in range(len(snapshot.gpus)):
        snapshot.machine_score[machine] = NEVER
        if snapshot.free_milli[machine] >= snapshot.gpu_milli[job] and fits_on(snapshot, job, machine) > 0:
            snapshot.machine_score[machine] = shuffled(snapshot.job_id[job], machine, seed)
    count = highest_first(snapshot, job)
    if count != 1 or snapshot.gpu_milli[job] >= WHOLE:
        return count, NOWHERE
    machine: int = snapshot.machine_order[0]
    chosen, highest = NOWHERE, -1.0
    for place in range(snapshot.gpus[machine]):
        gpu = snapshot.first_gpu[machine] + place
        number = shuffled(snapshot.job_id[job], len(snapshot.gpus) + gpu, seed)
        if snapshot.free_of_gpu[gpu] >= snapshot.gpu_milli[job] and number > highest:
            chosen, highest = place, number
    return count, chosen


def tetris_place(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """On the machines whose free GPUs, CPUs and memory match the demand best (Tetris)."""
    if gang_milli(snapshot, job) > snapshot.free_total_milli:
        return 0, NOWHERE
    cpu_capacity, memory_capacity = other_capacity(snapshot)
    gpu_weight = snapshot.gpu_milli[job] / (snapshot.total_gpus * WHOLE) / (snapshot.total_gpus * WHOLE)
    cpu_weight, memory_weight = 0.0, 0.0
    if snapshot.cpu_milli[job] > 0:
        cpu_weight = snapshot.cpu_milli[job] / cpu_capacity / cpu_capacity
    if snapshot.memory_mib[job] > 0:
        memory_weight = snapshot.memory_mib[job] / memory_capacity / memory_capacity
    for machine in range(len(snapshot.gpus)):
        snapshot.machine_score[machine] = NEVER
        if snapshot.free_milli[machine] >= snapshot.gpu_milli[job] and fits_on(snapshot, job, machine) > 0:
            snapshot.machine_score[machine] = (
                gpu_weight * snapshot.free_milli[machine]
                + cpu_weight * snapshot.free_cpu_milli[machine]
                + memory_weight * snapshot.free_memory_mib[machine]
            )
    return highest_first(snapshot, job), NOWHERE


def highest_first(snapshot: Snapshot, job: int) -> int:
    """Machines by `machine_score` until the gang has its place; how many, 0 when it does not fit."""
    needed = snapshot.instances[job]
    count = 0
    while needed > 0:
        best = NOWHERE
        score = NEVER
        for machine in range(len(snapshot.gpus)):
            if snapshot.machine_score[machine] > score:
                best, score = machine, snapshot.machine_score[machine]
        if best == NOWHERE:
            return 0
        snapshot.machine_order[count] = best
        count += 1
        needed -= fits_on(snapshot, job, best)
        snapshot.machine_score[best] = NEVER
    return count


# --- consolidated ------------------------------------------------------------------------------------------


def best_fit(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """On the one machine that has least left then, else on few machines and racks."""
    needed = snapshot.instances[job]
    milli = snapshot.gpu_milli[job]
    wanted = needed * milli
    if wanted > snapshot.free_total_milli:
        return 0, NOWHERE
    best = tightest(snapshot, wanted)
    if best != NOWHERE and fits_on(snapshot, job, best) < needed:
        best = tightest_that_fits(snapshot, job, wanted)
    if best != NOWHERE:
        snapshot.machine_order[0] = best
        return 1, NOWHERE
    if needed == 1:
        return 0, NOWHERE
    return few_machines(snapshot, job), NOWHERE


def tightest(snapshot: Snapshot, wanted: int) -> int:
    """The machine with least free of those with so many thousandths free, wherever on it; NOWHERE: none."""
    nothing = (1 << 62) - 1
    least = nothing
    for machine in range(len(snapshot.gpus)):
        free = snapshot.free_milli[machine]
        least = min(least, free if free >= wanted else nothing)
    if least < nothing:
        for machine in range(len(snapshot.gpus)):
            if snapshot.free_milli[machine] == least:
                return machine
    return NOWHERE


def tightest_that_fits(snapshot: Snapshot, job: int, wanted: int) -> int:
    """The same, of those on which the whole gang fits."""
    best = NOWHERE
    least = (1 << 62) - 1
    for machine in range(len(snapshot.gpus)):
        free = snapshot.free_milli[machine]
        if wanted <= free < least and fits_on(snapshot, job, machine) >= snapshot.instances[job]:
            best, least = machine, free
            if free == wanted:
                break
    return best


def few_machines(snapshot: Snapshot, job: int) -> int:
    """Machines for a gang that no single one holds: few racks, and few machines in each."""
    found = 0
    for machine in range(len(snapshot.gpus)):
        room = 0
        if snapshot.free_milli[machine] >= snapshot.gpu_milli[job]:
            room = fits_on(snapshot, job, machine)
        snapshot.machine_score[machine] = float(room)
        found += room
    needed = snapshot.instances[job]
    if found < needed:
        return 0
    count = 0
    while needed > 0:
        rack = best_rack(snapshot, needed)
        while needed > 0:
            machine = tightest_or_largest(snapshot, needed, rack)
            if machine == NOWHERE:
                break
            snapshot.machine_order[count] = machine
            count += 1
            needed -= int(snapshot.machine_score[machine])
            snapshot.machine_score[machine] = 0.0
    return count


def best_rack(snapshot: Snapshot, needed: int) -> int:
    """The rack with least room of those that hold all that is needed, else the one with most.

    `machine_score` is the room of each machine.
    """
    machines = len(snapshot.gpus)
    side_by_side = True
    for machine in range(1, machines):
        side_by_side &= snapshot.rack[machine - 1] <= snapshot.rack[machine]
    best = NOWHERE
    best_room = 0.0
    last = NOWHERE
    for first in range(machines):
        rack = snapshot.rack[first]
        if snapshot.machine_score[first] == 0.0 or rack == last:
            continue
        last = rack
        room = 0.0
        for machine in range(first if side_by_side else 0, machines):
            if snapshot.rack[machine] == rack:
                room += snapshot.machine_score[machine]
            elif side_by_side:
                break
        if best == NOWHERE or (best_room < needed and room > best_room) or needed <= room < best_room:
            best, best_room = rack, room
    return best


def tightest_or_largest(snapshot: Snapshot, needed: int, rack: int) -> int:
    """The machine with least free of those in a rack that hold all that is needed, else with most room."""
    tightest, largest = NOWHERE, NOWHERE
    for machine in range(len(snapshot.gpus)):
        room = snapshot.machine_score[machine]
        if snapshot.rack[machine] != rack or room == 0.0:
            continue
        if largest == NOWHERE or room > snapshot.machine_score[largest]:
            largest = machine
        if room >= needed and (
            tightest == NOWHERE or snapshot.free_milli[machine] < snapshot.free_milli[tightest]
        ):
            tightest = machine
    return largest if tightest == NOWHERE else tightest


# --- fast ----------------------------------------------------------------------------------------------


def fast(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """Where the job runs fastest and its neighbours lose least; on one machine, or on equally fast ones.

    To first order the neighbours on a machine lose as many GPU-seconds as the job itself loses by them, so
    `neighbours` counts that loss again. `tightness` is what a machine's GPUs left free cost, as a share of
    its speed; `trust` is how far speeds seen on a machine replace its nominal one.
    """
    needed = snapshot.instances[job]
    wanted = gang_milli(snapshot, job)
    if wanted > snapshot.free_total_milli:
        return 0, NOWHERE
    best = NOWHERE
    highest = NEVER
    for machine in range(len(snapshot.gpus)):
        snapshot.machine_score[machine] = NEVER
        if snapshot.free_milli[machine] < snapshot.gpu_milli[job]:
            continue
        room = fits_on(snapshot, job, machine)
        if room == 0:
            continue
        taken = min(room, needed) * snapshot.gpu_milli[job]
        score = desirability(snapshot, job, machine, taken, parameters)
        snapshot.machine_score[machine] = score
        highest = max(highest, score)
        if room >= needed:
            better = best == NOWHERE or score > snapshot.machine_score[best]
            if better or (
                score == snapshot.machine_score[best]
                and snapshot.free_milli[machine] < snapshot.free_milli[best]
            ):
                best = machine
    spread = snapshot.communication_weight * snapshot.communication[job]
    if best != NOWHERE and snapshot.machine_score[best] * (1.0 + spread) >= highest:
        snapshot.machine_order[0] = best
        return 1, NOWHERE
    if needed == 1 or highest == NEVER:
        return 0, NOWHERE
    return fast_for_several(snapshot, job, best), NOWHERE


def desirability(snapshot: Snapshot, job: int, machine: int, taken: int, parameters: Parameters) -> float:
    """Speed of a job on a machine, less what it costs others."""
    neighbours, tightness, trust = parameters[0], parameters[1], parameters[2]
    score = snapshot.nominal[snapshot.kind[job], machine]
    score /= 1.0 + (1.0 + neighbours) * crowding(snapshot, job, machine)
    if trust > 0.0:
        seen = snapshot.observed[machine]
        score *= 1.0 + trust * (snapshot.observed_speed[machine] - 1.0) * seen / (seen + 1.0)
    if tightness > 0.0:
        left = (snapshot.free_milli[machine] - taken) / (WHOLE * snapshot.gpus[machine])
        score *= 1.0 - tightness * left
    return score


def fast_for_several(snapshot: Snapshot, job: int, single: int) -> int:
    """The best of: the machine `single` (if any), fast ones within one rack, fast ones anywhere.

    The slowest machine holds a gang back, so machines are taken from the fastest down.
    """
    spread = snapshot.communication_weight * snapshot.communication[job]
    best, best_rack = NEVER, NOWHERE
    if single != NOWHERE:
        best = snapshot.machine_score[single]
    several_racks = False
    last = NOWHERE
    for machine in range(len(snapshot.gpus)):
        if snapshot.machine_score[machine] == NEVER:
            continue
        rack = snapshot.rack[machine]
        if last != NOWHERE and rack != last:
            several_racks = True
        if rack != last:
            last = rack
            score = slowest_of_fastest(snapshot, job, rack) / (1.0 + spread)
            if score > best:
                best, best_rack, single = score, rack, NOWHERE
    anywhere = False
    if several_racks:
        score = slowest_of_fastest(snapshot, job, NOWHERE) / (1.0 + spread * (1.0 + snapshot.across_racks))
        if score > best:
            best, anywhere, single = score, True, NOWHERE
    if best == NEVER:
        return 0
    if single != NOWHERE:
        snapshot.machine_order[0] = single
        return 1
    return fastest_first(snapshot, job, NOWHERE if anywhere else best_rack)


def fastest_first(snapshot: Snapshot, job: int, rack: int) -> int:
    """Machines of a rack (NOWHERE: of all) by score until the gang has its place; 0 when it does not fit.

    Of equally fast ones, the one with most room, so that the gang is on few machines.
    """
    needed = snapshot.instances[job]
    count = 0
    ahead = math.inf
    while needed > 0:
        score = NEVER
        for machine in range(len(snapshot.gpus)):
            if (rack == NOWHERE or snapshot.rack[machine] == rack) and (
                score < snapshot.machine_score[machine] < ahead
            ):
                score = snapshot.machine_score[machine]
        if score == NEVER:
            return 0
        ahead = score
        while needed > 0:
            best = NOWHERE
            most = 0
            for machine in range(len(snapshot.gpus)):
                if snapshot.machine_score[machine] == score and (
                    rack == NOWHERE or snapshot.rack[machine] == rack
                ):
                    room = min(fits_on(snapshot, job, machine), needed)
                    if room > most and not among(snapshot, machine, count):
                        best, most = machine, room
            if best == NOWHERE:
                break
            snapshot.machine_order[count] = best
            count += 1
            needed -= most
    return count


def among(snapshot: Snapshot, machine: int, count: int) -> bool:
    """Whether a machine is in `machine_order[:count]`."""
    found = False
    for place in range(count):
        found = found or snapshot.machine_order[place] == machine
    return found


def slowest_of_fastest(snapshot: Snapshot, job: int, rack: int) -> float:
    """Score of the slowest machine a gang gets, when it takes them from the fastest down; NEVER: no room."""
    needed = snapshot.instances[job]
    slowest = math.inf
    while needed > 0:
        score = NEVER
        for machine in range(len(snapshot.gpus)):
            if (rack == NOWHERE or snapshot.rack[machine] == rack) and (
                score < snapshot.machine_score[machine] < slowest
            ):
                score = snapshot.machine_score[machine]
        if score == NEVER:
            return NEVER
        for machine in range(len(snapshot.gpus)):
            if snapshot.machine_score[machine] == score and (
                rack == NOWHERE or snapshot.rack[machine] == rack
            ):
                needed -= fits_on(snapshot, job, machine)
        slowest = score
    return slowest


# --- little fragmentation ----------------------------------------------------------------------------------


def fgd(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """Where it strands fewest GPUs for the jobs usual here (FGD, ATC'23), tightly where that is equal.

    `blend` adds that many thousandths of a GPU for a machine left wholly free: a leaning to best fit that
    decides between equals, and a little beyond. A gang that no machine holds is placed as by best fit.
    """
    blend = parameters[0]
    needed = snapshot.instances[job]
    wanted = gang_milli(snapshot, job)
    if wanted > snapshot.free_total_milli:
        return 0, NOWHERE
    best, best_gpu, best_free = NOWHERE, NOWHERE, 0
    best_score = NEVER
    for machine in range(len(snapshot.gpus)):
        free = snapshot.free_milli[machine]
        if free < wanted or fits_on(snapshot, job, machine) < needed:
            continue
        added, gpu = added_fragments(snapshot, job, machine)
        score = -added - blend * ((free - wanted) / (snapshot.gpus[machine] * WHOLE))
        if score > best_score or (score == best_score and free < best_free):
            best, best_gpu, best_free, best_score = machine, gpu, free, score
    if best != NOWHERE:
        snapshot.machine_order[0] = best
        return 1, best_gpu
    if needed == 1:
        return 0, NOWHERE
    return few_machines(snapshot, job), NOWHERE
