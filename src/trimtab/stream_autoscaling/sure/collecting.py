"""Collect the lessons of a training run on all cores.

Lessons of one size of jobs are collected in parts of some hundred, each with luck of its own. Processes share
them; what is collected does not depend on how many there are, and when a run is interrupted each loses the
part that it was at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from trimtab.core.processes import Processes
from trimtab.core.randomness import split
from trimtab.learning.agent import Parameters
from trimtab.learning.jax_tools import leave_the_gpu_to_the_run
from trimtab.learning.lessons import Lessons, collected_with, refuse_other_lessons
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.sure.lessons import collect_lessons
from trimtab.stream_autoscaling.sure.task import SureSettings, SureTask

__all__ = ["collect_files", "told_of"]

PART = 500
"""Lessons of a part; fewer would mostly be of how episodes begin."""
_TOLD_BY_LESSONS = {
    "jobs", "job_variants", "trace", "deployment", "look_ahead_h", "weighed_share", "lessons", "span_h",
    "start_spread", "sequences", "training.seed", "network.actions", "network.history",
    "network.band_targets", "network.base_target", "network.base_limit", "network.base_saving",
    "network.base_memory_s", "network.base_recent_s", "network.base_window_s", "network.base_catch_up_s",
    "network.base_patience_s", "network.base_blocked",
}  # fmt: skip
"""Fields of `SureSettings` with which other lessons would have been collected; encoders may differ."""


def told_of(settings: SureSettings) -> dict[str, str]:
    """With which settings lessons were collected, for their files."""
    return collected_with(settings, _TOLD_BY_LESSONS)


def collect_files(
    settings: SureSettings,
    files: Sequence[tuple[Sequence[Job], Path]],
    number: int,
    acting: Parameters | None,
) -> None:
    """Collect what is missing of round `number`; `acting` are the parameters of whoever acts, if not rules.

    `files` are jobs of one size each, the smallest first, and where their lessons belong.
    """
    told = told_of(settings)
    missing = [(tuple(jobs), path) for jobs, path in files if not path.exists()]
    starts = range(0, settings.lessons, PART)
    parts = {
        path: [
            _Part(
                settings,
                jobs,
                path.with_suffix(".parts") / f"{at:03}.npz",
                min(PART, settings.lessons - start),
                split(settings.training.seed, path.stem, number, at),
                acting,
            )
            for at, start in enumerate(starts)
        ]
        for jobs, path in missing
    }
    # Large jobs take longest; begun last they would keep one process busy and the others waiting.
    with Processes(settings.workers) as share:
        share(_collect, [part for path in reversed(parts) for part in parts[path]])
    for path, its in parts.items():
        lessons = Lessons.joined([Lessons.load(part.path) for part in its])
        Lessons(lessons.observations, told=told).save(path)
        for part in its:
            part.path.unlink()
        its[0].path.parent.rmdir()


@dataclass(frozen=True)
class _Part:
    settings: SureSettings
    jobs: tuple[Job, ...]
    path: Path
    count: int
    seed: int
    acting: Parameters | None


def _collect(part: _Part) -> None:
    """Collect a part into its file, unless an interrupted run has."""
    told = told_of(part.settings)
    if part.path.exists():
        refuse_other_lessons(part.path, Lessons.load(part.path).told, told)
        return
    leave_the_gpu_to_the_run()
    task = _task(part.settings.model_dump_json())
    actor = None if part.acting is None else task.actor(part.acting)
    lessons = collect_lessons(task.course(part.jobs), task.design, part.count, seed=part.seed, actor=actor)
    Lessons(lessons.observations, told=told).save(part.path)


@lru_cache(maxsize=1)
def _task(settings: str) -> SureTask:
    """One for all parts of a process: its network is compiled once."""
    return SureTask(SureSettings.model_validate_json(settings))
