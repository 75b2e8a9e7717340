"""Numbers with honest intervals: means, interquartile means, paired comparisons.

Every interval is a bootstrap over whole observations (a workload and seed played by all sides),
so what two policies have in common cancels. Within `strata` (labels, one per observation) counts
are kept: a comparison over three clusters never resamples one of them away.

The plain percentile bootstrap is too narrow for few observations: on ten it covers about 90 %
where it says 95 %. Percentiles are therefore widened to match Student's t (Hesterberg 2015, "What
teachers should know about the bootstrap"): on ten, 0.9 % is cut off each end and not 2.5 %,
and normal data is covered 94 % of the time.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import TrimtabError
from trimtab.core.randomness import split, uniform

__all__ = [
    "UNKNOWN",
    "Estimate",
    "bootstrap",
    "iqm",
    "iqm_interval",
    "mean_interval",
    "paired_difference",
    "paired_ratio",
    "probability_of_improvement",
]

Numbers: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[..., Numbers]

_DRAWS = 10_000
# Resampled values held at once: 32 MB.
_BLOCK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the interval it comes with.

    >>> estimate = Estimate(0.8, 0.7, 0.95)
    >>> str(estimate)
    '0.8 [0.7, 0.95]'
    >>> estimate.excludes(1.0)
    True
    """

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there is a number at all; there is none of `UNKNOWN`."""
        return not math.isnan(self.value)

    def excludes(self, claim: float) -> bool:
        """Whether the interval lies wholly on one side of the claim, e.g. 1 for a ratio."""
        return claim < self.low or claim > self.high

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


UNKNOWN = Estimate(math.nan, math.nan, math.nan)
"""Of what nothing was measured."""


def iqm(values: ArrayLike) -> Numbers:
    """Average the middle half along the last axis, splitting values on the border exactly.

    Of five values, 1.25 go at each end: the second and fourth count three quarters.

    >>> float(iqm([0, 1, 2, 3, 100]))
    2.0
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    count = ordered.shape[-1]
    ranks = np.arange(count)
    # What of the unit interval [rank, rank + 1] lies between the quartiles.
    kept = np.minimum(ranks + 1, 0.75 * count) - np.maximum(ranks, 0.25 * count)
    return ordered @ np.maximum(kept, 0) / (0.5 * count)


def mean_interval(
    values: ArrayLike,
    *,
    seed: int,
    strata: ArrayLike | None = None,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the mean.

    >>> mean_interval([1.0, 2.0, 3.0, 4.0], seed=0).value
    2.5
    """
    return bootstrap(_mean, values, seed=seed, strata=strata, draws=draws, confidence=confidence)


def iqm_interval(
    values: ArrayLike,
    *,
    seed: int,
    strata: ArrayLike | None = None,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the interquartile mean, which a few wild runs cannot move.

    >>> iqm_interval([0.0, 1.0, 2.0, 3.0, 100.0], seed=0).value
    2.0
    """
    return bootstrap(iqm, values, seed=seed, strata=strata, draws=draws, confidence=confidence)


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    seed: int,
    strata: ArrayLike | None = None,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the mean of ``a - b``, where entry i of both met the same workload and luck.

    >>> str(paired_difference([11.0, 21.0, 31.0], [10.0, 20.0, 30.0], seed=0))
    '1 [1, 1]'
    """
    return bootstrap(
        lambda left, right: _mean(left - right),
        *_pair(a, b),
        seed=seed,
        strata=strata,
        draws=draws,
        confidence=confidence,
    )


def paired_ratio(
    a: ArrayLike,
    b: ArrayLike,
    *,
    seed: int,
    strata: ArrayLike | None = None,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate mean(a) / mean(b), where entry i of both met the same workload and luck.

    >>> str(paired_ratio([5.0, 10.0, 15.0], [10.0, 20.0, 30.0], seed=0))
    '0.5 [0.5, 0.5]'
    """
    above, below = _pair(a, b)
    if not (below > 0).all():
        raise TrimtabError(
            f"paired_ratio divides by values that must be above 0; found {below.min():g}; "
            "use paired_difference"
        )
    return bootstrap(
        lambda left, right: _mean(left) / _mean(right),
        above,
        below,
        seed=seed,
        strata=strata,
        draws=draws,
        confidence=confidence,
    )


def probability_of_improvement(
    a: ArrayLike,
    b: ArrayLike,
    *,
    seed: int,
    lower_is_better: bool,
    paired: bool = True,
    strata: ArrayLike | None = None,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate how likely ``a`` beats ``b``; a tie counts half.

    Paired: on the same workload and luck. Unpaired: any run of ``a`` against any run of ``b``
    (the two may differ in number), for runs that have nothing in common, like training seeds.

    >>> probability_of_improvement([1, 2, 9], [2, 2, 3], seed=0, lower_is_better=True).value
    0.5
    """
    if paired:
        left, right = _pair(a, b)
        wins = _wins(left, right, lower_is_better)
        return bootstrap(_mean, wins, seed=seed, strata=strata, draws=draws, confidence=confidence)
    if strata is not None:
        raise TrimtabError("strata need paired runs; pass paired=True or leave strata out")
    left, right = _column("a", a), _column("b", b)
    wins = _wins(left[:, None], right[None, :], lower_is_better)
    resampled = _unpaired_means(wins, seed=seed, draws=draws)
    fewest = min(len(left), len(right))
    return _interval(float(wins.mean()), resampled, fewest, 1, confidence)


def bootstrap(
    statistic: Statistic,
    *columns: ArrayLike,
    seed: int,
    strata: ArrayLike | None = None,
    draws: int = _DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate any statistic of columns whose rows belong together.

    The statistic gets arrays of shape (draws, rows), one per column, and reduces the last axis.

    >>> bootstrap(lambda rows: rows.max(axis=-1), [1.0, 5.0, 3.0], seed=0).value
    5.0
    """
    arrays = [_column(f"column {at}", column) for at, column in enumerate(columns, start=1)]
    rows = len(arrays[0])
    stratum_of_row = _stratum_of_row(strata, rows)
    resampled = np.concatenate(
        [
            statistic(*(array[picks] for array in arrays))
            for picks in _resampled_rows(stratum_of_row, seed=seed, draws=draws)
        ]
    )
    value = float(statistic(*(array[None, :] for array in arrays))[0])
    return _interval(value, resampled, rows, int(stratum_of_row.max()) + 1, confidence)


def _mean(values: Numbers) -> Numbers:
    return values.mean(axis=-1)


def _wins(a: Numbers, b: Numbers, lower_is_better: bool) -> Numbers:
    better = a < b if lower_is_better else a > b
    return better + 0.5 * (a == b)


def _column(name: str, values: ArrayLike) -> Numbers:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or len(column) < 2:
        raise TrimtabError(f"{name} has shape {column.shape}; an interval needs a list of at least 2 values")
    if not np.isfinite(column).all():
        at = int(np.flatnonzero(~np.isfinite(column))[0])
        raise TrimtabError(
            f"{name} holds {column[at]} at position {at}; every episode must finish, mend that run"
        )
    return column


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Numbers, Numbers]:
    left, right = _column("a", a), _column("b", b)
    if len(left) != len(right):
        raise TrimtabError(
            f"a has {len(left)} values and b has {len(right)}; play both on the same workloads"
        )
    return left, right


def _stratum_of_row(strata: ArrayLike | None, rows: int) -> NDArray[np.intp]:
    if strata is None:
        return np.zeros(rows, dtype=np.intp)
    labels = np.asarray(strata)
    if labels.shape != (rows,):
        raise TrimtabError(f"strata has shape {labels.shape}; give one label for each of {rows}")
    names, stratum_of_row, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if sizes.min() < 2:
        lonely = names[sizes.argmin()]
        raise TrimtabError(f"stratum {lonely!s} has 1 value; an interval needs at least 2 in each")
    return stratum_of_row


def _resampled_rows(stratum_of_row: NDArray[np.intp], *, seed: int, draws: int) -> Iterator[NDArray[np.intp]]:
    """Yield blocks of shape (some draws, rows) of row numbers, each from its row's stratum."""
    rows = len(stratum_of_row)
    by_stratum = np.argsort(stratum_of_row, kind="stable")
    sizes = np.bincount(stratum_of_row)
    size = np.repeat(sizes, sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    for draw in _blocks(draws, rows):
        luck = uniform(split(seed, "bootstrap"), draw[:, None], np.arange(rows)[None, :])
        yield by_stratum[first + (luck * size).astype(np.intp)]


def _unpaired_means(wins: Numbers, *, seed: int, draws: int) -> Numbers:
    """Resample rows and columns of the table of wins independently; average each table."""
    means = []
    for draw in _blocks(draws, sum(wins.shape)):
        weights = []
        for side, runs in zip(("a", "b"), wins.shape, strict=True):
            luck = uniform(split(seed, "bootstrap", side), draw[:, None], np.arange(runs)[None, :])
            picks = (luck * runs).astype(np.intp) + np.arange(len(draw))[:, None] * runs
            counts = np.bincount(picks.ravel(), minlength=len(draw) * runs)
            weights.append(counts.reshape(len(draw), runs) / runs)
        means.append(((weights[0] @ wins) * weights[1]).sum(axis=-1))
    return np.concatenate(means)


def _blocks(draws: int, rows: int) -> Iterator[NDArray[np.int64]]:
    block = max(1, _BLOCK_VALUES // rows)
    for start in range(0, draws, block):
        yield np.arange(start, min(start + block, draws))


def _interval(value: float, resampled: Numbers, rows: int, strata: int, confidence: float) -> Estimate:
    tail = _widened_tail(rows, strata, confidence)
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))


def _widened_tail(rows: int, strata: int, confidence: float) -> float:
    """Say how much to cut off each end: 0.0086 for ten rows at 95 %, near 0.025 for thousands."""
    freedom = rows - strata
    reach = _student_quantile(freedom, confidence) * math.sqrt(rows / freedom)
    return NormalDist().cdf(-reach)


@lru_cache
def _student_quantile(freedom: int, confidence: float) -> float:
    """Find t with P(|T| < t) = confidence; 2.262 for 9 degrees of freedom at 95 %.

    With x = sqrt(freedom) * tan(angle), the density of T becomes cos(angle) ** (freedom - 1).
    """
    if freedom > 10_000:
        return NormalDist().inv_cdf(0.5 + confidence / 2)
    angle = np.linspace(0, math.pi / 2, 100_001)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(np.interp(confidence * mass[-1], mass, angle))
