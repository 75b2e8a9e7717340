"""Import a rate from Prometheus: the answer of a range query, saved or asked for now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import LONGEST, Fill, Series, check_offset, mended
from trimtab.rates.range_queries import Points, on_grid, read_range, spacing_of
from trimtab.rates.traces import Floats, RateTrace

__all__ = ["import_prometheus"]

COUNTERS = ("_total", "_count", "_sum", "_bucket", "numRecordsIn", "numRecordsOut")
"""Ends of names that only ever grow; `rate()` takes the name off what it returns."""
BUCKET = re.compile(r"[{,]le=([^,}]*)")
"""The label of a histogram's buckets, each of which counts all that the smaller ones do."""

Kind = Literal["auto", "rate", "counter"]


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
    """What came per second; several series are added up.

    `source` is a saved answer, the full address of a range query, or that of a server; then `query`,
    `start_s`, `end_s` (seconds since 1970) and `step_s` say what to ask for. Raw counters become rates by
    their differences; one that falls has been reset and starts from 0. What a counter grew while it had no
    sample, but others had, is spread evenly.
    """
    if kind not in ("auto", "rate", "counter"):
        raise HistoryError(f"{source}: kind = {kind!r}; use auto, rate or counter")
    if step_s is not None and not step_s > 0:
        raise HistoryError(f"{source}: steps of {step_s} s; give a length above 0")
    check_offset(source, utc_offset_hours)
    report = ImportReport(source)
    all_points = read_range(
        source, query=query, start_s=start_s, end_s=end_s, step_s=step_s, timeout_s=timeout_s
    )
    _refuse_buckets(source, all_points)
    report.count("series", len(all_points))
    report.count("samples", sum(len(points.times_s) for points in all_points))
    spacing_s = spacing_of(source, all_points, step_s)
    rates, begin_s = _added_up(source, all_points, spacing_s, kind, report)
    begins = datetime(1970, 1, 1) + timedelta(seconds=begin_s + 3600 * utc_offset_hours)
    series = Series(f"prometheus {Path(source.partition('?')[0]).name}", rates, spacing_s, begins)
    report.assume(f"the time of day is that of universal time {utc_offset_hours:+g} h")
    settings = {"query": query, "step_s": spacing_s, "fill": fill}
    return mended(series, fill=fill, keep_going=keep_going, report=report, settings=settings), report


def _added_up(
    source: str, all_points: list[Points], step_s: float, kind: Kind, report: ImportReport
) -> tuple[Floats, float]:
    begin_s = min(points.times_s[0] for points in all_points)
    count = round((max(points.times_s[-1] for points in all_points) - begin_s) / step_s) + 1
    if count > LONGEST:
        raise HistoryError(f"{source}: {count:,} steps of {step_s:g} s; give a longer step_s")
    total, present, sampled, spread = np.zeros((4, count))
    for points in all_points:
        values = on_grid(source, points, begin_s=begin_s, step_s=step_s, count=count)
        rates = _rates_of(values, points.name, step_s, kind, report)
        _refuse_negative(source, points.name, rates)
        known = ~np.isnan(rates)
        total[known] += rates[known]
        present += known
        sampled += ~np.isnan(values)
        spread += known & np.isnan(values)
    some = int(((present > 0) & (present < len(all_points))).sum())
    if some:
        report.assume(f"a series without a sample counts as 0 there ({some:,} steps)")
    report.fill("steps of a counter without a sample (even growth)", int(spread[sampled > 0].sum()))
    # Where no series has a sample there is a gap, whatever the counters say after it.
    return np.where((present > 0) & (sampled > 0), total, np.nan), float(begin_s)


def _rates_of(values: Floats, name: str, step_s: float, kind: Kind, report: ImportReport) -> Floats:
    base = name.partition("{")[0]
    is_counter = kind == "counter" or (kind == "auto" and base.endswith(COUNTERS))
    if not is_counter:
        grows = kind == "auto" and len(values) > 2 and bool((np.diff(values) > 0).all())
        doubt = ", though they only ever grow; if they are counters, give kind=counter" if grows else ""
        report.assume("values are rates per second" + doubt)
        return values
    report.assume("values are counters: rates are their differences, and one that falls was reset")
    known = np.flatnonzero(~np.isnan(values))
    apart, grown = np.diff(known), np.diff(values[known])
    resets = grown < 0
    report.drop("reset of a counter", int(resets.sum()))
    # Over several steps nobody knows how far it had come before the reset.
    grown = np.where(resets, np.where(apart == 1, values[known[1:]], np.nan), grown / apart)
    rates = np.full(len(values), np.nan)
    if known.size:
        rates[known[0] + 1 : known[-1] + 1] = np.repeat(grown, apart) / step_s
    return rates


def _refuse_buckets(source: str, all_points: list[Points]) -> None:
    """Added up, the buckets of a histogram would count every request several times."""
    found = ((points.name, BUCKET.search(points.name)) for points in all_points)
    name = next((name for name, label in found if label and label[1] != "+Inf"), None)
    if name is not None:
        base = name.partition("{")[0].removesuffix("_bucket")
        wanted = f"rate({base}_count[1m])" if base else "the rate of its _count"
        raise HistoryError(
            f"{source}: {name} is a bucket of a histogram, which counts what others count; ask for {wanted}"
        )


def _refuse_negative(source: str, name: str, rates: Floats) -> None:
    bad = np.flatnonzero(rates < 0)
    if bad.size:
        raise HistoryError(f"{source}: {name} has the rate {rates[bad[0]]:g}; ask for a rate of what arrives")
