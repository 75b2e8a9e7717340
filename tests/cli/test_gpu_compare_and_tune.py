"""`trimtab compare gpu/...`, `tune gpu`, `demo gpu`, lists and imports, small enough to take seconds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.cli.asking import SuiteFlags
from trimtab.cli.demo import DEMOS
from trimtab.gpu_scheduling.workload import load_workload

COMPARE = ("compare", "gpu/das-small", "--jobs", "25", "--seeds", "3", "--processes", "1")
TWO = ("--policies", "fifo,smallest+fast")


def test_a_table_and_an_answer(run: Callable) -> None:
    answer = run(*COMPARE, *TWO)
    assert answer.code == 0, answer
    assert "★" in answer.out
    told = " ".join(answer.out.split())
    assert "25 pai jobs, poisson arrivals at load 0.76, 8 machines with 32 GPUs, nothing known" in told
    assert "would serve this cluster best" in answer.out.splitlines()[-1]
    assert "| policy | mean JCT, min | × fifo | wins | fee, $ |" in run(*COMPARE, *TWO, "--markdown").out


def test_flags_change_the_ground(run: Callable) -> None:
    words = ["--cluster", "4x8", "--information", "oracle", "--noise", "0.1", "--round-s", "60"]
    found = run(*COMPARE, "--policies", "fifo,sjf", *words, "--json").json["settings"]
    cluster = found["cluster"]
    assert (cluster["information"], cluster["noise"], cluster["round_s"]) == ("oracle", 0.1, 60)
    assert (cluster["machines"][0]["count"], found["workload"]["load"]) == (4, 0.76)
    large = run("compare", "gpu/das-large", *COMPARE[2:], *TWO, "--drift", "0.1", "--json").json["settings"]
    assert large["workload"]["load"] == pytest.approx(0.76 * 8 / 13)
    assert len(large["cluster"]["machines"]) == 7


def test_a_tier_refuses_policies_of_another(refused: Callable) -> None:
    said = refused(*COMPARE, "--policies", "fifo,srtf+fast")
    assert "policy 'srtf+fast' needs durations, and nothing is known of them here" in said
    assert "gpu/oracle-small" in said
    assert "needs durations" in refused("tune", "gpu", "--policies", "sjf+fast")


def test_a_run_folder_with_pictures(run: Callable, tmp_path: Path) -> None:
    assert "results in runs/first" in run(*COMPARE, *TWO, "--out", "runs/first").err
    written = {path.name for path in (tmp_path / "runs" / "first").iterdir()}
    assert written >= {"results.json", "table.md", "report.html", "gpus.png", "gpus.svg", "settings.toml"}


def test_tune_then_compare_with_what_it_found(run: Callable, tmp_path: Path) -> None:
    words = ["tune", "gpu", "--jobs", "25", "--training-seeds", "2", "--processes", "1"]
    answer = run(*words, "--policies", "smallest+fast", "--out", "tuned.json")
    assert answer.code == 0, answer
    assert "mean_jct_min" in answer.out
    (entry,) = json.loads((tmp_path / "tuned.json").read_text())["entries"]
    assert (entry["policy"], entry["suite"]) == ("smallest+fast", "gpu/das-small")
    compared = run(*COMPARE, "--policies", "fifo,smallest+fast:tuned", "--tuned", "tuned.json").out
    assert "smallest+fast (tuned)" in compared


def test_the_demo_answers_and_leaves_a_report(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = SuiteFlags(jobs=20, set=["policies=['fifo', 'smallest+fast']"])
    monkeypatch.setitem(DEMOS, "gpu", replace(DEMOS["gpu"], flags=flags, learned="nobody"))
    answer = run("demo", "gpu", "--seeds", "2", "--processes", "1")
    assert answer.code == 0, answer
    assert "would serve this cluster best" in answer.out
    assert "trimtab import slurm-sacct" in answer.out
    folder = tmp_path / "runs" / "demo-gpu"
    assert {path.name for path in folder.iterdir()} >= {"report.html", "gpus.png", "results.json"}


def test_jobs_are_imported_and_can_be_used(run: Callable, tmp_path: Path) -> None:
    lines = [
        "job_id,arrival_s,service_sec,gpu_count",
        *(f"{n},{60 * n},{90 + n},{1 + n % 4}" for n in range(40)),
    ]
    (tmp_path / "jobs.csv").write_text("\n".join(lines))
    answer = run("import", "gpu-jobs-csv", "jobs.csv", "--out", "my.workload")
    assert answer.code == 0, answer
    assert "my.workload: 40 jobs in 0.0 days, at most 4 GPUs" in answer.out
    assert load_workload(tmp_path / "my.workload").job_count == 40
    assert run("import", "gpu-jobs-csv", "jobs.csv", "--out", "my.workload", "--json").json["jobs"] == 40
    trace = [*COMPARE[:2], "--workload", "my.workload", "--arrivals", "trace", *COMPARE[4:], *TWO, "--json"]
    settings = run(*trace).json["settings"]["workload"]
    assert (settings["jobs"], settings["most_gpus"], settings["shortest_s"]) == (6, 32, 0.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["import", "slurm", "x", "--out", "a.workload"], "did you mean 'slurm-sacct'?"),
        (["import", "gpu-jobs-csv", "none.csv", "--out", "a.workload"], "none.csv: no such file"),
        (
            ["import", "openb-2023", "x", "--out", "a.workload", "--set", "stay=1"],
            "it has keep_pending, stay_s",
        ),
        (["compare", "gpu/das-smal"], "did you mean 'gpu/das-small'"),
        (["compare", "gpu/das-small", "--executors", "3"], "--executors: gpu suites have no such flag"),
        (["compare", "dag/batch", "--round-s", "3"], "--round-s: dag suites have no such flag"),
        (["compare", "gpu/das-small", "--cluster", "no.csv"], "no.csv: cannot be read"),
        (["tune", "gpu", "--suite", "dag/batch"], "is not of gpu"),
        (["tune", "gpu", "--policies", "fifo"], "has nothing to tune"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused(*words)
