"""Where and how a streaming job runs: slots, checkpoints, restarts, monitoring, and what counts as good."""

from __future__ import annotations

from typing import Literal

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["MOST_VIOLATION_COST", "Deployment", "Objective"]

MOST_VIOLATION_COST = 100.0


class Objective(Settings):
    """What is good: records in time, few slots, few restarts."""

    slo_s: float = Field(default=5.0, gt=0, le=1e5, description="Latency that must not be exceeded.")
    latency_weight: float = Field(
        default=0.7, ge=0, le=1, description="Weight of latency; the rest is that of utilisation."
    )
    rescale_cost: float = Field(default=0.2, ge=0, le=100, description="Reward lost by every rescale.")
    violation_cost: float = Field(
        default=0.5,
        ge=0,
        le=MOST_VIOLATION_COST,
        description="Reward lost in an interval above the latency limit.",
    )


class Deployment(Settings):
    """Everything about a simulated Flink that is not the job and not what arrives.

    >>> Deployment(interval_s=30).interval_s
    30
    """

    interval_s: int = Field(default=60, ge=1, le=3600, description="Seconds between decisions.")
    substep_ms: int = Field(
        default=1000, ge=10, le=60_000, description="Time step of the fluid; must divide the interval."
    )
    history: int = Field(default=60, ge=2, le=1440, description="Intervals of metrics that a policy sees.")
    slots: int = Field(default=0, ge=0, le=100_000, description="Most slots the job may take; 0: no limit.")
    slots_per_worker: int = Field(default=4, ge=1, le=1024, description="Slots of one task manager.")
    worker_start_s: float = Field(
        default=20.0, ge=0, le=3600, description="Restart takes so much longer when task managers are added."
    )
    cores: float = Field(default=0, ge=0, le=1e6, description="CPU cores all subtasks share; 0: one each.")
    checkpoint_s: float = Field(default=10.0, ge=1, le=86_400, description="Time between checkpoints.")
    checkpoint_mb_per_s: float = Field(default=200.0, gt=0, description="Speed of writing state.")
    rescale: Literal["after_checkpoint", "at_once"] = Field(
        default="after_checkpoint",
        description="Flink 2 waits for a checkpoint; 1.20 stops at once and replays since the last one.",
    )
    checkpoint_patience: int = Field(
        default=3, ge=1, le=100, description="A rescale waits for at most so many checkpoint intervals."
    )
    restart_s: float = Field(default=0.75, gt=0, le=3600, description="Median of a restart without state.")
    restart_spread: float = Field(default=0.5, ge=0, le=3, description="Deviation of its logarithm.")
    restore_mb_per_s: float = Field(default=100.0, gt=0, description="Speed of restoring state.")
    cooldown_s: float = Field(default=30.0, ge=0, le=86_400, description="Least time between rescales.")
    buffer_timeout_ms: float = Field(
        default=100.0,
        ge=0,
        le=60_000,
        description="A record waits no longer for its buffer to be sent.",
    )
    segment_bytes: int = Field(default=32_768, ge=256, le=1 << 24, description="Size of a network buffer.")
    debloat_s: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="Buffers hold so many seconds of throughput at most; 0: all fill.",
    )
    arrivals: Literal["smooth", "poisson"] = Field(
        default="poisson", description="Whether records come evenly within a step of the trace."
    )
    staleness_s: float = Field(default=10.0, ge=0, le=600, description="Metrics are up to so old.")
    metric_noise: float = Field(default=0.03, ge=0, le=1, description="Relative error of a metric.")
    missing: float = Field(default=0.01, ge=0, le=1, description="Chance that a vertex does not report.")
    missing_after_s: float = Field(
        default=20.0, ge=0, le=3600, description="After a restart metrics are incomplete for so long at most."
    )
    spread: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Each episode's jobs differ from what is known of them by up to this share.",
    )
    objective: Objective = Field(default=Objective(), description="What is good.")

    @model_validator(mode="after")
    def _steps_fit(self) -> Deployment:
        if (1000 * self.interval_s) % self.substep_ms:
            raise ValueError(
                f"substep_ms = {self.substep_ms} does not divide interval_s = {self.interval_s}; "
                "choose a divisor"
            )
        if self.staleness_s >= self.interval_s:
            raise ValueError(
                f"staleness_s = {self.staleness_s:g} is not below interval_s = {self.interval_s}; lower it"
            )
        return self
