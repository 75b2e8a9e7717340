"""The policies of the benchmarks of autoscalers: what each is trained with, and what is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks import stream_training
from benchmarks.stream_ablations import VARIANTS
from benchmarks.stream_learning import COMPACT, LEARNED
from benchmarks.stream_settings import BUNDLES, TRAINING_SEEDS
from benchmarks.stream_training import main, variants

from trimtab.core.bundle import Bundle, load_bundle
from trimtab.stream_autoscaling.policies import find_bundle
from trimtab.stream_autoscaling.sure.compact_training import COMPACT as COMPACT_TRAINING
from trimtab.stream_autoscaling.sure.design import Design, design_from
from trimtab.stream_autoscaling.sure.task import load_preset


def test_it_trains_whom_the_benchmarks_play() -> None:
    networks = set(LEARNED) | set(VARIANTS) | {"small-sure", "small-random"}
    assert networks | {COMPACT} == set(variants())


@pytest.mark.parametrize("name", [name for name in variants() if name != COMPACT])
def test_the_shipped_ones_have_the_network_that_is_trained_here(name: str) -> None:
    network = load_preset("sure", variants()[name]).network
    for seed in range(TRAINING_SEEDS):
        settings = load_bundle(BUNDLES / f"{name}-{seed}").manifest["settings"]
        assert design_from(settings["design"]) == Design(**network.model_dump())


def test_the_compact_autoscaler_that_is_shipped_is_the_best_of_those_on_validation_days() -> None:
    shipped = load_bundle(find_bundle(COMPACT))
    trainings = [load_bundle(BUNDLES / f"{COMPACT}-{seed}") for seed in range(TRAINING_SEEDS)]
    best = min(trainings, key=lambda one: one.manifest["scores"][COMPACT_TRAINING.score])
    np.testing.assert_array_equal(shipped.tensors["numbers"], best.tensors["numbers"])
    assert {one.manifest["trained"]["training"]["seed"] for one in trainings} == set(range(TRAINING_SEEDS))


def trainings_noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, Bundle | None]]:
    """Instead of training: names, settings and starts."""
    noted: list[tuple[str, Any, Bundle | None]] = []

    def train(settings: Any, folder: Path, *, name: str, clock: object, start: Bundle | None) -> Path:
        noted.append((name, settings, start))
        made = folder.with_name(f"bundle of {folder.name}")
        shutil.copytree(find_bundle(COMPACT), made)
        return made

    search = SimpleNamespace(train=train)
    monkeypatch.setattr("trimtab.stream_autoscaling.sure.compact_training.COMPACT", search)
    monkeypatch.setattr("trimtab.stream_autoscaling.sure.training.train_sure", train)
    return noted


def test_what_is_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = trainings_noted(monkeypatch)
    lessons, bundles = tmp_path / "lessons", tmp_path / "bundles"
    lessons.mkdir()
    (bundles / "dream-0").mkdir(parents=True)
    words = ["--lessons", str(lessons), "--bundles", str(bundles), "--names", "dream", "small-k1-2"]
    main([*words, "--seeds", "0", "1"])
    assert [name for name, _, _ in trained] == ["small-k1-2-0", "dream-1", "small-k1-2-1"]
    assert {start for _, _, start in trained} == {None}
    dream, small = trained[1][1], trained[2][1]
    assert dream.network.history_encoder == "dream" and dream.training.seed == 1 and len(dream.jobs) == 6
    assert small.network.snapshots == 2 and small.jobs == ("small-1", "small-2")
    assert {one.lessons_from for _, one, _ in trained} == {str(lessons)}
    main([*words, "--seeds", "0", "1"])
    assert len(trained) == 3


def test_it_goes_on_from_others_with_settings_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = trainings_noted(monkeypatch)
    lessons, bundles = tmp_path / "lessons", tmp_path / "bundles"
    lessons.mkdir()
    bundles.mkdir()
    words = ["--lessons", str(lessons), "--bundles", str(bundles), "--names", "dream", "--seeds", "3"]
    main([*words, "--start-from", str(BUNDLES), "--set", "training.iterations=60", "lessons_rounds=1"])
    ((name, settings, start),) = trained
    assert name == "dream-3" and start is not None and start.name == "dream-3"
    assert settings.training.iterations == settings.training.validate_every == 60
    assert settings.lessons_rounds == 1 and settings.training.seed == 3


def test_compact_ones_need_no_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = trainings_noted(monkeypatch)
    words = ["--lessons", str(tmp_path / "none"), "--names", COMPACT, "--seeds", "2"]
    main([*words, "--bundles", str(tmp_path / "whole")])
    names, searches, starts = zip(*trained, strict=True)
    assert set(names) == {f"{COMPACT}-2"} and [start is None for start in starts] == [True, False, False]
    assert [one.searched for one in searches] == ["uneven", "uneven", "even"]
    assert [len(one.courses) for one in searches] == [4, 1, 3]
    assert searches[2].courses[0].trace.name == "twitter-like"
    assert [one.training.seed for one in searches] == [2, 102, 2]
    assert all(one.training.validate_every == one.training.iterations for one in searches)
    main([*words, "--bundles", str(tmp_path / "more"), "--start-from", str(tmp_path / "whole")])
    assert len(trained) == 6 and trained[3][2] is not None


def test_a_setting_without_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: --set training\.iterations: not name=value"):
        main(["--lessons", str(tmp_path), "--bundles", str(tmp_path), "--set", "training.iterations"])


def test_without_lessons_it_says_how_to_come_by_them(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"none: no lessons; `make train-sure` collects them"):
        main(["--lessons", str(tmp_path / "none"), "--bundles", str(tmp_path)])
    assert stream_training.LESSONS.name == "sure-lessons"
