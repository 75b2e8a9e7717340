"""The suites of DAG scheduling: what is compared on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from trimtab.benchmark.dag_scheduling.wing import DAG
from trimtab.benchmark.suite import (
    FIRST_TEST_SEED,
    SEEDS_PER_DRAW,
    Scenario,
    Suite,
    Wing,
    few_episodes_told,
)
from trimtab.core.errors import TrimtabError
from trimtab.core.settings import Field, field_validator, model_validator
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.episode import Episode
from trimtab.dag_scheduling.policies import POLICIES, PREFIX, DagPolicy
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload import Workload
from trimtab.dag_scheduling.workload.presets import (
    WorkloadSettings,
    draw_workload,
    find_source,
    has_demands,
    training_jobs,
)

__all__ = [
    "BatchSuite",
    "DagSuite",
    "DecimaSuite",
    "MultiResourceStreamSuite",
    "MultiResourceSuite",
    "StreamSuite",
    "four_classes",
]

ALL_RULES = (
    "fifo",
    "sjf-cp",
    "fair",
    "naive-weighted-fair",
    "weighted-fair:tuned",
    "tetris:tuned",
    "graphene:tuned",
    "capped-srpt:tuned",
    "capped-srpt-local:tuned",
    "random",
)
STREAM_RULES = tuple(name for name in ALL_RULES if name != "random")


class DagSuite(Suite):
    """A comparison of DAG schedulers."""

    wing: ClassVar[Wing] = DAG

    workload: WorkloadSettings = Field(default=WorkloadSettings(), description="Which jobs arrive, and when.")
    cluster: Cluster = Field(default=Cluster(), description="The cluster they run on.")
    loads: tuple[float, ...] = Field(
        default=(), description="Loads of a sweep, each a table of its own; empty: no sweep."
    )
    policies: tuple[str, ...] = Field(
        default=ALL_RULES, min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )
    baseline: str = Field(default="fair", description="Policy that the others are measured against.")

    @field_validator("loads")
    @classmethod
    def _sound_loads(cls, loads: tuple[float, ...]) -> tuple[float, ...]:
        for load in loads:
            if not 0 < load <= 2:
                raise ValueError(f"a load of {load:g}; give shares of capacity between 0 and 2")
        return loads

    @model_validator(mode="after")
    def _sweep_needs_a_stream(self) -> DagSuite:
        if self.loads and self.workload.arrivals != "poisson":
            raise ValueError("loads sweep a stream; set workload.arrivals = 'poisson'")
        return self

    def scenarios(self) -> tuple[Scenario, ...]:
        """The sweep's settings one by one, or the only one."""
        if not self.loads:
            return (Scenario("", self.workload, self.workload.load),)
        return tuple(
            Scenario(
                f"load {load:.2f}",
                self.workload.model_copy(update={"load": load, "mean_gap_s": None}),
                load,
            )
            for load in self.loads
        )

    def draw(self, scenario: Scenario, seed: int) -> Workload:
        """Draw the jobs every policy meets under this seed."""
        part = "test" if seed >= FIRST_TEST_SEED else "training"
        return draw_workload(scenario.workload, executors=self.cluster.executors, seed=seed, part=part)

    def play(
        self,
        scenario: Scenario,
        seeds: Sequence[int],
        policies: Sequence[DagPolicy],
        *,
        record: bool = False,
    ) -> list[list[Episode]]:
        """Whole episodes, by policy and seed; `record` keeps every task."""
        episodes: list[list[Episode]] = [[] for _ in policies]
        for seed in seeds:
            workload = self.draw(scenario, seed)
            for place, policy in enumerate(policies):
                episode = simulate(workload, policy, self.cluster, seed=seed, record_tasks=record)
                episodes[place].append(_finished(episode, seed))
        return episodes

    def check(self) -> None:
        """Refuse an unknown workload."""
        find_source(self.workload.name)

    def notes(self) -> list[str]:
        """Whether a trace is too short to give every seed jobs of its own."""
        source = find_source(self.workload.name)
        if self.workload.arrivals != "trace" or not isinstance(source, Workload):
            return []
        fit = (source.job_count - training_jobs(source)) // self.workload.jobs
        return few_episodes_told(self.workload.name, fit, self.seeds)


def _finished(episode: Episode, seed: int) -> Episode:
    if (episode.completion_ms < episode.arrival_ms).any():
        raise TrimtabError(
            f"{episode.policy}, seed {seed}: an episode was cut off before every job was done; "
            "averages need whole episodes, raise the time limit"
        )
    return episode


def four_classes(executors: int) -> tuple[ExecutorClass, ...]:
    """A quarter of the executors each with a quarter, half, three quarters and all of the memory.

    >>> [c.count for c in four_classes(50)]
    [12, 12, 13, 13]
    """
    counts = [executors * (k + 1) // 4 - executors * k // 4 for k in range(4)]
    sizes = zip(sorted(counts), (0.25, 0.5, 0.75, 1.0), strict=True)
    return tuple(ExecutorClass(count=count, memory=memory) for count, memory in sizes)


class BatchSuite(DagSuite):
    """20 jobs at once on 50 executors: Decima's batched arrivals."""


class StreamWorkload(WorkloadSettings):
    """A stream unless told otherwise, so that a file may change single fields."""

    jobs: int = Field(default=200, ge=1, le=1_000_000, description="Jobs per episode.")
    arrivals: Literal["batch", "poisson", "trace"] = Field(
        default="poisson",
        description="All jobs at once, a Poisson stream, or the times of the file itself.",
    )

    @model_validator(mode="before")
    @classmethod
    def _usual_pace(cls, values: object) -> object:
        if isinstance(values, dict) and not {"load", "mean_gap_s"} & values.keys():
            pace = {"load": 0.8} if values.get("arrivals", "poisson") == "poisson" else {}
            return {**values, **pace}
        return values


class StreamSuite(DagSuite):
    """A stream of 200 jobs at loads from 0.5 to 0.95: Decima's continuous arrivals."""

    # Frozen, so a narrower type is safe.
    workload: StreamWorkload = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=lambda: StreamWorkload.model_validate({}),
        description="Which jobs arrive, and when.",
    )
    loads: tuple[float, ...] = Field(
        default=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
        description="Loads of a sweep, each a table of its own; empty: no sweep.",
    )
    policies: tuple[str, ...] = Field(
        default=STREAM_RULES,
        min_length=1,
        description="Policies; `:tuned` takes the tuned settings.",
    )
    seeds: int = Field(
        default=30, ge=2, le=SEEDS_PER_DRAW, description="Test episodes of each policy and load."
    )
    training_seeds: int = Field(
        default=8, ge=2, le=FIRST_TEST_SEED, description="Episodes `trimtab tune` judges by."
    )


RULES_TO_BEAT = ("fair", "weighted-fair:tuned", "graphene:tuned", "capped-srpt-local:tuned")
TRAINED = ("decima-tpch-batch", "decima-tpch-stream", "compact-tpch")


class DecimaSuite(DagSuite):
    """Trained policies against the rules they have to beat: a batch, and streams at four loads."""

    loads: tuple[float, ...] = Field(
        default=(0.5, 0.7, 0.85, 0.95), description="Loads of the streams, each a table of its own."
    )
    stream_jobs: int = Field(
        default=200,
        ge=1,
        le=1_000_000,
        description="Jobs per episode of a stream; as many as in the batch where only that is given.",
    )
    policies: tuple[str, ...] = Field(
        default_factory=lambda: (*RULES_TO_BEAT, *(name for name in TRAINED if PREFIX + name in POLICIES)),
        min_length=1,
        description="Policies; `:tuned` takes the tuned settings.",
    )

    @model_validator(mode="before")
    @classmethod
    def _jobs_of_all(cls, values: object) -> object:
        """Who asks for so many jobs means every episode."""
        if isinstance(values, dict) and "stream_jobs" not in values:
            workload = values.get("workload")
            if isinstance(workload, dict) and "jobs" in workload:
                return {**values, "stream_jobs": workload["jobs"]}
        return values

    @model_validator(mode="after")
    def _sweep_needs_a_stream(self) -> DecimaSuite:
        """Here the workload is that of the batch; streams are made of it."""
        return self

    def scenarios(self) -> tuple[Scenario, ...]:
        """The batch, then the streams; a trace comes alone."""
        if self.workload.arrivals == "trace":
            return (Scenario("trace", self.workload),)
        at_once = {"arrivals": "batch", "load": None, "mean_gap_s": None}
        stream = {"arrivals": "poisson", "jobs": self.stream_jobs, "mean_gap_s": None}
        return (
            Scenario("batch", self.workload.model_copy(update=at_once)),
            *(
                Scenario(f"load {load:.2f}", self.workload.model_copy(update={**stream, "load": load}), load)
                for load in self.loads
            ),
        )


class RandomMemoryWorkload(WorkloadSettings):
    """Stages with random memory demands, unless told otherwise or the workload has some of its own."""

    random_memory: bool = Field(
        default=True,
        description="Give every stage a random memory demand in (0, 1]; by default unless it has one.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_demands(cls, values: object) -> object:
        if isinstance(values, dict) and "random_memory" not in values and isinstance(values.get("name"), str):
            return {**values, "random_memory": not has_demands(values["name"])}
        return values


class FourClassCluster(Cluster):
    """Executors of four memory sizes, a quarter of each, unless classes are given."""

    @model_validator(mode="before")
    @classmethod
    def _quarters(cls, values: object) -> object:
        if isinstance(values, dict) and "classes" not in values:
            executors = values.get("executors", 50)
            if isinstance(executors, int) and executors >= 4:
                return {**values, "executors": executors, "classes": four_classes(executors)}
        return values


class MultiResourceSuite(DagSuite):
    """20 jobs at once with random memory demands on four executor classes."""

    # Frozen, so narrower types are safe.
    workload: RandomMemoryWorkload = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=RandomMemoryWorkload(), description="Which jobs arrive, and when."
    )
    cluster: FourClassCluster = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=lambda: FourClassCluster.model_validate({}),
        description="The cluster they run on.",
    )
    policies: tuple[str, ...] = Field(
        default=(*ALL_RULES, "packed-srpt:tuned"),
        min_length=1,
        description="Policies; `:tuned` takes the tuned settings.",
    )


class RandomMemoryStream(StreamWorkload, RandomMemoryWorkload):
    """A stream of such jobs."""

    # Otherwise the first base would bring the usual value of all workloads.
    random_memory: bool = Field(
        default=True, description=RandomMemoryWorkload.model_fields["random_memory"].description
    )


class MultiResourceStreamSuite(StreamSuite):
    """A stream of 200 jobs with random memory demands on four executor classes, at loads from 0.5 to 0.95."""

    workload: RandomMemoryStream = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=lambda: RandomMemoryStream.model_validate({}),
        description="Which jobs arrive, and when.",
    )
    cluster: FourClassCluster = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=lambda: FourClassCluster.model_validate({}),
        description="The cluster they run on.",
    )
    loads: tuple[float, ...] = Field(
        default=(0.5, 0.7, 0.85, 0.95),
        description="Loads of a sweep, each a table of its own; empty: no sweep.",
    )
    policies: tuple[str, ...] = Field(
        default=(*STREAM_RULES, "packed-srpt:tuned"),
        min_length=1,
        description="Policies; `:tuned` takes the tuned settings.",
    )
