"""What the compact agents practise: whole episodes of many sets of numbers, the same workloads for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError
from trimtab.core.processes import Processes
from trimtab.core.randomness import split, uniform
from trimtab.core.settings import Field, Presets, Settings
from trimtab.gpu_scheduling.cluster import GpuType
from trimtab.gpu_scheduling.das.compact import compact_policy, first_numbers, rule_of, widths
from trimtab.gpu_scheduling.das.experience import Experience, gathered
from trimtab.gpu_scheduling.das.grounds import check_grounds
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.gpu_scheduling.workload.clusters import capacity_gpus, find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload, past_jobs
from trimtab.learning.evolution import VALIDATION_SEEDS, EvolutionSettings, seeds_of_iteration

__all__ = [
    "PRESETS",
    "DasSettings",
    "DasTask",
    "check_settings",
    "experience_of",
    "load_preset",
    "preset_names",
]

Floats = NDArray[np.float64]

WORST = 5
"""Whoever takes so many times as long as the rule, and may never end, is stopped and counts as so bad: some
numbers let jobs displace each other for ever."""


class DasSettings(Settings):
    """Everything a training run of the compact agents can be told.

    >>> DasSettings().clusters
    ('das-small', 'das-medium', 'das-large')
    """

    workload: WorkloadSettings = Field(
        default=WorkloadSettings(jobs=1500),
        description="Which jobs arrive; how many, is what is usual on each cluster.",
    )
    clusters: tuple[str, ...] = Field(
        default=("das-small", "das-medium", "das-large"),
        min_length=1,
        description="Clusters to practise on, by name, size (64x8) or table, in turns; twice counts twice.",
    )
    gpu_types: tuple[GpuType, ...] = Field(
        default=(), description="GPU models of these clusters beside the known ones, or in place of them."
    )
    load_spread: float = Field(
        default=0.1,
        ge=0,
        le=0.5,
        description="Loads differ from what is usual on a cluster by up to this share, either way.",
    )
    preemptive: bool = Field(default=False, description="Whether running jobs may be stopped.")
    rule: str = Field(
        default="smallest+fast:neighbours=4",
        min_length=1,
        description="Rule that scores are measured against, on the same workloads.",
    )
    fee_weight: float = Field(
        default=1.0, ge=0, le=100, description="What a per cent of fee counts beside one of completion time."
    )
    sequences: int = Field(default=45, ge=1, le=10_000, description="Workloads in each iteration.")
    validation: int = Field(default=16, ge=1, le=10_000, description="Validation workloads of each cluster.")
    workers: int = Field(default=0, ge=0, le=1024, description="Processes that play; 0: one for each core.")
    training: EvolutionSettings = Field(
        default=EvolutionSettings(), description="How the numbers are searched for."
    )


PRESETS = Presets("trimtab.gpu_scheduling.das", DasSettings)
preset_names, load_preset = PRESETS.names, PRESETS.load


def check_settings(settings: DasSettings) -> None:
    """Refuse early what cannot work."""
    check_grounds(settings.clusters, settings.gpu_types, [settings.workload])
    rule = make_policy(settings.rule)
    if not isinstance(rule, Rule):
        raise SettingsError(f"rule = {settings.rule!r} is no rule; `trimtab policies gpu` lists them")
    if rule.needs_durations:
        raise SettingsError(f"rule = {settings.rule!r} needs durations, which these agents do not know")


def experience_of(settings: DasSettings) -> Experience:
    """What jobs of the same workload that came earlier tell about durations."""
    return gathered([past_jobs(settings.workload)])


class DasTask:
    """Satisfies `trimtab.learning.evolution.EvolutionTask`."""

    def __init__(self, settings: DasSettings, *, start: Bundle | None = None) -> None:
        check_settings(settings)
        self.settings = settings
        self.decisions = 0
        self.widths = widths(preemptive=settings.preemptive)
        self.experience = experience_of(settings)
        self.start = first_numbers(preemptive=settings.preemptive, seed=settings.training.seed)
        if start is not None:
            compact_policy(start)
            if bool(start.manifest["settings"]["preemptive"]) != settings.preemptive:
                raise SettingsError(f"{start.name}: preemptive is not {settings.preemptive}; set it as there")
            self.start = start.tensors["numbers"]
        self._playing = Processes(settings.workers)

    def trial(self, candidates: Floats, iteration: int) -> Floats:
        seeds = seeds_of_iteration(self.settings.training, iteration, self.settings.sequences)
        ratios = self._ratios(candidates, seeds)
        return (ratios @ self._weights).mean(axis=0)

    def score(self, numbers: Floats) -> dict[str, float]:
        clusters = self.settings.clusters
        count = self.settings.validation * len(clusters)
        ratios = self._ratios(numbers[None], range(VALIDATION_SEEDS, VALIDATION_SEEDS + count))[:, 0]
        found = {"score": float(np.exp((ratios @ self._weights).mean()))}
        for cluster in dict.fromkeys(clusters):
            of_cluster = [clusters[place % len(clusters)] == cluster for place in range(count)]
            time, fee = np.exp(ratios[of_cluster].mean(axis=0))
            found |= {f"completion time on {cluster}": float(time), f"fee on {cluster}": float(fee)}
        return found

    def described(self) -> dict[str, Any]:
        return self.settings.model_dump(mode="json")

    @property
    def _weights(self) -> Floats:
        return np.array([1.0, self.settings.fee_weight])

    def _ratios(self, candidates: Floats, seeds: Sequence[int]) -> Floats:
        """[workloads, candidates, 2]: logs of completion time and fee over those of the rule."""
        clusters = [
            self.settings.clusters[place % len(self.settings.clusters)] for place in range(len(seeds))
        ]
        tasks = [
            (candidates, self.experience, self.settings, cluster, seed)
            for cluster, seed in zip(clusters, seeds, strict=True)
        ]
        played = self._playing(_played, tasks)
        self.decisions += sum(decisions for _, decisions in played)
        logs = np.log(np.array([found for found, _ in played]))
        return logs[:, 1:] - logs[:, :1]


def _played(task: tuple[Floats, Experience, DasSettings, str, int]) -> tuple[list[tuple[float, float]], int]:
    """Mean completion time and fee of the rule and of each candidate on one workload; decisions made."""
    candidates, experience, settings, name, seed = task
    rules = [
        make_policy(settings.rule),
        *(rule_of(row, experience, preemptive=settings.preemptive) for row in candidates),
    ]
    cluster = find_cluster(name, settings.gpu_types)
    load = usual_load(name) * (1 + settings.load_spread * (2 * float(uniform(split(seed, "load"), 0)) - 1))
    asked = settings.workload.model_copy(update={"load": load, "mean_gap_s": None})
    workload = draw_workload(asked, gpus=capacity_gpus(cluster), seed=seed, part="training")
    simulator, found, decisions = Simulator(cluster), [], 0
    for rule in rules:
        simulator.reset(workload, seed)
        simulator.play(rule)
        if simulator.truncated:
            time, fee = found[0]
            found.append((WORST * time, WORST * fee))
            continue
        episode = simulator.episode(rule.name)
        if not found:
            simulator = Simulator(cluster, time_limit_ms=WORST * int(episode.completion_ms.max()))
        found.append((float(episode.jct_ms.mean()), float(episode.fee.mean())))
        decisions += episode.decisions
    return found, decisions
