"""A GPU cluster through Gymnasium: what the wing's own simulator plays, and a mask that is never wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation
from hypothesis import given
from tests.gpu_scheduling.random_instances import Instance, instances, seeds
from tests.gymnasium_episodes import assert_equal_seeds_are_equal_episodes, masked_samples, play

from trimtab.core.errors import ActionError, SettingsError, TrimtabError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.gpu_scheduling.cluster import Cluster, GpuType, MachineGroup
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.view import JOB_FACTS, MACHINE_FACTS, empty_view, look
from trimtab.gpu_scheduling.gymnasium_env import (
    CLUSTER_FACTS,
    OWN_FACTS,
    PLACE_FACTS,
    EnvSettings,
    GpuSchedulingEnv,
    register,
)
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.policies import PLACEMENTS, make_policy
from trimtab.gpu_scheduling.problem import START, gang_fits
from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
from trimtab.gpu_scheduling.workload import Workload, make_workload
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload
from trimtab.gpu_scheduling.workload.tiny import TINY, tiny_workload

CLUSTER = Cluster(noise=0.2, drift=0.1)
JOBS = WorkloadSettings(name="pai", jobs=25, load=1.1)
PLACED = ("best-fit", "fast:neighbours=2,tightness=0.3", "load-balance")
MINUTE = 60_000


def sampler(seed: int) -> Workload:
    """Jobs for which the cluster is a little too small."""
    return draw_workload(JOBS, gpus=30, seed=seed, part="training")


def make(draw: Callable[[int], Workload] = sampler, cluster: Cluster = CLUSTER, **changes: Any) -> Any:
    return GpuSchedulingEnv(draw, cluster, EnvSettings(**{"placements": PLACED, **changes}))


def of_rule(env: GpuSchedulingEnv, rule: Any, placement: str) -> Callable[[dict[str, Any]], int]:
    """An agent that does what a rule with this placement does."""

    def choose(info: dict[str, Any]) -> int:
        action = rule.decide(env.snapshot)
        return env.start(action.job, placement) if action.verb == START else env.hold

    return choose


def test_gymnasiums_checker_is_clean() -> None:
    settings = EnvSettings(max_jobs=5, illegal="nearest")
    env = gymnasium.make(register(), sampler=sampler, cluster=CLUSTER, settings=settings)
    check_env(env.unwrapped)  # warnings are errors here


# --- what is played ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "placement", "discipline"),
    [
        ("smallest", "fast:neighbours=2,tightness=0.3", "backfill"),
        ("fifo", "best-fit", "strict"),
        ("random", "load-balance", "backfill"),
        ("aged-smallest", "fgd", "strict"),
        ("fifo", "random", "patient"),
    ],
)
def test_who_repeats_a_rule_gets_the_episode_of_the_simulator(
    order: str, placement: str, discipline: str
) -> None:
    name, _, values = placement.partition(":")
    rule = make_policy(f"{order}+{name}+{discipline}" + (f":{values}" if values else ""))
    assert isinstance(rule, Rule)
    env = make(placements=("first-fit", placement), heartbeat=rule.timed)
    for seed in (3, 2**40):
        played = play(env, of_rule(env, rule, placement), seed=seed)
        alone = simulate(sampler(seed), rule, CLUSTER, seed=seed)
        np.testing.assert_array_equal(env.episode.completion_ms, alone.completion_ms)
        np.testing.assert_array_equal(env.episode.first_start_ms, alone.first_start_ms)
        assert played.metrics == alone.metrics()
        assert played.rewards.sum() == pytest.approx(alone.reward / MINUTE)


@given(instances(), seeds)
def test_a_rule_is_repeated_on_any_cluster(instance: Instance, seed: int) -> None:
    rule = make_policy("smallest+tetris+strict")
    env = make(lambda seed: instance.workload, instance.cluster, placements=("tetris",), reward_unit_ms=1)
    played = play(env, of_rule(env, rule, "tetris"), seed=seed)
    alone = simulate(instance.workload, rule, instance.cluster, seed=seed)
    np.testing.assert_array_equal(env.episode.completion_ms, alone.completion_ms)
    assert played.rewards.sum() == alone.reward


def test_a_share_goes_to_the_gpu_that_the_placement_names() -> None:
    jobs, cluster = (
        make_workload([0] * 4, duration_ms=MINUTE, gpu_milli=300),
        Cluster(machines=(MachineGroup(),)),
    )
    env = make(lambda seed: jobs, cluster, placements=("best-fit", "random:machine_seed=3"))
    rule, alone = make_policy("fifo+random:machine_seed=3"), Simulator(cluster)
    env.reset(seed=0)
    alone.reset(jobs, seed=0)
    for _ in range(3):
        env.step(env.start(rule.decide(env.snapshot).job, "random:machine_seed=3"))
        alone.step(rule.decide(alone.snapshot))
        np.testing.assert_array_equal(env.snapshot.free_of_gpu, alone.snapshot.free_of_gpu)
    # By itself the engine would put all three shares on the first GPU.
    assert env.snapshot.free_of_gpu.tolist() != [100, 1000, 1000, 1000]


@given(instances(), seeds)
def test_masked_samples_are_never_refused_and_rewards_add_up(instance: Instance, seed: int) -> None:
    workload = instance.workload
    for most, heartbeat in ((1, False), (3, True), (8, False)):
        settings = EnvSettings(
            max_jobs=most, placements=tuple(PLACEMENTS), heartbeat=heartbeat, reward_unit_ms=1
        )
        env = GpuSchedulingEnv(lambda seed: workload, instance.cluster, settings)
        choose = masked_samples(env, seed % 2**31)

        def checked(info: dict[str, Any], env: Any = env, most: int = most, choose: Any = choose) -> Any:
            snapshot, mask = env.snapshot, info["action_mask"]
            starts = mask[:-1].reshape(most, len(PLACEMENTS)).astype(bool)
            # Every placement places a gang that fits, and no other; a question is asked only if there is one.
            assert (starts.all(1) == starts.any(1)).all()
            assert starts.any()
            if len(snapshot.pending) <= most:
                fits = [gang_fits(snapshot, job) for job in snapshot.pending]
                assert starts[: len(fits), 0].tolist() == fits
            assert mask[-1] == snapshot.may_hold
            assert info["jobs_waiting"] == len(snapshot.pending)
            assert info["jobs_not_shown"] == max(0, len(snapshot.pending) - most)
            return choose(info)

        played = play(env, checked, seed=seed)
        assert played.rewards.sum() == -env.episode.jct_ms.sum()
        assert played.terminated == [False] * (len(played.rewards) - 1) + [True]
        assert not any(played.truncated)
        bounds = gymnasium.spaces.flatten_space(env.observation_space)
        assert all(one in bounds for one in played.observations)
        elapsed_ms = sum(info["elapsed_ms"] for info in played.infos)
        assert elapsed_ms == played.infos[-1]["now_ms"] - played.infos[0]["now_ms"]
        assert played.infos[-1]["now_ms"] == env.episode.completion_ms.max()


@pytest.mark.parametrize("name", TINY)
def test_the_optimum_of_tiny_workloads_can_be_reached(name: str) -> None:
    workload, case = tiny_workload(name), TINY[name]
    env = make(lambda seed: workload, case.cluster, placements=("best-fit", "worst-fit", "fast"))

    def best_after(actions: list[int]) -> float:
        """The lowest mean completion time that can follow, by trying everything."""
        _, info = env.reset(seed=0)
        ended = False
        for action in actions:
            *_, ended, _, info = env.step(action)
        if ended:
            return float(env.episode.jct_ms.mean())
        tried: dict[tuple[float, ...], int] = {}  # jobs that are alike are tried once
        for action in np.flatnonzero(info["action_mask"]).tolist():
            meant = env._view.meant(action)
            job = env.snapshot.job_id[meant.job] if action != env.hold else -1
            alike = (workload.duration_ms[job], workload.gpus[job]) if job >= 0 else ()
            tried.setdefault((*alike, *meant.machines.tolist()), action)
        return min(best_after([*actions, action]) for action in tried.values())

    assert best_after([]) == case.best_mean_jct_ms


def test_equal_seeds_are_equal_episodes_bit_for_bit() -> None:
    assert_equal_seeds_are_equal_episodes(make(), make())


def test_time_alone_is_a_reason_to_ask_with_a_heartbeat_only() -> None:
    # A long job runs on two of four GPUs, and a short one is held back that would fit beside it.
    jobs = make_workload([0, 0], duration_ms=[10 * MINUTE, MINUTE], gpus=[2, 2])
    cluster = Cluster(machines=(MachineGroup(),), contention=0.0)
    for heartbeat, asked_ms in ((False, 10 * MINUTE), (True, MINUTE)):
        env = make(lambda seed: jobs, cluster, heartbeat=heartbeat)
        env.reset(seed=0)
        env.step(env.start(0, "best-fit"))
        _, reward, _, _, info = env.step(env.hold)
        assert (info["now_ms"], info["elapsed_ms"]) == (asked_ms, asked_ms)
        assert reward == -2 * asked_ms / MINUTE


def test_waiting_for_the_first_round_is_paid_with_the_first_step() -> None:
    jobs = make_workload([1000, 4000], duration_ms=MINUTE, gpus=[1, 1])
    env = make(lambda seed: jobs, Cluster(round_s=10, contention=0.0), reward_unit_ms=1)
    _, info = env.reset(seed=0)
    assert info["now_ms"] == 10_000
    rewards = [env.step(env.start(job, "best-fit"))[1] for job in (0, 1)]
    assert rewards == [-(9000 + 6000), -2 * MINUTE]


# --- what is seen ------------------------------------------------------------------------------------------


def test_jobs_and_machines_are_shown_as_to_the_network_agents() -> None:
    cluster = CLUSTER.model_copy(update={"information": "predicted"})
    crowd = JOBS.model_copy(update={"arrivals": "batch"})
    env = make(lambda seed: draw_workload(crowd, gpus=30, seed=seed), cluster, max_jobs=6)
    _, info = env.reset(seed=5)
    env.action_space.seed(0)
    seen, slots = empty_view(Design(window=6), 1, 8), np.zeros(6, np.int64)
    own = [JOB_FACTS.index(name) for name in OWN_FACTS]
    ended, crowds = False, 0
    while not ended:
        observation, _, ended, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        shown = look(env.snapshot, seen, 0, slots)
        if seen.fits.any() or info["jobs_not_shown"] == 0:
            np.testing.assert_allclose(observation["jobs"], seen.jobs[0][:, own], rtol=1e-6)
        np.testing.assert_allclose(observation["machines"], seen.machines[0], rtol=1e-6)
        np.testing.assert_array_equal(observation["job_mask"], np.arange(6) < shown)
        free, *numbers = observation["cluster"]
        waiting, running = len(env.snapshot.pending), len(env.snapshot.running)
        assert free == pytest.approx(env.snapshot.free_milli.sum() / 32_000)
        expected = np.log1p([waiting, waiting - shown, running]) / 5
        np.testing.assert_allclose(numbers, expected, rtol=1e-6)
        crowds += waiting > shown
        np.testing.assert_array_equal(observation["action_mask"], info["action_mask"])
        np.testing.assert_array_equal(env.action_masks(), info["action_mask"].astype(bool))
    assert crowds > 5


def test_places_by_hand() -> None:
    """Two machines of four GPUs, the second slower; jobs lose half their speed when spread."""
    cluster = Cluster(machines=(MachineGroup(), MachineGroup(speed=0.7)), contention=0.2)
    jobs = make_workload([0, 0, 0], duration_ms=MINUTE, gpus=[2, 6, 1], communication=1.0)
    env = make(lambda seed: jobs, cluster, placements=("best-fit", "load-balance"), max_jobs=4)
    observation, _ = env.reset(seed=0)
    one, two = np.log2([2, 3]) / 5
    # A gang of six is on both machines whatever comes, and as fast as the slower: 0.7 of its best.
    alone, spread, small = [1.0, one, 0, 0.5], [0.7, two, 0, 0.25], [1.0, one, 0, 0.75]
    expected = [[alone] * 2, [spread] * 2, [small] * 2, np.zeros((2, 4))]
    np.testing.assert_allclose(observation["places"], expected, rtol=1e-6)
    observation, *_ = env.step(env.start(0, "best-fit"))
    # Beside it, a job is 1 / (1 + 0.2 x 2 / 4) as fast; the other machine is empty and slow.
    beside, apart = [1 / 1.1, one, 0.1, 0.25], [0.7, one, 0, 0.75]
    gang = [0.7, two, 0.1, 0]
    expected = [[gang, gang], [beside, apart], *np.zeros((2, 2, 4))]
    np.testing.assert_allclose(observation["places"], expected, rtol=1e-6)


def test_a_hidden_job_that_alone_fits_takes_the_last_place() -> None:
    gpus = [2, 4, 4, 4, 1, 1]
    jobs = make_workload([0] * 6, duration_ms=MINUTE, gpus=gpus)
    env = make(lambda seed: jobs, Cluster(machines=(MachineGroup(),)), max_jobs=2)
    _, info = env.reset(seed=0)
    assert info["jobs_not_shown"] == 4
    observation, _, _, _, info = env.step(env.start(0, "best-fit"))
    # Two GPUs are free. Of the five that wait, the first needs four; the fourth is the first that fits.
    assert (info["jobs_waiting"], info["jobs_not_shown"]) == (5, 3)
    assert np.exp2(5 * observation["jobs"][:, OWN_FACTS.index("GPUs")]) - 1 == pytest.approx([4, 1])
    assert observation["jobs"][:, OWN_FACTS.index("rank of arrival")] == pytest.approx([0, 3 / 5])
    assert info["action_mask"].tolist() == [0, 0, 0, 1, 1, 1, 1]
    with pytest.raises(ActionError, match="job in slot 2 is not shown; 2 of 5 that wait are, see max_jobs"):
        env.start(2, "best-fit")
    env.step(env.start(4, "best-fit"))
    assert env.start(5, "best-fit") == 3


def test_facts_beyond_all_measure_are_cut_off() -> None:
    warp = GpuType(name="warp", speed=100.0)
    machine = MachineGroup(gpus=1, gpu_type="warp", speed=100.0)
    crowded = Cluster(machines=(machine,), gpu_types=(warp,), contention=10.0)
    jobs = make_workload([0] * 100, duration_ms=MINUTE, gpu_milli=10, sensitivity=100.0)
    env = make(lambda seed: jobs, crowded)
    assert env.reset(seed=0)[1]["jobs_not_shown"] == 68
    played = play(env, lambda info: int(info["action_mask"].argmax()), seed=0)
    bounds = gymnasium.spaces.flatten_space(env.observation_space)
    assert all(one in bounds for one in played.observations)
    assert played.observations.max() == 1000


def test_every_number_that_is_seen_has_a_name() -> None:
    env = make(max_jobs=4)
    observation, _ = env.reset(seed=0)
    assert {name: part.shape for name, part in observation.items()} == {
        "jobs": (4, len(OWN_FACTS)),
        "places": (4, 3, len(PLACE_FACTS)),
        "machines": (8, len(MACHINE_FACTS)),
        "cluster": (len(CLUSTER_FACTS),),
        "job_mask": (4,),
        "action_mask": (13,),
    }
    assert {part.dtype for part in observation.values()} == {np.dtype(np.float32), np.dtype(np.int8)}


# --- in the hands of others --------------------------------------------------------------------------------


def test_flat_observations_and_many_environments_side_by_side() -> None:
    settings = EnvSettings(max_jobs=5)
    flat = FlattenObservation(GpuSchedulingEnv(sampler, CLUSTER, settings))
    observation, _ = flat.reset(seed=0)
    assert observation.shape == (5 * 12 + 5 * 3 * 4 + 8 * 12 + 4 + 5 + 16,)
    assert observation in flat.observation_space
    envs = gymnasium.make_vec(
        register(),
        num_envs=2,
        vectorization_mode="sync",
        sampler=sampler,
        cluster=CLUSTER,
        settings=settings,
    )
    singles = [GpuSchedulingEnv(sampler, CLUSTER, settings) for _ in range(2)]
    observations, infos = envs.reset(seed=3)
    begun = [env.reset(seed=3 + index)[0] for index, env in enumerate(singles)]
    for index, one in enumerate(begun):
        for name, part in one.items():
            np.testing.assert_array_equal(observations[name][index], part)
    envs.action_space.seed(0)
    over, finished = [False, False], 0
    for _ in range(120):
        actions = envs.action_space.sample(mask=tuple(infos["action_mask"]))
        observations, rewards, terminated, _, infos = envs.step(actions)
        for index, env in enumerate(singles):
            if over[index]:
                observation, reward, ended, info = *env.reset()[:1], 0.0, False, {}
            else:
                observation, reward, ended, _, info = env.step(actions[index])
            for name, part in observation.items():
                np.testing.assert_array_equal(observations[name][index], part)
            assert (rewards[index], terminated[index]) == (reward, ended)
            over[index] = ended
            if ended:
                finished += 1
                assert infos["metrics"]["mean_jct_min"][index] == info["metrics"]["mean_jct_min"]
    assert finished >= 2


def test_every_environment_in_a_process_of_its_own() -> None:
    code = """import gymnasium
import numpy as np
from trimtab.gpu_scheduling import make_workload
from trimtab.gpu_scheduling.gymnasium_env import register

def sampler(seed):
    return make_workload([0, 0, 5], duration_ms=[60_000, 30_000, 1000 + seed], gpus=[4, 2, 30])

if __name__ == "__main__":
    envs = gymnasium.make_vec(register(), num_envs=2, vectorization_mode="async", sampler=sampler)
    observations, infos = envs.reset(seed=7)
    finished = []
    while len(finished) < 2:
        actions = envs.action_space.sample(mask=tuple(infos["action_mask"]))
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        finished += [infos["metrics"]["mean_jct_min"][i] for i in np.flatnonzero(terminated)]
    envs.close()
    assert min(finished) > 0"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_action_outside_the_mask_is_refused_or_told() -> None:
    env = make()
    env.reset(seed=1)
    # At the first question nobody runs, and holding back the last job would stop the cluster.
    only = make_workload([0], duration_ms=MINUTE, gpus=4)
    env = make(lambda seed: only, max_jobs=2)
    env.reset(seed=1)
    with pytest.raises(ActionError, match=r"action 6 is outside the mask; 3 are inside, such as \[0, 1, 2\]"):
        env.step(env.hold)
    with pytest.raises(ActionError, match="action 3 is outside the mask"):
        env.step(3)
    env = make(lambda seed: only, max_jobs=2, illegal="nearest")
    assert env.reset(seed=1)[1]["illegal_action"] is False
    *_, terminated, _, info = env.step(env.hold)
    assert (terminated, info["illegal_action"]) == (True, True)


def test_misuse_is_refused_in_one_line() -> None:
    env = make()
    for call in (
        lambda: env.step(0),
        env.action_masks,
        lambda: env.snapshot,
        lambda: env.episode,
        lambda: env.start(0, "best-fit"),
    ):
        with pytest.raises(TrimtabError, match=r"no episode is running; call reset\(\) first"):
            call()
    play(env, masked_samples(env, 0), seed=0)
    with pytest.raises(ActionError, match=r"the episode has ended; call reset\(\) to begin another"):
        env.step(0)
    env.reset(seed=0)
    for action, said in (
        (97, "action = 97; it must be 0 to 96"),
        (-1, "action = -1; it must be 0 to 96"),
        (0.0, r"an action of type float64 and shape \(\); give 1 whole number\(s\)"),
        ([0, 0], r"an action of type int64 and shape \(2,\); give 1 whole number\(s\)"),
    ):
        with pytest.raises(ActionError, match=said):
            env.step(action)
    with pytest.raises(TrimtabError, match="the episode has not finished; step on until `ended`"):
        _ = env.episode
    with pytest.raises(
        ActionError, match="placement 'fast' is none of those to choose from: best-fit, fast:"
    ):
        env.start(0, "fast")
    with pytest.raises(ActionError, match="job in slot -1 is not shown"):
        env.start(-1, "best-fit")
    with pytest.raises(SettingsError, match=r"use a whole number from 0 to 2\^62"):
        env.reset(seed=2**70)
    # What did not begin is not played on.
    env = make(lambda seed: make_workload([0], duration_ms=1, gpus=99 if seed else 4))
    env.reset(seed=0)
    with pytest.raises(WorkloadError, match="job 0"):
        env.reset(seed=1)
    with pytest.raises(TrimtabError, match="no episode is running"):
        env.step(0)


@pytest.mark.parametrize(
    ("placements", "said"),
    [
        (("fats",), "placements: 'fats' is none; choose from best-fit, first-fit"),
        (("strict",), "placements: 'strict' is none"),
        (("fast:neighbour=1",), "no setting 'neighbour'; did you mean 'neighbours'"),
        (("fast:neighbours=-1",), "neighbours = -1 is out of range; use 0 to 1000"),
        (("fast", "fast"), "placements = fast, fast; name each of them once"),
    ],
)
def test_placements_that_do_not_exist_are_refused(placements: tuple[str, ...], said: str) -> None:
    with pytest.raises(TrimtabError, match=said):
        make(placements=placements)


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match="placements"):
        load_settings(EnvSettings, None, {"placements": []})
    with pytest.raises(SettingsError, match="placement is not a setting; did you mean 'placements'"):
        load_settings(EnvSettings, None, {"placement": "fast"})
