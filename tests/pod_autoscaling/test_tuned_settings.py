"""Tuned settings of the suite of services come with trimtab."""

from __future__ import annotations

import pytest

from trimtab.benchmark.compare import line_up
from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite
from trimtab.benchmark.tuned import shipped_tuned_values

TUNED = ("hpa", "keda")


@pytest.mark.parametrize("name", TUNED)
def test_every_service_of_the_suite_has_settings_of_its_own(name: str) -> None:
    suite, known = ServicesSuite(), shipped_tuned_values()
    contestants, notes = line_up(suite, ["static", f"{name}:tuned"], known)
    assert [one.label for one in contestants] == ["static", f"{name} (tuned)"] and not notes
    for scenario in suite.scenarios():
        entry = known.find(name, suite, scenario)
        assert entry is not None and entry.suite == "pod/services"
        # With half as many, HPA on `textbook` was twice as dear on unseen seeds as with its usual settings.
        assert entry.training_seeds >= suite.training_seeds
        rule = contestants[1].by_scenario[scenario.name]
        assert {key: rule.values[key] for key in entry.values} == entry.values


@pytest.mark.parametrize("changes", [{"hours": 1.0}, {"mean_cores": 9.0}, {"applications": ("web",)}])
def test_elsewhere_the_usual_settings_play_and_a_note_says_so(changes: dict[str, object]) -> None:
    suite = ServicesSuite.model_validate(changes)
    contestants, (note,) = line_up(suite, ["static", "hpa:tuned"], shipped_tuned_values())
    assert contestants[1].label == "hpa" and "trimtab tune" in note


def test_rules_that_nobody_tuned_are_named() -> None:
    suite = ServicesSuite()
    contestants, (note,) = line_up(suite, suite.policies, shipped_tuned_values())
    asked = {name.removesuffix(":tuned") for name in suite.policies if name.endswith(":tuned")}
    assert asked > {*TUNED}
    assert all(name in note for name in asked - {*TUNED})
    assert {f"{name} (tuned)" for name in TUNED} == {one.label for one in contestants if "tuned" in one.label}
