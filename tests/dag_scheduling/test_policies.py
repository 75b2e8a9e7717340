import math

import numpy as np
import pytest
from tests.dag_scheduling.one_class import POLICIES_FOR_ONE_CLASS

from trimtab.core.errors import RegistryError, SettingsError
from trimtab.core.policy import Policy, tunable_parameters
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import (
    POLICIES,
    described,
    make_policy,
    parse_policy,
)
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload import JobRecord, Provenance, StageRecord, Workload, build_profile
from trimtab.dag_scheduling.workload.tiny import tiny_workload


@pytest.mark.parametrize("name", POLICIES.names())
def test_every_policy_tells_what_it_does(name: str) -> None:
    policy = make_policy(name)
    assert isinstance(policy, Policy)
    assert policy.name == name.removeprefix("dag/")
    assert described(name).endswith(".")


@pytest.mark.parametrize("name", POLICIES_FOR_ONE_CLASS)
def test_every_policy_plays(name: str) -> None:
    policy = make_policy(name)
    episode = simulate(tiny_workload("two-jobs"), policy, Cluster(executors=3))
    assert episode.policy == policy.name
    assert (episode.completion_ms > 0).all()


@pytest.mark.parametrize("name", POLICIES.names())
def test_grids_hold_values_the_rule_accepts(name: str) -> None:
    for parameter in tunable_parameters(make_policy(name)):
        assert list(parameter.grid) == sorted(set(parameter.grid))
        for value in (parameter.grid[0], parameter.grid[-1]):
            make_policy(name, {parameter.name: value})


def test_the_published_sweep_of_alpha() -> None:
    (alpha,) = tunable_parameters(make_policy("weighted-fair"))
    assert (alpha.value, alpha.grid[0], alpha.grid[-1], len(alpha.grid)) == (-1.0, -2.0, 2.0, 41)


def test_usual_settings_are_the_published_ones() -> None:
    expected = {
        "naive-weighted-fair": {"alpha": 1.0},
        "capped-srpt": {"kappa": 0.15, "power": 0.67, "stay": 1.0},
        "capped-srpt-local": {"kappa": 0.15, "power": 0.67, "stay": 2.0},
    }
    for name, values in expected.items():
        rule = make_policy(name)
        assert isinstance(rule, Rule)
        assert {p.name: p.value for p in rule.parameters} == values


def test_packing_keeps_large_executors_for_those_that_need_them() -> None:
    """One large executor, two jobs of one task: the one with more work is the only one that needs it all.

    Least work first gives the large executor to the other job, unless idle memory counts.
    """

    def job(task_ms: int, memory: float) -> JobRecord:
        always = {1: [task_ms]}
        return JobRecord(
            f"{task_ms} ms",
            [StageRecord(1, fresh=always, first_wave=always, later_wave=always, memory=memory)],
        )

    profile = build_profile([job(1000, 0.2), job(1500, 1.0)])
    workload = Workload(profile, np.arange(2), np.zeros(2, np.int64), Provenance("two jobs"))
    cluster = Cluster(executors=1, classes=(ExecutorClass(count=1, memory=1.0),))
    first = {
        waste: int(simulate(workload, make_policy("packed-srpt", {"waste": waste}), cluster).jct_ms.argmin())
        for waste in (0.0, 4.0)
    }
    assert first == {0.0: 0, 4.0: 1}


def test_settings_may_stand_in_the_name() -> None:
    written = make_policy("dag/capped-srpt:kappa=0.3, power=0.5")
    given = make_policy("capped-srpt", {"power": 0.5, "kappa": 0.3})
    assert written == given
    assert written.name == "capped-srpt:kappa=0.3,power=0.5"
    assert parse_policy("fair") == ("fair", {})


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("fiar", RegistryError, "no policy 'dag/fiar'; did you mean 'dag/fair'"),
        ("weighted-fair:alfa=1", SettingsError, "no setting 'alfa'; did you mean 'alpha'?"),
        ("graphene:zzz=1", SettingsError, "its settings: alpha, large_part, much_memory"),
        ("fair:alpha=1", SettingsError, "policy 'fair' has no setting 'alpha'; it has none"),
        ("weighted-fair:alpha", SettingsError, "'alpha' is not setting=number"),
        ("weighted-fair:alpha=much", SettingsError, "'alpha=much' is not setting=number"),
        ("weighted-fair:", SettingsError, "is not setting=number"),
        ("weighted-fair:alpha=nan", SettingsError, "alpha = nan is not a finite number"),
        ("weighted-fair:alpha=50", SettingsError, "alpha = 50 is out of range; use -10 to 10"),
        ("capped-srpt:kappa=-1", SettingsError, "kappa = -1 is out of range; use 0 to 1000"),
    ],
)
def test_mistakes_are_answered_in_one_line(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        make_policy(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_that_is_no_number_is_refused_in_values_too() -> None:
    with pytest.raises(SettingsError, match="not a finite number"):
        make_policy("weighted-fair", {"alpha": math.inf})
