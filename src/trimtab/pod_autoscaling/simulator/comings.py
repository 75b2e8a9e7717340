"""Pods come and go: created, placed on a node, started, ready; killed when memory runs out; drained.

WAITING --placed--> PULLING --image there--> STARTING --> READY --scaled down--> ENDING --> gone
                                                ^            |
                                                +--- DOWN <--+  out of memory
"""

from __future__ import annotations

import math

from trimtab.pod_autoscaling.simulator import totals
from trimtab.pod_autoscaling.simulator.compiling import jit, merged
from trimtab.pod_autoscaling.simulator.draws import START, count_in, draw_lognormal
from trimtab.pod_autoscaling.simulator.rows import leave_ready, remove, serves, settle, working_set
from trimtab.pod_autoscaling.simulator.serving import clear_requests, fail_all, live_until, move_to
from trimtab.pod_autoscaling.simulator.state import (
    ABSENT,
    DOWN,
    ENDING,
    NONE,
    PULLING,
    READY,
    STARTING,
    WAITING,
    Record,
    State,
)

__all__ = ["become_ready", "create", "end_pod", "free_rows", "kill", "live_on", "next_due", "place", "sync"]
__all__ += ["watch_memory"]

FORGIVEN_S = 600.0
"""A container that has run so long is not in a crash loop: Kubernetes forgets earlier kills."""
CRUMB = 1e-9
"""What rounding may take from the room of a node."""


@jit
def sync(s: State, d: Record, to_s: float) -> None:
    """Let every pod live up to a time."""
    run = s.run[0]
    run["now_s"] = to_s
    for row in range(run["rows"]):
        pod = s.pods[row]
        if serves(pod):
            live_until(s, d, row, to_s)
        if pod["state"] != ABSENT:
            if serves(pod):
                move_to(s, d, pod, to_s)
            settle(s, pod, to_s)


@jit
def next_due(s: State) -> None:
    """When the next pod changes what it is, or gets the resources asked for."""
    due_s = math.inf
    for row in range(s.run[0]["rows"]):
        pod = s.pods[row]
        if pod["state"] != ABSENT:
            due_s = min(due_s, pod["due_s"], pod["resize_due_s"])
    s.run[0]["next_due_s"] = due_s


@jit
def free_rows(s: State) -> int:
    free = len(s.pods) - s.run[0]["rows"]
    for row in range(s.run[0]["rows"]):
        if s.pods[row]["state"] == ABSENT:
            free += 1
    return free


@jit
def create(s: State, d: Record, at_s: float) -> int:
    """A new pod of the size wanted, in the first free row, which is returned."""
    run = s.run[0]
    row = 0
    while s.pods[row]["state"] != ABSENT:
        row += 1
    run["rows"] = max(run["rows"], row + 1)
    pod = s.pods[row]
    pod["number"] = run["created"]
    run["created"] += 1
    pod["state"], pod["node"] = WAITING, NONE
    pod["kills"] = pod["starts"] = pod["resizes"] = 0
    pod["first_scrape"] = pod["period"] = 0
    pod["due_s"], pod["resize_due_s"] = at_s + d["schedule_s"], math.inf
    pod["cpu"] = pod["cpu_asked"] = run["cpu"]
    pod["memory"] = pod["memory_asked"] = run["memory"]
    pod["now_s"] = pod["settled_s"] = pod["created_s"] = pod["fresh_s"] = at_s
    pod["cpu_s"] = pod["scraped_cpu_s"] = pod["cache_mib"] = pod["burn"] = 0.0
    pod["started_s"] = pod["ready_changed_s"] = pod["killed_s"] = pod["killed_at"] = math.nan
    clear_requests(pod)
    return row


@jit
def place(s: State, d: Record, row: int, at_s: float) -> bool:
    """Put a pod on the node that is then least allocated; of equals, the first. Whether there was one."""
    pod = s.pods[row]
    best, best_score = NONE, -1.0
    for node in range(d["nodes"]):
        cpu_left = s.nodes[node, 0] - pod["cpu"]
        memory_left = s.nodes[node, 1] - pod["memory"]
        score = cpu_left / d["node_cpu"] + memory_left / d["node_memory_mib"]
        if cpu_left >= -CRUMB and memory_left >= -CRUMB and score > best_score + CRUMB:
            best, best_score = node, score
    if d["nodes"] > 0 and best == NONE:
        return False
    settle(s, pod, at_s)
    if best != NONE:
        pod["node"] = best
        s.nodes[best, 0] -= pod["cpu"]
        s.nodes[best, 1] -= pod["memory"]
    pod["state"], pod["started_s"], pod["due_s"] = PULLING, at_s, at_s + d["pull_s"]
    return True


@merged
def start(s: State, d: Record, row: int, at_s: float) -> None:
    """The container starts; it needs its CPU seconds, so few cores may make it slower."""
    run, pod = s.run[0], s.pods[row]
    luck = count_in(count_in(count_in(run["luck"], START), pod["number"]), pod["starts"])
    drawn_s = draw_lognormal(luck, run["start_median_s"] * run["start_factor"], run["start_spread"])
    took_s = max(drawn_s, run["start_cpu_s"] / pod["cpu"])
    pod["starts"] += 1
    pod["state"], pod["due_s"] = STARTING, at_s + took_s
    pod["burn"] = run["start_cpu_s"] / took_s
    pod["first_scrape"] = run["scrape"] + 1
    pod["cache_mib"] = 0.0


@jit
def become_ready(s: State, d: Record, row: int, at_s: float) -> None:
    """It gets requests from now on, if its idle memory fits at all."""
    run, pod = s.run[0], s.pods[row]
    if run["memory_mib"] > pod["memory"]:
        kill(s, d, row, at_s)
        return
    pod["state"], pod["due_s"] = READY, math.inf
    pod["now_s"] = pod["fresh_s"] = pod["ready_changed_s"] = at_s
    s.ready[run["ready_count"]] = row
    run["ready_count"] += 1


@jit
def kill(s: State, d: Record, row: int, at_s: float) -> None:
    """Memory ran out: all inside is lost; the container starts again, later each time."""
    pod = s.pods[row]
    s.totals[totals.KILLS] += 1.0
    pod["killed_s"], pod["killed_at"] = at_s, pod["memory"]
    fail_all(s, pod, at_s)
    if pod["state"] == ENDING:
        remove(s, row, at_s)
        return
    if pod["state"] == READY:
        if at_s - pod["ready_changed_s"] >= FORGIVEN_S:
            pod["kills"] = 0
        leave_ready(s, row, at_s)
    pod["kills"] += 1
    wait_s = d["restart_s"]
    if pod["kills"] > 1:
        # 2^40 back-offs are longer than any limit; more would overflow.
        doubled = 2.0 ** min(pod["kills"] - 2, 40)
        wait_s += min(d["backoff_s"] * doubled, d["longest_backoff_s"])
    settle(s, pod, at_s)
    pod["state"], pod["due_s"] = DOWN, at_s + wait_s


@jit
def end_pod(s: State, d: Record, row: int, at_s: float) -> None:
    """Scaled down: no more requests; what is inside has `drain_s` to finish."""
    pod = s.pods[row]
    if pod["state"] != READY:
        remove(s, row, at_s)
        return
    leave_ready(s, row, at_s)
    settle(s, pod, at_s)
    pod["state"], pod["due_s"], pod["resize_due_s"] = ENDING, at_s + d["drain_s"], math.inf
    if pod["inside"] == 0:
        remove(s, row, at_s)


@merged
def live_on(s: State, d: Record, row: int, at_s: float) -> None:
    """What is due for a pod at this moment; all pods have lived up to it."""
    pod = s.pods[row]
    settle(s, pod, at_s)
    state = pod["state"]
    if state == WAITING:
        if not place(s, d, row, at_s):
            pod["due_s"] = math.floor(at_s) + 1.0
    elif state == STARTING:
        become_ready(s, d, row, at_s)
    elif state == ENDING:
        fail_all(s, pod, at_s)
        remove(s, row, at_s)
    else:
        start(s, d, row, at_s)


@jit
def watch_memory(s: State, d: Record, at_s: float) -> None:
    """Once a second: kill pods whose memory has run out by itself; note the largest."""
    run = s.run[0]
    largest = 0.0
    for row in range(run["rows"]):
        pod = s.pods[row]
        if serves(pod):
            used = working_set(run, pod, at_s)
            if used > pod["memory"]:
                kill(s, d, row, at_s)
            largest = max(largest, min(used, pod["memory"]))
        elif pod["state"] == STARTING:
            largest = max(largest, min(run["memory_mib"], pod["memory"]))
    run["memory_now"] = largest
    run["memory_peak"] = max(run["memory_peak"], largest)
