"""A row of numbers that is made of named parts, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["place_of"]


def place_of(parts: Mapping[str, int], name: str) -> slice:
    """Where the numbers of a part lie; `parts` says how many each has.

    >>> place_of({"order": 3, "cap": 2}, "cap")
    slice(3, 5, None)
    """
    names = list(parts)
    first = sum(parts[other] for other in names[: names.index(name)])
    return slice(first, first + parts[name])
