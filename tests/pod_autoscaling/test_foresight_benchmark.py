"""What limits known beforehand would use: windows and shares against hand-made episodes."""

import numpy as np
import pytest
from benchmarks.pod_foresight import Held, around, before, foresight_rows, hindsight_rows


def held(peak: list[float], *, full_mib: float = 1000.0) -> Held:
    """Two pods that use half of what the larger one holds at its peak; the first interval does not count."""
    peaks = np.array(peak, float)
    counts = np.arange(len(peaks)) > 0
    return Held(peaks, np.full(len(peaks), 2.0), peaks, counts, full_mib)


def test_windows_look_around_and_back() -> None:
    peak = np.array([1.0, 5.0, 2.0, 3.0, 4.0])
    assert around(peak, 0).tolist() == peak.tolist()
    assert around(peak, 1).tolist() == [5, 5, 5, 4, 4]
    assert before(peak, 1).tolist() == [1, 1, 5, 2, 3]
    assert before(peak, 3).tolist() == [1, 1, 5, 5, 5]


def test_the_shorter_the_foresight_the_less_is_used() -> None:
    # 100, 300, 100, 100 count: 600 of twice 600, then of twice 300 in every interval.
    rows = foresight_rows("ours", 2 * [held([100, 100, 300, 100, 100])], interval_s=60)
    shares = {row.name.rpartition("peak ")[2]: row.value for row in rows}
    assert shares["of the interval"] == pytest.approx(600 / 1200)
    assert shares["a minute around"] == pytest.approx(600 / (2 * (300 + 300 + 300 + 100)))
    assert shares["of all"] == pytest.approx(600 / 2400)


def test_the_best_rule_is_the_one_that_reaches_the_rush_with_the_least() -> None:
    """Five times a calm peak and 256 MiB are less than the first rush: every rule is above its limit."""
    calm, rush = [10.0] * 90, [1000.0]
    found = [held(calm + rush + calm)]
    without, few, *_ = (row.value for row in hindsight_rows("ours", found, interval_s=60))
    assert np.isnan(without)
    assert np.isnan(few)
    # A rush of four times as much is foreseen by who holds five times the last minute's.
    found = [held([*calm, 40.0, *calm])]
    without = hindsight_rows("ours", found, interval_s=60)[0].value
    # The cheapest to reach 40 from 10 is 10 and 32 beside it; after the rush some minutes hold more.
    assert without == pytest.approx(0.5 * 10 / 42, rel=0.05)
