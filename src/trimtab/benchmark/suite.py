"""What a comparison must know of a wing, and the suites of all wings by name.

A suite is a settings model whose defaults are the suite; a TOML file and flags change single fields.
Test seeds begin at a million and training seeds end below it, so what a rule was tuned on is never
what it is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trimtab.core.registry import SUITE_ENTRY_POINTS, Registry
from trimtab.core.settings import Field, Settings

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult
    from trimtab.benchmark.report.content import ReportColumn, Section

__all__ = [
    "FIRST_TEST_SEED",
    "SEEDS_PER_DRAW",
    "SUITES",
    "Column",
    "EpisodeLike",
    "Scenario",
    "Suite",
    "Wing",
    "few_episodes_told",
    "few_seeds_told",
]

FIRST_TEST_SEED = 1_000_000
SEEDS_PER_DRAW = 100_000
LEAST_SEEDS = 5
"""With so many, intervals of 95 % hold the truth 93 to 95 % of the time."""

_DAG = "trimtab.benchmark.dag_scheduling.suites"
_GPU = "trimtab.benchmark.gpu_scheduling.suites"
_POD = "trimtab.benchmark.pod_autoscaling.suites"
_STREAM = "trimtab.benchmark.stream_autoscaling.suites"

SUITES: Registry[type[Suite]] = Registry(
    "suite",
    {
        "dag/batch": f"{_DAG}:BatchSuite",
        "dag/decima": f"{_DAG}:DecimaSuite",
        "dag/multi-resource": f"{_DAG}:MultiResourceSuite",
        "dag/multi-resource-stream": f"{_DAG}:MultiResourceStreamSuite",
        "dag/stream": f"{_DAG}:StreamSuite",
        "gpu/das-large": f"{_GPU}:DasLargeSuite",
        "gpu/das-medium": f"{_GPU}:DasMediumSuite",
        "gpu/das-small": f"{_GPU}:DasSmallSuite",
        "gpu/oracle-small": f"{_GPU}:OracleSmallSuite",
        "gpu/predicted-small": f"{_GPU}:PredictedSmallSuite",
        "pod/services": f"{_POD}:ServicesSuite",
        "pod/unseen": f"{_POD}:UnseenSuite",
        "stream/jobs": f"{_STREAM}:JobsSuite",
        "stream/nexmark": f"{_STREAM}:NexmarkSuite",
        "stream/sure": f"{_STREAM}:SureSuite",
    },
    SUITE_ENTRY_POINTS,
)


class EpisodeLike(Protocol):
    """What every wing's episodes have."""

    @property
    def policy(self) -> str: ...
    @property
    def seed(self) -> int: ...
    def metrics(self) -> dict[str, float]: ...


@dataclass(frozen=True)
class Column:
    """One column of the text tables."""

    heading: str
    cell: Callable[[Row], str]


@dataclass(frozen=True)
class Wing:
    """A wing as comparisons see it: what is measured, who may play, and how results are shown."""

    name: str
    """The first part of the names of its suites and policies, such as dag."""
    question: str
    """What a comparison answers, as a title."""
    metrics: Mapping[str, str]
    """Every measure of an episode, with a sentence."""
    measure: str
    """The one that policies are judged by, and compared by ratios of; never negative, lower is better."""
    make_policy: Callable[..., Any]
    """`(name, values=None)`; the settings may stand in the name."""
    policy_names: Callable[[], Sequence[str]]
    uncompiled: Callable[[Sequence[Any]], list[Any]]
    """One policy for each piece of code that has not been compiled on this machine yet."""
    compile: Callable[[Sequence[Any]], None]
    """Compile it, so that other processes find it on disk."""
    ground: Callable[[Any, Scenario], tuple[dict[str, Any], dict[str, Any]]]
    """What a tuned value depends on: workload and cluster, as plain values."""
    caption: Callable[[Comparison, ScenarioResult], str]
    columns: Callable[[Comparison], list[Column]]
    """Of the text tables; the first two are shown in the narrowest terminal."""
    report_columns: Sequence[ReportColumn]
    """Of the HTML report; the first is the measure."""
    answer: Callable[[Comparison, ScenarioResult], str]
    sections: Callable[[Sequence[Any]], list[Section]]
    facts: Callable[[Sequence[Any]], dict[str, str]]
    draw: Callable[[Sequence[Any], Path], list[str]]
    """Write pictures of a few episodes into a folder; returns the file names."""
    reference: str = ""
    """A policy that pictures show whenever it plays."""

    def short_name(self, name: str) -> str:
        """The name without the wing, as it stands in tables."""
        return name.removeprefix(f"{self.name}/")


@dataclass(frozen=True)
class Scenario:
    """One setting of a suite: what all policies play on the same seeds, and a table of its own."""

    name: str
    workload: Any
    """Settings of the wing; they have a `name`."""
    load: float | None = None


class Suite(Settings):
    """A comparison of policies of one wing."""

    wing: ClassVar[Wing]
    seeds_together: ClassVar[int] = 1
    """Seeds that one process plays at once."""

    policies: tuple[str, ...] = Field(
        min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )
    baseline: str = Field(description="Policy that the others are measured against.")
    seeds: int = Field(default=50, ge=2, le=SEEDS_PER_DRAW, description="Test episodes of each policy.")
    training_seeds: int = Field(
        default=24, ge=2, le=FIRST_TEST_SEED, description="Episodes `trimtab tune` judges by."
    )
    seed: int = Field(default=0, ge=0, le=1_000_000, description="Another number gives other test episodes.")

    @classmethod
    def usual(cls) -> Suite:
        """The suite as it comes."""
        return cls.model_validate({})

    def test_seeds(self) -> range:
        first = FIRST_TEST_SEED + self.seed * SEEDS_PER_DRAW
        return range(first, first + self.seeds)

    def tuning_seeds(self) -> range:
        return range(self.training_seeds)

    def scenarios(self) -> tuple[Scenario, ...]:
        """What is played, a table for each."""
        raise NotImplementedError

    def play(
        self, scenario: Scenario, seeds: Sequence[int], policies: Sequence[Any], *, record: bool = False
    ) -> list[list[Any]]:
        """Whole episodes, by policy and seed; `record` keeps what pictures need."""
        raise NotImplementedError

    def admits(self, policy: Any) -> bool:
        """Whether a policy may play here; one that needs to know more than is told may not."""
        return True

    def check(self) -> None:
        """Refuse unknown workloads before anything is made or compiled."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What a reader must know to read the intervals right."""
        return []


def few_episodes_told(trace: str, fit: int | None, seeds: int) -> list[str]:
    """Say that a trace has room for fewer test episodes than seeds play; None: it is without end.

    >>> few_episodes_told("my.trace", 1, 16)[0].partition(":")[0]
    'my.trace has room for 1 test episode, which all 16 seeds play'
    """
    if fit is None or fit >= seeds:
        return []
    if fit <= 1:
        return [
            f"{trace} has room for 1 test episode, which all {seeds} seeds play: the intervals are of the "
            "simulator's luck, not of what other days would bring."
        ]
    return [
        f"{trace} has room for {fit} test episodes, which {seeds} seeds share: the intervals are narrower "
        "than those of as many separate ones."
    ]


def few_seeds_told(seeds: int) -> list[str]:
    """Say that an interval over so few episodes is narrower than its name.

    No resampling leaves the range of what was seen, and all of it lies on one side of the truth in one of
    2 ** (seeds - 1) comparisons: of four episodes, one in eight.

    >>> few_seeds_told(4)
    ['4 seeds are few: 95 % intervals over so few hold the truth at most 88 % of the time; use --seeds 10.']
    >>> few_seeds_told(5)
    []
    """
    if seeds >= LEAST_SEEDS:
        return []
    most = 100 * (1 - 0.5 ** (seeds - 1))
    return [
        f"{seeds} seeds are few: 95 % intervals over so few hold the truth at most {most:.0f} % of the time; "
        "use --seeds 10."
    ]
