"""Requests arrive: a Poisson process whose rate changes every second, and a balancer that spreads them."""

from __future__ import annotations

import math

import numpy as np

from trimtab.pod_autoscaling.simulator import totals
from trimtab.pod_autoscaling.simulator.comings import kill, next_due
from trimtab.pod_autoscaling.simulator.compiling import inlined, jit, merged
from trimtab.pod_autoscaling.simulator.draws import count_in, draw_exponential, draw_gamma
from trimtab.pod_autoscaling.simulator.rows import settle, working_set
from trimtab.pod_autoscaling.simulator.serving import UNREACHED, admit, fail, live_requests
from trimtab.pod_autoscaling.simulator.settings import RANDOM, ROUND_ROBIN
from trimtab.pod_autoscaling.simulator.state import EXPONENT, Record, State

__all__ = ["arrive", "begin_second"]

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@jit
def begin_second(s: State, d: Record) -> None:
    """The rate of the second that begins, and the first arrival in it, if there is one.

    With a burst index b above 1 the rate is multiplied by a Gamma number of mean 1 and variance (b - 1) / m,
    m being the mean number of arrivals in the second: their variance is then b times their mean.
    """
    run = s.run[0]
    second = run["second"]
    rate = s.rates[min(second // run["trace_step_s"], run["trace_steps"] - 1)]
    if d["burst"] > 1.0 and rate > 0.0:
        shape = rate / (d["burst"] - 1.0)
        rate *= draw_gamma(count_in(run["burst_luck"], second), shape) / shape
    run["rate"] = rate
    run["next_arrival_s"] = math.inf
    if run["exponent"] >= rate:
        run["exponent"] -= rate
        return
    at_s = second + run["exponent"] / rate
    if at_s < second + 1:
        run["next_arrival_s"] = at_s
    else:
        run["exponent"] = 0.0


@inlined
def exponent_of(s: State, number: int) -> float:
    """The unit exponential before this arrival: drawn once where it is kept."""
    kept = number < len(s.drawn)
    exponent = s.drawn[number, EXPONENT] if kept else 0.0
    if exponent == 0.0:
        exponent = draw_exponential(count_in(s.run[0]["arrival_luck"], number))
        if kept:
            s.drawn[number, EXPONENT] = exponent
    return exponent


@merged
def plan_arrival(s: State, at_s: float) -> None:
    """The one after the arrival at `at_s`; `arrived` is its number."""
    run = s.run[0]
    exponent = exponent_of(s, run["arrived"])
    next_s, end_s = at_s + exponent / run["rate"], run["second"] + 1.0
    if next_s < end_s:
        run["next_arrival_s"] = next_s
    else:
        run["next_arrival_s"] = math.inf
        run["exponent"] = max(0.0, exponent - run["rate"] * (end_s - at_s))


@merged
def choices(s: State, d: Record, number: int) -> tuple[int, int]:
    """Rows of the ready pods that the request may go to; the same twice where there is no choice."""
    run = s.run[0]
    count = run["ready_count"]
    if d["balancing"] == ROUND_ROBIN:
        run["turn"] += 1
        row = int(s.ready[(run["turn"] - 1) % count])
        return row, row
    luck = count_in(run["route_luck"], number)
    first = np.int64(((luck >> _32) * np.uint64(count)) >> _32)
    if d["balancing"] == RANDOM or count == 1:
        row = int(s.ready[first])
        return row, row
    second = np.int64(((luck & _LOW) * np.uint64(count - 1)) >> _32)
    if second >= first:
        second += 1
    return int(s.ready[first]), int(s.ready[second])


@merged
def arrive(s: State, d: Record) -> None:
    """The next request arrives, and goes to the emptier of two pods, or else to the first of them.

    Without a ready pod nobody listens, and it fails at once.
    """
    run = s.run[0]
    at_s, number = run["next_arrival_s"], run["arrived"]
    run["arrived"] += 1
    s.totals[totals.ARRIVED] += 1.0
    if run["ready_count"] == 0:
        fail(s, number, at_s, UNREACHED)
    else:
        one, other = choices(s, d, number)
        for row in (one, other):
            if s.pods[row]["next_s"] <= at_s:
                live_requests(s, d, row, at_s)
        row = other if s.pods[other]["inside"] < s.pods[one]["inside"] else one
        pod = s.pods[row]
        if admit(s, d, pod, number, count_in(run["work_luck"], number), at_s):
            used = working_set(run, pod, at_s)
            run["memory_peak"] = max(run["memory_peak"], min(used, pod["memory"]))
            if used > pod["memory"]:
                run_out(s, d, row, at_s)
    plan_arrival(s, at_s)


@jit
def run_out(s: State, d: Record, row: int, at_s: float) -> None:
    """The request was too much for the pod's memory."""
    settle(s, s.pods[row], at_s)
    kill(s, d, row, at_s)
    next_due(s)
