"""The work of a request, from CPU against rate."""

from __future__ import annotations

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.fitting.regression import Line, robust_line
from trimtab.pod_autoscaling.fitting.report import NAN, Estimate, FitReport
from trimtab.pod_autoscaling.fitting.service_history import LEAST_SAMPLES, ServiceHistory
from trimtab.pod_autoscaling.fitting.smoothing import smoothed
from trimtab.pod_autoscaling.problem import Floats

__all__ = ["LEAST_VARIATION", "fit_work_s"]

LEAST_VARIATION = 0.05
"""Of the rate: below it a slope and an intercept cannot be told apart."""
MOST_CORES_PER_POD = 256.0
MOST_OF_LIMIT = 1.5
"""Half more than all, for limits that were changed and samples that do not fit together."""


def fit_work_s(history: ServiceHistory, report: FitReport) -> float:
    """Core-seconds of a request: the slope of CPU against the rate."""
    rate, cpu, pods = smoothed(history.rate, history.cpu, history.pods)
    if len(rate) < LEAST_SAMPLES:
        known = "rate, CPU and replicas" if history.knows("replicas") else "rate and CPU"
        raise HistoryError(
            f"{history.source}: {len(rate)} samples with {known}; {LEAST_SAMPLES} are needed, ask for a "
            "longer span"
        )
    if not rate.any():
        raise HistoryError(f"{history.source}: nothing arrived, every rate is 0; choose another span")
    per_pod = float(np.median(cpu / pods))
    if per_pod > MOST_CORES_PER_POD:
        raise HistoryError(
            f"{history.source}: pods that use {per_pod:g} cores; the CPU seems to be in millicores, divide "
            "by 1000 or call it cpu_millicores"
        )
    _compare_with_limit(history, report)
    if rate.std() < LEAST_VARIATION * rate.mean():
        report.warn(
            f"the rate hardly varies (by {rate.std() / rate.mean():.1%}): idle use is taken for 0, so work "
            "is too large by it; record a day and a night"
        )
        work = float(np.median(cpu[rate > 0] / rate[rate > 0]))
        report.estimates.append(Estimate("cpu_ms", 1000 * work, NAN, NAN, "ms", "CPU over rate"))
        return work
    line, how = _cpu_line(rate, cpu, pods, history, report)
    work, low, high = (1000 * float(part[-1]) for part in line[:3])
    if line.r_squared < 0.5:
        report.warn(f"the rate explains {line.r_squared:.0%} of the CPU only; something else uses it, too")
    report.estimates.append(Estimate("cpu_ms", work, low, high, "ms", how))
    report.r_squared["CPU"] = line.r_squared
    return work / 1000


def _compare_with_limit(history: ServiceHistory, report: FitReport) -> None:
    """No pod uses more than its limit; without the number of pods nothing is known of one."""
    share = history.cpu / (history.pods * history.cpu_limit)
    share = share[np.isfinite(share)]
    if history.knows("replicas") and share.size and np.median(share) > MOST_OF_LIMIT:
        report.cannot_be(
            f"pods use {np.median(share):.3g} times their cpu_limit; give both in cores (100 % are one), the "
            "CPU of all pods and the limit of one, or leave cpu_limit out"
        )


def _cpu_line(
    rate: Floats, cpu: Floats, pods: Floats, history: ServiceHistory, report: FitReport
) -> tuple[Line, str]:
    """CPU as idle use plus work x rate; idle use is for each pod, if that explains more than one number."""
    flat = robust_line(np.column_stack([np.ones(len(rate)), rate]), cpu)
    if flat.coefficients[1] <= 0:
        raise HistoryError(
            f"{history.source}: CPU falls while the rate rises ({1000 * flat.coefficients[1]:.3g} ms per "
            "request); rate and CPU are of different services or times, align them"
        )
    alike = float(np.corrcoef(pods, rate)[0, 1]) if pods.std() > 0 else 0.0
    line, by_pod = flat, False
    if history.knows("replicas") and alike < 0.995:
        for_each = robust_line(np.column_stack([pods, rate]), cpu)
        by_pod = for_each.miss <= flat.miss
        line = for_each if by_pod else flat
    idle, low, high = (float(part[0]) for part in line[:3])
    of_all = idle * float(np.median(pods)) if by_pod else idle
    if low > 0 and line.low[1] > 0 and of_all > 1e-3 * np.median(cpu):
        unit = "cores of a pod" if by_pod else "cores"
        report.estimates.append(Estimate("idle_cpu", idle, low, high, unit, "CPU at rate 0, not simulated"))
        return line, "CPU against rate"
    # Idle use that cannot be told from 0 would only make the slope less sure.
    if high < 0 and -of_all > 0.02 * np.median(cpu):
        report.warn(
            f"idle use would be {idle:.3g} cores: rate and CPU are averages over different times, or of "
            "different pods; it is taken for 0"
        )
    elif alike > 0.95:
        report.warn(
            "replicas follow the rate: what idle pods use, if anything, is counted as work of requests"
        )
    return robust_line(rate[:, None], cpu), "CPU against rate, nothing when idle"
