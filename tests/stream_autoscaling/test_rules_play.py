"""Every rule plays a day in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.simulator.simulator import simulate_batch
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

RULES = ("aws", "dhalion", "ds2", "flink", "hpa", "keda-lag:lag_threshold=1000")
RULES += ("oracle-static", "reactive", "static")
JOB = Job(
    "count words",
    (
        Vertex(name="read", service_ms=0.5),
        Vertex(name="split", service_ms=2.0, scaling=0.95),
        Vertex(name="count", service_ms=3.0, key_groups=64, state_mb=50.0),
        Vertex(name="write", service_ms=0.5),
    ),
    (Edge(0, 1), Edge(1, 2, 2.0), Edge(2, 3, 0.5)),
)


@pytest.fixture(scope="module")
def episodes() -> dict[str, list[Episode]]:
    """A day between 100 and 700 records/s, on two seeds, under every rule."""
    hours = np.arange(24 * 60) / 60
    rates = 400.0 - 300.0 * np.cos(2 * np.pi * (hours - 3) / 24)
    trace = RateTrace(rates, 60.0, Provenance("a smooth day"))
    policies = [make_policy(name) for name in RULES]
    deployment = Deployment(slots=24, interval_s=120)
    return {
        policy.name: simulate_batch(policy, [JOB, JOB], [trace, trace], deployment, seeds=[1, 2])
        for policy in policies
    }


def metric(episodes: dict[str, list[Episode]], policy: str, name: str) -> float:
    return float(np.mean([episode.metrics()[name] for episode in episodes[policy]]))


def test_every_rule_lives_through_the_day(episodes: dict[str, list[Episode]]) -> None:
    for policy, played in episodes.items():
        for episode in played:
            assert episode.policy == policy
            assert len(episode.rewards) == 24 * 30
            assert np.isfinite(list(episode.metrics().values())).all(), policy
            assert (episode.slots <= 24).all()


def test_what_never_moves_never_restarts(episodes: dict[str, list[Episode]]) -> None:
    assert metric(episodes, "static", "rescales") == 0
    for policy in ("reactive", "oracle-static"):
        assert metric(episodes, policy, "rescales") <= 1  # to where it stays


def test_reactive_and_the_oracle_are_always_in_time(episodes: dict[str, list[Episode]]) -> None:
    for policy in ("reactive", "oracle-static"):
        assert metric(episodes, policy, "violation_share") < 0.01


def test_rules_that_follow_the_load_keep_up_with_fewer_slots_than_the_peak_needs(
    episodes: dict[str, list[Episode]],
) -> None:
    for policy in ("ds2", "flink", "hpa"):
        assert metric(episodes, policy, "unprocessed_share") < 0.001, policy
        assert metric(episodes, policy, "violation_share") < 0.1, policy
        assert metric(episodes, policy, "rescales") > 0, policy
    assert metric(episodes, "ds2", "subtask_hours") < metric(episodes, "oracle-static", "subtask_hours")


def test_the_flink_autoscaler_restarts_at_most_every_twenty_minutes(
    episodes: dict[str, list[Episode]],
) -> None:
    for episode in episodes["flink"]:
        apart = np.diff(np.flatnonzero(episode.rescaled))
        assert (apart >= 10).all()  # intervals of two minutes
