"""Each step of the guard on cases reckoned by hand: one dimension, replicas from 1 to 100, unless said."""

from __future__ import annotations

import numpy as np
import pytest
from tests.control.situations import Play, plain_guard

from trimtab.control.evidence import Evidence, Needs
from trimtab.control.guard import Guard
from trimtab.control.guard_settings import (
    Canary,
    Comparison,
    Dimension,
    Freshness,
    GuardSettings,
    Pace,
    Record,
    Recovery,
)
from trimtab.control.limits import product_of
from trimtab.control.reasons import Acting, Reason, Step
from trimtab.core.errors import ActionError, SettingsError

WIDE = {"up_factor": 1000, "down_factor": 1000}


class Gone:
    """As an array on a device whose memory was given back."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise RuntimeError("Array has been deleted")


def reason(play: Play, step: Step) -> Reason:
    assert play.guarded is not None
    return Reason(int(play.guarded.reasons[0, step]))


def who(play: Play) -> Acting:
    assert play.guarded is not None
    return play.guarded.who(0)


@pytest.mark.parametrize(
    ("proposal", "why"),
    [
        (float("nan"), Reason.NOT_FINITE),
        (float("inf"), Reason.NOT_FINITE),
        (-3.0, Reason.NEGATIVE),
        (None, Reason.NO_ANSWER),
        ([[1.0, 2.0]], Reason.WRONG_SHAPE),
        ("ten", Reason.WRONG_SHAPE),
        ([[None]], Reason.NOT_FINITE),
        ([[10**400]], Reason.WRONG_SHAPE),
        (Gone(), Reason.WRONG_SHAPE),
    ],
)
def test_an_answer_that_is_none_is_replaced_by_the_heuristics(proposal, why):
    play = Play(plain_guard(), current=10)
    assert play.tick(proposal, heuristic=12) == 12
    assert reason(play, Step.VALIDATE) is why
    assert reason(play, Step.CHOOSE) is Reason.INVALID


def test_the_largest_number_there_is_is_the_most_allowed():
    settings = GuardSettings(dimensions=(Dimension(name="cpu", quantum=0.01, least=0.1, most=4),))
    guard = Guard(settings)
    needs = Needs.of(settings, [[1.0]])
    _, guarded = guard.step(guard.begin(1), [[1e308]], np.array([[1.0]]), Evidence.of(1), needs)
    assert guarded.trail[Step.PROJECT + 1, 0, 0] == 4


def test_an_answer_older_than_three_intervals_has_expired():
    play = Play(plain_guard(), current=10)
    assert play.tick(11, heuristic=12, proposal_age_s=45) == 11
    assert play.tick(11, heuristic=12, proposal_age_s=46) == 12
    assert reason(play, Step.VALIDATE) is Reason.EXPIRED
    assert "46 s old, 45 s is the limit" in play.said()


def test_without_fresh_data_nothing_changes_and_then_the_heuristic_acts():
    play = Play(plain_guard(freshness=Freshness(hold_ticks=2)), current=10)
    assert [play.tick(20, heuristic=15, data_age_s=age) for age in (46, 61, 76, 91)] == [10, 10, 15, 15]
    assert who(play) is Acting.HEURISTIC
    assert "91 s old, stale for 4 ticks" in play.said()
    assert play.tick(20, heuristic=15) == 20
    assert play.tick(20, heuristic=15, data_age_s=np.nan) == 20
    assert who(play) is Acting.HOLD


def test_what_is_far_ahead_of_a_clock_that_was_set_back_is_not_fresh():
    play = Play(plain_guard(), current=10)
    assert play.tick(11, heuristic=12, proposal_age_s=-45, data_age_s=-45) == 11
    assert play.tick(11, heuristic=12, proposal_age_s=-46) == 12
    assert "the answer is 46 s ahead of the clock, 45 s is the limit" in play.said()
    assert play.tick(20, heuristic=15, data_age_s=-3600) == 12
    assert who(play) is Acting.HOLD
    assert "the data is 3600 s ahead of the clock, stale for 1 ticks now" in play.said()


def test_a_heuristic_that_is_no_number_leaves_all_as_it_is():
    play = Play(plain_guard("shadow"), current=10)
    assert play.tick(20, heuristic=np.nan) == 10
    assert who(play) is Acting.HOLD
    assert "no number either" in play.said()


def test_projection_rounds_to_quanta_and_stays_within_the_bounds():
    # 100 is not a multiple of 16; 96 is the largest that is allowed, 32 the smallest (30 is not one).
    guard = plain_guard(dimension={"quantum": 16, "least": 30, "most": 100, **WIDE})
    play = Play(guard, current=64)
    assert [play.tick(asked, heuristic=96) for asked in (71, 72, 500, 0)] == [64, 80, 96, 32]
    assert reason(play, Step.PROJECT) is Reason.BELOW_BOUND


def test_usage_wins_over_the_pace_and_bounds_win_over_usage():
    play = Play(plain_guard(), current=10)
    assert play.tick(5, heuristic=10, needs={"floor": 8.2}) == 9
    assert play.tick(9, heuristic=10, needs={"floor": 70}) == 70  # more than twice as much in one tick
    assert reason(play, Step.ENSURE) is Reason.USAGE
    assert play.tick(9, heuristic=10, needs={"floor": 200}) == 100
    assert reason(play, Step.ENSURE) is Reason.OUT_OF_REACH


def test_needs_hold_for_the_heuristic_too_except_in_shadow():
    for mode, expected in (("active", 8), ("shadow", 5)):
        play = Play(plain_guard(mode), current=10)
        assert play.tick(None, heuristic=5, needs={"floor": 8}) == expected


def pods(mode: str = "active", **comparison: float) -> Guard:
    """Replicas 1 to 20 and cores 0.1 to 2 in hundredths, judged together."""
    return Guard(
        GuardSettings(
            dimensions=(
                Dimension(name="replicas", least=1, most=20, joint=True),
                Dimension(name="cpu", unit="cores", quantum=0.01, least=0.1, most=2, joint=True),
            ),
            mode=mode,  # pyright: ignore[reportArgumentType]
            pace=Pace(flip_ticks=0, stabilisation_s=0),
            comparison=Comparison(**{"leash_start": 1.0, "cost_limit": 1000, **comparison}),
            record=Record(observe_ticks=0),
        ),
        capacity=product_of(0, 1),
        cost=lambda amounts: amounts[:, 0] * amounts[:, 1],
    )


@pytest.mark.parametrize(
    ("asked", "capacity", "expected"),
    [
        ((4, 0.5), 1.9, (4, 0.5)),  # 2 cores are there
        ((4, 0.5), 2.1, (5, 0.5)),  # one replica more gives 2.5
        ((4, 0.5), 10.0, (20, 0.5)),  # exactly as many as there may be
        ((4, 0.5), 11.0, (20, 0.55)),  # then cores
        ((4, 0.5), 99.0, (20, 2.0)),  # not enough, but all there is
    ],
)
def test_joint_capacity_is_reached_by_replicas_first(asked, capacity, expected):
    guard = pods()
    needs = Needs.of(guard.settings, [[4, 0.5]], capacity=capacity)
    _, guarded = guard.step(guard.begin(1), [list(asked)], np.array([[4, 0.5]]), Evidence.of(1), needs)
    np.testing.assert_allclose(guarded.action[0], expected)
    missing = guarded.reasons[0, Step.ENSURE] == Reason.OUT_OF_REACH
    assert missing == (capacity == 99.0)


def test_the_pace_is_twice_up_and_by_one_and_a_half_down_but_one_quantum_at_least():
    play = Play(plain_guard(), current=10)
    assert [play.tick(100, heuristic=1) for _ in range(3)] == [20, 40, 80]
    assert reason(play, Step.PACE) is Reason.TOO_FAST_UP
    assert play.tick(100, heuristic=1) == 100
    # The heuristic stays above, so it opens no way: ceil(100 / 1.5) = 67, ...; from 2, one less is allowed.
    down = [play.tick(1, heuristic=100) for _ in range(10)]
    assert down == [67, 45, 30, 20, 14, 10, 7, 5, 4, 3]
    assert [play.tick(1, heuristic=100) for _ in range(2)] == [2, 1]
    assert reason(play, Step.PACE) is Reason.NONE


def test_the_way_to_the_heuristic_is_always_open():
    play = Play(plain_guard(pace=Pace(flip_ticks=3, stabilisation_s=300)), current=10)
    assert play.tick(60, heuristic=50) == 50  # up, faster than twice
    assert play.tick(5, heuristic=8) == 8  # down at once, though it has just gone up and 60 was asked for
    assert reason(play, Step.PACE) is Reason.TOO_FAST_DOWN
    assert play.tick(5, heuristic=30) == 8
    assert play.tick(40, heuristic=30) == 30


def test_a_trade_of_cores_for_replicas_does_not_open_the_way_down():
    """The heuristic wants more and smaller pods: cores must not go before the pods are there."""
    guard = pods()
    needs = Needs.of(guard.settings, [[3, 2.0]])
    _, guarded = guard.step(guard.begin(1), [[6, 1.0]], np.array([[6, 1.0]]), Evidence.of(1), needs)
    np.testing.assert_allclose(guarded.action[0], [6, 1.34])  # 2 / 1.5, rounded up


def test_down_goes_to_the_most_asked_for_in_the_window():
    """A window of 60 s holds five ticks of 15 s: what was asked for at 0 s counts up to 60 s."""
    guard = plain_guard(pace=Pace(flip_ticks=0, stabilisation_s=60), dimension=WIDE)
    play = Play(guard, current=10)
    asked = [10, 4, 6, 4, 4, 4, 4, 4, 4]
    # 10 counts until tick 4, then 6 (asked for at tick 2) until tick 6, then 4.
    assert [play.tick(one, heuristic=50) for one in asked] == [10, 10, 10, 10, 10, 6, 6, 4, 4]
    assert play.tick(9, heuristic=50) == 9  # up goes at once


def test_what_was_there_at_first_counts_as_asked_for():
    guard = plain_guard(pace=Pace(flip_ticks=0, stabilisation_s=30), dimension=WIDE)
    play = Play(guard, current=10)
    assert [play.tick(4, heuristic=50) for _ in range(4)] == [10, 10, 10, 4]


def test_no_turning_round_for_three_ticks():
    guard = plain_guard(pace=Pace(flip_ticks=3, stabilisation_s=0))
    play = Play(guard, current=10)
    assert play.tick(12, heuristic=12) == 12
    assert [play.tick(8, heuristic=12) for _ in range(4)] == [12, 12, 12, 8]
    # And the other way: up is barred beyond the heuristic, which wants 9, for three ticks.
    assert [play.tick(14, heuristic=9) for _ in range(4)] == [9, 14, 14, 14]


def test_a_way_up_that_is_barred_is_open_as_far_as_the_heuristic():
    guard = plain_guard(pace=Pace(flip_ticks=3, stabilisation_s=0))
    play = Play(guard, current=12)
    assert play.tick(8, heuristic=12) == 8
    assert play.tick(14, heuristic=8) == 8
    assert reason(play, Step.PACE) is Reason.FLIP
    assert play.tick(14, heuristic=11) == 11


def test_cost_is_cut_to_so_many_times_the_heuristics():
    guard = pods(cost_limit=2.0)
    needs = Needs.of(guard.settings, [[8, 2.0]])
    _, guarded = guard.step(guard.begin(1), [[20, 2.0]], np.array([[8, 1.0]]), Evidence.of(1), needs)
    # 40 cores are asked for, 16 allowed: a quarter of the way from (8, 1) to (20, 2) is (11, 1.25) = 13.75
    # cores, a third (12, 1.33) = 15.96; 12 replicas from there on, so up to 1.33 cores each.
    np.testing.assert_allclose(guarded.trail[Step.COMPARE + 1, 0], [12, 1.33])
    # The pace takes 2 cores to 1.34 at most, which makes 12 * 1.34 = 16.08 too dear by a hair: 11 replicas.
    assert guarded.action[0].prod() <= 16.08 + 1e-9
    assert guarded.reasons[0, Step.COMPARE] == Reason.COST


def test_without_a_measure_of_cost_every_dimension_has_the_limit():
    guard = plain_guard(comparison=Comparison(leash_start=1.0, cost_limit=2.0), dimension=WIDE)
    assert Play(guard, current=10).tick(100, heuristic=7) == 14


def test_canary_stays_within_a_quarter_or_one_quantum_of_the_heuristic():
    guard = plain_guard("canary", canary=Canary(share=1.0), dimension=WIDE)
    assert Play(guard, current=40).tick(100, heuristic=40) == 50
    assert Play(guard, current=40).tick(1, heuristic=40) == 32
    assert Play(guard, current=3).tick(1, heuristic=3) == 2  # a quarter of 3 is less than one
    assert Play(guard, current=3).tick(9, heuristic=3) == 4


def test_a_leash_of_a_tenth_leaves_nine_tenths_of_the_heuristic():
    guard = plain_guard(comparison=Comparison(leash_start=0.1), dimension=WIDE)
    play = Play(guard, current=40)
    assert play.tick(1, heuristic=40) == 36
    assert reason(play, Step.COMPARE) is Reason.LEASH
    assert "may leave out 10.0%" in play.said()


def test_a_leash_on_joint_dimensions_lets_them_be_traded():
    """Half as many pods of twice the size are no less; nine tenths of the cores are enough."""
    guard = pods(leash_start=0.1)
    for current, asked, expected in (
        ((4, 2.0), (4, 2.0), (4, 2.0)),
        ((4, 2.0), (4, 1.8), (4, 1.8)),
        ((4, 2.0), (4, 1.7), (5, 1.7)),
    ):
        needs = Needs.of(guard.settings, [list(current)])
        _, guarded = guard.step(guard.begin(1), [list(asked)], np.array([[8, 1.0]]), Evidence.of(1), needs)
        np.testing.assert_allclose(guarded.trail[Step.COMPARE + 1, 0], expected)


def test_under_strain_a_policy_gives_no_less_than_the_heuristic():
    play = Play(plain_guard(), current=10)
    assert play.tick(7, heuristic=10, latency_ratio=0.89) == 7
    assert play.tick(7, heuristic=10, latency_ratio=0.91) == 10
    assert reason(play, Step.COMPARE) is Reason.STRAINED
    assert play.tick(15, heuristic=10, latency_ratio=0.91) == 15


def test_what_is_asked_beyond_the_pace_makes_up_for_nothing_under_strain():
    """Twice as many replicas come in one tick, not four times as many: 16 of 0.5 are too few for 10 of 1."""
    guard = pods()
    strained, needs = Evidence.of(1, latency_ratio=1.5), Needs.of(guard.settings, [[4, 0.5]])
    for asked in ((4, 0.5), (20, 0.5), (8, 0.1)):
        _, guarded = guard.step(guard.begin(1), [list(asked)], np.array([[10, 1.0]]), strained, needs)
        assert guarded.action[0].prod() >= 10 * (1 - 1e-9), asked


def test_the_larger_of_both_costs_no_more_than_the_policy_may():
    """Many of one and large ones of the other: 20 of 2 cores would be four times the heuristic's 5 of 2."""
    guard = pods(cost_limit=2)
    state, current = guard.begin(1), np.array([[5, 2.0]])
    for _ in range(9):
        needs, evidence = Needs.of(guard.settings, current), Evidence.of(1, latency_ratio=3.0)
        state, guarded = guard.step(state, [[20, 0.1]], np.array([[5, 2.0]]), evidence, needs)
        current = guarded.action
    assert Acting(int(guarded.acting[0])) is Acting.LARGER
    np.testing.assert_allclose(current, [[10, 2.0]])


def test_surprise_above_the_limit_or_unknown_lets_the_heuristic_act():
    play = Play(plain_guard(), current=10)
    assert [play.tick(9, heuristic=10, surprise=one) for one in (1.0, 1.01, np.nan)] == [9, 10, 10]
    assert reason(play, Step.CHOOSE) is Reason.SURPRISED


def test_the_sentences_tell_the_whole_story():
    guard = plain_guard(pace=Pace(flip_ticks=3, stabilisation_s=0))
    play = Play(guard, current=10)
    play.tick(12, heuristic=12)
    play.tick(3.4, heuristic=12, needs={"floor": 4.5})
    assert play.said().split("\n") == [
        "now replicas 12; the policy asks for replicas 3.4, the heuristic for replicas 12",
        "project: replicas 3.4 → 3: rounded to whole quanta",
        "needs: replicas 3 → 5: present usage needs it",
        "pace: replicas 5 → 12: went the other way within 3 ticks",
        "choose: the policy acts",
    ]


def test_mistakes_of_the_caller_are_refused_with_the_way_out():
    guard = plain_guard()
    state, evidence = guard.begin(2), Evidence.of(2)
    needs = Needs.of(guard.settings, [[3], [4]])
    right = np.array([[3.0], [4.0]])
    with pytest.raises(ActionError, match=r"heuristic has shape \(1, 1\), not \(2, 1\)"):
        guard.step(state, right, right[:1], evidence, needs)
    with pytest.raises(ActionError, match="evidence for 3 environments, not 2"):
        guard.step(state, right, right, Evidence.of(3), needs)
    with pytest.raises(ActionError, match="environment 1: neither what it has now nor an earlier decision"):
        guard.step(state, right, right, evidence, Needs.of(guard.settings, [[3], [np.nan]]))
    with pytest.raises(
        ActionError, match="environment 0, dimension 0: no multiple of 1, 0 or more, lies between 5"
    ):
        guard.step(state, right, right, evidence, Needs.of(guard.settings, [[3], [4]], least=5, most=4))
    with pytest.raises(ActionError, match=r"floor has shape \(3,\), which does not fit \(2, 1\)"):
        Needs.of(guard.settings, [[3], [4]], floor=[1, 2, 3])
    with pytest.raises(ActionError, match=r"current has shape \(2,\); give \[environments, 1\] for replicas"):
        Needs.of(guard.settings, [3, 4])
    with pytest.raises(SettingsError, match="3 ids for 2 environments"):
        guard.begin(2, ids=[1, 2, 3])
    with pytest.raises(SettingsError, match="give both or neither"):
        Guard(guard.settings, capacity=product_of(0))


def test_settings_refuse_what_makes_no_sense():
    one = {"name": "memory", "quantum": 16}
    with pytest.raises(ValueError, match="no multiple of quantum = 16 lies between least = 17 and most = 30"):
        Dimension(**one, least=17, most=30)
    with pytest.raises(ValueError, match="dimension 'memory' is there twice"):
        GuardSettings(dimensions=(Dimension(**one, most=64), Dimension(**one, most=64)))
    with pytest.raises(ValueError, match="burn_short_s exceeds burn_window_s"):
        Recovery(burn_short_s=60, burn_window_s=30)
