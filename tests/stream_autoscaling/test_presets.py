"""Traces by name, scaled to a job and split by days."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.rates.generated import flat
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import (
    TRACES,
    TraceSettings,
    days_of_part,
    described_trace,
    draw_trace,
    find_trace,
    mean_rate_of,
    whole_days,
)
from trimtab.stream_autoscaling.workload.traces import DAY_S, Provenance, RateTrace, save_trace

JOB = make_job("small-1")
PARTS = ("training", "validation", "test")


def numbered_days(days: int, *, start_s: float = 0.0) -> RateTrace:
    """Hourly steps; on day n the rate is n + 1."""
    hours = np.arange(days * 24) + start_s // 3600
    return RateTrace(1.0 + hours // 24, 3600.0, Provenance("numbered"), start_s=start_s)


def test_every_name_is_described_and_makes_a_fortnight() -> None:
    assert len(TRACES) == 7
    for name in TRACES:
        assert described_trace(name)
        assert find_trace(name).days == 14


@pytest.mark.parametrize(
    ("days", "training", "validation", "test"),
    [(14, 9, 2, 3), (28, 18, 4, 6), (22, 14, 3, 5), (7, 4, 1, 2), (3, 1, 1, 1), (4, 2, 1, 1)],
)
def test_the_split_by_days(days: int, training: int, validation: int, test: int) -> None:
    trace = flat(days=days)
    ends = [days_of_part(trace, part) for part in PARTS]
    assert [last - first for first, last in ends] == [training, validation, test]
    assert ends[0][0] == 0
    assert ends[0][1] == ends[1][0]
    assert ends[1][1] == ends[2][0]
    assert ends[2][1] == days
    assert days_of_part(trace, "all") == (0, days)


@pytest.mark.parametrize("days", range(3, 60))
def test_no_part_is_empty(days: int) -> None:
    assert all(first < last for first, last in (days_of_part(flat(days=days), part) for part in PARTS))


def test_too_few_days_cannot_be_split() -> None:
    with pytest.raises(WorkloadError, match=r"2 whole days cannot be split .* at least 3"):
        days_of_part(flat(days=2), "test")


def test_only_whole_days_count() -> None:
    """From 21:30 of day 0 for three days: days 1 and 2 are whole."""
    late = RateTrace(np.ones(3 * 1440), 60.0, Provenance("late"), start_s=21.5 * 3600)
    assert whole_days(late) == (1, 3)
    assert whole_days(flat(days=1)) == (0, 1)
    hours = RateTrace(np.ones(3), 3600.0, Provenance("hours"))
    assert whole_days(hours) == (0, 0)
    # A third of a second per step does not add up to a day exactly.
    thirds = RateTrace(np.ones(3 * DAY_S), 1 / 3, Provenance("thirds"))
    assert whole_days(thirds) == (0, 1)


@pytest.mark.parametrize("part", PARTS)
def test_episodes_come_from_their_part(part: str, tmp_path: Path) -> None:
    path = tmp_path / "numbered.trace"
    save_trace(numbered_days(14), path)
    settings = TraceSettings(name=str(path), mean_rate=7.5)
    seen = set()
    for seed in range(40):
        drawn = draw_trace(settings, JOB, seed=seed, part=part)  # pyright: ignore[reportArgumentType]
        # The mean over 1 to 14 is 7.5, so the scale is 1 and the rate tells the day.
        assert len(set(drawn.rates.tolist())) == 1
        assert drawn.rates[0] - 1 == drawn.start_s / DAY_S
        assert drawn.length_s == DAY_S
        seen.add(int(drawn.rates[0]) - 1)
    assert seen == {"training": set(range(9)), "validation": {9, 10}, "test": {11, 12, 13}}[part]


def test_days_in_a_row_stay_within_the_part(tmp_path: Path) -> None:
    path = tmp_path / "numbered.trace"
    save_trace(numbered_days(14), path)
    settings = TraceSettings(name=str(path), mean_rate=7.5, days=2, part="test")
    starts = {draw_trace(settings, JOB, seed=seed).start_s / DAY_S for seed in range(20)}
    assert starts == {11, 12}
    assert draw_trace(settings, JOB, seed=1, part="all").start_s == 0
    with pytest.raises(WorkloadError, match="part 'validation' has 2 whole days, an episode needs 3"):
        draw_trace(settings.model_copy(update={"days": 3}), JOB, seed=0, part="validation")


def test_generated_traces_give_other_weeks_and_keep_the_split() -> None:
    settings = TraceSettings()
    training = [draw_trace(settings, JOB, seed=seed, part="training") for seed in range(12)]
    assert all(trace.start_s < 9 * DAY_S for trace in training)
    assert len({trace.rates.tobytes() for trace in training}) == 12
    again = draw_trace(settings, JOB, seed=0, part="training")
    assert np.array_equal(again.rates, training[0].rates)


def test_the_whole_trace_is_scaled_not_the_episode() -> None:
    settings = TraceSettings(days=14)
    assert draw_trace(settings, JOB, seed=3).rates.mean() == pytest.approx(JOB.usual_rate)
    whole = draw_trace(settings, JOB, seed=3)
    by_day = [whole.day(day).rates.mean() / JOB.usual_rate for day in range(14)]
    assert min(by_day) < 0.85  # a day of a weekend
    assert max(by_day) > 1.1


def test_load_is_work_over_five_subtasks_each() -> None:
    """linear:3 needs 1, 2 and 4 ms per record: at a load of 0.7, 0.7 x 15 = 10.5 busy = 1500 records/s."""
    job = make_job("linear:3")
    assert mean_rate_of(TraceSettings(load=0.7), job) == pytest.approx(1500)
    assert mean_rate_of(TraceSettings(mean_rate=12.0), job) == 12
    assert mean_rate_of(TraceSettings(), job) == job.usual_rate


def test_a_file_keeps_its_rates_unless_told_otherwise(tmp_path: Path) -> None:
    """Days of 1 to 14 records/s, 7.5 on average; the job is made for another number."""
    path = tmp_path / "numbered.trace"
    save_trace(numbered_days(14), path)
    kept = TraceSettings(name=str(path), days=14)
    assert draw_trace(kept, JOB, seed=0).rates.tolist() == numbered_days(14).rates.tolist()
    assert mean_rate_of(kept, JOB) == 7.5 != JOB.usual_rate
    scaled = kept.model_copy(update={"mean_rate": 75.0})
    assert draw_trace(scaled, JOB, seed=0).rates[0] == pytest.approx(10)
    job = make_job("linear:3")
    loaded = TraceSettings(name=str(path), load=0.7)
    assert mean_rate_of(loaded, job) == pytest.approx(1500)


def test_a_file_plays_what_it_brings(tmp_path: Path) -> None:
    """linear:3 has 4 ms of work in its last vertex: at 7,000 records/s 40 subtasks are 70 % busy."""
    job, starts = make_job("linear:3"), []
    for rate in (700.0, 7000.0):
        path = tmp_path / f"{rate:g}.trace"
        save_trace(RateTrace(np.full(1440, rate), 60.0, Provenance("flat")), path)
        trace = draw_trace(TraceSettings(name=str(path)), job, seed=0)
        simulator = StreamSimulator([job], [trace], Deployment(arrivals="smooth"), seeds=[0])
        starts.append(simulator.snapshot().parallelism[0].tolist())
    assert starts == [[1, 2, 4], [10, 20, 40]]


def test_rates_may_vary_for_training() -> None:
    settings = TraceSettings(name="flat", mean_rate=100.0, rate_spread=0.3)
    rates = [draw_trace(settings, JOB, seed=seed).rates[0] for seed in range(50)]
    assert 70 <= min(rates) < 80
    assert 120 < max(rates) <= 130


def test_variants_are_days() -> None:
    assert find_trace("stream/sine:28").days == 28
    with pytest.raises(WorkloadError, match="number of days, such as sine:28"):
        find_trace("sine:x")


def test_mixed_is_another_kind_for_every_seed() -> None:
    """Of six kinds three are clarknet-like: of 300 seeds about half, and a sixth of each other."""
    kinds = Counter(find_trace("mixed", seed=seed).provenance.source for seed in range(300))
    assert 125 < kinds["clarknet-like"] < 175
    others = ("worldcup-like", "twitter-like", "steps")
    assert set(kinds) == {"clarknet-like", *others} and all(30 < kinds[name] < 70 for name in others)
    same, plain = find_trace("mixed:28", seed=7), find_trace("clarknet-like:28", seed=7)
    assert same.provenance.source == "clarknet-like" and (same.rates == plain.rates).all()
    with pytest.raises(WorkloadError, match="number of days, such as mixed:28"):
        find_trace("mixed:x")


def test_unknown_names_and_files() -> None:
    with pytest.raises(RegistryError, match=r"did you mean 'stream/clarknet-like'.*path of a .trace file"):
        find_trace("clarknet-lik")
    with pytest.raises(WorkloadError, match="no such file"):
        find_trace("missing.trace")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"mean_rate": 3.0, "load": 0.5}, "give one of the two"),
        ({"mean_rate": 0}, "mean_rate = 0"),
        ({"load": float("nan")}, "load = NaN"),
        ({"days": 0}, "days = 0"),
        ({"part": "tests"}, "part"),
        ({"rate_spread": 1.0}, "rate_spread"),
        ({"rate": 3}, "did you mean 'mean_rate'?"),
    ],
)
def test_bad_settings_name_the_field(flags: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(TraceSettings, None, flags)
    assert said in str(caught.value)
