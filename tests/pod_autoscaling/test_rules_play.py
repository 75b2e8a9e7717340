"""Every rule plays in the simulator, and the orders of cost and lateness that theory promises hold."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.heuristics.oracle import Oracle
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import PodPolicy
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch

pytestmark = pytest.mark.pods

RULES = ("autothrottle", "hpa:target=50", "hpa:target=70", "hpa:target=80", "hpa-vpa", "keda", "mpc", "multi")
RULES += ("predictive-hpa", "static", "vpa")
# The application of the prototype at a third of its load, and one of small, quick requests.
APPS = (
    Application(
        name="textbook", segments=(Segment(cpu_ms=20, io_ms=30),), start_s=20, memory_mib=120, slo_ms=347
    ),
    Application(name="quick", segments=(Segment(cpu_ms=8, cpu_variation=0.5),), memory_mib=80, slo_factor=3),
)
START = np.array([[5, 1.0, 384], [2, 1.0, 384]])


def wave(mean: float) -> np.ndarray:
    """A wave of 40 % within 40 minutes, with noise of 5 % that lasts for seconds."""
    random = np.random.default_rng(5)
    noise = np.convolve(random.normal(size=2500), np.ones(20) / 20**0.5, "valid")[:2400]
    return mean * (1 - 0.4 * np.cos(2 * np.pi * np.arange(2400) / 2400)) * np.exp(0.05 * noise)


@pytest.fixture(scope="module")
def episodes() -> dict[str, list[Episode]]:
    policies: list[PodPolicy] = [make_policy(name) for name in RULES]
    policies.append(Oracle(cpu=1.0))
    traces = [wave(100.0), wave(90.0)]
    return {
        policy.name: simulate_batch(policy, APPS, traces, Deployment(), seeds=[1, 2], sizes=START)
        for policy in policies
    }


def metric(episodes: dict[str, list[Episode]], policy: str, name: str) -> float:
    return float(np.mean([episode.metrics()[name] for episode in episodes[policy]]))


def test_every_rule_lives_through_it(episodes: dict[str, list[Episode]]) -> None:
    for policy, played in episodes.items():
        for episode in played:
            assert episode.policy == policy
            assert len(episode.rewards) == 160
            assert np.isfinite(list(episode.metrics().values())).all(), policy


def test_what_never_moves_never_moves(episodes: dict[str, list[Episode]]) -> None:
    assert metric(episodes, "static", "replica_changes") == metric(episodes, "static", "resizes") == 0
    assert metric(episodes, "vpa", "replica_changes") == 0
    assert metric(episodes, "hpa:target=70", "resizes") == 0


def test_a_higher_target_takes_fewer_cores_and_makes_more_requests_late(
    episodes: dict[str, list[Episode]],
) -> None:
    names = [f"hpa:target={target}" for target in (50, 70, 80)]
    cores = [metric(episodes, name, "core_hours") for name in names]
    late = [metric(episodes, name, "late_share") for name in names]
    assert cores == sorted(cores, reverse=True)
    assert late == sorted(late)
    # On average 2 and 0.72 cores of work, 1.36: at 70 % 1.94 are needed. Rounding up and the five minutes'
    # wait take up to a half more of so few pods; the prototype had 9.4 where 8.6 were needed.
    assert 1.36 / 0.7 < cores[1] / 24 < 1.5 * 1.36 / 0.7


def test_our_own_rule_takes_fewer_cores_than_hpa_at_no_more_late_requests(
    episodes: dict[str, list[Episode]],
) -> None:
    assert metric(episodes, "multi", "core_hours") < 0.9 * metric(episodes, "hpa:target=70", "core_hours")
    assert metric(episodes, "multi", "late_share") < metric(episodes, "hpa:target=70", "late_share")
    assert metric(episodes, "multi", "kills") == 0


def test_rules_that_follow_the_load_answer_in_time(episodes: dict[str, list[Episode]]) -> None:
    for policy in ("hpa:target=50", "hpa:target=70", "hpa-vpa", "mpc", "multi", "predictive-hpa"):
        assert metric(episodes, policy, "late_share") < 0.01, policy
        assert metric(episodes, policy, "failed_share") == 0, policy


def test_knowing_what_comes_takes_fewer_cores_than_any_target(episodes: dict[str, list[Episode]]) -> None:
    oracle = metric(episodes, "oracle", "core_hours")
    assert oracle < metric(episodes, "hpa:target=80", "core_hours")
    assert oracle < metric(episodes, "mpc", "core_hours")
