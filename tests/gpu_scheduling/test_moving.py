"""Jobs that run where they are slow are moved where they are fast."""

from __future__ import annotations

import pytest
from tests.gpu_scheduling.snapshots import MINUTE, Scene
from tests.gpu_scheduling.test_disciplines import HELD, answer

from trimtab.gpu_scheduling import Cluster, MachineGroup, make_policy, make_workload, simulate
from trimtab.gpu_scheduling.heuristics.moving import badly_placed, rate_if_moved
from trimtab.gpu_scheduling.problem import PREEMPT

MOVING = {"move_gain": 1.2, "move_after_s": 300.0}


def slow_place() -> tuple[Scene, int]:
    """A job on a machine at half speed beside a fast one, which is free; another job waits for more."""
    scene = Scene([4, 4], speeds=[0.5, 1.0], now_ms=10 * MINUTE)
    slow = scene.runs({0: 2}, rate=0.5)
    scene.waits(8)
    return scene, slow


def test_a_job_moves_to_a_faster_machine() -> None:
    scene, slow = slow_place()
    assert rate_if_moved(scene.snapshot(), slow) == 1.0
    assert answer(scene, "fifo+fast+preemptive") == HELD
    assert answer(scene, "fifo+fast+preemptive", MOVING)[:2] == (PREEMPT, slow)


def test_not_before_it_has_stayed_and_not_for_little() -> None:
    scene, slow = slow_place()
    snapshot = scene.snapshot()
    assert badly_placed(snapshot, 1.9, 300.0) == slow
    assert badly_placed(snapshot, 2.0, 300.0) == -1
    assert badly_placed(snapshot, 1.2, 601.0) == -1
    assert badly_placed(snapshot, 0.0, 300.0) == -1


def test_a_gang_leaves_the_slow_machine_and_keeps_the_fast_one() -> None:
    """Six GPUs: four on a fast machine, two on a slow one; another fast machine has two free."""
    scene = Scene([4, 4, 4], speeds=[1.0, 0.5, 1.0], now_ms=10 * MINUTE)
    gang = scene.runs({0: 4, 1: 2}, rate=0.4, communication=0.25)
    scene.runs({2: 2})
    scene.waits(12)
    # Apart it loses a quarter of its time wherever it is.
    assert rate_if_moved(scene.snapshot(), gang) == pytest.approx(1 / 1.25)
    assert badly_placed(scene.snapshot(), 1.9, 0.0) == gang
    # With one GPU less free it would need the slow machine again.
    scene.fill(8 + 2, 1000)
    assert rate_if_moved(scene.snapshot(), gang) == pytest.approx(0.5 / 1.25)


def test_a_gang_on_two_racks_loses_by_both() -> None:
    scene = Scene([4, 4], racks=[0, 1], now_ms=10 * MINUTE)
    gang = scene.runs({0: 4, 1: 2}, rate=0.4, communication=0.25)
    scene.waits(8)
    assert rate_if_moved(scene.snapshot(), gang) == pytest.approx(1 / 1.5)


def test_others_on_a_machine_count_and_its_own_part_does_not() -> None:
    scene = Scene([4, 4], contention=0.2, now_ms=10 * MINUTE)
    job = scene.runs({0: 2}, rate=0.9)
    scene.runs({0: 2})
    scene.runs({1: 1})
    scene.waits(8)
    # Beside two GPUs of others it is 1 / (1 + 0.2 * 2/4), beside one 1 / (1 + 0.2 * 1/4).
    assert rate_if_moved(scene.snapshot(), job) == pytest.approx(1 / 1.05)


def test_moving_ends_work_sooner() -> None:
    """Two jobs come; the short one has the fast machine first. When it ends, the long one moves there."""
    cluster = Cluster(
        machines=(MachineGroup(count=1, gpus=4), MachineGroup(count=1, gpus=4, speed=0.25)), contention=0.0
    )
    jobs = make_workload([0, 0, 1000], duration_ms=[600_000, 7_200_000, 60_000], gpus=[4, 4, 8])
    stays, moves = (
        simulate(jobs, make_policy(f"fifo+fast+preemptive:move_gain={gain}"), cluster) for gain in (0, 1.2)
    )
    # It has done 600 s at a quarter, loses 40 s of work, and does the rest at full speed.
    assert moves.completion_ms[1] == pytest.approx(600_000 + 7_200_000 - 150_000 + 40_000, rel=0.02)
    assert moves.completion_ms[1] < 0.4 * stays.completion_ms[1]
