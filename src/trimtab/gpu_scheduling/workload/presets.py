"""Workloads by name, and what of them arrives when: a batch, a stream, or a trace.

A name stands for a world of made-up jobs (``pai``, ``pai:7``, ``philly-like``), for a small workload that is
complete with its arrivals (``tiny:gang``), or for a file written by ``trimtab import``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.registry import WORKLOAD_ENTRY_POINTS, Registry
from trimtab.core.settings import Field, Settings, model_validator
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.workload.clusters import USUAL_LOAD
from trimtab.gpu_scheduling.workload.generated import (
    PAI,
    PAI_SHARED,
    PHILLY_LIKE,
    GeneratedJobs,
    JobStatistics,
    daily_arrivals,
    poisson_arrivals,
)
from trimtab.gpu_scheduling.workload.jobs import Workload, load_workload

__all__ = [
    "PREFIX",
    "UNKNOWN",
    "WORKLOADS",
    "Arrivals",
    "Part",
    "Source",
    "WorkloadSettings",
    "all_jobs",
    "all_that_fit",
    "described",
    "draw_workload",
    "filtered",
    "find_source",
    "jobs_in_a_row",
    "left_out_told",
    "left_out_words",
    "mean_gap_ms",
    "part_of",
    "past_jobs",
    "training_jobs",
    "with_unknown_filled",
]

Source = GeneratedJobs | Workload
"""A world to draw jobs from, or jobs with arrivals of their own."""
Arrivals = Literal["batch", "poisson", "daily", "trace"]
Part = Literal["all", "training", "test"]

PREFIX = "gpu/"
UNKNOWN = "unknown"
"""Under this key of the provenance's settings importers list which arrays the history did not tell."""
TRAINING_SHARE = 0.7
"""Share of a trace, from its beginning, for training policies and tuning rules; the rest is for tests."""

_HERE = "trimtab.gpu_scheduling.workload.presets"

WORKLOADS: Registry[Callable[[str], Source]] = Registry(
    "workload",
    {
        "gpu/pai": f"{_HERE}:pai",
        "gpu/pai-shared": f"{_HERE}:pai_shared",
        "gpu/philly-like": f"{_HERE}:philly_like",
        "gpu/tiny": f"{_HERE}:tiny",
    },
    WORKLOAD_ENTRY_POINTS,
    prefix=PREFIX,
)


class WorkloadSettings(Settings):
    """Which jobs arrive, and when.

    >>> WorkloadSettings(name="pai", jobs=50).arrivals
    'poisson'
    """

    name: str = Field(
        default="pai", min_length=1, description="Name of a workload, or path of a workload file."
    )
    jobs: int = Field(
        default=500, ge=1, le=10_000_000, description="Jobs per episode; of a trace, so many in a row."
    )
    arrivals: Arrivals = Field(
        default="poisson",
        description="All jobs at once, a Poisson stream, one with days and bursts, or the file's own times.",
    )
    mean_gap_s: float | None = Field(
        default=None, gt=0, le=1e6, description="Mean time between jobs of a stream, in seconds."
    )
    load: float | None = Field(
        default=None,
        gt=0,
        le=2,
        description="GPU time that arrives in a stream, as a share of capacity; 0.76 if no gap is given.",
    )
    most_gpus: int | None = Field(
        default=16, ge=1, le=1_000_000, description="Leave out jobs with more GPUs."
    )
    shortest_s: float = Field(default=60.0, ge=0, le=1e6, description="Leave out jobs that take less time.")
    sensitivity_spread: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Where a file does not tell sensitivity to contention: 1, give or take so much.",
    )
    communication: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="Where a file does not tell communication: a share from 0 to this is lost when spread.",
    )

    @model_validator(mode="after")
    def _one_pace(self) -> WorkloadSettings:
        paces = {"mean_gap_s": self.mean_gap_s, "load": self.load}
        given = [pace for pace, value in paces.items() if value is not None]
        if len(given) > 1:
            raise ValueError("a stream has either mean_gap_s or load; give one of the two")
        if self.arrivals in ("batch", "trace") and given:
            raise ValueError(
                f"{given[0]} belongs to arrivals = poisson or daily, not {self.arrivals}; change one"
            )
        return self


def draw_workload(settings: WorkloadSettings, *, gpus: float, seed: int, part: Part = "all") -> Workload:
    """Draw the jobs of one episode; the same seed gives the same jobs to every policy.

    `gpus` is the capacity that a load refers to, in GPUs of the reference speed. A trace is split by time: of
    its first 70 % (training) or the rest (test) an episode takes so many jobs in a row, from a place that
    depends on the seed; with `all`, it is the beginning of the trace, and all of one that is shorter than the
    usual number of jobs; more than it has cannot be asked for. Batches and streams of a trace are drawn from
    the jobs of that part, each as likely as any other.

    >>> jobs = draw_workload(WorkloadSettings(jobs=100), gpus=32, seed=1)
    >>> jobs.job_count, float(jobs.gpus.max()) <= 16
    (100, True)
    """
    source = _prepared(settings)
    if settings.arrivals == "trace":
        trace = _as_trace(source, settings.name)
        if part == "all":
            _refuse_more_jobs(settings)
            return jobs_in_a_row(trace, 0, settings.jobs)
        return _stretch(trace, settings.jobs, seed, part)
    jobs = _drawn(source, settings, seed, part)
    settings_told: dict[str, object] = {"arrivals": settings.arrivals, "part": part, "seed": seed}
    if settings.arrivals != "batch":
        gap_ms = mean_gap_ms(source, settings, gpus=gpus, part=part)
        settings_told["mean_gap_ms"] = gap_ms
        stream = poisson_arrivals if settings.arrivals == "poisson" else daily_arrivals
        jobs = jobs.arriving(stream(settings.jobs, mean_gap_ms=gap_ms, seed=split(seed, "arrivals")))
    told = {**jobs.provenance.settings, **settings_told}
    return replace(jobs, provenance=replace(jobs.provenance, settings=told))


def all_jobs(settings: WorkloadSettings, *, made_up: int = 20_000) -> Workload:
    """What episodes are drawn from: a whole trace, or in place of a world so many made-up jobs.

    >>> all_jobs(WorkloadSettings(name="tiny:gang", shortest_s=0)).job_count
    5
    """
    source = _prepared(settings)
    return source.draw(made_up, seed=split(0, "all")) if isinstance(source, GeneratedJobs) else source


def past_jobs(settings: WorkloadSettings, *, made_up: int = 20_000) -> Workload:
    """What a cluster has seen before: the whole training part of a trace, or so many made-up jobs.

    >>> past_jobs(WorkloadSettings(), made_up=50).job_count
    50
    """
    source = _prepared(settings)
    if isinstance(source, GeneratedJobs):
        return source.draw(made_up, seed=split(0, "past"))
    return part_of(source, "training")


def mean_gap_ms(source: Source, settings: WorkloadSettings, *, gpus: float, part: Part = "all") -> float:
    """Turn a load into a gap: mean GPU time of a job over what the cluster can do at that load.

    Work is counted at the reference speed; machines slower than their GPU model, contention and communication
    come on top.

    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> mean_gap_ms(make_workload([0], duration_ms=8000, gpus=4), WorkloadSettings(load=0.5), gpus=64)
    1000.0
    """
    if settings.mean_gap_s is not None:
        return settings.mean_gap_s * 1000.0
    if not gpus > 0:
        raise WorkloadError(f"a load on {gpus:g} GPUs; give a cluster with GPUs")
    load = USUAL_LOAD if settings.load is None else settings.load
    mean = (
        source.mean_gpu_ms
        if isinstance(source, GeneratedJobs)
        else float(part_of(source, part).gpu_ms.mean())
    )
    return float(mean / (load * gpus))


def filtered(workload: Workload, *, most_gpus: int | None = None, shortest_s: float = 0.0) -> Workload:
    """The jobs with at most so many GPUs that take at least so long; how many were left out is noted.

    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> jobs = make_workload([0, 0, 0], duration_ms=[9_000, 90_000, 90_000], gpus=[1, 1, 32])
    >>> filtered(jobs, most_gpus=16, shortest_s=60).job_count
    1
    """
    keep = workload.duration_ms >= shortest_s * 1000
    if most_gpus is not None:
        keep &= workload.gpus <= most_gpus
    left_out = int((~keep).sum())
    if left_out == 0:
        return workload
    if left_out == workload.job_count:
        most = "" if most_gpus is None else f" have at most {most_gpus} GPUs and"
        raise WorkloadError(
            f"{workload.provenance.source}: none of its {left_out:,} jobs{most} take at least "
            f"{shortest_s:g} s (GPUs from {workload.gpus.min():g} on, up to "
            f"{workload.duration_ms.max() / 1000:g} s); raise most_gpus, lower shortest_s, or enlarge the "
            "cluster"
        )
    return workload.chosen(keep, most_gpus=most_gpus, shortest_s=shortest_s, left_out=left_out)


def all_that_fit(
    settings: WorkloadSettings, *clusters: Cluster, said: Collection[str] | None = None
) -> WorkloadSettings:
    """Of a trace, all jobs with as many GPUs as the smallest of the clusters has, however short they are.

    What was `said` (fields that were set) stays, and so do worlds.

    >>> from trimtab.gpu_scheduling.workload.clusters import find_cluster
    >>> all_that_fit(WorkloadSettings(name="tiny:gang", shortest_s=9), find_cluster("das-small")).most_gpus
    32
    """
    if isinstance(find_source(settings.name), GeneratedJobs):
        return settings
    gpus = min(int(cluster.machine_table.gpus.sum()) for cluster in clusters)
    kept = settings.model_fields_set if said is None else said
    usual = {"most_gpus": gpus, "shortest_s": 0.0}
    return settings.model_copy(update={name: usual[name] for name in usual if name not in kept})


def left_out_words(settings: WorkloadSettings) -> str:
    """Which jobs are left out, for a sentence after their number.

    >>> left_out_words(WorkloadSettings(most_gpus=8, shortest_s=0))
    'jobs with more than 8 GPUs are left out'
    """
    short = f" or shorter than {settings.shortest_s:g} s" if settings.shortest_s else ""
    return f"jobs with more than {settings.most_gpus} GPUs{short} are left out"


def left_out_told(settings: WorkloadSettings) -> str:
    """How many jobs of a trace are left out, in a sentence; nothing where none are, or jobs are made up.

    >>> left_out_told(WorkloadSettings(name="tiny:gang", most_gpus=2, shortest_s=0))
    '1 of 5 jobs with more than 2 GPUs are left out'
    """
    source = find_source(settings.name)
    if isinstance(source, GeneratedJobs):
        return ""
    count = source.job_count - all_jobs(settings).job_count
    return f"{count:,} of {source.job_count:,} {left_out_words(settings)}" if count else ""


def with_unknown_filled(workload: Workload, *, sensitivity_spread: float, communication: float) -> Workload:
    """Make up what a history does not tell of its jobs: sensitivity and communication, by their places.

    Importers note what is not known. A job keeps its numbers whichever episode it is in.

    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> jobs = make_workload([0], duration_ms=8000, gpus=4, settings={"unknown": ["communication"]})
    >>> bool(0 < with_unknown_filled(jobs, sensitivity_spread=0.5, communication=0.1).communication[0] < 0.1)
    True
    """
    unknown = _unknown(workload)
    place = np.arange(workload.job_count)
    changed = workload
    if "sensitivity" in unknown and sensitivity_spread:
        luck = 2 * uniform(split(0, "sensitivity"), place) - 1
        changed = replace(changed, sensitivity=np.round(1 + sensitivity_spread * luck, 3))
    if "communication" in unknown and communication:
        luck = uniform(split(0, "communication"), place)
        changed = replace(changed, communication=np.round(communication * luck, 4))
    return changed


def _unknown(workload: Workload) -> tuple[str, ...]:
    told = workload.provenance.settings.get(UNKNOWN, ())
    return tuple(str(name) for name in told) if isinstance(told, list | tuple) else ()


def find_source(name: str) -> Source:
    """Look a workload up: a registered name, with a variant after a colon, or a file.

    >>> find_source("tiny:gang").job_count
    5
    """
    if _is_path(name):
        return _file(name, Path(name).stat().st_mtime_ns if Path(name).is_file() else 0)
    base, _, variant = name.removeprefix(PREFIX).partition(":")
    return _named(base, variant)


def described(name: str) -> str:
    """Say in one sentence what a workload is: the first line of its docstring.

    >>> described("gpu/pai-shared")
    'The same, where jobs of one GPU may ask for a part of it.'
    """
    return (WORKLOADS.load(name).__doc__ or "").strip().split("\n")[0]


def pai(variant: str = "") -> Source:
    """Made-up jobs with the published statistics of Alibaba's PAI of 2020; `pai:7` is another world."""
    return _world(PAI, variant)


def pai_shared(variant: str = "") -> Source:
    """The same, where jobs of one GPU may ask for a part of it."""
    return _world(PAI_SHARED, variant)


def philly_like(variant: str = "") -> Source:
    """Made-up jobs with the GPUs and durations of Gavel's experiments, after Microsoft's Philly."""
    return _world(PHILLY_LIKE, variant)


def tiny(variant: str = "") -> Source:
    """A handful of jobs whose best schedule is known; `tiny:gang` names one of them."""
    from trimtab.gpu_scheduling.workload.tiny import tiny_workload

    return tiny_workload(variant or "short-first")


def _world(statistics: JobStatistics, variant: str) -> GeneratedJobs:
    name = statistics.name
    if variant and not variant.isdigit():
        raise WorkloadError(f"{name}:{variant}: the variant is a seed, such as {name}:7")
    return GeneratedJobs(statistics, int(variant or 0))


def _is_path(name: str) -> bool:
    return "/" in name.removeprefix(PREFIX) or name.endswith(".workload") or Path(name).is_file()


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


def _prepared(settings: WorkloadSettings) -> Source:
    return _narrowed(
        find_source(settings.name),
        settings.most_gpus,
        settings.shortest_s,
        settings.sensitivity_spread,
        settings.communication,
    )


# One object per source and filter: a long trace is filtered once, and a world keeps its mean.
@lru_cache(maxsize=16)
def _narrowed(
    source: Source, most_gpus: int | None, shortest_s: float, sensitivity_spread: float, communication: float
) -> Source:
    if isinstance(source, GeneratedJobs):
        return GeneratedJobs(source.statistics, source.seed, most_gpus, shortest_s)
    known = with_unknown_filled(source, sensitivity_spread=sensitivity_spread, communication=communication)
    return filtered(known, most_gpus=most_gpus, shortest_s=shortest_s)


def _as_trace(source: Source, name: str) -> Workload:
    if isinstance(source, Workload):
        return source
    raise WorkloadError(
        f"workload {name!r} has no arrivals of its own; use arrivals = batch, poisson or daily"
    )


def training_jobs(trace: Workload) -> int:
    """How many jobs of a trace, from its beginning, belong to training.

    >>> training_jobs(find_source("tiny:gang"))
    3
    """
    return int(trace.job_count * TRAINING_SHARE)


@lru_cache(maxsize=16)
def part_of(trace: Workload, part: Part) -> Workload:
    """The jobs of a part of a trace, re-timed to begin at 0: training is the first 70 %, test the rest.

    >>> part_of(find_source("tiny:gang"), "test").job_count
    2
    """
    first, last = _ends(trace, part)
    if last == first:
        raise WorkloadError(
            f"{trace.provenance.source}: no job of {trace.job_count} is for {part}; bring a longer trace"
        )
    return jobs_in_a_row(trace, first, last - first) if part != "all" else trace


def _ends(trace: Workload, part: Part) -> tuple[int, int]:
    cut = training_jobs(trace)
    return {"all": (0, trace.job_count), "training": (0, cut), "test": (cut, trace.job_count)}[part]


def _drawn(source: Source, settings: WorkloadSettings, seed: int, part: Part) -> Workload:
    """So many jobs at time 0; those of a trace may come several times, so they have no names."""
    if isinstance(source, GeneratedJobs):
        return source.draw(settings.jobs, seed=split(seed, "jobs"))
    pool = part_of(source, part)
    places = integers(split(seed, "jobs"), np.arange(settings.jobs), high=pool.job_count)
    nameless = replace(pool, ids=(), arrival_ms=np.zeros(pool.job_count, np.int64))
    return nameless.chosen(places)


def _refuse_more_jobs(settings: WorkloadSettings) -> None:
    """Fewer jobs than were asked for would pass for all of them; what is left out of a trace is noted."""
    source = find_source(settings.name)
    if isinstance(source, GeneratedJobs) or "jobs" not in settings.model_fields_set:
        return
    if settings.jobs > source.job_count:
        raise WorkloadError(
            f"jobs = {settings.jobs}: {settings.name} has {source.job_count}; lower jobs, or use arrivals = "
            "batch"
        )


def _stretch(trace: Workload, jobs: int, seed: int, part: Part) -> Workload:
    first, last = _ends(trace, part)
    if last - first < jobs:
        raise WorkloadError(
            f"{trace.provenance.source}: its {part} part has {last - first} of {trace.job_count} jobs, an "
            f"episode needs {jobs}; lower jobs, or use arrivals = poisson"
        )
    start = first + int(integers(split(seed, "stretch"), 0, high=last - first - jobs + 1))
    return jobs_in_a_row(trace, start, jobs)


def jobs_in_a_row(trace: Workload, start: int, jobs: int) -> Workload:
    """Some consecutive jobs, re-timed to begin at 0.

    >>> jobs_in_a_row(find_source("tiny:gang"), 0, 2).gpus.tolist()
    [4.0, 1.0]
    """
    chosen = trace.chosen(np.arange(start, min(start + jobs, trace.job_count)), first_job=start)
    return chosen.arriving(chosen.arrival_ms - chosen.arrival_ms[0])
