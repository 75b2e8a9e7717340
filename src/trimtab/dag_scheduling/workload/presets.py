"""Workloads by name, and what of them arrives when: a batch, a Poisson stream, or a trace.

A name stands for kinds of jobs (``tpch``, ``synthetic``, ``synthetic:7``), for a small workload that
is complete with its arrivals (``tiny:diamond``), or for a file written by ``trimtab import``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.registry import WORKLOAD_ENTRY_POINTS, Registry
from trimtab.core.settings import Field, Settings, model_validator
from trimtab.dag_scheduling.workload.jobs import Workload, batch, load_workload, poisson
from trimtab.dag_scheduling.workload.profile import Profile

__all__ = [
    "PREFIX",
    "SHORTEST_STRETCH",
    "TRAINING_SHARE",
    "WORKLOADS",
    "Source",
    "WorkloadSettings",
    "described",
    "draw_workload",
    "find_source",
    "has_demands",
    "mean_gap_ms",
    "stretch_jobs",
    "training_jobs",
    "with_random_memory",
]

Source = Profile | Workload
"""Kinds of jobs to draw from, or jobs with arrivals of their own."""

PREFIX = "dag/"
TRAINING_SHARE = 0.7
"""Share of a trace, from its beginning, that rules are tuned on; the rest is for tests."""
SHORTEST_STRETCH = 5
"""Test episodes of fewer jobs say little of schedulers: hardly two jobs meet."""

Part = Literal["all", "training", "test"]
_HERE = "trimtab.dag_scheduling.workload.presets"

WORKLOADS: Registry[Callable[[str], Source]] = Registry(
    "workload",
    {
        "dag/small": f"{_HERE}:small",
        "dag/synthetic": f"{_HERE}:synthetic",
        "dag/tiny": f"{_HERE}:tiny",
        "dag/tpch": f"{_HERE}:tpch",
    },
    WORKLOAD_ENTRY_POINTS,
    prefix=PREFIX,
)


class WorkloadSettings(Settings):
    """Which jobs arrive, and when.

    >>> WorkloadSettings(name="synthetic", jobs=5).arrivals
    'batch'
    """

    name: str = Field(
        default="tpch", min_length=1, description="Name of a workload, or path of a workload file."
    )
    jobs: int = Field(
        default=20,
        ge=1,
        le=1_000_000,
        description="Jobs per episode; of a trace, so many in a row.",
    )
    arrivals: Literal["batch", "poisson", "trace"] = Field(
        default="batch",
        description="All jobs at once, a Poisson stream, or the times of the file itself.",
    )
    mean_gap_s: float | None = Field(
        default=None, gt=0, le=1e6, description="Mean time between jobs of a stream, in seconds."
    )
    load: float | None = Field(
        default=None,
        gt=0,
        le=2,
        description="Work that arrives in a stream, as a share of capacity.",
    )
    random_memory: bool = Field(
        default=False, description="Give every stage a random memory demand in (0, 1]."
    )

    @model_validator(mode="after")
    def _one_pace(self) -> WorkloadSettings:
        paces = {"mean_gap_s": self.mean_gap_s, "load": self.load}
        given = [pace for pace, value in paces.items() if value is not None]
        if self.arrivals == "poisson" and len(given) != 1:
            raise ValueError("a poisson stream needs either mean_gap_s or load; give one of the two")
        if self.arrivals != "poisson" and given:
            raise ValueError(f"{given[0]} belongs to arrivals = poisson, not {self.arrivals}; change one")
        return self


def draw_workload(settings: WorkloadSettings, *, executors: int, seed: int, part: Part = "all") -> Workload:
    """Draw the jobs of one episode; the same seed gives the same jobs to every policy.

    A trace is split by time: of its first 70 % (training) or the rest (test) an episode takes so many
    jobs in a row, from a place that depends on the seed. With `all`, it is the beginning of the trace,
    and all of one that is shorter than the usual number of jobs; more than it has cannot be asked for.
    """
    source = find_source(settings.name)
    if settings.random_memory:
        source = _with_memory(source)
    if settings.arrivals == "trace":
        trace = _as_trace(source, settings.name)
        if part == "all":
            _refuse_more_jobs(settings, trace.job_count)
            return _jobs_in_a_row(trace, 0, settings.jobs)
        return _stretch(trace, settings.jobs, seed, part)
    profile = source if isinstance(source, Profile) else source.profile
    if settings.arrivals == "batch":
        return batch(profile, jobs=settings.jobs, seed=seed, source=settings.name)
    return poisson(
        profile,
        jobs=settings.jobs,
        mean_gap_ms=mean_gap_ms(profile, settings, executors),
        seed=seed,
        source=settings.name,
    )


def mean_gap_ms(profile: Profile, settings: WorkloadSettings, executors: int) -> float:
    """Turn a load into a gap: mean work of a job over what the cluster can do at that load.

    Work is counted at usual task durations; moving and the slowdown of wide jobs come on top.
    """
    if settings.mean_gap_s is not None:
        return settings.mean_gap_s * 1000.0
    if settings.load is None:
        raise WorkloadError("a stream needs mean_gap_s or load; give one of the two")
    return float(profile.work_ms.mean()) / (settings.load * executors)


def with_random_memory(profile: Profile, seed: int) -> Profile:
    """The same jobs with a memory demand uniform in (0, 1] for every stage, as Decima's test had.

    >>> from trimtab.dag_scheduling.workload.tiny import tiny_workload
    >>> profile = with_random_memory(tiny_workload("diamond").profile, seed=0)
    >>> bool((profile.memory > 0).all() and (profile.memory <= 1).all())
    True
    """
    demand = 1.0 - uniform(split(seed, "memory"), np.arange(len(profile.tasks)))
    return replace(profile, memory=demand)


def has_demands(name: str) -> bool:
    """Whether a workload comes with memory demands of its own."""
    source = find_source(name)
    profile = source if isinstance(source, Profile) else source.profile
    return bool((profile.memory > 0).any())


def find_source(name: str) -> Source:
    """Look a workload up: a registered name, with a variant after a colon, or a file."""
    if _is_path(name):
        return _file(name, Path(name).stat().st_mtime_ns if Path(name).is_file() else 0)
    base, _, variant = name.removeprefix(PREFIX).partition(":")
    return _named(base, variant)


def described(name: str) -> str:
    """Say in one sentence what a workload is: the first line of its docstring."""
    return (WORKLOADS.load(name).__doc__ or "").strip().split("\n")[0]


def tpch(variant: str = "") -> Source:
    """The 22 TPC-H queries on Spark, recorded by us and scaled to 2-100 GB."""
    _refuse_variant("tpch", variant)
    from trimtab.dag_scheduling.workload.tpch import tpch_profile

    return tpch_profile()


def synthetic(variant: str = "") -> Source:
    """Random DAGs with the published statistics of TPC-H on Spark; `synthetic:7` is another draw."""
    from trimtab.dag_scheduling.workload.synthetic import synthetic_profile

    return synthetic_profile(_seed("synthetic", variant))


def small(variant: str = "") -> Source:
    """Random jobs of a few tasks, for clusters of a few executors; `small:7` is another draw."""
    from trimtab.dag_scheduling.workload.tiny import small_profile

    return small_profile(_seed("small", variant))


def _seed(name: str, variant: str) -> int:
    if variant and not variant.isdecimal():
        raise WorkloadError(f"{name}:{variant}: the variant is a seed, such as {name}:7")
    return int(variant or 0)


def tiny(variant: str = "") -> Source:
    """A handful of jobs whose best schedule is known; `tiny:diamond` names one of them."""
    from trimtab.dag_scheduling.workload.tiny import tiny_workload

    return tiny_workload(variant or "two-jobs")


def _is_path(name: str) -> bool:
    return "/" in name.removeprefix(PREFIX) or name.endswith(".workload") or Path(name).is_file()


# One object per name and process: the engine lays out its tables once for each profile.
@lru_cache(maxsize=16)
def _named(base: str, variant: str) -> Source:
    try:
        preset = WORKLOADS.load(PREFIX + base)
    except RegistryError as error:
        raise RegistryError(f"{error}, or the path of a .workload file") from None
    return preset(variant)


@lru_cache(maxsize=4)
def _file(path: str, modified_ns: int) -> Workload:
    return load_workload(Path(path))


@lru_cache(maxsize=4)
def _with_memory(source: Source) -> Source:
    if isinstance(source, Profile):
        return with_random_memory(source, seed=0)
    return replace(source, profile=with_random_memory(source.profile, seed=0))


def _as_trace(source: Source, name: str) -> Workload:
    if isinstance(source, Workload):
        return source
    raise WorkloadError(f"workload {name!r} has no arrivals of its own; use arrivals = batch or poisson")


def _refuse_more_jobs(settings: WorkloadSettings, jobs: int) -> None:
    """Fewer jobs than were asked for would pass for all of them; the usual number is nobody's wish."""
    if "jobs" in settings.model_fields_set and settings.jobs > jobs:
        raise WorkloadError(
            f"jobs = {settings.jobs}: {settings.name} has {jobs}; lower jobs, or use arrivals = batch"
        )


def training_jobs(trace: Workload) -> int:
    """How many jobs of a trace, from its beginning, belong to training."""
    return int(trace.job_count * TRAINING_SHARE)


def stretch_jobs(trace: Workload) -> int:
    """Half of a trace's test part: test episodes of so many jobs differ and are still long."""
    return (trace.job_count - training_jobs(trace)) // 2


def _stretch(trace: Workload, jobs: int, seed: int, part: Part) -> Workload:
    cut = training_jobs(trace)
    first, last = (0, cut) if part == "training" else (cut, trace.job_count)
    if last - first < jobs:
        raise WorkloadError(
            f"{trace.provenance.source}: its {part} part has {last - first} of {trace.job_count} jobs, an "
            f"episode needs {jobs}; lower jobs, or use arrivals = batch"
        )
    places = last - first - jobs + 1
    start = first + int(integers(split(seed, "stretch"), 0, low=0, high=places))
    return _jobs_in_a_row(trace, start, jobs)


def _jobs_in_a_row(trace: Workload, start: int, jobs: int) -> Workload:
    """Some consecutive jobs, re-timed to begin at 0."""
    chosen = slice(start, start + jobs)
    arrival_ms = trace.arrival_ms[chosen]
    return replace(trace, template=trace.template[chosen], arrival_ms=arrival_ms - arrival_ms[0])


def _refuse_variant(name: str, variant: str) -> None:
    if variant:
        raise WorkloadError(f"workload {name!r} has no variants, but {variant!r} was asked for")
