"""Queues and vertices, and how records move through them in one substep."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from trimtab.stream_autoscaling.job import Vertex

__all__ = ["LatencyHistogram", "Operator", "Queue", "move"]

MOST_CHUNKS = 64
NOTHING = 1e-9


@dataclass(eq=False)
class Queue:
    """First in, first out: chunks of [amount, mean birth]. An edge, or what waits before a source."""

    sender: Operator | None = None
    selectivity: float = 1.0
    forward: bool = False
    chunks: deque[list[float]] = field(default_factory=deque)
    amount: float = 0.0
    full_bound: float = math.inf
    least_bound: float = 0.0
    segment_records: float = 0.0
    reserved: float = 0.0
    came: float = 0.0
    consumed_per_s: float = 0.0
    before: float = 0.0
    dropped: float = 0.0

    def push(self, amount: float, birth: float, *, front: bool = False) -> None:
        if len(self.chunks) == MOST_CHUNKS:
            self.merge()
        (self.chunks.appendleft if front else self.chunks.append)([amount, birth])
        self.amount += amount

    def merge(self) -> None:
        """Every two neighbours become one."""
        old = list(self.chunks)
        self.chunks = deque(
            [a + b, (a * born_a + b * born_b) / (a + b)]
            for (a, born_a), (b, born_b) in zip(old[::2], old[1::2], strict=True)
        )
        self.amount = sum(amount for amount, _ in self.chunks)

    def pop(self, wanted: float) -> float:
        """Take from the front; gives the mean birth. What would be less than nothing goes along."""
        everything = wanted >= self.amount - NOTHING
        left, taken, moment = wanted, 0.0, 0.0
        while self.chunks and (everything or left > NOTHING or taken == 0):
            amount, birth = self.chunks[0]
            if everything or left >= amount - NOTHING:
                part = amount
                self.chunks.popleft()
            else:
                part = left
                self.chunks[0][0] -= part
            taken, moment, left = taken + part, moment + part * birth, left - part
        self.amount = (
            self.chunks[0][0] if len(self.chunks) == 1 else self.amount - taken if self.chunks else 0.0
        )
        return moment / taken

    def empty(self) -> None:
        self.dropped += self.amount
        self.chunks.clear()
        self.amount = 0.0

    def bound(self, debloat_s: float) -> float:
        if debloat_s == 0:
            return self.full_bound
        return min(self.full_bound, max(self.least_bound, debloat_s * self.consumed_per_s))


@dataclass(eq=False)
class Operator:
    """A vertex at work."""

    number: int
    is_source: bool
    share: float
    service_s: float
    scaling: float
    service_spread: float
    key_groups: int
    hot_share: float
    window_ms: int
    state_mb: float
    record_bytes: float
    slot_group: str
    parallelism: int
    wanted: int
    inputs: list[Queue] = field(default_factory=list)
    outputs: list[Queue] = field(default_factory=list)
    replay: Queue = field(default_factory=Queue)
    marked: float = 0.0
    rate: float = 0.0
    service_age_s: float = 0.0
    capacity: float = 0.0
    ability: float = 0.0
    stuck: bool = False
    held: float = 0.0
    pending: float = 0.0
    released: float = 0.0
    held_at_barrier: float = 0.0
    held_restored: float = 0.0
    held_age: float = 0.0
    pending_age: float = 0.0
    held_age_at_barrier: float = 0.0
    held_age_restored: float = 0.0
    passed: bool = False
    passed_ms: int = 0
    restored_ms: int = 0
    busy_s: float = 0.0
    seen_in: float = 0.0
    seen_out: float = 0.0
    seen_busy_s: float = 0.0
    seen_blocked_s: float = 0.0

    @staticmethod
    def of(vertex: Vertex, number: int, *, is_source: bool, share: float, parallelism: int) -> Operator:
        return Operator(
            number,
            is_source,
            share,
            vertex.service_ms / 1000,
            vertex.scaling,
            vertex.service_spread,
            vertex.key_groups,
            vertex.hot_share,
            math.ceil(1000 * vertex.window_s),
            vertex.state_mb,
            vertex.record_bytes,
            vertex.slot_group,
            parallelism,
            parallelism,
        )

    @property
    def holds_windows(self) -> bool:
        """A sink's results leave the job anyway, so only other vertices hold them back."""
        return self.window_ms > 0 and bool(self.outputs)

    @property
    def waiting(self) -> float:
        return sum(queue.amount for queue in self.inputs)


class LatencyHistogram:
    """Bins from 1 ms to 10^6 s, equally wide on a logarithmic scale; each knows the mean of what is in it."""

    def __init__(self) -> None:
        self.bins: dict[int, list[float]] = {}

    def add(self, amount: float, latency_s: float) -> None:
        number = (
            0 if latency_s <= 0.001 else min(127, int(math.log(latency_s / 0.001) * (127 / math.log(1e9))))
        )
        inside = self.bins.setdefault(number, [0.0, 0.0])
        inside[0] += amount
        inside[1] += amount * latency_s

    @property
    def amount(self) -> float:
        return sum(amount for amount, _ in self.bins.values())

    def quantile(self, amount: float) -> float:
        """Mean of the bin in which so many records are reached."""
        reached, last = 0.0, 0.0
        for number in sorted(self.bins):
            reached += self.bins[number][0]
            last = self.bins[number][1] / self.bins[number][0]
            if reached >= amount:
                break
        return last


def move(
    operators: list[Operator],
    *,
    up_s: float,
    middle_s: float,
    debloat_s: float,
    timeout_s: float,
) -> list[tuple[float, float]]:
    """Let records move; their capacities are set. Gives (amount, latency) of what reached sinks.

    Children first, every operator learns what it may process; then parents first, records move.
    """
    for operator in reversed(operators):
        find_ability(operator, debloat_s)
    left = []
    for operator in operators:
        waiting = operator.waiting
        processed, birth = consume(operator, waiting, up_s)
        operator.seen_in += processed
        keep_time(operator, waiting, processed, up_s)
        if not operator.outputs:
            if processed > 0:
                left.append((processed, middle_s - birth + operator.service_age_s))
        elif operator.holds_windows:
            operator.held += processed
            operator.held_age += processed * (middle_s - birth + operator.service_age_s)
            age_s = operator.pending_age / operator.pending if operator.pending > 0 else 0.0
            operator.pending -= operator.released
            operator.pending_age = operator.pending * age_s
            send(operator, operator.released, middle_s - age_s, up_s, timeout_s)
        else:
            send(operator, processed, birth - operator.service_age_s, up_s, timeout_s)
    return left


def find_ability(operator: Operator, debloat_s: float) -> None:
    """Not more than the subtasks manage, nor than every output has room for or is promised to be rid of."""
    accepted = math.inf
    for queue in operator.outputs:
        room = max(0.0, queue.bound(debloat_s) - queue.amount)
        accepted = min(accepted, (room + queue.reserved) / queue.selectivity)
    if operator.holds_windows:
        operator.stuck = operator.pending > accepted + NOTHING
        operator.released = accepted if operator.stuck else operator.pending
        operator.ability = 0.0 if operator.stuck else operator.capacity
    else:
        operator.ability = min(operator.capacity, accepted)
    expected = [queue.amount + queue.came for queue in operator.inputs]
    for queue, amount in zip(operator.inputs, expected, strict=True):
        if len(expected) == 1:
            queue.reserved = operator.ability
        else:
            total = sum(expected)
            queue.reserved = (amount / total if total > 0 else 1 / len(expected)) * operator.ability


def consume(operator: Operator, waiting: float, up_s: float) -> tuple[float, float]:
    """Take everything if possible; else what was promised to each input, and of the rest in proportion."""
    everything = waiting <= operator.ability + NOTHING
    promised = 0.0 if everything else sum(min(queue.amount, queue.reserved) for queue in operator.inputs)
    taken, moment = 0.0, 0.0
    for queue in operator.inputs:
        part = queue.amount
        if not everything:
            part = min(queue.amount, queue.reserved)
            if waiting > promised:
                part += (queue.amount - part) * (operator.ability - promised) / (waiting - promised)
            part = min(part, queue.amount)
        queue.consumed_per_s = part / up_s
        queue.before -= part
        if part > 0:
            birth = queue.pop(part)
            taken, moment = taken + part, moment + part * birth
            if operator.is_source:
                operator.replay.push(part, birth)
    return taken, moment / taken if taken > 0 else 0.0


def keep_time(operator: Operator, waiting: float, processed: float, up_s: float) -> None:
    if operator.capacity > 0:
        busy = min(1.0, processed / operator.capacity)
    else:
        busy = 1.0 if waiting > NOTHING and not operator.stuck else 0.0
    operator.busy_s += busy * up_s
    operator.seen_busy_s += busy * up_s
    full = operator.ability < operator.capacity and waiting > operator.ability + NOTHING
    if operator.stuck or full:
        operator.seen_blocked_s += (1 - busy) * up_s


def send(operator: Operator, processed: float, birth: float, up_s: float, timeout_s: float) -> None:
    """A record waits until its buffer is full, at most for the timeout: it counts as born so much earlier."""
    for queue in operator.outputs:
        queue.came = processed * queue.selectivity
        if queue.came > 0:
            delay_s = min(timeout_s, queue.segment_records * up_s / queue.came)
            queue.push(queue.came, birth - delay_s)
            operator.seen_out += queue.came
