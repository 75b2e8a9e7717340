"""A look ahead over the jobs of a window, and the archive of what it finds. Plain loops: compiled in replay.

A *solution* is a row of numbers: one for each job of the window (jobs go from the highest down), and for each
job one for each machine (it takes machines from the highest down):

    solution [W + W * M]  ->  list schedule of W jobs on M machines of up to G GPUs  ->  JCT, fee

Jobs are placed one after another on GPUs that fall free when those before are expected to end. Luck is that
of `trimtab.core.randomness`, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from inspect import unwrap
from types import FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import GOLDEN, OFFSET, finalize
from trimtab.gpu_scheduling.problem import NOWHERE

__all__ = [
    "HOUR_MS",
    "Archive",
    "Desk",
    "Judge",
    "Window",
    "at_full_speed",
    "best_kept",
    "compile_by",
    "copy_into",
    "counted",
    "foretell",
    "keep",
    "luck_of",
    "new_archive",
    "new_desk",
    "score_of",
    "shorten",
    "unit",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
_P = ParamSpec("_P")
_R = TypeVar("_R")

HOUR_MS = 3_600_000.0
NEVER_MS, NEVER_DOLLARS = 1e15, 1e9
"""What counts for a gang that the machines looked at cannot hold: it never ends there."""
Compile: TypeAlias = Callable[[Any], Any]
_compilers: list[Compile] = []


def compile_by(compiler: Compile) -> None:
    """Let planners run at full speed from now on; the simulator calls this, a live cluster need not."""
    _compilers[:] = [compiler]


def at_full_speed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The compiled twin of a function of plain loops where a simulator is loaded; live, the function itself.

    >>> at_full_speed(score_of)(2.0, 6.0, Judge(0.5, 1.0, 3.0))
    3.0
    """
    return _twin(function, _compilers[0] if _compilers else None)


@cache
def _twin(function: Any, compiler: Compile | None) -> Any:
    twin = function if compiler is None else compiler(function)
    if not isinstance(twin, FunctionType):
        return twin
    # A job that no machine takes is late without end, and luck wraps around; compiled code does not warn.
    return np.errstate(divide="ignore", invalid="ignore", over="ignore")(twin)


class Window(NamedTuple):
    """The jobs of one plan [W] and the machines [M] they may go to, with up to G GPUs each."""

    jobs: Integers  # slots
    machines: Integers
    gpus: Integers  # [W]: whole GPUs
    work_ms: Floats  # [W]: left, at the reference speed
    alone: Floats  # [W, M]: speed alone; 0: not allowed there
    sensitivity: Floats  # [W]: in units of 1
    spread: Floats  # [W]: time lost when spread over machines of a rack
    price: Floats  # [M]
    rack: Integers  # [M]
    crowd: Floats  # [M]: load over GPUs, times the cluster's contention
    crowding: Floats  # [M]: what a GPU of sensitivity 1 adds to that
    free_in_ms: Floats  # [M, G]: from now, soonest first; infinite where there is no GPU
    across_racks: float

    @property
    def size(self) -> int:
        """Numbers of a solution."""
        return len(self.jobs) * (1 + len(self.machines))


# --- luck --------------------------------------------------------------------------------------------------

# Without what keeps numpy from warning of numbers that wrap around, which compiled code does not do.
_scrambled = unwrap(finalize)
_GOLDEN, _OFFSET, _ONE, _DROPPED = (np.uint64(word) for word in (GOLDEN, OFFSET, 1, 11))
_UNIT = 2.0**-53


def luck_of(seed: np.uint64) -> np.uint64:
    """The hash of a seed before any counter."""
    return _scrambled(seed * _GOLDEN + _ONE)


def counted(luck: np.uint64, counter: int) -> np.uint64:
    """The hash with one more counter."""
    return _scrambled(luck ^ (np.uint64(counter) * _GOLDEN + _OFFSET))


def unit(luck: np.uint64) -> float:
    """A hash as a number in [0, 1)."""
    return np.float64(luck >> _DROPPED) * _UNIT


# --- the look ahead ----------------------------------------------------------------------------------------


class Desk(NamedTuple):
    """Room to place the jobs of one solution."""

    free_in_ms: Floats  # [M, G]
    crowd: Floats  # [M]
    room: Integers  # [M]: GPUs free when a job begins
    taken: Integers  # [M]: of these by the job
    placed: NDArray[np.bool_]  # [W]


def new_desk(window: Window) -> Desk:
    jobs, machines = window.alone.shape
    return Desk(
        np.empty(window.free_in_ms.shape),
        np.empty(machines),
        np.empty(machines, np.int64),
        np.empty(machines, np.int64),
        np.empty(jobs, np.bool_),
    )


def foretell(window: Window, solutions: Floats, jct_ms: Floats, fee: Floats, desk: Desk) -> None:
    """Tell for each solution [S, size] when the jobs end and what they cost, as means of the window [S]."""
    jobs = len(window.jobs)
    for place in range(len(solutions)):
        late, paid = listed(window, solutions[place], desk)
        jct_ms[place] = (late if math.isfinite(late) else NEVER_MS) / jobs
        fee[place] = (paid if math.isfinite(paid) else NEVER_DOLLARS) / jobs


def listed(window: Window, solution: Floats, desk: Desk) -> tuple[float, float]:
    """Place the jobs by one solution; the sums over them of the time until they end, and of the fees.

    Two neighbours lose to first order as much as the job loses by them, so that loss counts twice.
    """
    jobs, machines = window.alone.shape
    gpus = window.free_in_ms.shape[1]
    for machine in range(machines):
        desk.crowd[machine] = window.crowd[machine]
        for gpu in range(gpus):
            desk.free_in_ms[machine, gpu] = window.free_in_ms[machine, gpu]
    for job in range(jobs):
        desk.placed[job] = False
    total_ms, total_fee = 0.0, 0.0
    for _ in range(jobs):
        job = highest_left(solution, desk.placed)
        desk.placed[job] = True
        wanted = window.gpus[job]
        begin = soonest(desk.free_in_ms, window.alone[job], min(wanted, machines * gpus), desk.room)
        share(solution[jobs + job * machines : jobs + (job + 1) * machines], wanted, desk.room, desk.taken)
        sensitivity = window.sensitivity[job]
        slowness, used, rack, racks, price = 0.0, 0, 0, 1, 0.0
        for machine in range(machines):
            taken = desk.taken[machine]
            if taken > 0:
                there = (1.0 + 2.0 * sensitivity * desk.crowd[machine]) / window.alone[job, machine]
                slowness = max(slowness, there)
                if used > 0 and window.rack[machine] != rack:
                    racks = 2
                rack = window.rack[machine]
                used += 1
                price += taken * window.price[machine]
                desk.crowd[machine] += taken * sensitivity * window.crowding[machine]
        lost = 0.0
        if used > 1:
            lost = window.spread[job]
            if racks > 1:
                lost = lost * (1.0 + window.across_racks)
        run_ms = window.work_ms[job] * (1.0 + lost) * slowness
        end = begin + run_ms
        total_ms += end
        total_fee += price * run_ms / HOUR_MS
        for machine in range(machines):
            if desk.taken[machine] > 0:
                hold_until(desk.free_in_ms[machine], desk.taken[machine], end)
    return total_ms, total_fee


def highest_left(solution: Floats, placed: NDArray[np.bool_]) -> int:
    """The job with the highest number of those not placed yet; of equals the first."""
    best = NOWHERE
    for job in range(len(placed)):
        if not placed[job] and (best == NOWHERE or solution[job] > solution[best]):
            best = job
    return best


def soonest(free_in_ms: Floats, alone: Floats, wanted: int, room: Integers) -> float:
    """The first moment when so many GPUs are free; `room` becomes how many are on each machine then.

    A machine that is not allowed is never free, but never comes in the end, if nothing else does.
    """
    machines, gpus = free_in_ms.shape
    for machine in range(machines):
        room[machine] = 0
    found, begin = 0, 0.0
    while found < wanted:
        begin = math.inf
        for machine in range(machines):
            if alone[machine] > 0.0 and room[machine] < gpus:
                begin = min(begin, free_in_ms[machine, room[machine]])
        for machine in range(machines):
            free = room[machine]
            if begin == math.inf:
                free = gpus
            elif alone[machine] > 0.0:
                while free < gpus and free_in_ms[machine, free] <= begin:
                    free += 1
            found += free - room[machine]
            room[machine] = free
    return begin


def share(wishes: Floats, wanted: int, room: Integers, taken: Integers) -> None:
    """Take GPUs where there is room, on the machines wished for most first; of equals the first."""
    for machine in range(len(taken)):
        taken[machine] = 0
    left = wanted
    while left > 0:
        best = NOWHERE
        for machine in range(len(wishes)):
            if room[machine] > taken[machine] and (best == NOWHERE or wishes[machine] > wishes[best]):
                best = machine
        if best == NOWHERE:
            return
        taken[best] = min(left, room[best])
        left -= taken[best]


def hold_until(free_in_ms: Floats, taken: int, end: float) -> None:
    """Let the GPUs of a machine that are free soonest be held to an end; they stay in order."""
    place = taken
    while place < len(free_in_ms) and free_in_ms[place] < end:
        free_in_ms[place - taken] = free_in_ms[place]
        place += 1
    for held in range(place - taken, place):
        free_in_ms[held] = end


# --- what is good ------------------------------------------------------------------------------------------


class Judge(NamedTuple):
    """How completion times and fees become one number; what is usual, that of the work alone, counts as 1."""

    fee_weight: float
    usual_ms: float
    usual_dollars: float


def score_of(jct_ms: float, fee: float, judge: Judge) -> float:
    """Lower is better."""
    return jct_ms / judge.usual_ms + judge.fee_weight * fee / judge.usual_dollars


class Archive(NamedTuple):
    """Solutions that no other is better than in one respect and no worse in the other.

    In order of completion time, hence the dearest first.
    """

    filled: Integers  # [1]: how many there are
    row: Integers  # [room]: of `solutions`; those from `filled` on are free
    jct_ms: Floats  # [room]
    fee: Floats  # [room]
    solutions: Floats  # [room, size]


def new_archive(room: int, size: int) -> Archive:
    """An empty archive.

    >>> archive = new_archive(4, 1)
    >>> for number, (jct_ms, fee) in enumerate([(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (2.0, 5.0)]):
    ...     keep(archive, np.array([number]), jct_ms, fee)
    >>> archive.solutions[archive.row[: archive.filled[0]], 0].tolist()
    [1.0, 2.0, 0.0]
    """
    return Archive(
        np.zeros(1, np.int64), np.arange(room), np.empty(room), np.empty(room), np.empty((room, size))
    )


def keep(archive: Archive, solution: Floats, jct_ms: float, fee: float) -> None:
    """Add a solution unless one there is no worse in both respects; those that it is no worse than go."""
    count, place = archive.filled[0], 0
    while place < count and archive.jct_ms[place] <= jct_ms:
        place += 1
    if place > 0 and archive.fee[place - 1] <= fee:
        return
    if place > 0 and archive.jct_ms[place - 1] == jct_ms:
        place -= 1
    move_to(archive, count, place)
    count += 1
    archive.jct_ms[place] = jct_ms
    archive.fee[place] = fee
    copy_into(archive.solutions[archive.row[place]], solution)
    while place + 1 < count and archive.fee[place + 1] >= fee:
        move_to(archive, place + 1, count - 1)
        count -= 1
    archive.filled[0] = count


def move_to(archive: Archive, place: int, target: int) -> None:
    """Take what is in one place to another; those between close ranks."""
    row, jct_ms, fee = archive.row[place], archive.jct_ms[place], archive.fee[place]
    step = 1 if target > place else -1
    while place != target:
        archive.row[place] = archive.row[place + step]
        archive.jct_ms[place] = archive.jct_ms[place + step]
        archive.fee[place] = archive.fee[place + step]
        place += step
    archive.row[target] = row
    archive.jct_ms[target] = jct_ms
    archive.fee[target] = fee


def shorten(archive: Archive, most: int) -> None:
    """Let those with the longest completion times go, where there are more than so many."""
    archive.filled[0] = min(archive.filled[0], most)


def best_kept(archive: Archive, judge: Judge) -> tuple[int, float]:
    """The row of the solution with the lowest score, and that score."""
    best, lowest = NOWHERE, math.inf
    for place in range(archive.filled[0]):
        score = score_of(archive.jct_ms[place], archive.fee[place], judge)
        if best == NOWHERE or score < lowest:
            best, lowest = archive.row[place], score
    return best, lowest


def copy_into(target: Floats, source: Floats) -> None:
    for place in range(len(source)):
        target[place] = source[place]
