"""The answer in one sentence: which autoscaler serves best, by how much, why, and at what price.

The cost of an interval is a sum of four parts (see `Objective`): records too late, latency itself, restarts,
and subtasks that idle. So the reasons are those parts in which two policies differ, largest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.benchmark.answers import WORTH_SAYING, listed, sentence_of
from trimtab.benchmark.numbers import as_number, as_percent
from trimtab.core.statistics import paired_difference
from trimtab.stream_autoscaling.deployment import Objective
from trimtab.stream_autoscaling.episode import Episode

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["Part", "answer", "cost_parts"]

_DRAWS = 2000


def answer(comparison: Comparison, result: ScenarioResult) -> str:
    """Name the best policy, what it saves against the baseline and why, and what it does worse.

    Parts of the cost whose difference may be chance are left out.
    """
    best, cost = result.best, result.best.metrics["cost"]
    return sentence_of(
        comparison,
        result,
        f"would serve this job best: an interval costs {cost.value:.3f} ({cost.low:.3f} to {cost.high:.3f})",
        "less than under",
        _why(comparison, result, best),
    )


def _why(comparison: Comparison, result: ScenarioResult, best: Row) -> str:
    suite: Any = comparison.suite
    parts = _parts_that_count(result, best, comparison.baseline, suite.deployment.objective)
    gains = [part.text for part in parts if part.saved > 0]
    prices = [part.text for part in reversed(parts) if part.saved < 0]
    gain = f", because {listed(gains)}" if gains else ""
    price = f"{'; ' if gains else ', '}though {listed(prices)}" if prices else ""
    return gain + price


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
        if saved.excludes(0.0) and abs(saved.value) > WORTH_SAYING * base.metrics["cost"].value:
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
