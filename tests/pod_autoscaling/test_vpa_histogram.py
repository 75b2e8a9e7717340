"""The decaying histogram of Kubernetes' VPA: buckets, decay, merge, checkpoints."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from benchmarks.pod_exact import decayed, merged
from benchmarks.pod_exact_vpa_vectors import (
    CPU_CONSTANT,
    CPU_STARTS,
    DAY_S,
    DECAY,
    EARLY_END,
    LATE_END,
    MEMORY_CONSTANT,
)
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.errors import HistoryError, SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_histogram import (
    BucketScheme,
    DecayingHistogram,
    cpu_buckets,
    instant,
    memory_buckets,
    seconds_of_instant,
)


def of(*samples: tuple[float, float, float]) -> DecayingHistogram:
    """Samples of (cores, weight, seconds)."""
    histogram = DecayingHistogram(cpu_buckets())
    for cores, weight, at_s in samples:
        histogram.add(cores, weight=weight, at_s=at_s)
    return histogram


# --- buckets ---------------------------------------------------------------------------------------------


def test_both_schemes_have_176_buckets():
    # log(1 + 1000 * 0.05 / 0.01) / log(1.05) = 174.57, up to 175, and one more; the same for 1e12 / 1e7.
    assert cpu_buckets().count == memory_buckets().count == 176


@pytest.mark.parametrize(("bucket", "start"), CPU_STARTS)
def test_where_buckets_start(bucket, start):
    assert cpu_buckets().starts[bucket] == pytest.approx(start, rel=1e-9)
    assert memory_buckets().starts[bucket] == pytest.approx(1e9 * start, rel=1e-9)


@pytest.mark.parametrize("case", CPU_CONSTANT)
def test_buckets_of_cores(case):
    assert cpu_buckets().find(case.usage) == case.bucket


@pytest.mark.parametrize("case", MEMORY_CONSTANT)
def test_buckets_of_bytes(case):
    assert memory_buckets().find(case.usage) == case.bucket


def test_what_is_too_small_or_too_large_is_at_the_ends():
    scheme = cpu_buckets()
    assert [scheme.find(value) for value in (0.0, 0.00999, 0.0101, 1021.2, 1e9)] == [0, 0, 1, 175, 175]
    assert scheme.end(175) == scheme.end(174) == scheme.starts[175]  # the last has no end


@given(st.floats(0.0, 1000.0))
def test_a_value_is_in_its_bucket(cores):
    scheme = cpu_buckets()
    bucket = scheme.find(cores)
    assert scheme.starts[bucket] <= cores * (1 + 1e-12)
    assert cores <= scheme.end(bucket) * (1 + 1e-12)


# --- decay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", DECAY, ids=str)
def test_decay(vector):
    assert decayed(vector) == pytest.approx(EARLY_END if vector.early else LATE_END, rel=1e-9)


@pytest.mark.parametrize("vector", DECAY, ids=str)
def test_merge_is_as_if_it_had_been_one(vector):
    assert merged(vector) == pytest.approx(EARLY_END if vector.early else LATE_END, rel=1e-9)


def test_the_reference_is_the_first_sample_rounded_to_a_day():
    assert of((1.0, 1.0, 0.49 * DAY_S)).reference_s == 0.0
    assert of((1.0, 1.0, 0.5 * DAY_S)).reference_s == DAY_S  # halves up
    early = of((1.0, 0.1, 0.75 * DAY_S))
    assert early.total == pytest.approx(0.1 * 2**-0.25, rel=1e-12)


def test_a_half_life_that_is_no_part_of_a_day_is_counted_from_year_one():
    """62135596800 s since year 1 are 479441 1/3 times 36 h: the whole one nearest 1970 is 12 h before it."""
    histogram = DecayingHistogram(cpu_buckets(), half_life_s=36 * 3600.0)
    histogram.add(1.0, weight=1.0, at_s=0.0)
    assert histogram.reference_s == -12 * 3600.0


def test_the_reference_moves_after_a_hundred_half_lives():
    histogram = of((1.0, 1.0, 0.0), (4.0, 1.0, 100 * DAY_S))
    assert histogram.reference_s == 0.0 and histogram.total == 1 + 2.0**100
    histogram.add(4.0, weight=1.0, at_s=100 * DAY_S + 1)
    assert histogram.reference_s == 100 * DAY_S
    assert histogram.total == pytest.approx(2.0, rel=1e-4)
    assert histogram.low == histogram.high == cpu_buckets().find(4.0)


def test_shifting_changes_no_percentile():
    histogram = of(*((0.1 * (1 + number % 9), 0.1, 3600.0 * number) for number in range(200)))
    before = histogram.percentiles((0.1, 0.5, 0.9, 0.95))
    total = histogram.total
    histogram.shift(3 * DAY_S)
    assert histogram.percentiles((0.1, 0.5, 0.9, 0.95)) == before
    assert histogram.total == total / 8  # a power of two: exact


def test_weights_below_epsilon_do_not_count_as_content():
    histogram = of((1.0, 0.5e-4, 0.0))
    assert histogram.empty and histogram.percentile(0.9) == 0.0
    histogram.add(1.0, weight=0.6e-4, at_s=0.0)
    assert not histogram.empty and histogram.percentile(0.9) == pytest.approx(EARLY_END)


# --- subtraction and merge -------------------------------------------------------------------------------


def test_subtracting_gives_back_what_was():
    histogram = of((1.0, 1.0, 0.0), (4.0, 1.0, 0.0))
    histogram.subtract(4.0, weight=1.0, at_s=0.0)
    assert histogram.percentile(1.0) == pytest.approx(EARLY_END)
    assert (histogram.low, histogram.high, histogram.total) == (36, 36, 1.0)
    histogram.subtract(1.0, weight=1.0, at_s=0.0)
    assert histogram.empty and histogram.total == 0.0
    histogram.add(4.0, weight=1.0, at_s=0.0)
    assert (histogram.low, histogram.high) == (62, 62)


def test_more_than_there_is_cannot_be_taken():
    histogram = of((1.0, 1.0, 0.0), (4.0, 1.0, 0.0))
    histogram.subtract(1.0, weight=1.5, at_s=0.0)
    assert histogram.weights[36] == 0.0 and histogram.total == 0.5


def test_merging_takes_the_later_reference_and_leaves_the_other_alone():
    early, late = of((1.0, 1.0, 0.0)), of((4.0, 1.0, 3 * DAY_S))
    early.merge(late)
    assert early.reference_s == 3 * DAY_S and early.total == 1.125  # 1 / 8 + 1
    early, late = of((1.0, 1.0, 0.0)), of((4.0, 1.0, 3 * DAY_S))
    late.merge(early)
    assert late.total == 1.125 and early.reference_s == 0.0 and early.total == 1.0


def test_merging_with_nothing():
    full, nothing = of((1.0, 1.0, DAY_S)), DecayingHistogram(cpu_buckets())
    full.merge(nothing)
    assert full.total == 1.0
    nothing.merge(full)
    assert nothing.percentile(0.9) == pytest.approx(EARLY_END) and nothing.reference_s == DAY_S


samples = st.lists(
    st.tuples(st.floats(0.0, 50.0), st.floats(0.1, 3.0), st.floats(0.0, 20 * DAY_S)), min_size=1, max_size=40
)


@given(samples, samples)
def test_a_merge_holds_the_samples_of_both(first, second):
    together, other, both = of(*first), of(*second), of(*first, *second)
    together.merge(other)
    assert together.reference_s is not None
    both.shift(together.reference_s)
    assert together.total == pytest.approx(both.total, rel=1e-9)
    assert np.allclose(together.weights, both.weights, rtol=1e-9, atol=1e-4)


@given(samples, st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5))
def test_percentiles_rise_and_are_values_that_were_seen(seen, shares):
    histogram = of(*seen)
    found = histogram.percentiles(sorted(shares))
    assert found == sorted(found)
    ends = {cpu_buckets().end(cpu_buckets().find(cores)) for cores, _, _ in seen}
    assert histogram.empty or set(found) <= ends


# --- checkpoints -----------------------------------------------------------------------------------------


def test_a_checkpoint_makes_the_heaviest_bucket_ten_thousand():
    histogram = of((0.005, 1000.0, DAY_S), (1.0, 500.0, DAY_S), (4.0, 0.06, DAY_S), (9.0, 0.04, DAY_S))
    saved = histogram.save()
    # 0.06 / 1000 * 10000 = 0.6 is rounded to 1, 0.4 is lost; the total is kept as it was.
    assert saved == {
        "referenceTimestamp": "1970-01-02T00:00:00Z",
        "bucketWeights": {"0": 10000, "36": 5000, "62": 1},
        "totalWeight": pytest.approx(1500.1),
    }
    again = DecayingHistogram.load(json.loads(json.dumps(saved)), cpu_buckets())
    assert again.total == histogram.total and again.reference_s == DAY_S
    assert again.weights[36] == pytest.approx(1500.1 * 5000 / 15001)
    assert (again.low, again.high) == (0, 62)


@given(samples)
def test_a_checkpoint_keeps_percentiles(seen):
    histogram = of(*seen)
    again = DecayingHistogram.load(histogram.save(), cpu_buckets())
    # Rounding moves shares by at most half of a 10000th for each of up to 40 buckets.
    for share in (0.3, 0.5, 0.9):
        low, high = histogram.percentiles((share - 0.002, share + 0.002))
        assert low <= again.percentile(share) <= high


def test_an_empty_checkpoint():
    saved = DecayingHistogram(cpu_buckets()).save()
    assert saved == {"referenceTimestamp": None, "bucketWeights": {}, "totalWeight": 0.0}
    assert DecayingHistogram.load(saved, cpu_buckets()).empty


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"bucketWeights": {"176": 1}, "totalWeight": 1.0}, "bucket 176, of 0 to 175"),
        ({"bucketWeights": {"-1": 1}, "totalWeight": 1.0}, "bucket -1"),
        ({"bucketWeights": {"1": 1}, "totalWeight": -1.0}, "negative weight"),
        ({"bucketWeights": {"1": -1}, "totalWeight": 1.0}, "negative weight"),
        ({"bucketWeights": {"1": 1}, "totalWeight": 1.0}, "no referenceTimestamp"),
    ],
)
def test_checkpoints_that_are_refused(saved, message):
    with pytest.raises(HistoryError, match=message):
        DecayingHistogram.load(saved, cpu_buckets())


def test_other_refusals():
    with pytest.raises(HistoryError, match="weight -1"):
        of((1.0, -1.0, 0.0))
    with pytest.raises(HistoryError, match="different buckets or half-lives"):
        of((1.0, 1.0, 0.0)).merge(DecayingHistogram(memory_buckets()))
    with pytest.raises(SettingsError, match="half-life of 0"):
        DecayingHistogram(cpu_buckets(), half_life_s=0)
    with pytest.raises(SettingsError, match="ratio above 1"):
        BucketScheme(first=1.0, largest=10.0, ratio=1.0)


def test_instants():
    assert seconds_of_instant(instant(1_700_000_000.0)) == 1_700_000_000.0
    assert instant(None) is None and seconds_of_instant(None) is None


def test_very_old_samples_weigh_nothing():
    histogram = of((1.0, 1.0, 3000 * DAY_S), (4.0, 1.0, 0.0))
    assert histogram.total == 1.0 and math.isclose(histogram.percentile(1.0), EARLY_END)
