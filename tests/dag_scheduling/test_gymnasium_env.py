"""The Gymnasium door: its checker is clean, its masks are true, many environments equal single ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from tests.dag_scheduling.random_instances import random_profile

from trimtab.core.errors import ActionError, SettingsError, TrimtabError, WorkloadError
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.gymnasium_env import (
    DagSchedulingEnv,
    DagSchedulingVectorEnv,
    EnvSettings,
    WorkloadSampler,
    register,
)
from trimtab.dag_scheduling.heuristics import Rule, fair
from trimtab.dag_scheduling.problem import NOWHERE, observe
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload import Workload, batch, poisson

PROFILE = random_profile(20)
CLUSTER = Cluster(executors=6)
SETTINGS = EnvSettings(max_jobs=4, max_stages=6, limit_levels=3)
BOTH_FORMS = pytest.mark.parametrize("flat", [False, True], ids=["pairs", "flat"])


def sampler(seed: int) -> Workload:
    """Two to five jobs that arrive over time."""
    return poisson(PROFILE, jobs=2 + seed % 4, mean_gap_ms=1500, seed=seed)


def crowd(seed: int) -> Workload:
    """More jobs at once than an environment of `SETTINGS` shows."""
    return batch(PROFILE, jobs=12, seed=seed)


def make(draw: WorkloadSampler = sampler, cluster: Cluster = CLUSTER, **changes: Any) -> DagSchedulingEnv:
    return DagSchedulingEnv(draw, cluster, SETTINGS.model_copy(update=changes))


def masked_episode(env: DagSchedulingEnv, seed: int) -> tuple[list[float], list[dict[str, Any]]]:
    env.action_space.seed(seed)
    _, info = env.reset(seed=seed)
    rewards, infos, ended = [], [info], False
    while not ended:
        action = env.action_space.sample(mask=info["action_mask"])
        _, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        infos.append(info)
        ended = terminated or truncated
    return rewards, infos


@BOTH_FORMS
def test_gymnasiums_checker_is_clean(flat: bool) -> None:
    settings = SETTINGS.model_copy(update={"flat_actions": flat, "illegal": "nearest"})
    env = gymnasium.make(register(), sampler=sampler, cluster=CLUSTER, settings=settings)
    check_env(env.unwrapped)  # warnings are errors here


@BOTH_FORMS
@pytest.mark.parametrize("draw", [sampler, crowd])
def test_masked_samples_are_always_legal_and_returns_are_minus_the_jcts(
    draw: WorkloadSampler, flat: bool
) -> None:
    env = make(draw, flat_actions=flat)
    for seed in range(5):
        rewards, infos = masked_episode(env, seed)
        metrics = infos[-1]["metrics"]
        jobs = draw(seed).job_count
        assert sum(rewards) == pytest.approx(-metrics["mean_jct_s"] * jobs)
        assert not any(info["illegal_action"] for info in infos)
        assert infos[0]["seed"] == seed
        assert sum(info["elapsed_ms"] for info in infos) == infos[-1]["now_ms"]


def test_one_shown_job_is_enough_to_finish_a_crowd() -> None:
    env = make(crowd, max_jobs=1)
    for seed in range(5):
        _, infos = masked_episode(env, seed)
        assert infos[-1]["metrics"]["mean_jct_s"] > 0


def test_rows_are_those_of_observe() -> None:
    env = make(crowd, max_jobs=12)
    observation, info = env.reset(seed=3)
    ended = False
    while not ended:
        snapshot = env._simulator.snapshot(0)
        seen = observe(snapshot)
        rows = np.flatnonzero(observation["row_mask"])
        np.testing.assert_allclose(observation["features"][rows], seen.features, rtol=1e-6)
        np.testing.assert_array_equal(observation["action_mask"][rows], seen.mask.any(axis=1))
        hidden = np.delete(observation["features"], rows, axis=0)
        assert not hidden.any()
        choosable = seen.mask.any(axis=1)
        limits = np.array(env.limits)[None, :] >= seen.smallest_limit[:, None]
        np.testing.assert_array_equal(
            observation["limit_mask"][rows].astype(bool), limits & choosable[:, None]
        )
        assert observation["action_mask"][-1] == snapshot.may_idle
        action = env.action_space.sample(mask=info["action_mask"])
        observation, _, ended, _, info = env.step(action)


def test_children_are_the_edges_of_the_dag() -> None:
    workload = batch(PROFILE, jobs=3, seed=5)
    observation, _ = make(lambda seed: workload).reset(seed=0)
    for place, kind in enumerate(workload.template):
        first = PROFILE.stage_offset[kind]
        edges = {
            (stage, int(child))
            for stage in range(PROFILE.stage_count[kind])
            for child in PROFILE.child[
                PROFILE.child_offset[first + stage] : PROFILE.child_offset[first + stage + 1]
            ]
        }
        assert {tuple(edge) for edge in np.argwhere(observation["children"][place]).tolist()} == edges
    assert not observation["children"][3:].any()


def test_a_rule_played_through_the_door_scores_as_in_the_simulator() -> None:
    env = make(lambda seed: batch(PROFILE, jobs=4, seed=seed), limit_levels=100)
    rule = Rule("fair", fair)
    assert env.limits == [1, 2, 3, 4, 5, 6]
    _, info = env.reset(seed=8)
    ended = False
    while not ended:
        snapshot = env._simulator.snapshot(0)
        action = rule.decide(snapshot)
        if action.stage == NOWHERE:
            choice = (4 * 6, 0)
        else:
            job = int(np.searchsorted(snapshot.first_stage, action.stage, side="right")) - 1
            place = snapshot.jobs.tolist().index(job)
            choice = (place * 6 + action.stage - snapshot.first_stage[job], action.limit - 1)
        _, _, ended, _, info = env.step(choice)
    alone = simulate(batch(PROFILE, jobs=4, seed=8), rule, CLUSTER, seed=8)
    assert info["metrics"] == alone.metrics()


def test_executors_of_several_sizes_are_sent_by_least_fit() -> None:
    classes = (ExecutorClass(count=2, memory=0.5), ExecutorClass(count=3, memory=1.0))
    env = make(cluster=Cluster(classes=classes))
    for seed in range(4):
        _, infos = masked_episode(env, seed)
        assert infos[-1]["metrics"]["mean_jct_s"] > 0


@BOTH_FORMS
def test_many_environments_take_the_course_of_single_ones(flat: bool) -> None:
    settings = SETTINGS.model_copy(update={"flat_actions": flat})
    count = 3
    envs = DagSchedulingVectorEnv(sampler, CLUSTER, settings, num_envs=count)
    singles = [DagSchedulingEnv(sampler, CLUSTER, settings) for _ in range(count)]
    observations, infos = envs.reset(seed=20)
    starts = [env.reset(seed=20 + index) for index, env in enumerate(singles)]
    over = [False] * count
    episodes = 0
    envs.action_space.seed(1)
    for _ in range(400):
        actions = envs.action_space.sample(mask=infos["action_mask"])
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert observations in envs.observation_space
        for index, env in enumerate(singles):
            if over[index]:
                observation, info = env.reset()
                reward, ended, cut = 0.0, False, False
                assert infos["seed"][index] == info["seed"]
            else:
                observation, reward, ended, cut, info = env.step(actions[index])
            over[index] = ended
            for name, part in observation.items():
                np.testing.assert_array_equal(observations[name][index], part)
            assert (rewards[index], terminated[index], truncated[index]) == (reward, ended, cut)
            assert infos["now_ms"][index] == info["now_ms"]
            assert infos["elapsed_ms"][index] == info["elapsed_ms"]
            np.testing.assert_array_equal(envs.action_masks()[index], env.action_masks())
            if ended:
                episodes += 1
                assert infos["_metrics"][index]
                assert infos["metrics"]["mean_jct_s"][index] == info["metrics"]["mean_jct_s"]
    assert len(starts) == count
    assert episodes > 2 * count


def test_a_mask_resets_some_and_leaves_the_others_alone() -> None:
    envs = DagSchedulingVectorEnv(sampler, CLUSTER, SETTINGS, num_envs=3)
    _, infos = envs.reset(seed=20)
    envs.action_space.seed(1)
    for _ in range(5):
        observations, *_, infos = envs.step(envs.action_space.sample(mask=infos["action_mask"]))
    before = {name: part.copy() for name, part in observations.items()}
    now_ms = infos["now_ms"].copy()
    mask = np.array([True, False, True])
    observations, infos = envs.reset(seed=[7, 8, None], options={"reset_mask": mask})
    assert infos["_seed"].tolist() == mask.tolist()
    assert infos["seed"][0] == 7
    assert infos["now_ms"][1] == now_ms[1]
    start, _ = make().reset(seed=7)
    for name, part in observations.items():
        np.testing.assert_array_equal(part[1], before[name][1])
        np.testing.assert_array_equal(part[0], start[name])
    for wrong in (np.array([True]), np.zeros(3, bool), np.array([1, 0, 1])):
        with pytest.raises(SettingsError, match="give 3 times true or false, once true"):
            envs.reset(options={"reset_mask": wrong})
    with pytest.raises(TrimtabError, match="without a reset_mask first"):
        DagSchedulingVectorEnv(sampler, num_envs=3).reset(options={"reset_mask": mask})


def test_make_vec_uses_the_compiled_batch_and_resets_at_the_next_step() -> None:
    envs = gymnasium.make_vec(register(), num_envs=2, sampler=sampler, cluster=CLUSTER, settings=SETTINGS)
    assert isinstance(envs.unwrapped, DagSchedulingVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs.reset(seed=[5, None])
    with pytest.raises(SettingsError, match="3 seeds for 2 environments"):
        envs.unwrapped.reset(seed=[1, 2, 3])


def test_masks_for_maskable_ppo() -> None:
    env = make()
    observation, info = env.reset(seed=0)
    stages, limits = info["action_mask"]
    np.testing.assert_array_equal(env.action_masks(), [*stages.astype(bool), *limits.astype(bool)])
    assert limits.all()
    env = make(flat_actions=True)
    observation, info = env.reset(seed=0)
    np.testing.assert_array_equal(env.action_masks(), info["action_mask"].astype(bool))
    np.testing.assert_array_equal(env.action_masks()[:-1], observation["limit_mask"].ravel().astype(bool))


@BOTH_FORMS
def test_an_action_outside_the_mask_is_refused_or_told(flat: bool) -> None:
    idle = make(flat_actions=flat).action_space
    # At the first question nobody is busy, so leaving all idle would stop the cluster.
    action = idle.n - 1 if isinstance(idle, gymnasium.spaces.Discrete) else [int(idle.nvec[0]) - 1, 0]
    env = make(flat_actions=flat)
    env.reset(seed=1)
    with pytest.raises(ActionError, match=r"environment 0: action [0-9]+ is outside the mask; [0-9]+ are"):
        env.step(action)
    env = make(flat_actions=flat, illegal="nearest")
    _, info = env.reset(seed=1)
    assert info["illegal_action"] is False
    _, _, _, _, info = env.step(action)
    assert info["illegal_action"] is True


def test_what_is_no_action_at_all_is_always_refused() -> None:
    env = make(illegal="nearest")
    env.reset(seed=1)
    for action in ([24 + 1, 0], [0, 3], [-1, 0]):
        with pytest.raises(ActionError, match="is not in the action space"):
            env.step(action)
    flat = make(flat_actions=True, illegal="nearest")
    flat.reset(seed=1)
    for action in (24 * 3 + 1, 24 * 3 + 2, -1):
        with pytest.raises(ActionError, match=f"{action} is not in the action space"):
            flat.step(action)
    for action in (3, [0.5, 1.0], [[0, 1], [0, 1]]):
        with pytest.raises(ActionError, match=r"expected 2 whole number\(s\) for each of 1 env"):
            env.step(action)


def test_time_limit_truncates_without_metrics() -> None:
    _, infos = masked_episode(make(crowd, time_limit_ms=1000), seed=0)
    assert infos[-1]["now_ms"] == 1000
    assert "metrics" not in infos[-1]


def test_reward_unit() -> None:
    seconds, _ = masked_episode(make(), seed=2)
    minutes, _ = masked_episode(make(reward_unit_ms=60_000), seed=2)
    np.testing.assert_allclose(np.array(seconds) / 60, minutes)


def test_misuse_is_refused_in_one_line() -> None:
    env = make()
    with pytest.raises(TrimtabError, match="call reset"):
        env.step([0, 0])
    with pytest.raises(TrimtabError, match="call reset"):
        env.action_masks()
    masked_episode(env, seed=0)
    with pytest.raises(ActionError, match="the episode has ended"):
        env.step([0, 0])
    with pytest.raises(WorkloadError, match="but max_stages = 1; set max_stages to at least"):
        make(max_stages=1).reset(seed=0)
    with pytest.raises(
        SettingsError, match=r"seed 1180591620717411303424; use a whole number from 0 to 2\^62"
    ):
        make().reset(seed=2**70)
    with pytest.raises(SettingsError, match="num_envs = 0"):
        DagSchedulingVectorEnv(sampler, num_envs=0)
    envs = DagSchedulingVectorEnv(sampler, num_envs=2)
    with pytest.raises(TrimtabError, match="call reset"):
        envs.step([[0, 0], [0, 0]])
    with pytest.raises(TrimtabError, match="call reset"):
        envs.action_masks()


def test_without_gymnasium_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import trimtab.dag_scheduling.gymnasium_env"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: gymnasium is not installed; in the checkout of trimtab, pip install '.[gym]'"
