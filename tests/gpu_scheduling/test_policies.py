"""Rules by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.gpu_scheduling.snapshots import Scene
from tests.gpu_scheduling.test_placements import scenes

from trimtab.core.errors import RegistryError, SettingsError
from trimtab.core.policy import Policy, tunable_parameters
from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.heuristics import disciplines, orders, placements
from trimtab.gpu_scheduling.heuristics.rule import Rule, Setting, label
from trimtab.gpu_scheduling.policies import (
    DISCIPLINES,
    ORDERS,
    PLACEMENTS,
    POLICIES,
    compose,
    described,
    make_policy,
)
from trimtab.gpu_scheduling.problem import Action, Snapshot, decode
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import Workload, make_workload


@pytest.mark.parametrize("name", POLICIES.names())
def test_every_policy_tells_what_it_does(name: str) -> None:
    policy = make_policy(name)
    assert isinstance(policy, Policy)
    assert policy.name == name.removeprefix("gpu/")
    assert described(name).endswith(".")


@pytest.mark.parametrize("name", POLICIES.names())
@settings(max_examples=15)
@given(scene=scenes())
def test_every_name_decides_legally(name: str, scene: Scene) -> None:
    snapshot = scene.snapshot([(500, 1000, 0.3), (1000, 1000, 0.5), (2000, 0, 0.2)])
    decode(snapshot, make_policy(name).decide(snapshot))


@pytest.mark.parametrize("name", POLICIES.names())
def test_grids_hold_values_the_rule_accepts(name: str) -> None:
    for parameter in tunable_parameters(make_policy(name)):
        assert list(parameter.grid) == sorted(set(parameter.grid))
        assert parameter.value in parameter.grid
        for value in (parameter.grid[0], parameter.grid[-1]):
            make_policy(name, {parameter.name: value})


def test_parts_left_out_are_the_usual_ones() -> None:
    rule = compose("smallest")
    assert (rule.placement, rule.discipline) == (placements.best_fit, disciplines.backfill)
    assert compose("srtf").discipline is disciplines.preemptive
    assert compose("srtf+strict").discipline is disciplines.strict
    assert compose("smallest+easy").placement is placements.best_fit
    assert compose("random+random").order is orders.random_order
    assert compose("random+random").placement is placements.random_place
    assert label(compose("fifo+fast+strict")) == "fifo_fast_strict_in_order"


def test_what_a_rule_needs_to_be_told_and_when_to_be_asked() -> None:
    assert compose("sjf").needs_durations and compose("fifo+easy").needs_durations
    assert not compose("las").needs_durations
    # Backfill holds when nothing fits, which time does not change; who is first may change with time.
    assert not compose("aged-smallest").timed and not compose("smallest+strict").timed
    assert compose("aged-smallest+strict").timed and compose("las").timed


def test_settings_reach_the_row_of_their_part() -> None:
    rule = make_policy("tiresias+fast+preemptive:threshold=3600,trust=0.5,margin=2")
    assert isinstance(rule, Rule)
    expected = np.zeros((3, 8))
    expected[0, :2] = 3600, 0
    expected[1, :3] = 1, 0, 0.5
    expected[2, :4] = 2, 300, 0, 300
    np.testing.assert_array_equal(rule.table, expected)
    assert rule.name == "tiresias+fast+preemptive:threshold=3600,trust=0.5,margin=2"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fifoo", "no order 'fifoo'; did you mean 'fifo'\\? orders: fifo, smallest"),
        ("best-fit", "no order 'best-fit'; orders: fifo"),
        ("fifo+besst-fit", "no placement or discipline 'besst-fit'; did you mean 'best-fit'\\?"),
        ("fifo+sjf", "'sjf' is an order; write order"),
        ("fifo+easy+strict", "'strict' is a second discipline"),
        ("fifo+fast+fgd", "'fgd' is a second placement"),
        ("fifo+", "no placement or discipline ''"),
    ],
)
def test_unknown_parts_are_refused_in_one_line(name: str, told: str) -> None:
    assert POLICIES.prefix + name not in POLICIES
    with pytest.raises(RegistryError, match=told) as refused:
        make_policy(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fifo:power=1", "has no setting 'power'"),
        ("aged-smallest:power=-1", "out of range"),
        ("fifo+conservative:depth=1.5", "must be a whole number"),
        ("fifo+conservative:depth", "is not setting=number"),
    ],
)
def test_bad_settings_are_refused(name: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        make_policy(name)


def test_too_many_settings_are_refused() -> None:
    many = tuple(Setting(f"s{number}", 0.0, "") for number in range(9))
    rule = Rule("many", orders.fifo, placements.first_fit, disciplines.strict, many)
    with pytest.raises(SettingsError, match="more than 8 settings"):
        _ = rule.table


# --- compiled --------------------------------------------------------------------------------------------


class AskedInPython:
    """A rule that the simulator must ask."""

    def __init__(self, rule: Rule) -> None:
        self.name, self.rule = rule.name, rule

    def decide(self, snapshot: Snapshot) -> Action:
        return self.rule.decide(snapshot)


def busy_week() -> Workload:
    """Jobs of all kinds, more than the cluster below holds at once."""
    random = np.random.default_rng(3)
    count = 60
    share = random.random(count) < 0.3
    return make_workload(
        np.sort(random.integers(0, 3_000_000, count)),
        duration_ms=random.integers(60_000, 2_000_000, count),
        instances=np.where(share, 1, random.integers(1, 5, count)),
        gpu_milli=np.where(share, 250, random.choice([1000, 2000], count)),
        cpu_milli=random.choice([0, 2000], count),
        user=random.integers(0, 4, count),
        communication=random.choice([0.0, 0.2], count),
    )


EVERY_PART_BESIDE_SIMPLE_ONES = dict.fromkeys(
    [
        *(f"{order}+first-fit+backfill" for order in ORDERS),
        *(f"fifo+{placed}+backfill" for placed in PLACEMENTS),
        *(f"smallest+first-fit+{kept}" for kept in DISCIPLINES),
    ]
)
"""A part is compiled for itself, so what it is combined with makes the test longer and not stronger."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EVERY_PART_BESIDE_SIMPLE_ONES, "fifo+first-fit+strict", "srtf+fast"])
def test_compiled_and_plain_decide_alike(name: str) -> None:
    cluster = Cluster(
        machines=(MachineGroup(count=3, gpus=4, cpus=16), MachineGroup(count=1, gpus=4, rack=1, speed=0.7)),
        information="oracle",
    )
    rule = compose(name)
    compiled = simulate(busy_week(), rule, cluster, seed=1)
    plain = simulate(busy_week(), AskedInPython(rule), cluster, seed=1)
    np.testing.assert_array_equal(compiled.completion_ms, plain.completion_ms)
    np.testing.assert_array_equal(compiled.preemptions, plain.preemptions)
