"""The suites of GPU scheduling: which jobs come to which cluster, and what schedulers know of them.

A suite has one tier of information (`cluster.information`): nothing is known of durations, they are
predicted from finished jobs, or they are known. What was measured in one tier is no rival of what was
measured in another, so a suite refuses policies that need more than it tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.benchmark.gpu_scheduling.wing import GPU
from trimtab.benchmark.suite import (
    FIRST_TEST_SEED,
    SEEDS_PER_DRAW,
    Scenario,
    Suite,
    Wing,
    few_episodes_told,
)
from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, model_validator
from trimtab.gpu_scheduling.cluster import Cluster, Information
from trimtab.gpu_scheduling.episode import METRICS, Episode
from trimtab.gpu_scheduling.policies import POLICIES, PREFIX, GpuPolicy
from trimtab.gpu_scheduling.simulator.simulator import NeverEnds, simulate
from trimtab.gpu_scheduling.simulator.tables import refuse_misfits
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.clusters import capacity_gpus, find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import (
    WorkloadSettings,
    all_jobs,
    draw_workload,
    find_source,
    left_out_told,
    training_jobs,
)

__all__ = [
    "DasLargeSuite",
    "DasMediumSuite",
    "DasSmallSuite",
    "GpuSuite",
    "OracleSmallSuite",
    "PredictedSmallSuite",
]

PAPER_RULES = (
    "fifo+first-fit+strict",
    "fifo+load-balance+strict",
    "smallest+first-fit+strict",
    "smallest+load-balance+strict",
    "tetris+tetris+strict",
)
"""The rules in Table 1 of DAS (KDD'23); smallest first is DRF for gangs that cannot shrink."""
STRONG_RULES = (
    "fifo",
    "tetris+tetris:tuned",
    "fifo+fast:tuned",
    "smallest+fast:tuned",
    "aged-smallest+fast:tuned",
    "smallest+fast+patient:tuned",
    "smallest+fast+patient:neighbours=2,tightness=0.3",
    "las+fast:tuned",
    "las+fast:min_run_s=60,move_gain=1.05",
    "tiresias+fast:tuned",
)
"""Those that need no durations, at the settings that are best on the suite's own training seeds.

The strongest without preemption and with it stand there with settings from other jobs too: tuned ones are
known for the suite as it comes only, and may have fitted the luck of its training seeds.
"""
FORETELLING_RULES = (
    "fifo",
    "smallest+fast:neighbours=2,tightness=0.3",
    "aged-smallest+fast:power=0.1,neighbours=2,tightness=0.3",
    "fifo+fast+easy",
    "sjf+fast:neighbours=2,tightness=0.3",
    "qssf+fast:neighbours=2,tightness=0.3",
    "srtf+fast:neighbours=2,tightness=0.3",
    "srsf+fast:neighbours=2,tightness=0.3",
    "themis+fast",
)
"""Where durations are known or predicted; the first three do without, so that its worth can be seen."""
TRAINED = "das"
BASELINE = "fifo"
"""In order of arrival on the tightest machine, and whoever fits goes ahead: what clusters do today."""
USUAL_JOBS = 1000


@dataclass(frozen=True)
class Endless:
    """In place of an episode that has no end."""

    policy: str
    seed: int

    def metrics(self) -> dict[str, float]:
        """Worse than anything."""
        return dict.fromkeys(METRICS, math.inf)


class GpuSuite(Suite):
    """A comparison of schedulers of training jobs; settings left out are those of the named cluster."""

    wing: ClassVar[Wing] = GPU
    usual_cluster: ClassVar[str] = "das-small"
    information: ClassVar[Information] = "none"

    workload: WorkloadSettings = Field(description="Which jobs arrive, and when.")
    cluster: Cluster = Field(description="The cluster they run on.")
    policies: tuple[str, ...] = Field(
        default_factory=lambda: (*PAPER_RULES, *STRONG_RULES, *shipped(TRAINED)),
        min_length=1,
        description="Policies; `:tuned` takes the tuned settings.",
    )
    baseline: str = Field(default=BASELINE, description="Policy that the others are measured against.")
    seeds: int = Field(default=30, ge=2, le=SEEDS_PER_DRAW, description="Test episodes of each policy.")
    training_seeds: int = Field(
        default=12, ge=2, le=FIRST_TEST_SEED, description="Episodes `trimtab tune` judges by."
    )

    @model_validator(mode="before")
    @classmethod
    def _over_usual(cls, values: object) -> object:
        """Lay what is given over the suite's own cluster and stream."""
        if not isinstance(values, dict):
            return values
        return {
            **values,
            "cluster": cls._laid_cluster(values.get("cluster", {})),
            "workload": cls._laid_workload(values.get("workload", {})),
        }

    @classmethod
    def _laid_cluster(cls, given: object) -> object:
        """Single fields, or a whole cluster by name: cluster = "64x8"."""
        if not isinstance(given, dict | str):
            return given
        named = find_cluster(given if isinstance(given, str) else cls.usual_cluster)
        usual = {**named.model_dump(exclude_defaults=True), "information": cls.information}
        return usual if isinstance(given, str) else {**usual, **given}

    @classmethod
    def _laid_workload(cls, given: object) -> object:
        """A stream, at the one rate of all sizes unless a pace is given."""
        if not isinstance(given, dict):
            return given
        streams = given.get("arrivals", "poisson") in ("poisson", "daily")
        paced = {"load", "mean_gap_s"} & given.keys()
        pace = {"load": usual_load(cls.usual_cluster)} if streams and not paced else {}
        return {"jobs": USUAL_JOBS, **pace, **given}

    def scenarios(self) -> tuple[Scenario, ...]:
        """The only one; its load is that of the workload."""
        return (Scenario("", self.workload, self.workload.load),)

    def draw(self, scenario: Scenario, seed: int) -> Workload:
        """Draw the jobs every policy meets under this seed."""
        part = "test" if seed >= FIRST_TEST_SEED else "training"
        return draw_workload(scenario.workload, gpus=capacity_gpus(self.cluster), seed=seed, part=part)

    def play(
        self,
        scenario: Scenario,
        seeds: Sequence[int],
        policies: Sequence[GpuPolicy],
        *,
        record: bool = False,
    ) -> list[list[Episode]]:
        """Whole episodes, by policy and seed; `record` keeps who was where and when."""
        episodes: list[list[Episode]] = [[] for _ in policies]
        for seed in seeds:
            workload = self.draw(scenario, seed)
            for place, policy in enumerate(policies):
                episodes[place].append(self._played(workload, policy, seed, record=record))
        return episodes

    def _played(self, workload: Workload, policy: GpuPolicy, seed: int, *, record: bool) -> Any:
        """An episode; in tuning, settings under which jobs displace each other for ever are just bad ones."""
        try:
            return simulate(workload, policy, self.cluster, seed=seed, record_runs=record)
        except NeverEnds:
            if seed >= FIRST_TEST_SEED:
                raise
            return Endless(policy.name, seed)

    def admits(self, policy: Any) -> bool:
        """Not one that needs durations where none are told."""
        return self.cluster.information != "none" or not getattr(policy, "needs_durations", False)

    def check(self) -> None:
        """Refuse unknown workloads, machines that cannot be read or hold them, policies of another tier."""
        if isinstance(find_source(self.workload.name), Workload):
            refuse_misfits(all_jobs(self.workload), self.cluster)
        _ = self.cluster.machine_table
        for name in self.policies:
            if not self.admits(self.wing.make_policy(name.removesuffix(":tuned"))):
                raise SettingsError(
                    f"policy {name!r} needs durations, and nothing is known of them here; leave it out, or "
                    "use --information predicted or oracle (suites gpu/predicted-small, gpu/oracle-small)"
                )

    def notes(self) -> list[str]:
        """Which jobs of a trace are left out, and whether it is too short to give every seed its own."""
        left_out = left_out_told(self.workload)
        notes = [f"{self.workload.name}: {left_out}."] if left_out else []
        if self.workload.arrivals != "trace":
            return notes
        trace = all_jobs(self.workload)
        fit = (trace.job_count - training_jobs(trace)) // self.workload.jobs
        return [*notes, *few_episodes_told(self.workload.name, fit, self.seeds)]


def shipped(name: str) -> tuple[str, ...]:
    """The trained policy of that name, if it comes with the package."""
    return (name,) if PREFIX + name in POLICIES.names() else ()


class DasSmallSuite(GpuSuite):
    """PAI-like jobs on 8 machines of 4 GPUs; nothing is known of durations."""


class DasMediumSuite(GpuSuite):
    """The same jobs on 10 machines of 4 GPUs."""

    usual_cluster: ClassVar[str] = "das-medium"


class DasLargeSuite(GpuSuite):
    """The same jobs on 13 machines of 4 GPUs."""

    usual_cluster: ClassVar[str] = "das-large"


class PredictedSmallSuite(GpuSuite):
    """As gpu/das-small, where durations are predicted from finished jobs like them."""

    information: ClassVar[Information] = "predicted"

    policies: tuple[str, ...] = Field(
        default=FORETELLING_RULES, min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )


class OracleSmallSuite(GpuSuite):
    """As gpu/das-small, where durations are known: a bound that no real scheduler has."""

    information: ClassVar[Information] = "oracle"

    policies: tuple[str, ...] = Field(
        default=FORETELLING_RULES, min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )
