"""Queues whose records know when they were born: rings of chunks."""

from __future__ import annotations

from trimtab.stream_autoscaling.simulator.compiling import inlined, jit
from trimtab.stream_autoscaling.simulator.state import EMPTY, RING, State

__all__ = ["clear", "pop", "push", "push_front"]

_MASK = RING - 1


@inlined
def push(s: State, queue: int, amount: float, birth: float) -> None:
    """Records of one birth join the end."""
    q = s.queues[queue]
    if q["count"] == RING:
        merge_neighbours(s, queue)
    chunk = s.chunks[queue, (q["head"] + q["count"]) & _MASK]
    chunk["amount"] = amount
    chunk["birth"] = birth
    q["count"] += 1
    q["amount"] += amount


@jit
def push_front(s: State, queue: int, amount: float, birth: float) -> None:
    """Records of one birth come before all others."""
    q = s.queues[queue]
    if q["count"] == RING:
        merge_neighbours(s, queue)
    q["head"] = (q["head"] - 1) & _MASK
    chunk = s.chunks[queue, q["head"]]
    chunk["amount"] = amount
    chunk["birth"] = birth
    q["count"] += 1
    q["amount"] += amount


@jit
def merge_neighbours(s: State, queue: int) -> None:
    """Half the chunks, each twice as large with the mean birth of both; sums up the amount afresh."""
    q = s.queues[queue]
    head = q["head"]
    total = 0.0
    for place in range(RING // 2):
        first = s.chunks[queue, (head + 2 * place) & _MASK]
        second = s.chunks[queue, (head + 2 * place + 1) & _MASK]
        amount = first["amount"] + second["amount"]
        birth = (first["amount"] * first["birth"] + second["amount"] * second["birth"]) / amount
        merged = s.chunks[queue, (head + place) & _MASK]
        merged["amount"] = amount
        merged["birth"] = birth
        total += amount
    q["count"] = RING // 2
    q["amount"] = total


@inlined
def pop(s: State, queue: int, wanted: float) -> float:
    """Take so many records from the front; gives their mean birth. Leaves no crumbs."""
    q = s.queues[queue]
    front = s.chunks[queue, q["head"]]
    if wanted < front["amount"] - EMPTY and wanted < q["amount"] - EMPTY:
        front["amount"] -= wanted
        q["amount"] = front["amount"] if q["count"] == 1 else q["amount"] - wanted
        return front["birth"]
    return pop_chunks(s, queue, wanted)


@jit
def pop_chunks(s: State, queue: int, wanted: float) -> float:
    """Take at least the whole first chunk."""
    q = s.queues[queue]
    everything = wanted >= q["amount"] - EMPTY
    left, taken, moment = wanted, 0.0, 0.0
    while q["count"] > 0 and (everything or left > EMPTY or taken == 0.0):
        chunk = s.chunks[queue, q["head"]]
        if everything or left >= chunk["amount"] - EMPTY:
            part = chunk["amount"]
            q["head"] = (q["head"] + 1) & _MASK
            q["count"] -= 1
        else:
            part = left
            chunk["amount"] -= part
        taken += part
        moment += part * chunk["birth"]
        left -= part
    # With one chunk left its amount is the queue's, exactly: rounding does not add up over a day.
    if q["count"] == 0:
        q["amount"] = 0.0
    elif q["count"] == 1:
        q["amount"] = s.chunks[queue, q["head"]]["amount"]
    else:
        q["amount"] -= taken
    return moment / taken


@jit
def clear(s: State, queue: int) -> None:
    """Drop everything, and keep count of it."""
    q = s.queues[queue]
    q["dropped_total"] += q["amount"]
    q["amount"] = 0.0
    q["count"] = 0
    q["head"] = 0
