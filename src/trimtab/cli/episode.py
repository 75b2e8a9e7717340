"""Flags that `simulate` and `explain` share: which episode is played."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from trimtab.dag_scheduling.cluster import Cluster
    from trimtab.dag_scheduling.workload.presets import WorkloadSettings

__all__ = ["USUAL_EPISODE", "EpisodeFlags"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EpisodeFlags:
    """One episode as asked for; the name ``*`` makes every field a flag of the verb. None: not given."""

    workload: str | None = None
    """Name or workload file (default: tpch). `trimtab workloads` lists them."""
    jobs: int | None = None
    """Number of jobs; of a trace the first so many (default 20, of a trace all)."""
    executors: int | None = None
    """Size of the cluster (default 50)."""
    arrivals: Literal["batch", "poisson", "trace"] | None = None
    """All at once, a Poisson stream, or the times in the file (default: the file's own, else batch)."""
    load: float | None = None
    """Work arriving in a stream, as a share of capacity."""
    mean_gap_s: float | None = None
    """Mean time between the jobs of a stream; instead of load."""
    seed: int | None = None
    """Number that fixes jobs, arrivals and task durations (default 0)."""
    settings: Path | None = None
    """TOML file with the fields of the cluster."""

    def number(self) -> int:
        """The seed, refused if the simulator cannot take it."""
        from trimtab.core.errors import SettingsError

        seed = self.seed or 0
        if not 0 <= seed < 1 << 62:
            raise SettingsError(f"--seed {seed}: use a whole number from 0 to 2^62")
        return seed

    def cluster(self) -> Cluster:
        """Flags over the file over the usual cluster."""
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
        if jobs is None and arrivals == "trace" and isinstance(source, Workload):
            jobs = source.job_count
        flags = {
            "name": name,
            "jobs": jobs,
            "arrivals": arrivals,
            "load": self.load,
            "mean_gap_s": self.mean_gap_s,
        }
        return load_settings(WorkloadSettings, None, flags)


USUAL_EPISODE = EpisodeFlags()
"""What is played where no flag is given."""
