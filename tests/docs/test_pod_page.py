"""The tables of rules in docs/pod-autoscaling.md are those of the code."""

from __future__ import annotations

import json
import re

from benchmarks.results import ROOT

from trimtab.pod_autoscaling.heuristics import Rule
from trimtab.pod_autoscaling.heuristics.oracle import Oracle
from trimtab.pod_autoscaling.policies import POLICIES, PREFIX, make_policy

MINUS = "\N{MINUS SIGN}"
PAGE = (ROOT / "docs" / "pod-autoscaling.md").read_text()


def rows_of(section: str) -> dict[str, str]:
    """The rows of its table, by the name in the first cell."""
    lines = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0].splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def test_every_rule_and_rival_has_its_row() -> None:
    names = {name.removeprefix(PREFIX) for name in POLICIES.names()}
    rules = {name for name in names if isinstance(make_policy(name), Rule)}
    assert set(rows_of("Rules")) | set(rows_of("Learned rivals")) == rules | {"Oracle"}


def test_usual_settings_are_those_of_the_code() -> None:
    told = 0
    for name, row in rows_of("Rules").items():
        usual = vars(Oracle()) if name == "Oracle" else make_policy(name).values
        for setting, value in re.findall(rf"`(\w+)` \(({MINUS}?[\d.]+)", row.split("|")[3]):
            assert float(value.replace(MINUS, "-")) == usual[setting], (name, setting)
            told += 1
    assert told > 30


def test_vectors_are_as_many_as_were_counted() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "pod-exact.json").read_text())
    counted = {row["name"]: row["value"] for row in results["rows"]}
    told = f"{counted['HPA: vectors']} of HPA and {counted['VPA updater: vectors']} of VPA's updater"
    assert told in PAGE
