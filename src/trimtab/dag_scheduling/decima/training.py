"""Train Decima from settings to a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle, load_tensors, save_bundle, unflatten
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.dag_scheduling.decima.network import Design
from trimtab.dag_scheduling.decima.policy import make_bundle
from trimtab.dag_scheduling.decima.task import DecimaSettings, DecimaTask
from trimtab.learning.training import BEST, Progress, train

__all__ = ["bundle_of_run", "train_decima"]

ASKED_FOR = "decima.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""


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
    run = RunFolder.open(folder, clock=clock)
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
    }
    return make_bundle(
        name,
        unflatten(tensors),
        Design(**task["design"]),
        most_executors=task["most_executors"],
        trained=trained,
        scores=scores,
    )
