"""Kubernetes' VPA updater: which pods are changed, in which order, how many, and how."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.pod_exact import planned
from benchmarks.pod_exact_vpa_vectors import GIB, NOW_S, SIZES, UPDATER, four, pod, sized
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_updater import (
    MODES,
    ContainerState,
    PodState,
    Priority,
    ReplicaGroup,
    UpdaterMemory,
    UpdaterSettings,
    in_place_decision,
    plan,
    priority_of,
    quick_oom,
    wanted,
)


@pytest.mark.parametrize("vector", UPDATER, ids=lambda vector: f"{vector.mode}: {vector.why}")
def test_plans(vector):
    assert planned(vector) == vector.expected


def test_priority_sums_over_containers_before_it_compares():
    # CPU 100 + 300 against 500 + 500: 600 / 400; memory 1 + 3 GiB against 1 + 1 GiB: 2 / 4.
    found = priority_of([ContainerState(100, GIB, SIZES), ContainerState(300, 3 * GIB, SIZES)])
    assert found == Priority(outside=True, grows=True, difference=2.0)


def test_containers_and_resources_that_are_not_scaled_do_not_count():
    assert priority_of([ContainerState(1, 1, None)]) == Priority(False, False, 0.0)
    fits = ContainerState(500, 1, SIZES, controls_memory=False)
    assert priority_of([fits]) == Priority(False, False, 0.0)


def test_a_missing_request_counts_as_a_thousandth():
    found = priority_of([ContainerState(None, GIB, SIZES)])
    assert found == Priority(True, True, 499.0)  # 500 m against 1 m


def test_only_scaled_containers_are_killed_quickly():
    assert quick_oom(pod("a", oom_after_s=10))
    unscaled = PodState("a", (ContainerState(500, GIB, None, 10.0),), 0.0)
    assert not quick_oom(unscaled)
    assert not quick_oom(pod("a", oom_after_s=10), UpdaterSettings(quick_oom_s=5))


def test_reasons():
    assert wanted(pod("a", 100), now_s=NOW_S) == "a request is out of range"
    killed = pod("a", 500, GIB - 1, oom_after_s=10)
    assert wanted(killed, now_s=NOW_S) == "killed for want of memory soon after its start"
    assert wanted(pod("a", 420, age_s=1e6), now_s=NOW_S) == "old and off the target"
    assert (
        wanted(pod("a", 420, age_s=1e6), now_s=NOW_S, settings=UpdaterSettings(least_difference=0.2)) is None
    )
    edge = sized((550, GIB), (400, GIB // 2), (900, 2 * GIB))  # 50 / 500 is just a tenth
    assert wanted(PodState("a", (ContainerState(500, GIB, edge),), 0.0), now_s=NOW_S) is not None
    changes = plan(four(100), ReplicaGroup(4, 4, 2), "Recreate", UpdaterMemory(), now_s=NOW_S)
    assert changes[0] == ("a", "evict", "a request is out of range")


@pytest.mark.parametrize(
    ("configured", "running", "tolerance", "count"),
    [
        (4, 4, 0.5, 2),
        (5, 5, 0.5, 2),
        (3, 3, 0.5, 1),
        (4, 3, 0.5, 1),
        (4, 4, 0.1, 1),
        (4, 3, 0.1, 0),
        (4, 4, 1.0, 4),
    ],
)
def test_how_many_may_go(configured, running, tolerance, count):
    """Of 4 at a tenth, 0.4 is cut to none; of a complete group one may go all the same."""
    settings = UpdaterSettings(eviction_tolerance=tolerance)
    pods = [pod(str(number), 100) for number in range(running)]
    group = ReplicaGroup.of(pods, configured, settings)
    assert len(plan(pods, group, "Recreate", UpdaterMemory(), now_s=NOW_S, settings=settings)) == count
    assert group.evicted == count


def test_fewer_replicas_may_be_enough():
    alone, group = [pod("a", 100)], ReplicaGroup(1, 1, 0)
    settings = UpdaterSettings(least_replicas=1)
    assert plan(alone, group, "Recreate", UpdaterMemory(), now_s=NOW_S, settings=settings) != []


# --- in place --------------------------------------------------------------------------------------------


def decide(
    memory: UpdaterMemory,
    mode: str,
    at_s: float = NOW_S,
    *,
    group: ReplicaGroup | None = None,
    **rest: Any,
) -> str:
    one = pod("a", 100, **rest)
    memory.look([one], at_s)
    return in_place_decision(one, group or ReplicaGroup(4, 4, 2), mode, memory, at_s)


def test_decisions_in_place():
    for mode in ("InPlace", "InPlaceOrRecreate"):
        assert decide(UpdaterMemory(), mode) == "approved"
        assert decide(UpdaterMemory(), mode, phase="Pending") == "deferred"
        assert decide(UpdaterMemory(), mode, group=ReplicaGroup(4, 2, 2)) == "deferred"
        assert decide(UpdaterMemory(), mode, resize="deferred") == "deferred"
        assert decide(UpdaterMemory(), mode, resize="in progress") == "deferred"
    for resize in ("infeasible", "error"):
        assert decide(UpdaterMemory(), "InPlace", resize=resize) == "infeasible"
        assert decide(UpdaterMemory(), "InPlaceOrRecreate", resize=resize) == "evict"
    assert (
        decide(UpdaterMemory(), "InPlaceOrRecreate", resize="error", group=ReplicaGroup(4, 2, 2))
        == "deferred"
    )


def test_waiting_begins_when_a_resize_is_first_seen_and_is_forgotten_when_it_is_done():
    memory = UpdaterMemory()
    assert decide(memory, "InPlaceOrRecreate", 0.0, resize="deferred") == "deferred"
    assert decide(memory, "InPlaceOrRecreate", 301.0, resize="deferred") == "evict"
    assert decide(memory, "InPlaceOrRecreate", 302.0) == "approved"
    assert decide(memory, "InPlaceOrRecreate", 400.0, resize="deferred") == "deferred"
    assert decide(memory, "InPlaceOrRecreate", 700.0, resize="deferred") == "deferred"
    assert decide(memory, "InPlaceOrRecreate", 700.5, resize="deferred") == "evict"


def test_a_size_that_did_not_fit_is_not_tried_again_until_it_is_smaller():
    memory, group = UpdaterMemory(), ReplicaGroup(4, 4, 2)
    stuck = four(100, resize="infeasible")[:2]

    def sized_anew(target: tuple[float, float]) -> list[PodState]:
        sizes = sized(target, (400, GIB // 2), (900, 2 * GIB))
        return [one._replace(containers=(ContainerState(100, GIB, sizes),)) for one in stuck]

    def changes(pods: list[PodState]) -> list[str]:
        return [change.name for change in plan(pods, ReplicaGroup(4, 4, 2), "InPlace", memory, now_s=NOW_S)]

    assert changes(stuck) == ["a", "b"]  # tried once more, and remembered
    assert changes(stuck) == []
    assert in_place_decision(stuck[0], group, "InPlace", memory, NOW_S) == "known infeasible"
    # Larger CPU and the same memory: no. Larger CPU and less memory: it may be the memory that was too much.
    assert changes(sized_anew((600, GIB))) == []
    assert changes(sized_anew((600, GIB - 1))) == ["a", "b"]
    memory.look([], NOW_S)
    assert memory.infeasible == {}


def test_in_place_sends_a_new_size_while_an_old_one_is_under_way():
    """And beyond what the group tolerates: nobody is taken away."""
    for resize in ("deferred", "in progress"):
        group = ReplicaGroup(4, 4, 2)
        changes = plan(four(100, resize=resize), group, "InPlace", UpdaterMemory(), now_s=NOW_S)
        assert [change.action for change in changes] == ["resize"] * 4


def test_refusals():
    with pytest.raises(SettingsError, match="mode 'Always'; give one of Off"):
        plan([], ReplicaGroup(1, 1, 0), "Always", UpdaterMemory(), now_s=0.0)
    with pytest.raises(SettingsError, match="tolerance from 0 to 1"):
        UpdaterSettings(eviction_tolerance=2)


some_pods = st.lists(
    st.builds(
        pod,
        st.uuids().map(str),
        st.sampled_from([None, 100, 450, 500, 5000]),
        st.sampled_from([None, GIB // 4, GIB, 9 * GIB]),
        age_s=st.sampled_from([60.0, 1e6]),
        oom_after_s=st.sampled_from([None, 10.0]),
        phase=st.sampled_from(["Running", "Running", "Pending"]),
        resize=st.sampled_from(["none", "none", "deferred", "infeasible", "in progress", "error"]),
        resize_refused=st.booleans(),
    ),
    min_size=1,
    max_size=9,
)


@given(some_pods, st.sampled_from(MODES), st.floats(0, 1))
def test_enough_pods_stay_and_none_is_changed_twice(pods, mode, tolerance):
    settings = UpdaterSettings(eviction_tolerance=tolerance)
    group = ReplicaGroup.of(pods, len(pods), settings)
    changes = plan(pods, group, mode, UpdaterMemory(), now_s=NOW_S, settings=settings)
    names = [change.name for change in changes]
    assert len(set(names)) == len(names)
    running = {one.name for one in pods if one.phase == "Running"}
    gone = [change for change in changes if change.action == "evict" and change.name in running]
    assert len(gone) <= max(int(len(pods) * tolerance), 1)
    if mode in ("Off", "Initial"):
        assert changes == []
    if mode == "InPlace":
        assert gone == []
