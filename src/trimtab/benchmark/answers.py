"""Words that the answers of all wings share: who is best, by how much, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.core.statistics import Estimate

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["WORTH_SAYING", "gained", "listed", "named", "reasons_of", "sentence_of"]

WORTH_SAYING = 0.02
"""A difference below this share is no reason."""
_MOST_REASONS = 3


def named(best: Row, rivals: Sequence[str]) -> str:
    """The best policy, with the rivals that cannot be told from it."""
    return f"{best.policy} (not to be told from {', '.join(rivals)})" if rivals else best.policy


def sentence_of(comparison: Comparison, result: ScenarioResult, serves: str, how: str, why: str) -> str:
    """The best policy and how it `serves`; where it is surely better than the baseline, by how much and why.

    Said no stronger than the intervals allow: rivals that cannot be told apart are named.
    """
    best = result.best
    sentence = f"{named(best, [row.policy for row in result.rows if row.ties_with_best])} {serves}"
    if best.ratio is None:
        return f"{sentence}; nothing compared here does better."
    if not best.ratio.excludes(1.0):
        return f"{sentence}, though {comparison.baseline} may do as well."
    return f"{sentence}, {gained(best.ratio)} {how} {comparison.baseline}{why}."


def gained(ratio: Estimate) -> str:
    """What is saved where a measure is so many times the other, with its interval.

    >>> gained(Estimate(0.8, 0.7, 0.95))
    '20 % (5 to 30 %)'
    """
    saved, low, high = (100 * (1 - part) for part in (ratio.value, ratio.high, ratio.low))
    return f"{saved:.0f} % ({low:.0f} to {high:.0f} %)"


def reasons_of(found: Sequence[tuple[float, str]]) -> list[str]:
    """Of effects and what they look like, the largest that are worth saying."""
    told = sorted((part for part in found if part[0] > WORTH_SAYING), reverse=True)
    return [text for _, text in told[:_MOST_REASONS]]


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence.

    >>> listed(["jobs move less", "few wait", "none is late"])
    'jobs move less; few wait; and none is late'
    """
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"
