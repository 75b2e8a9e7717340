"""What MALO and MOSA share: the jobs looked at together, first guesses, and the plan of the best one found.

Once per moment the oldest waiting jobs that fit make a window; the search looks ahead with many solutions
(see look_ahead.py), and the best is carried out step by step. Where nobody knows durations, all count as
equally long; running ones as if they were halfway.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.policy import Parameter, with_settings
from trimtab.core.randomness import split
from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.look_ahead import (
    HOUR_MS,
    Judge,
    Window,
    at_full_speed,
    counted,
    luck_of,
)
from trimtab.gpu_scheduling.heuristics.words import hold
from trimtab.gpu_scheduling.problem import (
    NOWHERE,
    WHOLE,
    Action,
    Snapshot,
    allowed_on,
    fits_on,
    gang_fits,
    start,
)

__all__ = ["SHARED", "Outlook", "Planner", "budget_setting", "outlook_of", "window_of"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

MOST_MACHINES = 32
"""Machines looked at, those where jobs would run fastest; in a large cluster most are full or alike."""
_FAST = np.array([1.0, 0.0, 0.0])


def budget_setting(
    name: str, value: float, description: str, grid: tuple[float, ...], *, least: float = 1.0
) -> Parameter:
    """A setting that counts something."""
    grid = tuple(map(float, grid))
    return Parameter(name, float(value), description, grid, low=least, high=100_000, whole=True)


SHARED = (
    Parameter(
        "fee_weight",
        0.1,
        "weight of the fee beside the completion time",
        (0.0, 0.1, 0.3, 1.0),
        low=0,
        high=100,
    ),
    budget_setting("window", 16, "waiting jobs looked at together", (8, 16, 32)),
    Parameter(
        "assumed_s",
        3600.0,
        "seconds a job takes where nobody knows",
        (600.0, 3600.0, 7200.0),
        low=1,
        high=1e7,
    ),
    Parameter("seed", 0.0, "number that fixes the luck", low=0, high=1e9, whole=True),
)
"""Settings that both have."""


# --- what is looked at -------------------------------------------------------------------------------------


def window_of(snapshot: Snapshot, jobs: Integers, *, assumed_ms: float) -> Window:
    """Gather what the look ahead needs to know of some waiting jobs."""
    machines = _promising(snapshot)
    count, breadth = len(jobs), len(machines)
    window = Window(
        jobs=jobs,
        machines=machines,
        gpus=np.empty(count, np.int64),
        work_ms=np.empty(count),
        alone=np.empty((count, breadth)),
        sensitivity=np.empty(count),
        spread=np.empty(count),
        price=np.empty(breadth),
        rack=np.empty(breadth, np.int64),
        crowd=np.empty(breadth),
        crowding=np.empty(breadth),
        free_in_ms=np.empty((breadth, int(snapshot.gpus[machines].max()))),
        across_racks=snapshot.across_racks,
    )
    at_full_speed(gather)(snapshot, window, assumed_ms)
    return window


def _promising(snapshot: Snapshot) -> Integers:
    """The machines with something free, fastest beside their load first; all, if they are few."""
    if len(snapshot.gpus) <= MOST_MACHINES:
        return np.arange(len(snapshot.gpus))
    crowd = snapshot.contention * snapshot.load / 1e6 / snapshot.gpus
    score = np.where(snapshot.free_milli > 0, snapshot.speed / (1.0 + crowd), 0.0)
    return np.sort(np.argsort(-score, kind="stable")[:MOST_MACHINES])


def gather(snapshot: Snapshot, window: Window, assumed_ms: float) -> None:
    """Fill a window in."""
    for place in range(len(window.machines)):
        machine = window.machines[place]
        capacity = snapshot.gpus[machine]
        window.price[place] = snapshot.price[machine]
        window.rack[place] = snapshot.rack[machine]
        window.crowd[place] = snapshot.contention * snapshot.load[machine] / 1e6 / capacity
        window.crowding[place] = snapshot.contention / capacity
    for row in range(len(window.jobs)):
        job = window.jobs[row]
        window.gpus[row] = -(-snapshot.instances[job] * snapshot.gpu_milli[job] // WHOLE)
        work = snapshot.expected_ms[job] - snapshot.done_ms[job]
        window.work_ms[row] = max(assumed_ms if math.isnan(work) else work, 1.0)
        window.sensitivity[row] = snapshot.sensitivity[job] / 1000.0
        window.spread[row] = snapshot.communication_weight * snapshot.communication[job]
        for place in range(len(window.machines)):
            machine = window.machines[place]
            allowed = allowed_on(snapshot, job, machine)
            window.alone[row, place] = snapshot.nominal[snapshot.kind[job], machine] if allowed else 0.0
    foresee(snapshot, window, assumed_ms)


def foresee(snapshot: Snapshot, window: Window, assumed_ms: float) -> None:
    """When each GPU falls free [M, G]; one that is partly held counts as held, by whom is not asked."""
    place_of = snapshot.machine_order
    for machine in range(len(snapshot.gpus)):
        place_of[machine] = NOWHERE
    for place in range(len(window.machines)):
        place_of[window.machines[place]] = place
        for gpu in range(window.free_in_ms.shape[1]):
            held = gpu >= snapshot.gpus[window.machines[place]]
            window.free_in_ms[place, gpu] = math.inf if held else 0.0
    for running in range(len(snapshot.running)):
        job: int = snapshot.running[running]
        done = snapshot.done_ms[job] + snapshot.rate[job] * (snapshot.now_ms - snapshot.since_ms[job])
        left = snapshot.expected_ms[job] - done
        if math.isnan(left):
            # Halfway: the longer it runs, the longer it will (true of heavy tails, such as PAI's).
            left = max(done, assumed_ms)
        free_in_ms = max(left, 0.0) / max(snapshot.rate[job], 1e-9)
        part: int = snapshot.first_part[job]
        while part != NOWHERE:
            machine: int = snapshot.part_machine[part]
            if place_of[machine] != NOWHERE:
                gpus, free = snapshot.gpus[machine], snapshot.free_gpus[machine]
                for _ in range(-(-snapshot.part_instances[part] * snapshot.gpu_milli[job] // WHOLE)):
                    hold_one(window.free_in_ms[place_of[machine]], free, gpus, free_in_ms)
            part = snapshot.next_part[part]


def hold_one(free_in_ms: Floats, free: int, gpus: int, until_ms: float) -> None:
    """Of the GPUs of a machine that are held, let the one that is free soonest be held longer, if so.

    Shares of one GPU may be listed more often than there are GPUs; the latest ends count.
    """
    place = free
    while place < gpus and free_in_ms[place] < until_ms:
        if place > free:
            free_in_ms[place - 1] = free_in_ms[place]
        place += 1
    if place > free:
        free_in_ms[place - 1] = until_ms


# --- first guesses -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outlook:
    """A window, how its solutions are judged, and the luck of the search."""

    window: Window
    judge: Judge
    seed: np.uint64
    known: Floats
    """Solutions of common sense: in order of arrival, and fewest GPUs first, each on the fastest machines."""


def outlook_of(window: Window, *, fee_weight: float, seed: np.uint64) -> Outlook:
    """Look at a window for the first time."""
    known = np.empty((2, window.size))
    at_full_speed(guess)(window, known)
    jobs, machines = window.alone.shape
    gpu_ms = float(np.add.reduce(window.work_ms * window.gpus)) / jobs
    dollars = gpu_ms * (float(np.add.reduce(window.price)) / machines) / HOUR_MS
    judge = Judge(fee_weight, float(np.add.reduce(window.work_ms)) / jobs, max(dollars, 1e-9))
    return Outlook(window, judge, seed, known)


def guess(window: Window, known: Floats) -> None:
    """Fill first guesses in."""
    jobs, machines = window.alone.shape
    fastest = 1e-9
    for job in range(jobs):
        fewer = 0
        for other in range(jobs):
            if (window.gpus[other], other) < (window.gpus[job], job):
                fewer += 1
        known[0, job], known[1, job] = in_order(job, jobs), in_order(fewer, jobs)
        for machine in range(machines):
            crowd = 1.0 + 2.0 * window.sensitivity[job] * window.crowd[machine]
            free = 0
            for gpu in range(window.free_in_ms.shape[1]):
                free += window.free_in_ms[machine, gpu] <= 0.0
            # Of equally fast machines the fuller one, so that gangs find empty ones.
            wish = window.alone[job, machine] / crowd - 1e-6 * free
            known[0, jobs + job * machines + machine] = wish
            fastest = max(fastest, wish)
    for place in range(jobs, jobs + jobs * machines):
        wish = min(max(2.0 * known[0, place] / fastest - 1.0, -1.0), 1.0)
        known[0, place], known[1, place] = wish, wish


def in_order(place: int, count: int) -> float:
    """A number for a place in an order: from 1 for the first down to -1 for the last."""
    if count == 1:
        return 0.0
    return -1.0 if place == count - 1 else -(place * (2.0 / (count - 1)) - 1.0)


# --- the plan ----------------------------------------------------------------------------------------------


class _Start(NamedTuple):
    job: int  # slot
    job_id: int
    machines: Integers
    wishes: Floats  # [machines]


@dataclass
class _Plan:
    now_ms: int = -1
    waiting: int = -1  # jobs, when the next step falls due
    steps: deque[_Start] = field(default_factory=deque)


@dataclass(frozen=True)
class Planner:
    """A policy that searches for a good plan once per moment, then carries it out step by step."""

    name: str
    sentence: str
    parameters: tuple[Parameter, ...]
    needs_durations: bool = False
    timed: bool = False
    """It holds only when nothing fits, which time does not change."""
    _plan: _Plan = field(default_factory=_Plan, init=False, repr=False, compare=False)

    salt: ClassVar[str]

    def with_values(self, values: Mapping[str, float]) -> Self:
        """The same policy with other settings; unknown names and bad values are refused."""
        return replace(self, parameters=with_settings(self.name, self.parameters, values))

    @property
    def values(self) -> dict[str, float]:
        return {one.name: one.value for one in self.parameters}

    @abstractmethod
    def search(self, outlook: Outlook) -> Floats:
        """The best solution found."""

    def decide(self, snapshot: Snapshot) -> Action:
        plan = self._plan
        if plan.now_ms != snapshot.now_ms or plan.waiting != len(snapshot.pending):
            plan.steps.clear()
        action = self._next(snapshot)
        if action is None:
            plan.steps = deque(self._planned(snapshot))
            action = self._next(snapshot)
        plan.now_ms, plan.waiting = snapshot.now_ms, len(snapshot.pending) - 1
        return hold(snapshot) if action is None else action

    def _next(self, snapshot: Snapshot) -> Action | None:
        """The next step that is still possible; where its machines do not hold the gang, others may."""
        steps = self._plan.steps
        while steps:
            job, job_id, machines, wishes = steps.popleft()
            if job >= len(snapshot.job_id) or snapshot.job_id[job] != job_id or job not in snapshot.pending:
                continue
            chosen = np.empty(len(machines), np.int64)
            count, gpu = at_full_speed(choose)(snapshot, job, machines, wishes, chosen), NOWHERE
            if count == 0 and len(machines) < len(snapshot.gpus):
                count, gpu = placements.fast(snapshot, job, _FAST)
                chosen = snapshot.machine_order.copy()
            if count:
                return start(job, chosen[:count], gpu)
        return None

    def _planned(self, snapshot: Snapshot) -> list[_Start]:
        if snapshot.free_total_milli == 0 or snapshot.unseen == len(snapshot.pending):
            return []
        values = self.values
        jobs = np.empty(int(values["window"]), np.int64)
        jobs = jobs[: at_full_speed(find_fitting)(snapshot, jobs)]
        if len(jobs) == 0:
            return []
        window = window_of(snapshot, jobs, assumed_ms=values["assumed_s"] * 1000.0)
        ids = snapshot.job_id[jobs]
        seed = at_full_speed(seed_of)(_root(int(values["seed"]), self.salt), snapshot.now_ms, ids)
        outlook = outlook_of(window, fee_weight=values["fee_weight"], seed=np.uint64(seed))
        best = self.search(outlook)
        order = np.argsort(-best[: len(jobs)], kind="stable")
        wishes = best[len(jobs) :].reshape(len(jobs), -1)
        return [
            _Start(int(jobs[place]), int(ids[place]), window.machines, wishes[place])
            for place in order.tolist()
        ]


@cache
def _root(seed: int, salt: str) -> np.uint64:
    return np.uint64(split(seed, salt))


def seed_of(root: np.uint64, now_ms: int, job_ids: Integers) -> np.uint64:
    """The seed of a moment: `split(root, now_ms)`, and the same whichever slots the jobs are in."""
    seed = counted(luck_of(root), now_ms)
    luck = luck_of(seed)
    for place in range(len(job_ids)):
        seed ^= counted(luck, job_ids[place])
    return seed


def find_fitting(snapshot: Snapshot, found: Integers) -> int:
    """Find the oldest waiting jobs that would fit now, as many as there is room for; how many there are."""
    count = 0
    for place in range(snapshot.unseen, len(snapshot.pending)):
        if count < len(found) and gang_fits(snapshot, snapshot.pending[place]):
            found[count] = snapshot.pending[place]
            count += 1
    return count


def choose(snapshot: Snapshot, job: int, machines: Integers, wishes: Floats, chosen: Integers) -> int:
    """The machines wished for most that hold the gang, highest first; how many, 0: they do not hold it."""
    room = snapshot.machine_score
    for place in range(len(machines)):
        room[place] = fits_on(snapshot, job, machines[place])
    count, needed = 0, snapshot.instances[job]
    while needed > 0:
        best = NOWHERE
        for place in range(len(machines)):
            if room[place] > 0 and (best == NOWHERE or wishes[place] > wishes[best]):
                best = place
        if best == NOWHERE:
            return 0
        chosen[count] = machines[best]
        count += 1
        needed -= int(room[best])
        room[best] = 0
    return count
