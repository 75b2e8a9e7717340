"""Giving machines to a job, and taking them back."""

from __future__ import annotations

import numpy as np

from trimtab.gpu_scheduling import problem
from trimtab.gpu_scheduling.simulator import heap
from trimtab.gpu_scheduling.simulator.compiling import inlined, jit
from trimtab.gpu_scheduling.simulator.looking import fits_on, gpus_for_share, look
from trimtab.gpu_scheduling.simulator.speeds import rate_neighbours, set_rate
from trimtab.gpu_scheduling.simulator.state import (
    BUSY,
    FREE_MILLI,
    FREE_PART,
    FREE_SHARE,
    LOGGED,
    NOW,
    NOWHERE,
    PARTS,
    PENDING,
    PENDING_ROW,
    RUNNING,
    RUNNING_ROW,
    STARTS,
    UNSEEN,
    State,
)
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["release", "start_job", "wait_again"]

WHOLE = np.int64(problem.WHOLE)
_ONE = np.uint64(1)
MILLI_HOURS = 3.6e9
"""Thousandths of a GPU x milliseconds in a GPU-hour."""
FORGOTTEN = 0.9
"""Weight of what was observed on a machine, once one more job has ended there."""


@inlined
def start_job(s: State, t: Tables, slot: int, machines: np.ndarray, gpu: int) -> bool:
    """Place a gang on machines in order of preference, or leave all as it was and say so."""
    position = find(s, PENDING_ROW, s.scalar[PENDING], slot)
    if position == NOWHERE:
        return False
    needed = s.slots["instances"][slot]
    last = NOWHERE
    for machine in machines:
        if machine < 0 or machine >= len(s.machines):
            break
        taken = min(needed, fits_on(look(s, t), slot, machine))
        if taken <= 0:
            continue
        newest = s.machines["first_part"][machine]
        if newest != NOWHERE and s.parts["slot"][newest] == slot:
            break  # named twice
        last = occupy(s, t, slot, machine, taken, last, gpu)
        needed -= taken
        if needed == 0:
            break
    if needed > 0:
        give_up(s, t, slot)
        return False
    take_out(s, PENDING_ROW, PENDING, position)
    if position < s.scalar[UNSEEN]:
        s.scalar[UNSEEN] -= 1
    begin(s, t, slot)
    return True


@jit
def give_up(s: State, t: Tables, slot: int) -> None:
    """Only a part of the gang found a place: take it back."""
    vacate(s, t, slot)
    free_parts(s, slot)


@inlined
def begin(s: State, t: Tables, slot: int) -> None:
    """The gang is placed: it runs from now on."""
    now = s.scalar[NOW]
    one_machine, one_rack, slowest = True, True, np.inf
    first = s.slots["first_part"][slot]
    rack = t.machines["rack"][s.parts["machine"][first]]
    part = first
    while part != NOWHERE:
        machine = s.parts["machine"][part]
        one_machine = one_machine and part == first
        one_rack = one_rack and t.machines["rack"][machine] == rack
        slowest = min(slowest, t.nominal[s.slots["kind"][slot], machine])
        part = s.parts["next_part"][part]
    spread = 0.0
    if not one_machine:
        across = 0.0 if one_rack else t.across_racks
        spread = t.communication * s.slots["communication"][slot] * (1.0 + across)
    s.slots["slowing"][slot] = 1.0 + spread
    s.slots["nominal"][slot] = slowest / (1.0 + spread)
    s.slots["started_ms"][slot] = now
    s.slots["since_ms"][slot] = now
    s.slots["done_at_start"][slot] = s.slots["done_ms"][slot]
    s.slots["start_number"][slot] = s.scalar[STARTS]
    s.scalar[STARTS] += 1
    set_rate(s, t, slot)
    heap.insert(s, slot, s.scalar[RUNNING])
    s.lists[RUNNING_ROW, s.scalar[RUNNING]] = slot
    s.scalar[RUNNING] += 1
    job = s.slots["job_id"][slot]
    if s.results["first_start_ms"][job] == NOWHERE:
        s.results["first_start_ms"][job] = now
    if t.contention > 0.0:
        rate_neighbours(s, t, first, slot)


@inlined
def occupy(s: State, t: Tables, slot: int, machine: int, instances: int, last: int, gpu: int) -> int:
    """Take GPUs, CPUs and memory of one machine for some instances; returns the new part."""
    milli_each = s.slots["gpu_milli"][slot]
    milli = instances * milli_each
    part = s.scalar[FREE_PART]
    s.scalar[FREE_PART] = s.parts["next_part"][part]
    s.scalar[PARTS] += 1
    s.parts["slot"][part] = slot
    s.parts["machine"][part] = machine
    s.parts["instances"][part] = instances
    s.parts["milli"][part] = milli
    s.parts["next_part"][part] = NOWHERE
    s.parts["first_share"][part] = NOWHERE
    if last == NOWHERE:
        s.slots["first_part"][slot] = part
    else:
        s.parts["next_part"][last] = part
    following = s.machines["first_part"][machine]
    s.parts["next_here"][part] = following
    s.parts["previous_here"][part] = NOWHERE
    if following != NOWHERE:
        s.parts["previous_here"][following] = part
    s.machines["first_part"][machine] = part
    first = t.machines["first_gpu"][machine]
    mask = np.uint64(0)
    if milli_each >= WHOLE:
        left = milli // WHOLE
        place = 0
        while left > 0:
            if s.gpu_free[first + place] == WHOLE:
                s.gpu_free[first + place] = 0
                mask |= _ONE << np.uint64(place)
                left -= 1
            place += 1
        s.machines["free_gpus"][machine] -= milli // WHOLE
    else:
        for _ in range(instances):
            place = gpu
            if place < 0 or place >= t.machines["gpus"][machine] or s.gpu_free[first + place] < milli_each:
                place = gpus_for_share(look(s, t), machine, milli_each)
            if s.gpu_free[first + place] == WHOLE:
                s.machines["free_gpus"][machine] -= 1
            s.gpu_free[first + place] -= milli_each
            mask |= _ONE << np.uint64(place)
            share = s.scalar[FREE_SHARE]
            s.scalar[FREE_SHARE] = s.shares["next_share"][share]
            s.shares["gpu"][share] = first + place
            s.shares["next_share"][share] = s.parts["first_share"][part]
            s.parts["first_share"][part] = share
    s.parts["gpu_mask"][part] = mask
    s.machines["free_milli"][machine] -= milli
    s.scalar[FREE_MILLI] -= milli
    s.machines["free_cpu_milli"][machine] -= instances * s.slots["cpu_milli"][slot]
    s.machines["free_memory_mib"][machine] -= instances * s.slots["memory_mib"][slot]
    s.machines["load"][machine] += s.slots["sensitivity"][slot] * milli
    s.machines["jobs"][machine] += 1
    return part


@jit
def vacate(s: State, t: Tables, slot: int) -> None:
    """Give back what a job holds. Its parts stay linked to it until `free_parts`."""
    part = s.slots["first_part"][slot]
    while part != NOWHERE:
        machine = s.parts["machine"][part]
        milli = s.parts["milli"][part]
        first = t.machines["first_gpu"][machine]
        if s.parts["first_share"][part] == NOWHERE:
            mask = s.parts["gpu_mask"][part]
            for place in range(t.machines["gpus"][machine]):
                if (mask >> np.uint64(place)) & _ONE == _ONE:
                    s.gpu_free[first + place] = WHOLE
            s.machines["free_gpus"][machine] += milli // WHOLE
        share = s.parts["first_share"][part]
        while share != NOWHERE:
            gpu = s.shares["gpu"][share]
            s.gpu_free[gpu] += s.slots["gpu_milli"][slot]
            if s.gpu_free[gpu] == WHOLE:
                s.machines["free_gpus"][machine] += 1
            following = s.shares["next_share"][share]
            s.shares["next_share"][share] = s.scalar[FREE_SHARE]
            s.scalar[FREE_SHARE] = share
            share = following
        s.machines["free_milli"][machine] += milli
        s.scalar[FREE_MILLI] += milli
        s.machines["free_cpu_milli"][machine] += s.parts["instances"][part] * s.slots["cpu_milli"][slot]
        s.machines["free_memory_mib"][machine] += s.parts["instances"][part] * s.slots["memory_mib"][slot]
        s.machines["load"][machine] -= s.slots["sensitivity"][slot] * milli
        s.machines["jobs"][machine] -= 1
        after, ahead = s.parts["next_here"][part], s.parts["previous_here"][part]
        if ahead == NOWHERE:
            s.machines["first_part"][machine] = after
        else:
            s.parts["next_here"][ahead] = after
        if after != NOWHERE:
            s.parts["previous_here"][after] = ahead
        part = s.parts["next_part"][part]


@inlined
def free_parts(s: State, slot: int) -> None:
    part = s.slots["first_part"][slot]
    while part != NOWHERE:
        following = s.parts["next_part"][part]
        s.parts["next_part"][part] = s.scalar[FREE_PART]
        s.scalar[FREE_PART] = part
        s.scalar[PARTS] -= 1
        part = following
    s.slots["first_part"][slot] = NOWHERE


@jit
def release(s: State, t: Tables, slot: int, completed: int) -> None:
    """End a stay: bill it, note how fast the machines were, and give them back."""
    heap.remove(s, slot, s.scalar[RUNNING])
    take_out(s, RUNNING_ROW, RUNNING, find(s, RUNNING_ROW, s.scalar[RUNNING], slot))
    now = s.scalar[NOW]
    started = s.slots["started_ms"][slot]
    elapsed = now - started
    job = s.slots["job_id"][slot]
    relative = 1.0
    if elapsed > 0:
        gained = s.slots["done_ms"][slot] - s.slots["done_at_start"][slot]
        relative = gained / elapsed / s.slots["nominal"][slot]
    part = s.slots["first_part"][slot]
    while part != NOWHERE:
        machine, milli = s.parts["machine"][part], s.parts["milli"][part]
        fee = milli * t.machines["price"][machine] * elapsed / MILLI_HOURS
        s.results["fee"][job] += fee
        s.fee[0] += fee
        s.scalar[BUSY] += milli * elapsed
        if elapsed > 0:
            s.machines["observed"][machine] = FORGOTTEN * s.machines["observed"][machine] + 1.0
            s.machines["observed_speed"][machine] += (
                relative - s.machines["observed_speed"][machine]
            ) / s.machines["observed"][machine]
        if len(s.log) > 0:
            row = s.scalar[LOGGED]
            s.log["job"][row] = job
            s.log["machine"][row] = machine
            s.log["milli"][row] = milli
            s.log["gpu_mask"][row] = s.parts["gpu_mask"][part]
            s.log["start_ms"][row] = started
            s.log["end_ms"][row] = now
            s.log["completed"][row] = completed
            s.scalar[LOGGED] += 1
        part = s.parts["next_part"][part]
    s.slots["attained_ms"][slot] += elapsed
    s.slots["rate"][slot] = 0.0
    vacate(s, t, slot)
    if t.contention > 0.0:
        rate_neighbours(s, t, s.slots["first_part"][slot], slot)
    free_parts(s, slot)


@inlined
def wait_again(s: State, slot: int) -> None:
    """Put a preempted job back among those that wait, in order of arrival."""
    place = s.scalar[PENDING]
    while place > 0 and s.slots["job_id"][s.lists[PENDING_ROW, place - 1]] > s.slots["job_id"][slot]:
        s.lists[PENDING_ROW, place] = s.lists[PENDING_ROW, place - 1]
        place -= 1
    s.lists[PENDING_ROW, place] = slot
    s.scalar[PENDING] += 1


@inlined
def find(s: State, row: int, count: int, slot: int) -> int:
    """Position of a slot in a list; the last is looked at first."""
    if count > 0 and s.lists[row, count - 1] == slot:
        return count - 1
    for position in range(count):
        if s.lists[row, position] == slot:
            return position
    return NOWHERE  # pyright: ignore[reportReturnType]


@inlined
def take_out(s: State, row: int, counter: int, position: int) -> None:
    """Take one entry out of a list; the rest keep their order."""
    s.scalar[counter] -= 1
    for place in range(position, s.scalar[counter]):
        s.lists[row, place] = s.lists[row, place + 1]
