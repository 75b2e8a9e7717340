"""Lessons: drawn by seed, kept on disk, refused when broken; and a policy that learns from them alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.settings import Settings
from trimtab.learning.lessons import Lessons, collected_with, refuse_other_lessons


def made(count: int, first: int = 0) -> Lessons:
    return Lessons(
        {
            "alternatives": np.zeros((count, 2, 1), np.int32),
            "offered": np.ones((count, 2), bool),
            "gains": np.zeros((count, 2), np.float32),
            "seen": np.arange(first, first + count),
        }
    )


def test_draws_depend_on_the_seed_alone_and_reach_every_lesson() -> None:
    lessons = made(10)
    first, again, other = (lessons.drawn(seed=seed, shape=(20, 8)).observation["seen"] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert set(first.ravel().tolist()) == set(range(10))


def test_lessons_are_joined_and_survive_the_disk(tmp_path: Path) -> None:
    joined = Lessons.joined([made(3), made(2, 3)])
    told = {"seed": "3"}
    Lessons(joined.observations, told=told).save(tmp_path / "kept" / "small.npz")
    kept = Lessons.load(tmp_path / "kept" / "small.npz")
    assert (
        len(kept) == 5
        and kept.told == told
        and joined.told == {}
        and kept.observations["seen"].tolist() == [0, 1, 2, 3, 4]
    )
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["small.npz"]


def test_what_is_no_lesson_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match="lessons without offered, gains; collect them anew"):
        Lessons({"alternatives": np.zeros((1, 1, 1))})
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"nothing")
    short, empty = tmp_path / "short.npz", tmp_path / "empty.npz"
    made(3).save(short)
    short.write_bytes(short.read_bytes()[:-5])
    empty.touch()
    for path in (broken, short, empty, tmp_path / "missing.npz"):
        with pytest.raises(TrimtabError, match=f"{path}: no lessons"):
            Lessons.load(path)


class Ground(Settings):
    trace: str = "sine"
    hours: float = 1.0


def test_of_a_file_counts_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "day.trace").write_text("rates")
    monkeypatch.chdir(tmp_path)
    had = collected_with(Ground(trace="day.trace"), {"trace", "hours"})
    refuse_other_lessons(
        tmp_path, had, collected_with(Ground(trace=str(tmp_path / "day.trace")), {"trace", "hours"})
    )
    (tmp_path / "day.trace").write_text("other rates")
    with pytest.raises(SettingsError, match=r"lessons of other settings \(trace\)"):
        refuse_other_lessons(tmp_path, had, collected_with(Ground(trace="day.trace"), {"trace", "hours"}))
    assert collected_with(Ground(), {"trace"}) == {"trace": '"sine"'}
