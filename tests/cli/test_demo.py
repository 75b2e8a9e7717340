from collections.abc import Callable
from pathlib import Path


def test_the_demo_answers_and_leaves_a_report(run: Callable, tmp_path: Path) -> None:
    words = ["demo", "--workload", "tiny:three-sizes", "--seeds", "2", "--processes", "1"]
    answer = run(*words)
    assert answer.code == 0
    assert "would serve this cluster best" in answer.out
    assert "trimtab import spark" in answer.out
    folder = tmp_path / "runs" / "demo"
    assert {path.name for path in folder.iterdir()} >= {"report.html", "gantt.png", "results.json"}
    again = run(*words, "--json")
    assert again.json["run_folder"] == "runs/demo-2"
    assert again.json["answer"].endswith(".")
    played = {row["policy"] for row in again.json["scenarios"][0]["policies"]}
    assert played > {"fair", "decima-tpch-batch", "compact-tpch"}


def test_no_seeds_are_not_taken_for_the_usual_ones(refused: Callable) -> None:
    assert "seeds = 0: should be greater than or equal to 2" in refused("demo", "--seeds", "0")


def test_the_demo_refuses_a_folder_that_exists(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert "there: exists" in refused("demo", "--out", "there")
