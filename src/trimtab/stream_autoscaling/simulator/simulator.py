"""Many streaming jobs side by side, one interval at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from trimtab.core.errors import ActionError, WorkloadError
from trimtab.core.policy import check_policy
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.job import Job, Vertex, enough_parallelism, graph_of
from trimtab.stream_autoscaling.problem import (
    Flags,
    Floats,
    Graph,
    Integers,
    Samples,
    Snapshot,
    StreamPolicy,
    allowed,
    slots_taken,
)
from trimtab.stream_autoscaling.simulator.state import (
    NEVER,
    History,
    Record,
    State,
    new_history,
    settings_of,
)
from trimtab.stream_autoscaling.simulator.stepping import settle, step_many
from trimtab.stream_autoscaling.simulator.tables import (
    first_hour_rate,
    fit_into_slots,
    lay_out,
    room_for,
)
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

__all__ = ["Foreknowing", "Outcome", "StreamSimulator", "checked_start", "compile_engine", "simulate"]
__all__ += ["simulate_batch"]


class Outcome(NamedTuple):
    """What one interval was in truth; by environment. One whose trace was over before it has zeros."""

    rewards: Floats  # [E]
    latency_s: Floats  # [E]: mean of the records that reached sinks; the oldest record's age if none did
    violated: Flags  # [E]: that is above the limit
    rescaled: Flags  # [E]: a restart began
    slots: Integers  # [E]: at the end
    ended: Flags  # [E]: the trace is over


class StreamSimulator:
    """One job, trace and seed per environment; all step together. Nothing resets by itself.

    An environment whose trace is over stands still until it is reset. Without `parallelism` jobs begin
    with enough for the first hour of their trace (`enough_parallelism`).

    >>> from trimtab.stream_autoscaling.job import Edge, Vertex
    >>> from trimtab.stream_autoscaling.workload.traces import Provenance
    >>> job = Job(
    ...     "two", (Vertex(name="read", service_ms=0.1), Vertex(name="count", service_ms=2)), (Edge(0, 1),)
    ... )
    >>> trace = RateTrace(np.full(10, 1000.0), step_s=60, provenance=Provenance("flat"))
    >>> simulator = StreamSimulator([job], [trace], Deployment(), seeds=[1])
    >>> outcome = simulator.step(simulator.snapshot().parallelism)
    >>> bool(outcome.latency_s[0] < 0.2), outcome.slots.tolist()
    (True, [3])
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        traces: Sequence[RateTrace],
        deployment: Deployment | None = None,
        *,
        seeds: Sequence[int],
        parallelism: Integers | None = None,
        recording: bool = False,
    ) -> None:
        if not len(jobs) == len(traces) == len(seeds) or not jobs:
            raise WorkloadError(
                f"{len(jobs)} jobs, {len(traces)} traces and {len(seeds)} seeds; "
                "give one of each per environment"
            )
        self.size = len(jobs)
        self.jobs = list(jobs)
        self.deployment = deployment if deployment is not None else Deployment()
        self.graph: Graph = graph_of(jobs)
        self._alone = {id(job): graph_of([job]) for job in jobs}
        self._traces = list(traces)
        self._seeds = [int(seed) for seed in seeds]
        self._settings = settings_of(self.deployment)
        self._state = room_for(jobs, traces)
        vertices = self.graph.exists.shape[1]
        self._history = new_history(self.size, length=self.deployment.history, vertices=vertices)
        self._steps = 0
        self._recording = recording
        self._lived: list[dict[str, np.ndarray]] = []
        self._lived_from = 0
        self._began = np.zeros(self.size, np.int64)
        self.reset(parallelism=parallelism)

    @property
    def traces(self) -> tuple[RateTrace, ...]:
        """What arrives, by environment."""
        return tuple(self._traces)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self._seeds)

    @property
    def ended(self) -> Flags:
        """Which traces are over, [E]."""
        run = self._run
        return run["interval"] >= run["intervals"]

    @property
    def state(self) -> State:
        """The engine's own arrays, for tests, drawings and compiled code; no policy may look there."""
        return self._state

    @property
    def history(self) -> History:
        """The engine's ring of samples."""
        return self._history

    @property
    def settings(self) -> Record:
        """The deployment as the engine reads it."""
        return self._settings

    def reset(
        self,
        chosen: Flags | None = None,
        *,
        traces: Sequence[RateTrace] | None = None,
        seeds: Sequence[int] | None = None,
        parallelism: Integers | None = None,
    ) -> None:
        """Begin anew in the chosen environments (all, if not said).

        New traces, seeds and parallelism [E, V], where given, have an entry for every environment; those of
        environments that are not chosen are not looked at.
        """
        rows = np.arange(self.size) if chosen is None else np.flatnonzero(chosen)
        for name, given in (("traces", traces), ("seeds", seeds)):
            if given is not None and len(given) != self.size:
                raise WorkloadError(f"{len(given)} {name} for {self.size} environments; give one each")
        parallelism = None if parallelism is None else checked_start(parallelism, self.graph)
        for row in rows.tolist():
            if traces is not None:
                self._traces[row] = traces[row]
            if seeds is not None:
                self._seeds[row] = int(seeds[row])
        self._make_room_for_traces()
        for row in rows.tolist():
            self._begin(row, None if parallelism is None else parallelism[row])
        length, vertices = self.deployment.history, self.graph.exists.shape[1]
        for field, nothing in zip(
            self._history, new_history(1, length=length, vertices=vertices), strict=True
        ):
            field[rows] = nothing
        self._began[rows] = self._steps
        if len(rows) == self.size:
            self._lived.clear()
            self._steps = self._lived_from = 0
            self._began[:] = 0
        # What belongs to no episode any more is forgotten, or memory would grow with every one.
        first = int(self._began.min())
        del self._lived[: first - self._lived_from]
        self._lived_from = first

    def copied(self, rows: Integers) -> StreamSimulator:
        """Some environments, each with everything it has lived through, to go another way with; unrecorded.

        A row may be named twice. The copies share nothing with this simulator.
        """
        copy = StreamSimulator.__new__(StreamSimulator)
        copy.size = len(rows)
        copy.deployment = self.deployment
        copy.jobs = [self.jobs[row] for row in rows]
        copy.graph = Graph._make(field[rows] for field in self.graph)
        copy._alone, copy._settings = self._alone, self._settings
        copy._traces = [self._traces[row] for row in rows]
        copy._seeds = [self._seeds[row] for row in rows]
        copy._state = State._make(field[rows] for field in self._state)
        copy._history = type(self._history)._make(field[rows] for field in self._history)
        copy._steps, copy._began = self._steps, self._began[rows]
        copy._recording, copy._lived, copy._lived_from = False, [], 0
        return copy

    def snapshot(self) -> Snapshot:
        """What may be known now. Samples are views: valid until the next step."""
        run = self._run
        length = self.deployment.history
        # Steps k-L .. k-1 lie at k % L .. k % L + L - 1 of the doubled ring.
        since = self._steps % length
        window = slice(since, since + length)
        now_ms = run["now_ms"]
        running = now_ms >= run["down_until_ms"]
        restarted = run["restarted_ms"] != NEVER
        since_restart_s = np.where(restarted, np.maximum(now_ms - run["restarted_ms"], 0) / 1000, np.inf)
        return Snapshot(
            now_s=(run["start_ms"] + now_ms) / 1000,
            interval_s=float(self.deployment.interval_s),
            graph=self.graph,
            parallelism=self._state.vertices["wanted"].copy(),
            rescaling=(run["commanded_ms"] != NEVER) | ~running,
            cooldown_s=np.maximum(self.deployment.cooldown_s - since_restart_s, 0),
            since_rescale_s=since_restart_s,
            since_checkpoint_s=(now_ms - run["completed_ms"]) / 1000,
            downtime_s=run["downtime_s"].copy(),
            slots=np.full(self.size, self.deployment.slots),
            slo_s=self.deployment.objective.slo_s,
            samples=Samples._make(field[:, window] for field in self._history),
        )

    def step(self, wanted: Integers) -> Outcome:
        """Ask for a parallelism, [E, V], as far as `problem.allowed` lets it through; live one interval."""
        asked = np.asarray(wanted)
        if asked.dtype.kind not in "iu":
            raise ActionError(f"parallelism of type {asked.dtype}; give whole numbers")
        done = allowed(self.snapshot(), asked.astype(np.int64))
        over = self.ended
        length = self.deployment.history
        with np.errstate(over="ignore"):  # hashes wrap around; numpy warns of it where nothing is compiled
            step_many(self._state, self._history, self._settings, done, np.int64(self._steps % length))
        self._steps += 1
        outcome = self._outcome(over)
        if self._recording:
            self._record(outcome)
        return outcome

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

    def _outcome(self, over: Flags) -> Outcome:
        run = self._run
        lived = ~over
        latency_s = np.where(lived, run["latency_s"], 0.0)
        return Outcome(
            rewards=np.where(lived, run["reward"], 0.0),
            latency_s=latency_s,
            violated=latency_s > self.deployment.objective.slo_s,
            rescaled=run["rescaled"] & lived,
            slots=run["slots"].astype(np.int64),
            ended=self.ended,
        )

    def _record(self, outcome: Outcome) -> None:
        run, vertices = self._run, self._state.vertices
        interval_s = self.deployment.interval_s
        self._lived.append(
            {
                "arrived": run["arrived"] / interval_s,
                "left": run["left"] / interval_s,
                "latency_s": outcome.latency_s,
                "latency_p95_s": run["latency_p95_s"].copy(),
                "backlog": run["backlog"].copy(),
                "parallelism": vertices["parallelism"].copy(),
                "busy": vertices["busy_s"] / interval_s,
                "slots": outcome.slots,
                "down_s": run["down_s"].copy(),
                "rescaled": outcome.rescaled,
                "rewards": outcome.rewards,
            }
        )

    def _episode(self, policy: str, row: int, columns: dict[str, np.ndarray]) -> Episode:
        job = self.jobs[row]
        first = int(self._began[row]) - self._lived_from
        span = slice(first, first + int(self._run["interval"][row]))
        values = {name: column[row, span] for name, column in columns.items()}
        for name in ("parallelism", "busy"):
            values[name] = values[name][:, : len(job.vertices)]
        return Episode(
            policy=policy,
            job=job.name,
            seed=self._seeds[row],
            vertex_names=tuple(vertex.name for vertex in job.vertices),
            interval_s=float(self.deployment.interval_s),
            start_s=self._traces[row].start_s,
            slo_s=self.deployment.objective.slo_s,
            best_reward=1 - self.deployment.objective.latency_weight,
            **values,
        )

    def _begin(self, row: int, parallelism: Integers | None) -> None:
        job, trace = self.jobs[row], self._traces[row]
        interval_s = self.deployment.interval_s
        if trace.length_s + 1e-6 < interval_s:
            raise WorkloadError(
                f"environment {row}: the trace ({trace.provenance.source}) covers {trace.length_s:g} s, "
                f"less than one interval of {interval_s} s; give a longer one"
            )
        graph = self._alone[id(job)]
        if parallelism is None:
            enough = enough_parallelism(job, first_hour_rate(trace))
            chosen = fit_into_slots(enough[None], graph, self.deployment.slots)[0]
        else:
            chosen = parallelism[: len(job.vertices)]
            _check_start(row, job, graph, chosen, self.deployment.slots)
        one = State._make(field[row] for field in self._state)
        with np.errstate(over="ignore"):
            lay_out(one, job, trace, self.deployment, graph, seed=self._seeds[row], parallelism=chosen)
            settle(self._state, self._settings, np.int64(row))

    def _make_room_for_traces(self) -> None:
        longest = max(len(trace.rates) for trace in self._traces)
        if longest > self._state.rates.shape[1]:
            rates = np.zeros((self.size, longest))
            rates[:, : self._state.rates.shape[1]] = self._state.rates
            self._state = self._state._replace(rates=rates)


def checked_start(parallelism: Integers, graph: Graph) -> Integers:
    """The parallelism that environments are to begin with, [E, V], if it is whole numbers for all of them."""
    start = np.asarray(parallelism)
    if start.shape != graph.exists.shape:
        raise WorkloadError(
            f"begins with parallelism of shape {start.shape}; give {graph.exists.shape}, a number for every "
            "environment and vertex"
        )
    if start.dtype.kind not in "iu":
        raise WorkloadError(f"begins with parallelism of type {start.dtype}; give whole numbers")
    return start.astype(np.int64)


def _check_start(row: int, job: Job, graph: Graph, parallelism: Integers, slots: int) -> None:
    wrong = np.flatnonzero((parallelism < graph.least[0]) | (parallelism > graph.most[0]))
    if wrong.size:
        at = int(wrong[0])
        raise WorkloadError(
            f"environment {row}, job {job.name}: vertex {job.vertices[at].name} begins with parallelism "
            f"{parallelism[at]}; it must be {graph.least[0, at]} to {graph.most[0, at]}"
        )
    taken = int(slots_taken(parallelism[None], graph)[0])
    if slots and taken > slots:
        raise WorkloadError(
            f"environment {row}, job {job.name}: begins with {taken} slots of {slots}; begin with less"
        )


@runtime_checkable
class Foreknowing(Protocol):
    """A policy that is told what will arrive before it begins: what no live one can be."""

    def knowing(self, jobs: Sequence[Job], traces: Sequence[RateTrace]) -> StreamPolicy: ...


def compile_engine() -> None:
    """Live through one interval of a toy, so that the compiled engine lies on disk for everybody."""
    job = Job("toy", (Vertex(name="read", service_ms=1.0),), ())
    trace = RateTrace(np.ones(1), step_s=60, provenance=Provenance("toy"))
    simulator = StreamSimulator([job], [trace], Deployment(history=2), seeds=[0])
    simulator.step(simulator.snapshot().parallelism)


def simulate_batch(
    policy: StreamPolicy,
    jobs: Sequence[Job],
    traces: Sequence[RateTrace],
    deployment: Deployment | None = None,
    *,
    seeds: Sequence[int],
    parallelism: Integers | None = None,
) -> list[Episode]:
    """Play whole episodes, one per (job, trace, seed), all at once."""
    check_policy(policy, "begin")
    told: StreamPolicy = policy.knowing(jobs, traces) if isinstance(policy, Foreknowing) else policy
    simulator = StreamSimulator(
        jobs, traces, deployment, seeds=seeds, parallelism=parallelism, recording=True
    )
    decider = told.begin(simulator.graph)
    while not simulator.ended.all():
        simulator.step(decider.decide(simulator.snapshot()))
    return simulator.episodes(policy.name)


def simulate(
    job: Job, trace: RateTrace, policy: StreamPolicy, deployment: Deployment | None = None, *, seed: int = 0
) -> Episode:
    """Play one episode.

    >>> class Static:
    ...     name = "static"
    ...
    ...     def begin(self, graph):
    ...         return self
    ...
    ...     def decide(self, snapshot):
    ...         return snapshot.parallelism
    >>> job = Job("toy", (Vertex(name="read", service_ms=1.0),), ())
    >>> trace = RateTrace(np.full(60, 500.0), step_s=60, provenance=Provenance("an even hour"))
    >>> episode = simulate(job, trace, Static(), seed=1)  # each record is in read for 1 ms
    >>> episode.metrics()["rescales"], episode.metrics()["violation_share"]
    (0.0, 0.0)
    """
    return simulate_batch(policy, [job], [trace], deployment, seeds=[seed])[0]
