"""The phases of a start: observe, learn offline, act, step back; with the thresholds reckoned by hand."""

from __future__ import annotations

import json

import pytest

from trimtab.control.bootstrap import Bootstrap, BootstrapSettings, Phase, Thresholds
from trimtab.core.errors import BundleError, SettingsError

NAN = float("nan")
# R1 = .3 * .5 + .7 = .85, R2 = .3 * .5 + .7 / 1.25 = .71 for a heuristic that is half busy.
SETTINGS = BootstrapSettings(observe_ticks=3, evaluation_episodes=2, window=2, cooldown_ticks=3)


def started() -> Bootstrap:
    one = Bootstrap(SETTINGS, utilisation=0.5)
    for _ in range(3):
        one.tick(0.8)
    return one


def online() -> Bootstrap:
    one = started()
    one.evaluated(0.9)
    one.evaluated(0.9)
    assert one.phase is Phase.ONLINE
    return one


def test_thresholds_by_hand():
    assert Thresholds.of(0.5) == pytest.approx((0.85, 0.71))
    assert Thresholds.of(0.8, alpha=0.5, overshoot=1.0) == pytest.approx((0.9, 0.65))
    with pytest.raises(SettingsError, match=r"utilisation = 1\.2"):
        Thresholds.of(1.2)


def test_the_heuristic_is_observed_and_its_utilisation_measured():
    one = Bootstrap(SETTINGS)
    turns = [one.tick(0.8, utilisation=busy) for busy in (0.4, NAN, 0.6)]
    assert [turn.phase for turn in turns] == [Phase.OBSERVE, Phase.OBSERVE, Phase.OFFLINE]
    assert [turn.changed for turn in turns] == [False, False, True]
    assert one.thresholds == pytest.approx((0.85, 0.71))
    assert turns[-1].because == "observed for 3 ticks: R1 = 0.850, R2 = 0.710"


def test_without_a_utilisation_it_goes_on_observing():
    one = Bootstrap(SETTINGS)
    turn = [one.tick(0.8) for _ in range(5)][-1]
    assert turn.phase is Phase.OBSERVE and "R1 and R2 depend on it" in turn.because
    assert one.tick(0.8, utilisation=0.5).phase is Phase.OFFLINE


def test_the_policy_acts_once_the_mean_of_its_episodes_reaches_r1():
    one = started()
    said = [one.evaluated(reward) for reward in (0.8, 0.84, 0.86, 0.84)]
    # Means of two: .82, .85 (reached), and then it acts: the last is not counted any more.
    assert [turn.policy_acts for turn in said] == [False, False, True, True]
    assert said[0].because == "1 of 2 offline episodes"
    assert said[1].because == "mean of 2 episodes 0.820 is below R1 = 0.850"
    assert said[2].because == "mean of 2 episodes 0.850 reaches R1 = 0.850"
    assert "evaluations count while it learns offline" in said[3].because


def test_episodes_from_before_a_round_of_training_do_not_count():
    one = started()
    assert [one.evaluated(reward).policy_acts for reward in (0.8, 0.84)] == [False, False]
    one.trained()
    # .84 and .86 would reach .85, but another policy played the first of them.
    assert one.evaluated(0.86).because == "1 of 2 offline episodes"
    assert one.evaluated(0.84).because == "mean of 2 episodes 0.850 reaches R1 = 0.850"


def test_evaluations_before_the_log_is_there_do_not_count():
    one = Bootstrap(SETTINGS, utilisation=0.5)
    assert not one.evaluated(1.0).policy_acts
    assert not one.evaluated(1.0).policy_acts
    turn = [one.tick(0.8) for _ in range(3)][-1]
    assert turn.phase is Phase.OFFLINE


def test_it_steps_back_below_r2_and_waits_before_it_acts_again():
    one = online()
    turns = [one.tick(reward) for reward in (0.9, 0.6, 0.7)]
    # Means of two: .75 is not below .71, .65 is.
    assert [turn.policy_acts for turn in turns] == [True, True, False]
    assert turns[-1].changed and turns[-1].because == "mean of 2 steps 0.650 is below R2 = 0.710"
    one.evaluated(0.9)
    assert one.evaluated(0.9).because == "good enough, but 3 more ticks to wait"
    assert [one.tick(0.8).policy_acts for _ in range(3)] == [False, False, True]


def test_episodes_from_before_a_step_back_prove_nothing():
    one = online()
    one.tick(0.1)
    one.tick(0.1)
    turn = [one.tick(0.8) for _ in range(5)][-1]
    assert not turn.policy_acts and turn.because == "0 of 2 offline episodes"


def test_unknown_rewards_neither_condemn_nor_acquit():
    one = online()
    assert all(one.tick(reward).policy_acts for reward in (0.6, NAN, NAN))
    assert not one.tick(0.6).policy_acts


def test_a_drift_alarm_sends_it_back():
    one = online()
    turn = one.retrain("rewards fell")
    assert turn.phase is Phase.OFFLINE and turn.changed and turn.because == "rewards fell"
    assert not one.retrain("again").changed


def test_a_saved_one_goes_on_where_it_was():
    one = online()
    one.tick(0.6)
    again = Bootstrap.restored(SETTINGS, json.loads(json.dumps(one.saved())))
    assert again.saved() == one.saved()
    assert again.tick(0.6) == one.tick(0.6)


def test_damage_is_refused():
    saved = online().saved()
    for broken in (
        {**saved, "phase": "asleep"},
        {**saved, "busy": []},
        {"phase": "online"},
        {**saved, "thresholds": [NAN, NAN]},
        {**saved, "busy": [NAN, 1]},
        {**saved, "ticks": float("inf")},
        {**saved, "episodes": [None]},
        {**saved, "rewards": ["good"]},
        {**saved, "rewards": [NAN]},
    ):
        with pytest.raises(BundleError, match="damaged"):
            Bootstrap.restored(SETTINGS, broken)
    with pytest.raises(BundleError, match="online without thresholds"):
        Bootstrap.restored(SETTINGS, {**saved, "thresholds": None})
    with pytest.raises(SettingsError, match="mend the evaluation"):
        started().evaluated(NAN)
