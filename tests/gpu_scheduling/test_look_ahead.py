"""The look ahead of MALO and MOSA in plain loops against the same in arrays, compiled and as it stands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene

from trimtab.core.randomness import hash_counters, split, uniform
from trimtab.gpu_scheduling.heuristics import look_ahead
from trimtab.gpu_scheduling.heuristics.look_ahead import (
    HOUR_MS,
    Window,
    at_full_speed,
    counted,
    foretell,
    keep,
    luck_of,
    new_archive,
    new_desk,
    shorten,
    unit,
)
from trimtab.gpu_scheduling.heuristics.malo import malo, walked
from trimtab.gpu_scheduling.heuristics.metaheuristic import outlook_of, seed_of, window_of
from trimtab.gpu_scheduling.heuristics.mosa import mosa
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot
from trimtab.gpu_scheduling.simulator import simulator


@pytest.fixture(params=["compiled", "plain"])
def speed(request: Any) -> Iterator[None]:
    """As in replay, and as in a live cluster, where no simulator is loaded."""
    assert simulator.simulate and look_ahead._compilers
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(look_ahead, "_compilers", [])
        yield


# --- the same in arrays ------------------------------------------------------------------------------------


@np.errstate(divide="ignore", invalid="ignore")
def foretold_in_arrays(window: Window, solutions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All solutions side by side, by sorting."""
    count, (jobs, machines) = len(solutions), window.alone.shape
    every = np.arange(count)[:, None]
    rank = np.argsort(-solutions[:, :jobs], axis=1, kind="stable")
    wishes = solutions[:, jobs:].reshape(count, jobs, machines)
    free_in = np.repeat(window.free_in_ms[None], count, axis=0)
    crowd = np.repeat(window.crowd[None], count, axis=0)
    racks = window.rack[:, None] == np.unique(window.rack)
    total_ms, total_fee = np.zeros(count), np.zeros(count)
    for turn in range(jobs):
        job = rank[:, turn]
        alone, sensitivity = window.alone[job], window.sensitivity[job][:, None]
        wanted = window.gpus[job][:, None]
        usable = free_in + np.where(alone > 0, 0.0, np.inf)[:, :, None]
        begin = np.sort(usable.reshape(count, -1), axis=1)[
            every, np.minimum(wanted, window.free_in_ms.size) - 1
        ]
        order = np.argsort(-wishes[every[:, 0], job], axis=1, kind="stable")
        room = (usable <= begin[:, :, None]).sum(axis=2)[every, order]
        before = np.add.accumulate(room, axis=1) - room
        taken = np.minimum(np.maximum(wanted - before, 0), room)[every, np.argsort(order, axis=1)]
        used = taken > 0
        slowness = (1.0 + 2.0 * sensitivity * crowd) / np.where(used, alone, np.inf)
        apart = 1.0 + window.across_racks * ((used @ racks).sum(axis=1) > 1)
        lost = window.spread[job] * (used.sum(axis=1) > 1) * apart
        run_ms = window.work_ms[job] * (1.0 + lost) * slowness.max(axis=1)
        end = begin[:, 0] + run_ms
        total_ms += end
        total_fee += np.add.accumulate(taken * window.price, axis=1)[:, -1] * run_ms / HOUR_MS
        crowd += taken * sensitivity * window.crowding
        held = np.arange(free_in.shape[2]) < taken[:, :, None]
        free_in = np.sort(np.where(held, end[:, None, None], free_in), axis=2)
    late, paid = np.nan_to_num(total_ms, nan=1e15, posinf=1e15), np.nan_to_num(total_fee, nan=1e9, posinf=1e9)
    return late / jobs, paid / jobs


def random_window(random: np.random.Generator) -> Window:
    """Machines of unequal size in some racks, some not allowed, and gangs that may be larger than all."""
    jobs, machines, most = random.integers(1, 7), random.integers(1, 6), random.integers(1, 5)
    free_in_ms = np.sort(random.choice([0.0, 0.0, MINUTE, HOUR, np.inf], (machines, most)), axis=1)
    free_in_ms[0, 0] = 0.0
    return Window(
        jobs=np.arange(jobs),
        machines=np.arange(machines),
        gpus=random.integers(1, 1 + random.integers(1, 2 + machines * most), jobs),
        work_ms=random.uniform(1.0, 10 * HOUR, jobs),
        alone=random.choice([0.0, 0.5, 1.0, 1.0, 2.2], (jobs, machines)),
        sensitivity=random.choice([0.0, 0.5, 1.0], jobs),
        spread=random.choice([0.0, 0.1], jobs),
        price=random.choice([0.35, 1.01, 3.06], machines),
        rack=random.integers(0, 3, machines),
        crowd=random.choice([0.0, 0.3], machines),
        crowding=random.choice([0.0, 0.05], machines),
        free_in_ms=free_in_ms,
        across_racks=float(random.choice([0.0, 1.0])),
    )


def held_in_lists(snapshot: Snapshot, *, assumed_ms: float) -> np.ndarray:
    """When GPUs fall free [machines, GPUs], all ends of a machine in a list."""
    held: list[list[float]] = [[] for _ in snapshot.gpus]
    for job in snapshot.running.tolist():
        done = snapshot.done_ms[job] + snapshot.rate[job] * (snapshot.now_ms - snapshot.since_ms[job])
        left = snapshot.expected_ms[job] - done
        left = max(done, assumed_ms) if np.isnan(left) else max(left, 0.0)
        part = int(snapshot.first_part[job])
        while part != NOWHERE:
            gpus = -(-int(snapshot.part_instances[part] * snapshot.gpu_milli[job]) // WHOLE)
            held[snapshot.part_machine[part]] += [float(left / snapshot.rate[job])] * gpus
            part = int(snapshot.next_part[part])
    table = np.full((len(snapshot.gpus), snapshot.gpus.max()), np.inf)
    for machine, ends in enumerate(held):
        gpus, free = int(snapshot.gpus[machine]), int(snapshot.free_gpus[machine])
        latest = sorted(ends)[max(len(ends) - (gpus - free), 0) :]
        table[machine, :gpus] = sorted([*latest, *[0.0] * (gpus - len(latest))])
    return table


# --- agreement ---------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_look_ahead_agrees_with_that_in_arrays(seed: int) -> None:
    random = np.random.default_rng(seed)
    window = random_window(random)
    solutions = random.choice([-1.0, -0.5, 0.0, 0.7, 1.0], (8, window.size))
    jct_ms, fee = np.empty(8), np.empty(8)
    at_full_speed(foretell)(window, solutions, jct_ms, fee, new_desk(window))
    late, paid = foretold_in_arrays(window, solutions)
    np.testing.assert_array_equal(jct_ms, late)
    np.testing.assert_array_equal(fee, paid)


@pytest.mark.usefixtures("speed")
def test_the_look_ahead_agrees_however_it_runs() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        window = random_window(random)
        solutions = random.uniform(-1.0, 1.0, (3, window.size))
        jct_ms, fee = np.empty(3), np.empty(3)
        at_full_speed(foretell)(window, solutions, jct_ms, fee, new_desk(window))
        np.testing.assert_array_equal((jct_ms, fee), foretold_in_arrays(window, solutions))


@pytest.mark.usefixtures("speed")
def test_gpus_fall_free_when_those_who_hold_them_end() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        scene = Scene([4, 2, 1, 3], racks=[0, 0, 1, 1], types=[0, 0, 1, 0], now_ms=HOUR, contention=0.15)
        for machine, gpus in enumerate(scene.gpus.tolist()):
            for place in range(random.integers(0, gpus + 1)):
                expected_ms = random.choice([np.nan, MINUTE, HOUR * random.uniform(0, 3)])
                milli = int(random.choice([WHOLE, 250, 500])) if place else 250
                scene.runs(
                    {machine: 1}, gpu_milli=milli, rate=random.uniform(0.2, 2), expected_ms=expected_ms
                )
        jobs = np.array([scene.waits(2, allowed_types=0b01), scene.waits(3, gpu_milli=500)])
        snapshot = scene.snapshot()
        seen = window_of(snapshot, jobs, assumed_ms=20.0 * MINUTE)
        np.testing.assert_array_equal(seen.free_in_ms, held_in_lists(snapshot, assumed_ms=20.0 * MINUTE))
        assert seen.gpus.tolist() == [2, 2]
        assert seen.alone.tolist() == [[1.0, 1.0, 0.0, 1.0], [1.0] * 4]
        np.testing.assert_allclose(seen.crowd, 0.15 * snapshot.load / 1e6 / snapshot.gpus, rtol=1e-15)


def test_a_large_cluster_is_seen_by_its_best_machines() -> None:
    scene = Scene([1] * 40, speeds=[0.5] * 8 + [1.0] * 32)
    scene.runs({9: 1}, expected_ms=HOUR)
    jobs = np.array([scene.waits(1)])
    seen = window_of(scene.snapshot(), jobs, assumed_ms=HOUR)
    # The one that is held comes last, after the slow ones; of these the first is taken.
    assert seen.machines.tolist() == [0, 8, *range(10, 40)]
    assert (seen.free_in_ms == 0).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12), max_size=4))
def test_the_archive_keeps_what_nothing_beats(batches: list[list[tuple[int, int]]]) -> None:
    archive, most = new_archive(4 + 12, 1), 4
    kept: list[tuple[float, float, float]] = []
    for batch in batches:
        for jct_ms, fee in batch:
            number = float(100 * jct_ms + fee)
            keep(archive, np.array([number]), jct_ms, fee)
            kept.append((jct_ms, fee, number))
        shorten(archive, most)
        kept.sort()
        kept = [one for place, one in enumerate(kept) if all(other[1] > one[1] for other in kept[:place])]
        del kept[most:]
        there = slice(int(archive.filled[0]))
        found = archive.jct_ms[there], archive.fee[there], archive.solutions[archive.row[there], 0]
        assert list(zip(*(one.tolist() for one in found), strict=True)) == kept
        assert sorted(archive.row.tolist()) == list(range(16))


# --- luck --------------------------------------------------------------------------------------------------


@np.errstate(over="ignore")
def test_luck_is_that_of_the_whole_product() -> None:
    luck = counted(counted(luck_of(np.uint64(2**64 - 5)), 3), 7)
    assert [unit(counted(luck, place)) for place in range(9)] == uniform(
        2**64 - 5, 3, 7, np.arange(9)
    ).tolist()
    root, ids = split(5, "malo"), np.array([4, 9, 2])
    moment = split(5, "malo", 1234)
    mixed = moment ^ int(np.bitwise_xor.reduce(hash_counters(moment, ids)))
    assert int(seed_of(np.uint64(root), 1234, ids)) == mixed


def test_walks_are_by_the_bits_of_a_word() -> None:
    for word in np.random.default_rng(0).integers(0, 2**63, 200).tolist():
        walk = np.cumsum([1 if word >> bit & 1 else -1 for bit in range(16)])
        least, most = min(walk.min(), 0), max(walk.max(), 0)
        for steps in (1, 6, 8, 11, 16):
            share = (walk[steps - 1] - least) / max(most - least, 1)
            assert walked(np.uint64(word), steps, -1.0, 2.0) == pytest.approx(-1.0 + 3.0 * share)


@pytest.mark.parametrize("make", [malo, mosa])
def test_the_same_is_found_with_and_without_a_compiler(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    for seed in range(4):
        window = random_window(random)
        compiled = make().search(outlook_of(window, fee_weight=0.1, seed=np.uint64(seed)))
        with monkeypatch.context() as patch:
            patch.setattr(look_ahead, "_compilers", [])
            plain = make().search(outlook_of(window, fee_weight=0.1, seed=np.uint64(seed)))
        np.testing.assert_array_equal(compiled, plain)


LIVE = """
import sys
from tests.gpu_scheduling.snapshots import Scene
from trimtab.gpu_scheduling.heuristics import malo, mosa

scene = Scene([2, 2], speeds=[1.0, 0.5])
job = scene.waits(2)
for policy in (malo.malo(), mosa.mosa()):
    action = policy.decide(scene.snapshot())
    print(action.job == job, action.machines.tolist())
print("numba" in sys.modules)
"""


def test_a_live_cluster_needs_no_compiler() -> None:
    root = Path(__file__).parents[2]
    told = subprocess.run(
        [sys.executable, "-c", LIVE], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.splitlines() == ["True [0]", "True [0]", "False"]
