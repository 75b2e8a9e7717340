"""From answers about a Flink job to differences of its counters that can be trusted.

Counters start anew with every restart and are incomplete for seconds after it; what is compared must be of
one run, with all vertices reporting. The clock of a vertex is the time its subtasks account for (busy, idle
or backpressured) over their number: answers are collected late, so the wall clock would be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.stream_autoscaling.problem import Flags, Floats, Integers

__all__ = ["WRITTEN", "Plan", "Sample", "Windows", "pairs_of", "plan_of", "windows_of"]

FLAGS = ("read-records-complete", "write-records-complete", "write-bytes-complete")
MOST_PARALLELISM = 32_768
WRITTEN = 1
"""Row of the counters of a sample."""


class Plan(NamedTuple):
    """What does not change: vertices in topological order, parents first."""

    job_name: str
    ids: tuple[str, ...]
    names: tuple[str, ...]
    edges: tuple[tuple[int, int, bool], ...]  # from, to, forward
    is_source: Flags
    is_keyed: Flags
    most_parallelism: Integers
    slot_groups: tuple[str, ...]


class Windows(NamedTuple):
    """Differences of counters by stretch of time in which nothing was rescaled, each [W, V]."""

    parallelism: Integers
    read: Floats
    written: Floats
    bytes_out: Floats
    busy_ms: Floats  # of all subtasks together; NaN where the vertex does not tell
    elapsed_s: Floats


class Sample(NamedTuple):
    """One answer, by vertex [V]."""

    run: tuple[Any, ...]  # when it began to run, and the parallelism: counters are comparable within
    now_ms: float
    parallelism: Integers
    counters: Floats  # [5, V]: read, written, bytes, busy, all accounted time


def plan_of(details: Mapping[str, Any], source: str) -> Plan:
    """Vertices and edges of a job."""
    try:
        vertices = {str(vertex["id"]): vertex for vertex in details["vertices"]}
        nodes = {str(node["id"]): node for node in details["plan"]["nodes"]}
        inputs = {
            identity: [
                (str(one["id"]), str(one.get("ship_strategy", ""))) for one in node.get("inputs") or ()
            ]
            for identity, node in nodes.items()
        }
        if not vertices:
            raise HistoryError(f"{source}: the job has no vertices; save the answer again while it runs")
        odd = sorted(set(vertices) ^ set(nodes))
        if odd:
            where = "plan" if odd[0] in nodes else "list of vertices"
            raise HistoryError(
                f"{source}: the newest answer about a job has {odd[0]} in its {where} only; save it again"
            )
        order = _parents_first(inputs, source)
        place = {identity: number for number, identity in enumerate(order)}
        edges = _edges(inputs, order, place)
        return Plan(
            job_name=str(details["name"]),
            ids=tuple(order),
            names=_unique([str(vertices[identity]["name"]) for identity in order]),
            edges=edges,
            is_source=np.array([not inputs[identity] for identity in order]),
            is_keyed=np.array([any(ship == "HASH" for _, ship in inputs[identity]) for identity in order]),
            most_parallelism=np.array([_most(vertices[identity]) for identity in order]),
            slot_groups=_groups([vertices[identity].get("slotSharingGroupId") for identity in order]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise HistoryError(
            f"{source}: not Flink's answer about a job ({problem!r}); save /jobs/<id>"
        ) from None


def _parents_first(inputs: Mapping[str, Sequence[tuple[str, str]]], source: str) -> list[str]:
    order: list[str] = []
    while len(order) < len(inputs):
        ready = [
            identity
            for identity, of_it in inputs.items()
            if identity not in order and all(parent in order for parent, _ in of_it)
        ]
        if not ready:
            raise HistoryError(f"{source}: vertices of the plan wait for one another; save the answer again")
        order += ready
    return order


def _edges(
    inputs: Mapping[str, Sequence[tuple[str, str]]], order: Sequence[str], place: Mapping[str, int]
) -> tuple[tuple[int, int, bool], ...]:
    """One edge between two vertices, also where a join reads the same stream twice."""
    found: dict[tuple[int, int], bool] = {}
    for identity in order:
        for parent, ship in inputs[identity]:
            ends = (place[parent], place[identity])
            found[ends] = found.get(ends, True) and ship == "FORWARD"
    return tuple((origin, target, forward) for (origin, target), forward in found.items())


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(unique)


def _most(vertex: Mapping[str, Any]) -> int:
    stated = int(vertex.get("maxParallelism", 0))
    return min(stated, MOST_PARALLELISM) if stated > 0 else 128


def _groups(ids: Sequence[Any]) -> tuple[str, ...]:
    """Plain names for slot sharing groups; one for all where Flink does not tell."""
    order = list(dict.fromkeys(ids))
    if len(order) <= 1:
        return ("default",) * len(ids)
    return tuple(f"group {order.index(one) + 1}" for one in ids)


def windows_of(
    details: Sequence[Mapping[str, Any]], plan: Plan, *, source: str, report: ImportReport
) -> Windows:
    """Compare neighbouring answers of one run, and add up what belongs to the same run."""
    totals: dict[tuple[Any, ...], tuple[Integers, Floats, Floats]] = {}
    for before, sample, grown in pairs_of(details, plan, source=source, report=report):
        parallelism, sums, elapsed = totals.get(
            sample.run, (sample.parallelism, np.zeros_like(grown), np.zeros(len(plan.ids)))
        )
        elapsed = elapsed + _elapsed_s(grown, sample, before)
        totals[sample.run] = (parallelism, sums + grown, elapsed)
    sums = np.stack([total for _, total, _ in totals.values()])
    if len(totals) > 1:
        report.count("runs between restarts", len(totals))
    return Windows(
        parallelism=np.stack([parallelism for parallelism, _, _ in totals.values()]),
        read=sums[:, 0],
        written=sums[:, 1],
        bytes_out=sums[:, 2],
        busy_ms=sums[:, 3],
        elapsed_s=np.stack([elapsed for _, _, elapsed in totals.values()]),
    )


def pairs_of(
    details: Sequence[Mapping[str, Any]], plan: Plan, *, source: str, report: ImportReport
) -> list[tuple[Sample, Sample, Floats]]:
    """Neighbouring answers of one run, one at least, and by how much each counter grew between them."""
    pairs = []
    before: Sample | None = None
    for answer in details:
        sample = _sample(answer, plan, source, report)
        if before is not None and sample is not None and before.run == sample.run:
            grown = sample.counters - before.counters
            if (grown[:3] < 0).any() or (grown[4] < 0).any():
                report.drop("pair of samples between which a counter was reset")
            elif sample.now_ms > before.now_ms:
                report.count("pairs of samples")
                pairs.append((before, sample, grown))
        before = sample
    if not pairs:
        raise HistoryError(
            f"{source}: no two complete samples of one run among {len(details)} answers; save more of them, "
            "while the job runs and is not rescaled"
        )
    return pairs


def _elapsed_s(grown: Floats, sample: Sample, before: Sample) -> Floats:
    """By what the subtasks account for; by the wall clock for a vertex that does not tell."""
    accounted = grown[4] / np.maximum(sample.parallelism, 1) / 1000
    wall = (sample.now_ms - before.now_ms) / 1000
    return np.where(np.isnan(accounted) | (accounted <= 0), wall, accounted)


def _sample(answer: Mapping[str, Any], plan: Plan, source: str, report: ImportReport) -> Sample | None:
    """None for an answer that is incomplete or in the middle of a restart."""
    try:
        by_id = {str(vertex["id"]): vertex for vertex in answer["vertices"]}
        if set(by_id) != set(plan.ids):
            report.drop("sample with other vertices: the job was changed")
            return None
        rows = [by_id[identity] for identity in plan.ids]
        if answer["state"] != "RUNNING" or any(row["status"] != "RUNNING" for row in rows):
            report.drop("sample while the job was not running")
            return None
        metrics = [row["metrics"] for row in rows]
        if not all(metric.get(flag, False) for metric in metrics for flag in FLAGS):
            report.drop("sample with incomplete metrics")
            return None
        parallelism = np.array([int(row["parallelism"]) for row in rows])
        run = (answer["timestamps"]["RUNNING"], *parallelism.tolist())
        counters = np.array([_counters(metric) for metric in metrics]).T
        if (parallelism < 1).any() or not np.isfinite(counters[:3]).all():
            raise ValueError("parallelism or counts of records that are none")
        return Sample(run, float(answer["now"]), parallelism, counters)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise HistoryError(f"{source}: a damaged answer about a job ({problem!r}); remove it") from None


def _counters(metrics: Mapping[str, Any]) -> tuple[float, ...]:
    busy, idle, blocked = (
        _number(metrics.get(f"accumulated-{what}-time")) for what in ("busy", "idle", "backpressured")
    )
    read, written, sent = (float(metrics[what]) for what in ("read-records", "write-records", "write-bytes"))
    return read, written, sent, busy, busy + idle + blocked


def _number(value: Any) -> float:
    """Flink writes the text "NaN" for a source of the old interface."""
    return math.nan if value is None else float(value)
