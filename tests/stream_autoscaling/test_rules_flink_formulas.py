"""The port of the Flink operator's autoscaler: every default, every formula, by hand-computed vectors."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph

from trimtab.stream_autoscaling.heuristics.flink import flink
from trimtab.stream_autoscaling.heuristics.flink.alignment import (
    BALANCED,
    EVENLY_SPREAD,
    LEGACY_EVENLY_SPREAD,
    LEGACY_MAXIMISE,
    OFF,
    aligned,
)
from trimtab.stream_autoscaling.heuristics.flink.formulas import (
    busiest_subtask,
    capacity_needed,
    chosen_rate,
    edge_ratios,
    mean_observed,
    observed_rate,
    scalability,
    scale_factor,
    scaled_parallelism,
    true_rate,
)
from trimtab.stream_autoscaling.heuristics.flink.memory import DelayedScaleDown, ScalingHistory

INFINITE, UNKNOWN = np.inf, np.nan


def row(*values: float) -> np.ndarray:
    return np.array([values], float)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", 0.7),  # utilization.target
        ("boundary", 0.3),  # target.utilization.boundary
        ("highest", -1),  # utilization.max: none
        ("lowest", -1),  # utilization.min: none
        ("window_s", 15 * 60),  # metrics.window
        ("stabilisation_s", 5 * 60),  # stabilization.interval
        ("down_interval_s", 60 * 60),  # scale-down.interval
        ("down_factor", 0.6),  # scale-down.max-factor
        ("up_factor", 100_000),  # scale-up.max-factor
        ("least", 1),  # vertex.min-parallelism
        ("most", 200),  # vertex.max-parallelism
        ("catch_up_s", 30 * 60),  # catch-up.duration
        ("restart_s", 5 * 60),  # restart.time
        ("restart_tracked", 0),  # restart.time-tracking.enabled
        ("restart_limit_s", 15 * 60),  # restart.time-tracking.limit
        ("backlog_s", 5 * 60),  # backlog-processing.lag-threshold
        ("observe_lag_s", 30),  # observed-true-processing-rate.lag-threshold
        ("observe_switch", 0.15),  # observed-true-processing-rate.switch-threshold
        ("observations", 2),  # observed-true-processing-rate.min-observations
        ("busiest", 1),  # metrics.busy-time.aggregator: MAX
        ("alignment", 1),  # scaling.parallelism-alignment.mode: BALANCED
        ("effectiveness", 0),  # scaling.effectiveness.detection.enabled
        ("effect", 0.1),  # scaling.effectiveness.threshold
        ("scalability", 0),  # observed-scalability.enabled
        ("scalability_least", 0.5),  # observed-scalability.coefficient-min
        ("scalability_seen", 3),  # observed-scalability.min-observations
        ("history", 3),  # history.max.count
        ("history_s", 24 * 60 * 60),  # history.max.age
    ],
)
def test_defaults(name: str, value: float) -> None:
    assert flink().values[name] == value


def test_there_is_no_other_option() -> None:
    assert len(flink().parameters) == 28


# --- rates ---------------------------------------------------------------------------------------------


def test_the_true_rate() -> None:
    # 800/s at 40 % busy: 2000/s. Nothing in: infinite. No busy time though something came: infinite too.
    assert true_rate(row(800, 0, 5, UNKNOWN), row(0.4, 0.9, 0.0, 0.5))[0, :3].tolist() == [
        2000,
        INFINITE,
        INFINITE,
    ]
    assert np.isnan(true_rate(row(UNKNOWN, 1), row(0.5, UNKNOWN))).all()


def test_the_busiest_subtask_as_far_as_key_groups_tell() -> None:
    busy, parallelism, groups = (
        row(0.5, 0.5, 0.5, 0.9),
        np.array([[4, 4, 50, 3]]),
        np.array([[0, 128, 128, 4]]),
    )
    # Not keyed: the mean. 128 / 4 is even: the mean. 3 * 50 / 128 = 1.171875. 2 * 3 / 4 = 1.5, yet 1 at most.
    assert busiest_subtask(busy, parallelism, groups).tolist() == [[0.5, 0.5, 0.5859375, 1.0]]


def test_the_observed_rate_needs_thirty_seconds_of_lag() -> None:
    rates = observed_rate(
        row(100, 100, 100, 0, 100), row(3000, 2999, 3000, 0, 9000), row(0.2, 0.2, 0.0, 0.5, 1.0), lag_s=30
    )[0]
    # 3000 = 30 s * 100/s: 100 / (1 - 0.2) = 125. One record less does not count. Always held up: unknown.
    assert rates[[0, 2, 3]].tolist() == [125.0, 100.0, INFINITE]
    assert np.isnan(rates[[1, 4]]).all()


def test_the_mean_of_what_was_observed() -> None:
    observed = np.array(
        [
            [100.0, 100.0, INFINITE, UNKNOWN, INFINITE],
            [140.0, UNKNOWN, UNKNOWN, UNKNOWN, 80.0],
            [UNKNOWN, INFINITE, INFINITE, UNKNOWN, 120.0],
        ]
    )
    found = mean_observed(observed, at_least=2)
    assert found[[0, 2, 4]].tolist() == [120.0, INFINITE, 100.0]
    assert np.isnan(found[[1, 3]]).all()


def test_the_observed_rate_is_taken_if_busy_time_promises_15_percent_more() -> None:
    by_busy_time = row(116, 114, 60, INFINITE, UNKNOWN, 300, INFINITE)
    observed = row(100, 100, 100, 100, 100, UNKNOWN, UNKNOWN)
    assert chosen_rate(by_busy_time, observed, switch=0.15)[0].tolist() == [
        100,
        114,
        60,
        100,
        100,
        300,
        INFINITE,
    ]


# --- what flows along edges ----------------------------------------------------------------------------


def test_a_vertex_with_one_input_tells_the_rate_of_its_edge() -> None:
    graph = chain_graph(3, edges={(0, 1): 1.0, (0, 2): 1.0})
    ratios = edge_ratios(row(200, 100, 500), row(999, 0, 0), graph)[0]
    assert (ratios[0, 1], ratios[0, 2]) == (0.5, 2.5)


def test_with_several_inputs_the_others_are_subtracted() -> None:
    graph = chain_graph(3, edges={(0, 2): 1.0, (1, 2): 1.0})
    ratios = edge_ratios(row(100, 200, 500), row(120, 400, 0), graph)[0]
    # 500 arrive, 400 of them from vertex 1: (500 - 400) / 100 = 1; and (500 - 120) / 200 = 1.9.
    assert (ratios[0, 2], ratios[1, 2]) == (1.0, 1.9)


def test_where_the_others_send_more_than_arrives_nothing_is_left() -> None:
    graph = chain_graph(3, edges={(0, 2): 1.0, (1, 2): 1.0})
    ratios = edge_ratios(row(100, 200, 390), row(120, 400, 0), graph)[0]
    # 400 of 390 come from vertex 1 (some are still on their way): none from 0, and (390 - 120) / 200 = 1.35.
    assert (ratios[0, 2], ratios[1, 2]) == (0.0, 1.35)


def test_where_another_input_branches_all_that_is_sent_is_taken() -> None:
    graph = chain_graph(4, edges={(0, 2): 1.0, (1, 2): 1.0, (1, 3): 1.0})
    ratios = edge_ratios(row(100, 200, 500, 50), row(120, 400, 0, 0), graph)[0]
    # For 0 -> 2 the other input sends elsewhere too: 120 / 100. For 1 -> 2 it does not: (500 - 120) / 200.
    assert (ratios[0, 2], ratios[1, 2], ratios[1, 3]) == (1.2, 1.9, 0.25)


def test_without_input_the_ratio_is_zero_and_without_metrics_unknown() -> None:
    graph = chain_graph(3)
    ratios = edge_ratios(row(0, 40, UNKNOWN), row(10, 10, UNKNOWN), graph)[0]
    assert ratios[0, 1] == 0.0
    assert np.isnan(ratios[1, 2])
    assert np.isnan(edge_ratios(row(UNKNOWN, 5, 5), row(1, 1, 1), graph)[0, 0, 1])


# --- capacity ------------------------------------------------------------------------------------------


def test_the_capacity_that_is_needed() -> None:
    # 1000/s at 70 %: 1428.57; a restart of 300 s, caught up with in 1800 s: 166.67; a backlog of 90,000
    # records in 1800 s: 50. Together 1645.24, rounded 1645; without the restart 1478.57, rounded 1479.
    rate, backlog = row(1000), row(90_000 / 1800)
    assert capacity_needed(rate, backlog, 0.7, restart_s=300, catch_up_s=1800).tolist() == [[1645.0]]
    assert capacity_needed(rate, backlog, 0.7, restart_s=0, catch_up_s=1800).tolist() == [[1479.0]]


def test_utilisation_is_taken_between_0_and_1() -> None:
    for high in (1.0, 1.3):
        assert capacity_needed(row(1000), row(0), high, restart_s=0, catch_up_s=1800).tolist() == [[1000.0]]
    for low in (0.0, -0.2):
        assert capacity_needed(row(1000), row(0), low, restart_s=300, catch_up_s=1800).tolist() == [
            [INFINITE]
        ]
    # Catching up is switched off: nothing but the rate at utilisation counts.
    assert capacity_needed(row(1000), row(0), 0.5, restart_s=300, catch_up_s=0).tolist() == [[2000.0]]
    assert np.isnan(capacity_needed(row(UNKNOWN), row(0), 0.0, restart_s=0, catch_up_s=1800)).all()


# --- the new parallelism -------------------------------------------------------------------------------


def test_the_scale_factor_is_limited_downwards_and_upwards() -> None:
    capacity, rate = row(150, 30, 1e9, 10, UNKNOWN, 10), row(100, 100, 100, INFINITE, 100, UNKNOWN)
    factor = scale_factor(capacity, rate, 1.0, down_factor=0.6, up_factor=2.0)[0]
    assert factor[:4].tolist() == pytest.approx([1.5, 0.4, 3.0, 0.4])
    assert np.isnan(factor[4:]).all()
    # 150 / 100 / 0.75: what scales less than linearly needs more.
    assert scale_factor(row(150), row(100), 0.75, down_factor=0.6, up_factor=2.0)[0, 0] == pytest.approx(2.0)


def test_parallelism_is_rounded_up_within_the_limits() -> None:
    current = np.array([[10, 10, 250, 10, 4, 4]])
    limit = np.array([[128, 128, 1000, 8, 128, 128]])
    factor = row(1.01, 0.4, 1.5, 2.0, 100.0, UNKNOWN)
    wanted, lower, upper = scaled_parallelism(factor, current, limit, least=5, most=200)
    # ceil(10.1) = 11; 4, but 5 at least; 375, but it has 250 already and 200 is the most: 250; 20, but the
    # limit is 8; 400, but 128; unknown: as it is.
    assert wanted.tolist() == [[11, 5, 250, 8, 128, 4]]
    assert lower.tolist() == [[5, 5, 5, 5, 4, 4]]
    assert upper.tolist() == [[128, 128, 250, 8, 128, 128]]


@pytest.mark.parametrize(
    ("mode", "current", "target", "groups", "upper", "expected"),
    [
        # Up: the first above the target that divides 128 is 64; 128 // 43 = 2 is less than 128 // 40 = 3.
        (OFF, 10, 40, 128, 128, 40),
        (EVENLY_SPREAD, 10, 40, 128, 128, 64),
        (BALANCED, 10, 40, 128, 128, 43),
        (LEGACY_EVENLY_SPREAD, 10, 40, 128, 128, 64),
        (LEGACY_MAXIMISE, 10, 40, 128, 128, 43),
        # Up with a bound of 50 below the divisor: the target stands; older releases go down to the first
        # parallelism that fills no subtask more: 128 // 32 = 4 > 3, and 32 divides.
        (EVENLY_SPREAD, 10, 40, 128, 50, 40),
        (LEGACY_EVENLY_SPREAD, 10, 40, 128, 50, 32),
        # 128 // 18 = 7, 128 // 16 = 8 > 7 and 16 divides: 16; but from 17 that would be down, so it stays.
        (LEGACY_EVENLY_SPREAD, 17, 18, 128, 20, 17),
        # 100 // 30 = 3, 100 // 25 = 4 > 3 and 25 divides.
        (LEGACY_EVENLY_SPREAD, 4, 30, 100, 40, 25),
        # 90 // 35 = 2, 90 // 30 = 3 > 2: 30 divides.
        (LEGACY_EVENLY_SPREAD, 4, 35, 90, 40, 30),
        # 97 // 40 = 2, 97 // 32 = 3 > 2 and 32 does not divide: 33.
        (LEGACY_MAXIMISE, 4, 40, 97, 45, 33),
        # Down: searched from the target up to what there is.
        (EVENLY_SPREAD, 64, 20, 128, 128, 32),
        (BALANCED, 64, 20, 128, 128, 22),  # 128 // 22 = 5 < 128 // 20 = 6
        (EVENLY_SPREAD, 64, 40, 128, 128, 64),  # only what there is divides: no scale-down
        (EVENLY_SPREAD, 60, 40, 128, 128, 40),  # not even that: the target stands
        (LEGACY_EVENLY_SPREAD, 60, 40, 128, 128, 32),
        # To the least: 1 divides everything.
        (EVENLY_SPREAD, 5, 1, 7, 128, 1),
        # More subtasks than groups are never searched; not keyed, or no change: as wanted.
        (BALANCED, 3, 5, 6, 128, 6),
        (BALANCED, 3, 5, 0, 128, 5),
        (LEGACY_EVENLY_SPREAD, 5, 5, 7, 128, 5),
    ],
)
def test_alignment(mode: int, current: int, target: int, groups: int, upper: int, expected: int) -> None:
    one = [np.array([[value]]) for value in (current, target, groups, 1, upper)]
    assert aligned(*one, mode).tolist() == [[expected]]


def test_many_vertices_are_aligned_as_each_alone() -> None:
    random = np.random.default_rng(3)
    groups = random.integers(0, 200, (20, 30))
    current, target = (random.integers(1, np.maximum(groups, 2)) for _ in range(2))
    lower, upper = (
        np.ones_like(groups),
        np.maximum(np.maximum(current, target), random.integers(1, 200, groups.shape)),
    )
    for mode in range(5):
        together = aligned(current, target, groups, lower, upper, mode)
        for place in np.ndindex(groups.shape):
            parts = (current, target, groups, lower, upper)
            alone = by_the_book(*(int(part[place]) for part in parts), mode)
            assert together[place] == alone, (mode, *(int(part[place]) for part in parts))


def by_the_book(current: int, target: int, groups: int, lower: int, upper: int, mode: int) -> int:
    """The published search as plain loops."""
    if mode == OFF or groups == 0 or target == current:
        return target
    end = min(groups, upper)
    if target < current:
        end = min(current, end)
    for tried in range(target, end + 1):
        fewer = mode in (BALANCED, LEGACY_MAXIMISE) and groups // tried < groups // target
        if groups % tried == 0 or fewer:
            return tried
    if mode in (BALANCED, EVENLY_SPREAD):
        return target
    tried = target
    while tried > 0 and groups // tried <= groups // target:
        tried -= 1
    if tried > 0 and groups % tried:
        tried += 1
    tried = max(tried, lower)
    turned = tried <= current if target > current else tried >= current
    return current if turned else tried


def test_observed_scalability() -> None:
    parallelism = np.array([[UNKNOWN, 2.0], [2.0, 4.0], [4.0, 8.0]])
    rate = np.array([[UNKNOWN, 200.0], [200.0, 360.0], [360.0, 640.0]])
    # Base 200 / 2 = 100 a subtask. Sum of P * R: 400 + 1440 + 5120 = 6960, of P * P: 84;
    # 6960 / 8400 = 0.8286, rounded up 0.83. Two rescales are too few.
    assert scalability(parallelism, rate, at_least=3, lowest=0.5).tolist() == [1.0, 0.83]
    # 1840 / (100 * 20) = 0.92.
    assert scalability(parallelism, rate, at_least=2, lowest=0.5).tolist() == [0.92, 0.83]
    assert scalability(parallelism, rate, at_least=3, lowest=0.9).tolist() == [1.0, 0.9]
    better = rate * np.array([[1.0], [2.0], [3.0]])
    assert scalability(parallelism, better, at_least=3, lowest=0.5).tolist() == [1.0, 1.0]
    unknown = rate.copy()
    unknown[1, 1] = UNKNOWN
    assert scalability(parallelism, unknown, at_least=3, lowest=0.5).tolist() == [1.0, 1.0]


# --- memory --------------------------------------------------------------------------------------------


def whole(*values: int) -> np.ndarray:
    return np.array([values], np.int64)


def flags(*values: bool) -> np.ndarray:
    return np.array([values], bool)


def test_a_scale_down_waits_and_takes_the_largest_recommendation() -> None:
    delayed = DelayedScaleDown((1, 1), wait_s=180.0, interval_s=60.0)
    done = []
    for minute, wanted in enumerate([5, 7, 4, 4, 4, 3, 3]):
        result, outside = delayed.apply(
            whole(wanted), flags(True), whole(10), flags(True), np.array([60.0 * minute])
        )
        done.append((int(result[0, 0]), bool(outside[0, 0])))
    # From minute 3 on it may be done; 7 (minute 1) is the largest until minute 4, then 4 until minute 7.
    assert done == [(10, False)] * 3 + [(7, True), (7, True), (4, True), (4, True)]


def test_staying_or_scaling_up_ends_the_waiting() -> None:
    delayed = DelayedScaleDown((1, 2), wait_s=120.0, interval_s=60.0)
    wanted = [whole(5, 5), whole(5, 12), whole(5, 5), whole(10, 5), whole(5, 5)]
    done = [
        delayed.apply(now, flags(True, True), whole(10, 10), flags(True, True), np.array([60.0 * minute]))[0][
            0
        ].tolist()
        for minute, now in enumerate(wanted)
    ]
    # The first vertex may go at minute 2, stays at 3, waits anew; the second goes up at 1, may go down at 4.
    assert done == [[10, 10], [10, 12], [5, 10], [10, 10], [10, 5]]


def test_a_vertex_nobody_judges_goes_on_waiting() -> None:
    delayed = DelayedScaleDown((1, 1), wait_s=120.0, interval_s=60.0)
    done = [
        int(
            delayed.apply(whole(5 if known else 10), flags(True), whole(10), flags(known), np.array([now]))[
                0
            ][0, 0]
        )
        for known, now in ((True, 0.0), (False, 60.0), (True, 120.0))
    ]
    assert done == [10, 10, 5]


def test_whether_it_was_out_of_its_band_goes_with_the_largest_recommendation() -> None:
    delayed = DelayedScaleDown((1, 1), wait_s=120.0, interval_s=60.0)
    for minute, (wanted, outside) in enumerate([(7, False), (7, True), (5, False)]):
        result = delayed.apply(
            whole(wanted), flags(outside), whole(10), flags(True), np.array([60.0 * minute])
        )
    assert (int(result[0][0, 0]), bool(result[1][0, 0])) == (7, True)  # of two equal ones the later counts


def test_without_waiting_a_scale_down_is_done_at_once() -> None:
    delayed = DelayedScaleDown((1, 1), wait_s=0.0, interval_s=60.0)
    result, outside = delayed.apply(whole(5), flags(True), whole(10), flags(True), np.array([0.0]))
    assert (int(result[0, 0]), bool(outside[0, 0])) == (5, True)


@pytest.mark.parametrize(
    ("rate_now", "ineffective"),
    [
        (109.0, True),  # 9 of 100 gained
        (110.0, False),  # 10 of 100
        (90.0, True),
        (INFINITE, False),
    ],
)
def test_a_scale_up_in_vain(rate_now: float, ineffective: bool) -> None:
    history = ScalingHistory((1, 1), count=3, age_s=1000.0)
    assert not history.ineffective(whole(4), row(rate_now), threshold=0.1)[0, 0]
    history.add(flags(True), whole(2), whole(4), row(100), row(200), np.array([0.0]))
    assert history.ineffective(whole(4), row(rate_now), threshold=0.1)[0, 0] == ineffective
    assert not history.ineffective(whole(5), row(rate_now), threshold=0.1)[0, 0]  # not what it was scaled to
    history.trim(np.array([False]), np.array([1001.0]))
    assert not history.ineffective(whole(4), row(rate_now), threshold=0.1)[0, 0]  # too long ago


def test_the_last_three_rescales_are_remembered() -> None:
    history = ScalingHistory((1, 2), count=3, age_s=1e9)
    for step in range(4):
        history.add(
            flags(True, step == 1),
            whole(step, step),
            whole(step + 1, step + 1),
            row(1, 1),
            row(2, 2),
            np.array([step]),
        )
    assert history.before[:, 0, 0].tolist() == [1, 2, 3]
    assert history.before[2, 0, 1] == 1 and np.isnan(history.before[:2, 0, 1]).all()
