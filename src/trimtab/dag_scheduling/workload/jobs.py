"""What arrives: which kind of job, when, and where the knowledge comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.core.array_file import Provenance, fields_of, load_arrays, save_arrays
from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import exponential, integers, split
from trimtab.dag_scheduling.workload.profile import Profile

__all__ = ["Provenance", "Workload", "batch", "load_workload", "poisson", "save_workload"]

FORMAT = "trimtab-dag-workload"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs in order of arrival; job `i` is of kind `template[i]` and comes at `arrival_ms[i]`.

    >>> from trimtab.dag_scheduling.workload import JobRecord, StageRecord, build_profile
    >>> profile = build_profile([JobRecord("one", [StageRecord(tasks=4, later_wave={1: [1000]})])])
    >>> batch(profile, jobs=3, seed=1).task_count
    12
    """

    profile: Profile
    template: NDArray[np.int64]
    arrival_ms: NDArray[np.int64]
    provenance: Provenance

    def __post_init__(self) -> None:
        if len(self.template) == 0:
            raise WorkloadError(f"{self.provenance.source}: no jobs; a workload needs at least one")
        if len(self.template) != len(self.arrival_ms):
            raise WorkloadError(
                f"{self.provenance.source}: {len(self.template)} jobs but {len(self.arrival_ms)} arrivals"
            )
        if self.template.min() < 0 or self.template.max() >= self.profile.template_count:
            raise WorkloadError(
                f"{self.provenance.source}: template {self.template.max()} of "
                f"{self.profile.template_count} does not exist"
            )
        if self.arrival_ms[0] < 0 or np.any(np.diff(self.arrival_ms) < 0):
            raise WorkloadError(f"{self.provenance.source}: arrivals must be sorted and not negative")

    @property
    def job_count(self) -> int:
        return len(self.template)

    @property
    def task_count(self) -> int:
        return int(self.profile.task_count[self.template].sum())

    @property
    def work_ms(self) -> float:
        """Executor-milliseconds of all jobs at their usual task durations."""
        return float(self.profile.work_ms[self.template].sum())

    def between(self, start_ms: int, end_ms: int) -> Workload:
        """The jobs that arrive in a span of time, re-timed to start at 0: a split by time."""
        inside = (self.arrival_ms >= start_ms) & (self.arrival_ms < end_ms)
        settings = {**self.provenance.settings, "start_ms": start_ms, "end_ms": end_ms}
        return Workload(
            self.profile,
            self.template[inside],
            self.arrival_ms[inside] - start_ms,
            replace(self.provenance, settings=settings),
        )


def batch(profile: Profile, *, jobs: int, seed: int, source: str = "batch") -> Workload:
    """All jobs at time 0, each of a kind drawn uniformly."""
    template = integers(split(seed, "template"), np.arange(jobs), low=0, high=profile.template_count)
    return Workload(
        profile,
        template,
        np.zeros(jobs, np.int64),
        Provenance(source, {"arrivals": "batch", "jobs": jobs, "seed": seed}),
    )


def poisson(
    profile: Profile, *, jobs: int, mean_gap_ms: float, seed: int, source: str = "poisson"
) -> Workload:
    """A stream with exponential gaps; the first job comes at time 0."""
    if not mean_gap_ms > 0:
        raise WorkloadError(f"mean gap of {mean_gap_ms} ms between jobs; it must be positive")
    drawn = batch(profile, jobs=jobs, seed=seed)
    gaps = np.floor(exponential(split(seed, "gap"), np.arange(jobs)) * mean_gap_ms).astype(np.int64)
    gaps[0] = 0
    return Workload(
        profile,
        drawn.template,
        np.cumsum(gaps),
        Provenance(
            source,
            {"arrivals": "poisson", "jobs": jobs, "mean_gap_ms": mean_gap_ms, "seed": seed},
        ),
    )


def save_workload(workload: Workload, path: str | Path) -> None:
    """Write a workload as one file: arrays plus a JSON header, no pickle."""
    profile = workload.profile
    arrays = {name: value for name, value in vars(profile).items() if isinstance(value, np.ndarray)} | {
        "template": workload.template,
        "arrival_ms": workload.arrival_ms,
    }
    header = {
        "names": profile.names,
        "stage_names": profile.stage_names,
        "provenance": asdict(workload.provenance),
    }
    save_arrays(path, arrays, header, form=FORMAT, version=VERSION)


def load_workload(path: str | Path) -> Workload:
    """Read a workload file, or say in one line why it cannot be read."""
    arrays, header = load_arrays(path, form=FORMAT, version=VERSION, what="workload")
    with fields_of(path, what="workload"):
        template, arrival_ms = arrays.pop("template"), arrays.pop("arrival_ms")
        profile = Profile(names=tuple(header["names"]), stage_names=tuple(header["stage_names"]), **arrays)
        return Workload(profile, template, arrival_ms, Provenance(**header["provenance"]))
