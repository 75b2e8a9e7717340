"""One substep of the fluid: what each vertex could do, then what moves.

First pass, children before parents: a vertex can process what its subtasks manage and what its outputs take.
An output takes the room in its queue plus what the target will take out of it in this very substep; a target
promises its ability to its inputs in proportion to what waits there and what came last. Second pass, parents
before children: records move. A target takes at least what it promised to each input, so no queue grows
beyond its bound; and a record may cross the whole job within one substep: there is no artificial delay.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.stream_autoscaling.simulator.compiling import inlined, jit
from trimtab.stream_autoscaling.simulator.draws import count_in, draw_poisson
from trimtab.stream_autoscaling.simulator.fifo import pop, push
from trimtab.stream_autoscaling.simulator.state import BINS, EMPTY, METRICS, TRUTH, Record, State

__all__ = ["arrive", "bound_of", "flow", "mean_rate", "waiting_at"]

_BINS_PER_FOLD = (BINS - 1) / math.log(1e9)
_LEAST_LATENCY_S = 1e-3


@jit
def arrive(s: State, d: Record) -> None:
    """What comes to the sources in this substep waits before them, born in its middle."""
    run = s.run[0]
    substep_s = 0.001 * d["substep_ms"]
    birth = 0.001 * run["now_ms"] + 0.5 * substep_s
    expected = mean_rate(s, run["now_ms"], d["substep_ms"]) * substep_s
    substep = run["now_ms"] // d["substep_ms"]
    backlog = run["edge_count"]
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        if v["source"] < 0:
            continue
        amount = expected * v["share"]
        if d["poisson"]:
            amount = draw_poisson(count_in(count_in(run["arrival_luck"], vertex), substep), amount)
        if amount > 0.0:
            push(s, backlog + v["source"], amount, birth)
            v["arrived_total"] += amount
            run["arrived"] += amount


@jit
def mean_rate(s: State, from_ms: int, length_ms: int) -> float:
    """Records per second over a span of the trace, whose rate is constant within each of its steps."""
    run = s.run[0]
    step_ms, last = run["trace_step_ms"], run["trace_steps"] - 1
    until_ms = from_ms + length_ms
    step = min(int(from_ms / step_ms), last)
    if (step + 1) * step_ms >= until_ms or step == last:
        return s.rates[step]
    total, since_ms = 0.0, float(from_ms)
    while since_ms < until_ms:
        end_ms = float(until_ms) if step == last else min((step + 1) * step_ms, float(until_ms))
        total += s.rates[step] * (end_ms - since_ms)
        since_ms = end_ms
        step = min(step + 1, last)
    return total / length_ms


@jit
def flow(s: State, d: Record, up_s: float, middle_s: float) -> None:
    """Records move for `up_s` seconds around the moment `middle_s`."""
    set_capacities(s, d, up_s)
    for vertex in range(s.run[0]["vertex_count"] - 1, -1, -1):
        find_ability(s, d, vertex)
    for vertex in range(s.run[0]["vertex_count"]):
        process(s, d, vertex, up_s, middle_s)


@inlined
def set_capacities(s: State, d: Record, up_s: float) -> None:
    """What the subtasks manage: on average their rate, less where cores are short, and at random."""
    run = s.run[0]
    share = share_of_cores(s, d, up_s) if d["cores"] > 0.0 else 1.0
    substep = run["now_ms"] // d["substep_ms"]
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        capacity = v["rate"] * share * up_s
        if v["service_spread"] > 0.0:
            # Work comes in lumps of variance / mean records: mean and variance are those of the number
            # served by one busy server. One record each is a Poisson process: exponential service times.
            lump = v["service_spread"] * v["service_spread"]
            luck = count_in(count_in(run["capacity_luck"], vertex), substep)
            capacity = lump * draw_poisson(luck, capacity / lump)
        v["capacity"] = capacity


@jit
def share_of_cores(s: State, d: Record, up_s: float) -> float:
    """How much of a core a busy subtask gets at most: equal parts; what some do not need goes to the others.

    `need` is the part of a core that a subtask's work takes, judged by what waits and what came last.
    """
    count = s.run[0]["vertex_count"]
    subtasks = 0.0
    for vertex in range(count):
        v = s.vertices[vertex]
        to_do = 0.0
        for place in range(v["first_in"], v["first_in"] + v["ins"]):
            q = s.queues[s.inputs[place]]
            to_do += q["amount"] + q["came"]
        v["need"] = min(1.0, to_do / (v["rate"] * up_s))
        subtasks += v["parallelism"]
    share = d["cores"] / subtasks
    # Each round settles at least one more vertex, so there are at most as many as vertices.
    for _ in range(count):
        modest, others = 0.0, 0.0
        for vertex in range(count):
            v = s.vertices[vertex]
            if v["need"] <= share:
                modest += v["parallelism"] * v["need"]
            else:
                others += v["parallelism"]
        if others == 0.0:
            return 1.0
        larger = (d["cores"] - modest) / others
        if larger <= share:
            break
        share = larger
    return min(1.0, share)


@inlined
def find_ability(s: State, d: Record, vertex: int) -> None:
    """First pass: records this vertex can process, promised to its inputs."""
    v = s.vertices[vertex]
    accepted = np.inf
    for edge in range(v["first_out"], v["first_out"] + v["outs"]):
        q = s.queues[edge]
        room = max(0.0, bound_of(d, q) - q["amount"])
        accepted = min(accepted, (room + q["reserved"]) / q["selectivity"])
    if v["window_ms"] > 0 and v["outs"] > 0:
        v["blocked"] = v["pending"] > accepted + EMPTY
        v["released"] = accepted if v["blocked"] else v["pending"]
        v["ability"] = 0.0 if v["blocked"] else v["capacity"]
    else:
        v["ability"] = min(v["capacity"], accepted)
    promise(s, v)


@inlined
def bound_of(d: Record, q: Record) -> float:
    """Records an edge may hold; with debloating no more than some seconds' worth of them."""
    if d["debloat_s"] > 0.0:
        return min(q["bound"], max(q["least_bound"], d["debloat_s"] * q["consumed_per_s"]))
    return q["bound"]


@inlined
def promise(s: State, v: Record) -> None:
    first, end = v["first_in"], v["first_in"] + v["ins"]
    if v["ins"] == 1:
        s.queues[s.inputs[first]]["reserved"] = v["ability"]
        return
    expected = 0.0
    for place in range(first, end):
        q = s.queues[s.inputs[place]]
        expected += q["amount"] + q["came"]
    for place in range(first, end):
        q = s.queues[s.inputs[place]]
        part = (q["amount"] + q["came"]) / expected if expected > 0.0 else 1.0 / v["ins"]
        q["reserved"] = part * v["ability"]


@inlined
def process(s: State, d: Record, vertex: int, up_s: float, middle_s: float) -> None:
    """Second pass: take records from the inputs, send what becomes of them, and keep count."""
    v = s.vertices[vertex]
    waiting = waiting_at(s, v)
    birth = consume(s, v, waiting, up_s)
    processed = v["processed"]
    v["processed_total"] += processed
    v["metric_in"] += processed
    account_time(v, s.run[0], waiting, up_s)
    if v["outs"] == 0:
        if processed > 0.0:
            leave(s, processed, middle_s - birth + v["service_age_s"])
    elif v["window_ms"] > 0:
        v["held"] += processed
        v["held_age"] += processed * (middle_s - birth + v["service_age_s"])
        release(s, d, v, middle_s, up_s)
    else:
        send(s, d, v, processed, birth - v["service_age_s"], up_s)


@inlined
def release(s: State, d: Record, v: Record, middle_s: float, up_s: float) -> None:
    """Send results that are due, as old as their records were when the window took them.

    Waiting for the end of a window is no latency.
    """
    released, pending = v["released"], v["pending"]
    age_s = v["pending_age"] / pending if pending > 0.0 else 0.0
    v["pending"] = pending - released
    v["pending_age"] = v["pending"] * age_s
    v["released_total"] += released
    send(s, d, v, released, middle_s - age_s, up_s)


@inlined
def waiting_at(s: State, v: Record) -> float:
    waiting = 0.0
    for place in range(v["first_in"], v["first_in"] + v["ins"]):
        waiting += s.queues[s.inputs[place]]["amount"]
    return waiting


@inlined
def consume(s: State, v: Record, waiting: float, up_s: float) -> float:
    """Take what can be taken; gives the mean birth. What is promised to an input comes first."""
    first, end = v["first_in"], v["first_in"] + v["ins"]
    everything = waiting <= v["ability"] + EMPTY
    promised = 0.0
    if not everything:
        for place in range(first, end):
            q = s.queues[s.inputs[place]]
            promised += min(q["amount"], q["reserved"])
    rest = v["ability"] - promised
    taken, moment = 0.0, 0.0
    for place in range(first, end):
        queue = s.inputs[place]
        q = s.queues[queue]
        part = q["amount"]
        if not everything:
            part = min(q["amount"], q["reserved"])
            if waiting > promised:
                part += (q["amount"] - part) * rest / (waiting - promised)
            part = min(part, q["amount"])
        q["consumed_per_s"] = part / up_s
        q["before"] -= part
        if part > 0.0:
            born = pop(s, queue, part)
            taken += part
            moment += part * born
            if v["source"] >= 0:
                push(s, queue + s.run[0]["source_count"], part, born)
    v["processed"] = taken
    return moment / taken if taken > 0.0 else 0.0


@inlined
def account_time(v: Record, run: Record, waiting: float, up_s: float) -> None:
    """Busy, blocked by a full output, or idle (the rest)."""
    if v["capacity"] > 0.0:
        busy = min(1.0, v["processed"] / v["capacity"])
    else:
        busy = 1.0 if waiting > EMPTY and not v["blocked"] else 0.0
    full = v["blocked"] or (v["ability"] < v["capacity"] and waiting > v["ability"] + EMPTY)
    v["busy_s"] += busy * up_s
    v["metric_busy_s"] += busy * up_s
    if full:
        v["metric_blocked_s"] += (1.0 - busy) * up_s
    run["busy_subtask_s"] += busy * up_s * v["parallelism"]


@inlined
def send(s: State, d: Record, v: Record, processed: float, birth: float, up_s: float) -> None:
    """Records go out on every edge; each waits until its buffer is full, or for the timeout."""
    for edge in range(v["first_out"], v["first_out"] + v["outs"]):
        q = s.queues[edge]
        amount = processed * q["selectivity"]
        q["came"] = amount
        if amount > 0.0:
            filling_s = q["segment_records"] * up_s / amount
            push(s, edge, amount, birth - min(d["buffer_timeout_s"], filling_s))
            v["metric_out"] += amount


@inlined
def leave(s: State, amount: float, latency_s: float) -> None:
    """Records have reached a sink."""
    run = s.run[0]
    run["left"] += amount
    run["latency_moment"] += amount * latency_s
    run["metric_left"] += amount
    run["metric_latency_moment"] += amount * latency_s
    number = 0
    if latency_s > _LEAST_LATENCY_S:
        number = min(BINS - 1, int(math.log(latency_s / _LEAST_LATENCY_S) * _BINS_PER_FOLD))
    for kind in (TRUTH, METRICS):
        s.histograms[kind, number, 0] += amount
        s.histograms[kind, number, 1] += amount * latency_s
