"""What MALO and MOSA share: jobs in a window, a quick look ahead, and the plan that comes of the best found.

A *solution* is a row of numbers: one for each job of the window (jobs go from the highest down), and for each
job one for each machine (it takes machines from the highest down). Many solutions are looked at together:

    solutions [S, W + W * M]  ->  jobs by rank [S, W], wishes [S, W, M]  ->  list schedule  ->  JCT, fee [S]

The look ahead places the jobs one after another on GPUs that fall free when running jobs are expected to end.
Where nobody knows durations, all count as equally long; running ones as if they were halfway.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.policy import Parameter, with_settings
from trimtab.core.randomness import hash_counters, split, uniform
from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.words import gang_milli, hold
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Action, Snapshot, fits_on, gang_fits, start

__all__ = [
    "SHARED",
    "Outcome",
    "Outlook",
    "Planner",
    "Window",
    "budget_setting",
    "non_dominated",
    "outcome_of",
    "window_of",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

MOST_MACHINES = 32
"""Machines looked at, those where jobs would run fastest; in a large cluster most are full or alike."""
HOUR_MS = 3_600_000.0
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


class Outcome(NamedTuple):
    """What a look ahead foretells for each solution [S]."""

    jct_ms: Floats  # from now, mean of the window
    fee: Floats  # dollars, mean of the window


def window_of(snapshot: Snapshot, jobs: Integers, *, assumed_ms: float) -> Window:
    """Gather what the look ahead needs to know of some waiting jobs."""
    machines = _promising(snapshot)
    capacity = snapshot.gpus[machines]
    allowed = (snapshot.allowed_types[jobs][:, None] >> snapshot.gpu_type[machines][None]) & 1 == 1
    work = snapshot.expected_ms[jobs] - snapshot.done_ms[jobs]
    return Window(
        jobs=jobs,
        machines=machines,
        gpus=-(-snapshot.instances[jobs] * snapshot.gpu_milli[jobs] // WHOLE),
        work_ms=np.maximum(np.where(np.isnan(work), assumed_ms, work), 1.0),
        alone=np.where(allowed, snapshot.nominal[snapshot.kind[jobs]][:, machines], 0.0),
        sensitivity=snapshot.sensitivity[jobs] / 1000.0,
        spread=snapshot.communication_weight * snapshot.communication[jobs],
        price=snapshot.price[machines],
        rack=snapshot.rack[machines],
        crowd=snapshot.contention * snapshot.load[machines] / 1e6 / capacity,
        crowding=snapshot.contention / capacity,
        free_in_ms=_free_in_ms(snapshot, machines, assumed_ms),
        across_racks=snapshot.across_racks,
    )


def _promising(snapshot: Snapshot) -> Integers:
    """The machines with something free, fastest beside their load first; all, if they are few."""
    if len(snapshot.gpus) <= MOST_MACHINES:
        return np.arange(len(snapshot.gpus))
    crowd = snapshot.contention * snapshot.load / 1e6 / snapshot.gpus
    score = np.where(snapshot.free_milli > 0, snapshot.speed / (1.0 + crowd), 0.0)
    return np.sort(np.argsort(-score, kind="stable")[:MOST_MACHINES])


def _free_in_ms(snapshot: Snapshot, machines: Integers, assumed_ms: float) -> Floats:
    """When each GPU falls free [M, G]; one that is partly held counts as held, by whom is not asked."""
    most = int(snapshot.gpus[machines].max())
    held: dict[int, list[float]] = {int(machine): [] for machine in machines}
    for job in snapshot.running.tolist():
        done = snapshot.done_ms[job] + snapshot.rate[job] * (snapshot.now_ms - snapshot.since_ms[job])
        left = snapshot.expected_ms[job] - done
        if np.isnan(left):
            # Halfway: the longer it runs, the longer it will (true of heavy tails, such as PAI's).
            left = max(done, assumed_ms)
        part = int(snapshot.first_part[job])
        while part != NOWHERE:
            machine = int(snapshot.part_machine[part])
            if machine in held:
                gpus = -(-int(snapshot.part_instances[part] * snapshot.gpu_milli[job]) // WHOLE)
                held[machine] += [float(max(left, 0.0) / max(snapshot.rate[job], 1e-9))] * gpus
            part = int(snapshot.next_part[part])
    table = np.full((len(machines), most), np.inf)
    for row, machine in enumerate(machines.tolist()):
        gpus, free = int(snapshot.gpus[machine]), int(snapshot.free_gpus[machine])
        # Shares of one GPU may be listed more often than there are GPUs.
        ends = sorted(held[machine])[-(gpus - free) :] if gpus > free else []
        ends += [0.0] * (gpus - len(ends))
        table[row, :gpus] = sorted(ends)
    return table


# --- the look ahead ----------------------------------------------------------------------------------------


# A job that no machine takes is late without end; that is not an error.
@np.errstate(divide="ignore", invalid="ignore")
def outcome_of(window: Window, solutions: Floats) -> Outcome:
    """Place the jobs of the window by each solution [S, size], and tell when they end and what they cost.

    Two neighbours lose to first order as much as the job loses by them, so that loss counts twice.
    """
    count, jobs, machines = len(solutions), len(window.jobs), len(window.machines)
    every = np.arange(count)[:, None]
    rank = np.argsort(-solutions[:, :jobs], axis=1, kind="stable")
    wishes = solutions[:, jobs:].reshape(count, jobs, machines)[every, rank]
    # Everything by turn first: [W, S, ...].
    rank, order = rank.T, np.argsort(-wishes, axis=2, kind="stable").transpose(1, 0, 2)
    position = np.argsort(order, axis=2)
    gpus, alone, work = window.gpus[rank], window.alone[rank], window.work_ms[rank]
    sensitivity, spread = window.sensitivity[rank][:, :, None], window.spread[rank]
    # A machine that is not allowed is never free.
    never = np.where(alone > 0, 0.0, np.inf)[..., None] if (window.alone == 0).any() else None
    racks = (window.rack[:, None] == np.unique(window.rack)).astype(np.float64)
    total_gpus = window.free_in_ms.size
    free_in = np.repeat(window.free_in_ms[None], count, axis=0)
    crowd = np.repeat(window.crowd[None], count, axis=0)
    total_ms, total_fee = np.zeros(count), np.zeros(count)
    places = np.arange(free_in.shape[2])
    for turn in range(jobs):
        wanted = gpus[turn][:, None]
        usable = free_in if never is None else free_in + never[turn]
        soonest = np.sort(usable.reshape(count, -1), axis=1)
        begin = soonest[every, np.minimum(wanted, total_gpus) - 1]
        room = (usable <= begin[:, :, None]).sum(axis=2)[every, order[turn]]
        before = np.add.accumulate(room, axis=1) - room
        taken = np.minimum(np.maximum(wanted - before, 0), room)[every, position[turn]]
        used = taken > 0
        slowness = (1.0 + 2.0 * sensitivity[turn] * crowd) / np.where(used, alone[turn], np.inf)
        lost = spread[turn] * (used.sum(axis=1) > 1)
        if racks.shape[1] > 1:
            lost = lost * (1.0 + window.across_racks * ((used @ racks > 0).sum(axis=1) > 1))
        run_ms = work[turn] * (1.0 + lost) * slowness.max(axis=1)
        end = begin[:, 0] + run_ms
        total_ms += end
        total_fee += taken @ window.price * run_ms / HOUR_MS
        crowd += taken * sensitivity[turn] * window.crowding
        free_in = np.where(places < taken[:, :, None], end[:, None, None], free_in)
        free_in.sort(axis=2)
    # A gang that the machines looked at cannot hold never ends there; it counts as very late.
    late = np.nan_to_num(total_ms, nan=1e15, posinf=1e15) / jobs
    return Outcome(late, np.nan_to_num(total_fee, nan=1e9, posinf=1e9) / jobs)


def non_dominated(outcome: Outcome, most: int) -> Integers:
    """Solutions that no other is better than in one respect and no worse in the other, at most so many.

    >>> non_dominated(Outcome(np.array([3.0, 1.0, 2.0, 2.0]), np.array([1.0, 3.0, 2.0, 5.0])), 9).tolist()
    [1, 2, 0]
    """
    order = np.lexsort((outcome.fee, outcome.jct_ms))
    best, kept = np.inf, []
    for place in order.tolist():
        if outcome.fee[place] < best:
            best = outcome.fee[place]
            kept.append(place)
    return np.array(kept[:most], np.int64)


# --- the plan ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outlook:
    """A window, how its solutions are judged, and the luck of the search."""

    window: Window
    fee_weight: float
    seed: int
    usual: tuple[float, float]
    """Milliseconds and dollars that count as 1 in a score: those of the work alone."""
    known: Floats
    """Solutions of common sense: in order of arrival, and fewest GPUs first, each on the fastest machines."""

    def outcome(self, solutions: Floats) -> Outcome:
        return outcome_of(self.window, solutions)

    def score(self, outcome: Outcome) -> Floats:
        """Lower is better."""
        return outcome.jct_ms / self.usual[0] + self.fee_weight * outcome.fee / self.usual[1]

    def luck(self, purpose: int, step: int, *shape: int) -> Floats:
        """Numbers in [0, 1), the same for the same purpose and step of the same moment."""
        return uniform(self.seed, purpose, step, np.arange(int(np.prod(shape)))).reshape(shape)


def outlook_of(window: Window, *, fee_weight: float, seed: int) -> Outlook:
    """Look at a window for the first time."""
    jobs = len(window.jobs)
    in_order = -np.linspace(-1.0, 1.0, jobs) if jobs > 1 else np.zeros(1)
    smallest = np.empty(jobs)
    smallest[np.argsort(window.gpus, kind="stable")] = in_order
    speed = window.alone / (1.0 + 2.0 * window.sensitivity[:, None] * window.crowd)
    # Of equally fast machines the fuller one, so that gangs find empty ones.
    wishes = speed - 1e-6 * (window.free_in_ms <= 0).sum(axis=1)
    wishes = 2.0 * wishes / max(float(wishes.max()), 1e-9) - 1.0
    known = np.clip([np.concatenate([order, wishes.ravel()]) for order in (in_order, smallest)], -1.0, 1.0)
    fee = float((window.work_ms * window.gpus).mean() * window.price.mean()) / HOUR_MS
    usual = float(window.work_ms.mean()), max(fee, 1e-9)
    return Outlook(window, fee_weight, seed, usual, known)


class _Start(NamedTuple):
    job: int  # slot
    job_id: int
    machines: Integers


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
        """The next step that is still possible; where its machines do not hold the gang, the fast ones."""
        steps = self._plan.steps
        while steps:
            step = steps.popleft()
            job = step.job
            if (
                job >= len(snapshot.job_id)
                or snapshot.job_id[job] != step.job_id
                or job not in snapshot.pending
            ):
                continue
            room = np.array([fits_on(snapshot, job, int(machine)) for machine in step.machines], np.int64)
            if room.sum() >= snapshot.instances[job]:
                needed = np.cumsum(room) - room < snapshot.instances[job]
                return start(job, step.machines[(room > 0) & needed])
            count, gpu = placements.fast(snapshot, job, _FAST)
            if count:
                return start(job, snapshot.machine_order[:count].copy(), gpu)
        return None

    def _planned(self, snapshot: Snapshot) -> list[_Start]:
        values = self.values
        jobs = _fitting(snapshot, int(values["window"]))
        if len(jobs) == 0:
            return []
        window = window_of(snapshot, jobs, assumed_ms=values["assumed_s"] * 1000.0)
        seed = split(int(values["seed"]), self.salt, int(snapshot.now_ms))
        # The same whichever slots the jobs are in.
        seed ^= int(np.bitwise_xor.reduce(hash_counters(seed, snapshot.job_id[jobs])))
        outlook = outlook_of(window, fee_weight=values["fee_weight"], seed=seed)
        best = self.search(outlook)
        order = np.argsort(-best[: len(jobs)], kind="stable")
        wishes = best[len(jobs) :].reshape(len(jobs), -1)
        return [
            _Start(
                int(jobs[place]),
                int(snapshot.job_id[jobs[place]]),
                window.machines[np.argsort(-wishes[place], kind="stable")],
            )
            for place in order.tolist()
        ]


def _fitting(snapshot: Snapshot, most: int) -> Integers:
    """The oldest waiting jobs that would fit now, at most so many."""
    found: list[int] = []
    for job in snapshot.pending[snapshot.unseen :].tolist():
        if gang_milli(snapshot, job) <= snapshot.free_total_milli and gang_fits(snapshot, job):
            found.append(job)
            if len(found) == most:
                break
    return np.array(found, np.int64)
