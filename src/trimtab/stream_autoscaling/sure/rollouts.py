"""Environments for learning: batches of streaming jobs that show views, step, and begin anew by themselves.

An episode is a span of some hours out of a training day. Neighbours in groups of `rollouts` live through the
same job, trace and luck, so that what differs between them is what they decided (input-dependent baseline).
Compiled stepping gives up Python's lock, so shards of a lane run in parallel threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import exponential, hash_counters, integers, split, uniform
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.heuristics.banded import BandedDecider
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.problem import (
    Decider,
    Flags,
    Integers,
    Snapshot,
    StreamPolicy,
    allowed,
)
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.sure.actions import (
    VARIED,
    Bands,
    bands_of,
    base_rule,
    decode_action,
    encode_action,
)
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FeatureHistory, Seen
from trimtab.stream_autoscaling.sure.looking_ahead import gains, returns
from trimtab.stream_autoscaling.sure.network import FUTURE_FEATURES
from trimtab.stream_autoscaling.workload.presets import stretch_of
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["FUTURE_S", "TRAINING_SEEDS", "Course", "RolloutEnvironment", "future_rates", "shards_of"]

TRAINING_SEEDS = 900_000
"""Seeds of training episodes end here; validation follows, tests begin at a million."""
FUTURE_S = (300.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0)
"""The critic is told the mean rate of so long ahead, against that of now."""
_TINY = 1e-9


@dataclass(frozen=True)
class Course:
    """What is practised: jobs, the trace of a seed for each, and where they run."""

    jobs: tuple[Job, ...]
    draw: Callable[[Job, int], RateTrace]
    """Gives what arrives on one training day or more, by seed."""
    deployment: Deployment
    teacher: StreamPolicy
    span_s: float = 6 * 3600.0
    """Length of an episode; it begins at a random moment at which so much is left."""
    start_spread: float = 0.0
    """Episodes begin with parallelism off by up to a factor of 2 to this power, up or down."""
    sequences: int = 0
    """Practise the episodes of so many seeds only; 0: ever new ones."""
    look_ahead: int = 0
    """Rewards are what a decision earns more than the base rule's over so many intervals; 0: what comes."""
    weighs: bool = False
    """Look ahead for what rules like the base rule would do, where chance has it."""
    weighed_share: float = 0.1
    """Share of the decisions whose alternatives are looked at, if there is something to choose."""


class RolloutEnvironment:
    """Many environments of a course; satisfies `trimtab.core.environment.BatchEnvironment`."""

    def __init__(
        self,
        course: Course,
        design: Design,
        *,
        size: int,
        rollouts: int = 1,
        threads: int = 1,
        labelled: bool = True,
        staggered: bool = True,
    ) -> None:
        """`labelled` says what the teacher would do not only while imitating.

        `staggered` lets first episodes begin late, so that not all environments stand at the same point.
        """
        shards = shards_of(size, rollouts=rollouts, jobs=len(course.jobs), threads=threads)
        if course.deployment.history < design.history:
            raise SettingsError(
                f"history = {design.history} intervals of a network, but the deployment keeps "
                f"{course.deployment.history}; raise deployment.history"
            )
        self.size, self.rollouts = size, rollouts
        each = size // shards
        self._shards = [
            _Shard(course, design, each, rollouts, part, labelled=labelled, staggered=staggered)
            for part in range(shards)
        ]
        self._rows = [slice(part * each, (part + 1) * each) for part in range(shards)]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        """Begin new episodes everywhere."""
        self._run(lambda shard, _: shard.reset(seed, mean_episode_s, imitating))

    def observe(self) -> dict[str, NDArray[Any]]:
        """Fresh arrays with one row per environment."""
        shown = self._run(lambda shard, _: shard.observe())
        return {name: np.concatenate([part[name] for part in shown]) for name in shown[0]}

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        """Carry out answers, one row per environment; begin anew where an episode ends."""
        outcomes = self._run(lambda shard, rows: shard.step(actions[rows]))
        return BatchOutcome(*(np.concatenate(parts) for parts in zip(*outcomes, strict=True)))

    def _run(self, work: Callable[[_Shard, slice], Any]) -> list[Any]:
        if self._pool is None:
            return [work(shard, rows) for shard, rows in zip(self._shards, self._rows, strict=True)]
        return list(self._pool.map(work, self._shards, self._rows))


def shards_of(size: int, *, rollouts: int, jobs: int, threads: int) -> int:
    """Into how many shards a lane is split: one per thread, each with every job equally often.

    >>> shards_of(48, rollouts=4, jobs=6, threads=2)
    2
    """
    least = rollouts * jobs
    if size % (least * threads):
        raise SettingsError(
            f"{size} environments cannot be split into {threads} threads, each with groups of {rollouts} of "
            f"each of {jobs} jobs; choose a multiple of {least * threads}"
        )
    return threads


class _Shard:
    """Environments stepped by one thread."""

    def __init__(
        self,
        course: Course,
        design: Design,
        size: int,
        rollouts: int,
        part: int,
        *,
        labelled: bool,
        staggered: bool,
    ) -> None:
        self._course, self._design = course, design
        self._size, self._rollouts = size, rollouts
        self._labelled, self._staggered = labelled, staggered
        self._groups = np.arange(size // rollouts) + part * (size // rollouts)
        self._jobs = [course.jobs[int(group) % len(course.jobs)] for group in self._groups]
        self._number = np.zeros(len(self._groups), np.int64)  # of the episode, by group
        self._seed, self._mean_episode_s, self._imitating = 0, np.inf, False
        self._simulator: StreamSimulator | None = None
        self._left_s = np.full(size, np.inf)
        self._forecast = _Forecast(size)

    def reset(self, seed: int, mean_episode_s: float, imitating: bool) -> None:
        self._seed, self._mean_episode_s, self._imitating = seed, mean_episode_s, imitating
        self._number[:] = 0
        self._steps = 0
        traces, seeds, factors = self._drawn(np.ones(len(self._groups), bool), [None] * len(self._groups))
        if self._simulator is None:
            jobs = [job for job in self._jobs for _ in range(self._rollouts)]
            self._simulator = StreamSimulator(jobs, traces, self._course.deployment, seeds=seeds)
        self._begin(np.ones(self._size, bool), traces, seeds, factors)
        self._history = FeatureHistory(self._simulator.graph, self._design)
        self._bands = Bands(self._simulator.graph, self._design)
        self._teacher: Decider = self._course.teacher.begin(self._simulator.graph)
        self._seen: Seen | None = None

    def observe(self) -> dict[str, NDArray[Any]]:
        simulator = self._playing
        snapshot = simulator.snapshot()
        if self._seen is None:
            places = np.arange(self._size) + self._groups[0] * self._rollouts
            luck = hash_counters(split(self._seed, "luck"), places, self._steps)
            self._seen = self._history.see(snapshot, (luck & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        seen = self._seen
        shown: dict[str, NDArray[Any]] = {name: np.array(one) for name, one in seen.view._asdict().items()}
        shown["future"] = self._future(snapshot.now_s)
        # As it is unless somebody asks for labels: what is observed must not change its shape.
        wanted = snapshot.parallelism
        if self._labelled or self._imitating:
            wanted = allowed(snapshot, self._teacher.decide(snapshot))
        shown["teacher"] = encode_action(wanted, snapshot, seen.offer, self._design)
        if self._course.weighs:
            shown |= self._weighed(snapshot, seen)
        return shown

    def _weighed(self, snapshot: Snapshot, seen: Seen) -> dict[str, NDArray[Any]]:
        """Alternatives and what they earn (see `learning.weighing`), for some environments.

        The alternatives are what rules like the base rule do now, and what each earns if that rule goes on:
        a decision alone could hardly be judged, since whoever holds for a minute and then does the same as
        who did not has lost or gained next to nothing. All that hold now are one alternative, the first; it
        earns what the base rule does where that holds, and what the others do on average where it does not.
        """
        course, design, now = self._course, self._design, snapshot.parallelism
        wanted = [np.where(one.commits[:, None], one.goal, now) for one in self._bands.weigh(snapshot)]
        actions = np.stack([encode_action(one, snapshot, seen.offer, design) for one in wanted], axis=1)
        done = np.stack(
            [
                allowed(snapshot, decode_action(actions[:, k], snapshot, seen.offer, design))
                for k in range(len(wanted))
            ],
            axis=1,
        )
        holds = (done == now[:, None]).all(2)
        fresh = ~holds
        for k in range(1, len(wanted)):
            fresh[:, k] &= (done[:, :k] != done[:, k, None]).any(2).all(1)
        offered = np.concatenate([holds.any(1)[:, None], fresh], axis=1)
        places = np.arange(self._size) + self._groups[0] * self._rollouts
        chance = uniform(split(self._seed, "weighed"), places, self._steps) < course.weighed_share
        chosen = np.zeros(self._size, bool) if self._imitating else chance & (offered.sum(1) > 1)
        offered &= chosen[:, None]
        earned = np.zeros(offered.shape, np.float32)
        rows = np.flatnonzero(chosen)
        if rows.size:
            bands = bands_of(design)
            tiled = {name: np.tile(bands[name], len(rows)) for name in VARIED}
            begin = partial(BandedDecider, values={**bands, **tiled})
            found = returns(self._playing, rows, done[rows], begin, course.look_ahead)
            found -= found[:, :1]
            held = holds[rows]
            waiting = (found * held).sum(1) / np.maximum(held.sum(1), 1)
            earned[rows] = np.concatenate([np.where(held[:, 0], 0.0, waiting)[:, None], found], axis=1)
        hold = np.zeros_like(actions[:, :1])
        return {"alternatives": np.concatenate([hold, actions], axis=1), "offered": offered, "gains": earned}

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32], Flags]:
        if self._seen is None:
            self.observe()
        assert self._seen is not None
        simulator = self._playing
        snapshot = simulator.snapshot()
        wanted = decode_action(actions, snapshot, self._seen.offer, self._design)
        judged = self._course.look_ahead > 0 and not self._course.weighs and not self._imitating
        rewards = self._gains(snapshot, wanted) if judged else None
        outcome = simulator.step(wanted)
        self._seen = None
        self._steps += 1
        self._left_s -= self._course.deployment.interval_s
        ended = outcome.ended | (self._left_s <= 0)
        if ended.any():
            groups = ended[:: self._rollouts]
            self._number += groups
            traces, seeds, factors = self._drawn(groups, list(simulator.traces[:: self._rollouts]))
            self._begin(ended, traces, seeds, factors)
        elapsed = np.full(self._size, self._course.deployment.interval_s, np.float32)
        earned = outcome.rewards if rewards is None else rewards
        return earned.astype(np.float32), elapsed, ended

    def _gains(self, snapshot: Snapshot, wanted: Integers) -> NDArray[np.float64]:
        """Against the base rule, which takes over after this one decision."""
        assert self._seen is not None
        suggested = self._seen.suggestion
        base = np.where(suggested.commits[:, None], suggested.parallelism, snapshot.parallelism)
        return gains(self._playing, wanted, base, base_rule(self._design), self._course.look_ahead)

    @property
    def _playing(self) -> StreamSimulator:
        if self._simulator is None:
            raise SettingsError("the environments have not begun; call reset first")
        return self._simulator

    def _drawn(
        self, groups: Flags, before: Sequence[RateTrace | None]
    ) -> tuple[list[RateTrace], list[int], NDArray[np.float64]]:
        """Traces, seeds and factors on the first parallelism, by environment; new ones for these groups."""
        number = (self._groups, self._number)
        seeds = integers(
            split(self._seed, "episodes"), *number, high=self._course.sequences or TRAINING_SEEDS
        )
        factors = 2 ** (
            self._course.start_spread * (2 * uniform(split(self._seed, "beginnings"), *number) - 1)
        )
        traces: list[RateTrace] = []
        for place, old in enumerate(before):
            if groups[place] or old is None:
                traces.append(self._span(self._jobs[place], int(seeds[place]), place))
            else:
                traces.append(old)
        each = self._rollouts
        return (
            [trace for trace in traces for _ in range(each)],
            np.repeat(seeds, each).tolist(),
            np.repeat(factors, each),
        )

    def _span(self, job: Job, seed: int, place: int) -> RateTrace:
        """A stretch of the drawn days, at a moment that belongs to the seed.

        The first may begin late, not end early: whoever plays a few hours only then meets all hours alike.
        """
        course = self._course
        interval_s = course.deployment.interval_s
        stretch = stretch_of(course.draw(job, seed), course.span_s, interval_s, seed=seed)
        if self._staggered and self._number[place] == 0:
            share = float(uniform(split(self._seed, "stagger"), self._groups[place]))
            kept_s = max(interval_s, interval_s * int(share * stretch.length_s // interval_s))
            end_s = stretch.start_s + stretch.length_s
            return stretch.between(end_s - kept_s, end_s)
        return stretch

    def _begin(
        self, chosen: Flags, traces: list[RateTrace], seeds: list[int], factors: NDArray[np.float64]
    ) -> None:
        simulator = self._playing
        simulator.reset(chosen, traces=traces, seeds=seeds)
        if self._course.start_spread:
            # Off what the simulator itself begins with, as far as bounds and slots let it be.
            snapshot = simulator.snapshot()
            begun = np.maximum(np.rint(snapshot.parallelism * factors[:, None]), 1).astype(np.int64)
            begun = np.clip(begun, snapshot.graph.least, snapshot.graph.most)
            if simulator.deployment.slots:
                begun = np.minimum(begun, snapshot.parallelism)
            simulator.reset(chosen, parallelism=begun)
        limits = np.full(len(self._groups), np.inf)
        if np.isfinite(self._mean_episode_s):
            limits = exponential(
                split(self._seed, "limits"), self._groups, self._number, mean=self._mean_episode_s
            )
        self._left_s = np.where(chosen, np.repeat(limits, self._rollouts), self._left_s)
        self._forecast.know(np.flatnonzero(chosen).tolist(), simulator.traces)

    def _future(self, now_s: NDArray[np.float64]) -> NDArray[np.float32]:
        return self._forecast.told(now_s, self._course.span_s)


class _Forecast:
    """What arrives later in each environment's span, as the critic is told; never the policy."""

    def __init__(self, size: int) -> None:
        self._sums = np.zeros((size, 2))
        self._step_s, self._start_s, self._length_s = (np.ones(size) for _ in range(3))

    def know(self, rows: Sequence[int], traces: Sequence[RateTrace]) -> None:
        """Take in the traces of some environments; there is one for each of all."""
        longest = max(len(trace.rates) for trace in traces) + 1
        more = longest - self._sums.shape[1]
        if more > 0:
            self._sums = np.pad(self._sums, ((0, 0), (0, more)), mode="edge")
        for row in rows:
            trace = traces[row]
            sums = np.concatenate([[0.0], np.cumsum(trace.rates) * trace.step_s])
            self._sums[row, : len(sums)] = sums
            self._sums[row, len(sums) :] = sums[-1]
            self._step_s[row], self._start_s[row] = trace.step_s, trace.start_s
            self._length_s[row] = trace.length_s

    def told(self, now_s: NDArray[np.float64], span_s: float) -> NDArray[np.float32]:
        """[E, FUTURE_FEATURES]: log2 of rates ahead over that of now, of now over the mean, and time left."""
        return future_rates(self._sums, self._step_s, now_s - self._start_s, self._length_s, span_s=span_s)


def future_rates(
    sums: NDArray[np.float64],
    step_s: NDArray[np.float64],
    now_s: NDArray[np.float64],
    length_s: NDArray[np.float64],
    *,
    span_s: float,
) -> NDArray[np.float32]:
    """From running sums of records [E, steps + 1]: what comes within `FUTURE_S`, as far as the trace goes.

    >>> sums = np.array([[0.0, 600.0, 1800.0]])  # 600 records, then 1200, in steps of 300 s: 2/s, 4/s
    >>> one = np.ones(1)
    >>> future_rates(sums, 300 * one, 0 * one, 600 * one, span_s=600.0)[0, :2].tolist()
    [0.0, 0.5849624872207642]
    """

    def arrived(at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        place = np.clip(at_s, 0, length_s) / step_s
        below = np.minimum(place.astype(np.int64), sums.shape[1] - 2)
        rows = np.arange(len(sums))
        low, high = sums[rows, below], sums[rows, below + 1]
        return low + (place - below) * (high - low)

    present = (arrived(now_s + step_s) - arrived(now_s)) / np.clip(length_s - now_s, _TINY, step_s)
    rows = []
    for ahead_s in FUTURE_S:
        covered = np.clip(length_s - now_s, _TINY, ahead_s)
        rows.append(_log_ratio((arrived(now_s + ahead_s) - arrived(now_s)) / covered, present))
    rows.append(_log_ratio(present, sums[:, -1] / length_s))
    rows.append((length_s - now_s) / span_s)
    assert len(rows) == FUTURE_FEATURES
    return np.stack(rows, axis=1).astype(np.float32)


def _log_ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    known = (above > 0) & (below > 0)
    return np.where(known, np.log2(np.where(known, above, 1.0) / np.where(known, below, 1.0)), 0.0).clip(
        -4, 4
    )
