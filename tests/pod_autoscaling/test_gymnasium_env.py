"""Services through Gymnasium: what the wing's own simulator plays, seen as `aware` sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tests.gymnasium_episodes import assert_equal_seeds_are_equal_episodes, masked_samples, play

from trimtab.core.errors import ActionError, SettingsError, TrimtabError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.services import Ground, Service, draw_services
from trimtab.pod_autoscaling.aware.task import AwareSettings, AwareTask
from trimtab.pod_autoscaling.deployment import Deployment, Objective
from trimtab.pod_autoscaling.gymnasium_env import (
    EnvSettings,
    PodAutoscalingEnv,
    action_of_size,
    observed_numbers,
    register,
)
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, allowed
from trimtab.pod_autoscaling.simulator.simulator import services_of, simulate, simulate_batch
from trimtab.pod_autoscaling.workload.applications import make_application
from trimtab.pod_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.rates.traces import RateTrace

pytestmark = pytest.mark.pods

WEB = make_application("web")
ARRIVING = TraceSettings(name="noisy", mean_cores=1.5, most_rate=60, hours=0.1, part="training")
INTERVALS = 24
PRICED = Deployment(objective=Objective(reward="lagrangian"))
KINDS = ("around3", "logratio3", "discrete7", "knobs2", "size")


def sampler(seed: int) -> tuple[Application, RateTrace]:
    """Six minutes of another day for every seed."""
    return WEB, draw_trace(ARRIVING, WEB, seed=seed)


def make(deployment: Deployment | None = None, **settings: Any) -> PodAutoscalingEnv:
    return PodAutoscalingEnv(sampler, deployment, EnvSettings(**settings))


def of_rule(env: PodAutoscalingEnv, name: str) -> Callable[[dict[str, Any]], Any]:
    """An agent that asks for the sizes that a rule asks for."""
    decider = make_policy(name).begin(services_of([WEB], Deployment()))
    return lambda info: action_of_size(env.snapshot.services, decider.decide(env.snapshot))


@pytest.mark.parametrize("kind", KINDS)
def test_gymnasiums_checker_is_clean(kind: str) -> None:
    settings = EnvSettings(actions=kind)  # pyright: ignore[reportArgumentType]
    env = gymnasium.make(register(), sampler=sampler, deployment=PRICED, settings=settings)
    check_env(env.unwrapped)  # warnings are errors here


@pytest.mark.parametrize("deployment", [Deployment(), PRICED], ids=["aware", "lagrangian"])
@pytest.mark.parametrize("name", ["autothrottle", "multi", "mpc"])
def test_who_repeats_a_rule_gets_the_episode_of_the_simulator(name: str, deployment: Deployment) -> None:
    env = make(deployment, actions="size")
    for seed in (3, 2**40):
        played = play(env, of_rule(env, name), seed=seed)
        alone = simulate(*sampler(seed), make_policy(name), deployment, seed=seed)
        assert (np.diff(alone.size, axis=0) != 0).any()
        np.testing.assert_array_equal(played.rewards, alone.rewards)
        assert played.metrics == alone.metrics()
        assert played.rewards.sum() == pytest.approx(INTERVALS * played.metrics["reward"])


@pytest.mark.parametrize(
    ("kind", "answer", "rule"),
    [
        ("around3", [0.0, 0.0, 0.0], "multi:slack=1,cpu=4,margin=1.15,reserve=2"),
        ("knobs2", [2 * (70 - 30) / 65 - 1, 2 * (0.9 - 0.5) / 0.49 - 1], "hpa-vpa:target=70,percentile=0.9"),
        ("logratio3", [0.0, 0.0, 0.0], "static"),
        ("discrete7", 0, "static"),
    ],
)
def test_an_answer_that_stands_for_a_rule_is_that_rule(kind: str, answer: Any, rule: str) -> None:
    played = play(make(actions=kind), lambda info: answer, seed=3)
    alone = simulate(*sampler(3), make_policy(rule), seed=3)
    np.testing.assert_array_equal(played.rewards, alone.rewards)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_are_equal_episodes_bit_for_bit(kind: str) -> None:
    assert_equal_seeds_are_equal_episodes(make(PRICED, actions=kind), make(PRICED, actions=kind))


def test_services_that_begin_and_change_as_they_are_drawn() -> None:
    ground = Ground(hours=1 / 12, most_cores=1.5, most_rate=40, drift_share=1.0)

    def drawn(seed: int) -> Service:
        return draw_services(ground, Deployment(), [seed], "training")[0]

    env = PodAutoscalingEnv(drawn, settings=EnvSettings(actions="size"))
    for seed in (0, 1):
        service = drawn(seed)
        assert service.drift.changes
        begun = env.reset(seed=seed)[1]["size"]
        np.testing.assert_allclose(begun, service.size, atol=8.1)
        played = play(env, of_rule(env, "multi"), seed=seed)
        (alone,) = simulate_batch(
            make_policy("multi"),
            [service.application],
            [service.trace],
            seeds=[seed],
            drifts=[service.drift],
            sizes=service.size[None],
        )
        np.testing.assert_array_equal(played.rewards, alone.rewards)
        assert played.metrics == alone.metrics()


@pytest.mark.parametrize("kind", ["around3", "logratio3", "discrete7", "knobs2"])
def test_an_agent_sees_and_does_what_a_learner_of_the_wing_does(kind: str) -> None:
    """`AwareTask`, which trains `aware`, on the same service with the same luck and answers."""
    ground = Ground(hours=1 / 12, most_cores=1.5, most_rate=40)
    settings = AwareSettings(
        ground=ground,
        deployment=Deployment(),
        actions=kind,  # pyright: ignore[reportArgumentType]
        environments=1,
        least_price=20,
        most_price=20,
    )
    task = AwareTask(settings)
    (service,), luck = task._services, int(task._simulator.seeds[0])
    env = PodAutoscalingEnv(lambda seed: service, PRICED, EnvSettings(actions=kind))  # pyright: ignore[reportArgumentType]
    observation, _ = env.reset(seed=luck)
    env.action_space.seed(0)
    for _ in range(19):
        np.testing.assert_allclose(observation, task.observe()[0], atol=1e-6)
        action = env.action_space.sample()
        answer = 2 * np.eye(7)[action] - 1 if kind == "discrete7" else action
        task.step(np.asarray(answer, np.float32)[None])
        observation, *_ = env.step(action)
    np.testing.assert_allclose(env.snapshot.size, task._simulator.snapshot().size)


def test_the_mask_tells_the_steps_that_change_something() -> None:
    env = make(Deployment(missing=0.3, start_replicas=1, most_replicas=3), actions="discrete7")
    choose = masked_samples(env, 0)
    _, info = env.reset(seed=2)
    moves = ((), (REPLICAS, 1), (REPLICAS, -1), (CPU, 1), (CPU, -1), (MEMORY, 1), (MEMORY, -1))
    masked = 0
    for _ in range(INTERVALS):
        snapshot, mask, before = env.snapshot, info["action_mask"], info["size"]
        known = snapshot.samples.complete[0, -1] and snapshot.samples.present[0, -1]
        assert mask[0] == 1
        for step, (column, direction) in enumerate(moves[1:], start=1):
            bound = (snapshot.services.most if direction > 0 else snapshot.services.least)[0, column]
            room = direction * (bound - before[column]) > 1e-9
            assert mask[step] == (room and (direction > 0 or known))
        masked += (mask == 0).sum()
        np.testing.assert_array_equal(env.action_masks(), mask)
        action = choose(info)
        _, _, _, _, info = env.step(action)
        moved = np.sign(np.round(info["size"] - before, 9))
        expected = np.zeros(3)
        if action:
            column, direction = moves[action]
            expected[column] = direction
        np.testing.assert_array_equal(moved, expected)
    assert masked


def test_sizes_lie_between_their_bounds_in_proportions() -> None:
    env = make(Deployment(missing=0.0), actions="size")
    env.reset(seed=0)
    env.step([0.0, 0.0, 0.0])  # before monitoring answers nothing is made smaller
    services = env.snapshot.services
    for action, size in (
        ([-1.0, -1.0, -1.0], services.least),
        ([1.0, 1.0, 1.0], services.most),
        ([0.0, 0.0, 0.0], np.sqrt(services.least * services.most)),
    ):
        wanted = allowed(env.snapshot, size)
        _, _, _, _, info = env.step(action)
        np.testing.assert_array_equal(info["size"], wanted[0])
        np.testing.assert_allclose(action_of_size(services, size), action, atol=1e-12)


def test_every_number_that_is_seen_has_a_name() -> None:
    for kind in KINDS:
        for deployment in (Deployment(), PRICED):
            env = make(deployment, actions=kind)
            names = observed_numbers(deployment.objective, EnvSettings(actions=kind))  # pyright: ignore[reportArgumentType]
            assert len(names) == len(set(names)) == len(env.reset(seed=0)[0])
            assert ("price of lateness" in names) == (deployment is PRICED)


@pytest.mark.parametrize("multiplier", [0.0, 1e6])
def test_a_price_beyond_all_measure_is_seen_as_the_bound(multiplier: float) -> None:
    env = make(Deployment(objective=Objective(reward="lagrangian", multiplier=multiplier)))
    played = play(env, masked_samples(env, 0), seed=0)
    assert all(one in env.observation_space for one in played.observations)


def test_an_episode_lasts_as_long_as_its_trace_and_would_go_on() -> None:
    played = play(env := make(), masked_samples(env, 0), seed=0)
    assert played.terminated == INTERVALS * [False]
    assert played.truncated == (INTERVALS - 1) * [False] + [True]
    assert [("metrics" in info) for info in played.infos] == INTERVALS * [False] + [True]
    begun_s = sampler(0)[1].start_s
    assert [info["now_s"] for info in played.infos] == [begun_s + 15 * at for at in range(INTERVALS + 1)]


def test_misuse_is_refused_in_one_line() -> None:
    env = make(actions="discrete7")
    for call in (lambda: env.step(0), env.action_masks, lambda: env.snapshot):
        with pytest.raises(TrimtabError, match=r"no episode is running; call reset\(\) first"):
            call()
    play(env, masked_samples(env, 0), seed=0)
    with pytest.raises(ActionError, match=r"the episode has ended; call reset\(\) to begin another"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ActionError, match="action = 7; it must be 0 to 6"):
        env.step(7)
    free = make()
    free.reset(seed=0)
    with pytest.raises(ActionError, match=r"action\[1\] = 1.5; it must be -1 to 1"):
        free.step([0.0, 1.5, 0.0])
    with pytest.raises(ActionError, match="have no mask; choose another kind in the settings"):
        free.action_masks()
    with pytest.raises(WorkloadError, match="less than one interval of 600 s; give a longer one"):
        make(Deployment(interval_s=600, report_lag_s=0, metric_lag_s=0)).reset(seed=0)


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match="actions = \"steps\": should be 'around3', 'logratio3'"):
        load_settings(EnvSettings, None, {"actions": "steps"})
    with pytest.raises(SettingsError, match="action is not a setting; did you mean 'actions'"):
        load_settings(EnvSettings, None, {"action": "size"})
