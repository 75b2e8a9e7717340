"""What a comparison leaves in its run folder: numbers, tables, a report and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.benchmark.compare import Comparison, ScenarioResult, line_up
from trimtab.benchmark.playing import Unit, play_units
from trimtab.benchmark.tables import as_plain, markdown, report_table
from trimtab.benchmark.tuned import TunedValues
from trimtab.core.run_folder import RunFolder

__all__ = ["answers", "shown_result", "write_results"]

# Panels of the Gantt picture: more do not fit on a page.
MOST_PANELS = 4
MOST_LINES = 6
# A sweep is shown in pictures at the load nearest to this one.
SHOWN_LOAD = 0.8


def shown_result(comparison: Comparison) -> ScenarioResult:
    """The scenario that pictures are drawn of."""
    return min(
        comparison.results,
        key=lambda result: abs((result.scenario.load or SHOWN_LOAD) - SHOWN_LOAD),
    )


def write_results(
    run: RunFolder,
    comparison: Comparison,
    *,
    command: str,
    policies: Sequence[Any],
    tuned: TunedValues,
    began: str,
) -> list[str]:
    """Write results.json, table.md, report.html and the pictures; returns the file names."""
    from trimtab.benchmark.report import write_report

    wing = comparison.suite.wing
    result = shown_result(comparison)
    run.write_json("results.json", as_plain(comparison))
    run.write_text("table.md", markdown(comparison))
    recorded = _recorded(comparison, result, policies, tuned)
    files = ["results.json", "table.md", "report.html", *wing.draw(recorded, run.path)]
    episodes = _episodes_for_report(result, recorded)
    write_report(
        run.path / "report.html",
        title=f"{wing.question} {comparison.name}".strip(),
        table=report_table(comparison, result),
        other_tables=[report_table(comparison, other) for other in comparison.results if other is not result],
        sections=wing.sections(episodes),
        facts=wing.facts(episodes),
        notes=[*answers(comparison), *comparison.notes],
        command=command,
        provenance={"Workload": result.scenario.workload.name, "Began": began},
    )
    if len({result.scenario.load for result in comparison.results} - {None}) > 1:
        files += _write_sweep(run, comparison)
    return files


def answers(comparison: Comparison) -> list[str]:
    """What was found, in a sentence or two for each table; of several, which one it is."""
    told = [comparison.suite.wing.answer(comparison, result) for result in comparison.results]
    if len(told) == 1:
        return told
    return [f"{result.scenario.name}: {one}" for result, one in zip(comparison.results, told, strict=True)]


def _panels(comparison: Comparison, result: ScenarioResult) -> list[str]:
    """The best, the baseline, the wing's reference, and the best that is none of them."""
    present = [row.policy for row in result.rows]
    wanted = [present[0], comparison.baseline, comparison.suite.wing.reference, *present]
    chosen = list(dict.fromkeys(name for name in wanted if name in present))[:MOST_PANELS]
    return sorted(chosen, key=present.index)


def _recorded(
    comparison: Comparison,
    result: ScenarioResult,
    policies: Sequence[Any],
    tuned: TunedValues,
) -> list[Any]:
    """Play the first test episode again with everything written down that a picture shows."""
    contestants, _ = line_up(comparison.suite, policies, tuned)
    by_label = {c.label: c.by_scenario[result.scenario.name] for c in contestants}
    chosen = tuple(by_label[label] for label in _panels(comparison, result))
    seed = comparison.suite.test_seeds()[0]
    unit = Unit(comparison.suite, result.scenario, (seed,), chosen, record=True)
    return [episodes[0] for episodes in play_units([unit])[0]]


def _episodes_for_report(result: ScenarioResult, recorded: Sequence[Any]) -> list[Any]:
    """All episodes by policy, best first; where the first one was recorded, in full."""
    in_full = {episode.policy: episode for episode in recorded}
    episodes: list[Any] = []
    for row in result.rows:
        first, *others = result.episodes[row.policy]
        episodes += [in_full.get(row.policy, first), *others]
    return episodes


def _write_sweep(run: RunFolder, comparison: Comparison) -> list[str]:
    from trimtab.benchmark.figures import load_sweep

    shown = _lines(comparison)
    rows = [
        (row.policy, result.scenario.load, row.metrics[comparison.suite.wing.measure])
        for result in comparison.results
        if result.scenario.load is not None
        for row in result.rows
        if row.policy in shown
    ]
    names = ["load_sweep.png", "load_sweep.svg"]
    for name in names:
        load_sweep(rows, run.path / name)
    return names


def _lines(comparison: Comparison) -> list[str]:
    """The baseline and the best over all loads; hopeless ones would press the others into one line."""
    total: dict[str, float] = {}
    for result in comparison.results:
        for row in result.rows:
            total[row.policy] = total.get(row.policy, 0.0) + row.metrics[comparison.suite.wing.measure].value
    best_first = sorted(total, key=total.__getitem__)
    others = [policy for policy in best_first if policy != comparison.baseline]
    return [comparison.baseline, *others[: MOST_LINES - 1]]
