"""Compiled entry points of rollouts: carry out answers, run on to the next questions worth asking, and look.

A question is worth asking when the gang of at least one job in the window fits; otherwise nothing could be
started, and the environment holds by itself. Environments are rows (see simulator/by_address.py); functions
that take a first and a last place go through all of these, so that threads can share the work.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.compiling import Compiler, fingerprint, is_importable
from trimtab.gpu_scheduling import problem
from trimtab.gpu_scheduling.das import executing, view
from trimtab.gpu_scheduling.das.view import NO_EXPERIENCE, View
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.problem import Action, Snapshot
from trimtab.gpu_scheduling.simulator import compiling
from trimtab.gpu_scheduling.simulator.by_address import look, state_at, tables_at
from trimtab.gpu_scheduling.simulator.events import DECIDE, ILLEGAL, advance, apply
from trimtab.gpu_scheduling.simulator.placing import MILLI_HOURS
from trimtab.gpu_scheduling.simulator.state import (
    COST,
    COUNTED_TO,
    NEXT_ARRIVAL,
    NOW,
    NOWHERE,
    PENDING,
    PENDING_ROW,
    RUNNING,
    RUNNING_ROW,
    UNSEEN,
    State,
)
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["Outcomes", "Playing", "Teacher", "go_on", "new_outcomes", "step_choices", "step_scores"]
__all__ += ["teacher_of"]

_WING = Path(__file__).parent.parent
_compiler = Compiler(
    [
        *sorted((_WING / "simulator").glob("*.py")),
        *sorted((_WING / "heuristics").glob("*.py")),
        _WING / "problem.py",
        *(
            _WING / "das" / f"{name}.py"
            for name in ("executing", "experience", "scoring", "stepping", "view")
        ),
    ]
)
MINUTE = 60_000.0


class Outcomes(NamedTuple):
    """What steps led to, one entry for each environment."""

    cost_ms: NDArray[np.float64]  # jobs in the system x time since the question before
    fee: NDArray[np.float64]  # dollars since the beginning of the episode, for what runs too
    wasted: NDArray[np.float64]  # those of them beyond what the work that was done costs at least
    now_ms: NDArray[np.int64]
    gain: NDArray[np.float64]  # of the paper: mean over the jobs of the round


def new_outcomes(size: int) -> Outcomes:
    """Room for what one step in each environment leads to.

    >>> new_outcomes(3).fee.tolist()
    [0.0, 0.0, 0.0]
    """
    return Outcomes(
        cost_ms=np.zeros(size),
        fee=np.zeros(size),
        wasted=np.zeros(size),
        now_ms=np.zeros(size, np.int64),
        gain=np.zeros(size),
    )


class Playing(NamedTuple):
    """What all steps write to, with one entry for each environment."""

    status: NDArray[np.int64]  # see simulator/events.py; only those at DECIDE are stepped
    seen: View
    slots: NDArray[np.int64]  # [environments, window]: slot of each job in the window
    outcomes: Outcomes
    experience: NDArray[np.float64] = NO_EXPERIENCE


fits = _compiler.compiled(problem.gang_fits)
show = _compiler.compiled(view.look)
window_of = _compiler.compiled(view.window_of)
best_of_scores = _compiler.compiled(executing.best_of_scores)
place_by_scores = _compiler.compiled(executing.place_by_scores)


@_compiler.jit
def step_choices(rows: Any, playing: Playing, choices: np.ndarray, first: int, last: int) -> None:
    """Carry out one choice in each environment that asks, and run on."""
    for place in range(first, last):
        if playing.status[place] == DECIDE:
            playing.status[place] = ILLEGAL
            if carry_out_choice(rows[place], playing.slots[place], choices[place]):
                go_on(rows[place], playing, place)


@_compiler.jit
def step_scores(
    rows: Any, playing: Playing, scores: np.ndarray, scales: np.ndarray, first: int, last: int
) -> None:
    """Carry out a whole round of scores in each environment that asks, and run on."""
    machines = playing.seen.real.shape[1]
    for place in range(first, last):
        if playing.status[place] == DECIDE:
            playing.status[place] = ILLEGAL
            s, t = state_at(rows[place]), tables_at(rows[place])
            before = s.scalar[RUNNING]
            if carry_out_scores(s, t, playing.slots[place], scores[place], machines):
                playing.outcomes.gain[place] = gain_of_round(s, t, before, scales[place])
                if s.scalar[PENDING] == 0 or hold(s, t):
                    go_on(rows[place], playing, place)


@_compiler.jit
def go_on(row: Any, playing: Playing, place: int) -> None:
    """Run to the next question worth asking, look, and write down what it cost."""
    s, t = state_at(row), tables_at(row)
    outcomes = playing.outcomes
    status = advance(s, t)
    while status == DECIDE and not something_fits(s, t, playing.slots[place]):
        status = advance(s, t) if hold(s, t) else ILLEGAL
    playing.status[place] = status
    outcomes.cost_ms[place] += s.scalar[COST]
    outcomes.fee[place] = fee_until_now(s, t)
    outcomes.wasted[place] = outcomes.fee[place] - least_fee(s, t)
    outcomes.now_ms[place] = s.scalar[COUNTED_TO]
    s.scalar[COST] = 0
    if status == DECIDE:
        show(look(s, t), playing.seen, place, playing.slots[place], playing.experience)


@_compiler.jit
def hold(s: State, t: Tables) -> bool:
    """Start nothing more until something changes."""
    return apply(s, t, problem.WAIT, NOWHERE, look(s, t).machine_order[:0], NOWHERE)


@_compiler.jit
def carry_out_choice(row: Any, slots: np.ndarray, choice: np.ndarray) -> bool:
    """Start the job of the chosen row, or hold; False, and nothing done, when it may not be."""
    s, t = state_at(row), tables_at(row)
    if choice[0] == len(slots):
        return hold(s, t)
    if choice[0] < 0 or choice[0] > len(slots):
        return False
    order = look(s, t).machine_order
    count = 0
    for machine in choice[1:]:
        if machine < len(order) and count < len(order):
            order[count] = machine
            count += 1
    return apply(s, t, problem.START, slots[choice[0]], order[:count], NOWHERE)


@_compiler.jit
def carry_out_scores(s: State, t: Tables, slots: np.ndarray, scores: np.ndarray, machines: int) -> bool:
    """Start jobs from the highest score down, wherever they fit; who is started leaves `slots`."""
    snapshot = look(s, t)
    place = best_of_scores(snapshot, slots, scores)
    while place != NOWHERE:
        first = len(slots) + place * machines
        count = place_by_scores(snapshot, slots[place], scores[first : first + machines])
        if not apply(s, t, problem.START, slots[place], snapshot.machine_order[:count], NOWHERE):
            return False
        slots[place] = NOWHERE
        place = best_of_scores(snapshot, slots, scores)
    return True


@_compiler.jit
def something_fits(s: State, t: Tables, slots: np.ndarray) -> bool:
    """Whether the gang of a job in the window fits."""
    snapshot = look(s, t)
    found = False
    for place in range(window_of(snapshot, slots)):
        found = found or fits(snapshot, slots[place])
    return found


@_compiler.jit
def fee_until_now(s: State, t: Tables) -> float:
    """Dollars of the episode so far, stays that go on included (the engine bills them when they end)."""
    total = s.fee[0]
    for place in range(s.scalar[RUNNING]):
        slot = s.lists[RUNNING_ROW, place]
        elapsed = s.scalar[COUNTED_TO] - s.slots[slot]["started_ms"]
        total += elapsed * dollars_per_ms(s, t, slot)
    return total


@_compiler.jit
def least_fee(s: State, t: Tables) -> float:
    """Dollars for the work done so far, at the reference speed and the least price of a GPU."""
    done = 0.0
    for place in range(s.scalar[NEXT_ARRIVAL]):
        job = t.jobs[place]
        done += job["instances"] * job["gpu_milli"] * job["duration_ms"]
    for place in range(s.scalar[PENDING]):
        held = s.slots[s.lists[PENDING_ROW, place]]
        done -= held["instances"] * held["gpu_milli"] * (held["work_ms"] - held["done_ms"])
    for place in range(s.scalar[RUNNING]):
        held = s.slots[s.lists[RUNNING_ROW, place]]
        left_ms = held["work_ms"] - held["done_ms"]
        left_ms -= held["rate"] * (s.scalar[COUNTED_TO] - held["since_ms"])
        done -= held["instances"] * held["gpu_milli"] * left_ms
    least = t.machines[0]["price"]
    for place in range(1, len(t.machines)):
        least = min(least, t.machines[place]["price"])
    return done * least / MILLI_HOURS


@_compiler.jit
def dollars_per_ms(s: State, t: Tables, slot: int) -> float:
    """What a running job costs."""
    dollars = 0.0
    place = s.slots[slot]["first_part"]
    while place != NOWHERE:
        part = s.parts[place]
        dollars += part["milli"] * t.machines[part["machine"]]["price"] / MILLI_HOURS
        place = part["next_part"]
    return dollars  # pyright: ignore[reportReturnType]


@_compiler.jit
def gain_of_round(s: State, t: Tables, before: int, scale: np.ndarray) -> float:
    """The paper's reward: mean over the jobs of a round, those that were started and those that still wait.

    A started one earns 1 / (fee x completion time), as foreseen from its rate now and in units of `scale`
    (completion time in ms, fee, weight of waiting); one that waits loses weight x minutes x GPUs.
    """
    now = s.scalar[NOW]
    total = 0.0
    for place in range(before, s.scalar[RUNNING]):
        job = s.slots[s.lists[RUNNING_ROW, place]]
        run_ms = (job["work_ms"] - job["done_ms"]) / job["rate"]
        completion_ms = now - job["arrival_ms"] + run_ms
        fee = run_ms * dollars_per_ms(s, t, s.lists[RUNNING_ROW, place])
        total += scale[0] * scale[1] / (fee * completion_ms)
    for place in range(s.scalar[PENDING]):
        job = s.slots[s.lists[PENDING_ROW, place]]
        minutes = (now - job["arrival_ms"]) / MINUTE
        total -= scale[2] * minutes * job["instances"] * job["gpu_milli"] / 1000.0
    return total / max(s.scalar[PENDING] + s.scalar[RUNNING] - before, 1)


# --- the rule that teaches --------------------------------------------------------------------------------


def decide(snapshot: Snapshot, parameters: NDArray[np.float64]) -> Action:
    """Stands for the rule; replaced by `Compiler.specialise`."""
    raise NotImplementedError


def label(
    rows: Any, playing: Playing, parameters: np.ndarray, labels: np.ndarray, first: int, last: int
) -> None:
    """Write the choices the rule would make among the jobs in the windows.

    While it is asked, only those wait: they change places with others in the list, and `slots` keeps these.
    """
    for place in range(first, last):
        if playing.status[place] == DECIDE:
            s, t = state_at(rows[place]), tables_at(rows[place])
            slots = playing.slots[place]
            waiting, unseen = s.scalar[PENDING], s.scalar[UNSEEN]
            s.scalar[PENDING] = min(len(slots), waiting)
            s.scalar[UNSEEN] = 0
            exchange(s.lists[PENDING_ROW], slots, s.scalar[PENDING])
            action = decide(look(s, t), parameters)
            exchange(s.lists[PENDING_ROW], slots, s.scalar[PENDING])
            write_label(action.verb, action.job, action.machines, slots, labels[place])
            s.scalar[PENDING] = waiting
            s.scalar[UNSEEN] = unseen


@_compiler.jit
def exchange(ones: np.ndarray, others: np.ndarray, count: int) -> None:
    """Let the first entries of two lists change places."""
    for place in range(count):
        kept = ones[place]
        ones[place] = others[place]
        others[place] = kept


@_compiler.jit
def write_label(verb: int, job: int, machines: np.ndarray, slots: np.ndarray, label: np.ndarray) -> None:
    """The row of the job (after the last: hold), its machines, then all others."""
    label[0] = len(slots)
    if verb == problem.START:
        for place in range(len(slots)):
            if slots[place] == job:
                label[0] = place
    count = 0
    for machine in machines:
        count += 1
        label[count] = machine
    for machine in range(len(label) - 1):
        named = False
        for chosen in machines:
            named = named or chosen == machine
        if not named:
            count += 1
            label[count] = machine


def play_until(row: Any, status: int, until_ms: int, parameters: np.ndarray) -> int:
    """Let the rule answer all questions up to a moment."""
    s, t = state_at(row), tables_at(row)
    while status == DECIDE and s.scalar[NOW] < until_ms:
        action = decide(look(s, t), parameters)
        if not apply(s, t, action.verb, action.job, action.machines, action.gpu):
            return ILLEGAL
        status = advance(s, t)
    return status


class Teacher(NamedTuple):
    """A rule, compiled to say what it would choose and to play the beginning of an episode."""

    parameters: NDArray[np.float64]
    label: Any
    play_until: Any


def teacher_of(rule: Rule) -> Teacher:
    """Compile a rule; its parts are compiled once, whatever its settings."""
    return Teacher(rule.table, *_compiled(rule.order, rule.placement, rule.discipline))


@cache
def _compiled(order: Any, placement: Any, discipline: Any) -> tuple[Any, Any]:
    parts = (order, placement, discipline)
    name = "_".join(f"{part.__name__}_{fingerprint(part)}" for part in parts)
    cached = all(is_importable(part) for part in parts)
    replacements = {"priority": compiling.compiled(order), "place": compiling.compiled(placement)}
    rule = compiling.specialise(discipline, replacements, name, cached=cached)
    compiled = [
        _compiler.specialise(one, {"decide": rule}, name, cached=cached) for one in (label, play_until)
    ]
    return compiled[0], compiled[1]
