"""Many environments side by side: one struct of arrays, stepped together in compiled code.

    state.scalar   [size, SCALARS]        row i is environment i, exactly as in `state.py`
    state.jobs     [size, most jobs]      shorter workloads are padded with jobs that never arrive
    state.slots    [size, slots]          all rows grow as soon as one of them needs room
    ...

The workloads of a batch are drawn from one profile, so that all rows share the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import ActionError, TrimtabError, WorkloadError
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.episode import Episode
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot, decode
from trimtab.dag_scheduling.simulator import events, replay
from trimtab.dag_scheduling.simulator.compiling import jit
from trimtab.dag_scheduling.simulator.rounds import executors_taken, may_idle
from trimtab.dag_scheduling.simulator.simulator import (
    FIRST_SLOTS,
    NO_LIMIT_MS,
    episode_of,
    tables_for,
    why_stuck,
)
from trimtab.dag_scheduling.simulator.state import (
    COST,
    DONE,
    LAST_DECISION,
    NOW,
    State,
    grow,
    new_state,
)
from trimtab.dag_scheduling.simulator.tables import Tables
from trimtab.dag_scheduling.workload import Workload

__all__ = ["BatchSimulator", "BatchTransition"]


class BatchTransition(NamedTuple):
    """What one decision in each environment led to; arrays by environment."""

    rewards: NDArray[np.int64]  # minus jobs in system x ms since the last decision
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    elapsed_ms: NDArray[np.int64]


class BatchSimulator:
    """`size` environments; those that have ended wait for `reset_one`, nothing resets by itself.

    >>> from trimtab.dag_scheduling.heuristics import Rule, fair
    >>> from trimtab.dag_scheduling.workload import JobRecord, StageRecord, batch, build_profile
    >>> profile = build_profile([JobRecord("one", [StageRecord(tasks=4, later_wave={1: [1000]})])])
    >>> simulator = BatchSimulator(Cluster(executors=2), size=2)
    >>> simulator.reset([batch(profile, jobs=jobs, seed=0) for jobs in (1, 2)], seeds=[0, 1])
    >>> rule = Rule("fair", fair)
    >>> while not simulator.ended.all():
    ...     actions = [rule.decide(simulator.snapshot(i)) for i in range(2)]
    ...     transition = simulator.step(actions)
    >>> transition.terminated.tolist()
    [True, True]
    """

    def __init__(self, cluster: Cluster, *, size: int, time_limit_ms: int | None = None) -> None:
        if size < 1:
            raise TrimtabError(f"a batch of {size} environments; size must be at least 1")
        self.cluster = cluster
        self.size = size
        self._time_limit_ms = NO_LIMIT_MS if time_limit_ms is None else time_limit_ms
        self._state: State | None = None
        self._tables: Tables | None = None
        self._workloads: list[Workload] = []
        self._seeds = [0] * size
        self._status = np.full(size, events.FINISHED, np.int64)
        self._returns = np.zeros(size, np.int64)

    def reset(self, workloads: Sequence[Workload], seeds: Sequence[int]) -> None:
        """Begin an episode in every environment."""
        if not len(workloads) == len(seeds) == self.size:
            raise WorkloadError(
                f"{len(workloads)} workloads and {len(seeds)} seeds for a batch of {self.size}; "
                "give one of each per environment"
            )
        for index, workload in enumerate(workloads):
            _check_profile(index, workload, workloads[0])
        tables = tables_for(workloads[0].profile, self.cluster)
        if self._tables is not tables:
            one = new_state(tables, slots=min(FIRST_SLOTS, workloads[0].job_count), jobs=1)
            self._state = State._make(np.zeros((self.size, *f.shape), f.dtype) for f in one)
            self._tables = tables
        self._workloads = list(workloads)
        for index, (workload, seed) in enumerate(zip(workloads, seeds, strict=True)):
            self._begin(index, workload, seed)
        self._settle()

    def reset_one(self, index: int, workload: Workload, seed: int) -> None:
        """Begin another episode in one environment; the others are not touched."""
        state = self.state  # refuses before the first reset
        if not 0 <= index < len(state.scalar):
            raise WorkloadError(f"no environment {index} in a batch of {self.size}")
        _check_profile(index, workload, self._workloads[0])
        self._begin(index, workload, seed)
        self._settle()

    @property
    def state(self) -> State:
        """All environments as arrays, for compiled code that reads many of them at once."""
        if self._state is None:
            raise TrimtabError("no episode is running; call reset(workloads, seeds) first")
        return self._state

    @property
    def tables(self) -> Tables:
        """What all environments share."""
        if self._tables is None:
            raise TrimtabError("no episode is running; call reset(workloads, seeds) first")
        return self._tables

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which environments have nothing left to decide."""
        return (self._status == events.FINISHED) | (self._status == events.TRUNCATED)

    @property
    def now_ms(self) -> NDArray[np.int64]:
        """Present time of each environment."""
        return self.state.scalar[:, NOW].copy()

    def snapshot(self, index: int) -> Snapshot:
        """What may be known in one environment now; views that change with the next step."""
        return replay.look_from_python(self._row(index), self.tables)

    def step(self, actions: ArrayLike) -> BatchTransition:
        """Answer every environment's question; rows of `actions` are (stage, limit, executor class).

        Environments that have ended are left alone, whatever their row says. If one action is outside
        its mask, it is refused and no environment moves.
        """
        rows = np.asarray(actions, np.int64)
        if rows.shape != (self.size, 3):
            raise ActionError(
                f"actions of shape {rows.shape}; expected ({self.size}, 3): a row (stage, limit, "
                "executor class) per environment"
            )
        with np.errstate(over="ignore"):
            refused = step_all_or_none(self.state, self.tables, self._status, rows)
        if refused != NOWHERE:
            self._explain(int(refused), rows[refused])
        self._settle()
        scalar = self.state.scalar
        elapsed_ms = scalar[:, NOW] - scalar[:, LAST_DECISION]
        scalar[:, LAST_DECISION] = scalar[:, NOW]
        rewards = -scalar[:, COST]
        scalar[:, COST] = 0
        self._returns += rewards
        return BatchTransition(
            rewards,
            self._status == events.FINISHED,
            self._status == events.TRUNCATED,
            elapsed_ms,
        )

    def episode(self, index: int, policy: str) -> Episode:
        """The record of a finished episode."""
        if self._status[index] != events.FINISHED:
            raise TrimtabError(f"environment {index} has not finished; step on until `ended`")
        return episode_of(
            self._row(index),
            self._workloads[index],
            self.cluster,
            policy=policy,
            seed=self._seeds[index],
            reward=int(self._returns[index]),
        )

    def _row(self, index: int) -> State:
        return State._make(field[index] for field in self.state)

    def _begin(self, index: int, workload: Workload, seed: int) -> None:
        """Put a workload into a row and run to its first question."""
        count = workload.job_count
        if count > self.state.jobs.shape[1]:
            self._make_room_for_jobs(count)
        row = self._row(index)
        row.jobs["template"][:count] = workload.template
        row.jobs["arrival_ms"][:count] = workload.arrival_ms
        row.jobs["arrival_ms"][count:] = events.NO_MOMENT
        self._workloads[index], self._seeds[index] = workload, seed
        self._returns[index] = 0
        with np.errstate(over="ignore"):
            events.reset(row, self.tables, seed, self._time_limit_ms)
            row.scalar[DONE] = len(row.jobs) - count
            self._status[index] = events.advance(row, self.tables)
        row.scalar[LAST_DECISION] = row.scalar[NOW]

    def _make_room_for_jobs(self, count: int) -> None:
        """Lengthen all rows; a job of the padding never arrives and counts as done."""
        state = self.state
        added = count - state.jobs.shape[1]
        padding = np.zeros((self.size, added), state.jobs.dtype)
        padding["arrival_ms"] = events.NO_MOMENT
        state.scalar[:, DONE] += added
        self._state = state._replace(jobs=np.concatenate([state.jobs, padding], axis=1))

    def _settle(self) -> None:
        """Make room for more jobs in the system, or say why an environment cannot go on."""
        while (waiting := np.flatnonzero(self._status == events.NEED_SLOTS)).size:
            grown = [grow(self._row(index), self.tables) for index in range(self.size)]
            self._state = State._make(np.stack(fields) for fields in zip(*grown, strict=True))
            with np.errstate(over="ignore"):
                for index in waiting.tolist():
                    self._status[index] = events.advance(self._row(index), self.tables)
        stuck = np.flatnonzero(self._status == events.STUCK)
        if stuck.size:
            index = int(stuck[0])
            raise why_stuck(self._row(index), self._workloads[index], f"environment {index}")

    def _explain(self, index: int, action: NDArray[np.int64]) -> None:
        """Refuse an action with the reason that the problem's own check gives."""
        try:
            decode(self.snapshot(index), Action(*action.tolist()))
        except ActionError as reason:
            raise ActionError(f"environment {index}: {reason}") from None


def _check_profile(index: int, workload: Workload, other: Workload) -> None:
    if workload.profile is not other.profile:
        raise WorkloadError(
            f"environment {index}: its workload ({workload.provenance.source}) has another profile than "
            f"the rest ({other.provenance.source}); draw all workloads of a batch from one profile object"
        )


@jit
def step_all_or_none(batch: State, t: Tables, status: NDArray[np.int64], actions: NDArray[np.int64]) -> int:
    """Step if every action is inside its mask; else name the first environment whose action is not."""
    refused = first_refused(batch, t, status, actions)
    if refused == NOWHERE:
        replay.step_many(batch, t, status, actions)
    return refused


@jit
def first_refused(batch: State, t: Tables, status: NDArray[np.int64], actions: NDArray[np.int64]) -> int:
    """The first environment whose action is outside its mask, or NOWHERE."""
    for index in range(len(status)):
        if status[index] == events.DECIDE:
            s = replay.environment(batch, index)
            stage, limit, executor_class = actions[index, 0], actions[index, 1], actions[index, 2]
            if stage == NOWHERE:
                if not may_idle(s):
                    return index
            elif executors_taken(s, t, stage, limit, executor_class) == 0:
                return index
    return NOWHERE
