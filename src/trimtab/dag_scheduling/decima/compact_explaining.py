"""Why a compact scheduler decided so: the score of every job, and which facts moved the chosen one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.dag_scheduling.decima.compact import CompactRule
from trimtab.dag_scheduling.decima.compact_rule import (
    JOB_FEATURES,
    SIZE,
    crowd_of,
    job_features,
    job_work,
    judged,
    score_and_share,
    set_in_force,
    worth_of_idling,
)
from trimtab.dag_scheduling.decima.explaining import Candidate, Influence
from trimtab.dag_scheduling.problem import NOWHERE, Snapshot

__all__ = ["explain_compact"]


class _Scored(NamedTuple):
    candidate: Candidate
    features: tuple[float, ...]


def explain_compact(policy: CompactRule, snapshot: Snapshot) -> tuple[list[Candidate], list[Influence]]:
    """What could have been chosen, the highest score first, and what spoke for the first.

    Each fact about the first job is replaced by the mean over all candidates; what its score loses by that,
    and the logarithm of its cap, is what the fact was worth.
    """
    numbers = np.array(policy.values)
    start = set_in_force(snapshot, numbers)
    numbers = numbers[start : start + SIZE]
    crowd = crowd_of(snapshot)
    found: list[_Scored] = []
    for job in snapshot.jobs:
        stage, executor_class, score, _ = judged(snapshot, job, crowd, numbers)
        if stage != NOWHERE:
            told = job_features(snapshot, job, stage, executor_class, *job_work(snapshot, job), crowd)
            position = int(stage - snapshot.first_stage[job])
            found.append(
                _Scored(
                    Candidate(int(snapshot.job_id[job]), position, int(executor_class), float(score)), told
                )
            )
    found.sort(key=lambda one: -(one.candidate.score or 0.0))
    candidates = [one.candidate for one in found]
    if snapshot.may_idle:
        candidates.append(Candidate(-1, -1, 0, float(worth_of_idling(snapshot, crowd, numbers))))
        candidates.sort(key=lambda one: -(one.score or 0.0))
    if not found or candidates[0].job < 0:
        return candidates, []
    usual = np.mean([one.features for one in found], axis=0)
    first = found[0].features
    score, share = score_and_share(first, numbers)
    influences = []
    for place, fact in enumerate(JOB_FEATURES):
        changed = (*first[:place], float(usual[place]), *first[place + 1 :])
        other_score, other_share = score_and_share(changed, numbers)
        influences.append(Influence(fact, score - other_score, share - other_share))
    return candidates, sorted(influences, key=lambda one: -(abs(one.on_stage) + abs(one.on_limit or 0.0)))
