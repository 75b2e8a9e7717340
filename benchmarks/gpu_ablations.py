"""`make bench-gpu-ablations`: Table 1 of DAS (KDD'23) in our simulator, and what each part of it is worth.

Every scheduler of the table on the same 8 sequences of 600 later jobs of Alibaba's PAI, on 8, 10 and 13
machines of four GPUs. The paper's rules wait strictly for their first job. Its agents are trained here as
published (Gaussian scores, the paper's reward, nothing to begin from; some seven minutes, eight runs at once
on one GPU): the dual agents alone (DA), with communication (+MC), with the random-walk Gaussian process
(+RWGP), and with both. Heads and history are its figure 5; the usual here are 4 and 32. Beside them stand our
own agents without preemption: `das-network` and `das-gang`.
"""

from __future__ import annotations

import numpy as np

from benchmarks.gpu_learning import BUNDLES, FEE, played, ratio, sequences
from benchmarks.results import Row, finish
from trimtab.core.statistics import Estimate
from trimtab.gpu_scheduling.workload.clusters import find_cluster

JOBS, COUNT, FIRST_SEED = 600, 8, 110_000
FIRST = "fifo+first-fit+strict"
PAPER = {
    "FIFO-FirstFit": (FIRST, (720.2, 171.3, 110.3)),
    "FIFO-LoadBalance": ("fifo+load-balance+strict", (715.8, 162.1, 112.3)),
    "DRF-FirstFit": ("smallest+first-fit+strict", (862.2, 164.8, 109.1)),
    "DRF-LoadBalance": ("smallest+load-balance+strict", (853.0, 173.1, 113.6)),
    "Tetris": ("tetris+tetris+strict", (813.5, 176.7, 113.4)),
    "MALO": ("malo", (708.9, 182.9, 111.7)),
    "MOSA": ("mosa", (759.2, 173.4, 109.4)),
    "DL2": ("dl2", (721.1, 160.1, 110.2)),
    "RIFLING": ("rifling", (717.6, 176.7, 109.9)),
    "DA": (str(BUNDLES / "das-paper-da"), (697.7, 173.4, 108.8)),
    "DA+MC": (str(BUNDLES / "das-paper-mc"), (680.9, 163.5, 109.9)),
    "DA+RWGP": (str(BUNDLES / "das-paper-rwgp"), (686.9, 157.1, 107.9)),
    "DAS": ("das-paper", (638.0, 155.0, 108.7)),
}
"""Policy here, and the paper's minutes on small, medium and large."""
OURS = {
    "das-network": str(BUNDLES / "das-network-pai"),
    "das-gang": str(BUNDLES / "das-gang-pai-1"),
}
ABLATIONS = ("DA", "DA+MC", "DA+RWGP", "DAS")
SIZES = ("das-small", "das-medium", "das-large")
TUNED = {
    "heads": {heads: f"das-paper-heads-{heads}" for heads in (1, 2, 8)},
    "history": {history: f"das-paper-history-{history}" for history in (4, 8, 16, 64)},
}


def gained(found: Estimate) -> tuple[float, float, float]:
    """A ratio of completion times as what is saved, with its interval."""
    return 1 - found.value, 1 - found.high, 1 - found.low


def of_size(place: int) -> list[Row]:
    size = SIZES[place]
    workloads, cluster = sequences(size, COUNT, jobs=JOBS, first=FIRST_SEED), find_cluster(size)
    found = {words: played(policy, workloads, cluster) for words, (policy, _) in PAPER.items()}
    first = found["FIFO-FirstFit"]
    floor = 1 - PAPER["DAS"][1][place] / PAPER["FIFO-FirstFit"][1][place]
    rows = []
    for words, (_, minutes) in PAPER.items():
        theirs = 1 - minutes[place] / PAPER["FIFO-FirstFit"][1][place]
        value, low, high = gained(ratio(found[words], first))
        name = f"{size}: {words}: JCT saved over FIFO-FirstFit (paper {theirs:+.1%})"
        judged = words in ABLATIONS
        bar = f">= {floor:.3f}" if judged else "none"
        rows.append(Row(name, value, bar, value >= floor if judged else True, low, high))
    for words, policy in OURS.items():
        value, low, high = gained(ratio(played(policy, workloads, cluster), first))
        rows.append(Row(f"{size}: {words}: JCT saved over FIFO-FirstFit", value, "none", True, low, high))
    rows += [_part(f"{size}: {words}: JCT of DAS over it", found, words, place) for words in ABLATIONS[:-1]]
    fee = ratio(found["DAS"], first, FEE)
    rows.append(Row(f"{size}: DAS: fee over FIFO-FirstFit", fee.value, "none", True, fee.low, fee.high))
    return rows


def _part(name: str, found: dict[str, np.ndarray], words: str, place: int) -> Row:
    theirs = PAPER["DAS"][1][place] / PAPER[words][1][place]
    ours = ratio(found["DAS"], found[words])
    sure = ours.high < 1 if theirs < 1 else ours.low > 1
    again = "reproduced" if sure else "not reproduced"
    return Row(name, ours.value, f"none (paper {theirs:.3f}: {again})", True, ours.low, ours.high)


def tuned() -> list[Row]:
    """Other numbers of heads, and longer and shorter histories, on small: JCT over that of RIFLING."""
    workloads, cluster = sequences(SIZES[0], COUNT, jobs=JOBS, first=FIRST_SEED), find_cluster(SIZES[0])
    rival = played("rifling", workloads, cluster)
    policies = {"heads = 4, history = 32": "das-paper"}
    for what, bundles in TUNED.items():
        policies |= {f"{what} = {value}": str(BUNDLES / bundle) for value, bundle in bundles.items()}
    rows = []
    for words, policy in policies.items():
        found = ratio(played(policy, workloads, cluster), rival)
        name = f"das-paper, {words}: JCT over RIFLING"
        rows.append(Row(name, found.value, "none", True, found.low, found.high))
    return rows


if __name__ == "__main__":
    finish("gpu-ablations", [line for place in range(3) for line in of_size(place)] + tuned())
