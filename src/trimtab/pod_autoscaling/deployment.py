"""Where and how a service runs: bounds of its size, nodes, resizes, monitoring; and what is good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["Deployment", "Objective"]

SIZES = ("replicas", "cpu", "memory_mib")


class Objective(Settings):
    """What is good: requests in time, little CPU and memory.

    `aware` is w·RU + (1 - w)·SP: RU is the mean of the shares of CPU and of memory that are used, SP the
    limit over the 99th percentile of latency, at most 1; a request that failed was never answered.

    `lagrangian` is minus (cores held + memory_price · GiB held + multiplier · cores that the requests above
    the budget need), over the cores that the whole trace needs on average (at least those of the smallest
    size). The requests above the budget are late - budget · finished: less than none where an interval has
    some to spare, so that rewards add up to the constraint of a whole episode. Their mean is minus its
    `cost`, over those cores. Whoever trains moves the multiplier.
    """

    reward: Literal["aware", "lagrangian"] = Field(default="aware", description="Which of the two.")
    utilisation_weight: float = Field(
        default=0.3, ge=0, le=1, description="w: weight of utilisation; the rest is that of latency."
    )
    budget: float = Field(default=0.01, gt=0, lt=1, description="Share of requests that may be late or fail.")
    memory_price: float = Field(
        default=0.12, ge=0, le=100, description="Price of a GiB, in prices of a core."
    )
    multiplier: float = Field(
        default=20.0,
        ge=0,
        le=1e6,
        description="Cores that a share of late requests of 1 is worth, per core needed.",
    )


class Deployment(Settings):
    """Everything about a simulated Kubernetes that is not the application and not what arrives.

    A start that is not told is the usual one, or the bound that it would be beyond.

    >>> Deployment(interval_s=30).interval_s, Deployment(least_memory_mib=1000).start_memory_mib
    (30, 1000.0)
    """

    interval_s: int = Field(default=15, ge=1, le=600, description="Seconds between decisions.")
    history: int = Field(default=20, ge=4, le=2880, description="Intervals of metrics that a policy sees.")
    least_replicas: int = Field(default=1, ge=1, le=1000, description="Replicas may not be fewer.")
    most_replicas: int = Field(default=20, ge=1, le=1000, description="Nor more.")
    least_cpu: float = Field(default=0.1, gt=0, le=256, description="Cores of a pod may not be fewer.")
    most_cpu: float = Field(default=4.0, gt=0, le=256, description="Nor more.")
    least_memory_mib: float = Field(default=64, gt=0, le=1e6, description="MiB of a pod may not be fewer.")
    most_memory_mib: float = Field(default=4096, gt=0, le=1e6, description="Nor more.")
    cpu_quantum: float = Field(default=0.01, gt=0, le=1, description="Cores come in such steps.")
    memory_quantum_mib: float = Field(default=16, gt=0, le=1024, description="MiB come in such steps.")
    start_replicas: int = Field(default=2, ge=1, le=1000, description="Replicas at the beginning.")
    start_cpu: float = Field(default=1.0, gt=0, le=256, description="Cores of a pod at the beginning.")
    start_memory_mib: float = Field(default=512, gt=0, le=1e6, description="MiB of a pod at the beginning.")
    nodes: int = Field(default=0, ge=0, le=1000, description="Nodes of the cluster; 0: always room.")
    node_cpu: float = Field(default=16.0, gt=0, le=1024, description="Cores of a node.")
    node_memory_mib: float = Field(default=65_536, gt=0, le=1e8, description="MiB of a node.")
    sharing: Literal["ps", "cfs"] = Field(
        default="ps",
        description="A pod's limit shared smoothly, or as a quota of the Linux scheduler's periods.",
    )
    period_ms: int = Field(default=100, ge=1, le=1000, description="Period of that quota.")
    balancing: Literal["two-choices", "random", "round-robin"] = Field(
        default="two-choices", description="Which pod gets a request: the emptier of two, any, each in turn."
    )
    schedule_s: float = Field(default=1.0, ge=0, le=600, description="Until a pod is placed on a node.")
    pull_s: float = Field(default=0.0, ge=0, le=3600, description="Time to fetch the image, each time.")
    drain_s: float = Field(
        default=30.0, ge=0, le=3600, description="A pod on its way out finishes its requests for so long."
    )
    resize: Literal["in_place", "restart"] = Field(
        default="in_place", description="How pods get other resources: as they run, or one by one anew."
    )
    resize_s: float = Field(
        default=2.0, ge=0, le=600, description="Until a resize in place takes effect, from half to double."
    )
    restart_s: float = Field(
        default=2.0, ge=0, le=600, description="Until a container that was killed begins to start again."
    )
    backoff_s: float = Field(
        default=10.0, ge=0, le=3600, description="Wait after the second kill, doubled with each further one."
    )
    longest_backoff_s: float = Field(default=300.0, ge=0, le=3600, description="But no longer than this.")
    burst: float = Field(
        default=1.0, ge=1, le=100, description="Index of dispersion of arrivals in a second; 1: Poisson."
    )
    metric_window_s: float = Field(default=15.0, gt=0, le=300, description="Pods' usage is a mean over it.")
    metric_lag_s: float = Field(default=15.0, ge=0, le=300, description="And is so old when it arrives.")
    report_lag_s: float = Field(
        default=5.0,
        ge=0,
        le=300,
        description="Metrics of the service are read so long before a decision, but within its interval.",
    )
    missing: float = Field(default=0.01, ge=0, le=1, description="Chance that a sample is missing.")
    metric_noise: float = Field(default=0.01, ge=0, le=1, description="Relative error of a metric.")
    objective: Objective = Field(default=Objective(), description="What is good.")

    @model_validator(mode="before")
    @classmethod
    def _start_follows_bounds(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        moved: dict[str, Any] = {}
        for name in SIZES:
            start, least, most = f"start_{name}", given.get(f"least_{name}"), given.get(f"most_{name}")
            usual = cls.model_fields[start].default
            if isinstance(least, int | float) and least > usual:
                moved[start] = least
            elif isinstance(most, int | float) and most < usual:
                moved[start] = most
        return {**moved, **given}

    @model_validator(mode="after")
    def _bounds_fit(self) -> Deployment:
        for name in SIZES:
            least, most = getattr(self, f"least_{name}"), getattr(self, f"most_{name}")
            start = getattr(self, f"start_{name}")
            if least > most:
                raise ValueError(
                    f"least_{name} = {least:g} is above most_{name} = {most:g}; lower the one or raise the "
                    "other"
                )
            if not least <= start <= most:
                raise ValueError(f"start_{name} = {start:g} is not within {least:g} to {most:g}; move it")
        if self.nodes and (self.start_cpu > self.node_cpu or self.start_memory_mib > self.node_memory_mib):
            raise ValueError(
                "no node can hold a pod of the start's size; lower start_cpu or start_memory_mib"
            )
        return self
