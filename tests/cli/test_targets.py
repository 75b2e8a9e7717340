"""A place that cannot be written is refused in one line, before anything is played, trained or read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VERBS = {
    "train": (["train", "dag"], "trimtab.dag_scheduling.decima.training.train_decima"),
    "compare": (["compare", "dag/batch"], "trimtab.benchmark.compare.compare"),
    "demo": (["demo"], "trimtab.benchmark.compare.compare"),
    "simulate pod": (
        ["simulate", "pod", "--policy", "hpa"],
        "trimtab.pod_autoscaling.simulator.simulator.simulate_batch",
    ),
    "simulate gpu": (
        ["simulate", "gpu", "--policy", "fifo"],
        "trimtab.gpu_scheduling.simulator.simulator.simulate",
    ),
    "tune": (["tune", "dag"], "trimtab.benchmark.tune.tune"),
    "record": (["record", "tpch"], "trimtab.dag_scheduling.recording.record_tpch"),
    "import": (["import", "spark", "file"], "trimtab.dag_scheduling.history.spark_event_log.import_spark"),
    "fit-profile": (["fit-profile", "file"], "trimtab.pod_autoscaling.history.service.reader_for"),
}
FOLDERS = ("train", "compare", "demo", "simulate pod", "simulate gpu")


@pytest.fixture
def refused_at_once(refused: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    (tmp_path / "file").write_text("")

    def go(verb: str, out: str) -> str:
        words, work = VERBS[verb]

        def never(*given: Any, **others: Any) -> None:
            raise AssertionError(f"{verb} began its work")

        monkeypatch.setattr(work, never)
        return refused(*words, "--out", out)

    return go


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_lies_in_a_file(refused_at_once: Callable, verb: str) -> None:
    said = refused_at_once(verb, "file/new.toml")
    assert "file/new.toml: file is a file, not a folder; choose another place" in said


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_there_may_be_of_the_other_kind(refused_at_once: Callable, tmp_path: Path, verb: str) -> None:
    (tmp_path / "folder").mkdir()
    if verb in FOLDERS:
        assert "error: file: exists" in refused_at_once(verb, "file")
    else:
        said = refused_at_once(verb, "folder")
        assert "error: folder: is a folder; name a file to write in it" in said


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_may_be_closed(
    refused_at_once: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    (tmp_path / "closed").mkdir()
    # Whoever runs the tests as root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path("closed"))
    said = refused_at_once(verb, "closed/new.toml")
    assert "closed/new.toml: nothing may be written in closed; choose another place" in said


def test_a_recording_makes_the_folders_it_needs(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(folder: Path, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trimtab.dag_scheduling.recording.record_tpch", begin)
    assert run("record", "tpch", "--folder", "here", "--out", "here/too/profile.json.gz").code == 130


def test_a_picture_is_no_folder(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    words = ["simulate", "dag", "--policy", "fifo", "--draw", "folder.png"]
    assert "folder.png: is a folder; name a file to write in it" in refused(*words)
