"""How busy pods may be for a latency limit to hold: a queueing formula, set right by what was measured.

Mean latency is time outside (I/O) plus CPU work, stretched where a pod has less than a core, plus the wait
for a core. For the wait there is the approximation of Sakasegawa (1977) for M/M/c, which also serves
numbers of cores that are not whole: work · u^(√(2(c + 1)) - 1) / (c (1 - u)) with c cores that are busy a
share u; processor sharing has the same mean. A balancer that sends requests to the emptier of two pods
makes many pods nearly as good as three times the cores of one: on single cores busy for 70 %, work takes
1.61 times as long in the limit of many (Mitzenmacher, 1996), and with c = 3 above it is 1.58.

The 99th percentile is taken as a multiple of the mean, and the multiple as what it was in the last minutes:
the formula only says how latency changes with utilisation and pod size, measurements say where it stands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.pod_autoscaling.problem import Flags, Floats

__all__ = ["Behaviour", "busiest", "fitted", "mean_latency_s"]

# Beyond, the formula goes to infinity and a measurement says more about the past than about the formula.
_BUSIEST = 0.97
_POOLED_PODS = 3.0
_TRIED = 10


class Behaviour(NamedTuple):
    """What an application was seen to do, [E] each; NaN where nobody knows."""

    work_s: Floats  # CPU seconds of a request
    outside_s: Floats  # the rest of its latency at no load
    tail: Floats  # 99th percentile over mean


def mean_latency_s(
    work_s: Floats, outside_s: Floats, utilisation: Floats, cores: Floats, pods: Floats
) -> Floats:
    """Mean latency where so many pods have so many cores each and are so busy.

    >>> one = np.ones(1)
    >>> mean_latency_s(0.02 * one, 0 * one, 0.5 * one, 1 * one, 1 * one)  # d / (1 - u)
    array([0.04])
    >>> mean_latency_s(0.02 * one, 0 * one, 0.5 * one, 2 * one, 1 * one).round(5)  # d / (1 - u²) is 0.02667
    array([0.02732])
    """
    busy = np.minimum(utilisation, _BUSIEST)
    speed = np.minimum(np.maximum(cores, 1e-3), 1.0)
    servers = np.maximum(cores, 1.0) * np.minimum(np.maximum(pods, 1.0), _POOLED_PODS)
    wait = busy ** (np.sqrt(2 * (servers + 1)) - 1) / (servers * (1 - busy))
    return outside_s + work_s / speed * (1 + wait)


def fitted(
    work_s: Floats,
    utilisation: Floats,
    cores: Floats,
    pods: Floats,
    mean_s: Floats,
    p99_s: Floats,
    counts: Flags,
) -> Behaviour:
    """Time outside and tail from intervals in which pods of so many `cores` were so busy, [E, L] each.

    `work_s` is that of a request then; the newest is what it is now.
    """
    number = counts.sum(1)
    times = np.maximum(number, 1)
    some = (number > 0) & np.isfinite(work_s[:, -1])
    work = np.where(some[:, None], work_s, 0.0)
    inside = mean_latency_s(work, np.zeros_like(work), utilisation, cores, pods)
    outside_s = np.maximum(np.where(counts, mean_s - inside, 0.0).sum(1) / times, 0.0)
    ratio = np.where(counts, p99_s / np.maximum(outside_s[:, None] + inside, 1e-9), 1.0)
    # A mean of logarithms: one interval of trouble must not double what is held for five minutes.
    tail = np.exp(np.log(np.maximum(ratio, 1e-3)).sum(1) / times)
    return Behaviour(work_s[:, -1], np.where(some, outside_s, np.nan), np.where(some, tail, np.nan))


def busiest(
    behaviour: Behaviour, limit_s: Floats, demand: Floats, pods: Floats, *, least: Floats, most: float
) -> Floats:
    """The highest utilisation within `least` and `most` at which the tail stays below the limit, [E].

    `demand` is the work in cores, spread over so many pods: the busier they may be, the fewer cores they
    have. Where nothing holds the limit, `least`; where nothing is known, NaN.
    """
    # Waits go with u / (1 - u), so that is what is tried in even proportions, [E, n], rising.
    first = np.log(least / (1 - least))
    step = (np.log(most / (1 - most)) - first) / (_TRIED - 1)
    tried = 1 / (1 + np.exp(-first[:, None] - step[:, None] * np.arange(_TRIED)))
    cores = np.maximum(demand / pods, 1e-6)[:, None] / tried
    told = np.isfinite(behaviour.tail)
    work_s, outside_s, tail = (np.where(told, one, 1.0)[:, None] for one in behaviour)
    latency_s = tail * mean_latency_s(work_s, outside_s, tried, cores, pods[:, None])
    # Between the last that holds and the next, as far as a straight line of logarithms goes.
    holds = (latency_s <= limit_s[:, None]).sum(1)
    place, rows = np.minimum(np.maximum(holds - 1, 0), _TRIED - 2), np.arange(len(holds))
    here_s, there_s = latency_s[rows, place], latency_s[rows, place + 1]
    part = np.log(limit_s / here_s) / np.maximum(np.log(there_s / here_s), 1e-9)
    found = first + step * (place + np.minimum(np.maximum(part, 0.0), 1.0))
    return np.where(told, 1 / (1 + np.exp(-found)), np.nan)
