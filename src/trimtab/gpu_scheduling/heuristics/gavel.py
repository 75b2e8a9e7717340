"""Gavel (Narayanan et al., OSDI 2020): shares of time on each kind of machine, played in rounds.

A linear program gives every job the share of time X[job, class] it shall run on each *class* of machines
(those with the same GPUs and speed). Time goes in rounds. At each, jobs run where X is largest beside the
share of time they have had there, highest first; whoever is not among them is stopped.

Kept of the paper: the programs, and priorities X / share received. Changed: shares received are counted since
a job was first seen, not since the program was last solved, which here is every round; GPUs that fall free
within a round go at once to those who fit, by the same program on what lies free; and a gang larger than
every class gets a column of its own, over all classes, where the paper has none. Packing several jobs on a
GPU is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import TrimtabError
from trimtab.core.policy import Parameter, with_settings
from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.words import gang_milli, hold
from trimtab.gpu_scheduling.problem import (
    NOWHERE,
    PREEMPT,
    START,
    WHOLE,
    Action,
    Snapshot,
    preempt,
    remaining_ms,
    start,
)

__all__ = [
    "Demand",
    "Gavel",
    "gavel",
    "gavel_makespan",
    "gavel_min_jct",
    "least_makespan",
    "max_min_fairness",
    "min_mean_jct",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_FAST = np.array([1.0, 0.0, 0.0])
"""Settings of the placement within a class: neighbours' losses count as much as the job's own."""
_DIGITS = 6
"""Of a share; the rest is the solver's rounding."""
_SECOND = 1e-3
"""Weight of what comes second in an objective; the first is of the order of 1."""


# --- the programs ------------------------------------------------------------------------------------------


class Demand(NamedTuple):
    """Jobs and classes of machines as a program sees them.

    The last column of `speed` is a gang over all classes; 0 wherever a job may not run, or does not fit.
    """

    speed: Floats  # [jobs, classes + 1]: work done in a millisecond
    gpus: Floats  # [jobs]
    weight: Floats  # [jobs]
    left_ms: Floats  # [jobs]: work left
    capacity: Floats  # [classes]: GPUs

    @property
    def held(self) -> Floats:
        """GPUs of each class [jobs, classes + 1, classes] that a job holds while it runs in a column."""
        alone = np.vstack([np.eye(len(self.capacity)), self.capacity / self.capacity.sum()])
        return self.gpus[:, None, None] * alone[None]


Program: TypeAlias = Callable[[Demand], Floats]
"""From what is wanted to shares of time [jobs, classes + 1]."""


def max_min_fairness(demand: Demand) -> Floats:
    """Make the smallest weighted throughput as large as can be, then their sum (paper, section 4.1).

    Throughput counts beside that with an equal share of every class, and times the job's GPUs, so that equal
    ones mean equal GPU time.

    >>> one_gpu = np.array([1.0])
    >>> two = Demand(np.array([[1.0, 0], [1.0, 0]]), np.ones(2), np.ones(2), np.ones(2), one_gpu)
    >>> max_min_fairness(two)[:, 0].tolist()
    [0.5, 0.5]
    """
    spread = np.append(demand.capacity, 0.0) / demand.capacity.sum()
    equal = demand.speed @ spread + demand.speed[:, -1]
    scale = demand.gpus / (demand.weight * np.maximum(equal, 1e-12))
    return _balanced(demand, demand.speed * scale[:, None])


def least_makespan(demand: Demand) -> Floats:
    """Let the job that ends last end as soon as can be: its progress per work left is the smallest."""
    left = np.maximum(demand.left_ms, 1.0)
    return _balanced(demand, demand.speed * (left.mean() / left)[:, None])


def min_mean_jct(demand: Demand) -> Floats:
    """Make the sum over jobs of progress per work left as large as can be.

    The mean of left / throughput is not linear in the shares; the sum of throughput / left is, and asks for
    the same: short work first, on the machines that are fastest for it.
    """
    left = np.maximum(demand.left_ms, 1.0)
    gain = demand.speed * (left.min() / left)[:, None]
    return _solved(demand, gain, least=None)


def _balanced(demand: Demand, gain: Floats) -> Floats:
    """Shares that make the smallest row sum of gain x shares as large as can be, then the mean of all."""
    return _solved(demand, gain * _SECOND / len(gain), least=gain)


def _solved(demand: Demand, gain: Floats, *, least: Floats | None) -> Floats:
    """Maximise the sum of gain x shares, plus the smallest row sum of `least` x shares."""
    try:
        from scipy.optimize import linprog
        from scipy.sparse import coo_array
    except ImportError:
        raise TrimtabError(
            "Gavel's linear programs need scipy; in the checkout of trimtab, pip install '.[train]', or "
            "choose another policy"
        ) from None
    jobs, columns = gain.shape
    shares = np.arange(jobs * columns)
    of_job = shares // columns
    classes = len(demand.capacity)
    held = demand.held.reshape(jobs * columns, classes)
    taken, used = np.nonzero(held)
    rows, places, values = [of_job, jobs + used], [shares, taken], [np.ones(len(shares)), held[taken, used]]
    limits = [np.ones(jobs), demand.capacity]
    if least is not None:
        # smallest - row sum <= 0; the smallest is the last variable.
        rows += [jobs + classes + of_job, jobs + classes + np.arange(jobs)]
        places += [shares, np.full(jobs, len(shares))]
        values += [-least.ravel(), np.ones(jobs)]
        limits.append(np.zeros(jobs))
    variables = len(shares) + (least is not None)
    bound = np.concatenate(limits)
    table = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(places))), (len(bound), variables)
    )
    wanted = np.append(gain.ravel(), [1.0] * (least is not None))
    possible = np.append((demand.speed > 0).ravel(), [True] * (least is not None))
    upper = np.where(possible, np.append(np.ones(len(shares)), [np.inf] * (least is not None)), 0.0)
    found = linprog(
        -wanted,
        A_ub=table.tocsr(),
        b_ub=bound,
        bounds=np.stack([np.zeros(variables), upper], axis=1),
        method="highs",
    )
    if found.x is None:
        raise TrimtabError(f"Gavel's linear program has no answer: {found.message}")
    # Rounded, so that equal shares are equal whatever the solver's last digits are.
    return np.clip(found.x[: len(shares)], 0.0, 1.0).round(_DIGITS).reshape(jobs, columns)


# --- the rounds --------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    verb: int
    job: int  # slot
    job_id: int
    column: int


@dataclass
class _Rounds:
    """What a scheduler remembers from question to question."""

    now_ms: int = -1
    running: int = 0  # jobs, after the last action
    newest: int = -1  # highest job id seen
    began_ms: int = -1  # the round; -1: none yet
    classes: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # by machine
    since_ms: dict[int, int] = field(default_factory=dict)  # by job id: first seen
    received_ms: dict[int, Floats] = field(default_factory=dict)  # by job id: time in each column
    ranked_ms: int = -1  # when those who may fill a gap were ranked
    rank: dict[int, tuple[float, float]] = field(default_factory=dict)  # by job id: higher first
    steps: deque[_Step] = field(default_factory=deque)

    def see(self, snapshot: Snapshot) -> None:
        """Count the time that jobs have run in each column up to now."""
        classes = _classes_of(snapshot)
        if self._is_another_episode(snapshot) or not np.array_equal(classes, self.classes):
            vars(self).update(vars(_Rounds(classes=classes)))
        if snapshot.now_ms == self.now_ms:
            return
        self.steps.clear()
        columns = int(classes.max()) + 2
        present = [*snapshot.running.tolist(), *snapshot.pending.tolist()]
        ids = {int(snapshot.job_id[job]) for job in present}
        self.since_ms = {one: when for one, when in self.since_ms.items() if one in ids}
        self.received_ms = {one: told for one, told in self.received_ms.items() if one in ids}
        for one in ids - self.since_ms.keys():
            self.since_ms[one] = snapshot.now_ms
            self.received_ms[one] = np.zeros(columns)
        for job in snapshot.running.tolist():
            ran_ms = snapshot.now_ms - max(int(snapshot.started_ms[job]), self.now_ms)
            self.received_ms[int(snapshot.job_id[job])][self.column_of(snapshot, job)] += ran_ms
        self.now_ms, self.newest = snapshot.now_ms, max([self.newest, *ids])

    def _is_another_episode(self, snapshot: Snapshot) -> bool:
        """Whether these are other jobs than those remembered, be their numbers the same."""
        if snapshot.now_ms <= self.now_ms:
            return snapshot.now_ms < self.now_ms or len(snapshot.running) != self.running
        for job in [*snapshot.running.tolist(), *snapshot.pending.tolist()]:
            number = int(snapshot.job_id[job])
            since_ms = self.since_ms.get(number)
            # Numbers are in order of arrival: what is new comes behind all others.
            if number <= self.newest if since_ms is None else since_ms < snapshot.arrival_ms[job]:
                return True
        return False

    def column_of(self, snapshot: Snapshot, job: int) -> int:
        """The class a running job is on; the last column: on several."""
        part, found = int(snapshot.first_part[job]), NOWHERE
        while part != NOWHERE:
            column = int(self.classes[snapshot.part_machine[part]])
            if found not in (NOWHERE, column):
                return int(self.classes.max()) + 1
            found, part = column, int(snapshot.next_part[part])
        return found

    def begin(self, snapshot: Snapshot, program: Program, *, by_user: bool) -> None:
        """Begin a round: who runs in which column, and so what must be stopped and started."""
        jobs = np.concatenate([snapshot.running, snapshot.pending])
        capacity = np.bincount(self.classes, snapshot.gpus).astype(np.float64)
        demand = _demand_of(snapshot, jobs, self.classes, capacity, by_user=by_user)
        shares = program(demand)
        priority = self._priorities(snapshot, jobs, shares)
        chosen = _filled(demand, shares, priority, snapshot.arrival_ms[jobs])
        ids = snapshot.job_id[jobs].tolist()
        self.began_ms = snapshot.now_ms
        running = {int(job): self.column_of(snapshot, int(job)) for job in snapshot.running}
        self.steps = deque(
            _Step(PREEMPT, job, int(snapshot.job_id[job]), column)
            for row, (job, column) in enumerate(running.items())
            if chosen.get(row) != column
        )
        for row, column in chosen.items():
            job = int(jobs[row])
            if running.get(job) != column:
                self.steps.append(_Step(START, job, ids[row], column))

    def fill(self, snapshot: Snapshot, program: Program, *, by_user: bool) -> Action:
        """Start someone on what lies free, by the same program for those who might fit; none: hold."""
        fitting = [
            int(job)
            for job in snapshot.pending[snapshot.unseen :]
            if gang_milli(snapshot, job) <= snapshot.free_total_milli
        ]
        if len(fitting) > 1 and self.ranked_ms != snapshot.now_ms:
            jobs = np.array(fitting, np.int64)
            capacity = np.bincount(self.classes, snapshot.free_milli) / WHOLE
            shares = program(_demand_of(snapshot, jobs, self.classes, capacity, by_user=by_user))
            priority = self._priorities(snapshot, jobs, shares)
            self.rank = {
                int(snapshot.job_id[job]): max(zip(ratios, parts, strict=True))
                for job, ratios, parts in zip(fitting, priority.tolist(), shares.tolist(), strict=True)
            }
            self.ranked_ms = snapshot.now_ms
        last = (-np.inf, 0.0)
        # Sorting keeps the order of arrival between equals.
        fitting.sort(key=lambda job: self.rank.get(int(snapshot.job_id[job]), last), reverse=True)
        for job in fitting:
            count, gpu = placements.fast(snapshot, job, _FAST)
            if count:
                return start(job, snapshot.machine_order[:count], gpu)
        return hold(snapshot)

    def _priorities(self, snapshot: Snapshot, jobs: Integers, shares: Floats) -> Floats:
        """Shares of time over those received [jobs, columns]; who had none yet comes before all others."""
        ids = snapshot.job_id[jobs].tolist()
        received = np.array([self.received_ms[one] for one in ids])
        watched = np.array([snapshot.now_ms - self.since_ms[one] for one in ids], np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = shares * watched[:, None] / received
        ratio = np.where(received > 0, ratio, np.inf)
        return np.where(shares > 0, ratio, -np.inf)


def _classes_of(snapshot: Snapshot) -> Integers:
    """Number the machines by what GPUs they have and how fast they are."""
    pairs = np.stack([snapshot.gpu_type.astype(np.float64), snapshot.speed], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def _demand_of(
    snapshot: Snapshot, jobs: Integers, classes: Integers, capacity: Floats, *, by_user: bool
) -> Demand:
    first = np.unique(classes, return_index=True)[1]
    gpus = snapshot.instances[jobs] * snapshot.gpu_milli[jobs] / WHOLE
    allowed = (snapshot.allowed_types[jobs][:, None] >> snapshot.gpu_type[first][None]) & 1 == 1
    speed = np.where(allowed, snapshot.nominal[snapshot.kind[jobs]][:, first], 0.0)
    fits = gpus[:, None] <= capacity[None]
    slowest = np.where(allowed, speed, np.inf).min(axis=1)
    everywhere = np.where((allowed & fits).any(axis=1) | ~allowed.any(axis=1), 0.0, slowest)
    weight = np.ones(len(jobs))
    if by_user:
        _, user = np.unique(snapshot.user[jobs], return_inverse=True)
        weight /= np.bincount(user)[user]
    left = np.array([remaining_ms(snapshot, int(job)) for job in jobs])
    left = np.where(np.isnan(left), np.nanmean(left) if np.isfinite(left).any() else 1.0, left)
    return Demand(np.column_stack([speed * fits, everywhere]), gpus, weight, left, capacity)


def _filled(demand: Demand, shares: Floats, priority: Floats, arrival_ms: Integers) -> dict[int, int]:
    """Columns of the jobs that run in this round, by row: highest priority first while GPUs are left."""
    rows, columns = np.nonzero(shares > 0)
    order = np.lexsort((rows, arrival_ms[rows], -shares[rows, columns], -priority[rows, columns]))
    free = demand.capacity.copy()
    chosen: dict[int, int] = {}
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if row in chosen:
            continue
        wanted = demand.gpus[row]
        if column < len(free):
            taken = np.where(np.arange(len(free)) == column, wanted, 0.0)
        else:
            taken = np.minimum(free, np.maximum(wanted - (np.cumsum(free) - free), 0.0))
        if taken.sum() >= wanted and (taken <= free).all():
            free -= taken
            chosen[row] = column
    return chosen


# --- the policies ------------------------------------------------------------------------------------------

_ROUND = Parameter(
    "round_s",
    360.0,
    "seconds of a round; jobs are stopped at its end only",
    (120.0, 360.0, 720.0, 1800.0, 3600.0, 7200.0),
    low=60,
    high=1e6,
)
_BY_USER = Parameter(
    "by_user", 0.0, "1: users have equal shares; 0: jobs", (0.0, 1.0), low=0, high=1, whole=True
)


@dataclass(frozen=True)
class Gavel:
    """Jobs take turns on each kind of machine, by shares of time from a linear program (Gavel, OSDI'20).

    >>> gavel().with_values({"round_s": 720}).parameters[0].value
    720.0
    """

    name: str
    program: Program
    sentence: str
    parameters: tuple[Parameter, ...] = (_ROUND,)
    needs_durations: bool = False
    timed: bool = True
    """A round may end while nothing happens."""
    _rounds: _Rounds = field(default_factory=_Rounds, init=False, repr=False, compare=False)

    def with_values(self, values: Mapping[str, float]) -> Gavel:
        """The same policy with other settings; unknown names and bad values are refused."""
        return replace(self, parameters=with_settings(self.name, self.parameters, values))

    def decide(self, snapshot: Snapshot) -> Action:
        action = self._action(snapshot)
        self._rounds.running = len(snapshot.running) + {START: 1, PREEMPT: -1}.get(action.verb, 0)
        return action

    def _action(self, snapshot: Snapshot) -> Action:
        rounds = self._rounds
        values = {one.name: one.value for one in self.parameters}
        by_user = values.get("by_user", 0.0) > 0
        rounds.see(snapshot)
        due = rounds.began_ms < 0 or snapshot.now_ms - rounds.began_ms >= values["round_s"] * 1000.0
        if due and len(snapshot.pending):
            rounds.begin(snapshot, self.program, by_user=by_user)
        while rounds.steps:
            action = _carried_out(snapshot, rounds.steps.popleft(), rounds.classes)
            if action is not None:
                return action
        return rounds.fill(snapshot, self.program, by_user=by_user)


def gavel() -> Gavel:
    """Equal shares of GPU time for all jobs, by the speed of each GPU model, in rounds (Gavel, OSDI'20)."""
    return Gavel("gavel", max_min_fairness, gavel.__doc__ or "", (_ROUND, _BY_USER))


def gavel_min_jct() -> Gavel:
    """The shares of GPU time with the most progress per work left, in rounds (Gavel, OSDI'20)."""
    return Gavel("gavel-min-jct", min_mean_jct, gavel_min_jct.__doc__ or "", needs_durations=True)


def gavel_makespan() -> Gavel:
    """The shares of GPU time with which all jobs have ended soonest, in rounds (Gavel, OSDI'20)."""
    return Gavel("gavel-makespan", least_makespan, gavel_makespan.__doc__ or "", needs_durations=True)


def _carried_out(snapshot: Snapshot, step: _Step, classes: Integers) -> Action | None:
    """The action of a step of the plan; None: it is not possible, because GPUs lie scattered."""
    if step.job >= len(snapshot.job_id) or snapshot.job_id[step.job] != step.job_id:
        return None
    if step.verb == PREEMPT:
        there = step.job in snapshot.running
        return preempt(step.job, snapshot.machine_order[:0]) if there else None
    if step.job not in snapshot.pending:
        return None
    within = classes == step.column
    if not within.any():
        within[:] = True
    seen = snapshot._replace(free_milli=np.where(within, snapshot.free_milli, 0))
    count, gpu = placements.fast(seen, step.job, _FAST)
    return start(step.job, snapshot.machine_order[:count], gpu) if count else None
