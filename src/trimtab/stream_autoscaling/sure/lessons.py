"""Collect lessons: situations of training days, and what several decisions would have earned in each.

Whoever acts meanwhile decides which situations are met. First act rules like the base rule, with settings
that differ from job to job, so that the lessons tell how to go on from where a bolder or a more careful
policy would be; a policy that was trained on such lessons can then act itself, and meets the situations that
it will be judged in (Ross and Bagnell 2014). Jobs of similar size are kept together: padding to the largest
costs time at every step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split, uniform
from trimtab.learning.lessons import Lessons
from trimtab.stream_autoscaling.heuristics.banded import BandedDecider
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.problem import Graph
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.rollouts import Course, RolloutEnvironment

__all__ = ["Actor", "by_size", "collect_lessons", "lesson_files"]

Actor = Callable[[dict[str, NDArray[Any]]], NDArray[Any]]
"""From observations to actions; for instance an agent's `best` with its parameters."""
_UNUSED = ("teacher",)
_PATIENCE = 3000
_LONGEST_NAME = 240
"""Bytes of a file's name without its suffixes; file systems take 255 with them."""


def by_size(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs of which the largest has at most half as many vertices again as the smallest, together."""
    groups: list[list[Job]] = []
    for job in sorted(jobs, key=lambda one: len(one.vertices)):
        if groups and 2 * len(job.vertices) <= 3 * len(groups[-1][0].vertices):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def lesson_files(jobs: Sequence[Job], folder: Path) -> list[tuple[list[Job], Path]]:
    """Jobs of one size together, and where their lessons lie: a file for each group, called after its jobs.

    Where two groups would be called alike, or a file cannot be called so, sizes and a digest tell them apart.
    """
    groups = by_size(jobs)
    names = ["+".join(job.name for job in group) for group in groups]
    found: list[tuple[list[Job], Path]] = []
    for group, name in zip(groups, names, strict=True):
        told = name
        if names.count(name) > 1 or len(name.encode()) > _LONGEST_NAME or "/" in name:
            least, most = len(group[0].vertices), len(group[-1].vertices)
            digest = hashlib.sha256(name.encode()).hexdigest()[:12]
            told = f"{len(group)} jobs of {least}-{most} vertices {digest}"
        found.append((group, folder / f"{told}.npz"))
    return found


def collect_lessons(
    course: Course,
    design: Design,
    count: int,
    *,
    seed: int,
    environments: int = 48,
    actor: Actor | None = None,
) -> Lessons:
    """Play until so many situations were looked at.

    Without an `actor` rules like the base rule act; beside one, they go on with a sixth of the jobs.
    """
    size = max(1, environments // len(course.jobs)) * len(course.jobs)
    course = replace(course, teacher=_Varied(design, seed))
    # With what any encoder asks for: the lessons are for all of them.
    lane = RolloutEnvironment(course, replace(design, history_encoder="ccrnn"), size=size)
    lane.reset(split(seed, "lessons"), np.inf)
    parts: list[dict[str, NDArray[Any]]] = []
    found, idle = 0, 0
    while found < count:
        seen = lane.observe()
        looked = np.flatnonzero(seen["offered"].any(1))
        if looked.size:
            parts.append({name: rows[looked] for name, rows in seen.items() if name not in _UNUSED})
            found, idle = found + looked.size, 0
        idle += 1
        if idle > _PATIENCE:
            raise SettingsError(
                f"nothing to look at in {_PATIENCE:,} decisions of {size} jobs; raise weighed_share"
            )
        action = seen["teacher"]
        if actor is not None:
            action = np.where((np.arange(size) < size // 6)[:, None], action, actor(seen))
        lane.step(action)
    joined = {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}
    return Lessons(joined)


class _Varied:
    """The base rule with other settings for every environment."""

    name = "varied"

    def __init__(self, design: Design, seed: int) -> None:
        self._base, self._seed = design.base, seed

    def begin(self, graph: Graph) -> BandedDecider:
        places = np.arange(len(graph.exists))
        drawn = {name: uniform(split(self._seed, name), places) for name in self._base}
        target = 0.55 + 0.3 * drawn["target"]
        return BandedDecider(
            graph,
            {
                **self._base,
                "target": target,
                "limit": target + 0.1 + 0.3 * drawn["limit"],
                "saving": 0.1 + 0.3 * drawn["saving"],
                "patience_s": 2 * self._base["patience_s"] * drawn["patience_s"],
            },
        )
