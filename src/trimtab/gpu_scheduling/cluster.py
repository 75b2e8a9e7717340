"""The cluster training jobs run on: its machines, what they cost, and what slows jobs down."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, Settings, load_settings, model_validator

__all__ = ["TYPES", "Cluster", "GpuType", "Information", "MachineGroup", "MachineTable", "load_machines"]

Information = Literal["none", "predicted", "oracle"]
"""What a policy may know of durations: nothing, a guess from finished jobs, or the truth."""

MOST_GPUS = 64
"""On one machine: the GPUs a job holds there are the bits of one word."""
MOST_TYPES = 63
"""GPU models: those a job may run on are the bits of one word, which has a sign."""
NEEDED = ("machine", "gpus", "gpu_type")
IF_KNOWN = ("cpus", "memory_gib", "rack", "speed")
"""Columns of a table of machines."""


class GpuType(Settings):
    """One model of GPU."""

    name: str = Field(min_length=1, description="Name as jobs ask for it.")
    speed: float = Field(default=1.0, gt=0, le=100, description="Speed, relative to the reference GPU.")
    price: float = Field(default=3.06, ge=0, le=1000, description="Dollars for a GPU and hour.")


TYPES = (
    GpuType(name="V100", speed=1.0, price=3.06),
    GpuType(name="P100", speed=0.76, price=1.46),
    GpuType(name="K80", speed=0.21, price=0.45),
    GpuType(name="T4", speed=0.5, price=0.35),
    GpuType(name="A10", speed=1.2, price=1.01),
    GpuType(name="A100", speed=2.2, price=4.10),
    GpuType(name="L4", speed=0.6, price=0.80),
    GpuType(name="L40S", speed=1.7, price=1.90),
    GpuType(name="H100", speed=5.4, price=6.90),
    GpuType(name="H200", speed=6.5, price=7.90),
)
"""Known without being declared. Speeds of P100 and K80: medians over 26 models, from the measurements of
Gavel (OSDI'20); of L4, L40S, H100 and H200 (SXM): from data sheets, the geometric mean of how many more FP16
operations (dense) and how much more memory bandwidth they have than a V100. The others, and all prices, are
round figures to be replaced by your own."""


class MachineGroup(Settings):
    """Some machines of one kind."""

    count: int = Field(default=1, ge=1, le=100_000, description="Machines of this kind.")
    gpus: int = Field(default=4, ge=1, le=MOST_GPUS, description="GPUs of each.")
    gpu_type: str = Field(default="V100", min_length=1, description="Model of its GPUs.")
    cpus: float = Field(default=96.0, gt=0, le=100_000, description="CPU cores of each.")
    memory_gib: float = Field(default=512.0, gt=0, le=1e6, description="Memory of each.")
    speed: float = Field(default=1.0, gt=0, le=100, description="Speed beside others with the same GPUs.")
    rack: int = Field(default=0, ge=0, description="Rack (or switch) of the first of them.")
    rack_size: int = Field(default=0, ge=0, description="Machines to a rack; 0: all in the same.")


@dataclass(frozen=True, eq=False)
class MachineTable:
    """Machines as arrays, one entry each."""

    names: tuple[str, ...]
    gpus: NDArray[np.int64]
    gpu_type: NDArray[np.int64]  # position in `types`
    cpu_milli: NDArray[np.int64]
    memory_mib: NDArray[np.int64]
    speed: NDArray[np.float64]  # of the type times that of the machine
    price: NDArray[np.float64]  # dollars for a GPU and hour
    rack: NDArray[np.int64]
    types: tuple[GpuType, ...]


class Cluster(Settings):
    """Machines, prices, and the rules of the simulation.

    >>> Cluster(machines=(MachineGroup(count=8, gpus=4),)).machine_table.gpus.sum()
    np.int64(32)
    """

    machines: tuple[MachineGroup, ...] = Field(
        default=(
            MachineGroup(count=6, rack=0, rack_size=4),
            MachineGroup(count=2, rack=1, speed=0.7),
        ),
        description="Machines by group.",
    )
    table: str | None = Field(
        default=None,
        description="CSV of machines instead (machine,gpus,gpu_type,cpus,memory_gib,rack,speed).",
    )
    gpu_types: tuple[GpuType, ...] = Field(
        default=(), description="GPU models beside the known ones, or in place of them."
    )
    contention: float = Field(
        default=0.15, ge=0, le=10, description="How much jobs on one machine slow each other down."
    )
    communication: float = Field(
        default=1.0, ge=0, le=100, description="Weight of what a job loses when spread over machines."
    )
    across_racks: float = Field(
        default=1.0, ge=0, le=100, description="Added to that weight when it is spread over racks."
    )
    noise: float = Field(
        default=0.0, ge=0, le=1, description="Deviation of the log of a job's speed from what is usual."
    )
    drift: float = Field(
        default=0.0, ge=0, le=1, description="Deviation of the log of a machine's speed, as it wanders."
    )
    drift_period_s: int = Field(
        default=600, ge=1, le=864_000, description="Time between two steps of the wandering."
    )
    drift_memory_s: int = Field(
        default=14_400, ge=1, le=8_640_000, description="Time after which a machine's drift is forgotten."
    )
    checkpoint_s: float = Field(
        default=40.0, ge=0, le=86_400, description="Work lost when a job of up to 8 GPUs is preempted."
    )
    large_checkpoint_s: float = Field(
        default=60.0, ge=0, le=86_400, description="Work lost when a larger job is preempted."
    )
    round_s: int = Field(
        default=0, ge=0, le=86_400, description="Decide at multiples of this only; 0: at every event."
    )
    heartbeat_s: int = Field(
        default=60, ge=1, le=86_400, description="Ask again after this time while jobs are held back."
    )
    information: Information = Field(
        default="none", description="What policies know of durations: none, predicted or oracle."
    )

    @model_validator(mode="after")
    def _known_types(self) -> Cluster:
        if len(self.known_types) > MOST_TYPES:
            raise ValueError(
                f"{len(self.known_types)} GPU models with the {len(TYPES)} built in; at most {MOST_TYPES} "
                "can be told apart: leave some out of gpu_types"
            )
        if self.table is None:
            if not self.machines:
                raise ValueError("a cluster without machines; give machines or table")
            for group in self.machines:
                _type_of(group.gpu_type, self.known_types)
        return self

    @property
    def known_types(self) -> tuple[GpuType, ...]:
        """The built-in GPU models, replaced or joined by the cluster's own."""
        return tuple(({one.name: one for one in TYPES} | {one.name: one for one in self.gpu_types}).values())

    @property
    def machine_table(self) -> MachineTable:
        """The machines as arrays."""
        path = None if self.table is None else Path(self.table)
        changed_ns = path.stat().st_mtime_ns if path is not None and path.is_file() else 0
        return _table_of(self, changed_ns)  # pyright: ignore[reportArgumentType]  # frozen, so hashable


@lru_cache(maxsize=64)
def _table_of(cluster: Cluster, changed_ns: int) -> MachineTable:
    if cluster.table is not None:
        return load_machines(Path(cluster.table), cluster.known_types)
    names, rows = [], []
    for group in cluster.machines:
        for place in range(group.count):
            rack = group.rack + (place // group.rack_size if group.rack_size else 0)
            names.append(f"m{len(names)}")
            rows.append((group.gpus, group.gpu_type, group.cpus, group.memory_gib, rack, group.speed))
    return _arranged(tuple(names), rows, cluster.known_types)


def load_machines(path: str | Path, types: tuple[GpuType, ...] = TYPES) -> MachineTable:
    """Read machines (and so the topology) from a table.

    The first line names the columns: machine, gpus, gpu_type and, if known, cpus, memory_gib, rack, speed.
    """
    names: dict[str, int] = {}
    rows = []
    for number, cells in _lines_of_machines(path):
        where = f"{path}, line {number}"
        name = cells.pop("machine")
        if name in names:
            raise SettingsError(
                f"{where}: machine {name!r} stands there twice, first in line {names[name]}; "
                "names must differ"
            )
        names[name] = number
        group = load_settings(MachineGroup, None, cells, given_as=lambda _, where=where: where)
        _type_of(group.gpu_type, types, where=f"{where}: ")
        rows.append((group.gpus, group.gpu_type, group.cpus, group.memory_gib, group.rack, group.speed))
    if not rows:
        raise SettingsError(f"{path}: no machines; give at least one line below the header")
    return _arranged(tuple(names), rows, types)


def _lines_of_machines(path: str | Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers, and the cells that are filled, by column."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as problem:
        raise SettingsError(f"{path}: cannot be read ({problem.strerror}); give a CSV of machines") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not text; give a CSV of machines") from None
    header = _cells(lines[0]) if lines else []
    for needed in NEEDED:
        if needed not in header:
            raise SettingsError(f"{path}: no column {needed!r}; a table of machines has {','.join(NEEDED)}")
    for column in header:
        if column not in (*NEEDED, *IF_KNOWN) or header.count(column) > 1:
            raise SettingsError(
                f"{path}: column {column!r} is not known, or there twice; remove it, or give it one of the "
                f"names {','.join((*NEEDED, *IF_KNOWN))}"
            )
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = _cells(line)
        if len(cells) != len(header):
            raise SettingsError(
                f"{path}, line {number}: {len(cells)} cells where the header has {len(header)}; mend the line"
            )
        filled = {column: cell for column, cell in zip(header, cells, strict=True) if cell}
        for needed in NEEDED:
            if needed not in filled:
                raise SettingsError(f"{path}, line {number}: nothing in column {needed!r}; fill it in")
        yield number, filled


def _cells(line: str) -> list[str]:
    """Cells of a line of a CSV, some of which may be in quotation marks."""
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def _arranged(
    names: tuple[str, ...],
    rows: list[tuple[int, str, float, float, int, float]],
    types: tuple[GpuType, ...],
) -> MachineTable:
    gpus, wanted, cpus, memory_gib, rack, speed = (list(column) for column in zip(*rows, strict=True))
    kind = np.array([_type_of(name, types) for name in wanted], np.int64)
    return MachineTable(
        names=names,
        gpus=np.array(gpus, np.int64),
        gpu_type=kind,
        cpu_milli=np.round(np.array(cpus) * 1000).astype(np.int64),
        memory_mib=np.round(np.array(memory_gib) * 1024).astype(np.int64),
        speed=np.array([one.speed for one in types])[kind] * np.array(speed, np.float64),
        price=np.array([one.price for one in types])[kind],
        rack=np.array(rack, np.int64),
        types=types,
    )


def _type_of(name: str, types: tuple[GpuType, ...], *, where: str = "") -> int:
    known = [one.name for one in types]
    if name not in known:
        raise SettingsError(
            f"{where}GPU model {name!r} is not known; declare it in gpu_types of the cluster, or use "
            f"{', '.join(known)}"
        )
    return known.index(name)
