"""How an application changes while it runs: a new version, a grown table, a slower neighbour.

Changes happen at moments that are given; from then on the application's numbers are multiplied. What is under
way keeps the work and the waits that were drawn for it.
"""

from __future__ import annotations

from itertools import pairwise

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["STEADY", "Change", "Drift"]


class Change(Settings):
    """From `at_s` on, the application's own numbers times these; factors do not pile up.

    >>> Change(at_s=600, cpu=1.5).io
    1.0
    """

    at_s: int = Field(ge=0, le=10**8, description="Seconds since the beginning of the episode.")
    cpu: float = Field(default=1.0, gt=0, le=1000, description="Factor on the CPU work of requests.")
    io: float = Field(default=1.0, ge=0, le=1000, description="Factor on their waits.")
    memory: float = Field(default=1.0, gt=0, le=1000, description="Factor on the memory of an idle pod.")
    request_memory: float = Field(default=1.0, ge=0, le=1000, description="Factor on that of a request.")
    start: float = Field(
        default=1.0, gt=0, le=1000, description="Factor on the time that pods take to start."
    )


class Drift(Settings):
    """Changes in the order in which they happen.

    >>> Drift(changes=(Change(at_s=600, cpu=1.5), Change(at_s=1200))).cpu_factor(700.0)
    1.5
    """

    changes: tuple[Change, ...] = Field(default=(), max_length=1000, description="By time.")

    @model_validator(mode="after")
    def _in_order(self) -> Drift:
        times = [change.at_s for change in self.changes]
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise ValueError(f"changes at {times} s; put them in order, one at a time")
        return self

    def cpu_factor(self, at_s: float) -> float:
        """The factor on CPU work that holds then."""
        return next((one.cpu for one in reversed(self.changes) if one.at_s <= at_s), 1.0)


STEADY = Drift()
"""Nothing changes."""
