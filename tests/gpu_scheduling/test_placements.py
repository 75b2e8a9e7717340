"""Placements on scenes with known answers, and FGD against a direct computation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_scheduling.snapshots import Scene

from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.fragments import added_fragments
from trimtab.gpu_scheduling.policies import PLACEMENTS
from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, decode, gang_fits, start


def machines(scene: Scene, placement, job: int, *settings: float) -> list[int]:
    snapshot = scene.snapshot()
    count, _ = placement(snapshot, job, np.array([*settings, *[0.0] * (8 - len(settings))]))
    return snapshot.machine_order[:count].tolist()


def test_first_fit_spills_over() -> None:
    scene = Scene([4, 4, 4])
    scene.runs({0: 3, 1: 4})
    assert machines(scene, placements.first_fit, scene.waits(1)) == [0]
    assert machines(scene, placements.first_fit, scene.waits(2)) == [0, 2]
    assert machines(scene, placements.first_fit, scene.waits(6)) == []
    assert machines(scene, placements.first_fit, scene.waits(gpu_milli=2000)) == [2]


def test_the_most_free_first() -> None:
    scene = Scene([8, 2, 4])
    scene.runs({0: 5, 2: 1})
    # Free: 3 of 8, 2 of 2, 3 of 4.
    assert machines(scene, placements.load_balance, scene.waits(1)) == [1]
    assert machines(scene, placements.load_balance, scene.waits(4)) == [1, 2]
    assert machines(scene, placements.worst_fit, scene.waits(1)) == [0]
    assert machines(scene, placements.worst_fit, scene.waits(4)) == [0, 2]


def test_best_fit_leaves_least() -> None:
    scene = Scene([4, 4, 4])
    scene.runs({0: 1, 1: 2})
    assert machines(scene, placements.best_fit, scene.waits(2)) == [1]
    assert machines(scene, placements.best_fit, scene.waits(3)) == [0]
    assert machines(scene, placements.best_fit, scene.waits(4)) == [2]
    # No machine holds five: the largest, then the one with least left that holds the one missing.
    assert machines(scene, placements.best_fit, scene.waits(5)) == [2, 1]
    assert machines(scene, placements.best_fit, scene.waits(10)) == []


def test_best_fit_stays_within_a_rack() -> None:
    scene = Scene([4, 4, 4, 4], racks=[0, 1, 1, 0])
    scene.runs({0: 2})
    # Rack 0 has room for six, rack 1 for eight.
    assert machines(scene, placements.best_fit, scene.waits(6)) == [3, 0]
    assert machines(scene, placements.best_fit, scene.waits(8)) == [1, 2]
    assert machines(scene, placements.best_fit, scene.waits(10)) == [1, 2, 0]


def test_best_fit_heeds_cpus_memory_and_models() -> None:
    scene = Scene([2, 4, 4], types=[0, 0, 1], cpus=10.0, memory_gib=1.0)
    assert machines(scene, placements.best_fit, scene.waits(1, allowed_types=2)) == [2]
    assert machines(scene, placements.best_fit, scene.waits(1, cpu_milli=10_001)) == []
    # Four instances of three CPUs: three fit on a machine.
    assert machines(scene, placements.best_fit, scene.waits(4, cpu_milli=3000)) == [1, 0]
    assert machines(scene, placements.best_fit, scene.waits(2, memory_mib=600)) == [0, 1]


def test_fast_prefers_speed_and_then_a_tight_fit() -> None:
    scene = Scene([4, 4, 4], speeds=[0.7, 1.0, 1.0])
    assert machines(scene, placements.fast, scene.waits(1)) == [1]
    scene.runs({2: 2})
    assert machines(scene, placements.fast, scene.waits(1)) == [
        2
    ]  # without contention a neighbour costs nothing
    scene.contention = 0.15
    # Two neighbours cost 0.15 * 2 / 4 = 7.5 % on machine 2; machine 1 is empty.
    assert machines(scene, placements.fast, scene.waits(1)) == [1]
    # A machine of which a half is left free beside a quarter: a leaning to tight fits turns the choice.
    assert machines(scene, placements.fast, scene.waits(1), 1.0, 0.5) == [2]


def test_fast_trades_neighbours_for_speed() -> None:
    scene = Scene([4, 4], speeds=[0.8, 1.0], contention=0.4)
    scene.runs({1: 2})
    # Machine 1 gives 1 / (1 + 0.2) = 0.83 > 0.8; with the neighbours' loss 1 / 1.4 = 0.71 < 0.8.
    assert machines(scene, placements.fast, scene.waits(1), 0.0) == [1]
    assert machines(scene, placements.fast, scene.waits(1), 1.0) == [0]


def test_fast_weighs_spreading_against_slow_machines() -> None:
    scene = Scene([8, 4, 4, 4], racks=[0, 0, 0, 1], speeds=[0.7, 1.0, 0.9, 1.0])
    # 0.7 on one machine; 0.9 / (1 + c) on machines 1 and 2 of one rack; 1 / (1 + 2 c) on 1 and 3 of two.
    assert machines(scene, placements.fast, scene.waits(8, communication=0.5)) == [0]
    assert machines(scene, placements.fast, scene.waits(8, communication=0.2)) == [1, 2]
    assert machines(scene, placements.fast, scene.waits(8, communication=0.01)) == [1, 3]


def test_fast_takes_few_of_equally_fast_machines() -> None:
    scene = Scene([4, 4, 4])
    scene.runs({0: 3, 1: 1})
    assert machines(scene, placements.fast, scene.waits(7)) == [2, 1]
    assert machines(scene, placements.fast, scene.waits(9)) == []


def test_fast_trusts_the_more_the_more_was_seen() -> None:
    """Half the speed, seen once, counts as 0.75 of it; seen nine times as 0.55."""
    scene = Scene([4, 4], speeds=[1.0, 0.7])
    job = scene.waits(1)
    scene.observed_speed[0], scene.observed[0] = 0.5, 1.0
    assert machines(scene, placements.fast, job, 1.0, 0.0, 1.0) == [0]
    scene.observed[0] = 9.0
    assert machines(scene, placements.fast, job, 1.0, 0.0, 1.0) == [1]


def test_fast_trusts_what_was_seen() -> None:
    scene = Scene([4, 4])
    scene.observed_speed[0], scene.observed[0] = 0.5, 9.0
    assert machines(scene, placements.fast, scene.waits(1), 0.0, 0.0, 0.0) == [0]
    assert machines(scene, placements.fast, scene.waits(1), 0.0, 0.0, 1.0) == [1]


def test_tetris_matches_the_scarce_resource() -> None:
    scene = Scene([4, 4], cpus=16.0)
    scene.runs({0: 1}, cpu_milli=0)
    scene.runs({1: 1}, cpu_milli=15_000)
    # Three GPUs free on both; machine 0 has all its CPUs.
    assert machines(scene, placements.tetris_place, scene.waits(1, cpu_milli=1000)) == [0]
    scene.runs({0: 1})
    assert machines(scene, placements.tetris_place, scene.waits(1)) == [1]


def test_random_machines_differ_by_job() -> None:
    scene = Scene([1] * 8)
    chosen = [machines(scene, placements.random_place, scene.waits(1), 3.0)[0] for _ in range(60)]
    assert set(chosen) == set(range(8))


# --- FGD -------------------------------------------------------------------------------------------------


def fragments(free_of_gpu: list[int], free_cpu: int, typical: list[tuple[int, int, float]]) -> float:
    """The formula of the paper, read as it stands."""
    total = 0.0
    for milli, cpu, share in typical:
        each, count = min(milli, WHOLE), max(milli // WHOLE, 1)
        hosts = cpu <= free_cpu and sum(free >= each for free in free_of_gpu) >= count
        total += share * sum(free for free in free_of_gpu if not hosts or free < each)
    return total


@given(st.data())
def test_added_fragments_are_those_of_the_formula(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    scene = Scene([count], cpus=float(data.draw(st.integers(1, 12))))
    for gpu in range(count):
        scene.fill(gpu, data.draw(st.sampled_from([0, 0, 250, 500, 700, 1000])))
    demand = st.tuples(
        st.sampled_from([100, 250, 500, 999, 1000, 2000, 3000]), st.integers(0, 9).map(lambda cpu: cpu * 1000)
    )
    tasks = data.draw(st.lists(demand, min_size=1, max_size=5, unique=True))
    typical = [(milli, cpu, 1 / len(tasks)) for milli, cpu in tasks]
    milli, cpu = data.draw(demand)
    job = scene.waits(gpu_milli=milli, cpu_milli=cpu)
    snapshot = scene.snapshot(typical)
    if not gang_fits(snapshot, job):
        return
    free, free_cpu = scene.free_of_gpu.tolist(), int(scene.cpu_milli[0])
    before = fragments(free, free_cpu, typical)
    added, gpu = added_fragments(snapshot, job, 0)
    if milli >= WHOLE:
        then = list(free)
        for place in [place for place in range(count) if free[place] == WHOLE][: milli // WHOLE]:
            then[place] = 0
        assert gpu == NOWHERE
        assert added == pytest.approx(fragments(then, free_cpu - cpu, typical) - before)
    else:
        options = {
            place: fragments([f - milli * (p == place) for p, f in enumerate(free)], free_cpu - cpu, typical)
            for place in range(count)
            if free[place] >= milli
        }
        assert added == pytest.approx(min(options.values()) - before)
        assert options[gpu] == pytest.approx(min(options.values()))


def test_a_share_on_a_broken_gpu_takes_a_fragment_away() -> None:
    """For tasks of a whole GPU, which still fit, the half free on GPU 1 is one; a quarter of it is left."""
    scene = Scene([2])
    scene.fill(1, 500)
    job = scene.waits(gpu_milli=250)
    assert added_fragments(scene.snapshot([(1000, 0, 1.0)]), job, 0) == (-250.0, 1)


def test_fgd_fills_what_nobody_else_can_use() -> None:
    scene = Scene([2, 2])
    scene.fill(0, 700)
    job = scene.waits(gpu_milli=300)
    snapshot = scene.snapshot([(1000, 0, 0.5), (300, 0, 0.5)])
    count, gpu = placements.fgd(snapshot, job, np.zeros(8))
    # 300 left on GPU 0 of machine 0: of no use to half of what comes, and just right for this one.
    assert (snapshot.machine_order[:count].tolist(), gpu) == ([0], 0)


def test_fgd_without_typical_tasks_is_best_fit() -> None:
    scene = Scene([4, 4])
    scene.runs({1: 2})
    assert machines(scene, placements.fgd, scene.waits(2)) == [1]


# --- laws of all -----------------------------------------------------------------------------------------


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A few machines with jobs on some, and jobs that wait."""
    count = draw(st.integers(1, 5))
    scene = Scene(
        [draw(st.sampled_from([1, 2, 4])) for _ in range(count)],
        racks=[draw(st.integers(0, 1)) for _ in range(count)],
        types=[draw(st.integers(0, 1)) for _ in range(count)],
        speeds=[draw(st.sampled_from([0.7, 1.0])) for _ in range(count)],
        cpus=draw(st.sampled_from([2.0, 96.0])),
        now_ms=1_000_000,
        contention=draw(st.sampled_from([0.0, 0.3])),
    )
    for machine in range(count):
        if draw(st.booleans()):
            scene.runs(
                {machine: 1},
                started_ms=draw(st.integers(0, 1_000_000)),
                expected_ms=draw(st.sampled_from([float("nan"), 5e5, 2e6])),
                user=draw(st.integers(0, 2)),
            )
    for _ in range(draw(st.integers(1, 6))):
        scene.waits(
            instances=draw(st.integers(1, 5)),
            gpu_milli=draw(st.sampled_from([250, 500, 1000, 1000, 2000])),
            cpu_milli=draw(st.sampled_from([0, 1000])),
            arrival_ms=draw(st.integers(0, 1_000_000)),
            expected_ms=draw(st.sampled_from([float("nan"), 1e5, 3e6])),
            allowed_types=draw(st.sampled_from([-1, -1, 1, 2])),
            user=draw(st.integers(0, 2)),
            communication=draw(st.sampled_from([0.0, 0.3])),
        )
    return scene


@pytest.mark.parametrize("name", PLACEMENTS)
@given(scene=scenes())
def test_every_placement_finds_a_place_just_when_the_gang_fits(name: str, scene: Scene) -> None:
    snapshot = scene.snapshot([(500, 1000, 0.3), (1000, 1000, 0.5), (2000, 0, 0.2)])
    settings = [setting.value for setting in PLACEMENTS[name].settings]
    parameters = np.array([*settings, *[0.0] * (8 - len(settings))])
    for job in snapshot.pending.tolist():
        count, gpu = PLACEMENTS[name].function(snapshot, job, parameters)
        assert (count > 0) == gang_fits(snapshot, job)
        if count > 0:
            command = decode(snapshot, start(job, snapshot.machine_order[:count], gpu))
            assert command is not None and len(command.parts) == count  # no machine is named in vain
