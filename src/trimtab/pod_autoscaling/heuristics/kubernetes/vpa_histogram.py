"""The decaying histogram in which Kubernetes' vertical pod autoscaler keeps usage.

Buckets grow by 5 % each; a sample of weight w at time t weighs w * 2 ** ((t - reference) / half-life), so
that old samples need not be touched to lose weight. When the exponent passes 100, or histograms with
different references are merged, the reference moves (by whole half-lives) and all weights are scaled.

    value      0 ........ first ........ first * 2.05 ...    bucket b starts at first * (1.05**b - 1) / 0.05
    bucket     0          1              2
    weights    [ . . . . . ]  176 doubles; `low` and `high` are the first and last that hold `epsilon` or more
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.core.errors import HistoryError, SettingsError

__all__ = [
    "BucketScheme",
    "DecayingHistogram",
    "cpu_buckets",
    "instant",
    "memory_buckets",
    "seconds_of_instant",
]

DAY_S = 86_400.0
LARGEST_EXPONENT = 100
LARGEST_CHECKPOINT_WEIGHT = 10_000
# References are whole half-lives since the first instant of year 1, as Go rounds times; in Unix seconds.
YEAR_ONE_S = -62_135_596_800.0


@dataclass(frozen=True)
class BucketScheme:
    """Buckets that grow by `ratio` from `first` on; the last one starts at `largest` or above.

    >>> scheme = BucketScheme(first=1.0, largest=10.0, ratio=2.0)
    >>> scheme.starts
    (0.0, 1.0, 3.0, 7.0, 15.0)
    >>> [scheme.find(value) for value in (0.5, 1.0, 6.9, 7.0, 1e9)]
    [0, 1, 2, 3, 4]
    """

    first: float
    largest: float
    ratio: float = 1.05
    epsilon: float = 1e-4
    starts: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.first > 0 and self.largest > 0 and self.ratio > 1 and self.epsilon > 0):
            raise SettingsError(f"{self}; give sizes and epsilon above 0 and a ratio above 1")
        count = math.ceil(self._place(self.largest)) + 1
        growth = self.ratio - 1
        starts = (self.first * (self.ratio**bucket - 1) / growth for bucket in range(count))
        object.__setattr__(self, "starts", tuple(starts))

    @property
    def count(self) -> int:
        return len(self.starts)

    def find(self, value: float) -> int:
        """The bucket of a value; what is too small or too large is in the first or last."""
        if value < self.first:
            return 0
        return min(int(self._place(value)), len(self.starts) - 1)

    def end(self, bucket: int) -> float:
        """Where a bucket ends; the last one has no end, and its start stands for it."""
        return self.starts[min(bucket + 1, len(self.starts) - 1)]

    def _place(self, value: float) -> float:
        return math.log(value * (self.ratio - 1) / self.first + 1) / math.log(self.ratio)


@cache
def cpu_buckets() -> BucketScheme:
    """For cores: the first bucket is 0.01 core wide, the last starts above 1000 cores.

    >>> cpu_buckets().count, cpu_buckets().find(0.25), round(cpu_buckets().end(16), 6)
    (176, 16, 0.258404)
    """
    return BucketScheme(first=0.01, largest=1000.0)


@cache
def memory_buckets() -> BucketScheme:
    """For bytes: the first bucket is 10 MB wide, the last starts above 1 TB."""
    return BucketScheme(first=1e7, largest=1e12)


@dataclass(slots=True, eq=False)
class DecayingHistogram:
    """Weights of samples by value, with a half-life.

    >>> usage = DecayingHistogram(cpu_buckets())
    >>> usage.add(0.25, weight=0.1, at_s=0.0)
    >>> round(usage.percentile(0.9), 6)
    0.258404
    """

    buckets: BucketScheme
    half_life_s: float = DAY_S
    weights: npt.NDArray[np.float64] = field(init=False)
    total: float = 0.0
    low: int = field(init=False)
    high: int = 0
    reference_s: float | None = None

    def __post_init__(self) -> None:
        if not self.half_life_s > 0:
            raise SettingsError(f"half-life of {self.half_life_s} s; give one above 0")
        self.weights = np.zeros(self.buckets.count)
        self.low = self.buckets.count - 1

    @property
    def empty(self) -> bool:
        return bool(self.weights[self.low] < self.buckets.epsilon)

    def add(self, value: float, *, weight: float, at_s: float) -> None:
        """One sample more."""
        decayed = self._decayed(weight, at_s)
        bucket = self.buckets.find(value)
        held = self.weights[bucket] + decayed
        self.weights[bucket] = held
        self.total += decayed
        if held >= self.buckets.epsilon:
            if bucket < self.low:
                self.low = bucket
            if bucket > self.high:
                self.high = bucket

    def subtract(self, value: float, *, weight: float, at_s: float) -> None:
        """One sample less; what falls below epsilon is nothing."""
        decayed = self._decayed(weight, at_s)
        bucket = self.buckets.find(value)
        self.total = self._less(self.total, decayed)
        self.weights[bucket] = self._less(float(self.weights[bucket]), decayed)
        self._narrow()

    def percentile(self, share: float) -> float:
        """The end of the bucket in which `share` of the weight is reached; 0 when empty."""
        return self.percentiles((share,))[0]

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Several percentiles at the price of one."""
        if self.empty:
            return [0.0] * len(shares)
        # In order and one by one, as the original adds them: bits decide at the edge of a bucket.
        reached = self.weights[self.low : self.high].cumsum()
        places = reached.searchsorted([share * self.total for share in shares])
        return [self.buckets.end(self.low + place) for place in places.tolist()]

    def merge(self, other: DecayingHistogram) -> None:
        """All samples of another histogram more; the other one stays as it is."""
        if self.buckets != other.buckets or self.half_life_s != other.half_life_s:
            raise HistoryError("histograms of different buckets or half-lives; merge those of one kind")
        if other.reference_s is None:
            return
        if self.reference_s is None or self.reference_s < other.reference_s:
            self.shift(other.reference_s)
        elif other.reference_s < self.reference_s:
            other = other.copy()
            other.shift(self.reference_s)
        place = slice(other.low, other.high + 1)
        self.weights[place] += other.weights[place]
        self.total += other.total
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def copy(self) -> DecayingHistogram:
        """A histogram of its own with the same content."""
        twin = DecayingHistogram(self.buckets, self.half_life_s)
        twin.weights = self.weights.copy()
        twin.total, twin.low, twin.high = self.total, self.low, self.high
        twin.reference_s = self.reference_s
        return twin

    def shift(self, reference_s: float) -> float:
        """Let weights count from another time, rounded to a whole half-life; no percentile changes by it.

        Buckets that fall below epsilon at the ends are no longer looked at. Returns the new reference.
        """
        halves = math.floor((reference_s - YEAR_ONE_S) / self.half_life_s + 0.5)
        rounded_s = YEAR_ONE_S + halves * self.half_life_s
        if self.reference_s is not None:
            exponent = math.floor((self.reference_s - rounded_s) / self.half_life_s + 0.5)
            factor = math.ldexp(1.0, exponent)
            self.weights[self.low : self.high + 1] *= factor
            self.total *= factor
            self._narrow()
        self.reference_s = rounded_s
        return rounded_s

    def save(self) -> dict[str, Any]:
        """As the status of a VerticalPodAutoscalerCheckpoint has it: the heaviest bucket becomes 10000.

        Weights are rounded, so that buckets of less than a 20000th of the heaviest are lost.
        """
        inside = self.weights[self.low : self.high + 1]
        heaviest = float(inside.max(initial=0.0))
        weights: dict[str, int] = {}
        if heaviest > 0:
            scaled = np.floor(inside * (LARGEST_CHECKPOINT_WEIGHT / heaviest) + 0.5)
            weights = {str(self.low + place): int(scaled[place]) for place in np.flatnonzero(scaled)}
        return {
            "referenceTimestamp": instant(self.reference_s),
            "bucketWeights": weights,
            "totalWeight": self.total,
        }

    @classmethod
    def load(
        cls, saved: Mapping[str, Any], buckets: BucketScheme, half_life_s: float = DAY_S
    ) -> DecayingHistogram:
        """From a checkpoint, also one that Kubernetes wrote."""
        histogram = cls(buckets, half_life_s)
        total = float(saved.get("totalWeight", 0.0))
        weights = {int(bucket): int(weight) for bucket, weight in saved.get("bucketWeights", {}).items()}
        if total < 0 or any(weight < 0 for weight in weights.values()):
            raise HistoryError("checkpoint with a negative weight; delete it and let the VPA begin anew")
        if outside := [bucket for bucket in weights if not 0 <= bucket < buckets.count]:
            given = f"checkpoint with bucket {outside[0]}, of 0 to {buckets.count - 1}"
            raise HistoryError(f"{given}; load it into a histogram of its own kind")
        histogram.reference_s = seconds_of_instant(saved.get("referenceTimestamp"))
        if whole := sum(weights.values()):
            if histogram.reference_s is None:
                raise HistoryError(
                    "checkpoint with weights but no referenceTimestamp; it says nothing of their age"
                )
            for bucket, weight in weights.items():
                histogram.weights[bucket] = weight * (total / whole)
            histogram.low, histogram.high = min(weights), max(weights)
            histogram.total = total
        return histogram

    def _decayed(self, weight: float, at_s: float) -> float:
        if weight < 0:
            raise HistoryError(f"sample of weight {weight} at {at_s} s; give weights from 0")
        reference_s = self.reference_s
        if reference_s is None or at_s > reference_s + LARGEST_EXPONENT * self.half_life_s:
            reference_s = self.shift(at_s)
        return weight * 2.0 ** ((at_s - reference_s) / self.half_life_s)

    def _less(self, held: float, taken: float) -> float:
        left = held - taken
        return left if left >= self.buckets.epsilon else 0.0

    def _narrow(self) -> None:
        """Move `low` and `high` to the first and last bucket that hold something."""
        epsilon, last = self.buckets.epsilon, self.buckets.count - 1
        while self.low < last and self.weights[self.low] < epsilon:
            self.low += 1
        while self.high > 0 and self.weights[self.high] < epsilon:
            self.high -= 1


def instant(at_s: float | None) -> str | None:
    """A time in the words of Kubernetes, to the second.

    >>> instant(1_573_862_400.0)
    '2019-11-16T00:00:00Z'
    """
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of_instant(text: str | None) -> float | None:
    """The reverse of `instant`."""
    return None if text is None else datetime.fromisoformat(text).timestamp()
