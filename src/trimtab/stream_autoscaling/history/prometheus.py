"""Import a rate from Prometheus: the answer of a range query, saved or asked for now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.stream_autoscaling.history.counting import LONGEST, Fill, Series, mended
from trimtab.stream_autoscaling.history.reading import fetch_json, is_address, load_json
from trimtab.stream_autoscaling.problem import Floats
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["import_prometheus"]

WAY_OUT = "save the answer of /api/v1/query_range, or give its address with a query"
MOST_POINTS = 10_000
"""Prometheus refuses more than 11,000 points of one series at a time."""
COUNTERS = ("_total", "_count", "numRecordsIn", "numRecordsOut")
"""Ends of names that only ever grow; `rate()` takes the name off what it returns."""

Kind = Literal["auto", "rate", "counter"]


class Points(NamedTuple):
    """One series: times and values, NaN where Prometheus said so."""

    name: str
    times_s: Floats
    values: Floats


def import_prometheus(
    source: str,
    *,
    keep_going: bool = False,
    fill: Fill | None = None,
    query: str | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    step_s: float | None = None,
    kind: Kind = "auto",
    utc_offset_hours: float = 0.0,
    timeout_s: float = 30.0,
) -> tuple[RateTrace, ImportReport]:
    """Records per second; several series are added up.

    `source` is a saved answer, the full address of a range query, or that of a server; then `query`,
    `start_s`, `end_s` (seconds since 1970) and `step_s` say what to ask for. Raw counters become rates by
    their differences; one that falls has been reset and starts from 0.
    """
    if kind not in ("auto", "rate", "counter"):
        raise HistoryError(f"{source}: kind = {kind!r}; use auto, rate or counter")
    if step_s is not None and not step_s > 0:
        raise HistoryError(f"{source}: steps of {step_s} s; give a length above 0")
    report = ImportReport(source)
    answers = (
        _asked(source, query, start_s, end_s, step_s, timeout_s)
        if is_address(source)
        else [load_json(Path(source), way_out=WAY_OUT)]
    )
    all_points = _joined([points for answer in answers for points in _series_of(answer, source)])
    report.count("series", len(all_points))
    report.count("samples", sum(len(points.times_s) for points in all_points))
    spacing_s = _spacing(source, all_points, step_s)
    rates, begin_s = _added_up(source, all_points, spacing_s, kind, report)
    begins = datetime(1970, 1, 1) + timedelta(seconds=begin_s + 3600 * utc_offset_hours)
    series = Series(f"prometheus {Path(source.partition('?')[0]).name}", rates, spacing_s, begins)
    report.assume(f"the time of day is that of universal time {utc_offset_hours:+g} h")
    settings = {"query": query, "step_s": spacing_s, "fill": fill}
    return mended(series, fill=fill, keep_going=keep_going, report=report, settings=settings), report


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
        return [_points(row) for row in data["result"]]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise HistoryError(f"{source}: a damaged answer ({problem!r}); {WAY_OUT}") from None


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


def _spacing(source: str, all_points: list[Points], step_s: float | None) -> float:
    if not all_points:
        raise HistoryError(f"{source}: the query has no data in this span; try it in Prometheus first")
    if step_s is not None:
        return step_s
    gaps = np.concatenate([np.diff(points.times_s) for points in all_points])
    gaps = gaps[gaps > 0]
    if gaps.size == 0:
        raise HistoryError(f"{source}: one sample only, so no step can be seen; ask for a longer span")
    return float(np.min(gaps))


def _added_up(
    source: str, all_points: list[Points], step_s: float, kind: Kind, report: ImportReport
) -> tuple[Floats, float]:
    begin_s = min(points.times_s[0] for points in all_points)
    count = round((max(points.times_s[-1] for points in all_points) - begin_s) / step_s) + 1
    if count > LONGEST:
        raise HistoryError(f"{source}: {count:,} steps of {step_s:g} s; give a longer step_s")
    total, present = np.zeros(count), np.zeros(count, np.int64)
    for points in all_points:
        exact = (points.times_s - begin_s) / step_s
        places = np.round(exact).astype(np.int64)
        if (np.abs(exact - places) > 0.1).any() or (np.diff(places) == 0).any():
            raise HistoryError(
                f"{source}: samples of {points.name} are not {step_s:g} s apart; ask with one step"
            )
        on_grid = np.full(count, np.nan)
        on_grid[places] = points.values
        rates = _rates_of(on_grid, points.name, step_s, kind, report)
        _refuse_negative(source, points.name, rates)
        known = ~np.isnan(rates)
        total[known] += rates[known]
        present += known
    some = int(((present > 0) & (present < len(all_points))).sum())
    if some:
        report.assume(f"a series without a sample counts as 0 there ({some:,} steps)")
    return np.where(present > 0, total, np.nan), float(begin_s)


def _rates_of(values: Floats, name: str, step_s: float, kind: Kind, report: ImportReport) -> Floats:
    base = name.partition("{")[0]
    is_counter = kind == "counter" or (kind == "auto" and base.endswith(COUNTERS))
    if not is_counter:
        report.assume("values are records per second")
        return values
    report.assume("values are counters: rates are their differences, and one that falls was reset")
    grown = np.diff(values, prepend=np.nan)
    resets = grown < 0
    report.drop("reset of a counter", int(resets.sum()))
    return np.where(resets, values, grown) / step_s


def _refuse_negative(source: str, name: str, rates: Floats) -> None:
    bad = np.flatnonzero(rates < 0)
    if bad.size:
        raise HistoryError(f"{source}: {name} has the rate {rates[bad[0]]:g}; ask for a rate of records")
