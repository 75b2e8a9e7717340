import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.dag_scheduling import recording
from trimtab.dag_scheduling.workload import load_workload

PROFILE = {
    "format": "trimtab-wave-profile",
    "version": 1,
    "jobs": [
        {
            "query": 1,
            "size_gb": 2,
            "edges": [[0, 1]],
            "stages": [
                {"tasks": 2, "fresh": {"2": [900]}, "first_wave": {"2": [500]}, "rest_wave": {"2": [400]}},
                {"tasks": 1, "fresh": {"2": []}, "first_wave": {"2": [300]}, "rest_wave": {"2": []}},
            ],
        }
    ],
}


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE))
    return path.name


def test_import_writes_a_workload_and_an_account(run: Callable, profile: str, tmp_path: Path) -> None:
    answer = run("import", "wave-profile", profile, "--out", "mine.workload")
    assert answer.code == 0, answer
    assert "read" in answer.out
    assert "trimtab compare dag/batch --workload mine.workload" in answer.out
    assert load_workload(tmp_path / "mine.workload").task_count == 3
    listed = run("import", "wave-profile", profile, "--out", "mine.workload", "--json").json
    assert (listed["workload"], listed["jobs"]) == ("mine.workload", 1)
    played = run("simulate", "dag", "--policy", "fair", "--workload", "mine.workload", "--json")
    assert played.json["jobs"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sprak", "x", "--out", "y.workload"], "no history 'sprak'; did you mean 'spark'?"),
        (["spark", "missing", "--out", "y.workload"], "missing"),
        (["wave-profile", "profile.json", "--out", "no/y.workload"], "the folder no does not exist"),
        (["wave-profile", "profile.json"], "--out"),
    ],
)
def test_mistakes_of_import(refused: Callable, profile: str, words: list[str], said: str) -> None:
    assert said in refused("import", *words)


def test_record_passes_the_flags_on(run: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def record_tpch(folder: Path, **options: object) -> Path:
        asked.update(options, folder=folder)
        return folder / "logs"

    monkeypatch.setattr(recording, "record_tpch", record_tpch)
    monkeypatch.setattr(recording, "build_profile", lambda folder, report: PROFILE)
    monkeypatch.setattr(recording, "write_profile", lambda profile, path: None)
    answer = run("record", "tpch", "--folder", "here", "--executors", "1,2", "--queries", "1,6")
    assert answer.code == 0, answer
    assert (asked["executors"], asked["queries"], asked["scale_factors"]) == ([1, 2], [1, 6], [0.1])
    listed = run("record", "tpch", "--folder", "here", "--json").json
    assert listed["jobs"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "tpcds"], 'Choose from: "tpch"'),
        (["record", "tpch", "--executors", "0"], "'0' is not a number of at least 1"),
        (["record", "tpch", "--scale-factors", "nan"], "'nan' is not a number"),
        (["record", "tpch", "--queries", "one"], "'one' is not a number"),
    ],
)
def test_mistakes_of_record(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused(*words)
