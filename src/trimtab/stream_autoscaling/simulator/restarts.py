"""Checkpoints and rescales: when the job stops, for how long, and from where it goes on.

A checkpoint begins with barriers at the sources. They pass a vertex once everything before them is processed
there, so a backlog in the buffers holds them up; when all vertices are passed and the state is written it is
complete. A rescale waits for one that began after it was asked for (Flink 2), or
does not wait (1.20). Then all stand still; what was in flight is dropped and the sources go back to the last
completed barrier: what they have read since waits again, in front, with its old births.

Windows are state: after a restart they hold what they held when the barrier passed. Records that a faster
input brought from behind its barrier count as well, so a record may be processed twice, but none is lost.
"""

from __future__ import annotations

import math

from trimtab.stream_autoscaling.simulator.compiling import jit
from trimtab.stream_autoscaling.simulator.draws import (
    MISSING_AFTER,
    RESTART,
    count_in,
    draw_normal,
    uniform_of,
)
from trimtab.stream_autoscaling.simulator.fifo import clear, pop, push_front
from trimtab.stream_autoscaling.simulator.state import CRUMBS, METRICS, NEVER, RING, Record, State

__all__ = [
    "close_windows",
    "command",
    "forget_metrics",
    "keep_clock",
    "pass_barriers",
    "set_rates",
    "slots_of",
    "state_of",
]


@jit
def command(s: State, d: Record) -> None:
    """Ask for the parallelism in `wanted`."""
    run = s.run[0]
    run["commanded_ms"] = run["now_ms"]
    run["deadline_ms"] = run["now_ms"] + d["patience_ms"]


@jit
def keep_clock(s: State, d: Record) -> None:
    """What is due at the beginning of a substep: checkpoints complete or begin, a rescale stops the job."""
    run = s.run[0]
    now_ms = run["now_ms"]
    if now_ms < run["down_until_ms"]:
        return
    if run["completes_ms"] != NEVER and now_ms >= run["completes_ms"]:
        awaited = run["commanded_ms"] != NEVER and run["barrier_ms"] >= run["commanded_ms"]
        complete_checkpoint(s)
        if awaited:
            restart(s, d)
            return
    if run["commanded_ms"] != NEVER and now_ms >= run["deadline_ms"]:
        restart(s, d)
        return
    if run["barrier_ms"] == NEVER and now_ms >= run["next_checkpoint_ms"]:
        begin_checkpoint(s, d)


@jit
def begin_checkpoint(s: State, d: Record) -> None:
    """Barriers leave the sources: what was read up to now is before them."""
    run = s.run[0]
    run["barrier_ms"] = run["now_ms"]
    run["next_checkpoint_ms"] = run["now_ms"] + d["checkpoint_ms"]
    for source in range(run["source_count"]):
        replay = s.queues[run["edge_count"] + run["source_count"] + source]
        replay["marked"] = replay["amount"]
    for vertex in range(run["vertex_count"]):
        s.vertices[vertex]["passed"] = False
    pass_barriers(s, d, run["now_ms"])


@jit
def pass_barriers(s: State, d: Record, now_ms: int) -> None:
    """Barriers move on where all before them is processed; once all vertices are passed, state is written."""
    run = s.run[0]
    if run["barrier_ms"] == NEVER or run["completes_ms"] != NEVER:
        return
    everywhere = True
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        if not v["passed"] and may_pass(s, v):
            v["passed"] = True
            v["passed_ms"] = now_ms
            v["held_at_barrier"] = v["held"]
            v["held_age_at_barrier"] = v["held_age"]
            for edge in range(v["first_out"], v["first_out"] + v["outs"]):
                s.queues[edge]["before"] = s.queues[edge]["amount"]
        everywhere = everywhere and v["passed"]
    if everywhere:
        run["completes_ms"] = now_ms + math.ceil(1000.0 * state_of(s) / d["checkpoint_mb_per_s"])


@jit
def may_pass(s: State, v: Record) -> bool:
    """All inputs have brought their barrier, and no result of a window is still to be sent."""
    if v["pending"] > CRUMBS:
        return False
    if v["source"] < 0:
        for place in range(v["first_in"], v["first_in"] + v["ins"]):
            q = s.queues[s.inputs[place]]
            if not s.vertices[q["source"]]["passed"] or q["before"] > CRUMBS:
                return False
    return True


@jit
def complete_checkpoint(s: State) -> None:
    """From now on a restart goes back to this barrier only."""
    run = s.run[0]
    run["completed_ms"] = run["now_ms"]
    run["barrier_ms"] = NEVER
    run["completes_ms"] = NEVER
    for source in range(run["source_count"]):
        place = run["edge_count"] + run["source_count"] + source
        replay = s.queues[place]
        if replay["marked"] > 0.0 and replay["count"] > 0:
            pop(s, place, replay["marked"])
        replay["marked"] = 0.0
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        v["held_restored"] = v["held_at_barrier"]
        v["held_age_restored"] = v["held_age_at_barrier"]
        v["restored_ms"] = v["passed_ms"]


@jit
def restart(s: State, d: Record) -> None:
    """All stand still, lose what is in flight, and go on from the last barrier with the new parallelism."""
    run = s.run[0]
    run["restarts"] += 1
    run["rescaled"] = True
    run["commanded_ms"] = NEVER
    run["barrier_ms"] = NEVER
    run["completes_ms"] = NEVER
    workers = workers_of(s, d)
    state_mb = state_of(s)
    rewind(s)
    for vertex in range(run["vertex_count"]):
        s.vertices[vertex]["parallelism"] = s.vertices[vertex]["wanted"]
    set_rates(s, d)
    luck = count_in(count_in(run["luck"], RESTART), run["restarts"])
    median_s = d["restart_s"] * run["restart_factor"]
    downtime_s = (
        median_s * math.exp(d["restart_spread"] * draw_normal(luck)) + state_mb / d["restore_mb_per_s"]
    )
    if workers_of(s, d) > workers:
        downtime_s += d["worker_start_s"]
    run["downtime_s"] = downtime_s
    run["down_until_ms"] = run["now_ms"] + math.ceil(1000.0 * downtime_s)
    run["restarted_ms"] = run["down_until_ms"]
    run["next_checkpoint_ms"] = run["down_until_ms"] + d["checkpoint_ms"]
    forget_metrics(s)
    luck = count_in(count_in(run["luck"], MISSING_AFTER), run["restarts"])
    run["reported_from_ms"] = run["down_until_ms"] + math.ceil(d["missing_after_ms"] * uniform_of(luck))


@jit
def rewind(s: State) -> None:
    """Empty the queues; what was read since the barrier comes before the rest of the backlog."""
    run = s.run[0]
    edges, sources = run["edge_count"], run["source_count"]
    for edge in range(edges):
        clear(s, edge)
        s.queues[edge]["came"] = 0.0
        s.queues[edge]["consumed_per_s"] = 0.0
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        restore_window(v, run)
        if v["source"] >= 0:
            replay = edges + sources + v["source"]
            v["returned_total"] += s.queues[replay]["amount"]
            while s.queues[replay]["count"] > 0:
                last = (s.queues[replay]["head"] + s.queues[replay]["count"] - 1) & (RING - 1)
                chunk = s.chunks[replay, last]
                push_front(s, edges + v["source"], chunk["amount"], chunk["birth"])
                s.queues[replay]["count"] -= 1
            s.queues[replay]["amount"] = 0.0
            s.queues[replay]["marked"] = 0.0


@jit
def restore_window(v: Record, run: Record) -> None:
    """A window is what it was at the barrier; one that ended since then is due at once."""
    v["held"], v["held_age"] = v["held_restored"], v["held_age_restored"]
    v["pending"] = v["pending_age"] = 0.0
    if v["window_ms"] > 0:
        then, now = run["start_ms"] + v["restored_ms"], run["start_ms"] + run["now_ms"]
        if then // v["window_ms"] != now // v["window_ms"]:
            v["pending"], v["pending_age"] = v["held"], v["held_age"]
            v["held"] = v["held_age"] = 0.0


@jit
def close_windows(s: State, d: Record) -> None:
    """Windows that have ended since the last substep give their results."""
    run = s.run[0]
    now_ms = run["start_ms"] + run["now_ms"]
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        if v["window_ms"] > 0 and now_ms // v["window_ms"] != (now_ms - d["substep_ms"]) // v["window_ms"]:
            v["pending"] += v["held"]
            v["pending_age"] += v["held_age"]
            v["held"] = v["held_age"] = 0.0


@jit
def forget_metrics(s: State) -> None:
    """Counters of the monitoring begin again."""
    run = s.run[0]
    run["metric_window_s"] = 0.0
    run["metric_left"] = 0.0
    run["metric_latency_moment"] = 0.0
    s.histograms[METRICS, :, :] = 0.0
    for vertex in range(run["vertex_count"]):
        v = s.vertices[vertex]
        v["metric_in"] = 0.0
        v["metric_out"] = 0.0
        v["metric_busy_s"] = 0.0
        v["metric_blocked_s"] = 0.0


@jit
def state_of(s: State) -> float:
    """Megabytes of state now."""
    total = 0.0
    for vertex in range(s.run[0]["vertex_count"]):
        total += state_of_vertex(s.vertices[vertex], s.run[0])
    return total


@jit
def state_of_vertex(v: Record, run: Record) -> float:
    """A window's state grows from nothing to its full size."""
    if v["window_ms"] == 0:
        return v["state_mb"]
    since_ms = (run["start_ms"] + run["now_ms"]) % v["window_ms"]
    return v["state_mb"] * since_ms / v["window_ms"]


@jit
def slots_of(s: State) -> int:
    """Vertices of one sharing group run in the same slots: the largest of each group counts."""
    count = s.run[0]["vertex_count"]
    total = 0
    for group in range(count):
        most = 0
        for vertex in range(count):
            v = s.vertices[vertex]
            if v["slot_group"] == group:
                most = max(most, v["parallelism"])
        if most == 0:  # groups are numbered without gaps
            break
        total += most
    return total


@jit
def workers_of(s: State, d: Record) -> int:
    """Task managers that hold the slots."""
    return -(-slots_of(s) // d["slots_per_worker"])


@jit
def set_rates(s: State, d: Record) -> None:
    """What follows from the parallelism: speeds of vertices, sizes of buffers."""
    run = s.run[0]
    for vertex in range(run["vertex_count"]):
        set_speed(s.vertices[vertex], d)
    for edge in range(run["edge_count"]):
        q = s.queues[edge]
        source, target = s.vertices[q["source"]], s.vertices[q["target"]]
        size_queue(q, d, source["parallelism"], target["parallelism"], source["record_bytes"])


@jit
def set_speed(v: Record, d: Record) -> None:
    """p subtasks do p^scaling times the work of one, unless one of them gets too large a share of the keys.

    `service_age_s` is what processing adds to a record's age. A fluid is through at once, yet part of a
    service time already shows in the queue: whole records that come one by one leave a server of constant
    speed after half their service time on average, one of random lumps later still (longer substeps show
    less). With that, waits are those of Pollaczek and Khinchine up to a spread of 1; above, too long.
    """
    p = float(v["parallelism"])
    rate = p ** v["scaling"] / v["service_s"]
    if v["key_groups"] > 0:
        groups = float(v["key_groups"])
        largest = max(math.ceil(groups / p) / groups, v["hot_share"])
        rate = min(rate, 1.0 / (v["service_s"] * largest))
    v["rate"] = rate
    substep_s = 0.001 * d["substep_ms"]
    lump = v["service_spread"] * v["service_spread"]
    shown_s = 0.0
    if d["poisson"] and v["source"] >= 0 and lump < 1.0:
        shown_s = (1.0 - lump) * max(0.0, 0.5 * (1.0 / rate - substep_s))
    if lump > 0.0:
        shown_s += lump * substep_s / math.expm1(min(700.0, rate * substep_s))
    v["service_age_s"] = max(0.0, v["service_s"] - shown_s)


@jit
def size_queue(q: Record, d: Record, senders: int, receivers: int, record_bytes: float) -> None:
    """Flink's network buffers: 2 per channel and 8 floating ones at every gate, on both sides."""
    channels = 1 if q["forward"] else senders
    buffers = receivers * (2 * channels + 8) * 2
    q["bound"] = buffers * d["segment_bytes"] / record_bytes
    q["least_bound"] = buffers * _LEAST_SEGMENT_BYTES / record_bytes
    exchanges = max(senders, receivers) if q["forward"] else senders * receivers
    q["segment_records"] = exchanges * d["segment_bytes"] / record_bytes


_LEAST_SEGMENT_BYTES = 256.0
"""Debloating makes no buffer smaller (Flink's taskmanager.memory.min-segment-size)."""
