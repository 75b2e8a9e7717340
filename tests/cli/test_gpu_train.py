"""`trimtab train gpu` on clusters and jobs of one's own, from flags to the comparison that judges it."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.core.settings import load_settings
from trimtab.gpu_scheduling.das.task import DasSettings
from trimtab.gpu_scheduling.workload import make_workload, save_workload

SMALL = (
    "--preset", "das-gang", "--set", "training.iterations=1", "--set", "training.pairs=1",
    "--set", "workers=1", "--set", "sequences=1", "--set", "validation=1", "--set", "workload.jobs=10",
)  # fmt: skip
H900 = 'gpu_types=[{ name = "H900", speed = 3.0 }]'


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """Forty jobs of half a minute on 8 GPUs of one machine, and two on 32."""
    machines = [1] * 40 + [4] * 2
    jobs = make_workload(range(42), duration_ms=30_000, instances=machines, gpu_milli=8000, source="mine")
    save_workload(jobs, tmp_path / "mine.workload")
    return "mine.workload"


def test_a_run_on_ones_own_cluster_ends_with_commands_that_judge_it(
    run: Callable, tmp_path: Path, mine: str
) -> None:
    (tmp_path / "machines.csv").write_text("machine,gpus,gpu_type\na,8,H900\nb,16,V100\n")
    words = ["train", "gpu", *SMALL, "--workload", mine, "--cluster", "8x8xH900, machines.csv", "--set", H900]
    made = run(*words, "--out", "runs/mine")
    assert made.code == 0, made
    assert "2 of 42 jobs with more than 24 GPUs are left out\n" in made.err
    kept = load_settings(DasSettings, tmp_path / "runs/mine/das.toml")
    assert kept.clusters == ("8x8xH900", "machines.csv")
    assert (kept.workload.most_gpus, kept.workload.shortest_s) == (24, 0.0)
    commands = [shlex.split(line) for line in made.out.splitlines() if line.startswith("  trimtab compare")]
    few = ["--jobs", "10", "--seeds", "2", "--processes", "1", "--json"]
    asked = [run(*command[1:], *few).json["settings"] for command in commands]
    assert [one["workload"]["most_gpus"] for one in asked] == [24, 24]
    assert [one["cluster"]["table"] for one in asked] == [None, "machines.csv"]
    assert run("explain", "runs/mine", "--decision", "1", "--json").json["gpus"] == 64


def test_clusters_of_suites_are_judged_by_them(run: Callable) -> None:
    """Made-up jobs are those of the preset, whatever the cluster."""
    words = ["--cluster", "das-medium,6x4", "--out", "runs/a", "--json"]
    judge = run("train", "gpu", *SMALL, *words).json["compare"]
    policies = "--policies fifo+fast,smallest+fast,runs/a"
    assert judge == [
        f"trimtab compare gpu/das-medium {policies}",
        f"trimtab compare gpu/das-small {policies} --cluster 6x4",
    ]


def test_a_preset_of_ones_own_says_which_jobs_are_left_out(run: Callable, tmp_path: Path, mine: str) -> None:
    (tmp_path / "own.toml").write_text('clusters = ["4x8"]\n[workload]\nmost_gpus = 8\n')
    words = ["--preset", "own.toml", *SMALL[2:], "--workload", mine, "--out", "runs/own", "--json"]
    made = run("train", "gpu", *words).json
    task = json.loads((tmp_path / made["run_folder"] / "task.json").read_text())
    assert (task["workload"]["most_gpus"], task["workload"]["shortest_s"]) == (8, 0.0)
    assert "--set workload.most_gpus=8" in made["compare"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--workload", "mine.workload"],
            "mine on das-small: job 0 (and 41 more) needs 8 GPUs on one machine, and the largest has 4",
        ),
        (["--cluster", "1x4"], "pai on 1x4: job "),
        (["--cluster", "8x8xH900"], "GPU model 'H900' is not known; declare it in gpu_types"),
        (["--cluster", "das-smal"], "did you mean 'das-small'?"),
        (["--cluster", "no.csv"], "no.csv: cannot be read"),
        (["--cluster", " , "], "--cluster ' , ': clusters"),
        (["--set", "clusters=8x8"], 'clusters = "8x8": should be a list, such as ["8x8"]'),
        (["--preset", "das-network", "--workload", "mine.workload"], "mine on das-small: job 0"),
    ],
)
def test_mistakes_are_refused_before_a_folder_is_made(
    refused: Callable, tmp_path: Path, mine: str, words: list[str], said: str
) -> None:
    assert said in refused("train", "gpu", *words, "--out", "runs/mine")
    assert not (tmp_path / "runs").exists()


def test_clusters_belong_to_training_jobs(refused: Callable) -> None:
    assert "--cluster: train dag has no such flag; it has --workload" in refused(
        "train", "dag", "--cluster", "x"
    )
