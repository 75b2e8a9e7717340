"""The rules of the published simulator of SURE (IJCAI 2022), for its table; clock in minutes.

Each minute one batch of records arrives; a decision is made every hour; any change restarts all tasks for one
minute and what they were at is done again. Selectivities, buffers, windows, state and key groups do not exist
here. Corrected against the published code (numbers of research/sure.md, section 3): latency is not divided by
the size of the batch (5), an unchanged parallelism restarts nothing (6), what a policy sees is the last hour
and not all history (7), queues are first in, first out (9); 8 concerns features only. Wherever a minute lets
no batch out, the age of the oldest one inside counts instead of a constant. A task works on one batch at a
time, which is the same as the published sharing out to free instances as long as a batch has at least as
many records as there are instances.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError, WorkloadError
from trimtab.core.settings import Field, Settings
from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.job import Job, graph_of
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Samples, Snapshot, allowed
from trimtab.stream_autoscaling.simulator.batches import Batches, step_all
from trimtab.stream_autoscaling.simulator.simulator import Outcome, checked_start
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["MINUTE_S", "PaperRules", "PaperSimulator", "paper_graph"]

FIRST_RING = 256
MINUTE_S = 60.0


class PaperRules(Settings):
    """Numbers of the published environment.

    >>> PaperRules().most
    10
    """

    span_min: int = Field(default=60, ge=2, le=1440, description="Minutes between decisions, and of history.")
    start: int = Field(default=5, ge=1, le=1000, description="Parallelism of every task to begin with.")
    most: int = Field(default=10, ge=1, le=1000, description="Most parallelism of a task.")
    total: int = Field(default=200, ge=1, le=100_000, description="Most parallelism of all tasks together.")
    restart_min: float = Field(default=1.0, ge=0, le=60, description="Minutes that a restart takes.")
    latency_weight: float = Field(default=0.7, ge=0, le=1, description="Weight of latency, lambda.")
    slo_s: float = Field(default=300.0, gt=0, description="For reports only: the paper has no limit.")


def paper_graph(jobs: Sequence[Job], rules: PaperRules) -> Graph:
    """Jobs as these rules see them: each task counts its own slots, from 1 to `most`; nothing is keyed.

    Every task works on every record once, whatever its parents: selectivities are such that what reaches a
    task over all its edges is one record for each that arrives at the job.
    """
    graph = graph_of(jobs)
    ones = graph.exists.astype(np.int64)
    numbered = np.tile(np.arange(graph.exists.shape[1]), (len(jobs), 1)) * ones
    edges = (graph.selectivity > 0).astype(np.float64)
    return graph._replace(
        selectivity=edges / np.maximum(edges.sum(1, keepdims=True), 1),
        least=ones,
        most=ones * rules.most,
        key_groups=0 * ones,
        slot_group=numbered,
    )


class PaperSimulator:
    """As `StreamSimulator`, under the published rules; samples of a snapshot are minutes, not intervals.

    `pending` is what waits before each task, not only before sources; there is no backpressure. A reward is
    -lambda x latency in minutes + (1 - lambda) x utilisation; `components` gives the two apart, so that each
    can be brought to its own scale.

    >>> from trimtab.stream_autoscaling.job import Edge, Vertex
    >>> from trimtab.stream_autoscaling.workload.traces import Provenance
    >>> job = Job("two", (Vertex(name="a", service_ms=600), Vertex(name="b", service_ms=600)), (Edge(0, 1),))
    >>> trace = RateTrace(np.full(120, 1.0), step_s=60, provenance=Provenance("flat"))
    >>> simulator = PaperSimulator([job], [trace], seeds=[0])
    >>> outcome = simulator.step(simulator.snapshot().parallelism)
    >>> outcome.latency_s.round(6).tolist()  # 60 records, 12 for each of 5 instances: 7.2 s, twice
    [14.4]
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        traces: Sequence[RateTrace],
        rules: PaperRules | None = None,
        *,
        seeds: Sequence[int],
        parallelism: Integers | None = None,
    ) -> None:
        if not len(jobs) == len(traces) == len(seeds) or not jobs:
            raise WorkloadError(
                f"{len(jobs)} jobs, {len(traces)} traces and {len(seeds)} seeds; "
                "give one of each per environment"
            )
        self.size = len(jobs)
        self.jobs, self.rules = list(jobs), rules if rules is not None else PaperRules()
        self.graph = paper_graph(jobs, self.rules)
        self._seeds = [int(seed) for seed in seeds]
        self._traces = list(traces)
        self._intervals = np.zeros(self.size, np.int64)
        self._steps = np.zeros(self.size, np.int64)
        self._batches = _room_for(self.jobs, self.rules, self._longest())
        self._lived: list[dict[str, np.ndarray]] = []
        self._latency_min, self._utilisation = np.zeros(self.size), np.zeros(self.size)
        self._since_restart_min = np.full(self.size, np.inf)
        self.reset(parallelism=parallelism)

    @property
    def ended(self) -> Flags:
        """Which traces are over, [E]."""
        return self._steps >= self._intervals

    @property
    def components(self) -> tuple[Floats, Floats]:
        """Mean latency in minutes and mean utilisation of the last interval, [E] each."""
        return self._latency_min.copy(), self._utilisation.copy()

    def reset(
        self,
        *,
        traces: Sequence[RateTrace] | None = None,
        seeds: Sequence[int] | None = None,
        parallelism: Integers | None = None,
    ) -> None:
        """Begin anew in all environments. Seeds only name the episodes: nothing here is left to chance."""
        for name, given in (("traces", traces), ("seeds", seeds)):
            if given is not None and len(given) != self.size:
                raise WorkloadError(f"{len(given)} {name} for {self.size} environments; give one each")
        self._traces = self._traces if traces is None else list(traces)
        self._seeds = self._seeds if seeds is None else [int(seed) for seed in seeds]
        self._batches = _room_for(self.jobs, self.rules, self._longest())
        for row, trace in enumerate(self._traces):
            sizes = _batch_sizes(trace)
            if len(sizes) < self.rules.span_min:
                raise WorkloadError(
                    f"environment {row}: the trace ({trace.provenance.source}) covers {len(sizes)} minutes, "
                    f"less than one interval of {self.rules.span_min}; give a longer one"
                )
            self._batches.sizes[row, : len(sizes)] = sizes
            self._intervals[row] = len(sizes) // self.rules.span_min
        if parallelism is None:
            start = np.where(self.graph.exists, self.rules.start, 0)
        else:
            start = checked_start(parallelism, self.graph)
        self._batches.parallelism[:] = np.clip(start, self.graph.least, self.graph.most)
        self._steps[:] = 0
        self._since_restart_min[:] = np.inf
        self._lived.clear()
        fitting = allowed(self.snapshot(), self._batches.parallelism)
        self._batches.parallelism[:] = np.minimum(fitting, self._batches.parallelism)

    def snapshot(self) -> Snapshot:
        """What may be known now; `interval_s` is the time between decisions, samples are a minute apart."""
        b = self._batches
        lived = self._steps > 0
        span = self.rules.span_min
        shape = (self.size, span, b.parallelism.shape[1])
        nothing = np.zeros(shape)
        present = np.repeat(lived[:, None], span, 1)
        exists = np.broadcast_to(self.graph.exists[:, None], shape)
        start_s = np.array([trace.start_s for trace in self._traces], np.float64)
        samples = Samples(
            present=present,
            complete=exists & present[:, :, None],
            records_in=b.taken / MINUTE_S,
            records_out=b.taken / MINUTE_S * self.graph.selectivity.sum(2)[:, None],
            busy=b.busy,
            backpressured=nothing,
            idle=1 - b.busy,
            queue_fill=nothing,
            pending=b.waiting,
            parallelism=np.broadcast_to(b.parallelism[:, None], shape),
            state_mb=nothing,
            latency_s=b.latency_min * MINUTE_S,
            latency_p95_s=b.latency_min * MINUTE_S,
        )
        return Snapshot(
            now_s=start_s + b.now * MINUTE_S,
            interval_s=span * MINUTE_S,
            graph=self.graph,
            parallelism=b.parallelism.copy(),
            rescaling=np.zeros(self.size, np.bool_),
            cooldown_s=np.zeros(self.size),
            since_rescale_s=self._since_restart_min * MINUTE_S,
            since_checkpoint_s=np.zeros(self.size),
            downtime_s=np.full(self.size, self.rules.restart_min * MINUTE_S),
            slots=np.full(self.size, self.rules.total),
            slo_s=self.rules.slo_s,
            samples=samples,
        )

    def step(self, wanted: Integers) -> Outcome:
        """Ask for a parallelism, [E, V], as far as it is allowed; then live one interval."""
        asked = np.asarray(wanted)
        if asked.dtype.kind not in "iu":
            raise ActionError(f"parallelism of type {asked.dtype}; give whole numbers")
        done = allowed(self.snapshot(), asked.astype(np.int64))
        self._make_room()
        b, over = self._batches, self.ended
        rescaled = (done != b.parallelism).any(1) & ~over
        b.parallelism[~over] = done[~over]
        step_all(b, over, rescaled, self.rules.restart_min)
        self._steps[~over] += 1
        self._since_restart_min = np.where(rescaled, 0.0, self._since_restart_min) + self.rules.span_min
        outcome = self._outcome(over, rescaled)
        self._record(outcome)
        return outcome

    def episodes(self, policy: str) -> list[Episode]:
        """What every environment has lived through since its reset."""
        if not self._lived:
            raise ActionError("no interval has been lived through; call step() first")
        columns = {name: np.stack([one[name] for one in self._lived], 1) for name in self._lived[0]}
        episodes = []
        for row, job in enumerate(self.jobs):
            values = {name: column[row, : self._steps[row]] for name, column in columns.items()}
            for name in ("parallelism", "busy"):
                values[name] = values[name][:, : len(job.vertices)]
            episodes.append(
                Episode(
                    policy=policy,
                    job=job.name,
                    seed=self._seeds[row],
                    vertex_names=tuple(vertex.name for vertex in job.vertices),
                    interval_s=self.rules.span_min * MINUTE_S,
                    start_s=self._traces[row].start_s,
                    slo_s=self.rules.slo_s,
                    best_reward=1 - self.rules.latency_weight,
                    **values,
                )
            )
        return episodes

    def _longest(self) -> int:
        return max(_minutes(trace) for trace in self._traces)

    def _outcome(self, over: Flags, rescaled: Flags) -> Outcome:
        b, weight = self._batches, self.rules.latency_weight
        tasks = self.graph.exists.sum(1)
        self._latency_min = np.where(over, 0.0, b.latency_min.mean(1))
        self._utilisation = np.where(over, 0.0, b.busy.sum(2).mean(1) / tasks)
        latency_s = self._latency_min * MINUTE_S
        return Outcome(
            rewards=np.where(over, 0.0, (1 - weight) * self._utilisation - weight * self._latency_min),
            latency_s=latency_s,
            violated=latency_s > self.rules.slo_s,
            rescaled=rescaled,
            slots=b.parallelism.sum(1),
            ended=self.ended,
        )

    def _record(self, outcome: Outcome) -> None:
        b, span = self._batches, self.rules.span_min
        arrived = np.stack([b.sizes[row, now - span : now].mean() for row, now in enumerate(b.now.tolist())])
        read = (self.graph.is_source * b.waiting[:, -1]).sum(1)
        self._lived.append(
            {
                "arrived": arrived / MINUTE_S,
                "left": b.left.mean(1) / MINUTE_S,
                "latency_s": outcome.latency_s,
                "latency_p95_s": np.quantile(b.latency_min, 0.95, axis=1) * MINUTE_S,
                "backlog": read,
                "parallelism": b.parallelism.copy(),
                "busy": b.busy.mean(1),
                "slots": outcome.slots,
                "down_s": outcome.rescaled * self.rules.restart_min * MINUTE_S,
                "rescaled": outcome.rescaled,
                "rewards": outcome.rewards,
            }
        )

    def _make_room(self) -> None:
        """The ring must hold all batches that may be inside at the end of the next interval."""
        b = self._batches
        inside = int((b.now - b.out).max()) + self.rules.span_min
        ring = b.finish.shape[1]
        if inside <= ring:
            return
        larger = ring
        while larger < inside:
            larger *= 2
        finish = np.zeros((self.size, larger, b.finish.shape[2]))
        for row in range(self.size):
            batches = np.arange(b.out[row], b.out[row] + ring)
            finish[row, batches % larger] = b.finish[row, batches % ring]
        self._batches = b._replace(finish=finish)


def _minutes(trace: RateTrace) -> int:
    """Whole minutes; 11 steps of 120 / 11 s are two, though floats make them a hair less."""
    return int((trace.length_s + 1e-6) // MINUTE_S)


def _batch_sizes(trace: RateTrace) -> NDArray[np.float64]:
    """Records of each whole minute."""
    edges = np.arange(_minutes(trace) + 1) * MINUTE_S
    steps = np.arange(len(trace.rates) + 1) * trace.step_s
    reached = np.concatenate([[0.0], np.cumsum(trace.rates) * trace.step_s])
    return np.rint(np.diff(np.interp(edges, steps, reached)))


def _room_for(jobs: Sequence[Job], rules: PaperRules, minutes: int) -> Batches:
    size, most = len(jobs), max(len(job.vertices) for job in jobs)
    whole, floats = (lambda *s: np.zeros(s, np.int64)), (lambda *s: np.zeros(s))
    room = Batches(
        vertex_count=np.array([len(job.vertices) for job in jobs]),
        parents=np.zeros((size, most, most), np.bool_),
        is_sink=np.zeros((size, most), np.bool_),
        minutes_per_record=floats(size, most),
        sizes=floats(size, max(1, minutes)),
        parallelism=whole(size, most),
        started=whole(size, most),
        readied=whole(size, most),
        queued=floats(size, most),
        free_at=floats(size, most),
        finish=floats(size, FIRST_RING, most),
        out=whole(size),
        now=whole(size),
        busy=floats(size, rules.span_min, most),
        taken=floats(size, rules.span_min, most),
        waiting=floats(size, rules.span_min, most),
        latency_min=floats(size, rules.span_min),
        left=floats(size, rules.span_min),
    )
    for row, job in enumerate(jobs):
        for edge in job.edges:
            room.parents[row, edge.target, edge.source] = True
        count = len(job.vertices)
        room.is_sink[row, :count] = job.is_sink
        room.minutes_per_record[row, :count] = [v.service_ms / 60_000 for v in job.vertices]
    return room
