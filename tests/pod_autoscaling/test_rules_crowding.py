"""What the rule `multi` remembers: how many requests a pod bears, and the worst that memory was."""

from typing import Any

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.pod_autoscaling.heuristics.crowding import Crowding
from trimtab.pod_autoscaling.heuristics.multi import multi
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import REPLICAS, Snapshot
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch
from trimtab.pod_autoscaling.workload.applications import make_application

RATE = np.array([100.0])


def lived(late: float = 0.0, *, inside: float = 20.0, cpu: float = 2.0, **given: Any) -> Snapshot:
    """Four pods of a core each; half of their CPU is to spare."""
    return snapshot_of(services_of(1), late=late, in_flight=inside, cpu=cpu, latency_s=0.2, **given)


def test_nothing_is_limited_while_all_is_well() -> None:
    crowding = Crowding(1)
    assert [crowding.pods(lived(), RATE)[0] for _ in range(5)] == [0] * 5


def test_late_requests_with_cpu_to_spare_mean_that_pods_are_crowded() -> None:
    crowding = Crowding(1)
    crowding.pods(lived(inside=64.0), RATE)  # 16 in each pod, and all was well
    wanted = crowding.pods(lived(late=0.3, inside=400.0), RATE)[0]
    # 100/s that stay 0.2 s each are 20 inside; 0.75 x 16 = 12 may be in a pod.
    assert wanted == 2
    assert crowding.pods(lived(), np.array([240.0]))[0] == 4


def test_half_of_what_pods_work_on_in_trouble_may_be_inside() -> None:
    crowding = Crowding(1)
    crowding.pods(lived(inside=16.0), RATE)  # 4 in each pod, and all was well
    # 400/s are finished all the same, 100/s by each pod, of 0.2 s each: 20 are at work, and 10 may be inside.
    crowding.pods(lived(late=0.3, inside=400.0, rate=400.0), RATE)
    assert crowding.pods(lived(), np.array([390.0]))[0] == 8


@pytest.mark.parametrize(
    "given",
    [{"cpu": 3.9}, {"kills": 1.0}, {"complete": 0.0}, {"late": np.array([[0.0] * 19 + [0.3]])}],
    ids=["no cpu to spare", "a pod was killed", "metrics missing", "for one interval only"],
)
def test_other_troubles_are_not_taken_for_it(given: dict) -> None:
    crowding = Crowding(1)
    crowding.pods(lived(inside=64.0), RATE)
    assert crowding.pods(lived(**{"late": 0.3, "inside": 400.0} | given), RATE)[0] == 0


def test_the_limit_rises_again_and_another_service_begins_without() -> None:
    crowding = Crowding(1)
    crowding.pods(lived(inside=64.0), RATE)
    crowding.pods(lived(late=0.3, inside=400.0), RATE)
    for _ in range(232):
        wanted = crowding.pods(lived(), RATE)[0]
    # Twice as many after an hour: 24 in a pod, one is enough.
    assert wanted == 1
    present = np.zeros((1, 20), bool)
    assert crowding.pods(lived(present=present), RATE)[0] == 0


def test_the_worst_of_memory_fades_slowly() -> None:
    crowding = Crowding(1)
    crowding.memory(lived(), np.array([400.0]))
    for _ in range(240):
        kept = crowding.memory(lived(), np.array([100.0]))
    assert kept[0] == pytest.approx(400 * 0.9985**240)
    assert np.isnan(Crowding(1).memory(lived(), np.array([np.nan]))[0])


SAME, HEAVIER = np.array([False]), np.array([True])


def test_what_was_wanted_of_memory_fades_slowly() -> None:
    crowding, calm = Crowding(1), np.array([300.0])
    rising, falling = lived(memory=np.arange(20.0)), lived(memory=np.arange(20.0)[::-1])
    # The first counts as it is; after that, what is wanted after a rise counts only while there is one.
    assert crowding.wanted_memory(falling, np.array([800.0]), calm, SAME)[0] == 800
    assert crowding.wanted_memory(falling, np.array([900.0]), calm, SAME)[0] == pytest.approx(800 * 0.9985)
    assert crowding.wanted_memory(rising, np.array([900.0]), calm, SAME)[0] == 900
    begun = lived(present=np.array([[False] * 19 + [True]]))
    assert crowding.wanted_memory(begun, np.array([100.0]), np.array([90.0]), SAME)[0] == 100


def test_what_was_wanted_while_requests_became_heavier_is_forgotten() -> None:
    crowding = Crowding(1)
    rising, falling = lived(memory=np.arange(20.0)), lived(memory=np.arange(20.0)[::-1])
    risen, calm, usual = np.array([900.0]), np.array([500.0]), np.array([200.0])
    crowding.wanted_memory(falling, usual, usual, SAME)
    assert crowding.wanted_memory(rising, risen, calm, HEAVIER)[0] == 900
    # For as long as the peak is seen, it counts; then what was wanted before, and what is wanted now.
    assert crowding.wanted_memory(falling, risen, calm, HEAVIER)[0] == 500
    assert crowding.wanted_memory(falling, risen, calm, SAME)[0] == 500
    assert crowding.wanted_memory(falling, usual, usual - 20, SAME)[0] == pytest.approx(200 * 0.9985**4)
    # A peak that comes later is remembered as any other.
    assert crowding.wanted_memory(rising, risen, calm + 100, SAME)[0] == 900
    assert crowding.wanted_memory(falling, usual, usual, SAME)[0] == pytest.approx(900 * 0.9985)


FULL = {"failed": np.array([[0.0] * 19 + [0.05]]), "memory": 400.0}


def test_pods_that_refuse_requests_are_full() -> None:
    crowding, peak = Crowding(1), np.array([410.0])
    assert np.isinf(crowding.full_memory(lived(), peak)[0])
    assert crowding.full_memory(lived(**FULL), peak)[0] == 410
    # It fades; and more than full was full.
    assert crowding.full_memory(lived(), np.array([300.0]))[0] == pytest.approx(410 * 1.0002)
    assert crowding.full_memory(lived(), np.array([450.0]))[0] == 450
    # Whoever was killed was not full, and another service is not known yet.
    assert np.isinf(crowding.full_memory(lived(kills=1.0), peak)[0])
    crowding.full_memory(lived(**FULL), peak)
    assert np.isinf(crowding.full_memory(lived(present=np.array([[False] * 19 + [True]])), peak)[0])


@pytest.mark.parametrize(
    "given",
    [
        {"failed": 0.05},
        {"memory": 300.0},
        {"memory": 490.0},
        {"kills": np.array([[0.0] * 17 + [1.0, 0.0, 0.0]])},
        {"complete": False},
    ],
    ids=["as many as ever", "not near the worst", "near the limit", "a pod was killed", "metrics missing"],
)
def test_other_failures_do_not_mean_that_pods_are_full(given: dict) -> None:
    assert np.isinf(Crowding(1).full_memory(lived(**FULL | given), np.array([490.0]))[0])


def test_copies_remember_their_rows() -> None:
    crowding = Crowding(2)
    services = services_of(2)
    crowding.memory(snapshot_of(services), np.array([100.0, 300.0]))
    taken = crowding.taken(np.array([1, 1, 0]))
    three = snapshot_of(services_of(3))
    assert taken.memory(three, np.full(3, np.nan)).tolist() == pytest.approx([299.55, 299.55, 99.85])


def test_the_rule_keeps_as_many_pods() -> None:
    services = services_of(1)
    decider = multi().begin(services)
    calm = {"rate": 100.0, "cpu": 2.0, "latency_s": 0.2, "size": (4, 1.0, 512)}
    decider.decide(snapshot_of(services, in_flight=16.0, **calm))
    decider.decide(snapshot_of(services, in_flight=400.0, late=0.3, **calm))
    # Three may be in a pod (0.75 x 4), and 20 are inside: seven pods, where two of three cores would do.
    assert decider.decide(snapshot_of(services, in_flight=20.0, **calm))[0, REPLICAS] == 7


@pytest.mark.pods
def test_a_service_of_few_workers_gets_more_pods_once_it_was_late() -> None:
    """200 ms of waiting at 100/s are 20 inside: with 8 workers in a pod, three pods and not a large one."""
    app = make_application("textbook").model_copy(
        update={"workers": 8, "segments": (make_application("textbook").segments[0].model_copy(
            update={"cpu_ms": 5.0, "io_ms": 200.0, "cpu_variation": 0.5, "io_variation": 0.1}
        ),)}
    )  # fmt: skip
    (episode,) = simulate_batch(
        make_policy("multi"), [app], [np.full(2400, 100.0)], seeds=[1], sizes=np.array([[6.0, 1.0, 512.0]])
    )
    half = len(episode.late) // 2
    assert episode.size[half:, REPLICAS].mean() > 2.5
    assert episode.late[half:].sum() / episode.finished[half:].sum() < 0.02
