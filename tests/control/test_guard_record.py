"""Modes, the account of violations, suspensions, the leash, the burn of the budget and recovery, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.control.situations import Play, plain_guard

from trimtab.control.evidence import Evidence, Needs
from trimtab.control.guard_settings import Canary, Comparison, Record, Recovery
from trimtab.control.reasons import Acting, Reason, Step
from trimtab.control.record import usual_violations
from trimtab.control.state import fresh_state, state_from_arrays
from trimtab.core.errors import BundleError

USUAL = 0.001
# Usual violations are those of the prior as long as the heuristic suffers just these.
RECORD = Record(observe_ticks=0, prior_share=USUAL)
WIDE = {"up_factor": 1000, "down_factor": 1000}


def reason(play: Play, step: Step = Step.CHOOSE) -> Reason:
    assert play.guarded is not None
    return Reason(int(play.guarded.reasons[0, step]))


def acts(play: Play) -> bool:
    assert play.guarded is not None
    return play.guarded.who(0) is Acting.POLICY


def test_the_heuristic_acts_first_so_that_there_is_a_record():
    play = Play(plain_guard(record=Record(observe_ticks=3)), current=10)
    assert [play.tick(9, heuristic=10) for _ in range(4)] == [10, 10, 10, 9]


def test_the_kill_switch_stops_the_policy_at_once():
    play = Play(plain_guard(), current=10)
    assert [play.tick(9, heuristic=10, killed=killed) for killed in (False, True, False)] == [9, 10, 9]


def test_shadow_follows_what_the_policy_would_have_had_all_along():
    """10 goes to 7, 5, 4 by the pace, while the heuristic keeps 10; 6 are needed from the fourth tick on."""
    play = Play(plain_guard("shadow"), current=10)
    would, short = [], []
    for floor in (0, 0, 0, 6):
        assert play.tick(4, heuristic=10, needs={"floor": floor}) == 10
        assert play.guarded is not None
        would.append(play.guarded.would[0, 0])
        short.append(bool(play.guarded.short[0]))
    assert would == [7, 5, 4, 6]
    assert short == [False, False, False, True]
    assert play.guarded is not None and play.guarded.extra_cost[0] == pytest.approx(-0.4)


def test_canary_by_environments_gives_some_of_them_to_the_policy_for_good():
    guard = plain_guard("canary", canary=Canary(share=0.3, by="environments", seed=5))
    state, current = guard.begin(400), np.full((400, 1), 10.0)
    turns = []
    for _ in range(3):
        state, guarded = guard.step(
            state, current + 1, current, Evidence.of(400), Needs.of(guard.settings, current)
        )
        turns.append(guarded.acting == Acting.POLICY)
    np.testing.assert_array_equal(turns[0], turns[2])
    assert 0.2 < turns[0].mean() < 0.4  # 0.3, give or take 0.023


def test_canary_by_slots_gives_everybody_the_same_share_of_time():
    guard = plain_guard("canary", canary=Canary(share=0.5, slot_ticks=4, seed=5))
    play = Play(guard, current=10)
    turns = []
    for _ in range(240):
        play.tick(10, heuristic=10)
        turns.append(acts(play))
    slots = np.array(turns).reshape(-1, 4)
    assert (slots.all(axis=1) | ~slots.any(axis=1)).all()
    assert 0.3 < slots[:, 0].mean() < 0.7  # 0.5, give or take 0.065
    again = Play(guard, current=10)
    again.tick(10, heuristic=10)
    assert acts(again) == turns[0]


def play_with_violations(guard, *, policy_share: float, ticks: int, gives: int = 5) -> list[bool]:
    """A policy that gives half of the heuristic's 10, say; who acts decides what is violated next."""
    play, acted, share = Play(guard, current=10), [], USUAL
    for _ in range(ticks):
        play.tick(gives, heuristic=10, bad=share * 1000, total=1000)
        acted.append(acts(play))
        share = policy_share if acts(play) else USUAL
    return acted


def test_an_overdrawn_account_suspends_for_20_ticks_then_for_40():
    """With half the capacity, 1 - 0.5^8 = 99.6 % of 2 % are put down to the policy: 19.92 usual ones.

    A tick costs 19.92 - 0.15 = 19.77. From 40 that leaves 20.23, 0.46 and -19.3: suspended in tick 3, after
    three ticks at work. It comes back in tick 23 with 20, which leaves 0.23 and -19.5: suspended in tick 25,
    for 40 ticks; and in tick 65 with 10, which one tick overdraws.
    """
    acted = play_with_violations(plain_guard(record=RECORD, dimension=WIDE), policy_share=0.02, ticks=100)
    assert [tick for tick in range(100) if acted[tick]] == [0, 1, 2, 23, 24, 65]


def test_a_policy_no_worse_than_tolerated_is_never_suspended():
    """15 % more than usual is tolerated: usual violations with nothing to blame for, and a little more."""
    guard = plain_guard(record=RECORD, dimension=WIDE)
    assert all(play_with_violations(guard, policy_share=USUAL * 0.15, ticks=300))


def test_a_policy_that_gives_less_must_be_late_far_less_often_than_the_heuristic():
    """Of what is late with nine tenths, 1 - 0.9^8 = 57 % is put down to it: 0.15 / 0.57 is 26 % of the usual.

    As often as usual costs 0.57 - 0.15 a tick, so that 40 last for 95 ticks and 20 for 48.
    """
    guard = plain_guard(record=RECORD, dimension=WIDE)
    assert all(play_with_violations(guard, policy_share=USUAL * 0.26, ticks=500, gives=9))
    acted = play_with_violations(guard, policy_share=USUAL, ticks=500, gives=9)
    assert np.flatnonzero(np.diff(acted)).tolist()[:4] == [95, 115, 163, 203]


def test_the_longer_the_heuristic_is_never_late_the_less_it_takes_to_be_worse():
    """A prior of 20 ticks with 0.0002, and so many ticks without any."""
    record = Record()
    for ticks, usual in ((20, 0.0001), (180, 0.00002)):
        play = Play(plain_guard("shadow", record=record), current=10)
        for _ in range(ticks + 1):
            play.tick(9, heuristic=10, bad=0, total=1000)
        assert usual_violations(play.state, record)[0] == pytest.approx(usual, rel=0.05)


def test_the_tolerated_share_counts_as_usual():
    record = Record(observe_ticks=0, prior_share=USUAL, tolerated_share=0.2)
    guard = plain_guard(record=record, dimension=WIDE)
    assert all(play_with_violations(guard, policy_share=0.02, ticks=300))


def test_a_policy_that_gives_no_less_answers_for_nothing():
    play = Play(plain_guard(record=RECORD), current=10)
    for _ in range(50):
        play.tick(10, heuristic=10, bad=500, total=1000)
        assert acts(play) or reason(play) is Reason.RECOVERING
    assert play.state.balance[0] == 40 and play.state.offences[0] == 0


def test_offences_are_forgiven_after_good_work():
    record = Record(observe_ticks=0, prior_share=USUAL, forgive_ticks=30)
    play, share = Play(plain_guard(record=record, dimension=WIDE), current=10), USUAL
    for _ in range(23):
        play.tick(5, heuristic=10, bad=share * 1000, total=1000)
        share = 0.02 if acts(play) else USUAL
    assert play.state.offences[0] == 1
    for _ in range(31):
        play.tick(5, heuristic=10, bad=0, total=1000)
    assert play.state.offences[0] == 0


def test_the_usual_violations_are_those_of_the_heuristic_alone():
    """20 ticks of the prior 0.001 and 20 seen with 0.003 make 0.002; a policy's ticks do not count."""
    guard = plain_guard(record=Record(observe_ticks=20, prior_share=USUAL))
    play = Play(guard, current=10)
    for _ in range(20):
        play.tick(9, heuristic=10, bad=3, total=1000)
    for _ in range(10):
        play.tick(9, heuristic=10, bad=0, total=1000)
    # Older ticks weigh a little less: half a day-long memory of 5760 ticks.
    assert usual_violations(play.state, guard.settings.record)[0] == pytest.approx(0.002, rel=0.06)


def test_the_leash_grows_only_at_its_end_and_is_halved_by_an_offence():
    comparison = Comparison(leash_start=0.1, leash_growth=0.02)
    play = Play(plain_guard(record=RECORD, comparison=comparison, dimension=WIDE), current=100)
    for _ in range(10):
        play.tick(99, heuristic=100, bad=0, total=1000)  # 1 % less, with 10 % allowed: proves nothing
    assert play.state.leash[0] == pytest.approx(0.1)
    for _ in range(11):
        play.tick(1, heuristic=100, bad=0, total=1000)  # the first of these judges a tick at 99
    assert play.state.leash[0] == pytest.approx(0.3)
    assert play.current == 70
    while not play.state.offences[0]:
        play.tick(1, heuristic=100, bad=100, total=1000)
    assert play.state.leash[0] == pytest.approx(0.15)


def test_latency_far_above_its_limit_for_two_ticks_takes_the_larger_until_20_good_ticks():
    play = Play(plain_guard(), current=10)
    assert play.tick(8, heuristic=12, latency_ratio=2.1) == 12  # strained
    assert acts(play)
    assert play.tick(20, heuristic=12, latency_ratio=2.1) == 20
    assert reason(play) is Reason.RECOVERING
    for _ in range(10):
        play.tick(8, heuristic=12, latency_ratio=0.5)
    assert play.current == 12 and "10 of 20 good ticks" in play.said()
    play.tick(8, heuristic=12, latency_ratio=1.1)  # not good: from the beginning
    for _ in range(19):
        play.tick(8, heuristic=12, latency_ratio=0.5)
    assert reason(play) is Reason.RECOVERING
    play.tick(8, heuristic=12)  # nothing is known of this one: neither good nor bad
    assert reason(play) is Reason.RECOVERING
    play.tick(8, heuristic=12, latency_ratio=0.5)
    assert acts(play) and play.current == 8


def test_one_slow_tick_is_no_trouble():
    play = Play(plain_guard(), current=10)
    for ratio in (2.1, 1.9, 2.1, 1.9):
        play.tick(15, heuristic=12, latency_ratio=ratio)
        assert acts(play)


def test_a_budget_that_burns_too_fast_in_both_windows_is_trouble():
    """All requests fail: the burn is 100 * n / 240 in the long window, above 14.4 from the 35th tick on.

    Then all are well: the short window of 20 ticks is at 100 * (20 - m) / 20, not above 14.4 from the 18th
    good tick on; that is the first of 20 without trouble, so it is over with the 37th.
    """
    play = Play(plain_guard(), current=10)
    for tick in range(1, 36):
        play.tick(10, heuristic=10, bad=100, total=100)
        assert acts(play) == (tick < 35)
    assert "budget burns 14.6 times too fast" in play.said()
    for tick in range(1, 38):
        play.tick(10, heuristic=10, bad=0, total=100)
        assert acts(play) == (tick == 37)


def test_a_burn_is_weighed_by_requests():
    """Half of the ticks with 1000 requests, all failing, and half with 10, none failing: nearly all fail."""
    guard = plain_guard(recovery=Recovery(burn_window_s=300, burn_short_s=300))
    play = Play(guard, current=10)
    for tick in range(20):
        play.tick(10, heuristic=10, bad=1000 * (tick % 2), total=1000 if tick % 2 else 10)
    assert play.guarded is not None
    assert play.guarded.moment.judgement.burn[0] == pytest.approx(100 * 10_000 / 10_100)


def test_stale_evidence_is_no_evidence():
    play = Play(plain_guard(), current=10)
    for _ in range(3):
        play.tick(10, heuristic=10, latency_ratio=9.0, bad=100, total=100, data_age_s=46)
    assert not play.state.recovering[0] and not play.state.bad.any()


def test_a_damaged_state_is_refused():
    settings = plain_guard().settings
    saved = fresh_state(settings, 2)._asdict()
    del saved["leash"]
    with pytest.raises(BundleError, match="leash is missing; begin afresh"):
        state_from_arrays(settings, saved)
    with pytest.raises(BundleError, match="colour is unknown; begin afresh"):
        state_from_arrays(settings, {**fresh_state(settings, 2)._asdict(), "colour": np.zeros(2)})


@pytest.mark.parametrize(
    ("name", "value"),
    [("leash", np.nan), ("asked", np.inf), ("action", np.inf), ("suspended", np.nan), ("tick", 0.5)],
)
def test_a_state_with_a_number_that_is_none_is_refused(name, value):
    """With a leash of NaN the guard let NaN replicas through."""
    settings = plain_guard().settings
    saved = fresh_state(settings, 2)._asdict()
    damaged = np.full(saved[name].shape, value)
    with pytest.raises(BundleError, match=f"{name} has a value that is no such number; begin afresh"):
        state_from_arrays(settings, {**saved, name: damaged})
    with pytest.raises(BundleError, match=f"{name} has a value that is no such number; begin afresh"):
        state_from_arrays(settings, {**saved, name: np.full(saved[name].shape, "many")})
