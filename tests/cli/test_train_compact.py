"""`trimtab train` of compact policies: what a run leaves, how it goes on, what it refuses."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.cli.terminal import now
from trimtab.cli.trainers import trainer_of
from trimtab.core.bundle import load_bundle
from trimtab.core.run_folder import RunFolder
from trimtab.dag_scheduling.workload import save_workload
from trimtab.dag_scheduling.workload.tiny import tiny_workload
from trimtab.learning.evolution import EvolutionSettings

TINY = ("--workload", "tiny:three-sizes", "--executors", "4")
COMPACT = """
begin = "shared"
validation = 2
workers = 1

[[courses]]
sequences = 2
rule = "fair"
workload = { name = "tiny:three-sizes", jobs = 3 }
cluster = { executors = 3 }

[training]
iterations = 2
pairs = 1
validate_every = 1
checkpoint_every = 1
"""


def test_a_compact_scheduler_is_trained_resumed_explained_and_compared(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    """A settings file says by its fields which kind is meant, a run by the file it keeps."""
    (tmp_path / "small.toml").write_text(COMPACT)
    words = ["train", "dag", "--preset", str(tmp_path / "small.toml"), "--out", "runs/mine"]
    said = run(*words, "--set", "training.iterations=1").out
    assert "of its rule's cost on validation workloads, at iteration" in said
    assert "trimtab compare dag/batch --policies " in said
    other = refused("train", "dag", "--resume", "runs/mine", "--set", "begin=packed")
    assert "began with begin = shared and cannot go on with packed" in other
    assert "already finished" in run("train", "dag", "--resume", "runs/mine").err
    whole = run(*words[:-1], "runs/whole", "--json").json
    assert whole["iterations"] == 2 and load_bundle(Path(whole["bundle"])).kind == "decima-compact"
    told = run("explain", "--policy", "runs/whole", *TINY, "--jobs", "3", "--decision", "2").out
    assert "Change of the score, and of the logarithm of the job's cap" in told
    row = run(
        "compare", "dag/batch", "--policies", "fair,runs/whole", *TINY, "--jobs", "3", "--seeds", "2",
        "--processes", "1",
    ).out  # fmt: skip
    assert "runs/whole" in row
    listed = run("train", "dag", "--presets").out
    assert "\ncompact-tpch-stream " in listed and "\ndecima-tpch-batch " in listed


def test_a_finished_run_whose_metrics_were_cut_is_not_told_to_go_on(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(COMPACT)
    run("train", "dag", "--preset", str(tmp_path / "small.toml"), "--out", "runs/mine")
    metrics = Path("runs/mine/metrics.jsonl")
    for kept, lost in (metrics.read_text().splitlines()[:1], 2), ([], 1):
        metrics.write_text("".join(line + "\n" for line in kept))
        said = refused("train", "dag", "--resume", "runs/mine")
        assert f"no line of iteration {lost}, though the run came to 2; put it back as it was" in said
        assert "--resume" not in said


@pytest.mark.parametrize(
    ("wing", "words", "compact"),
    [
        ("dag", "[training]\npairs = 2", True),
        ("dag", "validation = 2\n[training]\nhorizon = 9", False),
        ("dag", "lanes = 1\nenvironments = 4\n[training]\nstep = 0.1", False),
        ("dag", "training = 3", False),
        ("stream", "[training]\npairs = 2", True),
        ("stream", "[training]\nhorizon = 9", False),
        ("gpu", "[training]\npairs = 2", True),
        ("gpu", "[training]\nhorizon = 9", False),
    ],
)
def test_a_settings_file_says_its_kind_by_how_it_trains(
    tmp_path: Path, wing: str, words: str, compact: bool
) -> None:
    (tmp_path / "mine.toml").write_text(words)
    trainer = trainer_of(wing, preset=str(tmp_path / "mine.toml"))
    assert (trainer.settings.model_fields["training"].annotation is EvolutionSettings) == compact


def test_a_policy_says_from_which_it_began(run: Callable, tmp_path: Path) -> None:
    """Also one that was stopped: who goes on is not told again."""
    (tmp_path / "small.toml").write_text(COMPACT)
    words = ["train", "dag", "--preset", str(tmp_path / "small.toml"), "--json"]
    first = run(*words, "--out", "runs/first").json
    assert "began_from" not in load_bundle(Path(first["bundle"])).manifest["trained"]
    short = ["--start-from", "runs/first", "--minutes", "0.000001"]
    stopped = run(*words, *short, "--out", "runs/second").json
    assert not stopped["finished"]
    assert load_bundle(Path(stopped["bundle"])).manifest["trained"]["began_from"] == "first"
    resumed = run("train", "dag", "--resume", "runs/second", "--json").json
    assert resumed["finished"]
    assert load_bundle(Path(resumed["bundle"])).manifest["trained"]["began_from"] == "first"


@pytest.fixture
def on_a_file(run: Callable, tmp_path: Path) -> list[str]:
    """Words that train on a workload file, in the folder where it is."""
    save_workload(tiny_workload("three-sizes"), tmp_path / "my.workload")
    (tmp_path / "small.toml").write_text(COMPACT.replace("tiny:three-sizes", "my.workload"))
    return ["train", "dag", "--preset", str(tmp_path / "small.toml"), "--out", "runs/mine"]


def test_a_run_goes_on_only_with_the_file_it_began_with(
    run: Callable, refused: Callable, on_a_file: list[str], tmp_path: Path
) -> None:
    whole = run(*on_a_file, "--json").json["score"]
    shutil.rmtree("runs/mine")
    assert run(*on_a_file, "--minutes", "0.000001", "--json").json["iterations"] == 1
    save_workload(tiny_workload("two-jobs"), tmp_path / "my.workload")
    changed = f"runs/mine: its file {tmp_path / 'my.workload'} has changed since the run began; put it back"
    before = (tmp_path / "runs" / "mine" / "metrics.jsonl").read_bytes()
    assert changed in refused("train", "dag", "--resume", "runs/mine")
    assert changed in refused("explain", "runs/mine", "--decision", "1")
    assert (tmp_path / "runs" / "mine" / "metrics.jsonl").read_bytes() == before
    save_workload(tiny_workload("three-sizes"), tmp_path / "my.workload")
    assert run("train", "dag", "--resume", "runs/mine", "--json").json["score"] == whole


def test_a_run_goes_on_from_another_folder(
    run: Callable, on_a_file: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(*on_a_file, "--json").json["score"]
    shutil.rmtree("runs/mine")
    assert run(*on_a_file, "--minutes", "0.000001", "--json").json["iterations"] == 1
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    save_workload(tiny_workload("two-jobs"), Path("my.workload"))  # another one of that name
    said = run("train", "dag", "--resume", "../runs/mine", "--json").json
    assert (said["score"], said["finished"]) == (whole, True)
    assert f"--workload {tmp_path / 'my.workload'}" in said["compare"][0]
    told = run("explain", "../runs/mine", "--decision", "1", "--json").json
    assert told["workload"] == str(tmp_path / "my.workload")


def test_one_at_a_time_trains_in_a_folder(
    run: Callable, refused: Callable, on_a_file: list[str], tmp_path: Path
) -> None:
    assert run(*on_a_file, "--minutes", "0.000001").code == 0
    # Refused before anything is said of compiling.
    with RunFolder.open("runs/mine", clock=now).alone():
        said = refused("train", "dag", "--resume", "runs/mine")
        assert "runs/mine: another process is at work in this folder; wait until it has ended" in said
        assert run("explain", "runs/mine", "--decision", "1").code == 0  # looking is allowed


def test_iterations_are_counted_by_their_numbers(run: Callable, on_a_file: list[str], tmp_path: Path) -> None:
    """Not by lines, of which two that trained at once have left too many."""
    run(*on_a_file)
    metrics = tmp_path / "runs" / "mine" / "metrics.jsonl"
    metrics.write_text(metrics.read_text() * 2)
    said = run("train", "dag", "--resume", "runs/mine", "--json").json
    assert (said["iterations"], said["finished"]) == (2, True)
    assert "<dt>Iterations</dt><dd>2</dd>" in (tmp_path / "runs" / "mine" / "report.html").read_text()


@pytest.mark.parametrize("begin", ["", 'begin = "shared"\n'])
def test_a_file_too_short_is_refused_before_a_folder_is_made(
    run: Callable, refused: Callable, tmp_path: Path, begin: str
) -> None:
    course = '[[courses]]\nworkload = { name = "tiny:two-jobs", jobs = 20, arrivals = "trace" }\n'
    (tmp_path / "small.toml").write_text(begin + course)
    said = refused("train", "dag", "--preset", str(tmp_path / "small.toml"), "--out", "runs/mine")
    assert "its training part has 1 of 2 jobs, an episode needs 20" in said
    assert not (tmp_path / "runs").exists()


COMPACT_STREAM = """
validation = 1
workers = 1

[[courses]]
jobs = ["linear:2"]
stretches = 1
hours = 0.5
trace = { name = "sine" }

[[courses]]
jobs = ["linear:3"]
stretches = 1
hours = 0.5
trace = { name = "steps" }

[training]
iterations = 1
pairs = 1
validate_every = 1
checkpoint_every = 1
"""


@pytest.mark.slow
def test_a_compact_autoscaler_is_trained_explained_and_compared(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(COMPACT_STREAM)
    words = ["train", "stream", "--preset", str(tmp_path / "small.toml"), "--out"]
    said = run(*words, "runs/both").out
    assert "of its rule's cost on validation days, at iteration 1" in said
    assert "--job linear:2 " in said and "--job linear:3 " in said
    own = run(*words, "runs/own", "--job", "linear:4", "--trace", "flat", "--json").json
    trained = load_bundle(Path(own["bundle"])).manifest["trained"]
    assert [course["jobs"] for course in trained["courses"]] == [["linear:4"]]
    assert trained["courses"][0]["trace"]["name"] == "flat"
    assert "already finished" in run("train", "stream", "--resume", "runs/own").err
    told = run("explain", "--policy", "runs/own", "--job", "linear:2", "--decision", "40").out
    assert "It sizes vertices for" in told and "scaled up earlier" in told
    plain = run("explain", "--policy", "runs/own", "--job", "linear:2", "--decision", "40", "--json").json
    assert {"aims_at", "limit", "saving", "saved", "influences"} <= set(plain["compact"])
    row = run(
        "compare", "stream/jobs", "--policies", "ds2,runs/own", "--baseline", "ds2", "--job", "linear:2",
        "--trace", "flat", "--seeds", "2", "--processes", "1",
    ).out  # fmt: skip
    assert "runs/own" in row
    listed = run("train", "stream", "--presets").out
    assert "\nsure-compact " in listed and "\nsure " in listed
