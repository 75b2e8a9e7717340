"""The table of docs/guard.md is that of the committed results."""

from __future__ import annotations

import json

from benchmarks.pod_guard import BEGIN, END, PAGE, table_of
from benchmarks.results import ROOT


def test_the_table_of_the_guard_is_in_step_with_its_results() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "pod-guard.json").read_text())
    shown = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert shown == table_of(results["rows"])
