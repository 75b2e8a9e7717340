"""Train the compact scheduler from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.dag_scheduling.decima.compact import compact_bundle
from trimtab.dag_scheduling.decima.compact_task import CompactSettings, CompactTask
from trimtab.learning.evolution import train_evolution
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress

__all__ = ["ASKED_FOR", "SCORE", "save_bundle_of_run", "train_compact"]

ASKED_FOR = "compact.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
SCORE = "validation cost over the rule's"
"""What a bundle's manifest calls the score of its run."""


def train_compact(
    settings: CompactSettings,
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
        CompactTask(settings, start=start),
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
        trained={**best.task, **best.history},
        scores={SCORE: best.score, "at iteration": best.iteration, **best.measured},
    )
    return save_bundle(run.path / "bundle", bundle)
