"""`make bench-dag-corrections`: what each correction of the published rules changes, one at a time.

Writes the table into docs/dag-scheduling.md. Each row starts from the compat rules and switches one
correction on; the last one has them all. The only bar: none of them may change mean JCT under Fair by
more than 10 %, or `default` would be another system rather than a corrected one.
"""

from __future__ import annotations

import numpy as np

from benchmarks.published_setting import published_batch
from benchmarks.results import ROOT, Row, finish
from trimtab.core.statistics import Estimate, paired_ratio
from trimtab.dag_scheduling.cluster import CORRECTIONS, Cluster
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator import simulate

SEEDS = range(1000, 1100)
POLICIES = ("fifo", "fair", "weighted-fair:alpha=-1", "capped-srpt:kappa=0.15,power=0.67")
BEGIN, END = "<!-- generated: corrections -->", "<!-- end -->"


def mean_jct_s(policy: str, corrections: tuple) -> np.ndarray:
    cluster = Cluster(executors=50, rules="compat", corrections=corrections)
    rule = make_policy(policy)
    return np.array([simulate(published_batch(s), rule, cluster, seed=s).jct_ms.mean() / 1e3 for s in SEEDS])


def table(effects: dict[str, dict[str, Estimate]]) -> str:
    lines = [
        f"Mean JCT relative to the compat rules, {len(SEEDS)} batches of 20 jobs, 50 executors, paired, "
        "with 95 % interval (`make bench-dag-corrections`):",
        "",
        "| correction | " + " | ".join(name.split(":")[0] for name in POLICIES) + " |",
        "|---|" + "---|" * len(POLICIES),
    ]
    for correction, by_policy in effects.items():
        cells = [f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]" for e in by_policy.values()]
        lines.append(f"| {correction} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    choices = {name: (name,) for name in CORRECTIONS} | {"all (default rules)": tuple(CORRECTIONS)}
    published = {policy: mean_jct_s(policy, ()) for policy in POLICIES}
    effects: dict[str, dict[str, Estimate]] = {}
    for name, corrections in choices.items():
        effects[name] = {
            policy: paired_ratio(mean_jct_s(policy, corrections), published[policy], seed=0)
            for policy in POLICIES
        }
    page = ROOT / "docs" / "dag-scheduling.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(effects)}\n{END}{rest.split(END, 1)[1]}")
    rows = [
        Row(f"{name}: Fair over compat", e.value, "0.9 to 1.1", 0.9 <= e.value <= 1.1, e.low, e.high)
        for name, by_policy in effects.items()
        for e in [by_policy["fair"]]
    ]
    finish("dag-corrections", rows)


if __name__ == "__main__":
    main()
