"""What README.md counts is there to be counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUNDLES = ROOT / "src" / "trimtab" / "dag_scheduling" / "decima" / "bundles"
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def test_the_trained_schedulers_that_are_shipped_are_counted_right() -> None:
    kinds = Counter(json.loads(path.read_text())["kind"] for path in BUNDLES.glob("*/manifest.json"))
    told = re.search(
        r"(\w+) trained schedulers of DAG jobs come with trimtab, (\w+) networks and (\w+) compact ones",
        (ROOT / "README.md").read_text(),
    )
    assert told is not None
    counted = (kinds.total(), kinds["decima"], kinds["decima-compact"])
    assert [word.lower() for word in told.groups()] == [NUMBERS[number] for number in counted]
