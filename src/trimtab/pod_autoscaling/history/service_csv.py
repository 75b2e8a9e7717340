"""Read what was measured of a service from a CSV: a column of times, and one for each metric.

Names tell what a column is and in which unit: `rps`, `cpu_cores` or `cpu_millicores`, `memory_mib` or
`memory_bytes`, `latency_ms`, `latency_p99_s`, `replicas`, ... Without a unit in the name, `cpu_unit`,
`memory_unit` and `latency_unit` say it; else it is cores, MiB and seconds, and the report says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.pod_autoscaling.fitting.service_history import (
    COLUMNS,
    ServiceHistory,
    check_step,
    service_history,
)
from trimtab.pod_autoscaling.history.metric_names import (
    ALIASES,
    CPU_UNITS,
    LATENCY_UNITS,
    MEMORY_UNITS,
    Unit,
    metric_named,
)
from trimtab.pod_autoscaling.problem import Floats
from trimtab.rates.counting import LONGEST
from trimtab.rates.csv_tables import amount_of, clock_of, header_and_rows, place_named, time_place
from trimtab.rates.reading import BrokenLines

__all__ = ["read_service_csv"]

WAY_OUT = "name a CSV with columns such as time, rps, cpu_cores, memory_mib, latency_ms, replicas"


class Column(NamedTuple):
    """A column of the file: where, of what, and in which unit."""

    place: int
    metric: str
    unit: Unit


def read_service_csv(
    path: str,
    *,
    keep_going: bool = False,
    time_column: str | None = None,
    step_s: float | None = None,
    cpu_unit: str | None = None,
    memory_unit: str | None = None,
    latency_unit: str | None = None,
    tolerated_share: float = 0.0,
) -> tuple[ServiceHistory, ImportReport]:
    """Metrics of a service, evenly spaced; rows may be missing, and count as unknown.

    `step_s` is needed where no column tells the time: every row is then a step.
    """
    check_step(path, step_s)
    report = ImportReport(path)
    header, rows = header_and_rows(Path(path), keep_going=keep_going, report=report, way_out=WAY_OUT)
    if not header:
        raise HistoryError(f"{path}: the first line has no names; {WAY_OUT}")
    usual = {
        "cpu": _unit(path, "cpu_unit", cpu_unit, CPU_UNITS, usual="cores"),
        "memory_mib": _unit(path, "memory_unit", memory_unit, MEMORY_UNITS, usual="MiB"),
        "latency_s": _unit(path, "latency_unit", latency_unit, LATENCY_UNITS, usual="s"),
    }
    columns = _columns(path, header, usual, report)
    times_s, values = _numbers(
        path, header, rows, columns, time_column, step_s,
        broken=BrokenLines(path, tolerated_share=tolerated_share, keep_going=keep_going), report=report,
    )  # fmt: skip
    apart_s, places = _places(path, times_s, step_s)
    length = int(places.max()) + 1
    found = {column.metric: np.full(length, np.nan) for column in columns}
    for row, column in enumerate(columns):
        found[column.metric][places] = values[row]
    report.count("rows", len(times_s))
    report.drop("step without data", length - len(times_s))
    return service_history(f"{path}", apart_s, found), report


def _unit(path: str, option: str, told: str | None, known: Mapping[str, float], *, usual: str) -> Unit:
    if told is None:
        return Unit(usual, known[usual.lower()], option)
    if told.lower() not in known:
        raise HistoryError(f"{path}: {option} = {told!r}; use one of {', '.join(known)}")
    return Unit(told, known[told.lower()])


def _columns(
    path: str, header: Sequence[str], usual: Mapping[str, Unit], report: ImportReport
) -> list[Column]:
    found: dict[str, Column] = {}
    for place, name in enumerate(header):
        known = metric_named(name, usual)
        if known is None:
            continue
        metric, unit = known
        if metric in found:
            other = header[found[metric].place]
            raise HistoryError(
                f"{path}: both {other!r} and {name!r} are {metric} ({COLUMNS[metric]}); drop one of them"
            )
        found[metric] = Column(place, metric, unit)
    for needed in ("rate", "cpu"):
        if needed not in found:
            raise HistoryError(
                f"{path}: no column of {needed} ({COLUMNS[needed]}) among {', '.join(header)}; call one "
                f"{ALIASES[needed][0]}"
            )
    for column in found.values():
        if column.unit.option:
            named = header[column.place]
            report.assume(f"{named} is in {column.unit.name}, as nothing else is said ({column.unit.option})")
    missing = [name for name in COLUMNS if name not in found]
    if missing:
        report.assume(f"not measured: {', '.join(missing)}")
    return list(found.values())


def _numbers(
    path: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: Sequence[Column],
    time_column: str | None,
    step_s: float | None,
    *,
    broken: BrokenLines,
    report: ImportReport,
) -> tuple[Floats, Floats]:
    """Times [T] and values [K, T] in our units, of the sound rows."""
    first = next((row for row in rows if len(row) >= len(header)), ())
    where = place_named(path, header, time_column) if time_column else time_place(header, first)
    if where is None and step_s is None:
        raise HistoryError(f"{path}: no column of times; name it (time_column), or give step_s")
    clock = (
        clock_of(path, header[where], first[where], step_s=step_s, report=report)
        if first and where is not None
        else None
    )
    times_s: list[float] = []
    values: list[list[float]] = []
    for line, row in enumerate(rows, start=2):
        if len(row) < len(header):
            broken.add(f"line {line}", f"has {len(row)} columns")
            continue
        time_s = (line - 2) * (step_s or 1.0) if clock is None or where is None else clock.seconds(row[where])
        if time_s is None:
            broken.add(f"line {line}", f"has the time {row[where or 0]!r}")
            continue
        numbers = [amount_of(row[column.place]) for column in columns]
        bad = next((k for k, number in enumerate(numbers) if number is None), None)
        if bad is not None:
            broken.add(f"line {line}", f"has {header[columns[bad].place]} = {row[columns[bad].place]}")
            continue
        times_s.append(time_s)
        values.append([number or 0.0 for number in numbers])
    broken.settle(len(rows), way_out="mend it", report=report)
    scales = np.array([column.unit.scale for column in columns])
    return np.array(times_s), np.array(values).T * scales[:, None]


def _places(path: str, times_s: Floats, step_s: float | None) -> tuple[float, np.ndarray]:
    """Seconds between rows, and the step of each row."""
    gaps = np.diff(np.sort(times_s))
    if gaps.size == 0 or (gaps <= 0).any():
        raise HistoryError(f"{path}: a time comes twice, or there is one only; every row needs its own")
    apart_s = step_s or float(np.median(gaps))
    places = np.round((times_s - times_s.min()) / apart_s).astype(np.int64)
    if len(np.unique(places)) < len(places) or places.max() >= LONGEST:
        raise HistoryError(f"{path}: rows are not {apart_s:g} s apart; record evenly, or give step_s")
    return apart_s, places
