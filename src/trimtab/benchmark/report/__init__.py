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
    Section,
)
from trimtab.benchmark.report.page import write_page

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
    sections: Sequence[Section],
    facts: Mapping[str, str],
    notes: Sequence[str],
    command: str,
    provenance: Mapping[str, str] | None = None,
    other_tables: Sequence[ReportTable] = (),
) -> None:
    """Write a comparison as one HTML file.

    `facts` say what was played; `provenance` adds what only the caller knows: date, commit, source of
    the workload. `other_tables` are of what else was compared; sections and facts are of `table`.
    """
    versions = {
        "trimtab": trimtab.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
    }
    report = Report(
        title=title,
        table=table,
        sections=sections,
        notes=notes,
        command=command,
        other_tables=other_tables,
        facts=facts,
        provenance={**(provenance or {}), **versions},
    )
    write_page(path, report)
