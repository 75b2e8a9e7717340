import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core import statistics
from trimtab.core.errors import TrimtabError
from trimtab.core.randomness import split
from trimtab.core.statistics import (
    Estimate,
    bootstrap,
    iqm,
    iqm_interval,
    mean_interval,
    paired_difference,
    paired_ratio,
    probability_of_improvement,
)

SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], 7),
        ([1, 3], 2),
        ([0, 1, 5], (0.25 * 0 + 1 + 0.25 * 5) / 1.5),  # 0.75 of a value goes at each end
        ([9, 1, 2, 5], 3.5),
        ([0, 1, 2, 3, 100], (0.75 * 1 + 2 + 0.75 * 3) / 2.5),
        ([0, 1, 2, 3, 4, 100], (0.5 * 1 + 2 + 3 + 0.5 * 4) / 3),
        ([-100, 0, 1, 2, 3, 4, 5, 100], 2.5),
    ],
)
def test_iqm_by_hand(values: list[float], expected: float) -> None:
    assert float(iqm(values)) == pytest.approx(expected)


def test_iqm_reduces_the_last_axis() -> None:
    assert iqm([[9, 1, 2, 5], [0, 0, 0, 40]]).tolist() == [3.5, 0]


@given(SAMPLES, st.floats(-100, 100), st.floats(0.01, 100))
def test_iqm_moves_and_scales_with_its_values(values: list[float], shift: float, scale: float) -> None:
    moved = float(iqm(np.array(values) * scale + shift))
    assert moved == pytest.approx(float(iqm(values)) * scale + shift, rel=1e-9, abs=1e-3)


@given(SAMPLES)
def test_estimates_lie_in_their_interval_and_intervals_in_the_range(values: list[float]) -> None:
    for interval in (mean_interval, iqm_interval):
        estimate = interval(values, seed=1, draws=200)
        slack = 1e-9 * (1 + max(map(abs, values)))
        assert min(values) - slack <= estimate.low <= estimate.high <= max(values) + slack


def test_intervals_are_the_same_for_the_same_seed_only() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1)
    assert mean_interval(values, seed=1, draws=99) != mean_interval(values, seed=2, draws=99)


def test_the_bootstrap_is_the_exhaustive_one_in_the_limit() -> None:
    # All 3**3 resamples of three values, each equally likely.
    values = [0.0, 3.0, 9.0]
    resamples = np.array(list(itertools.product(values, repeat=3)))
    drawn = []

    def remember(rows: np.ndarray) -> np.ndarray:
        drawn.append(rows.mean(axis=-1))
        return rows.mean(axis=-1)

    bootstrap(remember, values, seed=3, draws=40_000)
    means = np.concatenate(drawn)
    assert means.mean() == pytest.approx(resamples.mean(axis=1).mean(), abs=0.03)
    assert means.std() == pytest.approx(resamples.mean(axis=1).std(), abs=0.03)
    exact = (resamples.mean(axis=1) == 0).mean()  # 1/27
    assert (means == 0).mean() == pytest.approx(exact, abs=0.005)


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values, other = [1.0, 2.0, 4.0, 8.0], [3.0, 1.0, 9.0]
    whole = mean_interval(values, seed=1, draws=100)
    beats = probability_of_improvement(values, other, seed=1, lower_is_better=True, paired=False, draws=100)
    monkeypatch.setattr(statistics, "_BLOCK_VALUES", 28)
    assert mean_interval(values, seed=1, draws=100) == whole
    assert beats == probability_of_improvement(
        values, other, seed=1, lower_is_better=True, paired=False, draws=100
    )


@pytest.mark.parametrize(
    ("freedom", "confidence", "expected"),
    # From printed tables of Student's t, two-sided.
    [(1, 0.95, 12.706), (4, 0.95, 2.776), (9, 0.95, 2.262), (9, 0.99, 3.250), (30, 0.9, 1.697),
     (1000, 0.95, 1.962), (20_000, 0.95, 1.960)],
)  # fmt: skip
def test_student_quantiles(freedom: int, confidence: float, expected: float) -> None:
    assert statistics._student_quantile(freedom, confidence) == pytest.approx(expected, abs=6e-4)


def test_percentiles_are_widened_for_few_rows() -> None:
    # 2.262 * sqrt(10 / 9) = 2.384 normal deviations; beyond lie 0.86 %.
    assert statistics._widened_tail(10, 1, 0.95) == pytest.approx(0.0086, abs=1e-4)
    assert statistics._widened_tail(100_000, 1, 0.95) == pytest.approx(0.025, abs=1e-4)


@pytest.mark.parametrize("count", [8, 30])
def test_intervals_cover_normal_data_as_often_as_the_exact_ones(count: int) -> None:
    # Student's interval is exact here, so comparing on the same samples takes out their luck
    # (in the first 400 it covers 92.5 % itself). Over 4000 samples of 8: 94.8 % and 93.7 %.
    samples = np.random.default_rng(7).normal(3.0, 2.0, size=(1000, count))
    reach = statistics._student_quantile(count - 1, 0.95) / np.sqrt(count)
    exact = abs(samples.mean(axis=1) - 3.0) <= reach * samples.std(axis=1, ddof=1)
    ours = [not mean_interval(row, seed=at, draws=1000).excludes(3.0) for at, row in enumerate(samples)]
    assert exact.mean() == pytest.approx(0.95, abs=0.03)
    assert np.mean(ours) == pytest.approx(exact.mean(), abs=0.02)


def test_interval_of_a_large_normal_sample_is_the_textbook_one() -> None:
    sample = np.random.default_rng(1).normal(0.0, 1.0, size=2000)
    estimate = mean_interval(sample, seed=5)
    half = 1.96 * sample.std() / np.sqrt(2000)
    assert estimate.value == pytest.approx(sample.mean())
    assert estimate.low == pytest.approx(sample.mean() - half, abs=0.1 * half)
    assert estimate.high == pytest.approx(sample.mean() + half, abs=0.1 * half)


def test_strata_take_their_difference_out_of_the_interval() -> None:
    values = [1.0, 1.0, 1.0, 101.0, 101.0, 101.0]
    labels = ["small", "small", "small", "large", "large", "large"]
    assert mean_interval(values, seed=1, strata=labels) == Estimate(51.0, 51.0, 51.0)
    shuffled = mean_interval(values[::2] + values[1::2], seed=1, strata=labels[::2] + labels[1::2])
    assert shuffled == Estimate(51.0, 51.0, 51.0)
    assert mean_interval(values, seed=1).low < 30


def test_each_stratum_keeps_its_count() -> None:
    labels = np.array([1, 0, 1, 1, 0])
    picks = np.concatenate(list(statistics._resampled_rows(labels, seed=1, draws=500)))
    assert (np.sort(labels[picks], axis=1) == [0, 0, 1, 1, 1]).all()
    # Every row of a stratum turns up equally often: 500 * 2 / 2 and 500 * 3 / 3.
    assert abs(np.bincount(picks.ravel()) - 500).max() < 100


def test_pairing_cancels_what_both_sides_share() -> None:
    workload = np.random.default_rng(2).normal(1000, 300, size=20)
    ours, theirs = 0.9 * workload, workload
    ratio = paired_ratio(ours, theirs, seed=1)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.9, 0.9, 0.9))
    difference = paired_difference(workload - 5, workload, seed=1)
    assert (difference.value, difference.low, difference.high) == pytest.approx((-5, -5, -5))


def test_ratio_is_of_means_not_mean_of_ratios() -> None:
    assert paired_ratio([1.0, 30.0], [2.0, 10.0], seed=1).value == pytest.approx(31 / 12)


def test_paired_strata_are_kept() -> None:
    a, b = [1.0, 1.0, 40.0, 40.0], [2.0, 2.0, 20.0, 20.0]
    labels = [0, 0, 1, 1]
    assert paired_ratio(a, b, seed=1, strata=labels) == Estimate(82 / 44, 82 / 44, 82 / 44)
    assert paired_difference(a, b, seed=1, strata=labels) == Estimate(9.5, 9.5, 9.5)


def test_paired_probability_by_hand() -> None:
    ours, theirs = [1, 5, 3, 4], [2, 4, 3, 9]  # win, loss, tie, win
    lower = probability_of_improvement(ours, theirs, seed=1, lower_is_better=True)
    higher = probability_of_improvement(ours, theirs, seed=1, lower_is_better=False)
    assert (lower.value, higher.value) == (0.625, 0.375)
    assert (lower.low, lower.high) == (pytest.approx(0, abs=0.2), pytest.approx(1, abs=0.1))


def test_unpaired_probability_by_hand() -> None:
    # 1 beats all three; 4 beats 9 and ties 4: (3 + 1.5) of 6.
    estimate = probability_of_improvement([1, 4], [9, 4, 2], seed=1, lower_is_better=True, paired=False)
    assert estimate.value == pytest.approx(4.5 / 6)
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1


def test_unpaired_draws_resample_both_sides() -> None:
    wins = np.random.default_rng(3).integers(0, 2, size=(4, 6)).astype(float)
    drawn = statistics._unpaired_means(wins, seed=9, draws=20_000)
    rng = np.random.default_rng(4)
    slow = [wins[rng.integers(0, 4, 4)][:, rng.integers(0, 6, 6)].mean() for _ in range(4_000)]
    assert drawn.mean() == pytest.approx(wins.mean(), abs=0.01)
    assert drawn.std() == pytest.approx(np.std(slow), rel=0.06)


@pytest.mark.parametrize(("left", "right", "expected"), [([1, 1], [2, 2, 2], 1.0), ([5, 5], [2, 2], 0.0)])
def test_certain_wins_have_no_interval(left: list[float], right: list[float], expected: float) -> None:
    estimate = probability_of_improvement(left, right, seed=1, lower_is_better=True, paired=False)
    assert (estimate.low, estimate.high) == pytest.approx((expected, expected))


def test_an_estimate_says_what_it_excludes() -> None:
    estimate = Estimate(0.81234567, 0.7, 0.95)
    assert str(estimate) == "0.8123 [0.7, 0.95]"
    assert estimate.excludes(1.0)
    assert estimate.excludes(0.5)
    assert not estimate.excludes(0.95)


def test_different_seeds_are_split_from_the_callers() -> None:
    assert split(1, "bootstrap", "a") != split(1, "bootstrap", "b")


def test_bad_input_is_refused_with_the_way_out() -> None:
    with pytest.raises(TrimtabError, match=r"column 1 has shape \(1,\); an interval needs"):
        mean_interval([1.0], seed=1)
    with pytest.raises(TrimtabError, match=r"shape \(1, 2\)"):
        iqm_interval([[1.0, 2.0]], seed=1)
    with pytest.raises(TrimtabError, match="holds nan at position 1; every episode must finish"):
        mean_interval([1.0, float("nan")], seed=1)
    with pytest.raises(TrimtabError, match="a has 2 values and b has 3"):
        paired_ratio([1, 2], [1, 2, 3], seed=1)
    with pytest.raises(TrimtabError, match="must be above 0; found 0; use paired_difference"):
        paired_ratio([1, 2], [0, 2], seed=1)
    with pytest.raises(TrimtabError, match=r"strata has shape \(1,\); give one label for each"):
        mean_interval([1, 2], seed=1, strata=["a"])
    with pytest.raises(TrimtabError, match="stratum b has 1 value"):
        mean_interval([1, 2, 3], seed=1, strata=["a", "a", "b"])
    with pytest.raises(TrimtabError, match="strata need paired runs"):
        probability_of_improvement([1, 2], [1, 2], seed=1, lower_is_better=True, paired=False, strata=[0, 0])
