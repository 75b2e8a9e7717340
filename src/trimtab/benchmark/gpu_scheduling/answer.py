"""The answer in one sentence: which scheduler serves best, by how much, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trimtab.benchmark.answers import listed, reasons_of, sentence_of
from trimtab.core.statistics import paired_ratio
from trimtab.gpu_scheduling.episode import Episode

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["answer", "as_minutes", "reasons"]

_DRAWS = 2000

Choice = Callable[[Episode], NDArray[np.bool_]]
"""Some of the jobs."""


def answer(comparison: Comparison, result: ScenarioResult) -> str:
    """Name the best policy and what the episodes say about why."""
    best, baseline = result.best, comparison.baseline
    mean, fee = best.metrics["mean_jct_min"].value, best.metrics["mean_fee"].value
    why = reasons(result, best, baseline)
    return sentence_of(
        comparison,
        result,
        f"would serve this cluster best: jobs complete in {as_minutes(mean)} on average, "
        f"for {_dollars(fee)} a job",
        "sooner than under",
        f"{_of_fee(result, best, baseline)}{f', because {listed(why)}' if why else ''}",
    )


def reasons(result: ScenarioResult, best: Row, baseline: str) -> list[str]:
    """What the best policy does better than the baseline, largest effect first."""
    ours, theirs = result.episodes[best.policy], result.episodes[baseline]
    return reasons_of(
        [
            _of_speed(ours, theirs),
            _of_small_jobs(ours, theirs, baseline),
            _of_short_jobs(ours, theirs, baseline),
            _of_stranded(ours, theirs),
        ]
    )


def as_minutes(minutes: float) -> str:
    """Minutes as people say them.

    >>> as_minutes(4.25), as_minutes(93.4), as_minutes(712.0)
    ('4.2 min', '93 min', '11.9 h')
    """
    return (
        f"{minutes:.1f} min"
        if minutes < 20
        else f"{minutes:.0f} min"
        if minutes < 600
        else f"{minutes / 60:.1f} h"
    )


def _of_fee(result: ScenarioResult, best: Row, baseline: str) -> str:
    """What the gain does to the bill; said in any case where it is dearer."""
    mine, theirs = (
        [one.metrics()["mean_fee"] for one in result.episodes[name]] for name in (best.policy, baseline)
    )
    ratio = paired_ratio(mine, theirs, seed=0, draws=_DRAWS)
    if not ratio.excludes(1.0):
        return " at about the same fee"
    return f" for {100 * abs(1 - ratio.value):.1f} % {'less' if ratio.value < 1 else 'more'}"


def _of_speed(ours: Sequence[Episode], theirs: Sequence[Episode]) -> tuple[float, str]:
    saved = 1 - sum(e.busy_gpu_ms for e in ours) / sum(e.busy_gpu_ms for e in theirs)
    return saved, (
        f"the same jobs hold GPUs for {100 * saved:.0f} % less time (placed on faster, less crowded machines)"
    )


def _of_small_jobs(ours: Sequence[Episode], theirs: Sequence[Episode], baseline: str) -> tuple[float, str]:
    """The jobs with at most the median number of GPUs: three quarters of PAI ask for one."""
    before, after = _mean_minutes(ours, theirs, lambda episode: episode.gpus <= np.median(episode.gpus))
    return _share(before, after), (
        f"small jobs do not wait behind large ones: jobs of at most {np.median(ours[0].gpus):g} GPU complete "
        f"in {as_minutes(after)} instead of {as_minutes(before)} under {baseline}"
    )


def _of_short_jobs(ours: Sequence[Episode], theirs: Sequence[Episode], baseline: str) -> tuple[float, str]:
    """The half of the jobs that are shortest when alone on the cluster."""
    before, after = _mean_minutes(
        ours, theirs, lambda episode: episode.alone_ms <= np.median(episode.alone_ms)
    )
    return _share(before, after), (
        f"short jobs get through: the shorter half completes in {as_minutes(after)} instead of "
        f"{as_minutes(before)}"
    )


def _of_stranded(ours: Sequence[Episode], theirs: Sequence[Episode]) -> tuple[float, str]:
    mine, other = (float(np.mean([e.metrics()["fragmentation"] for e in side])) for side in (ours, theirs))
    return other - mine, (
        f"fewer GPUs lie free while jobs wait ({100 * mine:.0f} % of GPU time, not {100 * other:.0f} %)"
    )


def _mean_minutes(ours: Sequence[Episode], theirs: Sequence[Episode], chosen: Choice) -> tuple[float, float]:
    """Mean completion time of some jobs under the baseline, and under the best."""
    mine = [float(left.jct_ms[chosen(left)].mean()) for left in ours]
    other = [float(right.jct_ms[chosen(right)].mean()) for right in theirs]
    return float(np.mean(other)) / 60_000, float(np.mean(mine)) / 60_000


def _share(before: float, after: float) -> float:
    return 1 - after / before if before > 0 else 0.0


def _dollars(amount: float) -> str:
    return f"${amount:.2f}"
