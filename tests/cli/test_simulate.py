from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.dag_scheduling.workload import save_workload
from trimtab.dag_scheduling.workload.tiny import tiny_workload

TINY = ("--workload", "tiny:diamond", "--executors", "3")


def test_the_answer_by_hand(run: Callable) -> None:
    # 2 s to come over, then 1 + 4 + 1 s on three executors.
    answer = run("simulate", "dag", "--policy", "fair", *TINY, "--json")
    assert answer.code == 0
    assert answer.json["metrics"]["mean_jct_s"] == 8.0
    assert answer.json["reward"] == -8000
    assert "mean_jct_s" in run("simulate", "dag", "--policy", "fair", *TINY).out


def test_settings_in_the_policy_and_in_a_file(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("moving_delay_ms = 0\nexecutors = 1\n")
    answer = run(
        "simulate", "dag", "--policy", "weighted-fair:alpha=-0.5", *TINY, "--settings",
        "cluster.toml", "--json",
    )  # fmt: skip
    assert answer.json["policy"] == "weighted-fair:alpha=-0.5"
    assert answer.json["cluster"]["executors"] == 3  # the flag wins
    assert answer.json["metrics"]["mean_jct_s"] == 6.0


def test_a_file_keeps_its_arrivals_unless_told_otherwise(run: Callable, tmp_path: Path) -> None:
    save_workload(tiny_workload("late-small"), tmp_path / "mine.workload")
    words = ["simulate", "dag", "--policy", "fair", "--workload", "mine.workload", "--json"]
    answer = run(*words)
    assert answer.json["workload"]["arrivals"] == "trace"
    assert answer.json["jobs"] == 2
    stream = run(*words, "--load", "0.5", "--jobs", "4")
    assert (stream.json["workload"]["arrivals"], stream.json["jobs"]) == ("poisson", 4)
    gap = run(*words, "--mean-gap-s", "3", "--jobs", "4")
    assert gap.json["workload"]["mean_gap_s"] == 3


def test_seeds_repeat_and_differ(run: Callable) -> None:
    words = ["simulate", "dag", "--policy", "fair", "--workload", "synthetic", "--jobs", "3", "--json"]
    first, again, other = (run(*words, "--seed", seed).json for seed in ("1", "1", "2"))
    assert first == again
    assert first["metrics"] != other["metrics"]


@pytest.mark.parametrize("name", ["gantt.png", "gantt.svg", "report.html"])
def test_pictures(run: Callable, tmp_path: Path, name: str) -> None:
    answer = run("simulate", "dag", "--policy", "fifo", *TINY, "--draw", name)
    assert f"picture: {name}" in answer.out
    assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "fiar"], "did you mean 'dag/fair'"),
        (["--policy", "weighted-fair:alfa=1"], "did you mean 'alpha'?"),
        (["--policy", "weighted-fair:alpha=nan"], "alpha = nan is not a finite number"),
        (["--policy", "fair", "--workload", "tpc"], "did you mean 'dag/tpch'?"),
        (["--policy", "fair", "--workload", "no.workload"], "no.workload: no such file"),
        (["--policy", "fair", "--workload", "tiny:diamnd"], "did you mean 'diamond'?"),
        (["--policy", "fair", "--executors", "0"], "executors = 0"),
        (["--policy", "fair", "--executors", "many"], "many"),
        (["--policy", "fair", "--workload", "synthetic", "--load", "nan"], "load = NaN"),
        (["--policy", "fair", "--workload", "synthetic", "--load", "0"], "load = 0"),
        (["--policy", "fair", "--workload", "synthetic", "--jobs", "-1"], "jobs = -1"),
        (
            ["--policy", "fair", "--workload", "tiny:three-sizes", "--jobs", "4"],
            "tiny:three-sizes has 3 jobs",
        ),
        (["--policy", "fair", *TINY, "--seed", "-1"], "--seed -1"),
        (["--policy", "fair", *TINY, "--draw", "a.pdf"], "a.pdf: pictures are written as"),
        (["--policy", "fair", *TINY, "--draw", "no/a.png"], "the folder no does not exist"),
        (["--policy", "fair", *TINY, "--settings", "no.toml"], "no.toml: no such settings file"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused("simulate", "dag", *words)


def test_a_typo_in_a_file_is_named_with_the_file(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("executers = 3\n")
    said = refused("simulate", "dag", "--policy", "fair", "--settings", "cluster.toml")
    assert "cluster.toml: executers is not a setting; did you mean 'executors'?" in said


def test_a_file_that_is_no_workload(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "bad.workload").write_bytes(b"nonsense")
    said = refused("simulate", "dag", "--policy", "fair", "--workload", "bad.workload")
    assert "bad.workload: not a workload file" in said
