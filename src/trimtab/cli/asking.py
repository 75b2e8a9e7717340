"""Flags that `compare` and `tune` share, turned into the settings of a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.benchmark.suites import DagSuite
    from trimtab.benchmark.tuned import TunedValues

__all__ = ["check_names", "suite_settings", "tuned_values"]


def suite_settings(
    name: str,
    *,
    settings: Path | None,
    workload: str | None,
    jobs: int | None,
    executors: int | None,
    arrivals: str | None,
    load: float | None,
    seed: int | None,
    **others: Any,
) -> DagSuite:
    """Lay flags over the file over the suite's own settings."""
    from trimtab.benchmark.suites import SUITES
    from trimtab.core.settings import load_settings

    kind = SUITES.load(name)
    flags: dict[str, Any] = {
        "workload.name": workload,
        "workload.jobs": jobs,
        "workload.arrivals": arrivals,
        "workload.load": load,
        "cluster.executors": executors,
        "seed": seed,
        **others,
    }
    if load is not None:
        flags["loads"] = (load,)
        flags["workload.arrivals"] = arrivals or "poisson"
    elif arrivals in ("batch", "trace"):
        flags["loads"] = ()
    if arrivals == "trace" and jobs is None and workload is not None:
        flags["workload.jobs"] = _jobs_in_a_stretch(workload)
    return load_settings(kind, settings, flags)


def _jobs_in_a_stretch(workload: str) -> int | None:
    """Half of a trace's test part, so that test episodes differ and are still long."""
    from trimtab.dag_scheduling.workload import Workload
    from trimtab.dag_scheduling.workload.presets import find_source, training_jobs

    source = find_source(workload)
    if not isinstance(source, Workload):
        return None
    return max(1, (source.job_count - training_jobs(source)) // 2)


def check_names(asked: DagSuite, tuned: TunedValues) -> None:
    """Refuse unknown policies and workloads before anything is made or compiled."""
    from trimtab.benchmark.compare import line_up
    from trimtab.dag_scheduling.workload.presets import find_source

    line_up(asked, asked.policies, tuned)
    find_source(asked.workload.name)


def tuned_values(path: Path | None) -> TunedValues:
    """The values of a file over those that come with trimtab."""
    from trimtab.benchmark.tuned import TunedValues, shipped_tuned_values

    shipped = shipped_tuned_values()
    return shipped if path is None else shipped.with_entries(TunedValues.load(path).entries)
