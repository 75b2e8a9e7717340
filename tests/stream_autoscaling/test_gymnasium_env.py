"""Streams through Gymnasium: what the wing's own simulator plays, seen as policies see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from tests.gymnasium_episodes import assert_equal_seeds_are_equal_episodes, masked_samples, play

from trimtab.core.errors import ActionError, SettingsError, TrimtabError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.gymnasium_env import (
    EnvSettings,
    StreamAutoscalingEnv,
    StreamAutoscalingVectorEnv,
    register,
)
from trimtab.stream_autoscaling.job import graph_of
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.simulator.simulator import simulate
from trimtab.stream_autoscaling.sure.actions import Bands
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FeatureHistory
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace, stretch_of
from trimtab.stream_autoscaling.workload.traces import RateTrace

JOB = make_job("small-1")
SPAN_S, INTERVALS = 3600.0, 60
KINDS = ("parallelism", "residual", "gaussian")


def sampler(seed: int) -> RateTrace:
    """An hour of steps, of another day for every seed."""
    return stretch_of(
        draw_trace(TraceSettings(name="steps", load=0.6), JOB, seed=seed), SPAN_S, 60, seed=seed
    )


def half_an_hour(seed: int) -> RateTrace:
    return stretch_of(sampler(seed), SPAN_S / 2, 60, seed=seed)


def make(deployment: Deployment | None = None, **settings: Any) -> StreamAutoscalingEnv:
    return StreamAutoscalingEnv(JOB, sampler, deployment, EnvSettings(**settings))


def of_rule(env: StreamAutoscalingEnv, name: str) -> Callable[[dict[str, Any]], Any]:
    """An agent that decides what a rule decides."""
    graph = graph_of([JOB])
    decider = make_policy(name).begin(graph)
    return lambda info: np.clip(decider.decide(env.snapshot), graph.least, graph.most)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_gymnasiums_checker_is_clean(kind: str) -> None:
    settings = EnvSettings(actions=kind)  # pyright: ignore[reportArgumentType]
    env = gymnasium.make(register(), job=JOB, sampler=sampler, settings=settings)
    check_env(env.unwrapped)  # warnings are errors here


@pytest.mark.parametrize(
    "deployment", [Deployment(), Deployment(slots=70, missing=0.2)], ids=["free", "tight"]
)
@pytest.mark.parametrize("name", ["ds2", "flink"])
def test_who_repeats_a_rule_gets_the_episode_of_the_simulator(name: str, deployment: Deployment) -> None:
    env = make(deployment)
    for seed in (4, 5):
        played = play(env, of_rule(env, name), seed=seed)
        alone = simulate(JOB, sampler(seed), make_policy(name), deployment, seed=seed)
        assert alone.rescaled.any()
        np.testing.assert_array_equal(played.rewards, alone.rewards)
        assert played.metrics == alone.metrics()
        assert played.rewards.sum() == pytest.approx(INTERVALS * played.metrics["reward"])


def test_committing_when_the_base_rule_would_is_the_base_rule() -> None:
    env = make(actions="residual")
    bands = Bands(graph_of([JOB]), Design())

    def as_suggested(info: dict[str, Any]) -> list[int]:
        return [int(bands.suggest(env.snapshot).commits[0])] + len(JOB.vertices) * [0]

    played = play(env, as_suggested, seed=5)
    alone = simulate(JOB, sampler(5), make_policy(Design().teacher), seed=5)
    assert alone.rescaled.any()
    np.testing.assert_array_equal(played.rewards, alone.rewards)


@pytest.mark.parametrize("kind", KINDS)
def test_keeping_everything_is_the_rule_static(kind: str) -> None:
    env = make(actions=kind)
    nothing = np.zeros(env.action_space.shape or (), env.action_space.dtype)
    played = play(env, lambda info: nothing, seed=1)
    np.testing.assert_array_equal(
        played.rewards, simulate(JOB, sampler(1), make_policy("static"), seed=1).rewards
    )


def test_an_answer_of_one_doubles_and_of_minus_one_goes_to_the_least() -> None:
    env = make(Deployment(missing=0.0, cooldown_s=0.0), actions="gaussian")
    _, info = env.reset(seed=1)
    begun, most = info["parallelism"], env.snapshot.graph.most[0]
    _, _, _, _, info = env.step(np.ones(len(begun)))
    np.testing.assert_array_equal(info["parallelism"], np.minimum(2 * begun, most))
    keep = np.zeros(len(begun))
    while env.snapshot.rescaling[0] or not env.snapshot.samples.complete[0, -1].all():
        env.step(keep)
    _, _, _, _, info = env.step(-np.ones(len(begun)))
    np.testing.assert_array_equal(info["parallelism"], env.snapshot.graph.least[0])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_are_equal_episodes_bit_for_bit(kind: str) -> None:
    assert_equal_seeds_are_equal_episodes(make(actions=kind), make(actions=kind))


def test_what_the_mask_allows_is_done_and_nothing_else() -> None:
    env = make(Deployment(missing=0.3))
    choose = masked_samples(env, 0)
    _, info = env.reset(seed=2)
    held, ended = 0, False
    for _ in range(INTERVALS):
        before, snapshot, masks = info["parallelism"], env.snapshot, info["action_mask"]
        action = choose(info)
        wanted = np.where(action > 0, action, before)
        free = not snapshot.rescaling[0] and snapshot.cooldown_s[0] == 0
        held += not free
        known = (snapshot.samples.complete[:, -1] & snapshot.samples.present[:, -1, None])[0]
        for vertex, mask in enumerate(masks):
            least = snapshot.graph.least[0, vertex] if known[vertex] else before[vertex]
            open_to = range(least, snapshot.graph.most[0, vertex] + 1) if free else []
            assert np.flatnonzero(mask).tolist() == [0, *open_to]
        np.testing.assert_array_equal(env.action_masks(), np.concatenate(masks))
        _, _, _, ended, info = env.step(action)
        np.testing.assert_array_equal(info["parallelism"], wanted)
    assert ended
    assert 0 < held < INTERVALS


def test_outside_the_mask_the_nearest_that_is_allowed_is_done() -> None:
    env = make(Deployment(missing=1.0))  # nobody ever reports
    _, info = env.reset(seed=2)
    begun = info["parallelism"]
    ones = np.ones(len(begun), int)
    assert any(mask[1] == 0 for mask in info["action_mask"])
    _, _, _, _, info = env.step(ones)
    np.testing.assert_array_equal(info["parallelism"], begun)


def test_steps_around_the_rule_are_masked_as_for_sure() -> None:
    env = make(actions="residual")
    history = FeatureHistory(graph_of([JOB]), Design())
    _, info = env.reset(seed=2)
    commits = 0
    for _ in range(INTERVALS):
        seen = history.see(env.snapshot)
        commit, *choices = info["action_mask"]
        assert commit.tolist() == [1, seen.offer.may_commit[0]]
        np.testing.assert_array_equal(np.stack(choices), seen.offer.mask[0])
        commits += int(commit[1])
        _, _, _, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert 0 < commits < INTERVALS


def test_an_agent_sees_what_a_learned_policy_sees() -> None:
    env = make()
    history = FeatureHistory(graph_of([JOB]), Design())
    choose = masked_samples(env, 1)
    observation, info = env.reset(seed=6)
    for _ in range(20):
        np.testing.assert_array_equal(observation, history.see(env.snapshot).view.window[0, -1])
        observation, _, _, _, info = env.step(choose(info))


def test_an_episode_lasts_as_long_as_its_trace_and_would_go_on() -> None:
    env = make()
    played = play(env, masked_samples(env, 0), seed=0)
    assert played.terminated == INTERVALS * [False]
    assert played.truncated == (INTERVALS - 1) * [False] + [True]
    assert [("metrics" in info) for info in played.infos] == INTERVALS * [False] + [True]
    assert [info["now_s"] for info in played.infos] == [
        sampler(0).start_s + 60 * interval for interval in range(INTERVALS + 1)
    ]


def few_minutes(seed: int) -> RateTrace:
    """Five to eight intervals: environments end at different times."""
    return stretch_of(sampler(seed), 60.0 * (5 + seed % 4), 60, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_many_environments_take_the_course_of_single_ones(kind: str) -> None:
    settings = EnvSettings(actions=kind)  # pyright: ignore[reportArgumentType]
    count = 3
    envs = StreamAutoscalingVectorEnv(JOB, few_minutes, settings=settings, num_envs=count)
    singles = [StreamAutoscalingEnv(JOB, few_minutes, settings=settings) for _ in range(count)]
    observations, infos = envs.reset(seed=20)
    starts = [env.reset(seed=20 + index) for index, env in enumerate(singles)]
    for index, (observation, info) in enumerate(starts):
        np.testing.assert_array_equal(observations[index], observation)
        assert infos["seed"][index] == info["seed"]
    over, episodes = count * [False], 0
    envs.action_space.seed(1)
    for _ in range(30):
        actions = envs.action_space.sample(mask=infos.get("action_mask"))
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert observations in envs.observation_space
        assert len(envs._simulator._lived) <= 9  # pyright: ignore[reportOptionalMemberAccess]
        for index, env in enumerate(singles):
            if over[index]:
                observation, info = env.reset()
                reward, cut = 0.0, False
                assert infos["seed"][index] == info["seed"]
            else:
                observation, reward, _, cut, info = env.step(actions[index])
            over[index] = cut
            np.testing.assert_array_equal(observations[index], observation)
            assert (rewards[index], terminated[index], truncated[index]) == (reward, False, cut)
            assert infos["now_s"][index] == info["now_s"]
            np.testing.assert_array_equal(infos["parallelism"][index], info["parallelism"])
            if kind != "gaussian":
                np.testing.assert_array_equal(envs.action_masks()[index], env.action_masks())
            if cut:
                episodes += 1
                assert {
                    name: values[index] for name, values in infos["metrics"].items() if name[0] != "_"
                } == (info["metrics"])
    assert episodes > count


def test_a_mask_resets_some_and_leaves_the_others_alone() -> None:
    envs = StreamAutoscalingVectorEnv(JOB, sampler, num_envs=3)
    before, infos = envs.reset(seed=20)
    envs.action_space.seed(1)
    for _ in range(5):
        before, *_, infos = envs.step(envs.action_space.sample(mask=infos["action_mask"]))
    now_s = infos["now_s"].copy()
    mask = np.array([True, False, True])
    observations, infos = envs.reset(seed=[7, 8, None], options={"reset_mask": mask})
    assert infos["_seed"].tolist() == mask.tolist()
    assert infos["seed"][0] == 7
    assert infos["now_s"][1] == now_s[1]
    np.testing.assert_array_equal(observations[1], before[1])
    np.testing.assert_array_equal(observations[0], make().reset(seed=7)[0])


def test_make_vec_steps_together_in_compiled_code() -> None:
    envs = gymnasium.make_vec(register(), num_envs=2, job=JOB, sampler=sampler)
    assert isinstance(envs.unwrapped, StreamAutoscalingVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_misuse_of_many_is_refused_in_one_line() -> None:
    with pytest.raises(SettingsError, match="num_envs = 0; it must be at least 1"):
        StreamAutoscalingVectorEnv(JOB, sampler, num_envs=0)
    envs = StreamAutoscalingVectorEnv(JOB, sampler, num_envs=2)
    nothing = np.zeros((2, len(JOB.vertices)), int)
    for call in (lambda: envs.step(nothing), envs.action_masks, lambda: envs.snapshot):
        with pytest.raises(TrimtabError, match=r"no episode is running; call reset\(\) first"):
            call()
    with pytest.raises(TrimtabError, match="without a reset_mask first"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(SettingsError, match="3 seeds for 2 environments"):
        envs.reset(seed=[1, 2, 3])
    envs.reset(seed=0)
    nothing[1, 3] = 1000
    with pytest.raises(ActionError, match=r"action\[1, 3\] = 1000; it must be 0 to"):
        envs.step(nothing)
    with pytest.raises(ActionError, match=r"shape \(3,\); give 2[0-9] whole number"):
        envs.step([0, 0, 0])
    free = StreamAutoscalingVectorEnv(JOB, sampler, settings=EnvSettings(actions="gaussian"))
    free.reset(seed=0)
    with pytest.raises(ActionError, match="have no mask"):
        free.action_masks()


def test_misuse_is_refused_in_one_line() -> None:
    env = make()
    for call in (lambda: env.step(np.zeros(len(JOB.vertices), int)), env.action_masks, lambda: env.snapshot):
        with pytest.raises(TrimtabError, match=r"no episode is running; call reset\(\) first"):
            call()
    play(env, masked_samples(env, 0), seed=0)
    with pytest.raises(ActionError, match=r"the episode has ended; call reset\(\) to begin another"):
        env.step(np.zeros(len(JOB.vertices), int))
    env.reset(seed=0)
    most = int(env.snapshot.graph.most[0, 2])
    action = np.zeros(len(JOB.vertices), int)
    action[2] = most + 1
    with pytest.raises(ActionError, match=rf"action\[2\] = {most + 1}; it must be 0 to {most}"):
        env.step(action)
    with pytest.raises(
        SettingsError, match=r"seed 1180591620717411303424; use a whole number from 0 to 2\^62"
    ):
        env.reset(seed=2**70)
    free = make(actions="gaussian")
    free.reset(seed=0)
    with pytest.raises(ActionError, match="have no mask; choose another kind in the settings"):
        free.action_masks()
    with pytest.raises(SettingsError, match="raise `history` of the deployment or shorten the window"):
        make(Deployment(history=20)).reset(seed=0)
    with pytest.raises(WorkloadError, match="less than one interval of 3600 s; give a longer one"):
        StreamAutoscalingEnv(JOB, half_an_hour, Deployment(interval_s=3600)).reset(seed=0)


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match="actions = \"steps\": should be 'parallelism', 'residual' or"):
        load_settings(EnvSettings, None, {"actions": "steps"})
    with pytest.raises(SettingsError, match="action is not a setting; did you mean 'actions'"):
        load_settings(EnvSettings, None, {"action": "residual"})
