"""RIFLING and DL2: their steps of learning by hand, what they see, and that they play to the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.gpu_scheduling.random_instances import Instance, instances
from tests.gpu_scheduling.snapshots import MINUTE, Scene

from trimtab.core.bundle import Bundle, load_bundle, save_bundle
from trimtab.core.errors import BundleError, RegistryError
from trimtab.gpu_scheduling.policies import described, make_policy
from trimtab.gpu_scheduling.problem import START, WAIT, decode
from trimtab.gpu_scheduling.rivals import dl2, dl2_learning, rifling
from trimtab.gpu_scheduling.rivals.bundles import BUNDLES, WING
from trimtab.gpu_scheduling.rivals.practice import RIVALS, Practice, main, practise_dl2, practise_rifling
from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.gpu_scheduling.workload.tiny import TINY, tiny_case, tiny_workload

NAMES = ("rifling", "dl2")
ROWS = rifling.GROUPS * rifling.FREE_CLASSES


def table_of(values: dict[int, float] | None = None) -> np.ndarray:
    """The same values of actions in every state."""
    table = np.zeros((ROWS, len(rifling.ACTIONS)))
    for action, value in (values or {}).items():
        table[:, action] = value
    return table


def rifling_with(table: np.ndarray) -> rifling.RiflingPolicy:
    tensors = {"table": table, "bounds": np.array([0.02, 0.05, 0.08])}
    return rifling.RiflingPolicy(Bundle("rifling", WING, rifling.KIND, {}, tensors))


def dl2_with(actor: dict[str, np.ndarray]) -> dl2.Dl2Policy:
    return dl2.Dl2Policy(Bundle("dl2", WING, dl2.KIND, {}, actor))


# --- RIFLING -----------------------------------------------------------------------------------------------


def test_a_step_of_q_learning() -> None:
    table = table_of()
    table[3, 2] = 1.0
    rifling.learn(table, 0, 1, 0.8, 3)
    # 0 + 0.1 x (0.8 + 0.9 x 1 - 0)
    assert table[0, 1] == pytest.approx(0.17)
    rifling.learn(table, 0, 1, 0.8, 0)
    # 0.17 + 0.1 x (0.8 + 0.9 x 0.17 - 0.17)
    assert table[0, 1] == pytest.approx(0.2483)


def test_the_state_is_the_group_and_what_is_free() -> None:
    scene = Scene([4, 4])
    bounds = np.array([0.02, 0.05, 0.08])
    quiet, chatty = scene.waits(1, communication=0.0), scene.waits(1, communication=0.09)
    assert rifling.state_of(scene.snapshot(), quiet, bounds) == 4
    assert rifling.state_of(scene.snapshot(), chatty, bounds) == 3 * 5 + 4
    scene.runs({0: 4, 1: 1})  # 3 of 8 are free
    assert rifling.state_of(scene.snapshot(), quiet, bounds) == 1


def test_the_reward_is_the_rate_beside_the_best() -> None:
    scene = Scene([2, 2], speeds=[1.0, 0.5])
    job = scene.waits(3, communication=0.25)
    snapshot = scene.snapshot()
    snapshot.machine_order[:2] = 0, 1
    # The slow machine halves it, and a quarter more is lost by being spread.
    assert rifling.processing_rate(snapshot, job, 2) == pytest.approx(0.5 / 1.25)
    assert rifling.processing_rate(snapshot, job, 1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("action", "machine"),
    # Free GPUs 4, 2, 4; machine 2 is the fastest, 1 the fullest, 0 has nobody on it.
    [("fastest", 2), ("consolidate", 1), ("spread", 0), ("least-loaded", 0)],
)
def test_every_action_has_its_machines(action: str, machine: int) -> None:
    scene = Scene([4, 4, 5], speeds=[1.0, 1.0, 2.0])
    scene.runs({1: 2, 2: 1})
    job = scene.waits(1)
    chosen = list(rifling.ACTIONS).index(action)
    found = rifling_with(table_of({chosen: 1.0})).decide(scene.snapshot())
    assert (found.verb, found.job, found.machines.tolist()) == (START, job, [machine])


def test_nobody_overtakes_and_waiting_is_an_answer() -> None:
    scene = Scene([4])
    scene.runs({0: 1})
    scene.waits(4)
    scene.waits(1)
    assert rifling_with(table_of()).decide(scene.snapshot()).verb == WAIT
    patient = rifling_with(table_of({rifling.WAIT_ACTION: 1.0}))
    quiet = Scene([4])
    quiet.waits(1)
    assert patient.decide(quiet.snapshot()).verb == WAIT
    # While nothing runs and nothing will come, waiting would stop the cluster.
    quiet.more_to_come = False
    assert patient.decide(quiet.snapshot()).verb == START


# --- DL2 ---------------------------------------------------------------------------------------------------


def test_what_the_network_is_shown() -> None:
    scene = Scene([4, 4], now_ms=MINUTE)
    scene.runs({0: 3})
    large, small = (
        scene.waits(8),
        scene.waits(2, arrival_ms=MINUTE // 2, communication=0.05, cpu_milli=48_000),
    )
    view = dl2.view_of(scene.snapshot())
    assert view.jobs == [small]
    assert view.mask.tolist() == [True] + [False] * 19 + [True]
    # Two of eight GPUs, but half of the CPUs.
    expected = [np.log2(3) / 4, np.log1p(30) / 10, 0.0, 0.5, 0.5, 0.0]
    np.testing.assert_allclose(view.inputs[:6], expected)
    assert not view.inputs[6:-6].any()
    cluster = [5 / 8, np.log1p(2) / 5, np.log1p(1) / 5, 0, np.log2(9) / 4, np.log1p(60) / 10]
    np.testing.assert_allclose(view.inputs[-6:], cluster)
    assert large not in view.jobs


def test_the_job_with_the_highest_score_starts_where_most_is_free() -> None:
    actor = {name: np.zeros(shape) for name, shape in dl2.shapes().items()}
    actor["b2"][1] = 1.0
    scene = Scene([4, 4])
    scene.runs({0: 1})
    scene.waits(1)
    second = scene.waits(1)
    action = dl2_with(actor).decide(scene.snapshot())
    assert (action.verb, action.job, action.machines.tolist()) == (START, second, [1])
    actor["b2"][dl2.SKIP] = 2.0
    assert dl2_with(actor).decide(scene.snapshot()).verb == WAIT
    # Choices that are not there are never made.
    actor["b2"][5] = 9.0
    assert dl2_with(actor).decide(scene.snapshot()).verb == WAIT


def test_slopes_are_those_of_small_differences() -> None:
    random = np.random.default_rng(0)
    actor, _ = dl2_learning.fresh(1)
    inputs = random.normal(size=(5, dl2.INPUTS))
    mask = random.random((5, dl2.WINDOW + 1)) < 0.7
    mask[:, 0] = True

    def loss() -> float:
        chance = dl2_learning.probabilities(dl2.layers(actor, inputs)[-1], mask)
        return -float(np.log(chance[:, 0]).sum())

    out = dl2.layers(actor, inputs)
    wanted = dl2_learning.probabilities(out[-1], mask)
    wanted[:, 0] -= 1.0
    slopes = dl2_learning.gradients(actor, out, wanted)
    for name in actor:
        place = tuple(int(random.integers(size)) for size in actor[name].shape)
        before, actor[name][place] = actor[name][place], actor[name][place] + 1e-6
        higher = loss()
        actor[name][place] = before - 1e-6
        lower = loss()
        actor[name][place] = before
        assert slopes[name][place] == pytest.approx((higher - lower) / 2e-6, rel=1e-4, abs=1e-6)


def test_advantages_discount_by_time() -> None:
    horizon = dl2_learning.HORIZON_MS
    found = dl2_learning.advantages(np.array([-1.0, -1.0]), np.array([0.5, -0.5]), np.array([horizon, 9.0]))
    last = -1.0 + 0.5
    first = -1.0 + np.exp(-1) * -0.5 - 0.5 + np.exp(-1) * 0.9 * last
    np.testing.assert_allclose(found, [first, last])


def test_rewards_between_decisions_are_the_jobs_in_the_system() -> None:
    case = tiny_case("gang")
    simulator = Simulator(case.cluster)
    lived = dl2_learning.play(simulator, tiny_workload("gang"), 0, dl2_learning.smallest_first)
    assert lived.reward.sum() == -simulator.episode("dl2").jct_ms.sum()
    # Smallest first is best here.
    assert -lived.reward.sum() == 5 * case.best_mean_jct_ms


def test_a_better_choice_becomes_likelier() -> None:
    learner = dl2_learning.Learner(*dl2_learning.fresh(0))
    inputs = np.ones((40, dl2.INPUTS))
    mask = np.arange(dl2.WINDOW + 1)[None].repeat(40, 0) < 2
    choice = np.arange(40) % 2
    lived = dl2_learning.Lived(
        inputs, mask, choice, -choice * dl2_learning.REWARD_SCALE, np.full(40, 1e3 * dl2_learning.HORIZON_MS)
    )
    before = dl2_learning.probabilities(dl2.layers(learner.actor, inputs[:1])[-1], mask[:1])[0, 0]
    for _ in range(20):
        dl2_learning.improve(learner, lived)
    after = dl2_learning.probabilities(dl2.layers(learner.actor, inputs[:1])[-1], mask[:1])[0, 0]
    assert after > before


# --- both --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_shipped_bundles_are_found_by_name(name: str) -> None:
    policy = make_policy(name)
    assert policy.name == name
    assert described(name) == f"Learned ({name}): made-up pai jobs on das-small."
    trained: Any = load_bundle(BUNDLES / name).manifest["trained"]
    assert trained == {
        **RIVALS[name][1].model_dump(),
        "cluster": "das-small",
        "workloads": ["made-up pai jobs on das-small"],
    }


@pytest.mark.parametrize("name", NAMES)
def test_shipped_bundles_play_jobs_like_those_of_practice(name: str) -> None:
    jobs = Practice(jobs=60).drawn("test", 0)
    once, again = (simulate(jobs, make_policy(name), find_cluster("das-small")) for _ in range(2))
    np.testing.assert_array_equal(once.completion_ms, again.completion_ms)


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize("name", NAMES)
def test_tiny_workloads_are_played_to_the_end(name: str, tiny: str) -> None:
    episode = simulate(tiny_workload(tiny), make_policy(name), tiny_case(tiny).cluster)
    assert (episode.completion_ms > 0).all()


@settings(max_examples=20, deadline=None)
@given(instance=instances())
@pytest.mark.parametrize("name", NAMES)
def test_every_random_workload_ends_legally(name: str, instance: Instance) -> None:
    episode = simulate(instance.workload, make_policy(name), instance.cluster, seed=1)
    assert (episode.completion_ms > 0).all()


@settings(max_examples=20, deadline=None)
@given(instance=instances())
@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_was_learned_is_legal(seed: int, instance: Instance) -> None:
    random = np.random.default_rng(seed)
    wild = dl2_learning.fresh(seed)[0]
    wild["b2"] = random.normal(size=dl2.WINDOW + 1)
    for policy in (rifling_with(random.normal(size=(ROWS, len(rifling.ACTIONS)))), dl2_with(wild)):
        simulator = Simulator(instance.cluster)
        snapshot = simulator.reset(instance.workload, seed)
        for _ in range(200):
            if simulator.ended:
                break
            action = policy.decide(snapshot)
            decode(snapshot, action)
            snapshot = simulator.step(action).snapshot


@pytest.mark.parametrize(("name", "practise"), [("rifling", practise_rifling), ("dl2", practise_dl2)])
def test_practice_is_repeatable_and_makes_a_bundle(name: str, practise: Any, tmp_path: Any) -> None:
    little = Practice(jobs=20, episodes=3, copied=1, epochs=1, validated=1)
    lines: list[str] = []
    first, second = (practise(little, told=lines.append) for _ in range(2))
    assert first.manifest == second.manifest
    for tensor in first.tensors:
        np.testing.assert_array_equal(first.tensors[tensor], second.tensors[tensor])
    found = load_bundle(save_bundle(tmp_path / "mine", first))
    assert found.kind == name
    assert make_policy(str(tmp_path / "mine")).name == str(tmp_path / "mine")


def test_bundles_of_others_are_refused() -> None:
    good = {"table": table_of(), "bounds": np.zeros(3)}
    with pytest.raises(BundleError, match=r"a policy of gpu_scheduling \(dl2\), and here"):
        rifling.RiflingPolicy(Bundle("mine", WING, "dl2", {}, good))
    with pytest.raises(BundleError, match="its tensors are not those of dl2; practise again"):
        dl2.Dl2Policy(Bundle("mine", WING, "dl2", {}, good))
    with pytest.raises(RegistryError, match="no rival 'dl3'; there are rifling, dl2"):
        main(["dl3"])
