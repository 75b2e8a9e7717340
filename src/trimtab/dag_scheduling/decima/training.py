"""Train Decima from settings to a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle, load_tensors, save_bundle, unflatten
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.dag_scheduling.decima.network import Design
from trimtab.dag_scheduling.decima.policy import make_bundle
from trimtab.dag_scheduling.decima.rollouts import split_lane
from trimtab.dag_scheduling.decima.task import DecimaSettings, DecimaTask, teacher_of
from trimtab.learning.training import BEST, STATE, Progress, train

__all__ = ["bundle_of_run", "check_settings", "is_finished", "save_bundle_of_run", "train_decima"]

ASKED_FOR = "decima.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""


def check_settings(settings: DecimaSettings) -> None:
    """Refuse in a second what making the task would refuse after minutes of compiling."""
    for number, course in enumerate(settings.courses):
        teacher_of(course, f"courses.{number}.teacher")
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
    task = DecimaTask(settings, start=start)
    texts = {ASKED_FOR: settings_as_toml(settings)}
    train(task, settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def is_finished(run: RunFolder, settings: DecimaSettings) -> bool:
    """Whether a run has no iteration left."""
    if not (run.path / STATE).is_file():
        return False
    _, notes = load_tensors(run.path / STATE)
    return int(notes["iteration"]) == settings.training.total_iterations


def save_bundle_of_run(run: RunFolder, name: str) -> Path:
    """Leave the best policy so far in the run's folder ``bundle``."""
    return save_bundle(run.path / "bundle", bundle_of_run(run, name))


def bundle_of_run(run: RunFolder, name: str) -> Bundle:
    """Pack the best checkpoint of a run with its history."""
    if not (run.path / BEST).is_file():
        raise TrimtabError(f"{run.path}: no validated checkpoint yet; let it train further with --resume")
    tensors, notes = load_tensors(run.path / BEST)
    task = run.read_json("task.json")
    metrics = run.read_metrics()
    machine = run.read_json("machine.json")
    trained: dict[str, Any] = {
        "courses": task["courses"],
        "iterations": len(metrics),
        "decisions": sum(line["decisions"] for line in metrics),
        "seconds": round(sum(line["seconds"] for line in metrics), 1),
        "processor": machine["processor"],
        "versions": machine["versions"],
    }
    scores = {
        "validation cost over the teacher's": float(notes["score"]),
        "at iteration": int(notes["iteration"]),
        **_scores_by_course(metrics, int(notes["iteration"]), courses=len(task["courses"])),
    }
    return make_bundle(
        name,
        unflatten(tensors),
        Design(**task["design"]),
        most_executors=task["most_executors"],
        jobs_shown=task["jobs_shown"],
        trained=trained,
        scores=scores,
    )


def _scores_by_course(
    metrics: Sequence[Mapping[str, Any]], iteration: int, *, courses: int
) -> dict[str, Any]:
    """What was measured with the best score: over Fair's cost, and by course in the order of ``trained``."""
    measured = next(line for line in metrics if line["iteration"] == iteration)
    return {
        "validation cost over fair's": measured["score/over_fair"],
        "courses": [measured[f"score/course_{number}"] for number in range(courses)],
    }
