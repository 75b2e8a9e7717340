"""More room for a batch (slots for requests, rows for pods), and copies from one batch into another."""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.problem import Integers
from trimtab.pod_autoscaling.simulator.state import ABSENT, Record, State

__all__ = ["copy_services", "with_rows", "with_slots"]


def with_slots(state: State, slots: int) -> State:
    """The same batch with room for more requests; the new slots are free."""
    size, before = state.requests.shape
    requests: Record = np.zeros((size, slots), state.requests.dtype)
    requests[:, :before] = state.requests
    requests["next"][:, before:] = np.arange(before + 1, slots + 1)
    requests["next"][:, -1] = state.run["free_slot"][:, 0]
    state.run["free_slot"] = before
    return state._replace(requests=requests)


def with_rows(state: State, rows: int) -> State:
    """The same batch with room for more pods."""

    def widened(field: np.ndarray) -> np.ndarray:
        wide = np.zeros((field.shape[0], rows, *field.shape[2:]), field.dtype)
        wide[:, : field.shape[1]] = field
        return wide

    return state._replace(
        pods=widened(state.pods), ready=widened(state.ready), scrapes=widened(state.scrapes)
    )


def copy_services(target: State, rows: Integers, source: State, source_rows: Integers) -> None:
    """Put services of one batch into rows of another that has at least as much room."""
    for name, ours, theirs in zip(State._fields, target, source, strict=True):
        if name in ("outcomes", "drawn"):
            continue
        within = tuple(slice(length) for length in theirs.shape[1:])
        ours[(rows, *within)] = theirs[source_rows]
    target.pods["state"][rows, source.pods.shape[1] :] = ABSENT
    slots, before = target.requests.shape[1], source.requests.shape[1]
    if slots > before:
        target.requests["next"][rows, before:] = np.arange(before + 1, slots + 1)
        target.requests["next"][rows, -1] = target.run["free_slot"][rows, 0]
        target.run["free_slot"][rows] = before
