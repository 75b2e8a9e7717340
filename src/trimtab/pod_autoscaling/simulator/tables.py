"""Lay out an application, a trace and a deployment for the engine."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import exponential, hash_counters
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import Drift
from trimtab.pod_autoscaling.simulator.draws import ARRIVAL, BURST, ROUTE, WORK
from trimtab.pod_autoscaling.simulator.state import NONE, State

__all__ = ["Trace", "lay_out", "rates_of", "trace_of"]

Floats = NDArray[np.float64]


@runtime_checkable
class Trace(Protocol):
    """What arrives: requests per second, one number for each step of `step_s`; `start_s` since midnight."""

    @property
    def rates(self) -> Floats: ...

    @property
    def step_s(self) -> float: ...

    @property
    def start_s(self) -> float: ...


class PlainTrace:
    """Rates by the second, from midnight on."""

    def __init__(self, rates: Floats) -> None:
        self.rates, self.step_s, self.start_s = rates, 1.0, 0.0


def trace_of(given: Trace | ArrayLike) -> Trace:
    """Bare numbers are taken as rates by the second."""
    trace = given if isinstance(given, Trace) else PlainTrace(np.asarray(given, np.float64))
    rates = trace.rates
    if rates.ndim != 1 or len(rates) == 0:
        raise WorkloadError(f"rates of shape {rates.shape}; a trace is one row of numbers")
    bad = np.flatnonzero(~np.isfinite(rates) | (rates < 0))
    if bad.size:
        raise WorkloadError(f"rate {rates[bad[0]]} at step {bad[0]}; give finite numbers of 0 or more")
    return trace


def rates_of(trace: Trace) -> tuple[Floats, int]:
    """Rates and the whole seconds of a step; other steps are made into seconds.

    >>> rates_of(PlainTrace(np.array([3.0, 5.0])))
    (array([3., 5.]), 1)
    """
    if float(trace.step_s).is_integer():
        return trace.rates, int(trace.step_s)
    # What has arrived by the end of each second, on a line between the ends of steps.
    ends_s = trace.step_s * np.arange(len(trace.rates) + 1)
    come = np.concatenate([[0.0], np.cumsum(trace.rates * trace.step_s)])
    seconds = np.arange(math.floor(ends_s[-1] + 1e-9) + 1)
    return np.diff(np.interp(seconds, ends_s, come)), 1


def lay_out(
    row: State,
    application: Application,
    trace: Trace,
    deployment: Deployment,
    drift: Drift,
    *,
    seed: int,
    size: Floats,
) -> None:
    """Put one service at the beginning of an episode; `stepping.begin_run` makes its pods."""
    for field in (row.pods, row.totals, row.marks, row.histograms, row.scrapes, row.truth, row.outcomes):
        field[:] = np.zeros((), field.dtype)
    _lay_out_run(row, application, trace, deployment, seed, size)
    _lay_out_segments(row, application)
    row.requests["next"] = np.arange(1, len(row.requests) + 1)
    row.requests["next"][-1] = NONE
    for place, one in enumerate(drift.changes):
        row.drifts[place] = (one.at_s, one.cpu, one.io, one.memory, one.request_memory, one.start)
    row.run[0]["drift_count"] = len(drift.changes)
    row.nodes[:, 0], row.nodes[:, 1] = deployment.node_cpu, deployment.node_memory_mib


def _lay_out_run(
    row: State, app: Application, trace: Trace, deployment: Deployment, seed: int, size: Floats
) -> None:
    run = row.run[0]
    rates, step_s = rates_of(trace)
    row.rates[: len(rates)] = rates
    values = {
        "intervals": len(rates) * step_s // deployment.interval_s,
        "trace_step_s": step_s,
        "trace_steps": len(rates),
        "segment_count": len(app.segments),
        "workers": app.workers,
        "places": app.workers + app.queue,
        "start_s": trace.start_s,
        "next_due_s": math.inf,
        "next_arrival_s": math.inf,
        "exponent": float(exponential(seed, ARRIVAL, 0)),
        "replicas": size[0],
        "cpu": size[1],
        "memory": size[2],
        "cache_share": -math.expm1(-1 / app.cache_requests),
        "leak_mib_per_s": app.leak_mib_per_hour / 3600,
        "base_memory_mib": app.memory_mib,
        "base_memory_per_request_mib": app.memory_per_request_mib,
        "start_median_s": app.start_s,
        "cpu_factor": 1.0,
        "io_factor": 1.0,
        "start_factor": 1.0,
        "luck": hash_counters(seed),
        "arrival_luck": hash_counters(seed, ARRIVAL),
        "burst_luck": hash_counters(seed, BURST),
        "work_luck": hash_counters(seed, WORK),
        "route_luck": hash_counters(seed, ROUTE),
    }
    own = ("timeout_s", "slo_s", "cores_per_request", "memory_mib", "memory_per_request_mib", "cache_mib")
    for name in (*own, "start_spread", "start_cpu_s"):
        values[name] = getattr(app, name)
    for name in run.dtype.names:
        run[name] = values.get(name, 0)


def _lay_out_segments(row: State, app: Application) -> None:
    """Medians and spreads of lognormal numbers from their means and squared coefficients of variation."""
    row.segments[:] = 0
    for place, one in enumerate(app.segments):
        work, wait = math.log1p(one.cpu_variation), math.log1p(one.io_variation)
        row.segments[place] = (
            one.cpu_ms / 1000 * math.exp(-work / 2),
            math.sqrt(work),
            one.io_ms / 1000 * math.exp(-wait / 2),
            math.sqrt(wait),
        )
