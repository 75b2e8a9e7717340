"""Laws of the engine on random services, deployments and commands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.pod_autoscaling.random_services import INTERVALS, Instance, random_instance

from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.simulator import Simulator, growing, simulator, totals
from trimtab.pod_autoscaling.simulator.state import ABSENT, ENDING, NONE, READY, WAITING

pytestmark = pytest.mark.pods

numbers = st.integers(0, 10**6)
few = settings(max_examples=60, deadline=None)


def simulator_of(instance: Instance, *, seed: int = 1, **options: object) -> Simulator:
    made = Simulator([instance.application], instance.deployment, **options)  # pyright: ignore[reportArgumentType]
    made.reset([instance.rates], [seed], drifts=[instance.drift])
    return made


def by_age(made: Simulator, pod: np.void) -> list[int]:
    """Slots of the requests inside a pod, along the list by age."""
    slots, slot = [], int(pod["oldest"])
    while slot != NONE:
        slots.append(slot)
        slot = int(made.state.requests[0, slot]["younger"])
    return slots


def in_heap(requests: np.ndarray, top: int) -> list[int]:
    """Slots below and with `top`; no child has a smaller key than its parent."""
    found, left = [], [top] if top != NONE else []
    while left:
        slot = left.pop()
        found.append(slot)
        child = int(requests[slot]["child"])
        while child != NONE:
            assert requests[child]["key"] >= requests[slot]["key"]
            left.append(child)
            child = int(requests[child]["next"])
    return found


def pods_of(made: Simulator) -> np.ndarray:
    return made.state.pods[0][made.state.pods[0]["state"] != ABSENT]


@few
@given(numbers)
def test_every_request_ends_exactly_once_or_is_still_inside(number):
    instance = random_instance(number)
    made = simulator_of(instance, outcomes=20_000)
    ended = np.zeros(20_000, bool)
    for wanted in instance.wanted:
        made.step(wanted[None])
        total = made.state.totals[0]
        how = made.state.outcomes[0, :, 1]
        assert (how[ended] > 0).all()
        ended = how > 0
        waiting = sum(
            not made.state.requests[0, slot]["given_up"]
            for pod in pods_of(made)
            for slot in by_age(made, pod)
        )
        assert total[totals.ARRIVED] == total[totals.FINISHED] + waiting
        assert ended.sum() == total[totals.FINISHED] == total[totals.ANSWERED] + total[totals.FAILED]
        assert (how == 1).sum() == total[totals.ANSWERED]


@few
@given(numbers)
def test_every_slot_is_in_one_place(number):
    instance = random_instance(number)
    made = simulator_of(instance)
    for wanted in instance.wanted:
        made.step(wanted[None])
        requests, slot, free = made.state.requests[0], int(made.state.run[0, 0]["free_slot"]), []
        while slot != NONE:
            free.append(slot)
            slot = int(requests[slot]["next"])
        inside: list[int] = []
        for pod in pods_of(made):
            aged = by_age(made, pod)
            assert len(aged) == pod["inside"] <= instance.application.workers + instance.application.queue
            working = in_heap(requests, int(pod["cpu_top"])) + in_heap(requests, int(pod["io_top"]))
            assert len(working) == pod["working"] <= instance.application.workers
            queued, slot = [], int(pod["queue_first"])
            while slot != NONE:
                queued.append(slot)
                slot = int(requests[slot]["next"])
            assert sorted(working + queued) == sorted(aged)
            assert not queued or pod["working"] == instance.application.workers
            inside += aged
        assert sorted(free + inside) == list(range(len(requests)))


@few
@given(numbers)
def test_only_ready_and_draining_pods_have_requests(number):
    instance = random_instance(number)
    made = simulator_of(instance)
    for wanted in instance.wanted:
        snapshot, _, _ = made.step(wanted[None])
        pods = pods_of(made)
        serving = (pods["state"] == READY) | (pods["state"] == ENDING)
        assert (pods["inside"][~serving] == 0).all()
        assert np.isinf(pods["next_s"][~serving]).all()
        count = int(made.state.run[0, 0]["ready_count"])
        ready = made.state.ready[0, :count]
        assert sorted(ready.tolist()) == np.flatnonzero(made.state.pods["state"][0] == READY).tolist()
        assert snapshot.ready[0] == count == snapshot.pods.ready[0].sum()
        staying = snapshot.pods.exists & ~snapshot.pods.ending
        assert staying.sum() == snapshot.size[0, 0]


@few
@example(2406)  # three pods whose memory runs out by itself within the first second
@given(numbers)
def test_pods_use_no_more_than_they_hold_and_hold_no_more_than_nodes_have(number):
    instance = random_instance(number)
    deployment, application = instance.deployment, instance.application
    # What grows by itself is looked at once a second.
    growth = 12 * (application.leak_mib_per_hour / 3600 + application.cache_mib)
    made = simulator_of(instance)
    for wanted in instance.wanted:
        made.step(wanted[None])
        truth, pods = made.truth, pods_of(made)
        # A quota may be used up at the beginning of its period: one period of every pod more than its share.
        slack = (
            12 * 4 * deployment.period_ms / 1000 / deployment.interval_s if deployment.sharing == "cfs" else 0
        )
        assert truth.cores_used[0] <= truth.cores_held[0] + slack + 1e-9
        assert truth.memory_used[0] <= truth.memory_held[0] + growth + 1e-9
        if deployment.sharing == "ps":
            assert (pods["active"] * pods["rate"] <= pods["cpu"] + 1e-12).all()
        assert (truth.ready <= truth.cores_held / deployment.least_cpu + 1e-9).all()
        for node in range(deployment.nodes):
            here = pods[(pods["node"] == node) & (pods["state"] != WAITING)]
            free = made.state.nodes[0, node]
            np.testing.assert_allclose(free[0], deployment.node_cpu - here["cpu"].sum(), atol=1e-9)
            np.testing.assert_allclose(free[1], deployment.node_memory_mib - here["memory"].sum(), atol=1e-6)
            assert (free >= -1e-6).all()


@few
@given(numbers)
def test_a_seed_says_everything_and_threads_and_neighbours_nothing(number):
    # Services that play alone, in threads, among others, and in tiny arrays that must grow: the same bits.
    instance = random_instance(number)
    alone = simulator_of(instance, seed=number)
    others = Simulator([instance.application] * 5, instance.deployment, threads=3)
    others.reset([instance.rates] * 5, [1, 2, number, 4, 5], drifts=[instance.drift] * 5)
    for wanted in instance.wanted:
        alone.step(wanted[None])
        others.step(np.tile(wanted, (5, 1)))
        np.testing.assert_array_equal(alone.state.totals[0], others.state.totals[2])
        np.testing.assert_array_equal(alone.state.truth[0], others.state.truth[2])
    first, second = alone.snapshot(), others.snapshot()
    for field in ("rate", "latency_p99_s", "cpu", "memory"):
        np.testing.assert_array_equal(getattr(first.samples, field)[0], getattr(second.samples, field)[2])
    np.testing.assert_array_equal(first.pods.cpu[0], second.pods.cpu[2])


@few
@given(numbers)
def test_two_policies_meet_the_same_arrivals(number):
    instance = random_instance(number)
    made, other = simulator_of(instance), simulator_of(instance)
    for wanted in instance.wanted:
        made.step(wanted[None])
        other.step(other.snapshot().size)
        assert made.truth.arrived == other.truth.arrived
        assert made.state.run[0, 0]["next_arrival_s"] == other.state.run[0, 0]["next_arrival_s"]
        assert made.state.run[0, 0]["exponent"] == other.state.run[0, 0]["exponent"]


@few
@given(numbers)
def test_a_copy_goes_on_like_the_original(number):
    instance = random_instance(number)
    made = Simulator([instance.application] * 2, instance.deployment)
    made.reset([instance.rates] * 2, [number, number + 1], drifts=[instance.drift] * 2)
    half = INTERVALS // 2
    for wanted in instance.wanted[:half]:
        made.step(np.tile(wanted, (2, 1)))
    copy = made.copied(np.array([1, 1, 0]))
    target = Simulator([instance.application] * 2, instance.deployment)
    target.reset([instance.rates] * 2, [5, 6])
    target.step(target.snapshot().size)
    target.load(np.array([0]), made, np.array([1]))
    for wanted in instance.wanted[half:]:
        one, _, _ = made.step(np.tile(wanted, (2, 1)))
        two, _, _ = copy.step(np.tile(wanted, (3, 1)))
        three, _, _ = target.step(np.tile(wanted, (2, 1)))
        for other, row, here in ((copy, 0, 1), (copy, 2, 0), (target, 0, 1)):
            np.testing.assert_array_equal(made.state.totals[here], other.state.totals[row])
        for field in one.samples._fields:
            newest = getattr(one.samples, field)[1]
            np.testing.assert_array_equal(newest, getattr(two.samples, field)[1])
            np.testing.assert_array_equal(newest, getattr(three.samples, field)[0])


def test_arrays_that_must_grow_change_nothing(monkeypatch):
    # Overload: hundreds of requests inside, pods that drain for long while others come.
    application = Application(segments=(Segment(cpu_ms=500),), workers=50, queue=200, start_s=1.0)
    deployment = Deployment(interval_s=5, most_replicas=4, start_replicas=4, drain_s=60)
    sizes = np.array([[4, 1, 512], [1, 1, 512], [4, 1, 512], [1, 1, 512], [4, 1, 512], [2, 1, 512]], float)

    def play() -> Simulator:
        made = Simulator([application], deployment)
        made.reset([np.full(60, 100.0)], [3])
        for size in sizes:
            made.step(size[None])
        return made

    plain = play()
    monkeypatch.setattr(simulator, "_FIRST_SLOTS", 2)
    grown = play()
    # Four pods of 250 places, and nine that drain: more than 512 slots and 2 x 4 rows.
    assert plain.state.requests.shape[1] > 512 and plain.state.pods.shape[1] == 16
    np.testing.assert_array_equal(plain.state.totals, grown.state.totals)


def test_work_is_neither_lost_nor_made_up():
    # Constant work, nothing fails, and in the end nothing is left: CPU used = requests x work + starts.
    application = Application(segments=(Segment(cpu_ms=30, cpu_variation=0, io_ms=20),), timeout_s=600)
    deployment = Deployment(interval_s=10, start_replicas=2)
    made = Simulator([application.model_copy(update={"start_s": 2.0})], deployment)
    made.reset([np.concatenate([np.full(100, 50.0), np.zeros(200)])], [1])
    for size in ([2, 1, 512], [4, 0.5, 512], [4, 2, 512]) + ([3, 2, 512],) * 27:
        made.step(np.array([size], float))
    total = made.state.totals[0]
    assert total[totals.FAILED] == 0 and total[totals.ARRIVED] == total[totals.FINISHED]
    worked_s = total[totals.FINISHED] * 0.03 + 2 * application.start_cpu_s
    np.testing.assert_allclose(total[totals.CPU_S], worked_s, rtol=1e-9)
    # Little's law holds exactly over a span that begins and ends empty.
    np.testing.assert_allclose(total[totals.INSIDE_S], total[totals.LATENCY_S], rtol=1e-9)


def test_copying_into_a_batch_with_more_room_frees_the_rest():
    instance = random_instance(4)
    made = simulator_of(instance)
    roomy = simulator_of(instance)
    roomy._state = growing.with_rows(growing.with_slots(roomy.state, 2048), 40)
    roomy.load(np.array([0]), made, np.array([0]))
    for wanted in instance.wanted:
        made.step(wanted[None])
        roomy.step(wanted[None])
    np.testing.assert_array_equal(made.state.totals, roomy.state.totals)
