"""Ask Prometheus for a range of time, or read an answer that was saved: series of times and values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.rates.counting import LATEST_S, LONGEST
from trimtab.rates.reading import fetch_json, is_address, load_json
from trimtab.rates.traces import Floats

__all__ = ["Points", "on_grid", "read_range", "spacing_of"]

WAY_OUT = "save the answer of /api/v1/query_range, or give its address with a query"
MOST_POINTS = 10_000
"""Prometheus refuses more than 11,000 points of one series at a time."""


class Points(NamedTuple):
    """One series: times and values, NaN where Prometheus said so."""

    name: str
    times_s: Floats
    values: Floats


def read_range(
    source: str,
    *,
    query: str | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    step_s: float | None = None,
    timeout_s: float = 30.0,
) -> list[Points]:
    """Every series of a saved answer, of the full address of a range query, or of a server that is asked.

    A server needs `query`, `start_s`, `end_s` (seconds since 1970) and `step_s`; long spans are asked for in
    parts, which are put together here.
    """
    answers = (
        _asked(source, query, start_s, end_s, step_s, timeout_s)
        if is_address(source)
        else [load_json(Path(source), way_out=WAY_OUT)]
    )
    return _joined([points for answer in answers for points in _series_of(answer, source)])


def spacing_of(source: str, all_points: list[Points], step_s: float | None = None) -> float:
    """Seconds between samples: as told, or the shortest there is."""
    if not all_points:
        raise HistoryError(f"{source}: the query has no data in this span; try it in Prometheus first")
    if step_s is not None:
        return step_s
    gaps = np.concatenate([np.diff(points.times_s) for points in all_points])
    gaps = gaps[gaps > 0]
    if gaps.size == 0:
        raise HistoryError(f"{source}: one sample only, so no step can be seen; ask for a longer span")
    return float(np.min(gaps))


def on_grid(source: str, points: Points, *, begin_s: float, step_s: float, count: int) -> Floats:
    """The values of a series at even steps; NaN where there is none."""
    exact = (points.times_s - begin_s) / step_s
    places = np.round(exact).astype(np.int64)
    if (np.abs(exact - places) > 0.1).any() or (np.diff(places) == 0).any():
        raise HistoryError(
            f"{source}: samples of {points.name} are not {step_s:g} s apart; ask with one step"
        )
    values = np.full(count, np.nan)
    values[places] = points.values
    return values


def _asked(
    address: str,
    query: str | None,
    start_s: float | None,
    end_s: float | None,
    step_s: float | None,
    timeout_s: float,
) -> list[Any]:
    if query is None:
        if "query=" not in address:
            raise HistoryError(f"{address}: no query in it; {WAY_OUT}")
        return [_fetched(address, timeout_s)]
    if start_s is None or end_s is None or step_s is None or not (start_s < end_s and step_s > 0):
        raise HistoryError(
            f"{address}: a query needs start_s before end_s (seconds since 1970) and step_s; give all three"
        )
    steps = (end_s - start_s) / step_s
    if steps > LONGEST:
        raise HistoryError(
            f"{address}: {steps:,.0f} steps of {step_s:g} s; give a shorter span or a longer step_s"
        )
    base = address.partition("/api/v1")[0].rstrip("/") + "/api/v1/query_range"
    answers, begin = [], start_s
    while begin <= end_s:
        end = min(end_s, begin + step_s * (MOST_POINTS - 1))
        span = urlencode({"query": query, "start": begin, "end": end, "step": step_s})
        answers.append(_fetched(f"{base}?{span}", timeout_s))
        begin = end + step_s
    return answers


def _fetched(address: str, timeout_s: float) -> Any:
    try:
        return fetch_json(address, timeout_s=timeout_s, way_out=WAY_OUT)
    except HTTPError as refusal:
        raise HistoryError(f"{address}: refused with {refusal.code} {refusal.reason}; {WAY_OUT}") from None


def _series_of(answer: Any, source: str) -> list[Points]:
    if not isinstance(answer, Mapping) or "status" not in answer:
        raise HistoryError(f"{source}: not an answer of Prometheus; {WAY_OUT}")
    if answer["status"] != "success":
        raise HistoryError(f"{source}: Prometheus said {answer.get('error', 'error')!r}; mend the query")
    data = answer.get("data")
    kind = data.get("resultType") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or kind != "matrix":
        raise HistoryError(f"{source}: a result of type {kind}, not matrix; ask query_range, not query")
    try:
        found = [_points(row) for row in data["result"]]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise HistoryError(f"{source}: a damaged answer ({problem!r}); {WAY_OUT}") from None
    for points in found:
        _refuse_other_clocks(source, points)
    return found


def _refuse_other_clocks(source: str, points: Points) -> None:
    astray = points.times_s[~(np.abs(points.times_s) < LATEST_S)]
    if astray.size:
        raise HistoryError(
            f"{source}: {points.name} has a sample at {astray[0]:g}; times are seconds since 1970, "
            "not milliseconds"
        )


def _points(row: Mapping[str, Any]) -> Points:
    table = np.array([(float(moment), float(value)) for moment, value in row["values"]]).reshape(-1, 2)
    values = np.where(np.isfinite(table[:, 1]), table[:, 1], np.nan)
    labels = row.get("metric", {})
    name = ",".join(f"{label}={labels[label]}" for label in sorted(labels) if label != "__name__")
    return Points(f"{labels.get('__name__', '')}{{{name}}}", table[:, 0], values)


def _joined(parts: list[Points]) -> list[Points]:
    """One series per set of labels, also where several answers hold a piece of it each."""
    by_name: dict[str, list[Points]] = {}
    for points in parts:
        if points.times_s.size:
            by_name.setdefault(points.name, []).append(points)
    joined = []
    for name, pieces in by_name.items():
        times_s = np.concatenate([piece.times_s for piece in pieces])
        values = np.concatenate([piece.values for piece in pieces])
        order = np.argsort(times_s, kind="stable")
        joined.append(Points(name, times_s[order], values[order]))
    return joined
