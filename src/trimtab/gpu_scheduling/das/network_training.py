"""Train the network agents from settings to a bundle."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.gpu_scheduling.das.network_policy import network_bundle
from trimtab.gpu_scheduling.das.network_task import NetworkSettings, NetworkTask, experience_of
from trimtab.learning.run_files import whole_settings
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress, train

__all__ = ["ASKED_FOR", "SCORE", "save_bundle_of_run", "train_networks"]

ASKED_FOR = "das-network.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
SCORE = "completion time (times fee) over the rule's"
"""What a bundle's manifest calls the score of its run."""


def train_networks(
    settings: NetworkSettings,
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
    task = NetworkTask(settings, start=start)
    train(task, settings.training, folder, progress, clock=clock, resume=resume, texts=texts)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def save_bundle_of_run(run: RunFolder, name: str) -> Path:
    """Leave the best policy so far in the run's folder ``bundle``."""
    best = best_of_run(run)
    settings = NetworkSettings.model_validate(best.task["settings"])
    bundle = network_bundle(
        name,
        best.parameters,
        settings.design,
        trained={**best.task, **best.history},
        scores={SCORE: best.score, "at iteration": best.iteration, **best.measured},
        experience=experience_of(settings),
    )
    return save_bundle(run.path / "bundle", bundle)
