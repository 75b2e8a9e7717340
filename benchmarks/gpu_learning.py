"""`make bench-gpu-learning`: trained schedulers against every rule, on jobs of a later time.

Real tasks of Alibaba's PAI (the last 30 % by time) on 8, 10 and 13 machines of four GPUs, 20 sequences of
2,000 jobs each, the same for all. Nobody knows durations. The best rule of a table is the best on these very
sequences, with hindsight, out of all its settings listed here: what a rule tuned beforehand could reach at
most.

Without preemption, as in DAS (KDD'23), three training seeds of `das-gang` stand beside the rules; with it,
`das`.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.gpu_traces import imported
from benchmarks.results import ROOT, Row, finish
from trimtab.core.statistics import Estimate, paired_ratio
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import Workload, save_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload

SIZES = ("das-small", "das-medium", "das-large")
SEQUENCES, JOBS = range(50_000, 50_020), 2_000
PLACED = tuple(f"neighbours={n},tightness={t}" for n in (0, 2, 4) for t in (0, 0.15, 0.3))
GANG_RULES = (
    *(f"fifo+fast:{settings}" for settings in PLACED),
    *(f"smallest+fast:{settings}" for settings in PLACED),
    *(f"aged-smallest+fast:power={power},{settings}" for power in (0.1, 0.3) for settings in PLACED[1::3]),
    "fifo+best-fit",
)
PREEMPTIVE_RULES = (
    *(f"las+fast:margin={m},min_run_s={r}" for m in (0.25, 0.5, 1, 2) for r in (60, 300)),
    *(f"las+fast:margin={m},min_run_s=60,neighbours=0,tightness=0.1" for m in (0.25, 1)),
)
PAPER_RULES = {
    "FIFO-FirstFit": "fifo+first-fit+strict",
    "FIFO-LoadBalance": "fifo+load-balance+strict",
    "DRF-FirstFit": "smallest+first-fit+strict",
    "DRF-LoadBalance": "smallest+load-balance+strict",
    "Tetris": "tetris+tetris+strict",
}
PAPER_GAINS = {"das-small": 0.114, "das-medium": 0.095, "das-large": 0.015}
"""What the paper's DAS gains over FIFO-FirstFit in completion time."""
SEEDS = ("das-gang", *(str(ROOT / "benchmarks" / "bundles" / f"das-gang-{seed}") for seed in (1, 3)))
JCT, FEE = 0, 1


@cache
def pai_file() -> str:
    folder = Path(tempfile.mkdtemp())
    save_workload(
        imported("gpu-jobs-csv", "alibaba_pai_v2020/pai_gpu_tasks_60k.csv.gz"), folder / "pai.workload"
    )
    return str(folder / "pai.workload")


def sequences(size: str) -> list[Workload]:
    asked = WorkloadSettings(name=pai_file(), jobs=JOBS, load=usual_load(size))
    gpus = float(find_cluster(size).machine_table.gpus.sum())
    return [draw_workload(asked, gpus=gpus, seed=seed, part="test") for seed in SEQUENCES]


def played(policy: str, workloads: list[Workload], cluster: Cluster) -> np.ndarray:
    """[sequences, 2]: mean completion time (minutes) and fee (dollars)."""
    found = []
    for seed, workload in zip(SEQUENCES, workloads, strict=False):
        episode = simulate(workload, make_policy(policy), cluster, seed=seed)
        found.append((episode.jct_ms.mean() / 60_000, episode.fee.mean()))
    return np.array(found)


def row(name: str, ratio: Estimate, bar: float, *, sure: bool = False) -> Row:
    """`sure`: the interval must exclude 1 too."""
    holds = ratio.value <= bar and (ratio.high < 1 if sure else True)
    return Row(name, ratio.value, f"<= {bar:g}", holds, ratio.low, ratio.high)


def _ratio(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    return paired_ratio(ours, theirs, seed=0)


def told(name: str, value: float) -> Row:
    return Row(name, value, "reported", holds=True)


def of_size(size: str) -> list[Row]:
    workloads, cluster = sequences(size), find_cluster(size)
    found = {name: played(name, workloads, cluster) for name in (*GANG_RULES, *PREEMPTIVE_RULES)}
    rows = []

    def best_of(rules: tuple[str, ...]) -> str:
        return min(rules, key=lambda name: found[name][:, JCT].mean())

    gang, preemptive = best_of(GANG_RULES), best_of(PREEMPTIVE_RULES)
    bar = 0.95 if size == "das-small" else 1.0
    rows.append(told(f"{size}: best rule without preemption, JCT (min): {gang}", found[gang][:, JCT].mean()))
    trained = [played(seed, workloads, cluster) for seed in SEEDS]
    for number, ours in enumerate(trained, start=1):
        name = f"{size}: das-gang, training seed {number}"
        rows.append(row(f"{name}: JCT / it", _ratio(ours[:, JCT], found[gang][:, JCT]), bar, sure=bar < 1))
        rows.append(row(f"{name}: fee / it", _ratio(ours[:, FEE], found[gang][:, FEE]), 1.0))
    rows.append(
        told(f"{size}: best rule with preemption, JCT (min): {preemptive}", found[preemptive][:, JCT].mean())
    )
    ours = played("das", workloads, cluster)
    rows.append(
        row(f"{size}: das: JCT / it", _ratio(ours[:, JCT], found[preemptive][:, JCT]), bar, sure=bar < 1)
    )
    rows.append(row(f"{size}: das: fee / it", _ratio(ours[:, FEE], found[preemptive][:, FEE]), 1.0))
    for words, rule in PAPER_RULES.items():
        theirs = played(rule, workloads, cluster)
        rows.append(told(f"{size}: {words} of the paper, JCT (min)", theirs[:, JCT].mean()))
        if words == "FIFO-FirstFit":
            floor = round(1 - PAPER_GAINS[size], 4)
            rows.append(
                row(
                    f"{size}: das-gang: JCT / FIFO-FirstFit",
                    _ratio(trained[0][:, JCT], theirs[:, JCT]),
                    floor,
                )
            )
    return rows


def transferred() -> list[Row]:
    """The same policy, without training again, on a cluster 30 times as large and another trace."""
    venus = imported("gpu-jobs-csv", "helios_venus/helios_venus_gpu_jobs.csv.gz")
    folder = Path(tempfile.mkdtemp())
    save_workload(venus, folder / "venus.workload")
    asked = WorkloadSettings(
        name=str(folder / "venus.workload"), jobs=5_000, arrivals="trace", most_gpus=64, shortest_s=0
    )
    cluster = find_cluster("venus")
    workloads = [draw_workload(asked, gpus=1072.0, seed=seed, part="test") for seed in SEQUENCES[:10]]
    rules = (
        "fifo+best-fit",
        "smallest+fast:neighbours=2,tightness=0.3",
        "fifo+fast:neighbours=2,tightness=0.3",
    )
    found = {name: played(name, workloads, cluster) for name in rules}
    best = min(rules, key=lambda name: found[name][:, JCT].mean())
    ratio = _ratio(played("das-gang", workloads, cluster)[:, JCT], found[best][:, JCT])
    return [
        Row(
            f"venus, not trained again: das-gang: JCT / {best}",
            ratio.value,
            "reported",
            True,
            ratio.low,
            ratio.high,
        )
    ]


if __name__ == "__main__":
    finish("gpu-learning", [line for size in SIZES for line in of_size(size)] + transferred())
