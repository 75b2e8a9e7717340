"""From what was measured of a service to an application that can be simulated.

Every request brings the same mean work, so the CPU of all pods is a straight line in the rate: its slope is
the work of a request, what remains at rate 0 the idle use of pods. Latency at low load, less the work, is
waiting outside; the ratio of its percentiles tells how much requests vary. Memory is a straight line in the
requests inside a pod.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.settings import load_settings
from trimtab.pod_autoscaling.application import LONGEST_LIMIT_MS, Application
from trimtab.pod_autoscaling.fitting.balancing import Balancing
from trimtab.pod_autoscaling.fitting.memory import fit_memory
from trimtab.pod_autoscaling.fitting.report import NAN, Estimate, FitReport
from trimtab.pod_autoscaling.fitting.service_history import ServiceHistory
from trimtab.pod_autoscaling.fitting.waiting import fit_latency
from trimtab.pod_autoscaling.fitting.work import fit_work_s

__all__ = ["fit_application"]


def fit_application(
    history: ServiceHistory,
    *,
    name: str = "fitted",
    slo_ms: float = 0.0,
    balancing: Balancing = "two-choices",
) -> tuple[Application, FitReport]:
    """An application that uses as much CPU and memory, and waits as long, as the service that was measured.

    `balancing` is how requests are spread over pods: to the emptier of two (Envoy, most meshes) or at random
    (kube-proxy). It says how much of the latency is queueing.

    What history cannot tell (worker slots, queue, time-outs) stays at its usual value; the report says so.
    Only callers wait longer where the limit is longer. It warns of a limit that the service, as it was
    measured, cannot hold in any size.

    >>> from trimtab.pod_autoscaling.fitting.service_history import service_history
    >>> rate = np.linspace(10, 200, 60)
    >>> seen = service_history("toy", 15.0, {"rate": rate, "cpu": 0.1 + 0.02 * rate})
    >>> app, report = fit_application(seen)
    >>> app.cpu_s, round(report.value("idle_cpu"), 3)
    (0.02, 0.1)
    """
    report = FitReport(history.source, samples=int(np.isfinite(history.rate).sum()))
    if balancing not in get_args(Balancing):
        raise HistoryError(f"{history.source}: balancing = {balancing!r}; use two-choices or random")
    cpu_s = fit_work_s(history, report)
    latency = fit_latency(history, cpu_s, balancing=balancing, report=report)
    memory = fit_memory(history, report)
    usual = Application()
    start_s, start_spread = _starts(history, usual, report)
    report.assume(
        "workers, queue, time-out, the CPU of a start and the cache cannot be seen in such data: the usual "
        "values; edit the file if you know them"
    )
    _doubt_workers(history, usual, report)
    if not slo_ms:
        report.assume(f"the latency limit is {usual.slo_factor:g} unloaded 99th percentiles; slo_ms sets it")
    fields = {
        "name": name,
        "segments": [
            {
                "name": "work",
                "cpu_ms": _rounded(1000 * cpu_s),
                "cpu_variation": _rounded(latency.variation),
                "io_ms": _rounded(1000 * latency.io_s),
                "io_variation": _rounded(latency.variation),
            }
        ],
        "cores_per_request": _rounded(latency.cores_per_request),
        "memory_mib": _rounded(memory.idle),
        "memory_per_request_mib": _rounded(memory.per_request),
        "leak_mib_per_hour": _rounded(memory.leak),
        "start_s": _rounded(start_s),
        "start_spread": _rounded(start_spread),
    }
    # Through the settings' door, so that what is out of range is refused in one line.
    found = load_settings(Application, None, fields, given_as=lambda field: history.source)
    limited = _with_limit(found, slo_ms, report) if slo_ms else found
    return limited.with_patient_callers(), report


def _with_limit(application: Application, slo_ms: float, report: FitReport) -> Application:
    """With a limit of its own, even one that cannot be held: so it is with a service that became slow."""
    if not 0 < slo_ms <= LONGEST_LIMIT_MS:
        raise HistoryError(
            f"{report.source}: slo_ms = {slo_ms:g}; give milliseconds, an hour of them at most, or 0 to "
            "leave it open"
        )
    limited = application.model_copy(update={"slo_ms": slo_ms})
    if limited.limit_problem:
        report.warn(limited.limit_problem)
    return limited


def _doubt_workers(history: ServiceHistory, usual: Application, report: FitReport) -> None:
    held = history.inside[np.isfinite(history.inside)]
    if history.knows("replicas") and held.size and np.median(held) > usual.workers:
        report.warn(
            f"pods had {np.median(held):.0f} requests inside, and with workers = {usual.workers} the others "
            "would wait; raise workers in the file, or mend the unit of latency"
        )


def _starts(history: ServiceHistory, usual: Application, report: FitReport) -> tuple[float, float]:
    starts_s = history.starts_s[np.isfinite(history.starts_s) & (history.starts_s > 0)]
    if starts_s.size == 0:
        report.assume(f"no start of a pod was seen: the usual {usual.start_s:g} s")
        return usual.start_s, usual.start_spread
    median = float(np.median(starts_s))
    report.estimates.append(Estimate("start_s", median, NAN, NAN, "s", f"median of {starts_s.size} starts"))
    if starts_s.size < 3:
        return median, usual.start_spread
    return median, min(float(np.log(starts_s).std(ddof=1)), 2.0)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
