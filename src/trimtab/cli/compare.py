"""`trimtab compare`: every policy on the same unseen workloads."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.cli.asking import USUAL_SUITE, SuiteFlags, check_names, tuned_values
from trimtab.cli.targets import check_new_folder
from trimtab.cli.terminal import (
    JsonFlag,
    Processes,
    Switch,
    command_line,
    cores,
    now,
    print_json,
    progress_bar,
    remark,
    say_if_compiling,
    say_if_other_interval,
    split_policies,
    terminal_width,
)
from trimtab.cli.wings import SuiteName

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison

__all__ = ["compare", "print_tables"]


def compare(
    suite: SuiteName,
    /,
    *,
    policies: str | None = None,
    baseline: str | None = None,
    seeds: int | None = None,
    changes: SuiteFlags = USUAL_SUITE,
    tuned: Path | None = None,
    out: Path | None = None,
    processes: Processes = None,
    json: JsonFlag = False,
    markdown: Switch = False,
) -> None:
    """Compare policies, paired on the same jobs and luck, with 95 % intervals.

    Parameters
    ----------
    suite:
        dag/batch, dag/stream, dag/multi-resource, dag/multi-resource-stream, dag/decima, stream/jobs,
        stream/nexmark, stream/sure, pod/services, pod/unseen, gpu/das-small, gpu/das-medium, gpu/das-large,
        gpu/predicted-small or gpu/oracle-small.
    policies:
        Policies separated by commas; `name:tuned` takes tuned settings (default: all of the suite).
    baseline:
        Policy the others are measured against (default: that of the suite).
    seeds:
        Test episodes of each policy.
    tuned:
        File of tuned values written by `trimtab tune --out`.
    out:
        Run folder to make, with results.json, table.md, report.html and pictures.
    processes:
        Processes to use (default: one per core).
    markdown:
        Print Markdown instead of a table for the terminal.
    """
    from trimtab.benchmark.compare import compare as run
    from trimtab.benchmark.pod_autoscaling.suites import ServiceSuite
    from trimtab.benchmark.results import answers, write_results
    from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite
    from trimtab.benchmark.tables import as_plain
    from trimtab.benchmark.tables import markdown as as_markdown
    from trimtab.core.run_folder import RunFolder

    check_new_folder(out)
    asked = changes.suite(
        suite,
        seeds=seeds,
        baseline=baseline,
        policies=None if policies is None else tuple(split_policies(policies)),
    )
    known = tuned_values(tuned)
    check_names(asked, known)
    folder = None if out is None else RunFolder.create(out, clock=now, settings=asked)
    if isinstance(asked, AutoscalingSuite | ServiceSuite):
        say_if_other_interval(asked.wing, asked.policies, asked.deployment.interval_s)
    with nullcontext() if folder is None else folder.kept_with("results.json"):
        say_if_compiling(asked.wing, asked.policies)
        with progress_bar(f"comparing {len(asked.policies)} policies", quiet=json) as show:
            comparison = run(asked, tuned=known, processes=processes or cores(), progress=show, name=suite)
        if folder is not None:
            write_results(
                folder, comparison, command=command_line(), policies=asked.policies, tuned=known,
                began=f"{now():%Y-%m-%d}",
            )  # fmt: skip
            remark(f"results in {folder.path}")
    if json:
        print_json({**as_plain(comparison), "run_folder": None if out is None else str(out)})
    elif markdown:
        print(as_markdown(comparison), end="")
    else:
        print_tables(comparison)
        print("\n" + "\n".join(answers(comparison)))


def print_tables(comparison: Comparison) -> None:
    """Print a table per scenario, and the notes."""
    from rich.console import Console

    from trimtab.benchmark.tables import table_width, terminal_table

    width = terminal_width()
    tables = [terminal_table(comparison, result, width=width) for result in comparison.results]
    console = Console(width=width or max(table_width(table) for table in tables))
    for table in tables:
        console.print(table)
    for note in comparison.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=width is None)
