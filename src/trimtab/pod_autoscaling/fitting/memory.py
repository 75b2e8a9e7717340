"""Memory of an idle pod, of a request, and what is lost per hour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.fitting.regression import robust_line
from trimtab.pod_autoscaling.fitting.report import NAN, Estimate, FitReport
from trimtab.pod_autoscaling.fitting.service_history import LEAST_SAMPLES, ServiceHistory
from trimtab.pod_autoscaling.fitting.smoothing import smoothed

__all__ = ["Memory", "fit_memory"]

MOST_MEMORY_MIB = 1e6
LEAST_LEAK = 0.5
"""MiB per hour; less is not worth a warning."""


class Memory(NamedTuple):
    """In MiB, and MiB per hour."""

    idle: float
    per_request: float
    leak: float


def fit_memory(history: ServiceHistory, report: FitReport) -> Memory:
    """Memory of an idle pod and of a request, from memory against requests inside a pod."""
    known = np.isfinite(history.memory_mib)
    if known.sum() < LEAST_SAMPLES:
        report.warn("no memory: the usual values")
        usual = Application()
        return Memory(usual.memory_mib, usual.memory_per_request_mib, 0.0)
    median = float(np.median(history.memory_mib[known]))
    _check_unit(history.source, median)
    every_hour = np.arange(len(history.rate)) * history.step_s / 3600
    memory, inside, hours = smoothed(history.memory_mib, history.inside, every_hour)
    if len(memory) < LEAST_SAMPLES or inside.std() < max(0.1 * inside.mean(), 0.02):
        return _only_idle(
            median,
            "requests inside a pod are not known or hardly vary: all memory is taken for an idle pod's",
            report,
        )
    columns = [np.ones(len(hours)), inside, hours]
    line = robust_line(np.column_stack(columns), memory)
    grows = hours[-1] - hours[0] >= 1 and line.low[2] > 0 and line.coefficients[2] > LEAST_LEAK
    if not grows:
        line = robust_line(np.column_stack(columns[:2]), memory)
    if line.coefficients[1] < 0:
        return _only_idle(
            median, "memory falls while more requests are inside: that of a request is taken for 0", report
        )
    report.r_squared["memory"] = line.r_squared
    names = (("memory_mib", "MiB"), ("memory_per_request_mib", "MiB"), ("leak_mib_per_hour", "MiB/h"))
    for place, (what, unit) in enumerate(names[: len(line.coefficients)]):
        value, low, high = (float(part[place]) for part in line[:3])
        report.estimates.append(
            Estimate(what, value, low, high, unit, "memory against requests inside a pod")
        )
    leak = float(line.coefficients[2]) if grows else 0.0
    if grows:
        report.warn(f"memory grows by {leak:.3g} MiB/h: taken for a leak; a cache that fills looks the same")
    return Memory(max(float(line.coefficients[0]), 1.0), float(line.coefficients[1]), leak)


def _only_idle(median: float, why: str, report: FitReport) -> Memory:
    report.warn(why)
    report.estimates.append(Estimate("memory_mib", median, NAN, NAN, "MiB", "median"))
    return Memory(median, 0.0, 0.0)


def _check_unit(source: str, median: float) -> None:
    if median > MOST_MEMORY_MIB:
        raise HistoryError(
            f"{source}: pods of {median:g} MiB; memory seems to be in bytes, divide by 1048576 "
            "(memory_unit = bytes)"
        )
    if median < 1:
        raise HistoryError(
            f"{source}: pods of {median:g} MiB; memory seems to be in GiB, multiply by 1024 "
            "(memory_unit = GiB)"
        )
