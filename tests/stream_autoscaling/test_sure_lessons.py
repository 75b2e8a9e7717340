"""Lessons of streaming jobs: what is weighed, who acts meanwhile, and a run that learns from them alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import SettingsError
from trimtab.core.settings import load_settings
from trimtab.learning.lessons import Lessons
from trimtab.learning.settings import TrainingSettings
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.sure import collecting
from trimtab.stream_autoscaling.sure.actions import bands_of
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.lessons import by_size, collect_lessons, lesson_files
from trimtab.stream_autoscaling.sure.policy import load_policy
from trimtab.stream_autoscaling.sure.rollouts import Course
from trimtab.stream_autoscaling.sure.task import PRESETS, NetworkSettings, SureSettings, check_settings
from trimtab.stream_autoscaling.sure.training import train_sure
from trimtab.stream_autoscaling.workload.jobs import FROZEN, make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace

DESIGN = Design(
    history=6, snapshots=3, hidden=8, base_memory_s=1740.0, base_recent_s=300.0, base_patience_s=300.0
)
COURSE = Course(
    (make_job("linear:3"),),
    lambda job, seed: draw_trace(TraceSettings(), job, seed=seed, part="training"),
    Deployment(history=30, substep_ms=6000),
    make_policy(DESIGN.teacher),
    span_s=4 * 3600.0,
    start_spread=0.5,
    look_ahead=10,
    weighs=True,
    weighed_share=0.5,
)


def test_jobs_of_similar_size_are_kept_together() -> None:
    groups = by_size([make_job(name) for name in FROZEN])
    assert [sorted(job.name for job in group) for group in groups] == [
        ["small-1", "small-2"],
        ["medium-1", "medium-2"],
        ["large-1", "large-2"],
    ]


def test_a_lesson_offers_what_rules_would_do_and_what_each_earns() -> None:
    lessons = collect_lessons(COURSE, DESIGN, 40, seed=1, environments=8)
    seen = lessons.observations
    rules = len(bands_of(DESIGN)["target"])
    assert len(lessons) == 40 and seen["alternatives"].shape[1] == 1 + rules
    assert not seen["alternatives"][:, 0].any()  # the first is to hold
    assert (seen["offered"].sum(1) >= 2).all() and seen["may_commit"].all()
    commits = seen["alternatives"][:, 1:, 0] > 0
    assert (commits | ~seen["offered"][:, 1:]).all()  # what holds is offered once, as the first
    base = seen["base_commits"]
    assert np.array_equal(base, commits[:, 0]) and base.any() and not base.all()
    assert (seen["gains"][:, 1] == 0).all()  # against the base rule itself
    assert (seen["gains"][~base, 0] == 0).all()  # which holds
    assert np.abs(seen["gains"][seen["offered"]]).max() > 0.05


def test_the_same_seed_gives_the_same_lessons_and_whoever_acts_other_ones() -> None:
    plain, again = (collect_lessons(COURSE, DESIGN, 12, seed=3, environments=4) for _ in range(2))
    for name, rows in plain.observations.items():
        assert np.array_equal(rows, again.observations[name]), name
    holding = collect_lessons(
        COURSE, DESIGN, 12, seed=3, environments=4, actor=lambda seen: seen["alternatives"][:, 0]
    )
    assert not np.array_equal(holding.observations["parallelism"], plain.observations["parallelism"])


@pytest.mark.usefixtures("quick_compilation")
def test_a_run_collects_lessons_learns_from_them_and_shares_them(tmp_path: Path) -> None:
    plain = {
        "jobs": ["linear:3"],
        "environments": 4,
        "lanes": 1,
        "rollouts": 1,
        "validation": 1,
        "lessons": 30,
        "workers": 1,
        "look_ahead_h": 1.0,
        "weighed_share": 0.5,
        "deployment": {"interval_s": 600, "history": 6, "substep_ms": 30_000},
        "network": {
            "history_encoder": "deepwave",
            "history": 6,
            "snapshots": 3,
            "hidden": 8,
            "base_memory_s": 1800,
            "base_recent_s": 1800,
            "base_window_s": 1200,
        },
        "training": {
            "algorithm": "weighing",
            "baseline": "foreseen",
            "iterations": 2,
            "horizon": 2,
            "epochs": 1,
            "minibatches": 1,
            "validate_every": 2,
            "reset_every": 2,
            "checkpoint_every": 2,
        },
    }

    def run(name: str, **changes) -> Path:
        settings = load_settings(SureSettings, None, {**plain, **changes})
        return train_sure(settings, tmp_path / name, name=name, clock=lambda: datetime.now(UTC))

    first = run("first")
    kept = tmp_path / "first-lessons"
    assert load_policy(first).design.history_encoder == "deepwave"
    assert [path.name for path in kept.iterdir()] == ["linear:3.npz"]
    run("second", lessons_from=str(kept))
    assert not (tmp_path / "second-lessons").exists()
    with pytest.raises(SettingsError, match="lessons with a history of 6 intervals"):
        run("third", lessons_from=str(kept), network={**plain["network"], "history": 5})

    with pytest.raises(SettingsError, match=r"lessons of other settings \(training\.seed\); remove"):
        run("first", training={**plain["training"], "seed": 9})
    with pytest.raises(SettingsError, match=r"linear:4\.npz: no lessons of these jobs"):
        run("fourth", lessons_from=str(kept), jobs=["linear:4"])
    with pytest.raises(SettingsError, match="lessons_from = nowhere: no such folder"):
        run("fifth", lessons_from="nowhere")
    with pytest.raises(SettingsError, match="without lessons; set lessons too"):
        run("sixth", lessons_from=str(kept), lessons=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "first-lessons", "second"]

    # Of two rounds the second is collected by what was learned in the first; another run needs both.
    run("twice", lessons_rounds=2)
    assert {path.name for path in tmp_path.glob("twice-*")} == {"twice-lessons", "twice-before-round-2"}
    both = tmp_path / "twice-lessons"
    parts = (both / "linear:3.npz", both / "round-2" / "linear:3.npz")
    ruled, acted = (Lessons.load(path).observations["window"] for path in parts)
    assert ruled.shape == acted.shape and not np.array_equal(ruled, acted)
    run("shared", lessons_rounds=2, lessons_from=str(both))
    with pytest.raises(SettingsError, match=r"round-2/linear:3\.npz: no lessons of these jobs"):
        run("half", lessons_rounds=2, lessons_from=str(kept))


def test_lessons_are_the_same_however_many_collect_them_and_what_was_collected_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "PART", 16)
    settings = SureSettings(
        jobs=("linear:3",),
        lessons=40,
        look_ahead_h=1.0,
        weighed_share=0.5,
        deployment=Deployment(interval_s=600, history=6, substep_ms=30_000),
        network=NetworkSettings(
            history=6, snapshots=3, base_memory_s=1800, base_recent_s=1800, base_window_s=1200
        ),
        training=TrainingSettings(algorithm="weighing", baseline="foreseen"),
    )

    def collect(name: str, workers: int) -> dict[str, np.ndarray]:
        files = lesson_files([make_job("linear:3")], tmp_path / name)
        collecting.collect_files(settings.model_copy(update={"workers": workers}), files, 1, None)
        return Lessons.load(files[0][1]).observations

    alone, shared = (collect(name, workers) for name, workers in (("alone", 1), ("shared", 2)))
    assert len(alone["window"]) == 40
    assert all(np.array_equal(rows, shared[name]) for name, rows in alone.items())
    first, second = alone["window"][:16], alone["window"][16:32]
    assert not np.array_equal(first, second)  # every part has luck of its own

    # Interrupted in the third of three parts, a run goes on with it.
    collected, all_parts = [], collect_lessons

    def until_interrupted(*asked, **how):
        collected.append(how["seed"])
        if len(collected) == 3:
            raise KeyboardInterrupt
        return all_parts(*asked, **how)

    monkeypatch.setattr(collecting, "collect_lessons", until_interrupted)
    with pytest.raises(KeyboardInterrupt):
        collect("interrupted", 1)
    again = collect("interrupted", 1)
    assert len(collected) == 4 and collected[3] == collected[2]
    assert all(np.array_equal(rows, again[name]) for name, rows in alone.items())
    assert [path.name for path in (tmp_path / "interrupted").iterdir()] == ["linear:3.npz"]


def test_every_group_of_jobs_has_a_file_of_lessons_of_its_own(tmp_path: Path) -> None:
    """Two imported jobs may have one name; the second would learn from the lessons of the first."""
    few, many = (replace(make_job(f"linear:{count}"), name="clicks") for count in (3, 9))
    (_, first), (_, second) = lesson_files([many, few], tmp_path)
    assert first != second
    assert [path.name for _, path in lesson_files([few], tmp_path)] == ["clicks.npz"]
    # Thirty jobs of one size have too many letters for a file, and a name may have a slash.
    thirty = [make_job("synthetic:15", seed=seed) for seed in range(30)]
    for jobs in (thirty, [replace(few, name="/etl/clicks")]):
        ((_, path),) = lesson_files(jobs, tmp_path)
        assert path.parent == tmp_path
        path.with_suffix(".partial.npz").write_bytes(b"")


def test_a_course_without_anything_to_look_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.stream_autoscaling.sure.lessons._PATIENCE", 200)
    with pytest.raises(SettingsError, match="nothing to look at in 200 decisions of 2 jobs"):
        collect_lessons(replace(COURSE, weighed_share=1e-12), DESIGN, 5, seed=1, environments=2)


@pytest.mark.parametrize(
    ("training", "told"),
    [
        ({"doubt": 0.5}, "doubt = 0.5 makes an agent try more"),
        ({"imitation_iterations": 2}, "without imitation"),
        ({"tensorboard": True}, "needs the package tensorboardX"),
    ],
)
def test_what_does_not_go_with_lessons_is_refused_before_they_are_collected(training, told, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    settings = PRESETS.load("sure", {"training": training})
    assert settings.lessons
    with pytest.raises(SettingsError, match=told):
        check_settings(settings)
