"""`make bench-gpu-learning`: trained schedulers against every rule, on jobs of a later time.

Real tasks of Alibaba's PAI on 8, 10 and 13 machines of four GPUs: policies were trained on the first 70 % by
time, and everyone is judged on 120 sequences of 2,000 jobs of the rest (60 where jobs may be stopped, which
takes longer to play), the same for all. Nobody is told durations. The best rule of a table is the best on
these very sequences, with hindsight, out of all its settings listed here: what a rule tuned beforehand could
reach at most.

Without preemption, as in DAS (KDD'23), three training seeds of `das-gang` stand beside the rules; with it,
`das`. Both carry experience: what jobs of a name and size used to take in the first part of the trace. Rules
that are told durations predicted from finished jobs are a table of their own, and reported beside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
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
SEQUENCES, STOPPING_SEQUENCES, JOBS = range(90_000, 90_120), 60, 2_000
"""Drawn once everything was decided; those from 50,000, 70,000 and 80,000 on were looked at on the way, and
judge nothing. Where jobs may be stopped, the first so many are played."""
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
PATIENT_RULES = tuple(
    f"smallest+fast+patient:neighbours={n},tightness=0.3,least_speed={speed}"
    for n in (0, 2)
    for speed in (0.5, 0.55, 0.6, 0.65)
)
"""Ours, found on the way to what `das-gang` learned: a job waits for a place where it is fast enough."""
MOVING_RULES = tuple(
    f"las+fast:margin=0.25,min_run_s=60,neighbours=2,tightness=0.3,move_gain={gain}"
    for gain in (1.05, 1.1, 1.25)
)
"""Ours, too: a job that would be faster elsewhere is moved."""
FORETELLING_RULES = tuple(f"{order}+fast:{PLACED[5]}" for order in ("sjf", "qssf"))
FORETELLING_PREEMPTIVE_RULES = tuple(f"{order}+fast:min_run_s=60" for order in ("srtf", "srsf"))
BUNDLES = ROOT / "benchmarks" / "bundles"
GANG = tuple(str(BUNDLES / f"das-gang-pai-{seed}") for seed in (1, 2, 3))
PREEMPTIVE = str(BUNDLES / "das-pai")
JCT, FEE = 0, 1


@cache
def pai_file() -> str:
    folder = Path(tempfile.mkdtemp())
    save_workload(
        imported("gpu-jobs-csv", "alibaba_pai_v2020/pai_gpu_tasks_60k.csv.gz"), folder / "pai.workload"
    )
    return str(folder / "pai.workload")


def sequences(size: str, *, jobs: int = JOBS) -> list[Workload]:
    asked = WorkloadSettings(name=pai_file(), jobs=jobs, load=usual_load(size))
    gpus = float(find_cluster(size).machine_table.gpus.sum())
    return [draw_workload(asked, gpus=gpus, seed=seed, part="test") for seed in SEQUENCES]


def played(policy: str, workloads: Sequence[Workload], cluster: Cluster) -> np.ndarray:
    """[sequences, 2]: mean completion time (minutes) and fee (dollars)."""
    found = []
    for seed, workload in zip(SEQUENCES, workloads, strict=False):
        episode = simulate(workload, make_policy(policy), cluster, seed=seed)
        found.append((episode.jct_ms.mean() / 60_000, episode.fee.mean()))
    return np.array(found)


def ratio(ours: np.ndarray, theirs: np.ndarray, column: int = JCT) -> Estimate:
    return paired_ratio(ours[:, column], theirs[:, column], seed=0)


def row(name: str, found: Estimate, bar: float, *, sure: bool = False) -> Row:
    """`sure`: the interval must exclude 1 too."""
    holds = found.value <= bar and (found.high < 1 if sure else True)
    return Row(name, found.value, f"<= {bar:g}", holds, found.low, found.high)


def told(name: str, found: Estimate) -> Row:
    return Row(name, found.value, "none", True, found.low, found.high)


def of_size(size: str) -> list[Row]:
    every, cluster = sequences(size), find_cluster(size)
    foretold = cluster.model_copy(update={"information": "predicted"})
    rows = []
    for words, workloads, rules, trained, others in (
        ("without preemption", every, GANG_RULES, GANG, (PATIENT_RULES, FORETELLING_RULES)),
        (
            "with preemption",
            every[:STOPPING_SEQUENCES],
            PREEMPTIVE_RULES,
            (PREEMPTIVE,),
            (MOVING_RULES, FORETELLING_PREEMPTIVE_RULES),
        ),
    ):
        bar = 0.95 if size == "das-small" else 1.0
        best, theirs = best_of(rules, workloads, cluster)
        name = f"{size}: best rule {words}, JCT (min): {best}"
        rows.append(Row(name, float(theirs[:, JCT].mean()), "none", holds=True))
        ours_as_rules, foretelling = others
        beside = [best_of(ours_as_rules, workloads, cluster), best_of(foretelling, workloads, foretold)]
        for number, policy in enumerate(trained, start=1):
            ours = played(policy, workloads, cluster)
            name = f"{size}: {Path(policy).name.partition('-pai')[0]}"
            name += f", training seed {number}" if len(trained) > 1 else ""
            rows.append(row(f"{name}: JCT / best rule", ratio(ours, theirs), bar, sure=bar < 1))
            rows.append(row(f"{name}: fee / best rule", ratio(ours, theirs, FEE), 1.0))
            (rule, found), (informed, found_informed) = beside
            rows.append(row(f"{name}: JCT / {rule}", ratio(ours, found), 1.0))
            note = f"{informed}, which is told predicted durations"
            rows.append(told(f"{name}: JCT / {note}", ratio(ours, found_informed)))
    return rows


def best_of(rules: Sequence[str], workloads: Sequence[Workload], cluster: Cluster) -> tuple[str, np.ndarray]:
    """The rule with the least mean completion time, and what it did."""
    found = {name: played(name, workloads, cluster) for name in rules}
    best = min(rules, key=lambda name: found[name][:, JCT].mean())
    return best, found[best]


def transferred() -> list[Row]:
    """The same policy, without training again, on larger clusters and other traces."""
    rows = []
    traces = {
        "venus": ("gpu-jobs-csv", "helios_venus/helios_venus_gpu_jobs.csv.gz", 5_000),
        "openb": ("openb-2023", "alibaba_gpu_v2023_openb/openb_pod_list_default.csv.gz", 1_500),
    }
    for cluster_name, (source, path, jobs) in traces.items():
        file = Path(tempfile.mkdtemp()) / f"{cluster_name}.workload"
        save_workload(imported(source, path), file)
        cluster = find_cluster(cluster_name)
        asked = WorkloadSettings(name=str(file), jobs=jobs, arrivals="trace", most_gpus=64, shortest_s=0)
        gpus = float(cluster.machine_table.gpus.sum())
        workloads = [draw_workload(asked, gpus=gpus, seed=seed, part="test") for seed in SEQUENCES[:10]]
        rules = ("fifo+best-fit", *(f"{order}+fast:{PLACED[5]}" for order in ("smallest", "fifo")))
        best, theirs = best_of(rules, workloads, cluster)
        ours = played(GANG[0], workloads, cluster)
        rows.append(told(f"{cluster_name}, not trained again: das-gang: JCT / {best}", ratio(ours, theirs)))
    return rows


if __name__ == "__main__":
    finish("gpu-learning", [line for size in SIZES for line in of_size(size)] + transferred())
