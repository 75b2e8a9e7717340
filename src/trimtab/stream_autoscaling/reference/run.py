"""One job over its trace: arrivals, checkpoints, restarts, metrics, one interval after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.reference.fluid import LatencyHistogram, Operator, Queue, move
from trimtab.stream_autoscaling.reference.luck import Luck
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["Interval", "ReferenceRun"]


@dataclass
class Interval:
    """What an interval was, and the sample that was taken in it (by vertex where a list)."""

    numbers: dict[str, float]
    busy: list[float]
    parallelism: list[int]
    waiting: list[float]
    held: list[float]
    sample: dict[str, list[float]]
    sample_latency_s: tuple[float, float]


class ReferenceRun:
    """Steps through one trace; `wanted` of `step` must be allowed already."""

    def __init__(
        self, job: Job, trace: RateTrace, deployment: Deployment, *, seed: int, parallelism: Sequence[int]
    ) -> None:
        self.job, self.trace, self.deployment = job, trace, deployment
        self.luck = Luck(seed)
        self.operators = [
            Operator.of(vertex, index, is_source=bool(source), share=float(share), parallelism=int(p))
            for index, (vertex, source, share, p) in enumerate(
                zip(job.vertices, job.is_source, job.source_shares, parallelism, strict=True)
            )
        ]
        self.edges: list[Queue] = []
        self.connect()
        self.restart_factor = self.differ(5, 0)
        self.start_ms, self.now_ms, self.number = round(1000 * trace.start_s), 0, 0
        self.checkpoint_ms = round(1000 * deployment.checkpoint_s)
        self.next_checkpoint_ms = int(self.checkpoint_ms * self.luck.uniform("phase"))
        self.barrier_ms: int | None = None
        self.completes_ms: int | None = None
        self.commanded_ms: int | None = None
        self.down_until_ms = self.reported_from_ms = self.restarts = 0
        self.set_rates()
        self.forget_metrics()

    def differ(self, what: int, number: int) -> float:
        """This episode's true value over the known one."""
        return 1 + self.deployment.spread * (2 * self.luck.uniform("spread", what, number) - 1)

    def connect(self) -> None:
        for number, edge in sorted(enumerate(self.job.edges), key=lambda e: (e[1].source, e[1].target)):
            sender = self.operators[edge.source]
            queue = Queue(sender, edge.selectivity * self.differ(4, number), edge.forward)
            sender.outputs.append(queue)
            self.operators[edge.target].inputs.append(queue)
            self.edges.append(queue)
        for operator in self.operators:
            if operator.is_source:
                operator.inputs.append(Queue())
            operator.service_s *= self.differ(0, operator.number)
            operator.scaling = min(1.0, max(0.05, operator.scaling * self.differ(1, operator.number)))
            operator.hot_share = min(1.0, operator.hot_share * self.differ(2, operator.number))
            operator.state_mb *= self.differ(3, operator.number)

    @property
    def sources(self) -> list[Operator]:
        return [operator for operator in self.operators if operator.is_source]

    def step(self, wanted: Sequence[int]) -> Interval:
        """Ask for a parallelism and live through one interval."""
        if any(p != operator.wanted for p, operator in zip(wanted, self.operators, strict=True)):
            self.commanded_ms = self.now_ms
            for operator, p in zip(self.operators, wanted, strict=True):
                operator.wanted = int(p)
        self.arrived = self.left = self.latency_moment = self.down_s = 0.0
        self.busy_subtask_s = self.subtask_s = 0.0
        self.rescaled = False
        self.histogram = LatencyHistogram()
        for operator in self.operators:
            operator.busy_s = 0.0
        substep_ms = self.deployment.substep_ms
        substeps = 1000 * self.deployment.interval_s // substep_ms
        late_ms = 1000 * self.deployment.staleness_s * self.luck.uniform("lateness", self.number)
        sample, sample_latency_s = {}, (math.nan, math.nan)
        for substep in range(substeps):
            self.run_substep(substep_ms)
            if substep + 1 == substeps - int(late_ms / substep_ms):
                sample, sample_latency_s = self.read_metrics()
        self.number += 1
        return self.close(sample, sample_latency_s)

    def run_substep(self, substep_ms: int) -> None:
        """Checkpoints, restarts, ends of windows, arrivals; then records move while the job is up."""
        self.keep_clock()
        now_ms = self.start_ms + self.now_ms
        for operator in self.operators:
            if (
                operator.window_ms
                and now_ms // operator.window_ms != (now_ms - substep_ms) // operator.window_ms
            ):
                operator.pending += operator.held
                operator.pending_age += operator.held_age
                operator.held = operator.held_age = 0.0
        self.arrive(substep_ms)
        down_ms = min(max(self.down_until_ms - self.now_ms, 0), substep_ms)
        up_ms = substep_ms - down_ms
        if up_ms:
            self.flow(0.001 * up_ms, 0.001 * (self.now_ms + down_ms) + 0.0005 * up_ms)
            self.pass_barriers(self.now_ms + substep_ms)
        self.down_s += 0.001 * down_ms
        self.window_s += 0.001 * up_ms
        self.subtask_s += 0.001 * substep_ms * sum(operator.parallelism for operator in self.operators)
        self.now_ms += substep_ms

    def arrive(self, substep_ms: int) -> None:
        expected = self.mean_rate(substep_ms) * 0.001 * substep_ms
        for operator in self.sources:
            amount = expected * operator.share
            if self.deployment.arrivals == "poisson":
                amount = self.luck.poisson(amount, "arrivals", operator.number, self.now_ms // substep_ms)
            if amount > 0:
                operator.inputs[0].push(amount, 0.001 * self.now_ms + 0.5 * 0.001 * substep_ms)
                self.arrived += amount

    def mean_rate(self, substep_ms: int) -> float:
        """The trace's rate holds during each of its steps, the last one's for ever."""
        step_ms, rates = 1000 * self.trace.step_s, self.trace.rates
        edges = [float(self.now_ms)]
        step = min(int(self.now_ms / step_ms), len(rates) - 1)
        first = step
        while (step + 1) * step_ms < self.now_ms + substep_ms and step < len(rates) - 1:
            step += 1
            edges.append(step * step_ms)
        edges.append(self.now_ms + substep_ms)
        spans = [end - begin for begin, end in pairwise(edges)]
        return sum(float(rates[first + at]) * span for at, span in enumerate(spans)) / substep_ms

    def flow(self, up_s: float, middle_s: float) -> None:
        self.set_capacities(up_s)
        before = [operator.busy_s for operator in self.operators]
        settings = self.deployment
        left = move(
            self.operators,
            up_s=up_s,
            middle_s=middle_s,
            debloat_s=settings.debloat_s,
            timeout_s=settings.buffer_timeout_ms / 1000,
        )
        for amount, latency_s in left:
            self.left += amount
            self.latency_moment += amount * latency_s
            self.histogram.add(amount, latency_s)
            self.seen_latency_moment += amount * latency_s
            self.seen_histogram.add(amount, latency_s)
        for operator, was in zip(self.operators, before, strict=True):
            self.busy_subtask_s += (operator.busy_s - was) * operator.parallelism

    def set_capacities(self, up_s: float) -> None:
        """Subtasks with something to do share the cores; service times that vary make work come in lumps."""
        share = self.share_of_cores(up_s) if self.deployment.cores else 1.0
        for operator in self.operators:
            operator.capacity = operator.rate * share * up_s
            if operator.service_spread:
                lump = operator.service_spread**2
                substep = self.now_ms // self.deployment.substep_ms
                drawn = self.luck.poisson(operator.capacity / lump, "capacity", operator.number, substep)
                operator.capacity = lump * drawn

    def share_of_cores(self, up_s: float) -> float:
        """The level to which water rises when every subtask is a glass as tall as the core it could use."""
        glasses = []
        for operator in self.operators:
            to_do = sum(queue.amount + queue.came for queue in operator.inputs)
            glasses += [min(1.0, to_do / (operator.rate * up_s))] * operator.parallelism
        left, level = self.deployment.cores, 0.0
        for filled, height in enumerate(sorted(glasses)):
            if (height - level) * (len(glasses) - filled) > left:
                return level + left / (len(glasses) - filled)
            left -= (height - level) * (len(glasses) - filled)
            level = height
        return 1.0

    def keep_clock(self) -> None:
        """Complete a checkpoint, stop for a rescale, or begin a checkpoint."""
        if self.now_ms < self.down_until_ms:
            return
        commanded_ms = math.inf if self.commanded_ms is None else self.commanded_ms
        if self.barrier_ms is not None and self.completes_ms is not None and self.now_ms >= self.completes_ms:
            awaited = self.barrier_ms >= commanded_ms
            self.complete_checkpoint()
            if awaited:
                self.restart()
                return
        if self.commanded_ms is not None:
            patience = (
                self.deployment.checkpoint_patience if self.deployment.rescale == "after_checkpoint" else 0
            )
            if self.now_ms >= self.commanded_ms + patience * self.checkpoint_ms:
                self.restart()
                return
        if self.barrier_ms is None and self.now_ms >= self.next_checkpoint_ms:
            self.barrier_ms = self.now_ms
            self.next_checkpoint_ms = self.now_ms + self.checkpoint_ms
            for operator in self.operators:
                operator.marked, operator.passed = operator.replay.amount, False
            self.pass_barriers(self.now_ms)

    def pass_barriers(self, now_ms: int) -> None:
        """A barrier passes where all inputs have brought it and all before it is processed and sent."""
        if self.barrier_ms is None or self.completes_ms is not None:
            return
        for operator in self.operators:
            edges = [(queue, queue.sender) for queue in operator.inputs if queue.sender is not None]
            brought = all(sender.passed and queue.before <= 1e-6 for queue, sender in edges)
            if not operator.passed and brought and operator.pending <= 1e-6:
                operator.passed, operator.passed_ms = True, now_ms
                operator.held_at_barrier, operator.held_age_at_barrier = operator.held, operator.held_age
                for queue in operator.outputs:
                    queue.before = queue.amount
        if all(operator.passed for operator in self.operators):
            self.completes_ms = now_ms + math.ceil(1000 * self.state_mb / self.deployment.checkpoint_mb_per_s)

    def complete_checkpoint(self) -> None:
        self.barrier_ms = self.completes_ms = None
        for operator in self.operators:
            operator.held_restored, operator.restored_ms = operator.held_at_barrier, operator.passed_ms
            operator.held_age_restored = operator.held_age_at_barrier
            if operator.marked > 0:
                operator.replay.pop(operator.marked)
            operator.marked = 0.0

    def restart(self) -> None:
        """Stand still, drop what is in flight, read again what came after the barrier, change parallelism."""
        settings = self.deployment
        self.restarts, self.rescaled = self.restarts + 1, True
        self.commanded_ms = self.barrier_ms = self.completes_ms = None
        workers, state_mb = self.workers, self.state_mb
        for edge in self.edges:
            edge.empty()
            edge.came = edge.consumed_per_s = 0.0
        for operator in self.operators:
            operator.marked = 0.0
            operator.parallelism = operator.wanted
            self.restore_window(operator)
            while operator.replay.chunks:
                amount, birth = operator.replay.chunks.pop()
                operator.inputs[0].push(amount, birth, front=True)
            operator.replay.amount = 0.0
        self.set_rates()
        median_s = settings.restart_s * self.restart_factor
        downtime_s = median_s * math.exp(settings.restart_spread * self.luck.normal("restart", self.restarts))
        downtime_s += state_mb / settings.restore_mb_per_s
        if self.workers > workers:
            downtime_s += settings.worker_start_s
        self.down_until_ms = self.now_ms + math.ceil(1000 * downtime_s)
        self.next_checkpoint_ms = self.down_until_ms + self.checkpoint_ms
        self.forget_metrics()
        silent_ms = round(1000 * settings.missing_after_s) * self.luck.uniform("missing_after", self.restarts)
        self.reported_from_ms = self.down_until_ms + math.ceil(silent_ms)

    def restore_window(self, operator: Operator) -> None:
        """As it was at the barrier; if it has ended since, its results are due at once."""
        operator.held, operator.pending = operator.held_restored, 0.0
        operator.held_age, operator.pending_age = operator.held_age_restored, 0.0
        if operator.window_ms:
            then, now = self.start_ms + operator.restored_ms, self.start_ms + self.now_ms
            if then // operator.window_ms != now // operator.window_ms:
                operator.held, operator.pending = 0.0, operator.held
                operator.held_age, operator.pending_age = 0.0, operator.held_age

    @property
    def state_mb(self) -> float:
        return sum(self.state_of(operator) for operator in self.operators)

    def state_of(self, operator: Operator) -> float:
        """Windows grow from nothing to their full size."""
        if not operator.window_ms:
            return operator.state_mb
        return operator.state_mb * ((self.start_ms + self.now_ms) % operator.window_ms) / operator.window_ms

    @property
    def slots(self) -> int:
        groups: dict[str, int] = {}
        for operator in self.operators:
            groups[operator.slot_group] = max(groups.get(operator.slot_group, 0), operator.parallelism)
        return sum(groups.values())

    @property
    def workers(self) -> int:
        return math.ceil(self.slots / self.deployment.slots_per_worker)

    def set_rates(self) -> None:
        """Speeds of vertices and sizes of buffers at the present parallelism."""
        settings, substep_s = self.deployment, 0.001 * self.deployment.substep_ms
        for operator in self.operators:
            p, service_s = operator.parallelism, operator.service_s
            operator.rate = p**operator.scaling / service_s
            if operator.key_groups:
                largest = max(math.ceil(operator.key_groups / p) / operator.key_groups, operator.hot_share)
                operator.rate = min(operator.rate, 1 / (service_s * largest))
            shown_s, lump = 0.0, operator.service_spread**2
            if settings.arrivals == "poisson" and operator.is_source and lump < 1:
                shown_s = (1 - lump) * max(0.0, 0.5 * (1 / operator.rate - substep_s))
            if lump:
                shown_s += lump * substep_s / math.expm1(min(700.0, operator.rate * substep_s))
            operator.service_age_s = max(0.0, service_s - shown_s)
        for operator in self.operators:
            for edge in operator.inputs:
                if edge.sender is not None:
                    senders, receivers = edge.sender.parallelism, operator.parallelism
                    buffers = receivers * (2 * (1 if edge.forward else senders) + 8) * 2
                    edge.full_bound = buffers * settings.segment_bytes / edge.sender.record_bytes
                    edge.least_bound = buffers * 256 / edge.sender.record_bytes
                    channels = max(senders, receivers) if edge.forward else senders * receivers
                    edge.segment_records = channels * settings.segment_bytes / edge.sender.record_bytes

    def forget_metrics(self) -> None:
        self.window_s = self.seen_latency_moment = 0.0
        self.seen_histogram = LatencyHistogram()
        for operator in self.operators:
            operator.seen_in = operator.seen_out = operator.seen_busy_s = operator.seen_blocked_s = 0.0

    def read_metrics(self) -> tuple[dict[str, list[float]], tuple[float, float]]:
        """What the monitoring says: counters since the last reading or restart, with noise."""
        size = self.deployment.metric_noise
        seen, latency = self.seen_histogram.amount, (math.nan, math.nan)
        if seen > 0:
            factor = max(0.0, 1 + size * self.luck.normal("noise", self.number, -1, 4))
            p95_s = self.seen_histogram.quantile(0.95 * seen)
            latency = (self.seen_latency_moment / seen * factor, p95_s * factor)
        rows = [self.sample_of(operator) for operator in self.operators]
        self.forget_metrics()
        return {name: [row[name] for row in rows] for name in rows[0]}, latency

    def sample_of(self, operator: Operator) -> dict[str, float]:
        names = (
            "records_in", "records_out", "busy", "backpressured", "idle", "queue_fill", "pending", "state_mb",
        )  # fmt: skip
        number, size = operator.number, self.deployment.metric_noise
        sample = dict.fromkeys(("complete", *names), 0.0) | {"parallelism": operator.parallelism}
        silent = self.now_ms < self.reported_from_ms or self.window_s == 0
        if silent or self.luck.uniform("missing", self.number, number) < self.deployment.missing:
            return sample
        noise = [size * self.luck.normal("noise", self.number, number, which) for which in range(4)]
        busy = min(1.0, max(0.0, operator.seen_busy_s / self.window_s + noise[2]))
        blocked = min(1 - busy, max(0.0, operator.seen_blocked_s / self.window_s + noise[3]))
        bound = sum(queue.bound(self.deployment.debloat_s) for queue in operator.inputs)
        values = (
            operator.seen_in / self.window_s * max(0.0, 1 + noise[0]),
            operator.seen_out / self.window_s * max(0.0, 1 + noise[1]),
            busy,
            blocked,
            1 - busy - blocked,
            0.0 if operator.is_source else min(1.0, operator.waiting / bound),
            operator.waiting if operator.is_source else 0.0,
            self.state_of(operator),
        )
        return sample | dict(zip(names, values, strict=True)) | {"complete": 1.0}

    def close(self, sample: dict[str, list[float]], sample_latency_s: tuple[float, float]) -> Interval:
        """Latency is that of records that left; if none did, the age of the oldest that is still there."""
        goal, interval_s = self.deployment.objective, self.deployment.interval_s
        queues = [queue for operator in self.operators for queue in operator.inputs]
        births = [queue.chunks[0][1] for queue in queues if queue.chunks]
        latency_s = p95_s = max(0.0, 0.001 * self.now_ms - min(births, default=math.inf))
        if self.left > 0:
            latency_s, p95_s = self.latency_moment / self.left, self.histogram.quantile(0.95 * self.left)
        utilisation = self.busy_subtask_s / self.subtask_s
        reward = -goal.latency_weight * min(latency_s / goal.slo_s, 10) / 10
        reward += (1 - goal.latency_weight) * utilisation
        reward -= goal.rescale_cost * self.rescaled + goal.violation_cost * (latency_s > goal.slo_s)
        numbers = {
            "arrived": self.arrived,
            "left": self.left,
            "latency_s": latency_s,
            "latency_p95_s": p95_s,
            "down_s": self.down_s,
            "rescaled": float(self.rescaled),
            "backlog": sum(operator.waiting for operator in self.sources),
            "utilisation": utilisation,
            "reward": reward,
            "slots": float(self.slots),
        }
        return Interval(
            numbers,
            [operator.busy_s / interval_s for operator in self.operators],
            [operator.parallelism for operator in self.operators],
            [operator.waiting for operator in self.operators],
            [operator.held + operator.pending for operator in self.operators],
            sample,
            sample_latency_s,
        )
