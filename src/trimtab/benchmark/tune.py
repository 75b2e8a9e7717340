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

from trimtab.benchmark.playing import Unit, Workers
from trimtab.benchmark.suites import DagSuite, Scenario
from trimtab.benchmark.tuned import TunedEntry, scenario_ground
from trimtab.core.errors import SettingsError
from trimtab.dag_scheduling.heuristics import Parameter, Rule
from trimtab.dag_scheduling.policies import POLICIES, make_policy, short_name, tunable_parameters

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
    mean_jct_s: float


@dataclass(frozen=True)
class Tuning:
    """The best settings of a rule on one scenario, and everything that was tried."""

    policy: str
    scenario: Scenario
    usual: Trial
    best: Trial
    trials: tuple[Trial, ...]
    entry: TunedEntry


def tunable_policies() -> tuple[str, ...]:
    """Names of the rules that have something to tune."""
    return tuple(short_name(name) for name in POLICIES if tunable_parameters(make_policy(name)))


def check_tunable(policy: str) -> Rule:
    """Make the rule, or refuse what has nothing to tune."""
    rule = make_policy(policy)
    if not isinstance(rule, Rule) or not tunable_parameters(rule):
        raise SettingsError(
            f"policy {policy!r} has nothing to tune; tunable: {', '.join(tunable_policies())}"
        )
    return rule


def tune(
    policy: str,
    suite: DagSuite,
    scenario: Scenario,
    *,
    suite_name: str = "",
    workers: Workers | None = None,
) -> Tuning:
    """Tune one rule on the training seeds of a suite; the test seeds are never played."""
    rule = check_tunable(policy)
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
    trials.sort(key=lambda trial: trial.mean_jct_s)
    winner = Trial(dict(zip(names, best, strict=True)), known[best])
    workload, cluster = scenario_ground(suite, scenario)
    entry = TunedEntry(
        policy=short_name(policy),
        values=winner.values,
        score=round(winner.mean_jct_s, 3),
        training_seeds=suite.training_seeds,
        suite=suite_name,
        scenario=scenario.name,
        workload=workload,
        cluster=cluster,
    )
    usual_trial = Trial(dict(zip(names, usual, strict=True)), known[usual])
    return Tuning(short_name(policy), scenario, usual_trial, winner, tuple(trials), entry)


def _scores(rules: Sequence[Rule], suite: DagSuite, scenario: Scenario, workers: Workers) -> list[float]:
    """Mean completion time in seconds of each rule over the training seeds."""
    units = [Unit(suite, scenario, seed, tuple(rules)) for seed in suite.tuning_seeds()]
    played = workers.play(units)
    return [
        sum(float(episodes[k].jct_ms.mean()) for episodes in played) / len(played) / 1000.0
        for k in range(len(rules))
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
