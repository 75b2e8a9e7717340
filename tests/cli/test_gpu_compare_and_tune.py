"""`trimtab compare gpu/...`, `tune gpu`, `demo gpu`, lists and imports, small enough to take seconds."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.cli.asking import SuiteFlags
from trimtab.cli.demo import DEMOS
from trimtab.gpu_scheduling.workload import load_workload, make_workload, save_workload

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


def test_a_long_name_costs_no_number_in_a_pipe(run: Callable) -> None:
    """All ten numbers of a row stand beside a name of 55 characters."""
    name = "aged-smallest+fast:power=0.7,neighbours=2,tightness=0.3"
    lines = run(*COMPARE, "--policies", f"fifo,{name}").out.splitlines()
    (row,) = [line for line in lines if line.startswith("│") and name in line]
    assert row.count("│") == 12 and "…" not in row


def test_flags_change_the_ground(run: Callable) -> None:
    words = ["--cluster", "4x8", "--information", "oracle", "--noise", "0.1", "--round-s", "60"]
    found = run(*COMPARE, "--policies", "fifo,sjf", *words, "--json").json["settings"]
    cluster = found["cluster"]
    assert (cluster["information"], cluster["noise"], cluster["round_s"]) == ("oracle", 0.1, 60)
    assert (cluster["machines"][0]["count"], found["workload"]["load"]) == (4, 0.76)
    large = run("compare", "gpu/das-large", *COMPARE[2:], *TWO, "--drift", "0.1", "--json").json["settings"]
    assert large["workload"]["load"] == pytest.approx(0.76 * 8 / 13)
    assert len(large["cluster"]["machines"]) == 7


H900 = 'cluster.gpu_types=[{ name = "H900", speed = 3.0 }]'


@pytest.mark.parametrize("cluster", ["1x4xH900", "mine.csv"])
def test_models_of_a_file_or_flag_are_known_on_a_named_cluster(
    run: Callable, refused: Callable, tmp_path: Path, cluster: str
) -> None:
    (tmp_path / "mine.csv").write_text("machine,gpus,gpu_type\na,4,H900\n")
    (tmp_path / "suite.toml").write_text(f"cluster.noise = 0.1\n{H900}\n")
    words = [*COMPARE, *TWO, "--cluster", cluster, "--set", "workload.most_gpus=4"]
    assert "GPU model 'H900' is not known" in refused(*words)
    by_flag = run(*words, "--set", H900, "--json").json["settings"]["cluster"]
    by_file = run(*words, "--settings", "suite.toml", "--json").json["settings"]["cluster"]
    assert "H900" in [one["name"] for one in by_flag["gpu_types"]]
    assert by_file == {**by_flag, "noise": 0.1}


def test_a_named_cluster_takes_the_place_of_a_table(run: Callable, tmp_path: Path) -> None:
    """And of a trace all jobs come that it can hold, unless the file says otherwise."""
    save_workload(make_workload(range(40), duration_ms=30_000, gpus=20), tmp_path / "my.workload")
    (tmp_path / "mine.csv").write_text("machine,gpus,gpu_type\na,24,V100\n")
    (tmp_path / "suite.toml").write_text('cluster.table = "mine.csv"\nworkload.shortest_s = 10\n')
    words = [*COMPARE, *TWO, "--workload", "my.workload", "--settings", "suite.toml", "--json"]
    asked = run(*words).json["settings"]
    assert (asked["workload"]["most_gpus"], asked["workload"]["shortest_s"]) == (24, 10)
    named = run(*words, "--cluster", "4x8").json["settings"]
    assert (named["cluster"]["table"], named["workload"]["most_gpus"]) == (None, 32)


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
    assert "my.workload: 40 jobs in 39.0 min, at most 4 GPUs, 3.06 GPU-hours" in answer.out
    assert load_workload(tmp_path / "my.workload").job_count == 40
    assert run("import", "gpu-jobs-csv", "jobs.csv", "--out", "my.workload", "--json").json["jobs"] == 40
    trace = [*COMPARE[:2], "--workload", "my.workload", "--arrivals", "trace", *COMPARE[4:], *TWO, "--json"]
    settings = run(*trace).json["settings"]["workload"]
    assert (settings["jobs"], settings["most_gpus"], settings["shortest_s"]) == (6, 32, 0.0)


SACCT = "JobID|JobName|State|Submit|Start|End|NNodes|ReqTRES|AllocTRES\n"


@pytest.mark.parametrize(
    ("asked", "cluster"),
    [
        ("gpu=2", "64x8"),
        ("gpu:v100=4", "64x8"),
        ("gpu:t4=4", "64x8xT4"),
        ("gpu:h100=8", "64x8xH100"),
        ("gpu:h900=8", "64x8xH900"),
        ("gpu=12", "64x12"),
    ],
)
def test_the_next_steps_of_an_import_can_be_taken(
    run: Callable, tmp_path: Path, asked: str, cluster: str
) -> None:
    """As printed: no flag is missing for the models that jobs ask for."""
    demand = f"|gres/{asked}" * 2
    lines = [
        f"{n}|a|COMPLETED|2024-05-01T08:{n:02}:00|2024-05-01T09:00:00|2024-05-01T10:00:00|1{demand}\n"
        for n in range(20)
    ]
    (tmp_path / "sacct.txt").write_text(SACCT + "".join(lines))
    told = run("import", "slurm-sacct", "sacct.txt", "--out", "my.workload").out
    steps = [line[6:].partition("    (")[0] for line in told[told.index("next: ") :].splitlines()]
    commands = [shlex.split(step) for step in steps if step.startswith("trimtab ")]
    assert [words[1] for words in commands] == ["simulate", "compare", "compare"]
    for step in steps:
        if step.startswith("echo "):
            _, declared, *into = shlex.split(step)
            assert into == [">", "gpus.toml"]
            (tmp_path / "gpus.toml").write_text(declared)
    for words in commands:
        assert cluster in words
        few = ["--policies", "fifo", "--seeds", "2", "--processes", "1"] if words[1] == "compare" else []
        assert run(*words[1:], *few).code == 0, words


def test_jobs_of_several_models_want_a_table_of_machines(run: Callable, tmp_path: Path) -> None:
    lines = [f"{n},{60 * n},90,2,{'H900' if n % 2 else 'T4'}" for n in range(10)]
    (tmp_path / "jobs.csv").write_text("\n".join(["job_id,arrival_s,service_sec,gpu_count,gpu_type", *lines]))
    told = run("import", "gpu-jobs-csv", "jobs.csv", "--out", "my.workload").out
    assert (
        "next: list your machines in machines.csv, with columns machine,gpus,gpu_type; jobs ask for H900, T4"
        in told
    )
    assert "\n      echo 'gpu_types = [{ name = \"H900\", speed = 1.0, price = 3.06 }]' > gpus.toml" in told
    (tmp_path / "machines.csv").write_text("machine,gpus,gpu_type\na,8,H900\nb,8,T4\n")
    (tmp_path / "gpus.toml").write_text('gpu_types = [{ name = "H900", speed = 1.0, price = 3.06 }]')
    words = ["simulate", "gpu", "--workload", "my.workload", "--cluster", "machines.csv", "--policy", "fifo"]
    assert " ".join(["trimtab", *words[:6], "--settings", "gpus.toml", *words[6:]]) in told
    assert run(*words, "--settings", "gpus.toml").code == 0


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
