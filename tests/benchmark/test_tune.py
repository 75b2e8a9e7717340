import os
from pathlib import Path

import pytest
from tests.benchmark.test_compare import small_stream, small_suite

from trimtab.benchmark.dag_scheduling.wing import DAG
from trimtab.benchmark.playing import Unit, Workers
from trimtab.benchmark.tune import _search, tunable_policies, tune
from trimtab.benchmark.tuned import TunedValues
from trimtab.core.errors import SettingsError
from trimtab.dag_scheduling.heuristics import Parameter
from trimtab.dag_scheduling.workload import save_workload
from trimtab.dag_scheduling.workload.presets import WorkloadSettings
from trimtab.dag_scheduling.workload.tiny import tiny_workload


def test_only_training_seeds_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = small_suite()
    seeds: set[int] = set()
    play = Workers.play

    def watched(workers: Workers, units: list[Unit]) -> object:
        seeds.update(seed for unit in units for seed in unit.seeds)
        return play(workers, units)

    monkeypatch.setattr(Workers, "play", watched)
    tune("weighted-fair", suite, suite.scenarios()[0])
    assert seeds == set(suite.tuning_seeds())
    assert not seeds & set(suite.test_seeds())


def test_the_best_trial_wins_and_is_no_worse_than_usual() -> None:
    suite = small_suite()
    found = tune("tetris", suite, suite.scenarios()[0], suite_name="dag/batch")
    assert found.best.score == min(trial.score for trial in found.trials)
    assert found.best.score <= found.usual.score
    assert found.entry.values == found.best.values
    assert found.entry.training_seeds == 3


def test_tuned_values_come_back_from_their_file(tmp_path: Path) -> None:
    suite = small_stream()
    quiet, busy = suite.scenarios()
    found = tune("weighted-fair", suite, quiet, suite_name="dag/stream")
    path = tmp_path / "tuned.json"
    TunedValues([found.entry]).save(path)
    back = TunedValues.load(path)
    entry = back.find("weighted-fair", suite, quiet)
    assert entry is not None
    assert entry.values == found.best.values
    assert back.find("weighted-fair", suite, busy) is None
    assert back.find("tetris", suite, quiet) is None
    assert len(back.with_entries([found.entry]).entries) == 1


def test_values_tuned_on_older_jobs_are_not_found(tmp_path: Path) -> None:
    path = tmp_path / "mine.workload"
    suite = small_suite(workload=WorkloadSettings(name=str(path), jobs=3))
    (scenario,) = suite.scenarios()
    save_workload(tiny_workload("three-sizes"), path)
    known = TunedValues([tune("tetris", suite, scenario).entry])
    assert known.find("tetris", suite, scenario) is not None
    save_workload(tiny_workload("two-jobs"), path)
    os.utime(path, ns=(1, 1))
    assert known.find("tetris", suite, scenario) is None


def line(name: str, low: float, high: float, points: int, usual: float) -> Parameter:
    step = (high - low) / (points - 1)
    return Parameter(name, usual, "", tuple(low + step * k for k in range(points)))


def test_the_search_finds_the_bottom_of_a_bowl() -> None:
    parameters = [line("x", -2, 2, 41, -1.0), line("y", 0, 1, 21, 0.5)]

    def bowl(candidates: list[tuple[float, ...]]) -> list[float]:
        return [(x - 0.7) ** 2 + 3 * (y - 0.15) ** 2 for x, y in candidates]

    assert _search(parameters, (-1.0, 0.5), bowl) == pytest.approx((0.7, 0.15))  # type: ignore[arg-type]


def test_the_search_follows_a_slanted_valley() -> None:
    parameters = [line("x", 0, 1, 21, 1.0), line("y", 0, 1, 21, 1.0)]

    def valley(candidates: list[tuple[float, ...]]) -> list[float]:
        return [20 * (x + y - 1) ** 2 + (x - 0.25) ** 2 for x, y in candidates]

    x, y = _search(parameters, (1.0, 1.0), valley)  # type: ignore[arg-type]
    assert valley([(x, y)])[0] < 0.01


def test_settings_change_only_for_a_gain() -> None:
    parameters = [line("x", 0, 1, 11, 0.33)]
    assert _search(parameters, (0.33,), lambda candidates: [1.0] * len(candidates)) == (0.33,)


def test_what_has_no_grid_is_refused() -> None:
    suite = small_suite()
    assert "weighted-fair" in tunable_policies(DAG)
    with pytest.raises(SettingsError, match="'fair' has nothing to tune; tunable: capped-srpt"):
        tune("fair", suite, suite.scenarios()[0])


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "trimtab-tuned"}'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match="not a file of tuned values"):
        TunedValues.load(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        TunedValues.load(tmp_path / "missing.json")
