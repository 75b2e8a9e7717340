"""What an import read, dropped, assumed and lost: what the workload itself cannot tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["ImportReport"]


@dataclass
class ImportReport:
    """The account an importer gives beside its workload.

    *Dropped* is sound but of no use (a failed query); *lost* is damage (a torn line).

    >>> report = ImportReport("logs/app-1")
    >>> report.count("tasks", 12_000)
    >>> report.drop("query failed", 2)
    >>> report.assume("one wave per task")
    >>> print(*report.lines(), sep="\\n")
    logs/app-1
      read     12,000 tasks
      dropped  2 x query failed
      assumed  one wave per task
    """

    source: str
    read: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    assumptions: list[str] = field(default_factory=list)

    def count(self, what: str, amount: int = 1) -> None:
        """Note that something was read."""
        self.read[what] += amount

    def drop(self, reason: str, amount: int = 1) -> None:
        """Note that something sound was left out, and why."""
        if amount:
            self.dropped[reason] += amount

    def lose(self, what: str, amount: int = 1) -> None:
        """Note damage: what could not be read."""
        if amount:
            self.lost[what] += amount

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
        lines += [f"  dropped  {amount:,} x {reason}" for reason, amount in self.dropped.items()]
        lines += [f"  lost     {amount:,} {what}" for what, amount in self.lost.items()]
        return lines + [f"  assumed  {sentence}" for sentence in self.assumptions]

    def as_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "source": self.source,
            "read": dict(self.read),
            "dropped": dict(self.dropped),
            "lost": dict(self.lost),
            "assumptions": list(self.assumptions),
        }
