"""What rivals read out of a snapshot, and what an interval was worth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.pod_autoscaling.heuristics.measures import known
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, Flags, Floats, Snapshot

__all__ = ["FEATURES", "Seen", "features_of", "look", "worth"]

# CPU for a third of the work more is as dear as one percent more of late requests, where that is the budget.
# A service that holds six times what it needs, or where a fifth of the requests is late, is as bad as it can
# be, lest one disaster outweigh everything else that was learned.
_PRICE, _MOST_HELD = 1 / 3, 6.0
_FINE, _WORST = 0.1, 2.0

FEATURES = (
    "busy", "latency", "late", "growth", "growth in a minute", "replicas", "cpu", "starting", "memory",
)  # fmt: skip
"""What networks are told of a service, each number about within -2 and 2."""


class Seen(NamedTuple):
    """The newest interval of every service, [E] each; rows that are not `told` repeat an older one."""

    told: Flags  # monitoring answered
    rate: Floats  # requests per second
    cores: Floats  # used by all pods
    busy: Floats  # share of the CPU of ready pods that is used
    used: Floats  # share of all that is asked for
    memory: Floats  # share of its memory that the largest pod uses
    latency: Floats  # 99th percentile over the limit
    inside: Floats  # requests inside, over those that would be if each stayed as long as the limit
    late: Floats  # share of requests
    budget: Floats  # share that may be
    growth: Floats  # logarithm of the rate over that of the interval before
    growth_minute: Floats  # of the last two over the two of a minute before
    asked: Floats  # replicas
    ready: Floats  # pods that served, on average, at least a tenth of one
    cpu: Floats  # cores of a pod


def look(snapshot: Snapshot) -> Seen:
    """The newest interval of every service."""
    samples, limit_s = snapshot.samples, snapshot.services.slo_s
    newest = {name: getattr(samples, name)[:, -1] for name in samples._fields}
    ready = np.maximum(np.where(newest["ready"] > 0, newest["ready"], snapshot.ready), 0.1)
    asked, cpu = snapshot.size[:, REPLICAS], snapshot.size[:, CPU]
    cores = newest["cpu"]
    return Seen(
        told=known(snapshot, samples.rate, samples.cpu, samples.late, samples.latency_p99_s)[:, -1],
        rate=newest["rate"],
        cores=cores,
        busy=np.clip(cores / (ready * cpu), 0.0, 1.2),
        used=np.clip(cores / (np.maximum(asked, ready) * cpu), 0.0, 1.0),
        memory=np.clip(newest["memory"] / snapshot.size[:, MEMORY], 0.0, 1.2),
        latency=np.clip(newest["latency_p99_s"] / limit_s, 0.01, 100.0),
        inside=np.clip(newest["in_flight"] / np.maximum(newest["rate"] * limit_s, 0.1), 0.001, 100.0),
        late=np.clip(newest["late"], 0.0, 1.0),
        budget=snapshot.services.budget,
        growth=_growth(samples.rate, samples.present, recent=1, apart=1),
        growth_minute=_growth(samples.rate, samples.present, recent=2, apart=4),
        asked=asked,
        ready=ready,
        cpu=cpu,
    )


def features_of(seen: Seen) -> Floats:
    """`FEATURES` of every service, [E, 9]."""
    return np.stack(
        [
            3 * (seen.busy - 0.6),
            np.clip(np.log(seen.latency), -2.0, 2.0),
            np.log1p(np.minimum(seen.late / seen.budget, 20.0)) - 0.5,
            4 * seen.growth,
            2 * seen.growth_minute,
            np.log(seen.asked) - 1.0,
            2 * np.log(seen.cpu),
            np.clip(2 * (1 - seen.ready / seen.asked), -1.0, 2.0),
            3 * (seen.memory - 0.6),
        ],
        axis=1,
    )


def worth(seen: Seen) -> Floats:
    """What the interval was worth: less the more CPU was held for what was used, and the more was late.

    >>> from types import SimpleNamespace as Some
    >>> interval = Some(used=np.array([0.5, 0.6]), late=np.array([0.0, 0.02]), budget=np.array([0.01, 0.01]))
    >>> worth(interval).round(3).tolist()
    [0.333, 0.244]
    """
    held = np.minimum(1 / np.maximum(seen.used, 1e-3), _MOST_HELD)
    return 1 - _PRICE * held - np.minimum(_FINE * seen.late / seen.budget, _WORST)


def _growth(rate: Floats, present: Flags, *, recent: int, apart: int) -> Floats:
    """Logarithm of the mean rate of the last intervals over that of as many, so far apart; at most 1.

    0 where the service, or the history that is seen of it, is too young for that.
    """
    length = rate.shape[1]
    if length < recent + apart:
        return np.zeros(len(rate))
    before = slice(length - recent - apart, length - apart)
    # One request per second more on either side: few requests say little of growth.
    ratio = (rate[:, -recent:].mean(1) + 1.0) / (rate[:, before].mean(1) + 1.0)
    return np.where(present[:, before].all(1), np.clip(np.log(ratio), -1.0, 1.0), 0.0)
