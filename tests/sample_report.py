"""A report on made-up episodes, for the tests of its HTML and of its behaviour in a browser."""

from collections.abc import Sequence
from pathlib import Path

from trimtab.benchmark.dag_scheduling.report import dag_facts, dag_sections
from trimtab.benchmark.report import Measured, ReportColumn, ReportRow, ReportTable, write_report
from trimtab.dag_scheduling.episode import Episode

COLUMNS = (
    ReportColumn("mean_jct_s", "Mean completion time", "s"),
    ReportColumn("p95_jct_s", "95th percentile", "s"),
    ReportColumn("mean_slowdown", "Mean slowdown", "×"),
    ReportColumn("utilisation", "Utilisation", "%", lower_is_better=False),
)


def sample_table(episodes: Sequence[Episode]) -> ReportTable:
    """The metrics of the episodes with an interval of 5 % on either side."""
    reference = episodes[0]
    rows = []
    for episode in episodes:
        metrics = episode.metrics()
        values = [metrics[column.key] for column in COLUMNS]
        change = metrics["mean_jct_s"] / reference.metrics()["mean_jct_s"] - 1
        rows.append(
            ReportRow(
                episode.policy,
                [Measured(value, 0.95 * value, 1.05 * value) for value in values],
                verdict="" if episode is reference else "see the interval of the change",
                change=None if episode is reference else Measured(change, change - 0.03, change + 0.03),
            )
        )
    return ReportTable(COLUMNS, rows, "Made-up jobs.", reference=reference.policy)


def write_sample(path: Path, episodes: Sequence[Episode]) -> None:
    """Write a whole report on the episodes."""
    write_report(
        path,
        title="Rules on made-up jobs",
        table=sample_table(episodes),
        sections=dag_sections(episodes),
        facts=dag_facts(episodes),
        notes=["Every policy saw the same jobs."],
        command="trimtab compare made-up --seed 0",
        provenance={"Workload": "made up"},
    )
