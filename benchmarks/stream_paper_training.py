"""`python -m benchmarks.stream_paper_training`: train the policies that `make bench-stream-paper` plays.

Every name three times with other seeds, all with the preset `table-1` of `sure.paper` and the same number of
decisions; what is there already is left alone. Rivals differ in their encoder alone. Then SURE with our
weights of its lower bound, with other weights of latency (lambda) and with other sizes of subgraphs (k1
snapshots, k2 neighbours in each).

    python -m benchmarks.stream_paper_training --names sure dream --seeds 0
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.stream_settings import BUNDLES

PREFIX = "paper-"
SEEDS = 3
RIVALS = ("deepwave", "dream", "tvw-rl", "astgcn", "ccrnn")
LATENCY_WEIGHTS = (0.3, 0.5, 0.9)
"""Beside the usual 0.7."""
SIZES: Mapping[str, Mapping[str, int]] = {
    "k1-2": {"network.snapshots": 2},
    "k2-1": {"network.neighbours": 1},
}
"""Beside the usual 10 snapshots and 3 neighbours."""


OUR_WEIGHTS = {
    "network.divergence_weight": 1e-4,
    "network.surprise_weight": 1e-3,
    "network.volume_weight": 0.0,
    "network.information_weight": 1e-2,
}
"""Of the lower bound, as in the preset `sure-sampler`: the published ones outweigh the reward in so short a
training."""


def variants() -> dict[str, Mapping[str, Any]]:
    """What is trained, and what it changes in the preset."""
    found: dict[str, Mapping[str, Any]] = {"sure": {}}
    found |= {name: {"network.history_encoder": name} for name in RIVALS}
    found["sure-our-weights"] = OUR_WEIGHTS
    found |= {f"sure-lambda-{weight:g}": {"rules.latency_weight": weight} for weight in LATENCY_WEIGHTS}
    found |= {f"sure-{name}": size for name, size in SIZES.items()}
    return found


def train_one(name: str, changes: Mapping[str, Any], seed: int, bundles: Path) -> None:
    """Train unless it is there, and say how long it took."""
    from trimtab.stream_autoscaling.sure.paper.task import load_preset
    from trimtab.stream_autoscaling.sure.paper.training import train_paper

    label = f"{PREFIX}{name}-{seed}"
    if (bundles / label).is_dir():
        return
    settings = load_preset("table-1", {**changes, "training.seed": seed})
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        made = train_paper(settings, Path(folder) / "run", name=label, clock=lambda: datetime.now(UTC))
        shutil.copytree(made, bundles / label)
    print(f"{label}: {time.perf_counter() - started:.0f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    known = variants()
    parser = argparse.ArgumentParser(description="Train the policies of the published table.")
    parser.add_argument("--names", nargs="+", choices=list(known), default=list(known))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)))
    parser.add_argument("--bundles", type=Path, default=BUNDLES, help="folder of the trained policies")
    asked = parser.parse_args(arguments)
    for seed in asked.seeds:
        for name in asked.names:
            train_one(name, known[name], seed, asked.bundles)


if __name__ == "__main__":
    main()
