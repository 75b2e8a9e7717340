"""A self-contained HTML report: one file, no network, works from a folder or an e-mail."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import trimtab
from trimtab.benchmark.report.content import (
    EstimateLike,
    Measured,
    Report,
    ReportColumn,
    ReportRow,
    ReportTable,
)
from trimtab.benchmark.report.dag_scheduling import dag_facts, dag_sections
from trimtab.benchmark.report.page import write_page
from trimtab.dag_scheduling.episode import Episode

__all__ = [
    "EstimateLike",
    "Measured",
    "Report",
    "ReportColumn",
    "ReportRow",
    "ReportTable",
    "write_page",
    "write_report",
]


def write_report(
    path: Path,
    *,
    title: str,
    table: ReportTable,
    episodes: Sequence[Episode],
    notes: Sequence[str],
    command: str,
    provenance: Mapping[str, str] | None = None,
) -> None:
    """Write a comparison of DAG schedulers as one HTML file.

    `provenance` adds what only the caller knows: date, commit, source of the workload.
    """
    versions = {
        "trimtab": trimtab.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
    }
    report = Report(
        title=title,
        table=table,
        sections=dag_sections(episodes),
        notes=notes,
        command=command,
        facts=dag_facts(episodes),
        provenance={**(provenance or {}), **versions},
    )
    write_page(path, report)
