"""Files that may be compressed, and answers over HTTP; every refusal in one line."""

from __future__ import annotations

import bz2
import codecs
import gzip
import http.client
import json
import lzma
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.asking import open_address

__all__ = [
    "BrokenLines",
    "check_wait",
    "fetch_json",
    "find_file",
    "is_address",
    "lines_of",
    "load_json",
    "open_maybe_packed",
    "refuse_pipe",
]

PACKED = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
"""By the first two bytes of the file, whatever it is called."""
NOT_UNPACKED = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd"}
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LONGEST_WAIT_S = 86_400
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)


def find_file(path: str | Path, pattern: str, way_out: str) -> Path:
    """The file itself, or the only one in a folder whose name fits; of several, the user names one."""
    place = Path(path)
    if not place.exists():
        raise HistoryError(f"{place}: no such file; {way_out}")
    if not place.is_dir():
        return place
    found = sorted(file for file in place.iterdir() if file.is_file() and file.name[0] != ".")
    found = [file for file in found if fnmatchcase(file.name.lower(), pattern)]
    if not found:
        raise HistoryError(f"{place}: no {'file' if pattern == '*' else pattern} in it; {way_out}")
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:4]) + (", ..." if len(found) > 4 else "")
        raise HistoryError(
            f"{place}: {len(found)} files in it fit ({names}); name one of them, or move the others away"
        )
    return found[0]


def refuse_pipe(path: Path) -> None:
    """Refuse what can be read only once: histories are looked at first, and their beginning would be lost."""
    if path.is_fifo():
        raise HistoryError(f"{path}: is a pipe, which can be read only once; save it as a file first")


def open_maybe_packed(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, unpacking gzip, bzip2 and xz on the way."""
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start in NOT_UNPACKED:
            raise HistoryError(f"{path}: is packed with {NOT_UNPACKED[start]}; unpack it first")
        return PACKED[start[:2]](path, "rb") if start[:2] in PACKED else path.open("rb")  # pyright: ignore[reportReturnType]
    except FileNotFoundError:
        raise HistoryError(f"{path}: no such file; check the path") from None
    except OSError as problem:
        raise HistoryError(f"{path}: cannot be read ({problem}); name a file") from None


def lines_of(path: Path, *, keep_going: bool, report: ImportReport) -> Iterator[bytes]:
    """Lines of a file; one that ends in the middle of its packing is refused or, if asked, counted."""
    with open_maybe_packed(path) as file:
        try:
            for number, line in enumerate(file):
                if number == 0 and line.startswith(UTF_16):
                    raise HistoryError(f"{path}: is text in UTF-16; save it as UTF-8")
                yield line
        except DAMAGE as problem:
            if not keep_going:
                raise HistoryError(
                    f"{path}: cannot be read to its end ({problem}); copy it again, or import what is sound "
                    "with --keep-going"
                ) from None
            report.lose("files cut short")


class BrokenLines:
    """Counts lines that make no sense: a few are noise, many mean the wrong kind of file."""

    def __init__(self, source: str, *, tolerated_share: float, keep_going: bool) -> None:
        if not 0 <= tolerated_share <= 1:
            raise HistoryError(f"{source}: a tolerated share of {tolerated_share}; give 0 to 1, such as 0.01")
        self._source = source
        self._tolerated = 1.0 if keep_going else tolerated_share
        self.first = ""
        """Where the first is, and what is wrong with it."""
        self._number = 0

    def add(self, where: str, why: str) -> None:
        """Note one; the first is remembered for the message."""
        self.first = self.first or f"{where} {why}"
        self._number += 1

    def settle(self, total: int, *, way_out: str, report: ImportReport) -> None:
        """Refuse if there were too many of them among so many lines, otherwise report them."""
        if total == 0:
            raise HistoryError(f"{self._source}: is empty; {way_out}")
        if self._number == total:
            raise HistoryError(f"{self._source}: all {total:,} lines are broken ({self.first}); {way_out}")
        if self._number > self._tolerated * total:
            raise HistoryError(
                f"{self._source}: {self._number:,} of {total:,} lines are broken ({self.first}); {way_out}, "
                "or import what is sound with --keep-going"
            )
        report.lose("broken lines", self._number)


def is_address(source: str) -> bool:
    """Whether this is an address and not a path."""
    try:
        return urlsplit(source).scheme in ("http", "https")
    except ValueError as problem:
        raise HistoryError(f"{source}: neither a path nor an address ({problem}); mend it") from None


def check_wait(address: str, timeout_s: float) -> None:
    """Refuse to wait for no time, or for ever."""
    if not 0 < timeout_s <= LONGEST_WAIT_S:
        raise HistoryError(f"{address}: timeout_s = {timeout_s}; give more than 0 s, a day at most")


def fetch_json(address: str, *, timeout_s: float, way_out: str) -> Any:
    """Ask a server; HTTPError where it refuses, one line where it does not answer or not with JSON."""
    check_wait(address, timeout_s)
    try:
        with open_address(address, timeout_s=timeout_s) as answer:
            return json.loads(answer.read())
    except HTTPError as refusal:
        refusal.close()
        raise
    except (ValueError, RecursionError) as problem:
        raise HistoryError(f"{address}: the answer is not JSON ({problem}); {way_out}") from None
    except (URLError, OSError, http.client.HTTPException) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise HistoryError(f"{address}: no answer ({reason}); {way_out}") from None


def load_json(path: Path, *, way_out: str) -> Any:
    """Read a JSON file, packed or not."""
    with open_maybe_packed(path) as file:
        try:
            return json.loads(file.read())
        except (*DAMAGE, ValueError, RecursionError) as problem:
            raise HistoryError(f"{path}: not JSON ({problem}); {way_out}") from None
