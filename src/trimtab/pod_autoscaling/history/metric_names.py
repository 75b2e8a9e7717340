"""What the name of a column or a file says: which metric it holds, and in which unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["ALIASES", "CPU_UNITS", "LATENCY_UNITS", "MEMORY_UNITS", "Unit", "metric_named"]

ALIASES: dict[str, tuple[str, ...]] = {
    "rate": ("rps", "rate", "qps", "requests_per_second", "request_rate"),
    "cpu": ("cpu", "cpu_usage", "cpu_used", "cores"),
    "memory_mib": ("memory", "mem", "memory_usage", "memory_used", "working_set"),
    "latency_s": ("latency", "latency_mean", "mean_latency", "latency_avg", "response_time"),
    "latency_p50_s": ("latency_p50", "p50", "p50_latency", "latency_median"),
    "latency_p99_s": ("latency_p99", "p99", "p99_latency"),
    "in_flight": ("in_flight", "inflight", "concurrency", "active_requests"),
    "replicas": ("replicas", "pods", "ready", "ready_replicas"),
    "cpu_limit": ("cpu_limit", "limit_cpu", "cpu_limits"),
}
CPU_UNITS = {"cores": 1.0, "millicores": 1e-3, "m": 1e-3}
MEMORY_UNITS = {
    "mib": 1.0,
    "mb": 1e6 / 2**20,
    "gib": 1024.0,
    "gb": 1e9 / 2**20,
    "kib": 1 / 1024,
    "bytes": 2.0**-20,
}
LATENCY_UNITS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6}
UNITS: dict[str, Mapping[str, float]] = {
    "cpu": CPU_UNITS,
    "cpu_limit": CPU_UNITS,
    "memory_mib": MEMORY_UNITS,
    **dict.fromkeys(("latency_s", "latency_p50_s", "latency_p99_s"), LATENCY_UNITS),
}
NO_UNITS: Mapping[str, float] = {}


class Unit(NamedTuple):
    """What numbers without a unit are in, its size in ours, and the option that tells it otherwise."""

    name: str
    scale: float
    option: str = ""
    """Empty where it was told."""


OURS = Unit("", 1.0)


def metric_named(name: str, usual: Mapping[str, Unit]) -> tuple[str, Unit] | None:
    """The metric that is called so, and its unit; `usual` are those of CPU, memory and latency without one.

    >>> metric_named("memory_bytes", {})
    ('memory_mib', Unit(name='bytes', scale=9.5367431640625e-07, option=''))
    >>> metric_named("p99", {"latency_s": Unit("ms", 0.001)})
    ('latency_p99_s', Unit(name='ms', scale=0.001, option=''))
    """
    name = name.replace("-", "_").replace(" ", "_").removesuffix("_mean").removesuffix("_avg")
    for metric, aliases in ALIASES.items():
        units = UNITS.get(metric, NO_UNITS)
        for alias in aliases:
            if name == alias:
                kind = "latency_s" if metric.startswith("latency") else metric.removesuffix("_limit")
                unit = usual.get(kind, OURS)
                return metric, unit._replace(option="") if unit.name == alias else unit
            written = name.removeprefix(f"{alias}_")
            if written != name and written in units:
                return metric, Unit(written, units[written])
    return None
