"""Why a trained Decima decided as it did: what it could have chosen, and what spoke for its choice.

Everything runs on numpy, from one snapshot. To see what moved a decision, one fact about the chosen
stage or its job is replaced by the mean over everything that could have been chosen, and the network is
asked again: if the choice becomes less likely, that fact spoke for it. Numbers that follow from a fact
(a path, a rank, a share) follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.policy import Policy
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.features import facts_of
from trimtab.dag_scheduling.decima.network import limit_scores, stage_scores
from trimtab.dag_scheduling.decima.policy import Considered, DecimaPolicy
from trimtab.dag_scheduling.decima.view import Shown, View
from trimtab.dag_scheduling.problem import Action, Command, Snapshot, choices, decode, executors_sent

__all__ = [
    "Candidate",
    "Explanation",
    "Influence",
    "Offer",
    "Opinion",
    "candidates_of",
    "explain",
    "opinion_of",
]


class Candidate(NamedTuple):
    """Something that could have been chosen; no score and probability where a rule decides."""

    job: int  # position of the job in the workload; -1: leave the executors idle
    stage: int  # position of the stage in its job
    executor_class: int
    score: float | None = None
    probability: float | None = None


class Offer(NamedTuple):
    """A parallelism limit that could have been set for the chosen stage."""

    limit: int
    executors: int  # executors it sends now
    probability: float


class Influence(NamedTuple):
    """How much a fact spoke for the decision; negative: against it.

    The numbers are changes of its lead over the next best: 0.7 doubles the odds.
    """

    fact: str
    on_stage: float
    on_limit: float | None  # None: with another value this limit would not have been on offer


class Explanation(NamedTuple):
    """One decision of a trained policy, the likeliest first."""

    action: Action
    candidates: list[Candidate]
    limits: list[Offer]
    influences: list[Influence]


class Opinion(NamedTuple):
    """What a policy would do in a situation; no command: leave the executors idle."""

    policy: str
    command: Command | None
    limit: int


def explain(policy: DecimaPolicy, snapshot: Snapshot) -> Explanation:
    """Take one decision apart."""
    thought = policy.consider(snapshot)
    limit = int(thought.limits[thought.limit])
    action = v.action_of(thought.shown, snapshot, thought.choice, limit)
    candidates = _candidates(thought, snapshot)
    if _is_idle(thought):
        return Explanation(action, candidates, [], [])
    return Explanation(action, candidates, _offers(thought, snapshot, action), _influences(policy, thought))


def candidates_of(snapshot: Snapshot) -> list[Candidate]:
    """Everything that may be chosen now, jobs in order of arrival."""
    mask = choices(snapshot)
    return [
        Candidate(int(snapshot.job_id[slot]), position, int(executor_class))
        for slot in snapshot.jobs
        for position in range(snapshot.stage_count[slot])
        for executor_class in np.flatnonzero(mask[snapshot.first_stage[slot] + position])
    ]


def opinion_of(policy: Policy[Snapshot, Action], snapshot: Snapshot) -> Opinion:
    """Ask any policy what it would do."""
    action = policy.decide(snapshot)
    return Opinion(policy.name, decode(snapshot, action), int(action[1]))


def _is_idle(thought: Considered) -> bool:
    return thought.choice == len(thought.choice_logits) - 1


def _candidates(thought: Considered, snapshot: Snapshot) -> list[Candidate]:
    probabilities = np.exp(_log_softmax(thought.choice_logits))
    allowed = np.flatnonzero(thought.choice_mask)
    places = zip(*_places(thought.shown, allowed), strict=True)
    found: list[Candidate] = []
    for choice, (row, stage, executor_class) in zip(allowed, places, strict=True):
        idle = choice == len(thought.choice_logits) - 1
        job = -1 if idle else int(snapshot.job_id[thought.shown.slots[row]])
        where = (-1, 0) if idle else (int(stage), int(executor_class))
        score = float(thought.choice_logits[choice])
        found.append(Candidate(job, *where, score, float(probabilities[choice])))
    # Stable: among equals the first is the one that is chosen.
    return sorted(found, key=lambda one: -(one.score or 0.0))


def _places(
    shown: Shown, choice: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Row of the job, position of the stage and class of each choice; the last row stands for idling."""
    _, jobs, stages, _ = shown.view.stages.shape
    classes = _classes(shown.view)
    return (
        np.minimum(choice // (stages * classes), jobs - 1),
        choice // classes % stages,
        choice % classes,
    )


def _offers(thought: Considered, snapshot: Snapshot, action: Action) -> list[Offer]:
    probabilities = np.exp(_log_softmax(thought.limit_logits))
    row = _places(thought.shown, np.array([thought.choice]))[0][0]
    slot = int(thought.shown.slots[row])
    found = []
    for place in np.flatnonzero(thought.limit_mask):
        limit = int(thought.limits[place])
        sent = int(executors_sent(snapshot, slot, action.stage, limit, action.executor_class))
        found.append(Offer(limit, sent, float(probabilities[place])))
    return sorted(found, key=lambda offer: -offer.probability)


# --- what moved the decision -----------------------------------------------------------------------


class _Scene(NamedTuple):
    """Where the chosen stage stands in the view, and where everything else that could be chosen does."""

    row: int
    stage: int
    rows: NDArray[np.int64]
    stages: NDArray[np.int64]


_Change = Callable[[View, _Scene], None]
"""Changes a view in place."""


def _influences(policy: DecimaPolicy, thought: Considered) -> list[Influence]:
    """Ask the network about all changed views at once; the first one is unchanged."""
    view, design = thought.shown.view, policy.design
    allowed = np.flatnonzero(thought.choice_mask[:-1])
    rows, stages, _ = _places(thought.shown, allowed)
    row, stage, _ = _places(thought.shown, np.array([thought.choice]))
    scene = _Scene(int(row[0]), int(stage[0]), rows, stages)
    views = [view, *(_changed(view, scene, change) for change in _FACTS.values())]
    batch = View(
        np.concatenate([one.stages for one in views]),
        np.concatenate([one.children for one in views]),
        np.concatenate([one.jobs for one in views]),
        np.concatenate([one.cluster for one in views]),
    )
    scores = stage_scores(policy.parameters, batch, design, np)
    most = max(
        int(policy.bundle.manifest["settings"]["most_executors"]), int(view.cluster[0, v.EXECUTOR_COUNT])
    )
    same = np.full(len(views), thought.choice)
    logits, mask, _ = limit_scores(policy.parameters, scores, same, design, most, np)
    on_stage = _lead(scores.logits, scores.mask, thought.choice)
    on_limit = _lead(logits, mask, thought.limit)
    found = [
        Influence(
            fact,
            float(on_stage[0] - on_stage[k]),
            float(on_limit[0] - on_limit[k]) if mask[k, thought.limit] else None,
        )
        for k, fact in enumerate(_FACTS, start=1)
    ]
    return sorted(found, key=lambda one: -(abs(one.on_stage) + abs(one.on_limit or 0.0)))


def _lead(logits: NDArray[np.float32], mask: NDArray[np.bool_], chosen: int) -> NDArray[np.float64]:
    """How far the chosen one is ahead of the best other one; 0 where there is no other.

    A probability of 100 % hides what it rests on, the lead does not.
    """
    others = mask.copy()
    others[:, chosen] = False
    best = np.where(others, logits, -np.inf).max(1)
    return np.where(others.any(1), logits[:, chosen] - np.where(others.any(1), best, 0.0), 0.0)


def _changed(view: View, scene: _Scene, change: _Change) -> View:
    copy = View(view.stages.copy(), view.children.copy(), view.jobs.copy(), view.cluster)
    change(copy, scene)
    return copy


def _stage_field(field: int) -> _Change:
    def change(view: View, scene: _Scene) -> None:
        others = view.stages[0, scene.rows, scene.stages, field]
        view.stages[0, scene.row, scene.stage, field] = np.rint(others.mean())

    return change


def _job_field(field: int) -> _Change:
    def change(view: View, scene: _Scene) -> None:
        view.jobs[0, scene.row, field] = view.jobs[0, np.unique(scene.rows), field].mean()

    return change


def _executors(view: View, scene: _Scene) -> None:
    """As many executors as the mean candidate job has, those to be placed not counted."""
    jobs, free = view.jobs[0], _free(view)
    besides = jobs[:, v.EXECUTORS] - jobs[:, v.SOURCE] * free
    mean = besides[np.unique(scene.rows)].mean()
    jobs[scene.row, v.EXECUTORS] = mean + jobs[scene.row, v.SOURCE] * free


def _source(view: View, scene: _Scene) -> None:
    """The executors to be placed count among those of the job they come from, so both change."""
    job = view.jobs[0, scene.row]
    mean = view.jobs[0, np.unique(scene.rows), v.SOURCE].mean()
    job[v.EXECUTORS] += (mean - job[v.SOURCE]) * _free(view)
    job[v.SOURCE] = mean


def _free(view: View) -> float:
    classes = _classes(view)
    return float(view.cluster[0, v.CLUSTER_FIELDS : v.CLUSTER_FIELDS + classes].sum())


def _classes(view: View) -> int:
    return (view.cluster.shape[1] - v.CLUSTER_FIELDS) // 2


def _runnable(view: View, scene: _Scene) -> None:
    """As ready as most candidates are."""
    flags = view.stages[0, scene.rows, scene.stages, v.FLAGS] & v.RUNNABLE_FLAG
    here = (0, scene.row, scene.stage, v.FLAGS)
    most = v.RUNNABLE_FLAG if flags.mean() > 0.5 else 0
    view.stages[here] = (view.stages[here] & ~v.RUNNABLE_FLAG) | most


def _job_work(view: View, scene: _Scene) -> None:
    """Stretch the tasks of the job until its work left is that of the mean candidate."""
    work_s = facts_of(view, _classes(view), np).job_work_s[0]
    mean_s = work_s[np.unique(scene.rows)].mean()
    if work_s[scene.row] <= 0 or mean_s <= 0:
        return
    shift = v.LOG_SCALE * np.log2(mean_s / work_s[scene.row])
    longer = np.clip(view.stages[0, scene.row, :, v.TASK_MS] + shift, 0, v.LARGEST_COUNT)
    view.stages[0, scene.row, :, v.TASK_MS] = np.rint(longer)


def _nothing_below(view: View, scene: _Scene) -> None:
    """As if no stage waited for this one; a mean of graphs has no meaning."""
    view.children[0, scene.row, scene.stage] = 0


_FACTS: dict[str, _Change] = {
    "tasks left in the stage": _stage_field(v.UNSTARTED),
    "tasks running in the stage": _stage_field(v.RUNNING),
    "executors the stage can still use": _stage_field(v.DEMAND),
    "task duration of the stage": _stage_field(v.TASK_MS),
    "memory of the stage": _stage_field(v.MEMORY),
    "slowdown of the stage when wide": _stage_field(v.SLOWDOWN),
    "stage is ready to run": _runnable,
    "stages that wait for it": _nothing_below,
    "work left in the job": _job_work,
    "total work of the job": _job_field(v.TOTAL_WORK_S),
    "executors of the job": _executors,
    "job has the free executors already": _source,
    "time of the job in the system": _job_field(v.AGE_S),
}


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Along the last axis; what is masked lies so low that it counts for nothing."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
