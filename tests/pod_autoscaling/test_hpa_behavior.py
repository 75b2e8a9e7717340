"""Stabilisation, policies and bounds of Kubernetes' HPA: hand-worked timelines, memory, manifests, laws."""

from __future__ import annotations

import json

import pytest
from benchmarks.pod_exact import played
from benchmarks.pod_exact_vectors import TIMELINES, policies
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_behavior import (
    Behavior,
    Bounds,
    Decision,
    HpaMemory,
    ScaleEvent,
    ScalingPolicy,
    ScalingRules,
    behavior_from_manifest,
    decide,
    record_scale,
    scale_down_limit,
    scale_up_limit,
    stabilised,
    step,
)
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import Failed, Proposal, Tolerance

BOUNDS = Bounds(1, 20)


def wants(replicas: int) -> Proposal:
    return Proposal(replicas, 0, "")


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda timeline: timeline.why)
def test_timelines(timeline):
    assert played(timeline) == [expected for *_, expected in timeline.steps]


def test_usual_behavior_is_that_of_kubernetes():
    usual = Behavior()
    assert usual.up == ScalingRules(
        0.0, (ScalingPolicy("Pods", 4, 15.0), ScalingPolicy("Percent", 100, 15.0))
    )
    assert usual.down == ScalingRules(300.0, (ScalingPolicy("Percent", 100, 15.0),))
    assert usual.tolerance == Tolerance(0.1, 0.1)


@pytest.mark.parametrize(
    ("current", "proposed", "behavior", "bounds", "decision"),
    [
        (3, 9, Behavior(), BOUNDS, Decision(7, 9, "ScaleUpLimit")),
        (3, 9, Behavior(), Bounds(1, 5), Decision(5, 9, "TooManyReplicas")),
        (3, 5, Behavior(), BOUNDS, Decision(5, 5, "DesiredWithinRange")),
        (9, 1, Behavior(down=policies(("Pods", 2, 60))), BOUNDS, Decision(7, 1, "ScaleDownLimit")),
        (9, 1, Behavior(down=policies(("Pods", 9, 60))), Bounds(4, 20), Decision(4, 1, "TooFewReplicas")),
        (9, 1, Behavior(), BOUNDS, Decision(9, 9, "DesiredWithinRange")),
        (3, 9, None, BOUNDS, Decision(6, 9, "ScaleUpLimit")),
        (3, 9, None, Bounds(1, 5), Decision(5, 9, "TooManyReplicas")),
        (30, 9, None, BOUNDS, Decision(20, 20, "TooManyReplicas")),
        (1, 9, None, Bounds(2, 20), Decision(2, 2, "TooFewReplicas")),
        (0, 9, None, BOUNDS, Decision(0, 0, "ScalingDisabled")),
    ],
)
def test_decisions_say_why(current, proposed, behavior, bounds, decision):
    assert decide(HpaMemory(), wants(proposed), current, bounds, behavior, now_s=0.0) == decision


def test_a_failed_metric_gives_its_reason():
    decision = decide(HpaMemory(), Failed("no metrics"), 3, BOUNDS, Behavior(), now_s=0.0)
    assert decision == Decision(3, 3, "no metrics")


def test_deciding_remembers_the_recommendation_and_scaling_the_change():
    memory = HpaMemory()
    decide(memory, wants(9), 3, BOUNDS, Behavior(), now_s=5.0)
    assert memory.recommendations == [(3, 5.0), (9, 5.0)]  # what there was at first, what was proposed
    assert memory.ups == []
    record_scale(memory, Behavior(), 3, 7, now_s=6.0)
    assert memory.ups == [ScaleEvent(4, 6.0)]
    record_scale(memory, Behavior(), 7, 5, now_s=7.0)
    assert memory.downs == [ScaleEvent(2, 7.0)]
    record_scale(memory, Behavior(), 5, 5, now_s=8.0)
    record_scale(memory, None, 5, 9, now_s=8.0)
    assert (len(memory.ups), len(memory.downs)) == (1, 1)


def test_memory_stays_small():
    """Outdated entries are overwritten: 300 s of steps of 15 s, and two in each direction of changes."""
    memory, behavior = HpaMemory(), Behavior(down=policies(("Percent", 100, 15), wait_s=300))
    current = 5
    for number in range(1000):
        current = step(memory, wants(5 + number % 2), current, BOUNDS, behavior, now_s=15.0 * number).replicas
    assert len(memory.recommendations) <= 300 / 15 + 2
    assert len(memory.ups) <= 2 and len(memory.downs) <= 2


def test_outdated_stays_outdated_until_overwritten():
    """An event marked under short periods is overwritten even if the periods have become longer since."""
    memory = HpaMemory(ups=[ScaleEvent(1, 0.0), ScaleEvent(2, 50.0)])
    record_scale(memory, Behavior(up=policies(("Pods", 4, 15))), 1, 4, now_s=60.0)
    assert memory.ups == [ScaleEvent(3, 60.0), ScaleEvent(2, 50.0)]
    memory.ups[0] = ScaleEvent(3, 60.0, outdated=True)
    record_scale(memory, Behavior(up=policies(("Pods", 4, 600))), 4, 5, now_s=61.0)
    assert memory.ups == [ScaleEvent(1, 61.0), ScaleEvent(2, 50.0)]


def test_memory_survives_a_file():
    memory = HpaMemory()
    for number in range(5):
        step(
            memory,
            wants(3 * number),
            2 + number,
            BOUNDS,
            Behavior(down=policies(("Pods", 1, 60))),
            now_s=20.0 * number,
        )
    again = HpaMemory.from_dict(json.loads(json.dumps(memory.as_dict())))
    assert again == memory
    assert isinstance(again.ups[0], ScaleEvent)


def test_limits_by_hand():
    memory = HpaMemory(ups=[ScaleEvent(3, 90.0)], downs=[ScaleEvent(1, 95.0)])
    # Ten pods now, so 10 - 3 + 1 = 8 a minute ago; 10 - 0 + 1 = 11 eight seconds ago.
    assert scale_up_limit(memory, 10, policies(("Pods", 4, 60)), now_s=100.0) == 12
    assert scale_up_limit(memory, 10, policies(("Percent", 50, 8)), now_s=100.0) == 17
    assert scale_down_limit(memory, 10, policies(("Pods", 4, 60)), now_s=100.0) == 4
    assert scale_down_limit(memory, 10, policies(("Percent", 50, 8)), now_s=100.0) == 5


def test_manifests_fill_in_what_is_usual():
    behavior = behavior_from_manifest(
        {
            "scaleUp": {
                "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
                "selectPolicy": "Min",
            },
            "scaleDown": {"tolerance": "0.2", "stabilizationWindowSeconds": None},
        }
    )
    assert behavior.up == ScalingRules(0.0, (ScalingPolicy("Pods", 2, 60.0),), "Min")
    assert behavior.down == ScalingRules(300.0, (ScalingPolicy("Percent", 100, 15.0),), tolerance=0.2)
    assert behavior_from_manifest({}) == Behavior()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: ScalingPolicy("Pod", 1, 15), "kind 'Pod'; give Pods or Percent"),
        (lambda: ScalingPolicy("Pods", 0, 15), "value from 1"),
        (lambda: ScalingPolicy("Pods", 1, 1801), "1 to 1800 s"),
        (lambda: policies(("Pods", 1, 15), select="Most"), "selectPolicy 'Most'"),
        (lambda: policies(), "without a policy"),
        (lambda: policies(("Pods", 1, 15), wait_s=3601), "0 to 3600 s"),
        (lambda: Bounds(5, 4), "replicas from 5 to 4"),
        (lambda: Bounds(0, 0), "maxReplicas from 1"),
        (
            lambda: behavior_from_manifest({"scaleUp": {"policy": []}}),
            "behavior.scaleUp has no field 'policy'",
        ),
        (lambda: behavior_from_manifest({"scaleDown": {"policies": [{"type": "Pods"}]}}), "lacks 'value'"),
    ],
)
def test_refusals(bad, message):
    with pytest.raises(SettingsError, match=message):
        bad()


rules = st.builds(
    ScalingRules,
    st.sampled_from([0.0, 30.0, 60.0, 300.0]),
    st.lists(
        st.builds(
            ScalingPolicy,
            st.sampled_from(["Pods", "Percent"]),
            st.integers(1, 200),
            st.sampled_from([15, 60, 300]),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.sampled_from(["Max", "Min", "Disabled"]),
)


@given(rules, rules, st.lists(st.none() | st.integers(0, 60), min_size=1, max_size=30), st.integers(2, 20))
def test_no_step_leaves_the_bounds_or_goes_against_its_proposal(up_rules, down_rules, wanted, current):
    memory, behavior, bounds = HpaMemory(), Behavior(up_rules, down_rules), Bounds(2, 20)
    for number, proposal in enumerate(wanted):
        outcome = Failed("") if proposal is None else wants(proposal)
        decision = step(memory, outcome, current, bounds, behavior, now_s=15.0 * number)
        assert bounds.least <= decision.replicas <= bounds.most
        if proposal is None:
            assert decision.replicas == current
        else:
            # Never beyond what is proposed, in either direction, except into the bounds.
            low, high = sorted((current, min(max(proposal, bounds.least), bounds.most)))
            assert low <= decision.replicas <= high
        current = decision.replicas


@given(rules, rules, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=25))
def test_stabilised_is_what_a_full_memory_would_say(up_rules, down_rules, past):
    """Overwriting outdated entries loses nothing that counts."""
    behavior, memory, whole = Behavior(up_rules, down_rules), HpaMemory(), []
    now_s = 0.0
    for gap, proposed in past:
        now_s += 7.0 * gap
        ups = [replicas for replicas, at_s in whole if at_s > now_s - up_rules.stabilisation_s]
        downs = [replicas for replicas, at_s in whole if at_s > now_s - down_rules.stabilisation_s]
        expected = min(max(10, min([proposed, *ups])), max([proposed, *downs]))
        assert stabilised(memory, proposed, 10, behavior, now_s=now_s) == expected
        whole.append((proposed, now_s))
