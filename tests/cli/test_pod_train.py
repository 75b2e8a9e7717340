"""`trimtab train pod` from flags to an autoscaler that plays, is judged and explained."""

import io
import json
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.quick_compilation import compiling_quickly

from trimtab.cli.main import main
from trimtab.cli.trainers import trainer_of
from trimtab.core.bundle import load_bundle
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.pod_autoscaling.aware import training
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings
from trimtab.rates.traces import Provenance, RateTrace, save_trace

pytestmark = pytest.mark.pods

SMALLEST = """
# The smallest autoscaler that trains.
environments = 3
validation_services = 2

[ground]
applications = ["thumbnails"]
traces = ["steps"]
hours = 0.1
most_rate = 5.0
least_cores = 0.2
most_cores = 0.5

[training]
hidden = [8]
batch = 16
warmup = 6
iterations = 2
horizon = 3
updates_per_step = 1
reset_every = 1
checkpoint_every = 1
validate_every = 1
capacity = 1000
"""


def said_by(*words: str) -> dict[str, Any]:
    said = io.StringIO()
    with redirect_stdout(said):
        assert main([*words, "--json"]) == 0
    return json.loads(said.getvalue())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """A run that is stopped at its first checkpoint and goes on, and what the verb said of both halves."""
    folder = tmp_path_factory.mktemp("trained")
    preset = folder / "smallest.toml"
    preset.write_text(SMALLEST)
    run = str(folder / "run")
    with compiling_quickly():
        first = said_by("train", "pod", "--preset", str(preset), "--out", run, "--minutes", "1e-6")
        return folder / "run", first, said_by("train", "pod", "--resume", run)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AwareSettings]:
    """Settings that reach the training, which is stopped by Ctrl-C as soon as its folder is there."""
    seen: list[AwareSettings] = []

    def begin(settings: AwareSettings, folder: Path, *, clock: Any, resume: bool, **others: Any) -> Path:
        seen.append(settings)
        if not resume:
            run = RunFolder.create(folder, clock=clock, settings=settings.training)
            run.write_text(training.ASKED_FOR, settings_as_toml(settings))
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_aware", begin)
    return seen


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_to_a_policy(trained: tuple[Path, Any, Any]) -> None:
    folder, first, said = trained
    assert (first["iterations"], first["finished"]) == (1, False)
    assert (said["iterations"], said["finished"]) == (2, True)
    scores = [json.loads(line)["score"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert said["score"] == pytest.approx(min(scores)) and said["score"] == pytest.approx(
        scores[said["at_iteration"] - 1]
    )
    manifest = load_bundle(folder / "bundle").manifest
    assert manifest["trained"]["applications"] == ["thumbnails"]
    assert manifest["trained"]["teacher"].startswith("multi:")
    assert "Training of run" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_it_plays_is_judged_and_explained(run: Callable, trained: tuple[Path, Any, Any]) -> None:
    folder, _, said = trained
    words = ["--policy", str(folder), "--app", "thumbnails", "--hours", "0.1", "--mean-cores", "1", "--json"]
    assert run("simulate", "pod", *words).json["policy"] == str(folder)
    (command,) = said["compare"]
    judge = shlex.split(command)
    assert judge[:5] == ["trimtab", "compare", "pod/services", "--app", "thumbnails"]
    found = run(*judge[1:], "--hours", "0.1", "--seeds", "2", "--processes", "1", "--json").json
    assert str(folder) in [row["policy"] for row in found["scenarios"][0]["policies"]]
    told = run("explain", str(folder), "--decision", "3", "--json").json
    assert (told["policy"], told["service"], told["trace"]) == (str(folder), "thumbnails", "steps")
    assert {one["name"] for one in told["learned"]["answer"]} == {*ACTION_PARTS[AwareSettings().actions]}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_another_run_begins_from_its_policy(
    run: Callable, tmp_path: Path, trained: tuple[Path, Any, Any]
) -> None:
    """A step size of next to nothing leaves what it began from."""
    folder, _, _ = trained
    words = ["train", "pod", "--preset", str(folder / "aware.toml"), "--from", str(folder)]
    still = ["--set", "training.iterations=1", "--set", "training.actor_learning_rate=1e-9"]
    answer = run(*words, *still, "--out", "again")
    assert answer.code == 0, answer
    assert "score:  " in answer.out and "of its rule's cost on validation services" in answer.out
    assert "trimtab compare pod/services --app thumbnails" in answer.out
    ours, theirs = load_bundle(folder / "bundle"), load_bundle(tmp_path / "again" / "bundle")
    for name, tensor in ours.tensors.items():
        np.testing.assert_allclose(theirs.tensors[name], tensor, atol=1e-5)
    assert theirs.manifest["trained"]["began_from"] == "run"
    assert "began_from" not in ours.manifest["trained"]
    other = run(*words, "--set", "training.hidden=[16]", "--out", "wider")
    assert (other.code, other.out) == (2, "")
    assert "run has another network (hidden = (8,)) than asked for" in other.err
    assert not (tmp_path / "wider").exists()


@pytest.mark.slow
def test_a_finished_run_goes_on_to_nothing(
    run: Callable, refused: Callable, trained: tuple[Path, Any, Any]
) -> None:
    folder, _, said = trained
    answer = run("train", "pod", "--resume", str(folder))
    assert (answer.code, f"score:  {said['score']:.3f}" in answer.out) == (0, True)
    assert "already finished (2 iterations)" in answer.err
    other = refused("train", "pod", "--resume", str(folder), "--set", "environments=2")
    assert "began with environments = 3 and cannot go on with 2" in other
    assert f"{folder}: no training of dag to go on with" in refused("train", "dag", "--resume", str(folder))


def test_lessons_that_were_collected_before_a_stop_are_not_lost(
    run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(settings: AwareSettings, folder: Path, **others: Any) -> Path:
        Path(f"{folder}-lessons").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_aware", begin)
    answer = run("train", "pod", "--preset", "aware", "--out", "mine")
    assert answer.code == 130
    assert "collecting 5,600 lessons in each of 2 rounds first" in answer.err
    assert "whole rounds of lessons are kept; go on with the same command and --out mine" in answer.err


def test_flags_lie_over_the_preset(run: Callable, asked: list[AwareSettings]) -> None:
    answer = run("train", "pod", "--preset", "aware", "--app", "thumbnails, compress+sleep", "--trace",
                 "noisy", "--set", "training.hidden=[12]", "--minutes", "2", "--seed", "4", "--out", "mine"
                 )  # fmt: skip
    assert answer.code == 130
    assert "go on with: trimtab train pod --resume mine" in answer.err
    (settings,) = asked
    assert settings.ground.applications == ("thumbnails", "compress+sleep")
    assert settings.ground.traces == ("noisy",)
    assert settings.ground.most_cores == PRESETS.load("aware").ground.most_cores  # as in the preset
    assert settings.training.hidden == (12,)
    assert (settings.training.minutes, settings.seed) == (2, 4)
    assert run("train", "pod", "--resume", "mine").code == 130
    assert asked[1].training.minutes == 0
    assert asked[1].ground == settings.ground


def test_rates_are_judged_as_they_were_trained(
    run: Callable, asked: list[AwareSettings], tmp_path: Path
) -> None:
    save_trace(RateTrace(np.full(14 * 24, 3.0), 3600.0, Provenance("mine")), tmp_path / "my.trace")
    assert run("train", "pod", "--trace", "my.trace", "--mean-rate", "2.5", "--out", "mine").code == 130
    (settings,) = asked
    assert settings.ground.mean_rate == 2.5
    policies = "--policies hpa:target=70,hpa-vpa,mpc,multi,mine"
    (command,) = trainer_of("pod").judge(settings, Path("mine"))
    assert command == f"trimtab compare pod/unseen --trace my.trace --mean-rate 2.5 {policies}"
    (command,) = trainer_of("pod").judge(PRESETS.load("aware"), Path("mine"))
    assert command == f"trimtab compare pod/unseen {policies}"


def test_a_training_on_nights_in_which_nothing_arrives(run: Callable, tmp_path: Path) -> None:
    rates = np.tile(np.where(np.arange(24) % 24 < 18, 0.0, 1.0), 14)
    save_trace(RateTrace(rates, 3600.0, Provenance("office")), tmp_path / "office.trace")
    (tmp_path / "smallest.toml").write_text(SMALLEST)
    words = [
        "train",
        "pod",
        "--preset",
        "smallest.toml",
        "--trace",
        "office.trace",
        "--out",
        "mine",
        "--json",
    ]
    with compiling_quickly():
        found = run(*words, "--set", "ground.hours=1").json
    assert found["finished"]
    assert np.isfinite(found["score"])


def test_without_a_preset_it_is_aware(run: Callable, asked: list[AwareSettings], tmp_path: Path) -> None:
    assert run("train", "pod").code == 130
    assert asked[0] == PRESETS.load("aware")
    assert (tmp_path / "runs" / "aware" / training.ASKED_FOR).is_file()


def test_presets_are_listed_with_a_sentence(run: Callable) -> None:
    listed = run("train", "pod", "--presets", "--json").json
    assert [entry["name"] for entry in listed] == PRESETS.names()
    assert all(entry["description"].endswith(".") for entry in listed)
    assert "\naware " in run("train", "pod_autoscaling", "--presets").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workload", "tpch"], "--workload: train pod has no such flag; it has --app, --trace"),
        (["--job", "q1"], "--job: train pod has no such flag"),
        (["--app", "thumbnail"], "did you mean 'pod/thumbnails'"),
        (["--trace", "bursti"], "did you mean 'pod/bursty'"),
        (["--preset", "awar"], "no preset 'awar'; there are aware, "),
        (["--set", "environment=3"], "environments"),
        (["--set", "training.horizn=3"], "horizon"),
        (["--app", ""], "--app '': names nothing; leave it out, or name one"),
        (["--trace", ","], "--trace ,: names nothing; leave it out, or name one"),
        (["--set", "ground.hours=0"], "hours = 0"),
        (["--set", "actions=around5"], "actions"),
        (["--set", "environments"], "--set environments: not name=value"),
        (["--set", "ground.least_cores=90"], "least_cores = 90 is above most_cores"),
        (["--seed", "-1"], "seed = -1"),
        (["--mean-rate", "0"], "mean_rate = 0"),
        (["--resume", "nowhere"], "nowhere"),
        (["--from", "nowhere/at-all"], "nowhere/at-all: no such folder"),
        (["--from", "sure"], "sure: no such folder; give a bundle"),
    ],
)
def test_mistakes_are_found_before_anything_is_compiled(
    refused: Callable, asked: list[AwareSettings], tmp_path: Path, words: list[str], said: str
) -> None:
    assert said in refused("train", "pod", *words)
    assert not asked and not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(
    refused: Callable, asked: list[AwareSettings], tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    assert "there: exists; choose another --out" in refused("train", "pod", "--out", "there")
    assert not asked
