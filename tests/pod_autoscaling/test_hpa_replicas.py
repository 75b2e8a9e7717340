"""Kubernetes' replica calculator: hand-worked vectors, how pods are grouped, and laws."""

from __future__ import annotations

import pytest
from benchmarks.pod_exact import combined, proposed
from benchmarks.pod_exact_vectors import COMBINED, NOW_S, REPLICAS, pods, starting
from hypothesis import given
from hypothesis import strategies as st

from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import (
    Failed,
    PodSample,
    Proposal,
    ReadinessTiming,
    Tolerance,
    average_value_replicas,
    combined_replicas,
    group_pods,
    milli_units,
    per_pod_value_replicas,
    total_value_replicas,
    utilisation_replicas,
)


@pytest.mark.parametrize("vector", REPLICAS, ids=lambda vector: f"{vector.metric}: {vector.why}")
def test_replicas_of_one_metric(vector):
    assert proposed(vector) == vector.expected


@pytest.mark.parametrize("vector", COMBINED, ids=lambda vector: vector.why)
def test_several_metrics(vector):
    assert combined(vector) == vector.expected


def test_pods_by_group():
    found = group_pods(
        [
            *pods(1, 500),
            *pods(1, None),
            *pods(1, 500, phase="Pending"),
            *pods(1, 500, deleted=True),
            *pods(1, 500, phase="Failed"),
            *starting(500, 100, ready=False, ready_age_s=100),
            *pods(1, None, phase="Unknown"),
        ],
        NOW_S,
        cpu=True,
    )
    assert found == ([0], [2, 5], [1, 6], [3, 4])


def test_a_deleted_pod_is_left_out_even_while_pending():
    assert group_pods(pods(1, None, phase="Pending", deleted=True), NOW_S, cpu=True).ignored == [0]


def test_the_controllers_flags_move_the_windows():
    young = starting(500, 100, ready=True, ready_age_s=20, measured_s=NOW_S)
    assert group_pods(young, NOW_S, cpu=True).unready == [0]
    hurried = ReadinessTiming(cpu_initialisation_s=60)
    assert group_pods(young, NOW_S, cpu=True, timing=hurried).counted == [0]
    # Never ready, by a readiness set 40 s after the start, if the first 60 s do not count as a status.
    slow = starting(500, 301, ready=False, ready_age_s=261)
    assert group_pods(slow, NOW_S, cpu=True).counted == [0]
    patient = ReadinessTiming(initial_readiness_delay_s=60)
    assert group_pods(slow, NOW_S, cpu=True, timing=patient).unready == [0]


def test_proposals_say_what_was_measured_and_why():
    near = utilisation_replicas(pods(3, 559), 3, 50, now_s=NOW_S)
    assert near == Proposal(3, 55, "within the tolerance")
    # The status shows the utilisation of the pods that count, not that with pods in doubt.
    doubted = utilisation_replicas(pods(3, 800) + pods(1, None), 4, 50, now_s=NOW_S)
    assert doubted == Proposal(5, 80, "in proportion to 4 pods, some in doubt")
    turned = utilisation_replicas(pods(1, 600) + pods(3, None), 4, 50, now_s=NOW_S)
    assert turned == Proposal(4, 60, "pods in doubt turn the direction around")
    fewer = utilisation_replicas(pods(2, 900) + pods(1, None), 10, 50, now_s=NOW_S)
    assert fewer == Proposal(10, 90, "the number of pods turns the direction around")


@pytest.mark.parametrize(
    ("outcome", "because"),
    [
        (utilisation_replicas([], 1, 50, now_s=0.0), "there are no pods"),
        (utilisation_replicas(pods(2, None), 2, 50, now_s=0.0), "no pod that counts has a metric"),
        (
            utilisation_replicas(pods(2, 5, None), 2, 50, now_s=0.0),
            "a container has no request for the resource",
        ),
        (
            utilisation_replicas(pods(2, 5, 0), 2, 50, now_s=0.0),
            "the requests of all pods with a metric are zero",
        ),
        (average_value_replicas([], 1, 50, now_s=0.0), "there are no pods"),
        (total_value_replicas([], 1, 500, 50), "there are no pods"),
        (combined_replicas([], 1), "there are no metrics"),
        (combined_replicas([Failed("first"), Failed("second")], 1), "first"),
    ],
)
def test_failures_are_answers_with_a_reason(outcome, because):
    assert outcome == Failed(because)


def test_quantities_are_rounded_up_to_thousandths():
    # 0.07 * 1000 is 70.00000000000001 in doubles: noise, not a reason for 71.
    assert [milli_units(value) for value in (0.07, 0.0701, 0, 1.0005)] == [70, 71, 0, 1001]


def test_measured_of_a_total_is_its_share_of_each_pod():
    assert per_pod_value_replicas(3, 100, 1000).measured == 34
    assert per_pod_value_replicas(0, 100, 1000) == Proposal(1, 0, "total over target")


some_pods = st.lists(
    st.builds(
        PodSample,
        st.none() | st.integers(0, 3000),
        st.integers(1, 2000),
        st.sampled_from(["Running", "Running", "Running", "Pending", "Failed"]),
        st.booleans(),
        st.sampled_from([True, False, None]),
    ),
    min_size=1,
    max_size=12,
)


@given(some_pods, st.integers(1, 30), st.integers(1, 150))
def test_doubts_only_hold_back(sample, current, target):
    """With pods in doubt, never further from what there is than the pods that count would go alone."""
    outcome = utilisation_replicas(sample, current, target, now_s=NOW_S)
    if isinstance(outcome, Failed):
        return
    groups = group_pods(sample, NOW_S, cpu=True)
    ratio = outcome.measured / target
    if groups.missing or (groups.unready and ratio > 1):
        if ratio > 1:
            assert outcome.replicas >= current
        if ratio < 1:
            assert outcome.replicas <= current


@given(some_pods, st.integers(1, 30), st.integers(1, 150))
def test_order_of_pods_does_not_matter(sample, current, target):
    forward = utilisation_replicas(sample, current, target, now_s=NOW_S)
    assert utilisation_replicas(sample[::-1], current, target, now_s=NOW_S) == forward


@given(st.integers(1, 200), st.integers(1, 300), st.integers(1, 100))
def test_without_doubts_the_new_number_would_meet_the_target(count, percent, target):
    outcome = utilisation_replicas(pods(count, 10 * percent), count, target, now_s=NOW_S)
    assert isinstance(outcome, Proposal)
    if not Tolerance().holds(percent / target):
        assert outcome.replicas * target >= count * percent - 1e-6
        assert (outcome.replicas - 1) * target <= count * percent + 1e-6
    else:
        assert outcome.replicas == count


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 20), st.booleans())
def test_a_failed_metric_never_scales_down(wanted, current, broken):
    outcomes = [Proposal(replicas, 0, "") for replicas in wanted]
    found = combined_replicas([*outcomes, Failed("x")] if broken else outcomes, current)
    if broken and max(wanted) < current:
        assert isinstance(found, Failed)
    else:
        assert isinstance(found, Proposal) and found.replicas == max(wanted)
