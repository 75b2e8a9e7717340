"""What a pod holds, whether it gets requests, and how it goes."""

from __future__ import annotations

from trimtab.pod_autoscaling.simulator import totals
from trimtab.pod_autoscaling.simulator.compiling import inlined, jit
from trimtab.pod_autoscaling.simulator.state import (
    ABSENT,
    ENDING,
    NONE,
    READY,
    STARTING,
    WAITING,
    Record,
    State,
)

__all__ = ["leave_ready", "remove", "serves", "settle", "working_set"]


@inlined
def working_set(run: Record, pod: Record, at_s: float) -> float:
    """MiB of a pod that serves."""
    return (
        run["memory_mib"]
        + run["memory_per_request_mib"] * pod["inside"]
        + pod["cache_mib"]
        + run["leak_mib_per_s"] * (at_s - pod["fresh_s"])
    )


@inlined
def settle(s: State, pod: Record, to_s: float) -> None:
    """Count what the pod has held since the last time, and what its start has used."""
    span_s = to_s - pod["settled_s"]
    pod["settled_s"] = to_s
    state = pod["state"]
    if span_s <= 0.0 or state == WAITING:
        return
    s.totals[totals.HELD_CORE_S] += pod["cpu"] * span_s
    s.totals[totals.HELD_MIB_S] += pod["memory"] * span_s
    if state == READY:
        s.totals[totals.READY_S] += span_s
    elif state == STARTING:
        used_s = min(pod["burn"], pod["cpu"]) * span_s
        pod["cpu_s"] += used_s
        s.totals[totals.CPU_S] += used_s
        s.totals[totals.MIB_S] += min(s.run[0]["memory_mib"], pod["memory"]) * span_s


@jit
def leave_ready(s: State, row: int, at_s: float) -> None:
    """No more requests from now on."""
    run = s.run[0]
    place = 0
    while s.ready[place] != row:
        place += 1
    run["ready_count"] -= 1
    for other in range(place, run["ready_count"]):
        s.ready[other] = s.ready[other + 1]
    s.pods[row]["ready_changed_s"] = at_s


@jit
def remove(s: State, row: int, at_s: float) -> None:
    """The pod is gone, and its room on the node is free. Nothing is inside it any more."""
    run, pod = s.run[0], s.pods[row]
    settle(s, pod, at_s)
    if pod["node"] != NONE:
        s.nodes[pod["node"], 0] += pod["cpu"]
        s.nodes[pod["node"], 1] += pod["memory"]
    pod["state"] = ABSENT
    while run["rows"] > 0 and s.pods[run["rows"] - 1]["state"] == ABSENT:
        run["rows"] -= 1


@inlined
def serves(pod: Record) -> bool:
    """Whether there may be requests inside."""
    return pod["state"] == READY or pod["state"] == ENDING
