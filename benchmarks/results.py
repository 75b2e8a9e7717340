"""Rows of a benchmark: measured value, bar, and whether it holds; printed and kept as JSON."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.core.run_folder import machine_facts

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Row:
    """`low` and `high` are the 95 % interval of the value, where there is one."""

    name: str
    value: float
    bar: str
    holds: bool
    low: float | None = None
    high: float | None = None


def at_least(name: str, value: float, bar: float) -> Row:
    return Row(name, value, f">= {bar:g}", value >= bar)


def at_most(name: str, value: float, bar: float) -> Row:
    return Row(name, value, f"<= {bar:g}", value <= bar)


def within(name: str, value: float, low: float, high: float) -> Row:
    return Row(name, value, f"{low:g} to {high:g}", low <= value <= high)


def near(name: str, value: float, expected: float, tolerance: float) -> Row:
    """Within a share of the expected value."""
    return Row(name, value, f"{expected:g} ± {tolerance:.0%}", abs(value / expected - 1) <= tolerance)


def shared_data() -> Path:
    """Folder with outside traces, beside the checkout; acceptance needs it, the product does not."""
    folder = Path(os.environ.get("TRIMTAB_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"error: {folder} is missing; set TRIMTAB_SHARED_DATA to the folder with outside traces")
    return folder


def command_of(target: str, arguments: Sequence[str]) -> str:
    """What to type to get the same again: a trial must not pass for the whole.

    >>> command_of("pod-drift", []), command_of("pod-drift", ["--services", "4"])
    ('make bench-pod-drift', 'make bench-pod-drift ARGS="--services 4"')
    """
    told = f' ARGS="{shlex.join(arguments)}"' if arguments else ""
    return f"make bench-{target}{told}"


def write_result(topic: str, content: dict[str, Any]) -> Path:
    """Write `benchmarks/results/<topic>.json`, whole or not at all; null where a value is no number."""
    path = ROOT / "benchmarks" / "results" / f"{topic}.json"
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(_finite(content), indent=1, allow_nan=False) + "\n")
    partial.replace(path)
    return path


def _finite(content: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def finish(topic: str, rows: Sequence[Row], *, target: str = "") -> None:
    """Print the rows, write `benchmarks/results/<topic>.json`, exit non-zero when a bar is missed.

    `target` is what `make bench-` runs where that is not the topic.
    """
    if not rows:
        sys.exit(f"error: {topic} has measured nothing; its result is left as it was")
    facts = machine_facts()
    content = {
        "command": command_of(target or topic, sys.argv[1:]),
        "commit": facts.get("git_commit"),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": facts,
        "rows": [asdict(row) for row in rows],
    }
    path = write_result(topic, content)
    width = max(len(row.name) for row in rows)
    for row in rows:
        interval = f" [{row.low:.4g}, {row.high:.4g}]" if row.low is not None else ""
        verdict = "holds" if row.holds else "MISSED"
        print(f"{row.name:<{width}}  {row.value:>10.4g}{interval}  bar {row.bar:<14} {verdict}")
    print(f"written to {path.relative_to(ROOT)}")
    sys.exit(0 if all(row.holds for row in rows) else 1)
