"""Rings of steps: order, evenness, windows in time, shares of several sources."""

import numpy as np
import pytest

from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.learning.replay import Layout, Replay, Source, Steps, drawn_rows, drawn_windows

LAYOUT = Layout(observation=2, actions=1, privileged=1)


def step(time, lanes=3, renewed=0.0):
    """A step whose observation is (time, lane)."""
    seen = np.stack([np.full(lanes, time), np.arange(lanes)], axis=1)
    one = np.ones((lanes, 1))
    return LAYOUT.joined(
        Steps(seen, one, 10 * one, 0 * one, renewed * one, seen + [1, 0], 0 * one, -one, one, 7 * one)
    )


def filled(steps, lanes=3, capacity=10**6, renewed_at=()):
    replay = Replay(LAYOUT, lanes=lanes, capacity=capacity)
    for time in range(steps):
        replay.add(step(time, lanes, float(time in renewed_at)))
    return replay


def test_rows_and_fields_are_the_same_numbers() -> None:
    rows = step(5)
    fields = LAYOUT.split(rows)
    assert fields.observation.tolist() == [[5, 0], [5, 1], [5, 2]]
    assert fields.next_observation[:, 0].tolist() == [6, 6, 6]
    assert [fields.action[0, 0], fields.reward[0, 0], fields.guide[0, 0], fields.privileged[0, 0]] == [
        1,
        10,
        -1,
        7,
    ]
    assert (LAYOUT.joined(fields) == rows).all()
    # The token is observation, action, reward, ended; whether the system is another comes next.
    assert rows[0, : LAYOUT.token].tolist() == [5, 0, 1, 10, 0]
    with pytest.raises(TrimtabError, match="reward of a step has 2 numbers where 1 belong"):
        LAYOUT.joined(fields._replace(reward=np.zeros((3, 2))))


def test_a_full_ring_overwrites_its_oldest_steps() -> None:
    replay = filled(7, capacity=13)  # 4 whole steps of 3 lanes
    assert (len(replay), replay.steps) == (12, 4)
    assert replay.in_order()[:, :, 0].tolist() == [[time] * 3 for time in (3, 4, 5, 6)]


def test_every_step_is_drawn_about_as_often_as_any_other() -> None:
    """24 steps, 48,000 draws: 2,000 each, with a deviation of sqrt(2,000) = 45."""
    replay = filled(11, capacity=24)
    rows = replay.rows(np.random.default_rng(0), (8, 6000))
    assert rows.shape == (8, 6000, LAYOUT.columns)
    times, lanes = rows[..., 0].ravel().astype(int), rows[..., 1].ravel().astype(int)
    counts = np.bincount(3 * (times - 3) + lanes, minlength=24)
    assert len(counts) == 24 and abs(counts - 2000).max() < 5 * 45


def test_windows_follow_time_within_a_lane_also_across_the_seam_of_the_ring() -> None:
    replay = filled(11, capacity=24)
    drawn = replay.windows(np.random.default_rng(0), (5, 40), before=3, trained=2)
    assert drawn.past.shape == (5, 5, 40, LAYOUT.token + 2)
    assert drawn.rows.shape == (5, 2, 40, LAYOUT.columns)
    times, real = drawn.past[..., 0], drawn.past[..., -1]
    newest = times[:, -1:]
    offsets = np.arange(-4, 1)[:, None]
    assert (times == np.where(real == 1, newest + offsets, 0)).all()
    # Nothing older than step 3 is left; before it there is nothing real, and nothing else.
    assert ((newest + offsets >= 3) == (real == 1)).all()
    assert not drawn.past[real == 0].any()
    assert (drawn.rows[..., 0] == times[:, 3:]).all()
    lanes = drawn.past[..., 1]
    assert ((lanes == lanes[:, -1:]) | (real == 0)).all()
    # Windows begin evenly: 7 places.
    begins = np.bincount(
        replay.windows(np.random.default_rng(1), (7000,), before=1, trained=2).rows[0, :, 0].astype(int)
    )
    assert abs(begins[3:] - 1000).max() < 5 * 32 and not begins[:3].any()


def test_a_cut_marks_the_last_step_of_every_lane() -> None:
    replay = filled(4, renewed_at=[1])
    replay.cut()
    assert LAYOUT.split(replay.in_order()).renewed[:, 0, 0].tolist() == [0, 1, 0, 1]
    Replay(LAYOUT, lanes=1, capacity=1).cut()  # nothing there, nothing to mark


def test_lanes_can_be_drawn_from_apart() -> None:
    replay, random = filled(5), np.random.default_rng(0)
    assert set(replay.rows(random, (100,), slice(1, 2))[:, 1]) == {1}
    windows = replay.windows(random, (50,), before=1, trained=2, lanes=slice(1, 3))
    assert set(windows.rows[..., 1].ravel()) == {1, 2}


def test_sources_get_their_shares() -> None:
    log, own = filled(5), filled(8)
    own_rows = own.in_order()
    own_rows[..., 0] += 100
    own.take({"replay/rows": own_rows})
    random = np.random.default_rng(0)
    drawn = drawn_rows([Source(log, 0.25), Source(own, 0.75)], random, (4, 16))
    assert ((drawn[..., 0] < 100).sum(axis=1) == 4).all()
    windows = drawn_windows([Source(log, 0.5), Source(own, 0.5)], random, (4, 6), before=2, trained=1)
    assert ((windows.rows[:, 0, :, 0] < 100).sum(axis=1) == 3).all()
    only = drawn_rows([Source(log, 0.0), Source(own, 1.0)], random, (4, 16))
    assert (only[..., 0] >= 100).all()
    # Thirds of ten are 3, 4 and 3.
    three = drawn_rows([Source(log, 1), Source(own, 1), Source(log, 1)], random, (10,))
    assert (three[:, 0] >= 100).tolist() == [False] * 3 + [True] * 4 + [False] * 3


def test_what_was_kept_is_drawn_as_before() -> None:
    replay = filled(11, capacity=24)
    again = Replay(LAYOUT, lanes=3, capacity=24)
    again.take(replay.tensors())
    one, other = (
        kept.windows(np.random.default_rng(4), (9,), before=2, trained=3).rows for kept in (replay, again)
    )
    assert (one == other).all()
    again.add(step(11))
    assert again.in_order()[:, 0, 0].tolist() == list(range(4, 12))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SettingsError, match="a replay of 2 steps for 3 environments; raise capacity"):
        Replay(LAYOUT, lanes=3, capacity=2)
    with pytest.raises(TrimtabError, match=r"a log of shape \[4, 3, 5\] where \[time, lanes, 12\] belongs"):
        Replay.of(LAYOUT, np.zeros((4, 3, 5)))
    with pytest.raises(TrimtabError, match="made by another task or other settings"):
        filled(1, lanes=2).take(filled(1).tensors())
    with pytest.raises(TrimtabError, match="windows of 3 steps from a replay of 2; collect more"):
        filled(2).windows(np.random.default_rng(0), (1,), before=1, trained=3)
