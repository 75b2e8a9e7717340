"""What never changes during an episode: the jobs and the cluster, laid out for the engine."""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError
from trimtab.gpu_scheduling.cluster import Cluster, MachineTable
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.jobs import WHOLE, typical_demands

__all__ = [
    "ARRAYS",
    "NUMBERS",
    "Tables",
    "alone_ms",
    "make_tables",
    "misfits",
    "nominal_speeds",
    "record",
    "refuse_misfits",
]

MILLISECONDS = 1000
PREDICTED, ORACLE = 1, 2
"""What is told of durations; 0: nothing."""


def record(integers: str, *, floats: str = "", words: str = "") -> np.dtype[np.void]:
    """A record type from names: integers first, then floats and unsigned words."""
    kinds = ((integers, np.int64), (floats, np.float64), (words, np.uint64))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


JOB = record(
    "arrival_ms duration_ms instances gpu_milli cpu_milli memory_mib allowed_types user group kind"
    " sensitivity size_class group_place",
    floats="communication",
)
TYPICAL = record("gpu_milli cpu_milli memory_mib allowed_types", floats="share")
MACHINE = record("gpus gpu_type rack first_gpu cpu_milli memory_mib", floats="speed price")


class Tables(NamedTuple):
    """Arrays of records, and the numbers of the cluster."""

    jobs: NDArray[Any]
    machines: NDArray[Any]
    nominal: NDArray[np.float64]  # [kinds, machines]: speed of a job alone
    typical: NDArray[Any]  # what jobs usually ask for
    group_count: int
    contention: float
    communication: float
    across_racks: float
    noise: float
    drift: float
    drift_kept: float  # share of a machine's drift that is left at the next step
    drift_period_ms: int
    checkpoint_ms: float
    large_checkpoint_ms: float
    round_ms: int
    heartbeat_ms: int
    information: int  # 0, PREDICTED or ORACLE
    total_gpus: int
    part_room: int  # parts (and shares of GPUs) that can be in use at once


ARRAYS: dict[str, tuple[Any, int]] = {
    "jobs": (JOB, 1),
    "machines": (MACHINE, 1),
    "nominal": (np.float64, 2),
    "typical": (TYPICAL, 1),
}
"""What each array holds, and its dimensions."""
NUMBERS: dict[str, Any] = {
    name: {int: np.int64, float: np.float64}[kind]
    for name, kind in get_type_hints(Tables).items()
    if name not in ARRAYS
}
"""All others, and their types."""


def make_tables(workload: Workload, cluster: Cluster) -> Tables:
    """Lay out a workload for a cluster; refuses jobs that could never start."""
    machines = cluster.machine_table
    refuse_misfits(workload, cluster)
    jobs = np.zeros(workload.job_count, JOB)
    for name in ("arrival_ms", "duration_ms", "instances", "gpu_milli", "cpu_milli", "memory_mib", "user"):
        jobs[name] = getattr(workload, name)
    jobs["group"], jobs["kind"] = workload.group, workload.kind
    groups, jobs["group_place"] = np.unique(workload.group, return_inverse=True)
    jobs["communication"] = workload.communication
    jobs["sensitivity"] = np.round(workload.sensitivity * 1000).astype(np.int64)
    jobs["allowed_types"] = _allowed(workload, machines)
    jobs["size_class"] = np.ceil(np.log2(np.ceil(workload.gpus) + 0.5)).astype(np.int64)
    period_ms = cluster.drift_period_s * MILLISECONDS
    shares = int(workload.gpu_milli.min())
    total = int(machines.gpus.sum())
    room = total if shares >= WHOLE else total * -(-WHOLE // shares)
    return Tables(
        jobs=jobs,
        machines=_machine_records(machines),
        nominal=nominal_speeds(workload, machines),
        typical=_typical(workload, machines),
        group_count=len(groups),
        contention=cluster.contention,
        communication=cluster.communication,
        across_racks=cluster.across_racks,
        noise=cluster.noise,
        drift=cluster.drift,
        drift_kept=float(np.exp(-cluster.drift_period_s / cluster.drift_memory_s)),
        drift_period_ms=period_ms,
        checkpoint_ms=cluster.checkpoint_s * MILLISECONDS,
        large_checkpoint_ms=cluster.large_checkpoint_s * MILLISECONDS,
        round_ms=cluster.round_s * MILLISECONDS,
        heartbeat_ms=cluster.heartbeat_s * MILLISECONDS,
        information=("none", "predicted", "oracle").index(cluster.information),
        total_gpus=total,
        part_room=min(room, int(workload.instances.sum())) + 1,
    )


def _typical(workload: Workload, machines: MachineTable) -> NDArray[Any]:
    demands, share = typical_demands(workload)
    table = np.zeros(len(share), TYPICAL)
    for name in ("gpu_milli", "cpu_milli", "memory_mib"):
        table[name] = getattr(demands, name)
    table["allowed_types"], table["share"] = _allowed(demands, machines), share
    return table


def _machine_records(machines: MachineTable) -> NDArray[Any]:
    table = np.zeros(len(machines.names), MACHINE)
    for name in ("gpus", "gpu_type", "rack", "cpu_milli", "memory_mib", "speed", "price"):
        table[name] = getattr(machines, name)
    table["first_gpu"] = np.cumsum(machines.gpus) - machines.gpus
    return table


def _allowed(workload: Workload, machines: MachineTable) -> NDArray[np.int64]:
    """Allowed GPU models as bits of the cluster's models; unknown names allow nothing."""
    position = {one.name: place for place, one in enumerate(machines.types)}
    found = np.zeros(workload.job_count, np.int64)
    for bit, name in enumerate(workload.type_names):
        if name in position:
            found |= ((workload.allowed_types >> bit) & 1) << position[name]
    every = (1 << len(machines.types)) - 1
    return np.where(workload.allowed_types == 0, every, found)


def nominal_speeds(workload: Workload, machines: MachineTable) -> NDArray[np.float64]:
    """[kinds, machines]: speed alone, as the workload tells for a kind of job, else that of the machine."""
    speed = np.tile(machines.speed, (len(workload.kind_names), 1))
    own = machines.speed / np.array([one.speed for one in machines.types])[machines.gpu_type]
    names = [one.name for one in machines.types]
    for column, name in enumerate(workload.type_names):
        if name in names:
            told = workload.kind_speed[:, column, None]
            of_type = machines.gpu_type == names.index(name)
            speed = np.where(of_type & ~np.isnan(told), told * own, speed)
    return np.ascontiguousarray(speed)


def _room(workload: Workload, machines: MachineTable) -> NDArray[np.int64]:
    """[demands, machines]: instances of each distinct demand that fit on an empty machine."""
    milli = workload.gpu_milli[:, None]
    per_gpu = np.where(milli >= WHOLE, 0, WHOLE // milli)
    room = np.where(milli >= WHOLE, machines.gpus * WHOLE // milli, machines.gpus * per_gpu)
    for demand, capacity in (
        (workload.cpu_milli, machines.cpu_milli),
        (workload.memory_mib, machines.memory_mib),
    ):
        room = np.minimum(
            room, np.where(demand[:, None] > 0, capacity // np.maximum(demand[:, None], 1), room)
        )
    allowed = (_allowed(workload, machines)[:, None] >> machines.gpu_type) & 1
    return room * allowed


def _distinct(workload: Workload, *names: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of one job of each demand, and for every job which of them is like it."""
    rows = np.stack([getattr(workload, name) for name in names], axis=1)
    _, first, same = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, same.ravel()


def refuse_misfits(workload: Workload, cluster: Cluster, *, on: str = "") -> None:
    """Refuse jobs that could never start; `on` names the cluster where there may be several.

    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> refuse_misfits(make_workload([0], duration_ms=[1], gpus=[99]), Cluster())
    Traceback (most recent call last):
    trimtab.core.errors.WorkloadError: jobs: job 0 needs 99 GPUs, of which the empty cluster has room ...
    """
    refused = misfits(workload, cluster)
    if len(refused):
        more = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
        where = f" on {on}" if on else ""
        job = workload.chosen(refused[:1])
        raise WorkloadError(
            f"{workload.provenance.source}{where}: job {workload.name_of(refused[0])}{more} "
            f"{_why_not(job, cluster.machine_table)}"
        )


def misfits(workload: Workload, cluster: Cluster) -> NDArray[np.int64]:
    """Places of the jobs that could never start on the empty cluster.

    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> misfits(make_workload([0, 0], duration_ms=[1, 1], gpus=[1, 99]), Cluster()).tolist()
    [1]
    """
    first, same = _distinct(workload, "gpu_milli", "cpu_milli", "memory_mib", "allowed_types")
    room = _room(workload.chosen(np.sort(first)), cluster.machine_table).sum(axis=1)
    return np.flatnonzero(room[np.argsort(np.argsort(first))][same] < workload.instances)


def _why_not(job: Workload, machines: MachineTable) -> str:
    """Why the first job cannot start on the empty cluster, and the way out."""
    usable = machines.gpus[(_allowed(job, machines)[0] >> machines.gpu_type) & 1 == 1]
    if len(usable) == 0:
        mask = int(job.allowed_types[0])
        wanted = [name for bit, name in enumerate(job.type_names) if mask >> bit & 1]
        return (
            f"asks for GPU model {' or '.join(wanted)}, which no machine has; choose a cluster that has it, "
            f"such as 64x8x{wanted[0]}, or leave such jobs out of the history"
        )
    way_out = "choose a larger cluster, or lower most_gpus"
    milli = int(job.gpu_milli[0])
    if milli > WHOLE * int(usable.max()):
        of_model = "" if len(usable) == len(machines.gpus) else " of a model it may use"
        return (
            f"needs {milli / WHOLE:g} GPUs on one machine, and the largest{of_model} has {usable.max()}; "
            f"{way_out}"
        )
    room = int(_room(job, machines).sum()) * milli / WHOLE
    beside = " beside its CPUs and memory" if job.cpu_milli[0] or job.memory_mib[0] else ""
    return f"needs {job.gpus[0]:g} GPUs, of which the empty cluster has room for {room:g}{beside}; {way_out}"


def alone_ms(workload: Workload, cluster: Cluster) -> NDArray[np.int64]:
    """How long each job takes alone on the best machines: on one that holds it, or on several if faster."""
    machines = cluster.machine_table
    first, same = _distinct(
        workload, "gpu_milli", "cpu_milli", "memory_mib", "allowed_types", "kind", "instances"
    )
    chosen = workload.chosen(np.sort(first))
    rank = np.argsort(np.argsort(first))
    room = _room(chosen, machines)
    nominal = nominal_speeds(workload, machines)[chosen.kind]
    on_one = np.where(room >= chosen.instances[:, None], nominal, 0.0).max(axis=1)[rank][same]
    on_any = np.where(room > 0, nominal, 0.0).max(axis=1)[rank][same]
    spread = on_any / (1.0 + cluster.communication * workload.communication)
    return np.ceil(workload.duration_ms / np.maximum(on_one, spread)).astype(np.int64)
