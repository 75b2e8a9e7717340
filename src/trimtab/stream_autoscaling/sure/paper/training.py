"""Train a policy of the published table from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.run_files import whole_settings
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress, train
from trimtab.stream_autoscaling.sure.design import design_from
from trimtab.stream_autoscaling.sure.paper.policy import make_paper_bundle
from trimtab.stream_autoscaling.sure.paper.task import PaperSettings, PaperTask

__all__ = ["ASKED_FOR", "SCORE", "paper_bundle_of_run", "train_paper"]

ASKED_FOR = "paper.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
SCORE = "minus the validation reward of an hour"


def train_paper(
    settings: PaperSettings,
    folder: str | Path,
    *,
    name: str,
    clock: Clock,
    progress: Progress | None = None,
    resume: bool = False,
) -> Path:
    """Train into a run folder and leave the best policy in its folder ``bundle``."""
    texts = whole_settings(ASKED_FOR, settings)
    train(PaperTask(settings), settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    run = RunFolder.open(folder, clock=clock)
    return save_bundle(run.path / "bundle", paper_bundle_of_run(run, name))


def paper_bundle_of_run(run: RunFolder, name: str) -> Bundle:
    """Pack the best checkpoint of a run with its history."""
    best = best_of_run(run)
    ground = {part: best.task[part] for part in ("jobs", "trace", "rules")}
    return make_paper_bundle(
        name,
        best.parameters,
        design_from(best.task["design"]),
        trained={**ground, **best.history},
        scores={SCORE: best.score, "at iteration": best.iteration, **best.measured},
    )
