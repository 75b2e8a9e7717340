"""Tables of Azure's public function traces: which file is of which kind, and which function is meant.

The trace of 2019 (Shahrad et al., ATC 2020) has three kinds of files for each day: calls per minute,
durations and memory. That of 2021 (Zhang et al., SOSP 2021) has one row for each call.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.rates.reading import DAMAGE, open_maybe_packed

__all__ = [
    "DAMAGED",
    "WAY_OUT",
    "Choice",
    "Kind",
    "choose",
    "files_of",
    "kind_of",
    "minutes_of",
    "said_by",
    "scan",
]

Kind: TypeAlias = Literal["minutes", "durations", "memory", "calls"]
SIGNS: dict[Kind, frozenset[str]] = {
    "durations": frozenset({"hashfunction", "average", "count", "percentile_average_50"}),
    "memory": frozenset({"hashapp", "averageallocatedmb"}),
    "calls": frozenset({"app", "func", "end_timestamp", "duration"}),
}
WAY_OUT = (
    "name a file of Azure's function traces (calls per minute of 2019, or calls of 2021), or a folder of them"
)


DAMAGED = (pl.exceptions.PolarsError, OSError)
"""What reading a damaged table raises."""


class Choice(NamedTuple):
    """Which function is meant: names, beginnings of names, or the place by number of calls."""

    function: str | None
    app: str | None
    rank: int


def files_of(path: Path) -> dict[Kind, list[Path]]:
    """The files of each kind: the one that is named, or those of a folder by name."""
    if not path.is_dir():
        return {kind_of(path): [path]}
    found: dict[Kind, list[Path]] = {}
    for file in sorted(path.iterdir()):
        if file.is_file() and (".csv" in file.name.lower() or file.suffix == ".txt"):
            try:
                found.setdefault(kind_of(file), []).append(file)
            except HistoryError:
                continue
    if not found:
        raise HistoryError(f"{path}: no table of a known kind in this folder; {WAY_OUT}")
    return found


def kind_of(path: Path) -> Kind:
    """What a file holds, told by the names of its columns."""
    with open_maybe_packed(path) as file:
        try:
            first = file.readline(1 << 20).decode("utf-8-sig", "replace")
        except DAMAGE as problem:
            raise HistoryError(f"{path}: cannot be read ({problem}); copy it again") from None
    names = {name.strip().lower() for row in csv.reader([first]) for name in row}
    if "hashfunction" in names and any(name.isdigit() for name in names):
        return "minutes"
    for kind, signs in SIGNS.items():
        if signs <= names:
            return kind
    raise HistoryError(f"{path}: columns {first.strip()[:60]!r} are of no known kind; {WAY_OUT}")


def scan(path: Path, *, keep_going: bool) -> pl.LazyFrame:
    """The table, read when it is needed; with `keep_going` a cell that is no number is null."""
    return pl.scan_csv(path, ignore_errors=keep_going, infer_schema_length=1000)


def minutes_of(table: pl.LazyFrame) -> list[str]:
    """The columns that are minutes of the day, in order."""
    return sorted((name for name in table.collect_schema().names() if name.isdigit()), key=int)


def choose(totals: dict[str, tuple[str, float]], choice: Choice, *, source: str) -> tuple[list[str], str]:
    """The functions that are meant, and how to call them.

    `totals` has the application and the number of calls of every function. A name may be cut short as long as
    one only begins so.
    """
    function, app, rank = choice
    if function is not None and app is not None:
        raise HistoryError(f"{source}: both function and app are given; give one of the two")
    if function is not None:
        name = _only(function, list(totals), source, "function")
        return [name], f"function {name[:8]}"
    if app is not None:
        name = _only(app, sorted({owner for owner, _ in totals.values()}), source, "app")
        return [one for one, (owner, _) in totals.items() if owner == name], f"app {name[:8]}"
    if not 1 <= rank <= len(totals):
        raise HistoryError(f"{source}: rank = {rank}; there are {len(totals):,} functions, 1 is the busiest")
    # Equally busy ones by name, so that the choice does not depend on the order of rows.
    ranked = sorted(totals, key=lambda one: (-totals[one][1], one))
    return [ranked[rank - 1]], f"function {ranked[rank - 1][:8]}"


def _only(wanted: str, names: list[str], source: str, what: str) -> str:
    found = [name for name in names if name.startswith(wanted)]
    if wanted in found:
        return wanted
    if len(found) == 1:
        return found[0]
    if not found:
        raise HistoryError(
            f"{source}: no {what} {wanted!r} among {len(names):,}; give rank = 1, 2, ... instead"
        )
    raise HistoryError(f"{source}: {len(found):,} names of {what}s begin with {wanted!r}; give more of it")


def said_by(problem: Exception) -> str:
    """The first line of a refusal."""
    return str(problem).strip().split("\n")[0]
