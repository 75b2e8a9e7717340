"""Drift detectors: against river, by hand, and on made-up rewards: false alarms and delays.

Measured with ``measure(name, change, 60)``: false alarms in 1000 steps, and the median delay in steps.

| detector             | false | step -.19 | step -.06          | ramp -.19 in 60 |
|----------------------|-------|-----------|--------------------|-----------------|
| window               |  0    |  0.5      | 101.5, 17 % missed | 32              |
| page-hinkley         |  0.62 |  5        | 18                 | 26              |
| adwin                |  0    | 47        | 151                | 79              |
| warn (watch)         |  1.3  |  1        | 15.5               | 24.5            |
| alarm (watch)        |  0    |  2        | 99.5               | 32              |

The watch leaves a lone dip out of the scatter, else rewards of real services alarm 1.4 times in 1000 steps
(0.26 with it, 20 simulated services under waves of traffic).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from tests.control.rewards import BEFORE, rewards

from trimtab.control.drift import Adwin, Drift, DriftSettings, DriftWatch, PageHinkley, WindowRule
from trimtab.core.errors import SettingsError

SEEDS = 12


def alarms(update: Callable[[float], bool], series: np.ndarray) -> list[int]:
    return [step for step, value in enumerate(series) if update(float(value))]


def watch(least: Drift) -> Callable[[], Callable[[float], bool]]:
    def make() -> Callable[[float], bool]:
        one = DriftWatch()
        return lambda value: one.update(value).drift >= least

    return make


DETECTORS: dict[str, Callable[[], Callable[[float], bool]]] = {
    "window": lambda: WindowRule().update,
    "page-hinkley": lambda: PageHinkley().update,
    "adwin": lambda: Adwin().update,
    "warn": watch(Drift.WARN),
    "alarm": watch(Drift.ALARM),
}


@cache
def measure(name: str, change: str, seeds: int = SEEDS) -> tuple[float, np.ndarray]:
    """False alarms in 1000 steps, and the delay of every seed (infinite: not found in 300 steps)."""
    false, delays = 0, []
    for seed in range(seeds):
        found = alarms(DETECTORS[name](), rewards(change, seed))
        false += sum(step < BEFORE for step in found)
        delays.append(next((step - BEFORE for step in found if step >= BEFORE), np.inf))
    return false / seeds, np.array(delays)


@pytest.mark.parametrize(
    ("name", "most_false", "most_delay"),
    [
        ("alarm", 1.0, {"step -.19": 10, "step -.06": 150, "ramp -.19": 50}),
        ("warn", 3.0, {"step -.19": 10, "step -.06": 40, "ramp -.19": 40}),
        ("adwin", 0.5, {"step -.19": 60, "step -.06": 200, "ramp -.19": 100}),
    ],
)
def test_false_alarms_are_rare_and_changes_are_found_in_time(name, most_false, most_delay):
    for change, limit in most_delay.items():
        false, delays = measure(name, change)
        assert false <= most_false
        assert np.median(delays) <= limit
        assert np.isfinite(delays).all()


def test_a_large_drop_alarms_within_ten_steps_on_every_seed():
    _, delays = measure("alarm", "step -.19")
    assert delays.max() <= 10


@pytest.mark.parametrize("mean", [0.002, 870.0, -0.87])
def test_a_watch_does_not_care_for_the_scale_or_sign_of_rewards(mean):
    """Minus .87 turned round: a drop is a drop, whatever side of zero."""
    drops = rewards("step -.06", 3)
    plain, scaled = DriftWatch(), DriftWatch()
    moved = drops * (mean / 0.87) if mean > 0 else drops - 2 * 0.87
    seen = [
        (plain.update(one).drift, scaled.update(other).drift) for one, other in zip(drops, moved, strict=True)
    ]
    agree = np.mean([first == second for first, second in seen])
    assert agree > (0.999 if mean > 0 else 0.9)
    assert any(second is Drift.ALARM for _, second in seen[BEFORE:])


def test_rewards_around_zero_are_measured_by_their_noise():
    draw = np.random.default_rng(0)
    one = DriftWatch()
    steady = [one.update(value).drift for value in draw.normal(0, 1, 1000)]
    assert Drift.ALARM not in steady
    fallen = [one.update(value).drift for value in draw.normal(-5, 1, 60)]
    assert Drift.ALARM in fallen


def test_residuals_hide_seasons_that_a_predictor_knows():
    """A season of 12 % alarms by itself; beside a predictor that knows it, it does not, and a drop does."""
    time = np.arange(1500)
    season = 0.87 + 0.12 * np.cos(2 * np.pi * time / 400)
    noise = np.random.default_rng(1).normal(0, 0.01, len(time))
    drop = np.where(time >= 1200, -0.15, 0.0)
    blind, knowing = DriftWatch(), DriftWatch()
    seen_blind = [blind.update(value).drift for value in season + noise]
    seen = [
        knowing.update(value, predicted=expected).drift
        for value, expected in zip(season + noise + drop, season, strict=True)
    ]
    assert Drift.ALARM in seen_blind[:1200]
    assert Drift.ALARM not in seen[:1200]
    assert Drift.ALARM in seen[1200:1215]


def test_after_a_reset_the_new_level_is_usual():
    one = DriftWatch(DriftSettings(reference_steps=20))
    for _ in range(40):
        one.update(0.8)
    assert one.update(0.8).drift is Drift.STEADY
    one.reset_reference()
    seen = [one.update(0.4).drift for _ in range(60)]
    assert seen[:20] == [Drift.LEARNING] * 20 and set(seen[20:]) == {Drift.STEADY}


def test_an_unknown_reward_is_left_out():
    one = DriftWatch(DriftSettings(reference_steps=3))
    seen = [one.update(value).drift for value in (0.8, float("nan"), 0.8, 0.8, float("nan"), 0.8)]
    expected = [Drift.LEARNING] * 4 + [Drift.STEADY] * 2
    assert seen == expected


def test_scatter_alone_alarms():
    one = DriftWatch(DriftSettings(reference_steps=10))
    for step in range(40):
        one.update(1.0 + 0.01 * (step % 2))
    seen = [one.update(1.0 + (0.15 if step % 2 else -0.15)) for step in range(10)]
    assert seen[-1].drift is Drift.ALARM
    assert "scatter" in seen[-1].because


def test_a_lone_dip_is_no_scatter_but_two_are():
    """A dip of .3 among ten: deviation .09, above .07. Without the farthest step nothing is left of it."""
    steady = [1.0 + 0.01 * (step % 2) for step in range(40)]
    for dips, alarms in ((1, False), (2, True)):
        one = DriftWatch(DriftSettings(reference_steps=10))
        for value in steady:
            one.update(value)
        seen = [one.update(value).drift for value in [0.7] * dips + [1.0] * 12]
        assert (Drift.ALARM in seen) is alarms
    strict = DriftWatch(DriftSettings(reference_steps=10, leave_out=0))
    assert Drift.ALARM in [strict.update(value).drift for value in [*steady, 0.7]]


def test_the_window_rule_by_hand():
    """Usual 2 (mean of 1, 2, 3); limits 1.8 and 0.5 * 2. Means of three: 2, 1.9, 1.7; then the spread."""
    rule = WindowRule(reference_steps=3, window=3, least_mean=0.9, most_spread=0.5)
    assert [rule.update(value) for value in (1, 2, 3)] == [False] * 3
    assert [rule.update(value) for value in (2, 2, 2, 1.7, 1.4)] == [False, False, False, False, True]
    assert rule.mean == pytest.approx(1.7)
    # 0, 5, 0 have the deviation 2.36.
    assert [rule.update(value) for value in (0, 5, 0)][-1]
    assert rule.reference == pytest.approx(2.0)
    rule.reset_reference()
    assert np.isnan(rule.reference)


def test_page_hinkley_by_hand():
    """Mean so far after 4 ones and a 0 is .8: the sum falls by .8 - .1 = .7 below its largest, 4 * .1.

    With the next 0 the mean is .667 and the sum falls by another .567: 1.27 in all, above 1.
    """
    detector = PageHinkley(slack=0.1, threshold=1.0, least_steps=1, memory=1.0)
    assert [detector.update(value) for value in (1, 1, 1, 1, 0, 0)] == [False] * 5 + [True]
    # It begins again: a new mean, no memory of the old.
    assert not any(detector.update(0) for _ in range(20))


def test_adwin_keeps_few_buckets_and_exact_moments():
    """Every step is in one bucket, sums and squared deviations are exact, buckets grow as the logarithm."""
    draw = np.random.default_rng(0)
    values = draw.normal(5, 0.1, 3000)
    detector = Adwin()
    for value in values:
        assert not detector.update(float(value))
    assert len(detector) == 3000
    assert detector.mean == pytest.approx(values.mean(), rel=1e-12)
    buckets = [bucket for row in detector._rows for bucket in row]
    assert len(buckets) <= 6 * np.log2(3000)
    sizes = [1 << size for size, row in enumerate(detector._rows) for _ in row]
    means = np.array([one[0] for one in buckets]) / sizes
    squares = sum(one[1] for one in buckets) + (np.array(sizes) * (means - values.mean()) ** 2).sum()
    assert squares / 3000 == pytest.approx(values.var(), rel=1e-9)


def test_adwin_forgets_what_was_before_the_change():
    detector = Adwin()
    for value in [0.9] * 300 + [0.5] * 300:
        detector.update(value)
    assert detector.fell
    assert detector.mean < 0.55
    for value in [0.9] * 300:
        detector.update(value)
    assert not detector.fell


def test_adwin_agrees_with_river():
    drift = pytest.importorskip("river.drift", reason="river is not installed")
    for seed in range(6):
        series = rewards("step -.06", seed)
        ours, theirs = Adwin(check_every=32), drift.ADWIN(delta=0.002, clock=32, grace_period=10)
        for step, value in enumerate(series):
            cut = ours.update(float(value))
            theirs.update(float(value))
            assert cut == theirs.drift_detected, f"seed {seed}, step {step}"
            if cut:
                ours.reset()  # river begins afresh after a change
            else:
                assert len(ours) == theirs.width
                assert ours.mean == pytest.approx(theirs.estimation, rel=1e-9)


def test_page_hinkley_agrees_with_river():
    drift = pytest.importorskip("river.drift", reason="river is not installed")
    for seed in range(6):
        series = rewards("step -.06", seed)
        theirs = drift.PageHinkley(delta=0.01, threshold=1.0, min_instances=100, mode="down")
        expected = [
            step for step, value in enumerate(series) if theirs.update(float(value)) or theirs.drift_detected
        ]
        assert alarms(PageHinkley().update, series) == expected


def test_detectors_refuse_settings_that_make_no_sense():
    with pytest.raises(SettingsError, match="window = 1"):
        WindowRule(window=1)
    with pytest.raises(SettingsError, match="leave_out = 2"):
        WindowRule(window=3, leave_out=2)
    with pytest.raises(SettingsError, match="memory = 2"):
        PageHinkley(memory=2)
    with pytest.raises(SettingsError, match="confidence = 1"):
        Adwin(confidence=1)
