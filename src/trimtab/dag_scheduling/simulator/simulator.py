"""The engine's Python face: one environment to step through, and whole episodes at full speed."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from trimtab.core.environment import Transition
from trimtab.core.errors import ActionError, TrimtabError, WorkloadError
from trimtab.core.policy import check_policy
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.episode import Episode, TaskLog
from trimtab.dag_scheduling.heuristics import Rule, fifo
from trimtab.dag_scheduling.problem import Action, Snapshot, decode
from trimtab.dag_scheduling.simulator import events, replay
from trimtab.dag_scheduling.simulator.compiling import (
    compiled,
    fingerprint,
    is_importable,
    is_kept,
    specialise,
)
from trimtab.dag_scheduling.simulator.state import (
    BUSY,
    BUSY_EXECUTORS,
    COST,
    DECISIONS,
    EVENTS,
    LAST_DECISION,
    LOGGED,
    MOVING,
    NEXT_ARRIVAL,
    NOW,
    State,
    grow,
    new_state,
)
from trimtab.dag_scheduling.simulator.tables import Tables, make_tables
from trimtab.dag_scheduling.workload import Profile, Provenance, Workload

__all__ = ["Simulator", "episode_of", "is_compiled", "simulate", "tables_for", "why_stuck"]

NO_LIMIT_MS = 1 << 60
FIRST_SLOTS = 32
"""Jobs a new window has room for; it doubles whenever more are in the system at once."""


class Simulator:
    """One environment: reset it with a workload, then answer its questions.

    >>> from trimtab.dag_scheduling import Cluster, make_policy, tiny_workload
    >>> simulator = Simulator(Cluster(executors=4))
    >>> snapshot = simulator.reset(tiny_workload("diamond"), seed=0)
    >>> fair = make_policy("fair")
    >>> while not simulator.ended:
    ...     transition = simulator.step(fair.decide(simulator.snapshot))
    >>> int(transition.reward) < 0
    True
    """

    def __init__(
        self, cluster: Cluster, *, time_limit_ms: int | None = None, record_tasks: bool = False
    ) -> None:
        self.cluster = cluster
        self._time_limit_ms = NO_LIMIT_MS if time_limit_ms is None else time_limit_ms
        self._record_tasks = record_tasks
        self._state: State | None = None
        self._tables: Tables | None = None
        self._status = events.FINISHED
        self._reward = 0

    def reset(self, workload: Workload, seed: int) -> Snapshot:
        """Begin an episode; returns the first question."""
        tables = tables_for(workload.profile, self.cluster)
        logged = workload.task_count if self._record_tasks else 0
        reusable = (
            self._state is not None
            and self._tables is tables
            and len(self._state.jobs) == workload.job_count
            and len(self._state.log) == logged
        )
        if not reusable:
            slots = min(FIRST_SLOTS, workload.job_count)
            self._state = new_state(tables, slots=slots, jobs=workload.job_count, logged_tasks=logged)
        self._tables, self._workload, self._seed = tables, workload, seed
        self._reward = 0
        state = self._running_state
        state.jobs["template"][:] = workload.template
        state.jobs["arrival_ms"][:] = workload.arrival_ms
        with np.errstate(over="ignore"):
            events.reset(state, tables, seed, self._time_limit_ms)
            self._status = events.advance(state, tables)
        self._settle()
        self._take_reward()
        state.scalar[LAST_DECISION] = state.scalar[NOW]
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
        return replay.look_from_python(self._running_state, self.tables)

    @property
    def events(self) -> int:
        """Events so far: ends of tasks, arrivals of executors and jobs."""
        return int(self._running_state.scalar[EVENTS])

    @property
    def slot_count(self) -> int:
        """Jobs the window has room for; it grows with the jobs in the system at once, not with the trace."""
        return len(self._running_state.slots)

    @property
    def memory_bytes(self) -> int:
        """Memory of the running environment, without what each job of the workload leaves behind."""
        state = self._running_state
        return sum(part.nbytes for part in state) - state.jobs.nbytes - state.log.nbytes

    @property
    def ended(self) -> bool:
        return self._status in (events.FINISHED, events.TRUNCATED)

    def step(self, action: Action) -> Transition[Snapshot]:
        """Answer the present question; runs to the next one. Actions outside the mask are refused."""
        state = self._running_state
        if self.ended:
            raise ActionError("the episode has ended; call reset(workload, seed) to begin another")
        decode(self.snapshot, action)
        # Plain integers: compiled code would be compiled anew for every other kind of number.
        stage, limit, executor_class = (int(part) for part in action)
        with np.errstate(over="ignore"):
            self._status = replay.step(state, self._tables, stage, limit, executor_class)
        self._settle()
        now = int(state.scalar[NOW])
        elapsed_ms = now - int(state.scalar[LAST_DECISION])
        state.scalar[LAST_DECISION] = now
        return Transition(
            snapshot=self.snapshot,
            reward=self._take_reward(),
            terminated=self._status == events.FINISHED,
            truncated=self._status == events.TRUNCATED,
            elapsed_ms=elapsed_ms,
        )

    def play(self, rule: Rule) -> None:
        """Let a rule answer all questions that are left, inside compiled code."""
        function = _player(rule.function)
        parameters = np.array(rule.values, np.float64)
        while not self.ended:
            try:
                with np.errstate(over="ignore"):
                    self._status = function(self._running_state, self._tables, self._status, parameters)
            except NumbaError as problem:
                reason = str(problem).strip().splitlines()[0]
                raise TrimtabError(
                    f"rule {rule.name!r} cannot be compiled ({reason}); use loops, numbers and arrays only, "
                    "or give simulate() an object with decide()"
                ) from problem
            self._settle(rule.name)
        self._take_reward()

    def episode(self, policy: str) -> Episode:
        """The record of the finished episode."""
        if self._status != events.FINISHED:
            raise TrimtabError("the episode has not finished; step on until `ended`")
        return episode_of(
            self._running_state,
            self._workload,
            self.cluster,
            policy=policy,
            seed=self._seed,
            reward=self._reward,
            tasks=_task_log(self._running_state) if self._record_tasks else None,
        )

    def _settle(self, policy: str = "the policy") -> None:
        """Make room for more jobs, or say why the episode cannot go on."""
        tables = self.tables
        while self._status == events.NEED_SLOTS:
            self._state = grow(self._running_state, tables)
            with np.errstate(over="ignore"):
                self._status = events.advance(self._state, tables)
        if self._status == replay.ILLEGAL:
            raise ActionError(
                f"{policy}: an action outside the mask at {self._running_state.scalar[NOW]} ms; step "
                "through with Simulator.step to see which"
            )
        if self._status == events.STUCK:
            raise why_stuck(self._running_state, self._workload, policy)

    def _take_reward(self) -> int:
        """Minus the cost since the last call."""
        scalar = self._running_state.scalar
        reward = -int(scalar[COST])
        scalar[COST] = 0
        self._reward += reward
        return reward


def simulate(
    workload: Workload, policy: Any, cluster: Cluster, *, seed: int = 0, record_tasks: bool = False
) -> Episode:
    """Play one workload under one policy to the end.

    Rules run compiled; any other object with `name` and `decide(snapshot) -> Action` is asked in Python.

    >>> from trimtab.dag_scheduling import Cluster, make_policy, tiny_workload
    >>> episode = simulate(tiny_workload("diamond"), make_policy("fair"), Cluster(executors=4))
    >>> bool(episode.reward == -episode.jct_ms.sum())
    True
    """
    check_policy(policy)
    simulator = Simulator(cluster, record_tasks=record_tasks)
    snapshot = simulator.reset(workload, seed)
    if isinstance(policy, Rule):
        simulator.play(policy)
    else:
        while not simulator.ended:
            snapshot = simulator.step(policy.decide(snapshot)).snapshot
    return simulator.episode(policy.name)


def why_stuck(state: State, workload: Workload, policy: str) -> TrimtabError:
    """Nothing more will happen: the policy left everybody idle, or the clock of the engine ends before."""
    if state.scalar[BUSY_EXECUTORS] > 0 or state.scalar[NEXT_ARRIVAL] < workload.job_count:
        return WorkloadError(
            f"{workload.provenance.source}: its jobs arrive or run later than {events.NO_MOMENT} ms "
            f"({events.NO_MOMENT // 86_400_000} days) after time 0, where simulated time ends; take fewer "
            "jobs, or let Workload.between begin them at 0"
        )
    return ActionError(f"{policy}: all executors are idle while jobs wait; choose a stage instead")


def episode_of(
    state: State,
    workload: Workload,
    cluster: Cluster,
    *,
    policy: str,
    seed: int,
    reward: int,
    tasks: TaskLog | None = None,
) -> Episode:
    """The record of an environment that has finished."""
    names = workload.profile.names
    jobs = state.jobs[: workload.job_count]
    return Episode(
        policy=policy,
        seed=seed,
        executor_count=cluster.executors,
        job_names=tuple(names[kind] for kind in workload.template),
        arrival_ms=workload.arrival_ms,
        first_start_ms=jobs["first_start_ms"].copy(),
        completion_ms=jobs["completion_ms"].copy(),
        alone_ms=_alone_ms(workload, cluster),
        busy_ms=int(state.scalar[BUSY]),
        moving_ms=int(state.scalar[MOVING]),
        reward=reward,
        decisions=int(state.scalar[DECISIONS]),
        events=int(state.scalar[EVENTS]),
        tasks=tasks,
    )


def _task_log(state: State) -> TaskLog:
    log = state.log[: state.scalar[LOGGED]]
    return TaskLog(
        job=log["job"].copy(),
        stage=log["stage"].copy(),
        executor=log["executor"].copy(),
        start_ms=log["start_ms"].copy(),
        end_ms=log["start_ms"] + log["duration_ms"],
        wave=log["wave"].astype(np.int8),
    )


def tables_for(profile: Profile, cluster: Cluster) -> Tables:
    """The tables of a profile on a cluster, made once."""
    return _cached_tables(profile, cluster)  # pyright: ignore[reportArgumentType]  # frozen, so hashable


_cached_tables = lru_cache(maxsize=8)(make_tables)


def is_compiled(rule: Rule) -> bool:
    """Whether this version of the engine was compiled with the function of a rule in this folder before."""
    return is_kept(_player(rule.function))


@cache
def _player(function: Any) -> Any:
    rule = compiled(function)
    label = f"{function.__name__}_{fingerprint(function)}"
    return specialise(replay.play, {"decide": rule}, label, cached=is_importable(function))


def _alone_ms(workload: Workload, cluster: Cluster) -> NDArray[np.int64]:
    """How long each job takes alone on the cluster, taking all it can (FIFO), for slowdowns."""
    times = np.zeros(workload.profile.template_count, np.int64)
    for kind in np.unique(workload.template):
        times[kind] = _kind_alone_ms(workload.profile, cluster, int(kind))  # pyright: ignore[reportArgumentType]
    return times[workload.template]


@lru_cache(maxsize=100_000)
def _kind_alone_ms(profile: Profile, cluster: Cluster, kind: int) -> int:
    single = Workload(profile, np.array([kind]), np.zeros(1, np.int64), Provenance("one job alone"))
    simulator = Simulator(cluster)
    simulator.reset(single, seed=0)
    simulator.play(Rule("fifo", fifo))
    return int(simulator._running_state.jobs["completion_ms"][0])
