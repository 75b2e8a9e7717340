"""A claim of a paper, and the rows of ours that answer it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Claim"]


@dataclass(frozen=True)
class Claim:
    """What a paper says, and the rows of ours that test it: those whose names begin so."""

    claim: str
    paper: str
    topic: str
    rows: tuple[str, ...]
    when_missed: str = "missed"
    """The verdict where a bar is missed."""
