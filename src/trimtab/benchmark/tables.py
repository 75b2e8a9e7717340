"""The result of a comparison as a table: for the terminal, as Markdown, as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from trimtab.benchmark.compare import Comparison, Row, ScenarioResult
from trimtab.benchmark.report.content import Measured, ReportRow, ReportTable
from trimtab.core.statistics import Estimate

__all__ = [
    "as_plain",
    "markdown",
    "report_table",
    "table_width",
    "terminal_table",
]

BEST, TIED = "★", "≈"
LEAST_COLUMNS = 2
"""Beside the policy, however narrow a terminal is."""
MOST_CHARACTERS = 100_000
"""More than any table has in a line."""
LEGEND = (
    f"{BEST} best, {TIED} cannot be told from the best; [95 % interval]; every policy met the same "
    "jobs and luck."
)


def terminal_table(comparison: Comparison, result: ScenarioResult, *, width: int | None = None) -> Table:
    """A table for rich; the best policy is bold and marked. None: as wide as it likes.

    A narrow terminal gets fewer columns, and is told so, then names of policies in several lines; no number
    is cut.
    """
    columns = len(comparison.suite.wing.columns(comparison))
    table = _table(comparison, result, columns)
    while width is not None and columns > LEAST_COLUMNS and table_width(table) > width:
        columns -= 1
        table = _table(comparison, result, columns)
    return table


def table_width(table: Table) -> int:
    """Characters that a table takes if nothing in it is cut or folded.

    >>> table_width(Table("policy", "mean JCT, s"))
    24
    """
    console = Console(width=MOST_CHARACTERS)
    return console.measure(table).maximum


def _table(comparison: Comparison, result: ScenarioResult, most_columns: int) -> Table:
    wing = comparison.suite.wing
    columns = wing.columns(comparison)
    without = ", ".join(column.heading for column in columns[most_columns:])
    table = Table(
        title=wing.caption(comparison, result),
        caption=LEGEND + (f" No room here for: {without} (a wider terminal shows them)." if without else ""),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("policy", overflow="fold")
    columns = columns[:most_columns]
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for row in result.rows:
        style = "bold" if row is result.best else None
        cells = [f"{_mark(result, row)} {row.policy}", *(c.cell(row) for c in columns)]
        table.add_row(*(cell.replace("[", "\\[") for cell in cells), style=style)
    return table


def markdown(comparison: Comparison) -> str:
    """A Markdown table per scenario, with what was played above and the legend below."""
    wing = comparison.suite.wing
    columns = wing.columns(comparison)
    parts: list[str] = []
    for result in comparison.results:
        heads = ["policy", *(column.heading for column in columns)]
        rule = ["---", *("---:" for _ in columns)]
        rows = [
            [f"{_mark(result, row)} {row.policy}".strip(), *(c.cell(row) for c in columns)]
            for row in result.rows
        ]
        lines = ["| " + " | ".join(cells) + " |" for cells in [heads, rule, *rows]]
        parts.append(f"{wing.caption(comparison, result)}\n\n" + "\n".join(lines))
    return "\n\n".join([*parts, LEGEND, *comparison.notes]) + "\n"


def as_plain(comparison: Comparison, *, episodes: bool = True) -> dict[str, Any]:
    """All numbers as plain values; with `episodes`, the metrics of every single one."""
    return {
        "suite": comparison.name,
        "settings": comparison.suite.model_dump(mode="json"),
        "baseline": comparison.baseline,
        "measures": dict(comparison.suite.wing.metrics),
        "scenarios": [_plain_result(result, episodes) for result in comparison.results],
        "notes": list(comparison.notes),
    }


def report_table(comparison: Comparison, result: ScenarioResult) -> ReportTable:
    """The same numbers for the HTML report."""
    wing = comparison.suite.wing
    rows = [
        ReportRow(
            row.policy,
            [row.metrics[column.key] for column in wing.report_columns],
            verdict=_verdict(result, row),
            change=None
            if row.ratio is None
            else Measured(row.ratio.value - 1, row.ratio.low - 1, row.ratio.high - 1),
        )
        for row in result.rows
    ]
    text = wing.caption(comparison, result)
    name = result.scenario.name if len(comparison.results) > 1 else ""
    return ReportTable(wing.report_columns, rows, text, reference=comparison.baseline, name=name)


def _mark(result: ScenarioResult, row: Row) -> str:
    return BEST if row is result.best else TIED if row.ties_with_best else " "


def _verdict(result: ScenarioResult, row: Row) -> str:
    if row is result.best:
        return "best"
    if row.ties_with_best:
        return "cannot be told from the best"
    return ""


def _plain_result(result: ScenarioResult, episodes: bool) -> dict[str, Any]:
    rows = []
    for row in result.rows:
        plain: dict[str, Any] = {
            "policy": row.policy,
            "settings": dict(row.settings),
            "best": row is result.best,
            "ties_with_best": row.ties_with_best,
            "ratio": _plain_estimate(row.ratio),
            "probability_of_improvement": _plain_estimate(row.improvement),
            "ratio_to_best": _plain_estimate(row.ratio_to_best),
            "metrics": {name: _plain_estimate(value) for name, value in row.metrics.items()},
        }
        if episodes:
            plain["episodes"] = [
                {"seed": episode.seed, **_plain_numbers(episode.metrics())}
                for episode in result.episodes[row.policy]
            ]
        rows.append(plain)
    return {"name": result.scenario.name, "load": result.scenario.load, "policies": rows}


def _plain_estimate(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None or not estimate.is_known else asdict(estimate)


def _plain_numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no infinity, which the latency of no answers is."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
