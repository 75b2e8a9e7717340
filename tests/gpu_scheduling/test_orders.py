"""Orders on scenes with known answers."""

import math

import numpy as np
import pytest
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene

from trimtab.gpu_scheduling.heuristics import orders
from trimtab.gpu_scheduling.policies import ORDERS

NONE = np.zeros(8)


def values(scene: Scene, order, *settings: float) -> list[float]:
    snapshot = scene.snapshot()
    parameters = np.array([*settings, *[0.0] * (8 - len(settings))])
    return [order(snapshot, job, parameters) for job in range(len(scene.jobs))]


def test_by_arrival_size_and_age() -> None:
    scene = Scene([8], now_ms=3 * MINUTE)
    scene.waits(4, arrival_ms=0)
    scene.waits(1, arrival_ms=MINUTE)
    scene.waits(gpu_milli=250, arrival_ms=2 * MINUTE)
    assert values(scene, orders.fifo) == [0, MINUTE, 2 * MINUTE]
    assert values(scene, orders.smallest) == [4000, 1000, 250]
    assert values(scene, orders.largest) == [-4000, -1000, -250]
    # Ages are 3, 2 and 1 minutes: divided by 4, 3 and 2.
    assert values(scene, orders.aged_smallest, 1.0) == pytest.approx([1000, 1000 / 3, 125])
    assert values(scene, orders.aged_smallest, 0.0) == values(scene, orders.smallest)


def test_drf_counts_what_the_user_holds() -> None:
    scene = Scene([4, 4], cpus=10.0, memory_gib=1.0)
    scene.runs({0: 2}, user=1, cpu_milli=4000)
    greedy = scene.waits(1, user=1)
    other = scene.waits(3, user=2)
    by_memory = scene.waits(1, user=3, memory_mib=1024)
    found = values(scene, orders.drf)
    # User 1 holds 8 of 20 CPUs; user 2 would hold 3 of 8 GPUs; user 3 one of two GiB.
    assert found[greedy] == pytest.approx(8 / 20)
    assert found[other] == pytest.approx(3 / 8)
    assert found[by_memory] == pytest.approx(1 / 2)


def test_orders_by_duration() -> None:
    scene = Scene([8], now_ms=10 * MINUTE)
    half_done = scene.runs({0: 2}, started_ms=5 * MINUTE, rate=1.0, expected_ms=20.0 * MINUTE)
    waiting = scene.waits(1, expected_ms=16.0 * MINUTE, arrival_ms=2 * MINUTE)
    assert values(scene, orders.sjf) == [20 * MINUTE, 16 * MINUTE]
    assert values(scene, orders.srtf) == [15 * MINUTE, 16 * MINUTE]
    assert values(scene, orders.srsf) == [15 * MINUTE * 2000, 16 * MINUTE * 1000]
    assert values(scene, orders.qssf) == [20 * MINUTE * 2000, 16 * MINUTE * 1000]
    # 8 minutes of waiting on 16; the other came at 0 and has run for 5 of 10 minutes.
    assert values(scene, orders.expansion_factor)[waiting] == pytest.approx(-1.5)
    assert values(scene, orders.expansion_factor)[half_done] == pytest.approx(-1.25)
    assert values(scene, orders.wfp, 3.0)[waiting] == pytest.approx(-(0.5**3))
    assert values(scene, orders.unicef)[waiting] == pytest.approx(-0.5)


def test_themis_is_completion_time_over_that_with_an_equal_share() -> None:
    scene = Scene([4], now_ms=HOUR)
    small = scene.waits(1, expected_ms=float(HOUR))
    large = scene.waits(4, expected_ms=float(HOUR))
    found = values(scene, orders.themis)
    # Both will take two hours; with half of four GPUs the large one would take two hours anyway.
    assert found[small] == pytest.approx(-2.0)
    assert found[large] == pytest.approx(-1.0)


def test_attained_service_and_the_queues_of_tiresias() -> None:
    scene = Scene([8], now_ms=HOUR)
    running = scene.runs({0: 2}, started_ms=HOUR - 10 * MINUTE, attained_ms=5 * MINUTE)
    stopped = scene.waits(4, attained_ms=5 * MINUTE, arrival_ms=MINUTE)
    fresh = scene.waits(8, arrival_ms=2 * MINUTE)
    assert values(scene, orders.las) == [30 * MINUTE, 20 * MINUTE, 0]
    found = values(scene, orders.tiresias, 1500.0)
    assert np.argsort(found).tolist() == [stopped, fresh, running]  # 1,200 GPU-seconds are below 1,500
    assert np.argsort(values(scene, orders.tiresias, 1200.0)).tolist() == [fresh, running, stopped]
    # `running` has run 15 of its 60 minutes, `stopped` 5 of 59: 3 and 10.8 times as long waited as run.
    for promote in (3.5, 4.0):
        found = values(scene, orders.tiresias, 1200.0, promote)
        assert np.argsort(found).tolist() == [stopped, fresh, running]
    assert np.argsort(values(scene, orders.tiresias, 1200.0, 2.0)).tolist() == [running, stopped, fresh]


def test_tetris_prefers_the_match_and_then_short_jobs() -> None:
    scene = Scene([4, 4], cpus=10.0)
    scene.runs({0: 4})
    small = scene.waits(1, expected_ms=float(HOUR))
    large = scene.waits(4, expected_ms=float(HOUR))
    found = values(scene, orders.tetris_order, 0.0)
    assert found[small] == pytest.approx(-1 / 8 * 4 / 8)
    assert found[large] == pytest.approx(-4 / 8 * 4 / 8)
    found = values(scene, orders.tetris_order, 2.0)
    assert found[small] == pytest.approx(2 * 1 / 8 - 1 / 16)
    assert found[large] == pytest.approx(2 * 4 / 8 - 1 / 4)
    unknown = scene.waits(2, cpu_milli=2500)
    expected = -(2 / 8 * 4 / 8 + 5000 / 20000 * 1.0)
    assert values(scene, orders.tetris_order, 2.0)[unknown] == pytest.approx(expected)


def test_random_order_is_even_and_repeatable() -> None:
    scene = Scene([1])
    for _ in range(400):
        scene.waits(1)
    found = values(scene, orders.random_order, 7.0)
    assert found == values(scene, orders.random_order, 7.0) != values(scene, orders.random_order, 8.0)
    assert np.histogram(found, bins=4, range=(0, 1))[0].min() > 70
    assert abs(np.corrcoef(np.arange(400), found)[0, 1]) < 0.15


@pytest.mark.parametrize("name", ORDERS)
def test_no_order_needs_what_is_not_known(name: str) -> None:
    scene = Scene([8], now_ms=HOUR)
    scene.waits(2)
    scene.runs({0: 1}, started_ms=MINUTE)
    settings = [setting.value for setting in ORDERS[name].settings]
    assert not any(math.isnan(value) for value in values(scene, ORDERS[name].function, *settings))
