"""What a history teaches about durations: how much longer a job that has run so long will take.

Nobody tells a scheduler how long a job will run, but a cluster that has seen thousands of jobs knows what
those of a user and name, or of a size, usually did. From the durations X of finished jobs of a class, and for
a job of it that has run for a:

    rest         E[X - a | X > a]                                    the mean time left
    quick rest   min over d of  E[min(X - a, d) | X > a] / P(X - a <= d | X > a)

The second is the inverse of Gittins' index: the least time spent per job that ends, if jobs may be stopped
after d. Where stopping is possible, running the job with the least of it first is best for a single machine
(Gittins 1979; Tiresias, NSDI'19, has an order of this kind). Both are kept as logarithms at a few times, and
lines are drawn in between. A class is a group and a size; where it was seen seldom, it leans on its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.gpu_scheduling.heuristics.rule import Parameters
from trimtab.gpu_scheduling.problem import WHOLE
from trimtab.gpu_scheduling.workload.jobs import Workload

__all__ = [
    "AGES",
    "MEASURES",
    "SIZES",
    "Experience",
    "gathered",
    "log_rest",
    "no_experience",
    "place_of_class",
]

Floats = NDArray[np.float64]

SIZES = 8
"""Classes of GPUs: up to 1, 2, 4, ... 64, more."""
AGES = 24
AGE_STEP = 0.55
"""Times are at exp(0.55 * k) - 1 seconds for k = 0, 1, ... 23: up to 86 hours."""
MEASURES = 2
"""The rest and the quick rest."""
CLASSES = 1024
"""At most so many, those seen most often."""
LEANING = (1.0, 3.0, 10.0, 30.0, 100.0)
"""How many jobs of its size a class counts beside its own; which, is found on the later half of a history."""
ROW = AGES * MEASURES


@dataclass(frozen=True, eq=False)
class Experience:
    """Classes by key, ascending, and logs of seconds for each: [classes, measures, ages].

    `sizes` [sizes, measures, ages] is what a job of no known group is expected to do.

    >>> nothing = no_experience()
    >>> len(nothing.keys), nothing.sizes.shape
    (0, (8, 2, 24))
    """

    keys: Floats
    classes: Floats
    sizes: Floats
    jobs: int
    """How many it was gathered from."""

    def tensors(self) -> dict[str, Floats]:
        """As a bundle holds it."""
        return {
            "classes": self.classes,
            "class_keys": self.keys,
            "sizes": self.sizes,
            "jobs": np.array(self.jobs),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> Experience | None:
        """As it was; None if something is missing or does not fit together.

        >>> Experience.from_tensors(no_experience().tensors()).jobs
        0
        """
        if not {"classes", "class_keys", "sizes", "jobs"} <= tensors.keys():
            return None
        found = cls(tensors["class_keys"], tensors["classes"], tensors["sizes"], int(tensors["jobs"]))
        fits = found.classes.shape == (len(found.keys), MEASURES, AGES)
        return found if fits and found.sizes.shape == (SIZES, MEASURES, AGES) else None

    @property
    def row(self) -> Floats:
        """All in one row, as compiled rules take it; `log_rest` finds its way in it."""
        count = np.array([len(self.keys)], np.float64)
        return np.concatenate([count, self.keys, self.sizes.ravel(), self.classes.ravel()])


def no_experience() -> Experience:
    """That of a cluster which has seen nothing: every job will take an hour."""
    sizes = np.full((SIZES, MEASURES, AGES), math.log(3600.0))
    return Experience(np.zeros(0), np.zeros((0, MEASURES, AGES)), sizes, 0)


def gathered(histories: Sequence[Workload]) -> Experience:
    """Experience from finished jobs.

    Where jobs of a group take ten seconds and others an hour, a job of it is expected to be done soon.

    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> seconds = np.where(np.arange(400) % 2 == 0, 10, 3600)
    >>> jobs = make_workload(np.arange(400), duration_ms=seconds * 1000, gpus=1, group=np.arange(400) % 2)
    >>> row = gathered([jobs]).row
    >>> [round(math.exp(log_rest(group, 1000, 0.0, 0, row, 0)) / 60) for group in (0, 1)]
    [0, 60]
    """
    seconds = np.concatenate([history.duration_ms for history in histories]) / 1000.0
    size = np.concatenate([_sizes(history) for history in histories])
    key = np.concatenate([history.group for history in histories]) * SIZES + size
    order = np.concatenate([history.arrival_ms for history in histories]).argsort(kind="stable")
    leaning = _best_leaning(np.log(seconds[order]), size[order], key[order])
    everything = _curves(seconds)
    sizes = np.stack([_leaning_on(everything, seconds[size == one], 30.0) for one in range(SIZES)])
    keys, counts = np.unique(key, return_counts=True)
    kept = np.sort(keys[np.argsort(-counts, kind="stable")[:CLASSES]])
    by_key = np.argsort(key, kind="stable")
    ends = np.searchsorted(key[by_key], [kept, kept + 1])
    classes = [
        _leaning_on(sizes[one % SIZES], seconds[by_key[first:last]], leaning)
        for one, first, last in zip(kept, *ends, strict=True)
    ]
    return Experience(kept.astype(np.float64), np.array(classes), sizes, len(seconds))


def log_rest(group: int, gang_milli: int, ran_ms: float, measure: int, row: Parameters, start: int) -> float:
    """Log of the expected seconds left of a job that has run so long; `row[start:]` is an experience's row.

    `measure` 0 is the rest, 1 the quick rest.
    """
    count = int(row[start])
    size = size_class(gang_milli)
    at = (
        start
        + 1
        + count
        + ROW * place_of_class(float(group * SIZES + size), size, row, start)
        + AGES * measure
    )
    age = math.log1p(ran_ms / 1000.0) / AGE_STEP
    before = int(min(age, AGES - 2.0))
    share = min(age - before, 1.0)
    return row[at + before] * (1.0 - share) + row[at + before + 1] * share


def place_of_class(key: float, size: int, row: Parameters, start: int) -> int:
    """Which of the sizes and then classes in a row a job belongs to."""
    low, high = 0, int(row[start])
    while low < high:
        middle = (low + high) // 2
        if row[start + 1 + middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < int(row[start]) and row[start + 1 + low] == key:
        return SIZES + low
    return size


def size_class(gang_milli: int) -> int:
    """0 for up to one GPU, 1 for up to two, 2 for up to four, ..."""
    size = 0
    reach = WHOLE
    while reach < gang_milli and size < SIZES - 1:
        reach *= 2
        size += 1
    return size


def _sizes(history: Workload) -> NDArray[np.int64]:
    gangs = history.instances * history.gpu_milli
    return np.array([size_class(int(milli)) for milli in gangs], np.int64)


def _ages_s() -> Floats:
    return np.expm1(AGE_STEP * np.arange(AGES))


def _curves(seconds: Floats) -> Floats:
    """[measures, ages]; beyond the longest job seen, as at the last time at which one was left."""
    ordered = np.sort(seconds)
    found = np.zeros((MEASURES, AGES))
    for place, age in enumerate(_ages_s()):
        left = ordered[np.searchsorted(ordered, age, side="right") :] - age
        if len(left) == 0:
            found[:, place] = found[:, place - 1]
            continue
        ended = np.arange(1, len(left) + 1)
        spent = np.cumsum(left) + (len(left) - ended) * left
        found[0, place] = math.log(left.mean())
        found[1, place] = math.log((spent / ended).min())
    return found


def _leaning_on(others: Floats, seconds: Floats, leaning: float) -> Floats:
    """A mean of what others do and what these did, who count the more the more there are."""
    if len(seconds) == 0:
        return others
    share = len(seconds) / (len(seconds) + leaning)
    return (1.0 - share) * others + share * _curves(seconds)


def _best_leaning(logs: Floats, size: NDArray[np.int64], key: NDArray[np.int64]) -> float:
    """Learned on the earlier half of a history, asked about the later."""
    cut = len(logs) // 2
    if cut == 0:
        return LEANING[-1]
    by_size, size_count = _means(logs[:cut], size[:cut], size)
    overall = logs[:cut].mean()
    by_size = (size_count * by_size + overall) / (size_count + 1.0)
    by_key, count = _means(logs[:cut], key[:cut], key)
    errors = []
    for leaning in LEANING:
        guessed = (count * by_key + leaning * by_size) / (count + leaning)
        errors.append(np.square(guessed - logs)[cut:].mean())
    return LEANING[int(np.argmin(errors))]


def _means(
    values: Floats, groups: NDArray[np.int64], asked: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.int64]]:
    """Mean value and count of the group asked for; 0 and 0 where there is none."""
    known, place = np.unique(groups, return_inverse=True)
    count = np.bincount(place)
    mean = np.bincount(place, values) / count
    found = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    there = known[found] == asked
    return np.where(there, mean[found], 0.0), np.where(there, count[found], 0)
