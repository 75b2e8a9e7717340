"""Why a scheduler of training jobs decided as it did: who could go, where, and what spoke for the choice.

Everything runs on numpy, from one snapshot. Of any policy it is told who waits, who fits and what it does; of
a rule also the order of jobs and what each machine is worth; of the compact agents also which features moved
the score of a job: one is replaced by its mean over the jobs it is compared with, and the job is scored anew.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.policy import Policy
from trimtab.gpu_scheduling.das.scoring import (
    JOB_FEATURES,
    MACHINE_FEATURES,
    MOODS,
    PREEMPTIVE,
    ScoredRule,
    job_features,
    learned_desirability,
    learned_place,
)
from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.disciplines import MOVE_GAIN
from trimtab.gpu_scheduling.heuristics.displacing import may_be_displaced
from trimtab.gpu_scheduling.heuristics.rule import DISCIPLINE, ORDER, PLACEMENT, Parameters, Rule
from trimtab.gpu_scheduling.heuristics.words import (
    age_ms,
    crowding,
    gang_milli,
    rate_if_started,
    run_ms,
)
from trimtab.gpu_scheduling.problem import PREEMPT, WHOLE, Action, Command, Part, Snapshot, decode, fits_on

__all__ = [
    "Candidate",
    "Influence",
    "MachineView",
    "Opinion",
    "candidates_of",
    "displaceable_of",
    "features_of",
    "first_waiting",
    "influences_of",
    "machines_for",
    "opinion_of",
]


class Candidate(NamedTuple):
    """A job as the decision found it."""

    slot: int
    job: int  # position of the job in the workload
    gpus: float  # of all its instances
    instances: int
    waited_ms: float  # since it came, less the time it ran
    run_ms: float
    expected_ms: float | None  # None: nobody knows
    room: int  # instances that have room now, at most all
    priority: float | None = None  # lower goes first; None: the policy is not a rule, or not asked of it
    parts: tuple[Part, ...] = ()  # where it runs

    @property
    def fits(self) -> bool:
        """Whether the whole gang has room now."""
        return self.room == self.instances


class MachineView(NamedTuple):
    """A machine as a place for one job."""

    machine: int
    free_gpus: float
    room: int  # instances it would take
    speed: float  # of the job alone on it
    crowding: float  # 0.2: the jobs there make it take 1.2 times as long
    left_gpus: float  # free after it took them
    score: float | None  # higher is better; None: the placement does not score machines
    parts: dict[str, float]  # factors whose product is the score


class Opinion(NamedTuple):
    """What a policy would do in a situation; no command: start nothing more for now."""

    policy: str
    action: Action
    command: Command | None
    rate: float | None = None  # of a start: work done in a millisecond, as far as can be foreseen
    slowest: float | None = None  # the same, if being spread over machines cost nothing
    racks: int = 0  # of a start: that its machines stand in
    in_favour_of: int | None = None  # of a preemption: the job that is to have the room
    moves: bool = False  # of a preemption: the job itself is to have a better place


class Influence(NamedTuple):
    """How far a feature moved the score of a job, the logarithm of its priority; below 0: forward."""

    feature: str
    value: float
    mean: float  # over the jobs it is compared with
    moved: float


# --- jobs ------------------------------------------------------------------------------------------


def candidates_of(policy: Policy[Snapshot, Action], snapshot: Snapshot) -> list[Candidate]:
    """All jobs that wait: by the order of a rule, first first; else in order of arrival."""
    return _ordered(policy, snapshot, snapshot.pending.tolist())


def displaceable_of(policy: Policy[Snapshot, Action], snapshot: Snapshot) -> list[Candidate]:
    """The running jobs that a rule may stop in favour of the first that waits, the first to go first.

    They have run long enough, and come after that one by the rule's margin. Whether room for it would come
    of stopping them is not asked.
    """
    first = first_waiting(policy, snapshot)
    if first is None or not isinstance(policy, Rule):
        return []
    margin, least_run_s = policy.table[DISCIPLINE, :2]
    value = policy.order(snapshot, first, policy.table[ORDER])
    threshold = value + margin * abs(value)
    long_enough = [
        job for job in snapshot.running.tolist() if may_be_displaced(snapshot, job, float(least_run_s))
    ]
    found = _ordered(policy, snapshot, long_enough)
    return [one for one in reversed(found) if one.priority is not None and one.priority > threshold]


def first_waiting(policy: Policy[Snapshot, Action], snapshot: Snapshot) -> int | None:
    """Slot of the job that a preempting rule makes room for: the first that waits. None: no such rule."""
    if not (isinstance(policy, Rule) and policy.discipline in PREEMPTIVE):
        return None
    waiting = snapshot.pending.tolist()
    table = policy.table[ORDER]
    return min(waiting, key=lambda job: policy.order(snapshot, job, table)) if waiting else None


def _ordered(policy: Policy[Snapshot, Action], snapshot: Snapshot, slots: Sequence[int]) -> list[Candidate]:
    found = [_candidate(snapshot, job) for job in slots]
    if not isinstance(policy, Rule):
        return found
    table = policy.table[ORDER]
    scored = [one._replace(priority=float(policy.order(snapshot, one.slot, table))) for one in found]
    return sorted(scored, key=lambda one: one.priority or 0.0)


def _candidate(snapshot: Snapshot, job: int) -> Candidate:
    instances, expected = int(snapshot.instances[job]), float(snapshot.expected_ms[job])
    room = sum(int(fits_on(snapshot, job, machine)) for machine in range(len(snapshot.gpus)))
    ran = run_ms(snapshot, job)
    return Candidate(
        slot=job,
        job=int(snapshot.job_id[job]),
        gpus=float(gang_milli(snapshot, job)) / WHOLE,
        instances=instances,
        waited_ms=max(age_ms(snapshot, job) - ran, 0.0),
        run_ms=ran,
        expected_ms=None if math.isnan(expected) else expected,
        room=min(room, instances),
        parts=_parts_of(snapshot, job) if snapshot.rate[job] > 0.0 else (),
    )


def _parts_of(snapshot: Snapshot, job: int) -> tuple[Part, ...]:
    parts, part = [], int(snapshot.first_part[job])
    while part >= 0:
        parts.append(Part(int(snapshot.part_machine[part]), int(snapshot.part_instances[part])))
        part = int(snapshot.next_part[part])
    return tuple(parts)


# --- what is done ----------------------------------------------------------------------------------


def opinion_of(policy: Policy[Snapshot, Action], snapshot: Snapshot) -> Opinion:
    """Ask any policy what it would do."""
    action = policy.decide(snapshot)
    # Rules hand over a view of an array that is lent to whoever is asked next.
    action = action._replace(machines=np.array(action.machines, np.int64))
    command = decode(snapshot, action)
    if command is None:
        return Opinion(policy.name, action, None)
    if int(action.verb) == PREEMPT:
        moves = _moves(policy, snapshot)
        first = None if moves else first_waiting(policy, snapshot)
        favoured = None if first is None else int(snapshot.job_id[first])
        return Opinion(policy.name, action, command, in_favour_of=favoured, moves=moves)
    machines = [part.machine for part in command.parts]
    snapshot.machine_order[: len(machines)] = machines
    job = int(action.job)
    rate = rate_if_started(snapshot, job, len(machines))
    slowest = min(
        snapshot.nominal[snapshot.kind[job], machine] / (1.0 + crowding(snapshot, job, machine))
        for machine in machines
    )
    racks = len(np.unique(snapshot.rack[machines]))
    return Opinion(policy.name, action, command, float(rate), float(slowest), racks)


def _moves(policy: Policy[Snapshot, Action], snapshot: Snapshot) -> bool:
    """Whether a rule that stops a job does so to place it anew: were it not to move jobs, it stopped none."""
    if not (isinstance(policy, Rule) and policy.discipline in PREEMPTIVE):
        return False
    staying = policy.table.copy()
    staying[DISCIPLINE, MOVE_GAIN] = 0.0
    return int(policy.decide_by(snapshot, staying).verb) != PREEMPT


# --- machines --------------------------------------------------------------------------------------

_Worth = Callable[[Parameters], float]
"""Score of one machine for one job under any settings of the placement."""


def machines_for(policy: Policy[Snapshot, Action], snapshot: Snapshot, job: int) -> list[MachineView]:
    """The machines with room for the job in this slot, best first where the placement scores them."""
    found = []
    for machine in range(len(snapshot.gpus)):
        room = int(fits_on(snapshot, job, machine))
        if room == 0:
            continue
        taken = room * int(snapshot.gpu_milli[job])
        score, parts = _scored(policy, snapshot, job, machine, taken)
        found.append(
            MachineView(
                machine,
                float(snapshot.free_milli[machine]) / WHOLE,
                room,
                float(snapshot.nominal[snapshot.kind[job], machine]),
                float(crowding(snapshot, job, machine)),
                float(snapshot.free_milli[machine] - taken) / WHOLE,
                score,
                parts,
            )
        )
    return sorted(found, key=lambda one: -(one.score or 0.0))


def _scored(
    policy: Policy[Snapshot, Action], snapshot: Snapshot, job: int, machine: int, taken: int
) -> tuple[float | None, dict[str, float]]:
    """Score of a machine and its factors, for placements that score single machines."""
    if not isinstance(policy, Rule) or policy.placement not in _SCORES:
        return None, {}
    desirability, factors = _SCORES[policy.placement]
    settings = policy.table[PLACEMENT]

    def worth(tried: Parameters) -> float:
        return float(desirability(snapshot, job, machine, taken, tried))

    return worth(settings), factors(worth, settings)


def _factors_of_fast(worth: _Worth, settings: Parameters) -> dict[str, float]:
    """With -1 for `neighbours` nobody's loss counts, not even the job's own: what is left is its speed."""
    bare = np.zeros_like(settings)
    bare[0] = -1.0
    speed = worth(bare)
    factors = {"speed": speed}
    for place, name in enumerate(("crowding", "GPUs left free", "speeds seen")):
        with_one = bare.copy()
        with_one[place] = settings[place]
        factors[name] = worth(with_one) / speed
    return factors


def _factors_of_learned(worth: _Worth, settings: Parameters) -> dict[str, float]:
    """The score is the exponential of a sum, so a weight alone among zeros gives its factor."""
    factors = {}
    for place, name in enumerate(MACHINE_FEATURES):
        alone = np.zeros_like(settings)
        of_feature = slice(place, len(MOODS) * len(MACHINE_FEATURES), len(MACHINE_FEATURES))
        alone[of_feature] = settings[of_feature]
        factors[name] = worth(alone)
    return factors


_SCORES: Mapping[Any, tuple[Callable[..., float], Callable[[_Worth, Parameters], dict[str, float]]]] = {
    placements.fast: (placements.desirability, _factors_of_fast),
    learned_place: (learned_desirability, _factors_of_learned),
}
"""Of placements that score single machines: the score, and how to take it apart."""


# --- features --------------------------------------------------------------------------------------


def features_of(policy: ScoredRule, snapshot: Snapshot, job: int) -> dict[str, float]:
    """What the ordering agent is shown of the job in this slot."""
    return dict(zip(JOB_FEATURES, job_features(snapshot, job, policy.table[ORDER]), strict=True))


def influences_of(policy: ScoredRule, snapshot: Snapshot, job: int, beside: Sequence[int]) -> list[Influence]:
    """What moved the score of the job in this slot, beside those in other slots; the strongest first.

    What is the same for all of them, such as the state of the cluster, moves nothing.
    """
    table = policy.table[ORDER]
    shown = np.array([job_features(snapshot, one, table) for one in beside])
    own = np.array(job_features(snapshot, job, table))
    means = shown.mean(axis=0)
    score = _score_of(policy, snapshot, job, own)
    found = []
    for place, feature in enumerate(JOB_FEATURES):
        changed = own.copy()
        changed[place] = means[place]
        moved = score - _score_of(policy, snapshot, job, changed)
        found.append(Influence(feature, float(own[place]), float(means[place]), moved))
    return sorted(found, key=lambda one: -abs(one.moved))


def _score_of(policy: ScoredRule, snapshot: Snapshot, job: int, features: NDArray[np.float64]) -> float:
    """The logarithm of the priority of a job with these features in place of its own.

    The order looks features up by the name `job_features`; in this copy of it they are given.
    """
    order = policy.order
    names = order.__globals__ | {"job_features": lambda *_: tuple(features.tolist())}
    given = types.FunctionType(order.__code__, names, order.__name__, order.__defaults__)
    return math.log(given(snapshot, job, policy.table[ORDER]))
