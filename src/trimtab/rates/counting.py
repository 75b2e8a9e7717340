"""From what was counted when to a rate trace, gaps included: a gap is named, and filled only if asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.traces import DAY_S, Flags, Floats, Provenance, RateTrace

__all__ = ["LATEST_S", "Fill", "Series", "check_offset", "mended", "runs_of"]

Fill: TypeAlias = Literal["interpolate", "zero"]
LONGEST = 20_000_000
"""Steps: 38 years of minutes. More means that the clock of the history went astray."""
LATEST_S = 2.5e11
"""Seconds since 1970, in the year 9892: later times are told in another unit, and no calendar has them."""


@dataclass(frozen=True)
class Series:
    """What came per second, evenly spaced; NaN where nothing is known."""

    source: str
    rates: Floats
    step_s: float
    begins: datetime | None
    """On the local clock; None where the history does not tell the time of day."""


def mended(
    series: Series,
    *,
    fill: Fill | None,
    keep_going: bool,
    report: ImportReport,
    settings: Mapping[str, object],
    because: str = "",
) -> RateTrace:
    """A trace without gaps, or a refusal that names the first of them, and `because` of what it may be one.

    `fill` says what stands in a gap; `keep_going` alone interpolates and counts the steps as lost.
    """
    if fill not in (None, "interpolate", "zero"):
        raise HistoryError(f"{series.source}: fill = {fill!r}; use interpolate or zero")
    rates, begins = _trimmed(series)
    missing = np.isnan(rates)
    gaps = runs_of(missing)
    if gaps and fill is None and not keep_going:
        raise HistoryError(_gap_message(series, begins, gaps, because))
    if gaps:
        known = np.flatnonzero(~missing)
        between = np.interp(np.arange(len(rates)), known, rates[known])
        rates = np.where(missing, 0.0 if fill == "zero" else between, rates)
        amount = int(missing.sum())
        if fill is None:
            report.lose("steps without data, filled between their neighbours", amount)
        else:
            report.fill(f"steps without data ({fill})", amount)
    if begins is None:
        report.assume("the history does not tell the time of day: it begins at midnight")
    start_s = 0.0 if begins is None else (begins - _midnight(begins)).total_seconds()
    report.count(f"steps of {series.step_s:g} s", len(rates))
    return RateTrace(rates, series.step_s, Provenance(series.source, dict(settings)), start_s=start_s % DAY_S)


def check_offset(source: str, hours: float | None) -> None:
    """Refuse what no clock is off universal time."""
    if hours is not None and not abs(hours) <= 24:
        raise HistoryError(f"{source}: utc_offset_hours = {hours:g}; give hours, -24 to 24")


def runs_of(flags: Flags) -> list[tuple[int, int]]:
    """Where flags are set: first place of each run, and the one after its last.

    >>> runs_of(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))


def _trimmed(series: Series) -> tuple[Floats, datetime | None]:
    """Without unknown steps at both ends: they are not gaps."""
    known = np.flatnonzero(~np.isnan(series.rates))
    if known.size == 0:
        raise HistoryError(f"{series.source}: no step with data; choose another span")
    first, last = int(known[0]), int(known[-1]) + 1
    begins = series.begins
    if begins is not None:
        begins += timedelta(seconds=first * series.step_s)
    return series.rates[first:last], begins


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _gap_message(series: Series, begins: datetime | None, gaps: list[tuple[int, int]], because: str) -> str:
    first, last = gaps[0]
    length_s = (last - first) * series.step_s
    length = f"{length_s / 3600:.3g} h" if length_s >= 360 else f"{length_s:g} s"
    if begins is None:
        span = f"from step {first} to step {last}"
    else:
        start, end = (begins + timedelta(seconds=place * series.step_s) for place in (first, last))
        span = f"from {start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S}"
    more = f", and {len(gaps) - 1} more gaps" if len(gaps) > 1 else ""
    more += f" ({because})" if because else ""
    return (
        f"{series.source}: nothing {span} ({length}){more}; bring the missing part, cut it off, or fill "
        "it (fill = interpolate or zero; --keep-going interpolates)"
    )
