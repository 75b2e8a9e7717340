"""What is counted since the reset: places in `State.totals`. Looks take the difference to the look before."""

from __future__ import annotations

__all__ = [
    "ACTIVE",
    "ANSWERED",
    "ARRIVED",
    "COUNT",
    "CPU_S",
    "FAILED",
    "FINISHED",
    "HELD_CORE_S",
    "HELD_MIB_S",
    "INSIDE_S",
    "KILLS",
    "LATE",
    "LATENCY_S",
    "MIB_S",
    "READY_S",
    "SHORT",
]

# Requests, and how long the answered took; requests inside x seconds; ready pods x seconds.
ARRIVED, FINISHED, LATE, FAILED, ANSWERED, LATENCY_S, INSIDE_S, READY_S = range(8)
# What pods hold on nodes and what they use, x seconds.
HELD_CORE_S, HELD_MIB_S, CPU_S, MIB_S = range(8, 12)
# Seconds, or periods of the scheduler's quota, in which pods had work; in which they were held back.
ACTIVE, SHORT, KILLS = range(12, 15)
COUNT = 15
