"""`trimtab train` from flags to a policy that plays, and its curves."""

import io
import json
import shlex
import shutil
import signal
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.quick_compilation import compiling_quickly
from tests.untrained_bundle import save_untrained

from trimtab import __version__
from trimtab.benchmark.report.training import training_sections, write_training_report
from trimtab.cli import train as train_module
from trimtab.cli.main import main
from trimtab.cli.trainers import trainer_of
from trimtab.core.bundle import load_bundle
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import training
from trimtab.dag_scheduling.decima.compact_task import PRESETS
from trimtab.dag_scheduling.decima.task import DecimaSettings, preset_names
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload import save_workload
from trimtab.dag_scheduling.workload.presets import with_random_memory
from trimtab.dag_scheduling.workload.tiny import tiny_workload
from trimtab.learning.run_files import START

SMALLEST = """
# The smallest thing that trains.
environments = 4
lanes = 1
jobs_shown = 4
validation = 2

[[courses]]
workload = { name = "tiny:three-sizes", jobs = 4 }
cluster = { executors = 4 }

[network]
hidden = 8
embedding = 4
graph = false

[training]
iterations = 1
horizon = 4
epochs = 1
minibatches = 1
reset_every = 1
validate_every = 1
checkpoint_every = 1
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One real run, and what the verb said of it; most of its half minute is compiling."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "smallest.toml").write_text(SMALLEST)
    said = io.StringIO()
    with redirect_stdout(said), compiling_quickly():
        words = ["--preset", str(folder / "smallest.toml"), "--out", str(folder / "run"), "--json"]
        assert main(["train", "dag_scheduling", *words]) == 0
    return folder / "run", json.loads(said.getvalue())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[DecimaSettings]:
    """Settings that reach the training, which is stopped by Ctrl-C as soon as its folder is there."""
    seen: list[DecimaSettings] = []

    def begin(settings: DecimaSettings, folder: Path, *, clock: Any, resume: bool, **others: Any) -> Path:
        seen.append(settings)
        if not resume:
            run = RunFolder.create(folder, clock=clock, settings=settings.training)
            run.write_text(training.ASKED_FOR, settings_as_toml(settings))
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_decima", begin)
    return seen


# --- one real run ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_leaves_a_policy_its_score_and_its_curves(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, said = trained
    assert (said["iterations"], said["finished"], said["at_iteration"]) == (1, True, 1)
    measured = json.loads((folder / "metrics.jsonl").read_text())
    assert said["score"] == pytest.approx(measured["score"])
    manifest = load_bundle(folder / "bundle").manifest
    assert manifest["scores"]["courses"] == [said["score"]]  # one course: its score is the score
    assert manifest["scores"]["validation cost over fair's"] == measured["score/over_fair"]
    assert manifest["trained"]["versions"]["trimtab"] == __version__
    page = (folder / "report.html").read_text()
    assert "Training of run" in page
    assert "Cost against the teacher" in page
    policy = make_policy(str(folder))
    episode = simulate(tiny_workload("two-jobs"), policy, Cluster(executors=3))
    assert episode.policy == str(folder)
    assert (episode.completion_ms > 0).all()


@pytest.mark.slow
def test_who_is_told_to_end_leaves_the_best_policy_so_far(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = tmp_path / "ended"

    def be_ended(settings: DecimaSettings, into: Path, **others: Any) -> Path:
        shutil.copytree(trained[0], into, ignore=shutil.ignore_patterns("bundle"))
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("still here")

    monkeypatch.setattr(training, "train_decima", be_ended)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["train", "dag", "--preset", "decima-cpu", "--out", str(folder)]) == 130
    assert signal.getsignal(signal.SIGTERM) == before
    assert f"the best policy so far: {folder / 'bundle'}" in capsys.readouterr().err
    assert make_policy(str(folder)).name == str(folder)


@pytest.mark.slow
def test_who_stops_before_the_best_policy_was_found_again_is_told_so(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = shutil.copytree(trained[0], tmp_path / "again")

    def stop(settings: DecimaSettings, into: Path, **others: Any) -> Path:
        (into / "metrics.jsonl").write_text("")
        raise KeyboardInterrupt

    (folder / "state-last.safetensors").unlink()
    monkeypatch.setattr(training, "train_decima", stop)
    assert main(["train", "dag", "--resume", str(folder)]) == 130
    said = capsys.readouterr().err
    assert f"go on with: trimtab train dag --resume {folder}" in said
    assert "its best checkpoint is of iteration 1, which is not among its metrics" in said


@pytest.mark.slow
def test_the_command_it_ends_with_judges_it(run: Callable, trained: tuple[Path, dict[str, Any]]) -> None:
    folder, said = trained
    (command,) = said["compare"]
    words = shlex.split(command)
    assert words[:3] == ["trimtab", "compare", "dag/batch"]
    found = run(*words[1:], "--seeds", "2", "--processes", "1", "--json").json
    assert str(folder) in [row["policy"] for row in found["scenarios"][0]["policies"]]
    assert found["settings"]["workload"]["name"] == "tiny:three-sizes"
    assert found["settings"]["cluster"]["executors"] == 4


SIZES = [{"count": 1, "memory": 0.5}, {"count": 4, "memory": 1.0}]


@pytest.mark.parametrize(
    "course",
    [
        {},
        {"cluster": {"executors": 7, "moving_delay_ms": 0, "warmup_delay_ms": 5, "durations": "learned"}},
        {"cluster": {"rules": "compat", "corrections": []}},
        {"workload": {"random_memory": True}, "cluster": {"executors": 5, "classes": SIZES}},
        {"workload": {"random_memory": False}, "cluster": {"executors": 5, "classes": SIZES}},
        {"workload": {"arrivals": "poisson", "jobs": 9, "mean_gap_s": 12.5}},
        {"workload": {"arrivals": "poisson", "jobs": 9, "load": 0.6}},
        {
            "workload": {"arrivals": "poisson", "jobs": 9, "load": 0.6, "random_memory": True},
            "cluster": {"executors": 5, "classes": SIZES},
        },
    ],
)
def test_the_command_judges_on_the_cluster_that_was_trained_for(
    course: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def stop(suite: Any, **others: Any) -> None:
        asked.append(suite)
        raise KeyboardInterrupt

    monkeypatch.setattr("trimtab.benchmark.compare.compare", stop)
    settings = DecimaSettings.model_validate({"courses": [course]})
    (command,) = trainer_of("dag").judge(settings, Path("fifo"))
    assert main(shlex.split(command)[1:]) == 130
    trained_on = settings.courses[0]
    assert asked[0].cluster.model_dump() == trained_on.cluster.model_dump()
    assert asked[0].scenarios()[0].workload.model_dump() == trained_on.workload.model_dump()
    packing = {"graphene:tuned", "packed-srpt:tuned"} & set(asked[0].policies)
    assert len(packing) == (2 if trained_on.cluster.classes else 0)  # whoever minds memory where sizes differ


@pytest.mark.slow
def test_a_finished_run_goes_on_to_nothing_and_keeps_its_settings(
    run: Callable, refused: Callable, trained: tuple[Path, dict[str, Any]]
) -> None:
    folder, said = trained
    before = (folder / "bundle" / "manifest.json").read_bytes()
    answer = run("train", "--resume", str(folder), "--minutes", "1")
    assert answer.code == 0
    assert answer.err == (
        f"{folder}: already finished (1 iterations); "
        f"begin a new run from its policy with --start-from {folder}\n"
    )
    assert f"score:  {said['score']:.3f}" in answer.out
    assert (folder / "bundle" / "manifest.json").read_bytes() == before
    assert run("train", "--resume", str(folder), "--json").json["finished"] is True
    other = refused("train", "--resume", str(folder), "--seed", "4")
    assert "began with training.seed = 0 and cannot go on with 4" in other


@pytest.mark.slow
def test_a_run_can_be_explained(run: Callable, trained: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = trained
    found = run("explain", str(folder), "--decision", "1", "--json").json
    assert (found["workload"], found["executors"], found["policy"]) == ("tiny:three-sizes", 4, str(folder))


# --- what reaches the training -----------------------------------------------------------------------


def test_flags_lie_over_the_preset(run: Callable, asked: list[DecimaSettings]) -> None:
    words = [
        "--set",
        "training.iterations=7",
        "--set",
        "courses.0.teacher=fair",
        "--set",
        "network.graph=false",
    ]
    run("train", "dag", "--preset", "decima-tpch-stream", "--workload", "synthetic", "--seed", "5",
        "--minutes", "0.5", *words)  # fmt: skip
    (settings,) = asked
    assert {course.workload.name for course in settings.courses} == {"synthetic"}
    assert settings.courses[0].workload.arrivals == "poisson"
    assert [course.teacher for course in settings.courses].count("fair") == 1
    assert (settings.training.seed, settings.training.minutes, settings.training.iterations) == (5, 0.5, 7)
    assert settings.network.graph is False


def test_a_workload_is_trained_on_with_its_own_memory_demands(
    run: Callable, asked: list[DecimaSettings], tmp_path: Path
) -> None:
    """As it is judged in comparisons; the preset draws demands because its own jobs have none."""
    plain = tiny_workload("diamond")
    own = replace(plain, profile=with_random_memory(plain.profile, seed=0))
    save_workload(plain, tmp_path / "plain.workload")
    save_workload(own, tmp_path / "own.workload")
    multi = ("train", "dag", "--preset", "decima-multi", "--workload")
    run(*multi, "own.workload")
    run(*multi, "own.workload", "--set", "courses.0.workload.random_memory=true")
    run(*multi, "plain.workload")
    assert [settings.courses[0].workload.random_memory for settings in asked] == [False, True, True]


def test_stopping_says_how_to_go_on(
    run: Callable, refused: Callable, asked: list[DecimaSettings], tmp_path: Path
) -> None:
    answer = run("train", "--set", "training.iterations=9", "--minutes", "8")
    assert answer.code == 130
    assert "trimtab train dag --resume runs/decima-tpch-batch" in answer.err
    assert run("train", "--resume", "runs/decima-tpch-batch", "--minutes", "3").code == 130
    assert asked[1].training.iterations == 9
    assert asked[1].training.minutes == 3
    run("train", "--resume", "runs/decima-tpch-batch")
    assert asked[2].training.minutes == 0
    other = refused("train", "--resume", "runs/decima-tpch-batch", "--set", "environments=32")
    began = asked[0].environments
    assert f"began with environments = {began} and cannot go on with 32" in other
    assert "runs/decima-tpch-batch-2" in run("train").err


@pytest.mark.parametrize(
    ("trains", "words", "began"),
    [
        (
            "dag_scheduling.decima.training.train",
            ["dag", "--preset", "decima-batch-rollouts"],
            "decima-tpch-batch",
        ),
        ("stream_autoscaling.sure.training.train", ["stream", "--set", "lessons=0"], "sure"),
        pytest.param(
            "pod_autoscaling.aware.training.train_off_policy",
            ["pod", "--set", "lessons=0", "--set", "logged_steps=1"],
            "aware",
            marks=pytest.mark.pods,
        ),
        ("gpu_scheduling.das.network_training.train", ["gpu", "--preset", "das-network"], "das-network"),
    ],
)
def test_a_run_keeps_from_which_policy_it_began(
    run: Callable, monkeypatch: pytest.MonkeyPatch, trains: str, words: list[str], began: str
) -> None:
    kept: dict[str, str] = {}

    def stop(*told: Any, texts: dict[str, str], **others: Any) -> None:
        kept.update(texts)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"trimtab.{trains}", stop)
    run("train", *words)
    assert START not in kept
    run("train", *words, "--start-from", began)
    assert json.loads(kept[START]) == {"began_from": began}


def test_presets_are_listed_with_a_sentence(run: Callable) -> None:
    listed = run("train", "--presets", "--json").json
    assert [entry["name"] for entry in listed] == sorted([*preset_names(), *PRESETS.names()])
    assert all(entry["description"].endswith(".") for entry in listed)
    assert "\ndecima-tpch-batch " in run("train", "--presets").out


@pytest.mark.parametrize("wing", ["dag", "stream", "pod", "gpu"])
def test_presets_are_listed_without_what_training_needs(
    run: Callable, monkeypatch: pytest.MonkeyPatch, wing: str
) -> None:
    monkeypatch.setattr(train_module, "find_spec", lambda name: None)
    names = [entry["name"] for entry in run("train", wing, "--presets", "--json").json]
    assert names == trainer_of(wing).presets.names()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "nothing"], "no preset 'nothing'; there are compact-"),
        (["--preset", "no.toml"], "error: no.toml: no such settings file; check the path"),
        (["--workload", "nothing"], "no workload 'dag/nothing'"),
        (
            ["--set", "training.iterationz=3"],
            "--set training.iterationz=3: training.iterationz is not a setting; did you mean 'iterations'?",
        ),
        (
            ["--set", "lanes=2", "--set", "trainingg.iterations=3"],
            "error: --set trainingg.iterations=3: trainingg is not a setting; did you mean 'training'?",
        ),
        (
            ["--set", "iterations=3"],
            "--set iterations=3: iterations is not a setting; did you mean 'training.it",
        ),
        (["--set", "network={hidden=1}"], "--set network={hidden=1}: network.hidden = 1"),
        (["--set", "training.checkpoint_every=7"], "error: --set training.checkpoint_every=7: training: "),
        (["--seed", "-1"], "error: --seed -1: training.seed = -1"),
        (
            ["--seed", "1", "--set", "training.seed=2"],
            "--seed 1 and --set training.seed=2 set the same field; give one of the two",
        ),
        (["--workload", ""], "error: --workload '': courses.0.workload.name"),
        (["--preset", ""], "error: no preset ''; there are compact-multi, "),
        (["--set", "iterations"], "--set iterations: not name=value"),
        (["--set", "courses.²=3"], "error: --set courses.²=3: '²' counts into a list; use 0 to "),
        (
            ["--set", "courses=[{}]", "--set", "courses.5.teacher=fair"],
            "error: --set courses.5.teacher=fair: '5' counts into a list; use 0 to 0",
        ),
        (["--set", "courses.0.teacher=fiar"], "courses.0.teacher = fiar: no policy 'dag/fiar'; did you mean"),
        (["--set", "courses.0.teacher=lone"], "courses.0.teacher = lone: is not a rule; name one of"),
        (
            [
                "--set",
                "courses=[{look_ahead_s=9}, {look_ahead_s=9}]",
                "--set",
                "environments=7",
                "--set",
                "training.minibatches=1",
            ],
            "7 environments cannot be split into",
        ),
        (
            ["--preset", "decima-paper", "--set", "courses.0.cluster.objective=makespan"],
            "courses.0.cluster.objective = makespan costs the same every second, of which",
        ),
        (
            ["--set", "courses.1.look_ahead_s=0"],
            "foreseen goes by what is foreseen, and courses.1.look_ahead_s = 0 looks nowhere; set it",
        ),
        (
            ["--set", "training.mean_episode_s=100"],
            "training.mean_episode_s = 100 cuts episodes short of where courses.0.look_ahead_s = 150 looks",
        ),
        (["--set", "training.minibatches=7"], "minibatches = 7 does not divide"),
        (["--set", "environments=many"], 'environments = "many"'),
        (["--out", "there"], "there: exists; choose another --out, or go on with --resume there"),
        (["--resume", "nowhere"], "nowhere: no such folder"),
        (["--resume", "there"], "there: not a run folder"),
        (["--from", "nowhere"], "nowhere: no such folder; give a bundle"),
        (["--from", "there"], "there: holds no trained policy"),
    ],
)
def test_mistakes(refused: Callable, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "there").mkdir()
    save_untrained(tmp_path / "lone")
    # One line, so nothing was said of compiling before.
    assert said in refused("train", "dag", *words)


def test_without_jax_one_line_says_what_to_install(
    refused: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module, "find_spec", lambda name: None)
    said = refused("train", "dag")
    assert "training needs jax and optax; in the checkout of trimtab, pip install '.[train]'" in said


# --- the curves --------------------------------------------------------------------------------------


def test_curves_are_over_the_time_of_training() -> None:
    """Two iterations of 2 s; the first one copies, so it has no divergence, and is not validated."""
    lines = [
        {"seconds": 2.0, "decisions": 8, "decisions_per_s": 4000.0, "explained_variance": -1.0},
        {"seconds": 2.0, "decisions": 8, "decisions_per_s": 6000.0, "explained_variance": 0.5,
         "kl": 0.01, "score": 0.9},
    ]  # fmt: skip
    score, speed, divergence, critic = training_sections(lines, name="mine")
    assert (score.curves[0].x.tolist(), score.curves[0].y.tolist()) == ([4000], [0.9])
    assert (score.curves[1].policy, score.curves[1].y.tolist()) == ("teacher", [1.0, 1.0])
    assert (speed.curves[0].x.tolist(), speed.curves[0].y.tolist()) == ([2000, 4000], [4.0, 6.0])
    assert divergence.curves[0].y.tolist() == [0.01]
    assert critic.curves[0].y.tolist() == [0.0, 0.5]


def test_no_report_without_a_score(tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match="no score in the metrics"):
        write_training_report(tmp_path / "report.html", [], name="mine", command="")
