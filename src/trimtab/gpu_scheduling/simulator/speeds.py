"""How fast a job runs: its slowest machine, what its neighbours there cost it, and what spreading costs."""

from __future__ import annotations

import math

import numpy as np

from trimtab.compiling.counters import count_in, luck_of_seed
from trimtab.compiling.normal import draw_normal
from trimtab.gpu_scheduling.simulator import heap
from trimtab.gpu_scheduling.simulator.compiling import inlined, jit
from trimtab.gpu_scheduling.simulator.state import (
    DRIFT_STEP,
    NOW,
    NOWHERE,
    RUNNING,
    RUNNING_ROW,
    SEED,
    State,
)
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["draw_noise", "drift", "rate_neighbours", "set_rate", "start_drift"]

NOISE, DRIFT = np.int64(1), np.int64(2)


@inlined
def draw_noise(s: State, t: Tables, job: int) -> float:
    """What a job's speed is off the usual: one number for the whole job, the same under every policy."""
    if t.noise == 0.0:
        return 1.0
    deviation = draw_normal(count_in(count_in(luck_of_seed(s.scalar[SEED]), NOISE), job))
    return math.exp(t.noise * deviation - t.noise * t.noise / 2)


@inlined
def current_rate(s: State, t: Tables, slot: int) -> float:
    """Work done in a millisecond."""
    held = s.slots[slot]
    sensitivity = held["sensitivity"]
    slowest = math.inf
    place = held["first_part"]
    while place != NOWHERE:
        part = s.parts[place]
        here = s.machines[part["machine"]]
        others = here["load"] - sensitivity * part["milli"]
        gpus = t.machines[part["machine"]]["gpus"]
        contention = t.contention * (sensitivity / 1000.0) * (others / 1e6) / gpus
        speed = t.nominal[held["kind"], part["machine"]] * here["drift_factor"] / (1.0 + contention)
        slowest = min(slowest, speed)
        place = part["next_part"]
    return slowest / held["slowing"] * held["noise"]


@inlined
def set_rate(s: State, t: Tables, slot: int) -> bool:
    """Compute a job's rate anew; says whether it changed. What it did so far is settled first."""
    held = s.slots[slot]
    rate = current_rate(s, t, slot)
    if rate == held["rate"]:
        return False
    now = s.scalar[NOW]
    held["done_ms"] += held["rate"] * (now - held["since_ms"])
    held["since_ms"] = now
    held["rate"] = rate
    left = held["work_ms"] - held["done_ms"]
    held["end_ms"] = now + max(1, np.int64(math.ceil(left / rate)))
    return True


@jit
def rate_neighbours(s: State, t: Tables, first_part: int, apart_from: int) -> None:
    """New rates for all other jobs on the machines of some parts."""
    now = s.scalar[NOW]
    place = first_part
    while place != NOWHERE:
        part = s.parts[place]
        neighbour = s.machines[part["machine"]]["first_part"]
        while neighbour != NOWHERE:
            slot = s.parts[neighbour]["slot"]
            # One that is due at this very moment ends at it, whoever else does.
            due = s.slots[slot]["end_ms"] == now
            if slot != apart_from and not due and set_rate(s, t, slot):
                heap.moved(s, slot, s.scalar[RUNNING])
            neighbour = s.parts[neighbour]["next_here"]
        place = part["next_part"]


@inlined
def drift_luck(s: State, machine: int) -> float:
    luck = count_in(count_in(luck_of_seed(s.scalar[SEED]), DRIFT), machine)
    return draw_normal(count_in(luck, s.scalar[DRIFT_STEP]))


@jit
def start_drift(s: State, t: Tables) -> None:
    """The speeds at which machines begin."""
    for machine in range(len(s.machines)):
        if t.drift == 0.0:
            s.machines[machine]["drift_factor"] = 1.0
        else:
            s.machines[machine]["drift"] = t.drift * drift_luck(s, machine)
            s.machines[machine]["drift_factor"] = math.exp(s.machines[machine]["drift"])


@jit
def drift(s: State, t: Tables) -> None:
    """One step of the machines' wandering; every running job gets a new rate."""
    s.scalar[DRIFT_STEP] += 1
    fresh = math.sqrt(1.0 - t.drift_kept * t.drift_kept) * t.drift
    for machine in range(len(s.machines)):
        left = t.drift_kept * s.machines[machine]["drift"]
        s.machines[machine]["drift"] = left + fresh * drift_luck(s, machine)
        s.machines[machine]["drift_factor"] = math.exp(s.machines[machine]["drift"])
    for place in range(s.scalar[RUNNING]):
        slot = s.lists[RUNNING_ROW, place]
        if set_rate(s, t, slot):
            heap.moved(s, slot, s.scalar[RUNNING])
