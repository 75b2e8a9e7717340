"""The numbers of docs/learning.md that stand beside intervals are those of the committed results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "docs" / "learning.md").read_text().splitlines()

GROUNDS = {
    "20 jobs at once": [
        ("decima-batch", "embedded: compact / best tuned capped SRPT"),
        ("decima-batch", "embedded: learned / best tuned capped SRPT"),
    ],
    "the same, public profile, trained on it": [
        ("decima-batch", "public profile: learned / best tuned capped SRPT"),
        ("decima-batch", "public profile: network / best tuned capped SRPT"),
    ],
    **{
        ground: [("decima-stream", f"{row}: {who} / best tuned rule") for who in ("learned", "network")]
        for ground, row in (
            ("streams at load 0.5", "load 0.50, 200 jobs"),
            ("at load 0.7", "load 0.70, 200 jobs"),
            ("at load 0.95", "load 0.95, 200 jobs"),
            ("1,000 jobs at load 0.85", "load 0.85, 1,000 jobs"),
        )
    },
    "an hour at 1.1 times capacity, over Fair": [
        ("decima-stream", f"an hour at 1.1 x capacity: {who} / Fair") for who in ("learned", "network")
    ],
    "the same, streams at load 0.5, 0.7": [
        ("decima-multi", f"multi-resource stream, load {load}: compact / best rule")
        for load in ("0.50", "0.70")
    ],
    "at load 0.85, 0.95": [
        ("decima-multi", f"multi-resource stream, load {load}: compact / best rule")
        for load in ("0.85", "0.95")
    ],
}


def told(results: str, name: str) -> str:
    """A row of results as the page writes it; names may go on with the rule that was best."""
    rows = json.loads((ROOT / "benchmarks" / "results" / f"{results}.json").read_text())["rows"]
    row = next(one for one in rows if one["name"] == name or one["name"].startswith(f"{name} ("))
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


@pytest.mark.parametrize("ground", GROUNDS)
def test_the_table_of_learned_schedulers_is_that_of_the_results(ground: str) -> None:
    (line,) = (line for line in LINES if line.startswith(f"| {ground} |"))
    shown = re.findall(r"[\d.]+ \[[\d.]+, [\d.]+\]", line)
    assert shown == [told(*one) for one in GROUNDS[ground]]


def test_how_long_a_compact_scheduler_takes_is_that_of_the_results() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "decima-serving.json").read_text())["rows"]
    found = next(one["value"] for one in rows if one["name"] == "compact, 20 jobs: ms a decision, p50")
    text = "\n".join(LINES)
    ((least, most),) = re.findall(r"\((\d+) to (\d+) ms with 20 jobs\)", text)
    assert int(least) <= found <= int(most)
