"""What a GPU scheduler sees, what it may decide, and what is good.

Whenever a job has come or ended, the policy is asked for one action at a time: start a waiting job on some
machines, stop a running one, or `HOLD`, which ends the round. A job is a gang of instances; the machines of
an action are in order of preference, and each takes as many of the instances still without a place as fit.

Everything here is plain numpy, so the same words serve the simulator and a live cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError

__all__ = [
    "HOLD",
    "NOWHERE",
    "PREEMPT",
    "START",
    "WAIT",
    "WHOLE",
    "Action",
    "Command",
    "Part",
    "Snapshot",
    "decode",
    "fits_on",
    "gang_fits",
    "gpus_for_share",
    "preempt",
    "remaining_ms",
    "start",
]

NOWHERE = -1
"""In place of a job, a machine or a GPU: none."""
WHOLE = 1000
"""Thousandths of a GPU in a GPU."""
WAIT, START, PREEMPT = 0, 1, 2
"""The verbs of an action."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Snapshot(NamedTuple):
    """What an outsider can know at the moment of a decision.

    Jobs live in *slots*. Arrays "by job" are indexed by slot, arrays "by machine" by its position in the
    cluster, arrays "by GPU" by `first_gpu[machine] + k`. What a running job holds is a list of parts: from
    `first_part[job]` on by `next_part`, until NOWHERE.
    """

    now_ms: int
    may_hold: bool  # something runs or will come, so holding back cannot stop the cluster
    unseen: int  # pending[unseen:] came since the last HOLD, and nothing was freed since; else 0
    pending: Integers  # slots of waiting jobs, in order of arrival
    running: Integers  # slots of running jobs, in order of start
    # by job
    job_id: Integers  # position of the job in the workload
    arrival_ms: Integers
    instances: Integers
    gpu_milli: Integers  # of one instance: part of a GPU, or whole GPUs
    cpu_milli: Integers  # of one instance
    memory_mib: Integers  # of one instance
    allowed_types: Integers  # bit t: may run on GPU type t of the cluster
    user: Integers
    group: Integers
    kind: Integers
    sensitivity: Integers  # thousandths; see `contention`
    communication: Floats  # share of time lost when spread over machines
    expected_ms: Floats  # duration at the reference speed: predicted or true; NaN: nobody knows
    started_ms: Integers  # of a running job: when it was started last
    attained_ms: Integers  # time it has run in earlier starts
    done_ms: Floats  # work done until `since_ms`, at the reference speed
    since_ms: Integers
    rate: Floats  # of a running job: work done in a millisecond, from `since_ms` on
    preemptions: Integers
    first_part: Integers
    # by part
    part_machine: Integers
    part_instances: Integers
    next_part: Integers
    # by machine
    gpus: Integers
    gpu_type: Integers
    rack: Integers
    speed: Floats  # nominal
    price: Floats  # dollars for a GPU and hour
    free_gpus: Integers  # wholly free
    free_milli: Integers  # all that is free, parts of GPUs included
    free_cpu_milli: Integers
    free_memory_mib: Integers
    load: Integers  # sum over the jobs there: sensitivity x thousandths of GPUs they hold there
    jobs: Integers  # parts of jobs there
    observed_speed: Floats  # mean of how fast jobs ran there, beside what was nominal; recent ones count more
    observed: Floats  # how many that mean is worth
    first_gpu: Integers
    # by GPU
    free_of_gpu: Integers  # thousandths
    # by typical task: what jobs usually ask for, smaller shares of a GPU first
    typical_gpu_milli: Integers  # of one instance
    typical_cpu_milli: Integers
    typical_memory_mib: Integers
    typical_types: Integers  # as `allowed_types`
    typical_share: Floats  # of all jobs
    # of the cluster
    nominal: Floats  # [kinds, machines]: speed of a job alone on a machine
    total_gpus: int
    free_total_milli: int
    contention: float  # job i on machine k: contention * s_i * (load_k - own) / GPUs_k, in units of 1
    communication_weight: float
    across_racks: float
    # lent to policies
    machine_order: Integers  # one place per machine
    machine_score: Floats
    job_order: Integers  # one place per slot
    job_score: Floats


class Action(NamedTuple):
    """One thing to do; make it with `start` or `preempt`, or use `HOLD`."""

    verb: int
    job: int  # slot
    machines: Integers  # in order of preference
    gpu: int  # the GPU for a share of one, counted within its machine; NOWHERE: the fullest it fits on


def start(job: int, machines: NDArray[np.int64], gpu: int = NOWHERE) -> Action:
    """Start a waiting job on machines in order of preference.

    >>> start(3, np.array([0, 1])).job
    3
    """
    return Action(START, job, machines, gpu)


def preempt(job: int, machines: NDArray[np.int64]) -> Action:
    """Stop a running job; it waits again and loses the work since its checkpoint.

    `machines` is not looked at; rules hand over `snapshot.machine_order[:0]`.
    """
    return Action(PREEMPT, job, machines, NOWHERE)


HOLD = Action(WAIT, NOWHERE, np.zeros(0, np.int64), NOWHERE)
"""Start nothing more until something changes."""


class Part(NamedTuple):
    """Instances of a job on one machine."""

    machine: int
    instances: int


class Command(NamedTuple):
    """An action in words that a cluster manager understands."""

    verb: str  # start or preempt
    job_id: int
    parts: tuple[Part, ...]


def allowed_on(snapshot: Snapshot, job: int, machine: int) -> bool:
    """Whether the machine has a GPU model the job may use."""
    return (snapshot.allowed_types[job] >> snapshot.gpu_type[machine]) & 1 == 1


def fits_on(snapshot: Snapshot, job: int, machine: int) -> int:
    """How many instances of a job fit on a machine now (never more than it has)."""
    if not allowed_on(snapshot, job, machine):
        return 0
    milli = snapshot.gpu_milli[job]
    room = snapshot.instances[job]
    if milli >= WHOLE:
        room = min(room, snapshot.free_gpus[machine] * WHOLE // milli)
    else:
        shares = 0
        first = snapshot.first_gpu[machine]
        for gpu in range(first, first + snapshot.gpus[machine]):
            shares += snapshot.free_of_gpu[gpu] // milli
        room = min(room, shares)
    if snapshot.cpu_milli[job] > 0:
        room = min(room, snapshot.free_cpu_milli[machine] // snapshot.cpu_milli[job])
    if snapshot.memory_mib[job] > 0:
        room = min(room, snapshot.free_memory_mib[machine] // snapshot.memory_mib[job])
    return room


def gang_fits(snapshot: Snapshot, job: int) -> bool:
    """Whether all instances of a job could be placed now."""
    needed = snapshot.instances[job]
    if needed * snapshot.gpu_milli[job] > snapshot.free_total_milli:
        return False
    for machine in range(len(snapshot.gpus)):
        if snapshot.free_milli[machine] > 0:
            needed -= fits_on(snapshot, job, machine)
            if needed <= 0:
                return True
    return False


def gpus_for_share(snapshot: Snapshot, machine: int, milli: int) -> int:
    """The fullest GPU of a machine with room for a share, counted within the machine; NOWHERE: none."""
    best = NOWHERE
    least = WHOLE + 1
    first = snapshot.first_gpu[machine]
    for place in range(snapshot.gpus[machine]):
        free = snapshot.free_of_gpu[first + place]
        if milli <= free < least:
            best, least = place, free
    return best


def remaining_ms(snapshot: Snapshot, job: int) -> float:
    """Work left at the reference speed, as far as durations are known; NaN: nobody knows."""
    done = snapshot.done_ms[job] + snapshot.rate[job] * (snapshot.now_ms - snapshot.since_ms[job])
    return max(snapshot.expected_ms[job] - done, 0.0)


def decode(snapshot: Snapshot, action: Action) -> Command | None:
    """Turn an action into a command, or refuse it with the reason; `HOLD` gives None."""
    verb, job = int(action.verb), int(action.job)
    if verb == WAIT:
        if not snapshot.may_hold:
            raise ActionError(
                "HOLD while nothing runs and nothing will come would stop the cluster; start a job"
            )
        return None
    if verb == PREEMPT:
        if job not in snapshot.running:
            raise ActionError(
                f"job in slot {job} does not run, so it cannot be preempted; choose from `running`"
            )
        return Command("preempt", int(snapshot.job_id[job]), ())
    if verb != START:
        raise ActionError(f"verb {verb} does not exist; use start(), preempt() or HOLD")
    if job not in snapshot.pending:
        raise ActionError(f"job in slot {job} does not wait, so it cannot be started; choose from `pending`")
    parts, needed = [], int(snapshot.instances[job])
    seen: set[int] = set()
    for machine in map(int, action.machines):
        if not 0 <= machine < len(snapshot.gpus) or machine in seen:
            raise ActionError(
                f"machine {machine} does not exist or stands there twice; name each of the "
                f"{len(snapshot.gpus)} machines once at most"
            )
        seen.add(machine)
        placed = min(needed, int(fits_on(snapshot, job, machine)))
        if placed > 0:
            parts.append(Part(machine, placed))
            needed -= placed
        if needed == 0:
            return Command("start", int(snapshot.job_id[job]), tuple(parts))
    raise ActionError(
        f"job {int(snapshot.job_id[job])} needs room for {needed} more instances than fit on the "
        f"{len(seen)} machines named; name more, or choose a job that fits"
    )
