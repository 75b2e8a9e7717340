"""Why a compact autoscaler decided so: what its learned functions say now, and which facts moved them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.core.errors import ActionError
from trimtab.stream_autoscaling.problem import Flags, Floats, Integers, Snapshot
from trimtab.stream_autoscaling.sure.compact import EVENNESS, FACTS, CompactDecider, Factors

__all__ = ["CompactExplanation", "FactInfluence", "explain_compact"]


class FactInfluence(NamedTuple):
    """What a fact multiplies, against the fact being 0."""

    fact: str
    value: float
    on_size: float
    on_limit: float
    """Above 1: it is scaled up earlier."""
    on_saving: float
    """Above 1: more must be saved to scale down."""


class CompactExplanation(NamedTuple):
    """One decision of a compact autoscaler about one job."""

    wanted: Integers  # [V]
    needed: Floats  # [V]: subtasks that would be busy all the time; NaN where nobody knows
    goal: Integers  # [V]: where to go if committed
    over: Flags  # [V]: too busy, and may have more
    commits: bool
    aims_at: float
    """Utilisation that vertices are sized for, before what is special about each."""
    limit: float
    """Utilisation above which a vertex is too busy."""
    saving: float
    """Share of all subtasks that must be saved to scale down."""
    saved: float
    """Share that the goal saves; negative: it takes more."""
    influences: list[FactInfluence]


def explain_compact(decider: CompactDecider, snapshot: Snapshot) -> CompactExplanation:
    """Take one decision about one job apart."""
    if len(snapshot.now_s) != 1:
        raise ActionError(f"{len(snapshot.now_s)} jobs; a decision is explained for one")
    found, now = decider.think(snapshot), snapshot.parallelism[0]
    factors = found.factors
    commits = bool(found.commits[0])
    return CompactExplanation(
        wanted=found.goal[0] if commits else now,
        needed=found.needed[0],
        goal=found.goal[0],
        over=found.over[0],
        commits=commits,
        aims_at=1 / float(factors.size[0]),
        limit=1 / float(factors.limit[0]),
        saving=float(factors.saving[0]),
        saved=1 - float(found.goal[0].sum()) / max(float(now.sum()), 1.0),
        influences=_influences(decider, found.facts, factors),
    )


def _influences(decider: CompactDecider, facts: Floats, factors: Factors) -> list[FactInfluence]:
    """The strongest first; what is usual is no influence. A fact and its share for even arrivals are one."""
    told = []
    for place, fact in enumerate(FACTS[1 : EVENNESS + 1], 1):
        without = facts.copy()
        if place == EVENNESS:
            without[:, EVENNESS:] = 0.0
        else:
            without[:, [place, place + EVENNESS]] = 0.0
        other = decider.factors(without)
        size, _, limit, saving = (float(a[0] / b[0]) for a, b in zip(factors, other, strict=True))
        told.append(FactInfluence(fact, float(facts[0, place]), size, limit, saving))
    return sorted(told, key=lambda one: -float(np.abs(np.log(one[2:])).sum()))
