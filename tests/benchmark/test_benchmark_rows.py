"""Benchmarks say what they did: bars as tested, rivals as tuned, reasons for what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import pod_drift, stream_learning
from benchmarks.decima_optimality import over_optimum
from benchmarks.gpu_learning import row
from benchmarks.results import ROOT
from benchmarks.stream_settings import Played

from trimtab.benchmark.playing import Workers
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.core.errors import TrimtabError
from trimtab.core.statistics import Estimate
from trimtab.stream_autoscaling.deployment import Deployment


@pytest.mark.parametrize(
    ("high", "sure", "holds"), [(0.99, True, True), (1.01, True, False), (1.01, False, True)]
)
def test_a_bar_on_the_interval_is_told(high: float, sure: bool, holds: bool) -> None:
    found = row("mine", Estimate(0.98, 0.97, high), 1.0, sure=sure)
    assert found.holds == holds
    assert ("interval < 1" in found.bar) == sure


def test_files_of_traces_go_with_the_process(tmp_path: Path) -> None:
    code = (
        "from benchmarks import gpu_learning as one\n"
        "one.imported = lambda *_: None\n"
        "one.save_workload = lambda _, file: file.write_text('')\n"
        "print(one.workload_file('', 'pai/tasks.csv'), one.pai_file(), one.pai_file())\n"
    )
    usual = os.environ | {"TMPDIR": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=usual, check=True, capture_output=True, text=True
    ).stdout.split()
    assert len(set(told)) == 2 and all(one.startswith(str(tmp_path)) for one in told)
    assert not any(Path(one).exists() for one in told)


def test_nobody_is_better_than_the_best() -> None:
    with pytest.raises(SystemExit, match="instance 1 was played below its optimum"):
        over_optimum(np.array([5, 3]), np.array([5, 4]))


def test_rules_with_usual_settings_do_not_pass_for_tuned_ones() -> None:
    assert stream_learning.tuned_ds2(JobsSuite()).told == " (tuned)"
    with pytest.raises(SystemExit, match="not tuned for every job"):
        stream_learning.tuned_ds2(JobsSuite(deployment=Deployment(interval_s=30)))


def test_one_job_that_makes_a_ratio_of_all_is_seen() -> None:
    ours = Played("sure", "", {"slot_hours": np.array([[10.0, 10.0], [10.0, 10.0]])})
    theirs = Played("flink", " (tuned)", {"slot_hours": np.array([[10.0, 10.0], [190.0, 190.0]])})
    (all_jobs,) = stream_learning.bar_rows("sure / flink", ours, theirs, {"slot_hours": 0.85})
    assert (all_jobs.value, all_jobs.holds) == (0.1, True)
    (unjudged,) = stream_learning.bar_rows("sure / flink", theirs, ours, {"slot_hours": 0.85}, judged=False)
    assert (unjudged.value, unjudged.bar, unjudged.holds) == (10.0, "none", True)
    first, second = stream_learning.slot_rows(ours, theirs, ["small-1", "large-2"])
    assert (first.name, first.value) == ("sure / flink on small-1: slot-hours", 1.0)
    assert second.value == pytest.approx(10 / 190)


def test_recordings_that_are_missing_fail_and_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIMTAB_SHARED_DATA", str(tmp_path / "nowhere"))
    (found,) = stream_learning.unseen_rows(Workers(1), 3, [], [])
    assert not found.holds
    assert "nowhere is missing" in capsys.readouterr().out


def test_without_its_policy_serving_is_not_judged_by_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise TrimtabError(f"no policy {name}")

    monkeypatch.setattr(pod_drift, "make_policy", missing)
    with pytest.raises(TrimtabError, match="no policy aware"):
        pod_drift.main(["--services", "2"])


def test_every_training_of_the_makefile_takes_arguments() -> None:
    recipes = re.findall(r"^(train-[a-z-]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(recipes) >= 10
    assert not [target for target, recipe in recipes if "$(ARGS)" not in recipe]
