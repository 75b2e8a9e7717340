"""Train the compact agents from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.gpu_scheduling.das.compact import compact_bundle
from trimtab.gpu_scheduling.das.task import DasSettings, DasTask, experience_of
from trimtab.learning.evolution import train_evolution
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress

__all__ = ["ASKED_FOR", "SCORE", "save_bundle_of_run", "train_das"]

ASKED_FOR = "das.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
SCORE = "completion time (times fee) over the rule's"
"""What a bundle's manifest calls the score of its run."""


def train_das(
    settings: DasSettings,
    folder: str | Path,
    *,
    name: str,
    clock: Clock,
    progress: Progress | None = None,
    resume: bool = False,
    start: Bundle | None = None,
) -> Path:
    """Train into a run folder and leave the best policy in its folder ``bundle``."""
    run = train_evolution(
        DasTask(settings, start=start),
        settings.training,
        folder,
        clock=clock,
        progress=progress,
        texts={ASKED_FOR: settings_as_toml(settings)},
        resume=resume,
    )
    return save_bundle_of_run(run, name)


def save_bundle_of_run(run: RunFolder, name: str) -> Path:
    """Leave the best policy so far in the run's folder ``bundle``."""
    best = best_of_run(run)
    bundle = compact_bundle(
        name,
        best.parameters["numbers"],
        experience_of(DasSettings.model_validate(best.task)),
        preemptive=bool(best.task["preemptive"]),
        trained={**best.task, **best.history},
        scores={SCORE: best.score, "at iteration": best.iteration, **best.measured},
    )
    return save_bundle(run.path / "bundle", bundle)
