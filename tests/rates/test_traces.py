"""Rate traces: what they refuse, and how close the generated ones are to those they are fitted to."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trimtab.core.errors import WorkloadError
from trimtab.rates import generated
from trimtab.rates.traces import Provenance, RateTrace, load_trace, save_trace

GENERATORS = [getattr(generated, name) for name in generated.__all__]
TOY = RateTrace(np.array([1.0, 3.0, 2.0, 2.0]), 60.0, Provenance("toy", {"made": "here"}), start_s=120.0)


def statistics(counts: np.ndarray) -> dict[str, float]:
    """Of counts per minute."""
    hours = counts.reshape(-1, 60).mean(1)
    p5, p50, p95 = np.percentile(counts, [5, 50, 95])
    return {
        "mean": counts.mean(),
        "p5": p5,
        "p50": p50,
        "p95": p95,
        "max": counts.max(),
        "quietest hour": hours.min(),
        "busiest hour": hours.max(),
        "same minute of the next day": lagged(counts, 1440),
        "next minute": lagged(counts, 1),
    }


def lagged(values: np.ndarray, steps: int) -> float:
    return float(np.corrcoef(values[:-steps], values[steps:])[0, 1])


def mean_statistics(make: Callable[[int], dict[str, float]], seeds: range) -> dict[str, float]:
    found = [make(seed) for seed in seeds]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def relative(rates: np.ndarray) -> dict[str, float]:
    rates = rates / rates.mean()
    p5, p50, p95 = np.percentile(rates, [5, 50, 95])
    return {"p5": p5, "p50": p50, "p95": p95, "max": rates.max()}


CLARKNET = {
    "mean": 166,
    "p5": 56,
    "p50": 157,
    "p95": 306,
    "max": 472,
    "quietest hour": 50,
    "busiest hour": 305,
    "same minute of the next day": 0.61,
    "next minute": 0.815,
}


def test_clarknet_like_has_the_published_statistics() -> None:
    found = mean_statistics(lambda seed: statistics(60 * generated.clarknet_like(seed).rates), range(10))
    for name, published in CLARKNET.items():
        assert found[name] == pytest.approx(published, rel=0.1), name


@pytest.mark.parametrize("seed", range(4))
def test_every_single_fortnight_is_near_them(seed: int) -> None:
    found = statistics(60 * generated.clarknet_like(seed, first_weekday=0).rates)
    for name, published in CLARKNET.items():
        extreme = name in ("max", "quietest hour", "busiest hour")
        assert found[name] == pytest.approx(published, rel=0.2 if extreme else 0.1), name


def test_clarknet_like_against_the_real_trace(shared_data: Path) -> None:
    """Beyond the published numbers: hours of working days and weekends, and the noise of a minute."""
    table = pl.read_csv(shared_data / "clarknet" / "clarknet_per_minute.csv.gz")
    real = table["requests"].to_numpy().astype(float)
    for name, published in statistics(real).items():
        assert published == pytest.approx(CLARKNET[name], rel=0.02), name
    drawn = np.mean([60 * generated.clarknet_like(seed, first_weekday=0).rates for seed in range(20)], 0)

    def by_hour(counts: np.ndarray, days: list[int]) -> np.ndarray:
        return counts.reshape(14, 24, 60).mean(2)[days].mean(0)

    # Day 7 was a holiday.
    for days in ([0, 1, 2, 3, 4, 8, 9, 10, 11], [5, 6, 12, 13]):
        assert by_hour(drawn, days) == pytest.approx(by_hour(real, days), abs=0.07 * 166)

    def dispersion(counts: np.ndarray) -> float:
        smooth = np.convolve(counts, np.ones(61) / 61, "same")
        return float(((counts - smooth) ** 2 / smooth)[60:-60].mean())

    assert dispersion(60 * generated.clarknet_like(0).rates) == pytest.approx(dispersion(real), rel=0.1)


# Of the 28 days with matches, and of three weeks of messages without the holes of the recording.
WORLDCUP = {"p5": 0.31, "p50": 0.65, "p95": 3.32, "max": 8.84}
TWITTER = {"p5": 0.64, "p50": 0.80, "p95": 2.74, "max": 4.89}


def test_worldcup_like_has_the_statistics_of_the_matches() -> None:
    found = mean_statistics(lambda seed: relative(generated.worldcup_like(seed, 28).rates), range(10))
    for name, real in WORLDCUP.items():
        assert found[name] == pytest.approx(real, rel=0.15), name


def test_twitter_like_has_the_statistics_of_the_stream() -> None:
    found = mean_statistics(lambda seed: relative(generated.twitter_like(seed).rates), range(5))
    for name, real in TWITTER.items():
        assert found[name] == pytest.approx(real, rel=0.1), name


def test_the_other_two_against_the_real_traces(shared_data: Path) -> None:
    table = pl.read_csv(shared_data / "worldcup98" / "worldcup98_per_minute.csv.gz")
    minutes = table["requests"].to_numpy().astype(float)
    first_midnight = 150
    matches = minutes[first_midnight + 40 * 1440 : first_midnight + 68 * 1440]
    for name, value in relative(matches).items():
        assert value == pytest.approx(WORLDCUP[name], rel=0.02), name
    table = pl.read_csv(shared_data / "twitter2021" / "twitter_per_10s.csv.gz")
    tens = table["requests"].to_numpy().astype(float)
    for name, value in relative(tens[tens > 0]).items():
        assert value == pytest.approx(TWITTER[name], rel=0.02), name


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_longer_trace_begins_like_a_shorter_one(generator: Callable[..., RateTrace]) -> None:
    short, long = generator(seed=3, days=2), generator(seed=3, days=5)
    assert np.allclose(long.rates[: len(short.rates)], short.rates, rtol=1e-12)
    assert (long.days, long.start_s, long.length_s) == (5, 0, 5 * 86_400)
    assert long.provenance.settings == {"seed": 3, "days": 5}


@pytest.mark.parametrize("generator", GENERATORS)
def test_seeds_are_other_weeks_of_the_same_world(generator: Callable[..., RateTrace]) -> None:
    first, again, other = (generator(seed=seed, days=7).rates for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    unlike = generator not in (generated.flat, generated.sine)
    assert np.array_equal(first, other) != unlike
    assert other.mean() == pytest.approx(first.mean(), rel=0.35)


def test_steps_and_sine() -> None:
    rates = generated.steps(seed=5, days=14).rates
    assert 40 <= rates.min() < rates.max() <= 240
    lasted = np.diff(np.flatnonzero(np.diff(rates)))
    assert 60 <= lasted.min() < lasted.max() <= 240
    sine = generated.sine(days=1).rates
    assert (sine.argmax() / 60, sine.argmin() / 60) == (15, 3)
    assert (sine.max(), sine.min()) == (pytest.approx(160), pytest.approx(40))


@pytest.mark.parametrize("days", [0, 367])
def test_days_of_a_generated_trace(days: int) -> None:
    with pytest.raises(WorkloadError, match="ask for 1 to 366"):
        generated.clarknet_like(0, days)


@pytest.mark.parametrize(
    ("rates", "step_s", "said"),
    [
        ([], 60.0, "no rates"),
        ([[1.0]], 60.0, "one row of numbers"),
        ([1.0, float("nan")], 60.0, "rate nan at step 1; fill or cut"),
        ([-1.0], 60.0, "rate -1.0 at step 0"),
        ([0.0, 0.0], 60.0, "every rate is 0"),
        ([1.0], 0.0, "longer than 0"),
        ([1.0], float("inf"), "longer than 0"),
    ],
)
def test_broken_traces_are_refused(rates: list, step_s: float, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        RateTrace(np.array(rates, float), step_s, Provenance("toy"))


def test_a_trace_begins_after_midnight_of_the_first_day() -> None:
    with pytest.raises(WorkloadError, match="count from midnight"):
        RateTrace(np.ones(2), 60.0, Provenance("toy"), start_s=-1.0)


def test_scaling_keeps_the_shape() -> None:
    scaled = TOY.scaled(10.0)
    assert scaled.rates.tolist() == [5, 15, 10, 10]
    assert scaled.provenance.settings == {"made": "here", "mean_rate": 10.0}
    for mean in (0.0, float("nan")):
        with pytest.raises(WorkloadError, match="toy: a mean of"):
            TOY.scaled(mean)


def test_a_span_of_time() -> None:
    part = TOY.between(180, 300)
    assert (part.rates.tolist(), part.start_s, part.length_s) == ([3, 2], 180, 120)
    with pytest.raises(WorkloadError, match="nothing between 400 s and 500 s; it covers 120 s to 360 s"):
        TOY.between(400, 500)
    silent = RateTrace(np.array([0.0, 0.0, 3.0]), 60.0, Provenance("night")).between(0, 120)
    assert (silent.rates.tolist(), silent.start_s) == ([0, 0], 0)
    with pytest.raises(WorkloadError, match="night: nothing arrives in this part; scale the whole trace"):
        silent.scaled(5.0)
    two = generated.sine(days=5).day(2, 2)
    assert (two.start_s, two.length_s, two.rates.argmax()) == (2 * 86_400, 2 * 86_400, 15 * 60)


def test_a_trace_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "my.trace"
    save_trace(TOY, path)
    back = load_trace(path)
    assert back.rates.tolist() == TOY.rates.tolist()
    assert (back.step_s, back.start_s, back.provenance) == (TOY.step_s, TOY.start_s, TOY.provenance)
    assert [one.name for one in tmp_path.iterdir()] == ["my.trace"]


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    path = tmp_path / "my.trace"
    with pytest.raises(WorkloadError, match="no such file; `trimtab import`"):
        load_trace(path)
    for content in (b"", b"hello", b"PK\x03\x04 torn"):
        path.write_bytes(content)
        with pytest.raises(WorkloadError, match="not a trace file"):
            load_trace(path)
    good = {"format": "trimtab-trace", "version": 1, "step_s": 1, "start_s": 0}
    good["provenance"] = {"source": "toy"}
    for header, said in (
        ({**good, "format": "trimtab-workload"}, "holds a workload, where a trace is wanted"),
        ([], "not a trace file"),
        ({**good, "version": 7}, "version 7, expected"),
        ({**good, "step_s": None}, "wrong fields"),
        ({**good, "provenance": {"origin": "x"}}, "wrong fields"),
    ):
        with path.open("wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), rates=np.ones(3))
        with pytest.raises(WorkloadError, match=said):
            load_trace(path)


def test_files_of_the_former_format_are_read(tmp_path: Path) -> None:
    path = tmp_path / "old.trace"
    header = {"format": "trimtab-stream-trace", "version": 1, "step_s": 60, "start_s": 0}
    with path.open("wb") as file:
        text = json.dumps({**header, "provenance": {"source": "toy"}})
        np.savez(file, header=np.array(text), rates=np.ones(3))
    assert load_trace(path).length_s == 180
