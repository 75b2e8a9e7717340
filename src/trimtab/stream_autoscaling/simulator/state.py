"""The state of one environment, as a few arrays of records.

    run        [ one record ]                              clock, checkpoint, restart, sums of the interval
    vertices   [ v0 v1 v2 ... ]                            parents before children
    queues     [ edges | source backlogs | replays ]       edges by source, then target
    chunks     [ queue, ring of RING ]                     (amount, mean birth): a FIFO of records in lumps
    inputs     [ queues that v0 reads | v1 | ... ]
    rates      [ trace ]                                   records per second
    histograms [ truth or metrics, BINS ]                  latencies of this interval, or of this sample

A *backlog* holds what has arrived and not been read by a source. A *replay* holds what a source has read
since the barrier of the last completed checkpoint: after a restart it is read again. A chunk's *birth* is the
time (seconds since the reset) at which its records arrived, less all delays that are not spent in queues
(service, buffers that wait to be sent), so that age at a sink is simply the time of leaving minus birth.

Times named `_ms` are integers since the reset. A batch has the same arrays with one more axis in front.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.stream_autoscaling.deployment import Deployment

__all__ = [
    "BINS",
    "CRUMBS",
    "EMPTY",
    "METRICS",
    "NEVER",
    "RING",
    "TRUTH",
    "History",
    "Record",
    "State",
    "new_history",
    "new_state",
    "settings_of",
]

RING = 64
"""Chunks of a queue; a power of two. When all are taken neighbours merge: ages blur by 1/32 at most."""
BINS = 128
"""Bins of a histogram of latencies: from 1 ms to 10^6 s, each 18 % wider than the one before."""
EMPTY = 1e-9
"""Less than so many records is nothing."""
CRUMBS = 1e-6
"""What rounding may leave of a large number of records."""
NEVER = np.int64(-1)
TRUTH, METRICS = np.int64(0), np.int64(1)

Record = Any
"""One record of a structured array, or an array of them; compiled code knows the fields."""


def record(integers: str, *, floats: str = "", words: str = "", flags: str = "") -> np.dtype[np.void]:
    """A record type from names: integers first, then floats, unsigned words and flags."""
    kinds = ((integers, np.int64), (floats, np.float64), (words, np.uint64), (flags, np.bool_))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


RUN = record(
    "vertex_count edge_count source_count trace_steps"
    " start_ms"  # time of day at the reset
    " now_ms interval intervals"
    " next_checkpoint_ms"
    " barrier_ms completes_ms"  # of the checkpoint under way, or NEVER; known once all are passed
    " completed_ms"  # when the last one was complete
    " commanded_ms deadline_ms"  # a rescale waits since, until at most; or NEVER
    " down_until_ms restarted_ms restarts"
    " reported_from_ms"  # metrics are complete again
    " sample_after",  # the monitoring reads the metrics after so many substeps of the interval
    floats="trace_step_ms restart_factor downtime_s"
    " arrived left latency_moment down_s busy_subtask_s subtask_s"  # of this interval
    " metric_window_s metric_left metric_latency_moment"  # since the last sample
    " latency_s latency_p95_s backlog utilisation reward slots",  # what came of the interval
    words="luck arrival_luck capacity_luck",
    flags="rescaled",
)
VERTEX = record(
    "first_out outs first_in ins"  # edges it sends to; places in `inputs`
    " source"  # number among the sources, or NEVER
    " window_ms key_groups parallelism wanted slot_group"
    " passed_ms restored_ms",  # when the last barrier passed, and that of the last completed checkpoint
    floats="service_s scaling service_spread hot_share state_mb record_bytes share"
    " rate"  # records per second it can process
    " service_age_s"  # what processing adds to a record's age
    " capacity ability processed"  # records, in the present substep
    " need"  # of a core per subtask, where cores are shared
    " held pending released"  # window: records processed, results due, results sent now
    " held_at_barrier held_restored"  # what a window held when these barriers passed
    " held_age pending_age held_age_at_barrier held_age_restored"  # ages when the window took them, summed
    " busy_s"  # of this interval
    " metric_in metric_out metric_busy_s metric_blocked_s"  # since the last sample
    " processed_total released_total arrived_total returned_total",
    flags="blocked passed",
)
QUEUE = record(
    "source target head count",
    floats="selectivity amount bound least_bound reserved"
    " came"  # records that came in the last substep
    " consumed_per_s"
    " segment_records"  # that fill one buffer in every channel
    " before"  # of an edge: what comes before the barrier that its sender has passed
    " marked"  # of a replay: what was read before the barrier of the checkpoint under way
    " dropped_total",
    flags="forward",
)
CHUNK = record("", floats="amount birth")

SETTINGS = record(
    "substep_ms substeps checkpoint_ms patience_ms missing_after_ms slots_per_worker",
    floats="interval_s worker_start_s cores checkpoint_mb_per_s restart_s restart_spread restore_mb_per_s"
    " buffer_timeout_s segment_bytes debloat_s staleness_s metric_noise missing"
    " slo_s latency_weight rescale_cost violation_cost",
    flags="poisson",
)


class State(NamedTuple):
    """One environment. Everything is an array or a record, so compiled code changes it in place."""

    run: Record
    vertices: Record
    queues: Record
    chunks: Record
    inputs: NDArray[np.int64]
    rates: NDArray[np.float64]
    histograms: NDArray[np.float64]  # [2, BINS, (amount, amount x latency)]


class History(NamedTuple):
    """Samples of twice L intervals; each is written twice, L apart, so that the last L are one view."""

    present: NDArray[np.bool_]
    complete: NDArray[np.bool_]
    records_in: NDArray[np.float64]
    records_out: NDArray[np.float64]
    busy: NDArray[np.float64]
    backpressured: NDArray[np.float64]
    idle: NDArray[np.float64]
    queue_fill: NDArray[np.float64]
    pending: NDArray[np.float64]
    parallelism: NDArray[np.int64]
    state_mb: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    latency_p95_s: NDArray[np.float64]


def new_state(size: int, *, vertices: int, queues: int, inputs: int, trace_steps: int) -> State:
    """Room for a batch; `tables.lay_out` fills it."""
    return State(
        run=np.zeros((size, 1), RUN),
        vertices=np.zeros((size, vertices), VERTEX),
        queues=np.zeros((size, queues), QUEUE),
        chunks=np.zeros((size, queues, RING), CHUNK),
        inputs=np.zeros((size, inputs), np.int64),
        rates=np.zeros((size, trace_steps)),
        histograms=np.zeros((size, 2, BINS, 2)),
    )


def new_history(size: int, *, length: int, vertices: int) -> History:
    """No sample yet."""
    shape = (size, 2 * length, vertices)
    return History(
        present=np.zeros(shape[:2], np.bool_),
        complete=np.zeros(shape, np.bool_),
        records_in=np.zeros(shape),
        records_out=np.zeros(shape),
        busy=np.zeros(shape),
        backpressured=np.zeros(shape),
        idle=np.zeros(shape),
        queue_fill=np.zeros(shape),
        pending=np.zeros(shape),
        parallelism=np.zeros(shape, np.int64),
        state_mb=np.zeros(shape),
        latency_s=np.full(shape[:2], np.nan),
        latency_p95_s=np.full(shape[:2], np.nan),
    )


def settings_of(deployment: Deployment) -> Record:
    """The deployment as a record that compiled code reads."""
    settings = np.zeros(1, SETTINGS)[0]
    checkpoint_ms = round(1000 * deployment.checkpoint_s)
    at_once = deployment.rescale == "at_once"
    goal = deployment.objective
    values = {
        "substep_ms": deployment.substep_ms,
        "substeps": 1000 * deployment.interval_s // deployment.substep_ms,
        "checkpoint_ms": checkpoint_ms,
        "patience_ms": 0 if at_once else deployment.checkpoint_patience * checkpoint_ms,
        "missing_after_ms": round(1000 * deployment.missing_after_s),
        "interval_s": deployment.interval_s,
        "buffer_timeout_s": deployment.buffer_timeout_ms / 1000,
        "poisson": deployment.arrivals == "poisson",
        "slo_s": goal.slo_s,
        "latency_weight": goal.latency_weight,
        "rescale_cost": goal.rescale_cost,
        "violation_cost": goal.violation_cost,
    }
    for name in SETTINGS.names or ():
        settings[name] = values[name] if name in values else getattr(deployment, name)
    return settings
