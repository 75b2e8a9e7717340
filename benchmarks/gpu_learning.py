"""`make bench-gpu-learning`: trained schedulers against every rule, on jobs of a later time.

Real tasks of Alibaba's PAI on 8, 10 and 13 machines of four GPUs: policies were trained on the first 70 % by
time, and everyone is judged on the same sequences of 2,000 jobs of the rest: 120 of them, 300 on the larger
clusters, where differences are small, and fewer where a decision takes longer: 60 where jobs may be stopped
or networks are asked, 40 where meta-heuristics search, and 12 or 24 of 600 jobs for Gavel's linear programs.
Nobody is told durations. The best rule of a table is the best on these very sequences, with hindsight, out of
all its settings listed here: what a rule tuned beforehand could reach at most.

Without preemption, as in DAS (KDD'23), three training seeds of `das-gang` and the networks stand beside the
rules; with it, `das`. All carry experience: what jobs of a name and size used to take in the first part of
the trace. Rules that are told durations predicted from finished jobs are a table of their own, and reported
beside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.gpu_traces import imported
from benchmarks.results import ROOT, Row, finish
from trimtab.core.bundle import load_bundle
from trimtab.core.statistics import Estimate, paired_ratio
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.das.agent import das_agent
from trimtab.gpu_scheduling.das.network_policy import network_policy
from trimtab.gpu_scheduling.das.rollouts import Course, RolloutEnvironment
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import Workload, save_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload

SIZES = ("das-small", "das-medium", "das-large")
FIRST_SEED, JOBS = 150_000, 2_000
"""Drawn once everything was decided; those from 50,000, 70,000, 80,000, 90,000, 110,000, 130,000 and 140,000
on were looked at on the way, and judge nothing."""
SEQUENCES = {"das-small": 120, "das-medium": 300, "das-large": 300}
FEWER = 60
PLANNED = 40
"""So many of them are played where jobs may be stopped and by networks, and so many by meta-heuristics."""
SHORT, OF_SHORT = 600, {"das-small": 12, "das-medium": 24, "das-large": 24}
"""Jobs and number of the sequences that Gavel plays."""
PLACED = tuple(f"neighbours={n},tightness={t}" for n in (0, 2, 4) for t in (0, 0.15, 0.3))
GANG_RULES = (
    *(f"fifo+fast:{settings}" for settings in PLACED),
    *(f"smallest+fast:{settings}" for settings in PLACED),
    *(f"aged-smallest+fast:power={power},{settings}" for power in (0.1, 0.3) for settings in PLACED[1::3]),
    *(f"{order}+fast:{PLACED[5]}" for order in ("drf", "random", "largest")),
    *(f"{order}+{place}" for order in ("fifo", "smallest") for place in ("best-fit", "fgd", "load-balance")),
    *("fifo+first-fit", "smallest+first-fit", "tetris+tetris:shortness=0"),
)
PLANNERS = ("malo:fee_weight=0", "malo:assumed_s=600", "mosa:fee_weight=0", "mosa:chains=32,moves=15")
"""Meta-heuristics, which look ahead as if all jobs were equally long. These settings were the best of twelve
on sequences of the training part."""
PREEMPTIVE_RULES = (
    *(f"las+fast:margin={m},min_run_s={r}" for m in (0.25, 0.5, 1, 2) for r in (60, 300)),
    *(f"las+fast:margin={m},min_run_s=60,neighbours=0,tightness=0.1" for m in (0.25, 1)),
    *(f"tiresias+fast:threshold={t},margin=0.25,min_run_s=60" for t in (3_600, 18_000)),
    "las+best-fit:margin=0.25,min_run_s=60",
)
GAVEL = ("gavel",)
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
OF_SMALL, TRANSFERRED = str(BUNDLES / "das-gang-small"), "das-gang trained on das-small alone"
NETWORK = str(BUNDLES / "das-network-pai")
PREEMPTIVE = str(BUNDLES / "das-pai")
JCT, FEE = 0, 1


@cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for traces as workloads; it goes with the process."""
    return tempfile.TemporaryDirectory()


@cache
def workload_file(source: str, path: str) -> str:
    """A public trace as a workload file."""
    file = Path(scratch().name) / f"{Path(path).parent.name}.workload"
    save_workload(imported(source, path), file)
    return str(file)


def pai_file() -> str:
    return workload_file("gpu-jobs-csv", "alibaba_pai_v2020/pai_gpu_tasks_60k.csv.gz")


def drawn(size: str, seed: int, *, jobs: int = JOBS) -> Workload:
    asked = WorkloadSettings(name=pai_file(), jobs=jobs, load=usual_load(size))
    gpus = float(find_cluster(size).machine_table.gpus.sum())
    return draw_workload(asked, gpus=gpus, seed=seed, part="test")


def sequences(size: str, count: int, *, jobs: int = JOBS, first: int = FIRST_SEED) -> list[Workload]:
    return [drawn(size, seed, jobs=jobs) for seed in range(first, first + count)]


def played(policy: str, workloads: Sequence[Workload], cluster: Cluster) -> np.ndarray:
    """[sequences, 2]: mean completion time (minutes) and fee (dollars)."""
    found = []
    for seed, workload in enumerate(workloads, start=FIRST_SEED):
        episode = simulate(workload, make_policy(policy), cluster, seed=seed)
        found.append((episode.jct_ms.mean() / 60_000, episode.fee.mean()))
    return np.array(found)


def played_at_once(bundle: str, size: str, count: int) -> np.ndarray:
    """The same by networks, which answer in all sequences together."""
    policy, rule = network_policy(load_bundle(Path(bundle))), make_policy(GANG_RULES[0])
    assert isinstance(rule, Rule)
    playing = RolloutEnvironment(
        [Course(find_cluster(size), partial(drawn, size))],
        policy.design,
        size=count,
        rule=rule,
        experience=policy.experience,
        staggered=False,
    )
    best = jax.jit(das_agent(policy.design).best)
    playing.reset_to(range(FIRST_SEED, FIRST_SEED + count))
    while playing.going:
        playing.step(np.asarray(best(policy.parameters, playing.observe())))
    return playing.measured / (60_000, 1)


def ratio(ours: np.ndarray, theirs: np.ndarray, column: int = JCT) -> Estimate:
    return paired_ratio(ours[:, column], theirs[:, column], seed=0)


def row(name: str, found: Estimate, bar: float, *, sure: bool = False) -> Row:
    """`sure`: the interval must exclude 1 too."""
    holds = found.value <= bar and (found.high < 1 if sure else True)
    wanted = f"<= {bar:g}, interval < 1" if sure else f"<= {bar:g}"
    return Row(name, found.value, wanted, holds, found.low, found.high)


def told(name: str, found: Estimate) -> Row:
    return Row(name, found.value, "none", True, found.low, found.high)


class Table(NamedTuple):
    """Rules on some sequences of one cluster."""

    words: str
    best: str
    of_best: np.ndarray
    planned: dict[str, np.ndarray]  # the best of those that search for plans; they play fewer
    beside: dict[str, np.ndarray]  # the best of rules that are ours
    informed: dict[str, np.ndarray]  # and of those that are told predicted durations


def without_preemption(size: str) -> Table:
    workloads = sequences(size, SEQUENCES[size])
    found = table(size, "without preemption", workloads, GANG_RULES, PATIENT_RULES, FORETELLING_RULES)
    planned = dict([best_of(PLANNERS, workloads[:PLANNED], find_cluster(size))])
    return found._replace(planned=planned)


def with_preemption(size: str) -> Table:
    return table(
        size,
        "with preemption",
        sequences(size, FEWER),
        PREEMPTIVE_RULES,
        MOVING_RULES,
        FORETELLING_PREEMPTIVE_RULES,
    )


def table(
    size: str,
    words: str,
    workloads: Sequence[Workload],
    rules: Sequence[str],
    ours: Sequence[str],
    foretelling: Sequence[str],
) -> Table:
    cluster = find_cluster(size)
    foretold = cluster.model_copy(update={"information": "predicted"})
    best, of_best = best_of(rules, workloads, cluster)
    beside = dict([best_of(ours, workloads, cluster)])
    return Table(words, best, of_best, {}, beside, dict([best_of(foretelling, workloads, foretold)]))


def best_of(rules: Sequence[str], workloads: Sequence[Workload], cluster: Cluster) -> tuple[str, np.ndarray]:
    """The rule with the least mean completion time, and what it did."""
    found = {name: played(name, workloads, cluster) for name in rules}
    best = min(rules, key=lambda name: found[name][:, JCT].mean())
    return best, found[best]


def run_to_their_end(size: str) -> list[Row]:
    cluster, rules = find_cluster(size), without_preemption(size)
    every = sequences(size, SEQUENCES[size])
    rows = [told_best(size, rules)]
    for number, policy in enumerate(GANG, start=1):
        name = f"{size}: das-gang, training seed {number}"
        rows += judged(name, played(policy, every, cluster), rules, bar_of(size), sure=True)
    if size != SIZES[0]:
        ours = played(OF_SMALL, every, cluster)
        rows.append(told(f"{size}: {TRANSFERRED}: JCT / best rule", ratio(ours, rules.of_best)))
    return rows + judged(f"{size}: das-network", played_at_once(NETWORK, size, FEWER), rules, 1.0, sure=False)


def may_be_stopped(size: str) -> list[Row]:
    cluster, rules = find_cluster(size), with_preemption(size)
    ours = played(PREEMPTIVE, sequences(size, FEWER), cluster)
    return [told_best(size, rules), *judged(f"{size}: das", ours, rules, bar_of(size), sure=True)]


def beside_gavel(size: str) -> list[Row]:
    cluster, workloads = find_cluster(size), sequences(size, OF_SHORT[size], jobs=SHORT)
    name, theirs = best_of(GAVEL, workloads, cluster)
    return compared(f"{size}: das", name, played(PREEMPTIVE, workloads, cluster), theirs, 1.0, sure=False)


def bar_of(size: str) -> float:
    return 0.95 if size == "das-small" else 1.0


def told_best(size: str, rules: Table) -> Row:
    name = f"{size}: best rule {rules.words}, JCT (min): {rules.best}"
    return Row(name, float(rules.of_best[:, JCT].mean()), "none", holds=True)


def judged(name: str, ours: np.ndarray, rules: Table, bar: float, *, sure: bool) -> list[Row]:
    """Against the best rule, and beside others, on as many sequences as were played."""
    count = len(ours)
    rows = compared(name, "best rule", ours, rules.of_best[:count], bar, sure=sure)
    for planner, theirs in rules.planned.items():
        rows += compared(name, planner, ours[: len(theirs)], theirs, bar, sure=sure)
    rows += [
        row(f"{name}: JCT / {rule}", ratio(ours, theirs[:count]), 1.0)
        for rule, theirs in rules.beside.items()
    ]
    rows += [
        told(f"{name}: JCT / {rule}, which is told predicted durations", ratio(ours, theirs[:count]))
        for rule, theirs in rules.informed.items()
    ]
    return rows


def compared(
    name: str, other: str, ours: np.ndarray, theirs: np.ndarray, bar: float, *, sure: bool
) -> list[Row]:
    """Completion time and fee; `sure` is for the time alone."""
    return [
        row(f"{name}: JCT / {other}", ratio(ours, theirs), bar, sure=sure),
        row(f"{name}: fee / {other}", ratio(ours, theirs, FEE), 1.0),
    ]


def transferred() -> list[Row]:
    """The policy of the small cluster, without training again, on other clusters and traces."""
    rows = []
    traces = {
        "venus": ("gpu-jobs-csv", "helios_venus/helios_venus_gpu_jobs.csv.gz", 5_000),
        "openb": ("openb-2023", "alibaba_gpu_v2023_openb/openb_pod_list_default.csv.gz", 1_500),
    }
    for cluster_name, (source, path, jobs) in traces.items():
        file, cluster = workload_file(source, path), find_cluster(cluster_name)
        asked = WorkloadSettings(name=file, jobs=jobs, arrivals="trace", most_gpus=64, shortest_s=0)
        gpus = float(cluster.machine_table.gpus.sum())
        seeds = range(FIRST_SEED, FIRST_SEED + 10)
        workloads = [draw_workload(asked, gpus=gpus, seed=seed, part="test") for seed in seeds]
        rules = ("fifo+best-fit", *(f"{order}+fast:{PLACED[5]}" for order in ("smallest", "fifo")))
        best, theirs = best_of(rules, workloads, cluster)
        ours = played(OF_SMALL, workloads, cluster)
        rows.append(told(f"{cluster_name}: {TRANSFERRED}: JCT / {best}", ratio(ours, theirs)))
    return rows


if __name__ == "__main__":
    # Tables share nothing, so two are made at once; forked processes and JAX do not go together.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        tables = [
            pool.submit(rows_of, size)
            for rows_of in (run_to_their_end, may_be_stopped, beside_gavel)
            for size in SIZES
        ]
        tables.append(pool.submit(transferred))
        finish("gpu-learning", [line for one in tables for line in one.result()])
