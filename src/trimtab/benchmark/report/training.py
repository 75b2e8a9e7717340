"""The course of a training in a report: what the policy costs, and how the learning went."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import trimtab
from trimtab.benchmark.report.content import (
    Curve,
    CurvesSection,
    Measured,
    Report,
    ReportColumn,
    ReportRow,
    ReportTable,
)
from trimtab.benchmark.report.page import write_page
from trimtab.core.errors import TrimtabError

__all__ = ["training_sections", "write_training_report"]

TEACHER = "teacher"
Metrics = Sequence[Mapping[str, Any]]

# name in the metrics -> heading, text, label, what to multiply by, digits
_MEASURES: dict[str, tuple[str, str, str, float, int]] = {
    "decisions_per_s": (
        "Speed of playing",
        "Decisions made per second while playing, learning not counted.",
        "thousand decisions/s",
        0.001,
        2,
    ),
    "entropy": (
        "How undecided the policy is",
        "Entropy of its choices. It falls as the policy makes up its mind; near 0 it tries nothing new.",
        "entropy",
        1.0,
        3,
    ),
    "kl": (
        "How far an iteration moves the policy",
        "Kullback-Leibler divergence between the policy before and after an iteration. Sudden peaks mean "
        "that the learning rate is too high.",
        "divergence",
        1.0,
        4,
    ),
    "explained_variance": (
        "How well the critic foretells",
        "Share of the variance of what came that the critic foretold; below 0 is drawn as 0.",
        "share explained",
        1.0,
        3,
    ),
}


def write_training_report(path: Path, metrics: Metrics, *, name: str, command: str) -> None:
    """Write the training curves of a run as one HTML file, from the lines of its metrics."""
    scores = [float(line["score"]) for line in metrics if line.get("score") is not None]
    if not scores:
        raise TrimtabError("no score in the metrics of this run yet; let it train further with --resume")
    best = min(scores)
    columns = [
        ReportColumn("score", "Cost over the teacher's", "×"),
        ReportColumn("last", "At the last look", "×"),
    ]
    last = scores[-1]
    rows = [
        ReportRow(name, [Measured(best, best, best), Measured(last, last, last)]),
        ReportRow(TEACHER, [Measured(1.0, 1.0, 1.0), Measured(1.0, 1.0, 1.0)]),
    ]
    report = Report(
        title=f"Training of {name}",
        table=ReportTable(
            columns, rows, "Validation workloads, the same for both; the best of all looks is kept."
        ),
        sections=training_sections(metrics, name=name),
        notes=[
            "The score is of validation workloads, by which the best parameters were picked. "
            "`trimtab compare` judges by workloads that nothing was picked by."
        ],
        command=command,
        facts={
            "Iterations": f"{metrics[-1]['iteration']:,}",
            "Decisions": f"{sum(line['decisions'] for line in metrics):,}",
            "Minutes": f"{_elapsed_s(metrics)[-1] / 60:.1f}",
        },
        provenance={
            "trimtab": trimtab.__version__,
            "Python": platform.python_version(),
            "numpy": np.__version__,
        },
    )
    write_page(path, report)


def training_sections(metrics: Metrics, *, name: str) -> list[CurvesSection]:
    """One chart for the score, with the teacher as a line at 1, and one for each other measure."""
    seconds = _elapsed_s(metrics)
    score = _curve(name, metrics, seconds, "score", 1.0)
    end = np.array([0, int(score.x[-1])])
    sections = [
        CurvesSection(
            key="score",
            heading="Cost against the teacher's",
            text="Mean cost on validation workloads over that of the teacher, the rule it began from. Below "
            "1 the policy is better.",
            x_label="time of training",
            y_label="cost over the teacher's",
            curves=[score, Curve(TEACHER, end, np.ones(2))],
            decimals=3,
        )
    ]
    for measure, (heading, text, label, factor, digits) in _MEASURES.items():
        if all(line.get(measure) is None for line in metrics):
            continue
        sections.append(
            CurvesSection(
                key=measure.replace("_", "-"),
                heading=heading,
                text=text,
                x_label="time of training",
                y_label=label,
                curves=[_curve(name, metrics, seconds, measure, factor)],
                decimals=digits,
            )
        )
    return sections


def _elapsed_s(metrics: Metrics) -> NDArray[np.float64]:
    """Time of training until the end of each iteration; pauses before --resume are not counted."""
    return np.cumsum([float(line["seconds"]) for line in metrics])


def _curve(name: str, metrics: Metrics, seconds: NDArray[np.float64], measure: str, factor: float) -> Curve:
    known = [place for place, line in enumerate(metrics) if line.get(measure) is not None]
    values = np.array([float(metrics[place][measure]) * factor for place in known])
    return Curve(name, np.rint(seconds[known] * 1000).astype(np.int64), np.maximum(values, 0.0))
