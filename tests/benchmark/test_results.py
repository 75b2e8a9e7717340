"""What a benchmark leaves behind: its result, whole, and an exit status that says whether all bars hold."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import claims, results
from benchmarks.results import ROOT, Row, at_least, at_most, command_of, finish, near, within, write_result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results go instead, by a command without arguments."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    found = tmp_path / "benchmarks" / "results"
    found.mkdir(parents=True)
    return found


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (at_least("a", 2.0, 2.0), 0),
        (at_least("a", 1.9, 2.0), 1),
        (at_most("a", 2.1, 2.0), 1),
        (within("a", 0.9, 1.0, 2.0), 1),
        (near("a", 89.0, 100.0, 0.1), 1),
        (at_most("a", float("nan"), 2.0), 1),
        (Row("a", 1.0, "none", True), 0),
    ],
)
def test_a_missed_bar_fails_the_command(folder: Path, row: Row, status: int) -> None:
    with pytest.raises(SystemExit) as ended:
        finish("mine", [at_least("before", 1, 1), row])
    assert ended.value.code == status
    kept = json.loads((folder / "mine.json").read_text())
    assert kept["command"] == "make bench-mine" and len(kept["rows"]) == 2


def test_what_is_no_number_is_written_as_null_and_read_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = float("nan")
    with pytest.raises(SystemExit) as ended:
        finish("mine", [Row("a", nothing, "none", True, nothing, nothing), Row("b", math.inf, "none", True)])
    assert ended.value.code == 0
    text = (folder / "mine.json").read_text()
    assert "NaN" not in text and "Infinity" not in text
    monkeypatch.setattr(claims, "RESULTS", folder)
    result = claims.load("mine")
    assert result is not None
    assert [claims.number(row) for row in result["rows"]] == ["a: **no number**", "b: **no number**"]


def test_nothing_measured_leaves_the_old_result(folder: Path) -> None:
    (folder / "mine.json").write_text("old")
    with pytest.raises(SystemExit, match="measured nothing"):
        finish("mine", [])
    assert (folder / "mine.json").read_text() == "old"


def test_a_write_that_breaks_off_leaves_the_old_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.json").write_text("old")

    def half(path: Path, text: str) -> None:
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="no space"):
        write_result("mine", {"rows": []})
    assert (folder / "mine.json").read_text() == "old"


def test_the_result_of_a_trial_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", "--part", "validation"])
    with pytest.raises(SystemExit):
        finish("mine", [at_least("a", 1, 1)], target="other")
    kept = json.loads((folder / "mine.json").read_text())
    assert kept["command"] == 'make bench-other ARGS="--part validation"'


def test_no_committed_result_is_that_of_a_trial() -> None:
    kept = {path.stem: json.loads(path.read_text()) for path in results_of(ROOT)}
    trials = {topic: one["command"] for topic, one in kept.items() if "ARGS=" in one["command"]}
    assert kept and not trials, "run the command without ARGS and commit that"
    assert all(one["rows"] for one in kept.values())


def results_of(root: Path) -> list[Path]:
    return sorted((root / "benchmarks" / "results").glob("*.json"))


def test_arguments_with_spaces_can_be_typed_again() -> None:
    assert command_of("a", ["--policy", "my run"]) == "make bench-a ARGS=\"--policy 'my run'\""


@pytest.mark.parametrize("name", ["gpu_gp", "stream_inference"])
def test_benchmarks_that_choose_their_threads_can_be_imported(name: str) -> None:
    """They begin anew with one thread, and that must not play the benchmark for whoever imports them."""
    code = f"import benchmarks.{name}, sys; sys.exit(7)"
    usual = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=usual, check=False, timeout=60)
    assert done.returncode == 7
