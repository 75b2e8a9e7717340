"""The running jobs by when they end: a binary heap of slots that knows where each slot is.

The ends stand beside the slots in a row of their own, so that looking for the place of a job reads one
stretch of memory and not a record per job it passes.
"""

from __future__ import annotations

from trimtab.gpu_scheduling.simulator.compiling import inlined, jit
from trimtab.gpu_scheduling.simulator.state import END_ROW, HEAP_ROW, State

__all__ = ["insert", "moved", "remove"]


@inlined
def before(s: State, end_ms: int, slot: int, place: int) -> bool:
    """Whether a job ends before the one at a place; of two that end together the one started first."""
    if end_ms != s.lists[END_ROW, place]:
        return end_ms < s.lists[END_ROW, place]
    return s.slots[slot]["start_number"] < s.slots[s.lists[HEAP_ROW, place]]["start_number"]


@inlined
def put(s: State, place: int, slot: int, end_ms: int) -> None:
    s.lists[HEAP_ROW, place] = slot
    s.lists[END_ROW, place] = end_ms
    s.slots[slot]["heap_place"] = place


@jit
def settle(s: State, slot: int, place: int, size: int) -> None:
    """Find the place of a job in a heap of `size` where only its own may be wrong."""
    end_ms = s.slots[slot]["end_ms"]
    while place > 0:
        above = (place - 1) >> 1
        if not before(s, end_ms, slot, above):
            break
        put(s, place, s.lists[HEAP_ROW, above], s.lists[END_ROW, above])
        place = above
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        right = below + 1
        if right < size and before(s, s.lists[END_ROW, right], s.lists[HEAP_ROW, right], below):
            below = right
        if before(s, end_ms, slot, below):
            break
        put(s, place, s.lists[HEAP_ROW, below], s.lists[END_ROW, below])
        place = below
    put(s, place, slot, end_ms)


@inlined
def insert(s: State, slot: int, size: int) -> None:
    """Add a job to a heap of `size`."""
    settle(s, slot, size, size)


@inlined
def moved(s: State, slot: int, size: int) -> None:
    """Put a job right whose end has changed."""
    settle(s, slot, s.slots[slot]["heap_place"], size)


@inlined
def remove(s: State, slot: int, size: int) -> None:
    """Take a job out of a heap of `size`."""
    last = s.lists[HEAP_ROW, size - 1]
    if last != slot:
        settle(s, last, s.slots[slot]["heap_place"], size - 1)
