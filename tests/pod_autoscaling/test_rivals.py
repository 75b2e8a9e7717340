"""Six learned rivals: each comes to a sane size, learns what it may and only that, and needs numpy alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import one_row, services_of, snapshot_of

from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.errors import BundleError, RegistryError, SettingsError
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.policies import described, make_policy
from trimtab.pod_autoscaling.problem import Decider, Floats, Services, Snapshot
from trimtab.pod_autoscaling.rivals import rival
from trimtab.pod_autoscaling.rivals.q_learning import QLearning
from trimtab.pod_autoscaling.rivals.rival import BUNDLES, Manner, Rival, pods_in_a_step
from trimtab.pod_autoscaling.rivals.seeing import look, worth

NAMES = ("q-learning", "a-sarsa", "miras", "adrl", "simppo", "deepscaling")
LARGEST_BYTES = 300_000


def made(name: str, services: Services) -> Rival:
    decider = make_policy(name).begin(services)
    assert isinstance(decider, Rival)
    return decider


def fluid(services: Services, size: Floats, demand: Floats, rate: float = 100.0) -> Snapshot:
    """Services in a steady state: pods share the work evenly, and latency goes with 1 / (1 - busy)."""
    cores = size[:, 0] * size[:, 1]
    busy = np.minimum(demand / cores, 1.0)
    stretch = 0.15 / np.maximum(1 - busy, 0.02)
    late = np.clip((busy - 0.8) / 0.2, 0.0, 1.0) ** 2
    latency_s = (services.slo_s * stretch)[:, None]
    return snapshot_of(
        services,
        size=size,
        pods=40,
        rate=rate,
        cpu=np.minimum(demand, cores)[:, None],
        latency_p99_s=2 * latency_s,
        latency_s=latency_s,
        late=late[:, None],
        in_flight=rate * latency_s,
        memory=300.0,
    )


def lived(decider: Decider, services: Services, size: Floats, demand: Floats, *, steps: int) -> Floats:
    for _ in range(steps):
        size = decider.decide(fluid(services, size, demand))
    return size


@pytest.mark.parametrize("name", NAMES)
def test_every_rival_is_a_policy_with_a_name_and_a_sentence(name: str) -> None:
    policy = make_policy(name)
    assert isinstance(policy, Rule)
    assert policy.name == name
    assert described(name).endswith(".")
    assert make_policy(f"{name}:learn=0").name == f"{name}:learn=0"
    assert pickle.loads(pickle.dumps(policy)) == policy
    with pytest.raises(SettingsError, match="learn = 2 is out of range"):
        make_policy(f"{name}:learn=2")


@pytest.mark.parametrize("name", NAMES)
def test_bundles_are_small_and_say_what_they_are(name: str) -> None:
    assert sum(file.stat().st_size for file in (BUNDLES / name).iterdir()) < LARGEST_BYTES
    bundle = load_bundle(BUNDLES / name)
    assert (bundle.wing, bundle.kind) == ("pod_autoscaling", name)
    assert bundle.manifest["trained"]["part"] == "training"
    assert bundle.manifest["scores"]["last_round"]["late_share"] < 0.2


@pytest.mark.parametrize("length", [4, 5, 6])
def test_a_history_too_short_for_a_minute_s_growth_shows_none(length: int) -> None:
    """A deployment may show as few as four intervals; growth of a minute needs six."""
    rate = 10 * 2.0 ** np.arange(length)[None]
    seen = look(snapshot_of(services_of(1), history=length, rate=rate, cpu=1.0))
    assert seen.growth_minute.tolist() == ([0.0] if length < 6 else [1.0])
    assert 0 < seen.growth[0] < np.log(2)


@pytest.mark.parametrize("setting", ["", ":learn=0"])
@pytest.mark.parametrize("name", NAMES)
def test_from_far_too_few_or_too_many_pods_each_comes_to_a_sane_size(name: str, setting: str) -> None:
    services = services_of(2, most=(40, 4, 4096))
    demand = np.array([4.0, 4.0])
    begun = np.array([[2.0, 1.0, 512.0], [20.0, 1.0, 512.0]])
    decider = make_policy(name + setting).begin(services)
    size = lived(decider, services, begun, demand, steps=100)
    cores: list[Floats] = []
    for _ in range(20):
        size = lived(decider, services, size, demand, steps=1)
        cores.append(size[:, 0] * size[:, 1])
    # Steps up and down go on around the size that is found.
    found = np.mean(cores, axis=0)
    assert (found > 4.4).all()
    assert (found < 12.0).all()


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_allowed(name: str) -> None:
    services = services_of(3, most=(6, 0.8, 1024), least=(2, 0.2, 128))
    decider = make_policy(name).begin(services)
    size = np.tile([3.0, 0.8, 512.0], (3, 1))
    for demand in (0.0, 2.0, 9.0):
        for _ in range(12):
            size = decider.decide(fluid(services, size, np.full(3, demand)))
            assert ((size >= services.least) & (size <= services.most)).all()
            np.testing.assert_allclose(size / services.quantum, np.round(size / services.quantum), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_service_that_nobody_knows_anything_of_stays_as_it_is(name: str) -> None:
    services = services_of(2)
    complete = np.ones((2, 20), bool)
    complete[1] = False
    snapshot = snapshot_of(services, size=(4, 2.0, 512), complete=complete, late=0.5)
    wanted = make_policy(f"{name}:learn=0").begin(services).decide(snapshot)
    assert wanted[1].tolist() == [4.0, 2.0, 512.0]
    young = snapshot_of(services, present=False, complete=False, rate=0.0, cpu=0.0, samples_ready=0.0)
    assert (make_policy(name).begin(services).decide(young) == young.size).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "simppo"])
def test_a_frozen_rival_decides_for_a_service_in_a_batch_as_if_it_were_alone(name: str) -> None:
    services = services_of(3, slo_s=(0.2, 0.4, 0.8), most=(40, 4, 4096))
    together, demand = make_policy(f"{name}:learn=0").begin(services), np.array([1.0, 4.0, 9.0])
    alone = make_policy(f"{name}:learn=0").begin(Services(*(part[1:2] for part in services)))
    size = np.tile([6.0, 1.0, 512.0], (3, 1))
    for _ in range(15):
        snapshot = fluid(services, size, demand)
        size = together.decide(snapshot)
        assert alone.decide(one_row(snapshot, 1))[0].tolist() == size[1].tolist()


def test_a_rival_among_others_sees_their_mean() -> None:
    """SIMPPO's virtual agent: one service's decision may depend on the others, a lone one's cannot."""
    services = services_of(1)
    decider = make_policy("simppo:learn=0").begin(services)
    assert decider.decide(snapshot_of(services)).shape == (1, 3)


@pytest.mark.parametrize("name", NAMES)
def test_frozen_means_frozen_and_learning_learns(name: str) -> None:
    services = services_of(2, most=(40, 4, 4096))
    size = np.tile([6.0, 1.0, 512.0], (2, 1))
    for learn in (False, True):
        decider = made(name if learn else f"{name}:learn=0", services)
        before = {key: value.copy() for key, value in decider.knowledge().items()}
        lived(decider, services, size, np.array([4.0, 4.0]), steps=90)
        after = decider.knowledge()
        assert before.keys() == after.keys()
        assert any((before[key] != after[key]).any() for key in before) == learn


def test_what_was_not_carried_out_teaches_nothing() -> None:
    services = services_of(1)
    decider = made("q-learning", services)
    before = decider.knowledge()["visits"].copy()
    snapshot = fluid(services, np.array([[4.0, 1.0, 512.0]]), np.array([3.9]))
    for _ in range(10):
        wanted = decider.decide(snapshot)
        refused = snapshot.size.copy()
        refused[:, 0] = wanted[:, 0] + 3
        snapshot = fluid(services, refused, np.array([3.9]))
    assert (decider.knowledge()["visits"] == before).all()


def test_q_learning_finds_the_best_size_of_a_toy() -> None:
    """From nothing, with many tries: pods busy for 50 to 80 % are best, and that is where it stays."""
    services = services_of(8, most=(20, 4, 4096))
    manner = Manner(explore=0.3, together=True)
    decider = QLearning(services, {}, knowledge=QLearning.fresh(0), manner=manner)
    demand = np.full(8, 4.0)
    size = np.tile([8.0, 1.0, 512.0], (8, 1))
    size[:, 0] += np.arange(8) - 3
    size = lived(decider, services, size, demand, steps=500)
    decider.manner = Manner(learn=False, together=True)
    size = lived(decider, services, size, demand, steps=60)
    assert ((size[:, 0] >= 5) & (size[:, 0] <= 8)).all()


def test_late_requests_cost_more_than_idle_pods_save() -> None:
    services = services_of(2)
    snapshot = snapshot_of(services, size=(4, 1.0, 512), cpu=[[2.0], [3.0]], late=[[0.0], [0.02]])
    found = worth(look(snapshot))
    assert found[0] == pytest.approx(1 - 2 / 3)
    assert found[1] == pytest.approx(1 - 4 / 9 - 0.2)


def test_steps_grow_with_the_service() -> None:
    assert pods_in_a_step(np.array([1.0, 3.0, 16.0])).tolist() == [1.0, 1.0, 2.0]


def test_a_bundle_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_bundle(tmp_path / "adrl", load_bundle(BUNDLES / "miras"))
    monkeypatch.setattr(rival, "BUNDLES", tmp_path)
    with pytest.raises(BundleError, match=r"\(miras\), and here adrl is needed"):
        make_policy("adrl").begin(services_of(1))


def test_a_live_controller_needs_no_simulator() -> None:
    code = (
        "import sys; from trimtab.pod_autoscaling.policies import make_policy\n"
        f"for name in {NAMES}: make_policy(name)\n"
        "assert not {'numba', 'jax', 'pydantic'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.pods
@pytest.mark.parametrize("name", NAMES)
def test_practice_makes_a_bundle_to_begin_from(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trimtab.pod_autoscaling.rivals.practice import RIVALS, Practice, practise

    told: list[str] = []
    practice = Practice(services=4, rounds=2, hours=0.05)
    bundle = practise(RIVALS[name], practice, told=told.append)
    assert len(told) == 2
    assert bundle.manifest["trained"]["rounds"] == 2
    save_bundle(tmp_path / name, bundle)
    monkeypatch.setattr(rival, "BUNDLES", tmp_path)
    services = services_of(3)
    assert make_policy(name).begin(services).decide(snapshot_of(services)).shape == (3, 3)
    again = practise(RIVALS[name], practice)
    for key, values in bundle.tensors.items():
        assert (again.tensors[key] == values).all()


@pytest.mark.pods
def test_practice_with_a_name_that_nobody_has() -> None:
    from trimtab.pod_autoscaling.rivals.practice import main

    with pytest.raises(RegistryError, match="no rival 'q-lerning'; there are q-learning, a-sarsa"):
        main(["q-lerning"])
