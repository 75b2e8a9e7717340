"""A size is asked for: pods are added or taken away, and get other resources, in place or one by one anew."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trimtab.pod_autoscaling.simulator.comings import CRUMB, create, end_pod, free_rows
from trimtab.pod_autoscaling.simulator.compiling import jit, merged
from trimtab.pod_autoscaling.simulator.draws import RESIZE, count_in, uniform_of
from trimtab.pod_autoscaling.simulator.rows import serves, settle, working_set
from trimtab.pod_autoscaling.simulator.serving import plan
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

__all__ = ["command", "has_rows_to_roll", "roll", "take_resize"]


@jit
def command(s: State, d: Record, wanted: NDArray[np.float64], at_s: float) -> bool:
    """Ask for a size; all pods have lived up to this moment. False: there are too few rows; nothing done."""
    run = s.run[0]
    count = 0
    for row in range(run["rows"]):
        state = s.pods[row]["state"]
        if state != ABSENT and state != ENDING:
            count += 1
    replicas = int(wanted[0])
    # Rolling needs a row for the new pod while the old one drains.
    if free_rows(s) < max(replicas - count, 0) + (0 if d["in_place"] else 1):
        return False
    run["replicas"], run["cpu"], run["memory"] = wanted[0], wanted[1], wanted[2]
    if d["in_place"]:
        for row in range(run["rows"]):
            ask_resize(s, d, row, at_s)
    while count > replicas:
        end_pod(s, d, victim(s, False), at_s)
        count -= 1
    while count < replicas:
        create(s, d, at_s)
        count += 1
    if not d["in_place"]:
        roll(s, d, at_s)
    return True


@jit
def victim(s: State, only_old: bool) -> int:
    """The row of the pod to go first, as the ReplicaSet controller chooses: those on no node, then those not
    started, then those not ready, then those ready for the shortest time; of equals, the youngest.

    `only_old`: of the pods whose size is not the one wanted; NONE if all have it.
    """
    run = s.run[0]
    best = NONE
    for row in range(run["rows"]):
        pod = s.pods[row]
        if pod["state"] == ABSENT or pod["state"] == ENDING:
            continue
        if only_old and pod["cpu"] == run["cpu"] and pod["memory"] == run["memory"]:
            continue
        if best == NONE or goes_before(pod, s.pods[best]):
            best = row
    return best


@merged
def goes_before(pod: Record, other: Record) -> bool:
    rank, other_rank = min(pod["state"], READY), min(other["state"], READY)
    # STARTING and DOWN are one rank: running and not ready.
    rank = STARTING if STARTING < rank < READY else rank
    other_rank = STARTING if STARTING < other_rank < READY else other_rank
    if rank != other_rank:
        return rank < other_rank
    if rank == READY and pod["ready_changed_s"] != other["ready_changed_s"]:
        return pod["ready_changed_s"] > other["ready_changed_s"]
    return pod["number"] > other["number"]


@merged
def ask_resize(s: State, d: Record, row: int, at_s: float) -> None:
    """The pod is to have the size wanted: at once if it has no node yet, otherwise a little later."""
    run, pod = s.run[0], s.pods[row]
    if pod["state"] == ABSENT or pod["state"] == ENDING:
        return
    if pod["cpu_asked"] == run["cpu"] and pod["memory_asked"] == run["memory"]:
        return
    pod["cpu_asked"], pod["memory_asked"] = run["cpu"], run["memory"]
    pod["resize_due_s"] = math.inf
    if pod["state"] == WAITING:
        pod["cpu"], pod["memory"] = run["cpu"], run["memory"]
    elif pod["cpu"] != run["cpu"] or pod["memory"] != run["memory"]:
        too_large = run["cpu"] > d["node_cpu"] or run["memory"] > d["node_memory_mib"]
        if d["nodes"] > 0 and too_large:
            return
        luck = count_in(count_in(count_in(run["luck"], RESIZE), pod["number"]), pod["resizes"])
        pod["resizes"] += 1
        pod["resize_due_s"] = at_s + d["resize_s"] * 2.0 ** (2.0 * uniform_of(luck) - 1.0)


@jit
def take_resize(s: State, d: Record, row: int, at_s: float) -> None:
    """The node gives the pod what was asked for, or will try again at the next whole second.

    It waits as long as the node has no room; memory also as long as the pod uses more than it would have.
    """
    run, pod = s.run[0], s.pods[row]
    pod["resize_due_s"] = math.inf
    more_cpu, more_memory = pod["cpu_asked"] - pod["cpu"], pod["memory_asked"] - pod["memory"]
    node = pod["node"]
    if node != NONE:
        cpu_lacks = more_cpu > 0.0 and more_cpu > s.nodes[node, 0] + CRUMB
        if cpu_lacks or (more_memory > 0.0 and more_memory > s.nodes[node, 1] + CRUMB):
            pod["resize_due_s"] = math.floor(at_s) + 1.0
            return
    settle(s, pod, at_s)
    used = 0.0
    if serves(pod):
        used = working_set(run, pod, at_s)
    elif pod["state"] == STARTING:
        used = min(run["memory_mib"], pod["memory"])
    if more_memory < 0.0 and pod["memory_asked"] < used:
        more_memory = 0.0
        pod["resize_due_s"] = math.floor(at_s) + 1.0
    else:
        pod["memory"] = pod["memory_asked"]
    pod["cpu"] = pod["cpu_asked"]
    if node != NONE:
        s.nodes[node, 0] -= more_cpu
        s.nodes[node, 1] -= more_memory
    if serves(pod):
        plan(s, d, pod)


@merged
def has_rows_to_roll(s: State, d: Record) -> bool:
    return d["in_place"] or free_rows(s) > 0


@jit
def roll(s: State, d: Record, at_s: float) -> None:
    """Replace pods of another size: those not ready at once, the ready one at a time, when all are ready."""
    run = s.run[0]
    while True:
        row = victim(s, True)
        if row == NONE:
            return
        if s.pods[row]["state"] == READY and run["ready_count"] < run["replicas"]:
            return
        end_pod(s, d, row, at_s)
        create(s, d, at_s)
