"""Requests inside a pod: they share its CPU, wait for things outside, queue, and give up.

n requests on the CPU of a pod with limit L get min(p, L/n) cores each, p being the most that one can use. All
of them advance alike, so one *work clock* per pod tells when each is through: at the clock's reading when it
came plus its work. Whoever comes or goes changes the clock's speed and nothing else.

Under a quota (`cfs`) they get min(p, node/n) until L x period core-seconds are used, and nothing for the rest
of the period.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.pod_autoscaling.simulator import totals
from trimtab.pod_autoscaling.simulator.compiling import inlined, jit, merged
from trimtab.pod_autoscaling.simulator.draws import count_in, draw_normal
from trimtab.pod_autoscaling.simulator.heaps import popped, pushed
from trimtab.pod_autoscaling.simulator.rows import remove
from trimtab.pod_autoscaling.simulator.state import BINS, ENDING, METRICS, NONE, TRUTH, Record, State

__all__ = ["ANSWERED", "GIVEN_UP", "LOST", "REFUSED", "UNREACHED", "admit", "fail", "fail_all", "live_until"]
__all__ += ["clear_requests", "live_requests", "move_to", "plan"]

# How a request ended; 0: it has not.
ANSWERED, REFUSED, UNREACHED, GIVEN_UP, LOST = range(1, 6)
# Where it is.
QUEUED, ON_CPU, OUTSIDE = range(3)
# What happens next to the requests of a pod.
NOTHING, CPU_DONE, PERIOD_OVER, QUOTA_OUT, BACK, PATIENCE_OUT = range(6)

MOMENT_S = 1e-9
"""A quota that is used up so shortly before a request is through, or before the next one, has been enough."""

_SHORTEST_S = 1e-4
_PER_BIN = 1.0 / math.log(1.01)


@inlined
def move_to(s: State, d: Record, pod: Record, to_s: float) -> None:
    """Let the pod's requests get on to a time before which nothing happens to them."""
    span_s = to_s - pod["now_s"]
    if span_s <= 0.0:
        return
    run, inside, active = s.run[0], pod["inside"], pod["active"]
    pod["now_s"] = to_s
    s.totals[totals.INSIDE_S] += inside * span_s
    s.totals[totals.MIB_S] += span_s * (
        run["memory_mib"]
        + run["memory_per_request_mib"] * inside
        + pod["cache_mib"]
        + run["leak_mib_per_s"] * (to_s - 0.5 * span_s - pod["fresh_s"])
    )
    if active > 0:
        pod["clock"] += pod["rate"] * span_s
        used_s = pod["rate"] * active * span_s
        pod["cpu_s"] += used_s
        s.totals[totals.CPU_S] += used_s
        if d["quota"]:
            pod["tokens_s"] -= used_s
        else:
            s.totals[totals.ACTIVE] += span_s
            if active * run["cores_per_request"] > pod["cpu"]:
                s.totals[totals.SHORT] += span_s


@inlined
def set_rate(s: State, d: Record, pod: Record) -> None:
    """Cores of each request on the CPU."""
    active = pod["active"]
    cores = d["node_cpu"] if d["quota"] else pod["cpu"]
    if active == 0 or pod["held_back"]:
        pod["rate"] = 0.0
    else:
        pod["rate"] = min(s.run[0]["cores_per_request"], cores / active)


@inlined
def plan(s: State, d: Record, pod: Record) -> None:
    """What happens next to the pod's requests if nobody comes; of two at a time, the first of these."""
    set_rate(s, d, pod)
    now_s = pod["now_s"]
    next_s, kind = math.inf, NOTHING
    if pod["active"] > 0 and pod["held_back"]:
        next_s, kind = pod["period_end_s"], PERIOD_OVER
    elif pod["active"] > 0:
        left = s.requests[pod["cpu_top"]]["key"] - pod["clock"]
        next_s, kind = now_s + max(0.0, left) / pod["rate"], CPU_DONE
        if d["quota"]:
            if pod["period_end_s"] < next_s:
                next_s, kind = pod["period_end_s"], PERIOD_OVER
            out_s = now_s + max(0.0, pod["tokens_s"]) / (pod["rate"] * pod["active"])
            if out_s + MOMENT_S < next_s:
                next_s, kind = out_s, QUOTA_OUT
    if pod["io_top"] != NONE and s.requests[pod["io_top"]]["key"] < next_s:
        next_s, kind = s.requests[pod["io_top"]]["key"], BACK
    if pod["watched"] != NONE:
        patience_s = s.requests[pod["watched"]]["arrived_s"] + s.run[0]["timeout_s"]
        if patience_s < next_s:
            next_s, kind = patience_s, PATIENCE_OUT
    pod["next_s"], pod["next_kind"] = next_s, kind


@jit
def live_until(s: State, d: Record, row: int, until_s: float) -> None:
    """Everything that happens to a pod's requests up to a time, that included."""
    live_requests(s, d, row, until_s)


@merged
def live_requests(s: State, d: Record, row: int, until_s: float) -> None:
    """The same as a part of its caller, for the one that calls it most: a call hands over 120 words."""
    pod = s.pods[row]
    while pod["next_s"] <= until_s:
        kind = pod["next_kind"]
        move_to(s, d, pod, pod["next_s"])
        through = NONE
        if kind == CPU_DONE:
            through = leave_cpu(s, pod)
        elif kind == BACK:
            through = pod["io_top"]
            pod["io_top"] = popped(s.requests, through)
        elif kind == PATIENCE_OUT:
            give_up(s, pod)
        elif kind == QUOTA_OUT:
            pod["tokens_s"] = 0.0
            pod["held_back"] = True
            s.totals[totals.SHORT] += 1.0
        else:
            begin_period(s, d, pod, pod["period"] + 1)
        if through != NONE:
            next_one = end_segment(s, pod, through)
            if next_one != NONE:
                enter_cpu(s, d, pod, next_one)
        plan(s, d, pod)
    if pod["state"] == ENDING and pod["inside"] == 0:
        remove(s, row, pod["now_s"])


@inlined
def begin_period(s: State, d: Record, pod: Record, period: int) -> None:
    """A new quota. Periods count from the container's start, and only those with something to do."""
    pod["period"] = period
    pod["period_end_s"] = pod["fresh_s"] + (period + 1) * d["period_s"]
    pod["tokens_s"] = pod["cpu"] * d["period_s"]
    pod["held_back"] = False
    s.totals[totals.ACTIVE] += 1.0


@inlined
def lognormal_of(s: State, request: Record, what: int, median: float, spread: float) -> float:
    """A number of a request that chance decides, the same under every policy: drawn once where it is kept."""
    if spread == 0.0:
        return median
    number = request["number"]
    kept = number < len(s.drawn)
    factor = s.drawn[number, what] if kept else 0.0
    if factor == 0.0:
        factor = math.exp(spread * draw_normal(count_in(request["luck"], what)))
        if kept:
            s.drawn[number, what] = factor
    return median * factor


@merged
def leave_cpu(s: State, pod: Record) -> int:
    """The first on the CPU has done this segment's work. It waits for something outside, or is returned."""
    slot = pod["cpu_top"]
    request = s.requests[slot]
    pod["clock"] = request["key"]
    pod["cpu_top"] = popped(s.requests, slot)
    pod["active"] -= 1
    segment = request["segment"]
    median_s = s.segments[segment, 2] * s.run[0]["io_factor"]
    if median_s <= 0.0:
        return slot
    request["key"] = pod["now_s"] + lognormal_of(
        s, request, 2 * segment + 1, median_s, s.segments[segment, 3]
    )
    request["place"] = OUTSIDE
    pod["io_top"] = pushed(s.requests, pod["io_top"], slot)
    return NONE


@inlined
def enter_cpu(s: State, d: Record, pod: Record, slot: int) -> None:
    """Begin the work of the request's segment; the pod's clock stands at this moment."""
    request = s.requests[slot]
    segment = request["segment"]
    median_s = s.segments[segment, 0] * s.run[0]["cpu_factor"]
    work_s = lognormal_of(s, request, 2 * segment, median_s, s.segments[segment, 1])
    if pod["active"] == 0:
        pod["clock"] = 0.0
        if d["quota"] and pod["now_s"] >= pod["period_end_s"]:
            period = int((pod["now_s"] - pod["fresh_s"]) / d["period_s"])
            # Rounding may put a moment on the wrong side of the grid.
            while pod["fresh_s"] + (period + 1) * d["period_s"] <= pod["now_s"]:
                period += 1
            begin_period(s, d, pod, period)
    request["key"] = pod["clock"] + work_s
    request["place"] = ON_CPU
    pod["cpu_top"] = pushed(s.requests, pod["cpu_top"], slot)
    pod["active"] += 1


@merged
def end_segment(s: State, pod: Record, slot: int) -> int:
    """On to the next segment, or out: then the first of the queue gets the worker. Who enters the CPU now."""
    request = s.requests[slot]
    request["segment"] += 1
    if request["segment"] < s.run[0]["segment_count"]:
        return slot
    if not request["given_up"]:
        answer(s, request, pod["now_s"])
    pod["cache_mib"] += (s.run[0]["cache_mib"] - pod["cache_mib"]) * s.run[0]["cache_share"]
    leave(s, pod, slot)
    first = pod["queue_first"]
    if first == NONE:
        pod["working"] -= 1
    else:
        pod["queue_first"] = s.requests[first]["next"]
    return first


@merged
def answer(s: State, request: Record, at_s: float) -> None:
    latency_s = at_s - request["arrived_s"]
    s.totals[totals.FINISHED] += 1.0
    s.totals[totals.ANSWERED] += 1.0
    s.totals[totals.LATENCY_S] += latency_s
    if latency_s > s.run[0]["slo_s"]:
        s.totals[totals.LATE] += 1.0
    number = int(_PER_BIN * math.log(max(latency_s, _SHORTEST_S) / _SHORTEST_S))
    number = min(number, BINS - 1)
    s.histograms[TRUTH, number] += 1
    s.histograms[METRICS, number] += 1
    note(s, request["number"], at_s, ANSWERED)


@inlined
def fail(s: State, number: int, at_s: float, how: int) -> None:
    s.totals[totals.FINISHED] += 1.0
    s.totals[totals.LATE] += 1.0
    s.totals[totals.FAILED] += 1.0
    note(s, number, at_s, how)


@inlined
def note(s: State, number: int, at_s: float, how: int) -> None:
    if number < len(s.outcomes):
        s.outcomes[number, 0] = at_s
        s.outcomes[number, 1] = how


@inlined
def leave(s: State, pod: Record, slot: int) -> None:
    """The request is out of the pod's list by age, and its slot is free."""
    request = s.requests[slot]
    older, younger = request["older"], request["younger"]
    if older == NONE:
        pod["oldest"] = younger
    else:
        s.requests[older]["younger"] = younger
    if younger == NONE:
        pod["newest"] = older
    else:
        s.requests[younger]["older"] = older
    if pod["watched"] == slot:
        pod["watched"] = younger
    pod["inside"] -= 1
    request["next"] = s.run[0]["free_slot"]
    s.run[0]["free_slot"] = slot


@merged
def give_up(s: State, pod: Record) -> None:
    """The oldest caller that still waits gives up. Who is at work is finished nevertheless: nobody tells."""
    slot = pod["watched"]
    request = s.requests[slot]
    fail(s, request["number"], pod["now_s"], GIVEN_UP)
    if request["place"] == QUEUED:
        # All before it in the queue are older, and have given up already.
        pod["queue_first"] = request["next"]
        leave(s, pod, slot)
    else:
        request["given_up"] = True
        pod["watched"] = request["younger"]


@merged
def admit(s: State, d: Record, pod: Record, number: int, luck: np.uint64, at_s: float) -> bool:
    """Take a request in, or refuse it: whether it is in. The pod has lived up to this moment."""
    run = s.run[0]
    move_to(s, d, pod, at_s)
    if pod["inside"] >= run["places"]:
        fail(s, number, at_s, REFUSED)
        return False
    slot = run["free_slot"]
    request = s.requests[slot]
    run["free_slot"] = request["next"]
    request["number"], request["luck"], request["arrived_s"] = number, luck, at_s
    request["segment"], request["given_up"] = 0, False
    request["older"], request["younger"] = pod["newest"], NONE
    if pod["newest"] == NONE:
        pod["oldest"] = slot
    else:
        s.requests[pod["newest"]]["younger"] = slot
    pod["newest"] = slot
    if pod["watched"] == NONE:
        pod["watched"] = slot
    pod["inside"] += 1
    if pod["working"] < run["workers"]:
        pod["working"] += 1
        enter_cpu(s, d, pod, slot)
    else:
        request["place"], request["next"] = QUEUED, NONE
        if pod["queue_first"] == NONE:
            pod["queue_first"] = slot
        else:
            s.requests[pod["queue_last"]]["next"] = slot
        pod["queue_last"] = slot
    plan(s, d, pod)
    return True


@jit
def fail_all(s: State, pod: Record, at_s: float) -> None:
    """Everything inside is lost."""
    slot = pod["oldest"]
    while slot != NONE:
        following = s.requests[slot]["younger"]
        if not s.requests[slot]["given_up"]:
            fail(s, s.requests[slot]["number"], at_s, LOST)
        s.requests[slot]["next"] = s.run[0]["free_slot"]
        s.run[0]["free_slot"] = slot
        slot = following
    clear_requests(pod)


@jit
def clear_requests(pod: Record) -> None:
    """Nothing inside, nothing to happen."""
    pod["active"] = pod["working"] = pod["inside"] = 0
    pod["cpu_top"] = pod["io_top"] = pod["queue_first"] = pod["queue_last"] = NONE
    pod["oldest"] = pod["newest"] = pod["watched"] = NONE
    pod["clock"] = pod["rate"] = pod["tokens_s"] = 0.0
    pod["held_back"] = False
    pod["period_end_s"] = -math.inf
    pod["next_s"], pod["next_kind"] = math.inf, NOTHING
