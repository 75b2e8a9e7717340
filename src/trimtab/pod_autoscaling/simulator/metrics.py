"""What the monitoring reports of pods and of the service, and what an interval really was."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trimtab.pod_autoscaling.problem import Samples
from trimtab.pod_autoscaling.simulator import totals
from trimtab.pod_autoscaling.simulator.compiling import inlined, jit, merged
from trimtab.pod_autoscaling.simulator.draws import (
    MISSING,
    NOISE,
    POD_MISSING,
    POD_NOISE,
    count_in,
    draw_normal,
    uniform_of,
)
from trimtab.pod_autoscaling.simulator.rows import serves, working_set
from trimtab.pod_autoscaling.simulator.state import (
    ABSENT,
    BINS,
    METRICS,
    NONE,
    STARTING,
    TRUTH,
    Record,
    State,
)

__all__ = ["close_interval", "read_metrics", "scrape"]

_FIELDS = len(Samples._fields)
# Places of `Samples`, in its order.
(_PRESENT, _COMPLETE, _RATE, _LATE, _FAILED, _LATENCY, _P50, _P99, _IN_FLIGHT, _CPU, _THROTTLED, _MEMORY,
 _KILLS, _REPLICAS, _READY, _CPU_LIMIT, _MEMORY_LIMIT) = range(_FIELDS)  # fmt: skip


@inlined
def noisy(d: Record, luck: np.uint64, what: int) -> float:
    """A factor around 1."""
    return max(0.0, 1.0 + d["metric_noise"] * draw_normal(count_in(luck, what)))


@jit
def scrape(s: State, d: Record, at_s: float) -> None:
    """The metrics server looks at every pod: mean CPU since the last look, and memory now.

    A container must have been running at the last look already. An entry is (1 + the pod's number, cores,
    MiB), or begins with 0.
    """
    run = s.run[0]
    run["scrape"] += 1
    number = run["scrape"]
    place = number % s.scrapes.shape[1]
    missing = count_in(count_in(run["luck"], POD_MISSING), number)
    noise = count_in(count_in(run["luck"], POD_NOISE), number)
    for row in range(run["rows"]):
        pod = s.pods[row]
        s.scrapes[row, place, 0] = 0.0
        running = serves(pod) or pod["state"] == STARTING
        if not running:
            continue
        seen = uniform_of(count_in(missing, pod["number"])) >= d["missing"]
        if number > pod["first_scrape"] and seen:
            luck = count_in(noise, pod["number"])
            memory = working_set(run, pod, at_s) if serves(pod) else run["memory_mib"]
            s.scrapes[row, place, 0] = 1.0 + pod["number"]
            s.scrapes[row, place, 1] = (
                (pod["cpu_s"] - pod["scraped_cpu_s"]) / d["window_s"] * noisy(d, luck, 0)
            )
            s.scrapes[row, place, 2] = min(memory, pod["memory"]) * noisy(d, luck, 1)
        pod["scraped_cpu_s"] = pod["cpu_s"]


@jit
def read_metrics(s: State, d: Record, history: NDArray[np.float64], newer: int) -> None:
    """The sample of the service, since the last reading; older samples move up by one."""
    run = s.run[0]
    length = history.shape[2]
    for field in range(_FIELDS):
        for at in range(length - 1):
            history[newer, field, at] = history[1 - newer, field, at + 1]
    last = length - 1
    new, old = history[newer], history[1 - newer]
    missing = count_in(count_in(run["luck"], MISSING), run["interval"])
    new[_PRESENT, last] = 1.0
    new[_COMPLETE, last] = 0.0
    if uniform_of(missing) >= d["missing"]:
        new[_COMPLETE, last] = 1.0
        fill_sample(s, d, new[:, last])
    else:
        for field in range(_RATE, _FIELDS):
            new[field, last] = old[field, last] if old[_PRESENT, last] > 0.0 else 0.0
    # What was asked for is no metric: whoever asks knows it.
    new[_REPLICAS, last], new[_CPU_LIMIT, last], new[_MEMORY_LIMIT, last] = (
        run["replicas"],
        run["cpu"],
        run["memory"],
    )
    run["memory_peak"] = run["memory_now"]
    look(s, METRICS)
    s.histograms[METRICS, :] = 0


@merged
def fill_sample(s: State, d: Record, sample: NDArray[np.float64]) -> None:
    run = s.run[0]
    luck = count_in(count_in(run["luck"], NOISE), run["interval"])
    span_s = float(d["interval_s"]) if run["interval"] > 0 else float(d["reading_s"])
    finished = max(since(s, METRICS, totals.FINISHED), 1.0)
    slow = noisy(d, luck, _LATENCY)
    sample[_RATE] = since(s, METRICS, totals.ARRIVED) / span_s * noisy(d, luck, _RATE)
    sample[_LATE] = since(s, METRICS, totals.LATE) / finished
    sample[_FAILED] = since(s, METRICS, totals.FAILED) / finished
    answered = since(s, METRICS, totals.ANSWERED)
    if answered > 0.0:
        sample[_LATENCY] = since(s, METRICS, totals.LATENCY_S) / answered * slow
        sample[_P50] = quantile(s, METRICS, math.ceil(0.5 * answered)) * slow
        sample[_P99] = quantile(s, METRICS, math.ceil(0.99 * answered)) * slow
    else:
        sample[_LATENCY] = sample[_P50] = sample[_P99] = oldest_age_s(s)
    sample[_IN_FLIGHT] = since(s, METRICS, totals.INSIDE_S) / span_s * noisy(d, luck, _IN_FLIGHT)
    sample[_CPU] = since(s, METRICS, totals.CPU_S) / span_s * noisy(d, luck, _CPU)
    throttled = throttled_share(s, METRICS) * noisy(d, luck, _THROTTLED)
    sample[_THROTTLED] = min(1.0, throttled)
    sample[_MEMORY] = run["memory_peak"] * noisy(d, luck, _MEMORY)
    sample[_KILLS] = since(s, METRICS, totals.KILLS)
    sample[_READY] = since(s, METRICS, totals.READY_S) / span_s


@jit
def close_interval(s: State, d: Record) -> None:
    """What the interval was; columns as in `state.TRUTHS`."""
    run, t = s.run[0], s.truth
    span_s = float(d["interval_s"])
    finished, failed = since(s, TRUTH, totals.FINISHED), since(s, TRUTH, totals.FAILED)
    answered = since(s, TRUTH, totals.ANSWERED)
    t[0], t[1] = since(s, TRUTH, totals.ARRIVED), finished
    t[2], t[3] = since(s, TRUTH, totals.LATE), failed
    t[4] = t[5] = t[6] = math.nan
    if answered > 0.0:
        t[4] = since(s, TRUTH, totals.LATENCY_S) / answered
        t[5] = quantile(s, TRUTH, math.ceil(0.5 * answered))
        t[6] = quantile(s, TRUTH, math.ceil(0.99 * answered))
    t[7] = since(s, TRUTH, totals.INSIDE_S) / span_s
    t[8] = since(s, TRUTH, totals.READY_S) / span_s
    t[9] = since(s, TRUTH, totals.HELD_CORE_S) / span_s
    t[10] = since(s, TRUTH, totals.HELD_MIB_S) / span_s
    t[11] = since(s, TRUTH, totals.CPU_S) / span_s
    t[12] = since(s, TRUTH, totals.MIB_S) / span_s
    t[13] = throttled_share(s, TRUTH)
    t[14] = since(s, TRUTH, totals.KILLS)
    rank = math.ceil(0.99 * finished)
    if finished == 0.0:
        t[15] = oldest_age_s(s)
    elif rank > answered:
        t[15] = math.inf
    else:
        t[15] = quantile(s, TRUTH, rank)
    look(s, TRUTH)
    s.histograms[TRUTH, :] = 0
    run["interval"] += 1


@inlined
def since(s: State, who: int, what: int) -> float:
    return s.totals[what] - s.marks[who, what]


@jit
def look(s: State, who: int) -> None:
    for what in range(totals.COUNT):
        s.marks[who, what] = s.totals[what]


@inlined
def throttled_share(s: State, who: int) -> float:
    active = since(s, who, totals.ACTIVE)
    return since(s, who, totals.SHORT) / active if active > 0.0 else 0.0


@jit
def quantile(s: State, who: int, rank: float) -> float:
    """The middle of the bin with the request of this rank, counted from the quickest: within 0.5 %."""
    reached, number = 0, 0
    while number < BINS - 1:
        reached += s.histograms[who, number]
        if reached >= rank:
            break
        number += 1
    return 1e-4 * 1.01 ** (number + 0.5)


@jit
def oldest_age_s(s: State) -> float:
    """Age of the oldest request whose caller still waits; 0 if there is none. Outages must count."""
    oldest_s = s.run[0]["now_s"]
    for row in range(s.run[0]["rows"]):
        pod = s.pods[row]
        if pod["state"] != ABSENT and pod["watched"] != NONE:
            oldest_s = min(oldest_s, s.requests[pod["watched"]]["arrived_s"])
    return s.run[0]["now_s"] - oldest_s
