"""Gavel: its linear programs against answers found by hand, and its rounds."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.gpu_scheduling.random_instances import Instance, instances
from tests.gpu_scheduling.snapshots import MINUTE, Scene

from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.policy import RuleLike
from trimtab.gpu_scheduling.heuristics.gavel import (
    Demand,
    Gavel,
    gavel,
    gavel_makespan,
    gavel_min_jct,
    least_makespan,
    max_min_fairness,
    min_mean_jct,
)
from trimtab.gpu_scheduling.problem import PREEMPT, START
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import make_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.gpu_scheduling.workload.tiny import TINY, tiny_case, tiny_workload

ALL = (gavel, gavel_min_jct, gavel_makespan)


def demand(
    speed: list[list[float]],
    capacity: list[float],
    *,
    gpus: list[float] | None = None,
    weight: list[float] | None = None,
    left: list[float] | None = None,
) -> Demand:
    """Jobs none of which is larger than every class."""
    table = np.array(speed)
    ones = [1.0] * len(table)
    return Demand(
        np.column_stack([table, np.zeros(len(table))]),
        np.array(gpus or ones),
        np.array(weight or ones),
        np.array(left or ones),
        np.array(capacity),
    )


# --- the programs ------------------------------------------------------------------------------------------


def test_each_goes_where_it_gains_most() -> None:
    # A gains by the fast GPU, B does not: A there and B on the other; each would be worse off by sharing.
    shares = max_min_fairness(demand([[2.0, 1.0], [1.0, 1.0]], [1, 1]))
    np.testing.assert_allclose(shares[:, :2], np.eye(2), atol=1e-7)


def test_three_equal_jobs_share_a_fast_and_a_slow_gpu() -> None:
    # Work done together: 1 + 0.5, so half a unit each.
    shares = max_min_fairness(demand([[1.0, 0.5]] * 3, [1, 1]))
    np.testing.assert_allclose(shares[:, :2] @ [1.0, 0.5], 0.5, atol=1e-7)
    np.testing.assert_allclose(shares.sum(axis=0), [1, 1, 0], atol=1e-7)


def test_a_gang_gets_as_much_gpu_time_as_a_single() -> None:
    # Two GPUs, 2 g + s <= 2 and 2 g = s: both have one GPU's worth of time.
    shares = max_min_fairness(demand([[1.0], [1.0]], [2], gpus=[2, 1]))
    assert shares[:, 0] == pytest.approx([0.5, 1.0])


def test_twice_the_weight_twice_the_share() -> None:
    shares = max_min_fairness(demand([[1.0], [1.0]], [1], weight=[2, 1]))
    assert shares[:, 0] == pytest.approx([2 / 3, 1 / 3])


def test_nobody_runs_where_it_may_not() -> None:
    shares = max_min_fairness(demand([[1.0, 0.0], [1.0, 0.5]], [1, 1]))
    # Beside equal shares, 0.5 and 0.75: 2 (1 - x) = (x + 0.5 (1 - x)) / 0.75, so x = 0.5.
    assert shares[0, 1] == 0
    np.testing.assert_allclose(shares[:, :2], [[0.5, 0], [0.5, 0.5]], atol=1e-7)


def test_a_gang_larger_than_every_class_runs_over_all() -> None:
    # Four GPUs of two classes of two each: it holds them all while it runs.
    both = Demand(
        np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]),
        np.array([4.0, 1.0]),
        np.ones(2),
        np.ones(2),
        np.array([2.0, 2]),
    )
    shares = max_min_fairness(both)
    assert shares[0, :2].tolist() == [0, 0]
    # The single always runs, s = 1; the gang has what is left of 4 g + s <= 4.
    assert shares[1].sum() == pytest.approx(1.0)
    assert shares[0, 2] == pytest.approx(0.75)


def test_all_end_together_with_the_least_makespan() -> None:
    # Work 1 and 3 on one GPU: a quarter and three quarters of the time, both end after 4.
    assert least_makespan(demand([[1.0], [1.0]], [1], left=[1, 3]))[:, 0] == pytest.approx([0.25, 0.75])


def test_short_work_first_for_the_mean() -> None:
    assert min_mean_jct(demand([[1.0], [1.0]], [1], left=[2, 1]))[:, 0] == pytest.approx([0, 1])
    # GPU time counts: 2 units on one GPU before 1.5 on two.
    assert min_mean_jct(demand([[1.0], [1.0]], [2], left=[1.5, 2], gpus=[2, 1]))[1, 0] == pytest.approx(1)


def test_without_scipy_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TrimtabError, match=r"need scipy; in the checkout .* pip install '\.\[train\]'"):
        max_min_fairness(demand([[1.0]], [1]))


# --- the rounds --------------------------------------------------------------------------------------------


def test_jobs_take_turns_at_the_ends_of_rounds() -> None:
    scene = Scene([1])
    first = scene.runs({0: 1}, started_ms=0)
    second = scene.waits(1)
    policy = gavel().with_values({"round_s": 600})
    # A first round begins: the one that never ran goes before the one that does.
    scene.now_ms = MINUTE
    action = policy.decide(scene.snapshot())
    assert (action.verb, action.job) == (PREEMPT, first)
    scene.act(action, scene.snapshot())
    action = policy.decide(scene.snapshot())
    assert (action.verb, action.job) == (START, second)
    scene.act(action, scene.snapshot())
    # Within the round nothing is stopped; at its end the other one's turn has come.
    scene.now_ms = 10 * MINUTE
    assert policy.decide(scene.snapshot()).verb not in (PREEMPT, START)
    scene.now_ms = 11 * MINUTE
    action = policy.decide(scene.snapshot())
    assert (action.verb, action.job) == (PREEMPT, second)


def test_users_share_alike_whoever_has_more_jobs() -> None:
    """One GPU, two jobs of ann and one of bob: by job a third each, by user bob has half of the time."""
    jobs = make_workload([0] * 3, duration_ms=36_000_000, gpus=1, user=[0, 0, 1])
    by_job, by_user = (
        simulate(jobs, gavel().with_values({"by_user": flag}), find_cluster("1x1")) for flag in (0, 1)
    )
    # Ten hours of work each: bob's ends after about 30 h, or after about 20 h.
    assert by_job.completion_ms[2] / 3_600_000 == pytest.approx(30, abs=2)
    assert by_user.completion_ms[2] / 3_600_000 == pytest.approx(22, abs=2.5)


def test_a_gap_within_a_round_is_filled() -> None:
    scene = Scene([2])
    scene.waits(1)
    policy = gavel()
    scene.act(policy.decide(scene.snapshot()), scene.snapshot())
    scene.now_ms = MINUTE
    late = scene.waits(1)
    action = policy.decide(scene.snapshot())
    assert (action.verb, action.job) == (START, late)


def test_the_job_that_gains_most_gets_the_fast_machine() -> None:
    scene = Scene([1, 1], speeds=[0.5, 1.0], types=[0, 1])
    picky = scene.waits(1, allowed_types=0b10)
    easy = scene.waits(1)
    policy = gavel()
    placed = {}
    for _ in range(2):
        action = policy.decide(scene.snapshot())
        placed[int(action.job)] = action.machines.tolist()
        scene.act(action, scene.snapshot())
    assert placed == {picky: [1], easy: [0]}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("make", ALL)
def test_tiny_workloads_are_played_to_the_end(make: Any, name: str) -> None:
    case = tiny_case(name)
    cluster = case.cluster.model_copy(update={"information": "oracle"})
    episode = simulate(tiny_workload(name), make(), cluster)
    assert (episode.completion_ms > 0).all()
    if name == "short-first" and make is gavel_min_jct:
        assert episode.jct_ms.mean() == case.best_mean_jct_ms


@settings(max_examples=25, deadline=None)
@given(instance=instances())
@pytest.mark.parametrize("make", ALL)
def test_every_random_workload_ends_legally_and_alike(make: Any, instance: Instance) -> None:
    cluster = instance.cluster
    if cluster.information == "none":
        cluster = cluster.model_copy(update={"information": "oracle"})
    policy: Gavel = make()
    once = simulate(instance.workload, policy, cluster, seed=1)
    # What a policy remembers of one episode does not reach the next.
    again = simulate(instance.workload, policy, cluster, seed=1)
    other = simulate(instance.workload, make(), cluster, seed=1)
    np.testing.assert_array_equal(once.completion_ms, again.completion_ms)
    np.testing.assert_array_equal(once.completion_ms, other.completion_ms)


@pytest.mark.parametrize("before", [[0], [0, 0]])
def test_a_later_beginning_is_another_episode(before: list[int]) -> None:
    """The first episode asks for the last time before the second begins; jobs have the same numbers."""
    one_gpu = find_cluster("1x1")
    short = make_workload(before, duration_ms=100 * 1000, gpus=1)
    jobs = make_workload([500_000] * 3, duration_ms=[2_000_000, 1_500_000, 1_500_000], gpus=1)
    fresh = simulate(jobs, gavel(), one_gpu)
    used = gavel()
    simulate(short, used, one_gpu)
    assert simulate(jobs, used, one_gpu).completion_ms.tolist() == fresh.completion_ms.tolist()


def test_rounds_with_many_stops_end() -> None:
    random = np.random.default_rng(5)
    jobs = make_workload(
        np.sort(random.integers(0, 3_000_000, 40)),
        duration_ms=random.integers(60_000, 3_000_000, 40),
        gpus=random.choice([1, 1, 2, 4, 16], 40),
        communication=0.1,
    )
    episode = simulate(jobs, gavel(), find_cluster("das-small"))
    assert episode.preemptions.sum() > 0
    assert (episode.completion_ms >= jobs.arrival_ms + jobs.duration_ms - 1).all()


def test_settings_are_checked_and_durations_asked_for() -> None:
    assert isinstance(gavel(), RuleLike)
    with pytest.raises(SettingsError, match="round_s = 1 is out of range"):
        gavel().with_values({"round_s": 1})
    with pytest.raises(SettingsError, match="no setting 'rounds'"):
        gavel_min_jct().with_values({"rounds": 400})
    with pytest.raises(TrimtabError, match="needs durations"):
        simulate(tiny_workload("gang"), gavel_min_jct(), tiny_case("gang").cluster)
