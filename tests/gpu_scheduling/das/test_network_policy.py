"""The networks as a policy: bundles and back, whole episodes, rounds of scores, very many machines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.gpu_scheduling.das.random_views import moved_network, small_design
from tests.gpu_scheduling.random_instances import Instance, RandomActions, instances, seeds
from tests.gpu_scheduling.snapshots import MINUTE, Scene

from trimtab.core.bundle import Bundle, load_bundle, save_bundle
from trimtab.core.errors import BundleError, SettingsError
from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.das import network_policy as served
from trimtab.gpu_scheduling.das.executing import action_of_scores
from trimtab.gpu_scheduling.das.experience import gathered, no_experience
from trimtab.gpu_scheduling.das.looking_at_once import look_at_once
from trimtab.gpu_scheduling.das.network_policy import NetworkPolicy, network_bundle, network_policy
from trimtab.gpu_scheduling.das.view import JOB_FACTS, NO_EXPERIENCE, View, empty_view, look, window_of
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.problem import HOLD, START, WAIT, decode
from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
from trimtab.gpu_scheduling.workload import make_workload

FLAVOURS = ("scores", "choices")
CLUSTER = Cluster(machines=(MachineGroup(count=2, gpus=4), MachineGroup(count=1, gpus=8, speed=0.5)))


def bundle_of(actions: str, **changes: Any) -> Bundle:
    design = small_design(actions=actions, **changes)
    return network_bundle("mine", moved_network(design), design, trained={"on": "toys"}, scores={"best": 1.0})


def policy_of(actions: str, **changes: Any) -> NetworkPolicy:
    return network_policy(bundle_of(actions, **changes))


def crowded_scene() -> Scene:
    scene = Scene([4, 4, 8, 2], speeds=[1.0, 2.0, 1.0, 0.5], racks=[0, 0, 1, 1], now_ms=120 * MINUTE)
    scene.runs({0: 3}, rate=0.9)
    scene.observed[:], scene.observed_speed[:] = [0, 3, 9, 40], [1.0, 0.8, 1.1, 0.9]
    for gpus in (1, 6, 2, 99, 4, 1, 1, 3):
        scene.waits(gpus, arrival_ms=gpus * MINUTE)
    return scene


@pytest.mark.parametrize("actions", FLAVOURS)
def test_a_bundle_comes_back_from_disk_and_decides_the_same(actions: str, tmp_path: Path) -> None:
    bundle = bundle_of(actions)
    assert all(name.startswith("actor/") for name in bundle.tensors)
    policy = make_policy(str(save_bundle(tmp_path / "mine", bundle)))
    assert isinstance(policy, NetworkPolicy)
    assert Path(policy.name).name == "mine" and not policy.needs_durations
    ours, theirs = (made.decide(crowded_scene().snapshot()) for made in (network_policy(bundle), policy))
    assert (ours.verb, ours.job) == (theirs.verb, theirs.job)
    assert ours.machines.tolist() == theirs.machines.tolist()
    assert load_bundle(tmp_path / "mine").manifest["settings"]["design"]["actions"] == actions


@pytest.mark.parametrize("actions", FLAVOURS)
def test_whole_episodes_are_played(actions: str) -> None:
    """Every decision is allowed, and every job ends; more jobs wait than the window shows."""
    random = np.random.default_rng(0)
    gpus = random.choice([1, 2, 4, 8], 40)
    jobs = make_workload(np.arange(40) * 1000, duration_ms=random.integers(60_000, 600_000, 40), gpus=gpus)
    episode = simulate(jobs, policy_of(actions), CLUSTER, seed=0)
    assert (episode.jct_ms > 0).all() and len(episode.jct_ms) == 40


@pytest.mark.parametrize("actions", FLAVOURS)
def test_what_is_decided_fits_until_nothing_fits_or_it_holds(actions: str) -> None:
    scene, policy = crowded_scene(), policy_of(actions)
    verbs: list[int] = []
    while not verbs or verbs[-1] == START:
        snapshot = scene.snapshot()
        action = policy.decide(snapshot)
        verbs.append(action.verb)
        assert scene.act(action, snapshot) == (action.verb == START)
    assert verbs[-1] == WAIT and 1 < len(verbs) <= 9
    empty = Scene([4])
    assert policy.decide(empty.snapshot()) is HOLD
    empty.waits(8)
    assert policy.decide(empty.snapshot()).verb == WAIT


def test_scores_are_made_once_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs from the highest score down; anew after a hold, at another time, or when a job has come."""
    scene, policy, scored = crowded_scene(), policy_of("scores", window=12), []
    made = served.mean_scores

    def counted(*told: Any) -> Any:
        scored.append(made(*told))
        return scored[-1]

    monkeypatch.setattr(served, "mean_scores", counted)
    order, slots = [], np.zeros(12, np.int64)
    window_of(scene.snapshot(), slots)
    for _ in range(20):
        snapshot = scene.snapshot()
        action = policy.decide(snapshot)
        told = np.zeros((12, 1 + 4), np.float32)
        told[:8, 0], told[:8, 1:] = scored[0]
        same = action_of_scores(snapshot, slots, np.concatenate([told[:, 0], told[:, 1:].ravel()]))
        assert decode(snapshot, action) == decode(snapshot, same)
        if not scene.act(action, snapshot):
            break
        order.append(int(action.job) - 1)  # the first slot runs
    assert len(scored) == 1 and len(order) > 2
    of_jobs = scored[0][0]
    assert (np.diff(of_jobs[order]) <= 0).all()
    policy.decide(scene.snapshot())
    assert len(scored) == 2
    policy = policy_of("scores", window=12)
    scene = crowded_scene()
    assert policy.decide(scene.snapshot()).verb == START
    scene.waits(1)
    policy.decide(scene.snapshot())
    scene.now_ms += 1
    policy.decide(scene.snapshot())
    assert len(scored) == 5


def test_scores_of_one_episode_are_not_those_of_the_next() -> None:
    """Both have six jobs at time 0, all of which start at once: the same slots at the same time."""
    first = make_workload([0] * 6, duration_ms=1000, gpus=1)
    second = make_workload([0] * 6, duration_ms=1000, gpus=[4, 1, 2, 1, 1, 1], sensitivity=np.arange(6) / 3)
    used, fresh = policy_of("scores"), policy_of("scores")
    simulate(first, used, CLUSTER)
    logs = [simulate(second, one, CLUSTER, record_runs=True).runs for one in (used, fresh)]
    places = [set(zip(log.job.tolist(), log.machine.tolist(), strict=True)) for log in logs if log]
    assert places[0] == places[1]


def test_the_same_jobs_are_decided_without_rows_of_no_job() -> None:
    """A policy looks at as many rows as jobs wait; a larger window changes nothing."""
    network = moved_network(small_design(window=16))
    decided = []
    for window in (8, 16):
        actor = {**network["actor"], "place_in_queue": network["actor"]["place_in_queue"][:window]}
        design = small_design(window=window)
        policy = network_policy(network_bundle("mine", {"actor": actor}, design, trained={}, scores={}))
        action = policy.decide(crowded_scene().snapshot())
        decided.append((action.job, action.machines.tolist()))
    assert decided[0] == decided[1] and len(decided[0][1]) == 4


@pytest.mark.parametrize("actions", FLAVOURS)
def test_of_very_many_machines_the_best_are_looked_at(actions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 machines of two GPU types 8 are looked at, four of each: most free GPUs times speed."""
    monkeypatch.setattr(served, "MOST_MACHINES", 20)
    monkeypatch.setattr(served, "BEST_MACHINES", 8)
    scene = Scene([4] * 30, types=[0] * 25 + [1] * 5, speeds=[1.0 + 0.01 * k for k in range(30)])
    for machine in range(20, 24):
        scene.runs({machine: 3})
    scene.waits(2, allowed_types=0b10)
    best = [17, 18, 19, 24, 26, 27, 28, 29]
    assert served._best_machines(scene.snapshot()).tolist() == best
    policy = policy_of(actions)
    command = decode(scene.snapshot(), policy.decide(scene.snapshot()))
    assert command is not None and [part.machine in (26, 27, 28, 29) for part in command.parts] == [True]
    # On eight machines this one does not fit, on all it does.
    wide = Scene([1] * 30)
    wide.more_to_come = False
    wide.waits(12)
    snapshot = wide.snapshot()
    command = decode(snapshot, policy.decide(snapshot))
    assert command is not None and len(command.parts) == 12


@pytest.mark.parametrize("known", [NO_EXPERIENCE, no_experience().row], ids=["", "experienced"])
@given(instance=instances(), seed=seeds)
def test_whole_arrays_show_what_plain_loops_show(known: np.ndarray, instance: Instance, seed: int) -> None:
    """At every decision of random episodes: all facts, also where rows were used before."""
    simulator = Simulator(instance.cluster)
    snapshot = simulator.reset(instance.workload, seed)
    random = RandomActions(seed)
    design, machines = small_design(window=4), len(snapshot.gpus)
    views = [empty_view(design, 1, machines + 2) for _ in range(2)]
    slots = np.zeros((2, 4), np.int64)
    for _ in range(30):
        if simulator.ended:
            break
        counts = [
            seen(snapshot, view, 0, row, experience=known)
            for seen, view, row in zip((look, look_at_once), views, slots, strict=True)
        ]
        assert counts[0] == counts[1] and slots[0].tolist() == slots[1].tolist()
        for name, plain, quick in zip(View._fields, *views, strict=True):
            assert quick == pytest.approx(plain, rel=1e-6, abs=1e-7), name
        snapshot = simulator.step(random.decide(snapshot)).snapshot


def test_a_part_of_the_machines_is_seen_as_in_the_whole() -> None:
    """Facts of machines, jobs and pairs are those of the whole cluster, at fewer places."""
    scene = Scene([4] * 6, speeds=[1.0, 1.5, 2.0, 1.0, 0.5, 3.0])
    scene.runs({1: 2, 4: 1}, cpu_milli=9_000, memory_mib=50_000)
    scene.runs({5: 3}, cpu_milli=5_000)
    scene.waits(3, cpu_milli=2_000)
    scene.waits(1, memory_mib=9_000)
    policy = policy_of("choices")
    some = np.array([1, 2, 5])
    few = policy._looked(scene.snapshot(), some).view
    whole = policy._looked(scene.snapshot(), None).view
    assert few.machines == pytest.approx(whole.machines[:, some])
    assert few.pairs == pytest.approx(whole.pairs[:, :, some])
    assert few.jobs == pytest.approx(whole.jobs)
    assert few.seen == pytest.approx(whole.seen[:, some]) and few.real.all()


KNOWN = gathered([make_workload(np.arange(300), duration_ms=90_000, gpus=[1, 2, 4] * 100)])


def experienced_bundle() -> Bundle:
    design = small_design(experienced=True, places=True)
    return network_bundle("mine", moved_network(design), design, trained={}, scores={}, experience=KNOWN)


def test_a_bundle_keeps_the_experience_of_its_agents(tmp_path: Path) -> None:
    save_bundle(tmp_path / "mine", experienced_bundle())
    policy = network_policy(load_bundle(tmp_path / "mine"))
    assert policy.experience is not None
    assert (policy.experience.row == KNOWN.row).all()
    scene = Scene([4, 4])
    scene.waits(2)
    scene.waits(1)
    snapshot = scene.snapshot()
    shown = policy._shown(snapshot).view
    view, slots = empty_view(policy.design, 1, 2), np.zeros(6, np.int64)
    look(snapshot, view, 0, slots, KNOWN.row)
    assert shown.jobs == pytest.approx(view.jobs[:, :2], rel=1e-6)
    assert shown.jobs[0, :, JOB_FACTS.index("expected duration")] == pytest.approx(
        np.log1p(90) / 14, rel=1e-6
    )


def test_an_experience_that_is_not_whole_is_refused() -> None:
    good = experienced_bundle()
    fewer = {name: array for name, array in good.tensors.items() if name != "experience/sizes"}
    with pytest.raises(BundleError, match="mine: its experience is not whole; copy it again"):
        network_policy(Bundle("mine", good.wing, good.kind, good.manifest, fewer))
    with pytest.raises(SettingsError, match="there is no experience"):
        network_bundle("mine", {}, small_design(experienced=True), trained={}, scores={})


def test_bundles_made_before_there_was_experience_decide_as_they_did() -> None:
    """Their manifest does not speak of it, and what is expected of jobs stays 0."""
    bundle = bundle_of("choices")
    design = dict(bundle.manifest["settings"]["design"])
    assert (design.pop("experienced"), design.pop("places")) == (False, False)
    older = Bundle(
        "mine", bundle.wing, bundle.kind, bundle.manifest | {"settings": {"design": design}}, bundle.tensors
    )
    policy = network_policy(older)
    shown = policy._shown(crowded_scene().snapshot()).view
    assert not shown.jobs[..., JOB_FACTS.index("expected duration")].any()
    ours, theirs = (made.decide(crowded_scene().snapshot()) for made in (policy, network_policy(bundle)))
    assert (ours.job, ours.machines.tolist()) == (theirs.job, theirs.machines.tolist())
    shipped = make_policy("das-paper")
    assert isinstance(shipped, NetworkPolicy)
    assert "experienced" not in shipped.bundle.manifest["settings"]["design"]
    assert shipped.experience is None


def test_bundles_that_are_not_such_networks_are_refused() -> None:
    good = bundle_of("choices")
    with pytest.raises(BundleError, match="mine: a bundle of gpu_scheduling/dl2"):
        network_policy(Bundle("mine", good.wing, "dl2", good.manifest, good.tensors))
    with pytest.raises(BundleError, match="does not describe a network of this version"):
        network_policy(Bundle("mine", good.wing, good.kind, good.manifest | {"settings": {}}, good.tensors))
    strange = {"settings": {"design": {"window": 6, "colour": "red"}}}
    with pytest.raises(BundleError, match="does not describe a network of this version"):
        network_policy(Bundle("mine", good.wing, good.kind, good.manifest | strange, good.tensors))
    with pytest.raises(BundleError, match="see other features"):
        network_policy(Bundle("mine", good.wing, good.kind, good.manifest | {"features": {}}, good.tensors))
    fewer = {name: array for name, array in good.tensors.items() if name != "actor/skip"}
    with pytest.raises(BundleError, match="not those of its network"):
        network_policy(Bundle("mine", good.wing, good.kind, good.manifest, fewer))


def test_it_runs_on_numpy_alone() -> None:
    told = "import sys, trimtab.gpu_scheduling.das.network_policy; print({'jax', 'numba'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_the_simulator_shows_what_a_policy_can_look_at() -> None:
    jobs = make_workload([0, 0, 0], duration_ms=[60_000, 30_000, 10_000], gpus=[4, 2, 1])
    snapshot = Simulator(CLUSTER).reset(jobs, seed=0)
    assert policy_of("choices").decide(snapshot).job in (0, 1, 2)
