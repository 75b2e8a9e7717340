"""The same look as `view.look`, by whole arrays: what a policy sees without compiled code, in milliseconds.

Plain loops over 64 jobs on 512 machines take numpy's arrays most of a second; a controller has not that long.
A test holds the two to the same numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.das.view import NO_EXPERIENCE, View, expected_rest, window_of
from trimtab.gpu_scheduling.heuristics.words import other_capacity
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot

__all__ = ["look_at_once", "machines_alone"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_BY_MACHINE = ("gpus", "gpu_type", "rack", "speed", "price", "free_gpus", "free_milli", "free_cpu_milli")
_BY_MACHINE += ("free_memory_mib", "load", "jobs", "observed_speed", "observed", "first_gpu")


def look_at_once(
    snapshot: Snapshot,
    view: View,
    row: int,
    slots: Integers,
    machines: Integers | None = None,
    experience: Floats = NO_EXPERIENCE,
) -> int:
    """Fill one row of a view and `slots` as `look` does; returns how many jobs are shown.

    Of some `machines` alone (None: all), the view has as many and shows those; facts of jobs stay the same.

    >>> from trimtab.gpu_scheduling import Cluster, make_workload
    >>> from trimtab.gpu_scheduling.das.design import Design
    >>> from trimtab.gpu_scheduling.das.view import empty_view
    >>> from trimtab.gpu_scheduling.simulator.simulator import Simulator
    >>> jobs = make_workload([0, 0], duration_ms=[60_000, 30_000], gpus=[4, 2])
    >>> view, slots = empty_view(Design(window=8), 1, 8), np.zeros(8, np.int64)
    >>> look_at_once(Simulator(Cluster()).reset(jobs, seed=0), view, 0, slots)
    2
    """
    count = window_of(snapshot, slots)
    view.may_hold[row] = snapshot.may_hold
    seen = snapshot if machines is None else machines_alone(snapshot, machines)
    _machines(seen, view, row)
    _jobs(snapshot, view, row, slots, count, experience)
    _pairs(seen, view, row, slots[:count])
    return count


def machines_alone(snapshot: Snapshot, machines: Integers) -> Snapshot:
    """The same moment with some of the machines; parts of jobs on others count towards one past the last."""
    place = np.full(len(snapshot.gpus), len(machines))
    place[machines] = np.arange(len(machines))
    return snapshot._replace(
        part_machine=place[snapshot.part_machine],
        nominal=snapshot.nominal[:, machines],
        **{name: getattr(snapshot, name)[machines] for name in _BY_MACHINE},
    )


def _machines(snapshot: Snapshot, view: View, row: int) -> None:
    count, gpus = len(snapshot.gpus), snapshot.gpus
    facts = (
        snapshot.free_gpus / 8.0,
        snapshot.free_milli / (WHOLE * gpus),
        snapshot.jobs == 0,
        snapshot.speed,
        np.log1p(snapshot.price) / 2.0,
        _share_free(snapshot, snapshot.free_cpu_milli, snapshot.cpu_milli),
        _share_free(snapshot, snapshot.free_memory_mib, snapshot.memory_mib),
        snapshot.jobs / gpus,
        snapshot.load / 1e6 / gpus,
        snapshot.observed_speed,
        snapshot.observed / 10.0,
        gpus / 8.0,
    )
    for name in ("machines", "real", "rack", "seen", "speed"):
        getattr(view, name)[row, count:] = 0
    for place, fact in enumerate(facts):
        view.machines[row, :count, place] = fact
    view.real[row, :count] = True
    view.rack[row, :count] = snapshot.rack
    view.seen[row, :count] = snapshot.observed
    view.speed[row, :count] = snapshot.observed_speed


def _share_free(snapshot: Snapshot, free: Integers, demand: Integers) -> Floats:
    """What is free of CPUs or memory, over that and what running jobs hold there."""
    capacity = np.append(free, 0).astype(np.float64)
    jobs = np.asarray(snapshot.running)
    parts = snapshot.first_part[jobs]
    # The first parts of all jobs, then their second ones, and so on.
    while len(jobs):
        there = parts != NOWHERE
        jobs, parts = jobs[there], parts[there]
        np.add.at(capacity, snapshot.part_machine[parts], snapshot.part_instances[parts] * demand[jobs])
        parts = snapshot.next_part[parts]
    return free / np.maximum(capacity[:-1], 1.0)


def _jobs(snapshot: Snapshot, view: View, row: int, slots: Integers, count: int, experience: Floats) -> None:
    jobs, waiting = slots[:count], len(snapshot.pending)
    oldest = count if waiting == count else len(slots) - len(slots) // 4
    rank = np.arange(count)
    rank[oldest:] += waiting - count
    cpu_capacity, memory_capacity = other_capacity(snapshot)
    milli = snapshot.gpu_milli[jobs]
    gang = snapshot.instances[jobs] * milli
    part = milli / (WHOLE * snapshot.total_gpus)
    attained = snapshot.attained_ms[jobs] * gang / WHOLE
    machines_of_type = np.bincount(snapshot.gpu_type)
    types = snapshot.allowed_types[jobs][:, None] >> np.arange(len(machines_of_type)) & 1
    expected = snapshot.expected_ms[jobs]
    known = ~np.isnan(expected)
    rest = [expected_rest(snapshot, job, experience) for job in jobs.tolist()]
    spread = snapshot.communication[jobs]
    facts = (
        np.log2(1.0 + gang / WHOLE) / 5.0,
        np.log2(1.0 + milli / WHOLE) / 4.0,
        gang > WHOLE * snapshot.gpus.max(),
        np.minimum(snapshot.cpu_milli[jobs] / max(cpu_capacity, 1) / part, 2.0) / 2.0,
        np.minimum(snapshot.memory_mib[jobs] / max(memory_capacity, 1) / part, 2.0) / 2.0,
        np.log1p((snapshot.now_ms - snapshot.arrival_ms[jobs]) / 1000.0) / 14.0,
        rank / max(waiting, 1),
        np.log1p(attained / 1000.0) / 14.0,
        snapshot.preemptions[jobs] > 0,
        snapshot.sensitivity[jobs] / 2000.0,
        spread / (spread + 0.1),
        types @ machines_of_type / len(snapshot.gpus),
        np.where(known, np.log1p(np.where(known, expected, 0.0) / 1000.0) / 14.0, rest),
        known,
        snapshot.free_total_milli / (WHOLE * snapshot.total_gpus),
        np.log1p(waiting) / 5.0,
    )
    for place, fact in enumerate(facts):
        view.jobs[row, :count, place] = fact
    view.waits[row, :count] = True
    for name in ("jobs", "waits", "fits", "pairs"):
        getattr(view, name)[row, count:] = 0


def _pairs(snapshot: Snapshot, view: View, row: int, jobs: Integers) -> None:
    count = len(snapshot.gpus)
    room = _room(snapshot, jobs)
    needed = snapshot.instances[jobs][:, None]
    sensitivity = snapshot.sensitivity[jobs][:, None] / 1000.0
    kinds, kind = np.unique(snapshot.kind[jobs], return_inverse=True)
    milli = snapshot.gpu_milli[jobs][:, None]
    shown = view.pairs[row, : len(jobs)]
    shown[:, :count, 0] = room / needed
    shown[:, :count, 1] = np.log(snapshot.nominal[kinds])[kind]
    shown[:, :count, 2] = snapshot.contention * sensitivity * (snapshot.load / 1e6) / snapshot.gpus
    shown[:, :count, 3] = (room > 0) & (room * milli == snapshot.free_milli)
    shown[:, count:] = 0
    view.fits[row, : len(jobs)] = room.sum(1) >= needed[:, 0]


def _room(snapshot: Snapshot, jobs: Integers) -> Integers:
    """How many instances fit, as `problem.fits_on` counts them: [jobs, machines]."""
    milli = snapshot.gpu_milli[jobs]
    # Jobs ask for the same few numbers of GPUs, so each is divided by once.
    sizes, size = np.unique(milli, return_inverse=True)
    by_gpu = np.stack([_fits_by_gpus(snapshot, int(one)) for one in sizes])[size]
    room = np.minimum(by_gpu, snapshot.instances[jobs][:, None])
    for free, demand in (
        (snapshot.free_cpu_milli, snapshot.cpu_milli[jobs]),
        (snapshot.free_memory_mib, snapshot.memory_mib[jobs]),
    ):
        asks = np.flatnonzero(demand > 0)
        room[asks] = np.minimum(room[asks], free // demand[asks][:, None])
    return np.where(snapshot.allowed_types[jobs][:, None] >> snapshot.gpu_type & 1, room, 0)


def _fits_by_gpus(snapshot: Snapshot, milli: int) -> Integers:
    if milli >= WHOLE:
        return snapshot.free_gpus * WHOLE // milli
    before = np.concatenate([[0], np.cumsum(snapshot.free_of_gpu // milli)])
    return before[snapshot.first_gpu + snapshot.gpus] - before[snapshot.first_gpu]
