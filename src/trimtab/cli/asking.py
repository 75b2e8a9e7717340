"""Flags that `compare` and `tune` share, turned into the settings of a suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from trimtab.cli.terminal import change_of, refuse_said_twice

if TYPE_CHECKING:
    from trimtab.benchmark.suite import Suite
    from trimtab.benchmark.tuned import TunedValues

__all__ = ["USUAL_SUITE", "SuiteFlags", "check_names", "tuned_values"]

# Which field of a suite a flag sets, by wing; other flags do not belong to the wing.
FIELDS: Mapping[str, Mapping[str, str]] = {
    "dag": {
        "workload": "workload.name",
        "jobs": "workload.jobs",
        "arrivals": "workload.arrivals",
        "load": "workload.load",
        "executors": "cluster.executors",
    },
    "stream": {"job": "jobs", "trace": "trace.name", "load": "trace.load", "mean_rate": "trace.mean_rate"},
    "pod": {"app": "applications", "trace": "traces", "hours": "hours", "mean_rate": "mean_rate"},
    "gpu": {
        "workload": "workload.name",
        "cluster": "cluster",
        "jobs": "workload.jobs",
        "arrivals": "workload.arrivals",
        "load": "workload.load",
        "information": "cluster.information",
        "round_s": "cluster.round_s",
        "noise": "cluster.noise",
        "drift": "cluster.drift",
    },
}
# Fields that hold several, written with commas.
LISTS = ("jobs", "applications", "traces")
SHARED = ("settings", "set", "seed")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SuiteFlags:
    """Changes to a suite; the name ``*`` makes every field a flag of the verb. None: not given."""

    workload: str | None = None
    """dag, gpu: name or workload file instead of the suite's own."""
    jobs: int | None = None
    """dag, gpu: jobs per episode."""
    executors: int | None = None
    """dag: size of the cluster."""
    arrivals: Literal["batch", "poisson", "daily", "trace"] | None = None
    """dag, gpu: all at once, a Poisson stream, one with days and bursts (gpu), or the times in the file."""
    job: str | None = None
    """stream: jobs, by name or file, separated by commas, instead of the suite's."""
    app: Annotated[str | None, Parameter(name=("--app", "--application"))] = None
    """pod: services, by name or profile, separated by commas, instead of the suite's."""
    trace: str | None = None
    """stream: name or trace file of what arrives; pod: several, separated by commas."""
    hours: float | None = None
    """pod: length of an episode."""
    load: float | None = None
    """One load instead of the suite's."""
    mean_rate: float | None = None
    """stream, pod: records or requests per second on average (default: a trace file keeps its rates)."""
    cluster: str | None = None
    """gpu: name, machines x GPUs such as 64x8, or a CSV of machines, instead of the suite's own."""
    information: Literal["none", "predicted", "oracle"] | None = None
    """gpu: what policies know of durations, instead of the suite's own tier."""
    round_s: int | None = None
    """gpu: decide every so many seconds only; 0: whenever a job comes or ends."""
    noise: float | None = None
    """gpu: how far the speed of a job is off the usual, as a deviation of its logarithm."""
    drift: float | None = None
    """gpu: how far the speeds of machines wander, as a deviation of their logarithm."""
    settings: Path | None = None
    """TOML file with fields of the suite."""
    set: Annotated[list[str] | None, Parameter(negative=())] = None
    """Any field of the suite, such as seeds=20; may be given several times."""
    seed: int | None = None
    """Another number gives other test episodes; training episodes stay the same."""

    def suite(self, name: str, **others: Any) -> Suite:
        """Lay flags over the file over the suite's own settings."""
        from trimtab.benchmark.suite import SUITES
        from trimtab.core.settings import load_settings

        kind = SUITES.load(name)
        flags: dict[str, Any] = {**self._fields(kind.wing.name), "seed": self.seed, **others}
        refuse_said_twice(self._said(kind.wing.name, flags), self.set or [])
        if kind.wing.name == "dag":
            flags |= self._dag_sweep()
        if kind.wing.name == "gpu":
            flags = self._gpu_pace() | flags
            flags.pop("cluster", None)
        asked = load_settings(kind, self.settings, flags | dict(map(change_of, self.set or [])))
        if kind.wing.name == "dag":
            return _in_stretches(asked)
        return self._on_gpu_ground(asked) if kind.wing.name == "gpu" else asked

    def _fields(self, wing: str) -> dict[str, Any]:
        """The flags of the wing by field; a flag of another wing is refused."""
        from trimtab.core.errors import SettingsError

        known = FIELDS.get(wing, {})
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in SHARED or value is None:
                continue
            if field.name not in known:
                told = ", ".join(map(_flag, known)) or "none but --set"
                raise SettingsError(f"{_flag(field.name)}: {wing} suites have no such flag; they have {told}")
            place = known[field.name]
            found[place] = _split(value) if place in LISTS else value
        return found

    def _said(self, wing: str, flags: Mapping[str, Any]) -> dict[str, str]:
        """The flags that were given, by the field that they set."""
        names = {place: name for name, place in FIELDS.get(wing, {}).items()}
        return {place: _flag(names.get(place, place)) for place, value in flags.items() if value is not None}

    def _dag_sweep(self) -> dict[str, Any]:
        """One load instead of a sweep, or none where nothing streams."""
        if self.load is not None:
            return {"loads": (self.load,), "workload.arrivals": self.arrivals or "poisson"}
        return {"loads": ()} if self.arrivals in ("batch", "trace") else {}

    def _gpu_pace(self) -> dict[str, Any]:
        """The usual load of a named cluster; of a trace, jobs enough for a long episode."""
        from trimtab.gpu_scheduling.workload import Workload
        from trimtab.gpu_scheduling.workload.clusters import usual_load
        from trimtab.gpu_scheduling.workload.presets import find_source, training_jobs

        found: dict[str, Any] = {}
        if self.cluster is not None and self.load is None and self.arrivals not in ("batch", "trace"):
            found["workload.load"] = usual_load(self.cluster)
        if self.workload is not None and self.arrivals == "trace" and self.jobs is None:
            source = find_source(self.workload)
            if isinstance(source, Workload):
                # Half of the test part, so that test episodes differ and are still long.
                found["workload.jobs"] = max(1, (source.job_count - training_jobs(source)) // 2)
        return found

    def _on_gpu_ground(self, asked: Any) -> Any:
        """A named cluster, with the GPU models of file and flags; of a trace, all jobs that it can hold."""
        from trimtab.core.settings import load_settings
        from trimtab.gpu_scheduling.cluster import Cluster
        from trimtab.gpu_scheduling.workload.clusters import find_cluster
        from trimtab.gpu_scheduling.workload.presets import all_that_fit

        cluster = asked.cluster
        if self.cluster is not None:
            named = find_cluster(self.cluster, cluster.gpu_types)
            others = cluster.model_fields_set - {"machines", "table", "gpu_types"}
            laid = {**named.model_dump(exclude_defaults=True), **cluster.model_dump(include=others)}
            cluster = load_settings(Cluster, None, laid)
        workload = all_that_fit(asked.workload, cluster)
        return asked.model_copy(update={"cluster": cluster, "workload": workload})


USUAL_SUITE = SuiteFlags()
"""The suite as it comes."""


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _in_stretches(asked: Any) -> Any:
    """Of a trace, episodes of half its test part; where that is next to nothing, the user has to say so."""
    from trimtab.core.errors import WorkloadError
    from trimtab.dag_scheduling.workload import Workload
    from trimtab.dag_scheduling.workload.presets import SHORTEST_STRETCH, find_source, stretch_jobs

    workload = asked.workload
    if workload.arrivals != "trace" or "jobs" in workload.model_fields_set:
        return asked
    source = find_source(workload.name)
    if not isinstance(source, Workload):
        return asked
    jobs = stretch_jobs(source)
    if jobs < SHORTEST_STRETCH:
        raise WorkloadError(
            f"{workload.name}: {source.job_count} jobs are too few for a trace, as its last 30 % are for "
            "tests; import a longer history, use --arrivals batch, or choose --jobs yourself"
        )
    return asked.model_copy(update={"workload": workload.model_copy(update={"jobs": jobs})})


def check_names(asked: Suite, tuned: TunedValues) -> None:
    """Refuse unknown policies, baselines and workloads before anything is made or compiled."""
    from trimtab.benchmark.compare import baseline_of, line_up

    contestants, _ = line_up(asked, asked.policies, tuned)
    baseline_of(asked, contestants)
    asked.check()


def tuned_values(path: Path | None) -> TunedValues:
    """The values of a file over those that come with trimtab."""
    from trimtab.benchmark.tuned import TunedValues, shipped_tuned_values

    shipped = shipped_tuned_values()
    return shipped if path is None else shipped.with_entries(TunedValues.load(path).entries)
