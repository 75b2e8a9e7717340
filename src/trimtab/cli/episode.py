"""Flags that `simulate` and `explain` share: which episode is played."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from trimtab.dag_scheduling.cluster import Cluster
    from trimtab.dag_scheduling.workload.presets import WorkloadSettings
    from trimtab.stream_autoscaling.deployment import Deployment
    from trimtab.stream_autoscaling.workload.presets import TraceSettings

__all__ = ["USUAL_EPISODE", "EpisodeFlags", "jobs_of_trace"]

OF_WING = {
    "dag": ("workload", "jobs", "executors", "arrivals", "load", "mean_gap_s"),
    "stream": ("job", "trace", "load", "mean_rate", "days", "interval_s"),
    "pod": ("app", "trace", "hours", "mean_cores", "mean_rate", "interval_s"),
    "gpu": (
        "workload",
        "cluster",
        "jobs",
        "arrivals",
        "load",
        "mean_gap_s",
        "most_gpus",
        "shortest_s",
        "information",
        "round_s",
        "noise",
        "drift",
    ),
}
SHARED = ("seed", "settings")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EpisodeFlags:
    """One episode as asked for; the name ``*`` makes every field a flag of the verb. None: not given."""

    workload: str | None = None
    """dag, gpu: name or workload file (default: tpch; gpu: pai). `trimtab workloads` lists them."""
    jobs: int | None = None
    """dag, gpu: number of jobs; of a trace the first so many (default 20, gpu 500, of a trace all)."""
    executors: int | None = None
    """dag: size of the cluster (default 50)."""
    arrivals: Literal["batch", "poisson", "daily", "trace"] | None = None
    """dag, gpu: all at once, a Poisson stream, one with days and bursts (gpu), or the times in the file
    (default: the file's own, else batch; gpu: else poisson)."""
    load: float | None = None
    """Work arriving in a stream, as a share of capacity."""
    mean_gap_s: float | None = None
    """dag, gpu: mean time between the jobs of a stream; instead of load."""
    job: str | None = None
    """stream: name or job file (default: medium-1)."""
    trace: str | None = None
    """stream, pod: name or trace file of what arrives (default: clarknet-like; pod: diurnal)."""
    days: int | None = None
    """stream: days to play (default 1)."""
    interval_s: int | None = None
    """stream, pod: seconds between decisions (default 60; pod: 15)."""
    seed: int | None = None
    """Number that fixes jobs, arrivals and task durations (default 0)."""
    settings: Path | None = None
    """TOML file with the fields of the cluster (dag, gpu) or of the deployment (stream, pod)."""
    app: Annotated[str | None, Parameter(name=("--app", "--application"))] = None
    """pod: name or profile of the service (default: textbook)."""
    hours: float | None = None
    """pod: hours to play (default 1; less where a trace file has less)."""
    mean_cores: float | None = None
    """pod: cores that the work of the requests needs on average (default 6, but no more than 400 requests
    per second; a trace file keeps its rates)."""
    mean_rate: float | None = None
    """stream, pod: records or requests per second on average (default: a trace file keeps its rates)."""
    cluster: str | None = None
    """gpu: name, machines x GPUs such as 64x8, or a CSV of machines (default: das-small)."""
    information: Literal["none", "predicted", "oracle"] | None = None
    """gpu: what policies know of durations (default: none)."""
    round_s: int | None = None
    """gpu: decide every so many seconds only (default 0: whenever a job comes or ends)."""
    noise: float | None = None
    """gpu: how far the speed of a job is off the usual, as a deviation of its logarithm (default 0)."""
    drift: float | None = None
    """gpu: how far the speeds of machines wander, as a deviation of their logarithm (default 0)."""
    most_gpus: int | None = None
    """gpu: leave out jobs with more GPUs (default 16; of a file, what the cluster has)."""
    shortest_s: float | None = None
    """gpu: leave out jobs that take less time (default 60; of a file, 0)."""

    def refuse_others(self, wing: str) -> None:
        """Refuse flags that mean nothing to the wing."""
        from trimtab.core.errors import SettingsError

        for field in fields(self):
            if getattr(self, field.name) is None or field.name in (*OF_WING[wing], *SHARED):
                continue
            told = ", ".join(_flag(name) for name in OF_WING[wing])
            raise SettingsError(f"{_flag(field.name)}: {wing} has no such flag; it has {told}")

    def number(self) -> int:
        """The seed, refused if the simulator cannot take it."""
        from trimtab.core.errors import SettingsError

        seed = self.seed or 0
        if not 0 <= seed < 1 << 62:
            raise SettingsError(f"--seed {seed}: use a whole number from 0 to 2^62")
        return seed

    def dag_cluster(self) -> Cluster:
        """The cluster of DAG jobs: flags over the file over the usual one."""
        from trimtab.core.settings import load_settings
        from trimtab.dag_scheduling.cluster import Cluster

        return load_settings(Cluster, self.settings, {"executors": self.executors})

    def jobs_to_draw(self) -> WorkloadSettings:
        """The workload's settings; what is left open depends on whether it is a trace."""
        from trimtab.core.settings import load_settings
        from trimtab.dag_scheduling.workload import Workload
        from trimtab.dag_scheduling.workload.presets import WorkloadSettings, find_source

        name, jobs, arrivals = self.workload or "tpch", self.jobs, self.arrivals
        source = find_source(name)
        if arrivals is None:
            streams = self.load is not None or self.mean_gap_s is not None
            arrivals = "poisson" if streams else "trace" if isinstance(source, Workload) else "batch"
        if arrivals == "trace" and isinstance(source, Workload):
            jobs = jobs_of_trace(jobs, name, source.job_count)
        flags = {
            "name": name,
            "jobs": jobs,
            "arrivals": arrivals,
            "load": self.load,
            "mean_gap_s": self.mean_gap_s,
        }
        return load_settings(WorkloadSettings, None, flags)

    def deployment(self) -> Deployment:
        """Flags over the file over the usual deployment."""
        from trimtab.core.settings import load_settings
        from trimtab.stream_autoscaling.deployment import Deployment

        return load_settings(Deployment, self.settings, {"interval_s": self.interval_s})

    def arriving(self) -> TraceSettings:
        """What arrives at a streaming job."""
        from trimtab.core.settings import load_settings
        from trimtab.stream_autoscaling.workload.presets import TraceSettings

        flags = {"name": self.trace, "load": self.load, "mean_rate": self.mean_rate, "days": self.days}
        return load_settings(TraceSettings, None, flags)


def jobs_of_trace(asked: int | None, name: str, jobs: int) -> int:
    """How many jobs of a trace are played: all where nothing is asked for, never fewer than asked for."""
    from trimtab.core.errors import SettingsError

    if asked is not None and asked > jobs:
        raise SettingsError(
            f"--jobs {asked}: {name} has {jobs} jobs; ask for {jobs} at most, or draw more from them with "
            "--arrivals batch"
        )
    return jobs if asked is None else asked


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


USUAL_EPISODE = EpisodeFlags()
"""What is played where no flag is given."""
