"""Giving machines to a job, and taking them back."""

from __future__ import annotations

import numpy as np

from trimtab.gpu_scheduling import problem
from trimtab.gpu_scheduling.simulator import heap
from trimtab.gpu_scheduling.simulator.by_address import look
from trimtab.gpu_scheduling.simulator.compiling import compiled, inlined, jit
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

fits_on = compiled(problem.fits_on)
gpus_for_share = compiled(problem.gpus_for_share)
WHOLE = np.int64(problem.WHOLE)
_NONE, _ONE = np.uint64(0), np.uint64(1)
MILLI_HOURS = 3.6e9
"""Thousandths of a GPU x milliseconds in a GPU-hour."""
FORGOTTEN = 0.9
"""Weight of what was observed on a machine, once one more job has ended there."""


@inlined
def start_job(s: State, t: Tables, slot: int, machines: np.ndarray, gpu: int) -> bool:
    """Place a gang on machines in order of preference, or leave all as it was and say so."""
    position = place_among_waiting(s, slot)
    if position == NOWHERE:
        return False
    needed = s.slots[slot]["instances"]
    last = NOWHERE
    for machine in machines:
        if machine < 0 or machine >= len(s.machines):
            break
        newest = s.machines[machine]["first_part"]
        if last != NOWHERE and newest != NOWHERE and s.parts[newest]["slot"] == slot:
            break  # named twice: it has no room for more, as it was given all that fitted
        taken = min(needed, fits_on(look(s, t), slot, machine))
        if taken <= 0:
            continue
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
    held = s.slots[slot]
    now = s.scalar[NOW]
    one_machine, one_rack, slowest = True, True, np.inf
    first = held["first_part"]
    rack = t.machines[s.parts[first]["machine"]]["rack"]
    place = first
    while place != NOWHERE:
        machine = s.parts[place]["machine"]
        one_machine = one_machine and place == first
        one_rack = one_rack and t.machines[machine]["rack"] == rack
        slowest = min(slowest, t.nominal[held["kind"], machine])
        place = s.parts[place]["next_part"]
    spread = 0.0
    if not one_machine:
        across = 0.0 if one_rack else t.across_racks
        spread = t.communication * held["communication"] * (1.0 + across)
    held["slowing"] = 1.0 + spread
    held["nominal"] = slowest / (1.0 + spread)
    held["started_ms"] = now
    held["since_ms"] = now
    held["done_at_start"] = held["done_ms"]
    held["start_number"] = s.scalar[STARTS]
    s.scalar[STARTS] += 1
    set_rate(s, t, slot)
    heap.insert(s, slot, s.scalar[RUNNING])
    s.lists[RUNNING_ROW, s.scalar[RUNNING]] = slot
    s.scalar[RUNNING] += 1
    result = s.results[held["job_id"]]
    if result["first_start_ms"] == NOWHERE:
        result["first_start_ms"] = now
    if t.contention > 0.0:
        rate_neighbours(s, t, first, slot)


@inlined
def occupy(s: State, t: Tables, slot: int, machine: int, instances: int, last: int, gpu: int) -> int:
    """Take GPUs, CPUs and memory of one machine for some instances; returns the new part."""
    held, here = s.slots[slot], s.machines[machine]
    milli_each = held["gpu_milli"]
    milli = instances * milli_each
    place = s.scalar[FREE_PART]
    part = s.parts[place]
    s.scalar[FREE_PART] = part["next_part"]
    s.scalar[PARTS] += 1
    part["slot"] = slot
    part["machine"] = machine
    part["instances"] = instances
    part["milli"] = milli
    part["next_part"] = NOWHERE
    part["first_share"] = NOWHERE
    if last == NOWHERE:
        held["first_part"] = place
    else:
        s.parts[last]["next_part"] = place
    following = here["first_part"]
    part["next_here"] = following
    part["previous_here"] = NOWHERE
    if following != NOWHERE:
        s.parts[following]["previous_here"] = place
    here["first_part"] = place
    if milli_each >= WHOLE:
        part["gpu_mask"] = take_whole(s, t, machine, milli // WHOLE)
    else:
        part["gpu_mask"] = take_shares(s, t, slot, machine, place, instances, gpu)
    s.free_milli[machine] -= milli
    s.scalar[FREE_MILLI] -= milli
    here["free_cpu_milli"] -= instances * held["cpu_milli"]
    here["free_memory_mib"] -= instances * held["memory_mib"]
    here["load"] += held["sensitivity"] * milli
    here["jobs"] += 1
    return place


@inlined
def take_whole(s: State, t: Tables, machine: int, count: int) -> int:
    """Take the wholly free GPUs with the lowest numbers; which, as bits."""
    first = t.machines[machine]["first_gpu"]
    mask = np.uint64(0)
    left = count
    place = 0
    while left > 0:
        if s.gpu_free[first + place] == WHOLE:
            s.gpu_free[first + place] = 0
            mask |= _ONE << np.uint64(place)
            left -= 1
        place += 1
    s.machines[machine]["free_gpus"] -= count
    return mask  # pyright: ignore[reportReturnType]


@jit
def take_shares(s: State, t: Tables, slot: int, machine: int, part: int, instances: int, gpu: int) -> int:
    """Take a share of a GPU for each instance: of the one named, else of the fullest with room."""
    milli = s.slots[slot]["gpu_milli"]
    first = t.machines[machine]["first_gpu"]
    mask = np.uint64(0)
    for _ in range(instances):
        place = gpu
        if place < 0 or place >= t.machines[machine]["gpus"] or s.gpu_free[first + place] < milli:
            place = gpus_for_share(look(s, t), machine, milli)
        if s.gpu_free[first + place] == WHOLE:
            s.machines[machine]["free_gpus"] -= 1
        s.gpu_free[first + place] -= milli
        mask |= _ONE << np.uint64(place)
        share = s.scalar[FREE_SHARE]
        s.scalar[FREE_SHARE] = s.shares[share]["next_share"]
        s.shares[share]["gpu"] = first + place
        s.shares[share]["next_share"] = s.parts[part]["first_share"]
        s.parts[part]["first_share"] = share
    return mask  # pyright: ignore[reportReturnType]


@jit
def vacate(s: State, t: Tables, slot: int) -> None:
    """Give back what a job holds. Its parts stay linked to it until `free_parts`."""
    held = s.slots[slot]
    place = held["first_part"]
    while place != NOWHERE:
        part = s.parts[place]
        here = s.machines[part["machine"]]
        milli = part["milli"]
        if part["first_share"] == NOWHERE:
            first = t.machines[part["machine"]]["first_gpu"]
            mask = part["gpu_mask"]
            gpu = first
            while mask != _NONE:
                if mask & _ONE == _ONE:
                    s.gpu_free[gpu] = WHOLE
                mask >>= _ONE
                gpu += 1
            here["free_gpus"] += milli // WHOLE
        share = part["first_share"]
        while share != NOWHERE:
            gpu = s.shares[share]["gpu"]
            s.gpu_free[gpu] += held["gpu_milli"]
            if s.gpu_free[gpu] == WHOLE:
                here["free_gpus"] += 1
            following = s.shares[share]["next_share"]
            s.shares[share]["next_share"] = s.scalar[FREE_SHARE]
            s.scalar[FREE_SHARE] = share
            share = following
        s.free_milli[part["machine"]] += milli
        s.scalar[FREE_MILLI] += milli
        here["free_cpu_milli"] += part["instances"] * held["cpu_milli"]
        here["free_memory_mib"] += part["instances"] * held["memory_mib"]
        here["load"] -= held["sensitivity"] * milli
        here["jobs"] -= 1
        after, ahead = part["next_here"], part["previous_here"]
        if ahead == NOWHERE:
            here["first_part"] = after
        else:
            s.parts[ahead]["next_here"] = after
        if after != NOWHERE:
            s.parts[after]["previous_here"] = ahead
        place = part["next_part"]


@inlined
def free_parts(s: State, slot: int) -> None:
    place = s.slots[slot]["first_part"]
    while place != NOWHERE:
        following = s.parts[place]["next_part"]
        s.parts[place]["next_part"] = s.scalar[FREE_PART]
        s.scalar[FREE_PART] = place
        s.scalar[PARTS] -= 1
        place = following
    s.slots[slot]["first_part"] = NOWHERE


@jit
def release(s: State, t: Tables, slot: int, completed: int) -> None:
    """End a stay: bill it, note how fast the machines were, and give them back."""
    heap.remove(s, slot, s.scalar[RUNNING])
    take_out(s, RUNNING_ROW, RUNNING, place_among_running(s, slot))
    held = s.slots[slot]
    now = s.scalar[NOW]
    elapsed = now - held["started_ms"]
    result = s.results[held["job_id"]]
    relative = 1.0
    if elapsed > 0:
        gained = held["done_ms"] - held["done_at_start"]
        relative = gained / elapsed / held["nominal"]
    place = held["first_part"]
    while place != NOWHERE:
        part = s.parts[place]
        here = s.machines[part["machine"]]
        fee = part["milli"] * t.machines[part["machine"]]["price"] * elapsed / MILLI_HOURS
        result["fee"] += fee
        s.fee[0] += fee
        s.scalar[BUSY] += part["milli"] * elapsed
        if elapsed > 0:
            here["observed"] = FORGOTTEN * here["observed"] + 1.0
            here["observed_speed"] += (relative - here["observed_speed"]) / here["observed"]
        if len(s.log) > 0:
            write_log(s, slot, place, completed)
        place = part["next_part"]
    held["attained_ms"] += elapsed
    held["rate"] = 0.0
    vacate(s, t, slot)
    if t.contention > 0.0:
        rate_neighbours(s, t, held["first_part"], slot)
    free_parts(s, slot)


@jit
def write_log(s: State, slot: int, place: int, completed: int) -> None:
    """One row of the log: a part of a job, from its start to now."""
    row, part = s.log[s.scalar[LOGGED]], s.parts[place]
    row["job"] = s.slots[slot]["job_id"]
    row["machine"] = part["machine"]
    row["milli"] = part["milli"]
    row["gpu_mask"] = part["gpu_mask"]
    row["start_ms"] = s.slots[slot]["started_ms"]
    row["end_ms"] = s.scalar[NOW]
    row["completed"] = completed
    s.scalar[LOGGED] += 1


@inlined
def wait_again(s: State, slot: int) -> None:
    """Put a preempted job back among those that wait, in order of arrival."""
    place = s.scalar[PENDING]
    job = s.slots[slot]["job_id"]
    while place > 0 and s.slots[s.lists[PENDING_ROW, place - 1]]["job_id"] > job:
        s.lists[PENDING_ROW, place] = s.lists[PENDING_ROW, place - 1]
        place -= 1
    s.lists[PENDING_ROW, place] = slot
    s.scalar[PENDING] += 1


@inlined
def place_among_waiting(s: State, slot: int) -> int:
    """Position of a slot in the list of those that wait, of which the last is looked at first; or NOWHERE."""
    count = s.scalar[PENDING]
    if count > 0 and s.lists[PENDING_ROW, count - 1] == slot:
        return count - 1
    for position in range(count):
        if s.lists[PENDING_ROW, position] == slot:
            return position
    return NOWHERE  # pyright: ignore[reportReturnType]


@inlined
def place_among_running(s: State, slot: int) -> int:
    """Position of a running job in the list of those that run, which is in order of start."""
    number = s.slots[slot]["start_number"]
    first, last = 0, s.scalar[RUNNING] - 1
    while first < last:
        middle = (first + last) >> 1
        if s.slots[s.lists[RUNNING_ROW, middle]]["start_number"] < number:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def take_out(s: State, row: int, counter: int, position: int) -> None:
    """Take one entry out of a list; the rest keep their order."""
    s.scalar[counter] -= 1
    for place in range(position, s.scalar[counter]):
        s.lists[row, place] = s.lists[row, place + 1]
