"""One decision of the compact autoscaler about one environment, in compiled code that allocates nothing.

It is what `compact.CompactDecider` decides, number for number: tests hold the two together.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trimtab.compiling import Compiler
from trimtab.stream_autoscaling.heuristics import banded, measures
from trimtab.stream_autoscaling.heuristics.banded import MOST_CATCHING_UP, ROOM_FOR_LUCK
from trimtab.stream_autoscaling.heuristics.measures import LEAST_BUSY, LEAST_IDLE, MOST_BLOCKED
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers
from trimtab.stream_autoscaling.simulator import state
from trimtab.stream_autoscaling.simulator.state import NEVER, History, State
from trimtab.stream_autoscaling.sure.compact import (
    CATCH_UP_S,
    DAY_S,
    EVENNESS,
    FACTS,
    LARGEST,
    LARGEST_OF_A_VERTEX,
    LONG_AGO_S,
    MOST_PRACTISED,
    TRIED,
    UNEVEN,
    USUAL_NOISE,
    USUAL_VERTICES,
    part,
)

__all__ = ["Room", "Spans", "decide", "jit"]

_ENGINE, _OURS = Path(state.__file__).parent, Path(__file__).parent
_compiler = Compiler(
    [
        *sorted(_ENGINE.glob("*.py")),
        *sorted(_OURS.glob("compact*.py")),
        Path(measures.__file__),
        Path(banded.__file__),
    ]
)
jit, inlined = _compiler.jit, _compiler.inlined

_SIZE_AT, _DOWN_AT, _LIMIT_AT, _SAVING_AT, _SIZE_OF_VERTEX_AT, _LIMIT_OF_VERTEX_AT, _ROUNDING_AT = (
    part(name).start
    for name in (
        "size",
        "size when down",
        "limit",
        "saving",
        "size of a vertex",
        "limit of a vertex",
        "rounding",
    )
)
_CATCHING_UP_AT, _WORTH_AT, _MOST_AT = (
    part(name).start for name in ("catching up", "worth of more", "most given")
)
_FACTS = len(FACTS)
_TRIED = tuple(TRIED.tolist())
_SIZES_TRIED = tuple(np.exp(TRIED).tolist())
_ROUNDING = 1e-9
_TINY = 1e-9


class Spans(NamedTuple):
    """The deployment in intervals, as the autoscaler sees it."""

    looked_back: int  # intervals whose arrivals are known; one before them is needed to tell what piled up
    window: int
    three: int  # minutes
    ten: int
    thirty: int
    hour: int
    slots: int  # that the job may take; 0: no limit
    interval_s: float
    slo_s: float
    cooldown_s: float


class Room(NamedTuple):
    """Where an environment writes while it thinks; a row for each."""

    came: Floats  # [E, intervals]: records per second of all sources
    told: Flags  # [E, intervals]: all of them reported
    ran_on: Flags  # [E, intervals]: without a restart
    rates: Floats  # [E, V]: records per second a vertex must process; NaN: nobody knows
    ratios: Floats  # [E, V]: what a vertex sends for what it should send
    speeds: Floats  # [E, V]: records per second of one subtask that is always busy
    blocked: Floats  # [E, V]: time blocked, over the time that it is busy
    idle: Floats  # [E, V]: share of the time; NaN: nobody knows
    variation: Floats  # [E, V]
    needed: Floats  # [E, V]: subtasks that would be busy all the time
    busy: Floats  # [E, V]: the same if it is to catch up
    size: Floats  # [E, V]: subtasks aimed at for each of these
    limit: Floats  # [E, V]: too busy if it has fewer for each of these
    facts: Floats  # [E, facts]
    now: Integers  # [E, V]
    up: Integers  # [E, V]
    goal: Integers  # [E, V]


@jit
def decide(
    s: State,
    h: History,
    graph: Graph,
    numbers: Floats,
    spans: Spans,
    room: Room,
    e: int,
    first: int,
    length: int,
) -> None:
    """Leave in `room.goal` what is wanted; the samples begin at `first` of the ring."""
    run, count = s.run[0], s.run[0]["vertex_count"]
    for vertex in range(count):
        room.now[e, vertex] = s.vertices[vertex]["wanted"]
    since_s = math.inf
    if run["restarted_ms"] != NEVER:
        since_s = max(run["now_ms"] - run["restarted_ms"], 0) / 1000
    end = first + length
    waiting = count_arrivals(h, graph, spans, room, e, count, end)
    for vertex in range(count):
        watch_vertex(h, graph, spans, room, e, vertex, count, end, since_s)
    find_needed(graph, room, e, count)
    rate = mean_of(room, spans, e, 0, spans.thirty)
    minutes_waiting = waiting / rate / 60.0 if rate > 0.0 else 0.0
    now_s = (run["start_ms"] + run["now_ms"]) / 1000
    find_facts(room, spans, e, count, rate, minutes_waiting, now_s, since_s, h.latency_s[end - 1])
    size = math.exp(clip(weighed(room, numbers, e, _SIZE_AT), -LARGEST, LARGEST))
    down = math.exp(clip(weighed(room, numbers, e, _DOWN_AT), -LARGEST, LARGEST))
    limit = math.exp(clip(weighed(room, numbers, e, _LIMIT_AT), -LARGEST, LARGEST))
    saving = math.exp(clip(weighed(room, numbers, e, _SAVING_AT), -LARGEST, LARGEST))
    catch_up_s = CATCH_UP_S * math.exp(numbers[_CATCHING_UP_AT])
    hurry = 1 + min(60.0 * minutes_waiting / catch_up_s, MOST_CATCHING_UP)
    pressed = _TINY
    for vertex in range(count):
        size_vertex(h, graph, numbers, room, e, vertex, count, end - 1, size, limit, hurry)
        if not math.isnan(room.busy[e, vertex]):
            pressed = max(pressed, room.busy[e, vertex] / useful(graph, e, vertex, graph.most[e, vertex]))
    busiest = max(rate, mean_of(room, spans, e, 0, spans.ten), mean_of(room, spans, e, 0, spans.three))
    most = math.exp(numbers[_MOST_AT]) * (busiest / rate if rate > 0.0 else 1.0)
    most = min(ROOM_FOR_LUCK / pressed, most)
    round_thriftily(graph, numbers, room, e, count, 1.0, most, room.up)
    round_thriftily(graph, numbers, room, e, count, down, most, room.goal)
    commit(graph, room, e, count, saving if hurry < 1 + MOST_CATCHING_UP else math.inf, 1.0 / pressed)


@jit
def count_arrivals(h: History, graph: Graph, spans: Spans, room: Room, e: int, count: int, end: int) -> float:
    """What came for the sources in each interval, and on average for each; gives what waits before them."""
    back = spans.looked_back
    for place in range(back):
        room.came[e, place] = 0.0
        room.ran_on[e, place] = ran_on(h, count, end - back + place)
        room.told[e, place] = room.ran_on[e, place]
    waiting = 0.0
    for vertex in range(count):
        room.rates[e, vertex] = 0.0
        if not graph.is_source[e, vertex]:
            continue
        total, number, waited = 0.0, 0, 0.0
        for place in range(back):
            at = end - back + place
            here = h.present[at] and h.complete[at, vertex]
            if here:
                waited = h.pending[at, vertex]
            grew = (h.pending[at, vertex] - h.pending[at - 1, vertex]) / spans.interval_s
            rate = h.records_in[at, vertex] + grew
            room.came[e, place] += rate
            if not here or not (h.present[at - 1] and h.complete[at - 1, vertex]):
                room.told[e, place] = False
            elif place >= back - spans.thirty and room.ran_on[e, place]:
                total += rate
                number += 1
        waiting += waited
        room.rates[e, vertex] = max(total / number, 0.0) if number > 0 else math.nan
    for place in range(back):
        room.came[e, place] = max(room.came[e, place], 0.0)
    return waiting


@jit
def ran_on(h: History, count: int, at: int) -> bool:
    """No restart in this interval: what is read once more waits again, but has not come again."""
    same = True
    for vertex in range(count):
        same = same and h.parallelism[at, vertex] == h.parallelism[at - 1, vertex]
    return same


@jit
def watch_vertex(
    h: History,
    graph: Graph,
    spans: Spans,
    room: Room,
    e: int,
    vertex: int,
    count: int,
    end: int,
    since_s: float,
) -> None:
    """How fast a vertex is, what it sends, and how its time goes by, since the last restart."""
    processed, sent, useful, total, squares, number = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    worked, blocked, idle = 0.0, 0.0, 0.0
    for place in range(spans.window):
        at = end - spans.window + place
        settled = (spans.window - place) * spans.interval_s <= since_s + _ROUNDING
        if settled and h.present[at] and h.complete[at, vertex]:
            busy = max(h.busy[at, vertex], LEAST_BUSY)
            processed += h.records_in[at, vertex]
            sent += h.records_out[at, vertex]
            useful += busy * h.parallelism[at, vertex]
            total += busy
            squares += busy * busy
            worked += h.busy[at, vertex]
            blocked += h.backpressured[at, vertex]
            idle += h.idle[at, vertex]
            number += 1
    room.idle[e, vertex] = idle / number if number > 0 else math.nan
    some = number > 0 and worked / number > LEAST_BUSY
    room.blocked[e, vertex] = min(blocked / worked, MOST_BLOCKED) if some else 0.0
    expected = 0.0
    for target in range(vertex + 1, count):
        expected += graph.selectivity[e, vertex, target]
    known = processed > 0.0 and expected > 0.0
    room.ratios[e, vertex] = sent / (processed * expected) if known else 1.0
    room.speeds[e, vertex] = processed / useful if processed > 0.0 and useful > 0.0 else math.nan
    room.variation[e, vertex] = 0.0
    if number > 1:
        middle = total / number
        spread = math.sqrt(max(squares / number - middle * middle, 0.0))
        room.variation[e, vertex] = clip(spread / middle / USUAL_NOISE - 1, -1.0, 1.0)


@jit
def find_needed(graph: Graph, room: Room, e: int, count: int) -> None:
    """Rates from the sources down, and the subtasks they keep busy. What lies below an unknown is unknown."""
    for vertex in range(count):
        rate = room.rates[e, vertex]
        for parent in range(vertex):
            ratio = graph.selectivity[e, parent, vertex] * room.ratios[e, parent]
            if ratio != 0.0:
                rate += room.rates[e, parent] * ratio
        room.rates[e, vertex] = rate
        busy = 0.0 if rate == 0.0 else rate / room.speeds[e, vertex]
        room.needed[e, vertex] = busy * (1 + blocked_by_bursts(graph, room, e, vertex, count))


@jit
def blocked_by_bursts(graph: Graph, room: Room, e: int, vertex: int, count: int) -> float:
    """Time that a vertex waits for idle ones, over the time that it works."""
    for target in range(vertex + 1, count):
        if graph.selectivity[e, vertex, target] > 0.0 and not room.idle[e, target] > LEAST_IDLE:
            return 0.0
    return room.blocked[e, vertex]


@jit
def mean_of(room: Room, spans: Spans, e: int, begin: int, count: int) -> float:
    """Records per second of all sources on average, so long ago; 0 where nobody knows."""
    last = spans.looked_back - begin
    total, number = 0.0, 0
    for place in range(max(last - count, 0), last):
        if room.told[e, place]:
            total += room.came[e, place]
            number += 1
    return total / max(number, 1)


@jit
def find_facts(
    room: Room,
    spans: Spans,
    e: int,
    count: int,
    rate: float,
    minutes_waiting: float,
    now_s: float,
    since_s: float,
    latency_s: float,
) -> None:
    """About the job as a whole, in the order of `compact.FACTS`."""
    facts = room.facts[e]
    ten = mean_of(room, spans, e, 0, spans.ten)
    highest = 0.0
    for begin in range(0, spans.looked_back - spans.ten + 1, spans.ten):
        highest = max(highest, mean_of(room, spans, e, begin, spans.ten))
    subtasks = 0
    for vertex in range(count):
        subtasks += room.now[e, vertex]
    day = 2 * math.pi * (now_s % DAY_S) / DAY_S
    since_s = min(since_s, LONG_AGO_S)
    some = rate > 0.0
    facts[0] = 1.0
    facts[1] = log_ratio(ten, rate) if some else 0.0
    facts[2] = log_ratio(mean_of(room, spans, e, 0, spans.three), ten) if some else 0.0
    facts[3] = log_ratio(rate, mean_of(room, spans, e, 0, spans.hour)) if some else 0.0
    facts[4] = log_ratio(highest, rate) if some and highest > 0.0 else 0.0
    facts[5] = math.sin(day)
    facts[6] = math.cos(day)
    facts[7] = math.sin(2 * day)
    facts[8] = math.cos(2 * day)
    noise, change = noise_of(room, spans, e)
    noise = noise / rate if some else USUAL_NOISE
    even = clip(1 - change / rate / UNEVEN, 0.0, 1.0) if some else 0.0
    facts[9] = clip(noise / USUAL_NOISE - 1, -1.0, 1.0)
    facts[10] = min(math.log2(max(subtasks / count, 1.0)) / 2 - 1, MOST_PRACTISED)
    facts[11] = 0.0 if math.isnan(latency_s) else clip(latency_s / spans.slo_s, 0.0, 2.0)
    facts[12] = clip(minutes_waiting, 0.0, 2.0)
    facts[13] = math.log(count / USUAL_VERTICES)
    facts[14] = clip(1 - since_s / 900, 0.0, 1.0)
    facts[15] = clip(1 - since_s / 2700, 0.0, 1.0)
    facts[16] = clip(since_s / 3600 - 0.75, 0.0, 1.0)
    for fact in range(EVENNESS):
        facts[EVENNESS + fact] = facts[fact] * even


@jit
def noise_of(room: Room, spans: Spans, e: int) -> tuple[float, float]:
    """How much neighbouring intervals differ, as a standard deviation of each, and how much mostly."""
    squares, roots, number = 0.0, 0.0, 0
    for place in range(max(spans.looked_back - spans.thirty, 1), spans.looked_back):
        if room.told[e, place] and room.told[e, place - 1]:
            difference = room.came[e, place] - room.came[e, place - 1]
            squares += difference * difference
            roots += math.sqrt(abs(difference))
            number += 1
    mostly = (roots / max(number, 1)) ** 2 if 2 * number >= spans.thirty else math.inf
    return math.sqrt(squares / max(number, 1) / 2), mostly


@jit
def weighed(room: Room, numbers: Floats, e: int, first: int) -> float:
    """A learned function of the facts; its numbers begin at `first`."""
    total = 0.0
    for fact in range(_FACTS):
        total += room.facts[e, fact] * numbers[first + fact]
    return total


@jit
def size_vertex(
    h: History,
    graph: Graph,
    numbers: Floats,
    room: Room,
    e: int,
    vertex: int,
    count: int,
    newest: int,
    size: float,
    limit: float,
    hurry: float,
) -> None:
    """Subtasks that a vertex would keep busy, and how many it is given or must have for each of them."""
    needed = room.needed[e, vertex]
    known = 0.0 if math.isnan(needed) else needed
    told = (
        1.0 if graph.is_source[e, vertex] else 0.0,
        1.0 if graph.key_groups[e, vertex] > 0 else 0.0,
        math.log2(known + 0.5) / 3,
        vertex / count,
        h.queue_fill[newest, vertex],
        clip(math.log(max(known, 0.05) * size / max(room.now[e, vertex], 1)), -1.0, 1.0),
        room.variation[e, vertex],
    )
    of_size, of_limit = 0.0, 0.0
    for place in range(len(told)):
        of_size += told[place] * numbers[_SIZE_OF_VERTEX_AT + place]
        of_limit += told[place] * numbers[_LIMIT_OF_VERTEX_AT + place]
    room.busy[e, vertex] = needed * hurry
    room.size[e, vertex] = size * math.exp(clip(of_size, -LARGEST_OF_A_VERTEX, LARGEST_OF_A_VERTEX))
    room.limit[e, vertex] = limit * math.exp(clip(of_limit, -LARGEST_OF_A_VERTEX, LARGEST_OF_A_VERTEX))


@jit
def round_thriftily(
    graph: Graph, numbers: Floats, room: Room, e: int, count: int, factor: float, most: float, found: Integers
) -> None:
    """Whole subtasks, as `compact.thrifty` finds them."""
    best, chosen = math.inf, 0
    for tried in range(len(_TRIED)):
        total = 0
        for vertex in range(count):
            total += rounded(graph, numbers, room, e, vertex, factor, most, _SIZES_TRIED[tried])
        score = math.log(max(total, 1)) - numbers[_WORTH_AT] * _TRIED[tried]
        if score < best:
            best, chosen = score, tried
    for vertex in range(count):
        found[e, vertex] = rounded(graph, numbers, room, e, vertex, factor, most, _SIZES_TRIED[chosen])


@jit
def rounded(
    graph: Graph, numbers: Floats, room: Room, e: int, vertex: int, factor: float, most: float, tried: float
) -> int:
    """The least parallelism that is worth so many subtasks, within bounds; as it is where nobody knows."""
    sized = room.busy[e, vertex] * min(room.size[e, vertex] * factor, most) * tried
    if math.isnan(sized):
        return room.now[e, vertex]
    missing = numbers[_ROUNDING_AT] + numbers[_ROUNDING_AT + 1] / max(sized, 1.0)
    needed = max(sized - missing, 1e-3)
    groups = graph.key_groups[e, vertex]
    if groups > 0:
        needed = math.ceil(groups / max(math.floor(groups / needed + _ROUNDING), 1.0))
    whole = math.ceil(needed - _ROUNDING)
    return int(min(max(whole, graph.least[e, vertex]), graph.most[e, vertex]))


@jit
def useful(graph: Graph, e: int, vertex: int, parallelism: int) -> float:
    """How many subtasks are worth as much as these, of which the busiest has most key groups."""
    groups = graph.key_groups[e, vertex]
    return groups / (-(-groups // max(parallelism, 1))) if groups > 0 else float(parallelism)


@jit
def commit(graph: Graph, room: Room, e: int, count: int, saving: float, most: float) -> None:
    """Leave in `room.goal` where to go, or what there is if that is not worth a restart."""
    any_over = False
    for vertex in range(count):
        now = room.now[e, vertex]
        strained = room.busy[e, vertex] * min(room.limit[e, vertex], most)
        if strained > useful(graph, e, vertex, now) and room.up[e, vertex] > now:
            any_over = True
    before, after = 0, 0
    for vertex in range(count):
        now = room.now[e, vertex]
        if any_over:
            room.goal[e, vertex] = max(room.up[e, vertex], min(room.goal[e, vertex], now))
        before += now
        after += room.goal[e, vertex]
    if not any_over and 1 - after / max(before, 1) < saving:
        for vertex in range(count):
            room.goal[e, vertex] = room.now[e, vertex]


@inlined
def log_ratio(one: float, other: float) -> float:
    return clip(math.log(max(one, _TINY) / max(other, _TINY)), -1.5, 1.5)


@inlined
def clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
