"""MALO and MOSA: the look ahead against schedules made by hand, and whether the search finds the best."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from tests.gpu_scheduling.random_instances import Instance, instances
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene

from trimtab.core.errors import SettingsError
from trimtab.core.policy import RuleLike
from trimtab.gpu_scheduling.heuristics.look_ahead import Window, at_full_speed, foretell, new_desk, score_of
from trimtab.gpu_scheduling.heuristics.malo import malo
from trimtab.gpu_scheduling.heuristics.metaheuristic import outlook_of, window_of
from trimtab.gpu_scheduling.heuristics.mosa import acceptance, mosa
from trimtab.gpu_scheduling.problem import START, decode
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload.tiny import TINY, tiny_case, tiny_workload

BOTH = (malo, mosa)


class Outcome(NamedTuple):
    """What the look ahead foretells for each solution."""

    jct_ms: np.ndarray
    fee: np.ndarray


def outcome_of(seen: Window, solutions: np.ndarray) -> Outcome:
    found = Outcome(np.empty(len(solutions)), np.empty(len(solutions)))
    at_full_speed(foretell)(seen, np.asarray(solutions, np.float64), *found, new_desk(seen))
    return found


def window(scene: Scene, *jobs: int, assumed_ms: float = HOUR) -> Window:
    return window_of(scene.snapshot(), np.array(jobs, np.int64), assumed_ms=assumed_ms)


def solution(order: list[float], *wishes: list[float]) -> np.ndarray:
    return np.array([[*order, *np.ravel(wishes)]])


# --- the look ahead ----------------------------------------------------------------------------------------


def test_one_after_the_other_on_one_gpu() -> None:
    scene = Scene([1])
    long, short = scene.waits(1, expected_ms=3 * HOUR), scene.waits(1, expected_ms=HOUR)
    seen = window(scene, long, short)
    # In order of arrival they end after 3 and 4 hours, else after 1 and 4; a GPU costs a dollar an hour.
    found = outcome_of(seen, np.array([[1.0, 0.0, 0, 0], [0.0, 1.0, 0, 0]]))
    assert found.jct_ms.tolist() == [3.5 * HOUR, 2.5 * HOUR]
    assert found.fee.tolist() == [2.0, 2.0]


def test_jobs_wait_for_those_that_run() -> None:
    scene = Scene([2], now_ms=HOUR)
    scene.runs({0: 1}, expected_ms=3.0 * HOUR)  # two hours left
    seen = window(scene, scene.waits(2, expected_ms=HOUR))
    assert outcome_of(seen, solution([0.0], [0.0])).jct_ms.tolist() == [3 * HOUR]


def test_slow_crowded_and_distant_machines() -> None:
    scene = Scene([2, 2], racks=[0, 1], speeds=[1.0, 0.5], contention=0.5)
    job = scene.waits(1, expected_ms=HOUR)
    gang = scene.waits(3, expected_ms=HOUR, communication=0.1)
    scene.runs({0: 1})
    # Machine 0 has a GPU of 2 held: crowd 0.5 x 1 / 2, which counts twice: 1.5 times as long.
    assert outcome_of(window(scene, job), solution([0], [1, 0])).jct_ms.tolist() == [1.5 * HOUR]
    assert outcome_of(window(scene, job), solution([0], [0, 1])).jct_ms.tolist() == [2 * HOUR]
    # Three GPUs: the slow machine holds it back (2), and racks cost 0.1 x 2 of the time.
    assert outcome_of(window(scene, gang), solution([0], [1, 0])).jct_ms.tolist() == [2.4 * HOUR]


def test_what_nobody_knows_is_assumed() -> None:
    scene = Scene([2], now_ms=5 * HOUR)
    scene.runs({0: 2})  # has run for five hours, and so will for five more
    seen = window(scene, scene.waits(1), assumed_ms=2.0 * HOUR)
    assert outcome_of(seen, solution([0], [0])).jct_ms.tolist() == [7 * HOUR]


def test_where_a_job_may_not_run_it_does_not() -> None:
    scene = Scene([1, 1], types=[0, 1], speeds=[1.0, 0.5])
    seen = window(scene, scene.waits(1, allowed_types=0b10, expected_ms=HOUR))
    assert outcome_of(seen, solution([0], [1, 0])).jct_ms.tolist() == [2 * HOUR]
    nowhere = window(scene, scene.waits(1, allowed_types=0b100, expected_ms=HOUR))
    assert outcome_of(nowhere, solution([0], [1, 0])).jct_ms[0] > 1e12


def test_worse_moves_are_made_while_it_is_hot() -> None:
    assert acceptance(-1.0, 0.0, 0.01) == 1.0
    assert acceptance(1.0, 0.0, 1.0) == pytest.approx(np.exp(-1))
    assert acceptance(2.0, -1.0, 1.0) == pytest.approx(np.exp(-1))
    assert acceptance(1.0, 0.0, 0.01) < 1e-40
    # Better in one respect by more than it is worse in the other.
    assert acceptance(0.5, -1.0, 0.01) == 1.0


# --- the search --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", BOTH)
def test_the_better_of_two_orders_is_found(make: Any) -> None:
    scene = Scene([1])
    scene.waits(1, expected_ms=3 * HOUR)
    short = scene.waits(1, expected_ms=HOUR)
    action = make().decide(scene.snapshot())
    assert (action.verb, action.job) == (START, short)


@pytest.mark.parametrize("make", BOTH)
def test_the_long_job_gets_the_fast_machine(make: Any) -> None:
    scene = Scene([1, 1], speeds=[1.0, 0.8])
    short, long = scene.waits(1, expected_ms=2 * MINUTE), scene.waits(1, expected_ms=6 * MINUTE)
    policy = make().with_values({"fee_weight": 0})
    placed = {}
    for _ in range(2):
        action = policy.decide(scene.snapshot())
        placed[int(action.job)] = action.machines.tolist()
        scene.act(action, scene.snapshot())
    assert placed == {long: [0], short: [1]}


@pytest.mark.parametrize("make", BOTH)
def test_the_first_guess_is_never_lost_and_a_large_budget_finds_better(make: Any) -> None:
    scene = Scene([4, 4, 4], speeds=[1.0, 0.7, 0.7], contention=0.15, racks=[0, 0, 1])
    random = np.random.default_rng(0)
    jobs = [
        scene.waits(int(random.integers(1, 5)), expected_ms=float(random.integers(1, 20)) * MINUTE)
        for _ in range(8)
    ]
    outlook = outlook_of(window(scene, *jobs), fee_weight=0.1, seed=np.uint64(3))

    def lowest(solutions: np.ndarray) -> float:
        pairs = zip(*outcome_of(outlook.window, solutions), strict=True)
        return min(score_of(jct_ms, fee, outlook.judge) for jct_ms, fee in pairs)

    usual = lowest(outlook.known)
    budgets = [{}, {"ants": 30, "iterations": 30} if make is malo else {"chains": 64, "moves": 60}]
    found = [lowest(make().with_values(more).search(outlook)[None]) for more in budgets]
    assert found[0] <= usual
    assert found[1] < 0.99 * usual


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("name", TINY)
def test_tiny_workloads_are_played_to_the_end(make: Any, name: str) -> None:
    case = tiny_case(name)
    cluster = case.cluster.model_copy(update={"information": "oracle"})
    episode = simulate(tiny_workload(name), make().with_values({"fee_weight": 0}), cluster)
    if name in ("short-first", "gang", "fast-machine", "apart"):
        assert episode.jct_ms.mean() == case.best_mean_jct_ms


@settings(max_examples=25, deadline=None)
@given(instance=instances())
@pytest.mark.parametrize("make", BOTH)
def test_every_random_workload_ends_legally_and_alike(make: Any, instance: Instance) -> None:
    small = {"ants": 3, "iterations": 1} if make is malo else {"chains": 3, "moves": 1}
    policy = make().with_values({**small, "window": 3})
    once = simulate(instance.workload, policy, instance.cluster, seed=1)
    again = simulate(instance.workload, policy, instance.cluster, seed=1)
    np.testing.assert_array_equal(once.completion_ms, again.completion_ms)


@pytest.mark.parametrize("make", BOTH)
def test_jobs_may_be_in_any_slots(make: Any) -> None:
    scene = Scene([4, 4], speeds=[1.0, 0.9], contention=0.2)
    for gpus in (1, 2, 3, 1):
        scene.waits(gpus)
    snapshot = scene.snapshot()
    first = make().decide(snapshot)
    swapped = [3, 2, 1, 0]
    by_job = {
        name: getattr(snapshot, name)[swapped]
        for name in ("job_id", "instances", "gpu_milli", "arrival_ms", "communication", "sensitivity")
    }
    other = snapshot._replace(**by_job, pending=np.array([3, 2, 1, 0]))
    second = make().decide(other)
    assert snapshot.job_id[first.job] == other.job_id[second.job]
    assert first.machines.tolist() == second.machines.tolist()


@pytest.mark.parametrize("make", BOTH)
def test_machines_out_of_sight_are_tried_last(make: Any) -> None:
    scene = Scene([1] * 40, speeds=[1.0] * 35 + [0.5] * 5, types=[0] * 35 + [1] * 5)
    job = scene.waits(2, allowed_types=0b10)
    action = make().decide(scene.snapshot())
    assert (action.verb, action.job) == (START, job)
    assert sorted(action.machines.tolist()) == [35, 36]


@pytest.mark.parametrize("make", BOTH)
def test_a_plan_is_carried_out_step_by_step(make: Any) -> None:
    scene = Scene([4] * 8, contention=0.15)
    jobs = [scene.waits(1 + place % 3) for place in range(16)]
    policy = make()
    started = []
    while len(started) < len(jobs):
        snapshot = scene.snapshot()
        action = policy.decide(snapshot)
        assert decode(snapshot, action) is not None
        started.append(int(action.job))
        scene.act(action, snapshot)
        if snapshot.free_total_milli < 4000:
            break
    assert len(set(started)) == len(started)


@pytest.mark.slow
@pytest.mark.parametrize("make", BOTH)
def test_a_decision_takes_little_time(make: Any) -> None:
    scene = Scene([4] * 8, racks=[0] * 4 + [1] * 4, speeds=[1, 1, 1, 0.7] * 2, contention=0.15)
    for machine in range(6):
        scene.runs({machine: 2})
    for place in range(16):
        scene.waits(1 + place % 3, communication=0.05)
    policy, best = make(), np.inf
    for moment in range(20):
        scene.now_ms = moment
        snapshot = scene.snapshot()
        began = time.process_time()
        policy.decide(snapshot)
        best = min(best, time.process_time() - began)
    # 1 to 2 ms on one core of a small ARM machine; five times that is a fault.
    assert best < 0.01


def test_settings_are_checked() -> None:
    assert isinstance(malo(), RuleLike) and isinstance(mosa(), RuleLike)
    with pytest.raises(SettingsError, match="ants = 1 is out of range"):
        malo().with_values({"ants": 1})
    with pytest.raises(SettingsError, match=r"chains = 1\.5 must be a whole number"):
        mosa().with_values({"chains": 1.5})
    with pytest.raises(SettingsError, match="has no setting 'ants'"):
        mosa().with_values({"ants": 10})
