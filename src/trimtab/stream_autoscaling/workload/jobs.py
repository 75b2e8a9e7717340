"""Jobs by name: six frozen ones, Nexmark's queries, random ones, chains, or a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.core.registry import Registry
from trimtab.stream_autoscaling.job import Job, job_from, load_job
from trimtab.stream_autoscaling.workload.synthetic import chain_job, synthetic_job

__all__ = ["FROZEN", "JOBS", "JOB_ENTRY_POINTS", "PREFIX", "JobMaker", "described_job", "make_job"]

PREFIX = "stream/"
JOB_ENTRY_POINTS = "trimtab.jobs"
FROZEN = ("small-1", "small-2", "medium-1", "medium-2", "large-1", "large-2")
"""What every comparison of this wing is made on; shapes of real batch jobs, numbers of our own."""

JobMaker = Callable[[str, int], Job]
"""`(variant, seed)`: what follows the colon in the name, and luck for jobs that are drawn."""

_HERE = "trimtab.stream_autoscaling.workload"

JOBS: Registry[JobMaker] = Registry(
    "job",
    {
        **{f"{PREFIX}{name}": f"{_HERE}.jobs:{name.replace('-', '_')}" for name in FROZEN},
        **{f"{PREFIX}{name}": f"{_HERE}.nexmark:{name}" for name in ("q1", "q3", "q5", "q8", "q11", "q20")},
        f"{PREFIX}flink-count": f"{_HERE}.nexmark:flink_count",
        f"{PREFIX}linear": f"{_HERE}.jobs:linear",
        f"{PREFIX}synthetic": f"{_HERE}.jobs:synthetic",
    },
    JOB_ENTRY_POINTS,
    prefix=PREFIX,
)


def make_job(name: str, *, seed: int = 0) -> Job:
    """Look a job up: a registered name, with a variant after a colon, or the path of a job file.

    Only `synthetic:N` depends on the seed.

    >>> len(make_job("medium-1").vertices) in range(18, 23)
    True
    >>> len(make_job("synthetic:20", seed=3).vertices)
    20
    """
    if _is_path(name):
        return load_job(Path(name))
    base, _, variant = name.removeprefix(PREFIX).partition(":")
    try:
        maker = JOBS.load(PREFIX + base)
    except RegistryError as error:
        raise RegistryError(f"{error}, or the path of a job file (.json)") from None
    return maker(variant, seed)


def described_job(name: str) -> str:
    """Say in one sentence what a job is: the first line of its maker's docstring."""
    return (JOBS.load(name).__doc__ or "").strip().split("\n")[0]


def small_1(variant: str = "", seed: int = 0) -> Job:
    """The first small frozen job, 12 to 14 vertices."""
    return _frozen("small-1", variant)


def small_2(variant: str = "", seed: int = 0) -> Job:
    """The second small frozen job, 12 to 14 vertices."""
    return _frozen("small-2", variant)


def medium_1(variant: str = "", seed: int = 0) -> Job:
    """The first medium frozen job, 18 to 22 vertices."""
    return _frozen("medium-1", variant)


def medium_2(variant: str = "", seed: int = 0) -> Job:
    """The second medium frozen job, 18 to 22 vertices."""
    return _frozen("medium-2", variant)


def large_1(variant: str = "", seed: int = 0) -> Job:
    """The first large frozen job, 35 to 46 vertices."""
    return _frozen("large-1", variant)


def large_2(variant: str = "", seed: int = 0) -> Job:
    """The second large frozen job, 35 to 46 vertices."""
    return _frozen("large-2", variant)


def linear(variant: str = "", seed: int = 0) -> Job:
    """A chain with linear scaling, no keys and no windows; `linear:5` has five vertices."""
    return chain_job(_vertices("linear", variant or "3"))


def synthetic(variant: str = "", seed: int = 0) -> Job:
    """A random job; `synthetic:20` has twenty vertices, and every seed is another."""
    return synthetic_job(_vertices("synthetic", variant or "15"), seed)


def _vertices(name: str, variant: str) -> int:
    if not variant.isdecimal():
        raise WorkloadError(f"{name}:{variant}: the variant is a number of vertices, such as {name}:5")
    return int(variant)


def _frozen(name: str, variant: str) -> Job:
    if variant:
        raise WorkloadError(f"job {name!r} has no variants, but {variant!r} was asked for")
    entry = next(one for one in frozen_entries() if one["job"]["name"] == name)
    return job_from(entry["job"], f"data/jobs.json, {name}")


@lru_cache(maxsize=1)
def frozen_entries() -> tuple[dict[str, Any], ...]:
    """What data/jobs.json holds of every frozen job: the job, its shape's origin, the seed of its numbers."""
    path = resources.files("trimtab.stream_autoscaling") / "data" / "jobs.json"
    return tuple(json.loads(path.read_text(encoding="utf-8"))["jobs"])


def _is_path(name: str) -> bool:
    return "/" in name.removeprefix(PREFIX) or name.endswith(".json") or Path(name).is_file()
