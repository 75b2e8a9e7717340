"""Many services side by side, one interval at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np

from trimtab.core.errors import ActionError, WorkloadError
from trimtab.core.policy import check_policy
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY, Drift
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.problem import (
    Flags,
    Floats,
    Integers,
    PodPolicy,
    Samples,
    Services,
    Snapshot,
    let_through,
    nearest_allowed,
)
from trimtab.pod_autoscaling.rewards import Truth, aware_reward, lagrangian_reward
from trimtab.pod_autoscaling.simulator.drawn import NOTHING_DRAWN, Drawn
from trimtab.pod_autoscaling.simulator.growing import copy_services, with_rows, with_slots
from trimtab.pod_autoscaling.simulator.looking import pods_of, resizing_of
from trimtab.pod_autoscaling.simulator.settings import settings_of, window_s
from trimtab.pod_autoscaling.simulator.state import State, new_state
from trimtab.pod_autoscaling.simulator.stepping import begin_run, step_many
from trimtab.pod_autoscaling.simulator.tables import Trace, lay_out, rates_of, trace_of

__all__ = ["Foreknowing", "Simulator", "compile_engine", "refuse_unplayable", "services_of", "simulate"]
__all__ += ["simulate_batch"]

_FIRST_SLOTS = 512
_HOPELESS = 100.0
"""Work for so many times all the cores there may be is no overload but another unit."""
_FIELDS = len(Samples._fields)


def services_of(applications: Sequence[Application], deployment: Deployment) -> Services:
    """What a policy knows of these services from the start."""
    count = len(applications)
    least = (deployment.least_replicas, deployment.least_cpu, deployment.least_memory_mib)
    most = (deployment.most_replicas, deployment.most_cpu, deployment.most_memory_mib)
    quantum = (1.0, deployment.cpu_quantum, deployment.memory_quantum_mib)
    return Services(
        least=np.tile(np.array(least, np.float64), (count, 1)),
        most=np.tile(np.array(most, np.float64), (count, 1)),
        quantum=np.tile(np.array(quantum), (count, 1)),
        slo_s=np.array([application.slo_s for application in applications]),
        budget=np.full(count, deployment.objective.budget),
    )


class Simulator:
    """One application, trace and seed per environment; all step together. Nothing resets by itself.

    An environment whose trace is over stands still until it is reset. `threads` share the environments among
    them; the numbers do not depend on how many there are. `outcomes`: of so many requests of each environment
    the end is kept, for tests.

    >>> simulator = Simulator([Application(memory_mib=100)], Deployment())
    >>> snapshot = simulator.reset([np.full(60, 40.0)], [1])  # 40 requests/s of 20 ms CPU for a minute
    >>> snapshot, rewards, ended = simulator.step(np.array([[3, 1.0, 256]]))
    >>> snapshot.size.tolist(), int(simulator.truth.failed[0]), ended.tolist()
    ([[3.0, 1.0, 512.0]], 0, [False])
    """

    # While monitoring has not answered yet, `problem.allowed` lets nothing shrink: hence 512 MiB above.

    def __init__(
        self,
        applications: Sequence[Application],
        deployment: Deployment | None = None,
        *,
        threads: int = 1,
        recording: bool = False,
        outcomes: int = 0,
    ) -> None:
        if not applications:
            raise WorkloadError("no application; give one for each environment")
        self.size = len(applications)
        self.deployment = deployment if deployment is not None else Deployment()
        self.applications = list(applications)
        self.services = services_of(applications, self.deployment)
        self.multiplier = np.full(self.size, self.deployment.objective.multiplier)
        self._settings = settings_of(self.deployment)
        self._threads = max(1, min(threads, self.size))
        self._pool: ThreadPoolExecutor | None = None
        self._recording, self._outcomes = recording, outcomes
        self._seeds = np.zeros(self.size, np.int64)
        self._scale_cores = np.ones(self.size)
        self._history = np.zeros((self.size, 2, _FIELDS, self.deployment.history))
        self._newest = 0
        self._lived: list[dict[str, np.ndarray]] = []
        self._began = np.zeros(self.size, np.int64)
        # Besides the replicas there may be as many that drain.
        self._state = new_state(
            self.size,
            rows=2 * self.deployment.most_replicas,
            slots=_FIRST_SLOTS,
            nodes=self.deployment.nodes,
            trace_steps=1,
            drifts=0,
            ring=int(-(-self.deployment.metric_lag_s // window_s(self.deployment))) + 2,
            outcomes=outcomes,
        )

    @property
    def state(self) -> State:
        """The engine's own arrays, for tests and drawings; no policy may look there."""
        return self._state

    @property
    def seeds(self) -> Integers:
        return self._seeds.copy()

    @property
    def ended(self) -> Flags:
        """Which traces are over, [E]."""
        return self._run["interval"] >= self._run["intervals"]

    @property
    def truth(self) -> Truth:
        """What the last interval really was; that of an environment that stood still is its last."""
        work_s = np.array([application.cpu_s for application in self.applications])
        columns = self._state.truth.T.copy()
        needed = columns[1] * work_s * self._run["cpu_factor"] / self.deployment.interval_s
        return Truth(*columns, cores_needed=needed)

    def reset(
        self,
        traces: Sequence[Trace | Floats],
        seeds: Sequence[int] | Integers,
        *,
        drifts: Sequence[Drift] | None = None,
        sizes: Floats | None = None,
        drawn: Drawn | None = None,
    ) -> Snapshot:
        """Begin anew everywhere. Sizes [E, 3], where given, replace those of the deployment's start.

        `drawn` of the same applications and seeds spares what another policy's play has drawn already.
        """
        self._lived.clear()
        snapshot = self.reset_some(np.arange(self.size), traces, seeds, drifts=drifts, sizes=sizes)
        if drawn is not None:
            drawn.check(self.applications, self._seeds)
            self._state = self._state._replace(drawn=drawn.values)
        return snapshot

    def reset_some(
        self,
        which: Flags | Integers,
        traces: Sequence[Trace | Floats],
        seeds: Sequence[int] | Integers,
        *,
        applications: Sequence[Application] | None = None,
        drifts: Sequence[Drift] | None = None,
        sizes: Floats | None = None,
    ) -> Snapshot:
        """Begin anew in some environments: flags [E] or rows. What is given has an entry for each of them."""
        chosen = np.asarray(which)
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        given = {
            "traces": traces, "seeds": seeds, "applications": applications, "drifts": drifts, "sizes": sizes,
        }  # fmt: skip
        for name, values in given.items():
            if values is not None and len(values) != len(rows):
                raise WorkloadError(f"{len(values)} {name} for {len(rows)} environments; give one each")
        if applications is not None:
            for row, application in zip(rows.tolist(), applications, strict=True):
                self.applications[row] = application
                self.services.slo_s[row] = application.slo_s
        whole = [trace_of(trace) for trace in traces]
        changes = list(drifts) if drifts is not None else [STEADY] * len(rows)
        self._make_room(whole, changes)
        self._forget_drawn()
        for at, row in enumerate(rows.tolist()):
            self._seeds[row] = seeds[at]
            self._begin(row, whole[at], changes[at], None if sizes is None else sizes[at])
        self._began[rows] = len(self._lived)
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """What may be known now. Samples are views: valid until the step after the next."""
        run, deployment = self._run, self.deployment
        newest = self._history[:, self._newest]
        size = self._size()
        too_large = (size[:, 1] > deployment.node_cpu) | (size[:, 2] > deployment.node_memory_mib)
        present, complete = newest[:, 0] > 0, newest[:, 1] > 0
        return Snapshot(
            now_s=run["start_s"] + run["second"],
            interval_s=float(deployment.interval_s),
            metric_window_s=float(window_s(deployment)),
            services=self.services,
            size=size,
            ready=run["ready_count"].copy(),
            resizing=resizing_of(self._state),
            infeasible=too_large & (deployment.nodes > 0),
            samples=Samples(present, complete, *np.moveaxis(newest, 1, 0)[2:]),
            pods=pods_of(self._state, deployment),
        )

    def step(self, wanted: Floats) -> tuple[Snapshot, Floats, Flags]:
        """Ask for sizes, [E, 3], as far as `problem.allowed` lets them through; live one interval.

        Returns the snapshot after it, the rewards and which traces are now over.
        """
        newest = self._history[:, self._newest, :, -1]
        known = (newest[:, 0] > 0) & (newest[:, 1] > 0)
        done = let_through(self.services, self._size(), known, np.asarray(wanted, np.float64))
        over = self.ended
        run = self._run
        run["stepped"] = False
        self._newest = 1 - self._newest
        while not run["stepped"].all():
            self._step_all(done)
            if (run["needs_slots"] > 0).any():
                self._state = with_slots(self._state, 2 * self._state.requests.shape[1])
            if (run["needs_rows"] > 0).any():
                self._state = with_rows(self._state, 2 * self._state.pods.shape[1])
            run = self._run
        truth = self.truth
        rewards, aware = self._rewards(truth, over)
        if self._recording:
            self._record(truth, rewards, aware)
        return self.snapshot(), rewards, self.ended

    def copied(self, rows: Integers) -> Simulator:
        """Some environments, each with everything it has lived through, to go another way with; unrecorded.

        A row may be named twice. The copies share nothing with this simulator.
        """
        copy = Simulator([self.applications[row] for row in rows], self.deployment, threads=self._threads)
        copy.load(np.arange(len(rows)), self, rows)
        return copy

    def load(self, rows: Integers, source: Simulator, source_rows: Integers) -> None:
        """Put environments of another simulator of the same deployment (or of this one) into these rows."""
        if source.deployment != self.deployment:
            raise ActionError("environments of another deployment; load from a simulator of the same one")
        if len(rows) != len(source_rows):
            raise ActionError(f"{len(rows)} rows for {len(source_rows)} environments; give one each")
        theirs = source.state
        self._forget_drawn()
        self._make_room_for(theirs.rates.shape[1], theirs.drifts.shape[1])
        if theirs.requests.shape[1] > self._state.requests.shape[1]:
            self._state = with_slots(self._state, theirs.requests.shape[1])
        if theirs.pods.shape[1] > self._state.pods.shape[1]:
            self._state = with_rows(self._state, theirs.pods.shape[1])
        target_rows, source_rows = np.asarray(rows, np.int64), np.asarray(source_rows, np.int64)
        copy_services(self._state, target_rows, theirs, source_rows)
        # Of the two halves of a history only the newest is looked at.
        self._history[target_rows, self._newest] = source._history[source_rows, source._newest]
        for row, other in zip(target_rows.tolist(), source_rows.tolist(), strict=True):
            self.applications[row] = source.applications[other]
            self.services.slo_s[row] = source.services.slo_s[other]
            self.multiplier[row] = source.multiplier[other]
            self._seeds[row], self._scale_cores[row] = source._seeds[other], source._scale_cores[other]

    def episodes(self, policy: str) -> list[Episode]:
        """What every environment has lived through since its reset; needs `recording=True`."""
        if not self._recording:
            raise ActionError("nothing was recorded; create the simulator with recording=True")
        if not self._lived:
            raise ActionError("no interval has been lived through; call step() first")
        columns = {name: np.stack([one[name] for one in self._lived], 1) for name in self._lived[0]}
        return [self._episode(policy, row, columns) for row in range(self.size)]

    @property
    def _run(self) -> np.ndarray:
        return self._state.run[:, 0]

    def _size(self) -> Floats:
        run = self._run
        return np.stack([run["replicas"], run["cpu"], run["memory"]], 1)

    def _step_all(self, wanted: Floats) -> None:
        edges = np.linspace(0, self.size, self._threads + 1).astype(np.int64)

        def live(part: int) -> None:
            with np.errstate(over="ignore"):  # hashes wrap around; numpy warns where nothing is compiled
                step_many(
                    self._state, self._history, self._settings, wanted,
                    np.int64(self._newest), edges[part], edges[part + 1],
                )  # fmt: skip

        if self._threads == 1:
            live(0)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads)
        for _ in self._pool.map(live, range(self._threads)):
            pass

    def _rewards(self, truth: Truth, over: Flags) -> tuple[Floats, Floats]:
        goal = self.deployment.objective
        aware = aware_reward(truth, self.services.slo_s, goal.utilisation_weight)
        chosen = aware
        if goal.reward == "lagrangian":
            chosen = lagrangian_reward(truth, goal, self.multiplier, self._scale_cores)
        return np.where(over, 0.0, chosen), np.where(over, 0.0, aware)

    def _record(self, truth: Truth, rewards: Floats, aware: Floats) -> None:
        lived = truth._asdict() | {"size": self._size(), "rewards": rewards, "rewards_aware": aware}
        del lived["tail_s"]
        self._lived.append(lived)

    def _episode(self, policy: str, row: int, columns: dict[str, np.ndarray]) -> Episode:
        first = int(self._began[row])
        span = slice(first, first + int(self._run["interval"][row]))
        values = {name: column[row, span] for name, column in columns.items()}
        for name in ("arrived", "finished", "late", "failed", "kills"):
            values[name] = values[name].astype(np.int64)
        goal = self.deployment.objective
        return Episode(
            policy=policy,
            application=self.applications[row].name,
            seed=int(self._seeds[row]),
            interval_s=float(self.deployment.interval_s),
            start_s=float(self._run["start_s"][row]),
            slo_s=float(self.services.slo_s[row]),
            budget=goal.budget,
            memory_price=goal.memory_price,
            multiplier=float(self.multiplier[row]),
            **values,
        )

    def _begin(self, row: int, trace: Trace, drift: Drift, size: Floats | None) -> None:
        deployment, application = self.deployment, self.applications[row]
        refuse_unplayable(application, trace, deployment, row)
        start = (deployment.start_replicas, deployment.start_cpu, deployment.start_memory_mib)
        one = Services._make(field[row : row + 1] for field in self.services)
        begin = nearest_allowed(one, np.array([start if size is None else size], np.float64))[0]
        state = State._make(field[row] for field in self._state)
        lay_out(state, application, trace, deployment, drift, seed=int(self._seeds[row]), size=begin)
        self._history[row] = 0
        smallest = deployment.least_replicas * deployment.least_cpu
        self._scale_cores[row] = max(float(trace.rates.mean()) * application.cpu_s, smallest)
        with np.errstate(over="ignore"):
            begin_run(self._state, self._settings, np.int64(row))

    def _forget_drawn(self) -> None:
        """Other services have other luck."""
        self._state = self._state._replace(drawn=np.zeros((self.size, *NOTHING_DRAWN)))

    def _make_room(self, traces: Sequence[Trace], drifts: Sequence[Drift]) -> None:
        steps = max((len(rates_of(trace)[0]) for trace in traces), default=1)
        self._make_room_for(steps, max((len(drift.changes) for drift in drifts), default=0))

    def _make_room_for(self, steps: int, changes: int) -> None:
        if steps > self._state.rates.shape[1]:
            rates = np.zeros((self.size, steps))
            rates[:, : self._state.rates.shape[1]] = self._state.rates
            self._state = self._state._replace(rates=rates)
        if changes > self._state.drifts.shape[1]:
            drifts = np.zeros((self.size, changes, 6))
            drifts[:, : self._state.drifts.shape[1]] = self._state.drifts
            self._state = self._state._replace(drifts=drifts)


def refuse_unplayable(application: Application, trace: Trace, deployment: Deployment, row: int = 0) -> None:
    """Refuse less than one interval, a pod that one request would kill, and rates that cannot be meant."""
    length_s = len(trace.rates) * trace.step_s
    if length_s < deployment.interval_s:
        raise WorkloadError(
            f"environment {row}: the trace covers {length_s:g} s, less than one interval of "
            f"{deployment.interval_s} s; give a longer one"
        )
    needed_mib = application.memory_mib + application.memory_per_request_mib
    largest = "most_memory_mib"
    if deployment.nodes and deployment.node_memory_mib < deployment.most_memory_mib:
        largest = "node_memory_mib"
    if needed_mib > getattr(deployment, largest):
        raise WorkloadError(
            f"application {application.name}: a pod with one request needs {needed_mib:g} MiB, but the "
            f"deployment has {largest} = {getattr(deployment, largest):g}; raise that, or lower memory_mib"
        )
    rate, most_cores = float(np.mean(trace.rates)), deployment.most_replicas * deployment.most_cpu
    needed_cores = rate * application.cpu_s
    if needed_cores > _HOPELESS * most_cores:
        raise WorkloadError(
            f"environment {row}: {rate:,.0f} requests per second are work for {needed_cores:,.0f} cores, "
            f"{most_cores:g} are the most allowed; are these requests per second? scale them (--mean-rate), "
            "or raise most_replicas"
        )


@runtime_checkable
class Foreknowing(Protocol):
    """A policy that is told everything before it begins: what no live one can be."""

    def knowing(
        self, applications: Sequence[Application], traces: Sequence[Trace], deployment: Deployment
    ) -> PodPolicy: ...


def compile_engine() -> None:
    """Live through one interval of a toy, so that the compiled engine lies on disk for everybody."""
    simulator = Simulator([Application()], Deployment(history=4, interval_s=1))
    snapshot = simulator.reset([np.ones(2)], [0])
    simulator.copied(np.array([0])).step(snapshot.size)


def simulate_batch(
    policy: PodPolicy,
    applications: Sequence[Application],
    traces: Sequence[Trace | Floats],
    deployment: Deployment | None = None,
    *,
    seeds: Sequence[int],
    drifts: Sequence[Drift] | None = None,
    sizes: Floats | None = None,
    threads: int = 1,
    drawn: Drawn | None = None,
) -> list[Episode]:
    """Play whole episodes, one per (application, trace, seed), all at once.

    Several policies that play the same save time if they are given one `Drawn`; the numbers are the same.
    """
    check_policy(policy, "begin")
    simulator = Simulator(applications, deployment, threads=threads, recording=True)
    snapshot = simulator.reset(traces, seeds, drifts=drifts, sizes=sizes, drawn=drawn)
    told: PodPolicy = policy
    if isinstance(policy, Foreknowing):
        whole = [trace_of(trace) for trace in traces]
        told = policy.knowing(applications, whole, simulator.deployment)
    decider = told.begin(simulator.services)
    while not simulator.ended.all():
        snapshot, _, _ = simulator.step(decider.decide(snapshot))
    return simulator.episodes(policy.name)


def simulate(
    application: Application,
    trace: Trace | Floats,
    policy: PodPolicy,
    deployment: Deployment | None = None,
    *,
    seed: int = 0,
) -> Episode:
    """Play one episode.

    >>> class Static:
    ...     name = "static"
    ...
    ...     def begin(self, services):
    ...         return self
    ...
    ...     def decide(self, snapshot):
    ...         return snapshot.size
    >>> episode = simulate(Application(), np.full(120, 30.0), Static(), seed=1)  # 0.6 cores of 2 are needed
    >>> bool(0.2 < episode.metrics()["cpu_utilisation"] < 0.4), episode.metrics()["failed_share"]
    (True, 0.0)
    """
    return simulate_batch(policy, [application], [trace], deployment, seeds=[seed])[0]
