"""The answer in one sentence: which scheduler serves best, by how much, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trimtab.benchmark.answers import listed, reasons_of, sentence_of
from trimtab.dag_scheduling.episode import Episode

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["answer", "reasons"]


def answer(comparison: Comparison, result: ScenarioResult) -> str:
    """Name the best policy and what the metrics say about why."""
    best = result.best
    mean_s = best.metrics["mean_jct_s"].value
    why = reasons(result, best, comparison.baseline)
    return sentence_of(
        comparison,
        result,
        f"would serve this cluster best: jobs complete in {mean_s:.1f} s on average",
        "sooner than under",
        f", because {listed(why)}" if why else "",
    )


def reasons(result: ScenarioResult, best: Row, baseline: str) -> list[str]:
    """What the best policy does better than the baseline, largest effect first."""
    ours, theirs = result.episodes[best.policy], result.episodes[baseline]
    return reasons_of(
        [
            _of_work(ours, theirs),
            _of_moving(ours, theirs),
            _of_small_jobs(ours, theirs, baseline),
            _of_idleness(ours, theirs),
        ]
    )


def _of_work(ours: Sequence[Episode], theirs: Sequence[Episode]) -> tuple[float, str]:
    saved = 1 - sum(e.busy_ms for e in ours) / sum(e.busy_ms for e in theirs)
    return saved, (
        f"the same tasks cost {100 * saved:.0f} % less executor time (jobs that are not spread "
        "wide are slowed down less)"
    )


def _of_moving(ours: Sequence[Episode], theirs: Sequence[Episode]) -> tuple[float, str]:
    mine, other = (sum(e.moving_ms for e in side) for side in (ours, theirs))
    capacity = sum(e.executor_count * e.makespan_ms for e in theirs)
    return (other - mine) / capacity, (
        f"less executor time is lost to moving between jobs ({_hours(mine)} instead of {_hours(other)})"
    )


def _of_small_jobs(ours: Sequence[Episode], theirs: Sequence[Episode], baseline: str) -> tuple[float, str]:
    """The half of the jobs that are shortest when alone on the cluster."""
    mine, other = [], []
    for left, right in zip(ours, theirs, strict=True):
        small = left.alone_ms <= np.median(left.alone_ms)
        mine.append(left.jct_ms[small].mean())
        other.append(right.jct_ms[small].mean())
    before, after = float(np.mean(other)) / 1000, float(np.mean(mine)) / 1000
    return 1 - after / before, (
        f"small jobs get through first: the smaller half completes in {after:.0f} s instead of "
        f"{before:.0f} s under {baseline}"
    )


def _of_idleness(ours: Sequence[Episode], theirs: Sequence[Episode]) -> tuple[float, str]:
    mine, other = (float(np.mean([e.metrics()["utilisation"] for e in side])) for side in (ours, theirs))
    return mine - other, f"executors are busy {100 * mine:.0f} % of the time, not {100 * other:.0f} %"


def _hours(milliseconds: float) -> str:
    hours = milliseconds / 3_600_000
    return f"{hours:.1f} executor-hours" if hours >= 1 else f"{milliseconds / 1000:.0f} executor-seconds"
