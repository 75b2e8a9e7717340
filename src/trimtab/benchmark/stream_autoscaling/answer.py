"""The answer in one sentence: which autoscaler serves best, by how much, why, and at what price.

The cost of an interval is a sum of four parts (see `Objective`): records too late, latency itself, restarts,
and subtasks that idle. So the reasons are those parts in which two policies differ, largest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.benchmark.numbers import as_number, as_percent
from trimtab.core.statistics import paired_difference
from trimtab.stream_autoscaling.deployment import Objective
from trimtab.stream_autoscaling.episode import Episode

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["Part", "answer", "cost_parts"]

# A part that makes less than 2 % of the baseline's cost is no reason.
_WORTH_SAYING = 0.02
_DRAWS = 2000


def answer(comparison: Comparison, result: ScenarioResult) -> str:
    """Name the best policy, what it saves against the baseline and why, and what it does worse.

    Said no stronger than the intervals allow: rivals that cannot be told apart are named, and parts of the
    cost whose difference may be chance are left out.
    """
    best, baseline = result.best, comparison.baseline
    cost = best.metrics["cost"]
    rivals = [row.policy for row in result.rows if row.ties_with_best]
    beside = f" (not to be told from {', '.join(rivals)})" if rivals else ""
    sentence = (
        f"{best.policy}{beside} would serve this job best: an interval costs {cost.value:.3f} "
        f"({cost.low:.3f} to {cost.high:.3f})"
    )
    if best.ratio is None:
        return f"{sentence}; nothing compared here does better."
    if not best.ratio.excludes(1.0):
        return f"{sentence}, though {baseline} may do as well."
    gain, low, high = 1 - best.ratio.value, 1 - best.ratio.high, 1 - best.ratio.low
    sentence += f", {100 * gain:.0f} % ({100 * low:.0f} to {100 * high:.0f} %) less than under {baseline}"
    suite: Any = comparison.suite
    parts = _parts_that_count(result, best, baseline, suite.deployment.objective)
    gains = [part.text for part in parts if part.saved > 0]
    prices = [part.text for part in reversed(parts) if part.saved < 0]
    if gains:
        sentence += f", because {_listed(gains)}"
    if prices:
        sentence += f"{'; ' if gains else ', '}though {_listed(prices)}"
    return f"{sentence}."


@dataclass(frozen=True)
class Part:
    """What one part of the cost contributes to the difference between two policies."""

    saved: float  # of the cost of an interval; below 0 the best policy pays more
    text: str


def cost_parts(episode: Episode, objective: Objective) -> dict[str, float]:
    """What the cost of an episode is made of; the parts sum to it.

    Idleness is what the others leave: the share of subtasks that are not busy, times its weight.
    """
    over = np.minimum(episode.latency_s / objective.slo_s, 10.0) / 10.0
    parts = {
        "late": objective.violation_cost * float((episode.latency_s > objective.slo_s).mean()),
        "latency": objective.latency_weight * float(over.mean()),
        "restarts": objective.rescale_cost * float(episode.rescaled.mean()),
    }
    return {**parts, "idle": episode.best_reward - float(episode.rewards.mean()) - sum(parts.values())}


def _parts_that_count(result: ScenarioResult, best: Row, baseline: str, objective: Objective) -> list[Part]:
    """Largest saving first; only what is worth saying and not chance."""
    base = next(row for row in result.rows if row.policy == baseline)
    ours = [cost_parts(episode, objective) for episode in result.episodes[best.policy]]
    theirs = [cost_parts(episode, objective) for episode in result.episodes[baseline]]
    texts = _texts(best, base)
    told = []
    for name, text in texts.items():
        saved = paired_difference(
            [parts[name] for parts in theirs], [parts[name] for parts in ours], seed=0, draws=_DRAWS
        )
        if saved.excludes(0.0) and abs(saved.value) > _WORTH_SAYING * base.metrics["cost"].value:
            told.append(Part(saved.value, text))
    return sorted(told, key=lambda part: -part.saved)


def _texts(best: Row, base: Row) -> dict[str, str]:
    """What each part looks like in measures that people know."""

    def both(name: str) -> tuple[float, float]:
        return best.metrics[name].value, base.metrics[name].value

    late, latency, restarts = both("violation_share"), both("latency_s"), both("rescales")
    busy, slots = both("utilisation"), both("slot_hours")
    return {
        "late": f"records are too late {as_percent(late[0])} of the time, not {as_percent(late[1])}",
        "latency": f"the mean latency is {as_number(latency[0])} s, not {as_number(latency[1])} s",
        "restarts": f"the job restarts {_count(restarts[0])} times a day, not {_count(restarts[1])}",
        "idle": f"subtasks are busy {as_percent(busy[0])} of the time, not {as_percent(busy[1])} "
        f"({as_number(slots[0])} slot-hours a day, not {as_number(slots[1])})",
    }


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"
