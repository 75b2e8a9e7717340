"""The answer in one sentence: which scheduler serves best, by how much, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trimtab.core.statistics import paired_ratio
from trimtab.gpu_scheduling.episode import Episode

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["answer", "as_minutes", "reasons"]

# A difference below 2 % is no reason.
_WORTH_SAYING = 0.02
_MOST_REASONS = 3
_DRAWS = 2000

Choice = Callable[[Episode], NDArray[np.bool_]]
"""Some of the jobs."""


def answer(comparison: Comparison, result: ScenarioResult) -> str:
    """Name the best policy and what the episodes say about why.

    Said no stronger than the intervals allow: rivals that cannot be told apart are named.
    """
    best = result.best
    mean = best.metrics["mean_jct_min"]
    rivals = [row.policy for row in result.rows if row.ties_with_best]
    beside = f" (not to be told from {', '.join(rivals)})" if rivals else ""
    sentence = (
        f"{best.policy}{beside} would serve this cluster best: jobs complete in {as_minutes(mean.value)} on "
        f"average, for {_dollars(best.metrics['mean_fee'].value)} a job"
    )
    if best.ratio is None or not best.ratio.excludes(1.0):
        if best.policy != comparison.baseline:
            return f"{sentence}, though {comparison.baseline} may do as well."
        return f"{sentence}; nothing compared here does better."
    gain, low, high = (1 - best.ratio.value, 1 - best.ratio.high, 1 - best.ratio.low)
    sentence += (
        f", {100 * gain:.0f} % ({100 * low:.0f} to {100 * high:.0f} %) sooner than under "
        f"{comparison.baseline}{_of_fee(result, best, comparison.baseline)}"
    )
    why = reasons(result, best, comparison.baseline)
    return f"{sentence}, because {_listed(why)}." if why else f"{sentence}."


def reasons(result: ScenarioResult, best: Row, baseline: str) -> list[str]:
    """What the best policy does better than the baseline, largest effect first."""
    ours, theirs = result.episodes[best.policy], result.episodes[baseline]
    found = [
        _of_speed(ours, theirs),
        _of_small_jobs(ours, theirs, baseline),
        _of_short_jobs(ours, theirs, baseline),
        _of_stranded(ours, theirs),
    ]
    told = sorted((part for part in found if part[0] > _WORTH_SAYING), reverse=True)
    return [text for _, text in told[:_MOST_REASONS]]


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


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{'; '.join(parts[:-1])}; and {parts[-1]}"
