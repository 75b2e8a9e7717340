"""`trimtab train stream` from flags to an autoscaler that plays, is judged and explained."""

import io
import json
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from tests.quick_compilation import compiling_quickly

from trimtab.cli.main import main
from trimtab.core.bundle import load_bundle
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.stream_autoscaling.sure import training
from trimtab.stream_autoscaling.sure.task import SureSettings, preset_names

SMALLEST = """
# The smallest autoscaler that trains.
jobs = ["linear:3"]
environments = 4
lanes = 1
rollouts = 2
validation = 1
span_h = 2.0
deployment = { interval_s = 600, history = 6, substep_ms = 30000 }

[network]
history_encoder = "deepwave"
history = 6
snapshots = 2
hidden = 8
base_window_s = 1200

[training]
iterations = 1
horizon = 2
epochs = 1
minibatches = 1
reset_every = 1
validate_every = 1
checkpoint_every = 1
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One real run, and what the verb said of it; nearly all of its time is compiling."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "smallest.toml").write_text(SMALLEST)
    said = io.StringIO()
    with redirect_stdout(said), compiling_quickly():
        words = ["--preset", str(folder / "smallest.toml"), "--out", str(folder / "run"), "--json"]
        assert main(["train", "stream", *words]) == 0
    return folder / "run", json.loads(said.getvalue())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SureSettings]:
    """Settings that reach the training, which is stopped by Ctrl-C as soon as its folder is there."""
    seen: list[SureSettings] = []

    def begin(settings: SureSettings, folder: Path, *, clock: Any, resume: bool, **others: Any) -> Path:
        seen.append(settings)
        if not resume:
            run = RunFolder.create(folder, clock=clock, settings=settings.training)
            run.write_text(training.ASKED_FOR, settings_as_toml(settings))
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_sure", begin)
    return seen


@pytest.mark.slow
def test_a_run_leaves_a_policy_its_score_and_its_curves(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, said = trained
    assert (said["iterations"], said["finished"], said["at_iteration"]) == (1, True, 1)
    measured = json.loads((folder / "metrics.jsonl").read_text())
    assert said["score"] == pytest.approx(measured["score"])
    manifest = load_bundle(folder / "bundle").manifest
    assert manifest["trained"]["jobs"] == ["linear:3"]
    assert manifest["scores"]["job_0"] == said["score"]  # one job: its score is the score
    assert "Training of run" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_it_plays_is_judged_and_explained(run: Callable, trained: tuple[Path, dict[str, Any]]) -> None:
    folder, said = trained
    words = ["--policy", str(folder), "--job", "linear:3", "--interval-s", "600", "--json"]
    assert run("simulate", "stream", *words).json["policy"] == str(folder)
    (command,) = said["compare"]
    words = shlex.split(command)
    assert words[:3] == ["trimtab", "compare", "stream/jobs"]
    found = run(*words[1:], "--seeds", "2", "--processes", "1", "--json").json
    assert str(folder) in [row["policy"] for row in found["scenarios"][0]["policies"]]
    assert found["settings"]["deployment"]["interval_s"] == 600
    told = run("explain", str(folder), "--decision", "3", "--json").json
    assert (told["policy"], told["job"], told["interval_s"]) == (str(folder), "linear:3", 600)
    assert told["learned"]["commit"]["probability"] < 1


@pytest.mark.slow
def test_a_finished_run_goes_on_to_nothing(
    run: Callable, refused: Callable, trained: tuple[Path, dict[str, Any]]
) -> None:
    folder, said = trained
    report = (folder / "report.html").read_text()
    answer = run("train", "stream", "--resume", str(folder))
    assert (folder / "report.html").read_text() == report  # how it was made is no news
    assert (answer.code, f"score:  {said['score']:.3f}" in answer.out) == (0, True)
    assert "already finished (1 iterations)" in answer.err
    other = refused("train", "stream", "--resume", str(folder), "--set", "lanes=2")
    assert "began with lanes = 1 and cannot go on with 2" in other
    assert f"{folder}: no training of dag to go on with" in refused("train", "dag", "--resume", str(folder))


def test_flags_lie_over_the_preset(run: Callable, asked: list[SureSettings]) -> None:
    answer = run("train", "stream", "--preset", "sure-cpu", "--job", "linear:3, q1", "--trace", "sine",
                 "--mean-rate", "1234567.5",
                 "--set", "network.hidden=12", "--minutes", "2", "--seed", "4", "--out", "mine")  # fmt: skip
    assert answer.code == 130
    assert "go on with: trimtab train stream --resume mine" in answer.err
    (settings,) = asked
    assert (settings.jobs, settings.trace.name) == (("linear:3", "q1"), "sine")
    assert settings.trace.mean_rate == 1_234_567.5
    assert settings.trace.rate_spread > 0  # what the flag does not say stays as in the preset
    assert (settings.network.hidden, settings.network.history_encoder) == (12, "gru")
    assert (settings.training.minutes, settings.training.seed) == (2, 4)
    assert run("train", "stream", "--resume", "mine").code == 130
    assert asked[1].training.minutes == 0
    assert asked[1].network == settings.network


def test_presets_are_listed_with_a_sentence(run: Callable) -> None:
    listed = run("train", "stream", "--presets", "--json").json
    compact = ["sure-compact", "sure-compact-even", "sure-compact-longer"]
    assert [entry["name"] for entry in listed] == sorted([*preset_names(), *compact])
    assert all(entry["description"].endswith(".") for entry in listed)
    listed = run("train", "stream", "--presets").out
    assert "\nsure-cpu " in listed
    assert listed.endswith("These are of stream; of dag, pod, gpu: trimtab train WING --presets\n")
