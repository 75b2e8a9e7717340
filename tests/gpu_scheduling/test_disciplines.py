"""What happens when the first job does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene, play
from tests.gpu_scheduling.test_placements import scenes

from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.policies import DISCIPLINES, ORDERS, compose, make_policy
from trimtab.gpu_scheduling.problem import PREEMPT, START, WAIT, Action, Snapshot, decode
from trimtab.gpu_scheduling.reference import reference_run
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import make_workload


def answer(scene: Scene, rule: str, values: dict[str, float] | None = None) -> tuple[int, int, list[int]]:
    snapshot = scene.snapshot()
    action = compose(rule).with_values(values or {}).decide(snapshot)
    decode(snapshot, action)
    return int(action.verb), int(action.job), action.machines.tolist()


HELD = (WAIT, -1, [])


def test_strict_waits_for_the_first() -> None:
    scene = Scene([4])
    scene.runs({0: 2})
    large, small = scene.waits(4), scene.waits(1)
    assert answer(scene, "fifo+strict") == HELD
    assert answer(scene, "largest+strict") == HELD
    assert answer(scene, "smallest+strict") == (START, small, [0])
    assert answer(scene, "fifo+backfill") == (START, small, [0])
    scene.stop(0)
    assert answer(scene, "fifo+strict") == answer(scene, "fifo+backfill") == (START, 0, [0])
    assert answer(scene, "largest+strict") == (START, large, [0])


def test_backfill_takes_the_first_that_fits() -> None:
    scene = Scene([4, 2])
    scene.runs({0: 3})
    scene.waits(4)
    two, one, other = scene.waits(2), scene.waits(1), scene.waits(1)
    assert answer(scene, "fifo+first-fit") == (START, two, [0, 1])
    assert answer(scene, "smallest+best-fit") == (START, one, [0])
    assert answer(scene, "largest+best-fit") == (START, two, [1])
    scene.unseen = 3  # the jobs before have been tried since anything was freed
    for rule in ("fifo", "smallest", "largest"):
        assert answer(scene, rule) == (START, other, [0])
    scene.unseen = 4
    assert answer(scene, "smallest") == answer(scene, "fifo") == answer(scene, "fifo+strict") == HELD


def test_patience_waits_for_a_place_good_enough() -> None:
    """Free are GPUs of a machine at half speed; the fast one is taken."""
    scene = Scene([4, 4], speeds=[1.0, 0.5])
    taken, first = scene.runs({0: 4}), scene.waits(2)
    assert answer(scene, "fifo+fast") == (START, first, [1])
    assert answer(scene, "fifo+fast+patient", {"least_speed": 0.6}) == HELD
    assert answer(scene, "fifo+fast+patient", {"least_speed": 0.5}) == (START, first, [1])
    # Long waits make modest: after 18 of 100 minutes of patience 0.6 has become 0.5.
    modest = {"least_speed": 0.6, "patience_h": 100 / 60}
    scene.now_ms += 17 * MINUTE
    assert answer(scene, "fifo+fast+patient", modest) == HELD
    scene.now_ms += 2 * MINUTE
    assert answer(scene, "fifo+fast+patient", modest) == (START, first, [1])
    scene.stop(taken)
    assert answer(scene, "largest+fast+patient", {"least_speed": 0.6}) == (START, taken, [0])


def test_who_may_stop_jobs_may_wait_for_a_good_place_too() -> None:
    scene = Scene([4, 4], speeds=[1.0, 0.5])
    scene.runs({0: 4})
    first = scene.waits(2)
    rule = "las+fast+preemptive"
    long = {"min_run_s": 1e6}  # nobody is displaced
    assert answer(scene, rule, long) == (START, first, [1])
    assert answer(scene, rule, {**long, "least_speed": 0.5}) == (START, first, [1])
    assert answer(scene, rule, {**long, "least_speed": 0.6}) == HELD
    # Who finds a place but will not have it does not displace others for another.
    assert answer(scene, "fifo+fast+preemptive", {"min_run_s": 1, "margin": 0, "least_speed": 0.6}) == HELD


def test_patience_never_stops_the_cluster() -> None:
    """Where nothing runs and nothing will come, any place is good enough."""
    scene = Scene([4, 4], speeds=[1.0, 0.5])
    gang = scene.waits(8)
    scene.more_to_come = False
    assert answer(scene, "fifo+fast+patient", {"least_speed": 0.9})[:2] == (START, gang)
    scene.more_to_come = True
    assert answer(scene, "fifo+fast+patient", {"least_speed": 0.9}) == HELD


@pytest.mark.parametrize("kept", ["strict", "backfill"])
@given(scene=scenes())
def test_the_quick_forms_for_the_order_of_arrival_decide_alike(kept: str, scene: Scene) -> None:
    arrivals = sorted(job.arrival_ms for job in scene.jobs if not job.parts)
    for job in scene.jobs:
        if not job.parts:
            job.arrival_ms = arrivals.pop(0)
    snapshot = scene.snapshot()
    quick = compose(f"fifo+{kept}")
    usual = Rule("usual", quick.order, quick.placement, DISCIPLINES[kept].function)
    assert quick.discipline is DISCIPLINES[kept].in_order is not usual.discipline
    first, second = quick.decide(snapshot), usual.decide(snapshot)
    assert (first.verb, first.job, first.machines.tolist()) == (
        second.verb,
        second.job,
        second.machines.tolist(),
    )


# --- reservations ----------------------------------------------------------------------------------------


def crowded() -> Scene:
    """Eight GPUs, six in use: four for another hour, two for half an hour; the first in line wants six."""
    scene = Scene([8])
    scene.runs({0: 4}, expected_ms=float(HOUR))
    scene.runs({0: 2}, expected_ms=float(HOUR // 2))
    scene.waits(6, expected_ms=float(HOUR))
    return scene


def test_easy_lets_pass_what_ends_in_time_or_leaves_room() -> None:
    scene = crowded()
    # At one hour all eight are free: six for the first, two left over. One that takes them may stay.
    long = scene.waits(2, expected_ms=10.0 * HOUR)
    assert answer(scene, "fifo+easy") == (START, long, [0])
    scene = Scene([8])
    scene.runs({0: 5}, expected_ms=float(HOUR))
    scene.waits(7, expected_ms=float(HOUR))
    scene.waits(
        2, expected_ms=HOUR + 1.0
    )  # would still run when the first could start, and takes two of eight
    short = scene.waits(2, expected_ms=float(HOUR))
    assert answer(scene, "fifo+easy") == (START, short, [0])
    assert answer(scene, "fifo+backfill") == (START, short - 1, [0])
    assert answer(scene, "fifo+conservative") == (START, short, [0])


def test_easy_counts_machine_by_machine() -> None:
    scene = Scene([4, 4])
    scene.runs({0: 2}, expected_ms=float(HOUR))
    scene.runs({1: 3}, expected_ms=2.0 * HOUR)
    scene.waits(gpu_milli=4000, expected_ms=float(HOUR))  # one instance of four GPUs: machine 0, in an hour
    scene.waits(2, expected_ms=3.0 * HOUR)  # best fit is machine 0
    other = scene.waits(1, expected_ms=3.0 * HOUR)  # best fit is machine 1
    assert answer(scene, "fifo+easy") == (START, other, [1])


def test_easy_lets_a_share_fill_up_a_broken_gpu() -> None:
    """Half of one GPU is free now; the first waits for the other GPU, whole in an hour."""
    scene = Scene([2])
    scene.runs({0: 1}, gpu_milli=500, expected_ms=10.0 * HOUR)
    scene.runs({0: 1}, expected_ms=float(HOUR))
    scene.waits(1, expected_ms=float(HOUR))
    half = scene.waits(1, gpu_milli=500, expected_ms=10.0 * HOUR)
    assert answer(scene, "fifo+easy") == (START, half, [0])


def test_conservative_reserves_no_time_that_is_cut_short() -> None:
    """All nine GPUs but one are the first's from 2 to 3 h, so the second cannot begin at 1 h, for three."""
    scene = Scene([9])
    scene.runs({0: 4}, expected_ms=float(HOUR))
    scene.runs({0: 4}, expected_ms=2.0 * HOUR)
    scene.waits(8, expected_ms=float(HOUR))
    scene.waits(4, expected_ms=3.0 * HOUR)
    single = scene.waits(1, expected_ms=10.0 * HOUR)
    assert answer(scene, "fifo+conservative") == (START, single, [0])


def test_conservative_heeds_the_second_too() -> None:
    scene = Scene([8])
    scene.runs({0: 4}, expected_ms=float(HOUR))
    scene.waits(8, expected_ms=float(HOUR))  # at 1 h, until 2 h
    scene.waits(6, expected_ms=float(HOUR))  # at 2 h, until 3 h
    # Three GPUs for two hours would be in the way of the first; for one hour they are in nobody's.
    late = scene.waits(3, expected_ms=2.0 * HOUR)
    assert answer(scene, "fifo+conservative") == answer(scene, "fifo+easy") == HELD
    scene.jobs[late].expected_ms = float(HOUR)
    assert answer(scene, "fifo+conservative") == answer(scene, "fifo+easy") == (START, late, [0])
    # A first that leaves room for three GPUs: the second is in the way of a job that stays.
    scene.jobs[1].instances = 5
    scene.jobs[late].expected_ms = 10.0 * HOUR
    assert answer(scene, "fifo+easy") == (START, late, [0])
    assert answer(scene, "fifo+conservative", {"depth": 1}) == (START, late, [0])
    assert answer(scene, "fifo+conservative", {"depth": 2}) == HELD


def test_reservations_without_durations_hold_nobody_back() -> None:
    scene = Scene([4])
    scene.runs({0: 3})
    scene.waits(2)
    small = scene.waits(1)
    assert answer(scene, "fifo+easy") == answer(scene, "fifo+conservative") == (START, small, [0])


class Watched:
    """A rule, and the time at which its first job could start by the jobs that ran when it came first."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.name = rule, rule.name
        self.reserved: dict[int, float] = {}

    def decide(self, snapshot: Snapshot) -> Action:
        head = int(snapshot.pending[0])
        self.reserved.setdefault(head, earliest_ms(snapshot, head))
        return self.rule.decide(snapshot)


def earliest_ms(snapshot: Snapshot, head: int) -> float:
    """When the head fits, if nobody else starts: free GPUs after each end, counted directly."""
    free = snapshot.free_gpus.copy()
    ends = sorted(
        (snapshot.started_ms[job] + snapshot.expected_ms[job], int(job)) for job in snapshot.running
    )
    each, needed = snapshot.gpu_milli[head] // 1000, snapshot.instances[head]
    if (free // each).sum() >= needed:
        return snapshot.now_ms
    for end_ms, job in ends:
        part = snapshot.first_part[job]
        while part != -1:
            gpus = snapshot.part_instances[part] * snapshot.gpu_milli[job] // 1000
            free[snapshot.part_machine[part]] += gpus
            part = snapshot.next_part[part]
        if (free // each).sum() >= needed:
            return float(end_ms)
    raise AssertionError("the head never fits")


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[int, dict[str, Any]]]:
    """Jobs of whole GPUs for three machines of four."""
    jobs = []
    for _ in range(draw(st.integers(2, 14))):
        each = draw(st.sampled_from([1, 1, 2, 4]))
        told = {
            "gpu_milli": 1000 * each,
            "instances": draw(st.integers(1, 12 // each)),
            "expected_ms": float(draw(st.integers(1, 20)) * MINUTE),
        }
        jobs.append((draw(st.integers(0, 30)) * MINUTE, told))
    return jobs


@pytest.mark.parametrize("placed", ["first-fit", "best-fit", "load-balance"])
@settings(max_examples=60)
@given(jobs=arrivals())
def test_easy_never_delays_the_first_beyond_its_reservation(placed: str, jobs: Any) -> None:
    rule = Watched(compose(f"fifo+{placed}+easy"))
    started = play(Scene([4, 4, 4]), rule, jobs)
    assert len(started) == len(jobs)
    for head, reserved_ms in rule.reserved.items():
        assert started[head] <= reserved_ms


@given(jobs=arrivals())
def test_conservative_finishes_all(jobs: Any) -> None:
    assert len(play(Scene([4, 4, 4]), compose("fifo+conservative"), jobs)) == len(jobs)


# --- preemption ------------------------------------------------------------------------------------------


def test_the_last_is_displaced_and_as_few_as_needed() -> None:
    scene = Scene([4, 4], now_ms=HOUR)
    kept = scene.runs({0: 4}, expected_ms=1.5 * HOUR)
    last = scene.runs({1: 2}, expected_ms=9.0 * HOUR)
    scene.runs({1: 2}, expected_ms=8.0 * HOUR)
    first = scene.waits(2, expected_ms=float(HOUR))
    assert answer(scene, "srtf") == (PREEMPT, last, [])
    scene.jobs[first].instances = 4
    scene.jobs[first].gpu_milli = 1000
    assert answer(scene, "srtf") == (PREEMPT, last, [])
    scene.jobs[first].instances = 8  # even so the job with less left is not displaced, hence nobody is
    assert answer(scene, "srtf") == HELD
    scene.jobs[kept].expected_ms = 20.0 * HOUR
    assert answer(scene, "srtf") == (PREEMPT, kept, [])


def test_those_that_make_no_room_are_let_off() -> None:
    scene = Scene([4, 4, 4], now_ms=HOUR)
    scene.runs({0: 1}, expected_ms=9.0 * HOUR)  # the last, but what the first needs is a whole machine
    scene.runs({0: 3}, expected_ms=1.1 * HOUR)
    whole = scene.runs({1: 4}, expected_ms=8.0 * HOUR)
    scene.runs({2: 4}, expected_ms=7.0 * HOUR)
    scene.waits(gpu_milli=4000, expected_ms=float(HOUR))
    assert answer(scene, "srtf") == (PREEMPT, whole, [])


def test_nobody_is_displaced_too_soon_or_for_little() -> None:
    scene = Scene([4], now_ms=10 * MINUTE)
    running = scene.runs({0: 4}, started_ms=8 * MINUTE, expected_ms=100.0 * MINUTE)
    scene.waits(4, expected_ms=70.0 * MINUTE)
    assert answer(scene, "srtf", {"margin": 0.0}) == HELD  # two minutes are less than five
    scene.jobs[running].started_ms = 0
    assert answer(scene, "srtf", {"margin": 0.0}) == (PREEMPT, running, [])
    assert answer(scene, "srtf", {"margin": 0.5}) == HELD  # 90 minutes are left: less than 1.5 x 70


def test_a_share_makes_room_for_several_smaller_ones() -> None:
    scene = Scene([1], now_ms=HOUR)
    scene.fill(0, 500)
    victim = scene.runs({0: 1}, gpu_milli=500)
    scene.waits(2, gpu_milli=250, arrival_ms=HOUR)
    assert answer(scene, "las+best-fit")[:2] == (PREEMPT, victim)
    scene.waits(3, gpu_milli=250, arrival_ms=HOUR)
    scene.jobs[1].instances = 3
    assert answer(scene, "las+best-fit") == HELD


def test_memory_of_victims_counts() -> None:
    scene = Scene([4], memory_gib=4.0, now_ms=HOUR)
    victim = scene.runs({0: 1}, memory_mib=3072)
    scene.waits(1, memory_mib=4096, arrival_ms=HOUR)
    assert answer(scene, "las+best-fit")[:2] == (PREEMPT, victim)


def test_cpus_of_victims_count() -> None:
    scene = Scene([4], cpus=4.0, now_ms=HOUR)
    scene.runs({0: 1}, expected_ms=9.0 * HOUR, cpu_milli=1000)
    scene.runs({0: 1}, expected_ms=1.1 * HOUR, cpu_milli=3000)
    first = scene.waits(1, expected_ms=float(HOUR), cpu_milli=2000)
    assert answer(scene, "srtf") == HELD  # the one that may go gives back one CPU of the two
    scene.jobs[first].cpu_milli = 1000
    assert answer(scene, "srtf") == (PREEMPT, 0, [])


@pytest.mark.parametrize("order", ["srtf", "las", "tiresias", "smallest", "drf"])
@given(scene=scenes())
def test_who_is_displaced_makes_room_for_the_first(order: str, scene: Scene) -> None:
    values = {"min_run_s": 1.0, "margin": 0.0} | ({"threshold": 100.0} if order == "tiresias" else {})
    rule = compose(f"{order}+preemptive").with_values(values)
    displaced_for = None
    for _ in range(20):
        snapshot = scene.snapshot()
        if len(snapshot.pending) == 0:
            break
        settings_of = rule.table[0]
        head = min(snapshot.pending.tolist(), key=lambda job: rule.order(snapshot, job, settings_of))
        action = rule.decide(snapshot)
        if displaced_for is not None and order != "drf":
            assert action.verb != WAIT
            assert action.verb == PREEMPT or action.job == displaced_for
        displaced_for = head if action.verb == PREEMPT else None
        if not scene.act(action, snapshot):
            break
    else:
        raise AssertionError("the round does not end")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kept", DISCIPLINES)
@settings(max_examples=12)
@given(scene=scenes())
def test_every_combination_decides_legally(order: str, kept: str, scene: Scene) -> None:
    snapshot = scene.snapshot([(500, 0, 0.5), (1000, 0, 0.5)])
    before = [np.copy(part) for part in snapshot]
    decode(snapshot, compose(f"{order}+{kept}").decide(snapshot))
    lent = ("machine_order", "machine_score", "job_order", "job_score")
    for name, was, now in zip(snapshot._fields, before, snapshot, strict=True):
        if name not in lent:
            np.testing.assert_array_equal(was, now, err_msg=name)


def test_a_patient_job_starts_at_the_first_heartbeat_at_which_it_asks_for_no_more():
    """A machine at half speed is free all the time; of one that wants 0.8 of the best, after

    1 h * ln(0.8 / 0.5) = 1692 s half is enough. Heartbeats come every 60 s: it starts at 1740 s.
    """
    groups = (MachineGroup(gpus=1), MachineGroup(gpus=1, speed=0.5))
    cluster = Cluster(machines=groups, contention=0.0)
    jobs = make_workload([0, 0], duration_ms=[10 * HOUR, 10 * MINUTE], gpus=1)
    rule = make_policy("fifo+fast+patient:least_speed=0.8,patience_h=1")
    for episode in (simulate(jobs, rule, cluster, seed=0), reference_run(jobs, rule, cluster, 0)):
        assert episode.completion_ms.tolist() == [10 * HOUR, 1_740_000 + 20 * MINUTE]
