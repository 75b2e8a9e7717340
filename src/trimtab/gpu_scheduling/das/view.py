"""What the network agents see: facts of waiting jobs, of machines, and of each job on each machine.

Plain loops over numbers and arrays, so the same `look` runs compiled in rollouts and as it stands live. Facts
lie near 0 to 1. A window of jobs is shown in order of arrival; when more wait, the first three quarters of it
are the oldest jobs and the rest the newest, so that late arrivals are seen. Of a job whose duration nobody
tells, an experience (see `experience`) says what to expect.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.experience import Experience, log_rest
from trimtab.gpu_scheduling.heuristics.words import (
    age_ms,
    attained_gpu_ms,
    crowding,
    gang_milli,
    other_capacity,
    run_ms,
)
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot, allowed_on, fits_on

__all__ = [
    "JOB_FACTS",
    "MACHINE_FACTS",
    "NO_EXPERIENCE",
    "PAIR_FACTS",
    "View",
    "empty_view",
    "expected_rest",
    "experience_row",
    "look",
    "look_at_jobs",
    "look_at_machines",
    "look_at_pairs",
    "window_of",
]

JOB_FACTS = (
    "GPUs",
    "GPUs per instance",
    "needs several machines",
    "CPU per GPU",
    "memory per GPU",
    "age",
    "rank of arrival",
    "service attained",
    "was preempted",
    "sensitivity",
    "communication",
    "machines allowed",
    "expected duration",
    "duration known",
    "GPUs free",
    "jobs waiting",
)
"""Of a job; the last two are of the moment. CPU and memory are its shares beside that of the GPUs."""
MACHINE_FACTS = (
    "free GPUs",
    "share free",
    "wholly empty",
    "speed",
    "price",
    "free CPU",
    "free memory",
    "jobs there",
    "load",
    "observed speed",
    "observations",
    "GPUs",
)
PAIR_FACTS = ("room", "speed alone", "crowd", "exact")
"""Of a job on a machine: share of its instances that fit there now, log of its speed alone, how much the jobs
there would slow it down, and whether it would fill the machine exactly."""

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Row = NDArray[np.float64]

NO_EXPERIENCE: Row = np.zeros(0)
"""In place of an experience's row: nothing is expected of anyone."""


class View(NamedTuple):
    """What agents see at several moments, one row for each."""

    jobs: Floats  # [moments, window, JOB_FACTS]
    waits: Flags  # [moments, window]: there is a job in this row
    fits: Flags  # [moments, window]: its whole gang fits now
    machines: Floats  # [moments, machines, MACHINE_FACTS]
    real: Flags  # [moments, machines]: there is such a machine; smaller clusters are padded
    rack: Floats  # [moments, machines]: the number of its rack
    pairs: Floats  # [moments, window, machines, PAIR_FACTS]
    seen: Floats  # [moments, machines]: how many observations the observed speed is worth
    speed: Floats  # [moments, machines]: observed speed beside nominal; 1 is as expected
    may_hold: Flags  # [moments]


def empty_view(design: Design, batch: int, machines: int) -> View:
    """Room for so many moments on clusters of up to so many machines; all zeros.

    >>> empty_view(Design(window=8), 2, 5).pairs.shape
    (2, 8, 5, 4)
    """
    window = design.window
    return View(
        jobs=np.zeros((batch, window, len(JOB_FACTS)), np.float32),
        waits=np.zeros((batch, window), np.bool_),
        fits=np.zeros((batch, window), np.bool_),
        machines=np.zeros((batch, machines, len(MACHINE_FACTS)), np.float32),
        real=np.zeros((batch, machines), np.bool_),
        rack=np.zeros((batch, machines), np.float32),
        pairs=np.zeros((batch, window, machines, len(PAIR_FACTS)), np.float32),
        seen=np.zeros((batch, machines), np.float32),
        speed=np.zeros((batch, machines), np.float32),
        may_hold=np.zeros(batch, np.bool_),
    )


def experience_row(experience: Experience | None, design: Design) -> Row:
    """What `look` is told of an experience; a design that has none is told nothing.

    >>> len(experience_row(None, Design()))
    0
    """
    if not design.experienced:
        return NO_EXPERIENCE
    if experience is None:
        raise SettingsError(
            "design.experienced = true, and there is no experience; gather one, or set it to false"
        )
    return experience.row


def look(
    snapshot: Snapshot, view: View, row: int, slots: NDArray[np.int64], experience: Row = NO_EXPERIENCE
) -> int:
    """Fill one row of a view, and `slots` [window] with the slot of each job shown; returns how many are.

    `experience` is the row of one; `machine_score` of the snapshot is used as scratch.

    >>> from trimtab.gpu_scheduling import Cluster, make_workload
    >>> from trimtab.gpu_scheduling.simulator.simulator import Simulator
    >>> jobs = make_workload([0, 0], duration_ms=[60_000, 30_000], gpus=[4, 2])
    >>> view, slots = empty_view(Design(window=8), 1, 8), np.zeros(8, np.int64)
    >>> look(Simulator(Cluster()).reset(jobs, seed=0), view, 0, slots)
    2
    >>> view.fits[0, :3].tolist()
    [True, True, False]
    """
    count = window_of(snapshot, slots)
    view.may_hold[row] = snapshot.may_hold
    look_at_machines(snapshot, view, row)
    look_at_jobs(snapshot, view, row, slots, count, experience)
    look_at_pairs(snapshot, view, row, slots, count)
    return count


def window_of(snapshot: Snapshot, slots: NDArray[np.int64]) -> int:
    """Write the slots of the jobs shown, in order of arrival; how many there are."""
    window, waiting = len(slots), len(snapshot.pending)
    count = min(window, waiting)
    oldest = count if waiting <= window else window - window // 4
    for place in range(oldest):
        slots[place] = snapshot.pending[place]
    for place in range(oldest, count):
        slots[place] = snapshot.pending[waiting - count + place]
    for place in range(count, window):
        slots[place] = NOWHERE
    return count


def look_at_machines(snapshot: Snapshot, view: View, row: int) -> None:
    """Fill what is seen of machines; what is not there is 0."""
    count = len(snapshot.gpus)
    for machine in range(count):
        gpus = snapshot.gpus[machine]
        facts = view.machines[row, machine]
        facts[0] = snapshot.free_gpus[machine] / 8.0
        facts[1] = snapshot.free_milli[machine] / (WHOLE * gpus)
        facts[2] = 1.0 if snapshot.jobs[machine] == 0 else 0.0
        facts[3] = snapshot.speed[machine]
        facts[4] = math.log1p(snapshot.price[machine]) / 2.0
        facts[7] = snapshot.jobs[machine] / gpus
        facts[8] = snapshot.load[machine] / 1e6 / gpus
        facts[9] = snapshot.observed_speed[machine]
        facts[10] = snapshot.observed[machine] / 10.0
        facts[11] = gpus / 8.0
        view.real[row, machine] = True
        view.rack[row, machine] = snapshot.rack[machine]
        view.seen[row, machine] = snapshot.observed[machine]
        view.speed[row, machine] = snapshot.observed_speed[machine]
    share_of_capacity(snapshot, view, row, 5, snapshot.free_cpu_milli, snapshot.cpu_milli)
    share_of_capacity(snapshot, view, row, 6, snapshot.free_memory_mib, snapshot.memory_mib)
    view.machines[row, count:] = 0.0
    view.real[row, count:] = False
    view.rack[row, count:] = 0.0
    view.seen[row, count:] = 0.0
    view.speed[row, count:] = 0.0


def share_of_capacity(
    snapshot: Snapshot,
    view: View,
    row: int,
    fact: int,
    free: NDArray[np.int64],
    demand: NDArray[np.int64],
) -> None:
    """What is free of CPUs or memory, over that and what running jobs hold there."""
    capacity = snapshot.machine_score
    for machine in range(len(snapshot.gpus)):
        capacity[machine] = free[machine]
    for job in snapshot.running:
        part = snapshot.first_part[job]
        while part != NOWHERE:
            capacity[snapshot.part_machine[part]] += snapshot.part_instances[part] * demand[job]
            part = snapshot.next_part[part]
    for machine in range(len(snapshot.gpus)):
        view.machines[row, machine, fact] = free[machine] / max(capacity[machine], 1.0)


def look_at_jobs(
    snapshot: Snapshot, view: View, row: int, slots: NDArray[np.int64], count: int, experience: Row
) -> None:
    """Fill what is seen of the jobs in the window; rows without one are 0."""
    cpu_capacity, memory_capacity = other_capacity(snapshot)
    waiting = len(snapshot.pending)
    oldest = count if waiting == count else len(slots) - len(slots) // 4
    free = snapshot.free_total_milli / (WHOLE * snapshot.total_gpus)
    crowded = math.log1p(waiting) / 5.0
    most = 0
    for machine in range(len(snapshot.gpus)):
        most = max(most, snapshot.gpus[machine])
    for place in range(count):
        job = slots[place]
        rank = place if place < oldest else waiting - count + place
        milli = snapshot.gpu_milli[job]
        part = milli / (WHOLE * snapshot.total_gpus)
        allowed = 0
        for machine in range(len(snapshot.gpus)):
            if allowed_on(snapshot, job, machine):
                allowed += 1
        expected = snapshot.expected_ms[job]
        known = not math.isnan(expected)
        facts = view.jobs[row, place]
        facts[0] = math.log2(1.0 + gang_milli(snapshot, job) / WHOLE) / 5.0
        facts[1] = math.log2(1.0 + milli / WHOLE) / 4.0
        facts[2] = 1.0 if gang_milli(snapshot, job) > WHOLE * most else 0.0
        facts[3] = min(snapshot.cpu_milli[job] / max(cpu_capacity, 1) / part, 2.0) / 2.0
        facts[4] = min(snapshot.memory_mib[job] / max(memory_capacity, 1) / part, 2.0) / 2.0
        facts[5] = math.log1p(age_ms(snapshot, job) / 1000.0) / 14.0
        facts[6] = rank / waiting
        facts[7] = math.log1p(attained_gpu_ms(snapshot, job) / 1000.0) / 14.0
        facts[8] = 1.0 if snapshot.preemptions[job] > 0 else 0.0
        facts[9] = snapshot.sensitivity[job] / 2000.0
        facts[10] = snapshot.communication[job] / (snapshot.communication[job] + 0.1)
        facts[11] = allowed / len(snapshot.gpus)
        facts[12] = (
            math.log1p(expected / 1000.0) / 14.0 if known else expected_rest(snapshot, job, experience)
        )
        facts[13] = 1.0 if known else 0.0
        facts[14] = free
        facts[15] = crowded
        view.waits[row, place] = True
    view.jobs[row, count:] = 0.0
    view.waits[row, count:] = False


def expected_rest(snapshot: Snapshot, job: int, experience: Row) -> float:
    """What jobs like it used to take from here on, on the scale of its fact; 0 without experience."""
    if len(experience) == 0:
        return 0.0
    rest = log_rest(snapshot.group[job], gang_milli(snapshot, job), run_ms(snapshot, job), 0, experience, 0)
    return math.log1p(math.exp(rest)) / 14.0


def look_at_pairs(snapshot: Snapshot, view: View, row: int, slots: NDArray[np.int64], count: int) -> None:
    """Fill what is seen of each job on each machine, and which gangs fit."""
    machines = len(snapshot.gpus)
    for place in range(count):
        job = slots[place]
        needed, milli = snapshot.instances[job], snapshot.gpu_milli[job]
        found = 0
        for machine in range(machines):
            room = fits_on(snapshot, job, machine)
            found += room
            facts = view.pairs[row, place, machine]
            facts[0] = room / needed
            facts[1] = math.log(snapshot.nominal[snapshot.kind[job], machine])
            facts[2] = crowding(snapshot, job, machine)
            facts[3] = 1.0 if room > 0 and room * milli == snapshot.free_milli[machine] else 0.0
        view.pairs[row, place, machines:] = 0.0
        view.fits[row, place] = found >= needed
    view.pairs[row, count:] = 0.0
    view.fits[row, count:] = False
