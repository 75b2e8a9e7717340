"""Draws that one policy's play leaves for the next: nothing but time may depend on them."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.core.errors import WorkloadError
from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import Change, Drift
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.simulator import Simulator, simulate_batch
from trimtab.pod_autoscaling.simulator.drawn import Drawn
from trimtab.pod_autoscaling.simulator.state import DRAWS, EXPONENT

pytestmark = pytest.mark.pods

APPLICATIONS = [
    Application(),
    Application(segments=(Segment(cpu_ms=10, io_ms=40, io_variation=0.5), Segment(cpu_ms=30), Segment())),
]
RATES = [np.full(300, 30.0), np.linspace(10, 60, 300)]
SEEDS = [3, 8]
HEAVIER = Drift(changes=(Change(at_s=100, cpu=1.5, io=2.0),))


def episodes(policy: str, drawn: Drawn | None, drift: Drift = HEAVIER) -> list[Episode]:
    return simulate_batch(
        make_policy(policy),
        APPLICATIONS,
        RATES,
        Deployment(most_replicas=10),
        seeds=SEEDS,
        drifts=[drift] * 2,
        drawn=drawn,
    )


def assert_same(ours: list[Episode], theirs: list[Episode]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        for name in ("arrived", "finished", "late", "cores_held", "memory_used", "latency_p99_s", "rewards"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def room(most_bytes: int = 2**30) -> Drawn:
    return Drawn.room(APPLICATIONS, RATES, SEEDS, most_bytes=most_bytes)


def test_episodes_are_the_same_whoever_drew() -> None:
    kept = room()
    for policy in ("static", "mpc", "hpa", "static"):
        assert_same(episodes(policy, kept), episodes(policy, None))


def test_a_table_that_is_too_short_changes_nothing() -> None:
    # 100 of about 10,000 requests of each episode.
    short = room(most_bytes=2 * 100 * 8 * DRAWS)
    assert short.values.shape == (2, 100, DRAWS)
    for policy in ("static", "mpc"):
        assert_same(episodes(policy, short), episodes(policy, None))


def test_draws_do_not_know_of_drift_or_policy() -> None:
    kept, other = room(), room()
    episodes("static", kept, Drift())
    episodes("mpc", other, HEAVIER)
    both = (kept.values > 0) & (other.values > 0)
    assert both[:, :, EXPONENT].sum() > 15_000
    # The first service has work in one segment; the second has work in all three, and waits in one.
    used = np.logical_or.reduce(both, 1)
    assert used[0, :EXPONENT].sum() == 1
    assert used[1, :EXPONENT].tolist() == [True, True, True, False, True, False]
    np.testing.assert_array_equal(kept.values[both], other.values[both])


def test_some_episodes_take_their_own_draws_along() -> None:
    kept = room()
    episodes("static", kept)
    second = kept.only([1])
    np.testing.assert_array_equal(second.values[0], kept.values[1])
    (alone,) = simulate_batch(
        make_policy("mpc"),
        APPLICATIONS[1:],
        RATES[1:],
        Deployment(most_replicas=10),
        seeds=SEEDS[1:],
        drifts=[HEAVIER],
        drawn=second,
    )
    assert_same([alone], episodes("mpc", None)[1:])


def test_draws_of_other_episodes_are_refused() -> None:
    simulator = Simulator(APPLICATIONS, Deployment())
    with pytest.raises(WorkloadError, match=r"draws of 2 episodes with seeds \(3, 8\)"):
        simulator.reset(RATES, [3, 9], drawn=room())
    with pytest.raises(WorkloadError, match=r"Drawn\.room"):
        Simulator(APPLICATIONS[::-1], Deployment()).reset(RATES, SEEDS, drawn=room())


def test_services_that_come_later_do_not_get_the_luck_of_others() -> None:
    kept = room()
    simulator = Simulator(APPLICATIONS, Deployment())
    simulator.reset(RATES, SEEDS, drawn=kept)
    assert simulator.state.drawn is kept.values
    simulator.reset_some(np.array([0]), RATES[:1], [4])
    assert simulator.state.drawn.shape == (2, 0, DRAWS)
    simulator.reset(RATES, SEEDS, drawn=kept)
    other = Simulator(APPLICATIONS, Deployment())
    other.reset(RATES, [5, 6])
    simulator.load(np.array([1]), other, np.array([0]))
    assert simulator.state.drawn.shape == (2, 0, DRAWS)
