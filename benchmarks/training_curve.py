"""Write the curve of a training run into benchmarks/results: how good after how many minutes.

    python -m benchmarks.training_curve decima-training-cpu runs/decima-cpu

Several runs, each begun from the one before, make one curve: their times add up.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT, write_result


def curve(run: Path, begun_minutes: float) -> list[dict[str, Any]]:
    """One row per iteration; minutes count from the making of the first run folder.

    Compiling the network is included; compiling the engine and starting each run (half a minute to a
    minute) came before the folder was made.
    """
    machine = json.loads((run / "machine.json").read_text())
    began = datetime.fromisoformat(machine["began"])
    rows = []
    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        passed = datetime.fromisoformat(line["time"]) - began
        rows.append(
            {
                "minutes": round(begun_minutes + passed.total_seconds() / 60, 3),
                "decisions_per_s": round(line["decisions_per_s"]),
                "score_over_best_rule": line.get("score"),
                "score_over_fair": line.get("score/over_fair"),
            }
        )
    return rows


def main() -> None:
    name, *runs = sys.argv[1:]
    if not runs:
        sys.exit("error: give a name and one or more run folders")
    rows: list[dict[str, Any]] = []
    for run in map(Path, runs):
        rows += curve(run, rows[-1]["minutes"] if rows else 0.0)
    machine = json.loads((Path(runs[0]) / "machine.json").read_text())
    content = {
        "command": "make train-decima-cpu" if name.endswith("cpu") else "trimtab train dag",
        "commit": machine["git_commit"],
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine,
        "rows": rows,
    }
    print(f"written to {write_result(name, content).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
