"""What DAS (KDD'23) claims."""

from __future__ import annotations

from benchmarks.papers.claim import Claim

__all__ = ["CLAIMS", "HEADING"]

HEADING = """## DAS (KDD'23)

The paper's simulator, cluster sizes and prices are not published; ours are its three sizes as far as they can
be told, with later tasks of the same public trace. Its baselines wait strictly for their first job, so
whoever lets others go ahead saves far more than the paper's 11 %. *JCT* is the mean completion time."""

CLAIMS = (
    Claim(
        "Small cluster: lower job completion time than FIFO-FirstFit and the other baselines of its table",
        "11.4 % less than FIFO-FirstFit",
        "gpu-ablations",
        (
            *(f"das-small: {name}:" for name in ("DAS", "MALO", "MOSA", "DL2", "RIFLING")),
            *(f"das-small: {name}:" for name in ("DRF-FirstFit", "DRF-LoadBalance", "Tetris")),
        ),
    ),
    Claim(
        "Medium cluster: the same",
        "9.5 % less than FIFO-FirstFit",
        "gpu-ablations",
        tuple(f"das-medium: {name}:" for name in ("DAS", "MALO", "MOSA", "DL2", "RIFLING")),
    ),
    Claim(
        "Large cluster: the same",
        "1.5 % less than FIFO-FirstFit",
        "gpu-ablations",
        tuple(f"das-large: {name}:" for name in ("DAS", "MALO", "MOSA", "DL2", "RIFLING")),
    ),
    Claim(
        "The dual agents alone, with communication, and with the random-walk Gaussian process gain, too",
        "small 3.1 %, 5.5 %, 4.6 %",
        "gpu-ablations",
        tuple(
            f"{size}: {name}: JCT saved"
            for size in ("das-small", "das-medium", "das-large")
            for name in ("DA", "DA+MC", "DA+RWGP")
        ),
    ),
    Claim(
        "Each part is worth something: DAS is better than without it",
        "small 8.6 %, 6.3 %, 7.1 % better than DA, DA+MC, DA+RWGP",
        "gpu-ablations",
        tuple(
            f"{size}: {name}: JCT of DAS over it"
            for size in ("das-small", "das-medium", "das-large")
            for name in ("DA", "DA+MC", "DA+RWGP")
        ),
    ),
    Claim(
        "Better than RIFLING for every number of heads and length of history",
        "shown as a figure",
        "gpu-ablations",
        ("das-paper, ",),
    ),
    Claim(
        "Case study: the gate tells the order of the cluster; the process finds machines alike, and crowds",
        "shown as a figure",
        "gpu-case-study",
        ("order", "similarity", "crowded"),
    ),
    Claim(
        "Ours against the best rules in hindsight: by priority, meta-heuristics, linear programs",
        "no number",
        "gpu-learning",
        tuple(f"{size}: das" for size in ("das-small", "das-medium", "das-large")),
    ),
    Claim(
        "On other clusters and traces without training again",
        "no number",
        "gpu-learning",
        ("venus", "openb"),
    ),
    Claim(
        "Decisions are quick enough to serve",
        "no number",
        "gpu-gp",
        ("DAS, whole decision",),
    ),
)
"""Paper's numbers: the talk on DAS (KDD'23), its Table 1."""
