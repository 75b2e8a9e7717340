"""Made-up rates: mean 1, any span alone, and the statistics of the traces that they are fitted to."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trimtab.core.errors import WorkloadError
from trimtab.pod_autoscaling.workload import generated
from trimtab.rates import generated as whole

SHAPES = [getattr(generated, name) for name in generated.__all__]
HOUR = 3600

# Of Autothrottle's hour-long traces, relative to their means. The diurnal ones are two ends of a range.
DIURNAL = ({"p5": 0.705, "p95": 1.360, "cv": 0.236}, {"p5": 0.455, "p95": 1.660, "cv": 0.424})
NOISY = {"p5": 0.705, "p50": 0.991, "p95": 1.308, "max": 1.556, "cv": 0.190, "jump": 0.055}
BURSTY = {"p5": 0.551, "p50": 0.802, "p95": 2.272, "max": 2.431, "cv": 0.513, "after 5 min": 0.506}
# Coefficients of variation of Azure's functions, per minute.
AZURE = {25: 0.038, 50: 0.259, 75: 0.721}


def statistics(rates: np.ndarray) -> dict[str, float]:
    rates = rates / rates.mean()
    p5, p50, p95 = np.percentile(rates, [5, 50, 95])
    lagged = np.corrcoef(rates[:-300], rates[300:])[0, 1]
    jump = np.abs(np.diff(rates)).mean()
    return {
        "p5": p5, "p50": p50, "p95": p95, "max": rates.max(), "cv": rates.std(),
        "jump": jump, "after 5 min": lagged,
    }  # fmt: skip


def mean_statistics(shape: Callable[..., np.ndarray], seeds: range) -> dict[str, float]:
    """Of one hour of each world, an hour of another day each."""
    found = [statistics(shape(seed, HOUR * 7 * seed, HOUR)) for seed in seeds]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_is_1_in_the_long_run(shape: Callable[..., np.ndarray]) -> None:
    days = [shape(seed, 0, 3 * 86_400) for seed in range(6)]
    assert np.mean([one.mean() for one in days]) == pytest.approx(1, abs=0.03)
    assert min(one.min() for one in days) > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_any_span_can_be_made_alone(shape: Callable[..., np.ndarray]) -> None:
    long = shape(3, 0, 5 * HOUR)
    for first, count in ((0, 1), (59, 2), (1799, 3600), (HOUR, HOUR), (4 * HOUR - 1, 601)):
        alone = shape(3, first, count)
        assert len(alone) == count
        assert np.allclose(alone, long[first : first + count], rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_seeds_are_other_worlds(shape: Callable[..., np.ndarray]) -> None:
    first, again, other = (shape(seed, 0, HOUR) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (shape is generated.constant)


def test_diurnal_lies_between_the_two_real_ones() -> None:
    found = [statistics(generated.diurnal(seed, 0, HOUR)) for seed in range(60)]
    calm, wild = DIURNAL
    for name in calm:
        low, high = sorted((calm[name], wild[name]))
        values = [one[name] for one in found]
        assert 0.9 * low < min(values) < 1.2 * low, name
        assert 0.8 * high < max(values) < 1.15 * high, name
    tops = [int(generated.diurnal(seed, 0, HOUR).argmax()) / 60 for seed in range(60)]
    assert np.mean(tops) == pytest.approx(29.5, abs=2)  # the real ones have theirs after 26 and 33 minutes


@pytest.mark.parametrize(("shape", "real"), [(generated.noisy, NOISY), (generated.bursty, BURSTY)])
def test_autothrottle_s_statistics(shape: Callable[..., np.ndarray], real: dict[str, float]) -> None:
    found = mean_statistics(shape, range(60))
    for name, value in real.items():
        assert found[name] == pytest.approx(value, rel=0.15), name


def test_the_numbers_are_those_of_the_real_traces(shared_data: Path) -> None:
    for name, numbers in (
        ("diurnal", DIURNAL[0]),
        ("diurnal-2", DIURNAL[1]),
        ("noisy", NOISY),
        ("bursty", BURSTY),
    ):
        with gzip.open(shared_data / "autothrottle-rps" / f"{name}.txt.gz", "rt") as file:
            real = statistics(np.array([float(line) for line in file]))
        for what, value in numbers.items():
            assert real[what] == pytest.approx(value, abs=0.002), (name, what)


def test_azure_like_has_the_quartiles_of_variation() -> None:
    minutes = np.array([generated.azure_like(seed, 0, 480 * 60)[::60] for seed in range(400)])
    variation = minutes.std(1) / minutes.mean(1)
    for quartile, real in AZURE.items():
        assert np.percentile(variation, quartile) == pytest.approx(real, rel=0.3), quartile
    # Of the 91 real ones, the medians of the 5th and 95th percentiles and of the largest minute.
    relative = minutes / minutes.mean(1, keepdims=True)
    assert np.median(np.percentile(relative, 5, axis=1)) == pytest.approx(0.69, abs=0.15)
    assert np.median(np.percentile(relative, 95, axis=1)) == pytest.approx(1.26, abs=0.2)
    assert np.median(relative.max(1)) == pytest.approx(1.98, abs=0.4)


def test_the_quartiles_are_azure_s(shared_data: Path) -> None:
    table = pl.read_csv(shared_data / "azure-functions-sample" / "azure2019_500_invocations.csv.gz")
    counts = table.select(name for name in table.columns if name.isdigit()).to_numpy().astype(float)
    busy = counts[counts.mean(1) >= 1]
    assert len(busy) == 91
    variation = busy.std(1) / busy.mean(1)
    for quartile, value in AZURE.items():
        assert np.percentile(variation, quartile) == pytest.approx(value, abs=0.001)


def test_azure_like_changes_by_the_minute_only() -> None:
    rates = generated.azure_like(7, 90, HOUR)
    changes = np.flatnonzero(np.diff(rates)) + 1 + 90
    assert changes.size
    assert (changes % 60 == 0).all()


def test_flash_crowds_are_sudden_and_like_twitter_s() -> None:
    """Percentiles 5, 50 and 95 of Twitter's stream are at 0.64, 0.80 and 2.7; here rushes come more often."""
    days = np.array([generated.flash_crowd(seed, 0, 7 * 86_400) for seed in range(3)])
    p5, p50, p95 = np.percentile(days, [5, 50, 95])
    assert (p5, p50, p95) == (
        pytest.approx(0.62, abs=0.05),
        pytest.approx(0.71, abs=0.05),
        pytest.approx(3.1, abs=0.2),
    )
    grown = np.array([one[45:] / one[:-45] for one in days])
    assert grown.max() > 4  # within 45 s
    hours = days.reshape(-1, HOUR).max(1)
    assert np.mean(hours > 2) == pytest.approx(0.8, abs=0.1)
    twitter = whole.twitter_like(0).rates
    assert np.percentile(twitter / twitter.mean(), 95) == pytest.approx(2.7, abs=0.2)


def test_steps_last_and_differ_as_promised() -> None:
    rates = generated.steps(5, 0, 86_400)
    assert rates.max() / rates.min() <= 4
    lasted = np.diff(np.flatnonzero(np.diff(rates)))
    assert 300 <= lasted.min() < lasted.max() <= 1500


def test_a_day_may_take_a_day() -> None:
    day = generated.diurnal(1, 0, 86_400, cycle_s=86_400)
    assert day.argmax() / HOUR == pytest.approx(12, abs=2.5)
    with pytest.raises(WorkloadError, match="waves of 5 s; give 60 s to 366 days"):
        generated.diurnal(1, 0, 60, cycle_s=5)
