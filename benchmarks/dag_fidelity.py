"""`make bench-dag-fidelity`: the compat rules give the numbers measured in the published simulator."""

from __future__ import annotations

import numpy as np

from benchmarks.published_setting import CLUSTER, published_batch, published_stream
from benchmarks.results import Row, finish, near, within
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator import simulate

BATCH_SEEDS = range(1000, 1020)
STREAM_SEEDS = range(200)
"""Means over 30 streams still scatter by 3 %, the width of the bar; over 200 by 1 %."""
EXPECTED_BATCH_S = {
    "fifo": (230.0, 0.04),
    "fair": (91.8, 0.04),
    "sjf-cp": (158.0, 0.06),
    "weighted-fair:alpha=-1": (86.2, 0.04),
    "capped-srpt:kappa=0.15,power=0.67": (76.2, 0.05),
}
EXPECTED_STREAM_S = {25: 48.0, 18: 62.0, 15: 75.0}


def batch_rows() -> list[Row]:
    means = {}
    for name in EXPECTED_BATCH_S:
        policy = make_policy(name)
        episodes = [simulate(published_batch(s), policy, CLUSTER, seed=s) for s in BATCH_SEEDS]
        means[name] = float(np.mean([episode.jct_ms.mean() for episode in episodes])) / 1000
    rows = [
        near(f"batch, {name}, mean JCT (s)", means[name], *expected)
        for name, expected in EXPECTED_BATCH_S.items()
    ]
    rows.append(within("batch, FIFO / Fair", means["fifo"] / means["fair"], 2.4, 2.6))
    return rows


def stream_rows() -> list[Row]:
    rows = []
    fair, weighted = make_policy("fair"), make_policy("weighted-fair:alpha=-0.5")
    for gap_s, expected in EXPECTED_STREAM_S.items():
        totals = np.zeros(2)
        for seed in STREAM_SEEDS:
            workload = published_stream(seed, jobs=200, gap_s=gap_s)
            for place, policy in enumerate((fair, weighted)):
                totals[place] += simulate(workload, policy, CLUSTER, seed=seed).jct_ms.mean() / 1000
        fair_s, weighted_s = (totals / len(STREAM_SEEDS)).tolist()
        rows.append(near(f"stream, gap {gap_s} s, Fair, mean JCT (s)", fair_s, expected, 0.12))
        rows.append(
            within(f"stream, gap {gap_s} s, weighted fair -0.5 / Fair", weighted_s / fair_s, 0.87, 0.95)
        )
    return rows


if __name__ == "__main__":
    finish("dag-fidelity", batch_rows() + stream_rows())
