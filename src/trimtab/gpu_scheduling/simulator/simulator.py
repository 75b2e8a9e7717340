"""The engine's Python face: one environment to step through, and whole episodes at full speed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from trimtab.core.environment import Transition
from trimtab.core.errors import ActionError, TrimtabError
from trimtab.core.policy import check_policy
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.episode import Episode, RunLog
from trimtab.gpu_scheduling.heuristics import look_ahead
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.problem import Action, Snapshot, decode
from trimtab.gpu_scheduling.simulator import events, replay
from trimtab.gpu_scheduling.simulator.by_address import WITHOUT_COMPILER
from trimtab.gpu_scheduling.simulator.compiling import (
    called_from_python,
    compiled,
    fingerprint,
    is_importable,
    is_kept,
    specialise,
)
from trimtab.gpu_scheduling.simulator.looking import look
from trimtab.gpu_scheduling.simulator.state import (
    BUSY,
    COST,
    COUNTED_TO,
    DECISIONS,
    EVENTS,
    FREE_MILLI,
    HEARTBEAT,
    LAST_DECISION,
    LOGGED,
    NEVER,
    NEXT_ARRIVAL,
    NOW,
    PENDING,
    PENDING_ROW,
    RUNNING,
    RUNNING_ROW,
    SEED,
    STRANDED,
    TIME_LIMIT,
    UNSEEN,
    State,
    grow,
    grow_log,
    new_state,
)
from trimtab.gpu_scheduling.simulator.tables import Tables, alone_ms, make_tables, nominal_speeds
from trimtab.gpu_scheduling.workload import Workload

__all__ = ["NeverEnds", "Simulator", "check_information", "is_compiled", "simulate"]

FIRST_SLOTS = 64
"""Jobs a new window has room for; it doubles whenever more are in the system at once."""
_NO_MACHINES = np.zeros(0, np.int64)
_FREE_TOTAL_MILLI = Snapshot._fields.index("free_total_milli")


class NeverEnds(TrimtabError):
    """Jobs were not done when every one of them could have run alone, one after the other, and more."""


class Simulator:
    """One environment: reset it with a workload, then answer its questions.

    >>> from trimtab.gpu_scheduling import HOLD, Cluster, gang_fits, make_workload, start
    >>> simulator = Simulator(Cluster())
    >>> snapshot = simulator.reset(make_workload([0, 5], duration_ms=[60_000, 30_000], gpus=[4, 2]), seed=0)
    >>> while not simulator.ended:
    ...     seen = simulator.snapshot
    ...     fitting = [job for job in seen.pending if gang_fits(seen, job)]
    ...     action = start(fitting[0], np.arange(8)) if fitting else HOLD
    ...     transition = simulator.step(action)
    >>> transition.terminated
    True
    """

    def __init__(
        self, cluster: Cluster, *, time_limit_ms: int | None = None, record_runs: bool = False
    ) -> None:
        self.cluster = cluster
        self._time_limit_ms = int(NEVER) if time_limit_ms is None else time_limit_ms
        self._record_runs = record_runs
        self._state: State | None = None
        self._tables: Tables | None = None
        self._workload: Workload | None = None
        self._row: Any = None
        self._job_count = 0
        self._views: list[Any] | None = None
        self._status = events.FINISHED
        self._reward = 0

    def reset(self, workload: Workload, seed: int) -> Snapshot:
        """Begin an episode; returns the first question."""
        if workload is not self._workload:
            self._tables = make_tables(workload, self.cluster)
            self._state = new_state(
                self._tables, slots=min(FIRST_SLOTS, workload.job_count), logged=self._record_runs
            )
            self._row = replay.row_of(self._state, self._tables)
            self._workload = workload
            self._job_count = workload.job_count
        self._seed = seed
        self._reward = 0
        self._views = None
        self._running_state.scalar[SEED] = seed
        self._running_state.scalar[TIME_LIMIT] = self._time_limit_ms
        self._ask_engine(replay.BEGIN)
        self._settle()
        self._take_reward()
        self._running_state.scalar[LAST_DECISION] = self._running_state.scalar[NOW]
        return self.snapshot

    @property
    def tables(self) -> Tables:
        """What the workload and the cluster fix for the whole episode."""
        if self._tables is None:
            raise TrimtabError("no episode is running; call reset(workload, seed) first")
        return self._tables

    @property
    def _running_state(self) -> State:
        if self._state is None:
            raise TrimtabError("no episode is running; call reset(workload, seed) first")
        return self._state

    @property
    def snapshot(self) -> Snapshot:
        """What may be known now; views that change with the next step."""
        state = self._running_state
        if self._views is None:
            self._views = list(look(state, self.tables))
        # One list of all numbers is made in the time of three of them; a list of views is changed and copied
        # in a third of the time that `_replace` takes.
        scalar, views = state.scalar.tolist(), self._views
        pending, running = scalar[PENDING], scalar[RUNNING]
        views[:5] = (
            scalar[NOW],
            running > 0 or scalar[NEXT_ARRIVAL] < self._job_count,
            scalar[UNSEEN],
            state.lists[PENDING_ROW, :pending],
            state.lists[RUNNING_ROW, :running],
        )
        views[_FREE_TOTAL_MILLI] = scalar[FREE_MILLI]
        return Snapshot._make(views)

    @property
    def row(self) -> Any:
        """The environment for other compiled code (see replay.py); the next step may make it another one."""
        return self._row

    @property
    def slot_count(self) -> int:
        """Jobs the window has room for; it grows with the jobs in the system at once, not with the trace."""
        return len(self._running_state.slots)

    @property
    def memory_bytes(self) -> int:
        """Memory of the running environment, without what each job of the workload leaves behind."""
        state = self._running_state
        return sum(part.nbytes for part in state) - state.results.nbytes - state.log.nbytes

    @property
    def ended(self) -> bool:
        return self._status in (events.FINISHED, events.TRUNCATED)

    @property
    def truncated(self) -> bool:
        return self._status == events.TRUNCATED

    def step(self, action: Action) -> Transition[Snapshot]:
        """Answer the present question; runs to the next one. What may not be done is refused."""
        if self.ended:
            raise ActionError("the episode has ended; call reset(workload, seed) to begin another")
        self._answer(action)
        scalar = self._running_state.scalar
        # At a limit of time, rewards are counted up to it, though nothing happens there.
        elapsed_ms = int(scalar[COUNTED_TO] - scalar[LAST_DECISION])
        scalar[LAST_DECISION] = scalar[COUNTED_TO]
        return Transition(
            snapshot=self.snapshot,
            reward=self._take_reward(),
            terminated=self._status == events.FINISHED,
            truncated=self._status == events.TRUNCATED,
            elapsed_ms=elapsed_ms,
        )

    def _answer(self, action: Action) -> None:
        verb, job, machines, gpu = action
        self._ask_engine(replay.ANSWER, verb, job, np.asarray(machines, np.int64), gpu)
        if self._status == events.ILLEGAL:
            self._status = events.DECIDE
            decode(self.snapshot, action)
            raise ActionError(f"{action} is refused at {self.snapshot.now_ms} ms; see problem.decode")
        self._settle()

    def _ask_engine(
        self, task: int, verb: int = 0, job: int = 0, machines: Any = _NO_MACHINES, gpu: int = 0
    ) -> None:
        if WITHOUT_COMPILER:
            with np.errstate(over="ignore"):
                self._status = replay.ask_engine(self._row, task, verb, job, machines, gpu)
        else:
            self._status = replay.ask_engine(self._row, task, verb, job, machines, gpu)

    def ask_when_something_happens(self) -> None:
        """No more questions, until the next `reset`, only because time has gone by."""
        self._running_state.scalar[HEARTBEAT] = NEVER

    def play(self, rule: Rule) -> None:
        """Let a rule answer all questions that are left, inside compiled code."""
        check_information(rule, self.cluster)
        function = _player(rule.order, rule.placement, rule.discipline)
        # A rule whose answer time alone cannot change need not be asked again before something happens.
        self._running_state.scalar[HEARTBEAT] = self.tables.heartbeat_ms if rule.timed else NEVER
        while not self.ended:
            try:
                with np.errstate(over="ignore"):
                    self._status = function(self._row, self._status, rule.table)
            except NumbaError as problem:
                reason = str(problem).strip().splitlines()[0]
                raise TrimtabError(
                    f"rule {rule.name!r} cannot be compiled ({reason}); use loops, numbers and arrays only, "
                    "or give simulate() an object with decide()"
                ) from problem
            if self._status == events.ILLEGAL:
                raise ActionError(
                    f"{rule.name}: an action that may not be done at {self._running_state.scalar[NOW]} ms; "
                    "step through with Simulator.step to see which"
                )
            self._settle()
        self._take_reward()

    def play_in_python(self, decide: Callable[[Snapshot], Action]) -> None:
        """Let a Python function answer all questions that are left."""
        while self._status == events.DECIDE:
            self._answer(decide(self.snapshot))
        self._take_reward()

    def episode(self, policy: str) -> Episode:
        """The record of the finished episode."""
        if self._status != events.FINISHED or self._workload is None:
            raise TrimtabError("the episode has not finished; step on until `ended`")
        state, workload, machines = self._running_state, self._workload, self.cluster.machine_table
        results = state.results
        return Episode(
            policy=policy,
            seed=self._seed,
            machine_names=machines.names,
            machine_gpus=machines.gpus,
            gpus=workload.gpus,
            arrival_ms=workload.arrival_ms,
            first_start_ms=results["first_start_ms"].copy(),
            completion_ms=results["completion_ms"].copy(),
            duration_ms=workload.duration_ms,
            alone_ms=alone_ms(workload, self.cluster),
            run_ms=results["run_ms"].copy(),
            fee=results["fee"].copy(),
            preemptions=results["preemptions"].copy(),
            busy_gpu_ms=int(state.scalar[BUSY]) / 1000.0,
            stranded_gpu_ms=int(state.scalar[STRANDED]) / 1000.0,
            reward=self._reward,
            decisions=int(state.scalar[DECISIONS]),
            events=int(state.scalar[EVENTS]),
            runs=_run_log(state) if self._record_runs else None,
        )

    def _settle(self) -> None:
        """Make room for more jobs or more of the log, and go on."""
        while self._status in (events.NEED_SLOTS, events.NEED_LOG):
            state = self._running_state
            self._state = grow(state) if self._status == events.NEED_SLOTS else grow_log(state)
            self._row = replay.row_of(self._state, self.tables)
            self._views = None
            self._ask_engine(replay.GO_ON)

    def _take_reward(self) -> int:
        """Minus the cost since the last call."""
        scalar = self._running_state.scalar
        reward = -int(scalar[COST])
        scalar[COST] = 0
        self._reward += reward
        return reward


def simulate(
    workload: Workload, policy: Any, cluster: Cluster, *, seed: int = 0, record_runs: bool = False
) -> Episode:
    """Play one workload under one policy to the end.

    Rules run compiled; any other object with `name` and `decide(snapshot) -> Action` is asked in Python. One
    with `timed = False` is not asked again before something happens: time alone does not change its answer.

    >>> from trimtab.gpu_scheduling import Cluster, make_policy, make_workload
    >>> jobs = make_workload([0, 5], duration_ms=[60_000, 30_000], gpus=[4, 2])
    >>> episode = simulate(jobs, make_policy("fifo"), Cluster())
    >>> bool(episode.reward == -episode.jct_ms.sum())
    True
    """
    check_policy(policy)
    limit_ms = _long_enough_ms(workload, cluster)
    simulator = Simulator(cluster, time_limit_ms=limit_ms, record_runs=record_runs)
    simulator.reset(workload, seed)
    if isinstance(policy, Rule):
        simulator.play(policy)
    else:
        check_information(policy, cluster)
        if not getattr(policy, "timed", True):
            simulator.ask_when_something_happens()
        simulator.play_in_python(policy.decide)
    if simulator.truncated:
        raise NeverEnds(
            f"{policy.name}, seed {seed}: jobs are not done after {limit_ms / 3_600_000:,.0f} hours, enough "
            "for each to run alone; they displace each other for ever (a longer min_run_s helps), or are "
            "never started"
        )
    return simulator.episode(policy.name)


def _long_enough_ms(workload: Workload, cluster: Cluster) -> int:
    """By when all jobs would be done one after the other, on the slowest machine and with many pauses.

    After the last arrival; contention and spread are the worst there can be, noise and drift at four times
    their deviations, and that time is doubled. Each job may wait a hundred times for the next question, and
    lose a checkpoint as often.
    """
    slowest = nominal_speeds(workload, cluster.machine_table).min() * np.exp(
        -4 * (cluster.noise + cluster.drift)
    )
    crowd = 1 + cluster.contention * workload.sensitivity.max() ** 2
    spread = 1 + cluster.communication * workload.communication.max() * (1 + cluster.across_racks)
    at_work_ms = 2 * workload.duration_ms.sum(dtype=np.float64) * crowd * spread / slowest
    pause_s = cluster.heartbeat_s + cluster.round_s + max(cluster.checkpoint_s, cluster.large_checkpoint_s)
    pauses_ms = 100_000.0 * pause_s * workload.job_count
    return int(min(workload.arrival_ms[-1] + at_work_ms + pauses_ms, float(NEVER)))


def check_information(policy: Any, cluster: Cluster) -> None:
    """Refuse a policy that needs to know how long jobs take, where nobody does."""
    if getattr(policy, "needs_durations", False) and cluster.information == "none":
        raise TrimtabError(
            f"policy {policy.name!r} needs durations, and this cluster tells none; "
            "set information = predicted or oracle, or choose a policy that needs none"
        )


def _run_log(state: State) -> RunLog:
    log = state.log[: state.scalar[LOGGED]]
    return RunLog(
        job=log["job"].copy(),
        machine=log["machine"].copy(),
        gpu_mask=log["gpu_mask"].copy(),
        milli=log["milli"].copy(),
        start_ms=log["start_ms"].copy(),
        end_ms=log["end_ms"].copy(),
        completed=log["completed"] == 1,
    )


def is_compiled(rule: Rule) -> bool:
    """Whether this version of the engine was compiled with the parts of a rule in this folder before."""
    return is_kept(_player(rule.order, rule.placement, rule.discipline))


def _label(*parts: Any) -> str:
    return "_".join(f"{part.__name__}_{fingerprint(part)}" for part in parts)


@cache
def _player(order: Any, placement: Any, discipline: Any) -> Any:
    parts = (order, placement, discipline)
    label = _label(*parts)
    cached = all(is_importable(part) for part in parts)
    replacements = {"priority": compiled(order), "place": compiled(placement)}
    rule = specialise(discipline, replacements, label, cached=cached)
    return called_from_python(specialise(replay.play, {"decide": rule}, label, cached=cached))


def _callable_twin(function: Any) -> Any:
    # A twin of its own: what other compiled code calls has no door for Python.
    return called_from_python(specialise(function, {}, f"from_python_{fingerprint(function)}"))


look_ahead.compile_by(_callable_twin)
