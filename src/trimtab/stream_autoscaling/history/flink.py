"""Import a job from Flink: answers of its REST interface, saved in a folder or asked for now.

Needed are several answers of `/jobs/<id>`, some seconds or minutes apart; helpful are those of
`/jobs/<id>/checkpoints` (state), `/jobs/<id>/checkpoints/details/<n>` (state by vertex) and, from Flink 2.3
on, `/jobs/<id>/rescales/history` (how long restarts take). A job seen at several parallelisms also tells how
its operators scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.stream_autoscaling.history.flink_answers import Answers, answers_of
from trimtab.stream_autoscaling.history.flink_fits import edge_selectivities, restart_s, service_and_scaling
from trimtab.stream_autoscaling.history.flink_samples import Plan, Windows, plan_of, windows_of
from trimtab.stream_autoscaling.job import Edge, Job, Vertex, refuse_loose_vertices
from trimtab.stream_autoscaling.problem import Floats

__all__ = ["import_flink"]

MEGABYTE = 1e6
LEAST_SERVICE_MS = 1e-4
"""Stands for a vertex that does not say what it does: 0.1 microseconds, next to nothing."""
LEAST_SELECTIVITY = 1e-6


def import_flink(
    source: str,
    *,
    keep_going: bool = False,
    job: str | None = None,
    samples: int = 13,
    every_s: float = 10.0,
    timeout_s: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Job, ImportReport]:
    """A job with the service times, selectivities, scaling, state and usual rate that were measured.

    `source` is a folder of saved answers, or the address of a JobManager, which is asked `samples` times.
    `job` is its id, needed where there are several.
    """
    report = ImportReport(source)
    answers = answers_of(
        source,
        keep_going=keep_going,
        job=job,
        samples=samples,
        every_s=every_s,
        timeout_s=timeout_s,
        sleep=sleep,
        report=report,
    )
    plan = plan_of(answers.details[-1], source)
    windows = windows_of(answers.details, plan, source=source, report=report)
    processed = _processed(plan, windows)
    built = Job(
        plan.job_name,
        _vertices(plan, windows, processed, answers, source=source, keep_going=keep_going, report=report),
        _edges(plan, windows, processed, source=source, keep_going=keep_going, report=report),
        _usual_rate(plan, windows, processed),
    )
    refuse_loose_vertices(built, source)
    _measure_restarts(answers, source, report)
    report.count("vertices", len(built.vertices))
    report.assume("keys are evenly spread, and results are sent as records come: answers tell of no windows")
    return built, report


def _processed(plan: Plan, windows: Windows) -> Floats:
    """Records each vertex worked on, [W, V]; Flink counts only what comes over the network as read.

    What a source reads from outside is not counted there, so it is taken for what it sends.
    """
    return np.where(plan.is_source, windows.written, windows.read)


def _vertices(
    plan: Plan,
    windows: Windows,
    processed: Floats,
    answers: Answers,
    *,
    source: str,
    keep_going: bool,
    report: ImportReport,
) -> tuple[Vertex, ...]:
    service_ms = np.ones(len(plan.names))
    scaling = np.ones(len(plan.names))
    for place, name in enumerate(plan.names):
        why = _unmeasurable(plan, windows, processed, place)
        if why and not keep_going:
            raise HistoryError(
                f"{source}: vertex {name!r} {why}; or take its work for next to nothing with --keep-going"
            )
        if why:
            report.lose("vertices whose work is unknown, taken for next to nothing")
            service_ms[place] = LEAST_SERVICE_MS
            continue
        fit = service_and_scaling(
            windows.parallelism[:, place], processed[:, place], windows.busy_ms[:, place]
        )
        service_ms[place] = max(fit.service_ms, LEAST_SERVICE_MS)
        scaling[place] = fit.scaling
        if fit.parallelisms == 1:
            report.assume("a vertex seen at one parallelism only scales linearly")
    state_mb = _state_mb(plan, answers, source, report)
    shares = processed.sum(0)
    return tuple(
        Vertex(
            name=name,
            service_ms=float(service_ms[place]),
            scaling=float(scaling[place]),
            key_groups=int(plan.most_parallelism[place]) if plan.is_keyed[place] else 0,
            state_mb=float(state_mb[place]),
            record_bytes=_record_bytes(windows, place),
            input_share=float(max(shares[place], 1e-9)) if plan.is_source[place] else 1.0,
            most_parallelism=int(plan.most_parallelism[place]),
            slot_group=plan.slot_groups[place],
        )
        for place, name in enumerate(plan.names)
    )


def _unmeasurable(plan: Plan, windows: Windows, processed: Floats, place: int) -> str | None:
    """Why the work per record cannot be told."""
    busy_ms, worked = windows.busy_ms[:, place], processed[:, place] > 0
    if np.isnan(busy_ms).all() and plan.is_source[place]:
        return "reports no busy time (sources of the old interface do not); port it to the new one"
    if np.isnan(busy_ms).all():
        return "reports no busy time (NaN in every answer); save answers in which it has one"
    if not worked.any() and all(place not in (origin, target) for origin, target, _ in plan.edges):
        return (
            "is source and sink in one, and Flink counts only what goes from vertex to vertex; record it "
            "with pipeline.operator-chaining.enabled: false"
        )
    if not worked.any():
        return "worked on no record in any two neighbouring samples; record while data flows"
    if not (worked & (busy_ms >= 0)).any():
        return "reports no busy time for the stretches in which it worked on records; record for longer"
    return None


def _record_bytes(windows: Windows, place: int) -> float:
    written = windows.written[:, place].sum()
    usual = Vertex(name="usual", service_ms=1.0).record_bytes
    return float(max(1.0, windows.bytes_out[:, place].sum() / written)) if written > 0 else usual


def _edges(
    plan: Plan,
    windows: Windows,
    processed: Floats,
    *,
    source: str,
    keep_going: bool,
    report: ImportReport,
) -> tuple[Edge, ...]:
    ratios = edge_selectivities(plan, windows, processed, report)
    edges = []
    for (origin, target, forward), ratio in zip(plan.edges, ratios, strict=True):
        if not ratio > 0:
            ends = f"{plan.names[origin]!r} to {plan.names[target]!r}"
            if not keep_going:
                raise HistoryError(
                    f"{source}: nothing went from {ends}; record while data flows, or import the rest with "
                    "--keep-going"
                )
            report.lose("edges on which nothing went")
            ratio = LEAST_SELECTIVITY
        edges.append(Edge(origin, target, float(ratio), forward=forward))
    return tuple(edges)


def _usual_rate(plan: Plan, windows: Windows, processed: Floats) -> float:
    """Records per second that all sources read together."""
    rates = processed.sum(0) / np.maximum(windows.elapsed_s.sum(0), 1e-9)
    return float(max(rates[plan.is_source].sum(), 1e-9))


def _state_mb(plan: Plan, answers: Answers, source: str, report: ImportReport) -> Floats:
    """State by vertex, or a refusal of answers that are damaged."""
    try:
        return _told_state_mb(plan, answers, report)
    except (AttributeError, TypeError, ValueError, OverflowError) as problem:
        raise HistoryError(
            f"{source}: a damaged answer about checkpoints ({problem}); save it again, or remove it"
        ) from None


def _told_state_mb(plan: Plan, answers: Answers, report: ImportReport) -> Floats:
    """From the details of the newest checkpoint of this job, else the whole over the keyed vertices."""
    state = np.zeros(len(plan.names))
    own = [one for one in answers.checkpoint_details if not set(plan.ids).isdisjoint(one["tasks"])]
    report.drop("details of a checkpoint of another job", len(answers.checkpoint_details) - len(own))
    if own:
        tasks: Mapping[str, Any] = _newest(own)["tasks"]
        for place, identity in enumerate(plan.ids):
            state[place] = float(tasks.get(identity, {}).get("state_size", 0)) / MEGABYTE
        return state
    total = _whole_state_mb(answers)
    if total is None:
        report.assume("no checkpoint is known: the job has no state")
        return state
    holders = plan.is_keyed if plan.is_keyed.any() else np.ones(len(plan.names), bool)
    report.assume("state is spread evenly over the keyed vertices")
    return np.where(holders, total / holders.sum(), 0.0)


def _whole_state_mb(answers: Answers) -> float | None:
    found = [(answer.get("latest") or {}).get("completed") for answer in answers.checkpoints]
    completed = [one for one in found if one]
    return float(_newest(completed).get("state_size", 0)) / MEGABYTE if completed else None


def _newest(checkpoints: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """By number, which Flink counts up; files may lie in any order."""
    return max(reversed(checkpoints), key=lambda one: int(one.get("id", 0)))


def _measure_restarts(answers: Answers, source: str, report: ImportReport) -> None:
    try:
        durations = restart_s(answers.rescales, answers.details)
    except (AttributeError, TypeError, ValueError, OverflowError) as problem:
        raise HistoryError(
            f"{source}: a damaged answer about restarts ({problem}); save it again, or remove it"
        ) from None
    if durations:
        report.measure("restart_s", float(np.median(durations)))
        report.measure("restarts seen", float(len(durations)))
    else:
        report.assume("no restart was seen: how long one takes stays a setting (restart_s)")
    if len(durations) >= 3:
        report.measure("restart_spread", float(np.std(np.log(durations))))
