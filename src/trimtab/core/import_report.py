"""What an import read, filled, dropped, assumed and lost: what its result itself cannot tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["ImportReport"]


@dataclass
class ImportReport:
    """The account an importer gives beside its result.

    *Filled* is what was made up where nothing was known; *dropped* is sound but of no use (a sample in the
    middle of a restart); *lost* is damage (a torn line). *Measured* are numbers of the system that have no
    place in a job, such as how long a restart takes.

    >>> report = ImportReport("access.log.gz")
    >>> report.count("requests", 12_000)
    >>> report.fill("minutes, between their neighbours", 3)
    >>> print(*report.lines(), sep="\\n")
    access.log.gz
      read     12,000 requests
      filled   3 minutes, between their neighbours
    """

    source: str
    read: Counter[str] = field(default_factory=Counter)
    filled: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    measured: dict[str, float] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)

    def count(self, what: str, amount: int = 1) -> None:
        """Note that something was read."""
        self.read[what] += amount

    def fill(self, what: str, amount: int = 1) -> None:
        """Note that something was made up, and how."""
        if amount:
            self.filled[what] += amount

    def drop(self, reason: str, amount: int = 1) -> None:
        """Note that something sound was left out, and why."""
        if amount:
            self.dropped[reason] += amount

    def lose(self, what: str, amount: int = 1) -> None:
        """Note damage: what could not be read."""
        if amount:
            self.lost[what] += amount

    def measure(self, what: str, value: float) -> None:
        """Note a number of the system; settings may want it."""
        self.measured[what] = value

    def assume(self, sentence: str) -> None:
        """Note once what the history does not tell and the importer supposed."""
        if sentence not in self.assumptions:
            self.assumptions.append(sentence)

    @property
    def is_complete(self) -> bool:
        """True when nothing was damaged."""
        return not self.lost

    def lines(self) -> list[str]:
        """The report for a terminal, one finding a line."""
        read = ", ".join(f"{amount:,} {what}" for what, amount in self.read.items())
        lines = [self.source, f"  read     {read or 'nothing'}"]
        lines += [f"  filled   {amount:,} {what}" for what, amount in self.filled.items()]
        lines += [f"  dropped  {amount:,} x {reason}" for reason, amount in self.dropped.items()]
        lines += [f"  lost     {amount:,} {what}" for what, amount in self.lost.items()]
        lines += [f"  measured {what} = {value:.4g}" for what, value in self.measured.items()]
        return lines + [f"  assumed  {sentence}" for sentence in self.assumptions]

    def as_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "source": self.source,
            "read": dict(self.read),
            "filled": dict(self.filled),
            "dropped": dict(self.dropped),
            "lost": dict(self.lost),
            "measured": dict(self.measured),
            "assumptions": list(self.assumptions),
        }
