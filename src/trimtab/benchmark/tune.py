"""Find the settings at which a rule does best, on training seeds only.

With few combinations a coarse grid over all settings comes first; then one setting after the other
is refined until nothing gets better. All candidates meet the same episodes, so even small
differences are differences of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from statistics import fmean
from typing import Any

from trimtab.benchmark.playing import Workers, units_of
from trimtab.benchmark.suite import Scenario, Suite, Wing
from trimtab.benchmark.tuned import TunedEntry
from trimtab.core.errors import SettingsError
from trimtab.core.policy import Parameter, tunable_parameters

__all__ = ["Trial", "Tuning", "check_tunable", "tunable_policies", "tune"]

Values = tuple[float, ...]
Evaluate = Callable[[Sequence[Values]], list[float]]

MOST_COARSE_COMBINATIONS = 100
COARSE_POINTS = 9
MOST_ROUNDS = 3


@dataclass(frozen=True)
class Trial:
    """One combination that was tried."""

    values: dict[str, float]
    score: float
    """Mean of the wing's measure over the training seeds."""


@dataclass(frozen=True)
class Tuning:
    """The best settings of a rule on one scenario, and everything that was tried."""

    policy: str
    scenario: Scenario
    usual: Trial
    best: Trial
    trials: tuple[Trial, ...]
    entry: TunedEntry


def tunable_policies(wing: Wing) -> tuple[str, ...]:
    """Names of the rules that have something to tune."""
    return tuple(
        wing.short_name(name) for name in wing.policy_names() if tunable_parameters(wing.make_policy(name))
    )


def check_tunable(wing: Wing, policy: str) -> Any:
    """Make the rule, or refuse what has nothing to tune."""
    rule = wing.make_policy(policy)
    if not tunable_parameters(rule):
        raise SettingsError(
            f"policy {policy!r} has nothing to tune; tunable: {', '.join(tunable_policies(wing))}"
        )
    return rule


def tune(
    policy: str,
    suite: Suite,
    scenario: Scenario,
    *,
    suite_name: str = "",
    workers: Workers | None = None,
) -> Tuning:
    """Tune one rule on the training seeds of a suite; the test seeds are never played."""
    wing = suite.wing
    rule = check_tunable(wing, policy)
    parameters = tunable_parameters(rule)
    names = [parameter.name for parameter in parameters]
    players = workers or Workers()
    known: dict[Values, float] = {}

    def evaluate(candidates: Sequence[Values]) -> list[float]:
        new = [values for values in dict.fromkeys(candidates) if values not in known]
        rules = [rule.with_values(dict(zip(names, values, strict=True))) for values in new]
        if new:
            known.update(zip(new, _scores(rules, suite, scenario, players), strict=True))
        return [known[values] for values in candidates]

    usual = tuple(parameter.value for parameter in parameters)
    best = _search(parameters, usual, evaluate)
    trials = [Trial(dict(zip(names, values, strict=True)), score) for values, score in known.items()]
    trials.sort(key=lambda trial: trial.score)
    winner = Trial(dict(zip(names, best, strict=True)), known[best])
    workload, cluster = wing.ground(suite, scenario)
    entry = TunedEntry(
        policy=wing.short_name(policy),
        values=winner.values,
        score=round(winner.score, 5),
        training_seeds=suite.training_seeds,
        suite=suite_name,
        scenario=scenario.name,
        workload=workload,
        cluster=cluster,
    )
    usual_trial = Trial(dict(zip(names, usual, strict=True)), known[usual])
    return Tuning(wing.short_name(policy), scenario, usual_trial, winner, tuple(trials), entry)


def _scores(rules: Sequence[Any], suite: Suite, scenario: Scenario, workers: Workers) -> list[float]:
    """Mean of the measure of each rule over the training seeds."""
    played = workers.play(units_of(suite, scenario, suite.tuning_seeds(), rules))
    measure = suite.wing.measure
    return [
        fmean(episode.metrics()[measure] for unit in played for episode in unit[k]) for k in range(len(rules))
    ]


def _search(parameters: Sequence[Parameter], usual: Values, evaluate: Evaluate) -> Values:
    coarse = [_coarse(parameter) for parameter in parameters]
    best = usual
    evaluate([usual])
    if len(parameters) > 1 and prod(map(len, coarse)) <= MOST_COARSE_COMBINATIONS:
        best = _better_of([best, *product(*coarse)], evaluate)
    for _ in range(MOST_ROUNDS):
        before = best
        for place, parameter in enumerate(parameters):
            best = _better_of([best, *_along(best, place, coarse[place])], evaluate)
            best = _better_of([best, *_along(best, place, _near(parameter, best[place]))], evaluate)
        if best == before:
            break
    return best


def _better_of(candidates: Sequence[Values], evaluate: Evaluate) -> Values:
    """The best one; among equals the first, so settings change only for a gain."""
    scores = evaluate(candidates)
    return candidates[scores.index(min(scores))]


def _along(values: Values, place: int, points: Iterable[float]) -> list[Values]:
    return [(*values[:place], point, *values[place + 1 :]) for point in points]


def _coarse(parameter: Parameter) -> tuple[float, ...]:
    """About nine points of the grid, both ends among them."""
    last = len(parameter.grid) - 1
    places = {round(last * k / (COARSE_POINTS - 1)) for k in range(COARSE_POINTS)}
    return tuple(parameter.grid[place] for place in sorted(places))


def _near(parameter: Parameter, value: float) -> tuple[float, ...]:
    """The points of the grid around a value that the coarse look left out."""
    reach = max(1, len(parameter.grid) // (COARSE_POINTS - 1))
    place = min(range(len(parameter.grid)), key=lambda k: abs(parameter.grid[k] - value))
    return parameter.grid[max(0, place - reach) : place + reach + 1]
