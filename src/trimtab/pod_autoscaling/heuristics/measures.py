"""What rules read out of a snapshot: each measure is written once, here.

Everything is vectorised over services (E). NaN means "nobody knows": no complete sample is in the window. A
rule leaves such a service as it is.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.problem import (
    CPU,
    MEMORY,
    REPLICAS,
    Flags,
    Floats,
    Services,
    Snapshot,
    nearest_allowed,
)

__all__ = [
    "POD_CPU",
    "Highest",
    "completed",
    "cpu_per_request",
    "intervals_in",
    "just_begun",
    "known",
    "latest",
    "mean",
    "replicas_for",
    "rounded_up",
    "size_of",
    "slope",
    "work_by_interval",
]

# Ratios of floats that are whole numbers on paper must not be rounded up: ceil(3.0000000000000004) is 4.
_ROUNDING = 1e-9

# Where pods have no CPU left, arrivals are not what they work on; such intervals say little of a request.
_SATURATED = 0.95

# Requests have become heavier if they take a tenth and two standard deviations more, where the work of one
# varies as much as its mean: with 100 requests before and 100 since, 1 + 0.1 + 2 x 0.14 = 1.38 times as much.
_HEAVIER, _DEVIATIONS, _LEAST_BEFORE = 0.1, 2.0, 3

POD_CPU = Parameter("cpu", 0.0, "cores of a pod; 0: as they are", (0, 0.5, 1, 2, 3, 4), low=0.0, high=256.0)


def intervals_in(span_s: float, interval_s: float) -> int:
    """So many whole intervals cover a span; at least one."""
    return max(1, math.ceil(span_s / interval_s - _ROUNDING))


def just_begun(snapshot: Snapshot) -> Flags:
    """Services that have lived through one interval at most, [E]: what was remembered is not theirs."""
    return ~snapshot.samples.present[:, -2]


def known(snapshot: Snapshot, *values: Floats) -> Flags:
    """Intervals that monitoring told of, all of these values among it, [E, L]."""
    counts = snapshot.samples.present & snapshot.samples.complete
    for one in values:
        counts = counts & np.isfinite(one)
    return counts


def mean(values: Floats, counts: Flags) -> Floats:
    """Mean over the intervals that count, [E]; NaN where none does.

    >>> values, counts = np.array([[1.0, 3.0, 8.0]]), np.array([[True, True, False]])
    >>> mean(values, counts).tolist(), mean(values, counts & False).tolist()
    ([2.0], [nan])
    """
    number = counts.sum(1)
    total = np.where(counts, values, 0.0).sum(1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def latest(values: Floats, counts: Flags) -> Floats:
    """The newest value that counts, [E]; NaN where there is none."""
    place = counts.shape[1] - 1 - np.argmax(counts[:, ::-1], axis=1)
    found = np.take_along_axis(values, place[:, None], axis=1)[:, 0]
    return np.where(counts.any(1), found, np.nan)


def slope(values: Floats, counts: Flags, interval_s: float) -> Floats:
    """Growth per second: least squares over the intervals that count, [E]; 0 where fewer than two do.

    >>> values, counts = np.array([[10.0, 99.0, 16.0]]), np.array([[True, False, True]])
    >>> slope(values, counts, 15.0).tolist()
    [0.2]
    """
    time_s = interval_s * np.arange(counts.shape[1], dtype=np.float64)[None]
    number = np.maximum(counts.sum(1), 1)
    middle = np.where(counts, time_s, 0.0).sum(1) / number
    away = np.where(counts, time_s - middle[:, None], 0.0)
    spread = (away * away).sum(1)
    moment = (away * np.where(counts, values, 0.0)).sum(1)
    return np.where(spread > 0, moment / np.maximum(spread, 1e-12), 0.0)


def completed(snapshot: Snapshot) -> Floats:
    """Requests per second that pods finished, [E, L]: those that came, less what failed or piled up.

    In an overload a service cannot work on all that arrives: 300 requests/s at two saturated pods that
    finish 100/s let 200/s pile up, and CPU over arrivals would be a third of the truth.
    """
    samples = snapshot.samples
    inside = samples.in_flight
    told = known(snapshot, inside)
    grew = np.zeros_like(inside)
    grew[:, 1:] = np.where(told[:, 1:] & told[:, :-1], inside[:, 1:] - inside[:, :-1], 0.0)
    return np.maximum(_answered(snapshot) - grew / snapshot.interval_s, 0.0)


def _answered(snapshot: Snapshot) -> Floats:
    """Requests per second that came and did not fail, [E, L].

    What fails without an answer (refused, given up in a queue) took no CPU worth speaking of.
    """
    return snapshot.samples.rate * (1 - np.clip(snapshot.samples.failed, 0.0, 1.0))


def cpu_per_request(snapshot: Snapshot, span_s: float) -> Floats:
    """CPU seconds of one request, [E]; NaN where nothing was finished in the last `span_s`.

    The line through the origin of CPU used against requests finished, weighted as the noise of counts wants
    it (variance in proportion to the count): the sum of one over the sum of the other. Intervals in which
    pods were saturated or still starting (which burns CPU for no request) count only where there are no
    others.
    """
    samples = snapshot.samples
    count = min(intervals_in(span_s, snapshot.interval_s), samples.present.shape[1])
    done = completed(snapshot)[:, -count:]
    counts = known(snapshot, samples.cpu, samples.rate, samples.failed)[:, -count:]
    cpu, ready = samples.cpu[:, -count:], samples.ready[:, -count:]
    held = ready * samples.cpu_limit[:, -count:]
    calm = counts & (cpu < _SATURATED * held) & (ready >= samples.replicas[:, -count:] - 0.01)
    # Two calm intervals are enough to go by; one may be the tail of an overload.
    counts = np.where((calm.sum(1) >= 2)[:, None], calm, counts)
    used, finished = (np.where(counts, one, 0.0).sum(1) for one in (cpu, done))
    some = (used > 0) & (finished > 0)
    return np.where(some, used / np.where(some, finished, 1.0), np.nan)


def work_by_interval(snapshot: Snapshot) -> Floats:
    """CPU seconds of one request in each interval, [E, L], the newest being what it is now; NaN: unknown.

    All are `cpu_per_request`, unless requests have become heavier: then those before and those since then
    have each their own. Pods are saturated after such a change, so saturated intervals count here; what came
    and piled up counts as finished, lest a rush looks like heavier requests.
    """
    samples, interval_s = snapshot.samples, snapshot.interval_s
    length = samples.present.shape[1]
    usual = cpu_per_request(snapshot, length * interval_s)[:, None]
    counts = known(snapshot, samples.cpu, samples.rate, samples.failed)
    counts &= samples.ready >= samples.replicas - 0.01
    done = np.maximum(completed(snapshot), _answered(snapshot))
    used, finished = (np.cumsum(np.where(counts, one, 0.0), 1) for one in (samples.cpu, done))
    used_since, since = used[:, -1:] - used, finished[:, -1:] - finished
    places = np.arange(length)
    some = (used > 0) & (finished > 0) & (since > 1e-9) & (places >= _LEAST_BEFORE - 1)
    old, new = (
        np.divide(*pair, out=np.ones_like(used), where=some)
        for pair in ((used, finished), (used_since, since))
    )
    requests = interval_s * finished * since / np.maximum(finished + since, 1e-9)
    sure = np.where(some, (new / old - 1 - _HEAVIER) * np.sqrt(requests), 0.0)
    last_before = sure.argmax(1)[:, None]
    old, new, sure = (np.take_along_axis(one, last_before, 1) for one in (old, new, sure))
    heavier = (sure > _DEVIATIONS) & (new > usual)
    return np.where(heavier, np.where(places <= last_before, old, new), usual)


def rounded_up(needed: Floats) -> Floats:
    """Whole numbers, up; NaN stays."""
    return np.ceil(needed - _ROUNDING)


def replicas_for(cores: Floats, *, utilisation: Floats | float, cpu: Floats) -> Floats:
    """Pods of `cpu` cores that are so busy with this work at most, [E]; at least one, NaN where unknown.

    >>> replicas_for(np.array([6.0, 0.0]), utilisation=0.85, cpu=np.array([1.0, 1.0])).tolist()
    [8.0, 1.0]
    """
    return np.maximum(rounded_up(cores / (utilisation * cpu)), 1.0)


def size_of(
    snapshot: Snapshot,
    *,
    replicas: Floats | None = None,
    cpu: Floats | float | None = None,
    memory: Floats | None = None,
) -> Floats:
    """The size with these columns changed, [E, 3], within bounds; what is NaN or not given is as it is."""
    wanted = snapshot.size.copy()
    for column, values in ((REPLICAS, replicas), (CPU, cpu), (MEMORY, memory)):
        if values is not None:
            wanted[:, column] = np.where(np.isfinite(values), values, wanted[:, column])
    return nearest_allowed(snapshot.services, wanted)


class Highest:
    """The highest of what was wanted in the last `span_s`: what is scaled down to.

    The first want is at least what there is: a fresh autoscaler does not scale down for a while.
    """

    def __init__(self, services: Services, span_s: float) -> None:
        self._services, self._span_s = len(services.slo_s), span_s
        self._kept = np.zeros((0, self._services))  # newest last

    def __call__(self, wanted: Floats, snapshot: Snapshot, present: Floats) -> Floats:
        """What to do, given what is wanted now (NaN: nobody knows) and what there is at present."""
        wanted = np.where(np.isnan(wanted), present, wanted)
        if self._span_s <= 0:
            return wanted
        fresh = just_begun(snapshot)
        if not len(self._kept):
            # One of exactly `span_s` ago counts too: a minute of 15-second intervals holds five; of 40-second
            # ones two, for the third is older, as in HPA.
            count = 1 + math.floor(self._span_s / snapshot.interval_s + _ROUNDING)
            self._kept = np.zeros((count, self._services))
            fresh = np.ones_like(fresh)
        self._kept[:, fresh] = 0.0
        self._kept[:-1] = self._kept[1:]
        self._kept[-1] = np.where(fresh, np.maximum(wanted, present), wanted)
        return np.where(wanted > present, wanted, np.minimum(present, self._kept.max(0)))
