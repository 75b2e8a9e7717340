"""Training jobs as arrays: what each asks for, how long it takes, and where the knowledge comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.array_file import Provenance, fields_of, load_arrays, save_arrays
from trimtab.core.errors import WorkloadError

__all__ = [
    "GROUP_BITS",
    "WHOLE",
    "Provenance",
    "Workload",
    "load_workload",
    "make_workload",
    "save_workload",
    "typical_demands",
]

FORMAT = "trimtab-gpu-workload"
VERSION = 1
WHOLE = 1000
"""Thousandths of a GPU in a GPU."""
GROUP_BITS = 48
"""Keys of groups are below 2 to this power."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs in order of arrival, one entry of each array per job.

    A job is a *gang*: all its instances run at the same time or none. An instance lives on one machine and
    takes `gpu_milli` thousandths of GPUs there: a part of one GPU (below 1000), or whole GPUs. `duration_ms`
    is how long the job takes alone on one machine with GPUs of the reference speed.

    >>> jobs = make_workload([0, 500], duration_ms=[4000, 2000], gpus=[1, 8])
    >>> jobs.gpu_ms.tolist()
    [4000.0, 16000.0]
    """

    arrival_ms: Integers
    duration_ms: Integers
    instances: Integers
    gpu_milli: Integers  # of one instance
    cpu_milli: Integers  # of one instance
    memory_mib: Integers  # of one instance
    allowed_types: Integers  # bit t: may run on type_names[t]; 0: on any
    user: Integers
    group: Integers  # key of jobs that resemble each other (same user and name), the same in every workload
    kind: Integers  # row of `kind_speed`
    sensitivity: Floats  # how much the job suffers from, and causes, contention on a machine; usual: 1
    communication: Floats  # share of time lost when spread over machines
    type_names: tuple[str, ...]
    kind_names: tuple[str, ...]
    kind_speed: Floats  # [kinds, types]: speed on each GPU model; NaN: that of the model itself
    provenance: Provenance
    ids: tuple[str, ...] = ()  # names of the jobs; empty: their positions

    def __post_init__(self) -> None:
        count = len(self.arrival_ms)
        if count == 0:
            raise WorkloadError(f"{self._source}: no jobs; a workload needs at least one")
        for name in _BY_JOB:
            values = getattr(self, name)
            if len(values) != count:
                raise WorkloadError(f"{self._source}: {count} jobs but {len(values)} values of {name}")
            if not np.isfinite(values).all():
                raise WorkloadError(
                    f"{self._job(int(np.argmin(np.isfinite(values))))}: {name} is not a number"
                )
        if self.arrival_ms[0] < 0:
            raise WorkloadError(
                f"{self._job(0)}: arrives at {self.arrival_ms[0]} ms, before 0; shift the arrivals"
            )
        if np.any(np.diff(self.arrival_ms) < 0):
            place = int(np.argmax(np.diff(self.arrival_ms) < 0)) + 1
            raise WorkloadError(f"{self._job(place)}: arrives before the job ahead of it; sort by arrival")
        self._refuse_below("duration_ms", 1, "drop jobs that never ran")
        self._refuse_below("instances", 1, "drop jobs without instances")
        self._refuse_below("gpu_milli", 1, "drop jobs without GPUs")
        for name in ("cpu_milli", "memory_mib", "allowed_types", "user", "group", "kind"):
            self._refuse_below(name, 0, "mend the history")
        for name in ("sensitivity", "communication"):
            self._refuse_below(name, 0, "shares are positive")
        uneven = (self.gpu_milli > WHOLE) & (self.gpu_milli % WHOLE != 0)
        if uneven.any():
            place = int(np.argmax(uneven))
            raise WorkloadError(
                f"{self._job(place)}: {self.gpu_milli[place]} thousandths of a GPU; above 1000, whole GPUs"
            )
        wanted = (len(self.kind_names), len(self.type_names))
        if self.kind_speed.shape != wanted:
            raise WorkloadError(
                f"{self._source}: kind_speed has the shape {self.kind_speed.shape}, not {wanted}; give a row "
                "for every kind and a column for every GPU model"
            )
        if not (np.isnan(self.kind_speed) | ((self.kind_speed > 0) & np.isfinite(self.kind_speed))).all():
            raise WorkloadError(
                f"{self._source}: kind_speed has a speed that is not above 0; use NaN where nobody knows"
            )
        if self.kind.max() >= len(self.kind_names):
            raise WorkloadError(
                f"{self._source}: kind {self.kind.max()} of {len(self.kind_names)} does not exist"
            )
        if int(self.allowed_types.max()) >> len(self.type_names):
            raise WorkloadError(f"{self._source}: a GPU model is allowed that has no name")
        if self.ids and len(self.ids) != count:
            raise WorkloadError(f"{self._source}: {count} jobs but {len(self.ids)} ids")
        if len(set(self.ids)) < len(self.ids):
            seen: set[str] = set()
            twice = next(name for name in self.ids if name in seen or seen.add(name))
            raise WorkloadError(f"{self._source}: job {twice!r} stands there twice; ids must differ")

    def _refuse_below(self, name: str, least: float, way_out: str) -> None:
        values = getattr(self, name)
        if values.min() < least:
            place = int(np.argmax(values < least))
            raise WorkloadError(
                f"{self._job(place)}: {name} is {values[place]}, at least {least} is needed; {way_out}"
            )

    @property
    def _source(self) -> str:
        return self.provenance.source

    def _job(self, place: int) -> str:
        return f"{self._source}: job {self.name_of(place)}"

    def name_of(self, place: int) -> str:
        """The id of a job, or its position."""
        return self.ids[place] if self.ids else str(place)

    @property
    def job_count(self) -> int:
        return len(self.arrival_ms)

    @property
    def gpus(self) -> Floats:
        """GPUs of each job, all instances together."""
        return self.instances * self.gpu_milli / WHOLE

    @property
    def gpu_ms(self) -> Floats:
        """GPU-milliseconds of each job at the reference speed."""
        return self.gpus * self.duration_ms

    def chosen(self, places: ArrayLike, **settings: object) -> Workload:
        """Some of the jobs (a mask, a slice or positions in order); `settings` are noted."""
        where = np.arange(self.job_count)[places]  # pyright: ignore[reportCallIssue, reportArgumentType]
        if len(where) == 0:
            told = ", ".join(f"{name} = {value}" for name, value in settings.items() if value is not None)
            by = f" by {told}" if told else ""
            raise WorkloadError(f"{self._source}: no jobs are left of {self.job_count}{by}; widen the choice")
        parts: dict[str, Any] = {name: getattr(self, name)[where] for name in _BY_JOB}
        return replace(
            self,
            **parts,
            ids=tuple(self.ids[place] for place in where) if self.ids else (),
            provenance=replace(self.provenance, settings={**self.provenance.settings, **settings}),
        )

    def arriving(self, arrival_ms: Integers) -> Workload:
        """The same jobs at other times."""
        return replace(self, arrival_ms=np.asarray(arrival_ms, np.int64))

    def between(self, start_ms: int, end_ms: int) -> Workload:
        """The jobs that arrive in a span of time, re-timed to start at 0: a split by time."""
        inside = (self.arrival_ms >= start_ms) & (self.arrival_ms < end_ms)
        part = self.chosen(inside, start_ms=start_ms, end_ms=end_ms)
        return part.arriving(part.arrival_ms - start_ms)


_BY_JOB = tuple(
    field.name
    for field in fields(Workload)
    if field.type in ("Integers", "Floats") and field.name != "kind_speed"
)


def make_workload(
    arrival_ms: ArrayLike,
    *,
    duration_ms: ArrayLike,
    gpus: ArrayLike | None = None,
    instances: ArrayLike = 1,
    gpu_milli: ArrayLike | None = None,
    cpu_milli: ArrayLike = 0,
    memory_mib: ArrayLike = 0,
    allowed_types: ArrayLike = 0,
    user: ArrayLike = 0,
    group: ArrayLike = 0,
    kind: ArrayLike = 0,
    sensitivity: ArrayLike = 1.0,
    communication: ArrayLike = 0.0,
    type_names: Sequence[str] = (),
    kind_names: Sequence[str] = ("job",),
    kind_speed: ArrayLike | None = None,
    ids: Sequence[str] = (),
    source: str = "jobs",
    settings: Mapping[str, object] | None = None,
) -> Workload:
    """Make a workload from what is known; jobs are sorted by arrival, the rest has usual values.

    With `gpus` an instance is one GPU, so a gang may be spread in any way; otherwise give `instances` and
    `gpu_milli`.

    >>> make_workload([5, 0], duration_ms=[1000, 2000], gpus=[2, 1]).arrival_ms.tolist()
    [0, 5]
    """
    arrival = np.asarray(arrival_ms, np.int64)
    if gpus is not None:
        instances, gpu_milli = gpus, WHOLE
    elif gpu_milli is None:
        gpu_milli = WHOLE
    order = np.argsort(arrival, kind="stable")

    def by_job(values: ArrayLike, kind_of: type = np.int64) -> NDArray[Any]:
        array = np.asarray(values)
        if array.shape not in ((), (1,), arrival.shape):
            raise WorkloadError(
                f"{source}: {len(arrival)} jobs but an array of shape {array.shape}; give a number for every "
                "job, or one for all"
            )
        if kind_of is np.int64 and array.dtype.kind == "f" and not np.isfinite(array).all():
            place = int(np.argmin(np.isfinite(np.broadcast_to(array, arrival.shape))))
            raise WorkloadError(
                f"{source}: job {place}: NaN where a whole number is needed; mend or drop the job"
            )
        return np.broadcast_to(array.astype(kind_of), arrival.shape)[order]

    def whole(name: str, values: ArrayLike) -> NDArray[Any]:
        found, told = by_job(values), by_job(values, np.float64)
        if (found != told).any():
            place = int(np.argmax(found != told))
            raise WorkloadError(
                f"{source}: job {order[place]}: {name} is {told[place]:g}, and a whole number is needed; a "
                "part of one GPU is a gpu_milli below 1000"
            )
        return found

    return Workload(
        arrival_ms=arrival[order],
        duration_ms=by_job(duration_ms),
        instances=whole("instances" if gpus is None else "gpus", instances),
        gpu_milli=whole("gpu_milli", gpu_milli),
        cpu_milli=by_job(cpu_milli),
        memory_mib=by_job(memory_mib),
        allowed_types=by_job(allowed_types),
        user=by_job(user),
        group=by_job(group),
        kind=by_job(kind),
        sensitivity=by_job(sensitivity, np.float64),
        communication=by_job(communication, np.float64),
        type_names=tuple(type_names),
        kind_names=tuple(kind_names),
        kind_speed=np.full((len(kind_names), len(type_names)), np.nan)
        if kind_speed is None
        else np.asarray(kind_speed, np.float64),
        provenance=Provenance(source, dict(settings or {})),
        ids=tuple(ids[int(place)] for place in order) if len(ids) == len(order) else tuple(ids),
    )


def typical_demands(workload: Workload, *, covered: float = 0.999) -> tuple[Workload, Floats]:
    """One job for each of the commonest demands, by GPUs of an instance, and its share of all jobs.

    The rarest are left out as long as the rest cover nearly all; FGD (ATC'23) calls these typical tasks.

    >>> jobs, share = typical_demands(make_workload([0, 1, 2], duration_ms=9, gpu_milli=[2000, 500, 2000]))
    >>> jobs.gpu_milli.tolist(), share.round(2).tolist()
    ([500, 2000], [0.33, 0.67])
    """
    names = ("gpu_milli", "cpu_milli", "memory_mib", "allowed_types")
    rows = np.stack([getattr(workload, name) for name in names], axis=1)
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    by_count = np.argsort(-count, kind="stable")
    enough = int(np.searchsorted(np.cumsum(count[by_count]), covered * workload.job_count)) + 1
    kept = np.sort(by_count[:enough])
    order = np.argsort(first[kept])
    # `chosen` wants positions in order of arrival; rows of `np.unique` are in order of demand.
    found = workload.chosen(first[kept][order])
    back = np.argsort(order)
    parts: dict[str, Any] = {name: getattr(found, name)[back] for name in names}
    return replace(found, **parts), count[kept] / workload.job_count


def save_workload(workload: Workload, path: str | Path) -> None:
    """Write a workload as one file: arrays plus a JSON header, no pickle."""
    arrays = {name: getattr(workload, name) for name in (*_BY_JOB, "kind_speed")}
    header = {
        "type_names": workload.type_names,
        "kind_names": workload.kind_names,
        "ids": workload.ids,
        "provenance": asdict(workload.provenance),
    }
    save_arrays(path, arrays, header, form=FORMAT, version=VERSION)


def load_workload(path: str | Path) -> Workload:
    """Read a workload file, or say in one line why it cannot be read."""
    arrays, header = load_arrays(path, form=FORMAT, version=VERSION, what="workload")
    with fields_of(path, what="workload"):
        return Workload(
            **arrays,
            type_names=tuple(header["type_names"]),
            kind_names=tuple(header["kind_names"]),
            ids=tuple(header["ids"]),
            provenance=Provenance(**header["provenance"]),
        )
