"""Train Decima from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import SettingsError
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.dag_scheduling.decima.network import Design
from trimtab.dag_scheduling.decima.policy import make_bundle
from trimtab.dag_scheduling.decima.rollouts import split_lane
from trimtab.dag_scheduling.decima.task import DecimaSettings, DecimaTask, teacher_of
from trimtab.learning.run_files import whole_settings
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress, train

__all__ = ["ASKED_FOR", "SCORE", "bundle_of_run", "check_settings", "save_bundle_of_run", "train_decima"]

ASKED_FOR = "decima.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
SCORE = "validation cost over the teacher's"
"""What a bundle's manifest calls the score of its run."""


def check_settings(settings: DecimaSettings) -> None:
    """Refuse in a second what making the task would refuse after minutes of compiling."""
    settings.training.check_board()
    for number, course in enumerate(settings.courses):
        teacher_of(course, f"courses.{number}.teacher")
        if settings.training.differential and course.cluster.objective == "makespan":
            raise SettingsError(
                f"courses.{number}.cluster.objective = makespan costs the same every second, of which "
                "training.differential = true leaves nothing to learn from; set it to false"
            )
        if settings.training.baseline == "foreseen" and not course.look_ahead_s:
            raise SettingsError(
                "training.baseline = foreseen goes by what is foreseen, and "
                f"courses.{number}.look_ahead_s = 0 looks nowhere; set it to 50, or use baseline = critic"
            )
        mean_s = settings.training.mean_episode_s
        if mean_s and course.look_ahead_s:
            raise SettingsError(
                f"training.mean_episode_s = {mean_s:g} cuts episodes short of where "
                f"courses.{number}.look_ahead_s = {course.look_ahead_s:g} looks; set one of them to 0"
            )
    split_lane(
        [course.weight for course in settings.courses],
        size=settings.environments,
        rollouts=settings.rollouts,
        threads=settings.threads,
    )


def train_decima(
    settings: DecimaSettings,
    folder: str | Path,
    *,
    name: str,
    clock: Clock,
    progress: Progress | None = None,
    resume: bool = False,
    start: Bundle | None = None,
) -> Path:
    """Train into a run folder and leave the best policy in its folder ``bundle``."""
    check_settings(settings)
    texts = whole_settings(ASKED_FOR, settings, start)
    task = DecimaTask(settings, start=start)
    train(task, settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def save_bundle_of_run(run: RunFolder, name: str) -> Path:
    """Leave the best policy so far in the run's folder ``bundle``."""
    return save_bundle(run.path / "bundle", bundle_of_run(run, name))


def bundle_of_run(run: RunFolder, name: str) -> Bundle:
    """Pack the best checkpoint of a run with its history."""
    best = best_of_run(run)
    courses = best.task["courses"]
    return make_bundle(
        name,
        best.parameters,
        Design(**best.task["design"]),
        most_executors=best.task["most_executors"],
        jobs_shown=best.task["jobs_shown"],
        trained={"courses": courses, **best.history},
        scores={
            SCORE: best.score,
            "at iteration": best.iteration,
            "validation cost over fair's": best.measured["over_fair"],
            "courses": [best.measured[f"course_{number}"] for number in range(len(courses))],
        },
    )
