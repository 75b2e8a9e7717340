"""`trimtab compare pod/...`, `trimtab tune pod` and `trimtab demo pod`, small enough to take seconds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.cli.asking import SuiteFlags
from trimtab.cli.demo import DEMOS

SHORT = ("--app", "thumbnails", "--hours", "0.1", "--set", "mean_cores=1", "--processes", "1")
COMPARE = ("compare", "pod/services", *SHORT, "--seeds", "3")


def test_a_table_and_an_answer(run: Callable) -> None:
    answer = run(*COMPARE, "--policies", "static,hpa:target=60,mpc")
    assert answer.code == 0, answer
    assert "★" in answer.out
    assert "hpa:target=60" in answer.out
    told = " ".join(answer.out.split())
    assert "service thumbnails, 0.1 h of diurnal, noisy and bursty with 3.42 requests/s on average" in told
    assert "at most 1 % late (!), kills and changes per day, 3 unseen seeds" in told
    assert "core-hours a day" in answer.out.splitlines()[-1]
    markdown = run(*COMPARE, "--policies", "static,hpa", "--baseline", "hpa", "--markdown").out
    assert "| policy | core-h/day | late | cost | × hpa | p99/limit |" in markdown


def test_json_pairs_all_policies_on_the_same_seeds(run: Callable) -> None:
    words = [
        *("compare", "pod/services", "--app", "thumbnails,video", "--trace", "constant", *SHORT[2:]),
        *("--seeds", "2", "--policies", "static,hpa", "--json"),
    ]
    found = run(*words).json
    assert [scenario["name"] for scenario in found["scenarios"]] == ["thumbnails", "video"]
    assert found["settings"]["traces"] == ["constant"]
    for scenario in found["scenarios"]:
        rows = {row["policy"]: row for row in scenario["policies"]}
        assert rows.keys() == {"static", "hpa"}
        for row in rows.values():
            assert [episode["seed"] for episode in row["episodes"]] == [1_000_000, 1_000_001]
        ratio = sum(one["cost"] for one in rows["static"]["episodes"])
        ratio /= sum(one["cost"] for one in rows["hpa"]["episodes"])
        assert abs(rows["static"]["ratio"]["value"] - ratio) < 1e-9
    assert run(*words, "--seed", "1").json["scenarios"] != found["scenarios"]


def test_services_nobody_has_seen_have_a_table_for_each_trace(run: Callable) -> None:
    words = ["compare", "pod/unseen", "--trace", "diurnal,steps", "--hours", "0.05", "--set", "mean_cores=1"]
    found = run(*words, "--policies", "static,hpa", "--seeds", "2", "--processes", "1", "--json").json
    assert [scenario["name"] for scenario in found["scenarios"]] == ["diurnal", "steps"]
    assert found["baseline"] == "hpa"


def test_settings_from_a_file_beneath_flags(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        'seeds = 9\npolicies = ["static", "hpa"]\ntraces = ["steps"]\n[deployment]\nmost_replicas = 7\n'
    )
    found = run(*COMPARE, "--settings", "suite.toml", "--json").json["settings"]
    assert (found["seeds"], found["traces"], found["deployment"]["most_replicas"]) == (3, ["steps"], 7)
    assert found["policies"] == ["static", "hpa"]


def test_a_setting_that_says_what_is_usual_changes_nothing(run: Callable, tmp_path: Path) -> None:
    words = [*COMPARE, "--policies", "static,hpa", "--json"]
    usual = run(*words).json
    assert usual["settings"]["deployment"]["most_replicas"] == 40
    assert run(*words, "--set", "deployment.history=20").json == usual
    (tmp_path / "same.toml").write_text("[deployment]\nhistory = 20\n")
    assert run(*words, "--settings", "same.toml").json == usual


def test_a_run_folder_is_made_once(run: Callable, refused: Callable, tmp_path: Path) -> None:
    words = [*COMPARE, "--policies", "static,hpa", "--out", "runs/first"]
    assert "results in runs/first" in run(*words).err
    written = {path.name for path in (tmp_path / "runs" / "first").iterdir()}
    assert written >= {"results.json", "table.md", "report.html", "episodes.png", "settings.toml"}
    assert "runs/first: exists" in refused(*words)


@pytest.mark.slow
def test_tune_then_compare_with_what_it_found(run: Callable, tmp_path: Path) -> None:
    """Eleven numbers of pods, six of cores, on two training episodes each."""
    words = ["tune", "pod", *SHORT, "--policies", "static", "--training-seeds", "2"]
    answer = run(*words, "--out", "tuned.json")
    assert answer.code == 0, answer
    assert "On 2 training seeds; compare judges by others." in answer.out
    (entry,) = json.loads((tmp_path / "tuned.json").read_text())["entries"]
    assert (entry["policy"], entry["scenario"], entry["training_seeds"]) == ("static", "thumbnails", 2)
    compared = [*COMPARE, "--policies", "hpa,static:tuned", "--tuned", "tuned.json"]
    assert "static (tuned)" in run(*compared).out
    note = run(*COMPARE, "--policies", "hpa,static:tuned").out
    assert "Not tuned for this workload and cluster" in " ".join(note.split())


def test_the_demo_answers_and_leaves_a_report(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six minutes instead of two hours."""
    monkeypatch.setitem(DEMOS, "pod", replace(DEMOS["pod"], flags=SuiteFlags(app="textbook", hours=0.1)))
    words = ["demo", "pod", "--workload", "video", "--seeds", "2", "--processes", "1"]
    answer = run(*words)
    assert answer.code == 0, answer
    assert "service video" in answer.out
    assert "trimtab fit-profile" in answer.out
    folder = tmp_path / "runs" / "demo-pod"
    assert {path.name for path in folder.iterdir()} >= {"report.html", "episodes.png", "results.json"}
