"""From answers of a network to parallelism, and back: steps on a ladder around what the base rule suggests.

A rescale restarts the whole job whatever it changes, so there is one decision to commit or to hold, and for
each vertex where to go if committed. The ladder has every whole number up to 8 and from there steps of an
eighth at least. Where keys are dealt out in groups it has only numbers that lower the share of the busiest
subtask: of 128 groups 14 subtasks hold ten at most, and so do 13.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.stream_autoscaling.heuristics.banded import BandedDecider, Weighed, banded
from trimtab.stream_autoscaling.heuristics.rule import Rule
from trimtab.stream_autoscaling.problem import Flags, Floats, Graph, Integers, Snapshot
from trimtab.stream_autoscaling.sure.design import Design

__all__ = ["CHOICES", "Offer", "Suggestion", "decode_action", "encode_action", "ladders", "offer", "rungs"]
__all__ += ["VARIED", "Bands", "bands_of", "base_rule"]

CHOICES = ("as suggested", "a step below", "two steps below", "a step above", "two steps above", "doubled")


class Suggestion(NamedTuple):
    """What the base rule makes of a snapshot, and rules like it."""

    needed: Floats  # [E, V]: subtasks that would be busy all the time; NaN where nobody knows
    parallelism: Integers  # [E, V]
    commits: Flags  # [E]: it would change something
    worth: Flags  # [E]: one of the rules like it would


class Offer(NamedTuple):
    """What may be answered."""

    values: Integers  # [E, V, choices]: parallelism by choice
    mask: Flags  # [E, V, choices]
    may_commit: Flags  # [E]


VARIED = ("target", "limit", "saving", "patience_s")
"""Settings in which rules like the base rule differ from it."""


def bands_of(design: Design) -> dict[str, Any]:
    """Settings of the base rule and of rules like it, [rules] each; what does not differ is one number.

    The base rule first; then those that aim at another utilisation, one that would rather wait, and one that
    waits for nothing.
    """
    base = design.base
    above, saving, patience_s = base["limit"] - base["target"], base["saving"], base["patience_s"]
    rules = [(target, above, saving, patience_s) for target in (base["target"], *design.band_targets)]
    rules += [(base["target"], above + 0.15, 0.4, patience_s), (base["target"], above - 0.05, 0.08, 0.0)]
    target, above, *others = np.array(rules).T
    return {**base, **dict(zip(VARIED, (target, target + above, *others), strict=True))}


class Bands:
    """The base rule and rules like it, for some jobs."""

    def __init__(self, graph: Graph, design: Design) -> None:
        bands = bands_of(design)
        self._rules = [
            BandedDecider(graph, {**bands, **{name: bands[name][k] for name in VARIED}})
            for k in range(len(bands["target"]))
        ]

    def weigh(self, snapshot: Snapshot) -> list[Weighed]:
        """What each makes of a snapshot."""
        measured = self._rules[0].measure(snapshot)
        return [rule.weigh(snapshot, measured) for rule in self._rules]

    def suggest(self, snapshot: Snapshot) -> Suggestion:
        """The base rule's answer; a vertex without complete metrics is never scaled down."""
        found, now = self.weigh(snapshot), snapshot.parallelism
        base = found[0]
        parallelism = np.where(_known(snapshot), base.goal, np.maximum(base.goal, now))
        parallelism = np.where(snapshot.graph.exists, parallelism, 0)
        commits = base.commits & (parallelism != now).any(1) & _free(snapshot)
        worth = np.any([one.commits & (one.goal != now).any(1) for one in found], axis=0)
        return Suggestion(base.needed, parallelism, commits, worth | commits)


@cache
def base_rule(design: Design) -> Rule:
    """The rule whose suggestions are stepped around; it remembers nothing."""
    return banded().with_values(design.base)


@cache
def rungs(key_groups: int, least: int, most: int) -> tuple[int, ...]:
    """Parallelism worth having between two bounds, both included.

    >>> rungs(0, 1, 20)
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 17, 20)
    >>> rungs(12, 1, 12)
    (1, 2, 3, 4, 6, 12)
    """
    found = {least, most}
    value = 1
    while value <= most:
        aligned = -(-key_groups // -(-key_groups // value)) if key_groups else value
        if least <= aligned <= most:
            found.add(aligned)
        value += max(1, -(-value // 8)) if value >= 8 else 1
    return tuple(sorted(found))


def ladders(graph: Graph) -> Integers:
    """The rungs of every vertex, rising, [E, V, rungs]; the highest fills up."""
    size, vertices = graph.exists.shape
    found = [
        [
            rungs(int(g), int(low), int(high)) if real else (0,)
            for g, low, high, real in zip(*row, strict=True)
        ]
        for row in zip(graph.key_groups, graph.least, graph.most, graph.exists, strict=True)
    ]
    longest = max(len(one) for row in found for one in row)
    table = np.zeros((size, vertices, longest), np.int64)
    for env, row in enumerate(found):
        for vertex, one in enumerate(row):
            table[env, vertex, : len(one)] = one
            table[env, vertex, len(one) :] = one[-1]
    return table


def offer(snapshot: Snapshot, suggestion: Suggestion, ladder: Integers) -> Offer:
    """The parallelism behind every choice, and which choices there are.

    There is nothing to commit to where no rule like the base rule would.
    Left out are choices that equal an earlier one, that exceed the slots, or that would scale down a
    vertex without complete metrics. What is suggested is always there.
    """
    graph, base = snapshot.graph, suggestion.parallelism
    cap = _slot_cap(snapshot)
    base = np.minimum(base, np.maximum(cap[:, None], snapshot.parallelism))
    up_to = (ladder <= base[..., None]).sum(-1)
    below = (ladder < base[..., None]).sum(-1)
    twice = (ladder < 2 * base[..., None]).sum(-1)
    last = ladder.shape[-1] - 1
    places = np.stack([below - 1, below - 2, up_to, up_to + 1, twice], axis=-1)
    around = np.take_along_axis(ladder, np.clip(places, 0, last), -1)
    values = np.concatenate([base[..., None], around], axis=-1)
    fresh = np.ones(values.shape, bool)
    for choice in range(1, values.shape[-1]):
        fresh[..., choice] = (values[..., :choice] != values[..., choice, None]).all(-1)
    fits = values <= cap[:, None, None]
    known = _known(snapshot)[..., None] | (values >= snapshot.parallelism[..., None])
    mask = fresh & fits & known & graph.exists[..., None]
    mask[..., 0] = True
    may_commit = _free(snapshot) & graph.exists.any(1) & suggestion.worth
    return Offer(np.where(graph.exists[..., None], values, 0), mask, may_commit)


def _slot_cap(snapshot: Snapshot) -> Integers:
    """The most one vertex may have, [E]: every other slot-sharing group takes a slot at least."""
    graph = snapshot.graph
    groups = np.where(graph.exists, graph.slot_group, 0).max(1, initial=0)
    return np.where(snapshot.slots > 0, np.maximum(snapshot.slots - groups, 1), np.iinfo(np.int64).max // 4)


def _known(snapshot: Snapshot) -> Flags:
    return snapshot.samples.complete[:, -1] & snapshot.samples.present[:, -1, None]


def _free(snapshot: Snapshot) -> Flags:
    return ~snapshot.rescaling & (snapshot.cooldown_s <= 0)


def decode_action(action: NDArray[Any], snapshot: Snapshot, offered: Offer, design: Design) -> Integers:
    """The parallelism that an answer of the network stands for, [E, V].

    residual: [E, 1 + V], commit or hold and a choice for each vertex; gaussian: [E, V], numbers of -1 to 1.
    """
    graph, now = snapshot.graph, snapshot.parallelism
    if design.actions == "gaussian":
        change = np.clip(action.astype(np.float64), -1, 1) * now
        moved = now + (np.trunc(change) if design.truncates else np.rint(change)).astype(np.int64)
        return np.where(graph.exists, np.clip(moved, graph.least, graph.most), now)
    chosen = np.take_along_axis(offered.values, action[:, 1:, None].astype(np.int64), -1)[..., 0]
    commits = (action[:, 0] > 0) & offered.may_commit
    return np.where(commits[:, None] & graph.exists, chosen, now)


def encode_action(wanted: Integers, snapshot: Snapshot, offered: Offer, design: Design) -> NDArray[Any]:
    """The answer that comes nearest to a wanted parallelism: the label of a teacher."""
    now = snapshot.parallelism
    if design.actions == "gaussian":
        change = (wanted - now) / np.maximum(now, 1)
        return np.where(snapshot.graph.exists, np.clip(change, -1, 1), 0.0).astype(np.float32)
    far = np.abs(offered.values - wanted[..., None]) + np.where(offered.mask, 0, 1 << 40)
    commits = (wanted != now).any(1) & offered.may_commit
    choices = np.where(commits[:, None], far.argmin(-1), 0)
    return np.concatenate([commits[:, None], choices], axis=1).astype(np.int32)
