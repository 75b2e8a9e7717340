"""The cluster a workload runs on, and the rules it follows."""

from __future__ import annotations

from typing import Literal

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["CORRECTIONS", "Cluster", "Correction", "ExecutorClass"]

Correction = Literal["interpolation", "all_points", "warm_waiting", "offer_idle", "backup_stays"]
CORRECTIONS: dict[Correction, str] = {
    "interpolation": "between two recorded numbers of executors the nearer one is used more often",
    "all_points": "every recorded number of executors is used, not only 5, 10, 20, 40, 50, 60, 80 and 100",
    "warm_waiting": "an executor that waits at its own job does not pay a fresh start again",
    "offer_idle": "idle executors are offered whenever a stage becomes runnable, a job ends or a job arrives",
    "backup_stays": "the backup rule never 'moves' an executor to the job it is already at",
}
"""What the default rules change in those of the published simulator."""


class ExecutorClass(Settings):
    """Executors of one size."""

    count: int = Field(ge=1, strict=True, description="Executors of this class.")
    memory: float = Field(default=1.0, gt=0, le=1, description="Memory, as a share of the largest executor.")


class Cluster(Settings):
    """Executors, what it costs to move them, and which rule set applies.

    >>> Cluster(executors=20).class_counts
    (20,)
    """

    executors: int = Field(
        default=50, ge=1, le=100_000, description="Executors, each running one task at a time."
    )
    classes: tuple[ExecutorClass, ...] = Field(
        default=(), description="Executors by memory size; replaces `executors` when given."
    )
    moving_delay_ms: int = Field(
        default=2000,
        ge=0,
        le=3_600_000,
        description="Time to move an executor to another job; 0 = free migration.",
    )
    warmup_delay_ms: int = Field(
        default=1000,
        ge=0,
        le=3_600_000,
        description="Added to the first task of an executor at a job, where no fresh duration is known.",
    )
    rules: Literal["default", "compat"] = Field(
        default="default", description="Rule set: corrected, or as in the published simulator."
    )
    corrections: tuple[Correction, ...] | None = Field(
        default=None,
        description="Corrections to apply; by default all with the default rules and none with compat.",
    )
    durations: Literal["known", "learned"] = Field(
        default="known",
        description="Whether schedulers know usual task durations or must learn them online.",
    )
    objective: Literal["average_jct", "makespan"] = Field(
        default="average_jct",
        description="What the reward adds up to: minus the sum of JCTs, or minus the makespan.",
    )

    @model_validator(mode="before")
    @classmethod
    def _count_executors(cls, values: object) -> object:
        """With classes, `executors` is their sum, so nobody has to add up."""
        if isinstance(values, dict) and "executors" not in values:
            executors = _executors_of(values.get("classes"))
            return {**values, "executors": executors} if executors > 0 else values
        return values

    @model_validator(mode="after")
    def _check_classes(self) -> Cluster:
        if self.classes and sum(c.count for c in self.classes) != self.executors:
            raise ValueError(
                f"classes add up to {sum(c.count for c in self.classes)} executors, but executors = "
                f"{self.executors}; give only one of the two"
            )
        return self

    def corrects(self, correction: Correction) -> bool:
        """Whether a correction applies."""
        if self.corrections is None:
            return self.rules == "default"
        return correction in self.corrections

    @property
    def class_counts(self) -> tuple[int, ...]:
        return tuple(c.count for c in self.classes) or (self.executors,)

    @property
    def class_memory(self) -> tuple[float, ...]:
        return tuple(c.memory for c in self.classes) or (1.0,)


def _executors_of(classes: object) -> int:
    """Executors of all classes, as far as they are such: what is not, its own field refuses."""
    listed = classes if isinstance(classes, list | tuple) else ()
    counts = [one.get("count") if isinstance(one, dict) else getattr(one, "count", 0) for one in listed]
    return sum(count for count in counts if isinstance(count, int))
