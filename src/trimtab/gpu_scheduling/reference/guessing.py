"""What is told of durations."""

from __future__ import annotations

import math
from collections import defaultdict

from trimtab.gpu_scheduling.cluster import Information
from trimtab.gpu_scheduling.reference.entities import Job

__all__ = ["Guesses"]

UNKNOWN_MS = 3_600_000.0


class Guesses:
    """Run times of finished jobs by group, by size, and of all."""

    def __init__(self, information: Information) -> None:
        self.information = information
        self.seen_ms: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    def learn(self, job: Job) -> None:
        for place in _places(job):
            self.seen_ms[place].append(job.attained_ms)

    def expected_ms(self, job: Job) -> float:
        if self.information == "oracle":
            return float(job.duration_ms)
        if self.information == "none":
            return math.nan
        for place in _places(job):
            seen = self.seen_ms[place]
            if seen:
                return sum(seen) / len(seen)
        return UNKNOWN_MS


def _places(job: Job) -> list[tuple[str, int]]:
    """From the most alike to all."""
    return [("group", job.group), ("size", job.whole_gpus.bit_length()), ("all", 0)]
