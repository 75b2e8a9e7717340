"""Train a learned autoscaler from settings to a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle, load_tensors, save_bundle, unflatten
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.learning.training import BEST, STATE, Progress, train
from trimtab.stream_autoscaling.sure.design import design_from
from trimtab.stream_autoscaling.sure.policy import make_bundle
from trimtab.stream_autoscaling.sure.task import SureSettings, SureTask

__all__ = ["ASKED_FOR", "bundle_of_run", "is_finished", "save_bundle_of_run", "train_sure"]

ASKED_FOR = "sure.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""


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
    task = SureTask(settings, start=start)
    texts = {ASKED_FOR: settings_as_toml(settings)}
    train(task, settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def is_finished(run: RunFolder, settings: SureSettings) -> bool:
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
        **{part: task[part] for part in ("jobs", "trace", "deployment", "teacher")},
        "iterations": len(metrics),
        "decisions": sum(line["decisions"] for line in metrics),
        "seconds": round(sum(line["seconds"] for line in metrics), 1),
        "processor": machine["processor"],
        "versions": machine["versions"],
    }
    scores = {
        "validation reward that the teacher has more": float(notes["score"]),
        "at iteration": int(notes["iteration"]),
        **_scores(metrics, int(notes["iteration"])),
    }
    design = design_from(task["design"])
    return make_bundle(name, unflatten(tensors), design, trained=trained, scores=scores)


def _scores(metrics: Sequence[Mapping[str, Any]], iteration: int) -> dict[str, float]:
    """What was measured together with the best score."""
    measured = next(line for line in metrics if line["iteration"] == iteration)
    prefix = "score/"
    return {key.removeprefix(prefix): value for key, value in measured.items() if key.startswith(prefix)}
