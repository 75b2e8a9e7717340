"""Run folders of training that lack something, and trainings that end before they have begun."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import Field, Settings
from trimtab.learning.run_files import STATE, forget_metrics_after, run_to_train


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


class Search(Settings):
    pace: float = Field(default=0.1, ge=0, description="How fast.")


def began(folder: Path, *, ending: type[BaseException] | None = None, state: bool = True) -> RunFolder:
    """A run that has come to iteration 3, and perhaps ended badly."""
    with run_to_train(folder, Search(), clock=clock, resume=False, describe=lambda: {"toy": 1}) as run:
        if state:
            (run.path / STATE).write_bytes(b"where it stands")
            for iteration in (1, 2, 3):
                run.append_metrics({"iteration": iteration})
        if ending is not None:
            raise ending("the end")
    return run


def go_on(folder: Path) -> None:
    with run_to_train(folder, Search(), clock=clock, resume=True, describe=lambda: {"toy": 1}):
        pass


@pytest.mark.parametrize("ending", [KeyboardInterrupt, TrimtabError, OSError])
def test_a_run_that_ended_before_its_first_state_leaves_no_folder(
    tmp_path: Path, ending: type[BaseException]
) -> None:
    """What it began from is nowhere else: who went on with it would begin from other numbers."""
    with pytest.raises(ending, match="the end"):
        began(tmp_path / "run", ending=ending, state=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("ending", [KeyboardInterrupt, TrimtabError, OSError])
def test_a_run_that_ended_later_goes_on(tmp_path: Path, ending: type[BaseException]) -> None:
    with pytest.raises(ending, match="the end"):
        began(tmp_path / "run", ending=ending)
    go_on(tmp_path / "run")


@pytest.mark.parametrize("missing", [STATE, "task.json"])
def test_a_run_that_lacks_something_is_refused_at_once(tmp_path: Path, missing: str) -> None:
    """Not begun anew from other numbers, nor found out when the policy is packed at the end."""
    run = began(tmp_path / "run")
    (run.path / missing).unlink()
    with pytest.raises(TrimtabError, match=rf"run: this run has no {missing}"):
        go_on(run.path)
    assert len(run.read_metrics()) == 3


def test_metrics_that_lack_an_iteration_are_refused(tmp_path: Path) -> None:
    """The policy of a run is packed with what was measured at its iteration."""
    run = began(tmp_path / "run")
    lines = (run.path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run.path / "metrics.jsonl").write_text(lines[0] + lines[1][:9])
    with pytest.raises(
        TrimtabError, match=r"metrics\.jsonl: no line of iteration 2, though the run came to 3"
    ):
        forget_metrics_after(run, 3)
    assert (run.path / "metrics.jsonl").read_text() == lines[0] + lines[1][:9]
    forget_metrics_after(run, 1)
    assert (run.path / "metrics.jsonl").read_text() == lines[0]
