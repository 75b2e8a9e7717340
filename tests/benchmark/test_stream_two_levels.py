"""Plans of two levels: sized for what comes before and after, and played with as many restarts."""

from __future__ import annotations

import numpy as np
from benchmarks.stream_two_levels import FACTORS, Plan, grid, levels, played

from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import enough_parallelism
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

JOB = make_job("linear:2")
LOW, HIGH = 2 * JOB.usual_rate, 8 * JOB.usual_rate
DAY = RateTrace(np.repeat([LOW, HIGH], 120), 60.0, Provenance("two hours low, two high"))


def test_levels_are_enough_for_the_highest_half_hour_of_each_part() -> None:
    before, after = levels(Plan(1, 1.5, 2.0), JOB, DAY)
    assert before.tolist() == enough_parallelism(JOB, 1.5 * LOW, utilisation=1.0).tolist()
    assert after.tolist() == enough_parallelism(JOB, 2.0 * HIGH, utilisation=1.0).tolist()
    one, same = levels(Plan(24, 1.0, 1.0), JOB, DAY)
    assert one.tolist() == same.tolist() == enough_parallelism(JOB, HIGH, utilisation=1.0).tolist()


def test_two_levels_cost_a_restart_more_and_fewer_slots_where_the_load_rises() -> None:
    one, two = Plan(24, 1.3, 1.3), Plan(1.75, 2.0, 1.3)
    found = played([one, two], JOB, DAY, 1, Deployment(substep_ms=3000))
    assert (found.rescales[1] - found.rescales[0]) == 1
    assert found.slot_hours[1] < found.slot_hours[0] and found.cost[1] < found.cost[0]
    assert (found.violation_share < 0.05).all()


def test_the_grid_begins_with_one_level() -> None:
    ones, twos = grid()[: len(FACTORS)], grid()[len(FACTORS) :]
    assert all(plan.before == plan.after and plan.hour == 24 for plan in ones)
    assert len(twos) == len(set(twos)) == 11 * len(FACTORS) ** 2
