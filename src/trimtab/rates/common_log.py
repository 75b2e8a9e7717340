"""Import access logs as the Internet Traffic Archive keeps them: Common Log Format, or WorldCup98's records.

Every line of the Common Log Format (also of its longer relative, the combined one) has the time of a request
in brackets: `[28/Aug/1995:00:00:34 -0400]`. The logs of the 1998 World Cup hold 20 bytes per request instead
(Arlitt and Jin, 1998), of which the first four are the time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import LONGEST, Fill, Series, check_offset, mended, runs_of
from trimtab.rates.reading import DAMAGE, BrokenLines, lines_of, open_maybe_packed
from trimtab.rates.traces import DAY_S, RateTrace

__all__ = ["import_common_log"]

STAMP = re.compile(rb'\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d):(\d\d) ([+-]\d{4})\] "')
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
LOG_NAMES = ("*log*", "*access*", "wc_day*", "*.gz")
BEGINNING = 4096
"""Bytes that tell one log from another, and text from records."""
RECORD_BYTES = 20
PARIS_HOURS = 2.0
"""The clock of the stadiums in the summer of 1998."""
PLAUSIBLE_S = (datetime(1990, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp())
WAY_OUT = "name an access log in Common Log Format, a WorldCup98 file, or a folder of them"


def import_common_log(
    path: str,
    *,
    keep_going: bool = False,
    fill: Fill | None = None,
    step_s: int = 60,
    longest_silence_s: float = 1800.0,
    tolerated_share: float = 0.01,
    utc_offset_hours: float | None = None,
) -> tuple[RateTrace, ImportReport]:
    """Requests per second in steps of `step_s`, from a log file or all logs of a folder.

    A step without requests is quiet; only more than `longest_silence_s` of silence is a gap. The time of
    day is the server's own, or that of `utc_offset_hours`.
    """
    if step_s < 1 or DAY_S % step_s:
        raise HistoryError(f"{path}: steps of {step_s} s do not divide a day; use 60, or another divisor")
    check_offset(path, utc_offset_hours)
    report = ImportReport(path)
    files = _files(Path(path))
    log = _Log(path, step_s, utc_offset_hours, keep_going=keep_going, tolerated_share=tolerated_share)
    for file in files:
        log.read(file, report)
    log.broken.settle(log.lines, way_out=WAY_OUT, report=report)
    report.count("files", len(files))
    report.count("requests", log.counts.total())
    report.assume("the first and the last step may be covered in part only")
    series = _series(log, source=f"common-log {Path(path).name}", longest_silence_s=longest_silence_s)
    settings = {"step_s": step_s, "fill": fill, "longest_silence_s": longest_silence_s}
    return mended(series, fill=fill, keep_going=keep_going, report=report, settings=settings), report


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted({file for pattern in LOG_NAMES for file in path.glob(pattern) if file.is_file()})
    if not found:
        raise HistoryError(f"{path}: no log in this folder ({', '.join(LOG_NAMES)}); {WAY_OUT}")
    _refuse_copies(found)
    return found


def _refuse_copies(files: Sequence[Path]) -> None:
    """A log and its packed copy would count every request twice; logs never begin with the same lines."""
    begun: dict[bytes, Path] = {}
    for file in files:
        try:
            with open_maybe_packed(file) as opened:
                start = opened.read(BEGINNING)
        except DAMAGE:
            continue  # Reading it says what is wrong.
        other = begun.setdefault(start, file)
        if start and other is not file:
            raise HistoryError(
                f"{file.parent}: {other.name} and {file.name} begin with the same requests, which would "
                "count twice; move one of them elsewhere"
            )


class _Log:
    """Requests by step of the local clock, counted over all files."""

    def __init__(
        self,
        source: str,
        step_s: int,
        offset_hours: float | None,
        *,
        keep_going: bool,
        tolerated_share: float,
    ) -> None:
        self.step_s = step_s
        self.offset_s = None if offset_hours is None else round(3600 * offset_hours)
        self.counts: Counter[int] = Counter()
        self.lines = 0
        self.broken = BrokenLines(source, tolerated_share=tolerated_share, keep_going=keep_going)
        self._keep_going = keep_going
        self._minutes: dict[tuple[bytes, bytes], int | None] = {}

    def read(self, path: Path, report: ImportReport) -> None:
        with open_maybe_packed(path) as file:
            try:
                # Text has no zero bytes; four-byte numbers below 2^24, as ids and sizes are, begin with one.
                is_text = b"\0" not in file.read(BEGINNING)
            except DAMAGE as problem:
                raise HistoryError(f"{path}: cannot be read ({problem}); copy it again") from None
        if is_text:
            self._read_text(path, report)
        else:
            self._read_records(path, report)

    def _read_text(self, path: Path, report: ImportReport) -> None:
        counts, step_s = self.counts, self.step_s
        for number, line in enumerate(lines_of(path, keep_going=self._keep_going, report=report), start=1):
            found = STAMP.search(line)
            minute_s = self._minute_s(found[1], found[3]) if found else None
            if minute_s is None and not line.strip():
                continue
            self.lines += 1
            if found is None or minute_s is None:
                self.broken.add(f"{path.name} line {number}", "has no time like [28/Aug/1995:00:00:34 -0400]")
                continue
            counts[(minute_s + int(found[2])) // step_s] += 1

    def _minute_s(self, minute: bytes, zone: bytes) -> int | None:
        """Seconds on the local clock, remembered: a busy server has hundreds of lines a minute."""
        key = (minute, zone)
        if key not in self._minutes:
            self._minutes[key] = self._parsed(minute.decode(), zone.decode())
        return self._minutes[key]

    def _parsed(self, minute: str, zone: str) -> int | None:
        day, month, rest = minute.split("/")
        year, hour, minute_of_hour = rest.split(":")
        ahead_s = (1 if zone[0] == "+" else -1) * (3600 * int(zone[1:3]) + 60 * int(zone[3:]))
        try:
            moment = datetime(
                int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute_of_hour), tzinfo=UTC
            )
        except ValueError:
            return None
        if self.offset_s is None:
            self.offset_s = ahead_s
        return int(moment.timestamp()) - ahead_s + self.offset_s

    def _read_records(self, path: Path, report: ImportReport) -> None:
        content = b"".join(lines_of(path, keep_going=self._keep_going, report=report))
        torn = len(content) % RECORD_BYTES
        times = np.frombuffer(content[: len(content) - torn], ">u4")[:: RECORD_BYTES // 4].astype(np.int64)
        low, high = PLAUSIBLE_S
        if times.size == 0 or not ((times > low) & (times < high)).all():
            raise HistoryError(f"{path}: neither text nor WorldCup98's records of 20 bytes; {WAY_OUT}")
        if torn and not self._keep_going:
            raise HistoryError(
                f"{path}: ends in the middle of a record; copy it again, or import the rest with --keep-going"
            )
        report.lose("records cut off", int(torn > 0))
        if self.offset_s is None:
            self.offset_s = round(3600 * PARIS_HOURS)
            report.assume("WorldCup98's records have universal time; the day is that of France, +2 h")
        self.lines += len(times)
        steps, amounts = np.unique((times + self.offset_s) // self.step_s, return_counts=True)
        self.counts.update(dict(zip(steps.tolist(), amounts.tolist(), strict=True)))


def _series(log: _Log, *, source: str, longest_silence_s: float) -> Series:
    first, last = min(log.counts), max(log.counts) + 1
    if last - first > LONGEST:
        start, end = (datetime.fromtimestamp(step * log.step_s, UTC) for step in (first, last))
        raise HistoryError(
            f"{source}: requests from {start:%Y-%m-%d} to {end:%Y-%m-%d}; some line has a wrong date, mend it"
        )
    counts = np.zeros(last - first)
    places = np.fromiter(log.counts.keys(), np.int64, len(log.counts)) - first
    counts[places] = np.fromiter(log.counts.values(), np.float64, len(log.counts))
    rates = counts / log.step_s
    for start, end in runs_of(counts == 0):
        if (end - start) * log.step_s > longest_silence_s:
            rates[start:end] = np.nan
    begins = datetime(1970, 1, 1) + timedelta(seconds=first * log.step_s)
    return Series(source, rates, float(log.step_s), begins)
