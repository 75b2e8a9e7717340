"""An application: what its requests need, what its pods hold, how long a pod takes to start.

A request passes through one to three *segments* in order; each is CPU work followed by waiting for something
outside (I/O). All segments run in one pod: a service of several functions in a row, as AWARE's synthetic
applications are (Qiu et al., ATC 2023), whose functions are those of Sizeless (Eismann et al., Middleware
2021).
"""

from __future__ import annotations

import math

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["LONGEST_LIMIT_MS", "Application", "Segment"]

LONGEST_LIMIT_MS = 3.6e6


class Segment(Settings):
    """One function of a request's path.

    >>> Segment(name="resize", cpu_ms=12, cpu_variation=0.6).io_ms
    0.0
    """

    name: str = Field(default="work", min_length=1, description="Name in tables.")
    cpu_ms: float = Field(default=20.0, gt=0, le=600_000, description="Mean CPU work, at one core.")
    cpu_variation: float = Field(
        default=1.0, ge=0, le=50, description="Squared coefficient of variation of the work (lognormal)."
    )
    io_ms: float = Field(default=0.0, ge=0, le=600_000, description="Mean wait for something outside.")
    io_variation: float = Field(
        default=1.0, ge=0, le=50, description="Squared coefficient of variation of that wait (lognormal)."
    )


class Application(Settings):
    """Everything about a service that is not its size and not what arrives.

    >>> app = Application(segments=(Segment(cpu_ms=20), Segment(cpu_ms=5, io_ms=30)))
    >>> app.cpu_s, app.unloaded_s
    (0.025, 0.055)
    """

    name: str = Field(default="app", min_length=1, description="Name in tables.")
    segments: tuple[Segment, ...] = Field(
        default=(Segment(),), min_length=1, max_length=3, description="What a request passes through."
    )
    cores_per_request: float = Field(
        default=1.0, gt=0, le=64, description="Most cores that one request can use at a time."
    )
    workers: int = Field(default=64, ge=1, le=4096, description="Requests a pod works on at a time.")
    queue: int = Field(
        default=512, ge=0, le=65_536, description="Requests a pod holds back; more are refused."
    )
    timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="Callers give up after so long; the request fails."
    )
    memory_mib: float = Field(default=60.0, gt=0, le=1e6, description="Memory of an idle pod.")
    memory_per_request_mib: float = Field(
        default=1.0, ge=0, le=1e5, description="Memory of a request inside a pod, queued or at work."
    )
    cache_mib: float = Field(
        default=0.0, ge=0, le=1e6, description="Memory that a pod gathers while it works, in the long run."
    )
    cache_requests: float = Field(
        default=10_000.0, gt=0, le=1e9, description="After so many requests 63 % of it are gathered."
    )
    leak_mib_per_hour: float = Field(default=0.0, ge=0, le=1e5, description="Memory never given back.")
    start_s: float = Field(
        default=8.0, gt=0, le=3600, description="Median time from being placed on a node to readiness."
    )
    start_spread: float = Field(default=0.3, ge=0, le=2, description="Deviation of its logarithm.")
    start_cpu_s: float = Field(
        default=1.0, ge=0, le=1000, description="CPU seconds that a pod burns before it is ready."
    )
    slo_factor: float = Field(
        default=2.0, ge=1.05, le=100, description="Latency limit, in unloaded 99th percentiles; see slo_s."
    )
    slo_ms: float = Field(
        default=0.0,
        ge=0,
        le=LONGEST_LIMIT_MS,
        description="Limit of the 99th percentile; 0: slo_factor decides.",
    )

    @model_validator(mode="after")
    def _possible(self) -> Application:
        if self.limit_problem:
            raise ValueError(self.limit_problem)
        return self

    @property
    def cpu_s(self) -> float:
        """Mean CPU work of a request, in core-seconds."""
        return sum(one.cpu_ms for one in self.segments) / 1000

    @property
    def cpu_variation(self) -> float:
        """Squared coefficient of variation of a request's work; segments vary independently."""
        return sum(one.cpu_ms**2 * one.cpu_variation for one in self.segments) / (1000 * self.cpu_s) ** 2

    @property
    def io_s(self) -> float:
        """Mean time of a request outside."""
        return sum(one.io_ms for one in self.segments) / 1000

    @property
    def unloaded_s(self) -> float:
        """Mean latency in an idle pod of enough cores."""
        return self.cpu_s / self.cores_per_request + self.io_s

    @property
    def full_mib(self) -> float:
        """The most memory that a pod holds: all requests it can take in, and a full cache; leaks come on top.

        >>> Application(workers=8, queue=12, memory_per_request_mib=5.0, memory_mib=60.0).full_mib
        160.0
        """
        return self.memory_mib + self.cache_mib + self.memory_per_request_mib * (self.workers + self.queue)

    @property
    def unloaded_p99_s(self) -> float:
        """99th percentile of latency in an idle pod: that of a lognormal with the sum's mean and variance.

        Sums of two or three lognormals are within a few percent of it; it only sets the limit.

        >>> round(Application(segments=(Segment(cpu_ms=20, io_ms=30),)).unloaded_p99_s, 3)
        0.183
        """
        cpu = (self.cpu_s / self.cores_per_request) ** 2 * self.cpu_variation
        io = sum(one.io_ms**2 * one.io_variation for one in self.segments) / 1e6
        spread = math.log1p((cpu + io) / self.unloaded_s**2)
        return self.unloaded_s * math.exp(2.3263478740408408 * math.sqrt(spread) - spread / 2)

    @property
    def slo_s(self) -> float:
        """The limit of the 99th percentile of latency."""
        return self.slo_ms / 1000 if self.slo_ms else self.slo_factor * self.unloaded_p99_s

    def with_patient_callers(self) -> Application:
        """With callers who wait for twice the limit at least, as nobody waits less than is still in time.

        >>> slow = Application(segments=(Segment(cpu_ms=10_000, cpu_variation=0),))
        >>> slow.slo_s, slow.timeout_s, slow.with_patient_callers().timeout_s
        (20.0, 30.0, 40.0)
        """
        longest_s = min(float(f"{2 * self.slo_s:.4g}"), 3600.0)
        return self.model_copy(update={"timeout_s": max(self.timeout_s, longest_s)})

    @property
    def limit_problem(self) -> str:
        """Why no size can hold the limit, empty if one can; only a service that became slow may have one."""
        if self.slo_s > self.unloaded_p99_s:
            return ""
        return (
            f"slo_ms = {self.slo_ms:g} is not above the {1000 * self.unloaded_p99_s:.4g} ms within which an "
            "idle pod answers 99 % of the requests; no size can hold it, raise it"
        )
