import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.randomness import (
    exponential,
    finalize,
    hash_counters,
    integers,
    split,
    uniform,
)

SEEDS = st.integers(min_value=-(2**70), max_value=2**70)
COUNTERS = st.lists(st.integers(min_value=-(2**63), max_value=2**63 - 1), max_size=4)


def formula(seed: int, *counters: int) -> int:
    """The documented formula in plain integers, written a second time on purpose."""

    def scramble(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    h = scramble((seed * golden + 1) % 2**64)
    for c in counters:
        h = scramble(h ^ ((c * golden + 0x632BE59BD9B4E019) % 2**64))
    return h


def test_finalize_is_the_one_of_splitmix64() -> None:
    # The first three outputs of splitmix64 from state 0, as published with the generator.
    states = np.array([1, 2, 3], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert finalize(states).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@given(SEEDS, COUNTERS)
def test_hash_is_the_documented_formula(seed: int, counters: list[int]) -> None:
    assert int(hash_counters(seed, *counters)) == formula(seed, *counters)


def test_hash_never_changes() -> None:
    # Computed with `formula`, fixed here: a change moves every simulated number there is.
    assert int(hash_counters(0)) == 0x5692161D100B05E5
    assert int(hash_counters(42, 7, 3)) == formula(42, 7, 3) == 0xD06E17FAA75E4B96


def test_arrays_broadcast_and_agree_with_single_numbers() -> None:
    table = hash_counters(5, np.arange(3)[:, None], np.arange(4, dtype=np.int32)[None, :])
    assert table.shape == (3, 4)
    assert int(table[2, 1]) == formula(5, 2, 1)


def test_unsigned_and_boolean_counters_count() -> None:
    assert int(hash_counters(1, np.uint64(2**64 - 1))) == int(hash_counters(1, -1))
    assert int(hash_counters(1, np.array([True]))[0]) == formula(1, 1)
    assert hash_counters(1, []).shape == (0,)


def test_counters_that_are_not_whole_are_refused() -> None:
    with pytest.raises(TypeError, match="counters must be integers, not float64"):
        hash_counters(1, [0.5])


def test_seed_and_order_of_counters_matter() -> None:
    hashes = {formula(1, 2, 3), formula(1, 3, 2), formula(2, 1, 3), formula(1, 2), formula(1, 2, 0)}
    assert len(hashes) == 5


def test_no_two_of_a_million_ids_share_a_hash() -> None:
    table = hash_counters(0, np.arange(1000)[:, None], np.arange(1000)[None, :])
    assert len(np.unique(table)) == 1_000_000


def test_uniform_is_flat_and_unrelated_between_neighbours() -> None:
    draws = uniform(3, np.arange(100_000))
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    # 19 degrees of freedom: 43.8 is passed once in a thousand.
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.01
    assert abs(np.corrcoef(draws, uniform(4, np.arange(100_000)))[0, 1]) < 0.01


def test_uniform_is_the_top_53_bits() -> None:
    assert float(uniform(9, 1)) == (formula(9, 1) >> 11) / 2**53


def test_exponential_has_its_mean_and_spread() -> None:
    draws = exponential(1, np.arange(100_000), mean=20.0)
    assert draws.min() >= 0
    assert np.isfinite(draws).all()
    assert draws.mean() == pytest.approx(20, rel=0.02)
    assert draws.std() == pytest.approx(20, rel=0.03)


def test_integers_fill_their_range_evenly() -> None:
    draws = integers(1, np.arange(60_000), low=-2, high=4)
    values, counts = np.unique(draws, return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1, 2, 3]
    assert abs(counts - 10_000).max() < 400


@pytest.mark.parametrize(("low", "high"), [(0, 0), (3, 2), (0, 2**53 + 1)])
def test_an_empty_or_too_wide_range_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="integers needs low < high"):
        integers(1, 0, low=low, high=high)


def test_split_names_parts() -> None:
    parts = [split(1), split(1, "a"), split(1, "b"), split(1, "a", "b"), split(1, "ab")]
    parts += [split(1, 7), split(1, "7"), split(2, "a"), split(1, ""), split(1, "a\0")]
    assert len(set(parts)) == len(parts)
    assert split(1) == 1
    assert split(1, "a", 2) == split(split(1, "a"), 2)


def test_split_of_a_number_is_its_hash() -> None:
    assert split(5, 3) == formula(5, 3)


@given(SEEDS, st.text(max_size=20))
def test_split_gives_a_64_bit_seed(seed: int, name: str) -> None:
    assert 0 <= split(seed, name) < 2**64
