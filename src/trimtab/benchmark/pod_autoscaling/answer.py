"""The answer in one sentence: who holds the fewest cores and still keeps requests in time.

Cores are easily saved by letting requests wait, so only those who keep the budget of late requests are asked
how little they hold. A policy *keeps the budget* if over all test episodes no more requests are late or fail
than it allows, on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trimtab.benchmark.answers import gained, named
from trimtab.benchmark.numbers import as_number
from trimtab.core.statistics import Estimate, paired_ratio

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["answer", "as_share", "keeps_budget"]

_DRAWS = 2000
_MOST_NAMED = 3


def answer(comparison: Comparison, result: ScenarioResult) -> str:
    """Name who holds the fewest cores among those in time, what it saves, and who is cheaper but too late.

    Said no stronger than the intervals allow: rivals that cannot be told apart are named.
    """
    suite: Any = comparison.suite
    budget = suite.deployment.objective.budget
    if not any(one.arrived.any() for episodes in result.episodes.values() for one in episodes):
        return "Nothing arrived in these hours, so nobody could be late; play longer ones, or a busier trace."
    keepers = [row for row in result.rows if keeps_budget(row, budget)]
    if not keepers:
        return _nobody(result, budget)
    best = min(keepers, key=lambda row: row.metrics["core_hours"].value)
    ratios = {row.policy: _cores_ratio(result, row, best) for row in keepers if row is not best}
    rivals = [name for name, ratio in ratios.items() if not ratio.excludes(1.0)]
    held = best.metrics["core_hours"]
    sentence = (
        f"{named(best, rivals)} would serve this service with the fewest cores of those that keep requests "
        f"in time: {as_number(held.value)} core-hours a day "
        f"({as_number(held.low)} to {as_number(held.high)}), {_late(best, budget)}"
        f"{_against(comparison, result, best, budget)}"
    )
    return f"{sentence}{_cheaper_but_late(result, best, budget)}{_by_cost(result, best)}."


def keeps_budget(row: Row, budget: float) -> bool:
    """Whether no more requests are late than may be, on average over the test episodes."""
    return row.metrics["late_share"].value <= budget


def _late(row: Row, budget: float) -> str:
    late = row.metrics["late_share"]
    doubt = "" if late.high <= budget else ", perhaps more than may be"
    return (
        f"{as_share(late.value)} late ({as_share(late.low)} to {as_share(late.high)}{doubt}; "
        f"the budget is {as_share(budget)})"
    )


def _against(comparison: Comparison, result: ScenarioResult, best: Row, budget: float) -> str:
    """What it saves against the baseline, or why that cannot be asked."""
    name = comparison.baseline
    base = next(row for row in result.rows if row.policy == name)
    if base is best:
        return "; nothing compared here does it with fewer"
    if not keeps_budget(base, budget):
        held = as_number(base.metrics["core_hours"].value)
        return f"; {name} holds {held} and has {as_share(base.metrics['late_share'].value)} late"
    ratio = _cores_ratio(result, best, base)
    if not ratio.excludes(1.0):
        return f", though {name} may do with as few"
    return f", {gained(ratio)} fewer than {name}"


def _cheaper_but_late(result: ScenarioResult, best: Row, budget: float) -> str:
    """Who holds less and lets requests wait; the least late first."""
    cheaper = [
        row
        for row in result.rows
        if not keeps_budget(row, budget)
        and row.metrics["core_hours"].value < best.metrics["core_hours"].value
    ]
    if not cheaper:
        return ""
    cheaper.sort(key=lambda row: row.metrics["late_share"].value)
    told = [
        f"{row.policy} ({as_number(row.metrics['core_hours'].value)}, "
        f"{as_share(row.metrics['late_share'].value)} late)"
        for row in cheaper[:_MOST_NAMED]
    ]
    more = len(cheaper) - len(told)
    others = f" and {more} more" if more else ""
    return f". Fewer cores, but too many late: {', '.join(told)}{others}"


def _by_cost(result: ScenarioResult, best: Row) -> str:
    """Where memory and fines change who is best."""
    if result.best is best or any(row is best and row.ties_with_best for row in result.rows):
        return ""
    return f". By cost, which counts memory and late requests too, {result.best.policy} is best"


def _nobody(result: ScenarioResult, budget: float) -> str:
    least = min(result.rows, key=lambda row: row.metrics["late_share"].value)
    late = least.metrics["late_share"]
    return (
        f"No policy compared here keeps the budget of {as_share(budget)} late requests; {least.policy} comes "
        f"nearest, with {as_share(late.value)} ({as_share(late.low)} to {as_share(late.high)}) and "
        f"{as_number(least.metrics['core_hours'].value)} core-hours a day."
    )


def _cores_ratio(result: ScenarioResult, one: Row, other: Row) -> Estimate:
    """Core-hours of one over those of the other, on the same seeds."""
    mine, theirs = (_core_hours(result.episodes[row.policy]) for row in (one, other))
    return paired_ratio(mine, theirs, seed=0, draws=_DRAWS)


def _core_hours(episodes: Sequence[Any]) -> list[float]:
    return [episode.metrics()["core_hours"] for episode in episodes]


def as_share(share: float) -> str:
    """Shares around a budget of a percent need two digits.

    >>> as_share(0.0042), as_share(0.123), as_share(0.01)
    ('0.42 %', '12 %', '1 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"
