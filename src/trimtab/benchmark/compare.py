"""Compare policies honestly: same jobs, same luck, unseen seeds, intervals, losses shown too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trimtab.benchmark.playing import Progress, play_units, units_of
from trimtab.benchmark.suite import SUITES, EpisodeLike, Scenario, Suite, Wing, few_seeds_told
from trimtab.benchmark.tuned import TunedValues, shipped_tuned_values
from trimtab.core.errors import SettingsError
from trimtab.core.policy import parameters_of, tunable_parameters
from trimtab.core.statistics import (
    UNKNOWN,
    Estimate,
    mean_interval,
    paired_ratio,
    probability_of_improvement,
)

__all__ = ["Comparison", "Contestant", "Row", "ScenarioResult", "baseline_of", "compare", "line_up"]

# Side measures get a coarser bootstrap: their intervals are read to two digits.
_SIDE_DRAWS = 2000
_TUNED = ":tuned"


@dataclass(frozen=True)
class Contestant:
    """A policy under one label; tuned rules may have other settings in every scenario."""

    label: str
    by_scenario: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One policy in one scenario."""

    policy: str
    metrics: Mapping[str, Estimate]
    ratio: Estimate | None  # of the measure to the baseline's, paired; None: is the baseline
    improvement: Estimate | None  # how likely it beats the baseline on one workload
    ratio_to_best: Estimate | None  # paired; None: is the best
    settings: Mapping[str, float]

    @property
    def ties_with_best(self) -> bool:
        """Whether the data cannot tell it from the best."""
        return self.ratio_to_best is not None and not self.ratio_to_best.excludes(1.0)


@dataclass(frozen=True)
class ScenarioResult:
    """The table of one scenario, best policy first."""

    scenario: Scenario
    rows: tuple[Row, ...]
    episodes: Mapping[str, Sequence[Any]]  # by policy, in the order of the seeds

    @property
    def best(self) -> Row:
        return self.rows[0]


@dataclass(frozen=True)
class Comparison:
    """Everything a comparison found."""

    name: str
    suite: Suite
    baseline: str
    results: tuple[ScenarioResult, ...]
    notes: tuple[str, ...] = ()


def compare(
    suite: Suite | str = "dag/batch",
    *,
    policies: Sequence[Any] | None = None,
    tuned: TunedValues | None = None,
    processes: int = 1,
    progress: Progress | None = None,
    name: str = "",
) -> Comparison:
    """Play every policy on the same unseen workloads and put intervals on the differences.

    >>> from trimtab.benchmark.dag_scheduling.suites import BatchSuite
    >>> from trimtab.dag_scheduling import WorkloadSettings
    >>> small = BatchSuite(workload=WorkloadSettings(name="synthetic", jobs=3), seeds=2)
    >>> comparison = compare(small, policies=["fifo", "fair"])
    >>> sorted(row.policy for row in comparison.results[0].rows)
    ['fair', 'fifo']
    """
    if isinstance(suite, str):
        name, suite = suite, SUITES.load(suite).usual()
    known = shipped_tuned_values() if tuned is None else tuned
    contestants, notes = line_up(suite, policies or suite.policies, known)
    notes += [*suite.notes(), *few_seeds_told(suite.seeds)]
    baseline = baseline_of(suite, contestants)
    scenarios = suite.scenarios()
    units = [
        units_of(suite, scenario, suite.test_seeds(), [c.by_scenario[scenario.name] for c in contestants])
        for scenario in scenarios
    ]
    played = iter(
        play_units([unit for part in units for unit in part], processes=processes, progress=progress)
    )
    results = []
    for scenario, part in zip(scenarios, units, strict=True):
        of_scenario = [next(played) for _ in part]
        episodes = {
            c.label: [episode for unit in of_scenario for episode in unit[k]]
            for k, c in enumerate(contestants)
        }
        results.append(_result(suite.wing, scenario, contestants, episodes, baseline))
        notes += _unmeasured(suite.wing, results[-1])
    return Comparison(name, suite, baseline, tuple(results), tuple(notes))


def line_up(suite: Suite, policies: Sequence[Any], tuned: TunedValues) -> tuple[list[Contestant], list[str]]:
    """Make the policies, tuned ones for each scenario; notes say where no tuned values are known."""
    contestants: list[Contestant] = []
    untuned: list[str] = []
    for policy in policies:
        contestant = _contestant(suite, policy, tuned)
        wanted = isinstance(policy, str) and policy.endswith(_TUNED) and "tuned" not in contestant.label
        if wanted and any(map(tunable_parameters, contestant.by_scenario.values())):
            untuned.append(contestant.label)
        contestants.append(contestant)
    labels = [contestant.label for contestant in contestants]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice:
        raise SettingsError(f"policy {twice!r} is listed twice; remove one")
    if not untuned:
        return contestants, []
    return contestants, [
        f"Not tuned for this workload and cluster, run with their usual settings: "
        f"{', '.join(untuned)}. `trimtab tune` finds better ones."
    ]


def _contestant(suite: Suite, policy: Any, tuned: TunedValues) -> Contestant:
    wing, scenarios = suite.wing, suite.scenarios()
    if not isinstance(policy, str):
        return Contestant(policy.name, {scenario.name: policy for scenario in scenarios})
    if not policy.endswith(_TUNED):
        made = wing.make_policy(policy)
        return Contestant(made.name, {scenario.name: made for scenario in scenarios})
    base = wing.short_name(policy.removesuffix(_TUNED))
    usual = wing.make_policy(base)
    found = {scenario.name: tuned.find(base, suite, scenario) for scenario in scenarios}
    if any(entry is None for entry in found.values()):
        return Contestant(base, {scenario.name: usual for scenario in scenarios})
    label = f"{base} (tuned)"
    made = {
        name: replace(wing.make_policy(base, entry.values), name=label)
        for name, entry in found.items()
        if entry is not None
    }
    return Contestant(label, made)


def baseline_of(suite: Suite, contestants: Sequence[Contestant]) -> str:
    """The suite's baseline if it plays, tuned or not; else the first policy, unless the user named one."""
    labels = [contestant.label for contestant in contestants]
    base = suite.wing.short_name(suite.baseline.removesuffix(_TUNED))
    wanted = [base, f"{base} (tuned)"]
    if suite.baseline.endswith(_TUNED):
        wanted.reverse()
    found = next((label for label in wanted if label in labels), None)
    if found is None and "baseline" in suite.model_fields_set:
        found = suite.wing.make_policy(base).name
        if found not in labels:
            raise SettingsError(
                f"baseline {suite.baseline!r} does not play; add it to the policies, or take one of them: "
                f"{', '.join(labels)}"
            )
    return found or labels[0]


def _result(
    wing: Wing,
    scenario: Scenario,
    contestants: Sequence[Contestant],
    episodes: Mapping[str, Sequence[EpisodeLike]],
    baseline: str,
) -> ScenarioResult:
    measured = {label: [episode.metrics() for episode in played] for label, played in episodes.items()}
    judged = {label: [m[wing.measure] for m in metrics] for label, metrics in measured.items()}
    best = min(judged, key=lambda label: sum(judged[label]))
    rows = []
    for contestant in contestants:
        label = contestant.label
        against = None if label == baseline else judged[baseline]
        rows.append(
            Row(
                label,
                _estimates(wing, measured[label]),
                None if against is None else paired_ratio(judged[label], against, seed=0),
                None
                if against is None
                else probability_of_improvement(
                    judged[label], against, seed=0, lower_is_better=True, draws=_SIDE_DRAWS
                ),
                None if label == best else paired_ratio(judged[label], judged[best], seed=0),
                {p.name: p.value for p in parameters_of(contestant.by_scenario[scenario.name])},
            )
        )
    rows.sort(key=lambda row: row.metrics[wing.measure].value)
    return ScenarioResult(scenario, tuple(rows), episodes)


def _estimates(wing: Wing, metrics: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    """Side measures are of the episodes that have them: where nothing ended, nothing took any time."""
    found = {}
    for name in wing.metrics:
        values, judged_by = [episode[name] for episode in metrics], name == wing.measure
        known = values if judged_by else [value for value in values if math.isfinite(value)]
        draws = 10_000 if judged_by else _SIDE_DRAWS
        enough = judged_by or len(known) > 1
        found[name] = mean_interval(known, seed=0, draws=draws) if enough else UNKNOWN
    return found


def _unmeasured(wing: Wing, result: ScenarioResult) -> list[str]:
    """Say which measures are of some episodes only, and whose."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for policy, episodes in result.episodes.items():
        metrics = [episode.metrics() for episode in episodes]
        lacking: dict[int, list[str]] = {}
        for name in wing.metrics:
            lacking.setdefault(sum(not math.isfinite(one[name]) for one in metrics), []).append(name)
        for missing, names in lacking.items():
            if missing:
                found.setdefault((" and ".join(names), missing, len(metrics)), []).append(policy)
    where = f"{result.scenario.name}: " if result.scenario.name else ""
    return [
        f"{where}{names} could not be measured in {missing} of {total} episodes of {', '.join(policies)}; "
        f"the table has {f'those of the other {total - missing}' if total - missing > 1 else 'none'}."
        for (names, missing, total), policies in found.items()
    ]
