"""What was measured of a running service, evenly spaced in time: what an application is fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.problem import Floats

__all__ = ["COLUMNS", "LEAST_SAMPLES", "ServiceHistory", "check_step", "service_history"]

COLUMNS: dict[str, str] = {
    "rate": "requests per second that arrived",
    "cpu": "cores used by all pods",
    "memory_mib": "MiB of working set of a pod, mean over pods",
    "latency_s": "mean latency, in seconds",
    "latency_p50_s": "its median",
    "latency_p99_s": "its 99th percentile",
    "in_flight": "requests inside, all pods",
    "replicas": "pods that served",
    "cpu_limit": "cores that a pod may use",
}
NEEDED = ("rate", "cpu")
LEAST_SAMPLES = 20
"""For a line with two unknowns and an interval that means something."""


@dataclass(frozen=True, eq=False)
class ServiceHistory:
    """Columns of `COLUMNS`, [T] each, NaN where nothing is known; `starts_s` has an entry per start seen.

    Made by `service_history`, which checks it.
    """

    source: str
    step_s: float
    rate: Floats
    cpu: Floats
    memory_mib: Floats
    latency_s: Floats
    latency_p50_s: Floats
    latency_p99_s: Floats
    in_flight: Floats
    replicas: Floats
    cpu_limit: Floats
    starts_s: Floats

    @property
    def pods(self) -> Floats:
        """Pods that served, [T]: NaN where that is not known, but 1 if it is known nowhere."""
        return np.maximum(self.replicas, 1.0) if self.knows("replicas") else np.ones(len(self.replicas))

    @property
    def load(self) -> Floats:
        """Requests per second of a pod, [T]."""
        return self.rate / self.pods

    @property
    def inside(self) -> Floats:
        """Requests inside a pod, [T]: as counted, or by Little's law."""
        counted = self.in_flight if self.knows("in_flight") else self.rate * self.latency_s
        return counted / self.pods

    def knows(self, column: str) -> bool:
        """Whether there is any number in a column."""
        return bool(np.isfinite(getattr(self, column)).any())


def check_step(source: str, step_s: float | None) -> None:
    """Refuse a length of steps that is none; None: it was not told."""
    if step_s is not None and not (np.isfinite(step_s) and step_s > 0):
        raise HistoryError(f"{source}: steps of {step_s} s; give a length above 0")


def service_history(
    source: str, step_s: float, columns: dict[str, Floats], *, starts_s: Floats | None = None
) -> ServiceHistory:
    """Check columns and put them together; those not given are unknown.

    >>> seen = service_history("toy", 15.0, {"rate": np.array([1.0, 2.0]), "cpu": np.array([0.1, 0.2])})
    >>> seen.knows("cpu"), seen.knows("latency_s")
    (True, False)
    """
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise HistoryError(f"{source}: no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    check_step(source, step_s)
    for name in NEEDED:
        if name not in columns or not np.isfinite(columns[name]).any():
            raise HistoryError(f"{source}: no {name} ({COLUMNS[name]}); without it there is nothing to fit")
    length = len(columns["rate"])
    for name, values in columns.items():
        if len(values) != length:
            raise HistoryError(f"{source}: {len(values)} values of {name} for {length} of rate; align them")
        bad = np.flatnonzero(np.isinf(values) | (values < 0))
        if bad.size:
            raise HistoryError(
                f"{source}: {name} = {values[bad[0]]:g} at step {bad[0]}; mend or cut such steps"
            )
    nothing = np.full(length, np.nan)
    filled = {name: np.asarray(columns.get(name, nothing), np.float64) for name in COLUMNS}
    swapped = np.flatnonzero(filled["latency_p50_s"] > filled["latency_p99_s"] * (1 + 1e-9))
    if swapped.size:
        place = swapped[0]
        raise HistoryError(
            f"{source}: at step {place} the median latency {filled['latency_p50_s'][place]:g} s is above the "
            f"99th percentile {filled['latency_p99_s'][place]:g} s; swap the two columns"
        )
    return ServiceHistory(
        source=source,
        step_s=step_s,
        starts_s=np.zeros(0) if starts_s is None else np.asarray(starts_s, np.float64),
        **filled,
    )
