"""Every policy has a name, a sentence and settings that are checked; mistakes are answered in one line."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.core.errors import BundleError, RegistryError, SettingsError
from trimtab.core.policy import tunable_parameters
from trimtab.stream_autoscaling.heuristics.rule import Rule
from trimtab.stream_autoscaling.policies import (
    POLICIES,
    described,
    find_bundle,
    make_policy,
    parse_policy,
)

RULES = ("aws", "banded", "dhalion", "ds2", "flink", "hpa", "keda-lag", "reactive", "static")


def test_todays_autoscalers_are_there() -> None:
    assert {f"stream/{name}" for name in RULES} <= set(POLICIES.names())


@pytest.mark.parametrize("name", RULES)
def test_every_rule_tells_what_it_does(name: str) -> None:
    rule = make_policy(f"stream/{name}")
    assert isinstance(rule, Rule)
    assert rule.name == name
    assert described(name).endswith(".")
    for parameter in rule.parameters:
        assert parameter.description
        assert parameter.low <= parameter.value <= parameter.high


@pytest.mark.parametrize("name", RULES)
def test_grids_hold_values_the_rule_accepts(name: str) -> None:
    for parameter in tunable_parameters(make_policy(name)):
        assert list(parameter.grid) == sorted(set(parameter.grid))
        for value in parameter.grid:
            make_policy(name, {parameter.name: value})


@pytest.mark.parametrize("name", [rule for rule in RULES if rule != "reactive"])
def test_every_rule_with_settings_can_be_tuned(name: str) -> None:
    assert tunable_parameters(make_policy(name))


def test_settings_may_stand_in_the_name() -> None:
    written = make_policy("stream/ds2:tolerance=0.2, target=0.6")
    given = make_policy("ds2", {"target": 0.6, "tolerance": 0.2})
    assert written == given
    assert written.name == "ds2:target=0.6,tolerance=0.2"
    assert parse_policy("aws") == ("aws", {})


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("ds3", RegistryError, "no policy 'stream/ds3'; did you mean 'stream/ds2'"),
        ("ds2:tarlet=1", SettingsError, "no setting 'tarlet'; did you mean 'target'?"),
        ("hpa:zzz=1", SettingsError, "its settings: target, tolerance, down_wait_s, window_s"),
        ("reactive:target=1", SettingsError, "policy 'reactive' has no setting 'target'; it has none"),
        ("ds2:target", SettingsError, "'target' is not setting=number"),
        ("ds2:target=much", SettingsError, "'target=much' is not setting=number"),
        ("ds2:", SettingsError, "is not setting=number"),
        ("ds2:tuned", SettingsError, "tuned settings are known to `trimtab compare`"),
        ("", SettingsError, "policy '' has no name; `trimtab policies` lists them"),
        (":target=1", SettingsError, "policy ':target=1' has no name"),
        ("ds2:target=nan", SettingsError, "target = nan is not a finite number"),
        ("ds2:target=1.5", SettingsError, "target = 1.5 is out of range; use 0.05 to 1"),
        ("static:parallelism=2.5", SettingsError, "parallelism = 2.5 must be a whole number"),
        ("flink:alignment=7", SettingsError, "alignment = 7 is out of range; use 0 to 4"),
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
