"""`trimtab train` from flags to a policy that plays, and trained policies in every other verb."""

import io
import json
import pickle
import shlex
import shutil
import signal
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from tests.quick_compilation import compiling_quickly
from tests.untrained_bundle import save_untrained

from trimtab import __version__
from trimtab.benchmark.dag_scheduling.suites import BatchSuite, DecimaSuite
from trimtab.benchmark.dag_scheduling.wing import scenario_ground
from trimtab.benchmark.report.training import training_sections, write_training_report
from trimtab.benchmark.tuned import shipped_tuned_values
from trimtab.cli import train as train_module
from trimtab.cli.main import main
from trimtab.cli.terminal import now
from trimtab.cli.trainers import trainer_of
from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import settings_as_toml
from trimtab.dag_scheduling import policies
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import training
from trimtab.dag_scheduling.decima.compact import compact_bundle, first_numbers
from trimtab.dag_scheduling.decima.compact_task import PRESETS
from trimtab.dag_scheduling.decima.task import DecimaSettings, preset_names
from trimtab.dag_scheduling.policies import described, make_policy
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload import save_workload
from trimtab.dag_scheduling.workload.tiny import tiny_workload

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
def test_the_command_it_ends_with_judges_it(run: Callable, trained: tuple[Path, dict[str, Any]]) -> None:
    folder, said = trained
    (command,) = said["compare"]
    words = shlex.split(command)
    assert words[:3] == ["trimtab", "compare", "dag/batch"]
    found = run(*words[1:], "--seeds", "2", "--processes", "1", "--json").json
    assert str(folder) in [row["policy"] for row in found["scenarios"][0]["policies"]]
    assert found["settings"]["workload"]["name"] == "tiny:three-sizes"
    assert found["settings"]["cluster"]["executors"] == 4


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


def test_presets_are_listed_with_a_sentence(run: Callable) -> None:
    listed = run("train", "--presets", "--json").json
    assert [entry["name"] for entry in listed] == sorted([*preset_names(), *PRESETS.names()])
    assert all(entry["description"].endswith(".") for entry in listed)
    assert "\ndecima-tpch-batch " in run("train", "--presets").out


@pytest.mark.parametrize("wing", ["dag", "stream", "pod_autoscaling", "gpu"])
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
        (["--set", "iterations"], "--set iterations: not name=value"),
        (
            ["--set", "courses=[{}]", "--set", "courses.5.teacher=fair"],
            "error: --set courses.5.teacher=fair: '5' counts into a list; use 0 to 0",
        ),
        (["--set", "courses.0.teacher=fiar"], "courses.0.teacher = fiar: no policy 'dag/fiar'; did you mean"),
        (["--set", "courses.0.teacher=lone"], "courses.0.teacher = lone: is not a rule; name one of"),
        (
            ["--set", "courses=[{}, {}]", "--set", "environments=7", "--set", "training.minibatches=1"],
            "7 environments cannot be split into",
        ),
        (
            ["--preset", "decima-paper", "--set", "courses.0.cluster.objective=makespan"],
            "courses.0.cluster.objective = makespan costs the same every second, of which",
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


# --- the other kind: compact schedulers ---------------------------------------------------------------

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


# --- trained policies by name and by path ------------------------------------------------------------


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained policy that comes with the package."""
    folder = save_untrained(tmp_path / "package" / "decima-small")
    monkeypatch.setattr(policies.POLICIES, "bundles", folder.parent)
    return folder


TINY = ("--workload", "tiny:three-sizes", "--executors", "4")


def test_a_shipped_policy_is_known_by_its_name(run: Callable, refused: Callable, shipped: Path) -> None:
    assert make_policy("decima-small").name == make_policy("dag/decima-small").name == "decima-small"
    assert described("decima-small") == "Learned (decima): 4 jobs of tiny:three-sizes at once, 4 executors."
    assert " decima-small " in run("policies").out
    assert (
        run("simulate", "dag", "--policy", "decima-small", *TINY, "--json").json["policy"] == "decima-small"
    )
    words = [*TINY, "--jobs", "3", "--seeds", "2", "--processes", "1"]
    assert "decima-small" in run("compare", "dag/batch", "--policies", "fair,decima-small", *words).out
    tune = refused("tune", "dag", "--policies", "decima-small", *TINY)
    assert "'decima-small' has nothing to tune" in tune
    assert "is trained and has no settings; leave out alpha" in refused(
        "simulate", "dag", "--policy", "decima-small:alpha=1", *TINY
    )


def test_a_policy_may_be_a_path(run: Callable, refused: Callable, tmp_path: Path) -> None:
    save_untrained(tmp_path / "runs" / "mine" / "bundle")
    save_untrained(tmp_path / "lone")
    for text in ("runs/mine", "runs/mine/bundle", "lone", str(tmp_path / "lone")):
        played = run("simulate", "dag", "--policy", text, *TINY, "--json").json
        assert played["policy"] == text
    assert "runs/none: no such folder" in refused("simulate", "dag", "--policy", "runs/none", *TINY)
    assert "runs: holds no trained policy" in refused("simulate", "dag", "--policy", "runs", *TINY)
    (tmp_path / "lone" / "manifest.json").write_text("{}")
    assert "lone" in refused("simulate", "dag", "--policy", "lone", *TINY)


def test_loads_are_told_together() -> None:
    def stream(load: float) -> dict[str, Any]:
        return {
            "workload": {"name": "tpch", "jobs": 9, "arrivals": "poisson", "load": load},
            "cluster": {"executors": 50},
        }

    told = policies._courses_in_words([stream(0.5), stream(2.0), stream(0.8)])
    assert told == ["9 jobs of tpch in streams at loads 0.5 to 2, 50 executors"]


def test_a_trained_policy_travels_to_another_process(tmp_path: Path) -> None:
    policy = make_policy(str(save_untrained(tmp_path / "lone")))
    copy = pickle.loads(pickle.dumps(policy))
    first = simulate(tiny_workload("three-sizes"), policy, Cluster(executors=3))
    again = simulate(tiny_workload("three-sizes"), copy, Cluster(executors=3))
    assert copy.name == policy.name
    assert (first.completion_ms == again.completion_ms).all()


def test_demo_and_suite_take_in_what_is_shipped(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies.POLICIES, "bundles", tmp_path / "none")
    assert DecimaSuite().policies == (
        "fair",
        "weighted-fair:tuned",
        "graphene:tuned",
        "capped-srpt-local:tuned",
    )
    folder = save_untrained(tmp_path / "package" / "decima-tpch-batch")
    monkeypatch.setattr(policies.POLICIES, "bundles", folder.parent)
    assert "decima-tpch-batch" in DecimaSuite().policies
    numbers = first_numbers("shortest", 0)
    save_bundle(folder.parent / "compact-tpch", compact_bundle("compact", numbers, trained={}, scores={}))
    words = ["demo", "--workload", "tiny:three-sizes", "--seeds", "2", "--processes", "1", "--json"]
    played = [row["policy"] for row in run(*words).json["scenarios"][0]["policies"]]
    assert "compact-tpch" in played


def test_the_suite_has_a_batch_and_streams_of_the_same_jobs(run: Callable) -> None:
    scenarios = DecimaSuite().scenarios()
    assert [one.name for one in scenarios] == ["batch", "load 0.50", "load 0.70", "load 0.85", "load 0.95"]
    assert [one.workload.jobs for one in scenarios] == [20, 200, 200, 200, 200]
    assert [one.workload.load for one in scenarios] == [None, 0.5, 0.7, 0.85, 0.95]
    fewer = DecimaSuite.model_validate({"workload": {"jobs": 3}, "loads": [0.7]})
    assert [one.workload.jobs for one in fewer.scenarios()] == [3, 3]
    assert DecimaSuite.model_validate(fewer.model_dump()) == fewer
    # The batch and the streams are those of the other suites: values tuned for them are found.
    assert scenarios[0].workload == BatchSuite().workload
    known = {entry.key[1] for entry in shipped_tuned_values().entries}
    assert json.dumps(list(scenario_ground(DecimaSuite(), scenarios[2])), sort_keys=True) in known
    words = [*TINY, "--jobs", "3", "--seeds", "2", "--processes", "1", "--policies", "fair,fifo", "--json"]
    assert [s["name"] for s in run("compare", "dag/decima", *words, "--load", "0.7").json["scenarios"]] == [
        "batch",
        "load 0.70",
    ]
    alone = run("compare", "dag/decima", *words, "--arrivals", "batch").json["scenarios"]
    assert [scenario["name"] for scenario in alone] == ["batch"]


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
