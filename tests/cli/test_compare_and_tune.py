import json
from collections.abc import Callable
from pathlib import Path

import pytest

SMALL = (
    "--workload", "tiny:three-sizes", "--jobs", "5", "--executors", "3", "--processes", "1",
)  # fmt: skip
COMPARE = ("compare", "dag/batch", *SMALL, "--seeds", "3")


def test_a_table_and_an_answer(run: Callable) -> None:
    answer = run(*COMPARE, "--policies", "fifo,fair,capped-srpt:kappa=1,power=0.5")
    assert answer.code == 0
    assert "★" in answer.out
    assert "capped-srpt:kappa=1,power=0.5" in answer.out
    assert "would serve this cluster best" in answer.out


def test_markdown_and_json(run: Callable) -> None:
    assert "| policy | mean JCT, s |" in run(*COMPARE, "--policies", "fifo,fair", "--markdown").out
    found = run(*COMPARE, "--policies", "fifo,fair", "--json").json
    assert [row["policy"] for row in found["scenarios"][0]["policies"]]
    assert found["settings"]["seeds"] == 3
    other = run(*COMPARE, "--policies", "fifo,fair", "--seed", "1", "--json").json
    assert other["scenarios"] != found["scenarios"]


def test_settings_from_a_file_beneath_flags(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        'seeds = 9\npolicies = ["fair", "fifo"]\n[cluster]\nmoving_delay_ms = 0\n'
    )
    found = run(*COMPARE, "--settings", "suite.toml", "--json").json["settings"]
    assert (found["seeds"], found["cluster"]["moving_delay_ms"]) == (3, 0)
    assert found["policies"] == ["fair", "fifo"]


def test_a_run_folder_is_made_once(run: Callable, refused: Callable, tmp_path: Path) -> None:
    words = [*COMPARE, "--policies", "fifo,fair", "--out", "runs/first"]
    assert "results in runs/first" in run(*words).err
    written = {path.name for path in (tmp_path / "runs" / "first").iterdir()}
    assert written >= {"results.json", "table.md", "report.html", "gantt.png", "settings.toml"}
    assert "runs/first: exists" in refused(*words)


def test_one_load_of_the_stream(run: Callable) -> None:
    words = ["compare", "dag/stream", *SMALL, "--seeds", "2", "--policies", "fifo,fair"]
    found = run(*words, "--load", "0.7", "--json").json
    assert [scenario["load"] for scenario in found["scenarios"]] == [0.7]
    batch = run(*words, "--arrivals", "batch", "--json").json
    assert [scenario["name"] for scenario in batch["scenarios"]] == [""]
    trace = run("compare", "dag/stream", "--workload", "tiny:two-jobs", "--arrivals", "trace",
                "--seeds", "2", "--policies", "fifo,fair", "--processes", "1", "--json").json  # fmt: skip
    assert trace["settings"]["workload"]["jobs"] == 1  # of two jobs, the later one is for tests


def test_several_memory_sizes(run: Callable) -> None:
    found = run("compare", "dag/multi-resource", "--workload", "tiny:three-sizes", "--jobs", "4",
                "--executors", "8", "--seeds", "2", "--policies", "tetris,fair", "--processes",
                "1", "--json").json  # fmt: skip
    assert [c["count"] for c in found["settings"]["cluster"]["classes"]] == [2, 2, 2, 2]


def test_tune_then_compare_with_what_it_found(run: Callable, tmp_path: Path) -> None:
    answer = run("tune", "dag", *SMALL, "--policies", "weighted-fair,tetris", "--training-seeds",
                 "2", "--out", "tuned.json")  # fmt: skip
    assert answer.code == 0
    assert "On 2 training seeds" in answer.out
    assert len(json.loads((tmp_path / "tuned.json").read_text())["entries"]) == 2
    words = [*COMPARE, "--policies", "fair,weighted-fair:tuned", "--tuned", "tuned.json"]
    assert "weighted-fair (tuned)" in run(*words).out
    tuned = run("tune", "dag", *SMALL, "--policies", "tetris", "--training-seeds", "2", "--json")
    assert tuned.json[0]["best"]["mean_jct_s"] <= tuned.json[0]["usual"]["mean_jct_s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "dag/bach"], "no suite 'dag/bach'; did you mean 'dag/batch'?"),
        ([*COMPARE, "--policies", "fair,fiof"], "did you mean 'dag/fifo'"),
        ([*COMPARE, "--policies", "fair,fair"], "'fair' is listed twice"),
        (["compare", "dag/batch", *SMALL, "--seeds", "1"], "seeds = 1"),
        ([*COMPARE, "--policies", ""], "policies"),
        ([*COMPARE, "--load", "nan"], "load"),
        ([*COMPARE, "--settings", "no.toml"], "no.toml: no such settings file"),
        ([*COMPARE, "--tuned", "no.json"], "no.json: cannot be read"),
        (["compare", "dag/batch", "--executors", "0"], "cluster.executors = 0"),
        (["compare", "dag/batch", "--workload", "nothing"], "no workload 'dag/nothing'"),
        (["tune", "dag", *SMALL, "--policies", "fair"], "'fair' has nothing to tune"),
        (["tune", "dag", *SMALL, "--policies", "fiar"], "did you mean 'dag/fair'"),
        (["tune", "dag", "--suite", "dag/none"], "no suite 'dag/none'"),
        (["tune", "dag", *SMALL, "--training-seeds", "0"], "training_seeds = 0"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused(*words)


def test_a_typo_in_a_suite_file(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text("[workload]\narrivls = 'batch'\n")
    said = refused(*COMPARE, "--settings", "suite.toml")
    assert "suite.toml: workload.arrivls is not a setting; did you mean 'arrivals'?" in said
