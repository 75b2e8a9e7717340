"""Clusters by name: those of the experiments, and those of the public traces.

`das-small`, `das-medium` and `das-large` are 8, 10 and 13 machines of four GPUs in racks of four, every
fourth machine at 0.7 of the speed. The same jobs arrive at all three: `usual_load` gives the load that means
the same number of jobs a day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from trimtab.core.errors import RegistryError, SettingsError
from trimtab.core.registry import Registry
from trimtab.gpu_scheduling.cluster import TYPES, Cluster, GpuType, MachineGroup

__all__ = [
    "CLUSTERS",
    "TRACE_TYPES",
    "USUAL_LOAD",
    "capacity_gpus",
    "described_cluster",
    "find_cluster",
    "usual_load",
]

USUAL_LOAD = 0.76
"""GPU time asked for by arriving jobs, as a share of 8 machines of four GPUs at full speed."""
_DAS_SIZES = {"das-small": 8, "das-medium": 10, "das-large": 13}
_DAS_GPUS, _RACK, _SLOW = 4, 4, 0.7

TRACE_TYPES = (
    GpuType(name="V100M16", speed=1.0, price=3.06),
    GpuType(name="V100M32", speed=1.0, price=3.06),
    GpuType(name="G1", speed=0.5, price=0.35),
    GpuType(name="G2", speed=1.2, price=1.01),
    GpuType(name="G3", speed=2.2, price=4.10),
    GpuType(name="MISC", speed=0.25, price=0.45),
)
"""Models that Alibaba's traces name and the cluster does not know. V100M16 and V100M32 are V100 with 16 and
32 GB; MISC are older ones, such as K40m, K80 and M60. What G1, G2 and G3 are is not published: they are
*assumed* to be like T4, A10 and A100. All numbers are assumed; declare others in `gpu_types` if you know
better."""

_SIZE = re.compile(r"(\d+)x(\d+)(?:x(\S+))?")
_HERE = "trimtab.gpu_scheduling.workload.clusters"

CLUSTERS: Registry[Callable[[str], Cluster]] = Registry(
    "cluster",
    {
        "das-large": f"{_HERE}:das_large",
        "das-medium": f"{_HERE}:das_medium",
        "das-small": f"{_HERE}:das_small",
        "homogeneous": f"{_HERE}:homogeneous",
        "openb": f"{_HERE}:openb",
        "pai": f"{_HERE}:pai",
        "tiny": f"{_HERE}:tiny",
        "venus": f"{_HERE}:venus",
    },
)


def find_cluster(name: str, gpu_types: Sequence[GpuType] = ()) -> Cluster:
    """Look a cluster up: a name (a variant after a colon), machines x GPUs, or a CSV of machines.

    It knows `gpu_types` beside its own GPU models, or in place of them.

    >>> find_cluster("das-small").machine_table.gpus.sum()
    np.int64(32)
    >>> len(find_cluster("64x8").machine_table.names)
    64
    >>> find_cluster("2x8xH900", [GpuType(name="H900", speed=3.0)]).machine_table.speed.tolist()
    [3.0, 3.0]
    """
    if name.endswith(".csv") or Path(name).is_file():
        # Models that public traces name are known here, so that their tables can be read.
        return Cluster(table=name, gpu_types=_joined(TRACE_TYPES, gpu_types))
    size = name.removeprefix("homogeneous:")
    if _SIZE.fullmatch(size):
        return homogeneous(size, gpu_types)
    base, _, variant = name.partition(":")
    try:
        make = CLUSTERS.load(base)
    except RegistryError as error:
        raise RegistryError(
            f"{error}; or write machines x GPUs, such as 64x8, or the path of a CSV of machines"
        ) from None
    found = make(variant)
    return found.model_copy(update={"gpu_types": _joined(found.gpu_types, gpu_types)})


def _joined(below: Sequence[GpuType], above: Sequence[GpuType]) -> tuple[GpuType, ...]:
    return tuple({one.name: one for one in (*below, *above)}.values())


def capacity_gpus(cluster: Cluster) -> float:
    """GPUs of a cluster in GPUs of the reference speed, by their models; slow machines count in full.

    >>> capacity_gpus(find_cluster("das-small")), capacity_gpus(find_cluster("8x4xT4"))
    (32.0, 16.0)
    """
    machines = cluster.machine_table
    speed = np.array([one.speed for one in machines.types])[machines.gpu_type]
    return float((machines.gpus * speed).sum())


def described_cluster(name: str) -> str:
    """Say in one sentence what a cluster is: the first line of its docstring.

    >>> described_cluster("venus")
    'The Venus cluster of Helios (SC 2021): 134 machines of 8 V100.'
    """
    return (CLUSTERS.load(name).__doc__ or "").strip().split("\n")[0]


def usual_load(name: str) -> float:
    """The load on a named cluster; on the three sizes of DAS it means the same stream of jobs.

    >>> usual_load("das-small"), usual_load("das-medium")
    (0.76, 0.608)
    """
    machines = _DAS_SIZES.get(name.partition(":")[0])
    return USUAL_LOAD if machines is None else USUAL_LOAD * _DAS_SIZES["das-small"] / machines


def das_small(variant: str = "") -> Cluster:
    """8 machines of 4 GPUs, every fourth at 0.7 of the speed."""
    return _das("das-small", variant)


def das_medium(variant: str = "") -> Cluster:
    """10 machines of 4 GPUs, every fourth at 0.7 of the speed."""
    return _das("das-medium", variant)


def das_large(variant: str = "") -> Cluster:
    """13 machines of 4 GPUs, every fourth at 0.7 of the speed."""
    return _das("das-large", variant)


def _das(name: str, variant: str) -> Cluster:
    _refuse_variant(name, variant)
    groups: list[MachineGroup] = []
    for first in range(0, _DAS_SIZES[name], _RACK):
        size = min(_RACK, _DAS_SIZES[name] - first)
        rack = first // _RACK
        groups.append(MachineGroup(count=min(size, _RACK - 1), gpus=_DAS_GPUS, rack=rack))
        if size == _RACK:
            groups.append(MachineGroup(count=1, gpus=_DAS_GPUS, rack=rack, speed=_SLOW))
    return Cluster(machines=tuple(groups), contention=0.15)


def homogeneous(variant: str = "", gpu_types: Sequence[GpuType] = ()) -> Cluster:
    """So many equal machines, of so many GPUs each: `homogeneous:64x8`, or `homogeneous:64x8xT4`."""
    matched = _SIZE.fullmatch(variant or "64x8")
    if matched is None:
        raise SettingsError(f"cluster homogeneous:{variant}: write machines x GPUs, such as homogeneous:64x8")
    machines, gpus = int(matched[1]), int(matched[2])
    if not (1 <= machines <= 100_000 and 1 <= gpus <= 64):
        raise SettingsError(
            f"cluster homogeneous:{variant}: 1 to 100000 machines of 1 to 64 GPUs are possible"
        )
    known = {one.name for one in (*TYPES, *TRACE_TYPES, *gpu_types)}
    if matched[3] and matched[3] not in known:
        raise SettingsError(
            f"cluster homogeneous:{variant}: GPU model {matched[3]!r} is not known; declare it in gpu_types, "
            f"or use {', '.join(sorted(known))}"
        )
    group = MachineGroup(count=machines, gpus=gpus, gpu_type=matched[3] or "V100", rack_size=_RACK)
    return Cluster(machines=(group,), gpu_types=_joined(_wanted_types([group]), gpu_types))


def venus(variant: str = "") -> Cluster:
    """The Venus cluster of Helios (SC 2021): 134 machines of 8 V100."""
    _refuse_variant("venus", variant)
    return Cluster(machines=(MachineGroup(count=134, gpus=8, cpus=48, memory_gib=376, rack_size=_RACK),))


def openb(variant: str = "") -> Cluster:
    """The cluster of Alibaba's GPU trace of 2023: 1,213 machines with 6,212 GPUs of seven models."""
    _refuse_variant("openb", variant)
    return _by_model(
        [
            # machines, GPUs, model, CPUs, GiB
            (2, 1, "A10", 128, 1024),
            (549, 8, "G2", 96, 384),
            (39, 8, "G3", 128, 768),
            (3, 1, "P100", 8, 60),
            (22, 2, "P100", 64, 256),
            (107, 2, "P100", 16, 120),
            (2, 2, "P100", 8, 60),
            (387, 2, "T4", 104, 512),
            (17, 4, "T4", 96, 384),
            (19, 1, "V100M16", 8, 32),
            (28, 4, "V100M16", 32, 128),
            (1, 8, "V100M16", 82, 336),
            (7, 8, "V100M16", 64, 256),
            (9, 4, "V100M32", 48, 368),
            (21, 8, "V100M32", 96, 768),
        ]
    )


def pai(variant: str = "") -> Cluster:
    """The cluster of Alibaba's PAI in 2020: 1,814 machines with 6,742 GPUs of five models."""
    _refuse_variant("pai", variant)
    return _by_model(
        [
            (798, 2, "P100", 64, 512),
            (497, 2, "T4", 96, 512),
            (280, 8, "MISC", 96, 512),
            (135, 8, "V100M32", 96, 384),
            (59, 8, "V100", 96, 512),
            (45, 8, "V100", 96, 384),
        ]
    )


def tiny(variant: str = "") -> Cluster:
    """One or two machines for a workload of a few jobs: `tiny:gang` is that of the workload `tiny:gang`."""
    from trimtab.gpu_scheduling.workload.tiny import tiny_case

    return tiny_case(variant or "short-first").cluster


def _by_model(rows: Sequence[tuple[int, int, str, int, int]]) -> Cluster:
    """Machines by model; racks of four are assumed, because the traces do not tell the network."""
    groups, rack = [], 0
    for count, gpus, model, cpus, memory_gib in rows:
        groups.append(
            MachineGroup(
                count=count,
                gpus=gpus,
                gpu_type=model,
                cpus=cpus,
                memory_gib=memory_gib,
                rack=rack,
                rack_size=_RACK,
            )
        )
        rack += -(-count // _RACK)
    return Cluster(machines=tuple(groups), gpu_types=_wanted_types(groups))


def _wanted_types(groups: Sequence[MachineGroup]) -> tuple[GpuType, ...]:
    used = {group.gpu_type for group in groups}
    return tuple(one for one in TRACE_TYPES if one.name in used)


def _refuse_variant(name: str, variant: str) -> None:
    if variant:
        raise SettingsError(f"cluster {name!r} has no variants, but {variant!r} was asked for")
