"""Rates by name, scaled to an application, cut into episodes and split by time."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.pod_autoscaling.workload.applications import make_application
from trimtab.pod_autoscaling.workload.presets import (
    TRACES,
    Shape,
    TraceSettings,
    described_trace,
    draw_trace,
    find_trace,
    mean_rate_of,
    span_of_part,
)
from trimtab.rates.traces import DAY_S, Provenance, RateTrace, save_trace

APP = make_application("textbook")
PARTS = ("training", "validation", "test")


def numbered(steps: int, step_s: float, *, start_s: float = 0.0) -> RateTrace:
    """The rate of step n is n + 1."""
    return RateTrace(1.0 + np.arange(steps), step_s, Provenance("numbered"), start_s=start_s)


def test_every_name_is_described_and_makes_a_fortnight() -> None:
    assert len(TRACES) == 10
    for name in TRACES:
        assert described_trace(name)
        found = find_trace(name)
        assert span_of_part(found, "all") == (0, 14 * DAY_S)
        assert [span_of_part(found, part) for part in PARTS] == [
            (0, 9 * DAY_S), (9 * DAY_S, 11 * DAY_S), (11 * DAY_S, 14 * DAY_S)
        ]  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
def test_an_episode_of_every_name(name: str) -> None:
    drawn = draw_trace(TraceSettings(name=name, mean_cores=2), APP, seed=4, part="test")
    assert drawn.length_s == 3600
    assert 11 * DAY_S <= drawn.start_s <= 14 * DAY_S - 3600
    assert drawn.start_s % 60 == 0
    again = draw_trace(TraceSettings(name=name, mean_cores=2), APP, seed=4, part="test")
    assert np.array_equal(drawn.rates, again.rates)
    # Two cores of 20 ms are 100 requests/s; a single hour may be quiet or busy.
    assert 5 < drawn.rates.mean() < 600


@pytest.mark.parametrize("part", PARTS)
def test_episodes_stay_within_their_part(part: str) -> None:
    begin_s, end_s = span_of_part(find_trace("noisy"), part)  # pyright: ignore[reportArgumentType]
    starts = [
        draw_trace(TraceSettings(name="noisy", hours=0.25), APP, seed=seed, part=part).start_s  # pyright: ignore[reportArgumentType]
        for seed in range(40)
    ]
    assert begin_s <= min(starts)
    assert max(starts) + 900 <= end_s
    assert len(set(starts)) > 35


def test_all_is_the_beginning() -> None:
    assert draw_trace(TraceSettings(), APP, seed=9).start_s == 0


def test_cores_become_requests() -> None:
    """20 ms of work: 4 cores are 200 requests/s; a service of 1 ms would need 4,000, more than allowed."""
    assert mean_rate_of(TraceSettings(mean_cores=4), APP) == 200
    assert mean_rate_of(TraceSettings(mean_cores=40), APP) == 400
    assert mean_rate_of(TraceSettings(mean_cores=40, most_rate=5000), APP) == 2000
    assert mean_rate_of(TraceSettings(mean_rate=12.0), APP) == 12
    constant = draw_trace(TraceSettings(name="constant", mean_cores=3), APP, seed=0)
    assert (constant.rates == 150).all()
    assert constant.rates[0] * APP.cpu_s == pytest.approx(3)


def test_rates_may_vary_for_training() -> None:
    settings = TraceSettings(name="constant", mean_rate=100.0, rate_spread=0.3, hours=0.01)
    rates = [draw_trace(settings, APP, seed=seed).rates[0] for seed in range(50)]
    assert 70 <= min(rates) < 80
    assert 120 < max(rates) <= 130


def test_a_file_of_days_is_split_by_days(tmp_path: Path) -> None:
    path = tmp_path / "mine.trace"
    save_trace(numbered(14 * 24, 3600.0), path)
    for part, days in (("training", (0, 9)), ("validation", (9, 11)), ("test", (11, 14))):
        drawn = [
            draw_trace(TraceSettings(name=str(path), hours=2), APP, seed=seed, part=part)  # pyright: ignore[reportArgumentType]
            for seed in range(20)
        ]
        assert all(days[0] * DAY_S <= one.start_s <= days[1] * DAY_S - 7200 for one in drawn)
        assert all(len(one.rates) == 2 for one in drawn)


def test_a_file_of_hours_is_split_by_time(tmp_path: Path) -> None:
    """Azure's sample: 480 minutes; 309 for training, 69 for validation, 102 for tests."""
    path = tmp_path / "mine.trace"
    save_trace(numbered(480, 60.0, start_s=28_740.0), path)
    found = find_trace(str(path))
    ends = [span_of_part(found, part) for part in PARTS]
    assert [round((last - first) / 60) for first, last in ends] == [309, 69, 102]
    assert ends[0][0] == 28_740
    assert ends[0][1] == ends[1][0]
    drawn = draw_trace(TraceSettings(name=str(path)), APP, seed=1, part="test")
    assert drawn.length_s == 3600
    with pytest.raises(
        WorkloadError, match=r"part 'validation' has 1\.15 h, an episode needs 2 h; lower hours"
    ):
        draw_trace(TraceSettings(name=str(path), hours=2), APP, seed=0, part="validation")
    with pytest.raises(WorkloadError, match="90 s is not a whole number of its steps of 60 s"):
        draw_trace(TraceSettings(name=str(path), hours=0.025), APP, seed=0)


def test_the_whole_file_is_scaled_not_the_episode(tmp_path: Path) -> None:
    path = tmp_path / "mine.trace"
    save_trace(numbered(120, 60.0), path)
    first_hour = draw_trace(TraceSettings(name=str(path), mean_rate=60.5), APP, seed=0)
    # The mean of 1 to 120 is 60.5, so the scale is 1.
    assert first_hour.rates == pytest.approx(np.arange(1, 61))


def test_a_trace_too_short_to_be_split() -> None:
    with pytest.raises(WorkloadError, match="2 steps cannot be split"):
        span_of_part(numbered(2, 60.0), "test")


def test_waves_of_another_length() -> None:
    day = find_trace("diurnal:24")
    assert isinstance(day, Shape)
    assert day.rates(0, 86_400).argmax() / 3600 == pytest.approx(12, abs=3)
    assert draw_trace(TraceSettings(name="diurnal:24"), APP, seed=1).provenance.settings["cycle_s"] == 86_400
    for variant in ("x", "0"):
        with pytest.raises(WorkloadError, match="hours of a wave, such as diurnal:24"):
            find_trace(f"diurnal:{variant}")
    for name in ("noisy:3", "twitter-like:3"):
        with pytest.raises(WorkloadError, match="has no variants, but '3'"):
            find_trace(name)


def test_unknown_names_and_files() -> None:
    with pytest.raises(RegistryError, match=r"did you mean 'pod/bursty'.*path of a .trace file"):
        find_trace("burst")
    with pytest.raises(WorkloadError, match="no such file"):
        find_trace("missing.trace")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"mean_cores": 0}, "mean_cores = 0"),
        ({"mean_rate": -1}, "mean_rate = -1"),
        ({"hours": 0}, "hours = 0"),
        ({"hours": 1e-6}, "less than a second"),
        ({"part": "tests"}, "part"),
        ({"rate_spread": 1.0}, "rate_spread"),
        ({"mean_core": 3}, "did you mean 'mean_cores'?"),
    ],
)
def test_bad_settings_name_the_field(flags: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(TraceSettings, None, flags)
    assert said in str(caught.value)
