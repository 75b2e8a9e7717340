"""`make bench-decima-speed`: how fast training is, read from what was measured where it was trained.

Two training runs, `decima-training-h200.json` on one H200 and `decima-training-cpu.json` on two CPU cores
(`make train-decima-cpu`), and `decima-rollouts-gpu.json` (`make bench-decima-rollouts` on the H200). This
command judges them; it does not train.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from benchmarks.decima_settings import finish_after, reported
from benchmarks.results import ROOT, Row, at_least

RESULTS = ROOT / "benchmarks" / "results"


def recorded(name: str) -> list[dict[str, Any]]:
    """The rows of a committed result."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        sys.exit(f"error: {path.relative_to(ROOT)} is missing; measure it where it belongs, and commit it")
    return json.loads(path.read_text())["rows"]


def curve(name: str) -> list[dict[str, Any]]:
    """The rows of a training run, in the order of time."""
    return sorted(recorded(name), key=lambda row: row["minutes"])


def first_below_one(rows: list[dict[str, Any]], measure: str) -> float | None:
    """Minutes after which a score is below 1 and stays there; None if it never does.

    >>> first_below_one([{"minutes": 1, "s": 0.9}, {"minutes": 2, "s": 1.1}, {"minutes": 3, "s": 0.8}], "s")
    3
    """
    passed = None
    for row in rows:
        if row.get(measure) is None:
            continue  # not validated in this iteration
        if row[measure] >= 1:
            passed = None
        elif passed is None:
            passed = row["minutes"]
    return passed


def passed_row(name: str, rows: list[dict[str, Any]], measure: str, most_minutes: float) -> Row:
    """Minutes until a score is past 1; the whole length of the run, and a miss, if it never is."""
    minutes = first_below_one(rows, measure)
    bar = f"<= {most_minutes:g}"
    if minutes is None:
        return Row(f"{name}: not passed in all these minutes", rows[-1]["minutes"], bar, False)
    return Row(f"{name} (minutes)", minutes, bar, minutes <= most_minutes)


def main() -> None:
    started = time.perf_counter()
    gpu, cpu = curve("decima-training-h200"), curve("decima-training-cpu")
    rates = [row["decisions_per_s"] for row in gpu if row.get("decisions_per_s") is not None]
    rollouts = recorded("decima-rollouts-gpu")[0]["value"]
    rows = [
        at_least("one H200: decisions per second in rollouts", rollouts, 0.5e6),
        reported("one H200: decisions per second with looking ahead, median", float(np.median(rates))),
        passed_row("one H200: past Fair", gpu, "score_over_fair", 2),
        passed_row("one H200: past every tuned rule", gpu, "score_over_best_rule", 30),
        passed_row("two CPU cores: past Fair", cpu, "score_over_fair", 60),
    ]
    finish_after("decima-speed", rows, started)


if __name__ == "__main__":
    main()
