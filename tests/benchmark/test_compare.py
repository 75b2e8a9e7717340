import json
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from trimtab.benchmark.compare import Comparison, compare, line_up
from trimtab.benchmark.dag_scheduling import suites
from trimtab.benchmark.dag_scheduling.answer import _hours, answer, reasons
from trimtab.benchmark.dag_scheduling.suites import BatchSuite, StreamSuite
from trimtab.benchmark.dag_scheduling.wing import scenario_ground, uncompiled
from trimtab.benchmark.playing import Unit, play_units
from trimtab.benchmark.results import _lines, answers, shown_result, write_results
from trimtab.benchmark.suite import SUITES
from trimtab.benchmark.tables import as_plain, markdown, report_table, table_width, terminal_table
from trimtab.benchmark.tuned import TunedEntry, TunedValues, shipped_tuned_values
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.policy import tunable_parameters
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import load_settings
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.dag_scheduling.simulator import simulator
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

RULES = ("fifo", "fair", "sjf-cp")


def small_suite(**changes: object) -> BatchSuite:
    usual: dict[str, object] = {
        "workload": WorkloadSettings(name="tiny:three-sizes", jobs=5),
        "cluster": Cluster(executors=3),
        "policies": RULES,
        "seeds": 4,
        "training_seeds": 3,
    }
    return BatchSuite.model_validate({**usual, **changes})


def small_stream() -> StreamSuite:
    flags = {
        "workload.name": "tiny:three-sizes",
        "workload.jobs": 8,
        "cluster.executors": 3,
        "loads": (0.5, 0.9),
        "policies": RULES,
        "seeds": 3,
    }
    return load_settings(StreamSuite, None, flags)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(small_suite(), name="dag/batch")


def tuned_for(suite: BatchSuite, values: dict[str, float]) -> TunedValues:
    (scenario,) = suite.scenarios()
    workload, cluster = scenario_ground(suite, scenario)
    return TunedValues([TunedEntry("weighted-fair", values, 1.0, 3, "", "", workload, cluster)])


@pytest.mark.parametrize(("seeds", "said"), [(2, "at most 50 %"), (4, "at most 88 %"), (5, "")])
def test_intervals_of_very_few_seeds_are_told_to_be_too_narrow(seeds: int, said: str) -> None:
    suite = BatchSuite(workload=WorkloadSettings(name="synthetic", jobs=2), seeds=seeds)
    notes = compare(suite, policies=["fifo", "fair"]).notes
    assert len(notes) == bool(said)
    assert said in "".join(notes)


def test_every_policy_meets_the_same_jobs(comparison: Comparison) -> None:
    (result,) = comparison.results
    for episodes in zip(*result.episodes.values(), strict=True):
        assert len({episode.job_names for episode in episodes}) == 1
        assert len({episode.seed for episode in episodes}) == 1
    seeds = [episode.seed for episode in result.episodes["fair"]]
    assert seeds == list(comparison.suite.test_seeds())


def test_rows_say_what_the_episodes_say(comparison: Comparison) -> None:
    (result,) = comparison.results
    means = {
        policy: np.mean([episode.jct_ms.mean() for episode in episodes]) / 1000
        for policy, episodes in result.episodes.items()
    }
    for row in result.rows:
        assert row.metrics["mean_jct_s"].value == pytest.approx(means[row.policy])
        if row.policy == "fair":
            assert row.ratio is None
        else:
            assert row.ratio is not None
            assert row.ratio.value == pytest.approx(means[row.policy] / means["fair"])
    assert result.best.policy == min(means, key=means.__getitem__)
    assert result.best.ratio_to_best is None
    values = [row.metrics["mean_jct_s"].value for row in result.rows]
    assert values == sorted(values)


def test_two_processes_give_the_same_numbers(comparison: Comparison) -> None:
    again = compare(small_suite(), name="dag/batch", processes=2)
    assert as_plain(again) == as_plain(comparison)


def test_progress_counts_every_episode() -> None:
    seen: list[tuple[int, int]] = []
    compare(small_suite(seeds=2), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 6), (3, 6), (6, 6)]


class Patient:
    """A policy in plain Python: the first stage that may be chosen."""

    name = "patient"

    def decide(self, snapshot: Snapshot) -> Action:
        return make_policy("fifo").decide(snapshot)


def test_a_policy_of_ones_own_joins() -> None:
    found = compare(small_suite(seeds=2), policies=["fifo", Patient()])
    rows = {row.policy: row.metrics["mean_jct_s"].value for row in found.results[0].rows}
    assert rows["patient"] == rows["fifo"]
    assert found.baseline == "fifo"


def test_a_baseline_that_was_named_is_never_replaced() -> None:
    """A suite's own one may be, where the policies were chosen and it is not among them."""
    assert compare(small_suite(seeds=2), policies=["fifo", "sjf-cp"]).baseline == "fifo"
    for named, found in (("sjf-cp", "sjf-cp"), ("dag/sjf-cp:tuned", "sjf-cp"), ("patient", "patient")):
        played = compare(small_suite(seeds=2, baseline=named), policies=["fifo", Patient(), "sjf-cp"])
        assert played.baseline == found
    alpha = compare(
        small_suite(seeds=2, baseline="weighted-fair:alpha=-.50"),
        policies=["fair", "weighted-fair:alpha=-0.5"],
    )
    assert alpha.baseline == "weighted-fair:alpha=-0.5"
    with pytest.raises(SettingsError, match=r"baseline 'fair' does not play; add it .*: fifo, sjf-cp"):
        compare(small_suite(seeds=2, baseline="fair"), policies=["fifo", "sjf-cp"])
    tuned = tuned_for(small_suite(), {"alpha": -0.3})
    suite = small_suite(seeds=2, baseline="weighted-fair")
    assert (
        compare(suite, policies=["fair", "weighted-fair:tuned"], tuned=tuned).baseline
        == "weighted-fair (tuned)"
    )


def test_tuned_values_are_used_where_they_belong() -> None:
    suite = small_suite()
    known = tuned_for(suite, {"alpha": -0.3})
    contestants, notes = line_up(suite, ["fair", "weighted-fair:tuned"], known)
    assert [c.label for c in contestants] == ["fair", "weighted-fair (tuned)"]
    rule = contestants[1].by_scenario[""]
    assert isinstance(rule, Rule)
    assert rule.values == (-0.3,)
    assert notes == []


def test_values_tuned_elsewhere_are_not_called_tuned() -> None:
    elsewhere = tuned_for(small_suite(cluster=Cluster(executors=4)), {"alpha": -0.3})
    contestants, notes = line_up(small_suite(), ["weighted-fair:tuned"], elsewhere)
    assert [c.label for c in contestants] == ["weighted-fair"]
    assert "Not tuned for this workload" in notes[0]


def test_what_has_nothing_to_tune_is_not_sent_to_tune() -> None:
    contestants, notes = line_up(small_suite(), ["fair:tuned", "weighted-fair:tuned"], TunedValues())
    assert [c.label for c in contestants] == ["fair", "weighted-fair"]
    (note,) = notes
    assert "usual settings: weighted-fair." in note
    assert line_up(small_suite(), ["fair:tuned"], TunedValues())[1] == []


def test_a_policy_may_not_play_twice() -> None:
    with pytest.raises(SettingsError, match="'fair' is listed twice"):
        compare(small_suite(), policies=["fair", "dag/fair"])


def test_an_unfinished_episode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = small_suite()
    unit = Unit(suite, suite.scenarios()[0], (0,), (make_policy("fair"),))
    finished = play_units([unit])[0][0][0]
    broken = replace(finished, completion_ms=np.full_like(finished.completion_ms, -1))
    monkeypatch.setattr(suites, "simulate", lambda *arguments, **options: broken)
    with pytest.raises(TrimtabError, match="fair, seed 0: an episode was cut off"):
        play_units([unit])


def test_rules_are_compiled_once_for_each_function(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(simulator, "is_kept", lambda player: player.__name__.split("_")[1] in kept)
    fair, fifo = make_policy("fair"), make_policy("fifo")
    assert uncompiled([fair, fair]) == [fair]
    kept.append("fair")
    assert uncompiled([fair]) == []
    assert uncompiled([fair, fifo]) == [fifo]


def test_tables_in_three_forms(comparison: Comparison) -> None:
    (result,) = comparison.results
    text = markdown(comparison)
    assert text.startswith("dag/batch: 5 tiny:three-sizes jobs, batch arrivals, 3 executors")
    assert f"| ★ {result.best.policy} |" in text
    for width, columns in ((200, 10), (120, 9), (80, 5), (60, 3)):
        table = terminal_table(comparison, result, width=width)
        assert len(table.columns) == columns
        console = Console(width=width, file=StringIO())
        with console.capture() as shown:
            console.print(table)
        assert "…" not in shown.get()
        told = " ".join(shown.get().split())
        assert ("No room here for" in told) == (columns < 10)
        assert ("longest wait, s (a wider terminal shows them)" in told) == (columns < 10)
    plain = as_plain(comparison)
    assert json.loads(json.dumps(plain, allow_nan=False)) == json.loads(json.dumps(plain))
    assert len(plain["scenarios"][0]["policies"][0]["episodes"]) == 4
    assert "episodes" not in as_plain(comparison, episodes=False)["scenarios"][0]["policies"][0]
    report = report_table(comparison, result)
    assert report.rows[0].verdict == "best"
    assert report.reference == "fair"


def test_a_narrow_terminal_folds_names_before_it_cuts_numbers() -> None:
    long = "capped-srpt-local:kappa=0.123456,power=0.123456"
    found = compare(small_suite(seeds=2), policies=["fair", long])
    (result,) = found.results
    console = Console(width=72, file=StringIO())
    with console.capture() as shown:
        console.print(terminal_table(found, result, width=72))
    assert "…" not in shown.get() and long not in shown.get()
    whole = terminal_table(found, result)
    assert len(whole.columns) == 10
    assert table_width(whole) > 160


def test_the_answer_is_no_stronger_than_the_intervals(comparison: Comparison) -> None:
    (result,) = comparison.results
    said = answer(comparison, result)
    assert said.startswith(f"{result.best.policy}")
    assert said.endswith(".")
    alone = compare(small_suite(seeds=2), policies=["fair"])
    assert "nothing compared here does better" in answer(alone, alone.results[0])
    twins = compare(small_suite(seeds=2), policies=["weighted-fair", "weighted-fair:alpha=-1"])
    assert "(not to be told from" in answer(twins, twins.results[0])


def test_reasons_come_from_the_metrics() -> None:
    flags = {"workload.name": "synthetic", "workload.jobs": 6, "seeds": 2, "cluster.executors": 40}
    suite = load_settings(BatchSuite, None, flags)
    found = compare(replace_baseline(suite, "fifo"), policies=["fifo", "capped-srpt"])
    (result,) = found.results
    assert result.best.policy == "capped-srpt"
    why = reasons(result, result.best, "fifo")
    assert any("small jobs get through first" in reason for reason in why)
    assert "sooner than under fifo" in answer(found, result)
    assert (_hours(5_400_000), _hours(60_000)) == ("1.5 executor-hours", "60 executor-seconds")


def replace_baseline(suite: BatchSuite, baseline: str) -> BatchSuite:
    return suite.model_copy(update={"baseline": baseline})


def test_a_run_folder_holds_everything(comparison: Comparison, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    files = write_results(
        run, comparison, command="trimtab compare", policies=RULES, tuned=TunedValues(), began="today"
    )
    assert sorted(files) == ["gantt.png", "gantt.svg", "report.html", "results.json", "table.md"]
    for name in files:
        assert (run.path / name).stat().st_size > 500
    assert run.read_json("results.json")["suite"] == "dag/batch"
    page = (run.path / "report.html").read_text()
    assert "trimtab compare" in page
    assert page.count('class="comparison"') == 1 and "the tables of the others" not in page


def test_a_load_sweep_has_a_table_per_load_and_a_figure(tmp_path: Path) -> None:
    found = compare(small_stream(), name="dag/stream")
    assert [result.scenario.name for result in found.results] == ["load 0.50", "load 0.90"]
    assert shown_result(found).scenario.load == 0.9
    run = RunFolder.create(tmp_path / "run", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    files = write_results(
        run, found, command="trimtab compare", policies=RULES, tuned=TunedValues(), began="today"
    )
    assert "load_sweep.png" in files
    everybody = ["fifo", "fair", "sjf-cp", "weighted-fair", "tetris", "capped-srpt", "random"]
    lines = _lines(compare(small_stream(), policies=everybody))
    assert (len(lines), lines[0]) == (6, "fair")
    assert (run.path / "load_sweep.svg").stat().st_size > 500
    assert markdown(found).count("| policy |") == 2
    page = (run.path / "report.html").read_text()
    assert page.count('class="comparison"') == 2
    assert page.index('id="comparison-heading">Comparison: load 0.90<') < page.index(
        ">Comparison: load 0.50<"
    )
    assert '<p class="headline">load 0.90: ' in page and "are of this one; the tables of the others" in page
    assert [told.partition(":")[0] for told in answers(found)] == ["load 0.50", "load 0.90"]


def test_shipped_tuned_values_are_readable_and_lie_on_the_grids() -> None:
    for entry in shipped_tuned_values().entries:
        make = SUITES.load(entry.suite).wing.make_policy
        usual = tunable_parameters(make(entry.policy))
        for before, tuned in zip(usual, tunable_parameters(make(entry.policy, entry.values)), strict=True):
            assert tuned.value in (*tuned.grid, before.value), (entry.suite, entry.policy, tuned.name)
