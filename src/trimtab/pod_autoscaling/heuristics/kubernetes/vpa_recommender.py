"""What Kubernetes' vertical pod autoscaler recommends: usage into histograms, percentiles out of them.

    container of a pod                   container of a service (all its pods)
    ContainerUsage -- CPU samples -----> ServiceUsage.cpu       every sample, weight 0.1
                   -- memory peaks ----> ServiceUsage.memory    one peak a day, weight 1, replaced by a higher

`recommend` takes the 90th percentile as target and the 50th and 95th as bounds, adds 15 %, widens the bounds
while the history is short, and raises all to a least size. `within_policy` keeps it inside what a policy
allows, `applied` turns a target into requests and limits.

Amounts are millicores and bytes. Kubernetes cuts them to whole ones after each step (0.2584 cores become
258 m, with 38.7 m of margin 296 m); `whole=False` leaves the formulas as they are (297.16 m). The weight of
CPU samples was once meant to be the request, which nobody filled in (kubernetes/autoscaler issue 7818).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trimtab.core.errors import HistoryError, SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_histogram import (
    DAY_S,
    DecayingHistogram,
    cpu_buckets,
    instant,
    memory_buckets,
    seconds_of_instant,
)

__all__ = [
    "MIB",
    "Allocation",
    "Amounts",
    "ContainerPolicy",
    "ContainerUsage",
    "Recommendation",
    "RecommenderSettings",
    "ServiceUsage",
    "applied",
    "confidence",
    "proportional_limit",
    "recommend",
    "rounded_up",
    "within_policy",
]

CPU_SAMPLE_WEIGHT = 0.1
CHECKPOINT_VERSION = "v3"
LARGEST_AMOUNT = 1e14
MIB = 1024.0 * 1024.0


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """The flags of the recommender that decide about numbers, with their usual values."""

    target_percentile: float = 0.9
    lower_percentile: float = 0.5
    upper_percentile: float = 0.95
    margin: float = 0.15
    confidence_s: float = DAY_S
    least_pod_cpu_millicores: float = 25.0
    least_pod_memory_bytes: float = 250 * MIB
    cpu_step_millicores: int = 1
    memory_step_bytes: int = 1
    memory_window_s: float = DAY_S
    oom_ratio: float = 1.2
    oom_least_bytes: float = 100 * MIB
    whole: bool = True

    def __post_init__(self) -> None:
        shares = (self.target_percentile, self.lower_percentile, self.upper_percentile)
        if not all(0 < share <= 1 for share in shares):
            raise SettingsError(f"percentiles {shares}; give shares above 0 and up to 1, such as 0.9")
        if (
            min(self.confidence_s, self.memory_window_s, self.cpu_step_millicores, self.memory_step_bytes)
            <= 0
        ):
            raise SettingsError(f"{self}; windows and steps of rounding are above 0")
        if self.margin < 0 or self.oom_ratio < 1 or self.oom_least_bytes < 0:
            raise SettingsError(f"{self}; give a margin from 0, an OOM ratio from 1 and an OOM step from 0")


USUAL = RecommenderSettings()


class Amounts(NamedTuple):
    """CPU and memory of one container."""

    cpu_millicores: float
    memory_bytes: float


NO_BOUND = Amounts(0, 0)


class Recommendation(NamedTuple):
    """`uncapped` is the target before a policy had its say."""

    target: Amounts
    lower: Amounts
    upper: Amounts
    uncapped: Amounts


@dataclass(slots=True)
class ServiceUsage:
    """All that is known of a container over the pods of a service. Times and count are of CPU samples."""

    cpu: DecayingHistogram = field(default_factory=lambda: DecayingHistogram(cpu_buckets()))
    memory: DecayingHistogram = field(default_factory=lambda: DecayingHistogram(memory_buckets()))
    first_s: float | None = None
    last_s: float | None = None
    samples: int = 0

    def merge(self, other: ServiceUsage) -> None:
        """What another set of pods used, in addition: for instance, those of the former template."""
        self.cpu.merge(other.cpu)
        self.memory.merge(other.memory)
        self.first_s = min((at_s for at_s in (self.first_s, other.first_s) if at_s is not None), default=None)
        self.last_s = max((at_s for at_s in (self.last_s, other.last_s) if at_s is not None), default=None)
        self.samples += other.samples

    def save(self) -> dict[str, Any]:
        """As the status of a VerticalPodAutoscalerCheckpoint has it."""
        return {
            "version": CHECKPOINT_VERSION,
            "firstSampleStart": instant(self.first_s),
            "lastSampleStart": instant(self.last_s),
            "totalSamplesCount": self.samples,
            "cpuHistogram": self.cpu.save(),
            "memoryHistogram": self.memory.save(),
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> ServiceUsage:
        """From a checkpoint, also one that Kubernetes wrote."""
        if saved.get("version") != CHECKPOINT_VERSION:
            raise HistoryError(
                f"checkpoint of version {saved.get('version')!r}; give one of {CHECKPOINT_VERSION}"
            )
        return cls(
            DecayingHistogram.load(saved.get("cpuHistogram", {}), cpu_buckets()),
            DecayingHistogram.load(saved.get("memoryHistogram", {}), memory_buckets()),
            seconds_of_instant(saved.get("firstSampleStart")),
            seconds_of_instant(saved.get("lastSampleStart")),
            int(saved.get("totalSamplesCount", 0)),
        )


@dataclass(slots=True)
class ContainerUsage:
    """One container of one pod: what it has told the histograms of its service.

    Samples come in the order of time; Kubernetes rounds them up to whole millicores and bytes before.

    >>> service = ServiceUsage()
    >>> pod = ContainerUsage(service)
    >>> pod.add_cpu(0.25, at_s=0.0), pod.add_cpu(0.25, at_s=0.0)
    (True, False)
    """

    service: ServiceUsage
    settings: RecommenderSettings = USUAL
    last_cpu_s: float = -math.inf
    last_memory_s: float = -math.inf
    window_end_s: float | None = None
    memory_peak_bytes: float = 0.0
    oom_peak_bytes: float = 0.0

    def add_cpu(self, cores: float, *, at_s: float) -> bool:
        """Whether the sample was taken; one that is negative, repeated or late is not."""
        if cores < 0 or at_s <= self.last_cpu_s:
            return False
        service = self.service
        service.cpu.add(cores, weight=CPU_SAMPLE_WEIGHT, at_s=at_s)
        if service.last_s is None or at_s > service.last_s:
            service.last_s = at_s
        if service.first_s is None or at_s < service.first_s:
            service.first_s = at_s
        service.samples += 1
        self.last_cpu_s = at_s
        return True

    def add_memory(self, used_bytes: float, *, at_s: float) -> bool:
        """Whether the sample was taken; only what is above the peak of the day changes anything."""
        if used_bytes < 0 or at_s < self.last_memory_s:
            return False
        self._take(used_bytes, at_s, oom=False)
        return True

    def add_oom(self, requested_bytes: float, *, at_s: float) -> bool:
        """Killed for want of memory: needs 20 % or 100 MiB more than it asked for or was seen to use.

        Former kills of the day do not count as use, lest repeated kills run away. A kill before the present
        window is not taken.
        """
        settings = self.settings
        if self.window_end_s is not None and at_s < self.window_end_s - settings.memory_window_s:
            return False
        used = max(requested_bytes, self.memory_peak_bytes)
        grown = _cut(used * settings.oom_ratio, settings)
        self._take(max(used + settings.oom_least_bytes, grown), at_s, oom=True)
        return True

    def _take(self, used_bytes: float, at_s: float, *, oom: bool) -> None:
        self.last_memory_s = at_s
        window_s, peaks = self.settings.memory_window_s, self.service.memory
        if self.window_end_s is None:
            self.window_end_s = at_s
        if at_s < self.window_end_s:
            former = max(self.memory_peak_bytes, self.oom_peak_bytes)
            if former == 0 or used_bytes <= former:
                return
            peaks.subtract(former, weight=1.0, at_s=self.window_end_s)
        else:
            # A peak is dated to the end of its window, up to a day ahead of its samples.
            self.window_end_s += (math.floor((at_s - self.window_end_s) / window_s) + 1) * window_s
            self.memory_peak_bytes = self.oom_peak_bytes = 0.0
        peaks.add(used_bytes, weight=1.0, at_s=self.window_end_s)
        if oom:
            self.oom_peak_bytes = used_bytes
        else:
            self.memory_peak_bytes = used_bytes


def confidence(usage: ServiceUsage, confidence_s: float = DAY_S) -> float:
    """Days of history: by the clock, or by samples at one a minute, whichever is less.

    After 12 h the upper bound is 3 times the estimate, after a week 1.14 times; after 5 min the lower bound
    is 0.6 times the estimate: young containers are left alone.
    """
    if usage.first_s is None or usage.last_s is None:
        return 0.0
    return min((usage.last_s - usage.first_s) / confidence_s, usage.samples / (confidence_s / 60))


def recommend(
    usage: ServiceUsage, *, containers: int = 1, settings: RecommenderSettings = USUAL
) -> Recommendation:
    """Target and bounds for one of `containers` of a pod, which share the least size of a pod.

    >>> service = ServiceUsage()
    >>> pod = ContainerUsage(service)
    >>> _ = [pod.add_cpu(1.0, at_s=60.0 * minute) for minute in range(1441)]
    >>> _ = pod.add_memory(2**30, at_s=0.0)
    >>> recommend(service).target
    Amounts(cpu_millicores=1168, memory_bytes=1238659775)
    """
    shares = (settings.target_percentile, settings.lower_percentile, settings.upper_percentile)
    days = confidence(usage, settings.confidence_s)
    factors = (1.0, 0.0, math.inf) if days <= 0 else (1.0, (1 + 0.001 / days) ** -2.0, 1 + 1 / days)
    share_of_pod = 1.0 / containers
    least_cpu = _cut(_cut(settings.least_pod_cpu_millicores, settings) * share_of_pod, settings)
    least_memory = _cut(_cut(settings.least_pod_memory_bytes, settings) * share_of_pod, settings)
    cores, sizes = usage.cpu.percentiles(shares), usage.memory.percentiles(shares)
    cpu = [_estimate(1000.0 * cores[i], factors[i], least_cpu, settings) for i in range(3)]
    memory = [_estimate(sizes[i], factors[i], least_memory, settings) for i in range(3)]
    if settings.cpu_step_millicores != 1:
        cpu = [rounded_up(amount, settings.cpu_step_millicores) for amount in cpu]
    if settings.memory_step_bytes != 1:
        memory = [rounded_up(amount, settings.memory_step_bytes) for amount in memory]
    target, lower, upper = (Amounts(*both) for both in zip(cpu, memory, strict=True))
    return Recommendation(target, lower, upper, target)


def rounded_up(amount: float, step: int) -> float:
    """Up to a whole number of steps.

    >>> rounded_up(79, 50), rounded_up(100, 50)
    (100, 100)
    """
    return math.ceil(amount / step) * step


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """What a VPA may do with one container. Amounts of 0 set no bound; the most wins over the least.

    `limits_follow` is RequestsAndLimits (the limit keeps its proportion to the request); otherwise limits
    stay and no request goes above them. A resource that is not controlled stays as it is.
    """

    least: Amounts = NO_BOUND
    most: Amounts = NO_BOUND
    limits_follow: bool = True
    controls_cpu: bool = True
    controls_memory: bool = True
    active: bool = True

    def __post_init__(self) -> None:
        if min(*self.least, *self.most) < 0:
            raise SettingsError(
                f"allowed from {self.least} to {self.most}; give amounts from 0, 0 for no bound"
            )


USUAL_POLICY = ContainerPolicy()


class Allocation(NamedTuple):
    """Requests and limits of one container; None where there is none."""

    cpu_request_millicores: int | None = None
    cpu_limit_millicores: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None


def within_policy(
    recommendation: Recommendation, policy: ContainerPolicy, present: Allocation | None = None
) -> Recommendation:
    """Target and bounds inside what is allowed; where limits stay as `present`, not above those either."""
    limits = NO_BOUND
    if present is not None and not policy.limits_follow:
        limits = Amounts(present.cpu_limit_millicores or 0, present.memory_limit_bytes or 0)

    def inside(amounts: Amounts) -> Amounts:
        bounds = zip(amounts, policy.least, policy.most, limits, strict=True)
        return Amounts(*(_bounded(*one) for one in bounds))

    target, lower, upper, uncapped = recommendation
    return Recommendation(inside(target), inside(lower), inside(upper), uncapped)


def applied(target: Amounts, present: Allocation, policy: ContainerPolicy = USUAL_POLICY) -> Allocation:
    """The container with the target as its request, and limits in proportion or as they are.

    >>> tuple(applied(Amounts(300, 2**30), Allocation(200, 1000, 2**29, 2**29)))
    (300, 1500, 1073741824, 1073741824)
    """
    cpu_request, cpu_limit, memory_request, memory_limit = present
    if policy.active and policy.controls_cpu:
        if policy.limits_follow:
            cpu_limit = _followed(cpu_limit, cpu_request, int(target.cpu_millicores))
        cpu_request = int(target.cpu_millicores)
    if policy.active and policy.controls_memory:
        if policy.limits_follow:
            memory_limit = _followed(memory_limit, memory_request, int(target.memory_bytes))
        memory_request = int(target.memory_bytes)
    return Allocation(cpu_request, cpu_limit, memory_request, memory_limit)


def proportional_limit(limit: int | None, request: int | None, recommended: int) -> int | None:
    """The limit that is to the recommended request as the limit was to the request; None leaves it as it is.

    >>> (
    ...     proportional_limit(1000, 300, 450),
    ...     proportional_limit(None, 300, 450),
    ...     proportional_limit(800, None, 450),
    ... )
    (1500, None, 450)
    """
    if not limit or not recommended:
        return None
    if request is None or request == limit:
        return recommended
    if request == 0:  # no proportion to keep: a limit is never lowered, only raised to the request
        return recommended if recommended > limit else None
    return limit * recommended // request


def _followed(limit: int | None, request: int | None, recommended: int) -> int | None:
    scaled = proportional_limit(limit, request, recommended)
    return limit if scaled is None else scaled


def _estimate(measured: float, factor: float, least: float, settings: RecommenderSettings) -> float:
    base = _cut(measured, settings)
    with_margin = base + _cut(base * settings.margin, settings)
    # Without any usage there is nothing to widen: 0 * infinity is the least size, as everything too small is.
    return max(_cut(with_margin * factor, settings) if with_margin else 0, least)


def _cut(amount: float, settings: RecommenderSettings) -> float:
    capped = min(max(amount, 0.0), LARGEST_AMOUNT)
    return int(capped) if settings.whole else capped


def _bounded(amount: float, least: float, most: float, limit: float) -> float:
    bounded = max(amount, least)
    for ceiling in (most, limit):
        if ceiling and bounded > ceiling:
            bounded = ceiling
    return bounded
