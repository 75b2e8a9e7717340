"""GPU scheduling in a report and in a sentence, which says no more than the episodes do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.gpu_scheduling.made_up_episodes import MINUTE_MS, made_up_episode

from trimtab.benchmark.compare import Comparison, Contestant, ScenarioResult, _result
from trimtab.benchmark.gpu_scheduling.answer import answer
from trimtab.benchmark.gpu_scheduling.report import gpu_facts, gpu_sections
from trimtab.benchmark.gpu_scheduling.wing import GPU
from trimtab.benchmark.report import Measured, ReportRow, ReportTable, write_report
from trimtab.benchmark.report.content import CurvesSection, GanttSection
from trimtab.benchmark.report.section_html import section_html
from trimtab.benchmark.suite import Scenario
from trimtab.core.errors import TrimtabError
from trimtab.gpu_scheduling.episode import Episode


def of_two_policies(late_min: int = 30) -> list[Episode]:
    return [
        made_up_episode(policy, seed=seed, late_min=late)
        for policy, late in (("quick", 0), ("slow", late_min))
        for seed in range(3)
    ]


def test_the_charts_and_what_they_say() -> None:
    sections = {section.key: section for section in gpu_sections(of_two_policies())}
    assert list(sections) == ["completion-times", "jobs-in-system", "fees", "machines"]
    times, fees = sections["completion-times"], sections["fees"]
    assert isinstance(times, CurvesSection) and isinstance(fees, CurvesSection)
    quick = times.curves[0]
    assert (quick.policy, quick.x[-1], quick.y[-1]) == ("quick", 19 * MINUTE_MS, 1.0)
    assert times.curves[1].x[-1] == 49 * MINUTE_MS
    total = made_up_episode().fee.sum()
    assert [curve.y[-1] for curve in fees.curves] == pytest.approx([total, total])


def test_the_chart_of_machines_has_a_row_for_each_gpu() -> None:
    chart = gpu_sections([made_up_episode()])[-1]
    assert isinstance(chart, GanttSection)
    (panel,) = chart.panels
    assert (panel.row_count, len(panel.job), chart.row_word) == (4, 8, "GPU")
    assert chart.job_names[:2] == ["2 GPUs", "0.5 GPUs"]
    # (10 + 6 + 8 + 19) / 4, in the unit of the table.
    assert "mean completion time in this episode 10.75 min" in section_html(chart, 0, [panel.policy])
    # Job 3 was stopped once: its second stay, on machine m0, says so.
    again = (panel.job == 3) & (panel.stage == 1)
    assert [chart.wave_names[k] for k in panel.wave[again]] == ["m0", "m0"]
    assert (panel.start_ms[again] == 14 * MINUTE_MS).all()
    assert (panel.stage[panel.job != 3] == 0).all()


def test_of_a_long_run_the_beginning_is_shown_and_of_a_large_cluster_the_first_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chart = gpu_sections([made_up_episode()], most_stays=5)[-1]
    assert isinstance(chart, GanttSection)
    assert "are left out" in chart.text and len(chart.panels[0].job) < 8
    monkeypatch.setattr("trimtab.benchmark.gpu_scheduling.report.MOST_LANES", 3)
    chart = gpu_sections([made_up_episode()])[-1]
    assert isinstance(chart, GanttSection)
    assert "Of 2 machines the first 1 are shown." in chart.text
    assert chart.panels[0].row_count == 2


def test_facts_count_what_was_simulated() -> None:
    facts = gpu_facts(of_two_policies())
    assert (facts["Jobs"], facts["GPUs"], facts["Machines"], facts["Episodes"]) == ("4", "4", "2", "6")
    assert gpu_facts([]) == {} and gpu_sections([]) == []


def test_episodes_of_other_jobs_are_refused() -> None:
    other = replace(made_up_episode("other"), arrival_ms=np.array([0, 0, 2, 3]) * MINUTE_MS)
    with pytest.raises(TrimtabError, match="mine and other are of different jobs"):
        gpu_sections([made_up_episode(), other])


def test_weeks_fit_into_the_page(tmp_path: Path) -> None:
    """32 bits hold 24 days in milliseconds."""
    long = made_up_episode(late_min=40 * 24 * 60)
    table = ReportTable(
        GPU.report_columns, [ReportRow("mine", [Measured(1, 1, 1) for _ in GPU.report_columns])], "One."
    )
    write_report(
        tmp_path / "r.html", title="t", table=table, sections=gpu_sections([long]), facts={}, notes=[],
        command="c", provenance={},
    )  # fmt: skip
    assert "float64" in (tmp_path / "r.html").read_text()


# --- the sentence -----------------------------------------------------------------------------


def compared(episodes: Sequence[Episode], baseline: str) -> tuple[Comparison, ScenarioResult]:
    scenario = Scenario("", SimpleNamespace(name="made up"))
    by_policy: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_policy.setdefault(episode.policy, []).append(episode)
    contestants = [Contestant(name, {"": SimpleNamespace(name=name)}) for name in by_policy]
    result = _result(GPU, scenario, contestants, by_policy, baseline)
    suite: Any = SimpleNamespace(wing=GPU)
    return Comparison("made up", suite, baseline, (result,)), result


def test_the_answer_names_the_best_and_why() -> None:
    said = answer(*compared(of_two_policies(), "slow"))
    # (10 + 6 + 8 + 19) / 4 minutes, against (10 + 6 + 8 + 49) / 4.
    assert said.startswith("quick would serve this cluster best: jobs complete in 10.8 min on average")
    assert "41 % (41 to 41 %) sooner than under slow at about the same fee" in said


def test_the_answer_says_when_nothing_can_be_told_apart() -> None:
    same = of_two_policies(late_min=0)
    said = answer(*compared(same, "quick"))
    assert "not to be told from slow" in said
    assert answer(*compared(same, "slow")).endswith("though slow may do as well.")
    best = answer(*compared(of_two_policies(), "quick"))
    assert best.endswith("; nothing compared here does better.")


def test_reasons_are_what_the_episodes_show() -> None:
    slow = [
        replace(
            one, busy_gpu_ms=2 * one.busy_gpu_ms, stranded_gpu_ms=one.makespan_ms * 2.0, fee=1.5 * one.fee
        )
        for one in of_two_policies()
        if one.policy == "slow"
    ]
    quick = [one for one in of_two_policies() if one.policy == "quick"]
    said = answer(*compared([*quick, *slow], "slow"))
    assert "for 33.3 % less" in said
    assert "hold GPUs for 50 % less time" in said
    assert "fewer GPUs lie free while jobs wait (0 % of GPU time, not 50 %)" in said
