"""What is left of a training run: its bundle, with the scores of every course."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trimtab import __version__
from trimtab.core.bundle import flatten, load_bundle, save_tensors
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.dag_scheduling.decima.network import Design, new_network
from trimtab.dag_scheduling.decima.task import DecimaSettings
from trimtab.dag_scheduling.decima.training import save_bundle_of_run, train_decima
from trimtab.learning.run_files import BEST, STATE
from trimtab.learning.runs import is_finished

DESIGN = Design(hidden=8, embedding=4)
COURSES = ["batch", "stream", "trace"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run of three iterations, the second of them the best."""
    made = RunFolder.create(tmp_path / "mine", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    made.write_json(
        "task.json", {"courses": COURSES, "design": asdict(DESIGN), "most_executors": 4, "jobs_shown": 5}
    )
    for iteration, (score, over_fair, *by_course) in enumerate(
        [(0.9, 0.7, 0.8, 0.9, 1.0), (0.8, 0.6, 0.5, 1.0, 0.9), (0.85, 0.65, 0.4, 1.25, 0.9)], start=1
    ):
        courses = {f"score/course_{number}": one for number, one in enumerate(by_course)}
        line = {"iteration": iteration, "decisions": 10, "seconds": 2.0}
        made.append_metrics({**line, "score": score, "score/over_fair": over_fair, **courses})
    notes = {"iteration": "2", "score": "0.8"}
    save_tensors(made.path / BEST, flatten(new_network(DESIGN, 0)), notes)
    return made


def test_the_scores_of_a_bundle_are_those_of_its_best_checkpoint_by_course(run: RunFolder) -> None:
    manifest = load_bundle(save_bundle_of_run(run, "mine")).manifest
    assert manifest["scores"] == {
        "validation cost over the teacher's": 0.8,
        "at iteration": 2,
        "validation cost over fair's": 0.6,
        "courses": [0.5, 1.0, 0.9],
    }
    trained = manifest["trained"]
    assert (trained["courses"], trained["iterations"], trained["decisions"]) == (COURSES, 3, 30)
    assert trained["versions"]["trimtab"] == __version__


def test_a_run_without_a_validated_checkpoint_has_no_bundle(run: RunFolder) -> None:
    (run.path / BEST).unlink()
    with pytest.raises(TrimtabError, match="no validated checkpoint yet"):
        save_bundle_of_run(run, "mine")


def test_a_run_is_finished_when_its_state_is_that_of_the_last_iteration(run: RunFolder) -> None:
    """Metrics may be ahead: a crash between them and the state leaves an iteration to be played again."""
    settings = DecimaSettings.model_validate({"training": {"imitation_iterations": 1, "iterations": 2}})
    assert not is_finished(run, settings.training)
    for iteration, finished in ((2, False), (3, True)):
        save_tensors(run.path / STATE, {}, {"iteration": str(iteration)})
        assert is_finished(run, settings.training) is finished


def test_what_cannot_work_is_refused_without_the_command_line_too(tmp_path: Path) -> None:
    settings = DecimaSettings.model_validate({"training": {"baseline": "foreseen"}})
    with pytest.raises(SettingsError, match="look_ahead_s = 0 looks nowhere"):
        train_decima(settings, tmp_path / "run", name="mine", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    assert not (tmp_path / "run").exists()
