"""Train a learned autoscaler from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.learning.lessons import Lessons
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress, train
from trimtab.stream_autoscaling.sure.design import design_from
from trimtab.stream_autoscaling.sure.lessons import by_size, collect_lessons
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
    texts = {ASKED_FOR: settings_as_toml(settings)}
    task = SureTask(settings, start=start)
    if settings.lessons:
        task.lessons = _lessons(task, Path(f"{folder}-lessons"))
    train(task, settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def _lessons(task: SureTask, own: Path) -> list[Lessons]:
    """Lessons of all jobs, by size: of an earlier run, or its own, collected where missing."""
    given = task.settings.lessons_from
    folder = Path(given) if given else own
    found: list[Lessons] = []
    for jobs in by_size(task.jobs):
        path = folder / f"{'+'.join(job.name for job in jobs)}.npz"
        if not path.exists() and given:
            raise SettingsError(f"{path}: no lessons of these jobs; leave lessons_from out to collect them")
        if not path.exists():
            settings, seed = task.settings, split(task.settings.training.seed, path.stem)
            collect_lessons(task.course(jobs), task.design, settings.lessons, seed=seed).save(path)
        lessons = Lessons.load(path)
        intervals = lessons.observations["window"].shape[1]
        if intervals != task.design.history:
            raise SettingsError(
                f"{path}: lessons with a history of {intervals} intervals, and the network looks back "
                f"{task.design.history}; set network.history, or collect other lessons"
            )
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
