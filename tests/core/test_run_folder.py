import errno
import fcntl
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest

from trimtab import __version__
from trimtab.core import run_folder
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import RunFolder, machine_facts
from trimtab.core.settings import Field, Settings, load_settings

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def clock() -> datetime:
    return NOON


class Noise(Settings):
    spread: float = Field(0.1, ge=0, description="Relative spread of task durations.")


def test_a_new_run_holds_its_settings_and_machine(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "deep" / "run", clock=clock, settings=Noise(spread=0.3))
    assert load_settings(Noise, run.path / "settings.toml") == Noise(spread=0.3)
    machine = run.read_json("machine.json")
    assert machine["began"] == "2025-01-01T12:00:00+00:00"
    assert machine["cores"] >= 1


def test_a_run_says_on_which_device_it_computes(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock, device="NVIDIA H200")
    assert run.read_json("machine.json")["device"] == "NVIDIA H200"
    assert "device" not in RunFolder.create(tmp_path / "other", clock=clock).read_json("machine.json")


def test_settings_are_optional(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    assert [file.name for file in run.path.iterdir()] == ["machine.json"]


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(TrimtabError, match="exists, and a run is never overwritten"):
        RunFolder.create(tmp_path / "run", clock=clock)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrimtabError, match="cannot make the run folder: Not a directory"):
        RunFolder.create(tmp_path / "file" / "run", clock=clock)


HOLD = """
import sys
from trimtab.core.run_folder import RunFolder
with RunFolder.open(sys.argv[1], clock=None).alone():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_at_a_time_adds_to_a_run_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    before = (run.path / "machine.json").read_bytes()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    with pytest.raises(TrimtabError, match="run: another process is at work in this folder"), run.alone():
        pass
    assert RunFolder.open(run.path, clock=clock).read_metrics() == []  # reading needs no asking
    other.kill()
    other.communicate()
    for _ in range(2):
        with run.alone():
            run.append_metrics({"jobs": 1})
    assert (run.path / "machine.json").read_bytes() == before


def test_a_folder_that_cannot_be_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    run = RunFolder.create(tmp_path / "run", clock=clock)
    with pytest.raises(TrimtabError, match="cannot be locked: Function not implemented"), run.alone():
        pass


def test_work_that_fails_leaves_no_folder_unless_it_has_a_result(tmp_path: Path) -> None:
    for _ in range(2):  # the name is free again
        run = RunFolder.create(tmp_path / "run", clock=clock)
        with pytest.raises(KeyboardInterrupt), run.kept_with("results.json"):
            raise KeyboardInterrupt
        assert not run.path.exists()
    run = RunFolder.create(tmp_path / "run", clock=clock)
    with pytest.raises(KeyboardInterrupt), run.kept_with("results.json", failing=TrimtabError):
        raise KeyboardInterrupt
    run.write_json("results.json", {})
    with pytest.raises(TrimtabError), run.kept_with("results.json"):
        raise TrimtabError("no picture")
    assert run.read_json("results.json") == {}


def test_later_runs_are_numbered(tmp_path: Path) -> None:
    names = [RunFolder.create_next(tmp_path, "demo", clock=clock).path.name for _ in range(3)]
    assert names == ["demo", "demo-2", "demo-3"]


def test_open_finds_only_runs(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", clock=clock).append_metrics({"jobs": 1})
    assert RunFolder.open(tmp_path / "run", clock=clock).read_metrics()[0]["jobs"] == 1
    with pytest.raises(TrimtabError, match="not a run folder"):
        RunFolder.open(tmp_path, clock=clock)


def test_metrics_are_appended_with_the_time(tmp_path: Path) -> None:
    times = iter(NOON + timedelta(seconds=second) for second in range(9))
    run = RunFolder.create(tmp_path / "run", clock=lambda: next(times))
    assert run.read_metrics() == []
    run.append_metrics({"loss": np.float32(0.5), "counts": np.array([1, 2])})
    run.append_metrics({"loss": float("nan"), "worst": np.float64("inf")})
    first, second = run.read_metrics()
    assert first == {"time": "2025-01-01T12:00:01+00:00", "loss": 0.5, "counts": [1, 2]}
    assert second == {"time": "2025-01-01T12:00:02+00:00", "loss": None, "worst": None}


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    run.append_metrics({"step": 1})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2')
    assert [line["step"] for line in run.read_metrics()] == [1]


def test_json_holds_what_results_are_made_of(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    content = {"at": NOON, "path": Path("a") / "b", 3: (True, None, "ö"), "n": np.int64(2)}
    path = run.write_json("result.json", content)
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "at": "2025-01-01T12:00:00+00:00",
        "path": "a/b",
        "3": [True, None, "ö"],
        "n": 2,
    }
    with pytest.raises(TrimtabError, match=r"this run has no other\.json"):
        run.read_json("other.json")


@pytest.mark.parametrize("damage", [b"{", b"\xff\n"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: bytes) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    run.append_metrics({"jobs": 3})
    for name in ("machine.json", "metrics.jsonl"):
        (run.path / name).write_bytes(damage + (run.path / name).read_bytes())
    with pytest.raises(TrimtabError, match=r"machine\.json: damaged \(.*put it back"):
        run.read_json("machine.json")
    with pytest.raises(TrimtabError, match=r"metrics\.jsonl: damaged \(.*put it back"):
        run.read_metrics()


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    run.write_json("result.json", 1)

    def full_disk(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(
        TrimtabError, match=r"result\.json: cannot be written: no space left; check folder and"
    ):
        run.write_json("result.json", 2)
    assert run.read_json("result.json") == 1
    assert sorted(file.name for file in run.path.iterdir()) == ["machine.json", "result.json"]


def test_a_full_disk_is_told_with_the_file_and_leaves_no_half_of_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)

    def full_disk(self: Path, *told: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # as a write tells it: without the file

    monkeypatch.setattr(Path, "open", full_disk)
    with pytest.raises(TrimtabError, match=r"run/metrics\.jsonl: cannot be written: No space left on device"):
        run.append_metrics({"step": 1})
    with pytest.raises(TrimtabError, match=r"new/settings\.toml: cannot be written: No space left on device"):
        RunFolder.create(tmp_path / "new", clock=clock, settings=Noise())
    assert not (tmp_path / "new").exists()


def test_what_json_cannot_hold_is_refused_before_writing(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", clock=clock)
    with pytest.raises(TypeError, match="not JSON serializable"):
        run.write_json("result.json", {"thing": object()})
    assert not (run.path / "result.json").exists()


def test_machine_facts_are_plain_and_nameless() -> None:
    facts = machine_facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["versions"]["jax"] == version("jax")
    assert facts["processor"]
    assert set(facts) == {
        "platform",
        "processor",
        "cores",
        "python",
        "versions",
        "git_commit",
        "git_dirty",
    }


def test_the_version_of_trimtab_is_known_without_installed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(run_folder, "version", not_installed)
    versions = machine_facts()["versions"]
    assert versions["trimtab"] == __version__
    assert versions["numpy"] is None


def git_answers(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> None:
    def answer(folder: Path, *words: str) -> str | None:
        return answers.get(words[0] if words[0] == "status" else words[1])

    monkeypatch.setattr(run_folder, "_git", answer)


def test_the_commit_is_of_this_checkout_only(monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = str(Path(run_folder.__file__).parents[3])
    git_answers(monkeypatch, {"--show-toplevel": checkout, "--verify": "abc", "status": " M a"})
    assert (machine_facts()["git_commit"], machine_facts()["git_dirty"]) == ("abc", True)
    git_answers(monkeypatch, {"--show-toplevel": checkout, "--verify": "abc", "status": ""})
    assert machine_facts()["git_dirty"] is False
    git_answers(monkeypatch, {"--show-toplevel": checkout})
    assert (machine_facts()["git_commit"], machine_facts()["git_dirty"]) == (None, None)
    git_answers(monkeypatch, {"--show-toplevel": "/somebody/else", "--verify": "abc"})
    assert machine_facts()["git_commit"] is None


def test_a_machine_without_git_or_cpuinfo_still_has_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_program(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    def no_such_file(*_: object, **__: object) -> str:
        raise FileNotFoundError("cpuinfo")

    monkeypatch.setattr(subprocess, "run", no_such_program)
    monkeypatch.setattr(Path, "read_text", no_such_file)
    monkeypatch.setattr(run_folder, "_VERSIONED", ("no-such-package",))
    facts = machine_facts()
    assert facts["git_commit"] is None
    assert facts["processor"]
    assert facts["versions"]["no-such-package"] is None
