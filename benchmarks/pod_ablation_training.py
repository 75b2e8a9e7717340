"""`make train-pod-ablations`: the learners that `pod_ablations` compares, each trained three times.

All begin from the presets ``meta`` and ``pooled`` of AWARE's experiment and differ from them, and from each
other, in one thing. Budget (122,880 decisions), services, luck and the seeds of the trainings are the same
for all. Of a run the best by validation is kept, as everywhere. Critics stay behind: nobody goes on learning
here. What is there already is left alone.

    make train-pod-ablations ARGS="--variants features --seeds 1"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.decima_settings import BUNDLES
from benchmarks.results import ROOT
from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import TrimtabError
from trimtab.learning.agent import Parameters
from trimtab.pod_autoscaling.aware.adaptation_arms import ARMS, Arm, load_arm, pre_trained
from trimtab.pod_autoscaling.aware.task import AwareSettings

FOLDER = BUNDLES / "pod-ablations"
TRAININGS = 3
WEIGHTS = (0.1, 0.3, 0.5)
USUAL_WEIGHT = 0.3


@dataclass(frozen=True)
class Variant:
    """A learner, and the one thing in which it differs from the preset it is trained by."""

    name: str
    words: str
    arm: Arm
    changes: dict[str, Any] = field(default_factory=dict[str, Any])

    def folder(self, seed: int) -> Path:
        """Where the bundle of one training lies."""
        return FOLDER / f"{self.name}-{seed}"


def weighted(weight: float) -> str:
    """The name of the learner without a context that is paid with this weight of utilisation."""
    return "none" if weight == USUAL_WEIGHT else f"none-{weight:g}"


VARIANTS = {
    one.name: one
    for one in (
        Variant("gru", "context read over time", ARMS["meta"]),
        Variant(
            "bidirectional",
            "window read over time",
            ARMS["meta"],
            {"training.context": "bidirectional"},
        ),
        Variant(
            "features",
            "window read over features",
            ARMS["meta"],
            {"training.context": "features"},
        ),
        Variant("none", "no context", ARMS["pooled"]),
        *(
            Variant(
                weighted(weight),
                f"no context, weight {weight:g}",
                ARMS["pooled"],
                {"deployment.objective.utilisation_weight": weight},
            )
            for weight in WEIGHTS
            if weight != USUAL_WEIGHT
        ),
    )
}
"""``features`` differs from ``bidirectional`` in the axis alone: it is what AWARE's released code does."""


def trained(variant: Variant, seed: int, folder: Path, changes: dict[str, Any] | None = None) -> Bundle:
    """Train one, and keep what acts."""

    def told(done: int, total: int, score: float | None, pace: float, left_s: float) -> None:
        if score is not None:
            print(f"{variant.name}-{seed}: {done} of {total}: mean reward {-score:.4f}", flush=True)

    asked = {**variant.changes, "seed": seed, **(changes or {})}
    whole = pre_trained(variant.arm, folder, clock=lambda: datetime.now(UTC), changes=asked, progress=told)
    acting = {key: one for key, one in whole.tensors.items() if not key.startswith("critics")}
    return replace(whole, name=f"{variant.name}-{seed}", tensors=acting)


def loaded(variant: Variant, seed: int) -> tuple[Parameters, AwareSettings]:
    """What one training came to; the first that is missing ends the benchmark before anything is played."""
    try:
        return load_arm(variant.folder(seed), variant.arm)
    except TrimtabError as missing:
        sys.exit(f"error: {str(missing).replace(f'{ROOT}/', '')}; make train-pod-ablations writes it")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train the learners of `make bench-pod-ablations`.")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(TRAININGS)))
    asked = parser.parse_args(arguments)
    for seed in asked.seeds:
        for variant in (VARIANTS[name] for name in asked.variants):
            if variant.folder(seed).exists():
                continue
            with TemporaryDirectory() as folder:
                bundle = trained(variant, seed, Path(folder) / "run")
            print(f"written to {save_bundle(variant.folder(seed), bundle).relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    main()
