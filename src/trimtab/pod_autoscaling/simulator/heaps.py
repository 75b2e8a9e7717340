"""Pairing heaps (Fredman et al., 1986) whose nodes are slots of requests: no arrays of their own.

A heap is the slot at its top, or NONE. `child` is the first of a slot's children, `next` the next child of
the same parent. The smallest key comes first; of equal keys, the older request.
"""

from __future__ import annotations

from trimtab.pod_autoscaling.simulator.compiling import inlined, jit
from trimtab.pod_autoscaling.simulator.state import NONE, Record

__all__ = ["popped", "pushed"]


@inlined
def merged(requests: Record, one: int, other: int) -> int:
    """One heap of two; neither is empty, and neither top has a `next`."""
    key, other_key = requests[one]["key"], requests[other]["key"]
    if other_key < key or (other_key == key and requests[other]["number"] < requests[one]["number"]):
        one, other = other, one
    requests[other]["next"] = requests[one]["child"]
    requests[one]["child"] = other
    return one


@inlined
def pushed(requests: Record, top: int, slot: int) -> int:
    """The heap with one more slot, whose key is set."""
    requests[slot]["child"] = NONE
    requests[slot]["next"] = NONE
    return slot if top == NONE else merged(requests, top, slot)


@jit
def popped(requests: Record, top: int) -> int:
    """The heap without its top: its children are merged two by two, and these from last to first."""
    left = int(requests[top]["child"])
    pairs = NONE
    while left != NONE:
        pair = left
        second = int(requests[left]["next"])
        left = NONE
        if second != NONE:
            left = int(requests[second]["next"])
            requests[pair]["next"] = NONE
            requests[second]["next"] = NONE
            pair = merged(requests, pair, second)
        requests[pair]["next"] = pairs
        pairs = pair
    heap = NONE
    while pairs != NONE:
        following = int(requests[pairs]["next"])
        requests[pairs]["next"] = NONE
        heap = pairs if heap == NONE else merged(requests, heap, pairs)
        pairs = following
    return heap
