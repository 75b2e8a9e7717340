"""Why an autoscaler decided as it did: what it could have answered, what moved it, what came of its wish.

Everything runs on numpy, from one snapshot of one job. To see what moved a decision, one feature is set to 0
in the whole window and the network is asked again: if its score falls, the feature spoke for the decision.
What the base rule suggests stays as it is meanwhile; its head start is told apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.subgraph_sampler import Picked
from trimtab.stream_autoscaling.problem import Flags, Floats, Integers, Snapshot, allowed
from trimtab.stream_autoscaling.sure.actions import CHOICES
from trimtab.stream_autoscaling.sure.encoders import embedded
from trimtab.stream_autoscaling.sure.features import FEATURES, View
from trimtab.stream_autoscaling.sure.network import Answers, answers, inputs_of
from trimtab.stream_autoscaling.sure.policy import Considered, SureDecider, SurePolicy
from trimtab.stream_autoscaling.sure.sampling import subgraphs

__all__ = ["Choice", "Commit", "Explanation", "Influence", "Look", "Opinion", "explain", "opinion_of"]

# A Gaussian reaches every parallelism up to the double; of the steps around a suggestion there are so many.
_MOST_CHOICES = len(CHOICES)


class Commit(NamedTuple):
    """Whether to change anything at all; any change restarts the whole job."""

    possible: bool
    probability: float
    score: float | None
    """Log of the odds; None where nothing may be changed."""
    head_start: float
    """What of the score is there because the base rule would commit (or, below 0, would hold)."""


class Choice(NamedTuple):
    """A parallelism that a vertex could be given."""

    parallelism: int
    probability: float
    chosen: bool
    step: str
    """Where it lies from the base rule's suggestion; empty for the published action, which knows none."""


class Influence(NamedTuple):
    """How much a feature spoke for the decision; negative: against it.

    Changes of log odds: 0.7 doubles them. None where there was nothing to decide.
    """

    feature: str
    on_commit: float | None
    """For committing, against holding."""
    on_choices: float | None
    """Of the lead of the chosen over the next best, mean over vertices.

    For the published action: how much further it went in its direction, as a share of parallelism.
    """


class Look(NamedTuple):
    """A moment of the past that a vertex looked at, and the neighbours it looked at there."""

    intervals_ago: int
    neighbours: tuple[int, ...]


class Explanation(NamedTuple):
    """One decision of a trained policy; lists by vertex, then the likeliest, strongest or oldest first."""

    wanted: Integers  # [V]
    suggested: Integers  # [V]: by the base rule
    needed: (
        Floats  # [V]: subtasks that the base rule foresees to be busy all the time; NaN where nobody knows
    )
    commit: Commit | None  # None: the published action has no such question
    choices: list[list[Choice]]
    influences: list[Influence]
    looks: list[list[Look]] | None  # None: the encoder does not learn where to look


class Opinion(NamedTuple):
    """What a policy wants, and what may be done of it."""

    policy: str
    wanted: Integers  # [V]
    done: Integers  # [V]
    because: list[tuple[str, ...]]
    """By vertex, why it is not what was wanted; empty where it is."""


def explain(policy: SurePolicy, decider: SureDecider, snapshot: Snapshot) -> Explanation:
    """Take one decision about one job apart; in place of `decider.decide`, for a snapshot enters once."""
    if len(snapshot.now_s) != 1:
        raise ActionError(f"{len(snapshot.now_s)} jobs; a decision is explained for one")
    thought = decider.consider(snapshot)
    return Explanation(
        wanted=thought.wanted[0],
        suggested=thought.seen.suggestion.parallelism[0],
        needed=thought.seen.suggestion.needed[0],
        commit=_commit(policy, thought),
        choices=_choices(policy, thought, snapshot),
        influences=_influences(policy, thought),
        looks=_looks(policy, thought.seen.view),
    )


def opinion_of(policy: str, snapshot: Snapshot, wanted: Integers) -> Opinion:
    """What `problem.allowed` makes of a wish about one job, and why; in the order in which it looks."""
    done = allowed(snapshot, wanted)
    graph = snapshot.graph
    within = np.clip(wanted, graph.least, graph.most)
    known = snapshot.samples.complete[:, -1] & snapshot.samples.present[:, -1, None]
    kept = np.where(known, within, np.maximum(within, snapshot.parallelism))
    still = bool(snapshot.rescaling[0] or snapshot.cooldown_s[0] > 0)
    because = [
        _reasons(snapshot, vertex, wanted[0], within[0], kept[0], done[0], still=still)
        for vertex in range(wanted.shape[1])
    ]
    return Opinion(policy, wanted[0], done[0], because)


def _reasons(
    snapshot: Snapshot,
    vertex: int,
    wanted: Integers,
    within: Integers,
    kept: Integers,
    done: Integers,
    *,
    still: bool,
) -> tuple[str, ...]:
    if wanted[vertex] == done[vertex]:
        return ()
    if still and snapshot.rescaling[0]:
        return ("a restart is under way, and no other change is taken until it is over",)
    if still:
        return (f"the job restarted lately, no change is taken for {snapshot.cooldown_s[0]:,.0f} s",)
    found = []
    if within[vertex] != wanted[vertex]:
        low, high = snapshot.graph.least[0, vertex], snapshot.graph.most[0, vertex]
        found.append(f"it may have {low} to {high} subtasks")
    if kept[vertex] != within[vertex]:
        found.append("its metrics are incomplete, so it is not scaled down")
    if done[vertex] != kept[vertex]:
        found.append(f"the {snapshot.slots[0]} slots do not suffice for all")
    return tuple(found)


# --- what could have been answered -----------------------------------------------------------------


def _commit(policy: SurePolicy, thought: Considered) -> Commit | None:
    design, view = policy.design, thought.seen.view
    if design.actions == "gaussian":
        return None
    if not view.may_commit[0]:
        return Commit(False, 0.0, None, 0.0)
    score = float(thought.answers.commit[0])
    head_start = design.commit_score if view.base_commits[0] else -design.commit_score
    return Commit(True, 1 / (1 + math.exp(-score)), score, head_start)


def _choices(policy: SurePolicy, thought: Considered, snapshot: Snapshot) -> list[list[Choice]]:
    if policy.design.actions == "gaussian":
        vertices = range(snapshot.graph.exists.shape[1])
        return [_spread_choices(policy, thought, snapshot, vertex) for vertex in vertices]
    logits = thought.answers.choices[0].astype(np.float64)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    likely = weights / weights.sum(-1, keepdims=True)
    offered, chosen = thought.seen.offer, thought.action[0, 1:]
    rows = []
    for vertex in range(len(logits)):
        row = [
            Choice(int(offered.values[0, vertex, k]), float(likely[vertex, k]), k == chosen[vertex], step)
            for k, step in enumerate(CHOICES)
            if offered.mask[0, vertex, k]
        ]
        rows.append(_likeliest_first(row))
    return rows


def _spread_choices(policy: SurePolicy, thought: Considered, snapshot: Snapshot, vertex: int) -> list[Choice]:
    """The published action as chances of parallelism; small chances are left out, what is taken is not."""
    graph, now = snapshot.graph, int(snapshot.parallelism[0, vertex])
    mean, spread = float(thought.answers.mean[0, vertex]), math.exp(float(thought.answers.log_spread))
    steps = np.arange(-now, now + 1)
    likely = _step_chances(mean, spread, now, truncates=policy.design.truncates)
    reached = np.clip(now + steps, graph.least[0, vertex], graph.most[0, vertex])
    taken = int(thought.wanted[0, vertex])
    row = [
        Choice(int(value), float(likely[reached == value].sum()), bool(value == taken), "")
        for value in np.unique(reached)
    ]
    first = _likeliest_first(row)
    return first[:_MOST_CHOICES] + [one for one in first[_MOST_CHOICES:] if one.chosen]


def _step_chances(mean: float, spread: float, now: int, *, truncates: bool) -> Floats:
    """Chances that p + a p, with a Gaussian a clipped to -1 and 1, moves p by -p to p: [2 p + 1].

    >>> _step_chances(0.0, 1e-6, 2, truncates=False).tolist()
    [0.0, 0.0, 1.0, 0.0, 0.0]
    """
    step = np.arange(1 - now, now + 1)
    least = np.where(step > 0, step, step - 1) if truncates else step - 0.5
    below = [0.5 * (1 + math.erf((one / now - mean) / (spread * math.sqrt(2)))) for one in least]
    return np.diff(np.array([0.0, *below, 1.0]))


def _likeliest_first(row: list[Choice]) -> list[Choice]:
    # Stable: among equals the first is the one that is chosen.
    return sorted(row, key=lambda choice: -choice.probability)


# --- what moved the decision -----------------------------------------------------------------------


def _influences(policy: SurePolicy, thought: Considered) -> list[Influence]:
    """Ask the network about all changed windows at once; the first one is unchanged."""
    design, view = policy.design, thought.seen.view
    found = answers(policy.parameters, _without_each_feature(view), design, PLAIN)
    if design.actions == "gaussian":
        on_commit, on_choices = None, _directed(found, view.exists[0])
    else:
        chosen = thought.action[0, 1:].astype(np.int64)
        on_commit = found.commit[0] - found.commit[1:] if view.may_commit[0] else None
        on_choices = _mean_lead(found, chosen, view)
    told = [
        Influence(
            feature,
            None if on_commit is None else float(on_commit[k]),
            None if on_choices is None else float(on_choices[k]),
        )
        for k, feature in enumerate(FEATURES)
    ]
    return sorted(told, key=lambda one: -(abs(one.on_commit or 0.0) + abs(one.on_choices or 0.0)))


def _without_each_feature(view: View) -> View:
    """The view 1 + features times, one feature gone in each but the first."""
    rows = 1 + len(FEATURES)
    copies = View._make(np.repeat(array, rows, axis=0) for array in view)
    for feature in range(len(FEATURES)):
        copies.window[1 + feature, ..., feature] = 0
    return copies


def _mean_lead(found: Answers, chosen: Integers, view: View) -> Floats | None:
    """How much of the lead each feature gave, over vertices that have a choice: [features].

    A probability of 100 % hides what it rests on, the lead does not.
    """
    torn = view.exists[0] & (view.mask[0].sum(-1) > 1)
    if not torn.any():
        return None
    logits = found.choices.astype(np.float64)
    at = np.broadcast_to(chosen[None, :, None], (*logits.shape[:2], 1))
    own = np.take_along_axis(logits, at, -1)[..., 0]
    others = logits.copy()
    np.put_along_axis(others, at, -np.inf, -1)
    lead = (own - others.max(-1))[:, torn].mean(1)
    return lead[0] - lead[1:]


def _directed(found: Answers, exists: Flags) -> Floats:
    """How much further the published action went in its direction for each feature: [features]."""
    mean: NDArray[np.float64] = np.asarray(found.mean, np.float64)[:, exists]
    return ((mean[0] - mean[1:]) * np.sign(mean[0])).mean(1)


# --- where it looked -------------------------------------------------------------------------------


def _looks(policy: SurePolicy, view: View) -> list[list[Look]] | None:
    design = policy.design
    if design.history_encoder != "sampler":
        return None
    encoder, inputs = policy.parameters["actor"]["encoder"], inputs_of(view, np)
    found = subgraphs(encoder, embedded(encoder, inputs, np), inputs, design, PLAIN, False)
    moments, members = found.moments, found.members
    rows: list[list[Look]] = []
    for vertex in range(moments.positions.shape[1]):
        looked = zip(moments.positions[0, vertex], moments.real[0, vertex], strict=True)
        row = [
            Look(design.history - 1 - int(position), _real_members(members, vertex, pick))
            for pick, (position, real) in enumerate(looked)
            if real
        ]
        rows.append(row)
    return rows


def _real_members(members: Picked, vertex: int, pick: int) -> tuple[int, ...]:
    real = members.real[0, vertex, pick]
    return tuple(int(one) for one in members.positions[0, vertex, pick][real])
