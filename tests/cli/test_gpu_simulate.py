"""`trimtab simulate gpu`: by hand on tiny workloads, with every flag, and mistakes in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.gpu_scheduling.workload import make_workload, save_workload

TINY = ("simulate", "gpu", "--workload", "tiny:short-first")


def test_the_answer_by_hand(run: Callable) -> None:
    """On one GPU 3, 1 and 2 minutes end at 3, 4 and 6; the shortest first, at 1, 3 and 6."""
    answer = run(*TINY, "--policy", "fifo", "--json")
    assert answer.code == 0, answer
    assert answer.json["metrics"]["mean_jct_min"] == pytest.approx(13 / 3)
    assert answer.json["reward"] == -13 * 60_000
    known = run(*TINY, "--policy", "sjf", "--information", "oracle", "--json").json
    assert known["metrics"]["mean_jct_min"] == pytest.approx(10 / 3)
    told = run(*TINY, "--policy", "fifo").out
    assert "fifo: 3 tiny:short-first jobs on 1 machines with 1 GPUs, nothing known of durations" in told
    assert "mean_jct_min" in told


def test_every_flag_reaches_its_field(run: Callable) -> None:
    words = ["--cluster", "4x8", "--round-s", "300", "--noise", "0.1", "--drift", "0.05", "--jobs", "5"]
    found = run("simulate", "gpu", "--policy", "fifo", *words, "--load", "0.4", "--json").json
    cluster = found["cluster"]
    assert (cluster["round_s"], cluster["noise"], cluster["drift"]) == (300, 0.1, 0.05)
    assert (cluster["machines"][0]["count"], cluster["machines"][0]["gpus"]) == (4, 8)
    assert (found["workload"]["load"], found["jobs"]) == (0.4, 5)


def test_a_file_lies_between_a_named_cluster_and_flags(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("noise = 0.2\nround_s = 60\n")
    words = ["--cluster", "2x4", "--settings", "cluster.toml", "--noise", "0.3", "--jobs", "3", "--json"]
    cluster = run("simulate", "gpu", "--policy", "fifo", *words).json["cluster"]
    assert (cluster["noise"], cluster["round_s"], cluster["machines"][0]["count"]) == (0.3, 60, 2)


def test_a_model_that_is_not_known_is_declared_in_a_file(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("machine,gpus,gpu_type\na,4,H900\n")
    words = [
        "simulate",
        "gpu",
        "--policy",
        "fifo",
        "--cluster",
        "mine.csv",
        "--most-gpus",
        "4",
        "--jobs",
        "3",
    ]
    assert "mine.csv, line 2: GPU model 'H900' is not known; declare it in gpu_types" in refused(*words)
    (tmp_path / "cluster.toml").write_text('[[gpu_types]]\nname = "H900"\nspeed = 3.0\n')
    assert run(*words, "--settings", "cluster.toml", "--json").json["jobs"] == 3
    words[words.index("mine.csv")] = "1x4xH900"
    assert "GPU model 'H900' is not known; declare it in gpu_types" in refused(*words)
    found = run(*words, "--settings", "cluster.toml", "--json").json["cluster"]
    assert found["machines"][0]["gpu_type"] == "H900" and found["gpu_types"][0]["speed"] == 3.0


def test_jobs_that_ask_for_a_model_say_which_cluster_has_it(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    jobs = make_workload(
        [0, 1], duration_ms=60_000, gpus=2, allowed_types=[0, 1], type_names=["T4"], source="mine"
    )
    save_workload(jobs, tmp_path / "mine.workload")
    words = ["simulate", "gpu", "--policy", "fifo", "--workload", "mine.workload"]
    said = refused(*words)
    assert (
        "mine: job 1 asks for GPU model T4, which no machine has; choose a cluster that has it, such as"
        in said
    )
    assert "64x8xT4" in said
    assert run(*words, "--cluster", "64x8xT4").code == 0
    said = refused("simulate", "dag", "--policy", "fair", "--workload", "mine.workload")
    assert "mine.workload: holds a gpu workload, where a dag workload is wanted; use it as what it is" in said


def test_a_trace_keeps_its_arrivals_and_says_what_is_left_out(run: Callable, tmp_path: Path) -> None:
    jobs = make_workload([0, 60_000, 90_000], duration_ms=[30_000, 60_000, 60_000], gpus=[1, 2, 40])
    save_workload(jobs, tmp_path / "mine.workload")
    words = ["simulate", "gpu", "--policy", "fifo", "--workload", "mine.workload"]
    found = run(*words, "--json").json
    assert (found["workload"]["arrivals"], found["jobs"], found["left_out"]) == ("trace", 2, 1)
    assert "1 jobs with more than 32 GPUs are left out" in run(*words).out
    told = run(*words, "--shortest-s", "60", "--most-gpus", "8").out
    assert "2 jobs with more than 8 GPUs or shorter than 60 s are left out" in told
    assert run(*words, "--cluster", "8x8", "--json").json["jobs"] == 3
    short = run(*words, "--shortest-s", "60", "--most-gpus", "8", "--json").json
    assert (short["jobs"], short["left_out"]) == (1, 2)
    stream = run(*words, "--load", "0.3", "--jobs", "4", "--json").json
    assert (stream["workload"]["arrivals"], stream["jobs"]) == ("poisson", 4)


def test_seeds_repeat_and_differ(run: Callable) -> None:
    words = ["simulate", "gpu", "--policy", "fifo", "--jobs", "20", "--json"]
    first, again, other = (run(*words, "--seed", seed).json for seed in ("1", "1", "2"))
    assert first == again
    assert first["metrics"] != other["metrics"]


@pytest.mark.parametrize("name", ["gpus.png", "gpus.svg", "report.html"])
def test_pictures(run: Callable, tmp_path: Path, name: str) -> None:
    answer = run(*TINY, "--policy", "fifo", "--draw", name)
    assert f"picture: {name}" in answer.out
    assert (tmp_path / name).stat().st_size > 1000


def test_a_run_folder_keeps_what_is_needed_to_play_it_again(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    answer = run(*TINY, "--policy", "fifo", "--seed", "4", "--out", "runs/one", "--json")
    assert "`trimtab explain runs/one --decision N`" in answer.err
    kept = json.loads((tmp_path / "runs/one/results.json").read_text())
    assert kept == answer.json
    assert (kept["wing"], kept["policy"], kept["seed"], kept["run_folder"]) == ("gpu", "fifo", 4, "runs/one")
    assert (kept["workload"]["name"], kept["cluster"]["information"]) == ("tiny:short-first", "none")
    assert len(kept["digest"]) == 16
    for name in ("machine.json", "episode.png", "report.html"):
        assert (tmp_path / "runs/one" / name).stat().st_size > 100
    assert "runs/one: exists, and a run is never overwritten" in refused(
        *TINY, "--policy", "fifo", "--out", "runs/one"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "fifoo"], "did you mean 'fifo'?"),
        (["--policy", "smallest+fats"], "did you mean 'fast'?"),
        (["--policy", "tiresias:thresholt=1"], "did you mean 'threshold'?"),
        (["--policy", "sjf"], "needs durations, and this cluster tells none; set information"),
        (["--policy", "fifo", "--workload", "pia"], "did you mean 'gpu/pai'?"),
        (["--policy", "fifo", "--workload", "no.workload"], "no.workload: no such file"),
        (["--policy", "fifo", "--workload", "tiny:gnag"], "did you mean 'gang'?"),
        (["--policy", "fifo", "--cluster", "das-smal"], "did you mean 'das-small'?"),
        (["--policy", "fifo", "--cluster", "no.csv"], "no.csv: cannot be read"),
        (["--policy", "fifo", "--cluster", "4x99"], "1 to 64 GPUs are possible"),
        (
            ["--policy", "fifo", "--cluster", "1x4", "--jobs", "50"],
            "GPUs, of which the empty cluster has room for 4",
        ),
        (["--policy", "fifo", "--noise", "7"], "noise = 7"),
        (["--policy", "fifo", "--load", "0"], "load = 0"),
        (["--policy", "fifo", "--load", "0.5", "--mean-gap-s", "3"], "either mean_gap_s or load"),
        (["--policy", "fifo", "--jobs", "0"], "jobs = 0"),
        (["--policy", "fifo", "--workload", "tiny:gang", "--jobs", "6"], "--jobs 6: tiny:gang has 5 jobs"),
        (["--policy", "fifo", "--arrivals", "trace"], "has no arrivals of its own"),
        (["--policy", "fifo", "--information", "all"], "all"),
        (["--policy", "fifo", "--executors", "3"], "--executors: gpu has no such flag"),
        (["--policy", "fifo", "--draw", "a.pdf"], "a.pdf: pictures are written as"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused("simulate", "gpu", *words)


def test_a_table_of_machines_with_a_fault_names_the_line(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("machine,gpus,gpu_type\na,4,V100\nb,many,V100\n")
    said = refused("simulate", "gpu", "--policy", "fifo", "--cluster", "mine.csv")
    assert "mine.csv, line 3" in said


def test_flags_of_gpus_are_refused_elsewhere(refused: Callable) -> None:
    assert "--cluster: dag has no such flag" in refused(
        "simulate", "dag", "--policy", "fair", "--cluster", "x"
    )
    assert "daily" in refused("simulate", "dag", "--policy", "fair", "--arrivals", "daily")
