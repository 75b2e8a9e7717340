import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.core.errors import HistoryError
from trimtab.core.registry import Registry
from trimtab.core.settings import settings_of_keywords
from trimtab.dag_scheduling import recording
from trimtab.dag_scheduling.history import HISTORY as OF_JOBS
from trimtab.dag_scheduling.workload import load_workload
from trimtab.gpu_scheduling.history import HISTORY as OF_GPUS
from trimtab.pod_autoscaling.history import HISTORY as OF_PODS
from trimtab.rates.reading import open_maybe_packed
from trimtab.stream_autoscaling.history import HISTORY as OF_STREAMS

PROFILE = {
    "format": "trimtab-wave-profile",
    "version": 1,
    "jobs": [
        {
            "query": 1,
            "size_gb": 2,
            "edges": [[0, 1]],
            "stages": [
                {"tasks": 2, "fresh": {"2": [900]}, "first_wave": {"2": [500]}, "rest_wave": {"2": [400]}},
                {"tasks": 1, "fresh": {"2": []}, "first_wave": {"2": [300]}, "rest_wave": {"2": []}},
            ],
        }
    ],
}


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE))
    return path.name


def test_import_writes_a_workload_and_an_account(run: Callable, profile: str, tmp_path: Path) -> None:
    answer = run("import", "wave-profile", profile, "--out", "mine.workload")
    assert answer.code == 0, answer
    assert "read" in answer.out
    assert "trimtab compare dag/batch --workload mine.workload" in answer.out
    # One job is no trace.
    assert "--arrivals trace" not in answer.out
    assert load_workload(tmp_path / "mine.workload").task_count == 3
    listed = run("import", "wave-profile", profile, "--out", "mine.workload", "--json").json
    assert (listed["workload"], listed["jobs"]) == ("mine.workload", 1)
    played = run("simulate", "dag", "--policy", "fair", "--workload", "mine.workload", "--json")
    assert played.json["jobs"] == 1


def test_next_steps_can_be_copied_into_a_shell(run: Callable, profile: str) -> None:
    answer = run("import", "wave-profile", profile, "--out", "my jobs.workload")
    assert "my jobs.workload: 1 jobs" in answer.out
    assert "trimtab compare dag/batch --workload 'my jobs.workload'" in answer.out


@pytest.mark.parametrize("source", ["spark", "alibaba-2018", "common-log", "slurm-sacct"])
def test_a_pipe_is_refused_since_its_beginning_would_be_lost(
    refused: Callable, source: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "pipe: is a pipe, which can be read only once; save" in refused(
        "import", source, "pipe", "--out", "mine.workload"
    )
    with pytest.raises(HistoryError, match="is a pipe"):
        open_maybe_packed(tmp_path / "pipe")


def test_what_is_no_file_is_not_replaced_by_one(refused: Callable, profile: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "device")
    said = refused("import", "wave-profile", profile, "--out", "device")
    assert "device: is no file, and would be replaced by one; name a file to write" in said
    assert (tmp_path / "device").is_fifo()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sprak", "x", "--out", "y.workload"], "no history 'sprak'; did you mean 'spark'?"),
        (["spark", "missing", "--out", "y.workload"], "missing"),
        (["wave-profile", "profile.json", "--out", "no/y.workload"], "the folder no does not exist"),
        (["wave-profile", "profile.json"], "--out"),
    ],
)
def test_mistakes_of_import(refused: Callable, profile: str, words: list[str], said: str) -> None:
    assert said in refused("import", *words)


SACCT = (
    "JobID|Partition|State|Submit|Elapsed|AllocTRES\n"
    "1|42|COMPLETED|1|00:30|gres/gpu=1\n"
    "2|a|FAILED|2|00:30|gres/gpu=1\n"
)


@pytest.mark.parametrize(
    ("option", "jobs"),
    [
        ("only_completed=true", 1),
        ("only_completed=TRUE", 1),
        ("only_completed=False", 2),
        ("only_completed=no", 2),
        # A name that looks like a number.
        ("partition=42", 1),
        ('partition="42"', 1),
    ],
)
def test_options_have_the_type_that_the_importer_wants(
    run: Callable, tmp_path: Path, option: str, jobs: int
) -> None:
    (tmp_path / "sacct.txt").write_text(SACCT)
    words = ["import", "slurm-sacct", "sacct.txt", "--set", option, "--out", "mine.workload", "--json"]
    assert run(*words).json["jobs"] == jobs


@pytest.mark.parametrize(
    ("source", "option", "said"),
    [
        ("slurm-sacct", "only_completed=maybe", 'only_completed = "maybe": should be a valid boolean'),
        ("openb-2023", "stay_s=abc", 'stay_s = "abc": should be a valid number'),
        ("swf", "processors_per_gpu=nan", "processors_per_gpu = NaN: should be a finite number"),
        ("csv-counts", "step_s=abc", 'step_s = "abc": should be a valid number'),
        ("csv-counts", "fill=all", "fill = \"all\": should be 'interpolate' or 'zero'"),
        ("azure-functions", "rank=1.5", "rank = 1.5: should be a valid integer"),
        ("wave-profile", "executor_points=1,2", 'executor_points = "1,2": should be a list such as [1, 2]'),
        ("gpu-jobs-csv", "gpus_column=5", "no column for gpus (5)"),
        ("flink", "sleep=1", "--set sleep: flink has no such option"),
    ],
)
def test_options_of_another_type_are_refused(
    refused: Callable, tmp_path: Path, source: str, option: str, said: str
) -> None:
    (tmp_path / "x.csv").write_text("arrival_s,duration_s,gpus\n0,60,1\n")
    assert said in refused("import", source, "x.csv", "--set", option, "--out", "mine.workload")
    assert not (tmp_path / "mine.workload").exists()


@pytest.mark.parametrize("known", [OF_JOBS, OF_STREAMS, OF_PODS, OF_GPUS])
def test_options_of_every_importer_can_be_checked(known: Registry) -> None:
    for name in known:
        settings_of_keywords(known.load(name), but=("sleep",))()


def test_record_passes_the_flags_on(run: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def record_tpch(folder: Path, **options: object) -> Path:
        asked.update(options, folder=folder)
        return folder / "logs"

    monkeypatch.setattr(recording, "record_tpch", record_tpch)
    monkeypatch.setattr(recording, "build_profile", lambda folder, report: PROFILE)
    monkeypatch.setattr(recording, "write_profile", lambda profile, path: None)
    answer = run("record", "tpch", "--folder", "here", "--executors", "1,2", "--queries", "1,6")
    assert answer.code == 0, answer
    assert (asked["executors"], asked["queries"], asked["scale_factors"]) == ([1, 2], [1, 6], [0.1])
    listed = run("record", "tpch", "--folder", "here", "--json").json
    assert listed["jobs"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "tpcds"], 'Choose from: "tpch"'),
        (["record", "tpch", "--executors", "0"], "'0' is not a number of at least 1"),
        (["record", "tpch", "--executors", "2,1.5"], "--executors 2,1.5: 1.5 is not a whole number"),
        (["record", "tpch", "--scale-factors", "nan"], "'nan' is not a number"),
        (["record", "tpch", "--queries", "one"], "'one' is not a number"),
    ],
)
def test_mistakes_of_record(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused(*words)
