"""Train a learned autoscaler from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import SettingsError
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.agent import Parameters
from trimtab.learning.lessons import Lessons, refuse_other_lessons
from trimtab.learning.run_files import whole_settings
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress, train
from trimtab.stream_autoscaling.sure.collecting import collect_files, told_of
from trimtab.stream_autoscaling.sure.design import design_from
from trimtab.stream_autoscaling.sure.lessons import lesson_files
from trimtab.stream_autoscaling.sure.policy import make_bundle
from trimtab.stream_autoscaling.sure.task import SureSettings, SureTask

__all__ = ["ASKED_FOR", "SCORE", "bundle_of_run", "save_bundle_of_run", "train_sure"]

ASKED_FOR = "sure.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
SCORE = "validation reward that the teacher has more"
"""What a bundle's manifest calls the score of its run."""


def train_sure(
    settings: SureSettings,
    folder: str | Path,
    *,
    name: str,
    clock: Clock,
    progress: Progress | None = None,
    resume: bool = False,
    start: Bundle | None = None,
) -> Path:
    """Train into a run folder and leave the best policy in its folder ``bundle``."""
    texts = whole_settings(ASKED_FOR, settings, start)
    task = SureTask(settings, start=start)
    if settings.lessons:
        own = Path(f"{folder}-lessons")
        given = Path(settings.lessons_from) if settings.lessons_from else None
        task.lessons = _lessons(task, given or own, 1, given=given is not None)
        for number in range(2, settings.lessons_rounds + 1):
            # Whoever has learned so far acts while more is collected, and so meets what it will meet.
            name_of_round = f"round-{number}"
            so_far = Path(f"{folder}-before-{name_of_round}")
            acting = None
            if given is None and not _has_lessons(task, own / name_of_round):
                begun = so_far.exists()
                train(task, settings.training, so_far, progress, clock=clock, resume=begun, texts=texts)
                acting = best_of_run(RunFolder.open(so_far, clock=clock)).parameters
            part = (given or own) / name_of_round
            more = _lessons(task, part, number, given=given is not None, acting=acting)
            task.lessons = [Lessons.joined(both) for both in zip(task.lessons, more, strict=True)]
    train(task, settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def _has_lessons(task: SureTask, folder: Path) -> bool:
    return all(path.exists() for _, path in lesson_files(task.jobs, folder))


def _lessons(
    task: SureTask, folder: Path, number: int, *, given: bool, acting: Parameters | None = None
) -> list[Lessons]:
    """Lessons of all jobs, by size: those of an earlier run must be there, its own are collected."""
    files = lesson_files(task.jobs, folder)
    missing = [path for _, path in files if not path.exists()]
    if missing and given:
        raise SettingsError(f"{missing[0]}: no lessons of these jobs; leave lessons_from out to collect them")
    if missing:
        collect_files(task.settings, files, number, acting)
    found: list[Lessons] = []
    for _, path in files:
        lessons = Lessons.load(path)
        intervals = lessons.observations["window"].shape[1]
        if intervals != task.design.history:
            raise SettingsError(
                f"{path}: lessons with a history of {intervals} intervals, and the network looks back "
                f"{task.design.history}; set network.history, or collect other lessons"
            )
        if not given:
            refuse_other_lessons(path, lessons.told, told_of(task.settings))
        found.append(lessons)
    return found


def save_bundle_of_run(run: RunFolder, name: str) -> Path:
    """Leave the best policy so far in the run's folder ``bundle``."""
    return save_bundle(run.path / "bundle", bundle_of_run(run, name))


def bundle_of_run(run: RunFolder, name: str) -> Bundle:
    """Pack the best checkpoint of a run with its history."""
    best = best_of_run(run)
    ground = {part: best.task[part] for part in ("jobs", "trace", "deployment", "teacher")}
    return make_bundle(
        name,
        best.parameters,
        design_from(best.task["design"]),
        trained={**ground, **best.history},
        scores={SCORE: best.score, "at iteration": best.iteration, **best.measured},
    )
