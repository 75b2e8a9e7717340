"""Every policy has a name, a sentence and settings that are checked; mistakes are answered in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.core.errors import BundleError, RegistryError, SettingsError
from trimtab.core.policy import tunable_parameters
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.policies import (
    POLICIES,
    described,
    find_bundle,
    make_policy,
    parse_policy,
)

RULES = ("autothrottle", "hpa", "hpa-vpa", "keda", "mpc", "multi", "predictive-hpa", "static", "vpa")


def test_todays_autoscalers_are_there() -> None:
    assert {f"pod/{name}" for name in RULES} <= set(POLICIES.names())


@pytest.mark.parametrize("name", RULES)
def test_every_rule_tells_what_it_does(name: str) -> None:
    rule = make_policy(f"pod/{name}")
    assert isinstance(rule, Rule)
    assert rule.name == name
    assert rule.sentence.endswith(".")
    assert described(name).endswith(".")
    for parameter in rule.parameters:
        assert parameter.description
        assert parameter.low <= parameter.value <= parameter.high


@pytest.mark.parametrize("name", RULES)
def test_grids_hold_values_the_rule_accepts(name: str) -> None:
    assert tunable_parameters(make_policy(name))
    for parameter in tunable_parameters(make_policy(name)):
        assert list(parameter.grid) == sorted(set(parameter.grid))
        for value in parameter.grid:
            make_policy(name, {parameter.name: value})


@pytest.mark.parametrize("name", RULES)
def test_every_rule_decides_on_a_size(name: str) -> None:
    services = services_of(3)
    wanted = make_policy(name).begin(services).decide(snapshot_of(services))
    assert wanted.shape == (3, 3)
    assert wanted.dtype == np.float64
    assert ((wanted >= services.least) & (wanted <= services.most)).all()


def test_settings_may_stand_in_the_name() -> None:
    written = make_policy("pod/hpa:cpu=2, target=60")
    given = make_policy("hpa", {"target": 60, "cpu": 2})
    assert written == given
    assert written.name == "hpa:target=60,cpu=2"
    assert parse_policy("vpa") == ("vpa", {})


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("hpb", RegistryError, "no policy 'pod/hpb'; did you mean 'pod/hpa'"),
        ("hpa:tarlet=1", SettingsError, "no setting 'tarlet'; did you mean 'target'?"),
        ("vpa:zzz=1", SettingsError, "its settings: percentile, least_pods"),
        ("hpa:target", SettingsError, "'target' is not setting=number"),
        ("hpa:target=much", SettingsError, "'target=much' is not setting=number"),
        ("hpa:", SettingsError, "is not setting=number"),
        ("mpc:utilisation=nan", SettingsError, "utilisation = nan is not a finite number"),
        ("mpc:utilisation=1.5", SettingsError, "utilisation = 1.5 is out of range; use 0.05 to 1"),
        ("hpa:target=70.5", SettingsError, "target = 70.5 must be a whole number"),
        ("multi:margin=0.5", SettingsError, "margin = 0.5 is out of range; use 1 to 10"),
        ("runs/nothing-here", BundleError, "runs/nothing-here: no such folder"),
    ],
)
def test_mistakes_are_answered_in_one_line(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        make_policy(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_bundle_is_no_policy(tmp_path: Any) -> None:
    with pytest.raises(BundleError, match="holds no trained policy; give a bundle"):
        find_bundle(str(tmp_path))
