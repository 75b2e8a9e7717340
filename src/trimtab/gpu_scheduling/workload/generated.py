"""Training jobs made up from published statistics, so that everything runs with no outside file.

A world is a crowd of *groups*: jobs of one user and name. Some groups are popular, most are not (Zipf). Jobs
of a group ask for the same GPUs and take similar times, so that a duration can be foretold from finished
jobs, with an error. Over all groups the times and GPU counts have the wanted distributions: groups are spread
over the quantiles by their popularity, whatever the seed.

    place[job]    = Phi(sqrt(share) * z[group] + sqrt(1 - share) * z[job])
    duration[job] = quantile function at place[job]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import exponential, hash_counters, split, uniform
from trimtab.gpu_scheduling.workload.jobs import GROUP_BITS, WHOLE, Workload, make_workload
from trimtab.rates.chance import interpolated, normal

__all__ = [
    "PAI",
    "PAI_SHARED",
    "PHILLY_LIKE",
    "GeneratedJobs",
    "JobStatistics",
    "daily_arrivals",
    "poisson_arrivals",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

DAY_MS = 86_400_000
BLOCK = 4096
"""Jobs are drawn in blocks until enough of them pass a filter."""


@dataclass(frozen=True)
class JobStatistics:
    """What a generated world shall be like.

    >>> PHILLY_LIKE.gpu_counts
    (1, 2, 4, 8)
    """

    name: str
    duration_shares: tuple[float, ...]  # from 0 to 1: share of jobs that take at most so long ...
    durations_s: tuple[float, ...]  # ... straight in the logarithm in between
    gpu_counts: tuple[int, ...]
    gpu_weights: tuple[float, ...]
    part_milli: tuple[int, ...] = (WHOLE,)  # what jobs of one GPU ask of it
    part_weights: tuple[float, ...] = (1.0,)
    groups: int = 3000
    users: int = 600
    popularity_offset: float = 5.0  # weight of the group of rank r is 1 / (r + offset)
    group_share: float = 0.75  # share of the variance of (normal) durations that is the group's
    larger_longer: float = 0.2  # correlation of a group's duration and GPUs (both normal)
    other_gpus: float = 0.1  # share of jobs that ask for other GPUs than is usual in their group
    cpu_milli: int = 0  # of an instance
    memory_mib: int = 0  # of an instance
    sensitivity: tuple[float, float] = (0.5, 1.5)  # uniform, by group
    communication: tuple[float, float] = (0.0, 0.1)  # uniform, by group


# Duration quantiles of GPU tasks of Alibaba's PAI (Weng et al., NSDI 2022): p10, p50, p90, p99 are 41, 618,
# 12201 and 66192 s, the points between are rounded; tasks are cut at 48 h, which is what the last 0.2 % take.
_PAI_SHARES = (
    0.0,
    0.01,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    0.98,
    0.99,
    0.995,
    0.998,
    1.0,
)
_PAI_SECONDS = (
    *(5.0, 19.0, 29.0, 41.0, 84.0, 200.0, 330.0, 618.0, 1190.0),
    *(2520.0, 5300.0, 12_201.0, 22_800.0, 47_300.0, 66_192.0, 108_000.0, 172_800.0, 172_800.0),
)
_PAI_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 25, 30, 40, 50, 64, 80, 100, 200)
_PAI_WEIGHTS = (
    *(0.770, 0.031, 0.015, 0.014, 0.017, 0.003, 0.012, 0.040, 0.009, 0.005),
    *(0.009, 0.022, 0.008, 0.012, 0.008, 0.015, 0.003, 0.002, 0.004, 0.001),
)  # fmt: skip

PAI = JobStatistics(
    "pai",
    _PAI_SHARES,
    _PAI_SECONDS,
    _PAI_COUNTS,
    _PAI_WEIGHTS,
    cpu_milli=6000,
    memory_mib=29 * 1024,
)
"""77 % of jobs have one GPU, 23 % are gangs of up to 200; requests below one GPU count as one."""

# Thousands of requests up to one GPU, in the whole table of tasks: 443 for all of it, 137 for a half, 272 for
# a quarter, 117 for a tenth.
PAI_SHARED = JobStatistics(
    "pai-shared",
    _PAI_SHARES,
    _PAI_SECONDS,
    _PAI_COUNTS,
    _PAI_WEIGHTS,
    part_milli=(1000, 500, 250, 100),
    part_weights=(443.0, 137.0, 272.0, 117.0),
    cpu_milli=6000,
    memory_mib=29 * 1024,
)
"""The same, with jobs that ask for a part of a GPU."""

PHILLY_LIKE = JobStatistics(
    "philly-like",
    (0.0, 0.8, 1.0),
    (60 * 10**1.5, 60 * 10**3.0, 60 * 10**4.0),
    (1, 2, 4, 8),
    (0.70, 0.10, 0.15, 0.05),
    group_share=0.0,
    larger_longer=0.0,
    other_gpus=1.0,
)
"""As Gavel (Narayanan et al., OSDI 2020) made its jobs: minutes are 10^U(1.5, 3) in 4 of 5 cases, else
10^U(3, 4); nothing tells them beforehand."""


@dataclass(frozen=True, eq=False)
class GeneratedJobs:
    """A world of made-up jobs: draw as many as you like; job `k` of a seed never changes.

    `most_gpus` and `shortest_s` leave out jobs, as experiments on small clusters do.

    >>> world = GeneratedJobs(PAI, seed=0)
    >>> jobs = world.draw(1000, seed=1)
    >>> bool(0.7 < (jobs.gpus == 1).mean() < 0.84)
    True
    """

    statistics: JobStatistics
    seed: int = 0
    most_gpus: int | None = None
    shortest_s: float = 0.0
    _means: dict[str, float] = field(default_factory=dict, repr=False)

    def draw(self, count: int, *, seed: int) -> Workload:
        """So many jobs, all at time 0; give them arrivals with `Workload.arriving`."""
        if count < 1:
            raise WorkloadError(f"{self.statistics.name}: {count} jobs; draw at least one")
        kept: list[Integers] = []
        first = found = 0
        while found < count:
            columns = self._block(first, seed)
            passing = columns[:, self._passes(columns)]
            kept.append(passing)
            first, found = first + BLOCK, found + passing.shape[1]
            if first >= 100 * BLOCK and not found:
                raise WorkloadError(
                    f"{self.statistics.name}: no job has at most {self.most_gpus} GPUs and takes at least "
                    f"{self.shortest_s:g} s; widen the filter"
                )
        group, duration_ms, gpus, part = np.concatenate(kept, axis=1)[:, :count]
        return self._as_workload(group, duration_ms, gpus, part, seed)

    @property
    def mean_gpu_ms(self) -> float:
        """GPU-milliseconds of a job on average, over 65,536 of them: what a load is made of."""
        if "gpu_ms" not in self._means:
            self._means["gpu_ms"] = float(self.draw(1 << 16, seed=split(0, "mean work")).gpu_ms.mean())
        return self._means["gpu_ms"]

    def _passes(self, columns: Integers) -> NDArray[np.bool_]:
        long_enough = columns[1] >= self.shortest_s * 1000
        return long_enough if self.most_gpus is None else long_enough & (columns[2] <= self.most_gpus)

    def _block(self, first: int, seed: int) -> Integers:
        """Group, duration, GPUs and thousandths of each of them of the jobs from number `first` on."""
        told = self.statistics
        job = first + np.arange(BLOCK)
        group = np.searchsorted(self._crowd.cumulated, uniform(split(seed, "group"), job), side="right")
        own = normal(split(seed, "duration"), job)
        mixed = np.sqrt(told.group_share) * self._crowd.long[group] + np.sqrt(1 - told.group_share) * own
        logs = np.interp(_normal_share(mixed), told.duration_shares, np.log(told.durations_s))
        duration_ms = np.rint(np.exp(logs) * 1000).astype(np.int64)
        place = np.where(
            uniform(split(seed, "other"), job) < told.other_gpus,
            uniform(split(seed, "gpus"), job),
            self._crowd.large[group],
        )
        gpus = np.array(told.gpu_counts)[_picked(told.gpu_weights, place)]
        part = np.array(told.part_milli)[_picked(told.part_weights, self._crowd.part[group])]
        return np.stack([group, duration_ms, gpus, np.where(gpus == 1, part, WHOLE)])

    @cached_property
    def _crowd(self) -> _Crowd:
        return _Crowd.of(self.statistics, split(self.seed, "crowd"))

    @cached_property
    def _keys(self) -> Integers:
        """Of the groups; those of another world are others."""
        words = hash_counters(split(self.seed, self.statistics.name), np.arange(self.statistics.groups))
        return (words >> np.uint64(64 - GROUP_BITS)).astype(np.int64)

    def _as_workload(
        self, group: Integers, duration_ms: Integers, gpus: Integers, part: Integers, seed: int
    ) -> Workload:
        told = self.statistics
        settings = {"seed": seed, "world": self.seed, "jobs": len(group)}
        settings |= {"most_gpus": self.most_gpus, "shortest_s": self.shortest_s}
        return make_workload(
            np.zeros(len(group), np.int64),
            duration_ms=duration_ms,
            instances=gpus,
            gpu_milli=part,
            cpu_milli=told.cpu_milli,
            memory_mib=told.memory_mib,
            user=self._crowd.user[group],
            group=self._keys[group],
            sensitivity=np.round(_between(told.sensitivity, self._crowd.sensitivity[group]), 3),
            communication=np.round(_between(told.communication, self._crowd.communication[group]), 4),
            source=f"gpu/{told.name}",
            settings=settings,
        )


@dataclass(frozen=True, eq=False)
class _Crowd:
    """The groups of a world, most popular first; one entry each."""

    cumulated: Floats  # share of jobs in this group or a more popular one
    user: Integers
    long: Floats  # normal: how long its jobs are
    large: Floats  # 0 to 1: how many GPUs they ask for
    part: Floats  # 0 to 1: likewise what part of a GPU
    sensitivity: Floats  # 0 to 1
    communication: Floats  # 0 to 1

    @classmethod
    def of(cls, told: JobStatistics, seed: int) -> _Crowd:
        group = np.arange(told.groups)
        weight = 1.0 / (group + 1 + told.popularity_offset)
        weight /= weight.sum()
        # Popular groups belong to anybody; a user of rank r has a share like 1 / (r + offset), too.
        users = 1.0 / (np.arange(told.users) + 1 + told.popularity_offset)
        user = _picked(tuple(users), uniform(split(seed, "user"), group))
        place = _spread(uniform(split(seed, "long"), group), weight)
        long = np.interp(place, _SHARES, _NORMALS)
        mixed = told.larger_longer * long
        mixed += np.sqrt(1 - told.larger_longer**2) * normal(split(seed, "large"), group)
        cumulated = np.cumsum(weight)
        cumulated[-1] = 1.0
        return cls(
            cumulated=cumulated,
            user=user,
            long=long,
            large=_spread(mixed, weight),
            part=_spread(uniform(split(seed, "part"), group), weight),
            sensitivity=uniform(split(seed, "sensitivity"), group),
            communication=uniform(split(seed, "communication"), group),
        )


def _spread(score: Floats, weight: Floats) -> Floats:
    """Places from 0 to 1 in the order of the score, each in the middle of a stretch as wide as its weight.

    So the jobs of all groups together are even over 0 to 1, however few groups have most of them.
    """
    order = np.argsort(score, kind="stable")
    place = np.empty_like(score)
    place[order] = np.cumsum(weight[order]) - weight[order] / 2
    return place


def _picked(weights: tuple[float, ...], place: Floats) -> Integers:
    """Which of several choices a place from 0 to 1 stands for."""
    edges = np.cumsum(weights)
    return np.searchsorted(edges[:-1] / edges[-1], place, side="right")


def _between(ends: tuple[float, float], place: Floats) -> Floats:
    return ends[0] + (ends[1] - ends[0]) * place


# A table of the normal distribution: straight lines between 2,001 points err by less than 1e-6 in the share.
_NORMALS = np.linspace(-5.0, 5.0, 2001)
_SHARES = np.array([NormalDist().cdf(float(value)) for value in _NORMALS])


def _normal_share(value: Floats) -> Floats:
    return np.interp(value, _NORMALS, _SHARES)


# --- when they come ----------------------------------------------------------------------------------


def poisson_arrivals(count: int, *, mean_gap_ms: float, seed: int) -> Integers:
    """Times of a stream with exponential gaps; the first is 0.

    >>> poisson_arrivals(3, mean_gap_ms=1000, seed=1)[0]
    np.int64(0)
    """
    if not mean_gap_ms > 0:
        raise WorkloadError(f"mean gap of {mean_gap_ms} ms between jobs; it must be positive")
    gaps = np.floor(exponential(split(seed, "gap"), np.arange(count)) * mean_gap_ms).astype(np.int64)
    gaps[0] = 0
    return np.cumsum(gaps)


# Of 60,105 tasks of PAI, variance over mean of counts is 2.1 in a minute, 4.3 in ten, 9.3 in an hour, 60 in a
# day; these numbers give 1.8, 4.4, 10 and 40 to 80.
DAILY_SWING = 0.25
SLOW_DEVIATION, SLOW_STEP_MIN, SLOW_KEPT = 0.25, 360, 0.75
FAST_DEVIATION, FAST_STEP_MIN, FAST_KEPT = 0.50, 10, 0.50
FOLLOWERS = 0.3
"""Share of jobs that come right behind the one before: somebody sends several at once."""
FOLLOWER_GAP_MS = 15_000.0


def daily_arrivals(count: int, *, mean_gap_ms: float, seed: int) -> Integers:
    """Times of a stream with the rhythm of days and with bursts, as measured on PAI; the first is 0.

    The rate swings by a quarter over a day and wanders within hours and minutes; 3 of 10 jobs come right
    behind another. The mean gap is that of a long stream; a short one may lie in a busy hour.

    >>> times = daily_arrivals(1000, mean_gap_ms=60_000, seed=1)
    >>> bool((np.diff(times) >= 0).all())
    True
    """
    if not mean_gap_ms > 0:
        raise WorkloadError(f"mean gap of {mean_gap_ms} ms between jobs; it must be positive")
    place = np.arange(count)
    follows = uniform(split(seed, "follows"), place) < FOLLOWERS
    follows[0] = False
    # Leaders carry the whole stream: their steps are so long that all jobs together have the mean gap.
    steps = np.where(follows, 0.0, exponential(split(seed, "gap"), place)) / (1 - FOLLOWERS)
    steps[0] = 0.0
    leader_ms = _when(np.cumsum(steps), mean_gap_ms, seed)
    behind = np.where(follows, exponential(split(seed, "behind"), place) * FOLLOWER_GAP_MS, 0.0)
    since_leader = np.cumsum(behind)
    since_leader -= np.maximum.accumulate(np.where(follows, 0.0, since_leader))
    times = np.sort(np.floor(leader_ms + since_leader).astype(np.int64))
    return times - times[0]


def _when(amounts: Floats, mean_gap_ms: float, seed: int) -> Floats:
    """The moments at which the stream, whose rate changes, has brought these numbers of jobs."""
    step_ms = FAST_STEP_MIN * 60_000
    steps_a_day = DAY_MS // step_ms
    phase = float(uniform(split(seed, "hour"), 0))
    edges, level, day = [np.zeros(1)], 0.0, 0
    while level < amounts[-1]:
        place = day * steps_a_day + np.arange(steps_a_day)
        logs = FAST_DEVIATION * interpolated(
            split(seed, "fast"), steps_a_day, FAST_KEPT, every=1, first=int(place[0])
        ) + SLOW_DEVIATION * interpolated(
            split(seed, "slow"),
            steps_a_day,
            SLOW_KEPT,
            every=SLOW_STEP_MIN // FAST_STEP_MIN,
            first=int(place[0]),
        )
        swing = 1 + DAILY_SWING * np.sin(2 * np.pi * (place / steps_a_day + phase))
        rate = swing * np.exp(logs - (FAST_DEVIATION**2 + SLOW_DEVIATION**2) / 2)
        reached = level + np.cumsum(rate) * (step_ms / mean_gap_ms)
        edges.append(reached)
        level, day = float(reached[-1]), day + 1
    known = np.concatenate(edges)
    return np.interp(amounts, known, np.arange(len(known)) * float(step_ms))
