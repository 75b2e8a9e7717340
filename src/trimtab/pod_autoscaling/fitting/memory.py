"""Memory of an idle pod, of a request, and what is lost per hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.fitting.regression import robust_line
from trimtab.pod_autoscaling.fitting.report import NAN, Estimate, FitReport
from trimtab.pod_autoscaling.fitting.service_history import LEAST_SAMPLES, ServiceHistory
from trimtab.pod_autoscaling.fitting.smoothing import smoothed
from trimtab.pod_autoscaling.fitting.work import LEAST_VARIATION
from trimtab.pod_autoscaling.problem import Floats

__all__ = ["Memory", "fit_memory"]

MOST_MEMORY_MIB = 1e6
CLEARLY = 0.02
"""Of the usual memory: less than nothing by more than this is no rounding."""
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
        _compare_with_sum(history, [], report)
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
    _compare_with_sum(history, [history.inside, every_hour] if grows else [history.inside], report)
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
    idle = _of_idle_pod(float(line.coefficients[0]), float(line.high[0]), median, report)
    return Memory(idle, float(line.coefficients[1]), leak)


def _compare_with_sum(history: ServiceHistory, told_by: Sequence[Floats], report: FitReport) -> None:
    """Warn where memory is far more like that of all pods together than like that of one."""
    memory, pods, *others = smoothed(history.memory_mib, history.pods, *told_by)
    if len(memory) < LEAST_SAMPLES or pods.std() < LEAST_VARIATION * pods.mean():
        return
    of_one = np.column_stack([np.ones(len(memory)), *others])
    if 2 * robust_line(of_one * pods[:, None], memory).miss < robust_line(of_one, memory).miss:
        report.cannot_be(
            "memory goes up and down with the number of pods, as the sum of all pods does; give the mean "
            "over pods (divide by the replicas), or leave the column out"
        )


def _of_idle_pod(idle: float, high: float, median: float, report: FitReport) -> float:
    """No less than a MiB; what is clearly negative says that a column is not what it should be."""
    if high < 0 and -idle > CLEARLY * median:
        report.cannot_be(
            f"an idle pod would have {idle:.4g} MiB; give the mean over pods, of the same service and times "
            "as rate and latency, or leave the column out"
        )
    elif idle < 1:
        report.warn("the memory of an idle pod cannot be told from 0: taken for 1 MiB")
    return max(idle, 1.0)


def _only_idle(median: float, why: str, report: FitReport) -> Memory:
    report.warn(why)
    report.estimates.append(Estimate("memory_mib", median, NAN, NAN, "MiB", "median"))
    return Memory(median, 0.0, 0.0)


def _check_unit(source: str, median: float) -> None:
    if median > MOST_MEMORY_MIB:
        raise HistoryError(
            f"{source}: pods of {median:g} MiB; memory seems to be in bytes, divide by 1048576 or call it "
            "memory_bytes"
        )
    if median < 1:
        raise HistoryError(
            f"{source}: pods of {median:g} MiB; memory seems to be in GiB, multiply by 1024 or call it "
            "memory_gib"
        )
