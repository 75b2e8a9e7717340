"""What a decision earns is what two separate lives, equal up to it, differ by."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Integers
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.sure.looking_ahead import gains
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

JOB = Job(
    "count words",
    (
        Vertex(name="read", service_ms=0.5, service_spread=0.5),
        Vertex(name="count", service_ms=3.0, key_groups=64, state_mb=50.0),
    ),
    (Edge(0, 1),),
)
RULE = make_policy("ds2:target=0.7,window_s=300,tolerance=0.2")
ALONG, AHEAD = 30, 20


def beginning(steps: int = ALONG) -> StreamSimulator:
    """Three seeds of a wavy rate, lived through under the rule."""
    rates = 600.0 + 250.0 * np.sin(np.arange(120) / 10)
    traces = [RateTrace(rates * factor, 60.0, Provenance("waves")) for factor in (0.8, 1.0, 1.2)]
    simulator = StreamSimulator([JOB] * 3, traces, Deployment(), seeds=[1, 2, 3])
    decider = RULE.begin(simulator.graph)
    for _ in range(steps):
        simulator.step(decider.decide(simulator.snapshot()))
    return simulator


def lived_on(first: Integers) -> np.ndarray:
    """Rewards of another life that asks for `first` at the same moment and follows the rule from then on."""
    simulator = beginning()
    total = simulator.step(first).rewards
    decider = RULE.begin(simulator.graph)
    for _ in range(AHEAD - 1):
        total = total + simulator.step(decider.decide(simulator.snapshot())).rewards
    return total


def test_copies_live_on_as_the_original_and_leave_it_alone() -> None:
    simulator, untouched = beginning(), beginning()
    copy = simulator.copied(np.array([2, 0, 2]))
    decider = RULE.begin(copy.graph)
    theirs = [copy.step(decider.decide(copy.snapshot())).rewards for _ in range(AHEAD)]
    for simulated in (simulator, untouched):
        decider = RULE.begin(simulated.graph)
        ours = [simulated.step(decider.decide(simulated.snapshot())).rewards for _ in range(AHEAD)]
        assert np.array_equal(np.array(ours)[:, [2, 0, 2]], np.array(theirs))


def test_gains_are_the_difference_of_two_lives() -> None:
    simulator = beginning()
    now = simulator.snapshot().parallelism
    assert not (simulator.snapshot().rescaling | (simulator.snapshot().cooldown_s > 0)).any()
    more = now + np.array([[0, 2], [1, 0], [0, 0]])
    found = gains(simulator, more, now, RULE, AHEAD)
    assert found == pytest.approx(lived_on(more) - lived_on(now))
    assert found[2] == 0  # the same decision
    assert (found[:2] != 0).all()


def test_looking_ahead_ends_with_the_trace() -> None:
    simulator = beginning(steps=118)
    now = simulator.snapshot().parallelism
    assert gains(simulator, now + 1, now, RULE, AHEAD) == pytest.approx(
        gains(simulator, now + 1, now, RULE, 2)
    )


def test_training_environments_reward_the_base_rules_own_decisions_with_nothing() -> None:
    from trimtab.stream_autoscaling.sure.design import Design
    from trimtab.stream_autoscaling.sure.rollouts import Course, RolloutEnvironment

    design = Design(history_encoder="deepwave", history=5, snapshots=2, base_window_s=300.0)
    rates = 600.0 + 250.0 * np.sin(np.arange(400) / 10)
    course = Course(
        (JOB,),
        lambda job, seed: RateTrace(rates, 60.0, Provenance("waves")),
        Deployment(),
        make_policy(design.teacher),
        span_s=3 * 3600.0,
        look_ahead=10,
    )
    playing = RolloutEnvironment(course, design, size=4)
    playing.reset(1, np.inf)
    differing = 0
    for step in range(60):
        shown = playing.observe()
        actions = shown["teacher"].copy()
        if step % 7 == 6:
            actions[:, 0] = 1 - actions[:, 0]  # hold where the rule commits, commit where it holds
        outcome = playing.step(actions)
        if step % 7 == 6:
            differing += int((outcome.rewards != 0).sum())
        else:
            assert (outcome.rewards == 0).all()
    assert differing > 0
