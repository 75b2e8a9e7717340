import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.dag_scheduling.workload import poisson, save_workload
from trimtab.dag_scheduling.workload.tiny import small_profile

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


def test_who_is_told_to_end_leaves_no_folder(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*COMPARE, "--policies", "fifo,fair", "--out", "runs/first"]

    def be_ended(*_: object, **__: object) -> None:
        assert (tmp_path / "runs" / "first").is_dir()
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr("trimtab.benchmark.compare.compare", be_ended)
        answer = run(*words)
    # Where nothing is compiled yet, a line says so, whatever happens then.
    told = [line for line in answer.err.splitlines() if not line.startswith("compiling the engine")]
    assert (answer.code, answer.out, told) == (130, "", ["error: stopped"])
    assert run(*words).code == 0


def test_one_load_of_the_stream(run: Callable) -> None:
    words = ["compare", "dag/stream", *SMALL, "--seeds", "2", "--policies", "fifo,fair"]
    found = run(*words, "--load", "0.7", "--json").json
    assert [scenario["load"] for scenario in found["scenarios"]] == [0.7]
    batch = run(*words, "--arrivals", "batch", "--json").json
    assert [scenario["name"] for scenario in batch["scenarios"]] == [""]


def test_a_trace_comes_in_stretches_of_its_end(run: Callable, refused: Callable, tmp_path: Path) -> None:
    trace = poisson(small_profile(0), jobs=40, mean_gap_ms=1000.0, seed=1)
    save_workload(trace, tmp_path / "my.workload")
    words = ["compare", "dag/stream", "--arrivals", "trace", "--seeds", "2", "--policies", "fifo,fair",
             "--executors", "3", "--processes", "1", "--workload"]  # fmt: skip
    # Of 40 jobs the last 12 are for tests, and an episode has half of them.
    told = run(*words, "my.workload").out
    assert "dag/stream: 6 jobs in a row of the last 30 % of my.workload, 3 executors" in told
    (tmp_path / "suite.toml").write_text("[workload]\njobs = 2\n")
    found = run(*words, "my.workload", "--settings", "suite.toml", "--json").json
    assert found["settings"]["workload"]["jobs"] == 2
    assert "2 jobs are too few for a trace" in refused(*words, "tiny:two-jobs")
    assert "1 jobs in a row of the last 30 %" in run(*words, "tiny:two-jobs", "--jobs", "1").out


def test_several_memory_sizes(run: Callable) -> None:
    words = ["compare", "dag/multi-resource", "--workload", "tiny:three-sizes", "--jobs", "4",
             "--executors", "8", "--seeds", "2", "--policies", "tetris,fair", "--processes", "1"]  # fmt: skip
    found = run(*words, "--json").json
    assert [c["count"] for c in found["settings"]["cluster"]["classes"]] == [2, 2, 2, 2]
    assert "batch arrivals, random memory demands, 8 executors" in run(*words).out
    plain = run(*words, "--set", "workload.random_memory=false").out
    assert "batch arrivals, 8 executors" in plain


def test_tune_then_compare_with_what_it_found(run: Callable, tmp_path: Path) -> None:
    answer = run("tune", "dag", *SMALL, "--policies", "weighted-fair,tetris", "--training-seeds",
                 "2", "--out", "tuned.json")  # fmt: skip
    assert answer.code == 0
    assert "On 2 training seeds" in answer.out
    assert len(json.loads((tmp_path / "tuned.json").read_text())["entries"]) == 2
    words = [*COMPARE, "--policies", "fair,weighted-fair:tuned", "--tuned", "tuned.json"]
    assert "weighted-fair (tuned)" in run(*words).out
    words[words.index("fair,weighted-fair:tuned")] = "fair,weighted-fair (tuned)"  # as the table has it
    told = run(*words, "--baseline", "weighted-fair (tuned)", "--markdown").out
    assert "| × weighted-fair (tuned) |" in told
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
        (
            [*COMPARE, "--set", "workload.jobs=3"],
            "error: --jobs and --set workload.jobs=3 set the same field; give one of the two",
        ),
        ([*COMPARE, "--set", "seeds=4"], "error: --seeds and --set seeds=4 set the same field"),
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
