"""`make train-stream-policies`: the policies that `stream_learning` and `stream_ablations` compare.

Networks learn from the same lessons, collected once by `make train-sure` (the preset `sure`; they lie in
`runs/sure-lessons`), for the same number of iterations, five times with other seeds. SURE and its rivals
differ in their encoder alone and learn from all six jobs; the variants of SURE's sampler learn from the two
small ones. The compact autoscaler needs no lessons: evolution finds its numbers with the presets
`sure-compact` and `sure-compact-longer`, but for those that count where arrivals are even, which it finds
then, with `sure-compact-even`. Of a training the last is kept, so that no days of validation choose for
anybody. What is there already is left alone. Trainings may go on from those of earlier ones, and differ from
the preset.

    make train-stream-policies ARGS="--names sure dream --seeds 0 --bundles runs/policies"
    make train-stream-policies ARGS="--names sure-compact --bundles runs/policies"
    make train-stream-policies ARGS="--start-from runs/policies --bundles runs/more --set lessons_rounds=1"
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.results import ROOT
from benchmarks.stream_ablations import JOBS, RANDOM, UNINFORMED, WHOLE
from benchmarks.stream_learning import COMPACT, OURS, RIVALS, SAMPLER
from benchmarks.stream_settings import BUNDLES, TRAINING_SEEDS
from trimtab.cli.terminal import change_of
from trimtab.core.bundle import Bundle, load_bundle
from trimtab.core.errors import TrimtabError
from trimtab.core.processes import Processes

LESSONS = ROOT / "runs" / "sure-lessons"
LONGER, EVEN = "sure-compact-longer", "sure-compact-even"
OTHER_DAYS = 100
"""Added to a seed, so that the same search practises on other stretches."""


@dataclass(frozen=True)
class Training:
    """One policy, and what it changes in the preset."""

    name: str
    seed: int
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def label(self) -> str:
        return f"{self.name}-{self.seed}"


def variants() -> dict[str, dict[str, Any]]:
    """What is trained, and what it changes in the preset `sure` (the compact one: in its own).

    >>> variants()["sure-sampler"]
    {'network.history_encoder': 'sampler'}
    """
    encoders = {OURS: "gru", SAMPLER: "sampler", **{name: name for name in RIVALS}}
    found: dict[str, dict[str, Any]] = {COMPACT: {}}
    found |= {name: {"network.history_encoder": encoder} for name, encoder in encoders.items()}
    parts: dict[str, dict[str, Any]] = {
        WHOLE: {},
        RANDOM: {"network.history_encoder": "random"},
        "small-full": {"network.history_encoder": "full"},
        "small-gru": {"network.history_encoder": "gru"},
        UNINFORMED: {"network.information_weight": 0.0},
        "small-k1-2": {"network.snapshots": 2},
        "small-k1-10": {"network.snapshots": 10},
        "small-k2-1": {"network.neighbours": 1},
        "small-k2-4": {"network.neighbours": 4},
    }
    small = {"network.history_encoder": "sampler", "jobs": list(JOBS)}
    return found | {name: small | changes for name, changes in parts.items()}


def train_one(
    training: Training,
    *,
    lessons: Path,
    bundles: Path,
    start_from: Path | None,
    changes: Mapping[str, Any],
) -> None:
    """Train, and say how long it took; `changes` go on top of what the training changes in the preset."""
    start = None if start_from is None else load_bundle(start_from / training.label)
    asked = {**training.changes, **changes, "training.seed": training.seed}
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        if training.name == COMPACT:
            made = _search(training.label, asked, Path(folder), start)
        else:
            made = _teach(training.label, asked | {"lessons_from": str(lessons)}, Path(folder), start)
        shutil.copytree(made, bundles / training.label)
    print(f"{training.label}: {time.perf_counter() - started:.0f} s", flush=True)


def _teach(name: str, asked: Mapping[str, Any], folder: Path, start: Bundle | None) -> Path:
    """A network of the preset `sure`."""
    from trimtab.stream_autoscaling.sure.task import load_preset
    from trimtab.stream_autoscaling.sure.training import train_sure

    usual = load_preset("sure", asked)
    last = {"training.validate_every": usual.training.iterations, "validation": 1}
    settings = load_preset("sure", {**asked, **last})
    return train_sure(settings, folder / "run", name=name, clock=lambda: datetime.now(UTC), start=start)


def _search(name: str, asked: Mapping[str, Any], folder: Path, start: Bundle | None) -> Path:
    """Numbers of the compact autoscaler, twice, and then those for even arrivals."""
    from trimtab.stream_autoscaling.sure.compact_task import PRESETS
    from trimtab.stream_autoscaling.sure.compact_training import COMPACT as SEARCH

    made, clock = folder, lambda: datetime.now(UTC)
    for preset, searched, seed in ((COMPACT, "uneven", 0), (LONGER, "uneven", OTHER_DAYS), (EVEN, "even", 0)):
        usual = PRESETS.load(preset, asked)
        last = {"training.validate_every": usual.training.iterations, "searched": searched}
        last["training.seed"] = asked["training.seed"] + seed
        settings = PRESETS.load(preset, {**asked, **last})
        made = SEARCH.train(settings, folder / preset, name=name, clock=clock, start=start)
        start = load_bundle(made)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    known = variants()
    parser = argparse.ArgumentParser(description="Train the policies of the benchmarks of autoscalers.")
    parser.add_argument("--names", nargs="+", choices=list(known), default=list(known))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(TRAINING_SEEDS)))
    parser.add_argument("--lessons", type=Path, default=LESSONS, help="folder of lessons")
    parser.add_argument("--bundles", type=Path, default=BUNDLES, help="folder of the trained policies")
    parser.add_argument("--start-from", type=Path, help="folder of policies of these names to go on from")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the preset")
    parser.add_argument("--at-once", type=int, default=1, help="how many are trained side by side")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a GPU is shared
    trainings = [Training(name, seed, known[name]) for seed in asked.seeds for name in asked.names]
    missing = [one for one in trainings if not (asked.bundles / one.label).is_dir()]
    if any(one.name != COMPACT for one in missing) and not asked.lessons.is_dir():
        sys.exit(f"error: {asked.lessons}: no lessons; `make train-sure` collects them, or give --lessons")
    try:
        train = partial(
            train_one,
            lessons=asked.lessons,
            bundles=asked.bundles,
            start_from=asked.start_from,
            changes=dict(map(change_of, asked.set)),
        )
        with Processes(asked.at_once) as share:
            share(train, missing)
    except TrimtabError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
