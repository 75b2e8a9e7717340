"""Waiting outside, and how much requests vary, from latency at low load."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.fitting.balancing import Balancing, slowdown
from trimtab.pod_autoscaling.fitting.regression import Line, robust_line
from trimtab.pod_autoscaling.fitting.report import NAN, Estimate, FitReport
from trimtab.pod_autoscaling.fitting.service_history import LEAST_SAMPLES, ServiceHistory
from trimtab.pod_autoscaling.fitting.smoothing import smoothed
from trimtab.pod_autoscaling.fitting.work import LEAST_VARIATION
from trimtab.pod_autoscaling.problem import Flags, Floats

__all__ = ["Latency", "fit_latency"]

LOW_LOAD = 0.5
ONE_POD = 0.95
"""A single pod is within its limit for this share of the time at least; the rest may be wrong samples."""
MOST_CORES_PER_REQUEST = 64.0
LONGEST_S = 600.0
MOST_VARIATION = 50.0
Z99 = 2.3263478740408408


class Latency(NamedTuple):
    """Of a request in an idle pod."""

    io_s: float
    cores_per_request: float
    variation: float


def fit_latency(history: ServiceHistory, cpu_s: float, *, balancing: Balancing, report: FitReport) -> Latency:
    """Waiting outside, cores of a request and how much both vary, from latency at low load."""
    if not history.knows("latency_s"):
        report.warn("no latency: nothing is known of waiting outside, it is taken for 0")
        return Latency(0.0, 1.0, _variation(history, cpu_s, 0.0, report))
    line, how = _unloaded(history, cpu_s, balancing, report)
    io_s, low_s, high_s = (float(part[0]) for part in line[:3])
    cores = _cores_per_request(history.source, cpu_s, cpu_s + io_s, report)
    io_s = max(io_s, 0.0)
    report.estimates.append(
        Estimate("io_ms", 1000 * io_s, 1000 * max(low_s, 0.0), 1000 * max(high_s, 0.0), "ms", how)
    )
    return Latency(io_s, cores, _variation(history, cpu_s / cores, io_s, report))


def _cores_per_request(source: str, cpu_s: float, unloaded_s: float, report: FitReport) -> float:
    """More than one where answers come sooner than one core could give them; wrong units are refused."""
    if unloaded_s > LONGEST_S:
        raise HistoryError(
            f"{source}: a latency of {unloaded_s:g} s at low load; it seems to be in milliseconds, divide by "
            "1000 or call it latency_ms"
        )
    if unloaded_s > 1000 * cpu_s:
        report.warn("requests wait a thousand times longer than they work; is latency in seconds?")
    if unloaded_s >= 0.95 * cpu_s:
        return 1.0
    cores = cpu_s / max(unloaded_s, 1e-12)
    if cores > MOST_CORES_PER_REQUEST:
        raise HistoryError(
            f"{source}: {1000 * cpu_s:.3g} ms of work in {1000 * max(unloaded_s, 0):.3g} ms; is CPU in "
            "millicores, or latency not in seconds? call them cpu_millicores, latency_ms"
        )
    report.warn(
        f"answers take less time than their CPU: a request uses {cores:.2g} cores at a time, or the CPU of "
        "others is counted"
    )
    return cores


def _unloaded(
    history: ServiceHistory, cpu_s: float, balancing: Balancing, report: FitReport
) -> tuple[Line, str]:
    """Latency at no load less the work, as the first coefficient of a line."""
    arrived = np.where(history.rate > 0, history.load, np.nan)
    # A limit that pods are far above is none, and says nothing of queueing.
    limited = history.knows("cpu_limit") and not report.impossible and not _uncounted(history, report)
    limits = history.cpu_limit if limited else np.ones(len(arrived))
    load, latency, limit = smoothed(arrived, history.latency_s, limits)
    if len(load) < LEAST_SAMPLES:
        raise HistoryError(
            f"{history.source}: {len(load)} samples with latency; {LEAST_SAMPLES} are needed, or leave the "
            "column out"
        )
    low = _low_load(load, cpu_s / limit if limited else None, report)
    load, latency, limit = load[low], latency[low], limit[low]
    if limited:
        return _less_queueing(load, latency, limit, cpu_s, balancing, report)
    report.assume("how busy pods were is not known: latency at no load is a straight line's beginning")
    if load.std() < LEAST_VARIATION * load.mean():
        return robust_line(np.ones((len(load), 1)), latency - cpu_s), "latency less work"
    line = robust_line(np.column_stack([np.ones(len(load)), load]), latency - cpu_s)
    return line, "latency at rate 0, less work"


def _uncounted(history: ServiceHistory, report: FitReport) -> bool:
    """Whether nobody counted the pods, and one could not have used that much CPU within its limit."""
    share = history.cpu / history.cpu_limit
    share = share[np.isfinite(share)]
    if history.knows("replicas") or not share.size or np.quantile(share, ONE_POD) <= 1:
        return False
    report.warn(
        f"replicas are not known, and there were several: pods used up to {share.max():.3g} times the "
        "cpu_limit of one; give replicas, for without them cpu_limit says nothing of queueing"
    )
    return True


def _low_load(load: Floats, busy_per_request: Floats | None, report: FitReport) -> Flags:
    """Samples in which requests hardly disturb each other: pods half busy at most, or the quieter half."""
    if busy_per_request is not None:
        low = load * busy_per_request < LOW_LOAD
        if low.sum() >= LEAST_SAMPLES:
            return low
        report.warn(
            f"pods were hardly ever less than {LOW_LOAD:.0%} busy: waiting is told from the quieter half"
        )
    return load <= np.median(load)


def _less_queueing(
    load: Floats, latency: Floats, limit: Floats, cpu_s: float, balancing: Balancing, report: FitReport
) -> tuple[Line, str]:
    if (limit < 1).any():
        report.warn("pods had less than a core: Linux spares short requests, so waiting may be more")
    busy = load * cpu_s / limit
    ways: tuple[Balancing, ...] = ("two-choices", "random")
    lines = {
        way: robust_line(np.ones((len(load), 1)), latency - cpu_s * slowdown(busy, limit, balancing=way))
        for way in ways
    }
    most, least = (1000 * max(float(lines[way].coefficients[0]), 0.0) for way in ways)
    if most - least > 0.1 * (1000 * cpu_s + most):
        report.warn(
            f"pods were {np.median(busy):.0%} busy: waiting outside is {most:.3g} ms if requests go to the "
            f"emptier of two pods, {least:.3g} ms if they go anywhere; set balancing"
        )
    # Balancers count requests that wait outside, too, so the truth lies between both.
    own = lines[balancing]._replace(
        low=np.minimum(lines["two-choices"].low, lines["random"].low),
        high=np.maximum(lines["two-choices"].high, lines["random"].high),
    )
    return own, f"latency at low load, less work and queueing ({balancing})"


def _variation(history: ServiceHistory, cpu_s: float, io_s: float, report: FitReport) -> float:
    """Squared coefficient of variation of work and of waiting, taken for equal.

    Of a lognormal, the 99th percentile is exp(2.33 s) medians, or exp(2.33 s - s^2 / 2) means.
    """
    p50, p99 = history.latency_p50_s, history.latency_p99_s
    has_median = bool((p50 > 0).any())
    middle = p50 if has_median else history.latency_s
    usable = (middle > 0) & (p99 > 0) & (history.load > 0)
    if not usable.any():
        report.warn("no percentiles of latency: work is taken for exponential (variation 1)")
        return 1.0
    # Queueing stretches the tail first, so only the quietest quarter is asked.
    usable &= history.load <= np.quantile(history.load[usable], 0.25)
    ratio = float(np.median(np.log(p99[usable] / middle[usable])))
    # For means: the smaller root of s^2 / 2 - 2.33 s + ratio = 0; there is none above exp(2.7) = 15 means.
    spread = ratio / Z99 if has_median else Z99 - np.sqrt(max(Z99**2 - 2 * ratio, 0.0))
    how = f"99th percentile over {'median' if has_median else 'mean'} of latency"
    # The sum of independent work and waiting varies less than either: its variance is c^2 (d^2 + z^2).
    total = (cpu_s + io_s) ** 2 * np.expm1(max(spread, 0.0) ** 2)
    variation = min(float(total / (cpu_s**2 + io_s**2)), MOST_VARIATION)
    report.estimates.append(Estimate("variation", variation, NAN, NAN, "", how))
    return variation
