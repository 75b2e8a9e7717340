"""The state of one service, as a few arrays of records.

    run         [ one record ]                     clock, size wanted, the application's numbers, luck
    segments    [ 3, (work, its spread, wait, its spread) ]
    pods        [ row 0, row 1, ... ]              a pod keeps its row as long as it exists
    ready       [ rows of the pods that get requests, in the order in which they became ready ]
    requests    [ slot 0, slot 1, ... ]            those inside pods; free slots form a list
    nodes       [ node, (cores free, MiB free) ]
    rates       [ trace ]                          requests per second
    drifts      [ change, (second, factors ...) ]
    totals      [ what has been counted since the reset; see totals.py ]
    marks       [ truth or metrics, totals at the last look ]
    histograms  [ truth or metrics, bin ]          latencies of this interval, or since the last reading
    scrapes     [ row, ring, (pod, CPU seconds, MiB) ]
    truth       [ what the last interval was, in truth ]
    outcomes    [ request, (end, how) ]            of the first requests, for tests; usually empty
    drawn       [ request, what chance decided ]   kept for the next policy, see drawn.py; or empty

A pod has its requests in three places, all made of links between slots: a queue (first in, first out), a heap
of those that use the CPU by the *work clock* at which they are through, and a heap of those that wait for
something outside by the time at which they come back. One more list holds all of them by age. The work clock
of a pod is the work that each request on its CPU has got since the pod was last empty.

Times named `_s` are seconds since the reset; decisions, ticks and readings fall on whole seconds. A pod's
requests are lived through only when somebody looks at the pod: between arrivals pods do not know each other.
A batch has the same arrays with one more axis in front.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.pod_autoscaling.simulator.totals import COUNT

__all__ = [
    "ABSENT",
    "BINS",
    "DOWN",
    "DRAWS",
    "ENDING",
    "EXPONENT",
    "METRICS",
    "NONE",
    "PULLING",
    "READY",
    "STARTING",
    "TRUTH",
    "TRUTHS",
    "WAITING",
    "Record",
    "State",
    "new_state",
]

NONE = -1
TRUTH, METRICS = 0, 1
BINS = 1760
"""Bins of a histogram of latencies: from 0.1 ms to 4000 s, each 1 % wider than the one before."""
DRAWS, EXPONENT = 7, 6
"""Draws of a request: work and wait of each segment in turn, and the time until the next arrival."""

# What a pod is. Those before READY get no requests; ENDING ones get no more.
ABSENT, WAITING, PULLING, STARTING, DOWN, READY, ENDING = range(7)

Record = Any
"""One record of a structured array, or an array of them; compiled code knows the fields."""


def record(integers: str, *, floats: str = "", words: str = "", flags: str = "") -> np.dtype[np.void]:
    """A record type from names: integers first, then floats, unsigned words and flags."""
    kinds = ((integers, np.int64), (floats, np.float64), (words, np.uint64), (flags, np.bool_))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


RUN = record(
    "second interval intervals reading_second"  # whole seconds lived; intervals lived, of so many
    " trace_step_s trace_steps"
    " drift drift_count"  # the next change
    " scrape"  # number of the last scrape
    " arrived"  # requests so far; the number of the next one
    " turn"  # of round robin
    " created"  # pods so far; the number of the next one
    " rows"  # pods lie below this row
    " ready_count free_slot"
    " segment_count workers places"  # requests at work, and inside, at most
    " needs_slots needs_rows",  # why the engine stopped in the middle of an interval
    floats="start_s now_s next_due_s next_arrival_s"
    " rate exponent"  # of this second; what is left of the unit exponential before the next arrival
    " replicas cpu memory"  # wanted
    " timeout_s slo_s cores_per_request"
    " memory_mib memory_per_request_mib cache_mib cache_share leak_mib_per_s"  # with drift
    " base_memory_mib base_memory_per_request_mib"  # without
    " start_median_s start_spread start_cpu_s"
    " cpu_factor io_factor start_factor"
    " memory_now memory_peak",  # of the largest pod: at the last tick, and most since the last reading
    words="luck arrival_luck burst_luck work_luck route_luck",
    flags="begun stepped",  # the interval's command has been given; the interval is over
)
POD = record(
    "number state node"
    " kills starts resizes"  # kills in a row; containers started; resizes asked for
    " active working inside"  # requests on the CPU; in a worker; all
    " cpu_top io_top queue_first queue_last oldest newest watched"  # slots
    " next_kind period first_scrape",
    floats="due_s resize_due_s"
    " cpu memory cpu_asked memory_asked"  # in force, and asked for
    " now_s settled_s"  # how far its requests, and its holdings, have been lived through
    " clock rate next_s"  # the work clock and its speed; the next thing that happens to its requests
    " cpu_s scraped_cpu_s"  # used so far, and at the last scrape
    " cache_mib fresh_s burn"  # gathered; when it became ready; cores that starting takes
    " created_s started_s ready_changed_s killed_s killed_at"
    " tokens_s period_end_s",  # of the scheduler's quota
    flags="held_back",
)
REQUEST = np.dtype(
    [
        ("number", np.int64),
        ("luck", np.uint64),
        ("arrived_s", np.float64),
        ("key", np.float64),  # in its heap
        ("child", np.int32),
        ("next", np.int32),  # in its heap, in the queue, or among the free
        ("older", np.int32),
        ("younger", np.int32),
        ("segment", np.int32),
        ("place", np.int16),  # QUEUED, ON_CPU or OUTSIDE
        ("given_up", np.bool_),
    ],
    align=True,
)


TRUTHS = (
    *("arrived", "finished", "late", "failed", "latency_s", "latency_p50_s", "latency_p99_s", "in_flight"),
    *("ready", "cores_held", "memory_held", "cores_used", "memory_used", "throttled", "kills"),
    # The 99th percentile of all that finished, a failed request being never answered; for the reward.
    "tail_s",
)
"""Columns of `State.truth`."""


class State(NamedTuple):
    """One service. Everything is an array or a record, so compiled code changes it in place."""

    run: Record
    segments: NDArray[np.float64]
    pods: Record
    ready: NDArray[np.int64]
    requests: Record
    nodes: NDArray[np.float64]
    rates: NDArray[np.float64]
    drifts: NDArray[np.float64]
    totals: NDArray[np.float64]
    marks: NDArray[np.float64]
    histograms: NDArray[np.int32]
    scrapes: NDArray[np.float64]
    truth: NDArray[np.float64]
    outcomes: NDArray[np.float64]
    drawn: NDArray[np.float64]


def new_state(
    size: int,
    *,
    rows: int,
    slots: int,
    nodes: int,
    trace_steps: int,
    drifts: int,
    ring: int,
    outcomes: int,
) -> State:
    """Room for a batch; `tables.lay_out` fills it."""
    return State(
        run=np.zeros((size, 1), RUN),
        segments=np.zeros((size, 3, 4)),
        pods=np.zeros((size, rows), POD),
        ready=np.zeros((size, rows), np.int64),
        requests=np.zeros((size, slots), REQUEST),
        nodes=np.zeros((size, nodes, 2)),
        rates=np.zeros((size, trace_steps)),
        drifts=np.zeros((size, drifts, 6)),
        totals=np.zeros((size, COUNT)),
        marks=np.zeros((size, 2, COUNT)),
        histograms=np.zeros((size, 2, BINS), np.int32),
        scrapes=np.zeros((size, rows, ring, 3)),
        truth=np.zeros((size, len(TRUTHS))),
        outcomes=np.zeros((size, outcomes, 2)),
        drawn=np.zeros((size, 0, DRAWS)),
    )
