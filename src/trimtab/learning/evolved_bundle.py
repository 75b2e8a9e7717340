"""From settings to a bundle by evolution: the same steps for every wing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.evolution import train_evolution
from trimtab.learning.run_files import whole_settings
from trimtab.learning.runs import BestOfRun, best_of_run
from trimtab.learning.training import Progress

__all__ = ["EvolvedBundle"]


@dataclass(frozen=True)
class EvolvedBundle:
    """What a wing evolves, and how it packs what was found."""

    task: Callable[..., Any]
    """Makes the task of some settings: `task(settings, start=bundle or None)`."""
    pack: Callable[..., Bundle]
    """`pack(name, best, trained=..., scores=...)`, where `best` is what the run kept."""
    asked_for: str
    """The file in a run folder with the whole settings; `settings.toml` has those of the algorithm alone."""
    score: str
    """What a manifest calls the score of its run."""

    def train(
        self,
        settings: Any,
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
            self.task(settings, start=start),
            settings.training,
            folder,
            clock=clock,
            progress=progress,
            texts=whole_settings(self.asked_for, settings, start),
            resume=resume,
        )
        return self.save_bundle_of_run(run, name)

    def save_bundle_of_run(self, run: RunFolder, name: str) -> Path:
        """Leave the best policy so far in the run's folder ``bundle``."""
        best: BestOfRun = best_of_run(run)
        bundle = self.pack(
            name,
            best,
            trained={**best.task, **best.history},
            scores={self.score: best.score, "at iteration": best.iteration, **best.measured},
        )
        return save_bundle(run.path / "bundle", bundle)
