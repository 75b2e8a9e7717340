"""What is told of a decision: jobs, machines and features, by hand on made-up scenes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene

from trimtab.gpu_scheduling import make_policy
from trimtab.gpu_scheduling.das.explaining import (
    candidates_of,
    displaceable_of,
    features_of,
    first_waiting,
    influences_of,
    machines_for,
    opinion_of,
)
from trimtab.gpu_scheduling.das.scoring import (
    JOB_FEATURES,
    MACHINE_FEATURES,
    MOODS,
    ScoredRule,
    learned_order,
    learned_place,
    order_size,
)
from trimtab.gpu_scheduling.heuristics import disciplines
from trimtab.gpu_scheduling.problem import HOLD, Part, start


def scored(*, preemptive: bool = False, hidden: bool = True, **weights: float) -> ScoredRule:
    """Agents with these weights of job features on the straight path, and drawn numbers elsewhere."""
    order = np.zeros(order_size())
    if hidden:
        order[:] = np.random.default_rng(1).normal(0, 0.5, len(order))
    for name, weight in weights.items():
        order[JOB_FEATURES.index(name.replace("_", " "))] = weight
    place = np.random.default_rng(2).normal(0, 0.5, len(MOODS) * len(MACHINE_FEATURES))
    rule = disciplines.preemptive if preemptive else disciplines.backfill
    return ScoredRule(
        "mine",
        learned_order,
        learned_place,
        rule,
        numbers=(tuple(order.tolist()), tuple(place.tolist()), (0.0, 60.0)),
    )


class Stubborn:
    """A policy that is not a rule: it starts the last that waits on machine 1, or holds."""

    name = "stubborn"

    def decide(self, snapshot):
        return start(int(snapshot.pending[-1]), np.array([1, 0])) if len(snapshot.pending) else HOLD


def busy_scene() -> Scene:
    """Machine 0 has 1 GPU left, machine 1 all 4; gangs of 1, 4 and 6 wait, for an hour, 10 minutes, none."""
    scene = Scene([4, 4], speeds=[1.0, 0.7], contention=0.2, now_ms=HOUR)
    scene.runs({0: 3}, started_ms=MINUTE)
    scene.waits(gpus=1, arrival_ms=0)
    scene.waits(gpus=4, arrival_ms=50 * MINUTE, expected_ms=2.0 * HOUR, sensitivity=1500)
    scene.waits(gpus=6, arrival_ms=HOUR, communication=0.08)
    return scene


# --- jobs ----------------------------------------------------------------------------------------


def test_jobs_that_wait_are_told_in_the_order_of_the_rule() -> None:
    found = candidates_of(make_policy("largest"), busy_scene().snapshot())
    assert [(one.job, one.gpus, one.priority) for one in found] == [
        (3, 6.0, -6000.0), (2, 4.0, -4000.0), (1, 1.0, -1000.0),
    ]  # fmt: skip
    assert [(one.room, one.fits) for one in found] == [(5, False), (4, True), (1, True)]
    assert [one.waited_ms for one in found] == [0, 10 * MINUTE, HOUR]
    assert [one.expected_ms for one in found] == [None, 2 * HOUR, None]


def test_of_any_other_policy_they_are_told_as_they_came_and_without_priority() -> None:
    found = candidates_of(Stubborn(), busy_scene().snapshot())
    assert [(one.job, one.priority) for one in found] == [(1, None), (2, None), (3, None)]
    assert first_waiting(Stubborn(), busy_scene().snapshot()) is None
    assert displaceable_of(Stubborn(), busy_scene().snapshot()) == []


def test_a_rule_may_stop_those_that_ran_long_enough_and_come_late_enough() -> None:
    """By GPU time attained: the first that waits has had 60 GPU-minutes, so a margin of a half ends at 90."""
    scene = Scene([4, 4], now_ms=10 * HOUR)
    scene.waits(gpus=4, attained_ms=15 * MINUTE)
    late = scene.runs({0: 2}, started_ms=9 * HOUR)  # 120 GPU-minutes
    later = scene.runs({1: 1, 0: 1}, started_ms=8 * HOUR)  # 240
    scene.runs({0: 1}, started_ms=9 * HOUR)  # 60: within the margin
    scene.runs({1: 2}, started_ms=10 * HOUR - 4 * MINUTE, attained_ms=9 * HOUR)  # not yet 5 minutes
    rule = make_policy("las+fast:margin=0.5,min_run_s=300")
    found = displaceable_of(rule, scene.snapshot())
    assert [one.slot for one in found] == [later, late]
    assert found[0].parts == (Part(1, 1), Part(0, 1))
    assert displaceable_of(make_policy("smallest+fast"), scene.snapshot()) == []


# --- what is done --------------------------------------------------------------------------------


def test_a_start_is_told_with_machines_and_the_speed_to_be_foreseen() -> None:
    """Job 2 fills machine 1, of 0.7 of the speed and with nobody on it."""
    scene = busy_scene()
    found = opinion_of(make_policy("largest+first-fit"), scene.snapshot())
    assert found.command is not None
    assert (found.command.verb, found.command.job_id) == ("start", 2)
    assert found.command.parts == (Part(0, 1), Part(1, 3))
    # Machine 0: load 3 of 4 GPUs, sensitivity 1.5, contention 0.2: 0.225 longer, still faster than 0.7.
    assert (found.rate, found.slowest, found.racks) == (pytest.approx(0.7), pytest.approx(0.7), 1)
    assert opinion_of(make_policy("fifo"), scene.snapshot()).command == ("start", 1, (Part(0, 1),))


def test_the_action_told_stays_as_it_is_when_another_is_asked() -> None:
    """Rules lend an array for their machines to whoever is asked next."""
    snapshot = busy_scene().snapshot()
    first = opinion_of(make_policy("fifo+first-fit"), snapshot)
    opinion_of(make_policy("fifo+worst-fit"), snapshot)
    assert first.action.machines.tolist() == [0]


def test_a_preemption_is_told_with_whom_it_is_for() -> None:
    scene = Scene([4], now_ms=10 * HOUR)
    victim = scene.runs({0: 4}, started_ms=0)
    waiting = scene.waits(gpus=2, arrival_ms=10 * HOUR)
    found = opinion_of(make_policy("las+fast"), scene.snapshot())
    assert found.command == ("preempt", victim, ())
    assert (found.in_favour_of, found.rate) == (waiting, None)


def test_a_move_is_for_nobody_but_the_job_itself() -> None:
    """It runs at half speed beside a fast machine that is free; who waits needs more than both have."""
    scene = Scene([4, 4], speeds=[0.5, 1.0], now_ms=10 * MINUTE)
    slow = scene.runs({0: 2}, rate=0.5)
    scene.waits(8)
    found = opinion_of(make_policy("fifo+fast+preemptive:move_gain=1.2"), scene.snapshot())
    assert found.command == ("preempt", slow, ())
    assert (found.moves, found.in_favour_of) == (True, None)


def test_a_rule_that_moves_jobs_may_still_make_room() -> None:
    scene = Scene([4], now_ms=10 * HOUR)
    scene.runs({0: 4}, started_ms=0)
    waiting = scene.waits(gpus=2, arrival_ms=10 * HOUR)
    found = opinion_of(make_policy("las+fast:move_gain=1.2"), scene.snapshot())
    assert (found.moves, found.in_favour_of) == (False, waiting)


def test_holding_has_no_command() -> None:
    scene = Scene([2])
    scene.runs({0: 2})
    scene.waits(gpus=1)
    assert opinion_of(make_policy("fifo"), scene.snapshot()).command is None


# --- machines ------------------------------------------------------------------------------------


def test_machines_of_the_fast_placement_by_hand() -> None:
    """Of job 1 (1 GPU, usual): 0.15 longer on machine 0, which counts twice, and no GPU is left there."""
    rule = make_policy("fifo+fast:neighbours=1,tightness=0.4")
    best, other = machines_for(rule, busy_scene().snapshot(), 1)
    assert (best.machine, best.free_gpus, best.left_gpus, best.room) == (0, 1, 0, 1)
    assert (best.speed, best.crowding) == (1.0, pytest.approx(0.15))
    assert best.parts == pytest.approx(
        {"speed": 1.0, "crowding": 1 / 1.3, "GPUs left free": 1.0, "speeds seen": 1.0}
    )
    assert other.parts == pytest.approx(
        {"speed": 0.7, "crowding": 1.0, "GPUs left free": 1 - 0.4 * 3 / 4, "speeds seen": 1.0}
    )
    assert [best.score, other.score] == pytest.approx([1 / 1.3, 0.7 * 0.7])


@pytest.mark.parametrize("rule", [make_policy("fifo+fast:trust=0.5,tightness=0.2"), scored()])
def test_a_score_is_the_product_of_its_parts_and_chooses_the_machine(rule) -> None:
    scene = busy_scene()
    scene.observed_speed[:], scene.observed[:] = [0.8, 1.1], [3.0, 5.0]
    snapshot = scene.snapshot()
    found = machines_for(rule, snapshot, 1)
    assert [one.score for one in found] == pytest.approx([math.prod(one.parts.values()) for one in found])
    count, _ = rule.placement(snapshot, 1, rule.table[1])
    assert snapshot.machine_order[:count].tolist() == [found[0].machine]


def test_placements_without_scores_tell_facts_alone() -> None:
    for policy in (make_policy("fifo+best-fit"), Stubborn()):
        found = machines_for(policy, busy_scene().snapshot(), 2)
        assert [(one.machine, one.room, one.score, one.parts) for one in found] == [
            (0, 1, None, {}),
            (1, 4, None, {}),
        ]


# --- features ------------------------------------------------------------------------------------


def test_on_a_straight_path_a_feature_moves_by_its_weight_times_the_difference() -> None:
    """Gangs of 1, 4 and 6: the first is log2(24) / 3 doublings below the mean."""
    rule = scored(hidden=False, gpus=2.0, sensitivity=3.0)
    found = influences_of(rule, busy_scene().snapshot(), 1, [1, 2, 3])
    moved = {one.feature: one.moved for one in found}
    assert [one.feature for one in found[:2]] == ["gpus", "sensitivity"]
    assert moved.pop("sensitivity") == pytest.approx(-3.0 * 0.5 / 3)
    assert moved.pop("gpus") == pytest.approx(-2.0 * math.log2(24) / 3 / 4)
    assert set(moved.values()) == {0.0}


def test_features_and_means_are_those_that_the_agent_sees() -> None:
    rule, snapshot = scored(), busy_scene().snapshot()
    found = {one.feature: one for one in influences_of(rule, snapshot, 2, [1, 2, 3])}
    assert {name: one.value for name, one in found.items()} == features_of(rule, snapshot, 2)
    means = np.mean([list(features_of(rule, snapshot, job).values()) for job in (1, 2, 3)], axis=0)
    assert [found[name].mean for name in JOB_FEATURES] == pytest.approx(means.tolist())


def test_what_is_the_same_for_all_moves_nothing_and_alone_nothing_does() -> None:
    rule, snapshot = scored(), busy_scene().snapshot()
    found = {one.feature: one.moved for one in influences_of(rule, snapshot, 2, [1, 2, 3])}
    assert found["jobs waiting"] == found["GPUs free"] == 0.0
    assert found["gpus"] != 0.0
    alone = influences_of(rule, snapshot, 2, [2])
    assert [one.moved for one in alone] == pytest.approx([0.0] * len(JOB_FEATURES))


def test_agents_that_may_stop_jobs_are_told_as_rules_are() -> None:
    """More GPUs go later, whether a job runs or waits."""
    rule = scored(preemptive=True, hidden=False, gpus=8.0)
    scene = Scene([4], now_ms=HOUR)
    victim = scene.runs({0: 3})
    favoured = scene.waits(gpus=2)
    snapshot = scene.snapshot()
    assert first_waiting(rule, snapshot) == favoured
    assert [one.slot for one in displaceable_of(rule, snapshot)] == [victim]
    found = opinion_of(rule, snapshot)
    assert (found.command, found.in_favour_of) == (("preempt", victim, ()), favoured)
