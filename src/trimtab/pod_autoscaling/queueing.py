"""Closed forms for one pod that gets Poisson arrivals: mean latency, how many are inside, and the tail.

Requests on a pod's CPU get min(p, L/n) cores each. That is a queue with processor sharing whose speed depends
on how many are in it, and for such queues the distribution of their number depends on the work of a request
only through its mean (Kelly 1979, Cohen 1979). With a = rate x work, the chance of n inside is

    P(n) = P(0) a^n / (s(1) s(2) ... s(n)),    s(n) = min(n p, L)

which is M/M/1 for L = 1, M/M/c for p = 1 and L = c (Erlang), and M/M/infinity for very large L. Little's law
gives the mean time. Time outside (I/O) adds to it and changes nothing else, as long as there are workers
enough.

The simulator knows nothing of this page; tests hold it to these formulas. Everything here is plain numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "erlang_b",
    "erlang_c",
    "inside_above",
    "lognormal_quantile",
    "mean_cpu_s",
    "mean_inside",
    "p99_cpu_s",
]

Floats = NDArray[np.float64]

NORMAL_P99 = 2.3263478740408408


def erlang_b(offered: float, servers: int) -> float:
    """The share of arrivals that find all servers busy and are lost; offered = rate x work.

    >>> round(erlang_b(2.0, 2), 6)  # (4 / 2) / (1 + 2 + 4 / 2)
    0.4
    """
    lost = 1.0
    for server in range(1, servers + 1):
        lost = offered * lost / (server + offered * lost)
    return lost


def erlang_c(offered: float, servers: int) -> float:
    """The share of arrivals that must wait; offered is below the number of servers.

    >>> erlang_c(0.7, 1)  # one server: its utilisation
    0.7
    """
    lost = erlang_b(offered, servers)
    load = offered / servers
    return lost / (1 - load * (1 - lost))


def _chances(offered: Floats, cores: Floats, each: float) -> tuple[list[Floats], Floats]:
    """Weights of 0, 1, ... m inside, m being the first number at which all cores are used; and their ratio
    from there on, which is the utilisation."""
    most = int(np.ceil(np.max(cores) / each))
    weights = [np.ones_like(offered)]
    for number in range(1, most + 1):
        weights.append(weights[-1] * offered / np.minimum(number * each, cores))
    return weights, offered / cores


def mean_inside(
    rate: ArrayLike, work_s: ArrayLike, cores: ArrayLike, cores_per_request: float = 1.0
) -> Floats:
    """Mean number of requests on the CPU of a pod; infinite at a utilisation of 1 and beyond.

    >>> mean_inside(35.0, 0.02, 1.0).round(4).item()  # 0.7 / (1 - 0.7)
    2.3333
    """
    offered, cores = np.broadcast_arrays(np.asarray(rate, float) * work_s, np.asarray(cores, float))
    weights, load = _chances(offered, cores, cores_per_request)
    below = np.minimum(load, 0.999999)
    last = len(weights) - 1
    # After the last weight w come w r, w r^2, ...: sums of a geometric series and of n times it.
    total = sum(weights[:-1], np.zeros_like(offered)) + weights[-1] / (1 - below)
    number = sum((n * weight for n, weight in enumerate(weights[:-1])), np.zeros_like(offered))
    number = number + weights[-1] * (last / (1 - below) + below / (1 - below) ** 2)
    return np.where(load < 1, number / total, np.inf)


def inside_above(
    count: int, rate: ArrayLike, work_s: ArrayLike, cores: ArrayLike, cores_per_request: float = 1.0
) -> Floats:
    """The chance of more than `count` on the CPU: what a pod's memory must be laid out for.

    >>> inside_above(3, 25.0, 0.02, 1.0).item()  # 0.5^4
    0.0625
    """
    offered, cores = np.broadcast_arrays(np.asarray(rate, float) * work_s, np.asarray(cores, float))
    weights, load = _chances(offered, cores, cores_per_request)
    below = np.minimum(load, 0.999999)
    while len(weights) < count + 2:
        weights.append(weights[-1] * below)
    total = sum(weights[:-1], np.zeros_like(offered)) + weights[-1] / (1 - below)
    above = sum(weights[count + 1 : -1], np.zeros_like(offered)) + weights[-1] / (1 - below)
    return np.where(load < 1, above / total, 1.0)


def mean_cpu_s(
    rate: ArrayLike, work_s: ArrayLike, cores: ArrayLike, cores_per_request: float = 1.0
) -> Floats:
    """Mean time on the CPU, whatever the distribution of the work; without time outside.

    >>> mean_cpu_s([35.0, 70.0], 0.02, [1.0, 2.0]).round(6).tolist()  # d / (1 - u); Erlang's C for two
    [0.066667, 0.039216]
    """
    rate = np.maximum(np.asarray(rate, float), 1e-12)
    return mean_inside(rate, work_s, cores, cores_per_request) / rate


def lognormal_quantile(mean: ArrayLike, variation: ArrayLike, normal: float = NORMAL_P99) -> Floats:
    """A quantile of a lognormal number by its mean and squared coefficient of variation.

    >>> lognormal_quantile(1.0, 1.0).round(3).item()
    4.905
    """
    variance = np.log1p(np.asarray(variation, float))
    return np.asarray(mean, float) * np.exp(normal * np.sqrt(variance) - variance / 2)


def p99_cpu_s(
    rate: ArrayLike, work_s: ArrayLike, variation: ArrayLike, cores: ArrayLike, cores_per_request: float = 1.0
) -> Floats:
    """About the 99th percentile of the time on the CPU, for lognormal work.

    Under processor sharing a request takes, in the mean, a time in proportion to its work (Kleinrock 1976).
    So the longest requests take the longest work times the mean slowdown, and more, since the share that each
    gets varies; the more even the work is, the more that counts. This last factor is fitted to simulations at
    utilisations of 0.3 to 0.9, variations of 0.1 to 4 and 0.5 to 4 cores, where it holds within 10 %.

    >>> p99_cpu_s([0.0, 35.0], 0.02, 1.0, 1.0).round(3).tolist()
    [0.098, 0.461]
    """
    work_s, cores = np.asarray(work_s, float), np.asarray(cores, float)
    alone_s = work_s / np.minimum(cores, cores_per_request)
    mean_s = mean_cpu_s(rate, work_s, cores, cores_per_request)
    waiting = 1 - alone_s / mean_s
    spread = np.sqrt(np.log1p(np.asarray(variation, float)))
    uneven = 1 + 2.7 * np.exp(-1.85 * spread) * np.maximum(waiting, 0.0) ** (0.55 + 0.5 * spread)
    return lognormal_quantile(mean_s, variation) * uneven
