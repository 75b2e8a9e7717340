"""Find the applications in a Spark event log folder, file or zip, and read their lines.

An application is one file (`app-1`, `app-1.zstd`, `app-1.inprogress`) or a folder of rolled files
(`eventlog_v2_app-1/events_1_app-1.zstd` and an `appstatus_app-1` marker).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.spark_codecs import (
    CodecError,
    TruncatedStream,
    codec_of,
    decompressed,
)

__all__ = ["ApplicationLog", "Line", "LogPart", "find_application_logs", "read_lines"]

IN_PROGRESS = ".inprogress"
EVENT_BEGINNING = b'{"Event"'
ROLLED = re.compile(r"events_(\d+)_.+?(\.compact)?")
CODEC_NAMES = (".gz", ".lz4", ".lzf", ".snappy", ".zstd", ".zst")


@dataclass(frozen=True)
class LogPart:
    """One file of a log, on disk or inside a zip."""

    label: str
    """What an error message calls it."""
    path: PurePosixPath
    open: Callable[[], BinaryIO]


@dataclass(frozen=True)
class ApplicationLog:
    """Everything one application (attempt) wrote, in order."""

    label: str
    parts: tuple[LogPart, ...]
    in_progress: bool = False
    is_compacted: bool = False
    """Spark's history server has thrown away the events of finished queries."""
    missing_parts: tuple[int, ...] = ()
    """Numbers of rolled files that should be there."""


class Line(NamedTuple):
    """One line of a log, and where it stands."""

    label: str
    number: int
    text: bytes
    is_last_of_open_file: bool
    """True for a last line without its newline in a log that is still being written."""


def find_application_logs(
    path: Path, report: ImportReport, *, label: str | None = None
) -> list[ApplicationLog]:
    """All applications under a path, by name; other files are reported and left alone.

    `label` is what messages call the path, where a user would not know it (a download).
    """
    label = label or str(path)
    if not path.exists():
        raise HistoryError(f"{label}: no such file or folder; name a Spark event log")
    parts = _parts_of(path, label)
    rolled: dict[PurePosixPath, list[LogPart]] = {}
    logs: list[ApplicationLog] = []
    for part in parts:
        name = part.path.name
        if ".compact.inprogress" in name:
            continue
        if ROLLED.fullmatch(name):
            rolled.setdefault(part.path.parent, []).append(part)
        elif name.startswith("appstatus_"):
            continue
        elif not path.is_dir() or _looks_like_events(part):
            logs.append(ApplicationLog(part.label, (part,), name.endswith(IN_PROGRESS)))
        else:
            report.drop("file that is not a Spark event log")
    logs += [_rolled_log(folder, files, parts) for folder, files in rolled.items()]
    if not logs:
        raise HistoryError(f"{label}: no Spark event log in it; point to the folder in spark.eventLog.dir")
    return sorted(logs, key=lambda log: log.label)


def read_lines(log: ApplicationLog, *, keep_going: bool, report: ImportReport) -> Iterator[Line]:
    """Lines of all parts in order; damaged compression is refused or, if asked, reported."""
    if log.missing_parts:
        if not keep_going:
            raise HistoryError(
                f"{log.label}: rolled file events_{log.missing_parts[0]} is missing; copy the "
                "whole folder, or import what is there with --keep-going"
            )
        report.lose("rolled files that are missing", len(log.missing_parts))
    for part in log.parts:
        is_open = log.in_progress and part is log.parts[-1]
        with _opened(part) as file:
            try:
                for number, text, has_end in _split(_counted(decompressed(file), report)):
                    yield Line(part.label, number, text, is_open and not has_end)
            except TruncatedStream as problem:
                if not is_open:
                    _damaged(part, problem, file, keep_going=keep_going, report=report)
            except CodecError as problem:
                _damaged(part, problem, file, keep_going=keep_going, report=report)


def _opened(part: LogPart) -> BinaryIO:
    try:
        return part.open()
    except OSError as problem:
        raise HistoryError(
            f"{part.label}: cannot be read ({problem.strerror}); check its permissions"
        ) from None
    except (zipfile.BadZipFile, RuntimeError) as problem:
        raise HistoryError(
            f"{part.label}: cannot be unpacked ({problem}); make the zip again, without a password"
        ) from None


def _damaged(
    part: LogPart, problem: CodecError, file: BinaryIO, *, keep_going: bool, report: ImportReport
) -> None:
    if not keep_going:
        raise HistoryError(
            f"{part.label}: cannot be decompressed ({problem}); copy it again, or import what is "
            "sound with --keep-going"
        ) from None
    report.lose("compressed files that break off")
    report.lose("bytes of compressed data", len(file.read()))


def _counted(chunks: Iterator[bytes], report: ImportReport) -> Iterator[bytes]:
    for chunk in chunks:
        report.count("bytes", len(chunk))
        yield chunk


def _split(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Cut pieces into (number, line, has a newline); a torn stream still gives what came before."""
    number, pending = 0, []
    try:
        for chunk in chunks:
            *whole, rest = chunk.split(b"\n")
            for text in whole:
                number += 1
                if pending:
                    text = b"".join((*pending, text))
                    pending = []
                yield number, text, True
            if rest:
                pending.append(rest)
    except TruncatedStream:
        if pending:
            yield number + 1, b"".join(pending), False
        raise
    if pending:
        yield number + 1, b"".join(pending), False


def _parts_of(path: Path, label: str) -> list[LogPart]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return [
            LogPart(str(file), PurePosixPath(file.as_posix()), partial(file.open, "rb"))
            for file in files
            if not file.name.startswith((".", "_")) and file.suffix != ".crc"
        ]
    if zipfile.is_zipfile(path):
        return list(_zip_parts(path, label))
    return [LogPart(label, PurePosixPath(path.as_posix()), partial(path.open, "rb"))]


def _zip_parts(archive: Path, label: str) -> Iterator[LogPart]:
    """The event logs in a zip, as the history server hands them out."""
    try:
        with zipfile.ZipFile(archive) as file:
            names = [name for name in file.namelist() if not name.endswith("/")]
    except (zipfile.BadZipFile, OSError) as problem:
        raise HistoryError(f"{label}: not a readable zip ({problem}); download it again") from None
    for name in names:
        opener = partial(_member, archive, name)
        yield LogPart(f"{label}!{name}", PurePosixPath(name), opener)


def _member(archive: Path, name: str) -> BinaryIO:
    # The entry keeps the file open until it is closed itself; one that cannot be opened keeps nothing.
    with zipfile.ZipFile(archive) as file:
        return file.open(name)  # type: ignore[return-value]


def _looks_like_events(part: LogPart) -> bool:
    if part.path.name.removesuffix(IN_PROGRESS).endswith(CODEC_NAMES):
        return True
    with _opened(part) as file:
        head = file.read(16)
    return head.startswith(EVENT_BEGINNING) or codec_of(head) is not None


def _rolled_log(folder: PurePosixPath, files: Sequence[LogPart], parts: Sequence[LogPart]) -> ApplicationLog:
    """Rolled files by number; a compacted file stands for itself and all before it."""
    numbered = sorted(((_roll_number(part), part) for part in files), key=lambda pair: pair[0])
    compacted = [order for order, _ in numbered if order[1]]
    if compacted:
        numbered = [pair for pair in numbered if pair[0] >= compacted[-1]]
    present = {number for (number, _), _ in numbered}
    expected = range(min(present) if compacted else 1, max(present) + 1)
    in_progress = any(
        part.path.parent == folder
        and part.path.name.startswith("appstatus_")
        and part.path.name.endswith(IN_PROGRESS)
        for part in parts
    )
    label = numbered[0][1].label
    return ApplicationLog(
        label[: -len(numbered[0][1].path.name)].rstrip("/!") or label,
        tuple(part for _, part in numbered),
        in_progress,
        bool(compacted),
        tuple(sorted(set(expected) - present)),
    )


def _roll_number(part: LogPart) -> tuple[int, bool]:
    matched = ROLLED.fullmatch(part.path.name)
    if matched is None:
        raise AssertionError(part.path.name)
    return int(matched[1]), matched[2] is not None
