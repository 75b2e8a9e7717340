"""What is shown and what is offered, in compiled code.

Jobs and machines are described by the facts that the network agents of `das` see. Beside each job shown
stands what every placement would do with it now:

    job in the window  ->  placement  ->  machines in order of preference, GPU for a share  ->  facts
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.compiling import Compiler, fingerprint, is_importable
from trimtab.gpu_scheduling import problem
from trimtab.gpu_scheduling.das import view
from trimtab.gpu_scheduling.das.view import JOB_FACTS, NO_EXPERIENCE, View
from trimtab.gpu_scheduling.heuristics import words
from trimtab.gpu_scheduling.heuristics.rule import Parameters, PlacementFunction
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot
from trimtab.gpu_scheduling.simulator import compiling
from trimtab.gpu_scheduling.simulator.by_address import look, state_at, tables_at

__all__ = ["CLUSTER_FACTS", "PLACE_FACTS", "Offers", "new_offers", "offer_of", "show"]

PLACE_FACTS = ("speed there", "machines", "crowd", "GPUs left free")
"""Of a job where a placement would start it: its speed beside the best there is for it, on how many machines,
how much the jobs there would slow it down at worst, and what share of their GPUs would still be free."""
CLUSTER_FACTS = ("GPUs free", "jobs waiting", "jobs not shown", "jobs running")
"""Of the moment: a share, and three numbers as logarithms."""

_RANK = JOB_FACTS.index("rank of arrival")
_WING = Path(__file__).parent.parent
_compiler = Compiler(
    [
        *sorted((_WING / "simulator").glob("*.py")),
        *sorted((_WING / "heuristics").glob("*.py")),
        _WING / "problem.py",
        *(_WING / "das" / f"{name}.py" for name in ("experience", "view")),
        Path(__file__),
    ]
)
_best_rate = _compiler.compiled(words.best_rate)
_crowding = _compiler.compiled(words.crowding)
_gang_milli = _compiler.compiled(words.gang_milli)
_gang_fits = _compiler.compiled(problem.gang_fits)
_look_at_jobs = _compiler.compiled(view.look_at_jobs)
_look_at_machines = _compiler.compiled(view.look_at_machines)
_rate_if_started = _compiler.compiled(words.rate_if_started)
_window_of = _compiler.compiled(view.window_of)

Integers = NDArray[np.int64]
Facts = NDArray[np.float32]


class Offers(NamedTuple):
    """What each placement would do with each job shown, [jobs, placements, ...]; new at every question."""

    slots: Integers  # [jobs]: of those shown; NOWHERE: none
    counts: Integers  # machines that would be taken; 0: the gang does not fit
    machines: Integers  # [..., machines]: in order of preference, as many as `counts` says
    gpus: Integers  # for a share of one, within its machine; NOWHERE: the engine's choice
    facts: Facts  # [..., PLACE_FACTS]; zeros where the gang does not fit


def new_offers(*, jobs: int, placements: int, machines: int) -> Offers:
    """Room for so many.

    >>> new_offers(jobs=5, placements=3, machines=8).facts.shape
    (5, 3, 4)
    """
    return Offers(
        slots=np.full(jobs, NOWHERE, np.int64),
        counts=np.zeros((jobs, placements), np.int64),
        machines=np.zeros((jobs, placements, machines), np.int64),
        gpus=np.zeros((jobs, placements), np.int64),
        facts=np.zeros((jobs, placements, len(PLACE_FACTS)), np.float32),
    )


@_compiler.jit
def show(row: Any, seen: View, cluster: Facts, slots: Integers) -> int:
    """Describe jobs, machines and the cluster; how many jobs are shown, whose slots are written down.

    `seen` is a batch of one; what it has of pairs and of gangs that fit is left alone.
    """
    snapshot = look(state_at(row), tables_at(row))
    shown = _window_of(snapshot, slots)
    waiting = len(snapshot.pending)
    stand_in = stand_in_for_last(snapshot, slots, shown)
    if stand_in != NOWHERE:
        slots[shown - 1] = snapshot.pending[stand_in]
    _look_at_machines(snapshot, seen, 0)
    _look_at_jobs(snapshot, seen, 0, slots, shown, NO_EXPERIENCE)
    if stand_in != NOWHERE:
        seen.jobs[0, shown - 1, _RANK] = stand_in / waiting
    cluster[0] = snapshot.free_total_milli / (WHOLE * snapshot.total_gpus)
    cluster[1] = math.log1p(waiting) / 5.0
    cluster[2] = math.log1p(waiting - shown) / 5.0
    cluster[3] = math.log1p(len(snapshot.running)) / 5.0
    return shown


@_compiler.jit
def stand_in_for_last(snapshot: Snapshot, slots: Integers, shown: int) -> int:
    """Position of the first job that fits, where none of those shown does; NOWHERE: no need, or no such job.

    So GPUs never stay free for want of a place to show whom they would serve.
    """
    if shown < len(snapshot.pending):
        for place in range(shown):
            if _gang_fits(snapshot, slots[place]):
                return NOWHERE
        for position in range(len(snapshot.pending)):
            if _gang_fits(snapshot, snapshot.pending[position]):
                return position
    return NOWHERE


def place(snapshot: Snapshot, job: int, parameters: Parameters) -> tuple[int, int]:
    """Stands for the placement in `offer`; replaced by `Compiler.specialise`."""
    raise NotImplementedError


def offer(row: Any, offers: Offers, shown: int, kind: int, parameters: Parameters) -> None:
    """Write down what a placement would do with each job shown. Compiled once per placement."""
    snapshot = look(state_at(row), tables_at(row))
    for at in range(len(offers.slots)):
        count, gpu, job = 0, NOWHERE, offers.slots[at]
        if at < shown:
            count, gpu = place(snapshot, job, parameters)
        offers.counts[at, kind], offers.gpus[at, kind] = count, gpu
        for rank in range(count):
            offers.machines[at, kind, rank] = snapshot.machine_order[rank]
        describe_place(offers.facts[at, kind], snapshot, job, count)


@_compiler.jit
def describe_place(facts: Facts, snapshot: Snapshot, job: int, count: int) -> None:
    """The facts of `machine_order[:count]` for a job."""
    facts[:] = 0.0
    if count == 0:
        return
    crowd, free, gpus = 0.0, 0, 0
    for place in range(count):
        machine: int = snapshot.machine_order[place]
        crowd = max(crowd, _crowding(snapshot, job, machine))
        free += snapshot.free_milli[machine]
        gpus += snapshot.gpus[machine]
    facts[0] = _rate_if_started(snapshot, job, count) / _best_rate(snapshot, job)
    facts[1] = math.log2(1.0 + count) / 5.0
    facts[2] = crowd
    facts[3] = (free - _gang_milli(snapshot, job)) / (WHOLE * gpus)


@cache
def offer_of(placement: PlacementFunction) -> Any:
    """`offer` for one placement."""
    name = f"{placement.__name__}_{fingerprint(placement)}"
    replacements = {"place": compiling.compiled(placement)}
    return _compiler.specialise(offer, replacements, name, cached=is_importable(placement))
