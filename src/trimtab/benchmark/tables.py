"""The result of a comparison as a table: for the terminal, as Markdown, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from trimtab.benchmark.compare import MEASURE, Comparison, Row, ScenarioResult
from trimtab.benchmark.report.content import Measured, ReportColumn, ReportRow, ReportTable
from trimtab.core.statistics import Estimate
from trimtab.dag_scheduling.episode import METRICS

__all__ = ["as_plain", "caption", "markdown", "report_table", "terminal_table"]

BEST, TIED = "★", "≈"
# All nine columns take 155 characters, the first five 110, the first two 80.
WIDE, MEDIUM = 155, 110
LEGEND = (
    f"{BEST} best, {TIED} cannot be told from the best; [95 % interval]; every policy met the same "
    "jobs and luck."
)


@dataclass(frozen=True)
class Column:
    """One column of the text tables."""

    heading: str
    cell: Callable[[Row], str]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def _with_interval(estimate: Estimate | None, number: Callable[[float], str] = _number) -> str:
    if estimate is None:
        return "—"
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def _two_digits(value: float) -> str:
    return f"{value:.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.1 or value == 0 else f"{100 * value:.1f} %"


def _plain_measure(name: str, number: Callable[[float], str] = _number) -> Callable[[Row], str]:
    return lambda row: number(row.metrics[name].value)


def _columns(comparison: Comparison) -> list[Column]:
    return [
        Column("mean JCT, s", lambda row: _with_interval(row.metrics[MEASURE])),
        Column(f"× {comparison.baseline}", lambda row: _with_interval(row.ratio, _two_digits)),
        Column("wins", lambda row: "—" if row.improvement is None else _percent(row.improvement.value)),
        Column("p95 JCT, s", _plain_measure("p95_jct_s")),
        Column("slowdown", _plain_measure("mean_slowdown")),
        Column("makespan, s", _plain_measure("makespan_s")),
        Column("busy", _plain_measure("utilisation", _percent)),
        Column("moving", _plain_measure("moving_share", _percent)),
        Column("longest wait, s", _plain_measure("longest_wait_s")),
    ]


def caption(comparison: Comparison, result: ScenarioResult) -> str:
    """What was played, in a line."""
    workload, suite = result.scenario.workload, comparison.suite
    stream = "" if result.scenario.load is None else f" at load {result.scenario.load:g}"
    return (
        f"{comparison.name or 'comparison'}: {workload.jobs:,} {workload.name} jobs, "
        f"{workload.arrivals} arrivals{stream}, {suite.cluster.executors:,} executors, "
        f"{suite.seeds} unseen seeds"
    )


def terminal_table(comparison: Comparison, result: ScenarioResult, *, width: int = WIDE) -> Table:
    """A table for rich; the best policy is bold and marked. A narrow terminal gets fewer columns."""
    table = Table(
        title=caption(comparison, result),
        caption=LEGEND,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    columns = _columns(comparison)[: 9 if width >= WIDE else 5 if width >= MEDIUM else 2]
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for row in result.rows:
        style = "bold" if row is result.best else None
        cells = [f"{_mark(result, row)} {row.policy}", *(c.cell(row) for c in columns)]
        table.add_row(*(cell.replace("[", "\\[") for cell in cells), style=style)
    return table


def markdown(comparison: Comparison) -> str:
    """A Markdown table per scenario, with what was played above and the legend below."""
    columns = _columns(comparison)
    parts: list[str] = []
    for result in comparison.results:
        heads = ["policy", *(column.heading for column in columns)]
        rule = ["---", *("---:" for _ in columns)]
        rows = [
            [f"{_mark(result, row)} {row.policy}".strip(), *(c.cell(row) for c in columns)]
            for row in result.rows
        ]
        lines = ["| " + " | ".join(cells) + " |" for cells in [heads, rule, *rows]]
        parts.append(f"{caption(comparison, result)}\n\n" + "\n".join(lines))
    return "\n\n".join([*parts, LEGEND, *comparison.notes]) + "\n"


def as_plain(comparison: Comparison, *, episodes: bool = True) -> dict[str, Any]:
    """All numbers as plain values; with `episodes`, the metrics of every single one."""
    return {
        "suite": comparison.name,
        "settings": comparison.suite.model_dump(mode="json"),
        "baseline": comparison.baseline,
        "measures": METRICS,
        "scenarios": [_plain_result(result, episodes) for result in comparison.results],
        "notes": list(comparison.notes),
    }


def report_table(comparison: Comparison, result: ScenarioResult) -> ReportTable:
    """The same numbers for the HTML report."""
    shown: Sequence[tuple[str, str, str, bool]] = (
        (MEASURE, "Mean completion time", "s", True),
        ("p95_jct_s", "95th percentile", "s", True),
        ("mean_slowdown", "Mean slowdown", "×", True),
        ("makespan_s", "Makespan", "s", True),
        ("utilisation", "Busy", "%", False),
        ("moving_share", "Moving", "%", True),
    )
    rows = [
        ReportRow(
            row.policy,
            [row.metrics[key] for key, *_ in shown],
            verdict=_verdict(result, row),
            change=None
            if row.ratio is None
            else Measured(row.ratio.value - 1, row.ratio.low - 1, row.ratio.high - 1),
        )
        for row in result.rows
    ]
    columns = [ReportColumn(key, heading, unit, lower_is_better=lower) for key, heading, unit, lower in shown]
    return ReportTable(columns, rows, caption(comparison, result), reference=comparison.baseline)


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
                {"seed": episode.seed, "reward": episode.reward, **episode.metrics()}
                for episode in result.episodes[row.policy]
            ]
        rows.append(plain)
    return {"name": result.scenario.name, "load": result.scenario.load, "policies": rows}


def _plain_estimate(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else asdict(estimate)
