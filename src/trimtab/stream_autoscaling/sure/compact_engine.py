"""The compact autoscaler compiled together with the engine: whole stretches without a step back to Python.

Training plays thousands of stretches in every iteration. Asked from Python the autoscaler takes as long as
the simulator does; here both are one compiled loop, an environment after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.core.errors import ActionError
from trimtab.stream_autoscaling.heuristics.measures import intervals_in
from trimtab.stream_autoscaling.problem import Floats, Graph
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.simulator.state import NEVER, History, Record, State
from trimtab.stream_autoscaling.simulator.stepping import ask, environment, history_of, run_interval
from trimtab.stream_autoscaling.sure.compact import FACTS, HOUR_S, RECENT_S, SIZE, WINDOW_S
from trimtab.stream_autoscaling.sure.compact_deciding import Room, Spans, decide, jit

__all__ = ["Lived", "play_out"]


class Lived(NamedTuple):
    """What became of each environment, summed over its intervals, [E]."""

    rewards: Floats
    slots: Floats


def play_out(simulator: StreamSimulator, numbers: Floats) -> Lived:
    """Live from the reset until every trace is over.

    Every environment has numbers of its own, [E, numbers].
    """
    if numbers.shape != (simulator.size, SIZE):
        raise ActionError(f"numbers of shape {numbers.shape}; give ({simulator.size}, {SIZE})")
    if simulator.state.run["interval"].any():
        raise ActionError("some have lived already; reset the simulator first")
    lived = Lived(np.zeros(simulator.size), np.zeros(simulator.size))
    with np.errstate(over="ignore"):  # hashes wrap around; numpy warns of it where nothing is compiled
        _play_all(
            simulator.state,
            simulator.history,
            simulator.settings,
            simulator.graph,
            np.ascontiguousarray(numbers, np.float64),
            _spans_of(simulator),
            _room_for(simulator),
            lived,
        )
    return lived


def _spans_of(simulator: StreamSimulator) -> Spans:
    """What the autoscaler looks at in this deployment."""
    deployment = simulator.deployment
    interval_s, history = float(deployment.interval_s), deployment.history
    return Spans(
        looked_back=min(intervals_in(HOUR_S, interval_s), history - 1),
        window=intervals_in(min(WINDOW_S, interval_s * history), interval_s),
        three=intervals_in(180.0, interval_s),
        ten=intervals_in(600.0, interval_s),
        thirty=intervals_in(RECENT_S, interval_s),
        hour=intervals_in(HOUR_S, interval_s),
        slots=deployment.slots,
        interval_s=interval_s,
        slo_s=float(deployment.objective.slo_s),
        cooldown_s=float(deployment.cooldown_s),
    )


def _room_for(simulator: StreamSimulator) -> Room:
    """Room for all environments of a simulator."""
    size, vertices = simulator.graph.exists.shape
    back = max(_spans_of(simulator).looked_back, 1)
    floats, integers = (lambda: np.zeros((size, vertices))), (lambda: np.zeros((size, vertices), np.int64))
    return Room(
        came=np.zeros((size, back)),
        told=np.zeros((size, back), np.bool_),
        ran_on=np.zeros((size, back), np.bool_),
        rates=floats(),
        ratios=floats(),
        speeds=floats(),
        blocked=floats(),
        idle=floats(),
        variation=floats(),
        needed=floats(),
        busy=floats(),
        size=floats(),
        limit=floats(),
        facts=np.zeros((size, len(FACTS))),
        now=integers(),
        up=integers(),
        goal=integers(),
    )


@jit
def _play_all(
    batch: State,
    histories: History,
    d: Record,
    graph: Graph,
    numbers: Floats,
    spans: Spans,
    room: Room,
    lived: Lived,
) -> None:
    """Live until the traces are over, one environment after the other; add up what each earns and takes."""
    length = histories.present.shape[1] // 2
    for index in range(len(lived.rewards)):
        s, h = environment(batch, index), history_of(histories, index)
        step = 0
        while s.run[0]["interval"] < s.run[0]["intervals"]:
            place = step % length
            decide(s, h, graph, numbers[index], spans, room, index, place, length)
            allow(s, h, graph, spans, room, index, place + length - 1)
            ask(s, d, room.goal[index])
            run_interval(s, h, d, place, length)
            lived.rewards[index] += s.run[0]["reward"]
            lived.slots[index] += s.run[0]["slots"]
            step += 1


@jit
def allow(s: State, h: History, graph: Graph, spans: Spans, room: Room, e: int, newest: int) -> None:
    """Cut `room.goal` down to what `problem.allowed` lets through."""
    run, count = s.run[0], s.run[0]["vertex_count"]
    still = run["commanded_ms"] != NEVER or run["now_ms"] < run["down_until_ms"]
    if run["restarted_ms"] != NEVER:
        still = still or spans.cooldown_s > max(run["now_ms"] - run["restarted_ms"], 0) / 1000
    largest = 0
    for vertex in range(count):
        now = room.now[e, vertex]
        wanted = min(max(room.goal[e, vertex], graph.least[e, vertex]), graph.most[e, vertex])
        if not (h.present[newest] and h.complete[newest, vertex]):
            wanted = max(wanted, now)
        room.goal[e, vertex] = now if still else wanted
        largest = max(largest, room.goal[e, vertex])
    cap = largest
    while spans.slots > 0 and not still and cap > 1 and slots_of(graph, room, e, count) > spans.slots:
        cap -= 1
        for vertex in range(count):
            wanted = room.goal[e, vertex]
            room.goal[e, vertex] = max(min(wanted, cap), min(wanted, room.now[e, vertex]))


@jit
def slots_of(graph: Graph, room: Room, e: int, count: int) -> int:
    """Slots that the goal takes: vertices of a sharing group run in the same ones."""
    total = 0
    for group in range(count):
        most = 0
        for vertex in range(count):
            if graph.slot_group[e, vertex] == group:
                most = max(most, room.goal[e, vertex])
        total += most
    return total
