"""What the compact scheduler practises: whole episodes of many sets of numbers on the same workloads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError
from trimtab.core.processes import Processes
from trimtab.core.settings import Field, Presets, Settings
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.compact import BOTH, Manner, compact_policy, first_numbers, rule_of, widths
from trimtab.dag_scheduling.decima.compact_rule import SIZE
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload.presets import WorkloadSettings, draw_workload, find_source
from trimtab.learning.evolution import VALIDATION_SEEDS, EvolutionSettings, seeds_of_iteration

__all__ = ["PRESETS", "CompactCourse", "CompactSettings", "CompactTask", "check_settings"]

Floats = NDArray[np.float64]


class CompactCourse(Settings):
    """One kind of workload to practise."""

    workload: WorkloadSettings = Field(default=WorkloadSettings(), description="Which jobs arrive, and when.")
    cluster: Cluster = Field(default=Cluster(), description="The cluster they run on.")
    rule: str = Field(
        default="capped-srpt-local",
        min_length=1,
        description="Rule that scores are measured against, on the same workloads.",
    )
    sequences: int = Field(default=32, ge=1, le=10_000, description="Workloads in each iteration.")
    weight: float = Field(default=1.0, gt=0, le=100, description="What a per cent counts, beside others.")


class CompactSettings(Settings):
    """Everything a training run of the compact scheduler can be told.

    >>> CompactSettings().begin
    'shortest'
    """

    courses: tuple[CompactCourse, ...] = Field(
        default=(CompactCourse(),), min_length=1, description="What is practised, side by side."
    )
    begin: Manner = Field(default="shortest", description="The rule that training starts at.")
    validation: int = Field(default=64, ge=1, le=10_000, description="Validation workloads of each course.")
    workers: int = Field(default=0, ge=0, le=1024, description="Processes that play; 0: one for each core.")
    training: EvolutionSettings = Field(
        default=EvolutionSettings(), description="How the numbers are searched for."
    )


PRESETS = Presets("trimtab.dag_scheduling.decima", CompactSettings, "compact_presets")


def check_settings(settings: CompactSettings) -> None:
    """Refuse early what cannot work."""
    for number, course in enumerate(settings.courses):
        find_source(course.workload.name)
        if not isinstance(make_policy(course.rule), Rule):
            raise SettingsError(
                f"courses.{number}.rule = {course.rule!r} is no rule; `trimtab policies dag` lists them"
            )


class CompactTask:
    """Satisfies `trimtab.learning.evolution.EvolutionTask`."""

    def __init__(self, settings: CompactSettings, *, start: Bundle | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.decisions = 0
        self.widths = widths(settings.begin)
        self.start = first_numbers(settings.begin, settings.training.seed)
        if start is not None:
            self.start = _numbers_to_start_from(start, settings.begin)
        self._playing = Processes(settings.workers)

    def trial(self, candidates: Floats, iteration: int) -> Floats:
        seeds = [
            seeds_of_iteration(self.settings.training, iteration, course.sequences)
            for course in self.settings.courses
        ]
        costs = self._costs([rule_of(row) for row in candidates], seeds)
        return np.average(np.log(costs), axis=0, weights=self._weights)

    def score(self, numbers: Floats) -> dict[str, float]:
        ratios = self._costs([rule_of(numbers)], self._validation)[:, 0] / self._rule_costs
        found = {"score": float(np.exp(np.average(np.log(ratios), weights=self._weights)))}
        return found | {f"course_{number}": float(ratio) for number, ratio in enumerate(ratios)}

    def described(self) -> dict[str, Any]:
        return self.settings.model_dump(mode="json")

    @property
    def _weights(self) -> list[float]:
        return [course.weight for course in self.settings.courses]

    @property
    def _validation(self) -> list[range]:
        return [range(VALIDATION_SEEDS, VALIDATION_SEEDS + self.settings.validation)] * len(
            self.settings.courses
        )

    @cached_property
    def _rule_costs(self) -> Floats:
        """By course: what its rule costs on the validation workloads."""
        rules = [make_policy(course.rule) for course in self.settings.courses]
        return self._costs(rules, self._validation).diagonal()

    def _costs(self, rules: Sequence[Any], seeds: Sequence[Sequence[int]]) -> Floats:
        """[courses, rules]: mean cost of the workloads of these seeds."""
        tasks = [
            (rules, course, seed)
            for course, some in zip(self.settings.courses, seeds, strict=True)
            for seed in some
        ]
        played = self._playing(_played, tasks)
        self.decisions += sum(decisions for _, decisions in played)
        costs = np.array([found for found, _ in played])
        ends = np.cumsum([len(some) for some in seeds])
        return np.array([part.mean(axis=0) for part in np.split(costs, ends[:-1])])


def _numbers_to_start_from(bundle: Bundle, manner: Manner) -> Floats:
    """Those of the bundle: of two sets the one for batches or for streams, one set for both alike."""
    sets = np.array(compact_policy(bundle).values).reshape(-1, SIZE)
    if manner in BOTH:
        return np.concatenate([sets[0], sets[-1]])
    return sets[-1] if manner == "shared" else sets[0]


def _played(task: tuple[Sequence[Rule], CompactCourse, int]) -> tuple[list[float], int]:
    """What one workload costs under each rule; decisions made."""
    rules, course, seed = task
    cluster = course.cluster
    workload = draw_workload(course.workload, executors=cluster.executors, seed=seed, part="training")
    episodes = [simulate(workload, rule, cluster, seed=seed) for rule in rules]
    return [-episode.reward / 1000.0 for episode in episodes], sum(one.decisions for one in episodes)
