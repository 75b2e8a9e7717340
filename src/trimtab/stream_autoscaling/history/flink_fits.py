"""What differences of Flink's counters tell: work per record, scaling, selectivities, restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trimtab.core.import_report import ImportReport
from trimtab.stream_autoscaling.history.flink_samples import Plan, Windows
from trimtab.stream_autoscaling.problem import Floats, Integers

__all__ = ["Fit", "edge_selectivities", "restart_s", "service_and_scaling"]

SCALING = (0.5, 1.0)
"""What a fit may give; beyond it the samples say more about noise than about the operator."""
STANDING = ("Restarting", "WaitingForResources", "CreatingExecutionGraph")
"""States of Flink's adaptive scheduler in which no record is worked on."""


class Fit(NamedTuple):
    """Of one vertex; from how many different parallelisms."""

    service_ms: float
    scaling: float
    parallelisms: int


def service_and_scaling(parallelism: Integers, processed: Floats, busy_ms: Floats) -> Fit:
    """Work per record in one subtask, and how it grows with more of them.

    p subtasks do the work of p^b, so all of them together are busy for s p^(1-b) per record: a straight line
    in logarithms, fitted with the records as weights. Seen at one parallelism only, b is 1.

    >>> fit = service_and_scaling(np.array([1, 4]), np.array([100.0, 100.0]), np.array([700.0, 1400.0]))
    >>> round(fit.service_ms, 6), fit.scaling
    (7.0, 0.5)
    """
    usable = (processed > 0) & (busy_ms > 0)
    if not usable.any():
        return Fit(0.0, 1.0, len(set(parallelism.tolist())))
    spread = np.log(parallelism[usable])
    work = np.log(busy_ms[usable] / processed[usable])
    weights = processed[usable] / processed[usable].sum()
    kinds = len(set(parallelism[usable].tolist()))
    scaling = 1.0
    if kinds > 1:
        centred = spread - weights @ spread
        slope = (weights * centred) @ work / ((weights * centred) @ centred)
        scaling = float(np.clip(1 - slope, *SCALING))
    service_ms = float(np.exp(weights @ (work - (1 - scaling) * spread)))
    return Fit(service_ms, scaling, kinds)


def edge_selectivities(plan: Plan, windows: Windows, processed: Floats, report: ImportReport) -> Floats:
    """Records sent along each edge per record worked on at its beginning, [edges].

    A vertex with one input tells what came along it. One with one output tells what it sent. Where neither
    holds, what the end read and no other edge explains is shared out by what the beginnings sent.
    """
    read, written = windows.read.sum(0), windows.written.sum(0)
    origins = np.array([origin for origin, _, _ in plan.edges], np.int64)
    targets = np.array([target for _, target, _ in plan.edges], np.int64)
    inputs = np.bincount(targets, minlength=len(plan.ids))
    outputs = np.bincount(origins, minlength=len(plan.ids))
    sent = np.where(
        inputs[targets] == 1, read[targets], np.where(outputs[origins] == 1, written[origins], np.nan)
    )
    for target in np.unique(targets[np.isnan(sent)]).tolist():
        of_it = targets == target
        unknown = of_it & np.isnan(sent)
        left = max(0.0, read[target] - np.nansum(sent[of_it]))
        weights = written[origins[unknown]]
        sent[unknown] = left * weights / max(weights.sum(), 1e-12)
        if unknown.sum() > 1:
            report.assume("inputs of a join that cannot be told apart are shared out by what is sent to them")
    worked = processed.sum(0)[origins]
    return np.divide(sent, worked, out=np.zeros(len(sent)), where=worked > 0)


def restart_s(rescales: Sequence[Mapping[str, Any]], details: Sequence[Mapping[str, Any]]) -> list[float]:
    """How long restarts took, in seconds: from the history of rescales, else from the states of the job."""
    durations = [_standing_s(rescale) for rescale in rescales if _was_a_rescale(rescale)]
    durations = [duration for duration in durations if duration > 0]
    if durations:
        return durations
    restarts: dict[float, float] = {}
    for answer in details:
        stamps = answer.get("timestamps") or {}
        began, ended = float(stamps.get("RESTARTING", 0)), float(stamps.get("RUNNING", 0))
        if 0 < began < ended:
            restarts[began] = (ended - began) / 1000
    return list(restarts.values())


def _was_a_rescale(rescale: Mapping[str, Any]) -> bool:
    """Not the first start of a job, and one that came to its end."""
    return rescale.get("terminalState") == "COMPLETED" and rescale.get("triggerCause") != "INITIAL_SCHEDULE"


def _standing_s(rescale: Mapping[str, Any]) -> float:
    states = rescale.get("schedulerStates") or ()
    return (
        sum(float(one.get("durationInMillis") or 0) for one in states if one.get("state") in STANDING) / 1000
    )
