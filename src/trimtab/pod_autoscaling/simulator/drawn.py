"""What chance decided for the requests of some episodes, kept for the next policy that plays the same ones.

Draws depend on the seed and on what they are for, never on the policy: the work and the waits of a request,
and when the next one arrives, are the same under everybody. They take a third of the engine's time; whoever
plays the same episodes next reads them here. The engine fills the table as it goes, so the first policy
loses nothing. Requests beyond the table's end are drawn as if there were none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.core.errors import WorkloadError
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.problem import Floats, Integers
from trimtab.pod_autoscaling.simulator.state import DRAWS
from trimtab.pod_autoscaling.simulator.tables import Trace, rates_of, trace_of

__all__ = ["NOTHING_DRAWN", "Drawn"]

NOTHING_DRAWN = (0, DRAWS)
"""Shape of the table of one episode that keeps nothing."""
MOST_BYTES = 2**28
"""A table is no larger unless asked for: 4.8 million requests. Every process of a comparison has one."""
_SPARE = 1.02
"""Room over the mean number of requests: 100,000 of them vary by 0.3 %, and by more where they burst."""


@dataclass(frozen=True)
class Drawn:
    """Draws of the requests of some episodes.

    >>> drawn = Drawn.room([Application()], [np.full(60, 50.0)], [7])
    >>> drawn.values.shape, bool(drawn.values.any())
    ((1, 3060, 7), False)
    """

    applications: tuple[Application, ...]
    seeds: tuple[int, ...]
    values: Floats
    """[E, requests, draws], as `State.drawn`; 0: not drawn yet."""

    @classmethod
    def room(
        cls,
        applications: Sequence[Application],
        traces: Sequence[Trace | Floats],
        seeds: Sequence[int],
        *,
        most_bytes: int = MOST_BYTES,
    ) -> Drawn:
        """An empty table for the requests that are to be expected, within so many bytes."""
        means = (rates.sum() * step_s for rates, step_s in (rates_of(trace_of(one)) for one in traces))
        wanted = int(_SPARE * max(means, default=0.0))
        rows = min(wanted, most_bytes // (8 * DRAWS * max(len(seeds), 1)))
        values = np.zeros((len(seeds), rows, DRAWS))
        return cls(tuple(applications), tuple(int(seed) for seed in seeds), values)

    def only(self, places: Sequence[int]) -> Drawn:
        """A copy of what is known of some of the episodes."""
        applications = tuple(self.applications[at] for at in places)
        return Drawn(applications, tuple(self.seeds[at] for at in places), self.values[list(places)])

    def check(self, applications: Sequence[Application], seeds: Integers) -> None:
        """Refuse to be used for other episodes than these: their luck is another."""
        if self.seeds != tuple(seeds.tolist()) or self.applications != tuple(applications):
            raise WorkloadError(
                f"draws of {len(self.seeds)} episodes with seeds {self.seeds[:3]}..., and others are to be "
                "played; make room for these with Drawn.room"
            )
